"""The default likelihood: what it takes of small and odd tables; the command line fits what it
says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thali
from thali.cli import run
from thali.data.columns import Columns
from thali.data.tables.frame import read_frame
from thali.plots.reading import image_shape_of
from thali.run.likelihoods import choose_likelihood

QUICK = thali.CollapsedGibbs(sweeps=6, chains=1, init="empty")
SHORT = ["--sweeps", "6", "--chains", "1", "--seed", "0"]


def fit(X, **settings):
    settings = {"engine": QUICK, **settings}
    return thali.LatentFeatures(random_state=0, progress=False, **settings).fit(X)


def chosen(X, engine="auto", **settings):
    return choose_likelihood(X, thali.IBP(), engine, **settings)


# ------------------------------------------------------------------------------------- few rows


@pytest.mark.parametrize("gaps", [False, True])
def test_few_rows_do_not_tell_the_noise_of_each_column(rng, gaps):
    X = rng.standard_normal((30, 8))
    if gaps:
        X[3, 4] = np.nan
    choice = chosen(X)
    assert isinstance(choice.likelihood, thali.LinearGaussian)
    assert (
        choice.why
        == "X has 8 real columns in like units, and 30 rows do not tell the noise of each"
    )
    assert isinstance(chosen(X, thali.CollapsedGibbs()).likelihood, thali.LinearGaussian)


def test_with_more_rows_or_other_units_columns_have_noise_of_their_own(rng):
    X = rng.standard_normal((200, 8))
    for other in (X, X[:30] * [1, 1, 1, 1, 1, 1, 1, 100], X[:30] + 100.0):
        assert isinstance(chosen(other).likelihood, thali.MixedFactors)
    types = {0: "real"}  # somebody wants columns to be looked at
    assert isinstance(chosen(X[:30], types=types).likelihood, thali.MixedFactors)


def test_pictures_of_few_rows_have_the_features_they_were_made_of():
    X = thali.datasets.images(n=20, random_state=1).X
    model = fit(X, engine=thali.CollapsedGibbs(sweeps=40, chains=2))
    assert model.n_components_ == 4
    assert model.findings_ == ()


@pytest.mark.parametrize("value", [0.0, 1.0, 7.0, -2.5, True])
def test_a_table_of_one_value_is_fitted_without_a_warning(value):
    model = fit(np.full((6, 3), value))
    assert model.choice_.startswith("LinearGaussian, since no column of X has two different values")
    assert np.isfinite(model.components_).all()


def test_a_column_of_one_value_is_no_reason_against_like_units(rng):
    X = np.c_[rng.standard_normal((30, 4)), np.full(30, 7.0)]
    assert isinstance(chosen(X).likelihood, thali.LinearGaussian)


def test_columns_of_one_value_are_warned_of_once_and_where_columns_count():
    X = [[1.5, "a", "x"], [2.5, "b", "x"], [0.5, "a", "x"]]
    with pytest.warns(UserWarning, match="Column '2' has one value") as told:
        fit(X)
    assert len(told) == 1


# ----------------------------------------------------------------------------- numbers as text


def test_numbers_written_as_text_are_numbers(rng):
    X = (rng.random((12, 3)) < 0.5).astype(int)
    X[:2] = [[0, 0, 0], [1, 1, 1]]
    model, same = fit(X.astype(str)), fit(X)
    assert model.likelihood_.known.table.kinds == ("binary",) * 3
    np.testing.assert_array_equal(model.Z_, same.Z_)
    np.testing.assert_array_equal(model.predict_proba(X.astype(str)), same.predict_proba(X))


def test_columns_of_a_data_frame_keep_their_types():
    X = pd.DataFrame({"ward": ["1", "2", "1", "2"], "age": [1.5, 2.5, 0.5, 4.5]})
    assert fit(X).likelihood_.known.table.kinds == ("binary", "real")


def test_nothing_observed_at_all_is_said_of_the_table():
    with pytest.raises(ValueError, match="X has no observed entry: all 6 are missing"):
        Columns.of(np.full((3, 2), np.nan))


# ---------------------------------------------------------------------------------- pictures


def test_columns_of_one_kind_may_be_images(rng):
    bits = (rng.random((12, 16)) < 0.5).astype(int)
    bits[:2] = [[0] * 16, [1] * 16]
    model = fit(bits)
    assert image_shape_of(model, None) == (4, 4)
    assert image_shape_of(model, (2, 8)) == (2, 8)
    with pytest.raises(ValueError, match="does not fit rows of 16 values"):
        image_shape_of(model, (3, 3))
    model.plot(image_shape=(4, 4))
    mixed = fit(np.c_[bits[:, :15], rng.standard_normal(12)])
    assert image_shape_of(mixed, None) is None
    with pytest.raises(ValueError, match="different kinds are no images"):
        image_shape_of(mixed, (4, 4))


# --------------------------------------------------------------------------- the command line


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("blank_report")
def test_the_command_line_fits_what_it_says_it_chose(capsys):
    rows = "".join(f"{n % 3},{'dal' if n % 2 else 'rice'},{n / 7:.3f}\n" for n in range(12))
    Path("t.csv").write_text(f"visits,dish,height\n{rows},dal,0.5\n")
    assert run(["fit", "t.csv", *SHORT]) == 0
    said = capsys.readouterr().out
    assert said.startswith("t.csv: 13 x 3, rows without names, named columns, 1 of 39 entries miss")
    model = thali.load("thali-out/model.thali")
    assert f"Chosen: {type(model.likelihood_).__name__}, since " in said
    assert model.likelihood_.known.table.kinds == ("ordinal", "binary", "real")
    assert model.choice_ in " ".join(said.replace("Chosen: ", "").splitlines())
    filled = pd.read_csv("thali-out/imputed.csv")
    assert pd.api.types.is_integer_dtype(filled["visits"])
    assert set(filled["dish"]) == {"dal", "rice"}


@pytest.mark.usefixtures("blank_report")
def test_whole_numbers_of_a_file_come_back_as_such():
    rows = "".join(f"p{n},{n * n},{n % 2}\n" for n in range(12))
    Path("t.csv").write_text(f"who,visits,owner\n{rows}q,,1\n")
    assert run(["fit", "t.csv", *SHORT, "--quiet"]) == 0
    filled = pd.read_csv("thali-out/imputed.csv", index_col=0)
    assert filled.index.tolist() == [*(f"p{n}" for n in range(12)), "q"]
    assert all(map(pd.api.types.is_integer_dtype, filled.dtypes))


def test_first_words_that_repeat_are_levels_and_not_names(capsys):
    rows = "".join(f"{'dal' if n % 2 else 'rice'},{n / 7:.3f}\n" for n in range(12))
    Path("t.csv").write_text(f"dish,height\n{rows}")
    assert run(["fit", "t.csv", *SHORT, "--quiet"]) == 0
    assert thali.load("thali-out/model.thali").likelihood_.known.table.names == ("dish", "height")


def test_a_slip_in_a_column_of_numbers_is_no_level():
    Path("t.csv").write_text("who,a,b\nx,1,2\ny,3,l0\nz,5,7\n")
    words = (
        r"t.csv, line 3, column 'b': 'l0' is not a number; .* or declare the column with --types"
    )
    with pytest.raises(ValueError, match=words):
        read_frame("t.csv")
    assert read_frame("t.csv", declared=["b"]).X["b"].tolist() == ["2", "l0", "7"]
    Path("t.csv").write_text("size,a\nS,1\n2XL,3\n10-19,5\nS,6\n")
    assert read_frame("t.csv").X["size"].tolist() == ["S", "2XL", "10-19", "S"]


def test_settings_of_a_likelihood_choose_it_and_it_is_said(capsys):
    np.save("x.npy", thali.datasets.images(n=6, random_state=0).X)
    assert run(["fit", "x.npy", "--epsilon", "0.1", *SHORT]) == 2
    told = capsys.readouterr()
    assert "Chosen: NoisyOr, since it has --epsilon.\n" in told.out
    assert "where this likelihood needs 0 or 1" in told.err


def test_types_that_would_be_of_no_use_are_refused(capsys):
    Path("t.csv").write_text("a,b\n1,2.5\n2,3.5\n3,1.5\n")
    Path("types.json").write_text('{"a": "count"}')
    assert run(["fit", "t.csv", "--types", "types.json", "--center"]) == 2
    said = capsys.readouterr().err
    assert "--types is of no use here: LinearGaussian, since columns are to be centered" in said
