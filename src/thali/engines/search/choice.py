"""Which form of search suits a likelihood: A integrated out, or parameters at their best."""

from typing import Any

from thali.data import Data
from thali.engines.search.amounts_polish import AmountsForm
from thali.engines.search.forms import Form
from thali.engines.search.kept_polish import KeptForm
from thali.engines.search.masked_polish import MaskedIntegrated
from thali.engines.search.nonnegative_polish import NonnegativeForm
from thali.engines.search.polish import Integrated
from thali.likelihoods.search_rows import CountedFeatures, PositiveFeatures, SlabAmounts
from thali.model import Model

KEPT: dict[type, type[Form[Any]]] = {  # what a likelihood declares, and what then is at its best
    CountedFeatures: KeptForm,
    PositiveFeatures: NonnegativeForm,
    SlabAmounts: AmountsForm,
}


def form_of(model: Model, data: Data, heuristic: str) -> Form[Any]:
    """The form of search; a heuristic that it does not have is refused."""
    integrated = Integrated if data.observed is None else MaskedIntegrated
    fits = (form for declared, form in KEPT.items() if isinstance(model.likelihood, declared))
    form = next(fits, integrated)(model, data)
    if heuristic not in ("auto", *form.heuristics):
        name = type(model.likelihood).__name__
        lacks = form.lacks or f"features that can be integrated out, and those of {name} cannot"
        raise ValueError(
            f"BeamSearch: heuristic={heuristic!r} needs {lacks}; use 'auto', "
            f"{', '.join(map(repr, form.heuristics))}."
        )
    return form
