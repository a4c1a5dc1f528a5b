"""Missing entries: the parts against slow, obviously right answers."""

import itertools

import numpy as np
import pandas as pd
import pytest
from oracles import features as oracles
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone
from unit.test_predictive import brute_force

import thali
from thali.data import Data
from thali.data.missing import first_guess, patterns
from thali.likelihoods.gibbs_updates import GibbsState
from thali.model import Model
from thali.results import prediction as predictive

SIGMA_X, SIGMA_A = 0.7, 1.1
LIKELIHOOD = thali.LinearGaussian(sigma_x=SIGMA_X, sigma_a=SIGMA_A)


def problem(rng, n=7, k=3, d=5, missing=0.3):
    """Data with gaps, a wholly missing row and column among them."""
    Z = rng.random((n, k)) < 0.5
    Z[0] = True
    X = Z @ rng.standard_normal((k, d)) + SIGMA_X * rng.standard_normal((n, d))
    X[rng.random((n, d)) < missing] = np.nan
    X[2], X[:, 1] = np.nan, np.nan
    return X, Z


# ------------------------------------------------------------------------------------- the mask


def test_patterns_list_the_missing_rows_of_each_column(rng):
    mask = rng.random((6, 30)) < 0.8
    found = patterns(mask)
    for d in range(30):
        p = found.of_column[d]
        rows = found.rows[found.start[p] : found.start[p + 1]]
        assert np.array_equal(rows, np.flatnonzero(~mask[:, d]))
    assert len(found.start) - 1 == len(np.unique(mask, axis=1).T)


