r"""What samplers have in common that keep the parameters: their state, and all of a step but Z.

A step is, for any likelihood with ``GibbsUpdates``,

    matrix      Z and the parameters of features that come, given the other parameters: what
                the engine says
    parameters  scales and parameters given Z, then the prior's hyperparameters given Z

Where entries of X are missing the state's data are ``Augmented`` by draws of them, x_m, beside what
was observed, x_o:

    matrix      leaves P(Z, parameters | x_o) invariant: x_m is integrated out, row by row, and the
                old draws are not looked at
    augment     x_m given Z, the parameters and x_o: after it the whole state has its joint
                distribution
    move        Z given the completed data, the parameters integrated out, where an engine does
    parameters  given Z and the completed data: leaves that distribution invariant

which is blocked sampling of (Z, x_m), then of the parameters. The order matters: had bits been
drawn without x_m and the parameters with the old one, nothing would be left invariant; had bits
been drawn given x_m, which was drawn given them, rows of which little was observed would
hardly move. A likelihood whose bits do look at ``GibbsState.data`` is valid too, and slow in
such rows. The log joint is that of what was observed.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from thali.data import Augmented, Data
from thali.engines.base import Info, Needs, Sampler
from thali.engines.chain_settings import ChainSettings
from thali.hyperparameters import Values, as_scalars
from thali.likelihoods.base import Collapsed
from thali.likelihoods.gibbs_updates import (
    EstimatesEvidence,
    GibbsState,
    GibbsUpdates,
    LatentGaussians,
)
from thali.likelihoods.tempered import Tempered
from thali.model import Model
from thali.priors.base import PredictsRow, Prior
from thali.starts import Start
from thali.structures.features import FeatureCounts, FeatureTables, with_row_sums


@dataclass
class State(GibbsState):
    """What the next step needs, how many steps led to it, and how long σ is held."""

    sweep: int = 0
    hold_sigma: int = 0
    all_hyper: Values = field(default_factory=dict)  # those of the prior too
    fixed: tuple[Prior, dict[str, float], PredictsRow, FeatureTables] | None = None
    moves: int = 0  # of a step, where these are counted
    parts: tuple[Data, list[Data]] | None = None  # the given data, and the pieces of them

    def fixed_prior(self, model: Model) -> tuple[PredictsRow, FeatureTables]:
        """The prior at the numbers of ``hyper`` and its tables, anew where these have changed."""
        at = as_scalars(model.own_values("prior", self.all_hyper))
        if self.fixed is None or self.fixed[0] is not model.prior or self.fixed[1] != at:
            prior = cast(PredictsRow, model.prior_at(self.all_hyper))
            self.fixed = model.prior, at, prior, prior.tables(self.data.n)
        return self.fixed[2:]


class KeepsParameters(ChainSettings, Sampler[State]):
    """Steps on Z given the parameters, and on the parameters given Z."""

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
        state = State(data, Z, parameters, own, hold_sigma=start.hold_sigma, all_hyper=hyper)
        if likelihood.augments(data) and not start.parameters:
            latent = isinstance(likelihood, LatentGaussians)
            state.data = Augmented(likelihood.guess(data).X, source=data, latent=latent)
        else:
            self._augment(rng, model, data, state)
        for _ in range(1 if start.parameters else likelihood.initial_updates):
            likelihood.update_parameters(rng, state, hold=True)
            self._augment(rng, model, data, state)
        return state

    @property
    def settings_need(self) -> dict[str, Needs]:
        steps = getattr(self, "anneal", 0)
        return {f"anneal={steps}": (Tempered,)} if steps else {}

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """The matrix, missing entries, parameters, hyperparameters."""
        likelihood = cast(GibbsUpdates, model.likelihood)
        hyper = state.all_hyper
        tables = state.fixed_prior(model)[1]
        self.update_matrix(rng, model, state)
        self._augment(rng, model, data, state)
        self.move(rng, model, state)
        hold = state.sweep < state.hold_sigma
        log_density = likelihood.update_parameters(rng, state, hold)
        if likelihood.augments(data) and not isinstance(likelihood, LatentGaussians):
            log_density = log_density_of_observed(model, data, state)
        counts = counts_of(state.bits, tables)
        model.prior.resample(rng, model.prior_values(hyper), counts)
        state.sweep += 1
        log_joint = log_density + state.fixed_prior(model)[0].log_prob_counts(counts)
        return Info(state.n_components, log_joint, dict(hyper), 0.0)

    @abstractmethod
    def update_matrix(self, rng: np.random.Generator, model: Model, state: State) -> None:
        """Change Z, and parameters of features that come and go, in place."""

    def move(self, rng: np.random.Generator, model: Model, state: State) -> None:
        """Change Z with the parameters integrated out, given complete data; they are drawn next."""

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
            latent = isinstance(model.likelihood, LatentGaussians)  # which go on from what there is
            data = state.data if latent else data.given
            state.data = likelihood.augment(rng, data, state.bits, state.parameters)

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
        latent = isinstance(model.likelihood, LatentGaussians)
        at = Augmented(arrays["X"], source=data, latent=latent) if "X" in arrays else data
        hyper = dict(numbers["hyper"])
        own = model.likelihood_values(hyper)
        sweeps = {"sweep": numbers["sweep"], "hold_sigma": numbers["hold"]}
        return State(at, bits, parameters, own, **sweeps, all_hyper=hyper)


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
