r"""Fewer features by what was kept of rows that are gone: n_k, C = E[WᵀW], T = E[W]ᵀX, Σx², gains.

Feature c goes, and in the rows that had it others are switched on or off in its place:

    drop       none: what is kept of the others is as it was, and the bound is exact
    join       one is switched on: c and it become one
    dissolve   several are switched: a feature that is the sum of others, or their difference

With p_k = C_ck/C_cc, the share of c's rows that have k, and p'_k = 1 where k is switched on, 0
where it is switched off, and p_k elsewhere, c's rows bring

    E[w_k w_l]  n_c p_k p_l → n_c p'_k p'_l (k ≠ l),  n_c p_k → n_c p'_k,
    E[w_k] x    p_k T_c + n_c p_k(1−p_k) φ_k → p'_k T_c + n_c p'_k(1−p'_k) φ_k,

which takes them to have the other features independently of each other, and x to be what the
features say of it: exact where p_k is 0 or 1 for all that are switched, as for two halves of one
feature. Entropy of switched features is taken to stay, of a joined pair to be the larger of both.
Where rows have amounts only joins are tried, w_k' = w_k ± w_c, and C and T of these are exact.

Which features go is told by J_c = ‖φ_c + Σ (p_k − p'_k) φ_k‖² + Σ p_k(1−p_k)‖φ_k‖² over those
switched, n_c J_c/2σ_x² being about what the fit loses. A change is kept only if the bound of what
was kept rises by it, hyperparameters at their best for either; where more rows are to come, no one
knows how many, that of ``more`` times as much must rise too: a feature that so few rows do not pay
for yet, and more would, stays.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from thali.engines.ascent.state import AscentState
from thali.stopping import stopped
from thali.structures.statistics import Statistics

CANDIDATES = 4  # features that are tried at a time
BETTER = 1e-3  # by such a share fewer features may seem to fit better, and no more
NEGATIVE = 1e-6  # so far below zero, relatively, may an estimated C have its eigenvalues


class Change(NamedTuple):
    """Feature ``gone`` goes; ``switch`` (K,) is 1 or −1 where others are switched on or off."""

    gone: int
    switch: np.ndarray

    @property
    def order(self) -> np.ndarray:
        return np.delete(np.arange(len(self.switch)), self.gone)


def fewer_features(state: AscentState, more: float = 1.0) -> bool:
    """Let features go while the bound of ``state.found`` rises by it; whether any did."""
    changed = False
    while state.k > 1 and not stopped() and _best_change(state, more):
        changed = True
    return changed


def _best_change(state: AscentState, more: float) -> bool:
    """The change that raises the bound most is made; False if none does."""
    assert state.found is not None
    later = None if more == 1.0 else _grown(state, more)
    tried = [_tried(state, change) for change in changes_of(state, state.found)]
    trials = [trial for trial in tried if trial is not None and trial.bound > state.bound]
    for best in sorted(trials, key=lambda trial: -trial.bound):
        if later is None or _grown(best, more).bound > later.bound:
            state.__dict__.update(best.__dict__)
            return True
    return False


def _grown(state: AscentState, more: float) -> AscentState:
    """The state had there been so many times as many rows, like those that there were."""
    assert state.found is not None
    grown = replace(state, hyper=dict(state.hyper))
    grown.found = grown.fit_globals(state.found.mixed(more, state.found, 0.0))
    grown.bound = grown.value(grown.found)
    return grown


def changes_of(state: AscentState, found: Statistics) -> list[Change]:
    """Those by which the fit loses least, one for each feature that may go, and plain drops."""
    phi, amounts = state.features.phi, state.rows.slab is not None
    gram, own = phi @ phi.T, _size(found)
    switches = [_switched(gram, shares_of(found, c), c, amounts) for c in range(state.k)]
    losses = own * np.array([loss for _, loss in switches])
    several = [Change(int(c), switches[c][0]) for c in np.argsort(losses)[:CANDIDATES]]
    light = np.argsort(own * np.diagonal(gram))[:CANDIDATES]
    alone = [Change(int(c), np.zeros(state.k, int)) for c in light]
    return [change for change in several if change.switch.any()] + alone


def shares_of(found: Statistics, c: int) -> np.ndarray:
    """p_k, (K,), over all columns; that of c itself is 1."""
    C = found.C if found.C.ndim == 2 else found.C.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(C[c, c] > 0.0, C[c] / C[c, c], 0.0)
    p[c] = 1.0
    return np.asarray(np.clip(p, 0.0, 1.0))


def _size(found: Statistics) -> np.ndarray:
    """E Σ w_k², over all columns."""
    own = np.diagonal(found.C, axis1=-2, axis2=-1)
    return np.asarray(own if own.ndim == 1 else own.mean(axis=0))


def _switched(gram: np.ndarray, p: np.ndarray, c: int, amounts: bool) -> tuple[np.ndarray, float]:
    """What to switch in c's rows for the least J_c, found one after the other, and that J_c."""
    k = len(p)
    switch, loss, inner = np.zeros(k, int), float(gram[c, c]), gram[c].copy()
    free = np.ones(k, bool)
    free[c] = False
    while free.any():
        # switching adds d φ_k to what is left, r, and p(1−p)‖φ_k‖²: inner holds r·φ_k
        best = (0.0, -1, 0)
        for sign in (1, -1):
            d = np.full(k, -float(sign)) if amounts else (p - 1.0 if sign > 0 else p)
            spread = 0.0 if amounts else p * (1.0 - p)
            gain = 2.0 * d * inner + (d**2 + spread) * np.diagonal(gram)
            gain = np.where(free, gain, 0.0)
            at = int(np.argmin(gain))
            if gain[at] < best[0]:
                best = (float(gain[at]), at, sign)
        gained, at, sign = best
        if at < 0:
            break
        switch[at] = sign
        free[at] = False
        inner = inner + (-float(sign) if amounts else p[at] - (sign > 0)) * gram[at]
        loss += gained
        if amounts:
            break
    return switch, max(loss, 0.0)


