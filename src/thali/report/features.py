"""What the report tells of features: what they are, which rows have them, what they make of one,
what the prior expected."""

import numpy as np

from thali import plots
from thali.data import sparse
from thali.data.column_codes import shown_levels
from thali.estimators import tables
from thali.estimators.latent_features import LatentFeatures
from thali.plots import feature_reading, reading, tiles
from thali.plots.style import percent
from thali.settings import hyperparameters_of

from . import words
from .markup import Markup, join, name, number, plural, table, tag
from .pictures import panel, png, svg
from .story import Shape, Story

MOST_CARDS = 24
OPEN_CARDS = 9
MOST_WEIGHTS = 8
MOST_ROWS = 20
MOST_COLUMNS = 30
MOST_EFFECTS = 10
NOTHING = Markup("<p>No features were found: noise alone explains these data best.</p>")


def lede(model: LatentFeatures) -> str:
    """What was found, in one sentence."""
    (n, d), k = model.X_.shape, model.n_components_
    layout = tables.layout_of(model)
    data = f"{plural(n, 'row')} of {plural(d, 'number')}"
    if layout is not None:
        data = f"{plural(n, 'row')} of {plural(len(layout.columns), 'column')}"
    if k == 0:
        return f"No latent feature was found in {data}: noise alone explains them best."
    per_row = float(np.asarray(model.assignment_probabilities_, dtype=float).sum(axis=1).mean())
    return (
        f"{plural(k, 'latent feature')} found in {data}; "
        f"a row has {number(per_row, 2)} of them on average."
    )


def features(model: LatentFeatures, shape: Shape) -> list[Markup]:
    """The components: images, or stems and the largest weights of each."""
    k = model.components_.shape[0]
    if k == 0:
        return [NOTHING]
    shown = min(k, MOST_CARDS)
    some = "" if shown == k else f" The {shown} most frequent of {k} are shown."
    said = tag("p", model.likelihood_.words.feature, some)
    if shape is not None:
        return [said, *_image_cards(model, shown, shape)]
    picture = svg(plots.features(model), "features", "The features over the columns", wide=True)
    return [said, picture, _weight_cards(model, shown)]


def _heading(model: LatentFeatures, k: int) -> Markup:
    share = reading.shares(model)[k]
    rows = share * len(model.Z_)
    words = f"{rows:,.0f}" if rows >= 9.95 else f"{rows:.1f}"
    return join((tag("h3", f"Feature {k + 1}"), tag("p", f"{words} rows · {percent(share)}")))


def _image_cards(model: LatentFeatures, shown: int, shape: tuple[int, int]) -> list[Markup]:
    """A card for each feature, and what their colors mean."""
    A = model.components_[:shown]
    scale = tiles.scale_of(A)
    cards = [
        tag("li", _heading(model, k), png(A[k].reshape(shape), scale, f"Feature {k + 1}"))
        for k in range(shown)
    ]
    below = f", orange adds as much below it, down to {number(scale.low)}" if scale.low < 0 else ""
    legend = tag("p", f"Blue adds above zero, up to {number(scale.high)}{below}.", class_="quiet")
    return [tag("ol", join(cards), class_="cards"), legend]


def _weight_cards(model: LatentFeatures, shown: int) -> Markup:
    """The largest weights of each feature, as columns compare, told in the units of these; on a
    phone, which is small, the first cards only."""
    A, alike = model.components_[:shown], np.abs(reading.compared_features(model)[:shown])
    names = reading.column_names(model)
    top = float(alike.max()) or 1.0
    cards = []
    for k, (weights, sizes) in enumerate(zip(A, alike, strict=True)):
        largest = np.argsort(-sizes, kind="stable")[:MOST_WEIGHTS]
        lines = []
        for j in largest:
            sign = "bar minus" if weights[j] < 0 else "bar"
            bar = tag("i", style=f"--w:{sizes[j] / top:.3f}")
            words = name(names[j]) if names is not None else f"column {j + 1}"
            cells = (tag("dt", words), tag("span", bar, class_=sign), tag("dd", number(weights[j])))
            lines.append(join(cells, ""))
        rest = len(weights) - len(largest)
        more = tag("p", f"and {plural(rest, 'smaller weight')}", class_="quiet") if rest else ""
        cards.append(tag("li", _heading(model, k), tag("dl", join(lines), class_="weights"), more))
    first = tag("ol", join(cards[:OPEN_CARDS]), class_="cards wide")
    if shown <= OPEN_CARDS:
        return first
    summary = tag("summary", plural(shown - OPEN_CARDS, "more feature"))
    others = tag("ol", join(cards[OPEN_CARDS:]), class_="cards wide", start=OPEN_CARDS + 1)
    return join((first, tag("details", summary, others)))


