"""Every engine of draws × likelihood × prior that the declarations allow, up the ladder.

    enumeration  P(K|X), E[ZZ'|X], E[α|X] and means of the parameters, on tiny data
    flat         data that say nothing give back the prior
    joint        Geweke's test with all hyperparameters inferred, on data with gaps too where engine
                 and likelihood take them; for weighted draws its importance version (see below)
    agreement    with CollapsedGibbs where it runs the same model
    mutant       one broken variant an engine, which enumeration must catch

It is of features; that of partitions is ``test_partition_ladder``.

The grid is made from the registered parts and the capabilities that its parts declare: a new engine
whose draws, weighted or not, follow the posterior, a new prior or likelihood is on it at once, and
fails here until ``WAYS``, ``JOINT`` or ``stories`` tell how to test it. A variational law is no
posterior; its tests are ``unit/test_variational_*.py``. Every statistic of the enumeration is a
mean given K ≤ cap, as in ``test_enumeration``.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from oracles.features import PriorSpec
from scipy import stats
from statistical import test_prior_recovery
from statistical.budget import (
    TESTS,
    alarms,
    batch_means,
    judge,
    p_value_of_difference,
    p_value_of_mean,
    pooled,
)
from statistical.mutants import SINGLETONS_AS_BITS, mutate
from statistical.stories import (
    ALPHA,
    FLAT_DATA,
    STORIES,
    library_prior,
    simulate_alpha,
    simulate_matrix,
)

import thali
from thali.data import Data
from thali.engines.base import BoundOptimizer, Sampler, Search, WeightedSampler
from thali.engines.capabilities import missing_capabilities, takes_missing
from thali.engines.topics.settings import TopicChains
from thali.model import Model
from thali.priors.column_potentials import ColumnPotentials
from thali.registry import ENGINES, speaking_of
from thali.registry import LIKELIHOODS as ALL_LIKELIHOODS
from thali.registry import PRIORS as ALL_PRIORS
from thali.starts import Start
from thali.structures.features import FEATURES

TABLES = ("mixed", "mixed_factors", "probit")  # whose data are tables: test_mixed_columns
LIKELIHOODS, PRIORS = speaking_of(ALL_LIKELIHOODS, FEATURES), speaking_of(ALL_PRIORS, FEATURES)
LIKELIHOODS = {name: own for name, own in LIKELIHOODS.items() if name not in TABLES}
# flexible priors climb a ladder of their own, ``test_flexible_ibp``
PRIORS = {name: cls for name, cls in PRIORS.items() if not issubclass(cls, ColumnPotentials)}

WAYS = {  # the settings under which an engine is another algorithm
    "collapsed_gibbs": {
        "plain": thali.CollapsedGibbs(moves=0),
        "moves": thali.CollapsedGibbs(moves=5),
    },
    "uncollapsed_gibbs": {
        "integrated": thali.UncollapsedGibbs(),
        "slice": thali.UncollapsedGibbs(new_features="slice"),
        "blocks": thali.UncollapsedGibbs(row_blocks=2),
        "moves": thali.UncollapsedGibbs(moves=5),
    },
    "metropolis": {way: thali.Metropolis(new_features=way) for way in ("integrated", "prior")},
    "particle_filter": {
        "conditional": thali.ParticleFilter(150, "conditional", 0.8, rejuvenate=0),
        "prior": thali.ParticleFilter(300, "prior", 0.8, rejuvenate=0),
        "rejuvenated": thali.ParticleFilter(100, "conditional", 0.8, rejuvenate=1),
    },
}
FLAT = {  # cases of test_prior_recovery
    "ibp": "ibp α~Gamma",
    "two_parameter_ibp": "two_parameter β=2.5 α=1",
    "beta_bernoulli": "finite α=3",
    "truncated_ibp": "truncated α~Gamma",
}
JOINT = {
    "ibp": PriorSpec("ibp", ALPHA),
    "two_parameter_ibp": PriorSpec("two_parameter", ALPHA, beta=2.5),
    "beta_bernoulli": PriorSpec("finite", ALPHA, n_components=3),
    "truncated_ibp": PriorSpec("truncated", ALPHA, n_components=2),
}
GAPS = ((0, 0), (1, 1), (2, 0))


def allowed(engine, likelihood, prior, way=None):
    engine = WAYS[engine][way] if way else ENGINES[engine]
    return not missing_capabilities(engine, Model(PRIORS[prior](), likelihood))


SAMPLERS = [
    name
    for name, engine in ENGINES.items()
    if issubclass(engine, Sampler | WeightedSampler) and not issubclass(engine, TopicChains)
]
CELLS = [
    (engine, way, likelihood, variant, prior)
    for engine, likelihood, prior in itertools.product(SAMPLERS, LIKELIHOODS, PRIORS)
    if allowed(engine, LIKELIHOODS[likelihood](), prior)
    for way in WAYS[engine]
    if allowed(engine, LIKELIHOODS[likelihood](), prior, way)
    for variant in STORIES[likelihood]
]
SHARED = [
    cell
    for cell in CELLS
    if cell[0] != "collapsed_gibbs" and allowed("collapsed_gibbs", LIKELIHOODS[cell[2]](), cell[4])
]
WITH_GAPS = [
    cell
    for cell in CELLS
    if takes_missing(ENGINES[cell[0]], Model(PRIORS[cell[4]](), LIKELIHOODS[cell[2]]()))
]


def quick(cell):
    """Not slow: where a likelihood has variants half of its cells, with every pair of parts; of
    single moves those that find new features themselves.

    Of a way, a variant and a prior any two meet in a cell whose places add up to an even number.
    A variant without a name is the likelihood's own, and quick in every cell.
    """
    engine, way, likelihood, variant, prior = cell
    if engine == "metropolis" and (way == "prior" or prior != "ibp"):
        return False
    ways, variants = list(WAYS[engine]), list(STORIES[likelihood])
    places = ways.index(way) + variants.index(variant) + list(PRIORS).index(prior)
    return not variant or places % 2 == 0


def turn(cell):
    """0, 1 or 2, another one for each prior: the priors take turns at the checks."""
    ways = list(dict.fromkeys(cell[:4] for cell in CELLS))
    return (ways.index(cell[:4]) + list(PRIORS).index(cell[4])) % 3


def over(cells, turns=(0, 1, 2)):
    slow = [() if quick(cell) and turn(cell) in turns else pytest.mark.slow for cell in cells]
    cases = [pytest.param(cell, marks=marks) for cell, marks in zip(cells, slow, strict=True)]
    return pytest.mark.parametrize("cell", cases, ids=lambda cell: " ".join(filter(None, cell)))


GRID = over(CELLS)


def parts(cell):
    engine, way, likelihood, variant, prior = cell
    return WAYS[engine][way], STORIES[likelihood][variant], prior


# ---- draws of any engine ------------------------------------------------------------------------
def walk(engine, model, X, seed, sweeps, burn_in=100):
    """(Z, parameters, hyperparameters) of every step of one chain, after its burn-in."""
    rng, data = np.random.default_rng(seed), Data.of(X)
    empty = Start("empty", np.zeros((data.n, 0), bool), model.start(data))
    state = engine.begin(rng, model, data, empty)
    for i in range(sweeps + burn_in):
        engine.step(rng, model, data, state)
        if i >= burn_in:
            kept = getattr(state, "parameters", None)  # which a step may change
            yield state.latent.astype(float), kept and dict(kept), dict(state.hyper)


def populations(engine, model, X, seed, runs):
    """Of many independent runs: log P̂(X), weights, and (Z, None, hyperparameters) of particles."""
    data = Data.of(X)
    empty = Start("empty", np.zeros((data.n, 0), bool), model.start(data))
    for sequence in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(sequence)
        state = engine.begin(rng, model, data, empty)
        for _ in range(engine.steps(data)):
            engine.step(rng, model, data, state)
        found = engine.population(rng, model, data, state)
        names = list(state.hyper)
        draws = [
            (np.unpackbits(Z, axis=0, count=data.n).astype(float), None, dict(zip(names, scalars)))  # noqa: B905
            for Z, scalars in zip(found.packed, found.scalars[:, 2:], strict=True)
        ]
        yield found.log_evidence, found.weights, draws


# ---- enumeration --------------------------------------------------------------------------------
def enumerated(story, prior):
    """The exact means of ``measured``, the cells of K, and the log evidence if it is known."""
    spec, cap = story.priors[prior]
    exact = story.exact(spec, cap)
    n = len(story.tiny)
    cells = pooled(exact.k_probabilities)
    truths = {f"P(K in {cell})": exact.k_probabilities[cell].sum() for cell in cells}
    truths["E[K]"] = exact.k_probabilities @ np.arange(cap + 1)
    truths |= {f"E[ZZ']_{i}{j}": exact.gram[i, j] for i in range(n) for j in range(i, n)}
    if isinstance(spec.alpha, tuple):
        truths["E[α]"] = exact.alpha
    return truths, cells, exact


def measured(Z, hyper, cells):
    gram, K = Z @ Z.T, Z.shape[1]
    found = {f"P(K in {cell})": float(K in cell) for cell in cells}
    found |= {f"E[ZZ']_{i}{j}": v for (i, j), v in np.ndenumerate(gram) if i <= j}
    return found | {"E[K]": float(K), "E[α]": hyper["alpha"]}


def check_enumeration(engine, story, prior, seed, size=1000):
    """P-values of every mean that enumeration knows; ``size`` is of steps, or of runs × 30."""
    truths, cells, exact = enumerated(story, prior)
    spec, cap = story.priors[prior]
    model = Model(library_prior(spec), story.fixed())
    if isinstance(engine, WeightedSampler):
        series = {name: [] for name in [*truths, "evidence"]}
        for log_evidence, weights, draws in populations(
            engine, model, story.tiny, seed, max(size // 30, 40)
        ):
            within = np.array([Z.shape[1] <= cap for Z, _, _ in draws])
            weights = np.exp(log_evidence - exact.log_evidence) * weights * within
            values = [measured(Z, hyper, cells) for Z, _, hyper in draws]
            series["evidence"].append(weights.sum())
            for name, truth in truths.items():
                series[name].append(weights @ np.array([v[name] - truth for v in values]))
        return {
            name: float(stats.ttest_1samp(values, float(name == "evidence")).pvalue)
            for name, values in series.items()
        }
    kept = None
    rows = []
    for Z, parameters, hyper in walk(engine, model, story.tiny, seed, size):
        kept = parameters is not None and bool(story.measures(Z, parameters))
        of_parameters = story.measures(Z, parameters) if kept else {}
        rows.append((Z.shape[1] <= cap, measured(Z, hyper, cells) | of_parameters))
    if kept:
        truths |= story.truths(exact)
    return {
        name: p_value_of_mean(np.array([inside * (v[name] - truth) for inside, v in rows]), 0.0)
        for name, truth in truths.items()
    }


@over(CELLS, turns=(0,))
def test_enumeration(cell, seed):
    judge("ladder", check_enumeration(*parts(cell), seed))


@pytest.mark.slow
@GRID
def test_enumeration_closely(cell, seed):
    judge("ladder", check_enumeration(*parts(cell), seed, size=15_000))


# ---- a flat likelihood gives back the prior -----------------------------------------------------
def check_flat(engine, story, prior, seed, size=1500):
    spec = test_prior_recovery.CASES[FLAT[prior]]
    model = Model(library_prior(spec), story.flat())
    if isinstance(engine, WeightedSampler):
        runs = list(populations(engine, model, FLAT_DATA, seed, size // 100))
        assert all(np.allclose(w * len(w), 1.0, atol=1e-3) for _, w, _ in runs)
        draws = [draw for _, _, draws in runs for draw in draws]
    else:
        draws = list(walk(engine, model, FLAT_DATA, seed, size))
    n = len(FLAT_DATA)
    K = np.array([[Z.shape[1] for Z, _, _ in draws]])
    takers = [np.bincount(Z.sum(axis=0).astype(int), minlength=n + 1)[1:] for Z, _, _ in draws]
    alpha = np.array([[hyper["alpha"] for _, _, hyper in draws]])
    found = test_prior_recovery.p_values(spec, K, np.array([takers]), alpha)
    if draws[0][1] is not None:
        rows = [story.flat_measures(Z, parameters) for Z, parameters, _ in draws]
        for name in rows[0]:
            found[name] = p_value_of_mean(np.array([row[name] for row in rows]), 0.0)
    return found


@over(CELLS, turns=(2,))
def test_a_flat_likelihood_gives_back_the_prior(cell, seed):
    judge("ladder", check_flat(*parts(cell), seed))


@pytest.mark.slow
@GRID
def test_a_flat_likelihood_gives_back_the_prior_closely(cell, seed):
    judge("ladder", check_flat(*parts(cell), seed, size=15_000))


# ---- the joint test -----------------------------------------------------------------------------
# Chains: Geweke (2004). One step given X, then X afresh given the state, has the joint law of
# hyperparameters, Z, parameters and X, which is also simulated forward. Weighted draws have no
# step; but P̂(X) Σ W f(Z, X) has mean P(X) E[f | X], so that with X from any law q
#     E_q[ P̂(X)/q(X) Σ W f(Z, X) ] = E[f] under the joint law.
N, D = 3, 2
FEW, REFERENCE = (2, 1), stats.t(3, scale=1.5)  # rows and columns for weighted draws, and q


def forward(rng, story, spec, draws, shape):
    for _ in range(draws):
        alpha = simulate_alpha(rng, spec)
        hyper = {"alpha": alpha} | story.simulate_hyper(rng)
        Z = simulate_matrix(rng, spec, shape[0], alpha)
        parameters = story.simulate_parameters(rng, Z, hyper, shape[1])
        yield Z, parameters, hyper, story.simulate_data(rng, Z, parameters, hyper)


def successive(rng, engine, story, spec, draws, gaps):
    model = Model(library_prior(spec), story.inferred())
    Z, parameters, hyper, _ = next(forward(rng, story, spec, 1, (N, D)))
    hyper, kept = {**model.prior.start(), **hyper}, True
    for _ in range(draws):
        if not kept:  # integrated out: drawn afresh for new data
            parameters = story.simulate_parameters(rng, Z, hyper, D)
        X = story.simulate_data(rng, Z, parameters, hyper)
        for place in gaps:
            X[place] = np.nan
        data = Data.of(X)
        kept = hasattr(engine, "new_features")
        given = {name: np.array(value) for name, value in parameters.items()} if kept else {}
        start = Start("joint", Z.astype(bool), hyper, parameters=given)
        state = engine.begin(rng, model, data, start)
        engine.step(rng, model, data, state)
        Z, hyper = state.latent.astype(int), dict(state.hyper)
        parameters = getattr(state, "parameters", None) or None  # {} where they are summed out
        if gaps:
            X = state.data.X if kept else state.X
        yield Z, parameters, hyper, X


def of_gaps(Z, X, gaps):
    """Of entries that the engine did not see, and drew."""
    gone = np.array([X[place] for place in gaps])
    size = np.log(np.mean(gone**2) + 0.01)
    beside = gone @ [X[i, 1 - j] for i, j in gaps] / np.mean(X**2 + 0.01)
    return {"size of gaps": size, "K size of gaps": Z.shape[1] * size, "gaps × beside": beside}


def of_joint(story, draws, gaps=()):
    rows = []
    for Z, parameters, hyper, X in draws:
        row = story.statistics(Z, hyper, X) | (of_gaps(Z, X, gaps) if gaps else {})
        if parameters is not None:
            row |= story.statistics_of_parameters(Z, parameters, hyper, X)
        rows.append(row)
    return {name: np.array([row[name] for row in rows], float) for name in rows[-1]}


def check_joint(engine, story, prior, seed, size=1200, gaps=()):
    one, two = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    spec = JOINT[prior]
    if isinstance(engine, WeightedSampler):
        return check_joint_weighted(engine, story, spec, one, seed, size)
    ahead = of_joint(story, forward(one, story, spec, size, (N, D)), gaps)
    chain = of_joint(story, successive(two, engine, story, spec, size, gaps), gaps)
    return {name: p_value_of_difference(ahead[name], chain[name]) for name in chain}


def check_joint_weighted(engine, story, spec, rng, seed, size):
    engine = engine.replace(n_particles=40)
    ahead = of_joint(story, forward(rng, story, spec, 4 * size, FEW))
    model = Model(library_prior(spec), story.inferred())
    rows = []
    for run in np.random.SeedSequence(seed).generate_state(size // 3):
        X = REFERENCE.rvs(size=FEW, random_state=np.random.default_rng([run, 1]))
        ((log_evidence, weights, draws),) = populations(engine, model, X, int(run), 1)
        ratio = np.exp(log_evidence - REFERENCE.logpdf(X).sum())
        found = [story.statistics(Z, hyper, X) for Z, _, hyper in draws]
        row = {name: ratio * (weights @ [f[name] for f in found]) for name in found[0]}
        rows.append(row | {"1": ratio})
    chain = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    found = {"1": float(stats.ttest_1samp(chain["1"], 1.0).pvalue)}
    return found | {
        name: float(stats.ttest_ind(ahead[name], chain[name], equal_var=False)[1])
        for name in ahead.keys() & chain.keys()
    }


@over(CELLS, turns=(1,))
def test_the_joint_law(cell, seed):
    judge("ladder", check_joint(*parts(cell), seed))


@pytest.mark.slow
@GRID
def test_the_joint_law_closely(cell, seed):
    judge("ladder", check_joint(*parts(cell), seed, size=25_000))


@over(WITH_GAPS, turns=(2,))
def test_the_joint_law_with_gaps(cell, seed):
    judge("ladder", check_joint(*parts(cell), seed, gaps=GAPS))


@pytest.mark.slow
@over(WITH_GAPS)
def test_the_joint_law_with_gaps_closely(cell, seed):
    judge("ladder", check_joint(*parts(cell), seed, size=25_000, gaps=GAPS))


# ---- agreement with the collapsed sampler -------------------------------------------------------
def ten_rows(story):
    rng = np.random.default_rng(5)
    Z = (rng.random((10, 2)) < 0.5).astype(int)
    hyper = {name: 0.6 for name in story.laws}
    return story.simulate_data(rng, Z, story.simulate_parameters(rng, Z, hyper, 3), hyper)


def summaries(Z, hyper):
    gram = Z @ Z.T
    shared = gram.sum() - np.trace(gram)
    return {"K": Z.shape[1], "ΣZ": np.trace(gram), "shared": shared, "α": hyper["alpha"]}


def check_agreement(engine, story, prior, seed, size=1500):
    """Of all scales fixed; weighted draws by the ratio of means over independent runs."""
    X, spec = ten_rows(story), JOINT[prior]
    model = Model(library_prior(spec), story.fixed())
    rows = [
        summaries(Z, hyper)
        for Z, _, hyper in walk(thali.CollapsedGibbs(moves=0), model, X, seed, size)
    ]
    gibbs = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if not isinstance(engine, WeightedSampler):
        rows = [summaries(Z, hyper) for Z, _, hyper in walk(engine, model, X, seed + 1, size)]
        return {
            name: p_value_of_difference(gibbs[name], np.array([row[name] for row in rows]))
            for name in gibbs
        }
    logs, means = [], {name: [] for name in gibbs}
    for log_evidence, weights, draws in populations(engine, model, X, seed, size // 50):
        logs.append(log_evidence)
        for name in means:
            means[name].append(weights @ [summaries(Z, h)[name] for Z, _, h in draws])
    ratio = np.exp(np.array(logs) - max(logs))
    ratio /= ratio.mean()
    found = {}
    for name, each in means.items():
        grand = float((ratio * each).mean())
        found[name] = p_value_of_ratio(ratio * (np.array(each) - grand), gibbs[name], grand)
    return found


def p_value_of_ratio(residuals, chain, grand):
    """Independent residuals of a ratio against a chain cut into batches."""
    batches = batch_means(chain, 50)
    of_runs = residuals.std(ddof=1) / np.sqrt(len(residuals))
    spread = np.hypot(of_runs, batches.std(ddof=1) / np.sqrt(len(batches)))
    return float(2.0 * stats.t.sf(abs(grand - batches.mean()) / spread, len(residuals) - 1))


@over(SHARED, turns=(0,))
def test_agreement_with_the_collapsed_sampler(cell, seed):
    judge("ladder", check_agreement(*parts(cell), seed))


# ---- a mutant of each engine --------------------------------------------------------------------
MUTANTS = {  # engine -> where, what is wrong, and the way and size that must notice
    "collapsed_gibbs": ("thali.kernels.collapsed_rows", SINGLETONS_AS_BITS, "plain", 3000),
    # a dish without other takers is sampled like any other, with the odds of one taker
    "uncollapsed_gibbs": (
        "thali.kernels.bit_prior",
        [
            (
                "return prior.log_odds[others] if others > 0 else np.nan",
                "return prior.log_odds[max(others, 1)]",
            )
        ],
        "integrated",
        12_000,
    ),
    "metropolis": (
        "thali.kernels.single_moves",
        [("math.log((k + 1.0) / (k + 2.0)) + delta", "delta")],
        "integrated",
        4000,
    ),
    "particle_filter": (
        "thali.kernels.particle_rows",
        [
            (
                "return new, log_no_new_feature(row) + top + np.log(total)",
                "return new, top + np.log(total)",
            )
        ],
        "conditional",
        1500,
    ),
}
USERS = {  # compiled together with it
    "thali.kernels.bit_prior": ["thali.kernels.given_features"],
    "thali.kernels.scale_steps": ["thali.kernels.collapsed_rows"],
}


def install(patch, module, changes):
    """Put a broken copy of a kernel in its place, and of the kernels compiled against it."""
    import thali.kernels

    broken = mutate(module, changes)
    patch.setitem(sys.modules, module, broken)
    patch.setattr(thali.kernels, module.rsplit(".", 1)[1], broken, raising=False)
    for user in USERS.get(module, []):
        copy = mutate(user, [])
        patch.setitem(sys.modules, user, copy)
        patch.setattr(thali.kernels, user.rsplit(".", 1)[1], copy, raising=False)


@pytest.mark.parametrize("engine", SAMPLERS)
def test_a_mutant_of_each_engine_is_caught(engine, monkeypatch, seed):
    module, changes, way, size = MUTANTS[engine]
    install(monkeypatch, module, changes)
    story = STORIES["linear_gaussian"][""]
    assert alarms(check_enumeration(WAYS[engine][way], story, "ibp", seed, size))


@pytest.mark.slow
def test_a_slice_without_its_weight_is_caught(monkeypatch, seed):
    """The factor 1/π* of the slice level left out."""
    old = "value += np.log(smallest) - np.log(min(smallest, pi))"
    install(monkeypatch, "thali.kernels.bit_prior", [(old, "value += 0.0")])
    story = STORIES["linear_gaussian"][""]
    way = WAYS["uncollapsed_gibbs"]["slice"]
    assert alarms(check_enumeration(way, story, "ibp", seed, size=3000))


@pytest.mark.slow
def test_gaps_filled_with_means_are_caught(monkeypatch, seed):
    """E[x | Z, A] in place of a draw of x."""
    from thali.likelihoods.entries import NormalEntries

    monkeypatch.setattr(NormalEntries, "draw", lambda law, rng: law.mean)
    story = STORIES["linear_gaussian"][""]
    for engine, way in (("collapsed_gibbs", "plain"), ("uncollapsed_gibbs", "integrated")):
        assert alarms(check_joint(WAYS[engine][way], story, "ibp", seed, size=2500, gaps=GAPS))


def test_a_truncation_forgotten_where_alpha_is_drawn_is_caught(monkeypatch, seed):
    """α | Z ~ Gamma(a + K, b + H_N), as if K were not held: that is of another prior."""
    monkeypatch.setattr(thali.TruncatedIBP, "resample", thali.IBP.resample)
    monkeypatch.setattr(thali.TruncatedIBP, "_beta", lambda prior, hyper: 1.0, raising=False)
    story = STORIES["linear_gaussian"][""]
    for engine, way in (("collapsed_gibbs", "plain"), ("uncollapsed_gibbs", "integrated")):
        assert alarms(check_flat(WAYS[engine][way], story, "truncated_ibp", seed, size=3000))
    gibbs = WAYS["collapsed_gibbs"]["plain"]
    assert alarms(check_enumeration(gibbs, story, "truncated_ibp", seed, size=6000))


def test_a_limit_by_which_new_features_share_their_room_is_caught(monkeypatch, seed):
    """As many as the finite prior's unused ones, in place of Poisson many."""
    monkeypatch.setattr("thali.priors.truncated_ibp.held_to", lambda most: most)
    story = STORIES["linear_gaussian"][""]
    for engine, way in (("collapsed_gibbs", "plain"), ("metropolis", "integrated")):
        found = check_enumeration(WAYS[engine][way], story, "truncated_ibp", seed, size=4000)
        assert alarms(found)


def test_the_grid_is_as_large_as_the_declarations():
    likelihoods = {cell[2] for cell in CELLS}
    assert likelihoods == set(LIKELIHOODS)
    assert {cell[0] for cell in CELLS} == set(SAMPLERS)
    kinds = (Sampler, WeightedSampler, BoundOptimizer, Search)  # the last two are no samplers
    assert all(any(issubclass(engine, kind) for engine in ENGINES.values()) for kind in kinds)
    assert all(issubclass(engine, kinds) for engine in ENGINES.values())
    assert {cell[4] for cell in CELLS} == set(PRIORS)
    assert TESTS["ladder"] == 6 * len(CELLS) + 2 * len(WITH_GAPS) + len(SHARED)
