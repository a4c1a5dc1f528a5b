"""Which engine runs a model: one that was given or named, or "auto"; and whether it can."""

from math import inf

from scipy.sparse import csr_array

from thali.data import Data
from thali.engines import base
from thali.engines.base import AnyEngine, check_capabilities, check_missing, missing_capabilities
from thali.model import Model
from thali.registry import ENGINES
from thali.settings import refuse_class

AUTO = "auto"


def choose_engine(engine: str | AnyEngine, model: Model | None = None) -> AnyEngine:
    """The engine itself or by name; "auto" is the first that can run the model.

    First by the rank that engines declare: ``CollapsedGibbs``, or ``UncollapsedGibbs`` where the
    model's parameters cannot be integrated out. Where no engine can, the first refuses in words.
    """
    if not isinstance(engine, str) or engine.lower() != AUTO:
        return ENGINES.make(engine, besides=(AUTO,))
    able = (e for e in engines() if model is None or not missing_capabilities(e, model))
    return next((e for e in able if _rank(e) < inf), engines()[0])()


def engines() -> tuple[type[AnyEngine], ...]:
    """All engines, those that "auto" may choose first."""
    return tuple(sorted(ENGINES.values(), key=_rank))


def _rank(engine: type[AnyEngine]) -> float:
    rank = getattr(engine, "auto_rank", None)
    return inf if rank is None else float(rank)


def check_engine(engine: AnyEngine, model: Model, data: Data | None = None) -> None:
    """Refuse an object that is no engine, and a combination that is not valid (for the data)."""
    refuse_class("engine", engine)
    if not hasattr(engine, "step"):
        raise TypeError(
            f"engine={engine!r} is not an engine: use one of thali's, such as "
            "thali.CollapsedGibbs(), or a name such as 'collapsed_gibbs'."
        )
    check_capabilities(engine, model, engines())
    if data is not None and data.sparse:
        check_sparse(engine, model, data.X)
    elif data is not None:
        check_missing(engine, model, data, engines())


def check_sparse(engine: AnyEngine, model: Model, X: csr_array) -> None:
    """Refuse a sparse X that engine or likelihood cannot work from."""
    base.check_sparse(engine, model, X, engines())
