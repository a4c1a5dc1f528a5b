r"""Metropolis sampling of Z by single moves, for any prior (Welling and others 2012, algorithm 2).

A bit is turned, a feature that one row alone has goes, or a row gets one
(``kernels/single_moves``). A prior whose log probability has a part w·φ(m, n) that is no sum over
columns and rows is sampled by the same moves: under the rest of it ``block`` moves at a time are a
proposal, and since they leave that rest invariant and are reversible together, it is accepted with
probability

    min(1, e^{w·φ(new) − w·φ(old)}).

The number of moves in a step is fixed where a chain begins: were it to follow the number of
features, the posterior would not be left invariant. Parameters and hyperparameters come between
steps, as ``kept_parameters`` says.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from thali.data import Data
from thali.engines.chain_settings import annealing
from thali.engines.kept_parameters import KeepsParameters, State
from thali.likelihoods.gibbs_updates import MovesSingly
from thali.likelihoods.moving_rows import with_room
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start

MORE = 10  # features beside those that a chain begins with, for which a step has moves too
ROOM = 16  # features that may come before the arrays are made anew
GIVEN = ("X", "seen", "logs")  # arrays that no move changes


@ENGINES.register("metropolis")
@dataclass(frozen=True)
class Metropolis(KeepsParameters):
    """Single moves of Z, each accepted or not; for priors that no other sampler can take.

    Slower to mix than Gibbs sampling, by a factor of a few, and more general: the log probability
    of a matrix may have any features of how many rows have features, and how many features rows
    have (``FlexibleIBP(…, features=…)``).

    Parameters
    ----------
    sweeps, burn_in, thin, chains, init
        How long chains are, which sweeps are kept, how many chains there are and where they begin:
        as of ``CollapsedGibbs``.
    moves : int, optional
        Moves tried in a sweep. If not given, as many as there are bits where the chain begins, and
        ten for each row besides.
    block : int, default 16
        Moves that are accepted or not together by a prior's features, for each of which these are
        asked for once. Priors without features have no use for it.
    new_features : {"integrated", "prior"}, default "integrated"
        Where parameters of new features come from: their posterior given the row, or their prior,
        as in the paper; the second is accepted less often.
    anneal : int, default 0
        How many sweeps under falling noise come before the first sweep of a chain that begins at
        "prior" or "empty" (in a race, of those contenders). They belong to the start and are not
        recorded. For likelihoods that can be let in by degrees: ``LinearGaussian``,
        ``NonnegativeLinearGaussian``, ``SparseFactor`` and ``NoisyOr``.

    Examples
    --------
    >>> Metropolis(sweeps=200, chains=2).kept
    100
    """

    moves: int | None = setting(None, help="Moves tried in a sweep", minimum=1, maximum=10**9)
    block: int = setting(16, help="Moves that a prior's features judge together", minimum=1)
    new_features: str = setting(
        "integrated", help="How new features come", choices=("integrated", "prior")
    )

    anneal: int = annealing()

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (MovesSingly,)
    weighs_rows: ClassVar[bool] = True
    weighs_all: ClassVar[bool] = True
    masked: ClassVar[bool] = True
    auto_rank: ClassVar[int | None] = 3

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        state = super().begin(rng, model, data, start)
        state.moves = self.moves or data.n * (state.n_components + MORE)
        return state

    def to_arrays(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, numbers = super().to_arrays(state)
        return arrays, {**numbers, "moves": state.moves}

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        state = super().from_arrays(model, data, arrays, numbers)
        state.moves = numbers["moves"]
        return state

    def update_matrix(self, rng: np.random.Generator, model: Model, state: State) -> None:
        prior = state.fixed_prior(model)[0]
        moving = Moving(rng, model, state, prior, self.new_features == "prior")
        if prior.linear:
            moving.make(state.moves)
        else:
            moving.make_judged(state.moves, self.block)
        moving.close()


class Moving:
    """Z and the parameters while moves change them, with room for features to come."""

    def __init__(
        self, rng: np.random.Generator, model: Model, state: State, prior: PredictsRow, drawn: bool
    ) -> None:
        self.rng, self.state, self.prior, self.drawn = rng, state, prior, drawn
        self.tables = state.fixed_prior(model)[1]
        self.likelihood = cast(MovesSingly, model.likelihood)
        self.open(ROOM)

    def open(self, more: int) -> None:
        """Take Z and the parameters from the state, with room for so many more."""
        from thali.kernels.single_moves import Matrix

        bits = self.state.bits
        self.k = bits.shape[1]
        room = self.k + more
        m, F = bits.sum(axis=0, dtype=np.int64), bits.sum(axis=1, dtype=np.int64)
        self.matrix = Matrix(with_room(bits, room, 1), with_room(m, room, 0), F)
        self.rows = self.likelihood.moving_rows(self.state, room)

    def close(self) -> None:
        """Let the state have Z and the parameters as they are now."""
        self.state.bits = np.ascontiguousarray(self.matrix.Z[:, : self.k])
        for name, axis in self.likelihood.axes.items():
            found = getattr(self.rows, name)
            kept = found[: self.k] if axis == 0 else found[:, : self.k]
            self.state.parameters[name] = np.ascontiguousarray(kept)

    def make(self, moves: int) -> None:
        """So many moves under the tables."""
        from thali.kernels.single_moves import make_moves

        while moves:
            arrays = self.rng, self.rows, self.matrix
            self.k, moves = make_moves(*arrays, self.k, self.tables, moves, self.drawn)
            if moves:
                self.close()
                self.open(ROOM + self.k)

    def make_judged(self, moves: int, block: int) -> None:
        """So many moves, of each block all or none, as the prior's features have it."""
        now = self.beyond_tables()
        for begin in range(0, moves, block):
            if self.k + block >= self.matrix.Z.shape[1]:
                self.close()
                self.open(ROOM + block + self.k)
            before = copied(self.matrix), copied(self.rows), self.k
            self.make(min(block, moves - begin))
            then = self.beyond_tables()
            gained = then - now if now > -np.inf else 0.0  # what is excluded is left by any move
            if np.log(1.0 - self.rng.random()) < gained or gained == 0.0:
                now = then
            else:
                self.matrix, self.rows, self.k = before

    def beyond_tables(self) -> float:
        """w·φ of Z as it is now."""
        n, m = len(self.matrix.F), self.matrix.m[: self.k]
        return self.prior.beyond_tables(n, m, self.matrix.F)


def copied(arrays: Any) -> Any:
    """The same, what moves change in arrays of its own."""
    own = {k: v for k, v in arrays._asdict().items() if isinstance(v, np.ndarray)}
    return arrays._replace(**{k: v.copy() for k, v in own.items() if k not in GIVEN})
