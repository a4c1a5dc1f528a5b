"""Columns of new rows predicted from others: values, intervals, types, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

import thali
from thali.data import Data
from thali.results.imputation import of_new_rows

N, NEW = 160, 60


def factors(rng, n, A, noise=0.3):
    """Rows with each factor or not, in amounts."""
    S = (rng.random((n, len(A))) < 0.6) * rng.standard_normal((n, len(A)))
    return S @ A + noise * rng.standard_normal((n, A.shape[1]))


@pytest.fixture(scope="module")
def numbers():
    """A fit to numbers, new rows of which three columns of eight are hidden, and their truth."""
    rng = np.random.default_rng(0)
    A = 1.5 * rng.standard_normal((3, 8))
    engine = thali.UncollapsedGibbs(sweeps=120, chains=2)
    model = thali.LatentFeatures(likelihood="mixed_factors", engine=engine, random_state=0)
    truth = factors(rng, NEW, A)
    shown = truth.copy()
    shown[:, 5:] = np.nan
    return model.fit(factors(rng, N, A)), shown, truth


def test_columns_are_predicted_and_intervals_hold_them(numbers):
    model, shown, truth = numbers
    filled, low, high = model.impute(shown, interval=0.9)
    np.testing.assert_array_equal(filled[:, :5], truth[:, :5])
    hidden, guess = truth[:, 5:], filled[:, 5:]
    errors = np.sqrt(np.mean((guess - hidden) ** 2))
    given = model.X_
    plain = Ridge(alpha=1.0).fit(given[:, :5], given[:, 5:]).predict(truth[:, :5])
    assert errors < 1.05 * np.sqrt(np.mean((plain - hidden) ** 2))
    assert errors < 0.4 * hidden.std()
    assert 0.82 < ((low <= truth) & (truth <= high))[:, 5:].mean() < 0.97
    assert ((low <= filled) & (filled <= high))[:, 5:].all()


def test_a_row_is_filled_alike_in_any_company(numbers):
    model, shown, _ = numbers
    together = model.impute(shown[:4])
    np.testing.assert_array_equal(together, model.impute(shown[:4]))
    np.testing.assert_allclose(together[2:3], model.impute(shown[2:3]), rtol=1e-12)


def test_means_and_spread_are_those_of_the_sum_over_bits():
    """Of one draw, whose features are known: E and Var of a missing entry are sums over bits."""
    rng = np.random.default_rng(1)
    A = 0.7 * rng.standard_normal((3, 6))
    X = (rng.random((60, 3)) < 0.5) @ A + 0.8 * rng.standard_normal((60, 6))
    likelihood = thali.LinearGaussian(sigma_x=0.8, sigma_a=1.0)
    engine = thali.CollapsedGibbs(sweeps=40, chains=1, burn_in=39)
    model = thali.LatentFeatures(likelihood=likelihood, engine=engine, random_state=0).fit(X)
    (draw,) = model.draws()
    rows = X[:4] + 0.5 * rng.standard_normal((4, 6))
    rows[:, 3:] = np.nan
    k = draw.Z.shape[1]
    assert k > 1
    bits = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    pi = draw.Z.sum(axis=0) / (len(X) + 1.0)
    means = bits @ draw.A
    logs = -0.5 * np.square(rows[:, None, :3] - means[:, :3]).sum(axis=2) / 0.8**2
    weights = np.exp(logs) * np.where(bits, pi, 1.0 - pi).prod(axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    wanted = weights @ means[:, 3:]
    spread = np.sqrt(weights @ means[:, 3:] ** 2 - wanted**2)
    with pytest.warns(thali.TooFewDraws):
        filled, std = model.impute(rows, return_std=True)
    assert spread.max() > 0.2
    assert (np.abs(filled[:, 3:] - wanted) < 4.0 * spread / 10.0 + 0.02).all()  # of 100 values
    np.testing.assert_allclose(std[:, 3:], np.sqrt(spread**2 + 0.8**2), rtol=0.12)
    np.testing.assert_array_equal(filled[:, :3], rows[:, :3])


def test_a_point_answer_gives_means_and_not_one_guess():
    rng = np.random.default_rng(0)
    A = np.array([[2.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 2.0]])
    X = (rng.random((60, 2)) < 0.5) @ A + 0.3 * rng.standard_normal((60, 4))
    likelihood = thali.LinearGaussian(sigma_x=0.3, sigma_a=1.5)
    model = thali.LatentFeatures(likelihood=likelihood, engine="beam_search", random_state=0).fit(X)
    filled = model.impute(np.array([[0.1, 2.0, np.nan, np.nan], [np.nan] * 4]))
    np.testing.assert_allclose(filled[0, 2:], [0.0, 2.0], atol=0.3)
    np.testing.assert_allclose(filled[1], X.mean(axis=0), atol=0.4)  # half of the rows have each


def test_draws_count_with_their_weights():
    X = thali.datasets.planted(n=30, d=4, k=2, random_state=0).X
    engine = thali.ParticleFilter(n_particles=6)
    likelihood = thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0)
    model = thali.LatentFeatures(likelihood=likelihood, engine=engine, random_state=1).fit(X)
    entries = of_new_rows(model.fit_, Data.checked(np.full((1, 4), np.nan)))
    positions = model.fit_.representatives(100)
    assert len(entries.given.mean) == len(positions)
    shares = np.bincount(positions, minlength=len(model.weights_)) / len(positions)
    np.testing.assert_allclose(shares, model.weights_, atol=0.011)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_lists_are_taken_as_arrays_are(numbers, table):
    model, shown, _ = numbers
    np.testing.assert_array_equal(model.impute(shown[:3].tolist()), model.impute(shown[:3]))
    model, _, _ = table
    rows = [[171.0, None, True, None], [None, 3, False, "dal"]]
    filled = model.impute(rows)
    assert not pd.DataFrame(filled).isna().to_numpy().any()
    assert model.impute_proba(rows)["dish"].shape == (1, 3)


@pytest.fixture(scope="module")
def table():
    """A table with columns of several kinds, and new rows of it with gaps."""
    rng = np.random.default_rng(2)
    n = N + 30
    size = rng.standard_normal(n)
    frame = pd.DataFrame(
        {
            "height": 170.0 + 9.0 * size + rng.standard_normal(n),
            "visits": rng.poisson(np.exp(1.0 + 0.8 * size)),
            "tall": size + 0.2 * rng.standard_normal(n) > 0.0,
            "dish": np.where(size > 0.5, "dal", np.where(size > -0.5, "rice", "roti")),
        },
        index=pd.Index(np.arange(n) + 500, name="who"),
    )
    engine = thali.UncollapsedGibbs(sweeps=60, chains=1)
    model = thali.LatentFeatures(likelihood="mixed_factors", engine=engine, random_state=0)
    new = frame.iloc[N:].astype({"visits": "Int64", "tall": "boolean"})
    gaps = new.copy()
    gaps.loc[gaps.index[:20], ["tall", "dish"]] = None
    gaps.loc[gaps.index[10:], "visits"] = None
    return model.fit(frame.iloc[:N]), gaps, new


def test_new_rows_of_a_table_come_back_in_their_own_types(table):
    model, gaps, truth = table
    filled, low, high = model.impute(gaps, interval=0.8)
    assert filled.index.equals(gaps.index)
    assert list(filled.columns) == list(truth.columns)
    assert not filled.isna().to_numpy().any()
    assert_frame_equal(filled[["height"]], truth[["height"]])
    assert (filled["visits"] == np.rint(filled["visits"].astype(float))).all()
    assert (filled["tall"].astype(bool) == truth["tall"].astype(bool))[:20].mean() > 0.8
    assert (filled["dish"].astype(str) == truth["dish"])[:20].mean() > 0.7
    assert (low["visits"] <= filled["visits"]).all()
    assert (filled["visits"] <= high["visits"]).all()
    std = model.impute(gaps, return_std=True)[1]
    assert (std["height"] == 0.0).all()
    assert (std["tall"][:20] > 0.0).all()
    assert (std["tall"][20:] == 0.0).all()


def test_chances_of_levels_of_new_rows(table):
    model, gaps, truth = table
    chances = model.impute_proba(gaps)
    assert chances["tall"].shape == (20,)
    assert chances["dish"].shape == (20, 3)
    np.testing.assert_allclose(chances["dish"].sum(axis=1), 1.0)
    assert list(chances.table("dish").index) == list(gaps.index[:20])
    right = np.where(truth["tall"][:20].astype(bool), chances["tall"], 1.0 - chances["tall"])
    assert right.mean() > 0.75


def test_bits_of_new_rows_of_yes_and_no():
    rng = np.random.default_rng(3)
    likelihood = thali.NoisyOr(epsilon=0.02, lam=0.9, p=0.4)
    Y = likelihood.sample_features(rng, 3, 10)
    X = likelihood.sample(rng, rng.random((80, 3)) < 0.4, Y)
    engine = thali.UncollapsedGibbs(sweeps=40, chains=1)
    model = thali.LatentFeatures(likelihood=likelihood, engine=engine, random_state=0).fit(X[:60])
    gaps = X[60:].astype(float)
    gaps[:, 7] = np.nan
    p = model.impute_proba(gaps)[7]
    assert p.shape == (20,)
    one = X[60:, 7] == 1
    assert p[one].mean() > p[~one].mean() + 0.2


def test_nothing_missing_is_given_back_as_it_is(numbers, table):
    model, _, truth = numbers
    np.testing.assert_array_equal(model.impute(truth), truth)
    assert model.impute(truth, interval=0.5)[1].shape == truth.shape
    nothing = model.impute(np.full((2, 8), np.nan))  # what is expected of any row
    assert np.isfinite(nothing).all()
    assert np.abs(nothing - model.X_.mean(axis=0)).max() < 1.0
    model, _, whole = table
    assert_frame_equal(model.impute(whole), whole, check_dtype=False)


def test_units_and_names_are_those_of_the_training_data():
    X = thali.datasets.planted(n=60, d=5, k=2, random_state=0).X * 10.0 + 300.0
    frame = pd.DataFrame(X, columns=list("abcde"))
    engine = thali.CollapsedGibbs(sweeps=30, chains=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, center=True, scale=True, random_state=0
    ).fit(frame)
    new = frame.iloc[:5].set_axis(list("uvwxy"))
    new.iloc[:, 2] = np.nan
    filled = model.impute(new)
    assert list(filled.index) == list("uvwxy")
    assert list(filled.columns) == list("abcde")
    np.testing.assert_array_equal(filled[["a", "b"]], new[["a", "b"]])  # to the last digit
    assert ((filled["c"] > X[:, 2].min() - 20.0) & (filled["c"] < X[:, 2].max() + 20.0)).all()


def test_what_cannot_be_filled_is_refused(numbers, table):
    model, shown, _ = numbers
    with pytest.raises(ValueError, match="features"):
        model.impute(shown[:, :5])
    with pytest.raises(ValueError, match="share between 0 and 1"):
        model.impute(shown, interval=90)
    with pytest.raises(ValueError, match=r"infinity|infinite"):
        model.impute(np.where(np.isnan(shown), np.inf, shown))
    with pytest.raises((TypeError, ValueError), match="sparse"):
        model.impute(csr_array(np.nan_to_num(shown)))
    other, gaps, _ = table
    with pytest.raises(ValueError, match=r"dish.*biryani|biryani.*dish"):
        other.impute(gaps.assign(dish="biryani"))
    engine = thali.CollapsedGibbs(sweeps=4, chains=1)
    prior = thali.FlexibleIBP.from_expectations([0.3, 2.0], 20)
    X = np.random.default_rng(0).standard_normal((20, 4))
    inconsistent = thali.LatentFeatures(prior, "linear_gaussian", engine, random_state=0).fit(X)
    with pytest.raises(ValueError, match="New rows cannot be predicted under FlexibleIBP"):
        inconsistent.impute(np.array([[1.0, np.nan, 0.0, 0.0]]))
