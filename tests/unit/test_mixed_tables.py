"""Tables with columns of different kinds, after the fit: given back, saved, shown, from files."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

import thali
from thali.cli.commands import run
from thali.data.tables.frame import read_frame
from thali.results import effects, own_values, prediction_of_tables, summed_bits

N = 50
ENGINE = thali.CollapsedGibbs(sweeps=30, chains=1)


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Two features, a column of each kind."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, n)) < 0.5
    stage = np.array(["low", "mid", "high"])[np.where(a & b, 2, np.where(a | b, 1, 0))]
    return pd.DataFrame(
        {
            "height": 170 + 8 * a + rng.standard_normal(n),
            "income": np.exp(3 + 2.0 * b + 0.2 * rng.standard_normal(n)),
            "visits": rng.poisson(2 + 20 * a),
            "smoker": np.where(b, "yes", "no"),
            "member": a,
            "stage": pd.Categorical(stage, ["low", "mid", "high"], ordered=True),
            "dish": np.where(a, "dal", np.where(b, "rice", "roti")),
        },
        index=pd.Index(3 * np.arange(n)[::-1], name="who"),
    )


def with_gaps(X: pd.DataFrame, each: int = 4) -> pd.DataFrame:
    """Some entries of each column missing, in types that can hold that."""
    X = X.astype({"visits": "Int64", "member": "boolean"})
    rng = np.random.default_rng(1)
    for name in X:
        X.loc[X.index[rng.choice(len(X), each, replace=False)], name] = None
    return X


def fitted(X, likelihood="mixed", engine=ENGINE, **settings):
    settings = {"random_state": 0, "progress": False, **settings}
    return thali.LatentFeatures(likelihood=likelihood, engine=engine, **settings).fit(X)


POSITIVE = thali.MixedColumns(types={"income": "positive"})


@pytest.fixture(scope="module")
def X():
    return with_gaps(table())


@pytest.fixture(scope="module")
def model(X):
    return fitted(X, POSITIVE)


# ------------------------------------------------------------------------------------- given back


def test_a_table_comes_back_in_its_own_types_with_what_was_observed(model, X):
    filled, seen = model.impute(), X.notna()
    assert filled.index.equals(X.index)
    assert (filled.dtypes == X.dtypes).all()
    assert not filled.isna().to_numpy().any()
    assert_frame_equal(filled.where(seen), X.where(seen))


def test_missing_entries_are_found_again(model, X):
    filled, truth, gone = model.impute(), table(), X.isna()
    for name in ("smoker", "member", "dish", "stage"):
        assert (filled[name] == truth[name])[gone[name]].sum() >= 3
    assert (abs(filled["height"] - truth["height"])[gone["height"]] < 4).all()
    assert (filled["visits"] % 1 == 0).all()


def test_a_complete_table_comes_back_as_it_is():
    X = table(30)
    model = fitted(X)
    assert_frame_equal(model.impute(), X)
    assert {name: p.shape for name, p in model.impute_proba().items()} == {
        "smoker": (0,),
        "member": (0,),
        "stage": (0, 3),
        "dish": (0, 3),
    }


def test_intervals_and_deviations(model, X):
    filled, low, high = model.impute(interval=0.9)
    for name in ("height", "income", "visits", "stage"):
        assert (low[name] <= filled[name]).all()
        assert (filled[name] <= high[name]).all()
    gone = X.isna()
    assert (low["height"] < high["height"])[gone["height"]].all()
    assert (low["dish"] == high["dish"]).all()
    assert (low["height"] == high["height"])[~gone["height"]].all()
    again, std = model.impute(return_std=True)
    assert_frame_equal(again, filled)
    assert (std.to_numpy()[~gone.to_numpy()] == 0.0).all()
    assert (std.to_numpy()[gone.to_numpy()] > 0.0).all()
    p = model.impute_proba()["dish"]
    np.testing.assert_allclose(std["dish"][gone["dish"]], 1.0 - p.max(axis=1), atol=1e-12)


def test_means_and_medians_of_a_long_tail(model, X):
    gone, seen = X["income"].isna(), X["income"].dropna()
    mean, median = model.impute(), model.impute(strategy="median")
    assert (mean["income"] > median["income"])[gone].all()
    assert (mean["income"] <= seen.max())[gone].all()
    j = int(model.fit_.model.likelihood.known.first[list(X.columns).index("income")])
    layout = model.fit_.model.likelihood.known
    above = []
    for draw in model.draws():
        v = draw.Z @ draw.A[:, j] + draw.hyper["biases"][j] / draw.hyper["noise"][j]
        t = (np.log(median["income"]) - layout.m[j]) / layout.s[j] / draw.hyper["noise"][j]
        above.append(ndtr(v - t)[gone])
    np.testing.assert_allclose(np.mean(above, axis=0), 0.5, atol=1e-6)
    for name in ("dish", "member"):  # of levels without order the most probable one either way
        assert mean[name].equals(median[name])


def test_ordered_levels_are_those_nearest_to_mean_and_median(model, X):
    """Not the most probable ones: of skewed chances these are far from both."""
    p, gone = model.impute_proba()["stage"], X["stage"].isna().to_numpy()
    mean, std = model.impute(return_std=True)
    median, doubt = model.impute(strategy="median", return_std=True)
    told = mean["stage"].cat.codes.to_numpy()[gone]
    assert told.tolist() == np.rint(p @ [0, 1, 2]).tolist()
    np.testing.assert_allclose(std["stage"][gone], 1.0 - p[np.arange(len(p)), told], atol=1e-12)
    below = p.cumsum(axis=1)
    middle = median["stage"].cat.codes.to_numpy()[gone]
    np.testing.assert_allclose(doubt["stage"][gone], 1.0 - p[np.arange(len(p)), middle], atol=1e-9)
    assert (np.take_along_axis(below, middle[:, None], 1) >= 0.5 - 1e-9).all()
    assert (np.take_along_axis(below - p, middle[:, None], 1) < 0.5).all()


def test_answers_on_a_scale_are_predicted_no_worse_than_by_their_mean():
    """Half of the answers are 1, which are the most probable everywhere."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random((120, 4)) < 0.45, 1, rng.integers(2, 8, (120, 4))).astype(float)
    given = truth.copy()
    hidden = rng.random(truth.shape) < 0.15
    given[hidden] = np.nan
    engine = thali.UncollapsedGibbs(sweeps=60, chains=1)
    likelihood = thali.MixedFactors(types=dict.fromkeys(range(4), "ordinal"))
    model = thali.LatentFeatures(likelihood=likelihood, engine=engine, random_state=0).fit(given)
    errors = (model.impute() - truth)[hidden], (np.nanmean(given, axis=0) - truth)[hidden]
    assert np.square(errors[0]).mean() < 1.15 * np.square(errors[1]).mean()


