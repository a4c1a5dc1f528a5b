r"""Changes of whole features that coordinate ascent cannot make, each kept only if the bound rises,
as it is reported.

    drop   a feature goes: ν_k = 0. All that the bound needs is in the statistics, so that this is
           exact and costs no pass over the data.
    join   two features that rows have together, or that look alike, become one
    birth  a new feature along the main direction of what is left, X − E[W]E[A], for the rows that
           score high on it; after several births in a row all at once that the independent sources
           are behind the rows' scores on the directions that noise would not have

The latter two are tried on a copy for a few iterations.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from thali.backends.rows import Rows
from thali.engines.ascent.state import AscentState, iterate
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.starts.sources import two_valued_sources
from thali.stopping import Stopped, stopped

TRIAL = 4  # iterations before a join or a birth is kept or not
PACE = 2.0  # of gains to come, against the last
CANDIDATES = 3  # features or pairs that are tried at a time
POWER = 4  # rounds of power iteration
SURE = 3  # births in a row after which several are tried at once,
TOGETHER = 100  # at most,
SCORES = 1e8  # and with so many bytes for the rows' scores, of which a few copies are made


def drop_features(state: AscentState) -> bool:
    """Drop features while the bound gains by it; of the least used ones the best to go."""
    dropped = False
    while state.k > 1 and state.found is not None:
        weight = state.found.counts * np.square(state.features.phi).sum(axis=1)
        orders = [np.delete(np.arange(state.k), k) for k in np.argsort(weight)[:CANDIDATES]]
        trials = [_of_features(state, order) for order in orders]
        values = [trial.reported_of(order) for trial, order in zip(trials, orders, strict=True)]
        best = int(np.argmax(values))
        if values[best] <= state.reported:
            break
        trials[best].rows = state.rows.taken(orders[best])
        _become(state, trials[best])
        dropped = True
    return dropped


def _of_features(state: AscentState, order: np.ndarray) -> AscentState:
    """The state with these features only, q(features) and q(frequencies) at their best."""
    trial = state.only(order)
    assert trial.found is not None
    trial.found = trial.fit_globals(trial.found, trial.iteration < trial.hold_sigma)
    trial.bound = trial.value(trial.found)
    return trial


def join_features(state: AscentState) -> bool:
    """Join one of the pairs most alike if the bound gains by it."""
    if state.k < 2 or stopped():
        return False
    phi = state.features.phi
    together, alike = _cosines(state.rows.products()), _cosines(phi @ phi.T)
    score = np.triu(np.maximum(np.abs(together), np.abs(alike)), 1)
    for flat in np.argsort(-score, axis=None)[:CANDIDATES]:
        a, b = divmod(int(flat), state.k)
        if score[a, b] <= 0.0:
            return False
        trial = _changed(state, state.rows.joined(a, b))
        trial.features = state.features.taken(np.delete(np.arange(state.k), b))
        if _try(state, trial):
            return True
    return False


def add_features(state: AscentState, rng: np.random.Generator) -> bool:
    """Add features if the bound gains by it: one, or more where births went on for some time."""
    born = state.births >= SURE and _add_several(state, rng)
    if not born:
        state.births = state.births if state.births < SURE else 0
        born = add_feature(state, rng)
    state.births = state.births + 1 if born else 0
    return born


def add_feature(state: AscentState, rng: np.random.Generator) -> bool:
    """Add a feature along the main direction of the residual if the bound gains by it."""
    if state.room == 0 or stopped():
        return False
    scores = main_scores(state, rng)
    for column in high_or_low(scores):
        trial = _changed(state, state.rows.with_column(column, scores))
        trial.features = _with_feature(state, trial.rows)
        if _try(state, trial):
            return True
    return False


def _add_several(state: AscentState, rng: np.random.Generator) -> bool:
    """Add as many features as the residual seems to hold, if the bound gains by all together."""
    most = min(TOGETHER, state.room, int(SCORES / (8 * state.data.n)))
    if most < 2 or stopped() or state.rows.slab is not None:
        return False
    scores = leading_scores(state, rng, most)
    if scores.shape[1] < 2:
        return False
    try:
        columns = two_valued_sources(rng, scores)
    except Stopped:
        return False
    columns = columns ^ (columns.mean(axis=0) > 0.5)  # the fewer rows are those that have it
    columns = columns[:, columns.any(axis=0)]
    trial = _changed(state, state.rows.with_columns(columns))
    trial.features = _with_feature(state, trial.rows)
    return _try(state, trial)


def _with_feature(state: AscentState, rows: Rows) -> FeaturePosterior:
    """The features and more, those of the last columns of ``rows``, each at its best given the
    others before it.

    Features that are updated one after the other would else begin beside one of any size.
    """
    found, features = state.backend.tally(state.data, rows), state.features
    for k in range(state.k + 1, rows.k + 1):
        features = features.grown(found.taken(np.arange(k)), *state.sigmas)
    return features


def main_scores(state: AscentState, rng: np.random.Generator) -> np.ndarray:
    """The rows' scores on the main direction of X − E[W]E[A], by power iteration."""
    v, phi = np.asarray(rng.standard_normal(state.data.d)), state.features.phi
    for _ in range(POWER):
        v = np.asarray(v / (np.linalg.norm(v) or 1.0))
        scores, v = state.backend.residual_scores(state.data, state.rows, phi, v)
    return scores


