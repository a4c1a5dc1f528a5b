r"""Z of X = Z A + E, or of any likelihood with rows independent given the parameters, updated in
blocks of rows side by side: exactly, and the same whoever does the work.

Counts m_k tie rows together; frequencies untie them, but for features coming and going. For the
bits of features that are there, given a random order of the rows,

    π_k | Z       ~ Beta(m_k, N − m_k + β), or as the prior says
    first_k(Z)    the first row in the order that has feature k
    z_nk | π, first, A, x_n, the row's other bits,   for rows n after first_k

P(Z, π) ∝ ∏_k π_k^{m_k − 1} (1 − π_k)^{N − m_k + β − 1} wherever all m_k ≥ 1. That every feature has
a row and that first_k is its first one is said by the bits up to first_k alone; these are held,
all others are free. So given (π, first) the free bits of different rows are independent and have
odds π/(1−π) times the likelihood, and a pass over them leaves P(Z | A, X) invariant. The order is
drawn afresh in every step and no matter of Z, so that no bit is held for long. It is a buffet: the
first who takes a dish is given, those before never saw it, those after choose for themselves.

    own_n         features that row n alone has: their number given the rest, and their parameters

Given the shared features' parameters no row's own features are another's business, as their number
is Poisson with the prior's weight whatever others have. So every block may create features at once,
and none waits for another, unlike where one block at a time holds the features to come (Dubey,
Zhang, Xing and Williamson 2020). A finite prior's room is shared: there blocks take turns at
this part.

Every block has a generator of its own, made from numbers that the chain's generator draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import cast

import numpy as np

from thali.data import Augmented, Data
from thali.engines.kept_parameters import State
from thali.likelihoods.gibbs_updates import GibbsState, GibbsUpdates, Turned
from thali.model import Model
from thali.priors.base import HasUsedFrequencies
from thali.structures.features import FeatureTables, room_left

SEED_WORDS = 4  # of 32 bits, for each block and step


@dataclass
class Block:
    """Some rows, their part of the state, and what is drawn for them."""

    rows: slice
    rng: np.random.Generator
    at: GibbsState
    m: np.ndarray  # rows of the block that have each feature
    first: np.ndarray  # the earliest place of one
    turned: Turned | None = None


def update_in_blocks(
    rng: np.random.Generator,
    model: Model,
    state: State,
    prior: HasUsedFrequencies,
    tables: FeatureTables,
    blocks: int,
) -> None:
    """Bits, then own features, of a step; columns are put in a random order first."""
    from thali.kernels.bit_prior import BitPrior, RowOrder, first_met

    likelihood = cast(GibbsUpdates, model.likelihood)
    n = state.data.n
    state.pieces = pieces_of(n, blocks)
    order, place = rng.permutation(state.n_components), rng.permutation(n)
    words = rng.integers(2**32, size=(len(state.pieces), SEED_WORDS), dtype=np.uint32)
    given = given_pieces(state)

    def open_block(b: int) -> Block:
        rows = state.pieces[b]
        at = part_of(likelihood, state, given[b], rows, order)
        return Block(rows, np.random.default_rng(words[b]), at, *first_met(at.bits, place[rows]))

    opened = state.side_by_side(open_block, range(len(state.pieces)))
    m = reduce(np.add, (block.m for block in opened))
    first = reduce(np.minimum, (block.first for block in opened))
    pi = prior.used_frequencies(rng, n, m)
    with np.errstate(divide="ignore"):
        log_odds = np.log(pi) - np.log1p(-pi)

    def turn(block: Block) -> None:
        held = RowOrder(place[block.rows], first)
        bits = BitPrior(log_odds, m.copy(), np.zeros(0), None, held)
        block.turned = likelihood.update_bits(block.rng, block.at, bits)

    state.side_by_side(turn, opened)
    m = m + reduce(np.add, (cast(Turned, block.turned).m - m for block in opened))
    shared = int((m > 1).sum())
    before = [0] * len(opened)
    if tables.capacity != -1:
        before = [int(block.at.bits[:, m == 1].sum()) for block in opened]

    def renew(block: Block, room: FeatureTables) -> None:
        turned = cast(Turned, block.turned)._replace(m=m)
        likelihood.update_own(block.rng, block.at, room, turned)

    if tables.capacity == -1:
        state.side_by_side(lambda block: renew(block, tables), opened)
    else:
        more = 0  # features that blocks now have of their own, beyond those that they had
        for block, had in zip(opened, before, strict=True):
            renew(block, tables._replace(capacity=room_left(tables.capacity, more)))
            more += block.at.n_components - shared - had
    put_together(likelihood, state, opened, shared)


def pieces_of(n: int, blocks: int) -> tuple[slice, ...]:
    """Blocks of n rows, as equal as can be and none empty.

    >>> pieces_of(5, 2)
    (slice(0, 2, None), slice(2, 5, None))
    """
    edges = np.linspace(0, n, min(blocks, n) + 1).astype(int).tolist()
    return tuple(map(slice, edges[:-1], edges[1:]))


def given_pieces(state: State) -> list[Data]:
    """The pieces of the given data, made once."""
    given = state.data.given
    if state.parts is None or state.parts[0] is not given:
        state.parts = given, [given.piece(rows) for rows in state.pieces]
    return state.parts[1]


def part_of(
    likelihood: GibbsUpdates, state: State, given: Data, rows: slice, order: np.ndarray
) -> GibbsState:
    """The state of some rows, columns in another order; arrays that steps change are its own."""
    data = given
    if isinstance(state.data, Augmented):
        whole = state.data.piece(rows)
        data = Augmented(whole.X, source=given, latent=state.data.latent)
        vars(data)["squares"] = whole.squares
    parameters = {
        name: state.parameters[name][rows if axis else slice(None)].take(order, axis=axis)
        for name, axis in likelihood.axes.items()
    }
    bits = state.bits[rows].take(order, axis=1)
    return GibbsState(data, bits, parameters, state.hyper)


def put_together(likelihood: GibbsUpdates, state: State, opened: list[Block], shared: int) -> None:
    """The blocks' states as one: shared columns, then each block's own."""
    own = [block.at.n_components - shared for block in opened]
    ends = shared + np.cumsum(own)
    k = int(ends[-1])

    def stacked(parts: list[np.ndarray]) -> np.ndarray:
        whole = np.zeros((state.data.n, k), parts[0].dtype)

        def put(b: int) -> None:
            rows = opened[b].rows
            whole[rows, :shared] = parts[b][:, :shared]
            whole[rows, ends[b] - own[b] : ends[b]] = parts[b][:, shared:]

        state.side_by_side(put, range(len(parts)))
        return whole

    state.bits = stacked([block.at.bits for block in opened])
    state.fresh = any(block.at.fresh for block in opened)
    for name, axis in likelihood.axes.items():
        parts = [block.at.parameters[name] for block in opened]
        if axis:
            state.parameters[name] = stacked(parts)
        else:
            new = [part[shared:] for part in parts]
            state.parameters[name] = np.concatenate([parts[0][:shared], *new])
