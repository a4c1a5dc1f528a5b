"""A given start: a value of the latent structure, or another fitted model's answer."""

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
            parameters = {"A": init.components_, "S": init.amounts_}
    elif amounts:  # where rows have amounts, Z alone fits nothing
        hyper = noise_scale(model, data, hyper)
    else:
        hyper = fitted_scales(model, data, latent, hyper)
    most = model.at(hyper).prior.most_components(data.n)
    used = structure.n_components(structure.canonical(latent))
    if 0 <= most < used:
        raise ValueError(
            f"init has {used} {structure.component}s but the prior allows at most {most}; "
            "raise n_components or give fewer."
        )
    return Start(name, latent, hyper, parameters=parameters)