NOTHING = {
    "NaN": np.array([[1.0, np.nan], [3.0, 4.0]]),
    "None": np.array([[1.0, None], [3.0, 4.0]], object),
    "a list with None": [[1.0, None], [3.0, 4.0]],
    "a masked array": np.ma.masked_equal([[1, 7], [3, 4]], 7),
    "pandas' NA": pd.DataFrame({"a": [1, 3], "b": pd.array([None, 4])}),
    "an object frame": pd.DataFrame({"a": [1, 3], "b": np.array([None, 4], object)}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_every_kind_of_nothing_is_missing(name):
    data = Data.of(NOTHING[name])
    assert data.observed.tolist() == [[True, False], [True, True]]
    assert np.array_equal(data.X, [[1.0, np.nan], [3.0, 4.0]], equal_nan=True)
    assert data.missing == 1
    assert data.mean_square == pytest.approx(26 / 3)


def test_complete_data_have_no_matrix_of_what_was_observed():
    data = Data.of([[1.0, 2.0]])
    assert data.observed is None
    assert data.missing == 0
    assert data.filled is data


def test_a_masked_array_without_masked_entries_is_complete():
    assert Data.of(np.ma.masked_equal([[1, 2], [3, 4]], 9)).observed is None


def test_data_without_any_entry_are_refused():
    with pytest.raises(ValueError, match="X has no observed entry: all 6 are missing"):
        thali.LatentFeatures(likelihood="linear_gaussian").fit(np.full((2, 3), np.nan))


def test_the_reduction_is_refused_where_entries_are_missing():
    with pytest.raises(ValueError, match="no reduced form"):
        _ = Data.of([[1.0, np.nan, 2.0]]).reduced


def test_the_first_guess_keeps_what_was_observed_and_finds_low_rank(rng):
    signal = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    X = signal + 0.1 * rng.standard_normal((60, 30))
    mask = rng.random(X.shape) < 0.8
    guess = first_guess(np.where(mask, X, np.nan), mask)
    assert np.array_equal(guess[mask], X[mask])
    wrong = np.sqrt(np.mean(np.square((guess - signal)[~mask])))
    assert wrong < 0.25  # of a signal of size 1.4, with noise of size 0.1 put on top


def test_completing_draws_from_the_right_law(rng):
    X = np.full((2000, 2), np.nan)
    X[0] = 5.0
    Z, A = rng.random((2000, 1)) < 0.5, np.array([[3.0, -1.0]])
    likelihood = thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0)
    filled = likelihood.augment(rng, Data.of(X), Z, {"A": A}).X
    assert np.array_equal(filled[0], X[0])
    scaled = ((filled - Z @ A) / 0.5)[1:].ravel()
    assert stats.kstest(scaled, "norm").pvalue > 1e-6


# -------------------------------------------------------------------------------- the likelihood


@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_marginal_is_that_of_each_column_s_observed_rows(k, rng):
    X, Z = problem(rng, k=k)
    wanted = 0.0
    for x in X.T:
        seen = ~np.isnan(x)
        if seen.any():
            wanted += oracles.log_marginal(x[seen, None], Z[seen], SIGMA_X, SIGMA_A)
    assert LIKELIHOOD.log_marginal(X, Z) == pytest.approx(wanted, abs=1e-9)


def test_features_and_missing_entries_are_the_conditional_normal_law(rng):
    X, Z = problem(rng)
    A = LIKELIHOOD.features(X, Z)
    means, variances = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
    for d, x in enumerate(X.T):
        seen = ~np.isnan(x)
        mean, cov = oracles.posterior_of_features(x[seen, None], Z[seen], SIGMA_X, SIGMA_A)
        assert np.allclose(A[:, d], mean[:, 0], atol=1e-9)
        gone = Z[~seen].astype(float)
        means[~seen, d] = gone @ mean[:, 0]
        variances[~seen, d] = SIGMA_X**2 + np.einsum("nk,kl,nl->n", gone, cov, gone)
    missing = np.isnan(X)
    law = LIKELIHOOD.missing_entries(X, Z)
    assert np.allclose(law.mean, means[missing], atol=1e-9)
    assert np.allclose(law.variance, variances[missing], atol=1e-9)


def test_draws_of_features_have_the_right_moments(rng):
    X, Z = problem(rng, n=6, k=2, d=3)
    draws = np.array([LIKELIHOOD.draw_features(rng, X, Z) for _ in range(5000)])
    for d, x in enumerate(X.T):
        seen = ~np.isnan(x)
        mean, cov = oracles.posterior_of_features(x[seen, None], Z[seen], SIGMA_X, SIGMA_A)
        assert np.allclose(draws[:, :, d].mean(axis=0), mean[:, 0], atol=0.1)
        assert np.allclose(np.cov(draws[:, :, d].T), cov, atol=0.12)


def test_the_likelihood_given_features_counts_observed_entries_only(rng):
    X, Z = problem(rng)
    A = rng.standard_normal((3, X.shape[1]))
    law = stats.norm(Z @ A, SIGMA_X)
    assert LIKELIHOOD.log_likelihood(X, Z, A) == pytest.approx(np.nansum(law.logpdf(X)))


# ------------------------------------------------------------------------------------ the engine


def test_the_log_joint_is_that_of_the_observed_entries(rng):
    X, _ = problem(rng, n=12, d=20)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=30, chains=2),
        random_state=0,
    ).fit(X)
    for draw in itertools.islice(model.draws(), 0, 30, 7):
        fixed = Model(
            model.prior_.at(alpha=draw.alpha),
            model.likelihood_.at(sigma_x=draw.sigma_x, sigma_a=draw.sigma_a),
        )
        assert fixed.log_joint(X, draw.Z) == pytest.approx(draw.log_joint, rel=1e-10)


def test_the_sweep_keeps_observed_entries_and_its_sums(rng):
    from thali.engines.features.gibbs import sweep
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.hyperparameter_steps import ELSEWHERE
    from thali.starts import Start

    X, Z = problem(rng, n=40, k=4, d=9)
    data = Data.of(X)
    model = Model(thali.IBP(alpha=2.0), LIKELIHOOD)
    engine = thali.CollapsedGibbs()
    hyper = {"alpha": 2.0, "sigma_x": SIGMA_X, "sigma_a": SIGMA_A}
    state = engine.begin(rng, model, data, Start("given", Z, hyper))
    tables, scales = model.prior.tables(40), Scales(SIGMA_X, SIGMA_A, 9.0)
    for _ in range(5):
        scalars, _ = sweep(rng, state, tables, scales, ELSEWHERE, 1, False)
        k = state.n_components
        bits = state.latent.astype(float)
        assert np.array_equal(state.X[data.observed], X[data.observed])
        assert np.isfinite(state.X).all()
        assert np.allclose(state.rows.T[:k], bits.T @ state.X, atol=1e-9)
        assert np.array_equal(state.rows.C[:k, :k], bits.T @ bits)
        assert np.array_equal(state.rows.m[:k], bits.sum(axis=0))
        assert scalars[0, 6] < 1e-9


