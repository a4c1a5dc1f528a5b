r"""The scales of X = Z A + E, and X given them. They are sampled with A integrated out, or given A.

A integrated out: slice or Metropolis steps on P(X | Z, σ_x, σ_a), O(K) an evaluation through the
eigenvalues of ZᵀZ. Given A: σ² with an inverse-gamma prior is conjugate,

    σ² | s, n ~ InverseGamma(shape + n/2, scale + s/2),  s the sum of n squares.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from thali.data.matrix import Data, Table, blocks
from thali.data.sparse import main_length, squared_residual
from thali.hyperparameters import (
    Hyperprior,
    InverseGamma,
    Values,
    as_number,
    check_hyperparameter,
    draw_scale,
    metropolis_step,
    slice_step,
)
from thali.likelihoods.base import Parameters, Scale, Scaled
from thali.likelihoods.entries import NormalEntries
from thali.likelihoods.tempered import AtTemperature, Cooling, Densities
from thali.settings import Settings

METROPOLIS_WIDTH = 0.05  # the step of Anand (2015)
FINEST = 1e-6  # a noise below this share of the data's scale is lost in double precision
LARGEST = 1e150  # a scale whose square is finite
LEAST = 1e-4  # of the data's scale and of σ_a: priors of σ_x end there, for the digits' sake


class GaussianScales(Settings, Scaled):
    """What likelihoods X = Z A + E share: their two scales, checked, fixed and found from data, and
    X given its mean Z A."""

    def __post_init__(self) -> None:
        for name in ("sigma_x", "sigma_a"):
            value = getattr(self, name)
            if not isinstance(value, str) or value != "auto":
                check_hyperparameter(type(self).__name__, name, value)

    def at(self, **numbers: float) -> Self:
        return self.replace(**numbers)

    def resolve(self, data: Data) -> Self:
        return self.replace(**resolve_scales(self, data))

    def start(self, data: Data) -> dict[str, float]:
        """The fixed numbers, and guesses from the data's scale for the others."""
        scale = float(np.sqrt(data.mean_square)) or 1.0
        numbers = {}
        for name, guess in (("sigma_x", 0.5 * scale), ("sigma_a", scale)):
            sigma = getattr(self, name)
            numbers[name] = guess if isinstance(sigma, Hyperprior | str) else float(sigma)
        return numbers

    def tempered(self, data: Data, hyper: Values, beta: float) -> AtTemperature:
        """σ_x/√β for σ_x: N(x; μ, σ_x²)^β, of every entry that was observed."""
        entries, variance = data.n * data.d - data.missing, 2.0 * np.pi * hyper["sigma_x"] ** 2
        factor = 0.5 * entries * ((1.0 - beta) * np.log(variance) - np.log(beta))
        warm = {**hyper, "sigma_x": hyper["sigma_x"] / np.sqrt(beta)}
        return AtTemperature(warm, float(factor))

    def cooling(self, data: Data, hyper: Values) -> Cooling:
        """σ_x(share) = hot (σ_x/hot)^share, hot the scale at which the data melt."""
        cold = hyper["sigma_x"]
        hot = max(melting_scale(self.guess(data)), cold)
        return lambda share: {**hyper, "sigma_x": hot * (cold / hot) ** share}

    # X given its mean

    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        mean = np.asarray(Z, float) @ np.asarray(A, float)
        return mean + self._sigma_x * rng.standard_normal(mean.shape)

    def log_likelihood(self, X: Table, Z: ArrayLike, A: ArrayLike) -> float:
        return log_noise(Data.of(X), Z, A, self._sigma_x)

    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> NormalEntries:
        """x_nd ~ N(z_n a_d, σ_x²)."""
        mean = (np.asarray(Z, float) @ parameters["A"])[where]
        return NormalEntries(mean, np.full(mean.shape, self._sigma_x))

    @property
    def _sigma_x(self) -> float:
        sigma = as_number(type(self).__name__, "sigma_x", self.sigma_x)
        refuse_large_scale(type(self).__name__, "sigma_x", sigma)
        return sigma

    @property
    def _sigma_a(self) -> float:
        return as_number(type(self).__name__, "sigma_a", self.sigma_a)


