"""The particle filter over partitions: against all partitions of a few rows, against its own broken
variants and the sampler; its log joints, room, stops, files and refusals.

For any number of particles, (estimate of P(X)) × Σ_p W_p f(partition_p) has mean P(X) E[f | X]
exactly. So over independent runs, with e = E[f | X] known from enumeration,

    mean of  P̂(X)/P(X) · Σ_p W_p (f(partition_p) − e) = 0,   and with f − e = 1 it is 1.

Few particles and many runs are then a test without any bias: nothing has to converge.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import pytest
from oracles import partitions as oracle
from scipy import stats
from scipy.special import logsumexp
from statistical.budget import TESTS, alarms, judge
from statistical.mutants import mutate

import thali
from thali.data import Data
from thali.engines.clusters import filter as filter_module
from thali.engines.clusters.particles import (
    Ancestry,
    FilterState,
    laws_of_particles,
    slot_fields,
)
from thali.hyperparameters import Gamma, Hyperprior
from thali.kernels.cluster_particles import refill
from thali.kernels.groups import laws_of
from thali.model import Model
from thali.starts import empty_start
from thali.structures.labels import all_partitions, canonical_labels

ROWS = 5
NUMBERS = np.array([[0.1, 2.0], [0.3, 1.2], [2.4, 3.5], [-0.4, 0.6], [2.0, 4.4]])
CODES = np.array([[0, 2], [1, 0], [0, 2], [0, 1], [1, 0]])
COUNTS = np.array([[3, 0, 1], [0, 2, 1], [5, 1, 0], [0, 0, 0], [1, 4, 0]])
GAUSSIAN = {"mean": 0.5, "spread": 1.5}


def gaussian_rows(x, rows, kappa, scale, wishart):
    """Rows measured from the prior's mean, by the numbers of the library's likelihoods."""
    x, rows = x - GAUSSIAN["mean"], rows - GAUSSIAN["mean"]
    variance = (scale * GAUSSIAN["spread"]) ** 2
    if wishart:
        psi = 1.5 * variance * np.eye(2)  # ν − D − 1 = 1.5
        return oracle.normal_wishart_predictive(x, rows, kappa, 4.5, psi)
    return oracle.normal_gamma_predictive(x, rows, kappa, 1.4, 0.4 * variance * np.ones(2))


def binary_rows(x, rows, a, b):
    return oracle.categories_predictive(x, rows, [[b, a]] * 2)


def categorical_rows(x, rows, concentration):
    return oracle.categories_predictive(x, rows, [[concentration] * 2, [concentration] * 3])


def count_rows(x, rows, concentration):
    return oracle.multinomial_predictive(x, rows, concentration)


LIKELIHOODS = {  # the class, its other settings, numbers of the hyperparameters, data, predictive
    "normal_gamma": (
        partial(thali.NormalGamma, shape=1.4, **GAUSSIAN),
        {"kappa": 0.3, "scale": 0.8},
        NUMBERS,
        partial(gaussian_rows, wishart=False),
    ),
    "normal_wishart": (
        partial(thali.NormalWishart, degrees=4.5, **GAUSSIAN),
        {"kappa": 0.3, "scale": 0.8},
        NUMBERS,
        partial(gaussian_rows, wishart=True),
    ),
    "beta_bernoulli_items": (
        thali.BetaBernoulliItems,
        {"a": 0.7, "b": 0.4},
        CODES.clip(0, 1),
        binary_rows,
    ),
    "categorical": (
        partial(thali.Categorical, levels=((0.0, 1.0), (0.0, 1.0, 2.0))),
        {"concentration": 0.5},
        CODES,
        categorical_rows,
    ),
    "dirichlet_multinomial": (
        thali.DirichletMultinomial,
        {"concentration": 0.6},
        COUNTS,
        count_rows,
    ),
}


@dataclass(frozen=True)
class Case:
    """A prior, a likelihood whose named hyperparameters are inferred, and how the filter goes."""

    likelihood: str
    prior: thali.DirichletProcess | thali.PitmanYor = field(
        default_factory=lambda: thali.DirichletProcess(alpha=1.3)
    )
    inferred: str = ""
    proposal: str = "conditional"
    below: float = 0.9
    passes: int = 1
    particles: int = 15
    runs: int = 250

    def model(self):
        make, numbers, *_ = LIKELIHOODS[self.likelihood]
        law = {self.inferred: Gamma(2.0, 3.0)} if self.inferred else {}
        return Model(self.prior, make(**(numbers | law)))

    def engine(self):
        return thali.ParticleFilter(self.particles, self.proposal, self.below, self.passes)


PITMAN_YOR = thali.PitmanYor(alpha=0.5, discount=0.4)
CASES = {name: Case(name) for name in LIKELIHOODS} | {
    "Pitman–Yor": Case("normal_gamma", PITMAN_YOR),
    "Pitman–Yor, α below zero": Case("categorical", thali.PitmanYor(alpha=-0.2, discount=0.6)),
    "labels by the prior": Case("normal_gamma", PITMAN_YOR, proposal="prior", particles=40),
    "two passes": Case("normal_wishart", passes=2, particles=10, runs=120),
    "α inferred": Case("normal_gamma", thali.DirichletProcess(Gamma(2.0, 1.0)), below=1.0),
    "discount inferred": Case("categorical", thali.PitmanYor(0.5), below=1.0, runs=120),
    "a width inferred": Case("normal_gamma", inferred="scale", below=1.0, runs=120),
    "a nearness inferred": Case("normal_wishart", inferred="kappa", below=1.0, runs=120),
    "a weight inferred": Case(
        "dirichlet_multinomial", inferred="concentration", below=1.0, runs=100
    ),
}


def quantiles(law, count=80):
    """Equally probable values of a hyperprior, or the number itself."""
    if not isinstance(law, Hyperprior):
        return [law]
    at = (np.arange(count) + 0.5) / count
    if law.probability:
        return stats.beta.ppf(at, law.a, law.b).tolist()
    return stats.gamma.ppf(at, law.shape, scale=1.0 / law.rate).tolist()


@cache
def enumerated(name):
    """All partitions, their posterior probabilities, and log P(X), hyperparameters summed out."""
    case = CASES[name]
    _, numbers, X, predictive = LIKELIHOODS[case.likelihood]
    every = [np.array(labels) for labels in all_partitions(ROWS)]
    fields = {k: getattr(case.prior, k) for k in ("alpha", "discount") if hasattr(case.prior, k)}
    one = next((k for k, law in fields.items() if isinstance(law, Hyperprior)), "alpha")
    priors = [case.prior.replace(**{one: value}) for value in quantiles(fields[one])]
    likes = [numbers]
    if case.inferred:
        likes = [numbers | {case.inferred: value} for value in quantiles(Gamma(2.0, 3.0))]
    log_prior = [logsumexp([own.log_prob(c) for own in priors]) for c in every]
    log_like = np.zeros((len(every), len(likes)))
    for j, own in enumerate(likes):
        blocks = {}
        for i, c in enumerate(every):
            for members in (np.flatnonzero(c == k) for k in range(c.max() + 1)):
                key = tuple(members)
                if key not in blocks:
                    blocks[key] = oracle.log_marginal(X[members], partial(predictive, **own))
                log_like[i, j] += blocks[key]
    logs = np.array(log_prior) - np.log(len(priors)) + logsumexp(log_like, axis=1)
    logs -= np.log(len(likes))
    return np.array(every), np.exp(logs - logsumexp(logs)), float(logsumexp(logs))


def populations(case, data, seed, runs):
    """The final population of independent runs, by the engine's own steps."""
    model, engine = case.model(), case.engine()
    start = empty_start(None, model, data)
    for sequence in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(sequence)
        state = engine.begin(rng, model, data, start)
        while state.row < data.n:
            engine.several(rng, model, data, state, data.n)
        for _ in range(case.passes - 1):
            engine.step(rng, model, data, state)
        yield engine.population(rng, model, data, state)


