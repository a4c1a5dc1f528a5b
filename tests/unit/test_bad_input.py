"""Each row of the tables in docs/bad-input.md: a right answer, or the words that it promises."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import thali
from thali.cli import run
from thali.evaluation import match_features

PAGE = (Path(__file__).parents[2] / "docs" / "bad-input.md").read_text(encoding="utf-8")
REFUSALS = ValueError, TypeError, OSError, MemoryError


def promised(section: str) -> dict[str, str]:
    """The rows under a heading: input → what happens."""
    part = PAGE.split(f"## {section}")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| (?!input)(?!-)(.+?) \| (.+?) \|$", part, re.MULTILINE))


MATRICES = promised("A matrix given to `fit`")
BY_DEFAULT = promised("What happens by default")  # of matrices, where it is not the same
MODELS = promised("A saved model given to `load`")
DATA_FILES = promised("A file given to `thali fit`")


LIKELIHOODS = ("linear_gaussian", "auto")


def matrix(name: str, likelihood: str) -> str:
    """What is promised of a matrix."""
    return BY_DEFAULT.get(name, MATRICES[name]) if likelihood == "auto" else MATRICES[name]


def words(row: str) -> str:
    """The words that a table promises for a refused input."""
    found = re.fullmatch(r"refused: `(.+)`", row)
    assert found, row
    return found[1]


def refusals(table: dict[str, str]) -> list[str]:
    return [name for name, row in table.items() if row.startswith("refused")]


# -------------------------------------------------------------------------------- matrices, fitted

DATA = thali.datasets.images(n=20, random_state=1)
X = DATA.X


def fit(X: Any, **settings: Any) -> thali.LatentFeatures:
    engine = thali.CollapsedGibbs(sweeps=40, chains=2)
    settings = {"likelihood": "linear_gaussian", "engine": engine, **settings}
    return thali.LatentFeatures(random_state=0, progress=False, **settings).fit(X)


def changed(value: Any, dtype: type = float) -> np.ndarray:
    """X with one entry replaced."""
    array = X.astype(dtype)
    array[3, 4] = value
    return array


def two_missing() -> np.ndarray:
    array = changed(np.nan)
    array[9, 9] = np.nan
    return array


WHOLE = np.round(10 * X)
SAME: dict[str, tuple[Any, Any]] = {  # an input, and the float64 array in C order that it equals
    "integers": (WHOLE.astype(np.int16), WHOLE),
    "booleans": (X > 0.5, (X > 0.5).astype(float)),
    "float32": (X.astype(np.float32), X.astype(np.float32).astype(float)),
    "Fortran order": (np.asfortranarray(X), X),
    "a slice with steps": (np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3], X),
    "a list of lists": (X.tolist(), X),
    "an array of objects that are numbers": (X.astype(object), X),
    "numbers written as text": (X.astype(str), X),
    "None in an array of objects": (changed(None, object), changed(np.nan)),
    "pandas' NA": (
        pd.DataFrame({"a": pd.array([1, None, 3]), "b": [1, 2, 3]}),
        np.array([[1.0, 1.0], [np.nan, 2.0], [3.0, 3.0]]),
    ),
    "a masked array": (np.ma.masked_greater(X, 1.0), np.where(X > 1.0, np.nan, X)),
}


@pytest.mark.filterwarnings("ignore:Column '33' has one value in all rows:UserWarning")  # of bits
@pytest.mark.filterwarnings("ignore:35 of 35 columns hold only 0 and 1:thali.DiscreteData")
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", SAME)
def test_the_same_numbers_give_the_same_answer(name, likelihood):
    assert matrix(name, likelihood).startswith(("fitted: the same answer", "fitted: as NaN"))
    given, plain = SAME[name]
    model, expected = fit(given, likelihood=likelihood), fit(plain, likelihood=likelihood)
    assert model.choice_ == expected.choice_
    np.testing.assert_array_equal(model.Z_, expected.Z_)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.X_.dtype == np.float64
    assert model.X_.flags.c_contiguous
    np.testing.assert_array_equal(model.predict_proba(given), expected.predict_proba(plain))


def test_a_sparse_matrix_gives_the_answer_of_the_dense_one():
    name = "a sparse matrix, and an engine that takes it"
    assert MATRICES[name].startswith("fitted: the same answer as for `X.toarray()`")
    given, start = scipy.sparse.coo_array(np.where(X > 0.5, X, 0.0)), X[:, :3] > 0.5
    engine = thali.MaximizationExpectation(init=start)
    model, expected = fit(given, engine=engine), fit(given.toarray(), engine=engine)
    np.testing.assert_array_equal(model.Z_, expected.Z_)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)


def all_finite(model: thali.LatentFeatures) -> bool:
    """Whether every number of the answer is finite, and its parts fit together."""
    n, d = model.X_.shape
    assert model.Z_.shape == model.assignment_probabilities_.shape == (n, model.n_components_)
    assert model.components_.shape == (model.n_components_, d)
    numbers = [
        model.components_,
        model.assignment_probabilities_,
        model.log_joint_,
        model.alpha_,
        model.sigma_x_,
        model.sigma_a_,
        model.score(model.X_),
        model.transform(model.X_),
        *model.history_.values(),
    ]
    return all(np.isfinite(part).all() for part in numbers)


def small(model: thali.LatentFeatures) -> bool:
    return all_finite(model)


def constant(model: thali.LatentFeatures) -> bool:
    there = model.inverse_transform(model.Z_)[:, -1]
    return all_finite(model) and bool(np.abs(there - 7.0).max() < 1.0)


def zero_there(model: thali.LatentFeatures) -> bool:
    return all_finite(model) and bool((model.components_[:, -1] == 0.0).all())


def reconstructed(model: thali.LatentFeatures) -> bool:
    away = np.abs(model.inverse_transform(model.Z_) - model.X_).max()
    return all_finite(model) and bool(away < 0.1 * np.abs(model.X_).max())


def nothing(model: thali.LatentFeatures) -> bool:
    return all_finite(model) and model.n_components_ == 0


def equal_there(model: thali.LatentFeatures) -> bool:
    return all_finite(model) and np.allclose(model.components_[:, :36], model.components_[:, 36:])


def filled_in(model: thali.LatentFeatures) -> bool:
    return all_finite(model) and bool(np.isfinite(model.impute()).all())


def without_row() -> np.ndarray:
    array = X.copy()
    array[5] = np.nan
    return array


def without_last_column() -> np.ndarray:
    array = X.copy()
    array[:, -1] = np.nan
    return array


RIGHT: dict[str, tuple[Any, Callable[[thali.LatentFeatures], bool]]] = {
    "one row": (X[:1], small),
    "one column": (X[:, :1], small),
    "a single number": ([[3.0]], small),
    "a constant column": (np.c_[X, np.full(20, 7.0)], constant),
    "a column of zeros": (np.c_[X, np.zeros(20)], zero_there),
    "all entries equal": (np.full((20, 5), 3.0), reconstructed),
    "all entries zero": (np.zeros((20, 5)), nothing),
    "all entries equal, centered": (np.full((20, 5), 3.0), nothing),
    "equal rows": (np.repeat(X[:1], 20, axis=0), reconstructed),
    "equal columns": (np.c_[X, X], equal_there),
    "NaN": (two_missing(), filled_in),
    "a row that is wholly missing": (without_row(), filled_in),
    "a column that is wholly missing": (without_last_column(), zero_there),
}


CASES = [(name, each) for name in RIGHT for each in LIKELIHOODS]


@pytest.mark.parametrize(
    ("name", "likelihood"), [c for c in CASES if matrix(*c).startswith("fitted")]
)
def test_degenerate_data_get_a_right_answer(name, likelihood):
    given, right = RIGHT[name]
    assert right(fit(given, center="centered" in name, likelihood=likelihood))


@pytest.mark.parametrize(
    ("name", "likelihood"), [c for c in CASES if matrix(*c).startswith("refused")]
)
def test_or_one_sentence(name, likelihood):
    with pytest.raises(ValueError, match=re.escape(words(matrix(name, likelihood)))):
        fit(RIGHT[name][0], likelihood=likelihood)


@pytest.mark.parametrize(
    ("name", "scale"), [("values of size 10¹⁵", 1e15), ("values of size 10⁻¹⁵", 1e-15)]
)
def test_the_scale_of_the_data_does_not_matter(name, scale):
    data = thali.datasets.images(n=40, random_state=1)
    engine = thali.CollapsedGibbs(sweeps=400, chains=4)
    plain, scaled = fit(data.X, engine=engine), fit(scale * data.X, engine=engine)
    assert all_finite(scaled)
    assert scaled.n_components_ == plain.n_components_
    matching = match_features(plain.components_, scaled.components_ / scale)
    assert matching.correlations.min() > 0.99
    assert scaled.sigma_x_ / scale == pytest.approx(plain.sigma_x_, rel=0.05)


def in_little_memory(code: str) -> str:
    """What code prints in a process of its own, where a mistake with memory harms nothing else."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    begin = (
        "import numpy as np, thali\n"
        "X = thali.datasets.images(n=20, random_state=1).X\n"
        "def fit(X, prior='ibp', **settings):\n"
        "    engine = thali.CollapsedGibbs(sweeps=40, chains=2, **settings)\n"
        "    return thali.LatentFeatures(prior, engine=engine, random_state=0).fit(X)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        capture_output=True, text=True, timeout=300, preexec_fn=limit, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr.strip().split("\n")[-1]


