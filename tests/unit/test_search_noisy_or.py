"""Search for the joint mode of ([Z], Y) of noisy-or models, against enumeration of both."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from oracles.search_problems import OF_CLASSES

import thali
from thali.data import Data
from thali.engines.search.best_first import search
from thali.engines.search.heuristics import heuristic
from thali.engines.search.kept_candidates import MOST_FEATURES, MOST_NEW, KeptProblem
from thali.engines.search.kept_polish import KeptForm, best_parameters, climb
from thali.kernels import climb_kept
from thali.model import Model
from thali.starts import Start
from thali.structures.features import potentials

RARE = {"epsilon": 0.05, "lam": 0.8, "p": 0.3}
OFTEN = {"epsilon": 0.02, "lam": 0.7, "p": 0.6}  # an active cause is the likelier one
PRIORS = OF_CLASSES | {
    "ibp, many": (thali.IBP(6.0), lambda counts, n: oracles.log_prior_ibp(counts, n, 6.0)),
}
CAPS = {2: 6, 3: 5, 4: 3}


def drawn(seed, n, t, share=0.5):
    return (np.random.default_rng(seed).random((n, t)) < share).astype(np.uint8)


def matrix_of(counts, n):
    """The left-ordered Z of a class."""
    columns = np.repeat(oracles.histories(n), counts, axis=0).astype(int)
    return np.array(sorted(columns.tolist(), reverse=True), int).reshape(-1, n).T


def highest(X, Z, rates):
    """max over Y of log P(X, Y | Z), every setting of every column looked at."""
    k = Z.shape[1]
    settings = np.array(list(product((0, 1), repeat=k)), int).reshape(2**k, k)
    logs = [
        [oracles.noisy_or_entry(x, c, rates["epsilon"], rates["lam"]) for c in range(k + 1)]
        for x in (0, 1)
    ]
    active = settings.sum(axis=1)
    prior = active * np.log(rates["p"]) + (k - active) * np.log(1 - rates["p"])
    each = np.array(logs)[X[:, :, None], (Z @ settings.T)[:, None]].sum(axis=0) + prior
    return float(each.max(axis=1).sum())


def enumerated(X, prior, rates):
    """Every class with its max over Y of log P(X, Y, [Z]), and log P([Z])."""
    n = len(X)
    counts = oracles.classes(n, 3 if prior == "finite" else CAPS[n])
    logs = PRIORS[prior][1](counts, n)
    return [
        (matrix_of(c, n), float(log) + highest(X, matrix_of(c, n), rates), float(log))
        for c, log in zip(counts, logs, strict=True)
    ]


def problem_of(X, prior, rates, **options):
    law = thali.NoisyOr(**rates).count_probabilities(MOST_FEATURES + MOST_NEW)
    return KeptProblem(X, PRIORS[prior][0], law, **options)


def child_of(problem, at, row, new, **options):
    """The successor of a candidate with this row, or None, and the bound of those left out."""
    children, lost = problem.expand(at, 0.0, expansion="all", width=None, **options)
    same = [c for c in children if c.new == new and np.array_equal(c.z, row[: at.k])]
    assert len(same) <= 1  # every class once
    return (same[0] if same else None), lost


def follow(problem, Z):
    """The candidates on the way to a left-ordered Z, up to one that was left out."""
    at, opened = problem.root(), Z.argmax(axis=0)
    for i, row in enumerate(Z):
        at, lost = child_of(problem, at, row, int((opened == i).sum()))
        yield at, lost
        if at is None:
            return


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("n", "t", "rates"), [(2, 4, RARE), (3, 3, RARE), (3, 3, OFTEN)])
def test_an_unlimited_search_finds_the_joint_mode_and_says_so(prior, n, t, rates, seed):
    X = drawn(seed, n, t)
    found = enumerated(X, prior, rates)
    best = max(value for _, value, _ in found)
    engine = thali.BeamSearch(None, expansion="all", polish=False, init="empty", n_init=1)
    model = thali.LatentFeatures(
        PRIORS[prior][0], thali.NoisyOr(**rates), engine, random_state=seed
    ).fit(X)
    assert model.proven_optimal_
    assert model.log_joint_ == pytest.approx(best, abs=1e-9)
    assert model.log_joint_upper_bound_ == pytest.approx(best, abs=1e-6)
    counts = np.array([oracles.class_of(model.Z_)])
    told = oracles.noisy_or_joint(X, model.Z_, model.components_, **rates)
    assert told + float(PRIORS[prior][1](counts, n)[0]) == pytest.approx(best, abs=1e-9)
    assert set(np.unique(model.components_)) <= {0.0, 1.0}
    assert model.best_.log_joint == pytest.approx(best, abs=1e-9)


def test_four_rows_too(seed):
    X = drawn(seed, 4, 4)
    best = max(value for _, value, _ in enumerated(X, "ibp", RARE))
    engine = thali.BeamSearch(None, heuristic="admissible", expansion="all")
    likelihood = thali.NoisyOr(**RARE)
    model = thali.LatentFeatures(thali.IBP(1.5), likelihood, engine, random_state=0).fit(X)
    assert model.proven_optimal_
    assert model.log_joint_ == pytest.approx(best, abs=1e-9)


def test_what_may_not_be_opened_is_in_the_bound():
    X = np.ones((3, 6), np.uint8)
    engine = thali.BeamSearch(None, expansion="all", most_new=0, polish=False, init="empty")
    likelihood = thali.NoisyOr(**RARE)
    model = thali.LatentFeatures(thali.IBP(1.5), likelihood, engine, random_state=0).fit(X)
    best = max(value for _, value, _ in enumerated(X, "ibp", RARE))
    assert model.n_components_ == 0
    assert model.log_joint_ < best <= model.log_joint_upper_bound_
    assert not model.proven_optimal_


@pytest.mark.parametrize("options", [{}, {"longest": 2}, {"bound": "paper"}])
@pytest.mark.parametrize("rates", [RARE, OFTEN])
def test_no_score_is_below_what_a_candidate_can_become(options, rates, seed):
    X = drawn(seed, 3, 3)
    for prior in ("ibp, many", "finite"):
        problem = problem_of(X, prior, rates, **options)
        classes = enumerated(X, prior, rates)
        rng = np.random.default_rng(seed)
        for pick in rng.choice(len(classes), min(40, len(classes)), replace=False):
            Z, value, _ = classes[pick]
            for at, lost in follow(problem, Z):
                bound = lost if at is None else at.score
                assert bound >= value - 1e-9


@pytest.mark.parametrize("rates", [RARE, OFTEN])
def test_scores_made_row_by_row_are_those_made_at_once(rates, seed):
    X, rng = drawn(seed, 5, 6), np.random.default_rng(seed)
    problem = problem_of(X, "ibp, many", rates, bound="so_far")
    each = X.shape[1] * np.log(max(rates["p"], 1 - rates["p"]))
    for _ in range(5):
        at = problem.root()
        for _ in range(len(X)):
            children, _ = problem.expand(at, 0.0, expansion="all", width=None)
            at = children[rng.integers(min(8, len(children)))]
        Z = at.matrix().astype(int)
        best = highest(X, Z, rates)
        assert at.evidence + at.k * each == pytest.approx(best, abs=1e-9)
        counts = np.array([oracles.class_of(Z)])
        prior = float(PRIORS["ibp, many"][1](counts, len(X))[0])
        assert at.score == pytest.approx(best + prior, abs=1e-9)
        Y = problem.parameters(at)
        assert oracles.noisy_or_joint(X, Z, Y, **rates) == pytest.approx(best, abs=1e-9)
        assert problem.is_exact(at)
        again = problem.restored(Z.astype(bool), at.score, at.evidence)
        for ours, theirs in zip(problem.kept(at).lists, problem.kept(again).lists, strict=True):
            assert np.array_equal(ours, theirs)


def test_short_lists_keep_scores_above_the_truth_and_own_up(seed):
    """What is left out of lists counts with its bound, and an answer says if it may be better."""
    owned_up = 0
    for i in range(8):
        X = drawn(seed + i, 3, 4)
        best = max(value for _, value, _ in enumerated(X, "ibp, many", RARE))
        problem = problem_of(X, "ibp, many", RARE, longest=1)
        future = heuristic("trivial", problem, np.random.default_rng(0))
        answer = search(problem, future, width=None, expansion="all").answer
        assert answer.score >= best - 1e-9
        Z, Y = answer.matrix(), problem.parameters(answer)
        counts = np.array([oracles.class_of(Z)])
        value = oracles.noisy_or_joint(X, Z, Y, **RARE)
        value += float(PRIORS["ibp, many"][1](counts, 3)[0])
        assert value <= best + 1e-9
        if problem.is_exact(answer):
            assert value == pytest.approx(best, abs=1e-9)
        owned_up += not problem.is_exact(answer)
    assert owned_up > 0  # such short lists must lose something


def test_an_answer_in_doubt_is_not_called_proven(monkeypatch):
    X = drawn(3, 3, 4)
    engine = thali.BeamSearch(None, expansion="all", polish=False, init="empty", n_init=1)
    model = thali.LatentFeatures(thali.IBP(6.0), thali.NoisyOr(**RARE), engine, random_state=0)
    assert model.fit(X).proven_optimal_
    monkeypatch.setattr(KeptProblem, "is_exact", lambda self, candidate: False)
    monkeypatch.setattr(KeptProblem, "parameters", lambda self, at: np.zeros((at.k, 4), np.uint8))
    worse = model.fit(X)
    assert not worse.proven_optimal_
    assert worse.log_joint_upper_bound_ > worse.log_joint_ + 0.1


# polishing


@pytest.mark.parametrize("prior", ["ibp, many", "finite", "two"])
@pytest.mark.parametrize("rates", [RARE, OFTEN])
def test_a_pass_gains_what_it_says(prior, rates, seed):
    rng = np.random.default_rng(seed)
    X = drawn(seed, 6, 8)
    of = PRIORS[prior][0]
    tables = of.tables(6)
    for _ in range(10):
        Z = (rng.random((6, 3)) < 0.5).astype(np.uint8)
        Z[rng.integers(6), ~Z.any(axis=0)] = 1
        Y = (rng.random((3, 8)) < 0.5).astype(np.uint8)
        before = oracles.noisy_or_joint(X, Z, Y, **rates) + of.log_prob(Z)
        rates_of = thali.NoisyOr(**rates).count_probabilities(4)
        gain = climb_kept.climb(X, Z, Y, *rates_of, potentials(tables), tables.capacity)
        used = Z.any(axis=0)
        after = oracles.noisy_or_joint(X, Z[:, used], Y[used], **rates) + of.log_prob(Z[:, used])
        assert gain == pytest.approx(after - before, abs=1e-9)
        assert gain >= 0.0


def test_the_best_parameters_given_z_are_the_best(seed):
    X, rng = drawn(seed, 5, 6), np.random.default_rng(seed)
    for k, rates in product(range(5), (RARE, OFTEN)):
        Z = (rng.random((5, k)) < 0.5).astype(np.uint8)
        Y = best_parameters(thali.NoisyOr(**rates), X, Z, None)
        best = highest(X, Z.astype(int), rates)
        assert oracles.noisy_or_joint(X, Z, Y, **rates) == pytest.approx(best, abs=1e-9)


def test_polishing_ends_where_no_bit_and_no_cause_of_ones_own_is_better(seed):
    X, data = drawn(seed, 5, 7), Data(drawn(seed, 5, 7).astype(float))
    model = Model(thali.IBP(2.0), thali.NoisyOr(**RARE))
    Z, Y = np.zeros((5, 0), bool), np.zeros((0, 7), np.uint8)
    for _ in range(50):
        last = Z, Y
        Z, Y = climb(model, data, Z, Y)
        if Z.shape == last[0].shape and (Z == last[0]).all() and (Y == last[1]).all():
            break

    def value(Z, Y):
        return oracles.noisy_or_joint(X, Z, Y, **RARE) + thali.IBP(2.0).log_prob(Z)

    best = value(Z, Y)
    found = KeptForm(model, data).log_joint(Z, {"A": Y}, {**RARE, "alpha": 2.0})
    assert found == pytest.approx(best, abs=1e-9)
    for i, k in product(range(5), range(Z.shape[1])):
        other = Z.copy()
        other[i, k] = not other[i, k]
        used = other.any(axis=0)
        assert value(other[:, used], Y[used]) <= best + 1e-9
    for i in range(5):
        wider = np.column_stack([Z, np.arange(5) == i])
        for y in product((0, 1), repeat=7):
            assert value(wider, np.vstack([Y, y])) <= best + 1e-9


def test_rates_go_to_their_best():
    """p has a closed form; of the others, no number near is better."""
    X = drawn(1, 6, 30)
    likelihood = thali.NoisyOr(thali.Beta(2.0, 8.0), thali.Beta(4.0, 2.0), thali.Beta(2.0, 4.0))
    model, data = Model(thali.IBP(thali.Gamma(2.0, 1.0)), likelihood), Data(X.astype(float))
    Z = drawn(2, 6, 2).astype(bool)
    Y = drawn(3, 2, 30, 0.3)
    form, start = KeptForm(model, data), model.start(data)
    hyper = form.best_hyper(Z, {"A": Y}, start)
    assert hyper["p"] == pytest.approx((Y.sum() + 1.0) / (Y.size + 4.0), rel=1e-4)
    harmonic = (1.0 / np.arange(1, 7)).sum()
    assert hyper["alpha"] == pytest.approx((2.0 + 2.0 - 1.0) / (1.0 + harmonic), rel=1e-4)

    def value(rates):
        laws = {"epsilon": (2.0, 8.0), "lam": (4.0, 2.0), "p": (2.0, 4.0)}
        prior = sum(
            (a - 1) * np.log(rates[k]) + (b - 1) * np.log1p(-rates[k]) for k, (a, b) in laws.items()
        )
        return prior + oracles.noisy_or_joint(X, Z, Y, **rates)

    rates = {k: hyper[k] for k in ("epsilon", "lam", "p")}
    for name, factor in product(rates, (0.99, 1.01)):
        assert value({**rates, name: rates[name] * factor}) <= value(rates) + 1e-9
    after, gain = form.improve(np.random.default_rng(0), form.answer(Z, {"A": Y}, start))
    assert gain > 0.0
    assert after.hyper.keys() == hyper.keys()


def test_without_causes_rates_that_nothing_speaks_of_stay():
    model, data = Model(thali.IBP(), thali.NoisyOr()), Data(np.zeros((4, 5)))
    start = model.start(data)
    none = {"A": np.zeros((0, 5), np.uint8)}
    after = KeptForm(model, data).best_hyper(np.zeros((4, 0), bool), none, start)
    assert (after["lam"], after["p"]) == (start["lam"], start["p"])
    assert 0.0 < after["epsilon"] < start["epsilon"]


# the engine


def planted(seed, n=20, k=3, t=60):
    rng = np.random.default_rng(seed)
    while True:
        Z = rng.random((n, k)) < 0.4
        if Z.any(axis=0).all() and len(np.unique(Z, axis=1).T) == k:
            break
    likelihood = thali.NoisyOr(epsilon=0.01, lam=0.9, p=0.1)
    Y = likelihood.sample_features(rng, k, t)
    return Z, Y.astype(np.uint8), likelihood.sample(rng, Z, Y)


@pytest.mark.parametrize("likelihood", [thali.NoisyOr(0.01, 0.9, 0.1), thali.NoisyOr()])
def test_a_planted_network_is_found_again(likelihood):
    Z, Y, X = planted(0)
    model = thali.LatentFeatures("ibp", likelihood, "beam_search", random_state=0).fit(X)
    assert thali.evaluation.match_assignments(Z, model.Z_).distance == 0
    hyper = model.best_.hyper
    form = KeptForm(Model(model.prior_, model.likelihood_), Data(X))
    truth = form.log_joint(Z, {"A": Y}, hyper)
    assert model.log_joint_ >= truth - 1e-9
    assert model.starts_ == ["patterns"] * 4
    if likelihood == thali.NoisyOr():
        assert not model.proven_optimal_  # rates that were chosen are no mode of all
    assert (model.transform(X) == model.Z_).mean() > 0.9


def test_many_causes_are_searched_within_rows():
    """Twelve nodes with a cause each: lists of Y are not whole any more."""
    X = np.kron(np.eye(12), np.ones((1, 6)))
    engine = thali.BeamSearch(3, order="given", init="empty", n_init=1, polish=False)
    likelihood = thali.NoisyOr(0.01, 0.9, 0.1)
    model = thali.LatentFeatures(thali.IBP(5.0), likelihood, engine, random_state=0).fit(X)
    assert np.array_equal(np.sort(model.Z_.sum(axis=0)), np.ones(12))
    assert np.array_equal(model.Z_.astype(float) @ model.components_, X)
    assert not model.proven_optimal_


@pytest.mark.parametrize(
    ("polish", "steps"), [(True, 0), (True, 1), (False, 0), (False, 1), (False, 3)]
)
def test_a_search_goes_on_where_it_was_left(polish, steps):
    Z, _, X = planted(1)
    data, model = Data(X), Model(thali.IBP(1.0), thali.NoisyOr())
    engine = thali.BeamSearch(polish=polish)
    rng = np.random.default_rng(0)
    start = Start("given", Z, model.start(data))
    state = engine.begin(rng, model, data, start)
    for _ in range(steps):
        engine.step(rng, model, data, state)
    assert (state.polishing if polish else state.search) is not None
    other = engine.from_arrays(model, data, *engine.to_arrays(state))
    ends = []
    for at in (state, other):
        info = engine.step(np.random.default_rng(1), model, data, at)
        while not engine.finished(at):
            info = engine.step(np.random.default_rng(1), model, data, at)
        ends.append((info, engine.population(np.random.default_rng(1), model, data, at)))
    assert ends[0][0] == ends[1][0]
    assert np.array_equal(ends[0][1].packed[0], ends[1][1].packed[0])
    assert np.array_equal(ends[0][1].parameters[0]["A"], ends[1][1].parameters[0]["A"])


def test_an_answer_is_saved_with_its_parameters(tmp_path):
    _, _, X = planted(0, n=8, t=20)
    engine = thali.BeamSearch(5, n_init=2)
    model = thali.LatentFeatures("ibp", "noisy_or", engine, random_state=0).fit(X)
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert np.array_equal(again.components_, model.components_)
    assert again.log_joint_ == model.log_joint_
    assert model.log_joint_ == pytest.approx(model.best_.log_joint, abs=1e-9)
    assert np.array_equal(next(iter(again.draws())).A, model.best_.A)


@pytest.mark.parametrize("name", ["cluster", "neighbor", "neighbors_or"])
def test_heuristics_that_need_features_integrated_out_are_refused(name):
    model = thali.LatentFeatures("ibp", "noisy_or", thali.BeamSearch(heuristic=name))
    with pytest.raises(ValueError, match=f"heuristic='{name}' needs features that can be integr"):
        model.fit(np.eye(4))


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(ValueError, match="needs SearchRows, which Poisson does not have"):
        thali.LatentFeatures("ibp", "poisson", "beam_search").fit(np.eye(4))
    with pytest.raises(ValueError, match="needs 0 or 1"):
        thali.LatentFeatures("ibp", "noisy_or", "beam_search").fit(np.eye(4) * 0.5)
    with pytest.raises(ValueError, match="missing"):
        thali.LatentFeatures("ibp", "noisy_or", "beam_search").fit([[1, None], [0, 1]])


def test_an_unlimited_queue_does_not_make_the_beam_within_a_row_unlimited():
    """Of 2^11 rows with their new dishes it would otherwise look at every one."""
    from thali.engines.search.candidates import WIDE

    X = np.kron(np.eye(12), np.ones((1, 4))).astype(np.uint8)
    problem = problem_of(X, "ibp", RARE)
    at = problem.restored(np.eye(11, dtype=bool), 0.0, 0.0)
    children, lost = problem.expand(at, 0.0, expansion="within", width=None)
    assert 0 < len(children) <= WIDE
    assert lost == np.inf
