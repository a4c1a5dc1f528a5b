r"""Tables whose columns are of different kinds: latent Gaussians Y = b + σ (Z A + E), and a link.

Every column has a latent of its own (``latent_columns``; one with levels has one for each), with a
bias b that every row has, and noise of size σ: inferred, or one where a unit cannot be told. The
features' effects are in proportion to the noise, a_kl ~ N(0, σ_a²) in units of σ_l, so that

    X' = (Y − b)/σ = Z A + E,   E ~ N(0, 1)

is the linear-Gaussian model with noise one, and its kernels run on X' as they are. With r = 1/σ_a²,
W = [1 Z] and the prior precisions R = diag(1/τ², r, …, r), both b/σ and A are integrated out for

    σ_l² | Y, Z ~ InverseGamma(a + N/2, s + ½ (yᵀy − yᵀW (WᵀW + R)⁻¹ Wᵀy)),

b follows given σ, then σ_a with A integrated out, A, the cutpoints of ordinal columns given A with
Y integrated out, and Y given all of these and what was observed: each leaves the posterior
invariant. Gaps are latents of which nothing is known: steps on Z integrate them out, row by row,
since the bits that they were drawn from would else hardly change, and they are drawn anew after.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import ChainMap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from thali.data import Augmented, Data, Table
from thali.data.columns import Columns
from thali.data.missing import first_guess
from thali.hyperparameters import (
    Hyperprior,
    InverseGamma,
    Value,
    Values,
    as_number,
    check_hyperparameter,
)
from thali.likelihoods.base import Expected, Parameters, Scale
from thali.likelihoods.feature_posteriors import GaussianFeatures
from thali.likelihoods.gaussian_scales import log_normal
from thali.likelihoods.gibbs_updates import GibbsState, LatentGaussians, Turned
from thali.likelihoods.latent_columns import Layout
from thali.likelihoods.latent_draws import Shown
from thali.likelihoods.latent_entries import LatentEntries
from thali.likelihoods.linear_gaussian import LinearGaussian, scales_and_features
from thali.likelihoods.sparse_factor import SparseFactor
from thali.settings import Settings, hyperparameter
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior

AUTO = "auto"
EFFECTS = InverseGamma(2.0, 2.0)  # of σ_a², in units of the noise
NOISE = InverseGamma(2.0, 0.2)  # of σ², in units of the variance of a column
BIAS = {True: 2.0, False: 10.0}  # τ: of latents with unit noise, and of others
FIRST_NOISE = 0.7
PerLatent = str | np.ndarray  # "auto", or a number for each latent


@dataclass(frozen=True)
class TableLikelihood(Settings, LatentGaussians, Expected):
    """What likelihoods of tables share: all but how a row has its features.

    ``inner`` is the model of X', whose steps on bits and on features of one row are used; ``weigh``
    says what a row has of each feature, W, and ``update_amounts`` is a step on that, given A.
    """

    types: object = AUTO
    sigma_a: Scale = hyperparameter(
        AUTO, symbol="σₐ", words="size of the effects, in units of the noise"
    )
    noise: PerLatent = hyperparameter(AUTO, symbol="σ", words="size of the noise of each column")
    biases: PerLatent = hyperparameter(AUTO, symbol="b", words="level that all rows share")
    cutpoints: PerLatent = hyperparameter(AUTO, symbol="c", words="bounds between ordered levels")
    bias: bool = True
    layout: Layout | None = field(default=None, repr=False)

    @property
    @abstractmethod
    def inner(self) -> LinearGaussian | SparseFactor:
        """The model of X'."""

    @abstractmethod
    def weigh(self, Z: ArrayLike, parameters: Parameters) -> np.ndarray:
        """W: what each row has of each feature, (N, K)."""

    @abstractmethod
    def update_amounts(self, rng: np.random.Generator, state: GibbsState) -> Parameters:
        """A step on what W has besides Z, given A, of a state of the inner model; A is not among
        what it returns."""

    @abstractmethod
    def log_amounts(self, Z: np.ndarray, parameters: Parameters) -> float:
        """The log density of the amounts in W."""

    def __post_init__(self) -> None:
        if not (isinstance(self.sigma_a, str) and self.sigma_a == AUTO):
            check_hyperparameter(type(self).__name__, "sigma_a", self.sigma_a)

    # what the columns are

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def columns_of(self, X: Table) -> Columns:
        """What the columns of a table are."""
        return Columns.of(X, self.types)

    def with_layout(self, columns: Columns, codes: np.ndarray) -> Self:
        """The same for a table of these columns, measured by these codes."""
        layout = Layout(columns)
        return self.replace(layout=layout.measured(layout.expand(codes)))

    def resolve(self, data: Data) -> Self:
        if self.layout is None:
            raise ValueError("The columns are not known yet; fit a table to it.")
        if data.d != self.known.n_latents:
            raise ValueError(
                f"The data have {data.d} columns, and the table has "
                f"{self.known.n_latents} latent ones."
            )
        return self.replace(sigma_a=EFFECTS if self.sigma_a == AUTO else self.sigma_a)

    @property
    def known(self) -> Layout:
        """The layout, once there is one."""
        assert self.layout is not None
        return self.layout

    def start(self, data: Data) -> dict[str, Value]:
        layout = self.known
        sigma_a = 1.0 if isinstance(self.sigma_a, Hyperprior | str) else float(self.sigma_a)
        noise = np.where(layout.unit, 1.0, FIRST_NOISE) if is_auto(self.noise) else self.noise
        biases = np.array(layout.middle) * self.bias if is_auto(self.biases) else self.biases
        cut = layout.first_cutpoints() if is_auto(self.cutpoints) else self.cutpoints
        return {"sigma_a": sigma_a, "noise": noise, "biases": biases, "cutpoints": cut}

    def check_data(self, data: Data) -> None:
        if data.sparse:
            raise ValueError("X is a sparse matrix; make it dense first.")

    def guess(self, data: Data) -> Data:
        """Latents midway between their bounds, less the bias, in units of the noise."""
        Y = self.known.guess(data.given.X)
        seen = ~np.isnan(Y)
        Y = Y if seen.all() else first_guess(Y, seen)
        first = self.start(data)
        return Data(np.ascontiguousarray((Y - first["biases"]) / first["noise"]))

    # expectations

    @property
    def amounts(self) -> str | None:
        return self.inner.amounts

    def feature_posterior(self, k: int, d: int, sigma_a: float, joint: bool) -> GaussianFeatures:
        """Of effects in units of the noise."""
        return GaussianFeatures.prior(k, d, sigma_a, joint)

    # steps

    def augments(self, data: Data) -> bool:
        return True

    def augment(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray, parameters: Parameters
    ) -> Data:
        """Latents to begin with; of those that there are, for ``refreshed`` to draw, ones of which
        nothing was observed are drawn given the parameters, as steps on Z did not look at them."""
        if isinstance(data, Augmented):
            if data.given.observed is None or "A" not in parameters:
                return data
            return redrawn(rng, data, self.weigh(Z, parameters), parameters["A"])
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
        data = self.augment(rng, data, Z, {})
        shown = Shown.of(self.known, data.given)
        now = GibbsState(data, Z, parameters, within(hyper), fresh)
        amounts = self.update_amounts(rng, now)
        W = self.weigh(Z, amounts)
        Y = data.X * hyper["noise"] + hyper["biases"]
        totals = Totals.of(W, Y)
        self._noise_and_bias(rng, totals, hyper, hold)
        C, T, squares = totals.inside(hyper["noise"], hyper["biases"])
        n, d = Y.shape
        _, A = scales_and_features(rng, self.inner, C, T, squares, n, d, within(hyper), hold)
        found = {"A": A, **amounts}
        mean = W @ A * hyper["noise"] + hyper["biases"]
        if is_auto(self.cutpoints) and shown.ordered:
            hyper["cutpoints"] = shown.draw_cutpoints(rng, mean, cutpoints_of(hyper))
        shown.draw(rng, mean, hyper["noise"], cutpoints_of(hyper), Y)
        told = self._log_density(shown, mean, Z, found, hyper)
        return self._inside(data, Y, hyper), found, told

    def _inside(self, data: Data, Y: np.ndarray, hyper: Values) -> Augmented:
        """What the kernels see of latents Y."""
        return Augmented((Y - hyper["biases"]) / hyper["noise"], source=data.given, latent=True)

    def _noise_and_bias(
        self, rng: np.random.Generator, totals: Totals, hyper: Values, hold: bool
    ) -> None:
        """σ with b and A integrated out, then b with A integrated out, given Y and W."""
        infer_noise = is_auto(self.noise) and not hold
        infer_bias = is_auto(self.biases) and self.bias
        if not infer_noise and not infer_bias:
            return
        n, unit = int(totals.C[0, 0]), self.known.unit
        if not infer_bias:
            totals = totals.less(hyper["biases"])
        noise, biases = np.array(hyper["noise"]), np.array(hyper["biases"])
        for kind in (True, False):
            own = np.flatnonzero(unit == kind)
            if not len(own):
                continue
            precision = np.full(len(totals.C), 1.0 / hyper["sigma_a"] ** 2)
            if infer_bias:
                precision[0] = 1.0 / BIAS[kind] ** 2
            L, half = totals.halves(precision, own)
            if infer_noise and not kind:
                left = totals.squares[own] - np.square(half).sum(axis=0)
                noise[own] = draw_noise(rng, left, n, NOISE.shape, NOISE.scale)
            if infer_bias:
                draw = half / noise[own] + rng.standard_normal(half.shape)
                both = solve_triangular(L, draw, lower=True, trans="T")
                biases[own] = both[0] * noise[own]
        hyper["noise"], hyper["biases"] = noise, biases

    # what samplers that keep A ask for

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        return self.inner.new_parameters(rng, data, k, within(hyper))

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        """Given A and the latents."""
        inside = within_state(state)
        turned = self.inner.update_bits(rng, inside, bits)
        state.fresh = inside.fresh
        return turned

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        inside = within_state(state)
        self.inner.update_own(rng, inside, tables, turned)
        state.bits, state.parameters = inside.bits, inside.parameters

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """All but Z, latents included."""
        state.data, state.parameters, log_density = self.refreshed(
            rng, state.data, state.bits, state.parameters, state.hyper, hold, state.fresh
        )
        state.fresh = False
        return log_density

    def log_density(self, state: GibbsState) -> float:
        """log P(X_obs, A and amounts | Z), latents integrated out."""
        own, hyper = state.parameters, state.hyper
        mean = self.weigh(state.bits, own) @ own["A"] * hyper["noise"] + hyper["biases"]
        shown = Shown.of(self.known, state.data.given)
        return self._log_density(shown, mean, state.bits, own, hyper)

    def _log_density(
        self, shown: Shown, mean: np.ndarray, Z: np.ndarray, own: Parameters, hyper: Values
    ) -> float:
        noise = np.asarray(hyper["noise"], float)
        told = shown.log_density(mean, noise, cutpoints_of(hyper))
        return told + log_normal(own["A"], hyper["sigma_a"]) + self.log_amounts(Z, own)

    # densities and draws given A

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        sigma_a = as_number(type(self).__name__, "sigma_a", self.sigma_a)
        return sigma_a * rng.standard_normal((k, d))

    def latent_mean(self, W: ArrayLike, A: ArrayLike) -> np.ndarray:
        """b + σ W A."""
        return np.asarray(W, float) @ np.asarray(A, float) * self.noise + self.biases

    def mean(self, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """E[X | Z, A], column by column: numbers, codes of ordered levels, probabilities."""
        return self.entries_at(self.latent_mean(Z, A)).mean

    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """Draw X given Z and A."""
        return self.entries_at(self.latent_mean(Z, A)).draw(rng)

    def log_likelihood(self, X: Table, Z: ArrayLike, A: ArrayLike) -> float:
        given = Data.of(X).X
        logs = self.entries_at(self.latent_mean(Z, A)).log_density(np.nan_to_num(given))
        return float(np.where(np.isnan(given), 0.0, logs).sum())

    def entries_at(self, mean: np.ndarray) -> LatentEntries:
        """The entries of whole rows with these means of latents, (…, L)."""
        return LatentEntries.of(self.known, mean, np.asarray(self.noise), self.fixed_cutpoints)

    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> LatentEntries:
        mean = self.latent_mean(self.weigh(Z, parameters), parameters["A"])
        if max(np.ndim(each) for each in where) > 1:
            return self.entries_at(mean).at(where)
        own = np.asarray(self.noise), self.fixed_cutpoints
        return LatentEntries.some(self.known, mean, *own, (where[0], where[1]))

    @property
    def fixed_cutpoints(self) -> np.ndarray:
        """The cutpoints as numbers."""
        return np.zeros(0) if is_auto(self.cutpoints) else np.asarray(self.cutpoints, float)


class Totals(NamedTuple):
    """W₁ᵀW₁, W₁ᵀY and Σy² of each column, W₁ = [1 W]: all that σ, b and A ask of latents Y."""

    C: np.ndarray  # (K + 1, K + 1), or without the column of ones
    T: np.ndarray  # (K + 1, L)
    squares: np.ndarray  # (L,)

    @classmethod
    def of(cls, W: np.ndarray, Y: np.ndarray) -> Totals:
        W = np.concatenate([np.ones((len(W), 1)), W], axis=1)
        return cls(W.T @ W, W.T @ Y, np.einsum("nl,nl->l", Y, Y))

    def less(self, biases: np.ndarray) -> Totals:
        """Of Y − b, without the column of ones."""
        squares = self.squares - 2.0 * biases * self.T[0] + self.C[0, 0] * biases**2
        T = self.T[1:] - self.C[1:, :1] * biases
        return Totals(np.ascontiguousarray(self.C[1:, 1:]), T, np.maximum(squares, 0.0))

    def halves(
        self, precision: np.ndarray, own: np.ndarray | slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """L of C + diag(precision) = LLᵀ, and L⁻¹T of some columns."""
        L = np.linalg.cholesky(self.C + np.diag(precision))
        return L, solve_triangular(L, self.T[:, own], lower=True)

    def left(self, precision: np.ndarray) -> np.ndarray:
        """What is left of Σy² of each column when these explain it, with their sizes integrated
        out."""
        if not len(self.C):
            return self.squares
        return np.asarray(self.squares - np.square(self.halves(precision)[1]).sum(axis=0))

    def inside(self, noise: np.ndarray, biases: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """WᵀW, WᵀX' and Σx'² of X' = (Y − b)/σ."""
        left = self.less(biases)
        return left.C, left.T / noise, float((left.squares / noise**2).sum())


def draw_noise(
    rng: np.random.Generator, left: np.ndarray, n: int, shape: float, scale: float | np.ndarray
) -> np.ndarray:
    """σ of each column given what is left of its squares: σ² ~ InverseGamma(shape + n/2, …)."""
    rate = scale + 0.5 * np.maximum(left, 0.0)
    return np.asarray(np.sqrt(rate / rng.standard_gamma(shape + 0.5 * n, len(left))))


def is_auto(value: object) -> bool:
    """Whether it is to be inferred."""
    return isinstance(value, str) and value == AUTO


def cutpoints_of(hyper: Values) -> np.ndarray:
    """Those in a table of hyperparameters, which names none where there are none."""
    return np.asarray(hyper.get("cutpoints", ()), float)


def within(hyper: Values) -> Any:
    """The hyperparameters of the model of X', whose noise is one; others are written through."""
    return ChainMap(hyper, {"sigma_x": 1.0})


def redrawn(rng: np.random.Generator, data: Augmented, W: np.ndarray, A: np.ndarray) -> Augmented:
    """X' with new draws N(W A, 1) where nothing was observed."""
    X, (rows, columns) = np.array(data.X), data.given.where_missing
    mean = np.einsum("ik,ki->i", W[rows], A[:, columns])
    X[rows, columns] = mean + rng.standard_normal(len(rows))
    return Augmented(X, source=data.given, latent=True)


def within_state(state: GibbsState) -> GibbsState:
    """The same as a state of the model of X'."""
    return GibbsState(state.data, state.bits, state.parameters, within(state.hyper))
