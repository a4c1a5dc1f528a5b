"""How many features to allow: figure 2 of Doshi-Velez and others (2009)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.priors.truncation import (
    simulated_truncation_error,
    tight_truncation_bound,
    truncation_bound,
    truncation_error,
)
from thali.settings import generator, positive_number, whole_number

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def truncation(
    n: int = 30,
    alpha: float = 5.0,
    most: int = 100,
    ax: Axes | None = None,
    *,
    draws: int = 1000,
    random_state: int = 0,
) -> Axes:
    """The chance that n rows of an Indian buffet process have a feature beyond the K most frequent.

    The paper's bound (equation 6), a tighter one, the chance itself, and that found by simulation.

    Examples
    --------
    >>> import thali.plots
    >>> thali.plots.truncation(n=10, alpha=2.0, most=20).get_xlabel()
    'K, the truncation'
    """
    n = whole_number("truncation", "n", n, 1)
    most = whole_number("truncation", "most", most, 1)
    alpha = positive_number("truncation", "alpha", alpha)
    ax = style.given_or_new(ax, 5.2, 3.2)
    style.tidy(ax, "Truncation", f"N = {n}, α = {alpha:g}")
    k = np.unique(np.linspace(1, most, min(most, 60)).round().astype(int))
    for bound, name, dash in (
        (truncation_bound, "bound, equation 6", "--"),
        (tight_truncation_bound, "tighter bound", "-."),
        (truncation_error, "the chance itself", "-"),
    ):
        ax.plot(k, [bound(n, alpha, int(each)) for each in k], dash, label=name, linewidth=1.4)
    some = k[:: max(1, len(k) // 12)]
    rng = generator("truncation", random_state)
    found = simulated_truncation_error(rng, n, alpha, some, draws)
    ax.plot(some, found, "o", markersize=4, label=f"{draws:,} simulations")
    ax.set_ylim(-0.02, 1.05)
    ax.legend(frameon=False, fontsize=8)
    style.label(ax, x="K, the truncation", y="chance of a feature beyond K")
    return ax
