"""The columns of a table and where their latents are, in files: as JSON, and checked when read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import inf, isfinite
from typing import Any

import numpy as np

from thali.data import Data
from thali.data.column_codes import WITH_LEVELS
from thali.data.columns import KINDS, Column, Columns, hashable, writable
from thali.likelihoods.column_noise import ColumnNoise
from thali.likelihoods.latent_columns import LINKS, UNIT, Layout, kind_of
from thali.likelihoods.table import TableLikelihood
from thali.settings import shown
from thali.storage import Json

UNITS = ("location", "scale", "middle", "edges", "least", "most")
TEXTS = ("name", "kind", "why", "dtype")
ENDS = {"low": -inf, "high": inf}


def layout_to_json(layout: Layout) -> dict[str, Json]:
    """All that ``layout_from_json`` needs; ends at infinity are left out."""
    columns = []
    for column in layout.columns:
        own = {field.name: getattr(column, field.name) for field in fields(column)}
        own["levels"] = list(column.levels)
        columns.append({k: v for k, v in own.items() if k not in ENDS or isfinite(v)})
    labels = layout.table.labels
    written = None if labels is None else [writable(label) for label in labels]
    units = {name: list(getattr(layout, name)) for name in UNITS}
    links = list(layout.links)
    return {"class": "Layout", "columns": columns, "labels": written, "links": links, **units}


def layout_from_json(written: Mapping[str, Any]) -> Layout:
    """What ``layout_to_json`` wrote, or a refusal of what it never writes."""
    columns = tuple(column_from_json(own) for own in written["columns"])
    labels = written["labels"]
    labels = None if labels is None else tuple(hashable(label) for label in labels)
    if not columns or (labels is not None and len(labels) != len(columns)):
        raise ValueError(f"{len(columns)} columns have {len(labels or ())} labels")
    links = tuple(written["links"])
    if len(links) != len(columns) or not set(links) <= set(LINKS):
        raise ValueError(f"the columns have the links {shown(links)}")
    layout = Layout(Columns(columns, labels), links, *(numbers(written[name]) for name in UNITS))
    wide = dict.fromkeys(UNITS, len(columns))
    wide |= {"middle": layout.n_latents, "edges": layout.n_cutpoints}
    for name, width in wide.items():
        if len(getattr(layout, name)) != width:
            raise ValueError(f"the columns have {width} of {name}, not {written[name]!r}")
    if not all(scale > 0.0 for scale in layout.scale):
        raise ValueError("the scale of a column is not positive")
    return layout


def column_from_json(own: Mapping[str, Any]) -> Column:
    """One column."""
    texts = {name: own[name] for name in TEXTS}
    if not all(isinstance(text, str) for text in texts.values()) or own["kind"] not in KINDS:
        raise ValueError(f"a column is {shown(texts)}")
    levels = tuple(own["levels"])
    plain = all(isinstance(level, str | bool | int | float) for level in levels)
    if not plain or len(set(levels)) < len(levels) or bool(levels) != (own["kind"] in WITH_LEVELS):
        raise ValueError(f"column {own['name']!r} has the levels {shown(levels)}")
    low, high = (numbers([own.get(key, end)], -inf)[0] for key, end in ENDS.items())
    return Column(texts["name"], texts["kind"], levels, low, high, texts["why"], texts["dtype"])


def numbers(values: Sequence[Any], least: float | None = None) -> tuple[float, ...]:
    """Numbers, finite unless ``least`` says that they need not be."""
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        raise ValueError(f"{shown(list(values))} are not numbers")
    found = tuple(float(v) for v in values)
    if any(v != v or (least is None and not isfinite(v)) for v in found):
        raise ValueError(f"{shown(list(values))} are not all finite")
    return found


def check_layout(likelihood: TableLikelihood, data: Data, names: Sequence[str]) -> None:
    """Refuse data that are not of these columns, and a record without their hyperparameters."""
    if likelihood.layout is None or data.d != likelihood.known.n_latents or data.sparse:
        raise ValueError(f"X has {data.d} columns, which are not those of the table")
    layout = likelihood.known
    for name, count in (("noise", data.d), ("biases", data.d), ("cutpoints", layout.n_cutpoints)):
        if count and sum(known.startswith(f"{name}[") for known in names) != count:
            raise ValueError(f"the record does not have {count} of {name}")
    for d, column in enumerate(layout.columns):
        own = data.X[:, layout.first[d] : layout.first[d + 1]]
        if not fits(column, own[~np.isnan(own).all(axis=1)]):
            raise ValueError(f"column {column.name!r} has a value that is not {column.kind}")


def check_columns(likelihood: ColumnNoise, data: Data, names: Sequence[str]) -> None:
    """Refuse data of which not every column has its noise."""
    recorded = sum(known.startswith("noise[") for known in names)
    if data.sparse or not len(likelihood.sizes) == recorded == data.d:
        raise ValueError(f"the record has the noise of {recorded} columns, and X has {data.d}")


def fits(column: Column, own: np.ndarray) -> bool:
    """Whether values with a column for each latent are of a kind."""
    kind = kind_of(column)
    if np.isnan(own).any():
        return False
    if own.shape[1] > 1:
        return bool((np.isin(own, (0.0, 1.0)).all(axis=1) & (own.sum(axis=1) == 1.0)).all())
    if kind in UNIT:
        return bool(np.isin(own, np.arange(max(1, len(column.levels)))).all())
    whole = kind != "count" or bool(((own >= 0.0) & (own == np.rint(own))).all())
    return whole and (kind != "positive" or bool((own > 0.0).all()))


def check_noise(hyper: Mapping[str, Any]) -> None:
    """Refuse noise and bounds between levels that no draw could have."""
    if not (np.asarray(hyper["noise"]) > 0.0).all():
        raise ValueError("the noise of a column is not positive")
    if not (np.asarray(hyper.get("cutpoints", 0.0)) >= 0.0).all():
        raise ValueError("a bound between levels is below the first")
