"""What a person reads in a terminal: the data, the answer, its diagnostics and its components."""

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from thali.cli.outputs import summary_of
from thali.data import Data, tables
from thali.data.sparse import is_sparse
from thali.estimators.base import LatentModel
from thali.evaluation import match_features
from thali.plots.reading import labels_of
from thali.plots.topic_reading import presence, size_shares
from thali.report.markup import plural
from thali.report.words import lacks
from thali.results.fit import VariationalFit, WeightedDraws
from thali.structures.base import AnyStructure
from thali.structures.features import FEATURES
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
from thali.structures.partitions import PARTITIONS


def describe_table(name: str, table: tables.Table) -> str:
    """What was read, in one line."""
    n, d = table.values.shape
    columns = "named columns" if table.column_names is not None else "columns without names"
    rows = "named rows" if table.row_names is not None else "rows without names"
    missing = Data.checked(table.values).missing
    gaps = f", {missing} of {n * d} entries missing" if missing else ""
    return "; ".join([f"{name}: {n} x {d}, {rows}, {columns}{gaps}", *table.notes])


def locate_infinities(name: str, table: tables.Table) -> str | None:
    """Where entries are infinite, in the file's own words, if any are."""
    bad = np.zeros((0, 0), bool) if is_sparse(table.values) else np.isinf(table.values)
    if not bad.any():
        return None
    first = "; ".join(_whereabouts(table, i, j) for i, j in np.argwhere(bad)[:3])
    return (
        f"{name}: {int(bad.sum())} of {bad.size} entries are infinite (first: {first}). "
        "Correct them, or leave them empty if they are not known."
    )


def _whereabouts(table: tables.Table, i: np.intp, j: np.intp) -> str:
    row = f"row {i + 1}" if table.row_names is None else f"row {table.row_names[i]!r}"
    names = table.column_names
    return f"{row}, column {j + 1 if names is None else repr(names[j])}"


def describe_answer(model: LatentModel) -> str:
    """The answer in one line, and how far to trust it, in the words of the report, in another."""
    found = plural(model.n_components_, model.structure.component)
    answer = f"{found}, log joint {model.log_joint_:,.2f}{lacks(model)}."
    if isinstance(model.fit_, WeightedDraws) and np.isfinite(model.log_evidence_):
        answer += f" Log evidence {model.log_evidence_:,.2f}."
    if isinstance(model.fit_, VariationalFit):
        answer += f" Bound of the log evidence {model.elbo_:,.2f}."
    if (more := SENTENCES.get(model.structure)) is not None:
        answer += f"\n{more(model)}"
    return f"{answer}\n{_verdict(model)}"


def _clusters_found(model: LatentModel, at_most: int = 12) -> str:
    """The sizes of clusters, and how clear it is who belongs to them, in a line."""
    sizes = np.bincount(model.labels_)
    listed = ", ".join(f"{size:,}" for size in sizes[:at_most])
    more = f" and fewer in {len(sizes) - at_most:,} more" if len(sizes) > at_most else ""
    sure = f"a row is with {model.membership_.mean():.0%} of its cluster on average"
    return f"Rows in each: {listed}{more}; {sure}."


def _topics_found(model: LatentModel, at_most: int = 12) -> str:
    """The first words of the largest topics, a line each."""
    shares = size_shares(model)
    lines = [
        f"  {k}: {', '.join(words)} ({shares[k]:.0%} of words, presence {presence(model, k)})"
        for k, words in enumerate(model.top_words(6)[:at_most])
    ]
    rest = model.n_components_ - len(lines)
    if rest:
        lines.append(f"  and {rest:,} more")
    return "\n".join(lines)


SENTENCES: dict[AnyStructure, Callable[[LatentModel], str]] = {
    PARTITIONS: _clusters_found,
    GROUPED_PARTITIONS: _topics_found,
}


def _verdict(model: LatentModel) -> str:
    found = model.convergence()
    hint = f"\n{model.hint_}" if model.hint_ else ""
    return f"{found.headline} {found.advice}".strip() + hint