def test_a_row_of_which_nothing_was_observed_moves_freely(seed):
    """Its bits have their prior's law; drawn given its own drawn entries they would stay put."""
    data = thali.datasets.images(n=40, sigma_x=0.2, random_state=1)
    X = data.X.copy()
    X[7] = np.nan
    engine = thali.CollapsedGibbs(sweeps=400, burn_in=100, chains=1, init=data.Z)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=seed
    ).fit(X)
    seen = {tuple(draw.Z[7]) for draw in model.draws() if draw.Z.shape[1] == 4}
    assert len(seen) >= 8


@pytest.mark.parametrize("init", ["race", "ica", "columns", "prior", "empty"])
@pytest.mark.parametrize("shape", [(1, 2), (4, 1), (3, 9), (30, 8)])
def test_every_start_works_with_missing_entries(init, shape, rng):
    X = rng.standard_normal(shape)
    X[rng.random(shape) < 0.4] = np.nan
    X[0, 0] = 1.0
    engine = thali.CollapsedGibbs(sweeps=6, chains=2, init=init)
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(X)
    assert np.isfinite(model.impute()).all()
    assert np.isfinite(model.score(X))


def test_a_given_start_and_another_model_work_with_missing_entries(rng):
    X, Z = problem(rng, n=12)
    engine = thali.CollapsedGibbs(sweeps=6, chains=2, init=Z)
    first = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(X)
    again = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine.replace(init=first), random_state=0
    ).fit(X)
    assert np.isfinite(again.log_joint_)


# --------------------------------------------------------------------------------- new rows


@pytest.mark.parametrize("k", [0, 1, 4])
@pytest.mark.parametrize("gaps", ["new rows", "training", "both"])
def test_new_rows_against_brute_force(k, gaps, rng):
    """Sums over all bits and new dishes of ratios of marginals, of observed entries alone."""
    model = Model(thali.IBP(alpha=1.5), LIKELIHOOD)
    X, Z = problem(rng, n=9, k=k, d=4, missing=0.25)
    if gaps == "new rows":
        X = np.where(np.isnan(X), 0.3, X)
    new = 1.5 * rng.standard_normal((6, 4))
    if gaps != "training":
        new[rng.random(new.shape) < 0.4] = np.nan
        new[0] = np.nan
    marginals, logs = predictive.rows(model, Data.of(X), Z, Data.checked(new))
    for i in range(6):
        expected, log_density = brute_force(model, X, Z, new[i])
        assert np.allclose(marginals[i], expected, atol=1e-8)
        assert np.isclose(logs[i], log_density, atol=1e-8)


def test_a_finite_prior_with_gaps_against_brute_force(rng):
    model = Model(thali.BetaBernoulli(alpha=1.5, n_components=6), LIKELIHOOD)
    X, Z = problem(rng, n=9, k=4, d=4)
    new = rng.standard_normal((3, 4))
    marginals, logs = predictive.rows(model, Data.of(X), Z, Data.checked(new))
    for i in range(3):
        expected, log_density = brute_force(model, X, Z, new[i])
        assert np.allclose(marginals[i], expected, atol=1e-8)
        assert np.isclose(logs[i], log_density, atol=1e-8)


def test_one_pattern_of_gaps_beyond_ten_features_agrees_with_complete_data(rng):
    """Training data that miss one whole row say what the other rows alone would say."""
    k = 13
    Z = rng.random((61, k)) < 0.4
    Z[0], Z[60] = True, False
    X = Z @ rng.standard_normal((k, 20)) + 0.3 * rng.standard_normal((61, 20))
    X[60] = np.nan
    new = X[:4] + 0.1
    model = Model(thali.IBP(alpha=3.0), thali.LinearGaussian(sigma_x=0.3, sigma_a=1.0))
    a = predictive.rows(model, Data.of(X), Z, Data.checked(new))
    b = predictive.rows(model, Data.of(np.where(np.isnan(X), 0.0, X)), Z, Data.checked(new))
    assert np.allclose(a[0], b[0], atol=1e-8)
    assert np.allclose(a[1], b[1], atol=1e-8)


# --------------------------------------------------------------------------------- imputing


