"""Saving and loading fitted models: settings as JSON by class name, everything else as arrays.

Only registered classes are ever made from a file, so that opening a stranger's model runs no code
of theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from thali import storage
from thali.data import Data
from thali.data.elsewhere import FarData, opened
from thali.estimators import tables
from thali.estimators.layouts import (
    check_columns,
    check_layout,
    check_noise,
    layout_from_json,
    layout_to_json,
)
from thali.likelihoods.column_noise import ColumnNoise
from thali.likelihoods.latent_columns import Layout
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.registry import ESTIMATORS, known_classes
from thali.results.fit import Fit, fit_from_arrays
from thali.settings import MOST, number_from_zero, shown, whole_number
from thali.storage import Json
from thali.structures.grouped_partitions import Grouping

if TYPE_CHECKING:
    from thali.estimators.base import LatentModel

PARTS = ("prior", "likelihood", "engine")  # values that never change, or names of them
PLAIN: dict[str, type] = {"list": list, "tuple": tuple}
MEASURE = 1  # the column of a trace that may be unknown,
LARGEST = 1e150  # the largest of its values, and of others: one whose square is finite
ROUNDING = 1e-6  # by which weights may miss one
SPARSE = ("data", "indices", "indptr", "shape")  # the parts of a csr_array


def save(model: LatentModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, its data and its draws to one file."""
    arrays, record = model.fit_.to_arrays()
    X: Any = model.fit_.data.X
    address = None
    if model.fit_.data.far:
        address = X.address
    elif model.fit_.data.sparse:
        arrays |= {f"X_{name}": np.asarray(getattr(X, name)) for name in SPARSE}
    else:
        arrays["X"] = X
    arrays["mean"], arrays["scale"] = model.mean_, model._scale
    columns = getattr(model, "feature_names_in_", None)
    more, meta_of_more = model._more_to_save()
    arrays |= more
    meta = {
        "estimator": type(model).__name__,
        "params": {name: to_json(value) for name, value in model.get_params(deep=False).items()},
        "fitted": {name: to_json(getattr(model, f"{name}_")) for name in PARTS},
        "fit": record,
        "shape": [model.fit_.data.n, model.fit_.data.d],
        "seed": model.seed_,
        "row_names": model.row_names_,
        "column_names": None if columns is None else [str(name) for name in columns],
        "more": meta_of_more,
        "index": tables.index_to_json(model._index),
        "choice": model._choice,
        "hint": model._hint,
        "X": address,
    }
    storage.write(path, "model", arrays, meta)


def load(path: str | os.PathLike[str]) -> LatentModel:
    """Open a model that ``save`` wrote.

    >>> import tempfile, pathlib, thali
    >>> X = thali.datasets.images(n=20, random_state=0).X
    >>> engine = thali.CollapsedGibbs(sweeps=10, chains=1)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.thali"
    >>> model.save(path)
    >>> bool((thali.load(path).Z_ == model.Z_).all())
    True
    """
    arrays, meta = storage.read(path, "model")
    try:
        estimator = ESTIMATORS[meta["estimator"]]
        model: LatentModel = estimator(**{k: from_json(v) for k, v in meta["params"].items()})
        fitted = {name: from_json(value) for name, value in meta["fitted"].items()}
        if "X_indptr" in arrays:
            *own, shape = (arrays[f"X_{name}"] for name in SPARSE)
            arrays["X"] = csr_array(tuple(own), shape=tuple(shape))
        data = Data.of(arrays["X"]) if meta.get("X") is None else data_at(meta["X"], arrays)
        if meta["shape"] != [data.n, data.d]:
            raise ValueError(f"X is {data.n} x {data.d}, not {' x '.join(map(str, meta['shape']))}")
        data = model._take_more(arrays, meta.get("more", {}), data)
        model.mean_ = arrays["mean"]
        model._scale = arrays.get("scale", np.ones(model.mean_.shape))  # older files have none
        model.n_features_in_ = data.d
        model.row_names_ = meta["row_names"]
        if meta["column_names"] is not None:
            model.feature_names_in_ = np.array(meta["column_names"], dtype=object)
        model._index = tables.index_from_json(meta.get("index"), meta["row_names"])
        model._choice, model._hint = str(meta.get("choice", "")), str(meta.get("hint", ""))
        parts = Model(fitted["prior"], fitted["likelihood"])
        if isinstance(parts.likelihood, TableLikelihood):
            check_layout(parts.likelihood, data, meta["fit"]["names"])
            model.n_features_in_ = len(parts.likelihood.known.columns)
        if isinstance(parts.likelihood, ColumnNoise):
            check_columns(parts.likelihood, data, meta["fit"]["names"])
        check_record(arrays, meta["fit"])
        if not isinstance(meta["seed"], int) or meta["seed"] < 0:
            raise ValueError(f"the seed is {shown(meta['seed'])}")
        fit = fit_from_arrays(arrays, meta["fit"], parts, data, fitted["engine"], meta["seed"])
        check_hyperparameters(fit)
        return model._show(fit)
    except (
        *(KeyError, TypeError, IndexError, AttributeError, ValueError),
        ArithmeticError,  # numbers beyond all bounds
    ) as error:
        raise ValueError(
            f"{path} is damaged: its contents do not fit together ({error})."
        ) from None


