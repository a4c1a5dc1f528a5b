"""``scale=True``: what a model of hand-scaled data says, told in the units of the data."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.text import Text
from sklearn.base import clone

import thali
import thali.plots
from thali.cli import run
from thali.data import Data
from thali.estimators import units
from thali.plots import reading

GIBBS = thali.CollapsedGibbs(sweeps=40, chains=2)
SIZES = np.geomspace(0.01, 100.0, 6)  # of the columns


def made(n: int = 50, gaps: bool = True, seed: int = 0) -> np.ndarray:
    """X = Z A + E in columns of very different units, about a point far from zero."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, 3)) < 0.4
    X = (2.0 * Z @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(n, 6)) + 3.0) * SIZES
    if gaps:
        X[3, 4] = X[7, 0] = X[8, 0] = np.nan
    return X


def fitted(X: Any, **settings: Any) -> thali.LatentFeatures:
    settings = {
        "likelihood": "linear_gaussian",
        "engine": GIBBS,
        "random_state": 0,
        "progress": False,
    } | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thali.DegenerateFit)
        return thali.LatentFeatures(**settings).fit(X)


def by_hand(model: thali.LatentFeatures, X: np.ndarray) -> np.ndarray:
    return (X - model.mean_) / model.scale_


def jacobian(model: thali.LatentFeatures, X: np.ndarray) -> float:
    """The mean over rows of Σ log scale over what was observed."""
    return float((~np.isnan(X) @ np.log(model.scale_)).mean())


@pytest.fixture(scope="module", params=[False, True], ids=["scaled", "centered and scaled"])
def pair(request: pytest.FixtureRequest) -> tuple[thali.LatentFeatures, thali.LatentFeatures]:
    """A model of scaled columns, and one of the columns scaled by hand."""
    model = fitted(made(), center=request.param, scale=True)
    return model, fitted(by_hand(model, made()))


# What is told is that of hand-scaled data, in other units -----------------------------------------


def test_scales_are_standard_deviations_of_what_was_observed(pair: Any) -> None:
    model, _ = pair
    np.testing.assert_allclose(model.scale_, np.nanstd(made(), axis=0))
    assert not model.mean_.any() or np.allclose(model.mean_, np.nanmean(made(), axis=0))
    np.testing.assert_allclose(model.X_, made(), rtol=1e-12)


def test_features_are_found_as_in_hand_scaled_data(pair: Any) -> None:
    model, hand = pair
    assert model.n_components_ > 0
    assert np.array_equal(model.Z_, hand.Z_)
    np.testing.assert_allclose(model.components_, hand.components_ * model.scale_)
    assert model.log_joint_ == hand.log_joint_
    assert model.sigma_x_ == hand.sigma_x_
    assert [f.kind for f in model.findings_] == [f.kind for f in hand.findings_]


def test_expected_data_are_in_their_own_units(pair: Any) -> None:
    model, hand = pair
    expected = hand.inverse_transform(hand.Z_) * model.scale_ + model.mean_
    np.testing.assert_allclose(model.inverse_transform(model.Z_), expected)
    np.testing.assert_allclose(
        model.inverse_transform(model.Z_), model.Z_ @ model.components_ + model.mean_
    )


def test_missing_entries_are_filled_in_in_their_own_units(pair: Any) -> None:
    model, hand = pair
    filled, std = model.impute(return_std=True)
    other, of_other = hand.impute(return_std=True)
    np.testing.assert_allclose(filled, other * model.scale_ + model.mean_, rtol=1e-12)
    np.testing.assert_allclose(std, of_other * model.scale_)
    ends, others = model.impute(interval=0.8), hand.impute(interval=0.8)
    for end, found in zip(ends, others, strict=True):
        np.testing.assert_allclose(end, found * model.scale_ + model.mean_, rtol=1e-12)


def test_scores_differ_by_the_jacobian(pair: Any) -> None:
    model, hand = pair
    new = made(20, seed=1)
    change = jacobian(model, new)
    assert abs(change) > 0.1
    assert np.isclose(model.score(new), hand.score(by_hand(model, new)) - change, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(new), hand.predict_proba(by_hand(model, new)))
    assert np.array_equal(model.transform(new), hand.transform(by_hand(model, new)))


