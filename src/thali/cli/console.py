"""What a person reads in a terminal: the data, the answer, its diagnostics and its features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from thali.cli.outputs import summary_of
from thali.data import tables
from thali.data.sparse import count_missing, is_sparse
from thali.evaluation import match_features
from thali.results.fit import PointFit, VariationalFit, WeightedDraws
from thali.structures.features import FEATURES

__all__ = ["describe_answer", "describe_table", "print_matching", "print_summary", "with_places"]


def describe_table(name: str, table: tables.Table) -> str:
    """What was read, in one line."""
    n, d = table.values.shape
    columns = "named columns" if table.column_names is not None else "columns without names"
    rows = "named rows" if table.row_names is not None else "rows without names"
    missing = count_missing(table.values)
    gaps = f", {missing} of {n * d} entries missing" if missing else ""
    return "; ".join([f"{name}: {n} x {d}, {rows}, {columns}{gaps}", *table.notes])


def with_places(name: str, table: tables.Table, error: ValueError) -> str:
    """Say in the file's own words where entries are infinite, if that is the trouble."""
    bad = np.zeros((0, 0), bool) if is_sparse(table.values) else np.isinf(table.values)
    if not bad.any():
        return str(error)
    places = "; ".join(_place(table, i, j) for i, j in np.argwhere(bad)[:3])
    return (
        f"{name}: {int(bad.sum())} of {bad.size} entries are infinite (first: {places}). "
        "Correct them, or leave them empty if they are not known."
    )


def _place(table: tables.Table, i: np.intp, j: np.intp) -> str:
    row = f"row {i + 1}" if table.row_names is None else f"row {table.row_names[i]!r}"
    names = table.column_names
    return f"{row}, column {j + 1 if names is None else repr(names[j])}"


def describe_answer(model: Any) -> str:
    """The answer in one line, and how far to trust it, in the words of the report, in another."""
    plural = "" if model.n_components_ == 1 else "s"
    found = f"{model.n_components_} {model.structure.component}{plural}"
    answer = f"{found}, log joint {model.log_joint_:,.2f}."
    if isinstance(model.fit_, WeightedDraws):
        answer += f" Log evidence {model.log_evidence_:,.2f}."
    if isinstance(model.fit_, VariationalFit):
        answer += f" Bound of the log evidence {model.elbo_:,.2f}."
    return f"{answer}\n{_verdict(model)}"


def _verdict(model: Any) -> str:
    found = model.convergence()
    return f"{found.headline} {found.advice}".strip()


def print_matching(model: Any, truth: np.ndarray, names: Sequence[str]) -> None:
    """Print each feature beside the planted one that it matches best."""
    matching = match_features(truth, model.components_)
    partner = dict(zip(matching.pairs[:, 1], matching.pairs[:, 0], strict=True))
    correlation = dict(zip(matching.pairs[:, 1], matching.correlations, strict=True))
    table = Table("feature", "image", "correlation", "rows having it")
    _right(table, 2)
    for k in range(model.n_components_):
        table.add_row(
            str(k + 1),
            names[partner[k]] if k in partner else "none of them",
            f"{correlation[k]:.3f}" if k in partner else "",
            str(int(model.Z_[:, k].sum())),
        )
    _print(table)
    if len(matching.unmatched_truth):
        missed = ", ".join(names[i] for i in matching.unmatched_truth)
        print(f"Not found: {missed}. More sweeps may help: --sweeps.")


def print_summary(model: Any) -> None:
    """Print what a model is, how sure it is, and how frequent its features are."""
    _print(_facts(model))
    if not model.fit_.ends_early:
        _print(_diagnostics(model))
    if model.n_components_ and model.structure == FEATURES:
        _print(_frequencies(model))
    print(_verdict(model))


def _print(table: Table) -> None:
    Console(highlight=False).print(table)


def _right(table: Table, first: int) -> None:
    """Justify numbers to the right, from a column on."""
    for column in table.columns[first:]:
        column.justify = "right"


def _facts(model: Any) -> Table:
    n, k = model.X_.shape[0], model.n_components_
    summary = summary_of(model)
    gaps = f", {summary['missing']} entries missing" if summary["missing"] else ""
    facts = {
        "data": f"{n} rows x {model.n_features_in_} columns{gaps}",
        f"{model.structure.component}s": str(k),
        "log joint": f"{model.log_joint_:,.2f}",
        **({"bound": f"{model.elbo_:,.2f}"} if isinstance(model.fit_, VariationalFit) else {}),
        **({"queue": _queue(model)} if isinstance(model.fit_, PointFit) else {}),
        **{key: str(summary[key]) for key in ("prior", "likelihood", "engine", "seed")},
        "starts": ", ".join(model.starts_),
        "seconds": f"{model.seconds_:,.1f}",
        "stopped": str(model.stopped_),
    }
    table = Table("", "", show_header=False)
    for key, value in facts.items():
        table.add_row(key, value)
    return table


def _queue(model: Any) -> str:
    """What went through the queue of a search."""
    return f"{model.n_enqueued_:,} candidates in, {model.n_dequeued_:,} out"


def _diagnostics(model: Any) -> Table:
    table = Table("", "posterior mean", "R-hat", "effective draws")
    _right(table, 1)
    means = model.fit_.means()
    for name, values in model.diagnostics_.items():
        mean = means[name]
        table.add_row(name, *(f"{x:,.4g}" for x in (mean, values["rhat"], values["ess"])))
    return table


def _frequencies(model: Any, at_most: int = 20) -> Table:
    title = None if model.n_components_ <= at_most else f"the {at_most} most frequent features"
    table = Table("feature", "rows having it", "share", "size", title=title)
    _right(table, 0)
    for k in range(min(at_most, model.n_components_)):
        count = int(model.Z_[:, k].sum())
        size = float(np.linalg.norm(model.components_[k]))
        table.add_row(str(k + 1), str(count), f"{count / len(model.Z_):.0%}", f"{size:.3g}")
    return table
