"""What columns are found to be, what is refused, and values that become numbers and come back."""

from __future__ import annotations

import datetime
import json
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from thali.data.column_kinds import FEW, MANY, MOST, skewness
from thali.data.columns import KINDS, Column, Columns, read_types

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=200)
LONG_TAIL = np.exp(2.0 * NORMAL)


def kind_of(values: Any, types: Any = "auto") -> Column:
    """The column that some values make in a data frame."""
    series = values if isinstance(values, pd.Series) else pd.Series(values)
    return Columns.of(pd.DataFrame({"x": series}), types).columns[0]


# ----------------------------------------------------------------------------------------- rules

FOUND: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "bool": ([True, False, True], "binary", (False, True)),
    "nullable boolean": (pd.array([True, None, False]), "binary", (False, True)),
    "bools with None": (pd.Series([True, None, False], dtype=object), "binary", (False, True)),
    "ordered category": (
        pd.Categorical(["lo", "hi", "mid"], ["lo", "mid", "hi"], ordered=True),
        "ordinal",
        ("lo", "mid", "hi"),
    ),
    "ordered pair": (pd.Categorical(["b", "a"], ["b", "a"], ordered=True), "binary", ("b", "a")),
    "category": (pd.Categorical(["c", "a", "b"]), "categorical", ("a", "b", "c")),
    "unused category": (pd.Categorical(["a", "b"], list("abc")), "categorical", ("a", "b", "c")),
    "category of numbers": (pd.Categorical([3, 1, 7]), "categorical", (1, 3, 7)),
    "text": (["dal", "rice", "naan", "dal"], "categorical", ("dal", "naan", "rice")),
    "text as objects": (
        pd.Series(["b", None, "a", "c"], dtype=object),
        "categorical",
        ("a", "b", "c"),
    ),
    "pandas string": (
        pd.array(["b", None, "a", "c"], dtype="string"),
        "categorical",
        ("a", "b", "c"),
    ),
    "two texts": (["yes", "no", None, "yes"], "binary", ("no", "yes")),
    "objects that are numbers": (pd.Series([3, 9, 80, None], dtype=object), "count", ()),
    "decimals": ([Decimal("1.5"), Decimal("-2.25"), None], "real", ()),
    "zeros and ones": ([0, 1, 1, 0], "binary", (0, 1)),
    "zeros and ones with NaN": ([0.0, 1.0, np.nan], "binary", (0, 1)),
    "two whole numbers": ([1, 2, 2], "binary", (1, 2)),
    "two whole numbers, one negative": ([-1, 1, 1], "binary", (-1, 1)),
    "steps from 1": ([1, 2, 3, 4, 5], "ordinal", (1, 2, 3, 4, 5)),
    "steps from 0 as floats": ([0.0, 2.0, np.nan, 1.0], "ordinal", (0, 1, 2)),
    "steps about 0": ([-1, 0, 1], "ordinal", (-1, 0, 1)),
    "more steps than few": (list(range(FEW + 1)), "count", ()),
    "a scale": (list(range(1, 8)) * 10, "ordinal", (1, 2, 3, 4, 5, 6, 7)),
    "a scale of which a step is idle": ([1, 2, 3, 5, 6] * 10, "ordinal", (1, 2, 3, 4, 5, 6)),
    "two steps idle": ([1, 2, 5, 6] * 10, "count", ()),
    "the last step is rare": (list(range(1, 8)) * 9, "count", ()),
    "more steps than a scale has": (list(range(1, 12)) * 10, "count", ()),
    "a run from 2": ([2, 3, 4], "count", ()),
    "a run with a gap": ([0, 1, 5], "count", ()),
    "whole numbers": ([0, 7, 31, 4, 12, 9], "count", ()),
    "unsigned": (np.array([0, 7, 31, 4, 200], np.uint8), "count", ()),
    "nullable integers": (pd.array([4, None, 31, 19], dtype="Int64"), "count", ()),
    "whole floats": ([0.0, 7.0, np.nan, 31.0], "count", ()),
    "negative whole numbers": ([-40, 3, 17, 2, 9, 10], "real", ()),
    "two fractions": ([0.5, 1.5, 0.5], "real", ()),
    "two fractions in many rows": ([0.5, 1.5, 0.5, 1.5, 0.5] * 2, "binary", (0.5, 1.5)),
    "three fractions in many rows": ([0.5, 1.5, 2.5, 1.5, 0.5] * 2, "real", ()),
    "normal": (NORMAL, "real", ()),
    "far from 0": (100.0 + NORMAL, "real", ()),
    "a long tail": (LONG_TAIL, "positive", ()),
    "a long tail and a 0": (np.append(LONG_TAIL, 0.0), "real", ()),
    "an outlier that logarithms keep": (np.append(1.0 + 0.001 * np.arange(99), 1.5), "real", ()),
}


