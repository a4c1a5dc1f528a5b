"""What the report tells of clusters: how large, what they are like, who is with whom, the prior."""

import numpy as np

from thali import plots
from thali.estimators.latent_partition import LatentPartition
from thali.plots import cluster_reading, reading, tiles
from thali.plots.cluster_reading import ProfileTable
from thali.plots.style import percent

from . import words
from .markup import Markup, join, name, number, plural, table, tag
from .pictures import panel, png, svg
from .story import Shape, Story, found_in

MOST_NAMED = 8  # clusters whose sizes the first sentence lists
MOST_CLUSTERS = 24
OPEN_CARDS = 9
MOST_MARKS = 6  # columns by which a cluster stands out
MOST_TYPICAL = 5
MOST_COLUMNS = 40
MOST_HEADS = 12  # clusters in the table of profiles
MOST_DOUBTFUL = 12
DOUBT = 0.75  # membership below which a row is in doubt


def lede(model: LatentPartition) -> str:
    """What was found, in one sentence."""
    sizes = np.bincount(model.labels_)
    if len(sizes) == 1:
        return f"{found_in(model)}: nothing sets some of the rows apart from the others."
    listed = [f"{size:,}" for size in sizes[:MOST_NAMED]]
    rest = len(sizes) - len(listed)
    last = (
        f"{sizes[MOST_NAMED:].sum():,} in {plural(rest, 'smaller one')}" if rest else listed.pop()
    )
    sure = f"a row is with {percent(float(model.membership_.mean()))} of its cluster on average"
    return f"{found_in(model)}, of {', '.join(listed)} and {last} rows; {sure}."


def clusters(model: LatentPartition, shape: Shape) -> list[Markup]:
    """Sizes, where rows lie, and what each cluster is like."""
    k = min(model.n_clusters_, 20)
    often = plots.cluster_sizes(model, panel(1.3 + 0.24 * max(k, 6)))
    pictures = (
        svg(plots.cluster_map(model, panel(3.2)), "rows", "Rows as points, colored by cluster"),
        svg(often, "sizes", "Number of rows in each cluster, and its spread over draws"),
    )
    profile = cluster_reading.profile_table(model)
    images = shape if len(profile.names) == model.n_features_in_ else None
    heat = svg(plots.cluster_profiles(model), "profiles", "What clusters are like", wide=True)
    return [
        tag("p", model.likelihood_.words.feature),
        tag("div", join(pictures), class_="pictures"),
        _sizes(model),
        *([] if images else [heat]),
        *_cards(model, profile, images),
        *([] if images else [_profiles(model, profile)]),
    ]


def _sizes(model: LatentPartition) -> Markup:
    """The table of clusters, and what its numbers are."""
    spread = cluster_reading.size_spread(model)
    shown, n = min(model.n_clusters_, MOST_CLUSTERS), len(model.labels_)
    sure = np.bincount(model.labels_, model.membership_) / spread.rows
    rows = [
        [
            str(k),
            f"{spread.rows[k]:,}",
            percent(spread.rows[k] / n),
            f"{spread.median[k]:,.0f}",
            f"{spread.low[k]:,.0f} to {spread.high[k]:,.0f}",
            percent(float(sure[k])),
        ]
        for k in range(shown)
    ]
    which = "Clusters" if shown == model.n_clusters_ else f"The {shown} largest clusters"
    caption = (
        f"{which} of the point estimate. In each draw a row is in a cluster of some size: median "
        "and 90% interval are over all draws and all rows of the cluster."
    )
    head = ["cluster", "rows", "share", "size in the draws", "90% interval", "membership"]
    return table(caption, head, rows)


def _cards(model: LatentPartition, profile: ProfileTable, shape: Shape) -> list[Markup]:
    """A card for each cluster: its image, or by what it stands out; and its most typical rows."""
    shown = min(model.n_clusters_, MOST_CLUSTERS)
    typical = cluster_reading.typical_rows(model, MOST_TYPICAL)
    values = model.cluster_profiles_.to_numpy(float)
    scale = tiles.scale_of(values)
    cards = []
    for k in range(shown):
        if shape is not None:
            like = png(values[k].reshape(shape), scale, f"Cluster {k}")
        else:
            like = _marks(model, profile, k)
        rows = join((name(reading.row_name(model, i), 40) for i in typical[k]), ", ")
        cards.append(tag("li", _heading(model, k), like, tag("p", "Most typical: ", rows)))
    kind = "cards wide" if shape is None else "cards"
    first = tag("ol", join(cards[:OPEN_CARDS]), class_=kind)
    if shown <= OPEN_CARDS:
        return [_legend(model, shape), first]
    summary = tag("summary", plural(shown - OPEN_CARDS, "more cluster"))
    others = tag("ol", join(cards[OPEN_CARDS:]), class_=kind)
    return [_legend(model, shape), first, tag("details", summary, others)]


def _legend(model: LatentPartition, shape: Shape) -> Markup:
    said = cluster_reading.profile_words(model)
    if shape is not None:
        text = f"Each image is a cluster’s profile, the {said.number} of each column."
    elif said.has_units:
        text = (
            "By what each cluster stands out: its mean of a column, and as a bar how far that is "
            "from the column’s mean, in standard deviations; blue above it, orange below."
        )
    else:
        text = (
            f"By what each cluster stands out: the {said.number}, and as a bar how far that is "
            "from the mean of all rows; blue above it, orange below."
        )
    typical = " The most typical rows are the surest, and of those the nearest to the mean."
    return tag("p", text, typical, class_="quiet")


