r"""The noisy-or likelihood of binary data (Wood, Griffiths and Ghahramani 2006).

Rows i are nodes, columns t are trials, features are hidden causes; z_ik says that cause k acts on
node i, and y_kt that it is active in trial t:

    P(x_it = 1 | z, y) = 1 − (1−ε)(1−λ)^{z_i·y_t},   y_kt ~ Bernoulli(p)

ε is the chance that a node comes on by itself, λ that an active cause brings it on. Y (K×T) is kept
as the parameter named "A". With y ~ Bernoulli(p) summed out, j causes that only node i has give

    P(x_it = 1) = 1 − (1−ε)(1−λ)^{z_i·y_t}(1−λp)^j.

Given Y, p is conjugate; given the counts n_xc of entries with value x and c active features,

    log P(X | Z, Y) = Σ_c n_0c [log(1−ε) + c log(1−λ)] + n_1c log[1 − (1−ε)(1−λ)^c],

so that a slice step of ε or λ never touches the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p, sqrt
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from thali.data import Data, Table
from thali.hyperparameters import (
    Beta,
    Hyperprior,
    Values,
    as_number,
    check_hyperparameter,
    draw_probability,
    slice_step_of_probability,
)
from thali.likelihoods.base import Masked, Parameters, Words
from thali.likelihoods.entries import BinaryEntries
from thali.likelihoods.gibbs_updates import EstimatesEvidence, GibbsState, MovesSingly, Turned
from thali.likelihoods.moving_rows import ALL_SEEN, with_room
from thali.likelihoods.search_rows import CountedFeatures, CountProbabilities
from thali.likelihoods.tempered import AtTemperature, Cooling, Tempered
from thali.registry import LIKELIHOODS
from thali.settings import Settings, hyperparameter
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior
    from thali.kernels.noisy_or import Rates
    from thali.kernels.noisy_or_moves import NoisyOrMoves

NAMES = ("epsilon", "lam", "p")


@LIKELIHOODS.register("noisy_or")
@dataclass(frozen=True)
class NoisyOr(Settings, MovesSingly, Tempered, EstimatesEvidence, CountedFeatures, Masked):
    """Hidden causes bring binary data on, each independently of the others.

    X must be of 0 and 1. A draw's ``A`` is Y, K×T of 0 and 1: which cause is active in which column
    of X. ``components_`` has their probabilities given ``Z_`` (after ``BeamSearch``, the Y found
    with it), and ``log_joint_`` is log P(X, Y, [Z_]) with y = 1 where that is above one half.

    Parameters
    ----------
    epsilon : float or Beta, default Beta(1, 19)
        The leak: the probability that an entry is on by itself.
    lam : float or Beta, default Beta(4, 1)
        The strength: the probability that an active cause turns an entry on.
    p : float or Beta, default Beta(1, 4)
        The rate: the probability that a cause is active in a column.

    Notes
    -----
    A number is fixed; a ``Beta`` prior means that the probability is inferred. The default priors
    say that causes are strong and active in a minority of columns, and that little comes on by
    itself: without any such word a weak cause of everything and a leak are the same.

    Examples
    --------
    >>> import numpy as np
    >>> lik = NoisyOr(epsilon=0.01, lam=0.9, p=0.1)
    >>> Z, Y = np.array([[1, 1], [0, 1]]), np.array([[1, 0], [1, 0]])
    >>> lik.mean(Z, Y).round(4).tolist()  # 1 − 0.99·0.1², 1 − 0.99·0.1, and the leak
    [[0.9901, 0.01], [0.901, 0.01]]
    """

    epsilon: float | Beta = hyperparameter(
        Beta(1.0, 19.0), symbol="ε", words="how often an entry is on by itself"
    )
    lam: float | Beta = hyperparameter(
        Beta(4.0, 1.0), symbol="λ", words="how often an active feature turns an entry on"
    )
    p: float | Beta = hyperparameter(
        Beta(1.0, 4.0), symbol="p", words="how often a feature is active"
    )

    axes: ClassVar[dict[str, int]] = {"A": 0}
    any_units: ClassVar[bool] = False
    initial_updates: ClassVar[int] = 5
    of_features: ClassVar[tuple[str, ...]] = ("lam", "p")
    starts: ClassVar[tuple[str, ...]] = ("race", "patterns", "empty", "prior")
    words: ClassVar[Words] = Words(
        "Each feature is a hidden cause that acts on the rows that have it; shown is the "
        "probability that it is active in each column, most frequent first.",
        "A noisy or: a row of the data is a node, and each of the hidden causes A that act on it "
        "(Z says which) brings it on with probability λ wherever the cause is active.",
    )

    def __post_init__(self) -> None:
        for name in NAMES:
            check_hyperparameter("NoisyOr", name, getattr(self, name), probability=True)

    def at(self, **numbers: float) -> Self:
        return self.replace(**numbers)

    def check_data(self, data: Data) -> None:
        data.binary  # noqa: B018 refuses all but 0 and 1

    def resolve(self, data: Data) -> Self:
        """The same likelihood, once the data are seen to be of 0 and 1."""
        self.check_data(data)
        return self

    def start(self, data: Data) -> dict[str, float]:
        values = {name: getattr(self, name) for name in NAMES}
        return {k: v.center() if isinstance(v, Hyperprior) else float(v) for k, v in values.items()}

    # sampling and densities with Y kept

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return (rng.random((k, d)) < self._number("p")).astype(float)

    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        chance = self.mean(Z, A)
        return (rng.random(chance.shape) < chance).astype(float)

    def mean(self, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """P(x = 1 | Z), the causes independent and active with probabilities A."""
        fails = np.log1p(-self._number("lam") * np.asarray(A, float))
        quiet = -np.expm1(np.asarray(Z, float) @ fails)
        epsilon = self._number("epsilon")
        return epsilon + (1.0 - epsilon) * quiet

    def log_likelihood(self, X: Table, Z: ArrayLike, A: ArrayLike) -> float:
        counts = code_counts(GibbsState(Data.of(X), active(Z), {"A": np.asarray(A)}, {}))
        return log_likelihood_of_counts(counts, self._number("epsilon"), self._number("lam"))

    def count_probabilities(self, most: int) -> CountProbabilities:
        """log P(x | c) for c up to ``most``, and log p and log(1−p).

        >>> import numpy as np
        >>> found = NoisyOr(epsilon=0.01, lam=0.9, p=0.1).count_probabilities(1)
        >>> np.exp(found.table).round(4).tolist()
        [[0.99, 0.01], [0.099, 0.901]]
        """
        epsilon, lam, p = (self._number(name) for name in NAMES)
        off = log1p(-epsilon) + log1p(-lam) * np.arange(most + 1.0)
        return CountProbabilities(
            np.stack([off, np.log(-np.expm1(off))], axis=1), log(p), log1p(-p)
        )

    # missing entries

    def guess(self, data: Data) -> Data:
        """Complete data of 0 and 1: the first guess, rounded."""
        if data.observed is None:
            return data
        return Data(np.where(data.observed, data.X, (data.filled.X > 0.5).astype(float)))

    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> BinaryEntries:
        """x_it ~ Bernoulli(1 − (1−ε)(1−λ)^{z_i·y_t})."""
        return BinaryEntries(self.mean(Z, parameters["A"])[where])

    def log_rows(self, data: Data, bits: np.ndarray, parameters: Parameters) -> np.ndarray:
        """Of probabilities of y, at y = 1 where they are above one half."""
        return super().log_rows(data, bits, {"A": active(parameters["A"])})

    # Gibbs updates with Y kept

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        return {"A": (rng.random((k, data.d)) < hyper["p"]).astype(np.uint8)}

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        from thali.kernels.noisy_or import sweep_bits

        X, seen, Y = state.data.binary, seen_in(state), active(state.parameters["A"])
        sweep_bits(rng, X, seen, state.bits, Y, rates_of(state.hyper), bits)
        return Turned(bits.m)

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Their number with y summed out, then y given the row."""
        from thali.kernels.noisy_or import renew_own_features

        X, seen, Y = state.data.binary, seen_in(state), state.parameters["A"]
        _, weight, capacity, theta = tables
        state.bits, state.parameters["A"] = renew_own_features(
            rng, X, seen, state.bits, Y, turned.m, weight, capacity, theta, rates_of(state.hyper)
        )

    def update_matrix(
        self, rng: np.random.Generator, state: GibbsState, bits: BitPrior, tables: FeatureTables
    ) -> None:
        from thali.kernels.noisy_or import sweep_bits_and_own

        X, seen, Y = state.data.binary, seen_in(state), state.parameters["A"]
        weight, capacity = tables.new_log_weight, tables.capacity
        state.bits, state.parameters["A"] = sweep_bits_and_own(
            rng, X, seen, state.bits, Y, rates_of(state.hyper), bits, weight, capacity
        )

    def moving_rows(self, state: GibbsState, room: int) -> NoisyOrMoves:
        from thali.kernels.noisy_or_moves import NoisyOrMoves

        Y, hyper = active(state.parameters["A"]), state.hyper
        at = self.at(**{name: float(hyper[name]) for name in NAMES})
        counts = state.bits.astype(np.int64) @ Y.astype(np.int64)
        logs = at.count_probabilities(room + 1).table
        X, seen, p = state.data.binary, seen_in(state), float(hyper["p"])
        return NoisyOrMoves(counts, with_room(Y, room, 0), X, seen, logs, p)

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """Y given Z, one pass; then p, ε and λ given Y; and log P(X, Y | Z)."""
        from thali.kernels.noisy_or import sweep_states

        hyper, Y = state.hyper, state.parameters["A"].copy()
        X, seen, rates = state.data.binary, seen_in(state), rates_of(hyper)
        log_odds = log(rates.p) - log1p(-rates.p)
        counts, on, log_likelihood = sweep_states(rng, X, seen, state.bits, Y, rates, log_odds)
        state.parameters["A"] = Y
        if not hold and self._update_rates(rng, counts, on, Y.size, hyper):
            log_likelihood = log_likelihood_of_counts(counts, hyper["epsilon"], hyper["lam"])
        return float(log_likelihood) + log_prior_of_states(on, Y.size, hyper["p"])

    def _update_rates(
        self, rng: np.random.Generator, counts: np.ndarray, on: int, size: int, hyper: Values
    ) -> bool:
        """p given Σ y, then ε and λ given n_cx; whether one of the two is inferred."""
        from thali.kernels.noisy_or import log_likelihood_of as of_counts
        from thali.kernels.noisy_or import rates_at

        of_p = self.p
        if isinstance(of_p, Beta):
            hyper["p"] = draw_probability(rng, of_p.a + on, of_p.b + size - on)
        elif isinstance(of_p, Hyperprior):

            def of_states(p: float) -> float:
                return of_p.log_density(p) + log_prior_of_states(on, size, p)

            hyper["p"] = slice_step_of_probability(rng, hyper["p"], of_states, width=1.0)
        changed = False
        for name in ("epsilon", "lam"):
            prior = getattr(self, name)
            if not isinstance(prior, Hyperprior):
                continue
            changed = True

            def target(value: float, name: str = name, prior: Hyperprior = prior) -> float:
                epsilon = value if name == "epsilon" else hyper["epsilon"]
                rates = rates_at(epsilon, value if name == "lam" else hyper["lam"], 0.5)
                return prior.log_density(value) + float(of_counts(counts, rates))

            hyper[name] = slice_step_of_probability(rng, hyper[name], target, width=1.0)
        return changed

    def log_density(self, state: GibbsState) -> float:
        """log P(X, Y | Z); of probabilities of y, at y = 1 where they are above one half."""
        hyper, Y = state.hyper, active(state.parameters["A"])
        value = log_likelihood_of_counts(code_counts(state), hyper["epsilon"], hyper["lam"])
        return value + log_prior_of_states(int(Y.sum()), Y.size, hyper["p"])

    def tempered(self, data: Data, hyper: Values, beta: float) -> AtTemperature:
        """βλ for λ and (1−β)μ + βε for ε, μ the share of ones; and f_β is divided by
        [μ^ones (1−μ)^zeros]^{1−β}, so that f_0 = 1.

        Every target is that of a noisy-or; at first the leak explains all.
        """
        ones, entries = int(data.binary.sum()), data.n * data.d - data.missing
        mu = share_of_ones(data)
        factor = (beta - 1.0) * (ones * log(mu) + (entries - ones) * log1p(-mu))
        leak = (1.0 - beta) * mu + beta * hyper["epsilon"]
        return AtTemperature({**hyper, "epsilon": leak, "lam": beta * hyper["lam"]}, factor)

    def cooling(self, data: Data, hyper: Values) -> Cooling:
        """β rises geometrically from where a cause active in every column, over a leak of μ, tells
        half a nat of a row: (βλ)² D (1−μ)/μ = 1."""
        mu = share_of_ones(data)
        hot = min(1.0, sqrt(mu / ((1.0 - mu) * data.d)) / hyper["lam"])
        return lambda share: self.tempered(data, hyper, hot ** (1.0 - share)).hyper

    def estimate_evidence(self, rng: np.random.Generator, state: GibbsState) -> float:
        """The log density and Σ H(y_kt | x, Z, the other y), on average at most the entropy of Y
        given X and Z: together, on average, a lower bound of log P(X | Z)."""
        from thali.kernels.noisy_or import codes, gains, single_entropies

        Y, p = active(state.parameters["A"]), state.hyper["p"]
        gain = gains(rates_of(state.hyper), len(Y))
        E = codes(state.data.binary, seen_in(state), state.bits, Y)
        entropy = float(single_entropies(E, state.bits, Y, gain, log(p) - log1p(-p)))
        return self.log_density(state) + entropy

    def _number(self, name: str) -> float:
        return as_number("NoisyOr", name, getattr(self, name))


