r"""The linear-Gaussian likelihood with a noise of its own for each column, and features beside it.

    x_nd = z_n a_d + e_nd,   e_nd ~ N(0, σ_d²),   a_kd = σ_d a'_kd,  a'_kd ~ N(0, σ_a²),

so that X' = X/σ is the linear-Gaussian model with noise one, σ_a being in units of the noise. Its
kernels run on X' as they are, one M = (ZᵀZ + rI)⁻¹, r = 1/σ_a², serves all columns, and

    log P(X | Z) = log P_LG(X' | Z) − Σ_d n_d log σ_d,   n_d entries observed in column d,
    σ_d² | X, Z ~ InverseGamma(a + N/2, b_d + ½ (xᵀx − xᵀZ M Zᵀx))       x column d, complete,

with A integrated out; then σ_a, A and what is missing, as in tables of columns (``table``). With
b_d in proportion to the mean square of column d, the units of columns say nothing of Z.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from thali.data import Augmented, Data, Table
from thali.data.missing import first_guess
from thali.hyperparameters import Hyperprior, InverseGamma, Value, Values, check_hyperparameter
from thali.likelihoods.base import MaskedCollapsed, Parameters, Scale, Words
from thali.likelihoods.entries import NormalEntries
from thali.likelihoods.gibbs_updates import GibbsState, LatentBits, Turned
from thali.likelihoods.linear_gaussian import LinearGaussian, scales_and_features
from thali.likelihoods.table import (
    AUTO,
    EFFECTS,
    FIRST_NOISE,
    NOISE,
    PerLatent,
    Totals,
    draw_noise,
    is_auto,
    redrawn,
    within,
)
from thali.registry import BEHIND
from thali.settings import Settings, hyperparameter
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior


@BEHIND.register("column_noise")
@dataclass(frozen=True)
class ColumnNoise(Settings, LatentBits, MaskedCollapsed):
    """What ``LinearGaussian(noise="column")`` stands for in a model.

    Parameters
    ----------
    sigma_a : float, hyperprior or "auto", default "auto"
        The size of the features in units of the noise of each column.
    noise : "auto" or (D,) array, default "auto"
        The noise σ_d of each column, a standard deviation: inferred, or numbers.
    law : InverseGamma or "auto", default "auto"
        The prior of every σ_d²; "auto" is InverseGamma(2, v_d/5), v_d the mean square of column d.

    Examples
    --------
    >>> import numpy as np
    >>> likelihood = ColumnNoise(sigma_a=1.0, noise=np.array([0.5]))
    >>> round(likelihood.log_marginal(np.zeros((1, 1)), np.zeros((1, 0))), 4)  # N(0; 0, 0.25)
    -0.2258
    """

    sigma_a: Scale = hyperparameter(
        AUTO, symbol="σₐ", words="size of the features, in units of the noise"
    )
    noise: PerLatent = hyperparameter(AUTO, symbol="σ", words="size of the noise of each column")
    law: InverseGamma | str = AUTO
    sizes: tuple[float, ...] = field(default=(), repr=False)  # root mean squares of the columns

    axes: ClassVar[dict[str, int]] = {"A": 0}
    starts: ClassVar[tuple[str, ...]] = ("race", "latent_ica", "empty", "prior")
    words: ClassVar[Words] = Words(
        "Each feature is a pattern that is added to every row that has it, most frequent first.",
        "X = Z A + noise: a row of the data X is the sum of the features A that it has (Z says "
        "which: 1 or 0), plus noise, of which each column has its own size.",
    )

    def __post_init__(self) -> None:
        if not is_auto(self.sigma_a):
            check_hyperparameter("LinearGaussian", "sigma_a", self.sigma_a)

    # for the model

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def resolve(self, data: Data) -> Self:
        squares, counts = np.square(data.zeroed).sum(axis=0), data.seen.sum(axis=0)
        sizes = np.sqrt(squares / np.maximum(counts, 1))
        sizes = np.where(sizes > 0.0, sizes, 1.0)  # zeros have no size of their own
        sigma_a = EFFECTS if is_auto(self.sigma_a) else self.sigma_a
        return self.replace(sigma_a=sigma_a, sizes=tuple(sizes.tolist()))

    def start(self, data: Data) -> dict[str, Value]:
        """Whatever the data, since starts look at these in units of this noise."""
        sigma_a = 1.0 if isinstance(self.sigma_a, Hyperprior | str) else float(self.sigma_a)
        noise = FIRST_NOISE * np.array(self.sizes) if is_auto(self.noise) else self.noise
        return {"sigma_a": sigma_a, "noise": noise}

    def check_data(self, data: Data) -> None:
        if data.sparse:
            raise ValueError("X is a sparse matrix; make it dense first.")

    def guess(self, data: Data) -> Data:
        """Complete data in units of the first noise."""
        return Data(self._completed(data.given) / self.start(data)["noise"])

    def _completed(self, data: Data) -> np.ndarray:
        """A first guess in place of what is missing, columns being compared in their own units."""
        if data.observed is None:
            return np.asarray(data.X)
        sizes = np.array(self.sizes)
        return first_guess(data.X / sizes, data.observed) * sizes

    @property
    def inner(self) -> LinearGaussian:
        """The model of X'."""
        return LinearGaussian(sigma_x=1.0, sigma_a=self.sigma_a)

    # A integrated out

    def log_marginal(self, X: Table, Z: ArrayLike) -> float:
        data = Data.of(X)
        return self.inner.log_marginal(self._inside(data), Z) - log_units(data, self.noise)

    def features(self, X: Table, Z: ArrayLike) -> np.ndarray:
        return self.inner.features(self._inside(Data.of(X)), Z) * self.noise

    def draw_features(self, rng: np.random.Generator, X: Table, Z: ArrayLike) -> np.ndarray:
        return self.inner.draw_features(rng, self._inside(Data.of(X)), Z) * self.noise

    def missing_entries(self, X: Table, Z: ArrayLike) -> NormalEntries:
        data = Data.of(X)
        inside = self.inner.missing_entries(self._inside(data), Z)
        own = np.asarray(self.noise)[data.where_missing[1]]
        return NormalEntries(inside.mean * own, inside.sd * own)

    def _inside(self, data: Data) -> Data:
        """X' of data that were given."""
        return data.given.in_units(np.asarray(self.noise, float))

    # steps

    def augments(self, data: Data) -> bool:
        return True

    def augment(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray, parameters: Parameters
    ) -> Data:
        """X' to begin with; where there is one, what is missing is drawn given the parameters, as
        steps on Z did not look at it."""
        if isinstance(data, Augmented):
            if data.given.observed is None or "A" not in parameters:
                return data
            A = parameters["A"] / np.asarray(self.noise, float)
            return redrawn(rng, data, np.asarray(Z, float), A)
        return Augmented(self.guess(data).X, source=data, latent=True)

    def refreshed(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: Values,
        hold: bool = False,
        fresh: bool = False,
    ) -> tuple[Data, Parameters, float]:
        """A is not kept, as it can be drawn again given Z: log P is of X alone."""
        found, _, told = self._drawn(rng, data, Z, hyper, hold)
        return found, {}, told

    def _drawn(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray, hyper: Values, hold: bool
    ) -> tuple[Data, np.ndarray, float]:
        """σ, σ_a, A and what is missing, and log P(X | Z) of what was observed."""
        given, (n, d) = data.given, data.X.shape
        Y = np.array(given.X)
        if given.observed is not None:
            drawn = data.X * hyper["noise"] if data.whole else self._completed(given)
            Y[given.where_missing] = drawn[given.where_missing]
        W = Z.astype(float)
        totals = Totals(W.T @ W, W.T @ Y, np.einsum("nd,nd->d", Y, Y))
        if is_auto(self.noise) and not hold:
            hyper["noise"] = self._noise(rng, totals, n, hyper["sigma_a"])
        noise = np.asarray(hyper["noise"], float)
        squares = float((totals.squares / noise**2).sum())
        inside = totals.C, totals.T / noise, squares
        told, A = scales_and_features(rng, self.inner, *inside, n, d, within(hyper), hold)
        A = A * noise
        if given.observed is None:
            told -= log_units(given, noise)
        else:
            rows, columns = given.where_missing
            spread = noise[columns] * rng.standard_normal(len(rows))
            Y[rows, columns] = np.einsum("ik,ki->i", W[rows], A[:, columns]) + spread
            told = self.at(**{k: hyper[k] for k in ("sigma_a", "noise")}).log_marginal(given, Z)
        return Augmented(Y / noise, source=given, latent=True), A, told

    def _noise(
        self, rng: np.random.Generator, totals: Totals, n: int, sigma_a: float
    ) -> np.ndarray:
        """σ given Y and Z, with A integrated out."""
        law = self.law if isinstance(self.law, InverseGamma) else NOISE
        unit = np.square(self.sizes) if is_auto(self.law) else np.ones(len(self.sizes))
        left = totals.left(np.full(len(totals.C), 1.0 / sigma_a**2))
        return draw_noise(rng, left, n, law.shape, law.scale * unit)

    # what samplers that keep A ask for

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        inside = self.inner.new_parameters(rng, data, k, within(hyper))["A"]
        return {"A": inside * hyper["noise"]}

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        return self.inner.update_bits(rng, inside_of(state), bits)

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        inside = inside_of(state)
        self.inner.update_own(rng, inside, tables, turned)
        state.bits = inside.bits
        state.parameters = {"A": inside.parameters["A"] * state.hyper["noise"]}

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """All but Z, with what is missing."""
        state.data, A, told = self._drawn(rng, state.data, state.bits, state.hyper, hold)
        state.parameters = {"A": A}
        return told

    def log_density(self, state: GibbsState) -> float:
        noise, given = np.asarray(state.hyper["noise"], float), state.data.given
        inside = inside_of(state)
        inside.data = given.in_units(noise)
        told = self.inner.log_density(inside) - len(inside.parameters["A"]) * np.log(noise).sum()
        return float(told) - log_units(given, noise)

    # densities and draws given A

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self.inner.sample_features(rng, k, d) * self.noise

    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        mean = self.mean(Z, A)
        return np.asarray(mean + self.noise * rng.standard_normal(mean.shape))

    def log_likelihood(self, X: Table, Z: ArrayLike, A: ArrayLike) -> float:
        data = Data.of(X)
        inside = self.inner.log_likelihood(self._inside(data), Z, np.asarray(A, float) / self.noise)
        return inside - log_units(data, self.noise)

    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> NormalEntries:
        """x_nd ~ N(z_n a_d, σ_d²)."""
        mean = self.mean(Z, parameters["A"])
        return NormalEntries(mean[where], np.broadcast_to(self.noise, mean.shape)[where])


def log_units(data: Data, noise: PerLatent) -> float:
    """Σ log dx/dx' over what was observed."""
    return float(data.given.seen.sum(axis=0) @ np.log(np.asarray(noise, float)))


def inside_of(state: GibbsState) -> GibbsState:
    """The same as a state of the model of X'."""
    A = np.ascontiguousarray(state.parameters["A"] / state.hyper["noise"])
    return GibbsState(state.data, state.bits, {"A": A}, within(state.hyper))