def columns(model: LatentFeatures, shape: Shape) -> list[Markup]:
    """What the columns of a table are, and how that is known; nothing where all are numbers."""
    layout = tables.layout_of(model)
    if layout is None:
        return []
    gone = np.isnan(model.X_[:, layout.first[:-1]]).sum(axis=0)
    lines = [
        [name(own.name), own.kind, name(shown_levels(own)), f"{gaps:,}" if gaps else "", own.why]
        for own, gaps in zip(layout.columns, gone.tolist(), strict=True)
    ]
    said = tag("p", COLUMNS)
    words = "The columns of the table"
    return [said, table(words, ["column", "kind", "levels or ends", "missing", "found by"], lines)]


def in_words(model: LatentFeatures, shape: Shape) -> list[Markup]:
    """What each feature does, in the words of the columns; the largest effects first."""
    layout, k = tables.layout_of(model), model.n_components_
    if layout is None or not k:
        return []
    told, labels = model.effects(), tables.labels_of(model)
    place = {label: d for d, label in enumerate(labels)}
    cards = []
    for i in range(min(k, MOST_CARDS)):
        sizes = np.maximum.reduceat(np.abs(model.components_[i]), layout.first[:-1])
        own = told[told["feature"] == i + 1]
        own = own.iloc[np.argsort([-sizes[place[c]] for c in own["column"]], kind="stable")]
        lines = [tag("li", name(words, 120)) for words in own["words"][:MOST_EFFECTS]]
        rest = len(own) - len(lines)
        more = tag("p", f"and {plural(rest, 'smaller effect')}", class_="quiet") if rest else ""
        cards.append(tag("li", _heading(model, i), tag("ul", join(lines)), more))
    return [tag("p", EFFECTS), tag("ol", join(cards), class_="cards wide")]


def assignments(model: LatentFeatures, shape: Shape) -> list[Markup]:
    """Frequencies, the whole matrix as a picture, the first rows as a table, how sure it all is."""
    k = model.Z_.shape[1]
    if k == 0:
        return [NOTHING]
    often = plots.frequencies(model, panel(1.1 + 0.24 * max(min(k, 20), 4)))
    where = plots.assignments(model, panel(3.9))
    pictures = (
        svg(often, "frequencies", "Number of rows with each feature"),
        svg(where, "assignments", "Probability of each feature in each row"),
    )
    shown = tag("div", join(pictures), class_="pictures")
    return [tag("p", _how_sure(model)), shown, _first_rows(model)]


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
    which = f"the first {rows} rows" if rows < n else "each row"
    some = f" (the {columns} most frequent features of {k})" if columns < k else ""
    caption = f"Probability of each feature in {which}{some}; bold: the point estimate"
    P = np.asarray(model.assignment_probabilities_[:rows, :columns], dtype=float)
    lines = [
        [name(reading.row_name(model, i)), *map(_cell, P[i], model.Z_[i, :columns])]
        for i in range(rows)
    ]
    return table(caption, ["row", *range(1, columns + 1)], lines, "matrix")


def _cell(p: float, on: bool) -> Markup:
    return tag("td", percent(p), class_="on" if on else None, style=f"--p:{p:.2f}")


def reconstructions(model: LatentFeatures, shape: Shape) -> list[Markup]:
    """Data beside Z A + mean, and how much is left over."""
    fit = reading.explained_by(model)
    mixed, scaled = tables.layout_of(model) is not None, reading.is_scaled(model)
    about = " about the column means" if np.any(model.mean_) or mixed else ""
    share = f"{percent(max(fit.explained, 0.0))} of the data’s sum of squares{about}"
    said = tag(
        "p",
        f"The features explain {share}. " if np.isfinite(fit.explained) else "",
        f"What is left over has size {number(fit.left_over)} (root mean square)",
        ", each column being measured in units of its standard deviation"
        if mixed or scaled
        else "",
        f"; the model takes the noise to be σₓ = {number(model.sigma_x_)}."
        if hasattr(model, "sigma_x_")
        else ".",
    )
    chosen = reading.telling_rows(model, 7 if shape else 6)
    rows = np.append(chosen[chosen != fit.worst], fit.worst)
    words = (
        "One row for each of the commonest combinations of features; "
        "the last is the row that fits worst."
    )
    which = tag("p", words, class_="quiet")
    if shape is not None:
        return [said, which, _trios(model, rows, shape)]
    drawn = plots.reconstructions(model, rows=rows.tolist())
    words = "Rows of the data beside their reconstructions"
    return [said, which, svg(drawn, "reconstructions", words, wide=True)]


