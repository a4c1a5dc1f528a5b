"""The race: several starts run for a while, are changed, and the log joint decides.

No single start wins on every data set, and a Gibbs sampler alone seldom leaves the mode it fell
into: features stay split, fused or doubled. So each contender runs a few sweeps, in two heats: one
of every kind, then more of the kind that won. The best ones then search on, by a change of one or
two columns, a few sweeps, and the better of before and after (iterated local search), until most of
them agree: no further apart than one of them is from itself a few sweeps later, and no higher than
its log joint varies. Chains begin from the best points found, each from another contender where
several are good. All this comes before burn-in: it chooses where chains begin, not how they move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thali.starts.base import Start
from thali.structures.base import AnyStructure

BEHIND = 0.002  # a contender further behind than this share of the best log joint drops out
ROUND = 12  # sweeps before a change is compared
PLAIN = 3  # rounds of which one begins with as many sweeps without a change
PATIENCE = 60  # rounds without a gain after which a search ends
TOGETHER = 6  # rounds of every search before they are compared with one another
APART = 2.0  # two that agree are at most so many times as far apart as one is from itself later
ABOVE = 3.0  # and differ by at most so many standard deviations of their log joints


class Finish(NamedTuple):
    """The end of a walk: a start to go on from, and the mean log joint of the walk's later half,
    and their standard deviation.

    A mean, since the best of a walk says more of its length and of chance than of where it ends.
    """

    start: Start
    level: float
    spread: float = 0.0


Walk = Callable[[np.random.Generator, Start, int], Finish]


@dataclass
class Search:
    """An iterated local search: where it is, the best it came to, and how far it wanders.

    A round walks from where it is, components changed, and stays there if that is better. Every
    third one first walks on as it is.
    """

    rng: np.random.Generator
    at: Finish
    walk: Walk
    structure: AnyStructure
    capacity: int = -1
    made: int = 0  # rounds so far
    failures: int = 0  # of them, those since the last gain
    steps: list[float] = field(default_factory=list)  # distances that rounds without change went
    best: Finish = field(init=False)

    def __post_init__(self) -> None:
        self.best = self.at

    @property
    def over(self) -> bool:
        """Whether more rounds are not worth their while."""
        return self.failures >= PATIENCE

    def rounds(self, count: int) -> None:
        """So many rounds more, fewer where it is over."""
        for _ in range(count):
            if self.over:
                break
            before = self.best.level
            if self.made % PLAIN == 0:
                self._go_on()
            name, hyper = self.at.start.name, self.at.start.hyper
            other = self.structure.changed(self.rng, self.at.start.latent, self.capacity)
            changed = self.walk(self.rng, Start(name, other, hyper), ROUND)
            self.at = max(self.at, changed, key=lambda finish: finish.level)
            self.best = max(self.best, self.at, key=lambda finish: finish.level)
            self.failures = 0 if self.best.level > before else self.failures + 1
            self.made += 1

    def _go_on(self) -> None:
        """A walk from where it is, as it is, which tells how far that leads."""
        plain = self.walk(self.rng, self.at.start, ROUND)
        latent = self.at.start.latent
        self.steps.append(self.structure.distance(latent, plain.start.latent))
        self.at = plain
        self.best = max(self.best, plain, key=lambda finish: finish.level)


def won(searches: Sequence[Search]) -> bool:
    """Whether most searches came to where the best one did: more would only find it again."""
    leader = max(searches, key=lambda search: search.best.level)
    with_it = sum(agree(leader, other) for other in searches)
    return len(searches) > 1 and with_it > len(searches) / 2


def agree(a: Search, b: Search) -> bool:
    """Whether two searches came to the same, as far as a walk can tell."""
    if a is b:
        return True
    if not (a.steps and b.steps):
        return False
    noise = APART * max(np.mean(a.steps), np.mean(b.steps))
    same = a.structure.distance(a.best.start.latent, b.best.start.latent) <= noise
    spread = ABOVE * max(a.best.spread, b.best.spread)
    return bool(same and abs(a.best.level - b.best.level) <= spread)


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