def melting_scale(data: Data) -> float:
    """The root mean square of the data along their main direction.

    >>> import numpy as np
    >>> round(melting_scale(Data(np.array([[3.0, 4.0], [3.0, 4.0]]))), 6)
    5.0
    """
    if data.sparse:
        return main_length(data.X) / float(np.sqrt(data.n))
    X = data.reduced
    gram = X.T @ X if X.shape[1] <= X.shape[0] else X @ X.T
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0) / data.n))


def resolve_scales(likelihood: Scaled, data: Data) -> dict[str, Scale]:
    """The scales with a prior for "auto": σ_x² ~ InverseGamma(1, v/100), σ_a² ~ InverseGamma(2, v),
    v the mean square of the data; numbers too fine for the data are refused."""
    owner = type(likelihood).__name__
    sigma_x, sigma_a = likelihood.sigma_x, likelihood.sigma_a
    v = data.mean_square or 1.0  # data of zeros have no scale of their own
    for name, sigma in (("sigma_x", sigma_x), ("sigma_a", sigma_a)):
        if not isinstance(sigma, Hyperprior | str):
            refuse_large_scale(owner, name, sigma)
            if sigma < 1.0 / LARGEST:
                raise ValueError(
                    f"{owner}: {name}={sigma:.3g} is so small that its square vanishes; use one of "
                    "the data's own scale."
                )
        if not isinstance(sigma, Hyperprior | str) and sigma < FINEST * np.sqrt(data.mean_square):
            raise ValueError(
                f"{owner}: {name}={sigma} is less than a millionth of the data's scale "
                f"({np.sqrt(v):.3g}), too fine for double precision; use a larger one."
            )
    fixed = [s for s in (sigma_x, sigma_a) if not isinstance(s, Hyperprior | str)]
    if len(fixed) == 2 and fixed[0] < FINEST * fixed[1]:
        raise ValueError(
            f"{owner}: sigma_x={sigma_x} is less than a millionth of "
            f"sigma_a={sigma_a}, too fine for double precision; use closer ones."
        )
    return {
        "sigma_x": InverseGamma(1.0, 0.01 * v) if sigma_x == "auto" else sigma_x,
        "sigma_a": InverseGamma(2.0, v) if sigma_a == "auto" else sigma_a,
    }


def refuse_large_scale(owner: str, name: str, sigma: float) -> None:
    """Refuse a scale whose square overflows."""
    if sigma > LARGEST:
        raise ValueError(
            f"{owner}: {name}={sigma:.3g} is so large that its square overflows; use one of the "
            "data's own scale."
        )


