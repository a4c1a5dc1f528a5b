"""The columns start: each column of the data split in two is a feature.

For data that are nearly binary or clustered column by column (votes, attributes) the columns are
features themselves; the race lets it compete, and the sampler then joins what belongs together.
"""

from __future__ import annotations

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts.base import Start
from thali.starts.ica import drop_rejected, fitted_scales, largest_rank, noise_scale, split_in_two


def columns_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Two means of each column (of the widest ones, where there are too many)."""
    hyper = noise_scale(model, data, model.start(data))
    spread = data.X.std(axis=0)
    widest = np.argsort(-spread, kind="stable")[: largest_rank(model, data)]
    widest = widest[spread[widest] > 0.0]
    Z = np.zeros((data.n, 0), bool)
    if len(widest) and data.n >= 4:
        Z = split_in_two(data.X[:, np.sort(widest)])
        Z = drop_rejected(model, data, Z, hyper)
    return Start("columns", Z, fitted_scales(model, data, Z, hyper))
