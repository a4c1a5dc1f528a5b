"""From names to parts: "ibp", "collapsed_gibbs", "auto" become priors, likelihoods and engines."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from thali.engines import CollapsedGibbs, ParticleFilter, UncollapsedGibbs
from thali.engines.base import check_capabilities
from thali.likelihoods import LinearGaussian, NoisyOr
from thali.model import Model
from thali.priors import IBP, BetaBernoulli, TwoParameterIBP

PRIORS = {"ibp": IBP, "two_parameter_ibp": TwoParameterIBP, "beta_bernoulli": BetaBernoulli}
LIKELIHOODS = {"linear_gaussian": LinearGaussian, "noisy_or": NoisyOr}
ENGINES: dict[str, Any] = {
    "collapsed_gibbs": CollapsedGibbs,
    "uncollapsed_gibbs": UncollapsedGibbs,
    "particle_filter": ParticleFilter,
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


def choose_engine(engine: Any, likelihood: Any = None) -> Any:
    """The engine itself or by name; "auto" is the first that can run the likelihood.

    That is CollapsedGibbs where the features can be integrated out; its sweeps suit the size.
    """
    able = [
        engine_class
        for engine_class in ENGINES.values()
        if all(isinstance(likelihood, need) for need in engine_class.needs_likelihood)
    ]
    return named("engine", engine, {"auto": (able or [CollapsedGibbs])[0]} | ENGINES)


def check_engine(engine: Any, model: Model) -> None:
    """Refuse an object that is no engine, and a combination that is not valid."""
    if not hasattr(engine, "step"):
        raise TypeError(
            f"engine={engine!r} is not an engine: use one of thali's, such as "
            "thali.CollapsedGibbs(), or a name such as 'collapsed_gibbs'."
        )
    check_capabilities(engine, model, tuple(ENGINES.values()))
