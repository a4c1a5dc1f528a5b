r"""Gibbs sampling of Z with the parameters kept (Doshi-Velez and others 2009, section 4).

Of a step (``kept_parameters``), the part that changes Z is

    bits        every z_nk of features that other rows have too, given the parameters
    own         those that only one row has, drawn anew: with their parameters integrated out
                where that can be done, else by births and deaths; where entries of X are missing,
                these parameters are drawn given what was observed before anything else

or, with ``new_features="slice"``, bits and own features in one: every feature gets its frequency π,
a level s is drawn below the smallest in use, and all unused features with π > s take part with
parameters from their prior (after Teh, Görür and Ghahramani 2007; exact for any likelihood).
With ``row_blocks`` both parts are made in blocks of rows side by side (``row_blocks.py``).
With ``moves`` whole columns are then changed with A integrated out (``kernels/column_moves``): Z
comes from P(Z | X), which that leaves invariant, and A is drawn next without a look at the old one.

Columns are put in a random order before every step: bits are visited in that order, which must not
depend on the columns' age. Given the parameters the rows cost O(NK(K + D)) through two products.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from thali.data import Data
from thali.engines.base import Needs
from thali.engines.chain_settings import annealing
from thali.engines.features import gibbs as features
from thali.engines.features.columns import moved_bits
from thali.engines.features.planning import moves_every
from thali.engines.features.row_blocks import update_in_blocks
from thali.engines.features.state import refuse_fine_noise
from thali.engines.kept_parameters import KeepsParameters, State
from thali.hyperparameters import as_scalars
from thali.likelihoods.base import GaussianRows
from thali.likelihoods.gibbs_updates import GibbsUpdates, LatentBits
from thali.model import Model
from thali.priors.base import HasFrequencies, HasUsedFrequencies, PredictsRow
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start
from thali.structures.features import FeatureTables


@ENGINES.register("uncollapsed_gibbs")
@dataclass(frozen=True)
class UncollapsedGibbs(KeepsParameters):
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
    row_blocks : int, optional
        Work on so many blocks of rows side by side, in threads, which all chains share and of which
        there are as many as cores: for long data and few chains. Each feature's frequency is drawn,
        given which rows need not know of each other; the posterior is the same, and no less exact.
        A seed's draws depend on the number of blocks, never on that of cores; a few for each
        core is best. By default rows are updated one after the other. It needs a prior with
        frequencies, such as ``IBP``, and ``new_features="integrated"``.
    anneal : int, default 0
        How many sweeps under falling noise come before the first sweep of a chain that begins at
        "prior" or "empty" (in a race, of those contenders). They belong to the start and are not
        recorded. For likelihoods that can be let in by degrees: ``LinearGaussian``,
        ``NonnegativeLinearGaussian``, ``SparseFactor`` and ``NoisyOr``.
    moves : int, default 0
        How often a sweep tries to change whole columns (split, join, turn, drop) with A integrated
        out, which is then drawn given what came of it: as in ``CollapsedGibbs``, and exact. For
        ``LinearGaussian``, and ``MixedColumns``.

    Examples
    --------
    >>> UncollapsedGibbs(sweeps=200, chains=2, new_features="slice").kept
    100

    Four blocks of rows at once, and the same draws on any number of cores:

    >>> import thali
    >>> X = thali.datasets.planted(n=200, d=6, k=3, random_state=0).X
    >>> engine = UncollapsedGibbs(sweeps=20, chains=1, row_blocks=4)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0, progress=False).fit(X)
    >>> model.history_["n_components"].shape
    (1, 20)
    """

    new_features: str = setting(
        "integrated", help="How new features come", choices=("integrated", "slice")
    )
    row_blocks: int | None = setting(
        None, help="Blocks of rows to work on side by side; rows one by one if not given", minimum=1
    )

    anneal: int = annealing()
    moves: int = setting(0, help="Tries to change whole columns, a sweep", minimum=0, maximum=10**6)

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    weighs_rows: ClassVar[bool] = True
    needs_likelihood: ClassVar[tuple[type, ...]] = (GibbsUpdates,)
    masked: ClassVar[bool] = True
    auto_rank: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.row_blocks is not None and self.new_features == "slice":
            raise ValueError(
                f"UncollapsedGibbs: row_blocks={self.row_blocks} needs new_features='integrated'; "
                "by slice, whether a feature is in use at all is a matter of all rows at once."
            )

    @property
    def heeds_row_potentials(self) -> bool:
        return not self._frequencies_for  # given frequencies, bits are drawn given these alone

    @property
    def _frequencies_for(self) -> list[str]:
        """The settings that ask for features' frequencies."""
        need = {
            "new_features='slice'": self.new_features == "slice",
            "row_blocks": self.row_blocks is not None,
        }
        return [setting for setting, said in need.items() if said]

    @property
    def settings_need(self) -> dict[str, Needs]:
        need: dict[str, Needs] = {setting: (HasFrequencies,) for setting in self._frequencies_for}
        if "row_blocks" in need:
            need["row_blocks"] = (HasUsedFrequencies,)
        if self.moves:
            need[f"moves={self.moves}"] = ((GaussianRows, LatentBits),)
        return need | super().settings_need

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        if self.moves:
            refuse_fine_noise(model, start.hyper, type(self).__name__)
        return super().begin(rng, model, data, start)

    def rehearsals(self, model: Model) -> tuple[str, ...]:
        return ("moves",) if self.moves else ()

    def rehearse(self, part: str, model: Model, missing: bool) -> None:
        features.rehearse(part, model, missing, "slice")

    def move(self, rng: np.random.Generator, model: Model, state: State) -> None:
        """Whole columns, as often as ``CollapsedGibbs`` changes them; A goes, and is drawn next."""
        turn = moves_every(state.data)
        if not self.moves or state.sweep % turn:
            return
        scales = features.scales_of(model, state.hyper, state.data)
        tables = state.fixed_prior(model)[1]
        state.bits = moved_bits(rng, state.bits, state.data, tables, scales, self.moves * turn)
        state.parameters = {"A": np.zeros((state.n_components, state.data.d))}

    def update_matrix(self, rng: np.random.Generator, model: Model, state: State) -> None:
        """Bits, then own features; or both at once by a slice."""
        if self.row_blocks is not None:
            prior, tables = state.fixed_prior(model)
            update_in_blocks(
                rng, model, state, cast(HasUsedFrequencies, prior), tables, self.row_blocks
            )
            refuse_mass(model, state, tables)
            return
        self._select(model, state, rng.permutation(state.n_components))
        prior, tables = state.fixed_prior(model)
        if self.new_features == "slice":
            self._slice(rng, model, state, cast(HasFrequencies, prior))
        else:
            self._bits_then_own(rng, model, state, tables)

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


def refuse_mass(model: Model, state: State, tables: FeatureTables) -> None:
    """Say so where the prior gives a row more features of its own than can be summed over."""
    from thali.kernels.new_features import MOST_NEW

    if tables.capacity != -1 or tables.new_log_weight <= np.log(0.1 * MOST_NEW):
        return
    own = state.bits[:, state.bits.sum(axis=0, dtype=np.int64) == 1]
    if own.sum(axis=1, dtype=np.int64).max(initial=0) >= MOST_NEW:
        numbers = as_scalars(model.own_values("prior", state.all_hyper))
        mass = ", ".join(f"{name}={value:.3g}" for name, value in numbers.items())
        raise ValueError(
            f"With {mass} the prior gives a row more than {np.exp(tables.new_log_weight):.3g} "
            "features of its own; give a smaller alpha, or let it be inferred."
        )
