"""The polish of an answer: it never makes it worse, and ends where no change of one bit helps."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import search as oracle
from oracles.search_problems import KINDS, Case
from oracles.variational import log_density_of_scale
from scipy.optimize import minimize

import thali
from thali.data import Data
from thali.engines.search import polish
from thali.model import Model

CLOSE = 1e-8


def matrices(rng, count, kind, n=9, d=3, k=5):
    """Cases with a Z to begin from: any, some with equal columns, one with none."""
    for i in range(count):
        prior = oracle.Prior(kind, float(rng.uniform(0.5, 12.0)), 1.4 if "two" in kind else 1.0, 8)
        X = (rng.random((n, 3)) < 0.5) @ rng.normal(size=(3, d)) + 0.5 * rng.normal(size=(n, d))
        Z = rng.random((n, k)) < rng.uniform(0.1, 0.9)
        if i % 2:
            Z[:, k // 2 :] = Z[:, : k - k // 2]
            Z[0, 0] = not Z[0, 0]  # and one that is nearly equal
        if i % 7 == 6:
            Z = Z[:, :0]
        sigma_a = float(rng.uniform(0.5, 1.5))
        if i % 3 and n < 10:  # so few rows, and data of so little say, that columns become equal
            X, Z, sigma_a = X[:3], Z[:3], 0.3
        case = Case(X, prior, float(rng.uniform(0.3, 1.5)), sigma_a)
        yield case, Z[:, Z.any(axis=0)]


def changes_of_one_bit(Z):
    """Every matrix with one bit changed, or with one dish more that one row has."""
    for n, k in np.ndindex(*Z.shape):
        other = Z.copy()
        other[n, k] = not other[n, k]
        yield other[:, other.any(axis=0)]
    for n in range(len(Z)):
        other = np.column_stack([Z, np.zeros(len(Z), bool)])
        other[n, -1] = True
        yield other


def value(case, Z):
    if case.prior.finite and Z.shape[1] > case.prior.n_components:
        return -np.inf
    return case.log_joint(Z)


def worst_climb(rng, count, kind):
    """The largest fall of the log joint in a pass, and the largest gain that was left."""
    fall = left = 0.0
    for case, Z in matrices(rng, count, kind):
        model, data = case.model(), Data.of(case.X)
        before = value(case, Z)
        for _ in range(50):
            found = polish.climb(rng, model, data, Z)
            now = value(case, found)
            fall = max(fall, before - now)
            if now - before < 1e-10:
                break
            Z, before = found, now
        left = max(left, *(value(case, other) - before for other in changes_of_one_bit(Z)))
    return fall, left


@pytest.mark.parametrize("kind", KINDS)
def test_a_climb_never_falls_and_ends_where_no_bit_helps(kind, rng):
    fall, left = worst_climb(rng, 28, kind)
    assert fall < CLOSE
    assert left < CLOSE


def test_an_improvement_is_one(rng):
    laws = {"alpha": thali.Gamma(2.0, 1.0), "sigma_x": thali.InverseGamma(2.0, 0.5)}
    for case, Z in matrices(rng, 12, "ibp"):
        prior = thali.IBP(alpha=laws["alpha"])
        likelihood = thali.LinearGaussian(laws["sigma_x"], 1.0)
        model, data = Model(prior, likelihood), Data.of(case.X)
        hyper = {"alpha": 1.3, "sigma_x": case.sigma_x, "sigma_a": 1.0}
        form = polish.Integrated(model, data)
        found, gain = form.improve(rng, form.answer(Z, {}, hyper))
        numbers = found.hyper
        before, after = target(case.X, Z, hyper), target(case.X, found.Z, numbers)
        assert np.isclose(after - before, gain, atol=CLOSE)
        assert gain >= 0.0
        assert numbers["sigma_a"] == 1.0


def target(X, Z, hyper):
    """log P(X, [Z]) and the logarithms of the laws of α and σ_x."""
    prior = oracle.Prior("ibp", hyper["alpha"])
    return (
        oracle.log_joint(X, Z, prior, hyper["sigma_x"], hyper["sigma_a"])
        + log_density_of_scale(hyper["alpha"], "gamma", 2.0, 1.0)
        + log_density_of_scale(hyper["sigma_x"], "inverse gamma", 2.0, 0.5)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_hyperparameters_go_to_their_best(kind, rng):
    """α, β and both scales at once, against a simplex on the oracle's formula."""
    names = ["alpha", *(["beta"] if "two" in kind else []), "sigma_x", "sigma_a"]
    numbers = {
        "alpha": ("gamma", 2.0, 0.7),
        "beta": ("gamma", 2.0, 1.0),
        "sigma_x": ("inverse gamma", 2.0, 0.5),
        "sigma_a": ("gamma", 3.0, 2.0),
    }
    kinds = {"gamma": thali.Gamma, "inverse gamma": thali.InverseGamma}
    laws = {name: kinds[numbers[name][0]](*numbers[name][1:]) for name in names}
    prior = {
        "ibp": thali.IBP,
        "two_parameter_ibp": lambda alpha, beta: thali.TwoParameterIBP(alpha=alpha, beta=beta),
        "beta_bernoulli": lambda alpha: thali.BetaBernoulli(alpha=alpha, n_components=8),
    }[kind](**{name: laws[name] for name in names if name in ("alpha", "beta")})
    model = Model(prior, thali.LinearGaussian(laws["sigma_x"], laws["sigma_a"]))
    for case, Z in matrices(rng, 4, kind, n=25, d=4, k=4):

        def log_target(at, X=case.X, Z=Z):
            hyper = dict(zip(names, np.exp(at), strict=True))
            fixed = oracle.Prior(kind, hyper["alpha"], hyper.get("beta", 1.0), 8)
            laws = sum(log_density_of_scale(hyper[name], *numbers[name]) for name in names)
            return oracle.log_joint(X, Z, fixed, hyper["sigma_x"], hyper["sigma_a"]) + laws

        begin = {name: float(rng.uniform(0.5, 2.0)) for name in names}
        found = polish.Integrated(model, Data.of(case.X)).best_hyper(Z, {}, begin)
        mine = log_target(np.log([found[name] for name in names]))
        theirs = max(
            -minimize(
                lambda at: -log_target(at),
                np.log([start[name] for name in names]),
                method="Nelder-Mead",
                options={"xatol": 1e-5, "fatol": 1e-8},
            ).fun
            for start in (begin, found)
        )
        assert theirs - mine < 1e-5
        assert mine >= log_target(np.log([begin[name] for name in names]))


def test_fixed_hyperparameters_stay(rng):
    case, Z = next(matrices(rng, 1, "ibp"))
    hyper = {"alpha": 1.0, "sigma_x": 0.4, "sigma_a": 2.0}
    assert polish.Integrated(case.model(), Data.of(case.X)).best_hyper(Z, {}, hyper) == hyper
