"""Moves on whole columns leave the posterior invariant: with Gibbs sweeps, and all by themselves.

Alone they visit every class, since columns are born from the prior's law of a column and die; so
do three of the four kinds each alone. α = 3 at two and three rows, where equal columns are many and
wrong multiplicities show. The mutants leave out one factor of the acceptance probability each.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles.features import PriorSpec
from statistical import test_enumeration as enumeration
from statistical import test_prior_recovery as recovery
from statistical.budget import TESTS, alarms, judge
from statistical.mutants import mutate

import thali
from thali.data import Data
from thali.engines.features.columns import column_tables
from thali.kernels.gaussian_row import Scales
from thali.model import Model
from thali.starts import Start

KERNEL = "thali.kernels.column_moves"
WITH_SWEEPS = [
    "N=2 ibp α=3",
    "N=2 two_parameter α=3",
    "N=2 finite α=3",
    "N=3 ibp α=3",
    "N=3 finite α=1",
    "N=4 ibp α~Gamma",
]
ALONE = ["N=2 ibp α=3", "N=2 two_parameter α=3", "N=2 finite α=3", "N=3 ibp α=3", "N=4 finite α=3"]
KINDS = {
    "drop": [0.0, 1.0, 0.0, 0.0],
    "dissolve": [0.0, 0.0, 1.0, 0.0],
    "residue": [0.0, 0.0, 0.0, 1.0],
    "turn and drop": [0.7, 0.3, 0.0, 0.0],
}
PRIORS = ["ibp α=3", "two_parameter β=0.4 α=3", "finite α=3"]
# each the acceptance probability with a factor left out
MUTANTS = {
    "the places of a newborn column": ("np.log(free / whole * ", "np.log(free * "),
    "the seed's choice among members": (
        "log_q -= np.log(X.shape[0] / rows.m[d])",
        "log_q -= np.log(X.shape[0])",
    ),
    "the way back through the urn": (
        "log_q += flips_from_urn(rng, rows.Z, d, flips, born)",
        "log_q += 0.0",
    ),
}


def walk(prior, X, sigmas, seed, draws, attempts=6, shares=None, kernel=None, chains=2):
    """K and ZZ' along chains of moves alone: (chains, draws) and (chains, draws, N, N)."""
    from thali.kernels import column_moves as ours

    kernel = kernel or ours
    shares = ours.SHARES if shares is None else np.array(shares)
    data, n = Data.of(X), len(X)
    tables = prior.tables(n)
    law = ours.ColumnPrior(*column_tables(tables, n), tables.capacity, tables.row_potentials)
    scales = Scales(*sigmas, float(data.d))
    K = np.zeros((chains, draws))
    gram = np.zeros((chains, draws, n, n))
    matrices = []
    for chain, rng in enumerate(np.random.default_rng(seed).spawn(chains)):
        empty = Start("empty", np.zeros((n, 0), bool), {})
        model = Model(prior, thali.LinearGaussian(*sigmas))
        rows, k = thali.CollapsedGibbs().begin(rng, model, data, empty).rows, 0
        for draw in range(-100, draws):
            rows, k, _ = kernel.column_moves(
                rng, data.reduced, rows, k, law, scales, attempts, shares
            )
            if draw >= 0:
                Z = rows.Z[:, :k].astype(float)
                K[chain, draw], gram[chain, draw] = k, Z @ Z.T
                matrices.append(Z)
    return K, gram, matrices


def alone(name, seed, draws, **settings):
    case = enumeration.CASES[name]
    prior = enumeration.library_prior(case.prior)
    sigmas = (enumeration.SIGMA_X, enumeration.SIGMA_A)
    K, gram, _ = walk(prior, case.X, sigmas, seed, draws, **settings)
    kept = {"n_components": K, "alpha": np.full(K.shape, case.prior.alpha)}
    return enumeration.p_values(case, kept, gram)


def with_sweeps(name, seed, sweeps):
    engine = thali.CollapsedGibbs(moves=20)
    return enumeration.check(enumeration.CASES[name], seed, sweeps, engine=engine)


@pytest.mark.parametrize("name", WITH_SWEEPS)
def test_many_moves_a_sweep_agree_with_enumeration(name, seed):
    judge("column_moves", with_sweeps(name, seed, 2000))


@pytest.mark.parametrize("name", ALONE)
def test_moves_alone_agree_with_enumeration(name, seed):
    judge("column_moves", alone(name, seed, 5000))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_moves_alone_agree_with_enumeration_closely(name, seed):
    judge("column_moves", alone(name, seed, 100_000))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_alone_agrees_with_enumeration(kind, seed):
    judge("column_moves", alone("N=2 ibp α=3", seed, 5000, shares=KINDS[kind], attempts=10))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_alone_agrees_with_enumeration_closely(kind, seed):
    judge("column_moves", alone("N=3 ibp α=3", seed, 60_000, shares=KINDS[kind], attempts=20))


@pytest.mark.parametrize("name", PRIORS)
def test_moves_alone_give_back_the_prior_under_a_flat_likelihood(name, seed):
    spec: PriorSpec = recovery.CASES[name]
    X = np.random.default_rng(0).normal(size=(recovery.N, recovery.D))
    prior = enumeration.library_prior(spec)
    K, _, matrices = walk(prior, X, (1e3, 1e-3), seed, 4000, attempts=15)
    takers = [np.bincount(Z.sum(axis=0).astype(int), minlength=recovery.N + 1) for Z in matrices]
    takers = np.array(takers)[:, 1:].reshape(*K.shape, recovery.N)
    judge("column_moves", recovery.p_values(spec, K, takers, np.full(K.shape, spec.alpha)))


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_factor_left_out_is_noticed(name, seed):
    mutant = mutate(KERNEL, [MUTANTS[name]])
    # a finite prior where K would otherwise grow without end; the seed's choice matters little
    case, draws = "N=2 finite α=3", 5000
    if name == "the seed's choice among members":
        case, draws = "N=2 ibp α=3", 40_000
    assert alarms(alone(case, seed, draws, kernel=mutant))


def test_the_budget_counts_these_tests():
    tests = len(WITH_SWEEPS) + 2 * len(ALONE) + 2 * len(KINDS) + len(PRIORS)
    assert TESTS["column_moves"] == tests
