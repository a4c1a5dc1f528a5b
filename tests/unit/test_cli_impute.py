"""``thali impute``: rows of files filled in by a saved model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import thali
from thali.cli.commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Saved models of a table with kinds, of numbers with names and without, and of clusters."""
    path = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    size = rng.standard_normal(120)
    frame = pd.DataFrame(
        {
            "height": 170.0 + 9.0 * size + rng.standard_normal(120),
            "visits": rng.poisson(np.exp(1.0 + 0.8 * size)),
            "dish": np.where(size > 0.5, "dal", np.where(size > -0.5, "rice", "roti")),
        }
    )
    engine = thali.UncollapsedGibbs(sweeps=40, chains=1)
    settings = {"engine": engine, "random_state": 0, "progress": False}
    thali.LatentFeatures(likelihood="mixed_factors", **settings).fit(frame).save(path / "table")
    numbers = frame[["height", "visits"]].assign(weight=2.0 * size)
    plain = thali.LatentFeatures(likelihood="linear_gaussian", center=True, **settings)
    plain.fit(numbers).save(path / "numbers")
    plain.fit(numbers.to_numpy()).save(path / "unnamed")
    clusters = thali.LatentPartition(
        engine=thali.CollapsedGibbs(sweeps=10, chains=1), random_state=0, progress=False
    )
    clusters.fit(numbers).save(path / "clusters")
    return path


def filled(folder, model, text, *options):
    (folder / "new.csv").write_text(text)
    out = folder / "filled.csv"
    out.unlink(missing_ok=True)
    code = run(
        ["impute", str(folder / model), str(folder / "new.csv"), "--out", str(out), *options]
    )
    return code, pd.read_csv(out, index_col="row") if out.exists() else None


def test_columns_that_a_file_lacks_are_predicted(folder, capsys):
    code, found = filled(folder, "table", "height,visits\n185,12\n155,1\n,2\n")
    assert code == 0
    assert "4 missing entries of 3 rows" in capsys.readouterr().out
    assert list(found.columns) == ["height", "visits", "dish"]
    assert found["dish"].tolist()[:2] == ["dal", "roti"]
    assert found["height"].tolist()[:2] == [185.0, 155.0]
    assert 155.0 < found["height"].iloc[2] < 180.0


def test_ends_of_intervals_stand_beside_filled_columns(folder):
    code, found = filled(
        folder, "table", "height,visits,dish\n185,,dal\n155,,\n", "--interval", "0.9"
    )
    assert code == 0
    heads = ["height", "visits", "visits low", "visits high", "dish", "dish low", "dish high"]
    assert list(found.columns) == heads
    assert (found["visits low"] <= found["visits"]).all()
    assert (found["visits"] <= found["visits high"]).all()
    assert found["visits low"].iloc[0] > found["visits low"].iloc[1]


def test_numbers_with_names_and_without(folder):
    code, found = filled(folder, "numbers", "height,weight,visits\n185,,\n,-3,1\n")
    assert code == 0
    assert list(found.columns) == ["height", "visits", "weight"]
    assert found["weight"].iloc[0] > 0.5
    assert found["height"].iloc[1] < 168.0
    code, found = filled(folder, "unnamed", "185,,2.5\n150,1,\n", "--no-header")
    assert code == 0
    assert found.shape == (2, 3)
    assert not found.isna().to_numpy().any()


def test_a_first_column_of_text_is_data_where_the_model_has_it(folder, capsys):
    code, found = filled(folder, "table", "dish,height,spoons\ndal,,2\nrice,,1\nroti,,0\n")
    assert code == 0
    assert found["dish"].tolist() == ["dal", "rice", "roti"]
    assert found["height"].iloc[0] > found["height"].iloc[2]
    out = capsys.readouterr().out
    assert "Missing in all rows, as the file lacks them: visits." in out
    assert "Not used, as the model has no such columns: spoons." in out


def test_what_was_there_is_written_as_it_was(folder):
    code, found = filled(folder, "numbers", "height,weight,visits\n170.07,0.07,\n")
    assert code == 0
    assert "170.07," in (folder / "filled.csv").read_text()
    assert found["weight"].iloc[0] == 0.07


def test_ends_of_intervals_take_no_column_s_name(folder, capsys):
    X = np.random.default_rng(0).standard_normal((30, 3))
    engine = thali.CollapsedGibbs(sweeps=6, chains=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    model.fit(pd.DataFrame(X, columns=["visits", "visits low", "w"])).save(folder / "low")
    text = "visits,visits low,w\n,101,1\n,99,-1\n"
    code, found = filled(folder, "low", text, "--interval", "0.9")
    assert code == 2
    assert found is None
    assert "has a column 'visits low'" in capsys.readouterr().err
    code, found = filled(folder, "low", text)
    assert code == 0
    assert found["visits low"].tolist() == [101, 99]


@pytest.mark.parametrize(
    ("model", "text", "options", "why"),
    [
        ("table", "a,b\n1,2\n", (), "none of the model's columns: height, visits, dish"),
        ("table", "height,dish\n170,biryani\n", (), "biryani"),
        ("numbers", "height,visits\ntall,3\nsmall,4\n", (), "'height' holds text"),
        ("unnamed", "1,2\n3,4\n", ("--no-header",), "has 2 columns, and the model 3"),
        ("clusters", "height\n170\n", (), "impute is for models of features"),
        ("table", "height\n170\n", ("--interval", "90"), "share between 0 and 1"),
        ("nowhere", "height\n170\n", (), "nowhere"),
        ("table", "height\n170\n", ("--out", "no/such/folder/f.csv"), "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(folder, capsys, model, text, options, why):
    code, found = filled(folder, model, text, *options)
    assert code == 2
    assert found is None
    error = capsys.readouterr().err
    assert why in error
    assert len(error.strip().splitlines()) == 1
