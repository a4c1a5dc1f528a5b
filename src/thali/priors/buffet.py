r"""What feature priors share: Z drawn row by row, unused frequencies, and updates of the mass.

The frequencies of IBP(α, β) are the points of a Poisson process of intensity αβ π⁻¹(1−π)^{β−1}
(Thibaux and Jordan 2007). Those that none of n rows has are an independent Poisson process, its
intensity thinned by (1−π)^n; only finitely many lie above any s > 0 (Teh, Görür and Ghahramani
2007 break them as sticks instead, for β = 1).
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import (
    SMALLEST,
    Gamma,
    Hyperprior,
    Value,
    Values,
    as_number,
    check_hyperparameter,
    check_hyperparameters,
    draw_numbers,
    first_numbers,
    slice_step,
)
from thali.machine import physical_memory
from thali.priors.base import HasFrequencies, PredictsRow, Prior, Sequential
from thali.settings import (
    Settings,
    check_settings,
    defined_together,
    hyperparameters_of,
    whole_number,
)
from thali.structures.features import (
    FeatureCounts,
    FeatureTables,
    MassLaw,
    NextRow,
    left_order,
)

LARGEST_MASS = 1e15  # features of a row, on average, that no machine can hold
ROW, COLUMN = 112, 120  # bytes of a row of a sample without features, of a column without rows,
STICK = 24  # and of an unused feature while it is drawn


class PositiveNumbers(Settings):
    """A feature prior whose hyperparameters are each a positive number, or a hyperprior of one."""

    def __post_init__(self) -> None:
        check_hyperparameters(self)
        check_settings(self)

    def at(self, **numbers: float) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, float]:
        return first_numbers(self)


class Buffet(PositiveNumbers, PredictsRow, HasFrequencies, Sequential):
    """What the processes of one and of two parameters share."""

    alpha: float | Hyperprior

    def __post_init__(self) -> None:
        check_hyperparameter(type(self).__name__, "alpha", self.alpha, most=LARGEST_MASS)
        super().__post_init__()

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        n = whole_number(f"{type(self).__name__}.sample", "n", n, 1)
        drawn = dict(zip(hyperparameters_of(self), draw_numbers(rng, self), strict=True))
        alpha, beta = drawn["alpha"], self._beta(drawn)
        expected = alpha * (1.0 + beta * float(np.log1p(n / beta)))  # ≥ α Σ_{i≤n} β/(β+i−1)
        refuse_sample(type(self).__name__, drawn, n, expected)
        return draw_buffet(rng, n, alpha, beta)

    def tables(self, n: int) -> FeatureTables:
        alpha, beta = self._alpha_beta()
        return FeatureTables(
            log_odds(n, beta).copy(), float(np.log(alpha * beta / (beta + n - 1.0))), -1
        )

    def next_row(self, n: int, hyper: Values) -> NextRow:
        beta = self._beta(hyper)
        rest = beta + n - 1.0
        return NextRow(0.0, rest, np.log(hyper["alpha"] * beta / rest), -1)

    def used_frequencies(self, rng: np.random.Generator, n: int, m: np.ndarray) -> np.ndarray:
        return rng.beta(m, n - m + self._alpha_beta()[1])

    def unused_frequencies(
        self, rng: np.random.Generator, n: int, used: int, above: float
    ) -> np.ndarray:
        alpha, beta = self._alpha_beta()
        expected = alpha * beta * -float(np.log(above))
        if expected * STICK > physical_memory():
            raise ValueError(
                f"{type(self).__name__}: alpha={alpha:.3g} means about {expected:.3g} unused "
                "features in a sweep, more than memory holds; use a smaller alpha."
            )
        return unused_sticks(rng, n, alpha * beta, beta, above)

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        if isinstance(self.alpha, Hyperprior):
            k, rate = len(counts.column_sums), harmonic(counts.n, self._beta(hyper))
            hyper["alpha"] = resample_mass(rng, self.alpha, hyper["alpha"], k, rate)

    def mass_law(self, n: int, hyper: Values) -> MassLaw | None:
        own = hyperparameters_of(self)
        if any(isinstance(getattr(self, name), Hyperprior) for name in own if name != "alpha"):
            return None
        whole = defined_together(self, "mass_law", ("tables", "resample", "log_prob_counts"))
        if not (whole and isinstance(self.alpha, Gamma)):
            return PredictsRow.mass_law(self, n, hyper)
        beta = self._beta(hyper)
        unit, total = float(np.log(beta / (beta + n - 1.0))), harmonic(n, beta)
        return MassLaw(hyper["alpha"], unit, self.alpha.shape, self.alpha.rate, total, 0.0)

    def _beta(self, hyper: Mapping[str, Value]) -> Value:
        """β of the prior's own numbers, which only the two-parameter process has."""
        return 1.0

    def _alpha_beta(self) -> tuple[float, float]:
        owner, beta = type(self).__name__, self._beta(self.__dict__)
        return as_number(owner, "alpha", self.alpha), as_number(owner, "beta", beta)