def _tried(state: AscentState, change: Change) -> AscentState | None:
    """The state after it, all but its rows at their best; None where the estimate is absurd."""
    assert state.found is not None
    found = after(state, state.found, change)
    order = change.order
    features = state.features.taken(order)
    trial = replace(state, features=features, found=found, hyper=dict(state.hyper))
    if change.switch.any() and not _possible(found):
        return None
    trial.found = trial.fit_globals(found)
    if change.switch.any():
        fit = misfit(found, trial.features.phi)
        if fit < (1.0 - BETTER) * misfit(state.found, state.features.phi):
            return None
    trial.bound = trial.value(found)
    trial.rows = state.rows.switched(change.gone, change.switch)
    return trial


def _possible(found: Statistics) -> bool:
    """Whether C could be sums of products."""
    lowest = np.linalg.eigvalsh(found.C)[..., 0]
    return bool((lowest >= -NEGATIVE * np.trace(found.C, axis1=-2, axis2=-1)).all())


def misfit(found: Statistics, phi: np.ndarray) -> float:
    """E‖X − WΦ‖², what the means of the features leave."""
    C = found.C
    fitted = np.einsum("kd,kl,ld" if C.ndim == 2 else "kd,dkl,ld", phi, C, phi, optimize=True)
    return float(found.squares - 2.0 * (phi * found.T).sum() + fitted)


def after(state: AscentState, found: Statistics, change: Change) -> Statistics:
    """What is kept, as it would be had the rows been as the change makes them."""
    switched = np.flatnonzero(change.switch)
    if len(switched) == 0:
        return found.taken(change.order)
    make = _after_of_bits if state.rows.slab is None else _after_of_amounts
    return make(state, found, change, switched).taken(change.order)


def _after_of_bits(
    state: AscentState, found: Statistics, change: Change, switched: np.ndarray
) -> Statistics:
    c, phi = change.gone, state.features.phi
    own = found.C[..., c, c]  # n_c, of each column where entries are missing
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.clip(np.where(own[..., None] > 0.0, found.C[..., c, :] / own[..., None], 0.0), 0, 1)
    new = p.copy()
    new[..., switched] = change.switch[switched] > 0
    C, T = found.C.copy(), found.T.copy()
    change_C = own[..., None, None] * (
        new[..., :, None] * new[..., None, :] - p[..., :, None] * p[..., None, :]
    )
    diagonal = np.arange(len(change.switch))
    change_C[..., diagonal, diagonal] = own[..., None] * (new - p)
    C += change_C
    of_rows = new - p, new * (1.0 - new) - p * (1.0 - p)  # (K,) or (D, K)
    for k in switched:
        T[k] += of_rows[0][..., k] * found.T[c] + own * of_rows[1][..., k] * phi[k]
    counts, gain = found.counts.copy(), found.gain.copy()
    overall = shares_of(found, c)
    counts[switched] += found.counts[c] * ((change.switch[switched] > 0) - overall[switched])
    counts = np.clip(counts, 0.0, found.n)
    if len(switched) == 1 and change.switch[switched[0]] > 0:
        gain[switched] = np.maximum(gain[switched], gain[c])
    return replace(found, counts=counts, C=C, T=T, gain=gain)


def _after_of_amounts(
    state: AscentState, found: Statistics, change: Change, switched: np.ndarray
) -> Statistics:
    c, k = change.gone, int(switched[0])
    R = np.eye(len(change.switch))
    R[c, k] = change.switch[k]  # w_k' = w_k ± w_c
    C, T = R.T @ found.C @ R, R.T @ found.T
    counts, gain = found.counts.copy(), found.gain.copy()
    counts[k] += counts[c] * (1.0 - counts[k] / max(found.n, 1.0))
    gain[k] = min(gain[k] + gain[c], max(gain[k], gain[c]))
    return replace(found, counts=counts, C=C, T=T, gain=gain)