def test_imputation_is_the_mixture_over_draws(rng):
    X, _ = problem(rng, n=14)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=20, chains=2),
        center=True,
        random_state=0,
    ).fit(X)
    missing = np.isnan(X)
    parts = []
    for draw in model.draws():
        likelihood = thali.LinearGaussian(sigma_x=draw.sigma_x, sigma_a=draw.sigma_a)
        parts.append(likelihood.missing_entries(X - model.mean_, draw.Z))
    means, variances = (np.array([getattr(p, k) for p in parts]) for k in ("mean", "variance"))
    shift = np.broadcast_to(model.mean_, X.shape)[missing]
    filled, std = model.impute(return_std=True)
    assert np.allclose(filled[~missing], X[~missing], rtol=1e-14)
    assert np.allclose(filled[missing], means.mean(axis=0) + shift)
    wanted = np.sqrt((variances + means**2).mean(axis=0) - means.mean(axis=0) ** 2)
    assert np.allclose(std[missing], wanted)
    assert (std[~missing] == 0.0).all()
    again, low, high = model.impute(interval=0.8)
    assert np.array_equal(filled, again)
    for ends, p in ((low, 0.1), (high, 0.9), (model.impute(strategy="median"), 0.5)):
        at = ends[missing] - shift
        assert np.allclose(stats.norm.cdf(at, means, np.sqrt(variances)).mean(axis=0), p)
        assert np.array_equal(ends[~missing], filled[~missing])


def test_imputation_of_a_data_frame_is_a_data_frame():
    frame = pd.DataFrame(
        thali.datasets.images(n=12, random_state=0).X[:, :4],
        columns=list("abcd"),
        index=[f"row {i}" for i in range(12)],
    )
    frame.iloc[3, 2] = None
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=10, chains=2),
        random_state=0,
    ).fit(frame)
    filled, std = model.impute(return_std=True)
    assert list(filled.columns) == list("abcd")
    assert filled.index[3] == "row 3"
    assert filled.loc["row 3"].notna().all()
    assert std.loc["row 3", "c"] > 0.0


def test_imputing_complete_data_gives_them_back():
    X = thali.datasets.images(n=12, random_state=0).X
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=10, chains=1),
        random_state=0,
    ).fit(X)
    assert np.array_equal(model.impute(), X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval": 1.5}, "between 0 and 1"),
        ({"interval": True}, "between 0 and 1"),
        ({"interval": 0.9, "return_std": True}, "not for both"),
        ({"strategy": "mode"}, "'mean' or 'median', not 'mode'"),
        ({"strategy": None}, "'mean' or 'median', not None"),
        ({"strategy": np.array(["mean", "mode"])}, "'mean' or 'median', not array"),
        ({"interval": "a"}, "interval must be a share between 0 and 1, such as 0.9; not 'a'"),
    ],
)
def test_wrong_wishes_of_impute_are_refused(options, words):
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=4, chains=1),
        random_state=0,
    )
    model.fit([[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(ValueError, match=words):
        model.impute(**options)


# ------------------------------------------------------------------- saving, centering, refusals


def test_a_saved_model_with_missing_entries_comes_back(rng, tmp_path):
    X, _ = problem(rng, n=14)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=20, chains=2),
        center=True,
        random_state=0,
    ).fit(X)
    model.save(tmp_path / "m.thali")
    loaded = thali.load(tmp_path / "m.thali")
    assert np.array_equal(loaded.Z_, model.Z_)
    assert np.array_equal(loaded.impute(), model.impute())
    assert loaded.log_joint_ == model.log_joint_
    assert np.array_equal(np.isnan(loaded.X_), np.isnan(X))


def test_centering_uses_observed_entries(rng):
    X, _ = problem(rng, n=14)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=4, chains=1),
        center=True,
        random_state=0,
    ).fit(X)
    assert np.allclose(np.delete(model.mean_, 1), np.nanmean(np.delete(X, 1, axis=1), axis=0))
    assert model.mean_[1] == 0.0


def test_engines_and_likelihoods_that_cannot_are_named():
    from thali.engines.base import Engine
    from thali.engines.capabilities import check_missing
    from thali.likelihoods.base import FeatureLikelihood

    class Deaf(Engine):
        steps = begin = step = to_arrays = from_arrays = None

    class Plain(FeatureLikelihood):
        at = resolve = start = None

    data = Data.of([[1.0, np.nan], [2.0, 3.0]])
    model = Model(thali.IBP(), LIKELIHOOD)
    with pytest.raises(ValueError, match="X has 1 of 4 entries missing") as caught:
        check_missing(Deaf(), model, data, (thali.CollapsedGibbs,))
    assert "which Deaf cannot deal with. Engines that can with LinearGaussian: CollapsedGibbs" in (
        str(caught.value)
    )
    with pytest.raises(
        ValueError, match=r"which Plain cannot deal with\. Engines that can with Pl"
    ):
        check_missing(
            thali.CollapsedGibbs(), Model(thali.IBP(), Plain()), data, (thali.CollapsedGibbs,)
        )
    check_missing(Deaf(), model, Data.of([[1.0]]), ())