def test_draws_are_in_the_units_of_the_data(pair: Any) -> None:
    model, hand = pair
    for mine, other in zip(model.draws(5), hand.draws(5), strict=True):
        assert np.array_equal(mine.Z, other.Z)
        assert mine.sigma_x == other.sigma_x
        np.testing.assert_allclose(mine.A, other.A * model.scale_)
    np.testing.assert_allclose(model.best_.A, hand.best_.A * model.scale_)


def test_effects_are_in_the_units_of_the_data(pair: Any) -> None:
    model, hand = pair
    mine, other = model.effects(), hand.effects()
    size = model.scale_[mine["column"].to_numpy()]
    np.testing.assert_allclose(mine["effect"], other["effect"] * size, atol=1e-12)
    middle = model.mean_[mine["column"].to_numpy()]
    np.testing.assert_allclose(mine["without"], other["without"] * size + middle, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The evidence is uncertain:RuntimeWarning")
def test_the_evidence_is_that_of_the_scaled_data() -> None:
    X = made(8, gaps=False)[:, :3]
    model = fitted(X, scale=True)
    hand = fitted(by_hand(model, X))
    mine, other = (each.evidence(n_runs=4, steps=20) for each in (model, hand))
    assert mine.estimate == other.estimate
    assert mine.upper == other.upper


def test_held_out_entries_are_told_in_their_own_units() -> None:
    test = thali.evaluation.holdout(made(gaps=False), where="entries", random_state=0)
    model = fitted(test.X, scale=True)
    hand = fitted(by_hand(model, test.X))
    scaled = by_hand(model, made(gaps=False))
    of_hand = thali.evaluation.holdout(scaled, where="entries", random_state=0)
    change = np.log(model.scale_)[test.columns]
    assert np.isclose(
        test.log_predictive(model), of_hand.log_predictive(hand) - change.mean(), rtol=1e-10
    )
    assert np.isclose(
        test.log_predictive(model, joint=True),
        of_hand.log_predictive(hand, joint=True) - change.sum(),
        rtol=1e-10,
    )
    assert model.score(test) == test.log_predictive(model)


@pytest.mark.parametrize(
    "settings",
    [
        {"likelihood": "sparse_factor", "engine": thali.UncollapsedGibbs(sweeps=20, chains=1)},
        {
            "likelihood": thali.LinearGaussian(noise="column"),
            "engine": thali.CollapsedGibbs(sweeps=20, chains=1),
        },
        {"engine": thali.Variational(truncation=5, n_init=1)},
    ],
    ids=["amounts", "noise of each column", "variational"],
)
def test_other_models_are_told_in_the_units_of_the_data(settings: dict[str, Any]) -> None:
    X = made()
    model = fitted(X, scale=True, center=True, **settings)
    hand = fitted(by_hand(model, X), **settings)
    assert np.array_equal(model.Z_, hand.Z_)
    assert model.n_components_ > 0
    np.testing.assert_allclose(model.components_, hand.components_ * model.scale_)
    assert np.array_equal(getattr(model, "amounts_", 0), getattr(hand, "amounts_", 0))
    expected = hand.impute() * model.scale_ + model.mean_
    np.testing.assert_allclose(model.impute(), expected, rtol=1e-12)


def test_scaling_alone_undoes_units() -> None:
    """Where columns are only multiplied, so is what is told of them."""
    X = made(gaps=False)
    model, other = fitted(X, scale=True), fitted(X * 2.0 ** np.arange(6), scale=True)
    assert np.array_equal(model.Z_, other.Z_)
    np.testing.assert_allclose(other.components_, model.components_ * 2.0 ** np.arange(6))


# Files, frames, pieces ----------------------------------------------------------------------------


def test_a_saved_model_says_the_same(pair: Any, tmp_path: Path) -> None:
    model, _ = pair
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert again.scale is True
    for name in ("scale_", "mean_", "components_", "X_", "Z_"):
        assert np.array_equal(getattr(again, name), getattr(model, name), equal_nan=True)
    assert np.array_equal(again.impute(), model.impute())
    assert again.score(made(20, seed=2)) == model.score(made(20, seed=2))


def test_a_file_without_scales_is_opened(tmp_path: Path) -> None:
    from thali import storage

    model = fitted(made())
    model.save(tmp_path / "m.thali")
    arrays, meta = storage.read(tmp_path / "m.thali", "model")
    del arrays["scale"], meta["params"]["scale"]
    storage.write(tmp_path / "old.thali", "model", arrays, meta)
    old = thali.load(tmp_path / "old.thali")
    assert old.scale is False
    assert (old.scale_ == 1.0).all()
    assert np.array_equal(old.components_, model.components_)
    arrays["scale"] = np.zeros(6)
    storage.write(tmp_path / "bad.thali", "model", arrays, meta)
    with pytest.raises(ValueError, match="no standard deviation"):
        thali.load(tmp_path / "bad.thali")


def test_settings_are_copied_and_set(pair: Any) -> None:
    model, _ = pair
    copy = clone(model)
    assert copy.scale is True
    assert not hasattr(copy, "scale_")
    assert copy.set_params(scale=False).get_params()["scale"] is False


def test_frames_come_back_as_frames() -> None:
    frame = pd.DataFrame(made(), columns=list("abcdef"), index=[f"r{i}" for i in range(50)])
    model = fitted(frame, scale=True)
    filled = model.impute()
    assert list(filled.columns) == list("abcdef")
    assert filled.index[3] == "r3"
    assert np.array_equal(filled, fitted(made(), scale=True).impute())
    assert set(model.effects()["column"]) <= set("abcdef")


def test_pieces_have_the_scales_of_the_first() -> None:
    engine = thali.Variational(truncation=5, n_init=1)
    first, second = made(40, gaps=False), 3.0 * made(40, gaps=False, seed=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, scale=True, random_state=0, progress=False
    )
    model.partial_fit(first)
    scale = model.scale_.copy()
    np.testing.assert_allclose(scale, first.std(axis=0))
    model.partial_fit(second)
    assert np.array_equal(model.scale_, scale)
    np.testing.assert_allclose(model.X_, second)
    hand = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    hand.partial_fit(first / scale).partial_fit(second / scale)
    change = jacobian(model, second)
    assert np.isclose(model.score(second), hand.score(second / scale) - change, rtol=1e-10)
    np.testing.assert_allclose(model.components_, hand.components_ * scale)


def test_a_start_is_taken_in_the_units_of_its_fit() -> None:
    settings = {"likelihood": "sparse_factor", "scale": True}
    first = fitted(made(gaps=False), engine=thali.UncollapsedGibbs(sweeps=10, chains=1), **settings)
    engine = thali.UncollapsedGibbs(sweeps=10, chains=1, init=first)
    assert np.isfinite(fitted(made(gaps=False), engine=engine, **settings).log_joint_)


def test_what_was_given_is_not_changed() -> None:
    for X in (made(), made(gaps=False)):
        before = X.copy()
        fitted(X, scale=True).score(X)
        assert np.array_equal(X, before, equal_nan=True)


def test_sparse_data_stay_sparse() -> None:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((60, 8)) < 0.3, rng.normal(2.0, 1.0, (60, 8)), 0.0)
    dense = dense * np.geomspace(0.1, 10.0, 8)
    engine = thali.MaximizationExpectation(n_init=1)
    likelihood = "nonnegative_linear_gaussian"
    dense = np.abs(dense)
    X = sp.csr_array(dense)
    model = fitted(X, scale=True, engine=engine, likelihood=likelihood)
    assert sp.issparse(model.X_)
    np.testing.assert_allclose(model.scale_, dense.std(axis=0))
    np.testing.assert_allclose(model.X_.toarray(), dense)
    hand = fitted(sp.csr_array(dense / model.scale_), engine=engine, likelihood=likelihood)
    assert np.array_equal(model.Z_, hand.Z_)
    np.testing.assert_allclose(model.components_, hand.components_ * model.scale_)
    assert np.isclose(reading.explained_by(model).explained, reading.explained_by(hand).explained)
    assert (X.toarray() == dense).all()


