"""The race: short runs from several starts, and the log joint decides.

No single start wins on every data set. Each contender runs for a short while; chains then begin
from where the best contenders ended, each chain from another where several are good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thali.starts.base import Start

BEHIND = 0.002  # a contender further behind than this share of the best log joint drops out


class Finish(NamedTuple):
    """Where a contender ended: a start to go on from, and its log joint."""

    start: Start
    log_joint: float


def race(finishes: Sequence[Finish], chains: int) -> list[Start]:
    """Rank the contenders and give each chain a start: the best first, then the other good ones."""
    ranked = sorted(finishes, key=lambda finish: -finish.log_joint)
    best = ranked[0].log_joint
    good = [f.start for f in ranked if best - f.log_joint <= BEHIND * abs(best)] or [ranked[0].start]
    return [good[i % len(good)] for i in range(chains)]