def leading_scores(state: AscentState, rng: np.random.Generator, most: int) -> np.ndarray:
    """The rows' scores, (N, at most so many), on the main directions of X − E[W]E[A] whose mean
    squares noise of the present σ_x would hardly reach (Marchenko and Pastur's edge)."""
    n, d, phi = state.data.n, state.data.d, state.features.phi
    V = rng.standard_normal((d, min(most, d)))
    for _ in range(POWER):
        V = np.linalg.qr(V)[0]
        scores, V = state.backend.residual_scores(state.data, state.rows, phi, V)
    squares, turned = np.linalg.eigh(scores.T @ scores)
    edge = state.sigmas[0] * (np.sqrt(n) + np.sqrt(d))
    return np.asarray(scores @ turned[:, squares > edge**2])


def high_or_low(scores: np.ndarray) -> Iterator[np.ndarray]:
    """The rows that score high, and those that score low, where they are some of all."""
    for sign in (1.0, -1.0):
        column = high_scores(sign * scores)
        if column.any() and not column.all():
            yield column


def high_scores(scores: np.ndarray) -> np.ndarray:
    """The rows above the best split of the scores into two groups (least squares)."""
    order = np.argsort(scores)
    values = scores[order]
    n = len(values)
    if n < 2:
        return np.zeros(n, bool)
    sums, at = np.cumsum(values)[:-1], np.arange(1, n)
    total = values.sum()
    between = sums**2 / at + (total - sums) ** 2 / (n - at)
    high = np.zeros(n, bool)
    high[order[int(np.argmax(between)) + 1 :]] = True
    return high


def _cosines(products: np.ndarray) -> np.ndarray:
    """Cosines of the angles between vectors, from their products with each other."""
    length = np.sqrt(np.diagonal(products))
    length = np.where(length > 0.0, length, 1.0)
    return np.asarray(products / np.outer(length, length))


def _changed(state: AscentState, rows: Rows) -> AscentState:
    """A state to try things on, with rows of its own."""
    return replace(state, rows=rows, hyper=dict(state.hyper))


def _try(state: AscentState, trial: AscentState) -> bool:
    """Iterate from a change, and keep it if it ends higher; give up where it cannot, even if it
    gained ``PACE`` times as much in each iteration to come as in the last."""
    iterate(trial, passes=0)
    last, before = trial.reported, state.reported
    for left in reversed(range(TRIAL)):
        if stopped():
            return False
        iterate(trial)
        gained, last = trial.reported - last, trial.reported
        if last + PACE * left * gained < before:
            return False
    if last <= before:
        return False
    _become(state, trial)
    return True


def _become(state: AscentState, other: AscentState) -> None:
    state.__dict__.update(other.__dict__)
