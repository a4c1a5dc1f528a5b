"""Samplers under flexible priors of features, against full enumeration of left-ordered classes.

Every likelihood and engine of ``test_row_potentials``, with potentials of column sums that no
buffet process has, with and without potentials of row sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from row_weighted import THETA, RowWeighted
from scipy import stats
from scipy.special import gammaln
from statistical.budget import TESTS, alarms, judge, p_value_of_difference
from statistical.mutants import mutate
from statistical.test_row_potentials import CASES as OTHERS
from statistical.test_row_potentials import p_values, walk

import thali
from thali.data import Data
from thali.hyperparameters import Gamma, Normal
from thali.model import Model
from thali.priors.column_potentials import ColumnPotentials
from thali.starts import Start
from thali.structures.features import feature_counts

POTENTIALS = {2: (-0.3, 0.4), 3: (-0.6, -1.4, 0.5)}
CASES = [(name, rows) for name in OTHERS if "finite" not in name for rows in (False, True)]


@dataclass(frozen=True)
class Told(RowWeighted):
    """The prior as the oracles see it."""

    potentials: tuple[float, ...] = ()

    def log_classes(self, counts, n):
        h = oracles.histories(n)
        logs = counts @ np.array(self.potentials)[h.sum(axis=1).astype(int) - 1]
        logs = logs - gammaln(counts + 1.0).sum(axis=-1)
        theta = np.array(self.theta)
        sums = np.minimum((counts @ h).astype(int), len(theta) - 1)
        return logs + theta[sums].sum(axis=1), np.zeros(len(counts))


@cache
def exact(name, rows):
    _, _, oracle, X, _, cap = OTHERS[name]
    told = Told(theta=THETA if rows else (0.0,), potentials=POTENTIALS[len(X)])
    return oracle(told, X, cap)


def prior_of(name, rows):
    return thali.FlexibleIBP(POTENTIALS[len(OTHERS[name][3])], THETA if rows else None)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param(*case, marks=() if case[1] or case[0] == "collapsed" else pytest.mark.slow)
        for case in CASES
    ],
)
def test_samplers_agree_with_enumeration(name, rows, seed):
    chain = walk(name, seed, 2000, prior=prior_of(name, rows))
    judge("flexible_ibp", p_values(exact(name, rows), *chain))


@pytest.mark.parametrize("name", ["collapsed", "columns", "linear", "noisy or"])
def test_the_buffet_process_in_its_place_is_caught(name, seed):
    chain = walk(name, seed, 2000, prior=thali.IBP(alpha=float(np.exp(-0.6)) * 3.0))
    assert alarms(p_values(exact(name, False), *chain))


AS_PRINTED = [  # step 2c of algorithm 1: what is the probability of a turn is taken for that of 1
    (
        "if accepts(rng, sign * (twice * r[i] + odds) - g[i]):",
        "if accepts(rng, sign * (twice * r[i] + odds) - g[i]) != (z[i] == 1):",
    ),
    ("if has_theta or not is_decided(R[n], g, Z[n], on, off, twice):", "if True:"),
]


def test_the_step_as_printed_is_caught(seed, monkeypatch):
    module = "thali.kernels.given_features"
    broken = mutate(module, AS_PRINTED)
    monkeypatch.setattr(f"{module}.turn_bits", broken.turn_bits)
    chain = walk("linear", seed, 2000, prior=prior_of("linear", False))
    assert alarms(p_values(exact("linear", False), *chain))


def test_the_grid_is_counted():
    assert TESTS["flexible_ibp"] == len(CASES) + len(JOINT) * len(ENGINES)


# ---- hyperparameters ------------------------------------------------------------------------

PRIORS = {
    "smooth": thali.SmoothIBP(Gamma(2.0, 1.0), Normal(1.0, 0.7), Gamma(2.0, 2.0)),
    "learned": thali.LearnedIBP(Gamma(2.0, 1.0), strength=1.5),
}


def told(name, hyper, n):
    if name == "smooth":
        return [hyper["alpha"], hyper["power"], hyper["shift"]]
    return [hyper["alpha"], *hyper["expected"]]


@pytest.mark.parametrize("name", PRIORS)
def test_hyperparameters_given_a_draw_have_the_law_that_it_was_drawn_with(name, seed):
    """Numbers from their prior, a matrix given these, and numbers given the matrix: these have the
    prior's law again."""
    rng, prior, n = np.random.default_rng(seed), PRIORS[name], 4
    before, after = [], []
    for _ in range(3000):
        hyper = {"alpha": prior.alpha.sample(rng)}
        if name == "smooth":
            hyper |= {"power": prior.power.sample(rng), "shift": prior.shift.sample(rng)}
        else:
            hyper["expected"] = prior.draw_expected(rng, hyper["alpha"], np.zeros(n), 0.0)
        before.append(told(name, hyper, n))
        Z = ColumnPotentials.sample(prior.at(**hyper), rng, n)
        for _ in range(2):
            prior.resample(rng, hyper, feature_counts(Z))
        after.append(told(name, hyper, n))
    found = [stats.ks_2samp(a, b).pvalue for a, b in zip(*map(np.transpose, (before, after)))]  # noqa: B905
    assert min(found) > 1e-4 / len(found)


