r"""A start for sparse factors: independent components, taken where they stand out of the noise.

The columns of Z ⊙ S are independent and have heavy tails, so FastICA finds them up to size. With
its mixing A, the amounts of a row are y = x A⁺, each with noise of σ_x times the length of A⁺'s
column; an entry is on where |y| is more than ``STANDS_OUT`` of that. The rank is the larger of the
singular values' threshold (``ica``) and Minka's (2000) choice for a linear-Gaussian model.
"""

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts import ica
from thali.starts.base import Start, start
from thali.starts.sources import independent_sources, tanh

STANDS_OUT = 2.5


@start("sparse_ica")
def sparse_ica_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z, S and A by independent component analysis, scales from its residual."""
    hyper = ica.noise_scale(model, data, model.start(data))
    rank = min(max(ica.signal_rank(data), likely_rank(data)), ica.largest_rank(model, data))
    if rank == 0 or data.n < 4:
        return Start("sparse_ica", np.zeros((data.n, 0), bool), hyper)
    centered = data.X - data.X.mean(axis=0)
    U, s = ica.leading_vectors(rng, centered, rank)
    sources = independent_sources(rng, U * s, tanh)
    if sources is None:
        sources = U * s
    A = np.linalg.lstsq(sources, centered, rcond=None)[0]
    back = np.linalg.pinv(A)
    S = data.X @ back  # the model has no intercept, so neither has its start
    left = np.square(data.X - S @ A).sum() / (data.n * max(data.d - rank, 1))
    sigma_x = float(np.sqrt(max(left, ica.LEAST_NOISE**2 * data.mean_square)))
    Z = np.abs(S) > STANDS_OUT * sigma_x * np.linalg.norm(back, axis=0)
    S = np.where(Z, S, 0.0)
    size = np.abs(S).sum(axis=0) / np.maximum(Z.sum(axis=0), 1)  # of the slab: about one
    used = size > 0.0
    Z, S, A = Z[:, used], S[:, used] / size[used], A[used] * size[used, None]
    if not used.any():
        return Start("sparse_ica", Z, hyper)
    found = {"sigma_x": sigma_x, "sigma_a": float(np.sqrt(np.mean(np.square(A))))}
    return Start(
        "sparse_ica", Z, ica.with_inferred(model, hyper, found), parameters={"A": A, "S": S}
    )


def likely_rank(data: Data) -> int:
    """The rank of the signal by Minka's evidence; 0 where it has none (fewer rows than columns)."""
    from sklearn.decomposition import PCA

    if data.n < data.d or data.d < 2 or data.mean_square == 0.0:
        return 0
    with np.errstate(all="ignore"):
        try:
            return int(PCA("mle", svd_solver="full").fit(data.X).n_components_)
        except (ValueError, np.linalg.LinAlgError):  # degenerate spectra have no evidence
            return 0
