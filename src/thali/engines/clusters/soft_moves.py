r"""Changes of whole clusters in variational inference: mergers and splits, kept if the bound gains.

A merger of i and j has r_ni + r_nj. Its gain but for the entropy, which only falls, follows from
sums: pairs that gain even so are candidates, and the next pass finds their entropies.

A split is tried on a sample of the rows: those of a cluster are cut along their main direction,
fitted by a few updates of two clusters, and compared with one as if the sample were all there is,
so that what is chance in it gains nothing. Where that gains, passes over all rows decide: the state
before is kept beside, and comes back if the bound is lower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from thali.data import Data
from thali.engines.clusters.soft_state import (
    Pairs,
    SoftClusters,
    in_order,
    local_step,
    one_pass,
    softmax,
    take,
)
from thali.stopping import stopped

TOGETHER = 256  # pairs weighed at once
SAMPLE, LARGEST = 20_000, 100_000  # rows that splits are tried on: a tenth of them, but within
FEWEST = 8  # of them in a cluster that is tried
ROUNDS = 10  # of updates of the two halves
PASSES = 2  # over all rows before a split is judged
SAME = 1e-13  # of the bound: rounding


# ---- mergers ----------------------------------------------------------------------------------


def merger_gains(state: SoftClusters, S: np.ndarray) -> np.ndarray:
    """What the evidence of rows gains by each merger, (K, K), −inf but for i < j."""
    k = len(S)
    i, j = np.triu_indices(k, 1)
    alone = state.family.log_evidence(S, state.values)
    found = np.full((k, k), -np.inf)
    for first in range(0, len(i), TOGETHER):
        a, b = i[first : first + TOGETHER], j[first : first + TOGETHER]
        both = state.family.log_evidence(S[a] + S[b], state.values)
        found[a, b] = both - alone[a] - alone[b]
    return found


def stick_value(state: SoftClusters, counts: np.ndarray) -> float:
    """What sticks at their best have, at these numbers of hyperparameters."""
    first = state.sticks.prior.at(**state.sticks.values).sticks(len(counts))
    beyond = counts[::-1].cumsum()[::-1] - counts
    return float((betaln(first[:, 0] + counts, first[:, 1] + beyond) - betaln(*first.T)).sum())


def candidates(state: SoftClusters) -> list[tuple[int, int]]:
    """Pairs that might gain by a merger, each cluster in one of them at most, the best first."""
    if state.k < 2:
        return []
    gains, counts = merger_gains(state, state.total), state.counts
    f = counts * np.log(np.maximum(counts, 1e-300))
    both = counts[:, None] + counts
    room = both * np.log(np.maximum(both, 1e-300)) - f[:, None] - f  # sticks gain about as much
    now = stick_value(state, counts)
    found = []
    for i, j in np.argwhere(gains + room > -3.0 * np.log(2.0 + state.data.n)):
        merged = np.delete(counts, j)
        merged[i] += counts[j]
        gain = gains[i, j] + stick_value(state, merged) - now
        found.append((float(gain), int(i), int(j)))
    free, pairs = set(range(state.k)), []
    for gain, i, j in sorted(found, reverse=True):
        if gain > -1.0 and {i, j} <= free:  # an empty cluster gains nothing
            pairs.append((i, j))
            free -= {i, j}
    return pairs


def merge(state: SoftClusters, pairs: Pairs, entropies: np.ndarray) -> int:
    """Make those mergers that do not lower the bound; how many."""
    names = list(range(state.k))  # clusters as they were, by their place now
    made = 0
    for (i, j), H in zip(pairs, entropies.T, strict=True):
        a, b = names.index(i), names.index(j)
        S, own = np.delete(state.S, b, axis=1), np.delete(state.H, b, axis=1)
        at = a if a < b else a - 1
        S[:, at] += state.S[:, b]
        own[:, at] = H
        other = state.with_clusters(S, own)
        if take(state, other, other.value(), SAME * abs(state.bound)):
            names.pop(b)
            made += 1
    return made


def agglomerated(state: SoftClusters, most: int) -> None:
    """Merge the clusters that lose least, of rows that have one label each, until they are few."""
    S = state.total
    gains = merger_gains(state, S)
    while state.k > most:
        i, j = (int(x) for x in np.unravel_index(np.argmax(gains), gains.shape))
        state.S[:, i] += state.S[:, j]
        state.S, state.H = np.delete(state.S, j, axis=1), np.delete(state.H, j, axis=1)
        S = state.total
        gains = np.delete(np.delete(gains, j, axis=0), j, axis=1)
        alone = state.family.log_evidence(S, state.values)
        others = np.array([x for x in range(state.k) if x != i], int)
        new = state.family.log_evidence(S[others] + S[i], state.values) - alone[others] - alone[i]
        gains[np.minimum(others, i), np.maximum(others, i)] = new


# ---- splits -----------------------------------------------------------------------------------


@dataclass
class Halves:
    """What one cluster would be as two: their sums, of all rows, and the expected gain."""

    k: int
    S: np.ndarray  # (2, P)
    gain: float


def split(state: SoftClusters, rng: np.random.Generator) -> bool:
    """Try to split clusters: all that look like two at once, then the one that does most."""
    room = state.most - state.k
    if room <= 0:
        return False
    found = sorted(proposals(state, rng), key=lambda halves: -halves.gain)[:room]
    for chosen in [found, found[:1]] if len(found) > 1 else [found]:
        if chosen and not stopped() and try_split(state, chosen):
            return True
    return False


def proposals(state: SoftClusters, rng: np.random.Generator) -> list[Halves]:
    """The clusters of which a sample of the rows says that they had better be two."""
    n = state.data.n
    size = min(n, int(np.clip(n // 10, SAMPLE, LARGEST)))
    rows = np.sort(rng.choice(n, size, replace=False))
    gaps = state.data.observed
    some = Data(state.data.X[rows], None if gaps is None else gaps[rows])
    F = state.family.features(some)
    r = softmax(state.given() @ F)[0]
    found = []
    for k in range(state.k):
        own = np.flatnonzero(r[k] > 0.5)
        if len(own) >= FEWEST and not stopped():
            halves = halved(state, F[:, own], some.zeroed[own], k)
            if halves is not None:
                halves.S *= state.counts[k] / halves.S[:, 0].sum()
                found.append(halves)
    return found


def halved(state: SoftClusters, F: np.ndarray, X: np.ndarray, k: int) -> Halves | None:
    """Two clusters fitted to the rows of one, if they are worth it.

    Columns are cut in units of their standard deviations.
    """
    away = X - X.mean(axis=0)
    wide = away.std(axis=0)
    away = away / np.where(wide > 0.0, wide, 1.0)
    main = np.linalg.eigh(away.T @ away)[1][:, -1]
    side = away @ main > 0.0
    r = np.stack([side, ~side]).astype(float)
    before = float(state.family.log_evidence(F.sum(axis=1)[None], state.values)[0])
    for _ in range(ROUNDS):
        S = r @ F.T
        if S[:, 0].min() < 1.0:
            return None
        W = state.family.weights(S, state.values)
        W[:, 0] += np.log(S[:, 0] / S[:, 0].sum())
        r, logs = softmax(W @ F)
    S = r @ F.T
    H = -float((r * logs).sum())
    shares = betaln(1.0 + S[0, 0], 1.0 + S[1, 0]) + np.log(S[:, 0].sum() + 1.0)
    after = float(state.family.log_evidence(S, state.values).sum()) + H + float(shares)
    return Halves(k, S, after - before) if after > before else None


def try_split(state: SoftClusters, chosen: list[Halves]) -> bool:
    """Passes over all rows from clusters split; whether that was kept."""
    before = state.bound, state.S, state.H, state.sticks, dict(state.hyper)
    total, k = state.total, state.k
    for halves in chosen:
        total[halves.k] = halves.S[0]
    total = np.vstack([total, *(halves.S[1:] for halves in chosen)])
    trial = state.with_clusters(*zeros_like(state, len(total)))
    trial.sticks = trial.sticks.updated(total[:, 0])
    W = state.family.weights(total, state.values)
    W[:, 0] += trial.sticks.log_weights()
    for b, rows in enumerate(state.blocks):  # all rows given the same: none has a half of its own
        if stopped():
            return False
        trial.S[b], trial.H[b], _ = local_step(state, rows, W)
    trial.update_sticks()
    state.S, state.H, state.sticks = trial.S, trial.H, trial.sticks
    for _ in range(PASSES):
        one_pass(state)
        in_order(state)
    if state.bound > before[0]:
        return True
    state.bound, state.S, state.H, state.sticks, hyper = before
    state.hyper.update(hyper)
    assert state.k == k
    return False


def zeros_like(state: SoftClusters, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of so many clusters, none with a row."""
    blocks, _, width = state.S.shape
    return np.zeros((blocks, k, width)), np.zeros((blocks, k))
