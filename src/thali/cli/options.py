"""From the words of the command line to columns, shapes, seconds and models."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import thali
from thali.data.tables import check_file
from thali.estimators.base import LatentModel


def read_columns(text: str | None) -> list[str] | None:
    """Names between commas; one that holds a comma is quoted, as in a CSV file."""
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def read_image_shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) != 2 or not all(side.strip().isdecimal() and int(side) for side in sides):
        raise ValueError(f"--image-shape {text!r} is not HEIGHTxWIDTH; write it like 28x28.")
    return int(sides[0]), int(sides[1])


def read_time_budget(seconds: float | None) -> float | None:
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"--time-budget {seconds:g} is no time to run; give it seconds above 0.")
    return seconds


def load_model(path: Path) -> LatentModel:
    check_file(path, "a saved model")
    return thali.load(path)
