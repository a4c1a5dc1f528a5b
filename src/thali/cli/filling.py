"""``thali impute``: rows of a file, which may be new ones, with what is missing filled in."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from thali.cli.outputs import LINE
from thali.data.tables.frame import read_frame
from thali.estimators import tables
from thali.estimators.base import LatentModel
from thali.estimators.latent_features import LatentFeatures


def fill_file(
    model: LatentModel, file: Path, out: Path, interval: float | None, header: bool | None
) -> str:
    """Write the filled rows, and beside each filled column the ends of its interval if one was
    asked for; what was done, in words."""
    if not isinstance(model, LatentFeatures):
        raise ValueError(
            f"impute is for models of features; this is a {type(model).__name__}, which fills in "
            "nothing."
        )
    frame = rows_of(model, file, header)
    gaps = frame.isna().to_numpy()
    X = frame if hasattr(model, "feature_names_in_") else frame.to_numpy()
    found = model.impute(X) if interval is None else model.impute(X, interval=interval)
    parts = [pd.DataFrame(part) for part in (found if isinstance(found, tuple) else (found,))]
    parts = [part.set_axis(frame.index).set_axis(frame.columns, axis=1) for part in parts]
    table = {}
    for j, name in enumerate(frame.columns):
        table[str(name)] = parts[0].iloc[:, j]
        if interval is not None and gaps[:, j].any():
            table[f"{name} low"], table[f"{name} high"] = (part.iloc[:, j] for part in parts[1:])
    pd.DataFrame(table).to_csv(out, index_label="row", lineterminator=LINE)
    return f"{gaps.sum()} missing entries of {len(frame)} rows were filled in: {out}."


def rows_of(model: LatentFeatures, file: Path, header: bool | None) -> pd.DataFrame:
    """The rows of a file in the columns of the model; columns that it lacks are missing in all."""
    labels = tables.labels_of(model)
    named = all(isinstance(label, str) for label in labels)
    read = read_frame(file, header=header, declared=[str(label) for label in labels])
    frame = read.X
    if named:
        names = cast("list[str]", labels)
        there = [name for name in names if name in frame.columns]
        if not there:
            raise ValueError(
                f"{file} has none of the model's columns: {', '.join(names[:5])}"
                f"{', …' if len(names) > 5 else ''}. Its first line is to name them."
            )
        frame = frame.reindex(columns=names)
    elif frame.shape[1] != len(labels):
        raise ValueError(
            f"{file} has {frame.shape[1]} columns, and the model {len(labels)}, without names; "
            "leave cells empty where something is missing."
        )
    empty = frame.columns[frame.isna().all(axis=0)]
    frame[empty] = np.nan  # of no kind of their own
    if tables.layout_of(model) is None:
        text = [str(name) for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
        text = [name for name in text if not pd.api.types.is_bool_dtype(frame[name])]
        if text:
            raise ValueError(f"{file}: column {text[0]!r} holds text, and the model is of numbers.")
        frame = frame.astype(float)
    return frame