def seen_of(every):
    """K = 1, 2, 3, 4 and which pairs of rows are together, of each partition."""
    i, j = np.triu_indices(ROWS, 1)
    many = [every.max(axis=1) == k for k in range(4)]
    return np.column_stack([*many, every[:, i] == every[:, j]]).astype(float)


def p_values(name, seed):
    case, (every, law, log_evidence) = CASES[name], enumerated(name)
    expected = law @ seen_of(every)
    data = Data.of(LIKELIHOODS[case.likelihood][2].astype(float))
    series = []
    for found in populations(case, data, seed, case.runs):
        if not found.log_evidence < log_evidence + 100.0:  # what broken kernels may come to
            return {"evidence": 0.0}
        weights = np.exp(found.log_evidence - log_evidence) * found.weights
        seen = seen_of(np.array(found.packed).astype(int))
        series.append([weights.sum() - 1.0, *(weights @ (seen - expected))])
    return {f"evidence and means {i}": p_value(own) for i, own in enumerate(np.transpose(series))}


def p_value(values):
    """That they have mean zero; broken kernels may give the same value in every run."""
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return float(values[0] == 0.0)
    return float(stats.ttest_1samp(values, 0.0).pvalue)


@pytest.mark.parametrize("name", CASES)
def test_evidence_clusters_and_pairs_are_those_of_all_partitions(name, seed):
    judge("cluster_filter", p_values(name, seed))


