"""The race: short runs from several starts, and the log joint decides.

No single start wins on every data set. Each contender runs for a short while; chains then begin
from where the best contenders ended, the best one first, each chain from another where several
are good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from thali.starts.base import Start


class Finish(NamedTuple):
    """Where a contender ended: a start to go on from, and its log joint."""

    start: Start
    log_joint: float


def race(
    contenders: Sequence[Start], short_run: Callable[[int, Start], Finish], chains: int
) -> list[Start]:
    """Run each contender, rank them, and give each chain a start.

    Chains take the contenders in order of rank; a contender that ended further below the best
    than the best gained on the middle of the field is left behind, and the good ones are used again.
    """
    finishes = sorted(
        (short_run(i, start) for i, start in enumerate(contenders)),
        key=lambda finish: -finish.log_joint,
    )
    best = finishes[0].log_joint
    good = [f for f in finishes if best - f.log_joint <= 0.002 * abs(best)] or finishes[:1]
    return [good[i % len(good)].start for i in range(chains)]
