"""The columns start: each column of the data split in two is a feature.

For data that are nearly binary or clustered column by column (votes, attributes) the columns are
features themselves; the race lets it compete, and the sampler then joins what belongs together.
"""

from __future__ import annotations

import numpy as np

from thali.data import Data, sparse
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import (
    CHUNK,
    drop_rejected,
    fitted_scales,
    largest_rank,
    noise_scale,
    split_in_two,
)


@start("columns")
def columns_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Two means of each column (of the widest ones, where there are too many)."""
    hyper = noise_scale(model, data, model.start(data))
    width = sparse.deviations(data.X) if data.sparse else data.X.std(axis=0)
    widest = np.argsort(-width, kind="stable")[: largest_rank(model, data)]
    widest = widest[width[widest] > 0.0]
    Z = np.zeros((data.n, 0), bool)
    if len(widest) and data.n >= 4:
        Z = split_columns(data, np.sort(widest))
        Z = drop_rejected(model, data, Z, hyper)
    return Start("columns", Z, fitted_scales(model, data, Z, hyper))


def split_columns(data: Data, which: np.ndarray) -> np.ndarray:
    """Two means of each of these columns; of a sparse X a few at a time are made dense."""
    if not data.sparse:
        return split_in_two(data.X[:, which])
    few = np.split(which, range(CHUNK, len(which), CHUNK))
    return np.concatenate([split_in_two(sparse.columns(data.X, part)) for part in few], axis=1)
