r"""Gibbs sampling of Z with the parameters kept (Doshi-Velez and others 2009, section 4).

A step is, for any likelihood with ``GibbsUpdates``,

    bits        every z_nk of features that other rows have too, given the parameters
    own         features that only one row has, drawn anew: with their parameters integrated out
                where that can be done, else by births and deaths
    parameters  scales and parameters given Z, then the prior's hyperparameters given Z

or, with ``new_features="slice"``, bits and own features in one: every feature gets its frequency π,
a level s is drawn below the smallest in use, and all unused features with π > s take part with
parameters from their prior (after Teh, Görür and Ghahramani 2007; exact for any likelihood).

Where entries of X are missing the state holds draws of them, x_m, beside what was observed, x_o:

    bits, own   leave P(Z, parameters | x_o) invariant: x_m is integrated out, row by row, and the
                old draws are not looked at; parameters of own features that were integrated out
                are drawn given x_o too, before anything else
    gaps        x_m given Z, the parameters and x_o: after it the whole state has its joint law
    parameters  given Z and the completed data: leaves that joint law invariant

which is blocked Gibbs sampling of (Z, x_m), then of the parameters. The order matters: had bits
been drawn without x_m and the parameters with the old one, no law would be left invariant; had bits
been drawn given x_m, which was drawn given them, rows of which little was observed would hardly
move. A likelihood whose bits do look at ``Place.data`` is valid here too, and slow in such rows.
The log joint is that of what was observed.

Columns are put in a random order before every step: bits are visited in that order, which must not
depend on the columns' age. Given the parameters the rows cost O(NK(K + D)) through two products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thali.data import Data
from thali.engines.base import Engine, Info
from thali.engines.chain_settings import ChainSettings
from thali.likelihoods.base import Collapsed, GibbsUpdates, JudgesMatrix, Place
from thali.model import Model
from thali.priors.base import HasFrequencies, PredictsRow
from thali.starts import Start
from thali.structures import FeatureCounts, FeatureTables, with_row_sums


class FixedPrior(NamedTuple):
    """A prior ``of`` a model with its hyperparameters fixed ``at`` numbers, and its tables."""

    of: Any
    at: dict[str, float]
    prior: Any
    tables: FeatureTables


@dataclass
class State(Place):
    """What the next step needs: the place, how many steps led to it, and how long σ is held."""

    sweep: int = 0
    hold_sigma: int = 0
    fixed: FixedPrior | None = None

    def fixed_prior(self, model: Model) -> FixedPrior:
        """The prior at the numbers of ``hyper``, made anew when these are others than before."""
        if self.fixed is None or self.fixed.of is not model.prior or self.fixed.at != self.hyper:
            prior: Any = model.prior_at(self.hyper)
            self.fixed = FixedPrior(model.prior, dict(self.hyper), prior, prior.tables(self.data.n))
        return self.fixed


@dataclass(frozen=True)
class UncollapsedGibbs(ChainSettings, Engine):
    """Sweeps over Z given the parameters, and over the parameters given Z, in several chains.

    ``new_features`` is "integrated" (their parameters summed out where the likelihood can, births
    and deaths where not) or "slice". The other settings are as of ``CollapsedGibbs``. Mixing is
    slower than with A integrated out, and a sweep cheaper: it never touches more than two products
    of the data with Z and A. Where entries of X are missing, a row's features are drawn given what
    was observed of it, and what was not is drawn after them.

    >>> UncollapsedGibbs(sweeps=200, chains=2, new_features="slice").kept
    100
    """

    new_features: str = "integrated"

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (GibbsUpdates,)
    masked: ClassVar[bool] = True
    kind: ClassVar[str] = "draws"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.new_features not in ("integrated", "slice"):
            raise ValueError(
                "UncollapsedGibbs: new_features must be 'integrated' or 'slice', "
                f"not {self.new_features!r}."
            )

    @property
    def settings_need(self) -> dict[str, tuple[type, ...]]:
        return {"new_features='slice'": (HasFrequencies,)} if self.new_features == "slice" else {}

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The state at ``start``, parameters its own or drawn given its Z."""
        used = np.flatnonzero(start.Z.any(axis=0))
        Z = np.ascontiguousarray(start.Z[:, used], dtype=np.uint8)
        hyper = dict(start.hyper)
        likelihood: Any = model.likelihood
        parameters = likelihood.new_parameters(rng, data, Z.shape[1], hyper)
        for name, value in start.parameters.items():
            parameters[name] = np.take(value, used, axis=likelihood.axes[name])
        state = State(data, Z, parameters, hyper, data.mask, 0, start.hold_sigma)
        if data.mask is not None and not start.parameters:
            state.data = likelihood.guess(data)
        else:
            complete(rng, model, data, state)
        for _ in range(1 if start.parameters else likelihood.settling):
            likelihood.update_parameters(rng, state, hold=True)
            complete(rng, model, data, state)
        return state

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Bits, own features, missing entries, parameters, hyperparameters."""
        likelihood: Any = model.likelihood
        hyper = state.hyper
        if data.mask is None:
            state.data = data
        self._select(model, state, rng.permutation(state.n_features))
        if self.new_features == "slice":
            self._slice(rng, model, state)
        else:
            self._bits_then_own(rng, model, state)
        complete(rng, model, data, state)
        hold = state.sweep < state.hold_sigma
        log_density = likelihood.update_parameters(rng, state, hold)
        if data.mask is not None:
            log_density = log_density_of_observed(model, data, state)
        counts = counts_of(state.bits, state.fixed_prior(model).tables)
        model.prior.resample(rng, hyper, counts)
        state.sweep += 1
        log_joint = log_density + state.fixed_prior(model).prior.log_prob_counts(counts)
        return Info(state.n_features, log_joint, dict(hyper), 0.0)

    def level(
        self, rng: np.random.Generator, model: Model, data: Data, state: State, info: Info
    ) -> float:
        """The log joint with parameters integrated out, as well as the likelihood can tell.

        Drawn entries are judged along with the rest, and their own density taken off again.
        """
        if not isinstance(model.likelihood, JudgesMatrix):
            return info.log_joint
        likelihood: Any = model.likelihood
        counts = counts_of(state.bits, state.fixed_prior(model).tables)
        log_prior = state.fixed_prior(model).prior.log_prob_counts(counts)
        judged = likelihood.judge(rng, state)
        if data.mask is not None:
            judged += likelihood.log_density(replace(state, data=data))
            judged -= likelihood.log_density(state)
        return judged + log_prior

    def _bits_then_own(self, rng: np.random.Generator, model: Model, state: State) -> None:
        from thali.kernels.bit_prior import BitPrior

        likelihood: Any = model.likelihood
        tables = state.fixed_prior(model).tables
        m = state.bits.sum(axis=0, dtype=np.int64)
        bits = BitPrior(tables.log_odds, m, np.zeros(0), tables.row_potentials)
        likelihood.update_matrix(rng, state, bits, tables)

    def _slice(self, rng: np.random.Generator, model: Model, state: State) -> None:
        """Frequencies, level, unused features above it, all bits; then the unused ones go."""
        from thali.kernels.bit_prior import BitPrior

        likelihood: Any = model.likelihood
        prior = state.fixed_prior(model).prior
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
        axes: dict[str, int] = model.likelihood.axes  # type: ignore[attr-defined]
        state.bits = state.bits.take(order, axis=1)
        state.parameters = {
            name: state.parameters[name].take(order, axis=axis) for name, axis in axes.items()
        }

    def keepsakes(self, model: Model, state: State) -> dict[str, np.ndarray]:
        """The parameters, unless they can be drawn again given Z."""
        if isinstance(model.likelihood, Collapsed):
            return {}
        axes: dict[str, int] = model.likelihood.axes  # type: ignore[attr-defined]
        return {name: np.moveaxis(state.parameters[name], axis, 0) for name, axis in axes.items()}

    def freeze(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values."""
        arrays = {"Z": np.packbits(state.bits, axis=0), "X": state.data.X, **state.parameters}
        numbers = {"hyper": dict(state.hyper), "sweep": state.sweep, "hold": state.hold_sigma}
        return arrays, numbers

    def thaw(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        """The state that ``freeze`` saved."""
        bits = np.ascontiguousarray(np.unpackbits(arrays["Z"], axis=0, count=data.n))
        parameters = {name: value for name, value in arrays.items() if name not in ("Z", "X")}
        at = data if data.mask is None else Data(arrays["X"])
        hyper = dict(numbers["hyper"])
        return State(at, bits, parameters, hyper, data.mask, numbers["sweep"], numbers["hold"])


def counts_of(bits: np.ndarray, tables: FeatureTables) -> FeatureCounts:
    """n, m_k and K_h, and F_n if the prior asks for it, of a matrix without empty columns."""
    from thali.kernels.equal_columns import count_columns

    return with_row_sums(FeatureCounts(len(bits), *count_columns(bits)), tables, bits)


def complete(rng: np.random.Generator, model: Model, data: Data, state: State) -> None:
    """Draw the missing entries of ``data``, if there are any, given Z and the parameters."""
    if data.mask is not None:
        likelihood: Any = model.at(state.hyper).likelihood
        state.data = likelihood.complete(rng, data, state.bits, state.parameters)


def log_density_of_observed(model: Model, data: Data, state: State) -> float:
    """log P(X | Z) or log P(X, parameters | Z), as ``update_parameters`` has it."""
    if isinstance(model.likelihood, Collapsed):
        fixed: Any = model.at(state.hyper).likelihood
        return float(fixed.log_marginal(data.X, state.bits))
    likelihood: Any = model.likelihood
    return float(likelihood.log_density(replace(state, data=data)))
