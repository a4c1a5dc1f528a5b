"""Tables with gaps: steps on bits look at what was observed of a row, not at what is drawn beside.

What is behind a gap must then be drawn anew before anything else looks at it. Compared first are
P(K | X) and E[ZZ' | X], by sums over all classes of Z, each column's latents and amounts integrated
out, and the noise, of tables of which rows miss some columns. Then rows that show one column of
three, of features that are many times the noise: their bits have the probabilities that they have
given all but what is behind the gaps, wherever a chain begins; samplers that draw bits given what
is there, or keep it when the bits have changed, are caught.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from oracles import column_noise as closed_form
from oracles import features as oracles
from oracles import mixed_columns as integrals
from oracles import sparse
from oracles.features import PriorSpec
from scipy.special import logsumexp
from scipy.stats import norm
from statistical.budget import TESTS, alarms, judge, p_value_of_difference, p_value_of_mean
from statistical.mutants import mutate
from statistical.stories import library_prior
from statistical.test_mixed_columns import INF, LEVELS, table
from statistical.test_row_potentials import k_and_gram, p_values

import thali
from thali.data import Data
from thali.data.columns import Column
from thali.engines.features import gibbs
from thali.likelihoods import column_noise
from thali.likelihoods import table as tables
from thali.likelihoods.column_noise import ColumnNoise
from thali.likelihoods.gibbs_updates import GibbsState
from thali.model import Model
from thali.starts import Start

ENGINES = {
    "collapsed": thali.CollapsedGibbs(moves=2),
    "kept": thali.UncollapsedGibbs(),
    "slices": thali.UncollapsedGibbs(new_features="slice"),
}
SIGMA_A, TAU, NAN = 1.5, 2.0, np.nan
IBP, FINITE = PriorSpec("ibp", 1.0), PriorSpec("finite", 2.0, n_components=2)

# ---- tables of two rows -------------------------------------------------------------------------

REAL, OTHER = Column("real", "real"), Column("other", "real")
YES, COLOUR = Column("yes", "binary", (0, 1)), Column("colour", "categorical", LEVELS)
BIASES = np.array([0.1, -0.2, 0.4, 0.3, -0.2, 0.5])
MIXED = [[2.5, NAN, 1.0, 2.0], [NAN, 2.2, 1.0, NAN]]
FACTORS = [[2.9, NAN, 1.0, 2.1], [NAN, 2.6, 1.0, 1.7]]
NOISY = [[2.1, NAN, 1.4, NAN], [NAN, 1.8, 1.3, 0.2]]
LAW = thali.InverseGamma(2.0, 0.6)


def mixed():
    """Noise inferred, biases known."""
    layout = table(REAL, OTHER, YES, COLOUR)
    own = {"sigma_a": SIGMA_A, "biases": BIASES, "bias": False}
    X = Data.checked(layout.expand(np.array(MIXED)))
    return Model(library_prior(IBP), thali.MixedColumns(layout=layout, **own)), X


def chance_of_mixed(Z):
    """Student's t of numbers; a row in which the level is hidden says nothing of it."""
    C = integrals.covariance(Z, SIGMA_A, 0.0)
    law = tables.NOISE.shape, [tables.NOISE.scale] * 2
    numbers = closed_form.log_evidence(np.array(MIXED)[:, :2] - BIASES[:2], Z, SIGMA_A, *law)
    yes = integrals.inside(BIASES[[2, 2]], C, [0.0, 0.0], [INF, INF])
    colour = integrals.largest_of_row(BIASES[3:], C[0, 0], 2)
    return np.exp(numbers) * yes * colour


def factors():
    """Noise known, biases of the numbers too."""
    layout = table(REAL, OTHER, YES, Column("third", "real"))
    own = {"sigma_a": SIGMA_A, "noise": np.ones(4), "biases": np.zeros(4), "bias": False}
    X = Data.checked(layout.expand(np.array(FACTORS)))
    return Model(library_prior(FINITE), thali.MixedFactors(layout=layout, **own)), X


