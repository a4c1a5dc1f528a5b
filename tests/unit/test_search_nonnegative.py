"""Search for the joint mode of ([Z], A/σ_a), A nonnegative, against enumeration and NNLS."""

from __future__ import annotations

from itertools import product

import numba
import numpy as np
import pytest
from oracles import features as oracles
from oracles.search_problems import OF_CLASSES
from oracles.variational_updates import install
from scipy.optimize import nnls

import thali
from thali.data import Data
from thali.engines.search.heuristics import heuristic
from thali.engines.search.nonnegative_candidates import NonnegativeProblem
from thali.engines.search.nonnegative_polish import NonnegativeForm
from thali.kernels import search_nonnegative
from thali.model import Model
from thali.structures.features import potentials

SCALES = {"sigma_x": 0.5, "sigma_a": 1.0}
FINE = {"sigma_x": 0.2, "sigma_a": 0.3}
EXPONENTIAL = {"sigma_x": 0.5, "sigma_a": 1.0, "law": "exponential"}
PRIORS = OF_CLASSES
CAPS = {2: 7, 3: 5, 4: 3}


def drawn(seed, n, d, scale=1.0):
    """Rows with up to three features, noise of either sign."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, 3)) < 0.5
    return scale * (Z @ np.abs(rng.standard_normal((3, d))) + 0.5 * rng.standard_normal((n, d)))


def features_of(X, Z, sigma_x, sigma_a, law="half_normal"):
    """A ≥ 0 at its best, one column of X after the other, as least squares of longer columns; under
    an exponential law, of ‖L'a − L⁻¹(Z'x − λσ_x²)‖², LL' being Z'Z but for a hair."""
    k, r = Z.shape[1], (sigma_x / sigma_a) ** 2
    if k == 0:
        return np.zeros((0, X.shape[1]))
    if law == "exponential":
        L = np.linalg.cholesky(Z.T @ Z.astype(float) + 1e-11 * np.eye(k))
        left = Z.T @ X - np.sqrt(2.0) / sigma_a * sigma_x**2
        return np.array([nnls(L.T, np.linalg.solve(L, t))[0] for t in left.T]).T
    long = np.concatenate([Z.astype(float), np.sqrt(r) * np.eye(k)])
    return np.array([nnls(long, np.concatenate([x, np.zeros(k)]))[0] for x in X.T]).T


def joint(X, Z, A, sigma_x, sigma_a, law="half_normal"):
    """log P(X | Z, A) + log p(A/s), s = σ_a, or σ_a/√π of exponential entries."""
    noise = -0.5 * np.log(2.0 * np.pi * sigma_x**2) - 0.5 * np.square(X - Z @ A) / sigma_x**2
    if law == "exponential":
        return noise.sum() + (0.5 * np.log(2.0 / np.pi) - np.sqrt(2.0) * A / sigma_a).sum()
    return noise.sum() + (0.5 * np.log(2.0 / np.pi) - 0.5 * np.square(A / sigma_a)).sum()


def highest(X, Z, scales):
    return joint(X, Z, features_of(X, Z, **scales), **scales)


def matrix_of(counts, n):
    """The left-ordered Z of a class."""
    columns = np.repeat(oracles.histories(n), counts, axis=0).astype(int)
    return np.array(sorted(columns.tolist(), reverse=True), int).reshape(-1, n).T


def enumerated(X, prior, scales):
    """Every class with the highest log P(X, A/σ_a, [Z])."""
    n = len(X)
    counts = oracles.classes(n, 3 if prior == "finite" else CAPS[n])
    logs = PRIORS[prior][1](counts, n)
    matrices = [matrix_of(c, n) for c in counts]
    return [(Z, float(p) + highest(X, Z, scales)) for Z, p in zip(matrices, logs, strict=True)]


def problem_of(X, prior, scales, **options):
    return NonnegativeProblem(X, PRIORS[prior][0], **scales, **options)


def exact(X, prior, scales, seed=0, **settings):
    own = {"polish": False, "init": "empty", "n_init": 1, **settings}
    engine = thali.BeamSearch(None, heuristic="admissible", expansion="all", **own)
    likelihood = thali.NonnegativeLinearGaussian(**scales)
    return thali.LatentFeatures(PRIORS[prior][0], likelihood, engine, random_state=seed).fit(X)


SIZES = [(2, 3, SCALES), (3, 2, SCALES), (3, 2, FINE), (2, 3, EXPONENTIAL), (3, 2, EXPONENTIAL)]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("n", "d", "scales"), SIZES)
def test_an_unlimited_search_finds_the_joint_mode_and_says_so(prior, n, d, scales, seed):
    X = drawn(seed, n, d, scales["sigma_a"])
    best_Z, best = max(enumerated(X, prior, scales), key=lambda pair: pair[1])
    assert prior == "finite" or best_Z.shape[1] < CAPS[n]
    model = exact(X, prior, scales, seed)
    assert model.proven_optimal_
    A, Z = model.components_, model.Z_
    counts = np.array([oracles.class_of(Z)])
    told = joint(X, Z, A, **scales) + float(PRIORS[prior][1](counts, n)[0])
    assert told == pytest.approx(best, abs=1e-8)
    unit = scales["sigma_a"] / (np.sqrt(np.pi) if "law" in scales else 1.0)
    units = A.size * np.log(unit)  # the log joint is that of A, as of other engines
    assert model.log_joint_ == pytest.approx(best - units, abs=1e-8)
    assert model.log_joint_upper_bound_ == pytest.approx(best - units, abs=1e-6)
    assert (A >= 0.0).all()


@pytest.mark.slow
def test_four_rows_too_with_polishing(seed):
    X = drawn(seed, 4, 3)
    best = max(value for _, value in enumerated(X, "ibp", SCALES))
    model = exact(X, "ibp", SCALES, polish=True, init="race")
    assert model.proven_optimal_
    assert model.log_joint_ == pytest.approx(best, abs=1e-8)


def test_what_may_not_be_opened_is_in_the_bound():
    X = 3.0 * np.eye(3)
    best = max(value for _, value in enumerated(X, "ibp", SCALES))
    model = exact(X, "ibp", SCALES, most_new=0)
    assert model.n_components_ == 0
    assert model.log_joint_ < best <= model.log_joint_upper_bound_
    assert not model.proven_optimal_


def follow(problem, Z):
    """Scores on the way to a left-ordered Z, to where it was left out, with the bound of that."""
    at, opened = problem.root(), Z.argmax(axis=0)
    future = heuristic("admissible", problem, np.random.default_rng(0))
    for i, row in enumerate(Z):
        children, lost = problem.expand(at, future.future(i + 1), expansion="all", width=None)
        new = int((opened == i).sum())
        same = [c for c in children if c.new == new and np.array_equal(c.z, row[: at.k])]
        assert len(same) <= 1  # every class once
        if not same:
            yield lost
            return
        at = same[0]
        yield at.score


def worst_bound(seed, bound="convex"):
    """By how much a score was below what its candidate can become, at most."""
    worst = -np.inf
    for prior, scales in product(PRIORS, (SCALES, FINE, EXPONENTIAL)):
        X = drawn(seed, 3, 2, scales["sigma_a"])
        problem = problem_of(X, prior, scales, bound=bound)
        classes = enumerated(X, prior, scales)
        order = np.argsort([-value for _, value in classes])[:25]
        for pick in order:
            Z, value = classes[pick]
            worst = max(worst, *(value - score for score in follow(problem, Z)))
    return worst


@pytest.mark.parametrize("bound", ["convex", "paper"])
def test_no_score_is_below_what_a_candidate_can_become(bound, seed):
    assert worst_bound(seed, bound) < 1e-8


def distance_of_rows(seed, n=6, d=4, times=6, scales=SCALES):
    """How far from the truth evidences are that were made row by row, with the last row's bits
    chosen at random, and whether a quick one was above."""
    off = 0.0
    X, rng = drawn(seed, n, d), np.random.default_rng(seed)
    problem = problem_of(X, "ibp", scales, bound="so_far")
    each = X.shape[1] * joint(np.zeros((0, 1)), np.zeros((0, 1)), np.zeros((1, 1)), **scales)
    for _ in range(times):
        at = problem.root()
        for _ in range(len(X)):
            children, _ = problem.expand(at, 0.0, expansion="all", width=12)
            if at.k:
                fits = problem.fits(at)
                some = children[:20]
                rows = np.array([c.z for c in some]), np.array([c.new for c in some])
                assert np.all(fits.quick(*rows) <= fits.best(*rows) + 1e-8)
                assert np.all(fits.best(*rows) <= fits.peak + 1e-8)
            at = children[rng.integers(min(8, len(children)))]
        Z = at.matrix().astype(int)
        best = highest(X, Z, scales)
        counts = np.array([oracles.class_of(Z)])
        prior = float(PRIORS["ibp"][1](counts, len(X))[0])
        off = max(off, abs(at.evidence + at.k * each - best), abs(at.score - best - prior))
        A = problem.kept(at).A
        off = max(off, abs(joint(X, Z, A, **scales) - best))
        again = problem.kept(problem.restored(Z.astype(bool), at.score, at.evidence))
        if "law" not in scales:  # else it may be shared in any way by equal columns
            off = max(off, float(np.abs(again.A - A).max(initial=0.0)))
    return off


@pytest.mark.parametrize("scales", [SCALES, EXPONENTIAL])
def test_scores_made_row_by_row_are_those_made_at_once(scales, seed):
    assert distance_of_rows(seed, scales=scales) < 1e-5


def test_a_beam_within_the_row_finds_the_best_row(seed):
    """Of nearly every candidate on the way of a search."""
    X, same, all_of_them = drawn(seed, 8, 5), 0, 0
    problem = problem_of(X, "ibp", SCALES)
    at = problem.root()
    for n in range(8):
        ends = [problem.expand(at, 0.0, expansion=how, width=10)[0] for how in ("all", "within")]
        best, found = (children[0].score for children in ends)
        assert found <= best + 1e-8
        same += found > best - 1e-6
        all_of_them += 1
        at = ends[0][min(n % 3, len(ends[0]) - 1)]
    assert same >= all_of_them - 1


def few_rows(seed, scales=SCALES):
    """Of data so small that Python is fast enough."""
    return distance_of_rows(seed, 4, 2, 2, scales)


def few_exponential_rows(seed):
    return few_rows(seed, EXPONENTIAL)


def gains(seed, scales=SCALES):
    """How far from the truth a pass is from what it says it gains."""
    from thali.kernels import search_nonnegative  # which may be a broken one

    rng, off = np.random.default_rng(seed), 0.0
    for i in range(12):
        X, of = drawn(seed + i, 6, 5), PRIORS[tuple(PRIORS)[i % 3]][0]
        tables = of.tables(6)
        Z = (rng.random((6, 3)) < 0.5).astype(np.uint8)
        Z[rng.integers(6), ~Z.any(axis=0)] = 1
        A = np.abs(rng.standard_normal((3, 5)))
        before = joint(X, Z, A, **scales) + of.log_prob(Z)
        problem = problem_of(X, tuple(PRIORS)[i % 3], scales)
        each = problem.prior.weight
        numbers = potentials(tables), each, tables.capacity, 0.25, problem.r, problem.pull
        gain = search_nonnegative.climb(X, Z, A, *numbers)
        used = Z.any(axis=0)
        after = joint(X, Z[:, used], A[used], **scales) + of.log_prob(Z[:, used])
        off = max(off, abs(after - before - gain), -gain)
    return off


def gains_of_exponentials(seed):
    return gains(seed, EXPONENTIAL)


@pytest.mark.parametrize("scales", [SCALES, EXPONENTIAL])
def test_a_pass_gains_what_it_says(scales, seed):
    assert gains(seed, scales) < 1e-8


@pytest.mark.parametrize("scales", [SCALES, EXPONENTIAL])
def test_polishing_ends_where_no_bit_and_no_feature_of_ones_own_is_better(scales, seed):
    X = drawn(seed, 6, 4)
    model = Model(thali.IBP(2.0), thali.NonnegativeLinearGaussian(**scales))
    form, hyper = NonnegativeForm(model, Data(X)), {**SCALES, "alpha": 2.0}
    Z = np.zeros((6, 0), bool)
    parameters = form.parameters(Z, hyper)
    for _ in range(50):
        last = Z
        Z, parameters = form.climb(np.random.default_rng(0), Z, parameters, hyper)
        if Z.shape == last.shape and (Z == last).all():
            break
    A = parameters["A"]
    best = highest(X, Z, scales) + thali.IBP(2.0).log_prob(Z)
    assert form.log_joint(Z, parameters, hyper) == pytest.approx(best, abs=1e-8)
    for i, k in product(range(6), range(Z.shape[1])):  # of the others' features none changes
        other = Z.copy()
        other[i, k] = not other[i, k]
        turned = A.copy()
        turned[k] = features_of(
            X - np.delete(other, k, 1) @ np.delete(A, k, 0), other[:, [k]], **scales
        )[0]
        used = other.any(axis=0)
        value = joint(X, other[:, used], turned[used], **scales)
        assert value + thali.IBP(2.0).log_prob(other[:, used]) <= best + 1e-8
    for i in range(6):
        wider = np.column_stack([Z, np.arange(6) == i])
        a = features_of(X - Z @ A, wider[:, -1:], **scales)
        value = joint(X, wider, np.vstack([A, a]), **scales)
        assert value + thali.IBP(2.0).log_prob(wider) <= best + 1e-8


MUTANTS = {
    "features of either sign": ("max(0.0, left / whole)", "left / whole", few_rows),
    "no ridge": ("ridge[k] = r / new[row]", "ridge[k] = r", few_rows),
    "own features that do not share": (
        "own_C[k, i] = own_C[i, k] = bits[row, i]", "own_C[k, i] = 0.0", few_rows,
    ),
    "ended too soon": ("SWEEPS = 20_000", "SWEEPS = 2", few_rows),
    "the rate forgotten": (
        "own_T[k] = x - pull", "own_T[k] = x", few_exponential_rows,
    ),
    "the rate doubled": (
        "settle(C, T - pull, A, ridge, close)", "settle(C, T - 2.0 * pull, A, ridge, close)",
        few_exponential_rows,
    ),
    "passes that forget the rate": ("s[c] -= pull", "s[c] -= 0.0", gains_of_exponentials),
    "residuals of the feature too": (
        "E[i, c] += A[f, c]\n                    s[c]", "s[c]", gains,
    ),
}  # fmt: skip


def noticed(check):
    """Whether a check fails, by its number or by what it asserts on the way."""
    try:
        return not check(0) < 1e-5
    except AssertionError:
        return True


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, monkeypatch):
    old, new, check = MUTANTS[name]
    with monkeypatch.context() as plain:
        plain.setattr(numba.config, "DISABLE_JIT", True)
        install(monkeypatch, search_nonnegative.__name__, [(old, new)])
    assert noticed(check)


# the engine


@pytest.mark.parametrize("law", ["half_normal", "exponential"])
def test_features_without_negative_entries_are_found_again(law):
    data = thali.datasets.images(n=30, random_state=2)
    engine = thali.BeamSearch(n_init=2)
    likelihood = thali.NonnegativeLinearGaussian(law=law)
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0).fit(data.X)
    assert thali.evaluation.match_assignments(data.Z, model.Z_).distance <= 3
    form = NonnegativeForm(Model(model.prior_, model.likelihood_), Data(data.X))
    hyper = model.best_.hyper
    truth = form.answer(data.Z.astype(bool), form.parameters(data.Z, hyper), hyper)
    log_joint = form.log_joint(truth.Z, truth.parameters, hyper) + form.offset(truth)
    assert model.log_joint_ >= log_joint - 1e-9
    assert not model.proven_optimal_
    assert (model.transform(data.X) == model.Z_).mean() > 0.9


def test_the_unit_of_the_data_changes_nothing():
    X = thali.datasets.images(n=20, random_state=3).X
    found = []
    for unit in (1.0, 1000.0):
        likelihood = thali.NonnegativeLinearGaussian(0.5 * unit, 0.7 * unit)
        engine = thali.BeamSearch(5, n_init=1)
        model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0).fit(unit * X)
        found.append(model)
    assert np.array_equal(found[0].Z_, found[1].Z_)
    assert np.allclose(1000.0 * found[0].components_, found[1].components_, atol=1e-3)


def test_the_noise_goes_to_its_best_and_the_size_of_features_stays():
    X = drawn(1, 8, 6)
    model, data = Model(thali.IBP(), thali.NonnegativeLinearGaussian()).resolve(Data(X)), Data(X)
    form, start = NonnegativeForm(model, data), model.start(data)
    Z = np.random.default_rng(2).random((8, 2)) < 0.5
    hyper = form.best_hyper(Z, form.parameters(Z, start), start)
    assert hyper["sigma_a"] == start["sigma_a"]
    A, v = form.parameters(Z, start)["A"], data.mean_square
    variance = (0.01 * v + 0.5 * np.square(X - Z @ A).sum()) / (1.0 + 0.5 * X.size + 0.5)
    assert hyper["sigma_x"] == pytest.approx(np.sqrt(variance), rel=0.1)


def test_heuristics_that_need_features_integrated_out_are_refused():
    engine = thali.BeamSearch(heuristic="cluster")
    with pytest.raises(ValueError, match=r"'cluster' needs.*NonnegativeLinearGaussian cannot"):
        thali.LatentFeatures(likelihood="nonnegative_linear_gaussian", engine=engine).fit(np.eye(4))


@pytest.mark.parametrize("heuristic_name", ["inadmissible", "trivial", "admissible"])
def test_a_search_goes_into_a_file_and_back(heuristic_name, tmp_path):
    X = drawn(4, 10, 4)
    engine = thali.BeamSearch(4, heuristic=heuristic_name, n_init=2)
    likelihood = thali.NonnegativeLinearGaussian(**SCALES)
    model = thali.LatentFeatures(thali.IBP(1.0), likelihood, engine, random_state=0).fit(X)
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert np.array_equal(model.Z_, again.Z_)
    assert np.allclose(model.components_, again.components_)
    assert again.log_joint_upper_bound_ == model.log_joint_upper_bound_


def test_a_state_goes_into_a_file_and_back(rng):
    X = drawn(5, 5, 3)
    model, data = Model(thali.IBP(1.0), thali.NonnegativeLinearGaussian(**SCALES)), Data(X)
    engine = thali.BeamSearch(width=None, heuristic="admissible", init="empty")
    start = thali.starts.empty_start(rng, model, data)
    state = engine.begin(rng, model, data, start)
    while not engine.finished(state):
        state = engine.from_arrays(model, data, *engine.to_arrays(state))
        engine.step(rng, model, data, state)
    assert state.proven
    alone = engine.begin(rng, model, data, start)
    while not engine.finished(alone):
        engine.step(rng, model, data, alone)
    assert alone.best.value == pytest.approx(state.best.value, abs=1e-9)
