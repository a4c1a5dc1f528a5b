"""What every engine shares: the capabilities it needs, and the check that a model has them.

An engine is a frozen dataclass with settings ``sweeps``, ``chains``, ``thin``, ``init``, and

    begin(rng, model, data, start) → state  all that the next step needs
    step(rng, model, data, state) → info    one step, in place, and its diagnostics
    freeze(state) → arrays, numbers         the state as plain arrays and JSON-able values
    thaw(model, data, arrays, numbers)      and back

and no loop of its own: ``thali.run`` drives every engine. One whose ``kind`` is "weighted" has no
draws but at its end, and in place of ``sweeps`` and ``thin``

    steps(data) → int                       how many steps it makes
    population(rng, model, data, state)     the weighted draws it ends with

One of kind "variational" ends with a law, of which its population are draws, and has

    finished(state) → bool                  whether another step would change nothing
    law(model, state) → arrays              the parameters of the law

One of kind "point" has the same; its population is its answer alone, and its law what it can say of
that answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Masked, TakesSparse
from thali.model import Model
from thali.starts import Start, anneal


class Info(NamedTuple):
    """Diagnostics of one step; the scalars are what traces and progress show."""

    n_features: int
    log_joint: float
    hyper: dict[str, float]
    drift: float


class Population(NamedTuple):
    """Weighted draws: weights (P,), scalars (P, …) as a trace names them, packed Z, log P(X), and
    the parameters of each, if they are kept."""

    weights: np.ndarray
    scalars: np.ndarray
    Z: list[np.ndarray]
    log_evidence: float
    parameters: list[dict[str, np.ndarray]] = []  # noqa: RUF012 never changed


class Engine:
    """Declarations of an engine: the classes its prior and likelihood must inherit."""

    needs_prior: ClassVar[tuple[type, ...]] = ()
    needs_likelihood: ClassVar[tuple[type, ...]] = ()
    masked: ClassVar[bool] = False  # whether it can deal with missing entries
    sparse: ClassVar[bool] = False  # whether X may be a sparse matrix
    kind: ClassVar[str] = "draws"
    unit: ClassVar[str] = "sweep"  # what a step is called
    measure: ClassVar[str] = "log_joint"  # what a step tells of how good the place is
    races: ClassVar[bool] = True  # whether starts can be raced by short runs of it

    @property
    def settings_need(self) -> dict[str, tuple[type, ...]]:
        """What some settings need of the prior besides, by setting."""
        return {}

    def steps(self, data: Data) -> int:
        """How many steps the loop makes in each chain."""
        return self.sweeps  # type: ignore[attr-defined,no-any-return]

    def planned(self, data: Data, n_features: int) -> Self:
        """This engine with a number of sweeps; those that leave it open choose it here."""
        return self

    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start:
        """Where steps under falling noise lead from a start that knows nothing of the data."""
        return anneal(rng, self, model, data, start, stopped)

    def racing_sweeps(self, data: Data, n_features: int) -> int:
        """How many steps a race of starts may think that a chain makes."""
        return self.planned(data, n_features).steps(data)

    @property
    def searches(self) -> bool:
        """Whether a race goes on by changes at random; not where the engine makes its own."""
        return True

    def finished(self, state: Any) -> bool:
        """Whether another step would change nothing; samplers never are."""
        return False

    def level(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any, info: Info
    ) -> float:
        """What a race compares places by, after the step that ``info`` tells of."""
        return info.log_joint

    def keepsakes(self, model: Model, state: Any) -> dict[str, np.ndarray]:
        """Parameters to keep with a draw, features along the first axis.

        None where a draw's parameters can be drawn exactly later, given its Z.
        """
        return {}


def missing_capabilities(engine: type[Engine] | Engine, model: Model) -> list[str]:
    """What the engine needs and the model lacks, in words."""
    lacks = []
    for part, needs in (
        (model.prior, engine.needs_prior),
        (model.likelihood, engine.needs_likelihood),
    ):
        lacks += [
            f"{need.__name__}, which {type(part).__name__} does not have"
            for need in needs
            if not isinstance(part, need)
        ]
    if isinstance(engine, Engine):
        lacks += [
            f"{need.__name__} for {setting}, which {type(model.prior).__name__} does not have"
            for setting, needs in engine.settings_need.items()
            for need in needs
            if not isinstance(model.prior, need)
        ]
    return lacks


def check_capabilities(engine: Engine, model: Model, engines: tuple[type[Engine], ...]) -> None:
    """Refuse an invalid combination, and name the engines that could run it."""
    lacks = missing_capabilities(engine, model)
    if lacks:
        able = [e.__name__ for e in engines if not missing_capabilities(e, model)]
        raise ValueError(
            f"{type(engine).__name__} cannot run {type(model.prior).__name__} × "
            f"{type(model.likelihood).__name__}: it needs {' and '.join(lacks)}. "
            f"Engines that can: {', '.join(able) or 'none yet'}."
        )


def takes_missing(engine: type[Engine] | Engine, model: Model) -> bool:
    """Whether engine and likelihood can both deal with missing entries."""
    return getattr(engine, "masked", False) and isinstance(model.likelihood, Masked)


def check_missing(
    engine: Engine, model: Model, data: Data, engines: tuple[type[Engine], ...]
) -> None:
    """Refuse missing entries that engine or likelihood cannot deal with, and name what could."""
    if data.mask is None or takes_missing(engine, model):
        return
    i, j = np.argwhere(~data.mask)[0]
    able = [
        e.__name__
        for e in engines
        if takes_missing(e, model) and not missing_capabilities(e, model)
    ]
    whose = type(engine if isinstance(model.likelihood, Masked) else model.likelihood).__name__
    raise ValueError(
        f"X has {data.missing} of {data.X.size} entries missing (NaN), the first at row {i}, "
        f"column {j}, which {whose} cannot deal with. Engines that can with "
        f"{type(model.likelihood).__name__}: {', '.join(able) or 'none'}; or drop those rows or "
        "columns, or impute them first."
    )


def takes_sparse(engine: type[Engine] | Engine, model: Model) -> bool:
    """Whether engine and likelihood can both work from a sparse matrix."""
    return getattr(engine, "sparse", False) and isinstance(model.likelihood, TakesSparse)


def check_sparse(engine: Engine, model: Model, X: Any, engines: tuple[type[Engine], ...]) -> None:
    """Refuse a sparse matrix that engine or likelihood cannot work from, and name what could."""
    if takes_sparse(engine, model):
        return
    able = [
        e.__name__ for e in engines if takes_sparse(e, model) and not missing_capabilities(e, model)
    ]
    whose = type(engine if isinstance(model.likelihood, TakesSparse) else model.likelihood).__name__
    megabytes = 8e-6 * X.shape[0] * X.shape[1]
    raise TypeError(
        f"X is a sparse matrix, which {whose} cannot work from. Engines that can with "
        f"{type(model.likelihood).__name__}: {', '.join(able) or 'none'}; or make it dense first "
        f"with X.toarray() if it fits in memory ({max(megabytes, 1.0):,.0f} MB)."
    )
