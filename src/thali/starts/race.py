"""The race: several starts run for a while, are changed, and the log joint decides.

No single start wins on every data set, and a Gibbs sampler alone seldom leaves the mode it fell
into: features stay split, fused or doubled. So each contender runs a few sweeps, in two heats: one
of every kind, then more of the kind that won. The best ones then search on, by a change of one or
two columns, a few sweeps, and the better of before and after (iterated local search). Chains begin
from the best points found, each from another contender where several are good. All this comes
before burn-in: it chooses where chains begin, not how they move.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from thali.starts.base import Start
from thali.structures.base import AnyStructure

BEHIND = 0.002  # a contender further behind than this share of the best log joint drops out
ROUND = 12  # sweeps before a change, or none, is compared
PATIENCE = 60  # rounds without a gain after which a search ends


class Finish(NamedTuple):
    """The end of a walk: a start to go on from, and the mean log joint of the walk's later half.

    A mean, since the best of a walk says more of its length and of chance than of where it ends.
    """

    start: Start
    level: float


Walk = Callable[[np.random.Generator, Start, int], Finish]


def perturb(
    rng: np.random.Generator,
    at: Finish,
    walk: Walk,
    sweeps: int,
    structure: AnyStructure,
    capacity: int = -1,
) -> Finish:
    """Iterated local search from ``at``, ``sweeps`` in all, and the best it came to.

    A round walks on from where it is, and from there with components changed; the better goes on.
    """
    best, failures = at, 0
    for _ in range(sweeps // (2 * ROUND)):
        if failures == PATIENCE:
            break
        other = structure.changed(rng, at.start.latent, capacity)
        changed = walk(rng, Start(at.start.name, other, at.start.hyper), ROUND)
        plain = walk(rng, at.start, ROUND)
        at = max(plain, changed, key=lambda finish: finish.level)
        failures = 0 if at.level > best.level else failures + 1
        best = max(best, at, key=lambda finish: finish.level)
    return best


def rank(finishes: Sequence[Finish], chains: int) -> list[Start]:
    """A start for each chain: the best contender's first, then those of the other good ones."""
    ranked = sorted(finishes, key=lambda finish: -finish.level)
    best = ranked[0].level
    good = [f.start for f in ranked if best - f.level <= BEHIND * abs(best)]
    good = good or [ranked[0].start]  # no log joint at all (stopped at once): take the first
    return [good[i % len(good)] for i in range(chains)]


def different(finishes: Sequence[Finish], count: int, structure: AnyStructure) -> list[Start]:
    """The best starts whose values differ, as equal ones lead some engines to equal ends."""
    found: dict[bytes, Start] = {}
    for finish in sorted(finishes, key=lambda finish: -finish.level):
        key = structure.pack(structure.canonical(finish.start.latent)).tobytes()
        found.setdefault(key, finish.start)
    starts = list(found.values())
    return [starts[i % len(starts)] for i in range(count)]
