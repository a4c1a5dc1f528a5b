"""Samplers under a prior with row potentials θ, against full enumeration of left-ordered classes.

Compared, given K ≤ cap as in ``test_enumeration``: P(K|X) and every entry of E[ZZ'|X], whose
diagonal are the row sums that θ weighs. Each likelihood is sampled from complete data, and from the
same data beside a column of which nothing was observed, which changes no answer but goes through
the kernels for gaps. A likelihood that says nothing gives back the prior, and a sampler to which θ
is not told is caught.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles import features as oracles
from oracles import nonnegative as nonnegative_oracles
from oracles import sparse as sparse_oracle
from row_weighted import RowWeighted
from scipy.special import logsumexp
from statistical.budget import TESTS, alarms, judge, p_value_of_mean, pooled

import thali
from thali.data import Data
from thali.engines.features.columns import column_tables
from thali.kernels.gaussian_row import Scales
from thali.model import Model
from thali.starts import Start

SIGMA_X, SIGMA_A = 0.6, 0.9
RATES = {"epsilon": 0.1, "lam": 0.7, "p": 0.35}
TWO = [[1.4, 0.5], [1.8, -0.3]]
THREE = [[1.1, -0.9, 0.4], [1.6, 0.5, -0.3], [-0.4, 1.2, 0.7]]
NODES = [[1, 1, 0, 1, 0], [1, 0, 0, 1, 1]]
PRIOR, FINITE = RowWeighted(), RowWeighted(weight=2.0, n_components=4)


def linear_gaussian(prior, X, cap):
    counts = oracles.classes(len(X), cap)
    s = oracles.spectrum_of(np.asarray(X), cap)
    logs = prior.log_classes(counts, len(X))[0]
    logs = logs + s.log_likelihood(SIGMA_X, SIGMA_A)[s.of_class]
    return k_and_gram(counts, len(X), logs)


def flat(prior, X, cap):
    counts = oracles.classes(len(X), cap)
    return k_and_gram(counts, len(X), prior.log_classes(counts, len(X))[0])


def k_and_gram(counts, n, logs):
    p, h = np.exp(logs - logsumexp(logs)), oracles.histories(n)
    k = np.bincount(counts.sum(axis=1), p, minlength=counts.sum(axis=1).max() + 1)
    return k, np.einsum("h,hi,hj->ij", p @ counts, h, h)


def nonnegative(prior, X, cap):
    found = nonnegative_oracles.enumerate_posterior(prior, X, SIGMA_X, SIGMA_A, cap)
    return found.k_probabilities, found.gram


def sparse(prior, X, cap):
    X = np.array(X)
    found = sparse_oracle.enumerate_sparse(prior, X, SIGMA_X, SIGMA_A, "laplace", cap, points=5)
    return found.k_probabilities, found.gram


def noisy_or(prior, X, cap):
    found = oracles.enumerate_noisy_or(prior, np.array(X), RATES, cap)
    return found.k_probabilities, found.gram


COLLAPSED, MOVING = thali.CollapsedGibbs(moves=0), thali.CollapsedGibbs(moves=12)
KEPT = thali.UncollapsedGibbs()
GAUSSIAN = thali.LinearGaussian(SIGMA_X, SIGMA_A)
CASES = {  # engine, likelihood, oracle, data, prior, cap
    "collapsed": (COLLAPSED, GAUSSIAN, linear_gaussian, THREE, PRIOR, 7),
    "collapsed, finite": (COLLAPSED, GAUSSIAN, linear_gaussian, THREE, FINITE, 4),
    "columns": (MOVING, GAUSSIAN, linear_gaussian, THREE, PRIOR, 7),
    "linear": (KEPT, GAUSSIAN, linear_gaussian, THREE, PRIOR, 7),
    "linear, finite": (KEPT, GAUSSIAN, linear_gaussian, THREE, FINITE, 4),
    "nonnegative": (
        KEPT, thali.NonnegativeLinearGaussian(SIGMA_X, SIGMA_A), nonnegative, TWO, PRIOR, 9,
    ),
    "sparse": (KEPT, thali.SparseFactor("laplace", SIGMA_X, SIGMA_A), sparse, TWO, PRIOR, 2),
    "noisy or": (KEPT, thali.NoisyOr(**RATES), noisy_or, NODES, PRIOR, 10),
    "flat": (COLLAPSED, thali.LinearGaussian(30.0, 0.001), flat, THREE, PRIOR, 7),
    "flat columns": (MOVING, thali.LinearGaussian(30.0, 0.001), flat, THREE, PRIOR, 7),
}  # fmt: skip
GAPS = [name for name in CASES if "finite" not in name and "flat" not in name]


@cache
def exact_answer(name):
    _, _, oracle, X, prior, cap = CASES[name]
    return oracle(prior, X, cap)


def walk(name, seed, sweeps, prior=None, gaps=False, burn_in=100):
    """K and ZZ' of every sweep of one chain after its burn-in."""
    engine, likelihood, _, X, own, _ = CASES[name]
    X = np.array(X, float)
    if gaps:
        X = np.column_stack([X, np.full(len(X), np.nan)])
    model, data, rng = (
        Model(prior or own, likelihood),
        Data.of(X),
        np.random.default_rng(seed),
    )
    start = Start("empty", np.zeros((len(X), 0), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    K, gram = np.zeros(sweeps), np.zeros((sweeps, len(X), len(X)))
    for i in range(-burn_in, sweeps):
        engine.step(rng, model, data, state)
        if i >= 0:
            Z = state.latent.astype(float)
            K[i], gram[i] = Z.shape[1], Z @ Z.T
    return K, gram


def p_values(exact, K, gram):
    """One p-value for each cell of K and each entry of E[ZZ']."""
    k_probabilities, truth = exact
    cap = len(k_probabilities) - 1

    def compare(values, mean):
        return p_value_of_mean((cap >= K) * (values - mean), 0.0)

    found = {}
    for cell in pooled(k_probabilities):
        found[f"P(K in {cell})"] = compare(np.isin(K, cell), k_probabilities[cell].sum())
    for i in range(len(truth)):
        for j in range(i, len(truth)):
            found[f"E[ZZ']_{i}{j}"] = compare(gram[:, i, j], truth[i, j])
    return found


def check(name, seed, sweeps, **settings):
    return p_values(exact_answer(name), *walk(name, seed, sweeps, **settings))


@pytest.mark.parametrize("name", CASES)
def test_samplers_agree_with_enumeration(name, seed):
    judge("row_potentials", check(name, seed, sweeps=2500))


@pytest.mark.parametrize("name", GAPS)
def test_samplers_of_gaps_agree_with_enumeration(name, seed):
    judge("row_potentials", check(name, seed, sweeps=2500, gaps=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_samplers_agree_with_enumeration_closely(name, seed):
    judge("row_potentials", check(name, seed, sweeps=20_000))


def moves_alone(seed, draws, theta):
    """P-values of K and ZZ' along a chain of moves on columns, θ of its target being ``theta``."""
    from thali.kernels import column_moves as kernel

    data, rng = Data.of(np.array(THREE)), np.random.default_rng(seed)
    tables = PRIOR.tables(3)
    prior = kernel.ColumnPrior(*column_tables(tables, 3), -1, theta)
    scales = Scales(SIGMA_X, SIGMA_A, float(data.d))
    start = Start("empty", np.zeros((3, 0), bool), {})
    rows, k = COLLAPSED.begin(rng, Model(PRIOR, GAUSSIAN), data, start).rows, 0
    K, gram = np.zeros(draws), np.zeros((draws, 3, 3))
    for i in range(-100, draws):
        rows, k, _ = kernel.column_moves(
            rng, data.reduced, rows, k, prior, scales, 10, kernel.SHARES
        )
        if i >= 0:
            Z = rows.Z[:, :k].astype(float)
            K[i], gram[i] = k, Z @ Z.T
    return p_values(exact_answer("columns"), K, gram)


def test_moves_on_columns_alone_agree_with_enumeration(seed):
    judge("row_potentials", moves_alone(seed, 4000, PRIOR.tables(3).row_potentials))


def test_moves_on_columns_without_row_potentials_are_caught(seed):
    assert alarms(moves_alone(seed, 4000, None))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "," in name else ()) for name in CASES]
)
def test_a_sampler_that_ignores_row_potentials_is_caught(name, seed):
    prior = CASES[name][4]
    quiet = RowWeighted(prior.weight, prior.theta, ignored=True, n_components=prior.n_components)
    assert alarms(check(name, seed, sweeps=2500, prior=quiet))


@pytest.mark.parametrize("name", [name for name in CASES if name != "sparse"])
def test_what_the_enumeration_leaves_out_is_little(name):
    k_probabilities, _ = exact_answer(name)
    assert k_probabilities.sum() == pytest.approx(1.0)
    if "finite" not in name:
        assert k_probabilities[-1] < 0.01


def test_the_budget_counts_these_tests():
    assert TESTS["row_potentials"] == 2 * len(CASES) + len(GAPS) + 1
