"""Search for the joint mode of ([Z], S), A integrated out, against enumeration of Z and many
climbs of S by somebody else's optimizer."""

from __future__ import annotations

from itertools import product

import numba
import numpy as np
import pytest
from oracles import features as oracles
from oracles.variational_updates import install
from scipy.optimize import minimize
from scipy.stats import laplace, multivariate_normal, norm

import thali
from thali.data import Data
from thali.engines.search.amounts_polish import AmountsForm
from thali.kernels import search_amounts
from thali.likelihoods.gibbs_updates import GibbsState
from thali.model import Model
from thali.structures.features import potentials

SCALES = {"sigma_x": 0.4, "sigma_a": 1.5}
SLABS = ("laplace", "gaussian")


def drawn(seed, n, d, k=2, noise=0.3):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, k)) < 0.6
    return (Z * rng.laplace(size=Z.shape)) @ rng.normal(size=(k, d)) + noise * rng.normal(
        size=(n, d)
    )


def joint(X, Z, S, slab, sigma_x=0.4, sigma_a=1.5):
    """log P(X, S | Z) by the plain density of each column of X."""
    W = np.where(Z, S, 0.0)
    covariance = sigma_x**2 * np.eye(len(X)) + sigma_a**2 * W @ W.T
    fit = multivariate_normal.logpdf(X.T, np.zeros(len(X)), covariance).sum()
    law = laplace if slab == "laplace" else norm
    return float(fit + law.logpdf(W[np.asarray(Z, bool)]).sum())


def highest(X, Z, slab, tries=4):
    """max over S, from many places."""
    on, rng = np.asarray(Z, bool), np.random.default_rng(0)
    if not on.any():
        return joint(X, Z, np.zeros(Z.shape), slab)
    best = -np.inf
    for _ in range(tries):

        def cost(s):
            S = np.zeros(Z.shape)
            S[on] = s
            return -joint(X, Z, S, slab)

        found = minimize(cost, rng.laplace(size=on.sum()), method="Powell", options={"xtol": 1e-5})
        best = max(best, -float(found.fun))
    return best


def matrix_of(counts, n):
    columns = np.repeat(oracles.histories(n), counts, axis=0).astype(int)
    return np.array(sorted(columns.tolist(), reverse=True), int).reshape(-1, n).T


@pytest.mark.parametrize("slab", [pytest.param("laplace", marks=pytest.mark.slow), "gaussian"])
def test_the_joint_mode_of_few_rows_is_found(slab, seed):
    for i in range(2):
        X = drawn(seed + i, 2, 4)
        counts = oracles.classes(2, 3)
        logs = oracles.log_prior_ibp(counts, 2, 1.0)
        best = max(
            float(p) + highest(X, matrix_of(c, 2), slab) for c, p in zip(counts, logs, strict=True)
        )
        engine = thali.BeamSearch(50, expansion="all", n_init=2, most_new=2)
        likelihood = thali.SparseFactor(slab, **SCALES)
        model = thali.LatentFeatures(thali.IBP(1.0), likelihood, engine, random_state=0).fit(X)
        assert not model.proven_optimal_  # amounts may have a better maximum than is known
        assert model.log_joint_upper_bound_ == np.inf
        own = joint(X, model.Z_, model.amounts_, slab)
        assert model.log_joint_ == pytest.approx(own + model.prior_.log_prob(model.Z_), abs=1e-6)
        assert model.n_components_ < 3
        assert model.log_joint_ == pytest.approx(best, abs=1e-2)