@pytest.mark.parametrize("what", FOUND)
def test_kinds_are_found(what: str) -> None:
    values, kind, levels = FOUND[what]
    column = kind_of(values)
    assert (column.kind, column.levels) == (kind, levels)
    assert [type(level) for level in column.levels] == [type(level) for level in levels]
    assert column.why


def test_reasons_are_told() -> None:
    assert kind_of([0, 1]).why == "only 0 and 1"
    assert kind_of([True, False]).why == "dtype bool"
    assert kind_of(["a", "b", "a"]).why == "text with 2 different values"
    assert kind_of(["a", "b", "c"]).why == "text with 3 different values, no two rows alike"
    assert kind_of([1, 2], {"x": "count"}).why == "given"


def test_arrays_follow_the_same_rules() -> None:
    X = np.column_stack([NORMAL, LONG_TAIL, NORMAL > 0, np.arange(200) % 7, np.arange(200) % 3])
    X[3] = np.nan
    expected = ("real", "positive", "binary", "count", "ordinal")
    assert Columns.of(X).kinds == expected
    assert Columns.of(X.tolist()).kinds == expected
    assert Columns.of(np.ma.masked_invalid(X)).kinds == expected
    assert Columns.of(pd.DataFrame(X)).kinds == expected
    assert Columns.of(X).names == ("0", "1", "2", "3", "4")


def test_what_a_mask_hides_does_not_count() -> None:
    X = np.ma.masked_array([[1, 0], [999, 1], [-5, 0]], [[0, 0], [0, 0], [1, 0]])
    assert Columns.of(X).columns[0].levels == (1, 999)
    hidden = np.ma.masked_array([[np.inf], [1.5], [0.5]], [[1], [0], [0]])
    assert Columns.of(hidden).encode(hidden)[:, 0].tolist() == pytest.approx(
        [np.nan, 1.5, 0.5], nan_ok=True
    )


def test_skewness_is_that_of_scipy() -> None:
    from scipy.stats import skew

    assert skewness(LONG_TAIL) == pytest.approx(float(skew(LONG_TAIL)))
    assert skewness(1e99 * LONG_TAIL) == pytest.approx(skewness(LONG_TAIL))


def test_known_tables() -> None:
    assert set(Columns.of(datasets.load_iris().data).kinds) == {"real"}
    diabetes = datasets.load_diabetes(as_frame=True).data  # standardized, sex too
    found = dict(zip(diabetes.columns, Columns.of(diabetes).kinds, strict=True))
    assert found.pop("sex") == "binary"
    assert set(found.values()) == {"real"}
    wine = datasets.load_wine(as_frame=True).frame
    found = dict(zip(wine.columns, Columns.of(wine).kinds, strict=True))
    assert {name for name, kind in found.items() if kind == "count"} == {"magnesium", "proline"}
    assert found["alcohol"] == "real"
    assert found["target"] == "ordinal"
    cancer = datasets.load_breast_cancer(as_frame=True).frame
    found = dict(zip(cancer.columns, Columns.of(cancer).kinds, strict=True))
    assert found.pop("target") == "binary"
    assert set(found.values()) == {"real"}  # tails of a few medians
    with pytest.warns(UserWarning, match="Columns '0', '32', '39' have one value"):
        digits = Columns.of(datasets.load_digits().data).kinds
    assert digits.count("count") > 50
    assert set(digits) == {"count", "ordinal", "binary"}


