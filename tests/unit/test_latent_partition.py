"""LatentPartition as people use it: answers, new rows, gaps, files, stops, refusals."""

import itertools
import signal
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from oracles import partitions as oracle
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thali
from thali.data import Data
from thali.hyperparameters import Hyperprior
from thali.model import Model
from thali.structures.labels import canonical_labels
from thali.structures.partition_losses import variation_of_information

QUICK = thali.CollapsedGibbs(sweeps=40, chains=2)
CENTERS = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


def three(n=45, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + CENTERS[y], y


def fitted(X, **settings):
    settings = {"engine": QUICK, "random_state": 0, "progress": False} | settings
    n_future = settings.pop("n_future", 0)
    return thali.LatentPartition(**settings).fit(X, n_future=n_future)


@pytest.fixture(scope="module")
def found():
    X, y = three()
    return X, y, fitted(X)


# ---- answers -------------------------------------------------------------------------------------


def test_clusters_are_found_and_named_by_size(found):
    X, y, model = found
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    assert model.membership_.shape == (45,)
    assert model.expected_loss_ >= 0.0
    assert (model.fit_predict(X) == model.labels_).all()


def test_the_log_joint_is_that_of_the_answer(found):
    X, _, model = found
    at = Model(model.prior_, model.likelihood_).at(model.fit_.mean_hyper())
    assert np.isclose(at.log_joint(X, model.labels_), model.log_joint_)
    best = model.best_
    fixed = Model(model.prior_, model.likelihood_).at(best.hyper)
    assert np.isclose(fixed.log_joint(X, best.labels), best.log_joint)


def test_co_clustering_is_the_share_of_draws(found):
    _, _, model = found
    draws = list(model.draws())
    share = np.mean([draw.labels[:, None] == draw.labels for draw in draws], axis=0)
    np.testing.assert_allclose(model.co_clustering_, share, atol=1e-6)
    np.testing.assert_allclose(model.co_clustering(np.array([3, 7])), share[[3, 7]][:, [3, 7]])
    assert np.isclose(sum(draw.weight for draw in draws), 1.0)
    assert len(list(model.draws(5))) == 5


def test_the_credible_ball_holds_the_answer(found):
    _, _, model = found
    ball = model.credible_ball(0.9)
    assert ball.level == 0.9
    assert ball.coarsest.max() <= ball.finest.max()


def test_profiles_tell_of_each_cluster(found):
    X, _, model = found
    for k in range(3):
        near = X[model.labels_ == k].mean(axis=0)
        np.testing.assert_allclose(model.cluster_profiles_.loc[k], near, atol=0.2)


TABLES = {
    "beta_bernoulli_items": lambda rng, y: (rng.random((60, 8)) < 0.1 + 0.8 * PATTERN[y]) * 1.0,
    "categorical": lambda rng, y: np.where(
        rng.random((60, 8)) < 0.8, PATTERN[y] * 2.0, rng.integers(0, 3, (60, 8))
    ),
    "dirichlet_multinomial": lambda rng, y: rng.poisson(1.0 + 9.0 * PATTERN[y]) * 1.0,
    "normal_gamma": lambda rng, y: rng.normal(size=(60, 8)) + 5.0 * PATTERN[y],
}
PATTERN = np.array([[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0, 0]], float)


@pytest.mark.parametrize("likelihood", TABLES)
def test_every_kind_of_table_is_clustered(likelihood, rng):
    y = np.arange(60) % 2
    X = TABLES[likelihood](rng, y)
    model = fitted(X, likelihood=likelihood)
    assert adjusted_rand_score(y, model.labels_) > 0.7
    assert model.cluster_profiles_.shape[0] == model.n_clusters_
    assert np.isfinite(model.score(X[:5]))
    assert (model.predict(X) == model.labels_).mean() > 0.9


# ---- new rows ------------------------------------------------------------------------------------


def test_new_rows_have_the_density_of_the_predictive(found):
    """By hand, from scipy's Student t of each cluster, at one draw."""
    X, _, model = found
    draw = next(model.draws())
    one = model.fit_.pick([0])[0]
    from thali.results.cluster_answer import new_rows

    likelihood = model.likelihood_.at(**{k: draw.hyper[k] for k in ("kappa", "scale")} | more(draw))
    new = np.array([[0.5, 0.1], [30.0, -2.0]])
    rows = new_rows(model.fit_.model, draw.hyper, model.fit_.data, one.latent, Data.of(new))
    center, root = likelihood.center(2), likelihood.expected(2, float(likelihood.scale))
    alpha, n = draw.hyper["alpha"], len(X)
    for i, x in enumerate(new):
        logs = []
        for k in range(draw.n_clusters + 1):
            own = X[draw.labels == k] - center
            weight = (len(own) if k < draw.n_clusters else alpha) / (n + alpha)
            density = oracle.normal_wishart_predictive(
                x - center,
                own,
                float(likelihood.kappa),
                likelihood.degrees_for(2),
                np.diag(root**2),
            )
            logs.append(np.log(weight) + density)
        assert np.isclose(rows.log_density()[i], logsumexp(logs))


def more(draw):
    """Other hyperparameters of the likelihood, where it has them."""
    return {k: v for k, v in draw.hyper.items() if k not in ("alpha", "kappa", "scale")}


def test_predictions_add_up_and_far_rows_are_new(found):
    X, _, model = found
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (model.predict(X) == model.labels_).all()
    assert model.novelty(X).max() < 0.2
    assert model.novelty([[200.0, 200.0]]) > 0.5
    assert model.score(X) > model.score(X + 20.0)
    assert np.isclose(model.score(X), model.score_samples(X).mean())


def test_new_rows_with_gaps_count_what_they_show(found):
    X, _, model = found
    part = X[:6].copy()
    part[:3, 1] = np.nan
    assert model.predict_proba(part).shape == (6, 3)
    all_gone = model.predict_proba([[np.nan, np.nan]])
    sizes = np.bincount(model.labels_)
    np.testing.assert_allclose(all_gone[0], sizes / sizes.sum())


def test_rows_to_come_let_an_inconsistent_prior_predict():
    X, y = three(30)
    potentials = tuple(np.linspace(-1.0, 40.0, 32))
    prior = thali.FlexiblePartition(potentials)
    model = fitted(X, prior=prior)
    with pytest.raises(ValueError, match=r"not consistent.*n_future=1"):
        model.predict(X)
    with pytest.raises(ValueError, match="not consistent"):
        model.score(X)
    model = fitted(X, prior=prior, n_future=2)
    assert adjusted_rand_score(y, model.labels_) > 0.7
    assert (model.predict(X) == model.labels_).mean() > 0.9
    assert np.isfinite(model.score(X))
    with pytest.raises(ValueError, match="33 rows need 33 of them"):
        fitted(X, prior=prior, n_future=3)


def test_rows_to_come_change_nothing_for_those_that_came():
    """The Dirichlet process is consistent, so that the answer is the same in law."""
    X, y = three(30)
    engine = thali.CollapsedGibbs(sweeps=150, chains=2)
    plain, future = fitted(X, engine=engine), fitted(X, engine=engine, n_future=100)
    for model in (plain, future):
        assert adjusted_rand_score(y, model.labels_) > 0.9
        apart = np.mean([variation_of_information(d.labels, model.labels_) for d in model.draws()])
        assert abs(apart - model.expected_loss_) < 0.1
    assert abs(plain.membership_.mean() - future.membership_.mean()) < 0.2


# ---- gaps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["normal_wishart", "normal_gamma"])
def test_gaps_are_taken(likelihood, rng):
    X, y = three(60)
    X[rng.random(X.shape) < 0.15] = np.nan
    model = fitted(X, likelihood=likelihood)
    whole = ~np.isnan(X).any(axis=1)
    assert adjusted_rand_score(y[whole], model.labels_[whole]) > 0.8
    assert np.isfinite(model.log_joint_)


def test_rows_with_gaps_are_no_worse_than_none(rng):
    """Columns that go together: an entry is known from the other, and must not be guessed."""

    def drawn(n):
        y = np.arange(n) % 2
        first = rng.normal(size=n)
        return np.column_stack([first, first + 0.1 * rng.normal(size=n)]) + 12.0 * y[:, None] - 6.0

    X, new = drawn(60), drawn(60)
    gaps = X.copy()
    gaps[rng.random(60) < 0.4, 1] = np.nan
    whole = fitted(gaps[~np.isnan(gaps[:, 1])])
    assert fitted(gaps).score(new) > whole.score(new) - 0.3


def test_counts_with_gaps_are_refused():
    with pytest.raises(ValueError, match=r"DirichletMultinomial cannot deal with"):
        fitted(np.array([[1.0, np.nan], [2.0, 1.0]]), likelihood="dirichlet_multinomial")


# ---- scikit-learn, files, stops ------------------------------------------------------------------


def test_frames_pipelines_clones_and_cross_validation():
    X, _ = three()
    frame = pd.DataFrame(X, columns=["width", "height"], index=[f"r{i}" for i in range(45)])
    model = fitted(frame)
    assert list(model.cluster_profiles_.columns) == ["width", "height"]
    assert model.row_names_[1] == "r1"
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(frame)
    assert pipeline.predict(frame).shape == (45,)
    scores = cross_val_score(thali.LatentPartition(engine=QUICK, random_state=0), X, cv=2)
    assert np.isfinite(scores).all()
    other = clone(model).set_params(prior__alpha=2.0, likelihood__kappa=0.2, engine__sweeps=9)
    assert other.prior == thali.DirichletProcess(2.0)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_saved_model_is_the_same(gaps, tmp_path):
    X, _ = three()
    if gaps:
        X[3, 1] = np.nan
    prior = thali.FlexiblePartition(tuple(np.linspace(0.0, 30.0, 47)))
    model = fitted(X, prior=prior, n_future=2)
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert (again.labels_ == model.labels_).all()
    assert again.log_joint_ == model.log_joint_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.score(X) == model.score(X)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_a_resumed_run_is_bitwise_the_same(gaps, tmp_path, monkeypatch):
    from thali.engines.clusters import gibbs

    X, _ = three(24)
    if gaps:
        X[2, 0] = np.nan
    model = thali.LatentPartition(engine=thali.CollapsedGibbs(sweeps=30, chains=2), random_state=3)
    whole = clone(model).fit(X, n_future=1)
    path, made, own = tmp_path / "c.thali", [0], gibbs.step

    def until(rng, *others):
        made[0] += 1
        if len(others) and made[0] == stop_at:
            signal.raise_signal(signal.SIGINT)
        return own(rng, *others)

    stop_at = 10**9
    monkeypatch.setattr(gibbs, "step", until)
    clone(model).fit(X, n_future=1)
    stop_at, made[0] = made[0] - 20, 0
    part = clone(model).fit(X, n_future=1, checkpoint=path)
    assert part.stopped_ == "interrupted"
    monkeypatch.setattr(gibbs, "step", own)
    rest = clone(model).fit(X, n_future=1, checkpoint=path, resume=True)
    assert rest.stopped_ == "finished"
    for one, other in zip(whole.draws(), rest.draws(), strict=True):
        assert (one.labels == other.labels).all()
        assert one.hyper == other.hyper
    with pytest.raises(ValueError, match="the data"):
        clone(model).fit(X, n_future=2, checkpoint=path, resume=True)


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_ctrl_c_keeps_what_was_computed(monkeypatch):
    from thali.engines.clusters import gibbs

    X, _ = three(300)
    step, seen = gibbs.step, itertools.count(1)

    def until(*arguments):
        if next(seen) == 40:
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(gibbs, "step", until)
    model = fitted(X, engine=thali.CollapsedGibbs(sweeps=10**6, chains=2))
    assert model.stopped_ == "interrupted"
    assert model.labels_.shape == (300,)


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_a_time_budget_is_kept():
    X, _ = three(300)
    model = thali.LatentPartition(engine=thali.CollapsedGibbs(sweeps=10**6), random_state=0)
    model.fit(X, time_budget=1.0)
    assert model.stopped_ == "time budget"
    assert model.seconds_ < 20.0


@pytest.mark.parametrize("init", ["kmeans", "one_cluster", "prior", "labels", "model"])
def test_chains_begin_where_they_are_told(init, found):
    X, _, model = found
    given = {"labels": model.labels_, "model": model}.get(init, init)
    again = fitted(X, engine=thali.CollapsedGibbs(sweeps=20, chains=2, init=given))
    assert again.n_clusters_ >= 1


# ---- refusals ------------------------------------------------------------------------------------


def test_rare_tables_have_an_answer():
    assert fitted([[1.0, 2.0]]).n_clusters_ == 1
    assert fitted(np.ones((6, 2))).labels_.shape == (6,)
    constant = np.column_stack([three(30)[0], np.full(30, 7.0)])
    plain = fitted(three(30)[0])
    for likelihood in ("normal_wishart", "normal_gamma"):
        longer = QUICK.replace(sweeps=200)
        model = fitted(constant, likelihood=likelihood, engine=longer)
        alone = fitted(three(30)[0], likelihood=likelihood, engine=longer)
        assert (model.labels_ == alone.labels_).all()  # a constant has no say
        assert adjusted_rand_score(three(30)[1], model.labels_) > 0.9
        assert (model.predict(constant) == model.labels_).all()
    law = fitted(constant, engine=thali.Variational(truncation=5, n_init=1))
    assert adjusted_rand_score(three(30)[1], law.labels_) > 0.9
    for size in (1e60, 1e-60):
        assert fitted(three(30)[0] * size).n_clusters_ == plain.n_clusters_
    with pytest.raises(ValueError, match="overflow"):
        fitted(three(30)[0] * 1e180)


def test_a_constant_column_is_left_out_of_gaps_and_files(tmp_path):
    X = np.column_stack([three(30)[0], np.full(30, 7.0)])
    X[2, 0] = X[5, 2] = np.nan
    model = fitted(X)
    model.save(tmp_path / "m.thali")
    np.testing.assert_array_equal(
        thali.load(tmp_path / "m.thali").predict_proba(X), model.predict_proba(X)
    )


WRONG = [
    ({"likelihood": "beta_bernoulli_items"}, "needs 0 or 1"),
    ({"likelihood": "dirichlet_multinomial"}, "needs counts"),
    ({"likelihood": "normal_whishart"}, "Did you mean 'normal_wishart'"),
    ({"likelihood": "linear_gaussian"}, "is a prior on partitions but LinearGaussian needs feat"),
    ({"prior": "ibp"}, "is a prior on features"),
    ({"prior": thali.FlexiblePartition((0.0, 1.0))}, "45 rows need 45 of them"),
    ({"engine": "beam_search"}, "cannot run"),
    ({"engine": thali.CollapsedGibbs(anneal=5, init="prior")}, "anneal is for features"),
    ({"engine": thali.CollapsedGibbs(sigma_step="metropolis")}, "sigma_step is for features"),
    ({"engine": thali.CollapsedGibbs(init=[0, 1])}, "one label for each of the 45 rows"),
    ({"engine": thali.CollapsedGibbs(init=np.ones((45, 2)))}, "one label for each row"),
    ({"engine": thali.CollapsedGibbs(init="ica")}, "does not suit NormalWishart"),
    ({"likelihood": thali.NormalWishart(degrees=2.0)}, "above D"),
    ({"likelihood": thali.NormalGamma(mean=(1.0, 2.0, 3.0))}, "has 3 numbers, but X has 2"),
]


@pytest.mark.parametrize(("settings", "words"), WRONG, ids=str)
def test_what_cannot_be_is_refused(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fitted(three()[0], **settings)


def test_settings_that_cannot_be_are_refused():
    for make in (
        lambda: thali.NormalGamma(shape=1.0),
        lambda: thali.NormalGamma(spread=-1.0),
        lambda: thali.NormalWishart(mean="zero"),
        lambda: thali.Categorical(levels="all"),
        lambda: thali.SmoothPartition(c=-1.0),
        lambda: thali.SmoothPartition(a=thali.Gamma(1, 1)),
        lambda: thali.DirichletProcess(thali.Normal(0, 1)),
        lambda: thali.LearnedPartition(gradient="none"),
        lambda: thali.FlexiblePartition((0.0, 0.0), weights=(1.0,)),
        lambda: thali.FlexiblePartition((0.0, 0.0), np.sum, (1.0, 2.0)),
    ):
        with pytest.raises((ValueError, TypeError)):
            make()
    with pytest.raises(TypeError, match="whole number"):
        thali.LatentPartition().fit(three()[0], n_future=1.5)


def test_unseen_values_of_a_category_are_named():
    X = np.array([[0.0], [1.0], [1.0], [0.0]])
    model = fitted(X, likelihood="categorical")
    with pytest.raises(ValueError, match="X has 5 at row 0, column 0, which is not among"):
        model.predict([[5.0]])


def test_a_hyperprior_of_another_form_will_do():
    @dataclass(frozen=True)
    class LogNormal(Hyperprior):
        def center(self):
            return 0.1

        def sample(self, rng):
            return float(np.exp(rng.normal() - 2.0))

        def log_density(self, value):
            return -0.5 * (np.log(value) + 2.0) ** 2 - np.log(value) if value > 0.0 else -np.inf

    model = fitted(three(30)[0], likelihood=thali.NormalWishart(kappa=LogNormal()))
    assert adjusted_rand_score(three(30)[1], model.labels_) > 0.9


def test_a_prior_of_few_sizes_is_fitted():
    """Four rows a cluster, no more and no less: rows change places."""
    rng = np.random.default_rng(0)
    y = np.arange(12) % 3
    X = rng.normal(size=(12, 2)) + CENTERS[y]
    prior = thali.FlexiblePartition.from_expectations([0, 0, 0, 3, *[0] * 8])
    model = fitted(X, prior=prior)
    assert adjusted_rand_score(y, model.labels_) == 1.0


# ---- empirical Bayes -----------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", ["exact", "contrastive"])
def test_potentials_are_learned_from_the_data(gradient):
    """Three equal clusters: sizes near theirs become more probable than a Dirichlet process has."""
    X, _ = three(45)
    prior = thali.LearnedPartition(gradient=gradient)
    model = fitted(X, prior=prior, engine=thali.CollapsedGibbs(sweeps=200, chains=1))
    learned = model.prior_.at(potentials=model.potentials_)
    before, after = prior.expected_size_counts(45), learned.expected_size_counts(45)
    assert after[13:17].sum() > 1.5 * before[13:17].sum()
    assert canonical_labels(model.labels_).max() + 1 == 3


# ---- what newcomers tried ------------------------------------------------------------------------


def test_new_rows_are_as_strictly_looked_at_as_the_first(found):
    X, _, model = found
    with pytest.raises(TypeError, match="sparse"):
        model.predict(scipy.sparse.csr_array(X))
    counts = fitted(
        np.array([[3.0, 0], [2, 1], [0, 4], [1, 5]]), likelihood="dirichlet_multinomial"
    )
    with pytest.raises(ValueError, match="1 counts missing"):
        counts.predict([[np.nan, 1.0]])
    for rows in ([], 3, [1.5], ["a"], [[1, 2]], [100], [-1]):
        with pytest.raises(ValueError, match="positions from 0 to 44"):
            model.co_clustering(rows)
    mask = np.arange(45) < 5
    assert model.co_clustering(mask).shape == (5, 5)
    with pytest.raises(TypeError, match="level"):
        model.credible_ball("a")
    with pytest.raises(ValueError, match="at most"):
        thali.NormalWishart(scale=1e300)


def test_a_row_that_may_be_anywhere_is_not_sure_of_being_alone():
    X, _ = three(45)
    X[3] = np.nan
    engine = thali.CollapsedGibbs(sweeps=200, chains=2)
    model = fitted(X, likelihood="normal_gamma", engine=engine)
    assert model.membership_[3] < 0.7
    assert np.delete(model.membership_, 3).mean() > 0.8


def test_answers_and_draws_are_partitions_that_the_prior_allows():
    X, _ = three(30)
    prior = thali.FlexiblePartition(tuple(np.where(np.arange(1, 31) == 10, 0.0, -np.inf)))
    model = fitted(X, prior=prior, engine=thali.CollapsedGibbs(sweeps=30, chains=2, init="kmeans"))
    assert np.bincount(model.labels_).tolist() == [10, 10, 10]
    assert np.isfinite(model.log_joint_)
    assert np.isfinite(model.history_["log_joint"]).all()


def test_an_answer_of_rows_alone_is_called_so():
    X, prior = np.random.default_rng(2).normal(size=(30, 2)), thali.DirichletProcess(alpha=200.0)
    likelihood = thali.NormalGamma(kappa=1e-6, scale=0.001)
    with pytest.warns(RuntimeWarning, match="most rows are alone"):
        fitted(
            X, prior=prior, likelihood=likelihood, engine=thali.CollapsedGibbs(sweeps=60, chains=2)
        )


@pytest.mark.parametrize("columns", [2, 20])
def test_noise_is_one_cluster(columns):
    """Of many columns too, where every row alone has a higher log joint than any other partition
    that was looked at: there are many more of these."""
    X = np.random.default_rng(2).normal(size=(40, columns))
    assert fitted(X, engine=thali.CollapsedGibbs(sweeps=200, chains=2)).n_clusters_ <= 3


def test_columns_that_look_like_measurements_are_called_so(rng):
    X = rng.normal(size=(40, 2))
    with pytest.warns(UserWarning, match="look like measurements"):
        fitted(X, likelihood="categorical")
    fitted(np.round(X), likelihood="categorical")  # no word: few values
