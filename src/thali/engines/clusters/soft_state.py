r"""What variational inference of a partition keeps: sums by block of rows and cluster, and sticks.

    q = ∏_n q(c_n) · ∏_k q(v_k) q(θ_k) · q(α),    r_nk = q(c_n = k) ∝ exp(E[log π_k] + φ(x_n)·W_k)

    bound = H[q(c)] + Σ_k log ∫ exp(S_k·η(θ)) p(θ) dθ + (what sticks have),       S_k = Σ_n r_nk φ_n

with q(θ_k) the best one given S_k. Of r nothing is kept but S and −Σ_n r_nk log r_nk of every block
of rows (memoized updates, Hughes and Sudderth 2013): a block is visited, its sums are replaced, and
all else follows at once, so that a pass over the data has many updates, none of which lowers the
bound. A pass costs 4NKP operations in two matrix products and NK exponentials; memory is that of
B·K·P sums and of one piece of rows for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from thali.backends.rows import pieces_of
from thali.data import Data
from thali.engines.base import inferred
from thali.engines.clusters.sticks import Sticks, best_number
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.cluster_families import Family
from thali.likelihoods.clusters import ExpectedClusters
from thali.model import Model
from thali.priors.partition import BreaksSticks
from thali.stopping import stopped

PIECE = 8192  # rows worked on at once: what is made of them stays in the cache
BLOCKS = 16  # of rows, unless these are few or many
LEAST_ROWS, MOST_ROWS = 2048, 2**16  # of a block

Pairs = Sequence[tuple[int, int]]


class Local(NamedTuple):
    """What a block of rows leaves: sums (K, P), the entropy of each cluster (K,), and that of
    pairs of clusters taken as one."""

    S: np.ndarray
    H: np.ndarray
    pairs: np.ndarray


NOWHERE = -1e30  # a value lower than any bound


@dataclass
class SoftClusters:
    """All that the next pass needs."""

    model: Model
    data: Data
    family: Family
    hyper: Values
    S: np.ndarray  # (B, K, P)
    H: np.ndarray  # (B, K)
    sticks: Sticks
    most: int  # clusters there may be
    threads: int = 1
    dtype: str = "float64"
    iteration: int = 0
    bound: float = -np.inf
    quiet: int = 0
    finished: bool = False

    @property
    def k(self) -> int:
        return int(self.S.shape[1])

    @property
    def blocks(self) -> list[slice]:
        return blocks_of(self.data.n)

    @property
    def total(self) -> np.ndarray:
        """S_k, (K, P), summed afresh: nothing drifts."""
        return np.asarray(self.S.sum(axis=0))

    @property
    def counts(self) -> np.ndarray:
        """N_k."""
        return np.asarray(self.S[:, :, 0].sum(axis=0))

    @property
    def values(self) -> Values:
        """The likelihood's hyperparameters."""
        return self.model.likelihood_values(self.hyper)

    def value(self) -> float:
        """The bound; of log p(X, hyperparameters) for those that are numbers and inferred."""
        found = float(self.H.sum()) + self.sticks.value(self.counts)
        found += float(self.family.log_evidence(self.total, self.values).sum())
        for name, hyperprior in inferred(self.model.likelihood).items():
            found += hyperprior.log_density(self.values[name])
        return found

    def given(self) -> np.ndarray:
        """What all rows are given: W, with E[log π_k] in the place of the feature that is one."""
        W = self.family.weights(self.total, self.values)
        W[:, 0] += self.sticks.log_weights()
        return W

    def update_sticks(self, numbers: bool = False) -> None:
        """The best sticks given the sums; hyperparameters that are numbers too, if asked for."""
        self.sticks = self.sticks.updated(self.counts)
        if numbers:
            self.sticks = self.sticks.with_numbers(self.counts)
        self.model.prior_values(self.hyper).update(self.sticks.values)

    def update_scales(self) -> None:
        """The likelihood's inferred hyperparameters: bound and log hyperprior at their highest."""
        S = self.total
        for name, hyperprior in inferred(self.model.likelihood).items():

            def value(u: float, name: str = name, hyperprior: Hyperprior = hyperprior) -> float:
                at = {**self.values, name: float(np.exp(u))}
                known = hyperprior.log_density(at[name])
                if known == -np.inf:  # a family has no answer there, and a search needs a number
                    return NOWHERE
                return float(self.family.log_evidence(S, at).sum() + known)

            u = best_number(value, float(np.log(self.values[name])))
            if u is not None:
                self.values[name] = float(np.exp(u))

    def with_clusters(self, S: np.ndarray, H: np.ndarray) -> SoftClusters:
        """Another state with these sums, sticks at their best: to be compared by its value."""
        other = replace(self, S=S, H=H, hyper=dict(self.hyper))
        other.update_sticks()
        return other


