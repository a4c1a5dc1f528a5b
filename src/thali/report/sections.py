"""The sections of the report, each a function from a fitted model to markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from thali import plots
from thali.data.sparse import count_missing
from thali.plots import tiles
from thali.plots.reading import (
    column_names,
    data_of,
    labels_of,
    reconstruct,
    row_name,
    shares,
    telling_rows,
)
from thali.results.fit import PointFit, VariationalFit, WeightedDraws
from thali.structures.features import FEATURES

from .convergence import Scalar, scalars, verdict
from .fit import fit_of
from .markup import Markup, esc, facts, join, name, number, percent, plural, section, table, tag
from .pictures import VARIABLES, panel, png, svg

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures

Shape = tuple[int, int] | None
MOST_CARDS = 24
OPEN_CARDS = 9
MOST_WEIGHTS = 8
MOST_ROWS = 20
MOST_COLUMNS = 30
DRIFT_LIMIT = 1e-8
NOTHING = Markup("<p>No features were found: noise alone explains these data best.</p>")
STOPPED = {
    "finished": "finished all its steps",
    "interrupted": "interrupted; what was computed until then is kept",
    "time budget": "stopped when its time was up; what was computed until then is kept",
}


def lede(model: LatentFeatures) -> str:
    """What was found, in one sentence."""
    n, k, word = model.X_.shape[0], model.n_components_, model.structure.component
    data = f"{plural(n, 'row')} of {plural(_columns(model), 'number')}"
    if model.structure != FEATURES:
        return f"{plural(k, word)} found in {data}."
    if k == 0:
        return f"No latent feature was found in {data}: noise alone explains them best."
    per_row = float(np.asarray(model.assignment_probabilities_, dtype=float).sum(axis=1).mean())
    return (
        f"{plural(k, 'latent feature')} found in {data}; "
        f"a row has {number(per_row, 2)} of them on average."
    )


def summary(model: LatentFeatures, id_: str, title: str, shape: Shape) -> Markup:
    """Sizes, fit, and how the answer was made."""
    n, k, word = model.X_.shape[0], model.n_components_, model.structure.component
    missing = count_missing(model.X_) if getattr(model, "X_", None) is not None else 0
    tiles_ = facts(
        [
            (f"{word}s" if k != 1 else word, f"{k:,}"),
            ("rows" if n != 1 else "row", f"{n:,}"),
            ("columns" if _columns(model) != 1 else "column", f"{_columns(model):,}"),
            ("log joint of the point estimate", number(model.log_joint_, 5)),
            *(
                [("bound of the log evidence", number(model.elbo_, 5))]
                if isinstance(model.fit_, VariationalFit)
                else []
            ),
            *(
                [
                    ("proven to be the most probable", "yes" if model.proven_optimal_ else "no"),
                    ("candidates looked at", f"{model.n_dequeued_:,}"),
                ]
                if isinstance(model.fit_, PointFit)
                else []
            ),
            *([("missing entries, imputed", f"{missing:,}")] if missing else []),
        ],
        "tiles",
    )
    drift = float(model.drift_)
    judged = "negligible" if drift <= DRIFT_LIMIT else "larger than it should be"
    details = facts(
        [
            ("Prior", tag("code", repr_of(model.prior_))),
            ("Likelihood", tag("code", repr_of(model.likelihood_))),
            ("Engine", tag("code", repr_of(model.engine_))),
            ("Seed", tag("code", str(model.seed_))),
            ("Time", f"{number(model.seconds_)} seconds"),
            ("The run", STOPPED.get(model.stopped_, model.stopped_)),
            ("Numerical drift", f"{number(drift, 2)} (relative): {judged}"),
        ],
        "facts",
    )
    return section(id_, title, tiles_, details)


def repr_of(setting: Any) -> str:
    """A setting as one would write it, its numbers cut to four digits.

    >>> repr_of(0.123456789)
    '0.1235'
    """
    return re.sub(r"\d+\.\d{5,}(e[+-]?\d+)?", lambda m: f"{float(m[0]):.4g}", repr(setting))


def _columns(model: LatentFeatures) -> int:
    return int(model.X_.shape[1])


def convergence(model: LatentFeatures, id_: str, title: str, shape: Shape) -> Markup:
    """Verdict, table of R-hat and effective sample size, traces."""
    found = verdict(model)
    said = tag(
        "div",
        tag("p", tag("strong", found.headline), " ", found.advice),
        class_=f"verdict {found.level}",
    )
    numbers = _recorded_numbers(model)
    panels = [
        svg(
            plots.trace_of(model, key, panel(1.9)),
            f"trace-{key}",
            f"Trace of {label.words or label.symbol}",
        )
        for key, label in labels_of(model).items()
    ]
    count = plots.feature_count(model, panel(1.9))
    panels.append(svg(count, "count", "Posterior of the number of features"))
    return section(
        id_, title, said, numbers, _chain_key(model), tag("div", join(panels), class_="pictures")
    )


def _recorded_numbers(model: LatentFeatures) -> Markup:
    """The table of what was recorded: with diagnostics of chains, where there are any."""
    lines = scalars(model)
    if isinstance(model.fit_, VariationalFit):
        values = [[_head(line), number(line.mean, _digits(line))] for line in lines]
        return table("The numbers at the end of the best restart", ["quantity", "value"], values)
    if isinstance(model.fit_, PointFit):
        values = [[_head(line), number(line.mean, _digits(line))] for line in lines]
        return table("The numbers of the answer", ["quantity", "value"], values)
    recorded = "The numbers that every sweep records, after burn-in"
    if isinstance(model.fit_, WeightedDraws):
        recorded = "The numbers of the particles, by weight"
    return table(
        recorded,
        ["quantity", "chains", "R-hat", "effective draws", "mean", "90% interval"],
        [_scalar_row(line) for line in lines],
    )


def _head(line: Scalar) -> Markup:
    return join((line.symbol, tag("span", f" {line.words}", class_="quiet")), "")


def _digits(line: Scalar) -> int:
    return 5 if line.name in ("log_joint", "elbo") else 3


def _scalar_row(line: Scalar) -> list[Any]:
    judged = {
        "good": "agree", "fair": "nearly agree", "poor": "differ",
        "fixed": "did not vary", "unknown": "not known",
    }[line.level]  # fmt: skip
    digits = _digits(line)
    ends = (line.low, line.high)
    whole = line.name == "n_components"
    interval = " to ".join(f"{e:,.0f}" if whole else number(e, digits) for e in ends)
    return [
        _head(line),
        tag("td", judged, class_=f"words {line.level}"),
        "–" if np.isnan(line.rhat) else f"{line.rhat:.3f}",
        "–" if np.isnan(line.ess) else f"{line.ess:,.0f}",
        number(line.mean, digits),
        "–" if line.level == "fixed" else interval,
    ]


def _chain_key(model: LatentFeatures) -> Markup:
    """Which color is which chain, and where each began."""
    from thali.plots.style import CHAINS

    items = []
    word = "restart" if model.fit_.ends_early else "chain"
    for c, start in enumerate(model.starts_):
        color = VARIABLES[CHAINS[c % len(CHAINS)]]
        items.append(
            tag("li", tag("i", style=f"--c:var(--{color})"), f"{word} {c + 1}, from {start}")
        )
    return tag("ul", join(items), class_="key")


def features(model: LatentFeatures, id_: str, title: str, shape: Shape) -> Markup:
    """The components: images, or stems and the largest weights of each."""
    k = model.components_.shape[0]
    if k == 0:
        return section(id_, title, NOTHING)
    shown = min(k, MOST_CARDS)
    said = tag(
        "p",
        model.likelihood_.words.feature,
        "" if shown == k else f" The {shown} most frequent of {k} are shown.",
    )
    if shape is not None:
        return section(id_, title, said, _image_cards(model, shown, shape), _scale(model))
    picture = svg(plots.features(model), "features", "The features over the columns", wide=True)
    return section(id_, title, said, picture, _weight_cards(model, shown))


def _heading(model: LatentFeatures, k: int) -> Markup:
    share = shares(model)[k]
    rows = share * len(model.Z_)
    words = f"{rows:,.0f}" if rows >= 9.95 else f"{rows:.1f}"
    return join((tag("h3", f"Feature {k + 1}"), tag("p", f"{words} rows · {percent(share)}")))


def _image_cards(model: LatentFeatures, shown: int, shape: tuple[int, int]) -> Markup:
    A = model.components_[:shown]
    scale = tiles.scale_of(A)
    cards = [
        tag("li", _heading(model, k), png(A[k].reshape(shape), scale, f"Feature {k + 1}"))
        for k in range(shown)
    ]
    return tag("ol", join(cards), class_="cards")


def _scale(model: LatentFeatures) -> Markup:
    low, high, _ = tiles.scale_of(model.components_[:MOST_CARDS])
    below = f", orange adds as much below it, down to {number(low)}" if low < 0 else ""
    return tag("p", f"Blue adds above zero, up to {number(high)}{below}.", class_="quiet")


def _weight_cards(model: LatentFeatures, shown: int) -> Markup:
    names = column_names(model)
    d = _columns(model)
    top = float(np.abs(model.components_[:shown]).max()) or 1.0
    cards = []
    for k in range(shown):
        weights = model.components_[k]
        largest = np.argsort(-np.abs(weights), kind="stable")[:MOST_WEIGHTS]
        lines = []
        for j in largest:
            w = float(weights[j])
            sign = "bar minus" if w < 0 else "bar"
            bar = tag("span", tag("i", style=f"--w:{abs(w) / top:.3f}"), class_=sign)
            words = name(names[j]) if names is not None else f"column {j + 1}"
            lines.append(join((tag("dt", words), bar, tag("dd", number(w))), ""))
        rest = d - len(largest)
        more = tag("p", f"and {plural(rest, 'smaller weight')}", class_="quiet") if rest else ""
        cards.append(tag("li", _heading(model, k), tag("dl", join(lines), class_="weights"), more))
    return _folded(cards)


def _folded(cards: list[Markup]) -> Markup:
    """The first cards at once, the others when asked for: a phone is small."""
    first = tag("ol", join(cards[:OPEN_CARDS]), class_="cards wide")
    rest = cards[OPEN_CARDS:]
    if not rest:
        return first
    more = tag("summary", f"{plural(len(rest), 'more feature')}")
    others = tag("ol", join(rest), class_="cards wide", start=OPEN_CARDS + 1)
    return join((first, tag("details", more, others)))


def assignments(model: LatentFeatures, id_: str, title: str, shape: Shape) -> Markup:
    """Frequencies, the whole matrix as a picture, the first rows as a table, how sure it all is."""
    k = model.Z_.shape[1]
    if k == 0:
        return section(id_, title, NOTHING)
    often = plots.frequencies(model, panel(1.1 + 0.24 * max(min(k, 20), 4)))
    where = plots.assignments(model, panel(3.9))
    pictures = (
        svg(often, "frequencies", "Number of rows with each feature"),
        svg(where, "assignments", "Probability of each feature in each row"),
    )
    return section(
        id_, title, tag("p", _how_sure(model)),
        tag("div", join(pictures), class_="pictures"), _first_rows(model),
    )  # fmt: skip


def _how_sure(model: LatentFeatures) -> str:
    P = np.asarray(model.assignment_probabilities_, dtype=float)
    doubt = np.minimum(P, 1 - P)
    if model.fit_.ends_early and not doubt.any():
        return (
            "This engine decides outright which row has which feature, and does not say how sure "
            "it is; a sampler started from here does (init=model)."
        )
    sure = float((doubt <= 0.05).mean())
    wrong = float(np.where(model.Z_, 1 - P, P).sum())
    asked = int((doubt > 0.25).any(axis=1).sum())
    errors = f"about {number(wrong, 2)} of them" if wrong >= 0.95 else "fewer than one of them"
    rows = plural(asked, "row has", "rows have") if asked else "No row has"
    return (
        f"{percent(sure)} of the {P.size:,} decisions (does this row have this feature?) are made "
        f"with a probability of at least 95%; if the model is right, {errors} may be expected to "
        "be wrong. "
        f"{rows} an open question, with a probability between 25% and 75%."
    )


def _first_rows(model: LatentFeatures) -> Markup:
    n, k = model.Z_.shape
    rows, columns = min(n, MOST_ROWS), min(k, MOST_COLUMNS)
    caption = (
        f"Probability of each feature in the first {rows} rows"
        if rows < n
        else "Probability of each feature in each row"
    )
    if columns < k:
        caption += f" (the {columns} most frequent features of {k})"
    P = np.asarray(model.assignment_probabilities_[:rows, :columns], dtype=float)
    lines = [
        [name(row_name(model, i)), *(_cell(P[i, j], bool(model.Z_[i, j])) for j in range(columns))]
        for i in range(rows)
    ]
    return table(
        caption + "; bold: the point estimate", ["row", *range(1, columns + 1)], lines, "matrix"
    )


def _cell(p: float, on: bool) -> Markup:
    return tag("td", percent(p), class_="on" if on else None, style=f"--p:{p:.2f}")


def reconstructions(model: LatentFeatures, id_: str, title: str, shape: Shape) -> Markup:
    """Data beside Z A + mean, and how much is left over."""
    if getattr(model, "X_", None) is None:
        return section(id_, title, tag("p", "The data were not kept with this model."))
    fit = fit_of(model)
    about = " about the column means" if np.any(model.mean_) else ""
    said = tag(
        "p",
        f"The features explain {percent(max(fit.explained, 0.0))} of the data’s sum of squares"
        f"{about}. "
        if np.isfinite(fit.explained)
        else "",
        f"What is left over has size {number(fit.left_over)} (root mean square)",
        f"; the model takes the noise to be σₓ = {number(model.sigma_x_)}."
        if hasattr(model, "sigma_x_")
        else ".",
    )
    chosen = telling_rows(model, 7 if shape else 6)
    rows = np.append(chosen[chosen != fit.worst], fit.worst)
    which = tag(
        "p", "One row for each of the commonest combinations of features; "
        "the last is the row that fits worst.", class_="quiet",
    )  # fmt: skip
    if shape is not None:
        return section(id_, title, said, which, _trios(model, rows, shape))
    picture = svg(
        plots.reconstructions(model, rows=rows.tolist()), "reconstructions",
        "Rows of the data beside their reconstructions", wide=True,
    )  # fmt: skip
    return section(id_, title, said, which, picture)


def _trios(model: LatentFeatures, rows: np.ndarray, shape: tuple[int, int]) -> Markup:
    data, made = data_of(model, rows), reconstruct(model, rows)
    scale, left = tiles.scales_of_rows(data, made)
    cards = []
    for i, x, y in zip(rows, data, made, strict=True):
        who = row_name(model, i)
        trio = [
            tag("figure", tag("figcaption", words), png(v.reshape(shape), s, words))
            for words, v, s in (
                ("data", x, scale),
                ("rebuilt", y, scale),
                ("left over", x - y, left),
            )
        ]
        note = tag("span", " fits worst", class_="quiet") if i == rows[-1] else ""
        head = join((tag("h3", name(who), note), tag("p", _chips(model.Z_[i]))))
        cards.append(tag("li", head, tag("div", join(trio, ""), class_="trio")))
    shown = tag("ol", join(cards), class_="cards wide")
    if left == scale:
        return shown
    own = (
        f"What is left over has a scale of its own: blue to {number(left.high)}, orange below zero."
    )
    return join((shown, tag("p", own, class_="quiet")))


def _chips(z: np.ndarray) -> Markup:
    present = np.flatnonzero(z) + 1
    if not len(present):
        return esc("no features")
    chips = join((tag("span", k, class_="chip") for k in present[:12]), " ")
    more = f" and {len(present) - 12} more" if len(present) > 12 else ""
    return join(("features " if len(present) > 1 else "feature ", chips, more), "")


def footer() -> Markup:
    """Who made the page."""
    import thali

    return tag("p", f"Made by thali {thali.__version__}. This file needs nothing else to be read.")
