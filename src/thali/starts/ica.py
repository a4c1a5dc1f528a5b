r"""A start that lands near the truth: independent component analysis of the column space.

The columns of Z are independent and far from Gaussian, and they span the signal's column space.
So: the rank by the optimal hard threshold for singular values (Gavish and Donoho 2014, noise
unknown); FastICA on the scores, each source split in two (``sources``); each column turned the way
that needs no intercept; then least squares for A and single flips of bits, in turn, until nothing
changes; columns that the log joint rejects are dropped.
"""

from typing import cast

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.sparse import csr_array

from thali.data import Data, sparse
from thali.data.matrix import BY_GRAM
from thali.hyperparameters import Value
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.starts.base import Start, start
from thali.starts.sources import two_valued_sources
from thali.stopping import check_stop, stopped
from thali.structures.features import FEATURES, counts_from_gram, with_row_sums

LARGEST_RANK = 100
RANK = 1e-12  # of the largest eigenvalue of ZᵀZ: less is none
ROUNDS = 50  # of least squares and flips; a handful suffices
ROUNDING = 1e-6  # of the largest singular value: less is lost when the Gram matrix squares it
LEAST_NOISE = 0.02  # of the mean square: with less, an empty start buys a feature for every row


@start("ica", entries=2)
def ica_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z by independent component analysis, scales from its residual."""
    hyper = noise_scale(model, data, model.start(data))
    rank = min(signal_rank(data), largest_rank(model, data))
    Z = np.zeros((data.n, 0), bool)
    if rank and data.n >= 4:
        scores = leading_scores(rng, data, rank)
        check_stop()
        Z = orient(two_valued_sources(rng, scores), data.reduced)
        Z = drop_rejected(model, data, alternate(Z, data.reduced), hyper)
    return Start("ica", Z, fitted_scales(model, data, Z, hyper))


def largest_rank(model: Model, data: Data) -> int:
    """As many features as the prior allows and as the data could tell apart."""
    most = model.at(model.start(data)).prior.most_components(data.n)
    return min(LARGEST_RANK, data.n // 4, most if most >= 0 else LARGEST_RANK)


def leading_scores(rng: np.random.Generator, data: Data, rank: int) -> np.ndarray:
    """The rows' scores on the main directions of the centered data, (N, rank)."""
    if data.sparse:
        return sparse.leading_scores(rng, data.X, rank)
    n, d = data.reduced.shape
    if d <= BY_GRAM and n > 4 * d:  # as there, from what the singular values came from
        directions = np.linalg.eigh(data.centered_gram)[1][:, ::-1][:, :rank]
        return np.asarray(data.reduced @ directions - data.reduced.mean(axis=0) @ directions)
    U, s = leading_vectors(rng, data.reduced - data.reduced.mean(axis=0), rank)
    return np.asarray(U * s)


def leading_vectors(
    rng: np.random.Generator, X: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """The leading left singular vectors and values of X."""
    from sklearn.utils.extmath import randomized_svd

    if min(X.shape) <= BY_GRAM and max(X.shape) <= 4 * min(X.shape):
        U, s, _ = np.linalg.svd(X, full_matrices=False)
        return U[:, :rank], s[:rank]
    if X.shape[1] <= BY_GRAM and len(X) > X.shape[1]:  # small values lose digits, no more
        squares, V = np.linalg.eigh(X.T @ X)
        s = np.sqrt(np.maximum(squares[::-1][:rank], np.finfo(float).tiny))
        return X @ V[:, ::-1][:, :rank] / s, s
    seed = int(rng.integers(2**31))
    U, s, _ = randomized_svd(X, rank, n_iter=4, random_state=seed)
    return U, s


def signal_rank(data: Data) -> int:
    """Singular values of the centered data above 2.858 medians (for a square matrix), and so on.

    ω(β) ≈ 0.56β³ − 0.95β² + 1.82β + 1.43, β the aspect ratio: Gavish and Donoho, eq. 4.
    """
    s = data.singular_values
    if len(s) < 3 or s[0] == 0.0:
        return len(s) if len(s) and s[0] > 0.0 else 0
    beta = min(data.reduced.shape) / max(data.n, data.d)
    omega = ((0.56 * beta - 0.95) * beta + 1.82) * beta + 1.43
    return int((s > max(omega * np.median(s), ROUNDING * s[0])).sum())


def noise_scale(model: Model, data: Data, hyper: dict[str, Value]) -> dict[str, Value]:
    """σ_x from the median singular value, which features hardly touch, and σ_a from the rest."""
    s = data.singular_values
    total = data.mean_square
    if total == 0.0 or "sigma_x" not in model.labels["likelihood"]:
        return hyper
    share = 0.25
    if len(s) >= 4:
        beta = min(data.n, data.d) / max(data.n, data.d)
        variance = np.median(s) ** 2 / (max(data.n, data.d) * marchenko_pastur_median(beta))
        share = float(np.clip(variance / total, LEAST_NOISE, 1.0))
    numbers = {
        "sigma_x": float(np.sqrt(share * total)),
        "sigma_a": float(np.sqrt(max(1.0 - share, 0.1) * total)),
    }
    return with_inferred(model, hyper, numbers)


def fitted_scales(
    model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Value]
) -> dict[str, Value]:
    """σ_x from the residual of least squares on Z, σ_a from the size of its features.

    Of another structure's values nothing is known but the data.
    """
    k = int(Z.any(axis=0).sum()) if model.structure == FEATURES else 0
    scaled = "sigma_x" in model.labels["likelihood"] and data.mean_square > 0.0
    if not scaled or not 0 < k < data.n:
        return noise_scale(model, data, hyper)
    X, bits = data.X if data.far else data.reduced, Z.astype(float)
    T = products(Z, X)
    A = np.linalg.lstsq(bits.T @ bits, T, rcond=None)[0]  # of ZᵀZ, so that X is not copied
    explained = float((A * T).sum())
    squares = data.total_square if data.far else float(data.squares.sum())
    left = (squares - explained) / ((data.n - k) * data.d)
    numbers = {
        "sigma_x": float(np.sqrt(max(left, 1e-4 * data.mean_square))),
        "sigma_a": float(np.sqrt(np.square(A).sum() / (k * data.d))),
    }
    return with_inferred(model, hyper, numbers)