def state_of(
    model: Model, data: Data, hyper: Values, most: int, threads: int, dtype: str
) -> SoftClusters:
    """A state without clusters."""
    family = cast(ExpectedClusters, model.likelihood).family(data)
    width = len(family.features(data.rows(slice(0, 1))))
    sums = np.zeros((len(blocks_of(data.n)), 0, width))
    sticks = Sticks.of(cast(BreaksSticks, model.prior), model.prior_values(hyper))
    return SoftClusters(
        model, data, family, hyper, sums, sums[:, :, 0], sticks, most, threads, dtype
    )


def blocks_of(n: int) -> list[slice]:
    """Blocks of rows."""
    return list(pieces_of(n, int(np.clip(-(-n // BLOCKS), LEAST_ROWS, MOST_ROWS))))


# ---- rows -------------------------------------------------------------------------------------


def softmax(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """r, (K, n), and its logarithm, in the place of the logits."""
    logits -= logits.max(axis=0)
    r = np.exp(logits)
    total = r.sum(axis=0)
    logits -= np.log(total)
    r /= total
    return r, logits


def local_step(state: SoftClusters, rows: slice, W: np.ndarray, pairs: Pairs = ()) -> Local:
    """r of a block of rows given the rest, and what it leaves."""
    W = W.astype(state.dtype)

    def work(piece: slice) -> Local:
        F = state.family.features(state.data.rows(piece)).astype(state.dtype, copy=False)
        r, logs = softmax(W @ F)
        H = -np.einsum("kn,kn->k", r, logs, dtype=float)
        both = [entropy(r[i] + r[j]) for i, j in pairs]
        return Local((r @ F.T).astype(float), H, np.array(both))

    return summed(state, rows, work)


def hard_step(state: SoftClusters, rows: slice, labels: np.ndarray, k: int) -> Local:
    """What labels leave of a block of rows."""

    def work(piece: slice) -> Local:
        F = state.family.features(state.data.rows(piece))
        r = (labels[piece] == np.arange(k)[:, None]).astype(float)
        return Local(r @ F.T, np.zeros(k), np.zeros(0))

    return summed(state, rows, work)


def summed(state: SoftClusters, rows: slice, work: Callable[[slice], Local]) -> Local:
    """The sum of what pieces of a block leave, in their order whatever the threads."""
    starts = range(rows.start, rows.stop, PIECE)
    pieces = [slice(first, min(first + PIECE, rows.stop)) for first in starts]
    if state.threads > 1 and len(pieces) > 1:
        with ThreadPoolExecutor(state.threads) as crew:
            found = list(crew.map(work, pieces))
    else:
        found = [work(piece) for piece in pieces]
    return Local(*(np.sum(each, axis=0) for each in zip(*found, strict=True)))


def entropy(r: np.ndarray) -> float:
    """−Σ r log r."""
    return float(-(r * np.log(np.maximum(r, np.finfo(r.dtype).tiny))).sum())


# ---- passes -----------------------------------------------------------------------------------


def update_block(state: SoftClusters, b: int, pairs: Pairs = ()) -> np.ndarray:
    """One update: a block's r given all else, then all else but hyperparameters that are numbers.

    Returns the entropies of pairs.
    """
    found = local_step(state, state.blocks[b], state.given(), pairs)
    state.S[b], state.H[b] = found.S, found.H
    state.update_sticks()
    return found.pairs


def one_pass(state: SoftClusters, pairs: Pairs = ()) -> np.ndarray | None:
    """Every block once, and hyperparameters; entropies of pairs (B, pairs), or None if stopped."""
    found = []
    for b in range(len(state.S)):
        if stopped():
            break
        found.append(update_block(state, b, pairs))
    state.update_sticks(numbers=True)
    state.update_scales()
    state.bound = state.value()
    return np.stack(found) if len(found) == len(state.S) else None


def in_order(state: SoftClusters) -> None:
    """The largest clusters first, where the bound gains by it."""
    order = np.argsort(-state.counts, kind="stable")
    if (order == np.arange(state.k)).all():
        return
    other = state.with_clusters(state.S[:, order], state.H[:, order])
    take(state, other, other.value())


def take(state: SoftClusters, other: SoftClusters, value: float, tolerance: float = 0.0) -> bool:
    """Become another state if its bound is no lower."""
    if not value >= state.bound - tolerance:
        return False
    state.S, state.H, state.sticks = other.S, other.H, other.sticks
    state.hyper.update(other.hyper)
    state.bound = value
    return True
