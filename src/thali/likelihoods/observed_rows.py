r"""Rows of X = W A + E of which some entries are missing and integrated out: products and draws.

What a row's bits and own features are drawn from, given A and its observed entries alone
(``kernels/observed_rows.py``); W is Z, or the amounts Z ⊙ S.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.hyperparameters import Values
from thali.likelihoods.gibbs_updates import GibbsState

if TYPE_CHECKING:
    from thali.kernels.observed_rows import Gaps

NO_DIMENSION = 1e-300  # D_o of a row of which nothing was observed; a divisor, so not quite 0


def dimensions(state: GibbsState) -> np.ndarray:
    """How many entries of each row were observed, (N,)."""
    if state.observed is None:
        return np.full(state.data.n, float(state.data.d))
    given = state.data.given
    return given.once("dimensions", lambda: np.maximum(given.seen.sum(axis=1), NO_DIMENSION))


def observed_residual(state: GibbsState, W: np.ndarray, A: np.ndarray) -> np.ndarray:
    """X − WA where X was observed, 0 elsewhere."""
    left = W.astype(float) @ A
    np.subtract(state.data.X, left, out=left)
    seen = state.data.given.seen
    if state.data.observed is None:  # completed, so that nothing is NaN: a product is soon made
        return np.multiply(left, seen, out=left)
    return np.where(seen, left, 0.0)


def observed_products(
    state: GibbsState, W: np.ndarray, A: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Gaps]:
    """R_n = (x_o − w A_o)A_oᵀ, N × K; G = AAᵀ of all columns; and what G_o of a row is made from.

    >>> from thali.data import Data
    >>> state = GibbsState(Data.of([[3.0, np.nan]]), np.ones((1, 1)), {}, {})
    >>> R, G, gaps = observed_products(state, state.bits, np.array([[2.0, 5.0]]))
    >>> R.tolist(), G.tolist(), gaps.diagonals.tolist()
    ([[2.0]], [[29.0]], [[4.0]])
    """
    from thali.kernels.observed_rows import Gaps

    seen = state.data.given.seen
    R, diagonals = observed_residual(state, W, A) @ A.T, seen.astype(float) @ np.square(A).T
    return R, A @ A.T, Gaps(A, seen, diagonals)


def own_features(
    rng: np.random.Generator,
    left: np.ndarray,
    observed: np.ndarray | None,
    rows: np.ndarray,
    s: np.ndarray,
    hyper: Values,
) -> np.ndarray:
    """A draw of own features' a given their rows, amounts s and what shared ones leave of X.

    From the prior, and put right where the row was observed:
    a ← a + σ_a² s (e − Σ s a − ε) / (σ_x² + σ_a² V), with ε ~ N(0, σ_x²) and V = Σ s².
    """
    sigma_x, sigma_a = hyper["sigma_x"], hyper["sigma_a"]
    A = sigma_a * rng.standard_normal((len(s), left.shape[1]))
    which, at = np.unique(rows, return_inverse=True)  # the rows that have own features
    e = left[which] - sigma_x * rng.standard_normal((len(which), left.shape[1]))
    np.subtract.at(e, at, s[:, None] * A)
    if observed is not None:
        e[~observed[which]] = 0.0
    variance = np.full(len(which), sigma_x**2)
    np.add.at(variance, at, sigma_a**2 * s**2)
    return A + (sigma_a**2 * s / variance[at])[:, None] * e[at]
