"""Rows of which little was observed, parameters kept: their laws exactly, their mixing, coverage.

Many rows with the same entries observed are independent given A, so that counts of what a pass over
them leads to are judged by chi-square, against sums over all bits and integrals over own dishes.
The broken variant draws bits given the row's drawn entries, which is valid, and stays put.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import factorial

import numpy as np
import pytest
from oracles.sparse import half_nodes
from scipy import stats
from statistical.budget import TESTS, alarms, judge, p_value_of_counts, p_value_of_mean

import thali
from thali.data import Augmented, Data
from thali.kernels.bit_prior import BitPrior
from thali.likelihoods.gibbs_updates import GibbsState, Turned
from thali.model import Model
from thali.starts import Start
from thali.structures.features import FeatureTables

SIGMA_X, SIGMA_A = 0.8, 1.1
HALF, EXPONENTIAL = stats.halfnorm(scale=SIGMA_A), stats.expon(scale=SIGMA_A / np.sqrt(2.0))
HYPER = {"alpha": 1.0, "sigma_x": SIGMA_X, "sigma_a": SIGMA_A}
A = np.array([[0.9, -0.4, 1.2, 0.3], [0.8, 0.7, -0.6, 1.0], [-0.5, 1.1, 0.4, -0.9]])
X = np.array([1.1, 0.5, 0.9, -0.6])
SEEN = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]], bool)
PI = np.array([0.5, 0.3, 0.6])
COPIES = 1200


def rows_of(seen):
    """As many copies of X as of each pattern, with nonsense where it was not observed."""
    mask = np.repeat(seen, COPIES, axis=0)
    return Augmented(np.where(mask, X, 1e3), source=Data(np.where(mask, X, np.nan), mask))


# ---- bits ---------------------------------------------------------------------------------------
def law_of_bits(likelihood, seen):
    """P(z | x_o, A) of all rows of bits, amounts integrated out (Gaussian ones in closed form)."""
    found = []
    for bits in product((0, 1), repeat=3):
        z = np.array(bits, float)
        part = A[:, seen]
        if isinstance(likelihood, thali.SparseFactor):
            mean, cov = np.zeros(seen.sum()), part.T @ np.diag(z) @ part
        else:
            mean, cov = z @ part, 0.0
        density = 1.0
        if seen.any():
            cov = cov + SIGMA_X**2 * np.eye(seen.sum())
            density = stats.multivariate_normal(mean, cov).pdf(X[seen])
        found.append(density * np.prod(np.where(z > 0, PI, 1.0 - PI)))
    return np.array(found) / sum(found)


@pytest.mark.parametrize("name", ["linear_gaussian", "sparse_factor"])
def test_bits_have_their_law_given_what_was_observed(name, rng):
    likelihood = {
        "linear_gaussian": thali.LinearGaussian(SIGMA_X, SIGMA_A),
        "sparse_factor": thali.SparseFactor("gaussian", SIGMA_X, SIGMA_A),
    }[name]
    data = rows_of(SEEN)
    bits = np.zeros((data.n, 3), np.uint8)
    parameters = {"A": A.copy()}
    if name == "sparse_factor":
        parameters["S"] = np.zeros((data.n, 3))
    place = GibbsState(data, bits, parameters, dict(HYPER))
    counts = np.full(3, 2 * data.n, np.int64)  # in use whatever these rows do
    for _ in range(40):
        likelihood.update_bits(rng, place, BitPrior(np.zeros(0), counts, PI))
    which = (place.bits @ [4, 2, 1]).reshape(len(SEEN), COPIES)
    judge(
        "observed_rows",
        {
            f"pattern {i}": p_value_of_counts(
                np.bincount(which[i], minlength=8), law_of_bits(likelihood, seen)
            )
            for i, seen in enumerate(SEEN)
        },
    )


# ---- own dishes ---------------------------------------------------------------------------------
MOST = 6
WEIGHT = 0.7


def own_normal(e):
    return np.array(
        [
            np.prod(stats.norm.pdf(e, 0, np.sqrt(SIGMA_X**2 + j * SIGMA_A**2)))
            for j in range(MOST + 1)
        ]
    )


def own_sparse(e, slab):
    """j own dishes of amounts s: N(e; 0, (σ_x² + σ_a² Σs²) I), with up to three integrated."""
    s, w = half_nodes(slab, 8)
    V, mass, found = np.zeros(1), np.ones(1), []
    for _ in range(4):
        variance = SIGMA_X**2 + SIGMA_A**2 * V
        half = np.exp(-0.5 * np.square(e).sum() / variance) * variance ** (-0.5 * len(e))
        found.append(mass @ half)
        V, mass = (V[:, None] + s**2).ravel(), np.outer(mass, 2.0 * w).ravel()
    return np.array(found)


def own_nonnegative(e, law=HALF):
    """Sums of j entries, column by column, by convolution on a fine grid."""
    step = 0.002
    a = np.arange(0.0, 30.0, step)
    half = law.pdf(a) * step
    half[0] *= 0.5
    sums, found = np.zeros(len(a)), []
    sums[0] = 1.0
    size = 2 * len(a)
    transform = np.fft.rfft(half, size)
    for _ in range(MOST + 1):
        found.append(np.prod([sums @ stats.norm.pdf(x, a, SIGMA_X) for x in e]))
        sums = np.fft.irfft(np.fft.rfft(sums, size) * transform, size)[: len(a)]
    return np.array(found)


OWN = {  # likelihood, its densities of a row with j own dishes, and the passes that it takes
    "linear_gaussian": (thali.LinearGaussian(SIGMA_X, SIGMA_A), own_normal, 1),
    "nonnegative": (thali.NonnegativeLinearGaussian(SIGMA_X, SIGMA_A), own_nonnegative, 25),
    "exponential": (
        thali.NonnegativeLinearGaussian(SIGMA_X, SIGMA_A, "exponential"),
        lambda e: own_nonnegative(e, EXPONENTIAL),
        25,
    ),
    "sparse_factor": (
        thali.SparseFactor("laplace", SIGMA_X, SIGMA_A),
        lambda e: own_sparse(e, "laplace"),
        40,
    ),
}


def own_p_values(likelihood, density, passes, rng):
    data = rows_of(SEEN[1:])
    A = np.array([[0.3, 0.2, 0.5, 0.1]])  # one feature that all rows share
    parameters = {"A": A.copy()}
    if isinstance(likelihood, thali.SparseFactor):
        parameters["S"] = np.ones((data.n, 1))
    place = GibbsState(data, np.ones((data.n, 1), np.uint8), parameters, dict(HYPER))
    tables = FeatureTables(np.zeros(data.n), np.log(WEIGHT), -1)
    for _ in range(passes):
        turned = Turned(place.bits.sum(axis=0, dtype=np.int64))
        likelihood.update_own(rng, place, tables, turned)
    own = place.bits[:, 1:].sum(axis=1).reshape(3, COPIES)
    found = {}
    for i, seen in enumerate(SEEN[1:]):
        law = density((X - A[0])[seen])
        law = law * [WEIGHT**j / factorial(j) for j in range(len(law))]
        within = own[i][own[i] < len(law)]
        counts = np.bincount(within, minlength=len(law))
        found[f"j, pattern {i}"] = p_value_of_counts(counts, law / law.sum())
    owner = place.bits[:, 1:].argmax(axis=0)
    gone = place.parameters["A"][1:][~place.observed[owner]] / SIGMA_A
    if isinstance(likelihood, thali.NonnegativeLinearGaussian):
        law = HALF if likelihood.law == "half_normal" else EXPONENTIAL
        found["in the gaps"] = stats.kstest(SIGMA_A * gone, law.cdf).pvalue
    else:
        found["in the gaps"] = stats.kstest(gone, "norm").pvalue
        if "S" not in place.parameters:  # of rows with one: a | e is normal
            single = np.flatnonzero(place.bits[owner].sum(axis=1) == 2)
            total = SIGMA_X**2 + SIGMA_A**2
            mean = (X - A[0]) * SIGMA_A**2 / total
            z = (place.parameters["A"][1:][single] - mean) / (SIGMA_X * SIGMA_A / np.sqrt(total))
            found["where seen"] = stats.kstest(z[place.observed[owner[single]]], "norm").pvalue
    return found


@pytest.mark.parametrize("name", OWN)
def test_own_dishes_have_their_law_given_what_was_observed(name, rng):
    judge("observed_rows", own_p_values(*OWN[name], rng))


# ---- a row of which nothing was observed --------------------------------------------------------
@dataclass(frozen=True)
class GivenDrawnEntries(thali.UncollapsedGibbs):
    """Broken: a step is one given the completed data."""

    def begin(self, rng, model, data, start):
        state = super().begin(rng, model, data, start)
        state.data = Data(state.data.X)
        return state

    def _augment(self, rng, model, data, state):
        super()._augment(rng, model, data, state)
        state.data = Data(state.data.X)


EMPTY = 7  # the row
LIKELIHOODS = {
    "linear_gaussian": thali.LinearGaussian(0.2, 1.0),
    "nonnegative": thali.NonnegativeLinearGaussian(0.2, 1.0),
    "sparse_factor": thali.SparseFactor("gaussian", 0.2, 1.0),
}


def visited(likelihood, engine, seed, sweeps=1000):
    """The empty row's bits of the four planted features, and m/N of the other rows.

    Columns are told by the other rows, so that given these a bit is 1 with probability m/N.
    """
    data = thali.datasets.images(n=40, sigma_x=0.2, random_state=1)
    table = data.X.copy()
    table[EMPTY] = np.nan
    rng, model = np.random.default_rng(seed), Model(thali.IBP(1.0), likelihood)
    start = Start("planted", data.Z, {"alpha": 1.0, "sigma_x": 0.2, "sigma_a": 1.0})
    gaps = Data.of(table)
    state = engine.begin(rng, model, gaps, start)
    others = np.arange(40) != EMPTY
    for _ in range(sweeps):
        engine.step(rng, model, gaps, state)
        Z = state.latent
        apart = (Z[others][:, None] != data.Z[others][:, :, None]).mean(axis=0)
        best = apart.argmin(axis=1)
        if len(set(best)) == 4 and (apart.min(axis=1) < 0.2).all():
            yield Z[EMPTY, best], Z[np.ix_(others, best)].mean(axis=0) * 39 / 40


def mixing_p_values(likelihood, engine, seed):
    """Means of bits, and of pairs of bits, of a row about which nothing is known but the prior."""
    found = list(visited(likelihood, engine, seed))
    assert len(found) >= 900  # the planted features are there nearly all the time
    bits, chance = (np.array(each, float) for each in zip(*found, strict=True))
    p_values = {f"bit {k}": p_value_of_mean(bits[:, k] - chance[:, k], 0.0, 30) for k in range(4)}
    for i, j in combinations(range(4), 2):
        both = bits[:, i] * bits[:, j] - chance[:, i] * chance[:, j]
        p_values[f"bits {i} {j}"] = p_value_of_mean(both, 0.0, 30)
    return p_values, len({tuple(row) for row in bits})


@pytest.mark.parametrize("way", ["integrated", "slice"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_row_of_which_nothing_was_observed_has_the_prior_and_moves_freely(name, way, seed):
    engine = thali.UncollapsedGibbs(new_features=way)
    p_values, combinations_seen = mixing_p_values(LIKELIHOODS[name], engine, seed)
    judge("observed_rows", p_values)
    assert combinations_seen == 16


@pytest.mark.parametrize("name", ["linear_gaussian", "nonnegative"])
def test_bits_given_drawn_entries_are_caught(name, seed):
    """Amounts that come near zero let a sparse factor's bits go, if slowly: not among these."""
    p_values, combinations_seen = mixing_p_values(LIKELIHOODS[name], GivenDrawnEntries(), seed)
    assert alarms(p_values)
    assert combinations_seen < 16


