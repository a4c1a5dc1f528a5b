r"""What each feature does to each column of the data, in the column's own values.

Two rows are compared at the posterior means of A and the hyperparameters: one without any feature,
which has the bias alone, and one with feature k alone. Of a column with x and x' there,

    real, censored   E[x'] − E[x]           in the column's units
    positive         E[x'] / E[x]           the factor exp(s σ a)
    count            E[x'] − E[x]
    binary           P(x' = 1) − P(x = 1)   with the odds ratio in words
    ordinal          P(x' = top) − P(x = top)
    categorical      P(x' = r) − P(x = r)   for each level r
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from thali.likelihoods.base import Conditional, Likelihood
from thali.likelihoods.latent_columns import LEVELED, Layout, kind_of
from thali.likelihoods.search_rows import CountedFeatures
from thali.likelihoods.table import TableLikelihood
from thali.results.own_values import OwnValues

COLUMNS = ("feature", "column", "kind", "level", "without", "with", "effect", "words")


class Effect(NamedTuple):
    """One line: ``without`` and ``with_`` are expected numbers, or probabilities of ``level``."""

    feature: int
    column: object
    kind: str
    level: object
    without: float
    with_: float
    effect: float
    words: str


def effects(
    likelihood: Likelihood, A: np.ndarray, labels: Sequence[object], mean: np.ndarray
) -> pd.DataFrame:
    """The effects of features A (K, D) under a likelihood whose hyperparameters are numbers."""
    Z = np.concatenate([np.zeros((1, len(A)), np.uint8), np.eye(len(A), dtype=np.uint8)])
    if isinstance(likelihood, TableLikelihood):
        lines = _of_table(likelihood, A, labels, Z)
    else:
        expected = cast(Conditional, likelihood).mean(Z, A) + mean
        kind = "binary" if isinstance(likelihood, CountedFeatures) else "real"
        lines = _of_numbers(expected, kind, labels)
    found = sorted(lines, key=lambda line: line.feature)  # columns stay in their order
    return pd.DataFrame(found, columns=list(COLUMNS))


def _of_numbers(expected: np.ndarray, kind: str, labels: Sequence[object]) -> Iterator[Effect]:
    """Columns that are all alike."""
    level = 1 if kind == "binary" else None
    for d, label in enumerate(labels):
        yield from _lines(label, kind, level, expected[:, d])


def _of_table(
    likelihood: TableLikelihood, A: np.ndarray, labels: Sequence[object], Z: np.ndarray
) -> Iterator[Effect]:
    entries = likelihood.entries_at(likelihood.latent_mean(Z, A))
    layout: Layout = likelihood.known
    whole = OwnValues.whole(entries)
    for d, (column, label) in enumerate(zip(layout.columns, labels, strict=True)):
        if not whole.has_levels(d):
            yield from _lines(label, column.kind, None, entries.mean[:, layout.first[d]])
            continue
        p, kind = whole.probabilities(d), kind_of(column)
        shown = range(len(column.levels)) if kind == LEVELED else [p.shape[1] - 1]
        for r in shown:
            yield from _lines(label, kind, column.levels[r], p[:, r])


def _lines(label: object, kind: str, level: object, at: np.ndarray) -> Iterator[Effect]:
    """A line for each feature; ``at`` has what is expected without any, then with each."""
    without = float(at[0])
    for k, with_ in enumerate(at[1:].tolist(), start=1):
        change = with_ / without if kind == "positive" else with_ - without
        words = in_words(label, kind, level, without, with_)
        yield Effect(k, label, kind, level, without, with_, change, words)


def in_words(label: object, kind: str, level: object, without: float, with_: float) -> str:
    """One effect as people say it.

    >>> in_words("height", "real", None, 170.0, 178.0)
    'height +8 (170 to 178)'
    >>> in_words("income", "positive", None, 20.0, 50.0)
    'income × 2.5 (20 to 50)'
    >>> in_words("smoker", "binary", "yes", 0.1, 0.5)
    'P(smoker = yes) from 10% to 50%, odds × 9'
    """
    if level is not None:
        said = f"P({label} = {level}) from {_percent(without)} to {_percent(with_)}"
        if kind != "binary" or not (0.0 < without < 1.0 and 0.0 < with_ < 1.0):
            return said
        odds = with_ / (1.0 - with_) / (without / (1.0 - without))
        return f"{said}, odds × {_number(odds, 2)}"
    span = f"({_number(without)} to {_number(with_)})"
    if kind == "positive":
        return f"{label} × {with_ / without:.3g} {span}"
    sign = "−" if with_ < without else "+"
    return f"{label} {sign}{_number(abs(with_ - without))} {span}"


def _number(value: float, digits: int = 3) -> str:
    """Some digits, or all of those before the point."""
    large = 10.0**digits <= abs(value) < 1e9
    return (f"{value:,.0f}" if large else f"{value:.{digits}g}").replace("-", "−")


def _percent(p: float) -> str:
    """Whole percents, but certainty only where there is.

    >>> _percent(0.123), _percent(0.0004), _percent(0.9996), _percent(1.0)
    ('12%', '<1%', '>99%', '100%')
    """
    if 0.0 < p < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= p < 1.0 else f"{p:.0%}"