def share_of_ones(data: Data) -> float:
    """μ, strictly between 0 and 1."""
    return (int(data.binary.sum()) + 1.0) / (data.n * data.d - data.missing + 2.0)


def rates_of(hyper: Values) -> Rates:
    """ε, λ and p as the kernels take them."""
    from thali.kernels.noisy_or import rates_at

    return rates_at(hyper["epsilon"], hyper["lam"], hyper["p"])


def active(A: ArrayLike) -> np.ndarray:
    """Y of 0 and 1 as the kernels take it, from itself or from the probabilities of its entries."""
    A = np.asarray(A)
    return np.ascontiguousarray(A if A.dtype == np.uint8 else A > 0.5, dtype=np.uint8)


def seen_in(state: GibbsState) -> np.ndarray:
    """Which entries were observed, as the kernels take it: (0, 0) where all were."""
    return ALL_SEEN if state.observed is None else state.observed


def code_counts(state: GibbsState) -> np.ndarray:
    """n_cx: how many observed entries have c active features and value x, (K + 1, 2)."""
    from thali.kernels.noisy_or import codes, count_codes

    Y = active(state.parameters["A"])
    return count_codes(codes(state.data.binary, seen_in(state), state.bits, Y), len(Y))


def log_likelihood_of_counts(counts: np.ndarray, epsilon: float, lam: float) -> float:
    """log P(X | Z, Y) from n_cx."""
    from thali.kernels.noisy_or import log_likelihood_of, rates_at

    return float(log_likelihood_of(counts, rates_at(epsilon, lam, 0.5)))


def log_prior_of_states(on: int, size: int, p: float) -> float:
    """log P(Y), ``on`` of its entries being 1."""
    return on * log(p) + (size - on) * log1p(-p)