def data_at(address: Any, arrays: Mapping[str, np.ndarray]) -> Data:
    """The data of a model whose X lies elsewhere, and is only named in its file."""
    source = opened(Path(str(address)))
    return FarData.of_source(source.put_into(arrays["mean"], arrays["scale"]))


def check_record(arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
    """Refuse what no run records: numbers that are infinite or beyond all bounds, wrong counts.

    The measure of a step, such as its log joint, may be unknown, and a search have no bound.
    """
    for name in ("burn_in", "sweeps"):
        whole_number("the file", name, record[name], 0)
    number_from_zero("the file", "seconds", record["seconds"])
    if np.isposinf(np.array([*record["drift"], *record["log_evidence"]], float)).any():
        raise ValueError("drift or log_evidence is infinite")
    for name, array in arrays.items():
        kind = name.partition("_")[2] if name.startswith("chain") else name
        if kind in ("scalars", "population") and array.size:
            check_scalars(name, array, record["names"])
        elif array.dtype.kind == "f" and kind not in ("X", "X_data", "extra_bound"):
            if np.isinf(array).any():
                raise ValueError(f"{name} has a number that is infinite")
            if kind == "weights" and array.size and not (array >= 0.0).all():
                raise ValueError(f"{name} has a number that is no weight")
            if kind == "weights" and array.size and abs(array.sum() - 1.0) > ROUNDING:
                raise ValueError(f"{name} sum to {array.sum():g}, not to 1")
    if not (np.abs(arrays["mean"]) <= LARGEST).all():
        raise ValueError("mean has a number beyond all bounds")
    scale = arrays.get("scale", np.ones(1))
    if not ((scale > 0.0) & (scale <= LARGEST)).all():
        raise ValueError("scale has a number that is no standard deviation")


def check_scalars(name: str, rows: np.ndarray, names: Sequence[str]) -> None:
    """Refuse rows of scalars in which one is infinite, or beyond what a run can record."""
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ValueError(f"{name} has the shape {rows.shape} for {len(names)} names")
    count, measure = rows[:, 0], rows[:, MEASURE]
    bad = ~np.isfinite(rows)
    bad |= (np.abs(rows) > LARGEST) & (count[:, None] > 0)  # without features, scales may wander
    bad[:, 0] |= (count < 0.0) | (count > MOST)
    bad[:, MEASURE] = (measure > LARGEST) | (np.isfinite(measure) & (measure < -LARGEST))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise ValueError(f"{names[j]} is {rows[i, j]:g} in row {i} of {name}")


def check_hyperparameters(fit: Fit) -> None:
    """Let prior and likelihood refuse hyperparameters that they could not have."""
    for chain in fit.chains:
        table = np.array([*chain.scalars, *chain.population])
        for extreme in (table.min(axis=0), table.max(axis=0)):
            hyper = fit.hyper_of(dict(zip(fit.names, extreme.tolist(), strict=True)))
            fit.model.at(hyper)
            if isinstance(fit.model.likelihood, TableLikelihood | ColumnNoise):
                check_noise(hyper)


def to_json(value: object) -> Json:
    """Settings as {"class": …, fields}, numbers and text as they are, others by description."""
    if known_classes().get(type(value).__name__) is type(value):
        fields = value.get_params()
        return {"class": type(value).__name__} | {k: to_json(own) for k, own in fields.items()}
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return cast(bool | int | float, value.item())
    if isinstance(value, Grouping):
        return {"class": "Grouping"} | value._asdict()
    if isinstance(value, Layout):
        return layout_to_json(value)
    if isinstance(value, Mapping):  # its keys may be numbers, which those of JSON are not
        return {
            "class": "mapping",
            "keys": to_json(list(value)),
            "values": to_json(list(value.values())),
        }
    if isinstance(value, pd.Series):
        value = value.tolist()
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"class": kind, "values": [to_json(each) for each in value]}
    if isinstance(value, str | int | float | bool | np.ndarray) or value is None:
        return value
    if hasattr(value, "fit_"):  # a fitted model: of it a start needs only the answer
        answer = getattr(value, value.fit_.model.structure.answer)
        return to_json(answer) if isinstance(answer, Grouping) else np.asarray(answer)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None  # cannot be written; the seed that was drawn from it is saved
    raise TypeError(
        f"A model with {type(value).__name__} cannot be saved: a file can name only priors, "
        "likelihoods and engines that are registered (thali.registry)."
    )


def from_json(value: Json) -> Any:
    """What ``to_json`` wrote; classes by name, of those that are registered only."""
    if not isinstance(value, dict):
        return value
    name = str(value["class"])
    if name in PLAIN:
        return PLAIN[name]([from_json(each) for each in cast(list[Json], value["values"])])
    if name == "Grouping":
        return Grouping(*(np.asarray(value[field]) for field in Grouping._fields))
    if name == "Layout":
        return layout_from_json(value)
    if name == "mapping":
        return dict(zip(from_json(value["keys"]), from_json(value["values"]), strict=True))
    known = known_classes()
    if name not in known:
        raise KeyError(f"no part is called {name!r}; import the module that defines it first")
    return known[name](**{k: from_json(v) for k, v in value.items() if k != "class"})