def test_chances_are_means_over_draws(model, X):
    """By hand, from each draw's own means of latents."""
    chances = model.impute_proba()
    rows = np.flatnonzero(X["smoker"].isna())
    assert chances.rows["smoker"].tolist() == rows.tolist()
    assert chances.levels["stage"] == ("low", "mid", "high")
    from scipy.special import ndtr

    j = model.likelihood_.known.names.index("smoker")
    by_hand = [
        ndtr(draw.Z[rows] @ draw.A[:, j] + draw.hyper["biases"][j]) for draw in model.draws()
    ]
    np.testing.assert_allclose(chances["smoker"], np.mean(by_hand, axis=0), atol=1e-9)
    for name in ("stage", "dish"):
        np.testing.assert_allclose(chances[name].sum(axis=1), 1.0)
    filled = model.impute()["dish"][X["dish"].isna()]
    best = np.array(chances.levels["dish"])[chances["dish"].argmax(axis=1)]
    assert (filled.to_numpy() == best).all()
    shown = chances.table("smoker")
    assert shown.index.tolist() == X.index[rows].tolist()
    assert shown.columns.tolist() == ["no", "yes"]


def test_many_entries_are_looked_at_in_blocks(model, monkeypatch):
    whole = model.impute(interval=0.8)
    monkeypatch.setattr(own_values, "BLOCK", 20)
    for one, other in zip(model.impute(interval=0.8), whole, strict=True):
        assert_frame_equal(one, other)


def test_chances_of_tables_of_bits():
    rng = np.random.default_rng(0)
    bits = (rng.random((40, 1)) < 0.5) & np.ones((40, 5), bool)
    X = pd.DataFrame(bits.astype(float), columns=list("abcde"))
    X.iloc[3, 1] = np.nan
    engine = thali.UncollapsedGibbs(sweeps=60, chains=1)
    found = fitted(X, "noisy_or", engine).impute_proba()
    assert (found["b"][0] > 0.5) == bits[3, 0]
    assert found.rows["b"].tolist() == [3]
    assert found["a"].shape == (0,)
    with pytest.raises(ValueError, match="no column of the data is of 0 and 1"):
        fitted(rng.standard_normal((10, 3)), "linear_gaussian").impute_proba()