# ------------------------------------------------------------------------------------- constants


@pytest.mark.parametrize(
    ("values", "kind", "levels"),
    [
        (["dal"] * 3, "categorical", ("dal",)),
        ([True] * 3, "binary", (False, True)),
        ([0] * 3, "binary", (0, 1)),
        ([7] * 3, "count", ()),
        ([-7] * 3, "real", ()),
        ([0.5] * 3, "real", ()),
        (pd.Categorical(["a", "a"], ["a", "b"]), "binary", ("a", "b")),
    ],
)
def test_a_constant_is_kept_with_a_warning(values: Any, kind: str, levels: Any) -> None:
    X = pd.DataFrame({"x": values})
    with pytest.warns(UserWarning, match=r"Column 'x' has one value in all rows") as told:
        columns = Columns.of(X)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert (columns.columns[0].kind, columns.columns[0].levels) == (kind, levels)
    pd.testing.assert_frame_equal(columns.decode(columns.encode(X)), X)


# ------------------------------------------------------------------------------------- and back

MIXED = pd.DataFrame(
    {
        "bool": [True, False, True, True],
        "boolean": pd.array([True, False, None, True], dtype="boolean"),
        "bools": pd.Series([True, None, False, True], dtype=object),
        "ordered": pd.Categorical(["lo", "hi", None, "lo"], ["lo", "mid", "hi"], ordered=True),
        "pair": pd.Categorical(["b", "a", "a", "b"], ["b", "a"], ordered=True),
        "unused": pd.Categorical(["x", "y", "x", None], list("xyz")),
        "text": ["dal", "rice", "naan", None],
        "string": pd.array(["dal", None, "naan", "roti"], dtype="string"),
        "object": pd.Series(["dal", None, "naan", "roti"], dtype=object),
        "int8": np.array([-3, 100, 4, 90], np.int8),
        "Int64": pd.array([4, None, 31, 19], dtype="Int64"),
        "pair of ints": [2**60, 2**60 + 1, 2**60, 2**60],
        "Float64": pd.array([0.5, None, 1.25, -1.0], dtype="Float64"),
        "float32": np.array([0.1, np.nan, 1.5, -2.0], np.float32),
        "whole floats": [5.0, np.nan, 9.0, 80.0],
        "zero or one": [0.0, 1.0, np.nan, 1.0],
    }
)
MIXED.index = pd.Index([3, 1, 4, 5])


def test_text_that_looks_like_numbers_or_gaps_is_warned_of() -> None:
    digits = [str(i) for i in range(FEW)]
    X = pd.DataFrame(
        {
            "marks": [*digits, "7.5", "?", None],
            "votes": ["y", "n", "?", "y", "n", "", None, "n"],
            "fine": ["none", *digits, "a", "b"],
            "steps": [*digits, None, None, None],
        }
    )
    with pytest.warns(UserWarning, match="Text that") as told:
        Columns.of(X)
    first, second = (str(one.message) for one in told)
    assert "levels without order: 'marks'. Convert" in first
    assert "'marks' ('?'), 'votes' (''), 'votes' ('?'). If" in second
    meant = X[["marks", "votes"]].astype("category")  # levels, as somebody said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Columns.of(meant)
        Columns.of(X[["marks"]].replace("?", None), types={"marks": "categorical"})


def test_values_come_back_with_their_types() -> None:
    columns = Columns.of(MIXED)
    codes = columns.encode(MIXED)
    assert codes.dtype == np.float64
    assert np.array_equal(np.isnan(codes), MIXED.isna())
    back = columns.decode(codes)
    pd.testing.assert_frame_equal(back, MIXED.reset_index(drop=True))
    assert back["object"].dtype == object
    assert back["ordered"].cat.ordered


