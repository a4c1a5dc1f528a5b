"""``thali impute``: rows of a file, which may be new ones, with what is missing filled in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from thali.cli.outputs import LINE
from thali.data.tables import DELIMITERS, check_file
from thali.data.tables.frame import read_frame
from thali.data.tables.text import read_text
from thali.estimators import tables
from thali.estimators.base import LatentModel
from thali.estimators.latent_features import LatentFeatures

ENDS = ("low", "high")  # of an interval, after the name of a column


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
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out {out}: there is no folder {out.parent}.")
    frame, notes = rows_of(model, file, header)
    gaps = frame.isna().to_numpy()
    ends = [f"{name} {end}" for name in frame.columns[gaps.any(axis=0)] for end in ENDS]
    taken = [end for end in ends if interval is not None and end in frame.columns]
    if taken:
        raise ValueError(
            f"--interval: the model has a column {taken[0]!r}, which is also what an end of an "
            "interval would be called; leave out --interval."
        )
    X = frame if hasattr(model, "feature_names_in_") else frame.to_numpy()
    found = model.impute(X) if interval is None else model.impute(X, interval=interval)
    parts = [pd.DataFrame(part) for part in (found if isinstance(found, tuple) else (found,))]
    parts = [part.set_axis(frame.index).set_axis(frame.columns, axis=1) for part in parts]
    table = {}
    for j, name in enumerate(frame.columns):
        table[str(name)] = parts[0].iloc[:, j]
        if interval is not None and gaps[:, j].any():
            for end, part in zip(ENDS, parts[1:], strict=True):
                table[f"{name} {end}"] = part.iloc[:, j]
    pd.DataFrame(table).to_csv(out, index_label="row", lineterminator=LINE)
    done = f"{gaps.sum()} missing entries of {len(frame)} rows were filled in: {out}."
    return "\n".join([*notes, done])


def rows_of(
    model: LatentFeatures, file: Path, header: bool | None
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of a file in the columns of the model, and what is to be said of that; columns that
    it lacks are missing in all rows."""
    labels, notes = tables.labels_of(model), []
    if all(isinstance(label, str) for label in labels):
        names = cast("list[str]", labels)
        there, others = split(names, heads_of(file, header))
        if not there:
            raise ValueError(
                f"{file} has none of the model's columns: {', '.join(names[:5])}"
                f"{', …' if len(names) > 5 else ''}. Its first line is to name them."
            )
        frame = read_frame(file, columns=there, header=header, declared=names).X
        lacking = [name for name in names if name not in there]
        if lacking:
            notes.append(f"Missing in all rows, as the file lacks them: {', '.join(lacking)}.")
        if others:
            notes.append(f"Not used, as the model has no such columns: {', '.join(others)}.")
        frame = frame.reindex(columns=names)
    else:
        frame = read_frame(file, header=header).X
        if frame.shape[1] != len(labels):
            raise ValueError(
                f"{file} has {frame.shape[1]} columns, and the model {len(labels)}, without names; "
                "leave cells empty where something is missing."
            )
    empty = frame.columns[frame.isna().all(axis=0)]
    frame[empty] = np.nan  # of no kind of their own
    layout = tables.layout_of(model)
    if layout is not None:
        for name, column in zip(frame.columns, layout.columns, strict=True):
            words = bool(column.levels) and all(isinstance(level, str) for level in column.levels)
            if words and pd.api.types.is_numeric_dtype(frame[name]) and name not in empty:
                frame[name] = frame[name].map(lambda x: f"{x:g}", na_action="ignore")
        return frame, notes
    kinds = pd.api.types.is_numeric_dtype, pd.api.types.is_bool_dtype
    text = [str(name) for name in frame if not any(is_kind(frame[name]) for is_kind in kinds)]
    if text:
        raise ValueError(f"{file}: column {text[0]!r} holds text, and the model is of numbers.")
    return frame.astype(float), notes


def heads_of(file: Path, header: bool | None) -> list[str]:
    """What the first line of a file calls its columns."""
    if file.suffix.lower() not in DELIMITERS:
        return [str(name) for name in read_frame(file, header=header).X.columns]
    check_file(file)
    return list(read_text(file, DELIMITERS[file.suffix.lower()], header is not False).names or ())


def split(names: Collection[str], heads: Sequence[str]) -> tuple[list[str], list[str]]:
    """Columns that the model has, and others, but for a first one without a name of its own."""
    others = [head for head in heads if head not in names]
    return [head for head in heads if head in names], [
        h for h in others if h.strip() and h != "row"
    ]