def row_problems(seed, count):
    """X, Z and S of all rows, of which the last is set anew."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        X, Z = drawn(seed + i, 6, 4), rng.random((6, 3)) < 0.6
        Z[-1, rng.integers(3)] = True
        yield X, np.ascontiguousarray(Z, np.uint8), np.where(Z, rng.laplace(size=Z.shape), 0.0)


def short_of_the_best(seed, count=6):
    """By how much amounts of a row, and what is said of them, fall short of the best that another
    optimizer finds."""
    from thali.kernels import search_amounts  # which may be a broken one

    short = 0.0
    for i, (X, Z, S) in enumerate(row_problems(seed, count)):
        slab = SLABS[i % 2]
        numbers = (0.4 / 1.5) ** 2, 4.0, 0.16, slab == "laplace"
        others = S[:-1].T @ S[:-1], S[:-1].T @ X[:-1]
        new = np.array([int(not Z[:-1].any())])
        told, amounts = search_amounts.worth_of_rows(*others, X[-1], Z[-1:], new, *numbers)
        last = S.copy()
        last[-1] = amounts[0, :3]
        before = joint(X[:-1], Z[:-1], S[:-1], slab)
        value = joint(X, Z, last, slab) - before
        short = max(short, abs(told[0] - 2.0 * np.log(2.0 * np.pi * 0.16) - value))
        on = Z[-1] != 0
        for trial in range(6):

            def cost(s, on=on, Z=Z, S=S, X=X, slab=slab, before=before):
                here = S.copy()
                here[-1, on] = s
                return before - joint(X, Z, here, slab)

            start = np.random.default_rng(trial).laplace(size=on.sum())
            found = minimize(cost, start, method="Powell", options={"xtol": 1e-7})
            short = max(short, -float(found.fun) - value)
    return short


def test_amounts_of_a_row_are_the_best_given_the_others(seed):
    assert short_of_the_best(seed) < 1e-2  # there may be other local maxima, as high within little


def gains(seed, count=8):
    """How far from the truth a pass is from what it says it gains."""
    from thali.kernels import search_amounts  # which may be a broken one

    off = 0.0
    for i, (X, Z, S) in enumerate(row_problems(seed, count)):
        slab, of = SLABS[i % 2], (thali.IBP(1.5), thali.BetaBernoulli(2.0, n_components=4))[i % 2]
        Z, S, tables = np.pad(Z, ((0, 0), (0, 1))), np.pad(S, ((0, 0), (0, 1))), of.tables(6)

        def value(Z, S, slab=slab, of=of, X=X):
            used = Z.any(axis=0)
            return joint(X, Z[:, used], S[:, used], slab) + of.log_prob(Z[:, used])

        before = value(Z, S)
        numbers = (0.4 / 1.5) ** 2, 4.0, 0.16, slab == "laplace"
        rows = np.arange(6)
        gain = search_amounts.climb(X, Z, S, rows, potentials(tables), tables.capacity, *numbers)
        off = max(off, abs(value(Z, S) - before - gain), -gain)
    return off


def test_a_pass_gains_what_it_says(seed):
    assert gains(seed) < 1e-6


MUTANTS = {
    "variance of the row left out": ("v[2] = M[i, i]", "v[2] = 0.0", short_of_the_best),
    "amounts that do not meet": (
        "p[1] += 2.0 * G[i, j] * s[j]", "p[1] += G[i, j] * s[j]", short_of_the_best,
    ),
    "a slab without its constant": (
        "return -abs(s) - LOG_2 if laplace", "return -abs(s) if laplace", gains,
    ),
    "rows that stay in": (
        "put_row(C, T, X[n], S[n], -1.0)\n        M, G, b = of_others(C, T, r, X[n])\n"
        "        x2 = (X[n] * X[n]).sum()\n        trial",
        "M, G, b = of_others(C, T, r, X[n])\n        x2 = (X[n] * X[n]).sum()\n        trial",
        gains,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, monkeypatch):
    old, new, check = MUTANTS[name]
    with monkeypatch.context() as plain:
        plain.setattr(numba.config, "DISABLE_JIT", True)
        install(monkeypatch, search_amounts.__name__, [(old, new)])
    assert not check(0, 3) < 1e-2


def test_the_log_joint_is_that_of_the_library_and_no_pass_lowers_it(rng):
    X = drawn(3, 12, 5)
    for slab, prior in product(SLABS, (thali.IBP(1.5), thali.BetaBernoulli(2.0, n_components=4))):
        model, data = Model(prior, thali.SparseFactor(slab, **SCALES)), Data(X)
        form, hyper = AmountsForm(model, data), model.start(data)
        Z = rng.random((12, 3)) < 0.5
        parameters = form.parameters(Z, hyper)
        value = form.log_joint(Z, parameters, hyper)
        for _ in range(4):
            Z, parameters = form.climb(rng, Z, parameters, hyper)
            last, value = value, form.log_joint(Z, parameters, hyper)
            assert value >= last - 1e-8
        place = {"A": parameters["A"], "S": parameters["S"].T}
        density = model.likelihood.log_density(GibbsState(data, Z.astype(np.uint8), place, hyper))
        assert value == pytest.approx(density + model.prior.log_prob(Z), abs=1e-8)


def test_planted_factors_are_found(rng):
    Z = rng.random((40, 3)) < 0.4
    X = (Z * (2.0 + rng.random(Z.shape))) @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(
        size=(40, 12)
    )
    likelihood = thali.SparseFactor("gaussian", 0.1, 1.0)
    engine = thali.BeamSearch(5, n_init=2, init="empty")
    model = thali.LatentFeatures(thali.IBP(1.0), likelihood, engine, random_state=0).fit(X)
    assert model.n_components_ == 3
    assert np.square(model.amounts_ @ model.components_ - X).mean() < 0.02
    assert np.all((model.amounts_ != 0.0) <= model.Z_)


def test_heuristics_that_need_bounds_are_refused():
    engine = thali.BeamSearch(heuristic="admissible")
    with pytest.raises(ValueError, match=r"'admissible' needs more than is known"):
        thali.LatentFeatures(likelihood="sparse_factor", engine=engine).fit(np.eye(4))
    engine = thali.BeamSearch(width=3, heuristic="trivial", n_init=1)
    model = thali.LatentFeatures(likelihood="sparse_factor", engine=engine, random_state=0)
    assert not model.fit(drawn(0, 10, 4)).proven_optimal_


def test_a_state_goes_into_a_file_and_back(rng):
    X = drawn(5, 8, 3)
    model, data = Model(thali.IBP(1.0), thali.SparseFactor("laplace", **SCALES)), Data(X)
    engine = thali.BeamSearch(width=3, init="empty", polish=False)
    start = thali.starts.empty_start(rng, model, data)
    ends = []
    for stored in (True, False):
        state = engine.begin(np.random.default_rng(0), model, data, start)
        while not engine.finished(state):
            if stored:
                state = engine.from_arrays(model, data, *engine.to_arrays(state))
            engine.step(rng, model, data, state)
        ends.append(state.best.value)
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)
