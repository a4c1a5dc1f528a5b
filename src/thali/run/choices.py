"""Which engine runs a model: one that was given or named, or "auto"; and whether it can.

"auto" looks at the model and the data. A sampler is taken where it would come to an end in time: a
sweep over N rows of D columns costs about N (K² + K min(N, D)) multiply-adds.
"""

from math import inf
from typing import NamedTuple

from thali.data import Data
from thali.engines.base import AnyEngine
from thali.engines.capabilities import (
    check_capabilities,
    check_missing,
    check_sparse,
    is_of_structure,
    missing_capabilities,
    takes_missing,
    takes_sparse,
)
from thali.model import Model
from thali.registry import ENGINES
from thali.settings import refuse_class

AUTO = "auto"
LONG = 600.0  # seconds that sampling may take where no time budget says otherwise
SWEEPS, FEATURES = 200, 20  # of a short run, to judge by
PER_SECOND = 5e8  # multiply-adds of a sweep


class EngineChoice(NamedTuple):
    """An engine, and why "auto" took it."""

    engine: AnyEngine
    why: str

    def sentence(self) -> str:
        return f"{type(self.engine).__name__}, since {self.why}."


def is_auto(part: object) -> bool:
    """Whether the data choose it."""
    return isinstance(part, str) and part.lower() == AUTO


def choose_engine(
    engine: str | AnyEngine,
    model: Model | None = None,
    *,
    sparse: bool = False,
    missing: bool = False,
    shape: tuple[int, int] | None = None,
    time_budget: float | None = None,
) -> AnyEngine:
    """The engine itself or by name; "auto" is what ``auto_engine`` takes."""
    if not is_auto(engine):
        return ENGINES.make(engine, besides=(AUTO,))
    return auto_engine(model, sparse, missing, shape, time_budget).engine


def auto_engine(
    model: Model | None,
    sparse: bool = False,
    missing: bool = False,
    shape: tuple[int, int] | None = None,
    time_budget: float | None = None,
) -> EngineChoice:
    """The engine for a model and data of this ``shape``.

    First by the rank that engines declare: ``CollapsedGibbs``, or ``UncollapsedGibbs`` where the
    model's parameters cannot be integrated out. Where X is ``sparse`` or has ``missing`` entries,
    the first that takes such data, those without a rank last: ``MaximizationExpectation`` of sparse
    ones. Where sampling would take too long, one for large data. Where no engine can, the first
    refuses in words.
    """
    able = [e for e in engines() if model is None or not missing_capabilities(e, model)]
    ranked, why = [e for e in able if rank(e) < inf], "it samples the model exactly"
    if model is not None and ranked[:1] != [first := first_of_structure(model)]:
        parts = f"{type(model.prior).__name__} × {type(model.likelihood).__name__}"
        why = f"{first.__name__} cannot run {parts}"
    if model is not None and (sparse or missing):
        takes = takes_sparse if sparse else takes_missing
        taking = [e for e in able if takes(e, model)]
        if taking and taking[0] not in ranked[:1]:
            why = f"it takes {'sparse matrices' if sparse else 'missing entries'} as they are"
        able, ranked = taking or able, taking[:1] or ranked
    large = next((e for e in able if e.auto_large), None)
    most = LONG if time_budget is None else time_budget
    if model is not None and large and shape and seconds_of_sampling(*shape) > most:
        why = f"to sample {shape[0]:,} rows of {shape[1]:,} columns would take over {most:g} s"
        return EngineChoice(large(), why)
    return EngineChoice(next(iter(ranked), engines()[0])(), why)


def seconds_of_sampling(n: int, d: int) -> float:
    """What a short run of a sampler takes, about."""
    return SWEEPS * n * FEATURES * (FEATURES + min(n, d)) / PER_SECOND


def engines() -> tuple[type[AnyEngine], ...]:
    """All engines, those that "auto" may choose first."""
    return tuple(sorted(ENGINES.values(), key=rank))


def first_of_structure(model: Model) -> type[AnyEngine]:
    """The engine that "auto" would look at first among those of the model's structure."""
    return next((e for e in engines() if is_of_structure(e, model)), engines()[0])


def rank(engine: type) -> float:
    """Where "auto" looks for an engine: first for one of low rank, and for none without."""
    found = getattr(engine, "auto_rank", None)
    return inf if found is None else float(found)


def refuse_other(engine: object) -> None:
    """Refuse an object that is no engine."""
    refuse_class("engine", engine)
    if not hasattr(engine, "step"):
        raise TypeError(
            f"engine={engine!r} is not an engine: use one of thali's, such as "
            "thali.CollapsedGibbs(), or a name such as 'collapsed_gibbs'."
        )


def check_engine(engine: AnyEngine, model: Model, data: Data | None = None) -> None:
    """Refuse an object that is no engine, and a combination that is not valid (for the data)."""
    refuse_other(engine)
    check_capabilities(engine, model, engines())
    if data is not None and data.sparse:
        check_sparse(engine, model, data.X, engines())
    elif data is not None:
        check_missing(engine, model, data, engines())