def scales_without_features(
    rng: np.random.Generator,
    likelihood: Scaled,
    C: np.ndarray,
    T: np.ndarray,
    squares: float,
    n: int,
    d: int,
    hyper: Values,
    step: str = "slice",
    hold: bool = False,
    scale: float | None = None,
) -> float:
    """Update σ_x, σ_a in ``hyper`` from C = ZᵀZ, T = ZᵀX; return log P(X | Z) at the new ones.

    ``scale`` is the root mean square of what was observed, where X has drawn entries besides.
    """
    from thali.kernels.evidence import log_evidence, spectrum

    eigenvalues, lengths = spectrum(C, T)

    def evidence(sigma_x: float, sigma_a: float) -> float:
        return log_evidence(eigenvalues, lengths, squares, n, float(d), sigma_x, sigma_a)

    scale = float(np.sqrt(squares / (n * d))) if scale is None else scale
    inferred = isinstance(likelihood.sigma_x, Hyperprior)
    if inferred and not hold:
        least = (1.0 + 1e-9) * LEAST * max(scale, hyper["sigma_a"])
        hyper["sigma_x"] = max(hyper["sigma_x"], least)

    # the standard deviations of log σ when K stays: 1/√(2ND) and 1/√(2KD)
    for name, size in (("sigma_x", n), ("sigma_a", len(C) + 1)):
        prior = getattr(likelihood, name)
        if not isinstance(prior, Hyperprior) or hold:
            continue

        def target(value: float, name: str = name, prior: Hyperprior = prior) -> float:
            sigma_x = value if name == "sigma_x" else hyper["sigma_x"]
            sigma_a = value if name == "sigma_a" else hyper["sigma_a"]
            if inferred and sigma_x < LEAST * max(scale, sigma_a):
                return -np.inf
            return prior.log_density(value) + evidence(sigma_x, sigma_a)

        if step == "slice":
            width = min(1.0, 3.0 / np.sqrt(2.0 * size * d))
            hyper[name] = slice_step(rng, hyper[name], target, width)
        else:
            hyper[name] = metropolis_step(rng, hyper[name], target, METROPOLIS_WIDTH)
    return evidence(hyper["sigma_x"], hyper["sigma_a"])


def log_evidences(data: Data, W: np.ndarray) -> Densities:
    """log P(X | W) of complete data with A integrated out, by the scales: O(K) each."""
    from thali.kernels.evidence import log_evidence, spectrum

    real = W.astype(float)
    d, t = spectrum(real.T @ real, real.T @ data.X)
    whole = data.total_square, data.n, float(data.d)
    return lambda hyper: float(log_evidence(d, t, *whole, hyper["sigma_x"], hyper["sigma_a"]))


def scale_given_squares(
    rng: np.random.Generator, prior: Scale, value: float, squares: float, n: int
) -> float:
    """A scale σ given n draws of N(0, σ²) whose squares sum to ``squares``; a number stays."""
    if not isinstance(prior, Hyperprior):
        return value
    if isinstance(prior, InverseGamma):
        return draw_scale(rng, prior.shape + 0.5 * n, prior.scale + 0.5 * squares)

    def target(sigma: float) -> float:
        return prior.log_density(sigma) - n * np.log(sigma) - 0.5 * squares / sigma**2

    return slice_step(rng, value, target, min(1.0, 3.0 / np.sqrt(2.0 * n + 1.0)))


def scale_given_sum(
    rng: np.random.Generator, prior: Scale, value: float, total: float, n: int
) -> float:
    """A scale σ given n draws of Exponential(rate c/σ) whose sum is ``total``/c; a number stays."""
    if not isinstance(prior, Hyperprior):
        return value

    def target(sigma: float) -> float:
        return prior.log_density(sigma) - n * np.log(sigma) - total / sigma

    return slice_step(rng, value, target, min(1.0, 3.0 / np.sqrt(n + 1.0)))


def log_noise(data: Data, W: ArrayLike, A: ArrayLike, sigma: float) -> float:
    """Σ log N(x; wa, σ²) over the observed entries, or all of a sparse X: no second X is made."""
    W, A = np.asarray(W), np.asarray(A, float)
    if data.sparse:
        squares, count = squared_residual(data.X, W, A), data.n * data.d
        return float(-0.5 * count * np.log(2.0 * np.pi * sigma**2) - 0.5 * squares / sigma**2)
    total = 0.0
    for block in blocks(data.X):
        left = data.X[block] - W[block].astype(float) @ A
        seen = left.ravel() if data.observed is None else left[data.observed[block]]
        total += log_normal(seen, sigma)
    return total


def log_normal(values: np.ndarray, sigma: float) -> float:
    """Σ log N(v; 0, σ²)."""
    return float(
        -0.5 * values.size * np.log(2.0 * np.pi * sigma**2)
        - 0.5 * np.square(values).sum() / sigma**2
    )