def test_decoded_rows_do_not_need_to_be_those_that_were_encoded() -> None:
    columns = Columns.of(MIXED)
    whole = columns.decode(np.zeros((2, len(columns))))
    assert whole["ordered"].tolist() == ["lo", "lo"]
    assert whole["pair of ints"].tolist() == [2**60] * 2
    assert whole["int8"].dtype == np.int8
    gone = columns.decode(np.full((1, len(columns)), np.nan))
    assert gone.isna().all(axis=None)


def test_whole_numbers_are_rounded_and_stay_in_range() -> None:
    columns = Columns.of(np.array([[9], [100], [4]], np.int8))
    assert columns.decode([[3.6], [1e9], [-1e9]]).tolist() == [[4], [127], [-128]]
    large = Columns.of(np.array([[9], [100], [4]], np.int64))
    assert large.decode([[1e30]])[0, 0] > 2**62


ARRAYS: dict[str, Any] = {
    "floats": np.column_stack([NORMAL, LONG_TAIL]),
    "floats with gaps": np.array([[0.5, np.nan], [np.nan, 1.0], [2.5, 0.0]]),
    "float32": NORMAL.astype(np.float32)[:, None],
    "ints": RNG.integers(0, 90, size=(20, 3)),
    "bytes of ints": RNG.integers(0, 200, size=(20, 3)).astype(np.uint8),
    "bools": RNG.random((20, 3)) < 0.5,
    "text": np.array([["a", "dal"], ["b", "rice"], ["c", "rice"]]),
    "objects": np.array([["a", 1.5, True], ["b", None, False], ["c", -2.0, None]], dtype=object),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays_come_back(what: str) -> None:
    X = ARRAYS[what]
    columns = Columns.of(X)
    back = columns.decode(columns.encode(X))
    assert isinstance(back, np.ndarray)
    assert back.dtype == X.dtype
    same = (back == X) | (pd.isna(back) & pd.isna(X))
    assert same.all()


@pytest.mark.parametrize("seed", range(5))
def test_random_tables_come_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    makers: dict[str, Callable[[], Any]] = {
        "real": lambda: rng.normal(size=n),
        "tail": lambda: np.exp(2 * rng.normal(size=n)),
        "count": lambda: rng.poisson(9.0, size=n),
        "bool": lambda: rng.random(n) < 0.5,
        "text": lambda: rng.choice(["a", "B", "é", ""], size=n),
        "scale": lambda: rng.integers(1, 6, size=n),
        "order": lambda: pd.Categorical(rng.choice(list("zyx"), n), list("zyx"), ordered=True),
    }
    names = rng.choice(list(makers), size=10)
    X = pd.DataFrame({f"{name} {j}": makers[name]() for j, name in enumerate(names)})
    columns = Columns.of(X, warn=False)  # of empty text
    pd.testing.assert_frame_equal(columns.decode(columns.encode(X)), X)
    again = Columns.from_json(columns.to_json())
    assert again == columns
    pd.testing.assert_frame_equal(again.decode(again.encode(X, new=True)), X)
    holes = X.astype(object).mask(rng.random(X.shape) < 0.2)
    codes = columns.encode(holes, new=True)
    assert np.array_equal(np.isnan(codes), holes.isna())
    assert np.array_equal(codes[~np.isnan(codes)], columns.encode(X)[~np.isnan(codes)])


def test_names_of_frames_come_back() -> None:
    for names in ([7, 3], ["a", 3], [("a", "x"), ("a", "y")]):
        X = pd.DataFrame([[0.5, 1], [1.5, 9], [-2.0, 40]], columns=pd.Index(names))
        columns = Columns.from_json(Columns.of(X).to_json())
        assert columns.names == tuple(map(str, names))
        assert columns.decode(columns.encode(X)).columns.equals(X.columns)


def test_lists_come_back_as_arrays() -> None:
    X = [[1.5, "a", True], [-2.5, "b", False], [0.5, "c", True]]
    columns = Columns.of(X)
    assert columns.decode(columns.encode(X)).tolist() == X


# ------------------------------------------------------------------------------------- new rows


def test_new_rows_may_have_other_types_and_gaps() -> None:
    columns = Columns.of(
        pd.DataFrame({"b": [True, False], "n": [3, 50], "s": ["x", "y"], "f": [0.5, 1.5]}),
        types={"n": "count"},
    )
    new = pd.DataFrame({"b": [1.0, np.nan], "n": [np.nan, 7.0], "s": [None, None], "f": [1, 2]})
    assert np.array_equal(
        columns.encode(new, new=True),
        [[1, np.nan, np.nan, 1], [np.nan, 7, np.nan, 2]],
        equal_nan=True,
    )


def refusal(match: str) -> Any:
    return pytest.raises((ValueError, TypeError), match=match)


def test_new_values_that_do_not_fit_are_refused() -> None:
    X = pd.DataFrame(
        {"dish": ["dal", "rice", "naan"], "step": [1, 2, 3], "n": [9, 17, 4], "p": [0.5, 2.5, 1.5]}
    )
    columns = Columns.of(X, types={"p": "positive"})
    cases = [
        ("dish", "roti", r"Column 'dish' has 'roti' at row 1, a value that the fitted rows do not "
         r"have \('dal', 'naan', 'rice'\); leave it missing"),
        ("dish", 3, r"Column 'dish' has 3 at row 1"),
        ("step", 4, r"Column 'step' has 4 at row 1.*types=\{'step': 'count'\}"),
        ("n", -1, r"Column 'n' has -1 at row 1.*whole numbers from 0 on.*fit again"),
        ("n", 2.5, r"Column 'n' has 2.5 at row 1"),
        ("n", "many", r"Column 'n' has 'many' at row 1, where a number is needed"),
        ("p", 0.0, r"Column 'p' has 0 at row 1.*numbers above 0"),
        ("p", np.inf, r"Column 'p' contains infinity: 1 entries, the first at row 1"),
    ]  # fmt: skip
    for name, value, match in cases:
        new = X.astype(object)
        new.loc[1, name] = value
        with refusal(match):
            columns.encode(new, new=True)
    with refusal("which is none of its levels"):
        columns.encode(X.assign(dish="roti"))


def test_other_columns_are_refused() -> None:
    X = pd.DataFrame({"a": [0.5, 1.5], "b": [2.5, 3.5]})
    columns = Columns.of(X)
    with refusal("X lacks 'b' and has 'c', which the fitted table had not"):
        columns.encode(X.rename(columns={"b": "c"}))
    with refusal("another order: 'b' where 'a' was"):
        columns.encode(X[["b", "a"]])
    with refusal("X has 3 columns, where the fitted table had 2"):
        columns.encode(np.ones((2, 3)))
    assert np.array_equal(columns.encode(X.to_numpy()), X)
    with refusal(r"codes have shape \(1, 3\)"):
        columns.decode(np.ones((1, 3)))
    pair = Columns.of([["a"], ["b"]])
    for code in (0.5, 2, -1):
        with refusal(f"has the code {code} at row 0, where a binary column has whole numbers"):
            pair.decode([[code]])


# ------------------------------------------------------------------------------------- declared


def test_kinds_can_be_declared() -> None:
    X = pd.DataFrame(
        {"a": [1, 2, 1], "b": ["lo", "hi", "lo"], "t": [3.0, 100.0, 250.0], "c": [1, 0, 1]}
    )
    said = {
        "a": "categorical",
        1: {"kind": "ordinal", "levels": ["lo", "mid", "hi"]},
        "t": {"kind": "censored", "high": 100.0},
    }
    columns = Columns.of(X, said)
    assert columns.kinds == ("categorical", "ordinal", "censored", "binary")
    assert columns.columns[1].levels == ("lo", "mid", "hi")
    assert (columns.columns[2].low, columns.columns[2].high) == (-np.inf, 100.0)
    assert columns.encode(X)[:, 1].tolist() == [0, 2, 0]
    assert columns.encode(X)[:, 2].tolist() == [3, 100, 250]
    pd.testing.assert_frame_equal(columns.decode(columns.encode(X)), X)
    listed = Columns.of(X, ["count", "auto", {"kind": "censored", "low": 3}, "real"])
    assert listed.kinds == ("count", "binary", "censored", "real")
    assert Columns.from_json(columns.to_json()) == columns
    assert Columns.of(X, json.loads(columns.to_json())).kinds == columns.kinds


def test_numbers_of_columns_are_names_first() -> None:
    X = pd.DataFrame({1: [0.5, 1.5], 0: [3, 50]})
    assert Columns.of(X, {0: "count"}).kinds == ("real", "count")
    assert Columns.of(X.to_numpy(), {"1": "count"}).kinds == ("real", "count")


def test_declared_levels_say_which_is_coded_one() -> None:
    X = [["yes"], ["no"], ["yes"]]
    columns = Columns.of(X, [{"kind": "binary", "levels": ["yes", "no"]}])
    assert columns.encode(X)[:, 0].tolist() == [0, 1, 0]
    assert columns.decode([[1]]).tolist() == [["no"]]


def test_what_is_refused_may_be_declared() -> None:
    many = [[f"name {i}"] for i in range(MANY + 1)]
    assert len(Columns.of(many, ["categorical"]).columns[0].levels) == MANY + 1
    assert Columns.of(many[:-1]).kinds == ("categorical",)
    mixed = Columns.of([[3], ["x"], [1], [None]], ["categorical"])
    assert mixed.columns[0].levels == (1, 3, "x")
    assert mixed.decode(mixed.encode([[3], ["x"]])).tolist() == [[3], ["x"]]
    written = Columns.of([["1.5"], ["2"], [None]], ["real"])
    assert written.encode([["1.5"], ["2"]])[:, 0].tolist() == [1.5, 2.0]
    with refusal("Column '0' has no number among its text"):
        Columns.of([["?"], ["NA"]], ["real"])
    truth = Columns.of(pd.DataFrame({"x": [True, False]}), ["count"])
    assert truth.decode([[3]])["x"].tolist() == [3]


X = pd.DataFrame({"height": [1, 2, 9], "Weight": [0.5, -1.5, 2.5], "text": ["a", "b", "c"]})

MISTAKES: dict[str, tuple[Any, str]] = {
    "a name that is not there": ({"weight": "real"}, "'weight', which.* did you mean 'Weight'"),
    "a name like none": ({"zzz": "real"}, "'zzz', which is not there; X has 'height', 'Weight'"),
    "a number that is not there": ({3: "real"}, "column 3, which is not there: .* 0 to 2"),
    "a column twice": ({"height": "real", 0: "count"}, "names column 'height' twice"),
    "an unknown kind": ({"text": "catgorical"}, "unknown kind 'catgorical'; did you mean 'categor"),
    "no kind": ({"text": {"levels": ["a"]}}, "column 'text' has no 'kind'"),
    "an unknown key": ({"text": {"kind": "ordinal", "level": []}}, "has 'level', which is none of"),
    "a kind that is none": ({"text": 3}, "unknown kind 3"),
    "too few kinds": (["real"], "types has 1 kinds for 3 columns"),
    "another word": ("real", "types must be \"auto\", a mapping"),
    "nothing": (None, "types must be \"auto\", a mapping"),
    "negative in positive": ({"Weight": "positive"}, "'Weight' has -1.5 at row 1.*numbers above 0"),
    "fraction in count": ({"Weight": "count"}, "'Weight' has 0.5 at row 0.* whole numbers from 0"),
    "three values in binary": ({"height": "binary"}, "binary and has 3 different values .1, 2, 9"),
    "text in real": ({"text": "real"}, "Column 'text' has 'a' at row 0, where a number is needed"),
    "a value not in levels": (
        {"text": {"kind": "categorical", "levels": ["a", "b"]}},
        r"Column 'text' has 'c' at row 2, which is none of its levels \('a', 'b'\)",
    ),
    "an unknown order": ({"text": "ordinal"}, "'text' is declared ordinal, and the order"),
    "levels of a real": ({"height": {"kind": "real", "levels": [1, 2]}}, "is real and has levels"),
    "levels that are a word": ({"text": {"kind": "ordinal", "levels": "abc"}}, "must be a list"),
    "a level twice": ({"text": {"kind": "ordinal", "levels": list("aabc")}}, "level 'a' twice"),
    "a missing level": ({"text": {"kind": "ordinal", "levels": ["a", None]}}, "has None among"),
    "an infinite level": ({"text": {"kind": "ordinal", "levels": [np.inf]}}, "has inf among"),
    "three levels of two": ({"text": {"kind": "binary", "levels": list("abc")}}, "needs two"),
    "no limits": ({"height": "censored"}, "is censored, but not said where"),
    "limits in disorder": ({"height": {"kind": "censored", "low": 3, "high": 3}}, "not below high"),
    "a limit that is none": ({"height": {"kind": "censored", "low": "x"}}, "'low' of column"),
    "limits of a count": ({"height": {"kind": "count", "low": 0}}, "only censored columns have"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_in_types_are_told(what: str) -> None:
    types, match = MISTAKES[what]
    with refusal(match):
        Columns.of(X, types)


# -------------------------------------------------------------------------------------- refusals

BAD: dict[str, tuple[Any, str]] = {
    "dates": (pd.to_datetime(["2020-01-01", "2020-01-02"]), "'x' holds dates.*numbers first"),
    "dates with zone": (pd.to_datetime(["2020-01-01"], utc=True), "'x' holds dates"),
    "periods": (pd.period_range("2020", periods=2, freq="M"), "'x' holds dates"),
    "days as objects": ([3, datetime.date(2020, 1, 1)], "'x' holds dates .* the first at row 1"),
    "lengths of time": (pd.to_timedelta([1, 2], unit="D"), "'x' holds lengths of time.*Timedelta"),
    "complex": (np.array([1j, 2.0]), "'x' holds complex numbers"),
    "complex as object": (pd.Series([1.0, 2j], dtype=object), "'x' holds complex numbers at row 1"),
    "lists": ([[1, 2], [3]], "'x' has a list at row 0"),
    "bytes": ([b"a", b"b"], "'x' has a bytes at row 0"),
    "intervals": (pd.cut([1.0, 2.0, 3.0], 2), "'x' has categories of type Interval; make text"),
    "all missing": ([None, None], "Column 'x': no value was observed, all 2 entries"),
    "all NaN": ([np.nan, np.nan], "Column 'x': no value was observed"),
    "no categories": (pd.Categorical([None, None]), "Column 'x': no value was observed"),
    "infinity": ([0.5, np.nan, -np.inf], "'x' contains infinity: 1 entries, the first at row 2"),
    "too large": ([0.5, 1e120], "'x' has 1e.120 at row 1"),
    "beyond all floats": ([1, 10**400], "'x' has a number of about 401 digits at row 1, beyond"),
    "numbers and text": (
        pd.Series([1, 2, "x", None], dtype=object),
        "'x' mixes text and numbers: 'x' at row 2, 1 at row 0.*types={'x': 'categorical'}",
    ),
    "names": ([f"name {i}" for i in range(MANY + 1)], "51 different values.* names or identifiers"),
    "dates as text": (["2020-01-01", None, "2020-01-02"], "'x' holds dates .* pandas.to_datetime"),
    "numbers as text": ([str(i) for i in range(MOST + 1)], "written as text; .*astype\\(float\\)"),
    "numbers and a sign of gaps": (
        ["?", *(str(i) for i in range(MOST))],
        "looks like numbers written as text; .*to_numeric.* leaves '\\?' missing",
    ),
    "numbers with thousands": (
        [f"1,{i:03d}" for i in range(MANY + 1)],
        "looks like numbers written as text; write '1,000' plainly \\(1000\\)",
    ),
    "unused categories": (
        pd.Categorical(["0", "1"], [str(i) for i in range(MOST + 1)]),
        "remove_unused_categories",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_column_is_refused(what: str) -> None:
    values, match = BAD[what]
    with refusal(match):
        Columns.of(pd.DataFrame({"x": values, "fine": 0.5}))


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns named 'a'"),
        (pd.DataFrame({1: [1], "1": [2]}), "two columns named '1'"),
        ([[1, [2]], [3, 4]], "Column '1' has a list at row 0"),
        ([[1, 2], [3]], "X is ragged: row 1 has 1 entries"),
        ([1, 2], "table of 2 dimensions"),
        (np.ones((2, 2, 2)), "table of 2 dimensions"),
        (pd.DataFrame(), "X is empty"),
        (np.ones((0, 3)), "X is empty"),
        (np.array([["2020-01-01"]], "datetime64[D]"), "Column '0' holds dates"),
        ("table.csv", "X is a path"),
        ({"a": [1]}, "pandas.DataFrame"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, match: str) -> None:
    with refusal(match):
        Columns.of(table)


# --------------------------------------------------------------------------- shown, and in files


def test_describe_is_aligned_and_short() -> None:
    table = pd.DataFrame(
        {
            "dish": ["a", "b", "c", "d", "e", "f"],
            "w" * 80: [0.5, 1.5, -1.0, 2.0, 3.0, 7.25],
            "step": [1, 2, 3, 1, 2, 3],
            "time": [1, 2, 3, 4, 5, 50],
        }
    )
    lines = Columns.of(table, {"time": {"kind": "censored", "high": 50}}).describe().split("\n")
    assert len(lines) == 5
    assert max(map(len, lines)) < 130
    at = lines[0].index("kind")
    assert [line[at:].split()[0] for line in lines[1:]] == [
        "categorical",
        "real",
        "ordinal",
        "censored",
    ]
    assert "a, b, c, d, e, … (6 in all)" in lines[1]
    assert "1 < 2 < 3" in lines[3]
    assert re.search(r"censored +50 or more +given$", lines[4])


def test_json_is_for_people_and_for_types(tmp_path: Path) -> None:
    table = pd.DataFrame({"é": ["lo", "hi", "mid"], "n": [4, 19, 33]})
    columns = Columns.of(table, {"é": {"kind": "ordinal", "levels": ["lo", "mid", "hi"]}})
    file = tmp_path / "types.json"
    file.write_text(columns.to_json(), encoding="utf-8")
    types = read_types(file)
    assert types["é"]["levels"] == ["lo", "mid", "hi"]
    assert Columns.of(table, types).kinds == columns.kinds
    assert Columns.from_json(file.read_text(encoding="utf-8")) == columns
    for text, match in [
        ('{"a": "count", "a": "real"}', "'a' is there twice"),
        ('{"a": count}', "line 1 is not JSON"),
        ('["count"]', "no mapping of columns"),
    ]:
        file.write_text(text)
        with refusal(f"types.json: .*{match}"):
            read_types(file)
    with refusal("lacks what to_json writes"):
        Columns.from_json('{"a": "count"}')


def test_all_kinds_can_be_declared() -> None:
    said: dict[str, Any] = {kind: kind for kind in KINDS}
    said["censored"] = {"kind": "censored", "low": 1}
    table = pd.DataFrame({kind: [1, 2, 2] for kind in KINDS})
    assert Columns.of(table, said).kinds == KINDS
