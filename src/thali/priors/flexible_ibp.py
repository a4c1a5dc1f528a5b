r"""Flexible priors over binary matrices: a potential for each column sum, and more.

    log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} + w·φ − Σ_h log K_h! − log 𝒵

What follows from the potentials is in ``column_potentials``; here they are given, checked, or found
from what is wished for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from thali.hyperparameters import Value, Values
from thali.priors.checked_features import given_by, refuse_no_function, weighed
from thali.priors.column_potentials import LEAST, ColumnPotentials
from thali.priors.partition_sums import log_choose
from thali.registry import PRIORS
from thali.settings import setting, whole_number
from thali.structures.features import FeatureCounts

TABULATED = 200  # row potentials that are kept of a function
TOLD = 50  # numbers of rows by their features that features are told of at least
MANY = (100, 3000, 100_000)  # columns at which the growth of features is looked at
NONE = np.zeros(0, np.int64)
FAR = tuple(10**power for power in (3, 6, 9, 12, 15))  # features at which growth is looked at

MatrixFeatures = Callable[[np.ndarray, np.ndarray], Any]


@PRIORS.register("flexible_ibp")
@dataclass(frozen=True)
class FlexibleIBP(ColumnPotentials):
    """A prior over features with a potential for how many rows have one.

    Parameters
    ----------
    column_potentials : sequence of N numbers
        λ_1 … λ_N for N rows: the larger λ_i, the more features that i rows have. −inf means none;
        samplers, to which rows come one by one, take it only from some i on.
    row_potentials : sequence of numbers or function, optional
        θ_0, θ_1, …: the larger θ_j, the more rows have j features; the last one is that of all
        larger numbers. A function of j is asked for the first 200, and refused where it grows so
        fast that the prior has no normalizer.
    features : function, optional
        φ(m, n), any numbers that depend on all sums together: m[i − 1] features are had by i rows
        (N numbers), and n[j] rows have j features (from none to all, at least 50 numbers). The same
        numbers whenever it is asked, finite or −inf, which excludes. The prior is then for the
        engine ``Metropolis`` alone. Ones that are seen to grow so fast that there is no normalizer
        are refused.
    weights : sequence of numbers
        w, one for each number of φ, which adds w·φ to the log probability.

    Notes
    -----
    Potentials belong to N rows; ``from_expectations`` finds them from what is wished for. With row
    potentials or features the normalizer is not known: log joints lack it, and ``log_normalizer``
    estimates it.

    Examples
    --------
    >>> import numpy as np
    >>> prior = FlexibleIBP.from_expectations(m=[2.0, 1.0], n_rows=2)  # the IBP, α = 2
    >>> np.exp(prior.column_potentials).round(6).tolist()
    [1.0, 1.0]
    >>> from thali import IBP
    >>> Z = np.array([[1, 0], [1, 1]])
    >>> bool(np.isclose(prior.log_prob(Z), IBP(alpha=2.0).log_prob(Z)))
    True
    """

    column_potentials: tuple[float, ...] = setting(
        (), help="a number λ_i for features that i rows have, in a file"
    )
    row_potentials: tuple[float, ...] | None = setting(
        None, help="a number θ_j for rows that have j features, from 0 on, in a file"
    )

    features: MatrixFeatures | None = None
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        own = _numbers("column_potentials", self.column_potentials)
        if not len(own) or np.isnan(own).any() or (own == np.inf).any():
            raise ValueError(
                "FlexibleIBP: column_potentials must be one number λ_i for each i = 1, …, N, how "
                "many rows have a feature, finite or -inf (no such feature)."
            )
        with np.errstate(over="ignore"):
            expected = np.exp(own + log_choose(len(own), np.arange(1, len(own) + 1)))
        if not np.isfinite(expected.sum()):
            raise ValueError(
                "FlexibleIBP: column_potentials expect features without end; λ_i = log c_i − "
                "log C(N, i) expects c_i that i of N rows have (from_expectations)."
            )
        object.__setattr__(self, "column_potentials", tuple(own.tolist()))
        object.__setattr__(self, "_own", own)
        if self.row_potentials is not None:
            object.__setattr__(self, "row_potentials", self._checked(self.row_potentials))
        self._check_features()

    def _check_features(self) -> None:
        """Refuse features that are no function, other than a weight each, or without end."""
        weights = _numbers("weights", self.weights)
        if self.features is None:
            if len(weights):
                raise ValueError("FlexibleIBP: weights are those of features; give both.")
            return
        refuse_no_function(
            "FlexibleIBP",
            self.features,
            "(m, n), how many features are had by 1, 2, … rows and how many rows have 0, 1, … "
            "features",
        )
        n = len(self.column_potentials)
        none = given_by("FlexibleIBP", self.features, *sums_of(n, NONE, np.zeros(n, np.int64)))
        if weights.shape != none.shape or not np.isfinite(weights).all():
            raise ValueError(
                f"FlexibleIBP: features gives {len(none)} numbers where no row has a feature, so "
                f"that weights must be as many finite ones, not {self.weights!r}."
            )
        object.__setattr__(self, "weights", tuple(weights.tolist()))
        refuse_features_without_end(self, n)

    @property
    def linear(self) -> bool:
        return self.features is None

    def beyond_tables(self, n: int, column_sums: np.ndarray, row_sums: np.ndarray) -> float:
        """w·φ."""
        if self.features is None:
            return 0.0
        found = given_by("FlexibleIBP", self.features, *sums_of(n, column_sums, row_sums))
        return float(weighed("FlexibleIBP", found, np.array(self.weights)))

    def _checked(self, given: Any) -> tuple[float, ...]:
        """The table of row potentials, or a sentence."""
        function = given if callable(given) else None
        if function is not None:
            try:
                given = [float(function(j)) for j in range(TABULATED)]
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise TypeError(
                    "FlexibleIBP: row_potentials, as a function of j, must give a number for each "
                    f"j = 0, …, {TABULATED - 1}; it says: {error}."
                ) from error
        theta = _numbers("row_potentials", given)
        if not len(theta) or not np.isfinite(theta).all():
            raise ValueError(
                "FlexibleIBP: row_potentials must be finite numbers θ_0, θ_1, …, for rows of 0, "
                "1, … features; -1e6 stands for a number of features that no row has."
            )
        if function is not None:
            refuse_growth(function, len(self.column_potentials))
        return tuple(theta.tolist())

    def potentials_for(self, n: int) -> np.ndarray:
        own: np.ndarray = self.__dict__["_own"]
        if n != len(own):
            raise ValueError(
                f"FlexibleIBP has potentials for {len(own)} rows, and there are {n}: the prior is "
                "not consistent, so that those of another number of rows are others."
            )
        return own

    @property
    def rows_described(self) -> int:
        return len(self.column_potentials)

    def at(self, **numbers: Value) -> Self:
        return self

    def start(self) -> dict[str, Value]:
        return {}

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        """Potentials are numbers: nothing is inferred."""

    @classmethod
    def from_expectations(cls, m: Sequence[float], n_rows: int, row_potentials: Any = None) -> Self:
        """The prior of n_rows rows with E[m_i] = m[i − 1] features that i of them have.

        ``m`` may be shorter than ``n_rows``: no feature is then in more rows. With
        ``row_potentials``, which have a say in that, λ is found by importance weights of draws of
        the columns; the expectations are then met within the noise of these draws.

        >>> prior = FlexibleIBP.from_expectations(m=[0.0, 3.0], n_rows=3)
        >>> prior.expected_counts(3).round(6).tolist()
        [0.0, 3.0, 0.0]
        """
        n = whole_number("FlexibleIBP.from_expectations", "n_rows", n_rows, 1)
        wished = _numbers("m", m)
        if len(wished) > n or not np.isfinite(wished).all() or (wished < 0.0).any():
            raise ValueError(
                "FlexibleIBP.from_expectations: m must be expected numbers of features that 1, 2, "
                f"… rows have: at most n_rows={n} of them, finite and not negative."
            )
        wished = np.append(wished, np.zeros(n - len(wished)))
        with np.errstate(divide="ignore"):
            own = np.log(wished) - log_choose(n, np.arange(1, n + 1))
        found = cls(tuple(own.tolist()), row_potentials)
        return (
            found
            if row_potentials is None
            else found.replace(column_potentials=_met(found, wished))
        )

    @classmethod
    def smooth_form(cls, alpha: Any, power: Any = 1.0, shift: Any = 0.0) -> ColumnPotentials:
        """Expected numbers α (i + shift)^−power, numbers or hyperpriors: a ``SmoothIBP``."""
        from thali.priors.smooth_ibp import SmoothIBP

        return SmoothIBP(alpha, power, shift)


def _numbers(name: str, given: Any) -> np.ndarray:
    """A row of numbers, or a sentence."""
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"FlexibleIBP: {name} must be numbers, not {given!r}.") from error
    if found.ndim != 1:
        raise ValueError(f"FlexibleIBP: {name} must be one row of numbers, not {given!r}.")
    return found


def refuse_growth(theta: Callable[[int], float], n: int) -> None:
    """Refuse row potentials under which j features of all n rows have ever more weight.

    These have e^{nθ_j}/j!, up to a power of j: nθ_j must not come to exceed j log j. A multiple of
    j does not, whatever it is: it only changes λ.
    """
    shares = []
    for j in FAR:
        try:
            shares.append(n * float(theta(j)) / (j * float(np.log(j))))
        except ArithmeticError:
            shares.append(np.inf)
    if not shares[-1] < 1.0 and not shares[-1] < shares[-2]:
        raise ValueError(
            f"FlexibleIBP: these row potentials grow so fast that the prior has no normalizer: {n} "
            "rows with ever more features have ever more weight. Use ones that grow more slowly "
            "than log j! / N, or a table."
        )


def sums_of(n: int, column_sums: np.ndarray, row_sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """m_i, how many features i of n rows have, and how many rows have 0, 1, … features."""
    m = np.bincount(column_sums, minlength=n + 1)[1:].astype(float)
    return m, np.bincount(row_sums, minlength=max(len(column_sums) + 1, TOLD)).astype(float)


def refuse_features_without_end(prior: FlexibleIBP, n: int) -> None:
    """Refuse features under which ever more columns are seen to have ever more weight.

    J columns of one kind have the weight e^{w·φ}/J!, but for a power of J: w·φ must not come to
    exceed J log J. Looked at are columns of one sum, and of two by halves, for some sums.
    """
    some = sorted({1, 2, 3, (n + 1) // 2, n - 1, n} & set(range(1, n + 1)))
    for one, two in [(i, i) for i in some] + list(pairwise(some)):
        shares = []
        for count in MANY:
            sums = np.repeat([one, two], count // 2)
            rows = np.zeros(n, np.int64)
            rows[:one] += count // 2
            rows[:two] += count // 2
            extra = prior.beyond_tables(n, sums, rows)
            shares.append(extra / (count * float(np.log(count))))
        if shares[-1] >= 1.0 or shares[-1] > max(1.2 * shares[-2], 0.0):
            raise ValueError(
                "FlexibleIBP: these features grow so fast that the prior has no normalizer: ever "
                f"more features that {one if one == two else f'{one} or {two}'} of the rows have "
                "weigh ever more. Use ones that grow more slowly than j log j, or weights below 0."
            )


ROUNDS, DRAWS, LATE = 40, 500, 20  # of finding potentials beside row potentials; rounds averaged


def _met(prior: FlexibleIBP, wished: np.ndarray, seed: int = 0) -> tuple[float, ...]:
    """Potentials with which weighted draws of the columns have the wished counts.

    λ_i gives way by the logarithm of E[m_i]/(C(N, i) e^{λ_i}) until nothing changes.
    """
    n, aim = len(wished), wished > 0.0
    rng, late = np.random.default_rng(seed), []
    plain = np.array(prior.column_potentials)
    for made in range(ROUNDS):
        found = prior.weighed(rng, n, DRAWS)
        if found.worth < LEAST:
            raise ValueError(
                "FlexibleIBP.from_expectations: the row potentials are so far from what the "
                "columns make of these rows that few draws count; use weaker ones."
            )
        own = np.array(prior.column_potentials)
        step = np.clip((plain - found.log_ratios - own)[aim], -1.0, 1.0)
        own[aim] += step if made < ROUNDS - LATE else 0.5 * step
        prior = prior.replace(column_potentials=tuple(own.tolist()))
        if made >= ROUNDS - LATE:
            late.append(own[aim])
    own[aim] = np.mean(late, axis=0)
    return tuple(own.tolist())