def print_matching(model: LatentModel, truth: np.ndarray, names: Sequence[str]) -> None:
    """Print each feature beside the planted one that it matches best."""
    matching = match_features(truth, model.components_)
    pairs = zip(matching.pairs, matching.correlations, strict=True)
    partner = {found: (names[planted], f"{r:.3f}") for (planted, found), r in pairs}
    rows = [
        (str(k + 1), *partner.get(k, ("none of them", "")), str(int(model.Z_[:, k].sum())))
        for k in range(model.n_components_)
    ]
    _print_table(("feature", "image", "correlation", "rows having it"), rows, right=2)
    if len(matching.unmatched_truth):
        missed = ", ".join(names[i] for i in matching.unmatched_truth)
        print(f"Not found: {missed}. More sweeps may help: --sweeps.")


def print_summary(model: LatentModel) -> None:
    """Print what a model is, how sure it is, and how frequent its features are."""
    _print_table((), list(_facts(model).items()))
    if not model.fit_.ends_early:
        means = model.fit_.means()
        rows = [
            (name, *(f"{x:,.4g}" for x in (means[name], values["rhat"], values["ess"])))
            for name, values in model.diagnostics_.items()
            if name in labels_of(model)
        ]
        _print_table(("", "posterior mean", "R-hat", "effective draws"), rows, right=1)
    if model.n_components_ and (show := COMPONENTS.get(model.structure)) is not None:
        show(model)
    print(_verdict(model))


def _print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: int = 99, title: str | None = None
) -> None:
    """Print a table, its columns from ``right`` on justified to the right."""
    table = Table(*head, title=title, show_header=bool(head))
    for row in rows:
        table.add_row(*row)
    for column in table.columns[right:]:
        column.justify = "right"
    Console(highlight=False).print(table)


def _facts(model: LatentModel) -> dict[str, str]:
    summary = summary_of(model)
    gaps = f", {summary['missing']} entries missing" if summary["missing"] else ""
    facts = {
        "data": f"{model.X_.shape[0]} rows x {model.n_features_in_} columns{gaps}",
        f"{model.structure.component}s": str(model.n_components_),
        "log joint": f"{model.log_joint_:,.2f}",
    }
    if isinstance(model.fit_, VariationalFit):
        facts["bound"] = f"{model.elbo_:,.2f}"
    if hasattr(model, "n_enqueued_") and hasattr(model, "n_dequeued_"):
        facts["queue"] = f"{model.n_enqueued_:,} candidates in, {model.n_dequeued_:,} out"
    return facts | {
        **{key: str(summary[key]) for key in ("prior", "likelihood", "engine", "seed")},
        "starts": ", ".join(model.starts_),
        "seconds": f"{model.seconds_:,.1f}",
        "stopped": str(model.stopped_),
    }


def _print_frequencies(model: LatentModel, at_most: int = 20) -> None:
    title = None if model.n_components_ <= at_most else f"the {at_most} most frequent features"
    rows = []
    for k in range(min(at_most, model.n_components_)):
        count = int(model.Z_[:, k].sum())
        size = float(np.linalg.norm(model.components_[k]))
        rows.append((str(k + 1), str(count), f"{count / len(model.Z_):.0%}", f"{size:.3g}"))
    _print_table(("feature", "rows having it", "share", "size"), rows, right=0, title=title)


def _print_clusters(model: LatentModel, at_most: int = 20) -> None:
    title = None if model.n_components_ <= at_most else f"the {at_most} largest clusters"
    rows = []
    for k in range(min(at_most, model.n_components_)):
        own = model.labels_ == k
        sure = f"{model.membership_[own].mean():.0%}"
        rows.append((str(k), str(own.sum()), f"{own.mean():.0%}", sure))
    _print_table(("cluster", "rows", "share", "membership"), rows, right=0, title=title)


def _print_topics(model: LatentModel, at_most: int = 20) -> None:
    title = None if model.n_components_ <= at_most else f"the {at_most} largest topics"
    shares = size_shares(model)
    rows = [
        (str(k), f"{shares[k]:.0%}", presence(model, k), ", ".join(words))
        for k, words in enumerate(model.top_words(6)[:at_most])
    ]
    _print_table(("topic", "share", "presence", "words"), rows, title=title)


COMPONENTS: dict[AnyStructure, Callable[[LatentModel], None]] = {
    FEATURES: _print_frequencies,
    PARTITIONS: _print_clusters,
    GROUPED_PARTITIONS: _print_topics,
}