def chance_of_factors(Z):
    """A sum over amounts; given these the columns are independent, and their latents normal."""
    X = np.array(FACTORS)
    G, weight = sparse.gram_of(Z, "gaussian", 4)
    one, other, both = 1.0 + SIGMA_A**2 * G[:, 0, 0], 1.0 + SIGMA_A**2 * G[:, 1, 1], G[:, 0, 1]
    seen = norm.pdf(X[0, 0], 0.0, np.sqrt(one)) * norm.pdf(X[1, 1], 0.0, np.sqrt(other))
    yes = 0.25 + np.arcsin(SIGMA_A**2 * both / np.sqrt(one * other)) / (2.0 * np.pi)
    return weight @ (seen * yes * sparse.density(X[:, 3:], G, 1.0, SIGMA_A))


def noisy():
    """Every number has a noise of its own."""
    model = Model(library_prior(IBP), thali.LinearGaussian(LAW, SIGMA_A, noise="column"))
    return model, Data.of(np.array(NOISY))


def chance_of_noisy(Z):
    law = LAW.shape, [LAW.scale] * 4
    return np.exp(closed_form.log_evidence(np.array(NOISY), Z, SIGMA_A, *law))


def noise_of_mixed(Z):
    """E[log σ | X, Z] of the numbers."""
    law = tables.NOISE.shape, [tables.NOISE.scale] * 2
    return closed_form.mean_log_noise(np.array(MIXED)[:, :2] - BIASES[:2], Z, SIGMA_A, *law)


def noise_of_noisy(Z):
    law = LAW.shape, [LAW.scale] * 4
    return closed_form.mean_log_noise(np.array(NOISY), Z, SIGMA_A, *law)


NOISE = {"mixed": noise_of_mixed, "column noise": noise_of_noisy, "factors": lambda Z: np.zeros(0)}
CASES = {  # what makes the model and its data, P(X | Z), prior, most features
    "mixed": (mixed, chance_of_mixed, IBP, 9),
    "factors": (factors, chance_of_factors, FINITE, 2),
    "column noise": (noisy, chance_of_noisy, IBP, 9),
}
CELLS = [
    (name, engine)
    for name in CASES
    for engine in ENGINES
    if name != "factors" or engine != "collapsed"  # which has no amounts
]


def slow_but(some, cells):
    """The cells, all but some marked as slow."""
    return [pytest.param(*cell, marks=() if cell in some else pytest.mark.slow) for cell in cells]


DAILY = [("column noise", "kept"), ("mixed", "collapsed")]


@cache
def exact(name):
    _, chance, spec, cap = CASES[name]
    counts, h = oracles.classes(2, cap), oracles.histories(2)
    logs = spec.log_classes(counts, 2)[0]
    known, noise = {}, []
    for i, own in enumerate(counts):
        Z = np.repeat(h, own, axis=0).T
        key = (own if name == "factors" else Z @ Z.T).tobytes()  # all that matters of Z
        if key not in known:
            known[key] = np.log(chance(Z)), NOISE[name](Z)
        logs[i] += known[key][0]
        noise.append(known[key][1])
    p = np.exp(logs - logsumexp(logs))
    return k_and_gram(counts, 2, logs), p @ np.array(noise)


