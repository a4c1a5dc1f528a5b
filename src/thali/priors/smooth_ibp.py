r"""A flexible prior over features with three numbers.

    E[m_i] = α (i + c)^−b,        λ_i = log α − b log(i + c) − log C(N, i)

features that i of N rows have. b = 1, c = 0 is the Indian buffet process. b below 1 shares features
more, b = 0 expects as many that all rows have as that one row has; c above 0 makes features of few
rows rarer beside the others. All is linear in α, which under a gamma is conjugate as in the buffet
process; b and c are sampled by slice steps.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from thali.hyperparameters import (
    Gamma,
    Hyperprior,
    Normal,
    Value,
    Values,
    as_number,
    check_hyperparameter,
    check_real,
    draw_numbers,
    first_numbers,
    slice_step,
    slice_step_of_real,
)
from thali.priors.buffet import LARGEST_MASS, resample_mass
from thali.priors.column_potentials import ColumnPotentials
from thali.priors.partition_sums import log_choose
from thali.registry import PRIORS
from thali.settings import defined_together, hyperparameter, hyperparameters_of
from thali.structures.features import FeatureCounts, MassLaw

MOST = 1e3  # of a power or a shift: more can only be a mistake


@PRIORS.register("smooth_ibp")
@dataclass(frozen=True)
class SmoothIBP(ColumnPotentials):
    """A prior over features that expects alpha (i + shift)^-power of them in i rows.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        How many features to expect.
    power : float or Normal, default Normal(1, 1)
        How fast they get fewer the more rows have them: 1 in the Indian buffet process.
    shift : float above -1, or hyperprior, default 0.0
        The larger, the rarer features of few rows: 0 in the Indian buffet process.

    Notes
    -----
    A number is fixed; a hyperprior means that it is inferred.

    Examples
    --------
    >>> import numpy as np
    >>> from thali import IBP
    >>> Z = np.array([[1, 0], [1, 1]])
    >>> a = SmoothIBP(alpha=2.0, power=1.0).log_prob(Z)
    >>> bool(np.isclose(a, IBP(alpha=2.0).log_prob(Z)))
    True
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many features to expect"
    )
    power: float | Hyperprior = hyperparameter(
        Normal(1.0, 1.0), symbol="b", words="how little features are shared"
    )
    shift: float | Hyperprior = hyperparameter(
        0.0, symbol="c", words="how rare features of few rows are"
    )

    def __post_init__(self) -> None:
        check_hyperparameter("SmoothIBP", "alpha", self.alpha, most=LARGEST_MASS)
        if isinstance(self.power, Hyperprior):
            if not self.power.real:
                raise TypeError(
                    "SmoothIBP: power must be a number (fixed) or thali.Normal(1, 1) (inferred), "
                    f"not {self.power!r}."
                )
        else:
            check_real("SmoothIBP", "power", self.power, -MOST, MOST)
        if isinstance(self.shift, Hyperprior):
            check_hyperparameter("SmoothIBP", "shift", self.shift, most=MOST)
        else:
            check_real("SmoothIBP", "shift", self.shift, -1.0, MOST)

    def expected_counts(self, n: int) -> np.ndarray:
        alpha = as_number("SmoothIBP", "alpha", self.alpha)
        with np.errstate(over="ignore"):
            return np.asarray(alpha * np.exp(self._logs(n)))

    def _logs(self, n: int) -> np.ndarray:
        """log E[m_i] where α = 1."""
        power, shift = (self._number(name) for name in ("power", "shift"))
        return np.asarray(-power * np.log(np.arange(1.0, n + 1.0) + shift))

    def _number(self, name: str) -> float:
        value = getattr(self, name)
        if isinstance(value, Hyperprior):
            as_number("SmoothIBP", name, value)  # says that it must be fixed first
        return float(value)

    def potentials_for(self, n: int) -> np.ndarray:
        alpha = as_number("SmoothIBP", "alpha", self.alpha)
        return np.asarray(self._logs(n) + np.log(alpha) - log_choose(n, np.arange(1, n + 1)))

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, Value]:
        return dict(first_numbers(self))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        drawn = dict(zip(hyperparameters_of(self), draw_numbers(rng, self), strict=True))
        return super(SmoothIBP, self.at(**drawn)).sample(rng, n)

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        """α from its law where it is conjugate, by slice steps the others."""
        if isinstance(self.alpha, Hyperprior):
            own = self.at(**{name: hyper[name] for name in hyperparameters_of(self)})
            rate = float(np.exp(own._logs(counts.n)).sum())
            k = len(counts.column_sums)
            hyper["alpha"] = resample_mass(rng, self.alpha, hyper["alpha"], k, rate)
        hyperprior = self.power
        if isinstance(hyperprior, Hyperprior):

            def log_density(value: float) -> float:
                if not abs(value) < MOST:
                    return -np.inf
                at = self.at(alpha=hyper["alpha"], power=value, shift=hyper["shift"])
                return hyperprior.log_density(value) + at.log_prob_counts(counts)

            hyper["power"] = slice_step_of_real(rng, hyper["power"], log_density, width=1.0)
        law = self.shift
        if isinstance(law, Hyperprior):

            def log_density_of_shift(value: float) -> float:
                if not value < MOST:
                    return -np.inf
                at = self.at(alpha=hyper["alpha"], power=hyper["power"], shift=value)
                return law.log_density(value) + at.log_prob_counts(counts)

            hyper["shift"] = slice_step(rng, hyper["shift"], log_density_of_shift, width=1.0)

    def mass_law(self, n: int, hyper: Values) -> MassLaw | None:
        if any(isinstance(value, Hyperprior) for value in (self.power, self.shift)):
            return None
        whole = defined_together(self, "mass_law", ("tables", "resample", "log_prob_counts"))
        if not (whole and isinstance(self.alpha, Gamma)):
            return super().mass_law(n, hyper)
        logs = self._logs(n)
        law = self.alpha.shape, self.alpha.rate, float(np.exp(logs).sum())
        return MassLaw(hyper["alpha"], float(logs[0] - np.log(n)), *law, 0.0)