def test_a_finite_prior_with_very_many_features_fits():
    said = in_little_memory(
        "model = fit(X, thali.BetaBernoulli(alpha=2.0, n_components=10**9))\n"
        "print(model.n_components_, np.isfinite(model.components_).all())"
    )
    number, finite = said.split()
    assert 0 < int(number) < 20
    assert finite == "True"


@pytest.mark.parametrize("k", [10**9, 200_000])
def test_a_start_beyond_memory_is_refused(k):
    said = in_little_memory(f"fit(X, init=np.broadcast_to(np.array(True), (20, {k})))")
    assert said.startswith("MemoryError: ")
    assert words(MATRICES["a start with more features than memory holds"]) in said


# ------------------------------------------------------------------------------- matrices, refused


class Deaf(thali.CollapsedGibbs):
    """An engine that does not declare that it can deal with missing entries."""

    masked = False


REFUSED: dict[str, Callable[[Any], Any]] = {
    "values of size 10³⁰⁰": lambda fit: fit(1e300 * X),
    "values of size 10⁻²⁰⁰": lambda fit: fit(1e-200 * X),
    "an integer of 401 digits": lambda fit: fit([[1, 10**400], [2, 3]]),
    "text": lambda fit: fit(np.array([["1", "2"], ["red", "3"]])),
    "a data frame with a column of text": lambda fit: fit(
        pd.DataFrame({"a": ["1", "red"], "b": [1, 2]})
    ),
    "nothing but NaN": lambda fit: fit(np.full(X.shape, np.nan)),
    "NaN, and an engine that cannot deal with it": lambda fit: fit(
        two_missing(), engine=Deaf(sweeps=4, chains=1)
    ),
    "infinity": lambda fit: fit(changed(np.inf)),
    "minus infinity": lambda fit: fit(changed(-np.inf)),
    "no rows": lambda fit: fit(X[:0]),
    "no columns": lambda fit: fit(X[:, :0]),
    "an empty list": lambda fit: fit([]),
    "one dimension": lambda fit: fit(X[0]),
    "three dimensions": lambda fit: fit(X.reshape(20, 6, 6)),
    "rows of different length": lambda fit: fit([[1.0, 2.0], [3.0]]),
    "a path": lambda fit: fit("plates.csv"),
    "complex numbers": lambda fit: fit(X + 1j),
    "dates": lambda fit: fit(np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[D]")),
    "an array of other objects": lambda fit: fit(changed({}, object)),
    "a sparse matrix, and an engine that cannot take it": lambda fit: fit(
        scipy.sparse.csr_matrix(X)
    ),
    "a sparse array, and an engine that cannot take it": lambda fit: fit(scipy.sparse.csc_array(X)),
    "a sparse matrix of 10⁹ columns without entries": lambda fit: fit(
        scipy.sparse.csr_array((5, 10**9)), engine="auto"
    ),
    "a sparse matrix with NaN among its entries": lambda fit: fit(
        scipy.sparse.csr_matrix(changed(np.nan)), engine="maximization_expectation"
    ),
    "a sparse matrix with infinity among its entries": lambda fit: fit(
        scipy.sparse.csr_matrix(changed(np.inf)), engine="maximization_expectation"
    ),
    "a sparse matrix, and `center=True`": lambda fit: fit(
        scipy.sparse.csr_matrix(X), engine="maximization_expectation", center=True
    ),
    "column names that repeat": lambda fit: fit(pd.DataFrame(X[:, :2], columns=["a", "a"])),
    "another number of columns at `transform`": lambda fit: fit(X).transform(X[:, :35]),
}


REFUSALS_OF = [(name, each) for name in REFUSED for each in LIKELIHOODS]


@pytest.mark.parametrize(
    ("name", "likelihood"), [c for c in REFUSALS_OF if matrix(*c).startswith("refused")]
)
def test_a_matrix_is_refused_in_the_words_of_the_table(name, likelihood):
    with pytest.raises(REFUSALS) as caught:
        REFUSED[name](partial(fit, likelihood=likelihood))
    assert words(matrix(name, likelihood)) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [n for n, row in BY_DEFAULT.items() if row.startswith("fitted")])
