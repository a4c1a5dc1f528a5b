"""The collapsed Gibbs sampler as the textbook has it: an inverse and a determinant for every bit.

    log P(X|Z) = −ND/2 log 2π − (N−K)D log σ_x − KD log σ_a − D/2 log|Z'Z + rI|
                 − tr(X'(I − Z (Z'Z + rI)⁻¹ Z')X) / 2σ_x²,            r = σ_x²/σ_a²

evaluated from scratch, in plain NumPy, for each z_nk ∈ {0, 1} and for each number of new dishes
(Anand 2015, section 2.2; Griffiths and Ghahramani 2005).  Three things are put right against the
paper, because they decide whether the sampler targets the posterior at all:

- a dish that only row n has is one of row n's *new dishes*: it is dropped before the new dishes
  are drawn, and its bit is never sampled with the prior m/N;
- the number of new dishes is drawn up to where the left-out mass is negligible, with no fixed cap;
- a step of σ that leaves σ > 0 is rejected.

It is the yardstick of `collapsed_gibbs.py` (speed) and an oracle of the tests (correctness), so it
imports nothing from the library and is written to be read, not to be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

NEGLIGIBLE = 1e-13  # left-out share of the law of the number of new dishes


@dataclass(frozen=True)
class TextbookState:
    """Where the walk stands: Z (N×K, 0/1 floats, no empty column) and the three hyperparameters."""

    Z: NDArray[np.float64]
    alpha: float
    sigma_x: float
    sigma_a: float

    @property
    def n_components(self) -> int:
        return self.Z.shape[1]


def log_marginal(X: NDArray, Z: NDArray, sigma_x: float, sigma_a: float) -> float:
    """log P(X | Z, σ_x, σ_a), A integrated out, by one inverse and one determinant.

    >>> float(round(log_marginal(np.zeros((1, 1)), np.zeros((1, 0)), 1.0, 1.0), 6))
    -0.918939
    """
    N, D = X.shape
    K = Z.shape[1]
    r = (sigma_x / sigma_a) ** 2
    inverse_M = Z.T @ Z + r * np.eye(K)
    M = np.linalg.inv(inverse_M)
    _, log_determinant = np.linalg.slogdet(inverse_M)
    quadratic = np.trace(X.T @ (np.eye(N) - Z @ M @ Z.T) @ X)
    return float(
        -0.5 * N * D * np.log(2.0 * np.pi)
        - (N - K) * D * np.log(sigma_x)
        - K * D * np.log(sigma_a)
        - 0.5 * D * log_determinant
        - 0.5 * quadratic / sigma_x**2
    )


def draw_log(rng: np.random.Generator, log_weights: list[float]) -> int:
    """An index drawn with probability proportional to exp(log_weights)."""
    w = np.asarray(log_weights)
    p = np.exp(w - w.max())
    return int(rng.choice(len(p), p=p / p.sum()))


def update_row(rng: np.random.Generator, X: NDArray, state: TextbookState, n: int) -> TextbookState:
    """Gibbs steps for z_n1 … z_nK, then for row n's own (new) dishes."""
    N = X.shape[0]
    sigmas = state.sigma_x, state.sigma_a
    others = state.Z.sum(axis=0) - state.Z[n]
    for k in np.flatnonzero(others > 0):
        Z = state.Z.copy()
        log_p = []
        for bit, prior in ((0.0, N - others[k]), (1.0, others[k])):  # P(z=1 | others) = m/N
            Z[n, k] = bit
            log_p.append(np.log(prior / N) + log_marginal(X, Z, *sigmas))
        Z[n, k] = draw_log(rng, log_p)
        state = replace(state, Z=Z)
    return new_dishes(rng, X, replace(state, Z=state.Z[:, others > 0]), n)


def new_dishes(rng: np.random.Generator, X: NDArray, state: TextbookState, n: int) -> TextbookState:
    """Row n's own dishes: P(j) ∝ Poisson(j; α/N) · P(X | Z with j columns e_n appended).

    The variance of row n given the rest grows with j, so P(X | ·, j) rises to one maximum and then
    falls; past j where both factors fall, the Poisson factor bounds the tail by a geometric series.
    """
    N = X.shape[0]
    rate = state.alpha / N
    own = np.zeros((N, 1))
    own[n] = 1.0
    candidates: list[NDArray] = []
    log_p: list[float] = []
    log_poisson, j = 0.0, 0
    while True:
        candidates.append(np.hstack([state.Z, np.repeat(own, j, axis=1)]))
        log_p.append(log_poisson + log_marginal(X, candidates[-1], state.sigma_x, state.sigma_a))
        falling = j > 0 and log_p[-1] < log_p[-2] and rate / (j + 1) < 0.5
        if falling and log_p[-1] - max(log_p) < np.log(NEGLIGIBLE):
            break
        j += 1
        log_poisson += np.log(rate / j)
    return replace(state, Z=candidates[draw_log(rng, log_p)])


def step_sigma(
    rng: np.random.Generator,
    log_target: Callable[[float], float],
    sigma: float,
    width: float = 0.05,
) -> float:
    """One Metropolis step σ* = σ + U(−width, width); outside σ > 0 it stays where it is."""
    proposal = sigma + rng.uniform(-width, width)
    if proposal <= 0.0:
        return sigma
    log_ratio = log_target(proposal) - log_target(sigma)
    return proposal if np.log(rng.uniform()) < log_ratio else sigma


def sweep(
    rng: np.random.Generator,
    X: NDArray,
    state: TextbookState,
    alpha_law: tuple[float, float] | None = (1.0, 1.0),
    step_sigmas: bool = True,
) -> TextbookState:
    """One pass over all rows, then α | Z ~ Gamma(a + K, b + H_N) and one step of σ_x and of σ_a.

    ``alpha_law`` is (shape a, rate b); None holds α. The σ's have the paper's flat law on σ > 0.
    """
    N = X.shape[0]
    for n in range(N):
        state = update_row(rng, X, state, n)
    if alpha_law is not None:
        harmonic = sum(1.0 / i for i in range(1, N + 1))
        shape, rate = alpha_law[0] + state.n_components, alpha_law[1] + harmonic
        state = replace(state, alpha=rng.gamma(shape) / rate)
    if step_sigmas:
        s = step_sigma(rng, lambda s: log_marginal(X, state.Z, s, state.sigma_a), state.sigma_x)
        state = replace(state, sigma_x=s)
        s = step_sigma(rng, lambda s: log_marginal(X, state.Z, state.sigma_x, s), state.sigma_a)
        state = replace(state, sigma_a=s)
    return state


def textbook_gibbs(
    rng: np.random.Generator,
    X: NDArray,
    Z: NDArray | None = None,
    *,
    alpha: float = 1.0,
    sigma_x: float = 1.0,
    sigma_a: float = 1.0,
    alpha_law: tuple[float, float] | None = (1.0, 1.0),
    step_sigmas: bool = True,
) -> Iterator[TextbookState]:
    """Sweeps without end, from Z (empty when None).

    >>> rng = np.random.default_rng(0)
    >>> walk = textbook_gibbs(rng, rng.normal(size=(4, 2)), alpha_law=None, step_sigmas=False)
    >>> next(walk).Z.shape[0]
    4
    """
    X = np.asarray(X, dtype=np.float64)
    start = np.zeros((X.shape[0], 0)) if Z is None else np.asarray(Z, dtype=np.float64)
    state = TextbookState(start[:, start.any(axis=0)], float(alpha), float(sigma_x), float(sigma_a))
    while True:
        state = sweep(rng, X, state, alpha_law, step_sigmas)
        yield state
