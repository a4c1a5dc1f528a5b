r"""Empirical Bayes for features: how many of them 1, 2, … rows have is learned from the data.

    m_i ~ Poisson(w_i),    w_i ~ Gamma(a, a i/α),    so that E[w_i] = α/i, the buffet process's

λ_i = log w_i − log C(N, i). Given the matrix, w_i ~ Gamma(a + m_i, a i/α + 1), independently. For α
the w_i are integrated out, m_i then being negative binomial:

    log p(m | α) = Σ_i [a log(a i/α) − (a + m_i) log(a i/α + 1)] + const.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from thali.hyperparameters import (
    SMALLEST,
    Gamma,
    Hyperprior,
    Value,
    Values,
    as_number,
    check_hyperparameter,
    slice_step,
)
from thali.priors.buffet import LARGEST_MASS
from thali.priors.column_potentials import ColumnPotentials
from thali.priors.partition_sums import log_choose
from thali.registry import PRIORS
from thali.settings import check_settings, hyperparameter, setting, whole_number
from thali.structures.features import FeatureCounts

NOTHING = (float("nan"),)  # of expected numbers that are not learned yet


@PRIORS.register("learned_ibp")
@dataclass(frozen=True)
class LearnedIBP(ColumnPotentials):
    """A prior over features that learns in how many rows they are.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass of the Indian buffet process around which the expected numbers of features lie.
    expected : array of N numbers, optional
        Where the expected numbers of features that 1, …, N rows have begin. They are inferred.
    strength : float, default 1.0
        How near to the buffet process's they are held.

    Notes
    -----
    The expected numbers are drawn given the features, N of them a sweep.

    Examples
    --------
    >>> LearnedIBP(alpha=2.0).expected_counts(2).tolist()  # before anything is learned
    [2.0, 1.0]
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many features to expect"
    )
    expected: Any = hyperparameter(None, symbol="w", words="features that 1, 2, … rows have")
    strength: float = setting(1.0, help="How near to the buffet process numbers are held")

    only_drawn = True  # w_i is likeliest at 0 where no feature has i rows, and none would ever come

    def __post_init__(self) -> None:
        check_hyperparameter("LearnedIBP", "alpha", self.alpha, most=LARGEST_MASS)
        check_settings(self)
        try:
            own = np.asarray(NOTHING if self.expected is None else self.expected, float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"LearnedIBP: expected must be N numbers, not {self.expected!r}."
            ) from error
        good = own.ndim == 1 and np.isfinite(own).all() and (own > 0.0).all() and len(own)
        if not good and not (own.shape == (1,) and np.isnan(own[0])):
            raise ValueError(
                "LearnedIBP: expected must be one positive number for each of N rows: how many "
                "features 1, …, N of them are expected to have."
            )
        object.__setattr__(self, "_own", own)

    def expected_counts(self, n: int) -> np.ndarray:
        own: np.ndarray = self.__dict__["_own"]
        if np.isnan(own[0]):  # nothing is learned yet
            alpha = as_number("LearnedIBP", "alpha", self.alpha)
            return np.asarray(alpha / np.arange(1.0, n + 1.0))
        if len(own) == n:
            return own
        raise ValueError(
            f"LearnedIBP has learned of {len(own)} rows, and there are {n}: the prior is not "
            "consistent, so that the numbers of another number of rows are others."
        )

    @property
    def rows_described(self) -> int | None:
        own: np.ndarray = self.__dict__["_own"]
        return None if np.isnan(own[0]) else len(own)

    def potentials_for(self, n: int) -> np.ndarray:
        return np.asarray(np.log(self.expected_counts(n)) - log_choose(n, np.arange(1, n + 1)))

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, Value]:
        """How many numbers there are, the first sweep tells."""
        alpha = self.alpha.center() if isinstance(self.alpha, Hyperprior) else float(self.alpha)
        return {"alpha": alpha, "expected": self.__dict__["_own"]}

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        n = whole_number("LearnedIBP.sample", "n", n, 1)
        if not np.isnan(self.__dict__["_own"][0]):
            return super().sample(rng, n)
        alpha = self.alpha.sample(rng) if isinstance(self.alpha, Hyperprior) else self.alpha
        drawn = self.draw_expected(rng, alpha, np.zeros(n), 0.0)
        return super(LearnedIBP, self.at(alpha=alpha, expected=drawn)).sample(rng, n)

    def sample_with_hyper(
        self, rng: np.random.Generator, n: int
    ) -> tuple[np.ndarray, dict[str, Value]]:
        """Expected numbers that were given are where a chain begins, and no part of the prior."""
        return super(LearnedIBP, self.replace(expected=None)).sample_with_hyper(rng, n)

    def draw_expected(
        self, rng: np.random.Generator, alpha: float, m: np.ndarray, seen: float = 1.0
    ) -> np.ndarray:
        """w given the numbers m of features that 1, …, N rows have; from its prior if not seen."""
        rate = self.strength * np.arange(1.0, len(m) + 1.0) / alpha + seen
        return np.maximum(rng.gamma(self.strength + m, 1.0 / rate), SMALLEST)

    def mass_law(self, n: int, hyper: Values) -> None:
        """Compiled code knows no law of N numbers."""

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        sums = np.asarray(counts.column_sums, np.int64)
        m = np.bincount(sums, minlength=counts.n + 1)[1:].astype(float)
        hyperprior, a, i = self.alpha, self.strength, np.arange(1.0, counts.n + 1.0)
        if isinstance(hyperprior, Hyperprior):

            def log_density(alpha: float) -> float:
                rate = a * i / alpha
                logs = a * np.log(rate) - (a + m) * np.log1p(rate)
                return float(hyperprior.log_density(alpha) + logs.sum())

            hyper["alpha"] = slice_step(rng, hyper["alpha"], log_density, width=1.0)
        hyper["expected"] = self.draw_expected(rng, hyper["alpha"], m)