def refuse_sample(owner: str, drawn: Mapping[str, float], n: int, expected: float) -> None:
    """Refuse to draw n rows of about so many features where memory could not hold them."""
    if n * ROW + expected * (3 * n + COLUMN) > physical_memory():
        numbers = ", ".join(f"{name}={value:.3g}" for name, value in drawn.items())
        raise ValueError(
            f"{owner}.sample: {n:,} rows with {numbers} have about {expected:.3g} features, more "
            "than memory holds; use a smaller alpha, or fewer rows."
        )


def draw_rows(
    rng: np.random.Generator,
    n: int,
    old: Callable[[int, np.ndarray], np.ndarray],
    new: Callable[[int, int], int],
) -> np.ndarray:
    """Draw n rows; ``old(i, m)`` are the probabilities of features that m of the i rows before
    have, ``new(i, k)`` draws how many new ones join the k there are. Left-ordered."""
    rows: list[np.ndarray] = []
    sums = np.zeros(0)
    for i in range(n):
        again = rng.random(len(sums)) < old(i, sums)
        first = int(new(i, len(sums)))
        rows.append(np.concatenate([again, np.ones(first, bool)]))
        sums = np.concatenate([sums + again, np.ones(first)])
    Z = np.zeros((n, len(sums)), bool)
    for i, row in enumerate(rows):
        Z[i, : len(row)] = row
    return left_order(Z)


def draw_buffet(rng: np.random.Generator, n: int, alpha: float, beta: float) -> np.ndarray:
    """Draw n rows: old features m_k/(β+i−1), new ones Poisson(αβ/(β+i−1)); left-ordered."""
    return draw_rows(
        rng, n, lambda i, m: m / (beta + i), lambda i, k: rng.poisson(alpha * beta / (beta + i))
    )


def unused_sticks(
    rng: np.random.Generator, n: int, mass: float, beta: float, above: float
) -> np.ndarray:
    """The points above s of intensity mass·π⁻¹(1−π)^{n+β−1}, in random order.

    Points of mass/π on (s, 1) are s^u, u uniform; each is kept with probability (1−π)^{n+β−1},
    which is one since n ≥ 1.
    """
    pi: np.ndarray = above ** rng.random(rng.poisson(mass * -np.log(above)))
    kept = np.log(1.0 - rng.random(len(pi))) < (n + beta - 1.0) * np.log1p(-pi)
    return np.asarray(pi[kept])


def log_orders(counts: FeatureCounts) -> float:
    """Σ_h log K_h!, which is 0 where no two columns are equal."""
    times = counts.multiplicities
    return float(gammaln(times + 1.0).sum()) if len(times) < len(counts.column_sums) else 0.0


@lru_cache(maxsize=2)  # α, which changes in every sweep, is not in it; N numbers each
def log_odds(n: int, beta: float) -> np.ndarray:
    """log m − log(β + n − 1 − m), for m of n − 1 other rows."""
    m = np.arange(n, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(m) - np.log(beta + n - 1.0 - m))


@lru_cache(maxsize=256)  # the prior of every sweep of a chain needs the same one
def harmonic(n: int, beta: float) -> float:
    """Σ_{i=1..n} β/(β+i−1): the harmonic number H_n when β = 1."""
    return float((beta / (beta + np.arange(n))).sum())


def resample_mass(
    rng: np.random.Generator, hyperprior: Hyperprior, alpha: float, k: int, rate: float
) -> float:
    """Draw α given that P(Z | α) ∝ α^k e^{−α·rate}: conjugate under a gamma, else by slice."""
    if isinstance(hyperprior, Gamma):
        # a tiny shape underflows to zero, which is no mass at all
        scale = 1.0 / (hyperprior.rate + rate)
        return max(float(rng.gamma(hyperprior.shape + k, scale)), SMALLEST)
    return slice_step(
        rng, alpha, lambda a: hyperprior.log_density(a) + k * np.log(a) - a * rate, width=1.0
    )


def resample_by_slice(
    rng: np.random.Generator, prior: Prior, name: str, hyper: Values, counts: Any
) -> None:
    """Update one hyperparameter of a prior given a value and its others, if it is inferred."""
    hyperprior = getattr(prior, name)
    if isinstance(hyperprior, Hyperprior):
        fixed = prior.at(**{own: hyper[own] for own in hyperparameters_of(prior)})

        def log_density(value: float) -> float:
            at = fixed.at(**{name: value})
            return hyperprior.log_density(value) + at.log_prob_counts(counts)

        hyper[name] = slice_step(rng, hyper[name], log_density, width=1.0)