def with_inferred(
    model: Model, hyper: dict[str, Value], numbers: dict[str, float]
) -> dict[str, Value]:
    """A table with these numbers of the likelihood in it; fixed ones are not to be moved."""
    labels = model.labels["likelihood"]
    own = {labels[name]: value for name, value in numbers.items() if name in labels}
    return {**hyper, **{k: v for k, v in own.items() if k in model.hyperpriors}}


def marchenko_pastur_median(beta: float) -> float:
    """The Marchenko–Pastur distribution's median, aspect ratio β ≤ 1 (squared values / n)."""
    low, high = (1.0 - np.sqrt(beta)) ** 2, (1.0 + np.sqrt(beta)) ** 2

    def below(x: float) -> float:
        # x = center − half·cos θ turns the square-root ends into something smooth
        half, center = 0.5 * (high - low), 0.5 * (high + low)
        top = np.arccos(np.clip((center - x) / half, -1.0, 1.0))

        def density(u: float) -> float:
            x = max(center - half * np.cos(u), 1e-300)
            return float((half * np.sin(u)) ** 2 / (2.0 * np.pi * beta * x))

        return float(quad(density, 0.0, top)[0])

    return float(brentq(lambda x: below(x) - 0.5, low, high))


def least_squares(Z: np.ndarray, X: np.ndarray | csr_array) -> np.ndarray:
    """The A that minimizes ‖X − ZA‖², X dense or sparse: from ZᵀZ and ZᵀX, counts and sums."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.linalg.lstsq(sparse.gram(Z), products(Z, X), rcond=RANK)[0])
    return sparse.least_squares(Z, X)


def products(Z: np.ndarray, X: np.ndarray | csr_array) -> np.ndarray:
    """ZᵀX."""
    return np.asarray(Z.astype(float).T @ X) if isinstance(X, np.ndarray) else sparse.cross(Z, X)


def orient(Z: np.ndarray, X: np.ndarray | csr_array) -> np.ndarray:
    """Flip columns so that no intercept is left: b ≈ −Σ f_k a_k, flip where f_k rounds to 1."""
    design = np.column_stack([np.ones(len(Z), bool), Z])
    coefficients = least_squares(design, X)
    b, A = coefficients[0], coefficients[1:]
    f = np.linalg.lstsq(A.T, -b, rcond=None)[0]
    return np.asarray(Z ^ (f > 0.5))


def alternate(Z: np.ndarray, X: np.ndarray | csr_array) -> np.ndarray:
    """Least squares for A, then the best single flips of each row, until nothing changes."""
    from thali.kernels.row_fits import flip_rows

    bits = np.ascontiguousarray(Z, dtype=np.uint8)
    for _ in range(ROUNDS):
        bits = np.ascontiguousarray(bits[:, bits.any(axis=0)])
        if bits.shape[1] == 0 or stopped():
            break
        A = least_squares(bits, X)
        if flip_rows(bits, X @ A.T, A @ A.T, np.zeros(len(A))) == 0:
            break
    return bits.astype(bool)


def drop_rejected(model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Value]) -> np.ndarray:
    """Drop, one at a time, the column whose loss raises the log joint the most.

    With M = (ZᵀZ + rI)⁻¹ and T = ZᵀX, the loss of column k adds log M_kk to log|ZᵀZ + rI| and takes
    (M TTᵀ M)_kk / M_kk from what is explained, so that no candidate costs more than its prior.
    """
    numbers = fitted_scales(model, data, Z, hyper)
    own = model.likelihood_values(numbers)
    prior = cast(PredictsRow, model.prior_at(numbers))
    tables = prior.tables(data.n)
    r = (own["sigma_x"] / own["sigma_a"]) ** 2
    C, T = sparse.gram(Z), products(Z, data.reduced)
    P = T @ T.T

    def log_prior(keep: np.ndarray) -> float:
        counts = counts_from_gram(data.n, C[np.ix_(keep, keep)])
        return prior.log_prob_counts(with_row_sums(counts, tables, Z[:, keep]))

    keep = np.arange(Z.shape[1])
    while len(keep) and not stopped():
        M = np.linalg.inv(C[np.ix_(keep, keep)] + r * np.eye(len(keep)))
        own_variance = np.diagonal(M)
        lost = np.einsum("ik,kl,li->i", M, P[np.ix_(keep, keep)], M, optimize=True) / own_variance
        gains = -data.d * (0.5 * np.log(own_variance) + 0.5 * np.log(r))
        gains -= 0.5 * lost / own["sigma_x"] ** 2
        before = log_prior(keep)
        gains += [log_prior(np.delete(keep, k)) - before for k in range(len(keep))]
        if gains.max() <= 0.0:
            break
        keep = np.delete(keep, int(np.argmax(gains)))
    return Z[:, keep]
