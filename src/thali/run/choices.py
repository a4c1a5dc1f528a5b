"""From names to parts: "ibp", "collapsed_gibbs", "auto" become priors, likelihoods and engines."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from thali.data import Data
from thali.engines import (
    BeamSearch,
    CollapsedGibbs,
    MaximizationExpectation,
    ParticleFilter,
    UncollapsedGibbs,
    Variational,
    base,
)
from thali.engines.base import check_capabilities, check_missing, missing_capabilities
from thali.likelihoods import LinearGaussian, NoisyOr, NonnegativeLinearGaussian, SparseFactor
from thali.model import Model
from thali.priors import IBP, BetaBernoulli, TwoParameterIBP
from thali.settings import refuse_class

PRIORS = {"ibp": IBP, "two_parameter_ibp": TwoParameterIBP, "beta_bernoulli": BetaBernoulli}
LIKELIHOODS: dict[str, Any] = {
    "linear_gaussian": LinearGaussian,
    "nonnegative_linear_gaussian": NonnegativeLinearGaussian,
    "noisy_or": NoisyOr,
    "sparse_factor": SparseFactor,
}
ENGINES: dict[str, Any] = {
    "collapsed_gibbs": CollapsedGibbs,
    "uncollapsed_gibbs": UncollapsedGibbs,
    "particle_filter": ParticleFilter,
    "variational": Variational,
    "maximization_expectation": MaximizationExpectation,
    "beam_search": BeamSearch,
}


def named(what: str, value: Any, table: Mapping[str, Any]) -> Any:
    """The part itself, or the one that a name such as "two-parameter-ibp" stands for."""
    if not isinstance(value, str):
        return value
    key = value.lower().replace("-", "_")
    if key not in table:
        near = difflib.get_close_matches(key, table, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what}={value!r} is not known; use one of {', '.join(table)}.{hint}")
    return table[key]()


def choose_engine(engine: Any, model: Model | None = None) -> Any:
    """The engine itself or by name; "auto" is CollapsedGibbs, or UncollapsedGibbs where the model's
    parameters cannot be integrated out. Their sweeps suit the size."""
    auto: Any = CollapsedGibbs
    if model is not None and missing_capabilities(CollapsedGibbs, model):
        auto = UncollapsedGibbs if not missing_capabilities(UncollapsedGibbs, model) else auto
    return named("engine", engine, {"auto": auto} | ENGINES)


def check_engine(engine: Any, model: Model, data: Data | None = None) -> None:
    """Refuse an object that is no engine, and a combination that is not valid (for the data)."""
    refuse_class("engine", engine)
    if not hasattr(engine, "step"):
        raise TypeError(
            f"engine={engine!r} is not an engine: use one of thali's, such as "
            "thali.CollapsedGibbs(), or a name such as 'collapsed_gibbs'."
        )
    check_capabilities(engine, model, tuple(ENGINES.values()))
    if data is not None and data.sparse:
        check_sparse(engine, model, data.X)
    elif data is not None:
        check_missing(engine, model, data, tuple(ENGINES.values()))


def check_sparse(engine: Any, model: Model, X: Any) -> None:
    """Refuse a sparse X that engine or likelihood cannot work from."""
    base.check_sparse(engine, model, X, tuple(ENGINES.values()))