def test_scikit_learn_is_told_what_can_be_missing():
    assert (
        thali.LatentFeatures(likelihood="linear_gaussian").__sklearn_tags__().input_tags.allow_nan
    )
    assert (
        not thali.LatentFeatures(likelihood="linear_gaussian", engine="no such")
        .__sklearn_tags__()
        .input_tags.allow_nan
    )


def test_log_mean_exp_over_draws_is_what_score_reports(rng):
    X, _ = problem(rng, n=10)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=8, chains=1),
        random_state=0,
    ).fit(X)
    logs = []
    for draw in model.draws():
        fixed = Model(thali.IBP(alpha=draw.alpha), thali.LinearGaussian(draw.sigma_x, draw.sigma_a))
        logs.append(predictive.rows(fixed, Data.of(X), draw.Z, Data.of(X))[1])
    wanted = (logsumexp(np.array(logs), axis=0) - np.log(len(logs))).mean()
    assert model.score(X) == pytest.approx(wanted)


# ---- parameters kept ----------------------------------------------------------------------------
KEPT = ["linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor", "noisy_or"]


def with_gaps(likelihood, n=40):
    """Pictures, or for noisy-or where they are bright; a fifth of the entries missing."""
    data = thali.datasets.images(n=n, sigma_x=0.3, random_state=0)
    full = (data.X > 0.5).astype(float) if likelihood == "noisy_or" else data.X
    hidden = np.random.default_rng(1).random(full.shape) < 0.2
    return full, hidden, np.where(hidden, np.nan, full)


@pytest.mark.parametrize("likelihood", KEPT)
def test_engines_that_keep_parameters_fill_in_gaps(likelihood, tmp_path):
    full, hidden, X = with_gaps(likelihood)
    engine = thali.UncollapsedGibbs(sweeps=120, chains=1)
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False).fit(X)
    filled, low, high = model.impute(interval=0.9)
    _, std = model.impute(return_std=True)
    assert np.array_equal(filled[~hidden], full[~hidden])
    by_means = np.square(full - np.nanmean(X, axis=0))[hidden].mean()
    assert np.square(filled - full)[hidden].mean() < 0.7 * by_means
    assert ((low <= full) & (full <= high))[hidden].mean() > 0.8
    assert (std[hidden] > 0.0).all()
    if likelihood == "noisy_or":
        assert set(np.unique(low)) <= {0.0, 1.0}
    model.save(tmp_path / "m.thali")
    assert np.array_equal(thali.load(tmp_path / "m.thali").impute(), filled)


@pytest.mark.parametrize("likelihood", KEPT)
def test_the_log_joint_is_that_of_what_was_observed(likelihood):
    _, hidden, X = with_gaps(likelihood, n=15)
    engine = thali.UncollapsedGibbs(sweeps=6, chains=1, init="prior")
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False).fit(X)
    for draw in model.draws():
        fixed = Model(model.prior_, model.likelihood_).at(draw.hyper)
        if likelihood == "linear_gaussian":
            wanted = fixed.log_joint(X, draw.Z)
        else:
            parameters = {"A": draw.A, **draw.parameters}
            if likelihood == "sparse_factor":
                given = log_density_of_amounts(X, draw)
            else:
                law = fixed.likelihood.entries(draw.Z, parameters, np.nonzero(~hidden))
                given = law.log_density(X[~hidden]).sum()
            place = GibbsState(Data.of(X), draw.Z, parameters, draw.hyper)
            prior = fixed.likelihood.log_density(place) - given
            assert prior == pytest.approx(log_prior_of(fixed.likelihood, draw), rel=1e-9)
            wanted = fixed.likelihood.log_density(place) + fixed.prior.log_prob(draw.Z)
        assert draw.log_joint == pytest.approx(wanted, rel=1e-9)


def log_density_of_amounts(X, draw):
    """log P(X_obs | W) of sparse factors, A integrated out: each column's observed rows."""
    found = 0.0
    for x in X.T:
        W = draw.parameters["S"][~np.isnan(x)]
        law = stats.multivariate_normal(
            cov=draw.sigma_x**2 * np.eye(len(W)) + draw.sigma_a**2 * W @ W.T
        )
        found += law.logpdf(x[~np.isnan(x)])
    return found


