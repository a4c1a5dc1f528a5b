"""The columns start: each column of the data split in two is a feature.

For data that are nearly binary or clustered column by column (votes, attributes) the columns are
features themselves; the race lets it compete, and the sampler then joins what belongs together.
"""

import numpy as np

from thali.data import Data, sparse
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import drop_rejected, fitted_scales, largest_rank, noise_scale
from thali.starts.sources import CHUNK, split_in_two


@start("columns")
def columns_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Two means of each column (of the widest ones, where there are too many)."""
    hyper = noise_scale(model, data, model.start(data))
    width = sparse.deviations(data.X) if data.sparse else data.X.std(axis=0)
    widest = np.argsort(-width, kind="stable")[: largest_rank(model, data)]
    widest = widest[width[widest] > 0.0]
    Z = np.zeros((data.n, 0), bool)
    if len(widest) and data.n >= 4:
        few = np.split(np.sort(widest), range(CHUNK, len(widest), CHUNK))  # dense at a time
        parts = (sparse.columns(data.X, w) if data.sparse else data.X[:, w] for w in few)
        Z = np.concatenate([split_in_two(part)[0] for part in parts], axis=1)
        Z = drop_rejected(model, data, Z, hyper)
    return Start("columns", Z, fitted_scales(model, data, Z, hyper))