def test_the_budget_counts_these_tests():
    assert TESTS["cluster_filter"] == len(CASES)


@pytest.mark.parametrize("name", ["normal_wishart", "Pitman–Yor"])
def test_many_particles_have_the_posterior(name, seed):
    every, law, log_evidence = enumerated(name)
    case = Case(CASES[name].likelihood, CASES[name].prior, particles=20000)
    data = Data.of(LIKELIHOODS[case.likelihood][2])
    (found,) = populations(case, data, seed, 1)
    seen = found.weights @ seen_of(np.array(found.packed).astype(int))
    assert np.abs(seen - law @ seen_of(every)).max() < 0.02  # five standard errors
    assert found.log_evidence == pytest.approx(log_evidence, abs=0.05)


# ---- broken variants --------------------------------------------------------------------------

KERNELS = {
    "weights forgotten": (
        "normal_gamma",
        [("particles.log_weights[p] += more", "particles.log_weights[p] += 0.0 * more")],
    ),
    "a prior that is not normalized": (
        "normal_gamma",
        [("top + np.log(total / whole)", "top + np.log(total)")],
    ),
    "the discount forgotten where a cluster is joined": (
        "Pitman–Yor",
        [("return size - discount", "return size")],
    ),
    "a slot that comes into use with what another particle left in it": (
        "α inferred",
        [("        clear(own, slot + 1)\n", "")],
    ),
    "statistics that do not follow the hyperparameters": (
        "a width inferred",
        [("    for slot in range(base, base + k + 1):", "    for slot in range(base, base):")],
    ),
}


@pytest.mark.parametrize("what", KERNELS)
def test_enumeration_catches_a_broken_kernel(what, monkeypatch, seed):
    import thali.kernels

    name, changes = KERNELS[what]
    broken = mutate("thali.kernels.cluster_particles", changes)
    monkeypatch.setitem(sys.modules, "thali.kernels.cluster_particles", broken)
    monkeypatch.setattr(thali.kernels, "cluster_particles", broken, raising=False)
    try:
        found = p_values(name, seed)
    except ValueError as error:  # statistics of nothing may leave no particle any weight
        if "none of them has any weight" not in str(error):
            raise
        return
    assert alarms(found)


RESAMPLINGS = {
    "weights that outlive it": (
        "labels by the prior",
        ("self.particles.log_weights[:] = -np.log(self.count)\n        self.", "self."),
    ),
    "labels of other particles": (
        "labels by the prior",
        ("self.count)\n        self.ancestry.follow(parents)\n", "self.count)\n"),
    ),
}


@pytest.mark.parametrize("what", RESAMPLINGS)
def test_enumeration_catches_a_broken_resampling(what, monkeypatch, seed):
    name, change = RESAMPLINGS[what]
    broken = mutate("thali.engines.clusters.particles", [change])
    monkeypatch.setattr(FilterState, "resample", broken.FilterState.resample)
    assert alarms(p_values(name, seed))


# ---- agreement with the sampler ---------------------------------------------------------------


def test_the_filter_and_the_sampler_agree(rng):
    X = rng.normal(size=(14, 2)) + 2.5 * (np.arange(14) % 2)[:, None]
    settings = {"random_state": 0, "progress": False}
    settings |= {"likelihood": thali.NormalWishart(kappa=0.1, scale=0.5)}
    engine = thali.ParticleFilter(n_particles=4000)
    one = thali.LatentPartition(engine=engine, **settings).fit(X)
    sampler = thali.CollapsedGibbs(sweeps=4000, chains=2)
    other = thali.LatentPartition(engine=sampler, **settings).fit(X)
    # the standard deviation of a pair's difference is about 0.02, and there are 91 of them
    assert np.abs(one.co_clustering_ - other.co_clustering_).max() < 0.1
    means, others = one.fit_.means(), other.fit_.means()
    assert means["n_components"] == pytest.approx(others["n_components"], abs=0.4)
    assert means["alpha"] == pytest.approx(others["alpha"], rel=0.12)


# ---- the record -------------------------------------------------------------------------------


