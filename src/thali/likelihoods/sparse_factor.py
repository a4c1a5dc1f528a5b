r"""Sparse factors X = (Z ⊙ S) A + E: a row has features by its own amounts.

    s_nk ~ Laplace(1)  (infinite independent components)  or  N(0, 1)  (infinite factors)
    a_kd ~ N(0, σ_a²),  E ~ N(0, σ_x²)             (Knowles and Ghahramani 2007)

The slab has unit scale and A carries the size. With W = Z ⊙ S for Z, all that the
linear-Gaussian likelihood has in closed form given Z is so given W: A | X, W is Gaussian and

    log P(X, S | Z) = log P(X | W) + Σ_{z_nk = 1} log p(s_nk),   A integrated out,

which is the log density that is reported, of draws and of the point estimate, and of X_obs where
entries are missing. S is kept, with zeros where Z is zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods import masked_columns
from thali.likelihoods.base import Expected, Masked, Parameters, Scale, Words
from thali.likelihoods.entries import NormalEntries
from thali.likelihoods.feature_posteriors import GaussianFeatures
from thali.likelihoods.gaussian_scales import GaussianScales, log_evidences
from thali.likelihoods.gibbs_updates import GibbsState, MovesSingly, Turned
from thali.likelihoods.linear_gaussian import products, scales_then_features, with_own_features
from thali.likelihoods.moving_rows import gaussian_rows
from thali.likelihoods.observed_rows import (
    dimensions,
    observed_products,
    observed_residual,
    own_features,
)
from thali.likelihoods.search_rows import SlabAmounts
from thali.likelihoods.tempered import Densities, Tempered
from thali.registry import LIKELIHOODS
from thali.settings import check_settings, hyperparameter, setting
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior
    from thali.kernels.gaussian_moves import GaussianMoves

SLABS = ("laplace", "gaussian")


@LIKELIHOODS.register("sparse_factor")
@dataclass(frozen=True)
class SparseFactor(GaussianScales, MovesSingly, Tempered, SlabAmounts, Masked, Expected):
    """A row takes each of its features in an amount of its own, of either sign; plus noise.

    Parameters
    ----------
    slab : {"laplace", "gaussian"}, default "laplace"
        The distribution of the amounts. "laplace" has heavy tails (infinite independent
        components); "gaussian" is infinite factor analysis.
    sigma_x : float, hyperprior or "auto", default "auto"
        The size of the noise, a standard deviation.
    sigma_a : float, hyperprior or "auto", default "auto"
        The size of the features: the standard deviation of the entries of A.

    Notes
    -----
    A number is fixed; a hyperprior means that the scale is inferred. "auto" infers it under a weak
    prior centered on the data: σ_x² ~ InverseGamma(1, v/100) and σ_a² ~ InverseGamma(2, v), v the
    mean square of the data. ``log_likelihood(X, W, A)`` takes the amounts W = Z ⊙ S in place of Z.

    Examples
    --------
    >>> import numpy as np
    >>> likelihood = SparseFactor(slab="laplace", sigma_x=0.1, sigma_a=1.0)
    >>> A = likelihood.sample_features(np.random.default_rng(0), k=2, d=3)
    >>> likelihood.sample(np.random.default_rng(1), np.ones((5, 2)), A).shape
    (5, 3)
    """

    slab: str = setting("laplace", help="Distribution of the amounts", choices=SLABS)
    sigma_x: Scale = hyperparameter("auto", symbol="σₓ", words="size of the noise")
    sigma_a: Scale = hyperparameter("auto", symbol="σₐ", words="size of the features")

    axes: ClassVar[dict[str, int]] = {"A": 0, "S": 1}
    starts: ClassVar[tuple[str, ...]] = ("sparse_ica", "prior", "empty")
    initial_updates: ClassVar[int] = 30
    words: ClassVar[Words] = Words(
        "Each feature is a pattern of which every row that has it takes an amount of its own, of "
        "either sign, most frequent first.",
        "X = (Z ⊙ S) A + noise: a row of the data X is a sum of the features A that it has (Z says "
        "which: 1 or 0), each in an amount S of the row’s own, plus noise.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        super().__post_init__()

    @property
    def amounts(self) -> str | None:
        return self.slab

    def feature_posterior(self, k: int, d: int, sigma_a: float, joint: bool) -> GaussianFeatures:
        return GaussianFeatures.prior(k, d, sigma_a, joint)

    # sampling and densities

    def sample_weights(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Draw S from the slab, for all entries."""
        return rng.laplace(size=shape) if self.slab == "laplace" else rng.standard_normal(shape)

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self._sigma_a * rng.standard_normal((k, d))

    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """Draw S from the slab, then X given Z, S and A."""
        Z = np.asarray(Z, float)
        return super().sample(rng, Z * self.sample_weights(rng, Z.shape), A)

    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> NormalEntries:
        """x_nd ~ N((z_n ⊙ s_n) a_d, σ_x²)."""
        return super().entries(np.asarray(Z) * parameters["S"], parameters, where)

    @property
    def sums_amounts(self) -> bool:  # type: ignore[override]
        """Whether the amounts of a row can be integrated out given A: those of a Gaussian slab."""
        return not self._laplace

    def log_rows(self, data: Data, bits: np.ndarray, parameters: Parameters) -> np.ndarray:
        """log N(x; 0, σ_x² I + A_zᵀA_z), S integrated out (Gaussian slab), the columns seen alone.

        With M_z = σ_x² I + A_zA_zᵀ, K×K and σ_x² where z is zero, and b = A_z x:
        −½ [(xᵀx − bᵀM_z⁻¹b)/σ_x² + log|M_z| + (D − K) log σ_x² + D log 2π].
        """
        variance = self._sigma_x**2
        k, z = bits.shape[1], bits.astype(float)
        both = z[:, :, None] * z[:, None, :]
        found = np.empty((data.n, len(bits)))
        for mine, seen in data.alike():
            A, x = parameters["A"][:, seen], data.X[np.ix_(mine, seen)]
            M = variance * np.eye(k) + both * (A @ A.T)
            b = x @ A.T
            products = np.einsum("nk,nl->nkl", b, b).reshape(len(x), k * k)
            fit = products @ (both * np.linalg.inv(M)).reshape(len(bits), k * k).T
            squares = (np.square(x).sum(axis=1)[:, None] - fit) / variance
            d = x.shape[1]
            constant = (d - k) * np.log(variance) + d * np.log(2.0 * np.pi)
            found[mine] = -0.5 * (squares + np.linalg.slogdet(M)[1] + constant)
        return found

    def log_slab(self, s: np.ndarray) -> float:
        """Σ log p(s)."""
        if self.slab == "laplace":
            return float(-np.abs(s).sum() - s.size * np.log(2.0))
        return float(-0.5 * np.square(s).sum() - 0.5 * s.size * np.log(2.0 * np.pi))

    def log_density(self, state: GibbsState) -> float:
        """log P(X_obs, S | Z), A integrated out: the A of the state is not looked at."""
        bits, hyper = state.bits != 0, state.hyper
        S = state.parameters["S"]
        _, evidence = features_given_amounts(state.data, bits * S, hyper)
        return evidence + self.log_slab(S[bits])

    def representative(self, state: GibbsState, draws: Iterable[Parameters]) -> Parameters:
        """Mean amounts over the draws, and E[A | X_obs, W] at these.

        (s_k, a_k) and (−s_k, −a_k) are the same, so that a column is turned to the side of the
        first draw's before it is averaged. Its scale, which s_k and a_k trade, need not be: A is
        not averaged but fitted to the mean amounts.
        """
        first, total, count = None, np.zeros(state.bits.shape), 0
        for draw in draws:
            S = draw["S"]
            first = S if first is None else first
            total += S * np.where((S * first).sum(axis=0) < 0.0, -1.0, 1.0)
            count += 1
        S = total / count
        return {"A": features_given_amounts(state.data, S, state.hyper)[0], "S": S}

    # Gibbs updates

    @property
    def _laplace(self) -> bool:
        return self.slab == "laplace"

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        A = hyper["sigma_a"] * rng.standard_normal((k, data.d))
        return {"A": A, "S": self.sample_weights(rng, (data.n, k))}

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        """(z, s) of every entry given A and what was observed: z with s integrated out, then s."""
        from thali.kernels.sparse_factor import turn_entries

        S, A, sigma_x = state.parameters["S"], state.parameters["A"], state.hyper["sigma_x"]
        S *= state.bits
        state.fresh = True
        if state.observed is None:
            B, R, G = products(state.data.X, S, A)
            turn_entries(rng, R, G, None, state.bits, S, bits, sigma_x, self._laplace)
            return Turned(bits.m, (B, R, G))
        rows = observed_products(state, S, A)
        turn_entries(rng, *rows, state.bits, S, bits, sigma_x, self._laplace)
        return Turned(bits.m)

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Births and deaths with the own features' A integrated out; then their A, exactly."""
        from thali.kernels.gaussian_row import Scales
        from thali.kernels.row_potentials import other_features
        from thali.kernels.sparse_factor import left_by_shared, move_own_features

        data, hyper, Z = state.data, state.hyper, state.bits
        scales = Scales(hyper["sigma_x"], hyper["sigma_a"], float(data.d))
        S, A = state.parameters["S"], state.parameters["A"]
        m = turned.m
        shared = m > 1
        if state.observed is None:
            left = data.X - S[:, shared] @ A[shared]
            rho = left_by_shared(*turned.products, data.squares, Z, S, m)
        else:
            left = observed_residual(state, S[:, shared], A[shared])
            rho = np.square(left).sum(axis=1)
        others = other_features(tables.row_potentials, Z, m)
        counts, s = move_own_features(
            rng, rho, dimensions(state), Z, S, m, others, tables, scales, self._laplace
        )
        state.bits, _ = with_own_features(Z, m, counts)
        rows = np.repeat(np.arange(data.n), counts)
        new = np.zeros((data.n, len(s)))
        new[rows, np.arange(len(s))] = s
        own = own_features(rng, left, state.observed, rows, s, hyper)
        state.parameters = {
            "A": np.concatenate([A[shared], own]),
            "S": np.concatenate([S[:, shared], new], axis=1),
        }

    def moving_rows(self, state: GibbsState, room: int) -> GaussianMoves:
        from thali.kernels.gaussian_moves import AMOUNTS, LAPLACE

        return gaussian_rows(state, room, LAPLACE if self._laplace else AMOUNTS)

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """S given A; the scale between S and A; scales with A integrated out; A given S."""
        S = self.update_amounts(rng, state)
        evidence, A = scales_then_features(rng, self, state, S, hold)
        state.parameters = {"A": A, "S": S}
        return evidence + self.log_slab(S[state.bits != 0])

    def update_amounts(self, rng: np.random.Generator, state: GibbsState) -> np.ndarray:
        """S given A, unless it was drawn along with Z; then the scale between S and A; A must be
        drawn next."""
        from thali.kernels.sparse_factor import redraw_weights

        Z, A, hyper = state.bits, state.parameters["A"], state.hyper
        S = state.parameters["S"] * Z
        if not state.fresh:
            _, R, G = products(state.data.X, S, A)
            redraw_weights(rng, R, G, Z, S, hyper["sigma_x"], self._laplace)
        state.fresh = False
        S *= self._rescaling(rng, Z, S, A, hyper["sigma_a"])
        return S

    def log_densities(self, data: Data, state: GibbsState) -> Densities:
        """log P(X_obs, S | Z), A integrated out."""
        if data.observed is not None:
            return super().log_densities(data, state)
        S = state.parameters["S"] * state.bits
        given, slab = log_evidences(data, S), self.log_slab(S[state.bits != 0])
        return lambda hyper: given(hyper) + slab

    def redrawn(self, rng: np.random.Generator, data: Data, state: GibbsState) -> Parameters:
        """A draw (A', X') from the prior, and A' + E[A | X_obs − X', S]: A given X_obs and S."""
        S, hyper = state.parameters["S"] * state.bits, state.hyper
        A = hyper["sigma_a"] * rng.standard_normal((S.shape[1], data.d))
        drawn = S @ A + hyper["sigma_x"] * rng.standard_normal(data.X.shape)
        left = Data(data.X - drawn, data.observed)
        return {"A": A + features_given_amounts(left, S, hyper)[0], "S": S}

    def _rescaling(
        self, rng: np.random.Generator, Z: np.ndarray, S: np.ndarray, A: np.ndarray, sigma_a: float
    ) -> np.ndarray:
        """Factors of the columns of S, which A then has the inverse of (K,)."""
        from thali.kernels.sparse_factor import rescaling

        m, d = Z.sum(axis=0, dtype=np.int64), A.shape[1]
        size = np.abs(S).sum(axis=0) if self._laplace else 0.5 * np.square(S).sum(axis=0)
        length = 0.5 * np.square(A / sigma_a).sum(axis=1)
        return np.asarray(rescaling(rng, m, d, size, length, self._laplace))


def features_given_amounts(data: Data, W: np.ndarray, hyper: Values) -> tuple[np.ndarray, float]:
    """E[A | X_obs, W] and log P(X_obs | W), A integrated out."""
    sigma_x, sigma_a = hyper["sigma_x"], hyper["sigma_a"]
    A, log_dets, explained = masked_columns.solve_amounts(data, W, (sigma_x / sigma_a) ** 2)
    k = W.shape[1]
    return A, masked_columns.log_evidence(data, log_dets, explained, k, sigma_x, sigma_a)
