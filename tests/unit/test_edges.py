"""Edges easy to get wrong: aliasing, NumPy numbers, flat laws, extreme scales, failures."""

import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import thali
from thali import storage
from thali.data import Data
from thali.model import Model

QUICK = thali.CollapsedGibbs(sweeps=12, chains=2)


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=30, random_state=0).X


def test_results_do_not_change_when_the_callers_array_does(X):
    mine = X.copy()
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0).fit(
        mine
    )
    before = model.score(X)
    mine[:] = 0.0
    assert model.score(X) == before
    assert np.array_equal(model.X_, X)


@pytest.mark.parametrize("number", [np.int64(2), np.float32(2.0), 2])
def test_fixed_numbers_of_any_type_stay_fixed(X, number):
    first = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0).fit(X)
    again = thali.LatentFeatures(
        thali.IBP(alpha=number),
        likelihood="linear_gaussian",
        engine=QUICK.replace(init=first),
        random_state=0,
    ).fit(X)
    assert again.alpha_ == 2.0


def test_a_very_flat_law_of_alpha_does_not_stop_a_run(X):
    prior = thali.IBP(thali.Gamma(0.001, 0.001))
    model = thali.LatentFeatures(
        prior, likelihood="linear_gaussian", engine=QUICK, random_state=0
    ).fit(np.zeros((20, 3)))
    assert model.alpha_ > 0.0


def test_scales_too_far_apart_are_refused(X):
    likelihood = thali.LinearGaussian(sigma_x=1e-5, sigma_a=1e6)
    with pytest.raises(ValueError, match="less than a millionth of sigma_a"):
        thali.LatentFeatures(likelihood=likelihood, engine=QUICK).fit(X)


def test_a_hopeless_outlier_is_named():
    X = np.random.default_rng(0).standard_normal((20, 5))
    X[3, 2] = 2e4
    likelihood = thali.LinearGaussian(sigma_x=1.0, sigma_a=1.0)
    with pytest.raises(ValueError, match="Row 3 is so far"):
        thali.LatentFeatures(likelihood=likelihood, engine=QUICK, random_state=0).fit(X)


def test_an_engine_that_starts_from_a_model_can_be_cloned(X):
    first = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0).fit(X)
    second = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=QUICK.replace(init=first), random_state=0
    )
    assert clone(second).fit(X).starts_ == ["another model"] * 2


def test_a_failed_fit_is_not_fitted(X):
    model = thali.LatentFeatures(likelihood="linear_gaussian", prior="nonsense")
    with pytest.raises(ValueError, match="not known"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_a_prior_that_a_file_cannot_name_is_refused_at_saving(X, tmp_path):
    class Mine(thali.IBP):
        pass

    model = thali.LatentFeatures(
        Mine(alpha=1.0), likelihood="linear_gaussian", engine=QUICK, random_state=0
    ).fit(X)
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save(tmp_path / "m.thali")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_cannot_be_written_is_told_before_the_work(X, tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK).fit(X, checkpoint=tmp_path)


def test_a_failing_checkpoint_leaves_no_thread_at_work(X, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(storage, "write", fail)
    engine = thali.CollapsedGibbs(sweeps=10**6, chains=2, init="empty")
    before = threading.active_count()
    with pytest.raises(OSError, match="disk full"):
        thali.LatentFeatures(likelihood="linear_gaussian", engine=engine).fit(
            X, checkpoint=tmp_path / "c.thali"
        )
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("settings", "fit", "words"),
    [
        ({"center": "no"}, {}, "center must be True or False"),
        ({}, {"time_budget": "soon"}, "time_budget must be a positive number"),
        ({}, {"time_budget": -1}, "time_budget must be positive"),
    ],
)
def test_wrong_arguments_are_named(X, settings, fit, words):
    with pytest.raises((TypeError, ValueError), match=words):
        thali.LatentFeatures(engine=QUICK, **settings).fit(X, **fit)


# ---- next to no noise ---------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Rounding errors:RuntimeWarning")
@pytest.mark.parametrize("sigma_x", [1e-3, 3e-4])  # finer is refused: test_fine_noise.py
@pytest.mark.parametrize("moves", [0, 2])
@pytest.mark.parametrize("gaps", [0, 3])
def test_nearly_equal_columns_with_hardly_any_noise_neither_hang_nor_fail(sigma_x, moves, gaps):
    rng = np.random.default_rng(0)
    Z = rng.random((20, 4)) < 0.5
    Z = np.column_stack([Z, Z[:, 0]])
    Z[3, 4] ^= True
    X = Z @ rng.standard_normal((5, 6))
    X[:gaps, 0] = np.nan
    engine = thali.CollapsedGibbs(sweeps=60, chains=1, init=Z, moves=moves)
    likelihood = thali.LinearGaussian(sigma_x, 1.0)
    model = thali.LatentFeatures(thali.IBP(2.0), likelihood, engine, random_state=0).fit(X)
    fixed = Model(thali.IBP(2.0), likelihood)
    assert model.best_.log_joint == pytest.approx(fixed.log_joint(X, model.best_.Z), rel=1e-4)
    assert model.n_components_ in (5, 6)


@pytest.mark.parametrize("law", [thali.Gamma(1, 1), thali.InverseGamma(1, 1e-8), "auto"])
def test_inferred_noise_of_data_without_any_stays_where_digits_do(law):
    rng = np.random.default_rng(0)
    Z = rng.random((50, 5)) < 0.4
    X = Z @ rng.standard_normal((5, 10))
    engine = thali.CollapsedGibbs(sweeps=100, chains=1, init="ica")
    likelihood = thali.LinearGaussian(law, 1.0)
    model = thali.LatentFeatures(thali.IBP(), likelihood, engine, random_state=0).fit(X)
    assert model.n_components_ == 5
    assert model.sigma_x_ >= 1e-4


def test_the_rank_of_data_without_noise_is_not_that_of_its_rounding_errors(rng):
    from thali.starts.ica import signal_rank

    X = (rng.random((600, 5)) < 0.4) @ rng.standard_normal((5, 60))
    assert signal_rank(Data.of(X)) == 5


def test_an_alpha_beyond_all_bounds_is_named(rng):
    engine = thali.CollapsedGibbs(sweeps=5, chains=1, init="empty")
    model = thali.LatentFeatures(thali.IBP(1e6), likelihood="linear_gaussian", engine=engine)
    with pytest.raises(ValueError, match=r"With alpha=1e\+06 the prior gives a row more than"):
        model.fit(rng.standard_normal((10, 3)))