# Scales -------------------------------------------------------------------------------------------


def test_columns_that_do_not_vary_stay_as_they_are() -> None:
    X = made()
    X[:, 1], X[:, 2], X[:, 3] = 0.1, np.nan, 0.0
    X[:, 5] = 7e9 + 1e-6 * (np.arange(50) % 2)  # a rounding error
    model = fitted(X, scale=True)
    assert model.scale_[[1, 2, 3, 5]].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert model.scale_[0] == np.nanstd(X[:, 0])
    assert np.isfinite(model.impute()).all()


def test_scales_are_found_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = made(300)
    whole = units.deviations(X)
    monkeypatch.setattr("thali.data.matrix.BLOCK", 60)
    np.testing.assert_allclose(units.deviations(X), whole, rtol=1e-13)
    np.testing.assert_allclose(units.deviations(X), np.nanstd(X, axis=0), rtol=1e-12)
    full = np.where(np.isnan(X), 0.0, X)
    np.testing.assert_allclose(units.deviations(sp.csr_array(full)), full.std(axis=0), rtol=1e-12)


def test_the_jacobian_counts_what_was_observed() -> None:
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    assert np.allclose(units.log_scales(np.array([2.0, 5.0]), Data.of(X)), np.log([2.0, 10.0]))
    sparse = Data.of(sp.csr_array([[1.0, 0.0], [0.0, 0.0]]))
    assert np.allclose(units.log_scales(np.array([2.0, 5.0]), sparse), np.log([10.0, 10.0]))


