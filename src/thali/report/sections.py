"""The sections that every report has, each a function from a fitted model to pieces of markup."""

import re
from typing import NamedTuple

import numpy as np

from thali import plots
from thali.estimators import tables
from thali.estimators.base import LatentModel
from thali.plots import reading
from thali.plots.style import CHAINS
from thali.results.fit import Draws, PointFit, VariationalFit, WeightedDraws
from thali.structures.base import AnyStructure
from thali.structures.grouped_partitions import GROUPED_PARTITIONS

from .convergence import Scalar, agreement, scalars, with_findings
from .markup import Markup, facts, join, number, table, tag
from .pictures import VARIABLES, panel, svg
from .story import Shape
from .words import lacks

DRIFT_LIMIT = 1e-8
LONG = 30  # numbers in brackets of which not all are shown


class Nouns(NamedTuple):
    """What a row, a column and the log joint of a model are called."""

    row: str
    column: str
    log_joint: str


NOUNS: dict[AnyStructure, Nouns] = {
    GROUPED_PARTITIONS: Nouns("document", "different word", "mean log joint of the draws")
}
STOPPED = {
    "finished": "finished all its steps",
    "interrupted": "interrupted; what was computed until then is kept",
    "time budget": "stopped when its time was up; what was computed until then is kept",
}


def summary(model: LatentModel, shape: Shape) -> list[Markup]:
    """Sizes, fit, and how the answer was made."""
    (n, d), k, word = model.X_.shape, model.n_components_, model.structure.component
    if (layout := tables.layout_of(model)) is not None:
        d = len(layout.columns)
    said = NOUNS.get(model.structure, Nouns("row", "column", "log joint of the point estimate"))
    sizes = [
        (f"{word}s" if k != 1 else word, f"{k:,}"),
        (f"{said.row}s" if n != 1 else said.row, f"{n:,}"),
        (f"{said.column}s" if d != 1 else said.column, f"{d:,}"),
        (f"{said.log_joint}{lacks(model)}", number(model.log_joint_, 5)),
    ]
    if isinstance(model.fit_, VariationalFit):
        sizes.append(("bound of the log evidence", number(model.elbo_, 5)))
    if isinstance(model.fit_, PointFit):
        proven = "yes" if model.proven_optimal_ else "no"
        sizes.append(("proven to be the most probable", proven))
        if hasattr(model, "n_dequeued_"):
            sizes.append(("candidates looked at", f"{model.n_dequeued_:,}"))
    if missing := tables.n_missing(model):
        imputed = ", imputed" if hasattr(model, "impute") else ""
        sizes.append((f"missing entries{imputed}", f"{missing:,}"))
    drift = float(model.drift_)
    size = "negligible" if drift <= DRIFT_LIMIT else "larger than it should be"
    details = [
        ("Prior", tag("code", repr_of(model.prior_))),
        ("Likelihood", tag("code", repr_of(tables.told(model.likelihood_)))),
        ("Engine", tag("code", repr_of(model.engine_))),
        *([("Chosen by the data", model.choice_)] if model.choice_ else []),
        *([("A hint", model.hint_)] if model.hint_ else []),
        ("Seed", tag("code", str(model.seed_))),
        ("Time", f"{number(model.seconds_)} seconds"),
        ("The run", STOPPED.get(model.stopped_, model.stopped_)),
        ("Numerical drift", f"{number(drift, 2)} (relative): {size}"),
    ]
    return [facts(sizes, "tiles"), facts(details, "facts")]


def repr_of(setting: object) -> str:
    """A setting as one would write it, its numbers cut to four digits, long lists of them to a few.

    >>> repr_of(0.123456789), repr_of(tuple(range(150)))
    ('0.1235', '(0, 1, 2, …, 149: 150 numbers)')
    """
    text = re.sub(r"\d+\.\d{5,}(e[+-]?\d+)?", lambda m: f"{float(m[0]):.4g}", repr(setting))
    return re.sub(r"([(\[])([-+.einf\d]+(?:, [-+.einf\d]+)+)([)\]])", _shortened, text)