def test_arrays_come_back_as_arrays(X):
    array = X.astype(object).where(X.notna(), None).to_numpy()
    model = fitted(array)
    filled = model.impute()
    assert isinstance(filled, np.ndarray)
    assert set(filled[:, 6]) == {"dal", "rice", "roti"}
    assert list(model.impute_proba()) == [3, 4, 5, 6]
    assert model.inverse_transform(model.Z_[:2]).shape == (2, 7)


def test_expected_tables(model):
    Z = np.eye(model.n_components_, dtype=int)
    expected = model.inverse_transform(Z)
    assert expected["dish"].isin(["dal", "rice", "roti"]).all()
    assert expected["stage"].dtype == table()["stage"].dtype
    own = model.effects()
    heights = own[own["column"] == "height"]
    np.testing.assert_allclose(expected["height"], heights["with"])
    incomes = own[own["column"] == "income"]
    np.testing.assert_allclose(expected["income"], incomes["with"])


# ---------------------------------------------------------------------------------- effects


def test_effects_are_those_of_the_formulas(model):
    told, layout = model.effects(), model.likelihood_.known
    fixed = model.fit_.model.likelihood_at(model.fit_.mean_hyper())
    A, at = model.components_, {name: j for j, name in enumerate(layout.names)}
    for k in range(model.n_components_):
        own = told[told["feature"] == k + 1].set_index("column")
        j = at["height"]
        shift = layout.s[j] * fixed.noise[j] * A[k, j]
        np.testing.assert_allclose(own.loc["height", "effect"], shift)
        j = at["income"]
        factor = np.exp(layout.s[j] * fixed.noise[j] * A[k, j])
        np.testing.assert_allclose(own.loc["income", "effect"], factor)
        dish = own.loc["dish"]
        assert dish["level"].tolist() == ["dal", "rice", "roti"]
        np.testing.assert_allclose(dish["effect"].sum(), 0.0, atol=1e-9)
        assert own.loc["stage", "level"] == "high"
    words = told["words"]
    assert words[told["column"] == "smoker"].str.startswith("P(smoker = yes) from").all()
    assert words[told["column"] == "income"].str.startswith("income × ").all()


def test_effects_in_words():
    assert effects.in_words("x", "count", None, 5.0, 2.0) == "x −3 (5 to 2)"
    assert effects.in_words("x", "ordinal", 3, 0.25, 1.0) == "P(x = 3) from 25% to 100%"


def test_effects_of_numbers():
    X = table(30)[["height", "income"]]
    model = fitted(X, "linear_gaussian", center=True)
    told = model.effects()
    np.testing.assert_allclose(
        told["effect"].to_numpy().reshape(model.n_components_, 2), model.components_
    )


# ------------------------------------------------------------------------------------- new rows


def test_pipelines_and_parameters(X):
    y = table()["member"]
    features = thali.LatentFeatures(
        likelihood="mixed", engine=ENGINE, random_state=0, progress=False
    )
    pipe = Pipeline([("features", features), ("clf", LogisticRegression())])
    pipe.set_params(features__likelihood__types={"visits": "real"})
    assert pipe.fit(X, y).score(X, y) > 0.8
    own = clone(pipe)["features"]
    assert own.get_params()["likelihood__types"] == {"visits": "real"}
    shown = own.set_output(transform="pandas").fit(X).transform(X)
    assert shown.index.equals(X.index)
    assert own.likelihood_.known.table.kinds[2] == "real"


def test_new_rows_are_read_by_the_fitted_columns(model, X):
    assert (model.transform(X) == model.Z_).mean() > 0.9
    assert np.isfinite(model.score(X.head(3)))
    new = X.head(3).astype({"dish": object})
    new.iloc[1, 6] = "naan"
    for told in (model.transform, model.predict_proba, model.score):
        with pytest.raises(ValueError, match="'dish' has 'naan' at row 1, a value that the fitted"):
            told(new)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(X.rename(columns={"dish": "plate"}))
    with pytest.raises(ValueError, match="X is empty"):
        model.transform(X.head(0))


def test_sampled_bits_agree_with_their_sum(model, X, monkeypatch):
    gone = X.columns.isin(["height", "visits", "stage", "dish"])  # what is left does not tell all
    few = X.mask(np.tile(gone, (len(X), 1)))
    exact = model.predict_proba(few)
    monkeypatch.setattr(summed_bits, "SUMMED", 0)
    near = model.predict_proba(few)
    assert np.abs(near - exact).mean() < 0.05
    np.testing.assert_array_equal(model.predict_proba(few.iloc[[5]])[0], near[5])
    monkeypatch.setattr(prediction_of_tables, "BLOCK", 100)
    np.testing.assert_array_equal(model.predict_proba(few), near)


