"""When a search loses the planted Z: the first time that none of the candidates in its queue is the
planted matrix's first rows; see `rai_daume_2011.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from presenting import table
from rai_daume_2011_fits import (
    Task,
)

from thali.data import Data
from thali.engines.search.best_first import BestFirst
from thali.engines.search.candidates import Candidate, Problem
from thali.engines.search.heuristics import heuristic


class Loss(NamedTuple):
    """The rows of the planted candidate that was lost, and the fewest and most of those held."""

    rows: int
    fewest: int
    most: int

    @property
    def words(self) -> str:
        if self.fewest > self.rows:
            return "all longer"
        if self.most < self.rows:
            return "all shorter"
        return "of its length among others"


def columns(Z: np.ndarray) -> list[bytes]:
    """The columns in use, in an order that does not depend on how they were named."""
    return sorted(map(bytes, np.packbits(Z[:, Z.any(axis=0)].T, axis=1)))


def loss(task: Task, name: str, width: int, seed: int) -> Loss | None:
    """Where the planted Z is lost, or None if it is the answer."""
    assert task.Z is not None
    data = Data.of(task.X)
    X = np.ascontiguousarray(data.reduced)
    problem = Problem(X, data.squares, data.d, task.model.prior, task.sigma_x, task.sigma_a)
    future = heuristic(name, problem, np.random.default_rng(seed))
    nothing = task.model.log_joint(task.X, np.zeros((len(X), 0), bool))  # as `init="empty"` has
    search = BestFirst(
        problem, future, width=width, floor=nothing if future.admissible else -np.inf
    )
    planted = [columns(task.Z[:n]) for n in range(len(task.Z) + 1)]

    def on_path(candidates: Iterable[Candidate]) -> list[Candidate]:
        return [c for c in candidates if columns(c.matrix()) == planted[c.rows]]

    furthest = 0
    while not search.advance(1):
        held = [item[2] for item in search.queue.items]
        alive = on_path(held)
        if not alive:
            # expanded just now, its successor not let in; or pushed out by successors of others
            expanded = 1 if on_path([search.last]) else 0
            rows = search.last.rows + 1 if expanded else furthest
            lengths = [c.rows for c in held]
            return Loss(rows, min(lengths), max(lengths))
        furthest = max(c.rows for c in alive)
    assert search.answer is not None
    return None if on_path([search.answer]) else Loss(furthest, len(task.Z), len(task.Z))


def losses(tasks: list[Task], names: Iterable[str], width: int, seed: int) -> list[str]:
    """A table of what was in the queue when the planted Z was lost, over data sets."""
    kinds = ("all longer", "all shorter", "of its length among others")
    rows = []
    for name in names:
        found = [loss(task, name, width, seed) for task in tasks]
        lost = [one for one in found if one is not None]
        after = f"{np.median([one.rows for one in lost]):.0f}" if lost else "–"
        counts = [sum(one.words == kind for one in lost) for kind in kinds]
        rows.append([name, len(found) - len(lost), *counts, after])
    head = ["rows as they come", "kept to the end", *(f"lost, others {k}" for k in kinds),
            "rows of it when lost, median"]  # fmt: skip
    return table(head, rows)
