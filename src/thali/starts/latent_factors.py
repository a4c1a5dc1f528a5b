r"""A start for factors behind a table: main directions of the guess, which all rows have.

With Y = U diag(s) Vᵀ the centered, standardized guess of the latents, r directions and what is left
taken for noise, σ² = Σ_{i>r} s_i²/(D − r),

    S = √N U_r,   A = diag(s_i (1 − σ²/s_i²)₊) V_rᵀ / √N,   Z = 1.

r is the rank that predicts best a tenth of the entries, hidden at random and filled in by the
directions themselves in turn (Y ← S A there). Small ranks are tried first, each begins where the
last one ended, and a few that predict worse end the search.
"""

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import largest_rank, with_inferred
from thali.stopping import check_stop

HIDDEN = 0.1
ROUNDS = 8  # of directions and entries, in turn, for each rank
STEP = 1.4  # ranks beyond the first few are each so many times the last
LOOKED_AT = 2000  # rows, at random, to find the rank
LEAST = 1e-3  # of a direction, so that it has a length
# Of effects, in units of the noise: their prior all but rules out smaller ones, and a slice through
# so low a density goes on to sizes whose squares overflow.
LEAST_SIZE = 0.3
PATIENCE = 3  # ranks that predict no better, after which no more are tried


@start("latent_factors")
def latent_factors_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z of ones, S and A by the main directions of the guess."""
    hyper = model.start(data)
    scale = data.X.std(axis=0)
    vary = scale > 0.0
    most = min(largest_rank(model, data), min(data.n, int(vary.sum())) // 2)
    if most < 1:
        return Start("latent_factors", np.zeros((data.n, 0), bool), hyper)
    Y = (data.X[:, vary] - data.X[:, vary].mean(axis=0)) / scale[vary]
    some = rng.permutation(data.n)[:LOOKED_AT] if data.n > LOOKED_AT else slice(None)
    r = predictive_rank(rng, Y[some], most)
    scores, directions = main_directions(Y, r)
    S = np.sqrt(data.n) * scores / np.linalg.norm(scores, axis=0)
    A = np.zeros((r, data.d))
    A[:, vary] = np.linalg.norm(scores, axis=0)[:, None] / np.sqrt(data.n) * directions
    A[:, vary] *= scale[vary]
    found = {"sigma_a": max(LEAST_SIZE, float(np.sqrt(np.mean(np.square(A)))))}
    Z = np.ones((data.n, r), bool)
    hyper = with_inferred(model, hyper, found)
    return Start("latent_factors", Z, hyper, parameters={"A": A, "S": S})


def main_directions(Y: np.ndarray, r: int) -> tuple[np.ndarray, np.ndarray]:
    """Shrunken scores (N, r) and unit directions (r, D): their product is the signal of Y."""
    n, d = Y.shape
    if d <= n:
        squares, V = np.linalg.eigh(Y.T @ Y)
        squares, V = squares[::-1], V[:, ::-1][:, :r]
        scores = Y @ V
    else:
        squares, U = np.linalg.eigh(Y @ Y.T)
        squares, U = np.maximum(squares[::-1], 0.0), U[:, ::-1][:, :r]
        s = np.sqrt(np.maximum(squares[:r], np.finfo(float).tiny))
        V, scores = (Y.T @ U) / s, U * s
    noise = squares[r:].sum() / max(1, min(n, d) - r)
    kept = 1.0 - noise / np.maximum(squares[:r], max(noise, np.finfo(float).tiny))
    return scores * np.maximum(kept, LEAST), V.T


def predictive_rank(rng: np.random.Generator, Y: np.ndarray, most: int) -> int:
    """How many main directions predict hidden entries best, 1 to ``most``.

    >>> rng = np.random.default_rng(0)
    >>> signal = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 20))
    >>> predictive_rank(rng, signal + rng.standard_normal((100, 20)), 10)
    3
    """
    hidden = rng.random(Y.shape) < HIDDEN
    if not hidden.any():
        return 1
    M, best, found, worse, r = np.zeros(Y.shape), np.inf, 1, 0, 1
    while r <= most and worse < PATIENCE:
        for _ in range(ROUNDS):
            check_stop()
            scores, directions = main_directions(np.where(hidden, M, Y), r)
            M = scores @ directions
        error = float(np.square(Y - M)[hidden].mean())
        worse = worse + 1 if error >= best else 0
        if error < best:
            best, found = error, r
        r = max(r + 1, int(STEP * r))
    return found
