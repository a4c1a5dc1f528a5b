"""How many sweeps go together: between two turns of moves on columns, and in one call.

A call of compiled code costs microseconds and cannot be interrupted: short sweeps go many to a
call, long ones one by one.
"""

from __future__ import annotations

import numpy as np

from thali.data import Data
from thali.engines.features.state import FeatureState

TOGETHER = 1_000_000  # entries that the sweeps between two turns of moves on columns may look at
A_CALL = 120_000_000  # multiply-adds of one call of compiled code, where a sweep is not more


def moves_every(data: Data) -> int:
    """Sweeps between attempts to change columns, which are then made for all of them at once: so
    calls of compiled code are few where sweeps are short."""
    return int(np.clip(TOGETHER // (data.n * min(data.n, data.d)), 1, 8))


def sweeps_a_call(state: FeatureState) -> int:
    """How many sweeps a call of compiled code makes at most: short enough to be interrupted."""
    n, width = state.X.shape
    k = state.n_components + 1
    return int(max(1, A_CALL // (n * k * (width + 8 * k))))