def test_text_is_fitted_by_default(name):
    assert BY_DEFAULT[name] == "fitted: a column with text has levels"
    model = REFUSED[name](partial(fit, likelihood="auto"))
    first, _ = model.likelihood_.known.table
    assert (first.kind, first.levels) == ("binary", ("1", "red"))
    assert np.isfinite(model.assignment_probabilities_).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "X is None, not a table"),
        ({"a": [1.0, 2.0]}, "X is a dict, not a table"),
        (3.0, "X is a single number, not a table"),
        (pd.DataFrame(), "X is empty: the data frame has no columns"),
        (pd.DataFrame(index=[1, 2]), "X is empty: the data frame has no columns"),
    ],
)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_what_is_no_table_is_called_so(given, said, likelihood):
    with pytest.raises((TypeError, ValueError), match=said):
        fit(given, likelihood=likelihood)


# ------------------------------------------------------------------------------------ saved models


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model.thali"
    fit(X).save(path)
    return path


def test_a_saved_model_comes_back(saved):
    model, loaded = fit(X), thali.load(saved)
    np.testing.assert_array_equal(loaded.Z_, model.Z_)
    np.testing.assert_array_equal(loaded.components_, model.components_)
    assert loaded.log_joint_ == model.log_joint_


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_meta(path: Path, change: Callable[[dict], Any]) -> bytes:
    parts = parts_of(path)
    meta = json.loads(parts["thali.json"])
    change(meta)
    return zipped({**parts, "thali.json": json.dumps(meta).encode()})


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