def _trios(model: LatentFeatures, rows: np.ndarray, shape: tuple[int, int]) -> Markup:
    data, made = sparse.rows(model.X_, rows), reading.reconstruct(model, rows)
    scale, left = tiles.scales_of_rows(data, made)
    cards = []
    for i, x, y in zip(rows, data, made, strict=True):
        shown = (("data", x, scale), ("rebuilt", y, scale), ("left over", x - y, left))
        trio = [
            tag("figure", tag("figcaption", words), png(v.reshape(shape), s, words))
            for words, v, s in shown
        ]
        note = tag("span", " fits worst", class_="quiet") if i == rows[-1] else ""
        head = (tag("h3", name(reading.row_name(model, i)), note), tag("p", *_chips(model.Z_[i])))
        cards.append(tag("li", join(head), tag("div", *trio, class_="trio")))
    found = [tag("ol", join(cards), class_="cards wide")]
    if left != scale:
        own = f"a scale of its own: blue to {number(left.high)}, orange below zero"
        found.append(tag("p", f"What is left over has {own}.", class_="quiet"))
    return join(found)


def _chips(z: np.ndarray) -> list[str]:
    present = np.flatnonzero(z) + 1
    if not len(present):
        return ["no features"]
    chips = join((tag("span", k, class_="chip") for k in present[:12]), " ")
    more = f" and {len(present) - 12} more" if len(present) > 12 else ""
    return ["features " if len(present) > 1 else "feature ", chips, more]


def sums(model: LatentFeatures, shape: Shape) -> list[Markup]:
    """Column sums and row sums that prior and posterior expect; a flexible prior's potentials."""
    pictures = [
        svg(
            plots.column_sum_counts(model, panel(2.6)), "column-sums",
            "Expected number of features that so many rows have, by the prior and by the posterior",
        ),
        svg(
            plots.row_sum_counts(model, panel(2.6)), "row-sums",
            "Expected number of rows that have so many features, by the prior and by the posterior",
        ),
    ]  # fmt: skip
    notes = []
    if feature_reading.is_flexible(model):
        drawn = plots.feature_potentials(model, panel(2.6))
        pictures.append(svg(drawn, "potentials", "The prior’s potential of each column sum"))
        found = feature_reading.potentials(model)
        rows = "" if found is None or found.rows is None else ROW_POTENTIALS
        notes.append(tag("p", POTENTIALS, rows, class_="quiet"))
    shown = tag("div", join(pictures), class_="pictures")
    return [tag("p", _before_and_after(model)), shown, *notes]


def _before_and_after(model: LatentFeatures) -> str:
    """How many features are expected in all, and of a row."""
    prior, found = feature_reading.prior_sums(model), feature_reading.drawn_sums(model)
    after = _expected(found.columns.sum(), found.rows / found.rows.sum())
    if prior is None:
        return (
            "What this prior expects before the data are seen is not known: no formula tells it, "
            f"and of draws few would count. Given the data, {after} are expected."
        )
    before = _expected(prior.columns.sum(), prior.rows)
    if hyperparameters_of(model.prior_):
        before += ", at the posterior means of its hyperparameters"
    if prior.estimated:
        before += ", as weighted draws estimate it"
    return (
        f"Before the data were seen, the prior expected {before}; given the data, {after} are "
        "expected."
    )


def _expected(features: float, rows: np.ndarray) -> str:
    mean = float(rows @ np.arange(len(rows)))
    return f"{number(features)} features in all and {number(mean)} of a row"


COLUMNS = (
    "What the columns hold decides how features act on them. A kind that was found wrongly can be "
    "declared: likelihood=thali.MixedColumns(types={…})."
)
EFFECTS = (
    "A row that has one feature alone is compared with a row that has none, at the posterior "
    "means; effects that are the largest beside the noise come first."
)
POTENTIALS = (
    "Where the potential of a column sum is above the dashed line, the prior favors features that "
    "so many rows have more than an Indian buffet process that expects as many features: by e to "
    "the power of the difference for each of them."
)
ROW_POTENTIALS = (
    " On the right is what the number of features of a row adds: the larger, the more the prior "
    "favors such rows."
)
STORY = Story(
    "Latent features",
    lede,
    {
        "columns": ("Columns", columns),
        "effects": ("In words", in_words),
        "features": ("Features", features),
        "assignments": ("Assignments", assignments),
        "reconstructions": ("Reconstructions", reconstructions),
        "sums": ("Prior and posterior", sums),
        "reading": ("How to read this", words.of_features),
    },
    draws_rows=True,
)
