r"""Gibbs sampling of Z with the parameters kept (Doshi-Velez and others 2009, section 4).

A step is, for any likelihood with ``GibbsUpdates``,

    bits        every z_nk of features that other rows have too, given the parameters
    own         those that only one row has, drawn anew: with their parameters integrated out
                where that can be done, else by births and deaths
    parameters  scales and parameters given Z, then the prior's hyperparameters given Z

or, with ``new_features="slice"``, bits and own features in one: every feature gets its frequency π,
a level s is drawn below the smallest in use, and all unused features with π > s take part with
parameters from their prior (after Teh, Görür and Ghahramani 2007; exact for any likelihood).

Where entries of X are missing the state's data are ``Augmented`` by draws of them, x_m, beside what
was observed, x_o:

    bits, own   leave P(Z, parameters | x_o) invariant: x_m is integrated out, row by row, and the
                old draws are not looked at; parameters of own features that were integrated out
                are drawn given x_o too, before anything else
    augment     x_m given Z, the parameters and x_o: after it the whole state has its joint
                distribution
    parameters  given Z and the completed data: leaves that distribution invariant

which is blocked Gibbs sampling of (Z, x_m), then of the parameters. The order matters: had bits
been drawn without x_m and the parameters with the old one, nothing would be left invariant; had
bits been drawn given x_m, which was drawn given them, rows of which little was observed would
hardly move. A likelihood whose bits do look at ``GibbsState.data`` is valid too, and slow in
such rows. The log joint is that of what was observed.

Columns are put in a random order before every step: bits are visited in that order, which must not
depend on the columns' age. Given the parameters the rows cost O(NK(K + D)) through two products.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np

from thali.data import Augmented, Data
from thali.engines.base import Info, Sampler
from thali.engines.chain_settings import ChainSettings
from thali.hyperparameters import Values, as_scalars
from thali.likelihoods.base import Collapsed, EstimatesEvidence, GibbsState, GibbsUpdates
from thali.model import Model
from thali.priors.base import HasFrequencies, PredictsRow, Prior
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start
from thali.structures.features import FeatureCounts, FeatureTables, with_row_sums


@dataclass
class State(GibbsState):
    """What the next step needs, how many steps led to it, and how long σ is held."""

    sweep: int = 0
    hold_sigma: int = 0
    all_hyper: Values = field(default_factory=dict)  # those of the prior too
    fixed: tuple[Prior, dict[str, float], PredictsRow, FeatureTables] | None = None

    def fixed_prior(self, model: Model) -> tuple[PredictsRow, FeatureTables]:
        """The prior at the numbers of ``hyper`` and its tables, anew where these have changed."""
        at = as_scalars(model.own_values("prior", self.all_hyper))
        if self.fixed is None or self.fixed[0] is not model.prior or self.fixed[1] != at:
            prior = cast(PredictsRow, model.prior_at(self.all_hyper))
            self.fixed = model.prior, at, prior, prior.tables(self.data.n)
        return self.fixed[2:]


@ENGINES.register("uncollapsed_gibbs")
@dataclass(frozen=True)
class UncollapsedGibbs(ChainSettings, Sampler[State]):
    """Sweeps over Z given the parameters, and over the parameters given Z, in several chains.

    Mixing is slower than with A integrated out, and a sweep is cheaper: it never touches more than
    two products of the data with Z and A. Where entries of X are missing, a row's features are
    drawn given what was observed of it, and what was not is drawn after them.

    Parameters
    ----------
    sweeps, burn_in, thin, chains, init
        How long chains are, which sweeps are kept, how many chains there are and where they begin:
        as of ``CollapsedGibbs``.
    new_features : {"integrated", "slice"}, default "integrated"
        How features that only one row has come and go. "integrated" sums their parameters out
        where the likelihood can, and else tries births and deaths. "slice" lets unused features
        take part, with parameters from their prior.

    Examples
    --------
    >>> UncollapsedGibbs(sweeps=200, chains=2, new_features="slice").kept
    100
    """

    new_features: str = setting(
        "integrated", help="How new features come", choices=("integrated", "slice")
    )

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    weighs_rows: ClassVar[bool] = True
    needs_likelihood: ClassVar[tuple[type, ...]] = (GibbsUpdates,)
    masked: ClassVar[bool] = True
    auto_rank: ClassVar[int | None] = 2

    @property
    def heeds_row_potentials(self) -> bool:
        return self.new_features != "slice"  # which draws bits given frequencies alone

    @property
    def settings_need(self) -> dict[str, tuple[type, ...]]:
        return {"new_features='slice'": (HasFrequencies,)} if self.new_features == "slice" else {}

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The state at ``start``, parameters its own or drawn given its Z."""
        used = np.flatnonzero(start.latent.any(axis=0))
        Z = np.ascontiguousarray(start.latent[:, used], dtype=np.uint8)
        hyper = dict(start.hyper)
        likelihood = cast(GibbsUpdates, model.likelihood)
        own = model.likelihood_values(hyper)
        parameters = likelihood.new_parameters(rng, data, Z.shape[1], own)
        for name, value in start.parameters.items():
            parameters[name] = np.take(value, used, axis=likelihood.axes[name])
        state = State(data, Z, parameters, own, 0, start.hold_sigma, hyper)
        if likelihood.augments(data) and not start.parameters:
            state.data = Augmented(likelihood.guess(data).X, source=data)
        else:
            self._augment(rng, model, data, state)
        for _ in range(1 if start.parameters else likelihood.initial_updates):
            likelihood.update_parameters(rng, state, hold=True)
            self._augment(rng, model, data, state)
        return state

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Bits, own features, missing entries, parameters, hyperparameters."""
        likelihood = cast(GibbsUpdates, model.likelihood)
        hyper = state.all_hyper
        self._select(model, state, rng.permutation(state.n_components))
        prior, tables = state.fixed_prior(model)
        if self.new_features == "slice":
            self._slice(rng, model, state, cast(HasFrequencies, prior))
        else:
            self._bits_then_own(rng, model, state, tables)
        self._augment(rng, model, data, state)
        hold = state.sweep < state.hold_sigma
        log_density = likelihood.update_parameters(rng, state, hold)
        if likelihood.augments(data):
            log_density = log_density_of_observed(model, data, state)
        counts = counts_of(state.bits, tables)
        model.prior.resample(rng, model.prior_values(hyper), counts)
        state.sweep += 1
        log_joint = log_density + state.fixed_prior(model)[0].log_prob_counts(counts)
        return Info(state.n_components, log_joint, dict(hyper), 0.0)

    def level(
        self, rng: np.random.Generator, model: Model, data: Data, state: State, info: Info
    ) -> float:
        """The log joint with parameters integrated out, as well as the likelihood can tell.

        Drawn entries count along with the rest, and their own density is taken off again.
        """
        if not isinstance(model.likelihood, EstimatesEvidence):
            return info.log_joint
        likelihood = cast(GibbsUpdates, model.likelihood)
        prior, tables = state.fixed_prior(model)
        log_prior = prior.log_prob_counts(counts_of(state.bits, tables))
        evidence = model.likelihood.estimate_evidence(rng, state)
        if likelihood.augments(data):
            evidence += likelihood.log_density(replace(state, data=data))
            evidence -= likelihood.log_density(state)
        return evidence + log_prior

    def _augment(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> None:
        """Complete data given Z and the parameters, where the likelihood needs any."""
        if model.likelihood.augments(data):
            likelihood = model.at(state.hyper).likelihood
            state.data = likelihood.augment(rng, data, state.bits, state.parameters)

    def _bits_then_own(
        self, rng: np.random.Generator, model: Model, state: State, tables: FeatureTables
    ) -> None:
        from thali.kernels.bit_prior import BitPrior

        likelihood = cast(GibbsUpdates, model.likelihood)
        m = state.bits.sum(axis=0, dtype=np.int64)
        bits = BitPrior(tables.log_odds, m, np.zeros(0), tables.row_potentials)
        likelihood.update_matrix(rng, state, bits, tables)
        refuse_mass(model, state, tables)

    def _slice(
        self, rng: np.random.Generator, model: Model, state: State, prior: HasFrequencies
    ) -> None:
        """Frequencies, level, unused features above it, all bits; then the unused ones go."""
        from thali.kernels.bit_prior import BitPrior

        likelihood = cast(GibbsUpdates, model.likelihood)
        data = state.data
        m = state.bits.sum(axis=0, dtype=np.int64)
        used = prior.used_frequencies(rng, data.n, m)
        level = (1.0 - rng.random()) * used.min(initial=1.0)
        unused = prior.unused_frequencies(rng, data.n, len(m), level)
        j = len(unused)
        new = likelihood.new_parameters(rng, data, j, state.hyper)
        state.parameters = {
            name: np.concatenate([state.parameters[name], new[name]], axis=axis)
            for name, axis in likelihood.axes.items()
        }
        state.bits = np.concatenate([state.bits, np.zeros((data.n, j), np.uint8)], axis=1)
        pi = np.concatenate([used, unused])
        order = rng.permutation(len(pi))
        self._select(model, state, order)
        bits = BitPrior(np.zeros(0), state.bits.sum(axis=0, dtype=np.int64), pi[order])
        likelihood.update_bits(rng, state, bits)
        self._select(model, state, np.flatnonzero(state.bits.any(axis=0)))

    def _select(self, model: Model, state: State, order: np.ndarray) -> None:
        """Keep these features, in this order."""
        axes = cast(GibbsUpdates, model.likelihood).axes
        state.bits = state.bits.take(order, axis=1)
        state.parameters = {
            name: state.parameters[name].take(order, axis=axis) for name, axis in axes.items()
        }

    def kept_parameters(self, model: Model, state: State) -> dict[str, np.ndarray]:
        """The parameters, unless they can be drawn again given Z."""
        if isinstance(model.likelihood, Collapsed):
            return {}
        axes = cast(GibbsUpdates, model.likelihood).axes
        return {name: np.moveaxis(state.parameters[name], axis, 0) for name, axis in axes.items()}

    def to_arrays(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"Z": np.packbits(state.bits, axis=0), **state.parameters}
        if isinstance(state.data, Augmented):
            arrays["X"] = state.data.X
        numbers = {"hyper": dict(state.all_hyper), "sweep": state.sweep, "hold": state.hold_sigma}
        return arrays, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        bits = np.ascontiguousarray(np.unpackbits(arrays["Z"], axis=0, count=data.n))
        parameters = {name: value for name, value in arrays.items() if name not in ("Z", "X")}
        at = Augmented(arrays["X"], source=data) if "X" in arrays else data
        hyper = dict(numbers["hyper"])
        own = model.likelihood_values(hyper)
        return State(at, bits, parameters, own, numbers["sweep"], numbers["hold"], hyper)


def refuse_mass(model: Model, state: State, tables: FeatureTables) -> None:
    """Say so where the prior gives a row more features of its own than can be summed over."""
    from thali.kernels.new_features import MOST_NEW

    if tables.capacity >= 0 or tables.new_log_weight <= np.log(0.1 * MOST_NEW):
        return
    own = state.bits[:, state.bits.sum(axis=0, dtype=np.int64) == 1]
    if own.sum(axis=1, dtype=np.int64).max(initial=0) >= MOST_NEW:
        numbers = as_scalars(model.own_values("prior", state.all_hyper))
        mass = ", ".join(f"{name}={value:.3g}" for name, value in numbers.items())
        raise ValueError(
            f"With {mass} the prior gives a row more than {np.exp(tables.new_log_weight):.3g} "
            "features of its own; give a smaller alpha, or let it be inferred."
        )


def counts_of(bits: np.ndarray, tables: FeatureTables) -> FeatureCounts:
    """n, m_k and K_h, and F_n if the prior asks for it, of a matrix without empty columns."""
    from thali.kernels.equal_columns import count_columns

    return with_row_sums(FeatureCounts(len(bits), *count_columns(bits)), tables, bits)


def log_density_of_observed(model: Model, data: Data, state: State) -> float:
    """log P(X | Z) or log P(X, parameters | Z), as ``update_parameters`` has it."""
    if isinstance(model.likelihood, Collapsed):
        fixed = cast(Collapsed, model.likelihood_at(state.all_hyper))
        return float(fixed.log_marginal(data, state.bits))
    likelihood = cast(GibbsUpdates, model.likelihood)
    return float(likelihood.log_density(replace(state, data=data)))
