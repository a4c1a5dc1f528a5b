"""What the prior expected of clusters' sizes, what the posterior says, and the prior's potentials.

E[m_i], m_i clusters of i rows;    log P(partition) = Σ_i λ_i m_i − log Z
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_partition import LatentPartition

from . import cluster_reading, counts, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_POTENTIALS = "This prior is not given by\na potential for each size."


def size_counts(model: LatentPartition, ax: Axes | None = None) -> Axes:
    """How many clusters of each size to expect: by the prior, and by the posterior.

    The line is E[m_i] of the prior at the posterior means of its hyperparameters; the dots are the
    posterior means of m_i, of sizes that some draw has; where these are many, means over sizes
    side by side. Both axes are logarithmic.

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
    counts.draw(ax, found.prior, found.posterior)
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
    style.tidy(ax, "Potentials", f"dashed: DP, α = {found.mass:.2g}")
    counts.draw_potentials(ax, found.own, found.mass)
    style.label(ax, x=f"rows in a cluster, i{counts.gaps(found.own)}", y="λᵢ − log (i−1)!")
    return ax