def test_chances_of_bits_survive_scaling() -> None:
    X = made()
    X[:, 1] = np.arange(50) % 3 == 0
    X[4, 1] = np.nan
    for center in (False, True):
        chances = fitted(X, scale=True, center=center).impute_proba()
        assert list(chances) == [1]
        assert 0.0 <= chances[1][0] <= 1.0


# Pictures, words, choices, refusals ---------------------------------------------------------------


def test_reports_compare_columns_as_they_were_fitted(pair: Any, tmp_path: Path) -> None:
    model, hand = pair
    mine, other = reading.explained_by(model), reading.explained_by(hand)
    assert np.isclose(mine.explained, other.explained)
    assert np.isclose(mine.left_over, other.left_over)
    assert mine.worst == other.worst
    np.testing.assert_allclose(reading.compared_features(model), hand.components_)
    text = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "each column being measured in units of its standard deviation" in text
    assert ("about the column means" in text) == bool(model.mean_.any())
    for draw in (thali.plots.reconstructions, thali.plots.features):
        words = [each.get_text() for each in draw(model).findobj(Text)]
        assert any("columns scaled" in each for each in words)


def test_auto_takes_scaled_columns_for_numbers_of_one_kind() -> None:
    model = fitted(made(), likelihood="auto", scale=True)
    assert model.choice_.startswith("LinearGaussian, since columns are to be scaled,")
    both = fitted(made(), likelihood="auto", scale=True, center=True)
    assert "columns are to be centered and scaled," in both.choice_


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        ("noisy_or", "NoisyOr takes the data as they are"),
        ("poisson", "Poisson takes the data as they are"),
        ("probit", "a table has units of its own"),
        ("mixed", "a table has units of its own"),
        ("mixed_factors", "a table has units of its own"),
    ],
)
def test_data_without_units_are_not_scaled(likelihood: str, words: str) -> None:
    X = (made(gaps=False) > 3.0 * SIZES).astype(float)
    with pytest.raises(ValueError, match=words):
        fitted(X, likelihood=likelihood, engine="auto", scale=True)


def test_the_choice_is_yes_or_no() -> None:
    with pytest.raises(TypeError, match="scale must be True or False, not 'std'"):
        fitted(made(), scale="std")


def test_the_command_line_scales(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "x.csv", tmp_path / "out"
    pd.DataFrame(made()).to_csv(path, index=False)
    options = "--scale --likelihood linear-gaussian --sweeps 20 --chains 1 --seed 0 --quiet"
    assert run(["fit", str(path), "--out", str(out), *options.split()]) == 0
    model = thali.load(out / "model.thali")
    np.testing.assert_allclose(model.scale_, np.nanstd(made(), axis=0))
    features = pd.read_csv(out / "features.csv").to_numpy()
    np.testing.assert_allclose(features, model.components_)
    options = "--scale --likelihood poisson --quiet"
    assert run(["fit", str(path), "--out", str(tmp_path / "no"), *options.split()]) == 2
    assert "scale=True is for numbers" in capsys.readouterr().err