def fit(X, engine, prior=None, likelihood="normal_gamma", **settings):
    prior = prior or thali.DirichletProcess()
    model = thali.LatentPartition(prior, likelihood, engine, random_state=0, progress=False)
    return model.fit(X, **settings)


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 2)) + 6.0 * (np.arange(40) % 3)[:, None]


def check_log_joints(model):
    """Those of the draws are of their labels and numbers, and labels are canonical."""
    fitted = model.fit_
    for draw in model.draws(10):
        at = fitted.model.at(draw.hyper)
        log_joint = at.prior.log_prob(draw.labels) + at.likelihood.log_marginal(
            fitted.data, draw.labels
        )
        assert draw.log_joint == pytest.approx(log_joint, rel=1e-9)
        assert (canonical_labels(draw.labels) == draw.labels).all()
    assert sum(draw.weight for draw in model.draws()) == pytest.approx(1.0)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("likelihood", ["normal_gamma", "normal_wishart"])
def test_log_joints_are_those_of_the_draws(X, likelihood, passes):
    engine = thali.ParticleFilter(n_particles=60, passes=passes)
    model = fit(X, engine, thali.PitmanYor(), likelihood)
    check_log_joints(model)
    assert len(model.history_["log_joint"][0]) == 40 + passes - 1


def test_clusters_find_room(rng):
    X = 100.0 * rng.normal(size=(50, 2))
    prior = thali.DirichletProcess(alpha=200.0)
    with pytest.warns(RuntimeWarning, match="most rows are alone"):
        model = fit(X, thali.ParticleFilter(n_particles=30), prior, thali.NormalGamma(scale=0.01))
    assert model.fit_.means()["n_components"] > 25
    check_log_joints(model)


def test_the_ancestry_follows_parents_back():
    ancestry = Ancestry()
    ancestry.record(np.array([[0, 0, 0], [0, 1, 1]]), 8)
    ancestry.follow(np.array([1, 1, 2]))
    ancestry.record(np.array([[2, 0, 1]]), 8)
    ancestry.record(np.zeros((0, 3), int), 8)
    ancestry.follow(np.array([2, 0, 0]))
    ancestry.follow(np.array([0, 1]))  # only two go on
    assert ancestry.labels(2).tolist() == [[0, 1, 1], [0, 1, 2]]


@pytest.mark.parametrize("likelihood", ["normal_gamma", "normal_wishart"])
def test_a_copy_has_all_that_its_parent_has(X, likelihood):
    """Labels, hyperparameters, and the statistics that follow from both."""
    data, rng = Data.of(X), np.random.default_rng(0)
    likelihoods = {"normal_gamma": thali.NormalGamma(), "normal_wishart": thali.NormalWishart()}
    model = Model(thali.PitmanYor(), likelihoods[likelihood]).resolve(data)
    engine = thali.ParticleFilter(n_particles=30, resample_below=0.0)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    while state.row < 20:
        engine.step(rng, model, data, state)
    before = state.hyper["scale"].copy()
    state.resample(rng)
    assert len(set(state.hyper["scale"])) < len(set(before))
    laws = laws_of_particles(model, data, state.hyper, 30)
    assert all(np.array_equal(*pair) for pair in zip(laws, state.laws, strict=True))
    assert np.array_equal(state.particles.mass, state.hyper["alpha"])
    own = [array.copy() for array in state.by_particle()[-4:]]
    joints = state.particles.log_joints.copy()
    evidence = refill(state.groups, state.laws, state.particles, state.ancestry.labels(30))
    for p, k in enumerate(state.particles.k):
        for kept, made in zip(own, state.by_particle()[-4:], strict=True):
            if kept.shape[2:] != (2,) or likelihood == "normal_gamma":  # but for scratch space
                assert np.array_equal(kept[p, :k], made[p, :k])
    assert np.allclose(joints, filter_module.log_priors(state) + evidence)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_only_what_is_declared_depends_on_hyperparameters(likelihood):
    """Particles share everything else."""
    make, numbers, X, _ = LIKELIHOODS[likelihood]
    data = Data.of(X.astype(float))
    one = make(**numbers).groups(data, 3)
    other = make(**{name: 1.7**i * v for i, (name, v) in enumerate(numbers.items(), 1)})
    other, slots = other.groups(data, 3), slot_fields(make(**numbers), data)
    laws = laws_of(type(one))
    assert not set(laws) & set(slots)
    for name in one._fields:
        same = np.array_equal(getattr(one, name), getattr(other, name))
        assert same or name in laws
        assert (np.shape(getattr(one, name))[:1] == (3,)) or name not in slots


# ---- stops and files --------------------------------------------------------------------------