# ---- intervals ----------------------------------------------------------------------------------
def coverage(engine, seed, planted=False, tables=12):
    """Of 90% intervals for the hidden 85% of half the rows, of tables drawn from the model.

    The chain begins where the race of starts leads, or where the table was made, but for these
    rows, which have no features there: one that leaves them so does not know them.
    """
    prior, likelihood = thali.BetaBernoulli(2.0, n_components=4), thali.LinearGaussian(0.1, 1.0)
    shares = []
    for which in np.random.SeedSequence(seed).generate_state(tables):
        data = thali.datasets.draw(prior, likelihood, n=40, d=60, random_state=int(which))
        rng = np.random.default_rng(which)
        hidden, Z = np.zeros(data.X.shape, bool), data.Z.copy()
        for row in range(0, 40, 2):
            hidden[row, rng.permutation(60)[:51]] = True
            Z[row] = False
        init = Z[:, Z.any(axis=0)] if planted else "race"
        begun = engine.replace(sweeps=300, burn_in=100, chains=1, init=init)
        model = thali.LatentFeatures(prior, likelihood, begun, random_state=0, progress=False)
        _, low, high = model.fit(np.where(hidden, np.nan, data.X)).impute(interval=0.9)
        shares.append(((low <= data.X) & (data.X <= high))[hidden].mean())
    return np.array(shares)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["integrated", "slice"])
def test_intervals_of_rows_that_show_little_hold_what_they_promise(way, seed):
    shares = coverage(thali.UncollapsedGibbs(new_features=way), seed)
    judge("observed_rows", {"coverage": float(stats.ttest_1samp(shares, 0.9).pvalue)})
    assert 0.85 < np.median(shares) < 0.95


@pytest.mark.slow
def test_intervals_of_bits_given_drawn_entries_are_too_narrow(seed):
    shares = coverage(GivenDrawnEntries(), seed, planted=True, tables=25)
    assert alarms({"coverage": float(stats.ttest_1samp(shares, 0.9).pvalue)})
    assert shares.mean() < 0.6


def test_the_budget_counts_these_tests():
    assert TESTS["observed_rows"] == 2 + len(OWN) + 2 * len(LIKELIHOODS) + 2