def walk(name, engine, seed, sweeps, burn_in=200):
    """K, ZZ' and log σ of every sweep."""
    model, data = CASES[name][0]()
    model, rng = model.resolve(data), np.random.default_rng(seed)
    start = Start("empty", np.zeros((2, 0), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    inferred = len(exact(name)[1])  # the first columns
    K, gram, noise = np.zeros(sweeps), np.zeros((sweeps, 2, 2)), np.zeros((sweeps, inferred))
    for i in range(-burn_in, sweeps):
        engine.step(rng, model, data, state)
        if i >= 0:
            Z = state.latent.astype(float)
            K[i], gram[i] = Z.shape[1], Z @ Z.T
            noise[i] = np.log(state.hyper["noise"][:inferred])
    return K, gram, noise


def compared(name, engine, seed, sweeps=3000):
    """P-values of one chain."""
    (of_matrix, of_noise), (K, gram, noise) = exact(name), walk(name, ENGINES[engine], seed, sweeps)
    found = p_values(of_matrix, K, gram)
    for d, truth in enumerate(of_noise):
        found[f"E[log σ_{d}]"] = p_value_of_mean(noise[:, d], truth)
    return found


@pytest.mark.parametrize(("name", "engine"), slow_but(DAILY, CELLS))
def test_samplers_agree_with_enumeration(name, engine, seed):
    judge("tables_with_gaps", compared(name, engine, seed))


@pytest.mark.parametrize(("name", "engine"), CELLS)
def test_what_is_in_gaps_goes_on_from_a_file(name, engine):
    engine, (model, data) = ENGINES[engine], CASES[name][0]()
    model, rng = model.resolve(data), np.random.default_rng(4)
    start = Start("planted", np.ones((2, 1), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    for _ in range(5):
        engine.step(rng, model, data, state)
    other, twin = engine.from_arrays(model, data, *engine.to_arrays(state)), deepcopy(rng)
    for _ in range(5):
        one = engine.step(rng, model, data, state)
        two = engine.step(twin, model, data, other)
        assert one.log_joint == two.log_joint
        assert np.array_equal(state.data.X, other.data.X)


def test_the_oracles_see_what_is_beside_a_gap():
    """Summing over all that may be in a gap leaves the law of the other row."""
    Z = np.array([[1, 1], [1, 0]])
    C = integrals.covariance(Z, SIGMA_A, 0.0)
    alone = integrals.inside(BIASES[[2, 2]], C, [0.0, -INF], [INF, INF])
    assert alone == pytest.approx(norm.cdf(BIASES[2] / np.sqrt(C[0, 0])), rel=1e-9)
    both = sum(integrals.largest(BIASES[3:], C, (2, other)) for other in range(3))
    one = integrals.largest_of_row(BIASES[3:], C[0, 0], 2)
    assert one == pytest.approx(both, abs=1e-4)
    _, weight = sparse.gram_of(Z, "gaussian", 4)
    assert weight.sum() == pytest.approx(1.0, abs=1e-3)


# ---- rows that show one column of three, features being large ------------------------------------

N, SHORT = 100, 40  # rows, and how many show the first column alone
EFFECTS = np.array([[0.0, 40.0, 0.0], [40.0, 0.0, 40.0]])  # in units of the noise
THREE = (REAL, OTHER, Column("third", "real"))
LARGE = {
    **{f"mixed, {name}": (thali.MixedColumns(layout=table(*THREE)), name) for name in ENGINES},
    "factors, kept": (thali.MixedFactors(layout=table(*THREE)), "kept"),
    **{f"column noise, {name}": (ColumnNoise(law=LAW), name) for name in ("collapsed", "kept")},
}


def large(likelihood, seed):
    """A table and its Z; of rows with gaps nothing tells who has the first feature."""
    rng = np.random.default_rng(seed)
    Z = rng.random((N, 2)) < 0.5
    W = Z * rng.standard_normal(Z.shape) if isinstance(likelihood, thali.MixedFactors) else Z
    X = W @ EFFECTS + rng.standard_normal((N, 3))
    X[:SHORT, 1:] = NAN
    return Data.of(X), Z


def inside(model, state, rng):
    """The first column and A in units of the noise, (SHORT,) and (K, 3)."""
    hyper, x = state.hyper, state.data.given.X[:SHORT, 0]
    noise, bias = hyper["noise"], hyper.get("biases", np.zeros(3))[0]
    x = (x - bias) / noise[0]
    if not isinstance(model.likelihood, ColumnNoise):
        return x, state.parameters["A"]
    fixed = model.at(hyper).likelihood
    whole = Data.of(state.data.X * noise)
    return x, fixed.draw_features(rng, whole, state.latent) / noise


def chances(x, Z, A, amounts):
    """P(z_nk = 1) of rows with gaps given A, x and all other bits; NaN of a row's own features."""
    m = Z.sum(axis=0) - Z[:SHORT].astype(float)
    logs = []
    for bit in (0.0, 1.0):
        others = Z[:SHORT] @ A[:, 0]
        spread = Z[:SHORT] @ np.square(A[:, 0])
        change = bit - Z[:SHORT]
        mean = np.zeros(change.shape) if amounts else others[:, None] + change * A[:, 0]
        extra = spread[:, None] + change * np.square(A[:, 0]) if amounts else 0.0
        logs.append(norm.logpdf(x[:, None], mean, np.sqrt(1.0 + np.maximum(extra, 0.0))))
    with np.errstate(divide="ignore"):
        odds = np.log(m) - np.log(N - m) + logs[1] - logs[0]
    return np.where(m > 0.0, 1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0))), NAN)


def watched(name, seed, first, sweeps=400, burn_in=20):
    """Of every sweep the bits of the first feature in rows with gaps, and these less what they are
    expected to be; ``first`` is what these rows begin with."""
    likelihood, engine = LARGE[name]
    data, Z = large(likelihood, seed)
    model = Model(thali.IBP(1.0), likelihood).resolve(data)
    Z[:SHORT, 0] = first
    rng, engine = np.random.default_rng(seed), ENGINES[engine]
    state = engine.begin(rng, model, data, Start("planted", Z, model.start(data)))
    bits, left, noise = np.zeros((sweeps, SHORT)), np.zeros(sweeps), np.zeros((sweeps, 2))
    for i in range(-burn_in, sweeps):
        engine.step(rng, model, data, state)
        if i < 0:
            continue
        x, A = inside(model, state, rng)
        p = chances(x, state.latent, A, isinstance(likelihood, thali.MixedFactors))
        bits[i] = state.latent[:SHORT, np.abs(A[:, 1]).argmax()]
        left[i], noise[i] = np.nansum(state.latent[:SHORT] - p), state.hyper["noise"][1:]
    return bits, left, noise


def large_p_values(name, seed):
    """Both beginnings must lead to the same, and to bits as probable as they are."""
    on, off = watched(name, seed, True), watched(name, seed, False)
    share = [bits.mean(axis=1) for bits, _, _ in (on, off)]
    found = {"the same share": p_value_of_difference(*share, n_batches=20)}
    for which, (_, left, _) in (("on", on), ("off", off)):
        found[f"expected, {which}"] = p_value_of_mean(left, 0.0, n_batches=20)
    changes = [np.abs(np.diff(bits, axis=0)).sum(axis=0) for bits, _, _ in (on, off)]
    return found, np.array(changes), np.array([on[2].mean(axis=0), off[2].mean(axis=0)])


@pytest.mark.parametrize("name", slow_but([("mixed, kept",)], [(name,) for name in LARGE]))
def test_rows_with_gaps_move(name, seed):
    found, changes, noise = large_p_values(name, seed)
    judge("tables_with_gaps", found)
    assert changes.min() > 20  # of each row, in 400 sweeps
    assert np.abs(np.log(noise)).max() < np.log(1.8)  # of the hidden columns; it is one


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed, collapsed", "mixed, kept", "column noise, kept"])
def test_bits_given_what_was_drawn_in_gaps_are_caught(name, seed, monkeypatch):
    monkeypatch.setattr(GibbsState, "observed", None)
    change = ("gaps = gaps_of(data)", "gaps = None")
    monkeypatch.setattr(gibbs, "sweep", mutate(gibbs.__name__, [change]).sweep)
    found, changes, _ = large_p_values(name, seed)
    assert alarms(found)
    assert changes.min() == 0


def keep_gaps(monkeypatch):
    """Steps on parameters look at what was in the gaps before the bits were drawn."""
    for module in (tables, column_noise):
        monkeypatch.setattr(module, "redrawn", lambda rng, data, W, A: data)
    change = ("state.data = Augmented(X, source=data, latent=state.data.whole)", "pass")
    monkeypatch.setattr(gibbs, "sweep", mutate(gibbs.__name__, [change]).sweep)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_gaps_that_are_not_drawn_anew_are_caught(name, seed, monkeypatch):
    """What was drawn for other bits is far from what these make of a row, and looks like noise."""
    keep_gaps(monkeypatch)
    assert watched(name, seed, True, sweeps=60)[2].mean() > 2.0


def test_the_tests_are_counted():
    assert TESTS["tables_with_gaps"] == len(CELLS) + len(LARGE)