def states(X, prior, splits, passes=1):
    """The population after rows in calls of so many at most, saved and read after each."""
    data = Data.of(X)
    model = Model(prior, thali.NormalWishart()).resolve(data)
    engine = thali.ParticleFilter(n_particles=25, passes=passes)
    rng = np.random.default_rng(5)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    for most in splits:
        target = state.row + most
        while state.row < min(target, data.n):
            engine.several(rng, model, data, state, target - state.row)
        if len(splits) > 1:
            state = engine.from_arrays(model, data, *engine.to_arrays(state))
    for _ in range(passes - 1):
        engine.step(rng, model, data, state)
        if len(splits) > 1:
            state = engine.from_arrays(model, data, *engine.to_arrays(state))
    return engine.population(rng, model, data, state)


@pytest.mark.parametrize("passes", [1, 2])
def test_neither_the_size_of_calls_nor_files_change_a_draw(X, passes):
    prior = thali.PitmanYor()
    one = states(X, prior, [40], passes)
    other = states(X, prior, [1, 6, 17, 3, 40], passes)
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(one.scalars, other.scalars)
    assert all(np.array_equal(a, b) for a, b in zip(one.packed, other.packed, strict=True))
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-13)


def test_a_filter_that_is_stopped_goes_on_with_a_few(X, monkeypatch):
    monkeypatch.setattr(filter_module, "A_MOMENT", 60.0)  # however busy the machine is
    model = fit(X, thali.ParticleFilter(n_particles=300), time_budget=1e-9)
    assert len(model.fit_) == 20
    assert np.isfinite(model.log_evidence_)
    check_log_joints(model)


def test_rows_that_it_does_not_come_to_are_put_to_their_clusters(X, monkeypatch):
    monkeypatch.setattr(filter_module, "A_MOMENT", -1.0)
    data = Data.of(X)
    model = Model(thali.DirichletProcess(), thali.NormalGamma()).resolve(data)
    engine, rng = thali.ParticleFilter(n_particles=50), np.random.default_rng(0)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    while state.row < 12:
        engine.step(rng, model, data, state)
    found = engine.population(rng, model, data, state)
    assert np.isnan(found.log_evidence)
    assert len(found.packed) == 5
    for packed, scalars in zip(found.packed, found.scalars, strict=True):
        labels = packed.astype(int)
        assert len(labels) == 40
        assert labels.max() == labels[:12].max()  # no row opens a cluster
        at = model.at(dict(zip(state.hyper, scalars[2:], strict=True)))
        log_joint = at.prior.log_prob(labels) + at.likelihood.log_marginal(data, labels)
        assert scalars[1] == pytest.approx(log_joint, rel=1e-9)
        before, sizes = labels[:12], np.bincount(labels[:12])
        own = at.likelihood
        alone = [
            own.log_marginal(X[:12][before == k], np.zeros(sizes[k])) for k in range(len(sizes))
        ]
        for i in range(12, 40):
            logs = [
                np.log(sizes[k]) - alone[k] + own.log_marginal(rows, np.zeros(len(rows)))
                for k, rows in (
                    (k, np.vstack([X[:12][before == k], X[i]])) for k in range(len(sizes))
                )
            ]
            assert labels[i] == np.argmax(logs)


def test_rows_to_come_have_labels_too(X):
    model = fit(X, thali.ParticleFilter(n_particles=40), n_future=4)
    assert len(model.labels_) == 40
    assert all(len(draw.latent) == 44 for draw in model.fit_.draws())


def test_it_is_saved_and_opened(X, tmp_path):
    model = fit(X, thali.ParticleFilter(n_particles=40))
    model.save(tmp_path / "model.thali")
    again = thali.load(tmp_path / "model.thali")
    assert (again.labels_ == model.labels_).all()
    assert again.log_evidence_ == model.log_evidence_
    assert (again.predict(X) == model.predict(X)).all()


# ---- refusals ---------------------------------------------------------------------------------


def test_a_prior_that_is_not_consistent_is_refused(X):
    prior = thali.FlexiblePartition(np.zeros(40))
    with pytest.raises(ValueError, match="ConsistentPartition, which FlexiblePartition does not"):
        fit(X, thali.ParticleFilter(), prior)


def test_missing_entries_are_refused(X):
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="which ParticleFilter cannot deal with"):
        fit(X, thali.ParticleFilter())


def test_too_many_particles_are_refused(X):
    with pytest.raises(MemoryError, match="use fewer particles"):
        fit(X, thali.ParticleFilter(n_particles=10**9), thali.DirichletProcess(1.0))