def log_prior_of(likelihood, draw):
    """log p(A) or, for sparse factors, where A is integrated out, log p(S); from SciPy."""
    if isinstance(likelihood, thali.NoisyOr):
        return stats.bernoulli.logpmf(draw.A.astype(int), draw.hyper["p"]).sum()
    if isinstance(likelihood, thali.NonnegativeLinearGaussian):
        return stats.halfnorm.logpdf(draw.A, scale=draw.sigma_a).sum()
    return stats.laplace.logpdf(draw.parameters["S"][draw.Z]).sum()


@pytest.mark.parametrize("likelihood", KEPT)
def test_held_out_entries_are_predicted_better_than_by_their_means(likelihood):
    full, _, _ = with_gaps(likelihood, n=60)
    test = thali.evaluation.holdout(full, 0.25, "entries")
    engine = thali.UncollapsedGibbs(sweeps=120, chains=1)
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False)
    found = test.log_predictive(model.fit(test.X))
    means = np.nanmean(test.X, axis=0)[test.columns]
    if likelihood == "noisy_or":
        chance = np.clip(means, 0.01, 0.99)
        alone = np.where(test.values > 0.5, np.log(chance), np.log1p(-chance)).mean()
    else:
        alone = stats.norm.logpdf(
            test.values, means, np.nanstd(test.X, axis=0)[test.columns]
        ).mean()
    assert found > alone
    assert test.rmse(model) < np.sqrt(np.square(test.values - means).mean())


@pytest.mark.filterwarnings("ignore::thali.BurnInCutShort")
def test_a_stopped_run_with_gaps_goes_on_to_the_same_end(tmp_path):
    _, _, X = with_gaps("nonnegative_linear_gaussian")
    engine = thali.UncollapsedGibbs(sweeps=4000, chains=1, init="prior")
    whole = thali.LatentFeatures("ibp", "nonnegative_linear_gaussian", engine, random_state=0)
    clone(whole).set_params(engine__sweeps=4).fit(X)  # compiled before seconds are counted
    whole.fit(X)
    part = thali.LatentFeatures("ibp", "nonnegative_linear_gaussian", engine, random_state=0)
    part.fit(X, checkpoint=tmp_path / "c", time_budget=max(0.2, 0.4 * whole.seconds_))
    assert part.stopped_ != "finished"
    part.fit(X, checkpoint=tmp_path / "c", resume=True)
    assert np.array_equal(part.history_["log_joint"], whole.history_["log_joint"])


@pytest.mark.parametrize("likelihood", KEPT)
def test_a_new_row_of_which_nothing_was_observed_has_the_prior(likelihood):
    full, _, _ = with_gaps(likelihood)
    engine = thali.UncollapsedGibbs(sweeps=60, chains=1)
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False)
    model.fit(full)
    nothing = np.full((1, full.shape[1]), np.nan)
    m = model.Z_.sum(axis=0)
    alone, beside = (model.predict_proba(X)[0] for X in (nothing, [*nothing, full[0]]))
    assert np.allclose(alone, m / (len(full) + 1), atol=1e-12)
    assert np.allclose(beside, alone)


def test_bits_of_new_rows_with_gaps_are_those_of_what_they_show(rng):
    """Little noise and two of twelve columns shown, against the sum over all rows."""
    Z, A = rng.random((60, 3)) < 0.5, np.abs(rng.normal(size=(3, 12))) + 0.5
    X = Z @ A + 0.1 * rng.normal(size=(60, 12))
    likelihood = thali.NonnegativeLinearGaussian(0.1, 1.0)
    engine = thali.UncollapsedGibbs(sweeps=60, chains=1, init=Z)
    model = thali.LatentFeatures(thali.IBP(1.0), likelihood, engine, random_state=0).fit(X)
    assert model.n_components_ == 3
    new = np.full((6, 12), np.nan)
    new[:, 3:5] = X[:6, 3:5]
    odds = thali.IBP(1.0).tables(61).log_odds[model.Z_.sum(axis=0)]
    bits = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    left = new[:, None, 3:5] - bits @ model.components_[:, 3:5]
    logs = bits @ odds - 0.5 * np.square(left / 0.1).sum(axis=2)
    weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    found = model.predict_proba(new)
    assert np.allclose(found, weights @ bits, atol=1e-6)
