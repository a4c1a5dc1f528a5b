r"""The nonnegative linear-Gaussian likelihood X = Z A + E, a_kd ≥ 0 (Reed, Ghahramani 2013, 3.1).

    e_nd ~ N(0, σ_x²)
    a_kd ~ N(0, σ_a²) cut off below zero     log p(A) = Σ_kd log 2 − ½ log 2πσ_a² − a_kd²/2σ_a²
    or a_kd ~ Exponential(λ), λ = √2/σ_a     log p(A) = Σ_kd log λ − λ a_kd

of which σ_a is the root mean square, under either law. A cannot be integrated out, so it is kept:
one entry given the others is truncated normal, and a feature that only one row has is born and dies
with its part of A integrated out (``kernels/nonnegative_features.py``). Bits and σ_x given A are as
those of A with any sign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import ExpectedBits, Masked, Parameters, Scale, TakesSparse, Words
from thali.likelihoods.exponential_features import ExponentialFeatures, rate_of
from thali.likelihoods.feature_posteriors import NonnegativeFeatures
from thali.likelihoods.gaussian_scales import (
    GaussianScales,
    log_noise,
    log_normal,
    scale_given_squares,
    scale_given_sum,
)
from thali.likelihoods.gibbs_updates import EstimatesEvidence, GibbsState, MovesSingly, Turned
from thali.likelihoods.linear_gaussian import turn_bits_given_features
from thali.likelihoods.moving_rows import gaussian_rows
from thali.likelihoods.search_rows import EXPONENTIAL, HALF_NORMAL, PositiveFeatures
from thali.likelihoods.tempered import Tempered
from thali.registry import LIKELIHOODS
from thali.settings import check_settings, hyperparameter, setting
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior
    from thali.kernels.gaussian_moves import GaussianMoves
    from thali.kernels.positive_entries import Entries

PASSES = 3  # over A in a step: a pass costs K²D, the rows NKD
TRIES = 4  # births or deaths a row in a step


@LIKELIHOODS.register("nonnegative_linear_gaussian")
@dataclass(frozen=True)
class NonnegativeLinearGaussian(
    GaussianScales,
    MovesSingly,
    Tempered,
    EstimatesEvidence,
    PositiveFeatures,
    Masked,
    ExpectedBits,
    TakesSparse,
):
    """A row is the sum of its features, which have no negative entries, and Gaussian noise.

    The data may have negative entries, since the noise does.

    Parameters
    ----------
    sigma_x : float, hyperprior or "auto", default "auto"
        The size of the noise, a standard deviation.
    sigma_a : float, hyperprior or "auto", default "auto"
        The size of the features: the root mean square of the entries of A, under either law.
    law : {"half_normal", "exponential"}, default "half_normal"
        The prior of an entry of A: a normal distribution cut off below zero, or an exponential one,
        of rate √2/``sigma_a``, which has more entries near zero and more that are large.

    Notes
    -----
    A number is fixed; a hyperprior means that the scale is inferred. "auto" infers it under a weak
    prior centered on the data: σ_x² ~ InverseGamma(1, v/100) and σ_a² ~ InverseGamma(2, v), v the
    mean square of the data.

    Examples
    --------
    >>> import numpy as np
    >>> lik = NonnegativeLinearGaussian(sigma_x=0.5, sigma_a=1.0)
    >>> bool((lik.sample_features(np.random.default_rng(0), 3, 4) >= 0.0).all())
    True
    >>> lik = NonnegativeLinearGaussian(sigma_a=2.0, law="exponential")
    >>> float(lik.sample_features(np.random.default_rng(0), 100, 100).mean().round(1))  # 2/√2
    1.4
    """

    sigma_x: Scale = hyperparameter("auto", symbol="σₓ", words="size of the noise")
    sigma_a: Scale = hyperparameter("auto", symbol="σₐ", words="size of the features")
    law: str = setting(
        HALF_NORMAL,
        help="Law of the features' entries, none below zero",
        choices=(HALF_NORMAL, EXPONENTIAL),
    )

    axes: ClassVar[dict[str, int]] = {"A": 0}
    initial_updates: ClassVar[int] = 20
    words: ClassVar[Words] = Words(
        "Each feature is a pattern without negative values that is added to every row that has it, "
        "most frequent first.",
        "X = Z A + noise, no entry of A below zero: a row of the data X is the sum of the features "
        "A that it has (Z says which: 1 or 0), plus noise.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.law not in (HALF_NORMAL, EXPONENTIAL):  # a sweep makes it anew: no more than that
            check_settings(self)

    def feature_posterior(self, k: int, d: int, sigma_a: float, joint: bool) -> NonnegativeFeatures:
        kind = ExponentialFeatures if self._exponential else NonnegativeFeatures
        return kind.prior(k, d, sigma_a)

    # sampling and densities

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self._draw(rng, k, d, self._sigma_a)

    # Gibbs updates

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        return {"A": self._draw(rng, k, data.d, hyper["sigma_a"])}

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        """Given A and what was observed of each row."""
        return turn_bits_given_features(rng, state, bits)

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Births and deaths given what was observed of each row, a few tries a row."""
        from thali.kernels.nonnegative_features import own_features, own_observed_features
        from thali.kernels.row_potentials import other_features

        A, Z, m, law = state.parameters["A"], state.bits, turned.m, self._entries(state.hyper)
        others = other_features(tables.row_potentials, Z, m)
        E = state.data.X - Z.astype(float) @ A
        if state.observed is None:
            stays, rows, born = own_features(
                rng, E, Z, m, A, others, tables, tables.capacity, law, TRIES
            )
        else:
            stays, rows, born = own_observed_features(
                rng, E, state.observed, Z, m, A, others, tables, law, TRIES
            )
        new = np.zeros((len(Z), len(rows)), np.uint8)
        new[rows, np.arange(len(rows))] = 1
        own = np.flatnonzero(stays & (m == 1))
        stays = np.concatenate([np.flatnonzero(m > 1), own[Z[:, own].any(axis=0)]])
        state.bits = np.ascontiguousarray(np.concatenate([Z[:, stays], new], axis=1))
        state.parameters = {"A": np.concatenate([A[stays], born])}

    def moving_rows(self, state: GibbsState, room: int) -> GaussianMoves:
        from thali.kernels.gaussian_moves import POSITIVE

        return gaussian_rows(state, room, POSITIVE, self._entries(state.hyper))

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """A given Z and the scales, entry by entry; then the scales given A."""
        from thali.kernels.nonnegative_features import draw_features

        data, hyper = state.data, state.hyper
        C, T, A = sums(data.X, state.bits, state.parameters["A"])
        draw_features(rng, C, T, A, self._entries(hyper), PASSES)
        if not hold:
            squares = float(np.square(data.X - state.bits.astype(float) @ A).sum())
            hyper["sigma_x"] = scale_given_squares(
                rng, self.sigma_x, hyper["sigma_x"], squares, data.X.size
            )
            given = self.sigma_a, hyper["sigma_a"]
            if self._exponential:
                total = rate_of(1.0) * float(A.sum())
                hyper["sigma_a"] = scale_given_sum(rng, *given, total, A.size)
            else:
                squares = float(np.square(A).sum())
                hyper["sigma_a"] = scale_given_squares(rng, *given, squares, A.size)
        state.parameters = {"A": A}
        return self.log_density(state)

    def log_density(self, state: GibbsState) -> float:
        A, hyper = state.parameters["A"], state.hyper
        given = log_noise(state.data, state.bits, A, hyper["sigma_x"])
        if self._exponential:
            rate = rate_of(hyper["sigma_a"])
            return given + A.size * float(np.log(rate)) - rate * float(A.sum())
        return given + A.size * float(np.log(2.0)) + log_normal(A, hyper["sigma_a"])

    def estimate_evidence(self, rng: np.random.Generator, state: GibbsState) -> float:
        """log P(X, A' | Z) − log q(A' | A), A' one pass of Gibbs sampling from A.

        With q the density of A' given Z and X this would be log P(X | Z), whatever A' (Chib 1995).
        The pass's own density instead makes it a lower bound on average, less the mutual
        information of A and A', and exact for a single feature.
        """
        from thali.kernels.nonnegative_features import draw_features, log_density_of_pass

        law = self._entries(state.hyper)
        C, T, A = sums(state.data.X, state.bits, state.parameters["A"])
        before = A.copy()
        draw_features(rng, C, T, A, law, 1)
        passed = log_density_of_pass(C, T, before, A, law)
        return self.log_density(replace(state, parameters={"A": A})) - float(passed)

    @property
    def _exponential(self) -> bool:
        return self.law == EXPONENTIAL

    def _draw(self, rng: np.random.Generator, k: int, d: int, sigma_a: float) -> np.ndarray:
        """A of k features from its prior."""
        if self._exponential:
            return rng.standard_exponential((k, d)) / rate_of(sigma_a)
        return sigma_a * np.abs(rng.standard_normal((k, d)))

    def _entries(self, hyper: Values) -> Entries:
        """The law of an entry, as kernels have it."""
        from thali.kernels.positive_entries import exponential, half_normal

        sigma_x, sigma_a = hyper["sigma_x"], hyper["sigma_a"]
        if self._exponential:
            return exponential(sigma_x, rate_of(sigma_a))
        return half_normal(sigma_x, sigma_a)


def sums(X: np.ndarray, Z: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C = ZᵀZ, T = ZᵀX, and a copy of A to change."""
    real = Z.astype(float)
    return real.T @ real, real.T @ X, np.array(A, order="C")
