"""What the prior expected of clusters' sizes, what the posterior says, and the prior's potentials.

E[m_i], m_i clusters of i rows;    log P(partition) = Σ_i λ_i m_i − log Z
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_partition import LatentPartition

from . import cluster_reading, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_POTENTIALS = "This prior is not given by\na potential for each size."


def size_counts(model: LatentPartition, ax: Axes | None = None) -> Axes:
    """How many clusters of each size to expect: by the prior, and by the posterior.

    The line is E[m_i] of the prior at the posterior means of its hyperparameters; the dots are the
    posterior means of m_i, of sizes that some draw has. Both axes are logarithmic.

    Examples
    --------
    >>> import thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> thali.plots.size_counts(model).get_xlabel()
    'rows in a cluster'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.2, 2.8)
    found = cluster_reading.size_counts(model)
    n = len(found.prior)
    to_come = n - len(model.labels_)
    style.tidy(ax, "Sizes", "blue prior, orange posterior")
    i = np.arange(1, n + 1)
    seen = found.posterior > 0
    least = found.posterior[seen].min()
    low = float(np.clip(np.median(found.prior), least / 1e3, least)) / 3  # a prior may be 0 there
    some = found.prior > low / 1e3
    ax.plot(
        i[some], found.prior[some], color=style.BLUE, linewidth=1.6,
        marker="o" if n <= 2 else None,
    )  # fmt: skip
    ax.vlines(i[seen], low, found.posterior[seen], color=style.VERMILLION, linewidth=0.8, alpha=0.3)
    ax.plot(
        i[seen], found.posterior[seen], "o", color=style.VERMILLION, markersize=3.4,
        markeredgewidth=0,
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    high = max(found.posterior.max(), found.prior[some].max(initial=low))
    ax.set_ylim(low, 2.2 * high)
    ax.set_xlim(0.85, 1.18 * n)
    _plain_ticks(ax, n)
    _plain_counts(ax, np.log10(2.2 * high / low))
    more = f", with {to_come:,} rows to come" if to_come else ""
    style.label(ax, x=f"rows in a cluster{more}", y="expected clusters")
    return ax


def potentials(model: LatentPartition, ax: Axes | None = None) -> Axes:
    """λ_i − log (i−1)! of a flexible prior, beside the Dirichlet process (DP) of one E[K].

    For a Dirichlet process it is log α at every size. Of all λ_i + c·i, which are the same prior,
    those are drawn that give both priors one normalizer: a partition is then e to the power of the
    sum of differences, over its clusters, times as probable as under the Dirichlet process.

    Examples
    --------
    >>> import numpy as np, thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> prior = thali.FlexiblePartition([-3.0, 0.0, 0.0, 0.0])
    >>> model = thali.LatentPartition(prior, engine=engine, random_state=0).fit(X)
    >>> thali.plots.potentials(model).get_title(loc="left")
    'Potentials'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.2, 2.8)
    found = cluster_reading.potentials(model)
    if found is None:
        return style.say(ax, "Potentials", NO_POTENTIALS)
    n = len(found.own)
    style.tidy(ax, "Potentials", f"dashed: DP, α = {found.mass:.2g}")
    i, own = np.arange(1, n + 1), np.where(np.isfinite(found.own), found.own, np.nan)
    ax.plot(
        i, own, color=style.BLUE, linewidth=1.6,
        marker="o" if n <= 40 else None, markersize=3.4,
    )  # fmt: skip
    ax.plot(
        [1, max(n, 2)], [np.log(found.mass)] * 2, color=style.VERMILLION, linewidth=1.2,
        linestyle="--",
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlim(0.85, 1.18 * n)
    ax.margins(y=0.15)
    _plain_ticks(ax, n)
    never = int((~np.isfinite(found.own)).sum())
    gaps = f"; none of {never:,} sizes" if never else ""
    style.label(ax, x=f"rows in a cluster, i{gaps}", y="λᵢ − log (i−1)!")
    return ax


def _plain_ticks(ax: Axes, n: int) -> None:
    """Sizes as people write them: 1, 10, 100, and the largest where it is far from these."""
    from matplotlib.ticker import NullFormatter

    powers = [10**p for p in range(12) if 10**p <= n]
    ticks = powers if n < 2.5 * powers[-1] else [*powers, n]
    if n < 10:
        ticks = list(range(1, n + 1))
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.xaxis.set_minor_formatter(NullFormatter())


def _plain_counts(ax: Axes, decades: float) -> None:
    """Expected numbers without powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    subs = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6 * len(subs)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
