r"""The Poisson likelihood of tables of counts: rates that are not negative add up.

    x_nd ~ Poisson(μ_d (b_d + Σ_k z_nk a_kd)),   a_kd ~ Gamma(s, s/θ),   b_d ~ Exponential(1)

μ_d, the unit of column d, is the mean of what was observed there: rates are multiples of it, so
that columns of different size are alike. b is the base rate that every row has, θ the mean of the
features' rates and s their shape. A (K×D) is kept, and b among the hyperparameters, an entry for
each column. Sums of Poisson counts are Poisson, so that with the parts y of each x that come from
b and from each feature (multinomial given the rates)

    a_kd | y ~ Gamma(s + Σ_n y_nkd, s/θ + μ_d Σ_n z_nk),   b_d | y ~ Gamma(1 + Σ_n y_n0d, 1 + μ_d N)

where sums are over the rows in which column d was observed: what was not says nothing. Bits, and
features of one row alone with their rates integrated out, are in ``kernels/poisson``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lgamma, log
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from thali.data import Data, Table
from thali.hyperparameters import (
    Gamma,
    Hyperprior,
    Value,
    Values,
    as_number,
    check_hyperparameter,
    slice_step,
)
from thali.likelihoods.base import Masked, Parameters, Scale, Words
from thali.likelihoods.gibbs_updates import EstimatesEvidence, GibbsState, GibbsUpdates, Turned
from thali.likelihoods.moving_rows import ALL_SEEN
from thali.likelihoods.observed_counts import check_counts, observed_counts, units_of
from thali.likelihoods.poisson_entries import PoissonEntries
from thali.registry import LIKELIHOODS
from thali.settings import Settings, check_settings, hyperparameter, setting
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior
    from thali.kernels.poisson import Gammas

AUTO = "auto"
SIZE = Gamma(2.0, 1.0)  # of θ, where it is inferred


@LIKELIHOODS.register("poisson")
@dataclass(frozen=True)
class Poisson(Settings, GibbsUpdates, EstimatesEvidence, Masked):
    """Counts whose rate is a base rate and what each feature adds to it, never less than nothing.

        x_nd ~ Poisson(μ_d (b_d + Σ_k z_nk a_kd)),  a_kd ~ Gamma(s, s/θ),  b_d ~ Exponential(1)

    X must be of whole numbers from 0 on. μ_d is the unit of column d: the mean of its observed
    entries, or one over their number where all of them are 0. ``components_``, the rates a, and the
    base rates b are multiples of it: a feature with a rate of 2 in a column adds twice the column's
    mean count to every row that has it. ``base[d]`` in ``history_`` is b of column d.

    Parameters
    ----------
    size : float, hyperprior or "auto", default "auto"
        θ, the mean of the features' rates, in units of the columns' means. "auto" infers it under
        ``Gamma(2, 1)``.
    base : float, array or "auto", default "auto"
        b, the base rates: one number for all columns, or one for each. "auto" infers them, under
        Exponential(1): a priori the mean of a column is its base rate. They are positive: a small
        number leaves all but nothing to it.
    shape : float, default 0.5
        s, the shape of the features' rates, at least 0.1. Below one most columns have next to
        nothing of a feature, and a few have much of it.

    Notes
    -----
    The log joint is log P(X, A, [Z]) of what was observed, given b and θ. Counts are at most a
    billion.

    Examples
    --------
    >>> import numpy as np
    >>> lik = Poisson(size=2.0, base=0.5)
    >>> Z, A = np.array([[1, 1], [0, 1]]), np.array([[1.0, 0.0], [3.0, 2.0]])
    >>> lik.mean(Z, A).tolist()
    [[4.5, 2.5], [3.5, 2.5]]
    """

    size: Scale = hyperparameter(AUTO, symbol="θ", words="mean rate of a feature in a column")
    base: float | np.ndarray | str = hyperparameter(
        AUTO, symbol="b", words="base rate of a column, which every row has"
    )
    shape: float = setting(0.5, help="Shape of the features' gamma rates", minimum=0.1)
    units: tuple[float, ...] | None = field(default=None, repr=False)

    axes: ClassVar[dict[str, int]] = {"A": 0}
    any_units: ClassVar[bool] = False
    initial_updates: ClassVar[int] = 30
    starts: ClassVar[tuple[str, ...]] = ("race", "count_ica", "empty", "prior")
    words: ClassVar[Words] = Words(
        "Each feature adds to the rates at which things are counted, in every row that has it; "
        "shown is how much, in units of each column’s mean count, most frequent first.",
        "Counts are Poisson: the rate of a row in a column is a base rate that all rows have plus "
        "those of the features A that the row has (Z says which), in units of the column’s mean.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not (isinstance(self.size, str) and self.size == AUTO):
            check_hyperparameter("Poisson", "size", self.size)
        if not (isinstance(self.base, str) and self.base == AUTO):
            check_base(self.base)

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    # what the columns are

    def check_data(self, data: Data) -> None:
        check_counts(data)
        if self.units is not None and len(self.units) != data.d:
            raise ValueError(f"Poisson: X has {data.d} columns and {len(self.units)} units.")
        if np.ndim(self.base) == 1 and len(np.ravel(self.base)) != data.d:
            raise ValueError(
                f"Poisson: X has {data.d} columns and {len(np.ravel(self.base))} base rates."
            )

    def resolve(self, data: Data) -> Self:
        """The same with a hyperprior for "auto", and with the columns' units."""
        self.check_data(data)
        size = SIZE if isinstance(self.size, str) else self.size
        return self.replace(size=size, units=self.units or units_of(data))

    def start(self, data: Data) -> dict[str, Value]:
        size = SIZE if isinstance(self.size, str) else self.size
        base = 1.0 if isinstance(self.base, str) else self.base
        return {
            "size": size.center() if isinstance(size, Hyperprior) else float(size),
            "base": np.full(data.d, base, float),
        }

    def of_columns(self, which: np.ndarray, hyper: Values) -> tuple[Self, Values]:
        units = None if self.units is None else tuple(np.array(self.units)[which].tolist())
        return self.replace(units=units), {**hyper, "base": np.asarray(hyper["base"])[which]}

    def guess(self, data: Data) -> Data:
        """Complete data of whole numbers: the first guess, rounded."""
        if data.observed is None:
            return data
        return Data(np.where(data.observed, data.X, np.rint(np.maximum(data.filled.X, 0.0))))

    # sampling and densities with A kept

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self._rates(rng, k, d, as_number("Poisson", "size", self.size))

    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        return PoissonEntries(self.mean(Z, A)).draw(rng)

    def mean(self, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """E[X | Z, A] = μ (b + Z A)."""
        A = np.asarray(A, float)
        rates = np.asarray(Z, float) @ A + self._base
        return np.asarray(rates * self._units(A.shape[1]))

    def log_likelihood(self, X: Table, Z: ArrayLike, A: ArrayLike) -> float:
        data = Data.of(X)
        state = GibbsState(data, of_bytes(Z), {"A": np.asarray(A, float)}, {})
        state.hyper["base"] = np.full(data.d, self._base, float)
        return self._log_counts(state)

    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> PoissonEntries:
        """x_nd ~ Poisson(μ_d (b_d + z_n a_d))."""
        return PoissonEntries(self.mean(Z, parameters["A"])[where])

    # Gibbs updates with A kept

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        return {"A": self._rates(rng, k, data.d, hyper["size"])}

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        from thali.kernels.poisson import sweep_bits

        A, base = state.parameters["A"], state.hyper["base"]
        mass = self._seen_sums(state, self._units(state.data.d) * A)
        sweep_bits(rng, observed_counts(state.data).listed, base, A, mass, state.bits, bits)
        return Turned(bits.m)

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Their number with their rates integrated out, then these given the row."""
        from thali.kernels.poisson import renew_own_features

        gammas = self._gammas(state)
        idle = -np.log1p(gammas.units / gammas.rate)  # log(r/(r + μ))
        quiet = self._seen_sums(state, idle[None])[:, 0]
        seen = ALL_SEEN if state.observed is None else state.observed
        given = observed_counts(state.data).listed, seen, state.hyper["base"]
        own = state.bits, state.parameters["A"], turned.m
        weight, capacity, theta = tables.new_log_weight, tables.capacity, tables.row_potentials
        state.bits, state.parameters["A"] = renew_own_features(
            rng, *given, *own, weight, capacity, theta, quiet, gammas
        )

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """Parts of the counts, then b and A given these, then θ given A; log P(X, A | Z)."""
        from thali.kernels.poisson import LEAST

        laws = self._laws_given_parts(rng, state)
        A = rng.standard_gamma(laws.shapes) / laws.rates
        state.parameters["A"] = np.maximum(A, LEAST)
        if isinstance(self.base, str):
            b = rng.standard_gamma(laws.base_shapes) / laws.base_rates
            state.hyper["base"] = np.maximum(b, LEAST)
        if not hold and isinstance(self.size, Hyperprior):
            state.hyper["size"] = self._draw_size(rng, state, self.size)
        return self.log_density(state)

    def log_density(self, state: GibbsState) -> float:
        """log P(X, A | Z) of what was observed."""
        A, rate = state.parameters["A"], self.shape / state.hyper["size"]
        return self._log_counts(state) + float(log_gamma(A, self.shape, rate).sum())

    def estimate_evidence(self, rng: np.random.Generator, state: GibbsState) -> float:
        """log P(X, A, b | Z) − log p(A, b | y), y the parts of the counts given A and b.

        With the density given X and Z instead this would be log P(X | Z), whatever A and b; on
        average it is less, by the mutual information of y and these.
        """
        laws, base = self._laws_given_parts(rng, state), state.hyper["base"]
        value = self.log_density(state)
        value -= float(log_gamma(state.parameters["A"], laws.shapes, laws.rates).sum())
        if isinstance(self.base, str):
            value -= float((log_gamma(base, laws.base_shapes, laws.base_rates) + base).sum())
        return value

    def _draw_size(self, rng: np.random.Generator, state: GibbsState, prior: Hyperprior) -> float:
        s, A = self.shape, state.parameters["A"]
        total, count = float(A.sum()), A.size

        def target(size: float) -> float:
            return prior.log_density(size) - s * (count * log(size) + total / size)

        width = min(1.0, 3.0 / np.sqrt(s * count + 1.0))
        return slice_step(rng, state.hyper["size"], target, width)

    def _laws_given_parts(self, rng: np.random.Generator, state: GibbsState) -> LawsGivenParts:
        from thali.kernels.poisson import split_counts

        A, base, gammas = state.parameters["A"], state.hyper["base"], self._gammas(state)
        counts = observed_counts(state.data)
        of_features, of_base = split_counts(rng, counts.listed, base, A, state.bits)
        exposure = gammas.units * exposures(state)
        return LawsGivenParts(
            gammas.shape + of_features,
            gammas.rate + exposure,
            1.0 + of_base,
            1.0 + gammas.units * counts.rows,
        )

    def _log_counts(self, state: GibbsState) -> float:
        """log P(X | Z, A) of what was observed."""
        from thali.kernels.poisson import sum_of_logs

        A, base, units = state.parameters["A"], state.hyper["base"], self._units(state.data.d)
        counts, Z = observed_counts(state.data), of_bytes(state.bits)
        logs = sum_of_logs(counts.listed, np.asarray(base, float), np.ascontiguousarray(A), Z)
        mass = units @ (counts.rows * base + (exposures(state) * A).sum(axis=0))
        return float(logs + counts.totals @ np.log(units) - mass - counts.log_factorials)

    def _seen_sums(self, state: GibbsState, values: np.ndarray) -> np.ndarray:
        """Sums of (K, D) values over the columns that each row shows, (N, K), or (1, K) for all."""
        if state.observed is None:
            return np.asarray(values.sum(axis=1)[None])
        return np.asarray(state.observed.astype(float) @ values.T)

    def _gammas(self, state: GibbsState) -> Gammas:
        from thali.kernels.poisson import Gammas

        rate = self.shape / state.hyper["size"]
        return Gammas(float(self.shape), float(rate), self._units(state.data.d))

    def _rates(self, rng: np.random.Generator, k: int, d: int, size: float) -> np.ndarray:
        from thali.kernels.poisson import LEAST

        return np.maximum(rng.standard_gamma(self.shape, (k, d)) * (size / self.shape), LEAST)

    def _units(self, d: int) -> np.ndarray:
        return np.ones(d) if self.units is None else np.array(self.units)

    @property
    def _base(self) -> np.ndarray:
        if isinstance(self.base, str):
            raise ValueError(
                "Poisson: base is 'auto', to be inferred; this needs numbers. Fix it first with "
                ".at(base=...)."
            )
        return np.asarray(self.base, float)


class LawsGivenParts(NamedTuple):
    """Gamma laws of A and b given the parts of the counts: shapes and rates."""

    shapes: np.ndarray  # (K, D)
    rates: np.ndarray
    base_shapes: np.ndarray  # (D,)
    base_rates: np.ndarray


def exposures(state: GibbsState) -> np.ndarray:
    """In how many of the rows that have feature k column d was observed, (K, D) or (K, 1)."""
    Z = state.bits.astype(float)
    if state.observed is None:
        return np.asarray(Z.sum(axis=0)[:, None])
    return np.asarray(Z.T @ state.observed)


def check_base(base: object) -> None:
    """Refuse base rates that are not positive numbers, one or one for each column."""
    if isinstance(base, Hyperprior):
        raise TypeError(
            f"Poisson: base is {base!r}, a hyperprior; base rates are inferred under Exponential(1)"
            " (base='auto') or fixed (a positive number, or one for each column)."
        )
    if np.ndim(base) == 0:  # type: ignore[arg-type]
        check_hyperparameter("Poisson", "base", base)
        return
    numbers = np.asarray(base, float)
    if numbers.ndim != 1 or not (np.isfinite(numbers) & (numbers > 0.0)).all():
        raise ValueError("Poisson: base must be one positive number, or one for each column.")


def of_bytes(Z: ArrayLike) -> np.ndarray:
    """Bits as kernels take them."""
    return np.ascontiguousarray(Z, np.uint8)


def log_gamma(
    values: np.ndarray, shape: np.ndarray | float, rate: np.ndarray | float
) -> np.ndarray:
    """log densities of Gamma(shape, rate)."""
    constant = lgamma(shape) if isinstance(shape, float) else gammaln(shape)
    return np.asarray(
        shape * np.log(rate) - constant + (shape - 1.0) * np.log(values) - rate * values
    )
