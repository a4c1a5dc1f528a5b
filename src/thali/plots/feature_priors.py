"""What the prior expected of column sums and row sums, what the posterior says, its potentials.

E[m_i], m_i features of i rows;    N P(F_n = j), F_n features of row n
log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} − Σ_h log K_h! − log 𝒵
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.estimators.latent_features import LatentFeatures
from thali.priors.feature_sums import ExpectedSums
from thali.results.fit import PointFit

from . import counts, feature_reading, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_POTENTIALS = "This prior is not given by\npotentials of column sums alone."
SHOWN = 1e-3  # a row's chance of so many features that is still drawn


def column_sum_counts(model: LatentFeatures, ax: Axes | None = None) -> Axes:
    """How many features that i rows have to expect: by the prior, and by the posterior.

    The line is E[m_i] of the prior at the posterior means of its hyperparameters, α/i for the
    Indian buffet process; the dots are the posterior means of m_i where some draw has such a
    feature; where these are many, means over sums side by side. Both axes are logarithmic. Of a
    prior with row potentials the line is an estimate by weighted draws, or missing where few of
    them count.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.column_sum_counts(model).get_xlabel()
    'rows with a feature'
    """
    ax, prior, drawn = _opened(model, ax, "column_sum_counts")
    found = drawn.columns
    expected = None if prior is None else prior.columns
    if not found.any() and (expected is None or not expected.any()):
        return style.say(ax, "Column sums", style.NO_FEATURES)
    style.tidy(ax, "Column sums", _key(model, prior))
    counts.draw(ax, expected, found)
    style.label(ax, x="rows with a feature", y="expected features")
    return ax


def row_sum_counts(model: LatentFeatures, ax: Axes | None = None) -> Axes:
    """How many rows that have j features to expect: by the prior, and by the posterior.

    The line is N P(F_n = j) of the prior at the posterior means of its hyperparameters: a row of
    the Indian buffet process has Poisson(α) features. The bars are posterior means. Of a prior
    with row potentials the line is an estimate, as in `column_sum_counts`.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.row_sum_counts(model).get_xlabel()
    'features of a row'
    """
    from matplotlib.ticker import MaxNLocator

    ax, prior, drawn = _opened(model, ax, "row_sum_counts")
    found = drawn.rows
    style.tidy(ax, "Row sums", _key(model, prior))
    ax.bar(
        np.arange(len(found)), found, width=0.72, color=style.VERMILLION, alpha=0.45, linewidth=0
    )
    j, high = len(found), float(found.max())
    if prior is not None:
        j = max(j, 1 + int(np.flatnonzero(prior.rows > SHOWN).max(initial=0)))
        line = np.append(prior.rows, np.zeros(j))[:j] * found.sum()
        high = max(high, float(line.max()))
        ax.plot(
            np.arange(j), line, color=style.BLUE, linewidth=1.6,
            marker="o" if j <= 40 else None, markersize=3.4,
        )  # fmt: skip
    ax.set_xlim(-0.6, max(j, 3) - 0.4)
    ax.set_ylim(0, 1.12 * high)
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    style.label(ax, x="features of a row", y="expected rows")
    return ax


def _opened(
    model: LatentFeatures, ax: Axes | None, picture: str
) -> tuple[Axes, ExpectedSums | None, feature_reading.DrawnSums]:
    """Where a picture of sums is drawn, what the prior says of them, and what the posterior."""
    feature_reading.check_features(model, picture)
    ax = style.given_or_new(ax, 4.2, 2.8)
    return ax, feature_reading.prior_sums(model), feature_reading.drawn_sums(model)


def _key(model: LatentFeatures, prior: ExpectedSums | None) -> str:
    """Which color is what."""
    after = "the answer" if isinstance(model.fit_, PointFit) else "posterior"
    if prior is None:
        return f"orange {after}; the prior’s are not known"
    return f"blue prior{', estimated' * prior.estimated}, orange {after}"


def feature_potentials(model: LatentFeatures, ax: Axes | None = None) -> Axes:
    """λ_i + log C(N, i) + log i of a prior, beside the Indian buffet process (IBP) of one E[K].

    For an Indian buffet process it is log α at every i. Both priors have one normalizer: a matrix
    is e to the power of the sum of differences, over its features, times as probable as under the
    buffet process. Where there are row potentials θ_j, these are drawn on the right; E[K] is then
    that of the columns without them.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> prior = thali.SmoothIBP(power=0.0)
    >>> model = thali.LatentFeatures(prior=prior, engine=engine, random_state=0).fit(X)
    >>> thali.plots.feature_potentials(model).get_title(loc="left")
    'Potentials'
    """
    feature_reading.check_features(model, "feature_potentials")
    ax = style.given_or_new(ax, 4.2, 2.8)
    found = feature_reading.potentials(model)
    if found is None:
        return style.say(ax, "Potentials", NO_POTENTIALS)
    note = f"dashed: IBP, α = {found.mass:.2g}"
    if found.rows is None:
        style.tidy(ax, "Potentials", note)
        _draw_columns(ax, found, f"rows with a feature, i{counts.gaps(found.own)}")
        return ax
    style.bare(ax, "Potentials", note)
    left, right = (ax.inset_axes(box, facecolor="none") for box in LEFT_AND_RIGHT)
    style.tidy(left)
    _draw_columns(left, found, "column sum, i")
    style.tidy(right)
    _draw_rows(right, found.rows, len(feature_reading.drawn_sums(model).rows))
    return ax


LEFT_AND_RIGHT = ((0.0, 0.0, 0.6, 1.0), (0.68, 0.0, 0.32, 1.0))  # shares of the axes


def _draw_columns(ax: Axes, found: feature_reading.FeaturePotentials, x: str) -> None:
    counts.draw_potentials(ax, found.own, found.mass)
    style.label(ax, x=x, y="λᵢ + log C(N, i) + log i")


def _draw_rows(ax: Axes, theta: np.ndarray, most: int) -> None:
    """θ_j of as many features as rows have, and some more; the last is that of all beyond."""
    from matplotlib.ticker import MaxNLocator

    shown = max(6, most + 3)
    own = np.append(theta, np.full(shown, theta[-1]))[:shown]
    own = np.where(own > feature_reading.IMPOSSIBLE, own, np.nan)
    ax.plot(
        np.arange(shown), own, color=style.BLUE, linewidth=1.6,
        marker="o" if shown <= 40 else None, markersize=3.4,
    )  # fmt: skip
    ax.margins(y=0.15)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.spines["left"].set_visible(False)
    ax.spines["right"].set_visible(True)
    style.label(ax, x="row sum, j", y="θⱼ")