def _shortened(found: re.Match[str]) -> str:
    numbers = found[2].split(", ")
    if len(numbers) <= LONG:
        return found[0]
    some = f"{', '.join(numbers[:3])}, …, {numbers[-1]}: {len(numbers):,} numbers"
    return f"{found[1]}{some}{found[3]}"


def convergence(model: LatentModel, shape: Shape) -> list[Markup]:
    """Findings, verdict, table of R-hat and effective sample size, traces, autocorrelation."""
    found = with_findings(agreement(model), model.findings_)
    headline, advice = tag("strong", found.headline), found.advice
    told = [tag("li", finding.seen, " ", finding.advice) for finding in found.findings]
    said = tag("p", headline, " ", advice)
    if told:
        said = join((tag("p", headline), tag("ul", join(told)), tag("p", advice)))
    panels = [
        svg(plots.trace_of(model, key, panel(1.9)), f"trace-{key}", f"Trace of {words or symbol}")
        for key, (symbol, words) in reading.labels_of(model).items()
    ]
    count = plots.feature_count(model, panel(1.9))
    panels.append(svg(count, "count", f"Posterior of the number of {model.structure.component}s"))
    if isinstance(model.fit_, Draws) and np.ptp(model.fit_.after_burn_in("n_components")) > 0:
        drawn = plots.autocorrelation(model, ax=panel(1.9))
        panels.append(svg(drawn, "autocorrelation", "How K resembles itself some sweeps later"))
    return [
        tag("div", said, class_=f"verdict {found.level}"),
        _recorded_numbers(model),
        _chain_key(model),
        tag("div", join(panels), class_="pictures"),
    ]


RECORDED = {
    Draws: "The numbers that every sweep records, after burn-in",
    WeightedDraws: "The numbers of the particles, by weight",
    VariationalFit: "The numbers at the end of the best restart",
    PointFit: "The numbers of the answer",
}


def _recorded_numbers(model: LatentModel) -> Markup:
    """The table of what was recorded: with diagnostics of chains, where there are any."""
    lines = scalars(model)
    if model.fit_.ends_early:
        head = ["quantity", "value"]
        rows = [[_head(line), number(line.mean, _digits(line))] for line in lines]
    else:
        head = ["quantity", "chains", "R-hat", "effective draws", "mean", "90% interval"]
        rows = [_scalar_row(line) for line in lines]
    return table(RECORDED[type(model.fit_)], head, rows)


def _head(line: Scalar) -> Markup:
    return join((line.symbol, tag("span", f" {line.words}", class_="quiet")), "")


def _digits(line: Scalar) -> int:
    if line.level == "found" and line.name == "n_components":  # a count, not a mean of counts
        return 1
    return 5 if line.name in ("log_joint", "elbo") else 3


AGREEMENT = {
    "good": "agree",
    "fair": "nearly agree",
    "poor": "differ",
    "fixed": "did not vary",
    "unknown": "not known",
}


def _scalar_row(line: Scalar) -> list[str]:
    digits, whole = _digits(line), line.name == "n_components"
    ends = (f"{e:,.0f}" if whole else number(e, digits) for e in (line.low, line.high))
    interval = " to ".join(ends)
    return [
        _head(line),
        tag("td", AGREEMENT[line.level], class_=f"words {line.level}"),
        "–" if np.isnan(line.rhat) else f"{line.rhat:.3f}",
        "–" if np.isnan(line.ess) else f"{line.ess:,.0f}",
        number(line.mean, digits),
        "–" if line.level == "fixed" else interval,
    ]


def _chain_key(model: LatentModel) -> Markup:
    """Which color is which chain, and where each began."""
    word = "restart" if model.fit_.ends_early else "chain"
    colors = [f"--c:var(--{VARIABLES[color]})" for color in CHAINS]
    items = [
        tag("li", tag("i", style=colors[c % len(colors)]), f"{word} {c + 1}, from {start}")
        for c, start in enumerate(model.starts_)
    ]
    return tag("ul", join(items), class_="key")


def footer() -> Markup:
    """Who made the page."""
    import thali

    return tag("p", f"Made by thali {thali.__version__}. This file needs nothing else to be read.")
