"""Which engine runs a model: one that was given or named, or "auto"; and whether it can."""

from math import inf

from thali.data import Data
from thali.engines import base
from thali.engines.base import AnyEngine
from thali.model import Model
from thali.registry import ENGINES
from thali.settings import refuse_class

AUTO = "auto"


def choose_engine(
    engine: str | AnyEngine,
    model: Model | None = None,
    *,
    sparse: bool = False,
    missing: bool = False,
) -> AnyEngine:
    """The engine itself or by name; "auto" is the first that can run the model.

    First by the rank that engines declare: ``CollapsedGibbs``, or ``UncollapsedGibbs`` where the
    model's parameters cannot be integrated out. Where X is ``sparse`` or has ``missing`` entries,
    the first that takes such data, those without a rank last: ``MaximizationExpectation`` of sparse
    ones. Where no engine can, the first refuses in words.
    """
    if not isinstance(engine, str) or engine.lower() != AUTO:
        return ENGINES.make(engine, besides=(AUTO,))
    able = [e for e in engines() if model is None or not base.missing_capabilities(e, model)]
    if model is not None and (sparse or missing):
        takes = base.takes_sparse if sparse else base.takes_missing
        found = next((e for e in able if takes(e, model)), None)
        if found is not None:
            return found()
    return next((e for e in able if rank(e) < inf), engines()[0])()


def engines() -> tuple[type[AnyEngine], ...]:
    """All engines, those that "auto" may choose first."""
    return tuple(sorted(ENGINES.values(), key=rank))


def rank(engine: type) -> float:
    """Where "auto" looks for an engine: first for one of low rank, and for none without."""
    found = getattr(engine, "auto_rank", None)
    return inf if found is None else float(found)


def check_engine(engine: AnyEngine, model: Model, data: Data | None = None) -> None:
    """Refuse an object that is no engine, and a combination that is not valid (for the data)."""
    refuse_class("engine", engine)
    if not hasattr(engine, "step"):
        raise TypeError(
            f"engine={engine!r} is not an engine: use one of thali's, such as "
            "thali.CollapsedGibbs(), or a name such as 'collapsed_gibbs'."
        )
    base.check_capabilities(engine, model, engines())
    if data is not None and data.sparse:
        base.check_sparse(engine, model, data.X, engines())
    elif data is not None:
        base.check_missing(engine, model, data, engines())
