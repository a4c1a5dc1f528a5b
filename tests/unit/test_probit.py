"""Tables of yes and no: the same as mixed columns, and a refusal of any other column."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import thali
from thali.cli import run

ENGINE = thali.CollapsedGibbs(sweeps=100, chains=1)
rng = np.random.default_rng(0)
HAS = rng.random((60, 2)) < 0.5
CHANCE = norm.cdf(-1.0 + HAS @ np.array([[2.5, 2.5, 2.5, 0.0], [0.0, 2.5, 0.0, 2.5]]))
X = (rng.random((60, 4)) < CHANCE).astype(int)
PEOPLE = pd.DataFrame(
    {
        "owner": np.where(X[:, 0], "yes", "no"),
        "smoker": X[:, 1].astype(bool),
        "code": X[:, 2] + 1,
        "bit": X[:, 3],
    }
).astype({"owner": "category"})
PEOPLE["owner"] = PEOPLE["owner"].mask(np.arange(60) % 7 == 0)


def fit(X, likelihood="probit", **settings):
    model = thali.LatentFeatures(likelihood=likelihood, engine=ENGINE, random_state=0, **settings)
    return model.fit(X)


def test_it_is_mixed_columns_of_such_a_table():
    one, other = fit(PEOPLE), fit(PEOPLE, "mixed")
    assert np.array_equal(one.Z_, other.Z_)
    assert np.array_equal(one.components_, other.components_)
    assert isinstance(one.likelihood_, thali.Probit)
    assert [column.kind for column in one.likelihood_.layout.columns] == ["binary"] * 4


def test_every_answer_is_in_the_tables_own_types(tmp_path):
    model = fit(PEOPLE)
    filled = model.impute()
    assert list(filled.dtypes) == list(PEOPLE.dtypes)
    assert filled["owner"].isin(["no", "yes"]).all()
    chances = model.impute_proba()
    assert chances.levels["owner"] == ("no", "yes")
    assert np.all((chances["owner"] > 0.0) & (chances["owner"] < 1.0))
    assert set(model.effects()["level"]) == {"yes", True, 2}
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert isinstance(again.likelihood_, thali.Probit)
    assert again.score(PEOPLE) == model.score(PEOPLE)
    assert "whether it is positive" in model.report(tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("height", rng.normal(size=60), "real"),
        ("visits", np.arange(60) % 9, "count"),
        ("grade", np.arange(60) % 3, "ordinal"),
        ("dish", np.array(["dal", "rice", "roti"])[np.arange(60) % 3], "categorical"),
    ],
)
def test_the_first_column_of_another_kind_is_refused_by_name(name, values, kind):
    table = PEOPLE.assign(**{name: values, "later": values})
    with pytest.raises(ValueError, match=rf"Column '{name}' is {kind} .*likelihood='mixed'"):
        fit(table)


@pytest.mark.filterwarnings("ignore:.*has one value in all rows")
def test_one_level_is_not_two_unless_the_other_is_declared():
    table = PEOPLE[["bit"]].assign(owner="yes")
    with pytest.raises(ValueError, match=r"Column 'owner' is .*one value.*two levels"):
        fit(table)
    types = {"owner": {"kind": "binary", "levels": ["no", "yes"]}}
    model = fit(table, thali.Probit(types=types))
    assert model.likelihood_.layout.columns[1].levels == ("no", "yes")


def test_the_command_line_has_it(tmp_path):
    path, out = tmp_path / "people.csv", tmp_path / "out"
    PEOPLE.to_csv(path, index=False)
    options = ["--likelihood", "probit", "--sweeps", "12", "--chains", "1", "--quiet"]
    assert run(["fit", str(path), *options, "--out", str(out)]) == 0
    filled = pd.read_csv(out / "imputed.csv")
    assert filled["owner"].isin(["no", "yes"]).all()
