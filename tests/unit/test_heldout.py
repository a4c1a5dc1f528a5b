"""Held-out entries: what is hidden, and how well it is predicted."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import thali
from thali.evaluation import holdout

QUICK = thali.CollapsedGibbs(sweeps=30, chains=2)


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=31, random_state=0).X


@pytest.fixture(scope="module")
def test_of(X):
    return holdout(X, 0.3, "entries", random_state=1)


@pytest.fixture(scope="module")
def model(test_of):
    return thali.LatentFeatures(
        likelihood="linear_gaussian", engine=QUICK, center=True, random_state=0
    ).fit(test_of.X)


def test_the_last_half_loses_a_share_of_each_row(X):
    test = holdout(X, 1 / 3)
    hidden = ~test.observed
    assert not hidden[:15].any()
    assert (hidden[15:].sum(axis=1) == 12).all()
    assert len({tuple(row) for row in hidden[15:]}) > 10  # columns drawn afresh for each row
    assert np.array_equal(np.isnan(test.X), hidden)
    assert np.array_equal(test.values, X[hidden])
    assert np.array_equal(test.X[test.observed], X[test.observed])


def test_entries_are_drawn_from_everywhere(X):
    test = holdout(X, 0.25, "entries")
    assert len(test.values) == round(0.25 * X.size)
    assert (~test.observed).any(axis=1).mean() > 0.9
    assert np.array_equal(X[test.rows, test.columns], test.values)


def test_the_seed_decides(X):
    one, two, other = (holdout(X, random_state=seed).observed for seed in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_missing_entries_are_never_among_the_hidden(X):
    gaps = X.copy()
    gaps[:, 3], gaps[20] = np.nan, np.nan
    for where in ("entries", "last_half"):
        test = holdout(gaps, 0.5, where)
        assert np.isfinite(test.values).all()
        assert not test.observed[np.isnan(gaps)].any()


def test_a_data_frame_stays_one(X):
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"), index=[f"r{i}" for i in range(31)])
    test = holdout(frame)
    assert list(test.X.columns) == list("abcd")
    assert test.X.index[3] == "r3"
    assert test.X.isna().to_numpy().sum() == len(test.values)


def test_log_predictive_averages_densities_over_draws(model, test_of):
    logs = []
    for draw in model.draws():
        mean = draw.Z @ draw.A + model.mean_
        law = stats.norm(mean[test_of.rows, test_of.columns], draw.sigma_x)
        logs.append(law.logpdf(test_of.values))
    logs = np.array(logs)
    each = (logsumexp(logs, axis=0) - np.log(len(logs))).mean()
    jointly = logsumexp(logs.sum(axis=1)) - np.log(len(logs))
    assert test_of.log_predictive(model) == pytest.approx(each)
    assert test_of.log_predictive(model, joint=True) == pytest.approx(jointly)
    assert model.score(test_of) == test_of.log_predictive(model)


def test_rmse_is_that_of_the_posterior_means(model, test_of):
    filled = model.impute()
    wanted = np.sqrt(np.mean((filled[test_of.rows, test_of.columns] - test_of.values) ** 2))
    assert test_of.rmse(model) == pytest.approx(wanted)
    assert wanted < test_of.values.std()  # better than a guess of the mean


def test_fewer_draws_are_evenly_spaced(model):
    some, every = list(model.draws(5)), list(model.draws())
    assert len(some) == 5
    assert len(every) == 30
    for draw, place in zip(some, (0, 7, 14, 22, 29), strict=True):
        assert np.array_equal(draw.A, every[place].A)


def test_a_model_that_has_seen_the_answer_is_refused(X, test_of):
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0)
    with pytest.raises(ValueError, match=r"hidden entries are not missing; fit it to holdout\.X"):
        test_of.log_predictive(model.fit(X))
    with pytest.raises(ValueError, match="fitted to 31 x 5 data, but these are 31 x 36"):
        test_of.rmse(model.fit(X[:, :5]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"where": "first_half"}, "one of last_half, entries, not 'first_half'"),
        ({"fraction": 0.0}, "between 0 and 1, not 0.0"),
        ({"fraction": 1.0}, "between 0 and 1, not 1.0"),
        ({"fraction": 0.001}, "hides none of them"),
    ],
)
def test_wrong_designs_are_refused(X, options, words):
    with pytest.raises(ValueError, match=words):
        holdout(X, **options)


def people(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    tall, rich = rng.random((2, n)) < 0.5
    return pd.DataFrame(
        {
            "height": 168 + 10 * tall + 2 * rng.standard_normal(n),
            "income": np.exp(3 + rich + 0.3 * rng.standard_normal(n)),
            "visits": rng.poisson(2 + 15 * tall),
            "owner": np.where(rich, "yes", "no"),
            "size": pd.Categorical.from_codes(tall * 1 + rich, ["S", "M", "L"], ordered=True),
            "dish": np.where(tall, "dal", np.where(rich, "rice", "roti")),
        }
    )


@pytest.fixture(scope="module")
def of_table():
    test = holdout(people(), 0.2, "entries", random_state=0)
    return test, thali.LatentFeatures(likelihood="mixed", engine=QUICK, random_state=0).fit(test.X)


def test_a_table_keeps_its_types_but_for_what_is_hidden(of_table):
    frame, (test, _) = people(), of_table
    assert test.X["dish"].dtype == frame["dish"].dtype
    assert test.X["size"].dtype == frame["size"].dtype
    assert np.array_equal(test.X.notna().to_numpy(), test.observed)
    assert all(
        frame.iat[n, d] == x for n, d, x in zip(*test.where_hidden, test.values, strict=True)
    )


def test_levels_of_a_table_have_the_probabilities_that_impute_proba_has(of_table):
    """One entry after the other: of levels by `impute_proba`, of numbers by what draws say."""
    test, model = of_table
    chances, logs = model.impute_proba(), []
    likelihoods = [model.fit_.model.likelihood_at(draw.hyper) for draw in model.draws()]
    first = model.likelihood_.known.first
    for n, d, x in zip(*test.where_hidden, test.values, strict=True):
        name = test.X.columns[d]
        if name in chances:
            row = chances.table(name).loc[n]
            logs.append(np.log(row[x]))
            continue
        densities = []
        for draw, likelihood in zip(model.draws(), likelihoods, strict=True):
            v = likelihood.latent_mean(draw.Z, draw.A)
            entry = likelihood.entries_at(v[[n]]).log_density(np.full((1, v.shape[1]), float(x)))
            densities.append(entry[0, first[d]])
        logs.append(logsumexp(densities) - np.log(len(densities)))
    assert test.log_densities(model) == pytest.approx(np.array(logs), abs=1e-10)
    assert test.log_predictive(model) == pytest.approx(np.mean(logs), abs=1e-10)
    assert model.score(test) == test.log_predictive(model)


def test_tables_are_refused_a_root_mean_square(of_table):
    test, model = of_table
    with pytest.raises(ValueError, match="no scale in common"):
        test.rmse(model)


def test_a_table_that_was_seen_is_refused(of_table):
    test, _ = of_table
    model = thali.LatentFeatures(likelihood="mixed", engine=QUICK, random_state=0).fit(people())
    with pytest.raises(ValueError, match="not missing"):
        test.log_predictive(model)
    other = holdout(people().drop(columns="dish"), 0.2, "entries")
    with pytest.raises(ValueError, match="60 x 6 data, but these are 60 x 5"):
        other.log_predictive(model)


def test_a_table_without_names_is_scored_too():
    X = people()[["height", "visits"]].assign(owner=people()["owner"] == "yes").to_numpy(float)
    test = holdout(X, 0.2, "entries", random_state=0)
    model = thali.LatentFeatures(likelihood="mixed", engine=QUICK, random_state=0).fit(test.X)
    assert -6.0 < test.log_predictive(model) < 0.0
