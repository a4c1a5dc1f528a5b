"""Rows of X = (Z ⊙ S) A + E as single moves change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.likelihoods.gibbs_updates import GibbsState

if TYPE_CHECKING:
    from thali.kernels.gaussian_moves import GaussianMoves
    from thali.kernels.positive_entries import Entries

ALL_SEEN = np.zeros((0, 0), bool)


def gaussian_rows(
    state: GibbsState, room: int, kind: int, law: Entries | None = None
) -> GaussianMoves:
    """Residuals, features and amounts; ``kind`` is one of those of ``kernels/gaussian_moves``, and
    ``law`` that of entries where they are not below zero."""
    from thali.kernels.gaussian_moves import AMOUNTS, GaussianMoves
    from thali.kernels.positive_entries import half_normal

    A, bits, hyper = state.parameters["A"], state.bits.astype(float), state.hyper
    S = with_room(state.parameters["S"] * bits, room, 1) if kind >= AMOUNTS else np.zeros((0, 0))
    W = S[:, : len(A)] if kind >= AMOUNTS else bits
    return GaussianMoves(
        np.ascontiguousarray(state.data.X - W @ A),
        with_room(A, room, 0),
        S,
        ALL_SEEN if state.observed is None else state.observed,
        float(hyper["sigma_x"]),
        float(hyper["sigma_a"]),
        kind,
        law or half_normal(hyper["sigma_x"], hyper["sigma_a"]),  # which other kinds do not look at
    )


def with_room(values: np.ndarray, room: int, axis: int) -> np.ndarray:
    """The same with zeros up to so many features along an axis, to be changed.

    >>> with_room(np.ones((1, 2)), 3, axis=1).tolist()
    [[1.0, 1.0, 0.0]]
    """
    more = [(0, 0)] * values.ndim
    more[axis] = (0, room - values.shape[axis])
    return np.ascontiguousarray(np.pad(values, more))
