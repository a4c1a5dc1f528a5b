"""A given start: a matrix Z, or another fitted model's answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.data import Data
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.starts.base import Start
from thali.starts.ica import fitted_scales, noise_scale
from thali.structures.features import as_binary_matrix


def given_start(init: Any, model: Model, data: Data) -> Start:
    """Z as given; scales from a fitted model, or from the least-squares residual of Z."""
    hyper = model.start(data)
    name = "given Z"
    amounts = "S" in getattr(model.likelihood, "axes", {})
    parameters: dict[str, np.ndarray] = {}
    shape = np.shape(init.Z_ if hasattr(init, "Z_") else init)
    refuse_beyond_memory("init", shape[0], shape[1], data.d)
    if hasattr(init, "Z_"):
        name = "another model"
        for label in model.hyperpriors:  # numbers that the model fixes stay as they are
            hyper[label] = getattr(init, f"{label.replace('.', '_')}_", hyper[label])
        Z = as_binary_matrix(init.Z_, n=data.n)
        if amounts and hasattr(init, "amounts_") and init.components_.shape[1] == data.d:
            parameters = {"A": init.components_, "S": init.amounts_}
    else:
        Z = as_binary_matrix(init, n=data.n)
        # where rows have amounts, Z alone fits nothing
        hyper = noise_scale(model, data, hyper) if amounts else fitted_scales(model, data, Z, hyper)
    capacity = model.at(hyper).prior.tables(data.n).capacity  # type: ignore[attr-defined]
    used = int(Z.any(axis=0).sum())
    if 0 <= capacity < used:
        raise ValueError(
            f"init has {used} features but the prior allows at most {capacity}; "
            "raise n_components or give fewer columns."
        )
    return Start(name, np.ascontiguousarray(Z), hyper, parameters=parameters)