def _heading(model: LatentPartition, k: int) -> Markup:
    rows = int((model.labels_ == k).sum())
    share = percent(rows / len(model.labels_))
    return join((tag("h3", f"Cluster {k}"), tag("p", f"{plural(rows, 'row')} · {share}")))


def _marks(model: LatentPartition, profile: ProfileTable, k: int) -> Markup:
    """The columns in which a cluster differs most from all rows."""
    shares = np.bincount(model.labels_) / len(model.labels_)
    away = profile.shown - shares @ profile.shown
    top = float(np.abs(away).max()) or 1.0
    lines = []
    for j in np.argsort(-np.abs(away[k]), kind="stable")[:MOST_MARKS]:
        sign = "bar minus" if away[k, j] < 0 else "bar"
        bar = tag("i", style=f"--w:{abs(away[k, j]) / top:.3f}")
        value = number(profile.values[k, j])
        cells = (tag("dt", name(profile.names[j])), tag("span", bar, class_=sign), tag("dd", value))
        lines.append(join(cells, ""))
    return tag("dl", join(lines), class_="weights")


def _profiles(model: LatentPartition, profile: ProfileTable) -> Markup:
    """All profiles as numbers, closed until asked for."""
    k, d = min(model.n_clusters_, MOST_HEADS), min(len(profile.names), MOST_COLUMNS)
    said = cluster_reading.profile_words(model)
    some = f"; the {k} largest of {model.n_clusters_} clusters" if k < model.n_clusters_ else ""
    most = f", the {d} of {len(profile.names):,} that differ most" if d < len(profile.names) else ""
    caption = f"The {said.number} of each column in each cluster{most}{some}"
    lines = [
        [name(profile.names[j]), *(number(value) for value in profile.values[:k, j])]
        for j in range(d)
    ]
    whole = table(caption, ["column", *(f"cluster {i}" for i in range(k))], lines)
    return tag("details", tag("summary", "The profiles in numbers"), whole)


def together(model: LatentPartition, shape: Shape) -> list[Markup]:
    """How sure the partition is: pairs of rows, the distance of draws, the rows in doubt."""
    ball = model.credible_ball(0.95)
    fewest, most = (int(edge.max()) + 1 for edge in (ball.coarsest, ball.finest))
    many = plural(fewest, "cluster") if fewest == most else f"{fewest:,} to {most:,} clusters"
    said = (
        f"A draw differs from the point estimate by {number(model.expected_loss_, 2)} nats "
        f"(variation of information) on average; 95% of draws differ by at most "
        f"{number(ball.radius, 2)}, and these have {many}."
    )
    picture = svg(
        plots.co_clustering(model, panel(3.3)), "pairs", "Share of draws in which two rows are "
        "together, rows ordered by cluster",
    )  # fmt: skip
    return [tag("p", said), tag("div", picture, class_="pictures"), _doubtful(model)]


def _doubtful(model: LatentPartition) -> Markup:
    count = int((model.membership_ < DOUBT).sum())
    if not count:
        return tag("p", f"No row is in doubt: each is with {DOUBT:.0%} of its cluster or more.")
    order = np.argsort(model.membership_, kind="stable")[: min(count, MOST_DOUBTFUL)]
    rows = [
        [name(reading.row_name(model, i)), str(model.labels_[i]), percent(model.membership_[i])]
        for i in order
    ]
    which = (
        f"The {len(rows)} rows most in doubt of {count:,}" if len(rows) < count else "Rows in doubt"
    )
    caption = f"{which}: in the draws they are with less than {DOUBT:.0%} of their cluster"
    return table(caption, ["row", "cluster", "membership"], rows)


def sizes(model: LatentPartition, shape: Shape) -> list[Markup]:
    """The sizes that prior and posterior expect, and the prior's potentials if it has them."""
    found = cluster_reading.size_counts(model)
    said = (
        f"Before the data were seen, the prior expected {number(found.prior.sum())} clusters of "
        f"{len(found.prior):,} rows (at the posterior means of its hyperparameters); given the "
        f"data, {number(found.posterior.sum())} are expected."
    )
    pictures = [
        svg(
            plots.size_counts(model, panel(2.6)), "expected",
            "Expected number of clusters of each size, by the prior and by the posterior",
        )
    ]  # fmt: skip
    notes = []
    if cluster_reading.potentials(model) is not None:
        drawn = plots.potentials(model, panel(2.6))
        pictures.append(svg(drawn, "potentials", "The prior’s potential of each size"))
        notes.append(tag("p", POTENTIALS, class_="quiet"))
    return [tag("p", said), tag("div", join(pictures), class_="pictures"), *notes]


POTENTIALS = (
    "Where the potential of a size is above the dashed line, the prior favors clusters of that "
    "size more than a Dirichlet process that expects as many clusters: by e to the power of the "
    "difference for each of them."
)
STORY = Story(
    "Clusters",
    lede,
    {
        "clusters": ("Clusters", clusters),
        "together": ("Who is with whom", together),
        "sizes": ("Prior and posterior", sizes),
        "reading": ("How to read this", words.of_clusters),
    },
    draws_rows=True,
)
