"""How the walk went: K, the hyperparameters, log joint over sweeps; the posterior of K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.estimators.base import LatentModel
from thali.evaluation.autocorrelation import autocorrelation_time, products_by_lag
from thali.results.fit import Draws, PointFit, VariationalFit, WeightedDraws

from . import style
from .reading import label_of, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WORDS = {  # what a step of the walk was, and what the posterior of K is counted over
    Draws: ("sweep", "each kept sweep"),
    WeightedDraws: ("row, of the heaviest particle", "each particle, by weight"),
    VariationalFit: ("iteration", "each draw of q"),
    PointFit: ("step of the search, then of the polishing", "the answer"),
}


NO_CHAINS = "These are no chains: nothing\nfollows on anything else."
NO_CHANGE = "It never changes, or is not known\nat every sweep."
ENOUGH_TIMES = 20  # sweeps of a chain, in integrated times, from which these are believed
FEWEST_LAGS, LAGS_IN_TIMES = 20, 6  # drawn


def trace(model: LatentModel, axes: Sequence[Axes] | None = None) -> Figure:
    """K, the hyperparameters and the log joint at every sweep of every chain, burn-in shaded.

    `axes` are as many axes as the model has scalars, in that order; without them a new figure is
    made. Returns the figure.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> len(thali.plots.trace(model).axes)
    5
    """
    check_is_fitted(model)
    names = list(labels_of(model))
    if axes is None:
        figure = style.new_figure(7.5, 1.4 * len(names))
        axes = list(figure.subplots(len(names), 1, sharex=True))
    if len(axes) != len(names):
        raise ValueError(f"trace draws {len(names)} panels, one axes each; got {len(axes)}.")
    for ax, name in zip(axes, names, strict=True):
        trace_of(model, name, ax)
        if ax is not axes[-1] and ax.get_shared_x_axes().joined(ax, axes[-1]):
            ax.set_xlabel("")
    lines = axes[0].get_lines()[-len(model.history_["n_components"]) :][: len(style.CHAINS)]
    if len(lines) > 1:
        word = "restart" if model.fit_.ends_early else "chain"
        axes[0].legend(
            lines, [f"{word} {c + 1}" for c in range(len(lines))], loc="lower right",
            bbox_to_anchor=(1.0, 1.0), ncols=min(len(lines), 4), frameon=False, fontsize=8,
            handlelength=1.2, columnspacing=1.0, borderaxespad=0.1,
            labelcolor=style.inks(axes[0]).quiet,
        )  # fmt: skip
        axes[0].set_title("", loc="right")
    return cast("Figure", axes[0].figure)


def trace_of(model: LatentModel, name: str, ax: Axes | None = None) -> Axes:
    """One scalar of `history_` over the sweeps, one line a chain.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.trace_of(model, "n_components").get_title(loc="left")
    'K'
    """
    from matplotlib.ticker import MaxNLocator

    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.2, 1.9)
    symbol, words = label_of(model, name)
    values = np.asarray(model.history_[name], dtype=float)
    sweeps = values.shape[1]
    colors = style.tidy(ax, symbol, words)
    for c, chain in enumerate(values):
        x, y = style.envelope(chain, most=int(80 * style.inches(ax)[0]) + 1)
        ax.plot(
            x + 1, y, color=style.CHAINS[c % len(style.CHAINS)], linewidth=0.9, alpha=0.7,
            marker="o" if sweeps == 1 else None, markersize=4, solid_joinstyle="round",
        )  # fmt: skip
    burn_in = min(int(model.burn_in_), sweeps)
    if burn_in:
        ax.axvspan(0.5, burn_in + 0.5, color=colors.quiet, alpha=0.11, linewidth=0, zorder=0)
    ax.set_xlim(0.5, sweeps + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    if sweeps == 1:
        ax.set_xticks([1])
    _frame(ax, values, whole=name == "n_components")
    style.label(ax, x=WORDS[type(model.fit_)][0] + (", burn-in shaded" if burn_in else ""))
    return ax


def _frame(ax: Axes, values: np.ndarray, whole: bool) -> None:
    """Vertical limits that show the walk; the first steps of a far start may leave the frame."""
    from matplotlib.ticker import MaxNLocator

    finite = values[np.isfinite(values)]
    if not finite.size:
        return
    low, high = float(finite.min()), float(finite.max())
    later = values[:, values.shape[1] // 20 :]
    later = later[np.isfinite(later)]
    if values.shape[1] >= 50 and later.size:
        half = 0.5 * float(np.ptp(later))
        low = max(low, float(later.min()) - half)
        high = min(high, float(later.max()) + half)
    margin = 0.07 * (high - low) or 0.05 * abs(high) or 0.5
    ax.set_ylim(low - margin, high + margin)
    ax.ticklabel_format(axis="y", useOffset=False, scilimits=(-3, 5))
    ax.yaxis.get_offset_text().set(fontsize=8, color=style.inks(ax).quiet)
    ax.yaxis.set_major_locator(
        MaxNLocator(4, integer=whole, min_n_ticks=1, steps=[1, 2, 2.5, 5, 10])
    )


def autocorrelation(model: LatentModel, name: str = "n_components", ax: Axes | None = None) -> Axes:
    """How long the chains remember: autocorrelation of one scalar of `history_` after burn-in.

    Each chain is thin and all together thick, centered on the mean of them all: chains that never
    meet show as correlation that does not fall. The integrated time is how many sweeps are worth
    one independent draw; chains that are short beside it make it look shorter than it is.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> engine = thali.CollapsedGibbs(sweeps=40, chains=2)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> thali.plots.autocorrelation(model).get_title(loc="left")
    'Autocorrelation of K'
    """
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.2, 1.9)
    title = f"Autocorrelation of {label_of(model, name).symbol}"
    if not isinstance(model.fit_, Draws):
        return style.say(ax, title, NO_CHAINS)
    values = np.asarray(model.fit_.after_burn_in(name), dtype=float)
    tau = autocorrelation_time(values) if np.isfinite(values).all() else np.nan
    if np.isnan(tau):
        return style.say(ax, title, NO_CHANGE)
    draws = values.shape[1]
    least = "" if draws >= ENOUGH_TIMES * tau else "at least "
    colors = style.tidy(ax, title, f"integrated time {least}{tau:.3g} sweeps")
    lags = min(draws - 1, max(FEWEST_LAGS, int(LAGS_IN_TIMES * tau)))
    ax.axhline(0.0, color=colors.rule, linewidth=0.8)
    products = products_by_lag(values, lags)
    with np.errstate(invalid="ignore"):  # a chain may sit at the mean of all
        each = products / products[:, :1]
    for c, chain in enumerate(each):
        ax.plot(chain, color=style.CHAINS[c % len(style.CHAINS)], linewidth=0.7, alpha=0.6)
    ax.plot(products.sum(axis=0) / products[:, 0].sum(), color=colors.ink, linewidth=1.8)
    ax.set_xlim(0, lags)
    ax.set_ylim(min(-0.15, 1.1 * float(np.nanmin(each))), 1.05)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MultipleLocator(0.5))
    style.label(ax, x="sweeps apart; thick: all chains")
    return ax


def feature_count(model: LatentModel, ax: Axes | None = None) -> Axes:
    """Posterior of the number of components: the share of kept sweeps with each K.

    The darker bar holds that of the point estimate.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.feature_count(model).get_title(loc="left")
    'Number of features'
    """
    from matplotlib.ticker import MaxNLocator

    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.2, 2.8)
    counts = model.fit_.after_burn_in("n_components").astype(int).ravel()
    weights = model.weights_
    if isinstance(model.fit_, Draws):  # of which some may not be kept
        weights = np.full(counts.size, 1 / counts.size)
    title = f"Number of {model.structure.component}s"
    colors = style.tidy(ax, title, f"mean {weights @ counts:.1f}")
    low, high = int(counts.min()), int(counts.max())
    width = max(1, -(-(high - low + 1) // 40))
    starts = np.arange(low, high + 1, width)
    share = np.bincount((counts - low) // width, weights, minlength=len(starts))
    chosen = (int(model.n_components_) - low) // width
    centers = starts + (width - 1) / 2
    bars = ax.bar(centers, share, width=0.86 * width, color=style.BLUE, linewidth=0)
    for i, bar in enumerate(bars):
        bar.set_alpha(1.0 if i == chosen else 0.45)
    if len(starts) <= 12:
        words = [f"{s:.0%}" if s >= 0.005 else "" for s in share]
        labels = ax.bar_label(bars, words, padding=2, fontsize=8, color=colors.quiet)
        for text in labels:
            text.set_in_layout(False)
        ax.set_xticks(starts)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    pad = max(0.0, 2.5 - len(starts) * 0.5) * width
    ax.set_xlim(low - 0.7 * width - pad, starts[-1] + 0.7 * width + pad)
    ax.set_ylim(0, share.max() * 1.15)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="x", length=0)
    style.label(ax, x=f"K at {WORDS[type(model.fit_)][1]}; dark: the point estimate")
    return ax