class Bomb:
    """Ends the process when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return os.abort, ()


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def with_infinity(content: bytes) -> bytes:
    scalars = np.load(io.BytesIO(content))
    scalars[0, 2] = np.inf
    return npy(scalars)


def without(parts: dict[str, bytes], name: str) -> dict[str, bytes]:
    assert name in parts
    return {other: content for other, content in parts.items() if other != name}


BROKEN: dict[str, Callable[[Path], bytes]] = {
    "an empty file": lambda path: b"",
    "a file that is no zip archive": lambda path: pickle.dumps(Bomb()),
    "another zip archive": lambda path: zipped({"notes.txt": b"hello"}),
    "a file cut short": lambda path: path.read_bytes()[:-100],
    "a file with a changed byte": lambda path: flipped(path.read_bytes()),
    "a file with an array left out": lambda path: zipped(without(parts_of(path), "X.npy")),
    "a file with an array of another shape": lambda path: zipped(
        {**parts_of(path), "X.npy": npy(X[:5])}
    ),
    "a file with a pickle in it": lambda path: zipped(
        {**parts_of(path), "X.npy": npy(np.array([[Bomb()]], object), allow_pickle=True)}
    ),
    "a file with an infinite number": lambda path: zipped(
        {
            **parts_of(path),
            "chain0_scalars.npy": with_infinity(parts_of(path)["chain0_scalars.npy"]),
        }
    ),
    "a file that names an unknown class": lambda path: with_meta(
        path, lambda meta: meta["fitted"]["prior"].update({"class": "system"})
    ),
    "a file of a newer version": lambda path: with_meta(path, lambda m: m.update(format=999)),
    "a checkpoint": lambda path: with_meta(path, lambda meta: meta.update(kind="checkpoint")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_file_is_refused(name, saved, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.thali"
    path.write_bytes(BROKEN[name](saved))
    with pytest.raises(ValueError, match=re.escape(words(MODELS[name]))) as caught:
        thali.load(path)
    assert "\n" not in str(caught.value)
    for command in ("show", "report"):  # the command line says the same, and writes nothing
        assert run([command, "bad.thali"]) == 2
        assert capsys.readouterr().err.startswith("error: bad.thali ")
    assert os.listdir() == ["bad.thali"]


def test_a_model_file_that_is_not_there(tmp_path):
    for name, path in (("no file", tmp_path / "none.thali"), ("a folder", tmp_path)):
        with pytest.raises(OSError, match=re.escape(words(MODELS[name]))):
            thali.load(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_model_file_cut_or_changed_anywhere_is_noticed(share, saved, tmp_path):
    content = saved.read_bytes()
    at = min(int(share * len(content)), len(content) - 1)
    path = tmp_path / "bad.thali"
    path.write_bytes(content[:at])
    with pytest.raises(ValueError, match=r"damaged"):
        thali.load(path)


# -------------------------------------------------------------------------------------- data files


def half(array: np.ndarray, suffix: str) -> bytes:
    """The beginning of a file that holds the array."""
    buffer = io.BytesIO()
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        pd.DataFrame(array, columns=[f"c{j}" for j in range(36)]).to_parquet(buffer)
    else:
        (np.save if suffix == "npy" else np.savez)(buffer, array)
    content = buffer.getvalue()
    return content[: 228 if suffix == "npy" else len(content) // 2]


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "an unknown suffix": ("bad.xls", lambda: b"1,2"),
    "an empty file given": ("bad.csv", lambda: b""),
    "a header without rows": ("bad.csv", lambda: b"a,b,c\n"),
    "a half-written CSV": ("bad.csv", lambda: b"a,b,c\n1,2,3\n4,5"),
    "a quote that is never closed": ("bad.csv", lambda: b'a,b,c\n1,2,"3\n4,5,6\n'),
    "a line with too few fields": ("bad.csv", lambda: b"a,b,c\n1,2,3\n4,5\n7,8,9\n"),
    "text in a column of numbers": ("bad.csv", lambda: b"a,b,c\n1,2,3\n4,five,6\n"),
    "decimal commas beside points": ("bad.csv", lambda: b"a;b\n1.5;2,5\n"),
    "a first column of prices": ("bad.csv", lambda: b"price,b\n$0.88,1\n$0.91,2\n"),
    "nothing but empty cells": ("bad.csv", lambda: b"a,b\nNA,NA\nNA,NA\n"),
    "infinite entries": ("bad.csv", lambda: b"a,b,c\n1,2,3\n4,5,-inf\n"),
    "bytes that are no text": ("bad.csv", lambda: bytes(range(9))),
    "another encoding": ("bad.csv", lambda: "é,b\n1,2\n".encode("latin-1")),
    "an Excel workbook called CSV": ("bad.csv", lambda: zipped({"xl/workbook.xml": b"<x/>"})),
    "two columns of one name": ("bad.csv", lambda: b"a,b,a\n1,2,3\n"),
    "an unknown column": ("bad.csv --columns rise", lambda: b"rice,dal\n1,2\n"),
    "a half-written NPY": ("bad.npy", lambda: half(X, "npy")),
    "a half-written NPZ": ("bad.npz", lambda: half(X, "npz")),
    "a half-written Parquet": ("bad.parquet", lambda: half(X, "parquet")),
    "a pickle in an NPY": (
        "bad.npy",
        lambda: npy(np.array([[Bomb()]], object), allow_pickle=True),
    ),
    "a sparse matrix in an NPZ, and an engine that cannot take it": (
        "bad.npz --engine collapsed-gibbs",
        lambda: npz(data=[1.0], indices=[0], indptr=[0, 1], shape=[1, 1], format=b"csr"),
    ),
    "a sparse matrix in an NPZ, its parts at odds": (
        "bad.npz",
        lambda: npz(data=[1.0], indices=[9], indptr=[0, 1], shape=[1, 1], format=b"csr"),
    ),
    "several matrices in an NPZ": ("bad.npz", lambda: npz(X=X, Y=X)),
    "an array of three dimensions": ("bad.npy", lambda: npy(X.reshape(20, 6, 6))),
}


def refused_by_fit(arguments: list[str], expected: str, capsys: pytest.CaptureFixture) -> None:
    """Run `thali fit`; it must say one line and leave the folder as it was."""
    before = sorted(os.listdir())
    assert run(["fit", *arguments, "--quiet"]) == 2
    assert run(["fit", *arguments, "--quiet", "--out", "deep/er/out"]) == 2
    complaints = capsys.readouterr().err.splitlines()
    assert len(complaints) == 2
    for complaint in complaints:
        assert complaint.startswith("error: ")
        assert expected in complaint
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", FILES)
def test_a_data_file_is_refused_and_nothing_is_written(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, content = FILES[name]
    Path(arguments.split()[0]).write_bytes(content())
    refused_by_fit(arguments.split(), words(DATA_FILES[name]), capsys)


def test_a_data_file_with_missing_entries_is_fitted(tmp_path, monkeypatch, capsys):
    assert DATA_FILES["missing entries"].startswith("fitted: ")
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_bytes(b"a,b,c\n1,NA,3\n,5,6\n")
    with pytest.warns(UserWarning, match="Columns 'a', 'b' have one value in all rows"):
        assert run(["fit", "good.csv", "--sweeps", "6", "--chains", "1"]) == 0
    assert "2 of 6 entries missing" in capsys.readouterr().out
    assert "NA" not in Path("thali-out", "imputed.csv").read_text()


FITTED_FILES = {
    "decimal commas": (b"a;b\n1;2,5\n3;4\n", "2 x 2, rows without names"),
    "years above the columns": (b"who,2000,2010\nr,1,2\ns,4,3\n", "2 x 2, named rows"),
    "a first column of words": (b"who,a,b\nr,1,2\ns,4,3\n", "2 x 2, named rows"),
}


@pytest.mark.usefixtures("blank_report")
@pytest.mark.parametrize("name", FITTED_FILES)
def test_a_data_file_that_is_fitted_is_described_in_one_line(name, tmp_path, monkeypatch, capsys):
    content, size = FITTED_FILES[name]
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_bytes(content)
    assert run(["fit", "good.csv", "--sweeps", "6", "--chains", "1"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"good.csv: {size}")
    promise = re.match("fitted: `([^`]+)`", DATA_FILES[name])
    assert promise, DATA_FILES[name]
    assert promise[1] in line


def test_a_data_file_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("plates.csv").write_text("1,2\n")
    for name, path in (
        ("a file that is not there", "plate.csv"),
        ("a folder instead of a file", "."),
    ):
        refused_by_fit([path], words(DATA_FILES[name]), capsys)


def test_an_existing_folder_keeps_what_was_in_it(tmp_path, monkeypatch, capsys):
    """Earlier results stay whole when a later run is refused."""
    monkeypatch.chdir(tmp_path)
    np.save("good.npy", X)
    assert (
        run(["fit", "good.npy", "--sweeps", "10", "--chains", "1", "--quiet", "--out", "out"]) == 0
    )
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    np.save("bad.npy", changed(np.inf))
    assert run(["fit", "bad.npy", "--quiet", "--out", "out"]) == 2
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before


# ------------------------------------------------------------------------------ the table is whole


def test_every_row_of_the_page_has_a_test_and_every_test_a_row():
    rows = [*MATRICES, *MODELS, *DATA_FILES]
    others = {
        "values of size 10¹⁵",
        "values of size 10⁻¹⁵",
        "a sparse matrix, and an engine that takes it",
        "a finite prior with 10⁹ features",
        "a start with more features than memory holds",
        "a model that was saved",
        "no file",
        "a folder",
        "a file that is not there",
        "a folder instead of a file",
        "missing entries",
    }
    assert len(rows) == len(set(rows))
    assert set(rows) == {*SAME, *RIGHT, *REFUSED, *BROKEN, *FILES, *FITTED_FILES, *others}
    assert set(BY_DEFAULT) <= {*RIGHT, *REFUSED}
    assert {*REFUSED, *BROKEN, *FILES} <= {
        *refusals(MATRICES), *refusals(MODELS), *refusals(DATA_FILES)
    }  # fmt: skip
