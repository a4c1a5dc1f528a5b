"""Starts: each gives a valid Z; ICA finds planted features; the race keeps the best."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import thali
from thali.data import Data
from thali.model import Model
from thali.registry import STARTS
from thali.starts import Start, given_start, sources
from thali.starts.choosing import Starting
from thali.starts.ica import marchenko_pastur_median, signal_rank
from thali.starts.race import PATIENCE, Finish, Search, rank, won
from thali.structures.feature_changes import change_columns
from thali.structures.features import FEATURES
from thali.structures.labels import canonical_labels

LIKELIHOODS = {"patterns": thali.NoisyOr, "sparse_ica": thali.SparseFactor}  # the others': linear
LINEAR = [name for name in STARTS if name in thali.LinearGaussian.starts]


def parts(X, prior=None, likelihood=thali.LinearGaussian):
    data = Data.of(X)
    return data, Model(prior or thali.IBP(), likelihood()).resolve(data)


OF_CLUSTERS = [name for name in STARTS if name in thali.NormalWishart.starts] + ["fine_kmeans"]
OF_TOPICS = [name for name in STARTS if name in thali.TopicWords.starts]
SHAPES = [(1, 1), (1, 5), (3, 2), (5, 1), (8, 30), (40, 6)]


@pytest.mark.parametrize("name", OF_CLUSTERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_start_of_clusters_is_valid_on_every_shape(name, shape, seed):
    rng = np.random.default_rng(seed)
    for X in (rng.standard_normal(shape), np.zeros(shape), np.ones(shape)):
        data, model = parts(X, thali.DirichletProcess(), thali.NormalGamma)
        labels = STARTS[name](rng, model, data).latent
        assert labels.shape == shape[:1]
        assert (canonical_labels(labels) == labels).all()


@pytest.mark.parametrize("name", OF_TOPICS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_start_of_topics_is_valid_on_every_shape(name, shape, seed):
    rng = np.random.default_rng(seed)
    top = thali.SmoothPartition()
    for prior in (
        thali.HierarchicalDirichletProcess(),
        thali.HierarchicalFlexible(topics=top, slots=60),
    ):
        for X in (rng.poisson(2.0, shape) + np.eye(*shape, dtype=int), np.ones(shape)):
            data, model = parts(csr_array(X), prior, thali.TopicWords)
            latent = STARTS[name](rng, model, data).latent
            assert np.array_equal(latent.lengths, X.sum(axis=1))
            assert all(
                np.array_equal(*pair)
                for pair in zip(latent, model.structure.canonical(latent), strict=True)
            )
            assert len(latent.topic) + latent.dummies.sum() == (prior.places or len(latent.topic))


@pytest.mark.parametrize(
    "name", [n for n in STARTS if n == "prior" or n not in (*OF_CLUSTERS, *OF_TOPICS)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_start_is_valid_on_every_shape(name, shape, seed):
    rng = np.random.default_rng(seed)
    for X in (rng.standard_normal(shape), np.zeros(shape), np.ones(shape)):
        if name == "patterns":
            X = (X > 0.0).astype(float)
        data, model = parts(X, None, LIKELIHOODS.get(name, thali.LinearGaussian))
        start = STARTS[name](rng, model, data)
        assert start.latent.shape[0] == shape[0]
        assert start.latent.dtype == bool
        assert all(np.isfinite(v) and v > 0 for v in start.hyper.values())


@pytest.mark.parametrize("name", LINEAR)
def test_starts_respect_a_finite_prior_and_fixed_scales(name, seed):
    rng = np.random.default_rng(seed)
    data = Data.of(thali.datasets.noisy_nonnegative(60, 50, 8, random_state=0).X)
    model = Model(
        thali.BetaBernoulli(n_components=3), thali.LinearGaussian(sigma_x=2.0, sigma_a=3.0)
    )
    start = STARTS[name](rng, model.resolve(data), data)
    assert start.latent.shape[1] <= 3
    assert (start.hyper["sigma_x"], start.hyper["sigma_a"]) == (2.0, 3.0)


def test_ica_alone_finds_the_planted_features(seed):
    planted = thali.datasets.noisy_nonnegative(500, 200, 10, random_state=1)
    data, model = parts(planted.X)
    start = STARTS["ica"](np.random.default_rng(seed), model, data)
    distance = thali.evaluation.match_assignments(planted.Z, start.latent).distance
    assert distance <= 0.002 * planted.Z.size
    assert abs(start.hyper["sigma_x"] - 1.0) < 0.05


@pytest.mark.parametrize("p", [0.05, 0.21, 0.35, 0.5, [0.21, 0.5] * 4, [0.1, 0.21, 0.35, 0.5] * 2])
def test_two_valued_sources_are_found_however_often_they_are_on(p, seed):
    rng = np.random.default_rng(seed)
    bits = rng.random((3000, 8)) < p
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    scores = bits @ turn + 0.02 * rng.standard_normal((3000, 8))
    found = sources.two_valued_sources(rng, scores - scores.mean(axis=0))
    assert agreement(bits, found) > 0.97


@pytest.mark.parametrize(("contrast", "blind"), [(sources.cube, 0.21), (sources.square, 0.5)])
def test_one_contrast_alone_is_blind_somewhere(contrast, blind, seed):
    """What the choice between two is for."""
    rng = np.random.default_rng(seed)
    bits = rng.random((3000, 8)) < blind
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    scores = bits @ turn + 0.02 * rng.standard_normal((3000, 8))
    found = sources.independent_sources(rng, scores - scores.mean(axis=0), contrast)
    assert agreement(bits, sources.split_in_two(found)[0]) < 0.9


def agreement(bits, found):
    """The share of entries that the column nearest to a planted one has right, at the worst."""
    same = (bits[:, :, None] == found[:, None, :]).mean(axis=0)
    return np.maximum(same, 1.0 - same).max(axis=1).min()


def test_rank_of_noise_is_zero_and_of_signal_its_own(seed):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((300, 200))
    assert signal_rank(Data(noise)) <= 1
    signal = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 200))
    assert signal_rank(Data(noise + 3.0 * signal)) == 5


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_marchenko_pastur_median(beta, seed):
    n = 1500
    E = np.random.default_rng(seed).standard_normal((n, int(beta * n)))
    values = np.linalg.eigvalsh(E.T @ E / n)
    assert np.isclose(np.median(values), marchenko_pastur_median(beta), rtol=0.03)


def test_split_in_two_is_the_best_cut(seed):
    x = np.random.default_rng(seed).standard_normal((9, 1))

    def within(cut):
        return sum(((x[g] - x[g].mean()) ** 2).sum() for g in (cut, ~cut) if g.any())

    best = min(within((x >= c)[:, 0]) for c in np.sort(x[:, 0])[1:])
    assert np.isclose(within(sources.split_in_two(x)[0][:, 0]), best)


def test_race_ranks_by_log_joint_and_drops_the_hopeless():
    def finish(name, value):
        return Finish(Start(name, np.zeros((2, 0), bool), {}), value)

    field = [finish("far", -2000.0), finish("good", -1000.5), finish("best", -1000.0)]
    assert [s.name for s in rank(field, 3)] == ["best", "good", "best"]
    assert [s.name for s in rank([finish("a", -np.inf)], 2)] == ["a", "a"]


def test_a_search_never_loses_the_best_point_and_finds_better_ones(seed):
    rng = np.random.default_rng(seed)
    truth = rng.random((20, 3)) < 0.5
    doubled = np.column_stack([truth, truth[:, 0] & truth[:, 1]])

    def walk(_, start, sweeps):
        score = -float(thali.evaluation.match_assignments(truth, start.latent).distance)
        return Finish(start, score)

    begin = walk(rng, Start("doubled", doubled, {}), 0)
    search = Search(rng, begin, walk, FEATURES)
    levels = []
    for _ in range(40):
        search.rounds(5)
        levels.append(search.best.level)
    assert levels == sorted(levels)
    assert levels[-1] > begin.level
    assert search.failures <= PATIENCE
    still = Search(rng, begin, walk, FEATURES)
    still.rounds(0)
    assert still.best == begin


def searched(level, latent, spread=1.0, step=4.0):
    """A search that came to this, and wandered so far in a round."""
    finish = Finish(Start("any", latent, {}), level, spread)
    search = Search(np.random.default_rng(0), finish, None, FEATURES)
    search.steps = [step]
    return search


def test_a_race_is_won_when_most_agree(seed):
    rng = np.random.default_rng(seed)
    Z = rng.random((40, 4)) < 0.5
    near, other = Z[:, ::-1].copy(), rng.random((40, 4)) < 0.5
    near[:2, 0] ^= True  # two bits away, and columns in another order
    best, second, third = searched(-100.0, Z), searched(-101.0, near), searched(-102.0, Z)
    assert won([best, second, third, searched(-110.0, other)])
    assert not won([best, second, searched(-104.0, Z), searched(-110.0, other)])  # too low
    assert not won([best, second, searched(-101.0, other), searched(-101.5, other)])
    quiet = searched(-100.0, Z, step=0.5)  # a bit a round or so
    assert not won([quiet, *(searched(-101.0, near, step=0.5) for _ in range(3))])
    fresh = searched(-100.0, Z)
    fresh.steps = []  # no round was made: nothing is known of how far it wanders
    assert not won([fresh, searched(-100.0, Z), searched(-100.0, Z)])
    assert not won([searched(-100.0, Z)])  # with no other to agree with


def test_changed_columns_stay_valid(seed):
    rng = np.random.default_rng(seed)
    Z = rng.random((12, 4)) < 0.5
    shapes = set()
    for _ in range(300):
        changed = change_columns(rng, Z, capacity=4)
        assert changed.any(axis=0).all()
        shapes.add(changed.shape[1])
    assert shapes <= {2, 3, 4}
    assert 5 in {change_columns(rng, Z).shape[1] for _ in range(300)}


def test_given_starts(seed):
    X = thali.datasets.images(n=20, random_state=0).X
    data, model = parts(X)
    Z = np.random.default_rng(seed).random((20, 3)) < 0.5
    assert np.array_equal(given_start(Z, model, data).latent, Z)
    with pytest.raises(ValueError, match="Z has 19 rows but the data have 20"):
        given_start(Z[1:], model, data)
    data, finite = parts(X, thali.BetaBernoulli(n_components=2))
    with pytest.raises(ValueError, match="at most 2"):
        given_start(np.ones((20, 3), bool), finite, data)


@pytest.mark.parametrize("make", [list, np.array, pd.DataFrame])
def test_a_matrix_of_any_kind_becomes_bits(make):
    bits = thali.CollapsedGibbs(init=make([[1, 0], [1, 1], [0, 1]])).init
    assert isinstance(bits, np.ndarray)
    assert bits.dtype == bool
    assert bits.tolist() == [[True, False], [True, True], [False, True]]


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ([[1, 0], [2, 1]], "CollapsedGibbs: init: Z must contain only 0 and 1"),
        ([[1, 0], [1]], "init is a list whose rows differ in length"),
        (np.array([["a"]]), "only 0 and 1"),
    ],
)
def test_a_matrix_that_is_no_start_is_refused_before_the_fit(init, words):
    with pytest.raises((ValueError, TypeError), match=words):
        thali.CollapsedGibbs(init=init)


def test_a_fitted_model_starts_another_and_fixed_numbers_stay():
    X = thali.datasets.images(n=30, random_state=0).X
    quick = thali.CollapsedGibbs(sweeps=20, chains=1)
    first = thali.LatentFeatures(likelihood="linear_gaussian", engine=quick, random_state=0).fit(X)
    second = thali.LatentFeatures(
        thali.IBP(alpha=7.0),
        likelihood="linear_gaussian",
        engine=quick.replace(init=first, sweeps=1, burn_in=0),
        random_state=0,
    ).fit(X)
    assert second.alpha_ == 7.0
    assert second.starts_ == ["another model"]
    assert abs(second.sigma_x_ - first.sigma_x_) < 0.2


def test_a_race_that_was_stopped_before_a_step_compares_its_starts():
    planted = thali.datasets.noisy_nonnegative(300, 60, 5, random_state=1)
    data, model = parts(planted.X)

    def in_turn(jobs, what):
        return [None if what == "racing starts" else job() for job in jobs]

    starting = Starting(thali.CollapsedGibbs(chains=2), model, data, lambda: True, in_turn)
    found = starting.starts(np.random.SeedSequence(0))
    logs = [model.at(s.hyper).log_joint(data, s.latent) for s in found]
    columns = STARTS["columns"](np.random.default_rng(0), model, data)
    assert {start.name for start in found} == {"ica"}
    assert min(logs) > model.at(columns.hyper).log_joint(data, columns.latent)


def test_factors_of_a_table_of_nearly_no_yes_begin_with_effects_of_some_size():
    """From a size that its prior rules out, a slice goes on to sizes whose squares overflow."""
    X = np.zeros((300, 8), int)
    X[np.arange(9) * 30, [0, 1, 2, 3, 4, 5, 6, 7, 2]] = 1
    likelihood = thali.MixedFactors()
    columns = likelihood.columns_of(X)
    likelihood = likelihood.with_layout(columns, columns.encode(X))
    data = Data.of(likelihood.known.expand(columns.encode(X)))
    model = Model(thali.IBP(), likelihood).resolve(data)
    guess = likelihood.guess(data)
    start = STARTS["latent_factors"](np.random.default_rng(0), model, guess)
    assert np.abs(start.parameters["A"]).max() < 1.0
    assert start.hyper["sigma_a"] >= 0.3
    engine = thali.UncollapsedGibbs(sweeps=20, chains=2)
    fitted = thali.LatentFeatures(likelihood="mixed_factors", engine=engine, random_state=0)
    assert fitted.fit(X).fit_.history()["sigma_a"].max() < 1e4