def test_amounts(X, tmp_path):
    engine = thali.UncollapsedGibbs(sweeps=20, chains=1)
    model = fitted(X, "mixed_factors", engine)
    assert not model.impute().isna().to_numpy().any()
    P = model.predict_proba(X.head(4))
    assert ((P >= 0) & (P <= 1)).all()
    gone = X.head(6).mask(np.ones((6, 7), bool))
    assert model.score(X.head(6)) < model.score(gone) == 0.0  # nothing is as probable as nothing
    model.report(tmp_path / "report.html")
    model.save(tmp_path / "m.thali")
    assert_frame_equal(thali.load(tmp_path / "m.thali").impute(), model.impute())


# ---------------------------------------------------------------------------------------- files


def test_saved_models_give_the_same_tables(model, X, tmp_path):
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert again.n_features_in_ == 7
    assert again.likelihood_.layout == model.likelihood_.layout
    assert again.get_params()["likelihood__types"] == {"income": "positive"}
    assert_frame_equal(again.impute(), model.impute())
    assert_frame_equal(again.effects(), model.effects())
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_declarations_by_number_are_saved(X, tmp_path):
    types = {0: "real", "stage": {"kind": "ordinal", "levels": ("low", "mid", "high")}}
    fitted(X, thali.MixedColumns(types=types)).save(tmp_path / "m.thali")
    assert thali.load(tmp_path / "m.thali").likelihood.types == types


def damaged(path, change):
    """The file with its JSON changed."""
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    meta = json.loads(parts["thali.json"])
    change(meta, meta["fitted"]["likelihood"]["layout"])
    parts["thali.json"] = json.dumps(meta).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize(
    "change",
    [
        lambda meta, layout: layout["columns"].pop(),
        lambda meta, layout: layout["columns"][0].update(kind="odd"),
        lambda meta, layout: layout["columns"][6]["levels"].pop(),
        lambda meta, layout: layout["columns"][3].update(levels=["yes"]),
        lambda meta, layout: layout["columns"][0].update(kind="count"),
        lambda meta, layout: layout["scale"].__setitem__(0, -1.0),
        lambda meta, layout: layout["location"].__setitem__(0, "far"),
        lambda meta, layout: layout.pop("labels"),
        lambda meta, layout: meta["fitted"]["likelihood"].update(layout=None),
        lambda meta, layout: meta["fit"]["names"].__setitem__(4, "other"),
        lambda meta, layout: meta.update(index={"values": ["x"], "name": None}),
    ],
)
def test_a_damaged_file_is_refused(model, tmp_path, change):
    path = tmp_path / "m.thali"
    model.save(path)
    damaged(path, change)
    with pytest.raises(ValueError, match="is damaged: its contents do not fit together"):
        thali.load(path)


# ---------------------------------------------------------------------------------- report, plots


def test_the_report_tells_of_columns_and_effects(model, tmp_path):
    text = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="columns"' in text
    assert "of 7 columns" in text
    assert "low &lt; mid &lt; high" in text
    assert "P(smoker = yes) from" in text
    assert "dish=roti" in text
    assert "units of its standard deviation" in text
    plain = fitted(np.random.default_rng(0).standard_normal((10, 3)), "linear_gaussian")
    text = plain.report(tmp_path / "plain.html").read_text(encoding="utf-8")
    assert 'id="columns"' not in text
    assert 'href="#columns"' not in text


def test_pictures_have_the_names_of_latents(model):
    from thali import plots

    ax = plots.features(model)
    assert [t.get_text() for t in ax.get_xticklabels()] == model.likelihood_.known.names
    assert model.plot() is not None
    plots.trace(model)
    with pytest.raises(ValueError, match="are no images"):
        model.plot(image_shape=(3, 3))


def test_reconstructions_are_on_one_scale(model):
    from thali.plots import reading

    X = reading.compared(model, model.X_)
    np.testing.assert_allclose(np.nanstd(X, axis=0), 1.0)
    assert 0.3 < reading.explained_by(model).explained < 1.0


# -------------------------------------------------------------------------------------- bad input