def test_numbers_drawn_given_counts_are_conjugate(rng):
    prior, m = thali.LearnedIBP(alpha=2.0, strength=1.5), np.array([3.0, 0.0, 1.0])
    drawn = np.array([prior.draw_expected(rng, 2.0, m) for _ in range(20_000)])
    rate = 1.5 * np.arange(1.0, 4.0) / 2.0 + 1.0
    for i in range(3):
        law = stats.gamma(1.5 + m[i], scale=1.0 / rate[i])
        assert stats.kstest(drawn[:, i], law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("rows", [False, True])
def test_draws_have_the_law_of_all_classes(rows, rng):
    """And without a say of the rows, numbers of columns are independent Poissons."""
    prior = thali.FlexibleIBP(POTENTIALS[2], (0.0, 0.7, -0.9) if rows else None)
    counts = oracles.classes(2, 9)
    logs = Told(theta=(0.0, 0.7, -0.9) if rows else (0.0,), potentials=POTENTIALS[2])
    law = np.exp(logs.log_classes(counts, 2)[0])
    law /= law.sum()
    found = {}
    for _ in range(8_000):
        key = oracles.class_of(prior.sample(rng, 2))
        found[key] = found.get(key, 0) + 1
    seen = np.array([found.get(tuple(c), 0) for c in counts.tolist()])
    often = 8_000 * law > 10
    assert stats.chisquare(
        np.append(seen[often], 8_000 - seen[often].sum()),
        np.append(8_000 * law[often], 8_000 * (1.0 - law[often].sum())),
    ).pvalue > 1e-4  # fmt: skip
    if rows:
        estimate, error = prior.log_normalizer(2, draws=8_000)
        plain = thali.FlexibleIBP(POTENTIALS[2])
        at = np.array([[1, 0], [1, 1]])
        lacking = prior.log_prob(at) - np.log(
            law[counts.tolist().index(list(oracles.class_of(at)))]
        )
        assert abs(estimate - lacking) < 5.0 * error
        assert plain.log_normalizer(2) == (0.0, 0.0)


# ---- the joint law (Geweke 2004) --------------------------------------------------------------

JOINT = {  # a prior with inferred numbers, and one of row potentials
    "smooth": thali.SmoothIBP(Gamma(2.0, 2.0), Normal(1.0, 0.5), Gamma(2.0, 2.0)),
    "learned": thali.LearnedIBP(Gamma(2.0, 2.0), strength=1.5),
    "rows": thali.FlexibleIBP(POTENTIALS[3], (0.0, 0.5, -0.5)),
}
ENGINES = {
    "collapsed": thali.CollapsedGibbs(moves=3),
    "kept": thali.UncollapsedGibbs(),
    "single moves": thali.Metropolis(moves=30),
}
QUICK = ("smooth", "single moves")
NOISE = thali.LinearGaussian(Gamma(4.0, 6.0), Gamma(4.0, 4.0))


def of_state(Z, hyper, X):
    m = Z.sum(axis=0)
    row = {
        "K": Z.shape[1],
        "ΣZ": Z.sum(),
        "alone": (m == 1).sum(),
        "rows without": (Z.sum(axis=1) == 0).sum(),
        "log |X|": np.log(np.square(X).sum()),
        "|X| K": np.sqrt(np.square(X).sum()) * Z.shape[1],
        "σ_x": hyper["sigma_x"],
        "σ_a": hyper["sigma_a"],
    }
    return row | {name: hyper[name] for name in ("alpha", "power", "shift") if name in hyper}


def drawn_ahead(rng, prior):
    Z, own = prior.sample_with_hyper(rng, 3)
    hyper = own | {"sigma_x": NOISE.sigma_x.sample(rng), "sigma_a": NOISE.sigma_a.sample(rng)}
    return Z, hyper


def data_given(rng, Z, hyper):
    A = hyper["sigma_a"] * rng.standard_normal((Z.shape[1], 2))
    return Z @ A + hyper["sigma_x"] * rng.standard_normal((3, 2)), A


def joint_p_values(prior, engine, seed, size):
    one, two = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    ahead, chain, model = [], [], Model(prior, NOISE)
    for _ in range(size):
        Z, hyper = drawn_ahead(one, prior)
        ahead.append(of_state(Z, hyper, data_given(one, Z, hyper)[0]))
    Z, hyper = drawn_ahead(two, prior)
    for _ in range(size):
        X, A = data_given(two, Z, hyper)
        data = Data.of(X)
        start = Start("joint", Z.astype(bool), {**model.start(data), **hyper}, parameters={"A": A})
        state = engine.begin(two, model, data, start)
        engine.step(two, model, data, state)
        Z, hyper = state.latent.astype(int), dict(getattr(state, "all_hyper", state.hyper))
        chain.append(of_state(Z, hyper, X))
    return {
        name: p_value_of_difference(*(np.array([r[name] for r in rows], float) for rows in both))
        for both in [(ahead, chain)]
        for name in ahead[0]
    }


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        pytest.param(*cell, marks=() if cell == QUICK else pytest.mark.slow)
        for cell in product(JOINT, ENGINES)
    ],
)
def test_the_joint_law_is_kept(name, engine, seed):
    judge("flexible_ibp", joint_p_values(JOINT[name], ENGINES[engine], seed, 1500))


def test_numbers_that_are_not_updated_are_caught(seed, monkeypatch):
    monkeypatch.setattr(thali.SmoothIBP, "resample", lambda *given: None)
    assert alarms(joint_p_values(JOINT["smooth"], ENGINES["kept"], seed, 1500))
