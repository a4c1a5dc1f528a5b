"""A given start: a value of the latent structure, or another fitted model's answer."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from thali.data import Data
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.starts.base import Start
from thali.starts.ica import fitted_scales, noise_scale
from thali.structures.grouped_partitions import Grouping


def given_start(init: Any, model: Model, data: Data, owner: str = "start") -> Start:
    """The value as given; scales from a fitted model, or from its least-squares residual."""
    structure, hyper, name = model.structure, model.start(data), "given Z"
    amounts = "S" in getattr(model.likelihood, "axes", {})
    parameters: dict[str, np.ndarray] = {}
    value = getattr(init, structure.answer, init)
    shape: tuple[int, ...] = () if isinstance(value, Grouping) else np.shape(value)
    if len(shape) == 2:
        refuse_beyond_memory("init", shape[0], shape[1], data.d)
    latent = structure.check(owner, value, data.n)
    if value is not init:
        name = "another model"
        for label in model.hyperpriors:  # numbers that the model fixes stay as they are
            hyper[label] = getattr(init, f"{label.replace('.', '_')}_", hyper[label])
        if amounts and hasattr(init, "amounts_") and init.components_.shape[1] == data.d:
            scale = getattr(init, "scale_", 1.0)  # A is told in the units of its own data
            parameters = {"A": init.components_ / scale, "S": init.amounts_}
    elif amounts:  # where rows have amounts, Z alone fits nothing
        hyper = noise_scale(model, data, hyper)
    else:
        hyper = fitted_scales(model, data, latent, hyper)
    most = model.at(hyper).prior.most_components(data.n)
    used = structure.n_components(structure.canonical(latent))
    if 0 <= most < used:
        raise ValueError(
            f"init has {used} {structure.component}s but the prior allows at most {most}; "
            "raise that limit or give fewer."
        )
    return Start(name, latent, hyper, parameters=parameters)


def given_rows(
    init: Any, model: Model, data: Data, near: Data, which: np.ndarray, owner: str = "start"
) -> Start:
    """The same of rows of which only some are in memory: ``which``, those of ``near``.

    Scales, where init does not tell them, are those of all rows, or of these where entries are
    missing.
    """
    if near.n == data.n:
        return given_start(init, model, near, owner)
    answer, axes = model.structure.answer, getattr(model.likelihood, "axes", {})
    latent = model.structure.check(owner, getattr(init, answer, init), data.n)
    some: Any = latent[which]
    if hasattr(init, answer):
        of_model = {k: v for k, v in vars(init).items() if k.endswith("_")}
        of_rows = {k: of_model[k][which] for k in ("amounts_",) if k in of_model}
        some = SimpleNamespace(**of_model | of_rows | {answer: some})
    found = given_start(some, model, near, owner)
    if data.observed is None and not hasattr(init, answer) and "S" not in axes:
        found = replace(found, hyper=fitted_scales(model, data, latent, dict(found.hyper)))
    parameters = dict(found.parameters)
    if "S" in parameters:
        parameters["S"] = init.amounts_
    return replace(found, latent=latent, parameters=parameters)