def bad(**columns):
    return table(12).assign(**columns)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (bad(when=pd.Timestamp("2026-11-18")), "'when' holds dates or times"),
        (bad(none=np.nan), "'none': no value was observed"),
        (table(12).head(0), "X is empty"),
        (table(12).iloc[:, :0], "X is empty"),
        (pd.DataFrame(), "X is empty"),
    ],
)
def test_bad_tables_get_a_clear_word(X, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fitted(X)


@pytest.mark.parametrize("value", ["x", 3.5, 7, True])
def test_one_value_in_all_rows_is_warned_of_and_given_back(value):
    X = table(12)[["height"]].assign(same=pd.Series([value] * 12, dtype=object).to_numpy())
    X.iloc[3, 1] = None
    with pytest.warns(UserWarning, match="Column 'same' has one value in all rows"):
        model = fitted(X)
    filled, low, high = (frame["same"].iloc[3] for frame in model.impute(interval=0.9))
    if isinstance(value, str | bool):
        assert filled == low == high == value
    else:
        assert abs(filled - value) < 0.5
        assert low <= filled <= high


# --------------------------------------------------------------------------------- command line


def test_files_are_read_with_what_they_hold(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(
        "name,x,k,none,on,dish\nAnu,1.5,3,1,true,dal\nBen,,4,,false,\nCho,2,5,2,true,roti\n"
    )
    X = read_frame(file).X
    assert X.index.tolist() == ["Anu", "Ben", "Cho"]
    assert [str(t) for t in X.dtypes][:4] == ["float64", "int64", "Int64", "bool"]
    assert X["dish"].isna().tolist() == [False, True, False]
    assert read_frame(file, columns=["name", "k"]).X.columns.tolist() == ["name", "k"]
    file.write_text("1.5,dal\n2.5,roti\n")
    assert read_frame(file).X.columns.tolist() == ["column_1", "column_2"]


def command(*words):
    return run(["fit", *map(str, words), "--sweeps", "10", "--chains", "1", "--seed", "0", "-q"])


def test_the_command_line_takes_tables(X, tmp_path, capsys):
    X.to_csv(tmp_path / "t.csv", index_label="name")
    (tmp_path / "types.json").write_text('{"visits": "real"}')
    out, given = tmp_path / "out", ("--likelihood", "mixed", "--types")
    assert command(tmp_path / "t.csv", *given, tmp_path / "types.json", "--out", out) == 0
    found = json.loads((out / "types.json").read_text())
    assert found["visits"]["kind"] == "real"
    assert found["dish"]["levels"] == ["dal", "rice", "roti"]
    filled = pd.read_csv(out / "imputed.csv", index_col=0)
    seen = X["dish"].notna().to_numpy()
    assert (filled["dish"].to_numpy()[seen] == X["dish"].to_numpy()[seen]).all()
    assert not filled.isna().to_numpy().any()
    assert json.loads((out / "summary.json").read_text())["missing"] == X.isna().to_numpy().sum()
    assert (out / "effects.csv").exists()
    again = tmp_path / "again"  # what was found can be given
    assert command(tmp_path / "t.csv", *given, out / "types.json", "--out", again) == 0
    assert (again / "imputed.csv").read_bytes() == (out / "imputed.csv").read_bytes()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,b\n1,x\n2,y\n", ["--types", "types.json"], "has column 'c'"),
        (
            "a,b\n1,x\n2,y\n",
            ["--likelihood", "linear-gaussian", "--types", "types.json"],
            "--types belongs to --likelihood mixed",
        ),
        ("a,b\n1,x\n2,y\n", ["--likelihood", "mixed", "--types", "types.json"], "has column 'c'"),
        ("a,b\n1,x\n2,y\n", ["--likelihood", "mixed", "--transpose"], "--transpose"),
        ("a,b\n1,2026-01-01\n2,2026-02-01\n", ["--likelihood", "mixed"], "'b' holds dates"),
        ("a,b\n1,\n2,\n", ["--likelihood", "mixed"], "'b': no value was observed"),
        ("a,b\n", ["--likelihood", "mixed"], "a header and no rows"),
        ("a,b\n1,x\n2\n", ["--likelihood", "mixed"], "half-written"),
        ("a,a\n1,x\n2,y\n", ["--likelihood", "mixed"], "appears 2 times"),
    ],
)
def test_the_command_line_refuses(text, options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "types.json").write_text('{"c": "real"}')
    assert command("t.csv", *options, "--out", "out") == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")
@pytest.mark.parametrize("engine", [thali.CollapsedGibbs(), thali.UncollapsedGibbs()])
def test_a_run_without_time_for_a_sweep_can_be_asked_for_everything(engine):
    X = with_gaps(table())
    model = thali.LatentFeatures(likelihood="mixed", engine=engine, random_state=0)
    model.fit(X, time_budget=1e-3)
    assert not model.impute().isna().to_numpy().any()
    assert set(model.impute_proba()) == {"smoker", "member", "stage", "dish"}
