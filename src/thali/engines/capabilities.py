"""What an engine can run: what it needs of a model, and whether it takes gaps and sparse data.

An engine says what it needs by its class variables (``engines/base.py``); what a model lacks is
told in words, with the engines that could.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from thali.data import Data
from thali.engines.base import AnyEngine, BoundOptimizer
from thali.likelihoods.base import Likelihood, TakesMissing, TakesSparse
from thali.likelihoods.clusters import DrawsGaps
from thali.model import Model
from thali.priors.base import PredictsRow, Prior, weighs_rows

if TYPE_CHECKING:
    import scipy.sparse

EngineType = type[AnyEngine]


def missing_capabilities(engine: AnyEngine | EngineType, model: Model) -> list[str]:
    """What the engine needs and the model lacks, in words."""
    lacks = [
        f"{named(need, model)}, which {type(part).__name__} does not have"
        for part, needs in (
            (model.prior, engine.needs_prior),
            (model.likelihood, engine.needs_likelihood),
        )
        for need in needs
        if not isinstance(part, need)
    ]
    heeds = engine.weighs_rows if isinstance(engine, type) else engine.heeds_row_potentials
    if weighs_rows(model.prior) and not heeds:
        lacks.append(
            "a prior that does not weigh the number of features of a row, as "
            f"{type(model.prior).__name__} does"
        )
    kind = engine if isinstance(engine, type) else type(engine)
    if getattr(model.prior, "only_drawn", False) and issubclass(kind, BoundOptimizer):
        lacks.append(
            "a prior whose numbers can be maximized; those that "
            f"{type(model.prior).__name__} learns can only be drawn"
        )
    if isinstance(model.prior, PredictsRow) and not (model.prior.linear or engine.weighs_all):
        lacks.append(
            "a prior that is a sum over columns and rows, which the features of "
            f"{type(model.prior).__name__} are not"
        )
    if not isinstance(engine, type):
        lacks += [
            f"{named(need, model)} for {setting}, which {type(part).__name__} does not have"
            for setting, needs in engine.settings_need.items()
            for need in needs
            if not isinstance(part := asked_of(need, model), need)
        ]
    return lacks


def asked_of(need: type | tuple[type, ...], model: Model) -> Prior | Likelihood:
    """The part of a model whose capability it is."""
    first = need[0] if isinstance(need, tuple) else need
    return model.likelihood if issubclass(first, Likelihood) else model.prior


def is_of_structure(engine: EngineType, model: Model) -> bool:
    """Whether what the engine needs is of the model's structure, or of any."""
    needs = (*engine.needs_prior, *engine.needs_likelihood)
    return all(of_structure(need, model) for need in needs)


def named(need: type | tuple[type, ...], model: Model) -> str:
    """A capability, that of the model's structure where there are several."""
    several = need if isinstance(need, tuple) else (need,)
    return " or ".join(n.__name__ for n in of_structure(need, model) or several)


def of_structure(need: type | tuple[type, ...], model: Model) -> list[type]:
    """Those of a capability's alternatives that are of the model's structure, or of any."""
    several = need if isinstance(need, tuple) else (need,)
    return [n for n in several if getattr(n, "structure", model.structure) == model.structure]


def check_capabilities(engine: AnyEngine, model: Model, engines: tuple[EngineType, ...]) -> None:
    """Refuse an invalid combination, and name the engines that could run it."""
    lacks = missing_capabilities(engine, model)
    if lacks:
        raise ValueError(
            f"{type(engine).__name__} cannot run {type(model.prior).__name__} × "
            f"{type(model.likelihood).__name__}: it needs {' and '.join(lacks)}. "
            f"Engines that can: {able(model, engines) or 'none yet'}."
        )


def able(
    model: Model,
    engines: tuple[EngineType, ...],
    takes: Callable[[EngineType, Model], bool] = lambda engine, model: True,
) -> str:
    """The names of the engines that can run a model and take such data."""
    can = (e for e in engines if takes(e, model) and not missing_capabilities(e, model))
    return ", ".join(e.__name__ for e in can)


def takes_missing(engine: object, model: Model) -> bool:
    """Whether engine and likelihood can both deal with missing entries."""
    if isinstance(model.likelihood, DrawsGaps) and not getattr(engine, "draws_gaps", True):
        return False
    if not isinstance(model.likelihood, getattr(engine, "gaps_need", TakesMissing)):
        return False
    return getattr(engine, "masked", False) and isinstance(model.likelihood, TakesMissing)


def check_missing(
    engine: AnyEngine, model: Model, data: Data, engines: tuple[EngineType, ...]
) -> None:
    """Refuse missing entries that engine or likelihood cannot deal with, and name what could."""
    if data.observed is None or takes_missing(engine, model):
        return
    i, j = (int(at[0]) for at in data.where_missing)
    able_to = isinstance(model.likelihood, TakesMissing)
    whose = type(engine if able_to else model.likelihood).__name__
    raise ValueError(
        f"X has {data.missing} of {data.X.size} entries missing (NaN), the first at row {i}, "
        f"column {j}, which {whose} cannot deal with. Engines that can with "
        f"{type(model.likelihood).__name__}: {able(model, engines, takes_missing) or 'none'}; or "
        "drop those rows or columns, or impute them first."
    )


def takes_sparse(engine: object, model: Model) -> bool:
    """Whether engine and likelihood can both work from a sparse matrix."""
    return getattr(engine, "sparse", False) and isinstance(model.likelihood, TakesSparse)


def check_sparse(
    engine: AnyEngine, model: Model, X: scipy.sparse.csr_array, engines: tuple[EngineType, ...]
) -> None:
    """Refuse a sparse matrix that engine or likelihood cannot work from, and name what could."""
    if takes_sparse(engine, model):
        return
    whose = type(engine if isinstance(model.likelihood, TakesSparse) else model.likelihood).__name__
    megabytes = 8e-6 * X.shape[0] * X.shape[1]
    raise TypeError(
        f"X is a sparse matrix, which {whose} cannot work from. Engines that can with "
        f"{type(model.likelihood).__name__}: {able(model, engines, takes_sparse) or 'none'}; or "
        f"make it dense first with X.toarray() if it fits in memory ({max(megabytes, 1.0):,.0f} "
        "MB)."
    )
