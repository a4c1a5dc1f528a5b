"""Reading data files: what is a header, what is a row name, and what is refused in which words."""

from __future__ import annotations

import builtins
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from thali.data.tables import Table, read_table

pa = pytest.importorskip("pyarrow")
NAN = np.nan


@pytest.fixture
def write(tmp_path):
    """Write text or bytes to a file of the given name, and return its path."""

    def _write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


def check(table: Table, values, columns=None, rows=None) -> None:
    assert_array_equal(table.values, values)
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert table.column_names == columns
    assert table.row_names == rows


GOOD = {
    "numbers only": ("1,2\n3,4\n", [[1, 2], [3, 4]], None, None),
    "header": ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]], ["a", "b"], None),
    "row names": ("r,1,2\ns,3,4\n", [[1, 2], [3, 4]], None, ["r", "s"]),
    "binary rows with names": ("r,0,1\ns,1,1\n", [[0, 1], [1, 1]], None, ["r", "s"]),
    "both": ("who,a,b\nr,1,2\ns,3,4\n", [[1, 2], [3, 4]], ["a", "b"], ["r", "s"]),
    "row names repeat": ("who,a\nr,1\nr,3\n", [[1], [3]], ["a"], ["r", "r"]),
    "unnamed index": (",a,b\n0,1,2\n1,3,4\n", [[1, 2], [3, 4]], ["a", "b"], ["0", "1"]),
    "pandas without names": (",0,1\n0,1.5,2\n1,3,4\n", [[1.5, 2], [3, 4]], ["0", "1"], ["0", "1"]),
    "counted columns": ("0,1,2,3\n1,2,5,4\n", [[1, 2, 5, 4]], ["0", "1", "2", "3"], None),
    "years as names": ("who,11,12,13\nr,1,2,5\n", [[1, 2, 5]], ["11", "12", "13"], ["r"]),
    "years over text": (
        "country,2000,2005,2015\nIndia,0.1,0.5,0.2\nPeru,0.3,0.4,0.9\n",
        [[0.1, 0.5, 0.2], [0.3, 0.4, 0.9]],
        ["2000", "2005", "2015"],
        ["India", "Peru"],
    ),
    "two years": (
        "country,2001,2002\nIndia,1,5\nPeru,3,4\n",
        [[1, 5], [3, 4]],
        ["2001", "2002"],
        ["India", "Peru"],
    ),
    "years amid fractions": (
        "land,2000,2005,2015\nr,1.5,9e3,2.5\ns,9e3,1.5,9e3\nt,2.5,.5,.1\n",
        [[1.5, 9e3, 2.5], [9e3, 1.5, 9e3], [2.5, 0.5, 0.1]],
        ["2000", "2005", "2015"],
        ["r", "s", "t"],
    ),
    "even steps": (
        "label,0.5,1.0,1.5,2.0\nr,0.1,3,0.2,1\ns,0.6,1,2,1\n",
        [[0.1, 3, 0.2, 1], [0.6, 1, 2, 1]],
        ["0.5", "1.0", "1.5", "2.0"],
        ["r", "s"],
    ),
    "even steps throughout are data": (
        "r,1,2,3\ns,2,3,4\nt,0,1,2\n",
        [[1, 2, 3], [2, 3, 4], [0, 1, 2]],
        None,
        ["r", "s", "t"],
    ),
    "a name that repeats is no label": (
        "r,2001,2002\ns,1,5\nr,3,4\n",
        [[2001, 2002], [1, 5], [3, 4]],
        None,
        ["r", "s", "r"],
    ),
    "an empty corner": (",9,5\nr,9,2\ns,3,5\n", [[9, 2], [3, 5]], ["9", "5"], ["r", "s"]),
    "bare years": (
        "2001,2003,2004\n0.1,0.2,1\n.3,1,.4\n",
        [[0.1, 0.2, 1], [0.3, 1, 0.4]],
        ["2001", "2003", "2004"],
        None,
    ),
    "counted from one": (
        "1,2,3,4\n-.5,2.5,9,1\n1.5,-1,3.5,7.5\n",
        [[-0.5, 2.5, 9, 1], [1.5, -1, 3.5, 7.5]],
        ["1", "2", "3", "4"],
        None,
    ),
    "falling years are data": (
        "2004,2003,2001\n.1,.2,1\n.3,1,.4\n",
        [[2004, 2003, 2001], [0.1, 0.2, 1], [0.3, 1, 0.4]],
        None,
        None,
    ),
    "a larger first row is data": (
        "3,5,8\n1,2,3\n0,1,1\n",
        [[3, 5, 8], [1, 2, 3], [0, 1, 1]],
        None,
        None,
    ),
    "infinity and years": (
        "1,2,3,4\ninf,inf,1e308,-1e308\n-inf,.5,.5,1\n",
        [[1, 2, 3, 4], [np.inf, np.inf, 1e308, -1e308], [-np.inf, 0.5, 0.5, 1]],
        None,
        None,
    ),
    "quantiles as names": ("name,10%,50%\nr,1,2\n", [[1, 2]], ["10%", "50%"], ["r"]),
    "dates as row names": (
        "day,a\n2020-01-01,1\n2020-01-02,2\n",
        [[1], [2]],
        ["a"],
        ["2020-01-01", "2020-01-02"],
    ),
    "ids as row names": ("id,a\n0x10,1\n0x1f,2\n", [[1], [2]], ["a"], ["0x10", "0x1f"]),
    "typeset minus": ("a,b\n−1.5,1\n−2,−3\n", [[-1.5, 1], [-2, -3]], ["a", "b"], None),
    "decimal commas": ("a;b\n1,5;−2,5\n3;4,125\n", [[1.5, -2.5], [3, 4.125]], ["a", "b"], None),
    "decimal commas and row names": (
        "who;a, cm\nSt. John, E.;,5\nr;1,5e3\n",
        [[0.5], [1500]],
        ["a, cm"],
        ["St. John, E.", "r"],
    ),
    "user ids": ("user_id,a\n7,1\n8,3\n", [[1], [3]], ["a"], ["7", "8"]),
    "ids of two words": ("Patient ID,a\n7,1\n8,3\n", [[1], [3]], ["a"], ["7", "8"]),
    "ids in camel case": ("userId,a\n7,1\n8,3\n", [[1], [3]], ["a"], ["7", "8"]),
    "acid is no id": ("acid,a\n7,1\n8,3\n", [[7, 1], [8, 3]], ["acid", "a"], None),
    "numbered rows": ("id,a\n7,1\n8,3\n", [[1], [3]], ["a"], ["7", "8"]),
    "id that repeats is data": ("id,a\n7,1\n7,3\n", [[7, 1], [7, 3]], ["id", "a"], None),
    "missing": ("a,b,c\n,NA,nan\n1,?,N/A\n", [[NAN] * 3, [1, NAN, NAN]], ["a", "b", "c"], None),
    "first cell missing": (",1.5\n2,3\n", [[NAN, 1.5], [2, 3]], None, None),
    "infinite": ("1,inf\n-inf,2\n", [[1, np.inf], [-np.inf, 2]], None, None),
    "truth": ("a,b\nTRUE,false\n0,1\n", [[1, 0], [0, 1]], ["a", "b"], None),
    "quotes": ('"x, y","z"\n"1","2"\n', [[1, 2]], ["x, y", "z"], None),
    "blanks around": (" a , b \n 1 , 2 \n", [[1, 2]], ["a", "b"], None),
    "blank lines": ("\n\n1,2\n\n3,4\n\n", [[1, 2], [3, 4]], None, None),
    "windows": ("a,b\r\n1,2\r\n", [[1, 2]], ["a", "b"], None),
    "old mac": ("a,b\r1,2\r", [[1, 2]], ["a", "b"], None),
    "byte-order mark": ("\ufeffa,b\n1,2\n", [[1, 2]], ["a", "b"], None),
    "semicolons": ("a;b\n1;2\n", [[1, 2]], ["a", "b"], None),
    "tabs": ("a\tb\n1\t2\n", [[1, 2]], ["a", "b"], None),
    "delimiter at line ends": ("a,b,\n1,2,\n3,4,\n", [[1, 2], [3, 4]], ["a", "b"], None),
    "one column": ("a\n1\n2\n", [[1], [2]], ["a"], None),
    "one number": ("1\n", [[1]], None, None),
    "one row": ("1,2,3", [[1, 2, 3]], None, None),
    "exponents": ("1e15,-2E-3\n.5,5.\n", [[1e15, -2e-3], [0.5, 5]], None, None),
    "unnamed column inside": ("a,,c\n1,2,3\n", [[1, 2, 3]], ["a", "column_2", "c"], None),
    "greek": ("σ,α\n1,2\n", [[1, 2]], ["σ", "α"], None),
}


@pytest.mark.parametrize(("text", "values", "columns", "rows"), GOOD.values(), ids=GOOD.keys())
def test_csv_gives_numbers_and_names(write, text, values, columns, rows):
    check(read_table(write("t.csv", text)), values, columns, rows)


@pytest.mark.parametrize("text", ["r,1,2\ns,3,4\n", "9,5,7\n1,2,3\n", "a,b\n1,2\n"])
def test_the_reader_can_be_told_of_a_header(write, text):
    path = write("t.csv", text)
    first = text.splitlines()[0].split(",")
    table = read_table(path, header=True)
    assert len(table.values) == text.count("\n") - 1
    assert table.column_names == first[-table.values.shape[1] :]
    assert not any("first row" in note for note in table.notes)
    if first != ["a", "b"]:
        table = read_table(path, header=False)
        assert len(table.values) == text.count("\n")
        assert table.column_names is None
    else:
        with pytest.raises(ValueError, match="line 1, column 2: 'b' is not a number"):
            read_table(path, header=False, columns=["2"])


def test_a_header_is_said_of_text_only_and_may_be_short(write, tmp_path):
    path = write("t.csv", "2000,2005\nr,1,2\ns,3,4\n")
    check(read_table(path, header=True), [[1, 2], [3, 4]], ["2000", "2005"], ["r", "s"])
    with pytest.raises(ValueError, match="line 1: 2 fields where the other lines have 3"):
        read_table(path, header=False)
    np.save(tmp_path / "t.npy", np.eye(2))
    with pytest.raises(
        ValueError, match=r"only a \.csv or \.tsv file can be said to have a header"
    ):
        read_table(tmp_path / "t.npy", header=True)


NAMES = "first row read as names of columns (--no-header reads it as data)"
DATA = "first row read as data (--header reads it as names of columns)"
NOTES = {
    "header in words": ("a,b\n1,2\n", ()),
    "numbers": ("4,2\n1,2\n3,4\n", ()),
    "row names": ("who,a\nr,1\n", ("row names from column 'who'",)),
    "unnamed rows": (",a\nr,1\n", ("row names from the first column",)),
    "years": ("2001,2002\n1,2\n3,4\n", (NAMES,)),
    "falling years": ("2002,2001\n1,2\n3,4\n", (DATA,)),
    "years in range": (
        "who,2001,2002\nr,1000,3000\ns,3000,1000\n",
        (DATA, "row names from the first column"),
    ),
    "decimal commas": ("a;b\n1,5;2\n", ("decimal commas read as points",)),
}


@pytest.mark.parametrize(("text", "notes"), NOTES.values(), ids=NOTES.keys())
def test_what_was_guessed_is_noted(write, text, notes):
    path = write("t.csv", text)
    assert read_table(path).notes == notes
    assert read_table(path, transpose=True).notes == notes


def test_a_column_of_prices_may_name_the_rows_when_others_are_chosen(write):
    path = write("t.csv", "price,b,c\n$1,2,3\n$2,4,5\n")
    check(read_table(path, columns=["c", "b"]), [[3, 2], [5, 4]], ["c", "b"], ["$1", "$2"])


def test_tsv_and_the_short_header_of_r(write):
    check(read_table(write("t.tsv", "a\tb\n1\t2\n")), [[1, 2]], ["a", "b"])
    text = "a,b\nr,1,2\ns,3,4\n"
    check(read_table(write("t.csv", text)), [[1, 2], [3, 4]], ["a", "b"], ["r", "s"])


def test_the_suffix_may_be_in_capitals_and_the_path_a_string(write):
    check(read_table(str(write("T.CSV", "a,b\n1,2\n"))), [[1, 2]], ["a", "b"])


def test_columns_are_chosen_by_name_and_kept_in_that_order(write):
    path = write("t.csv", "who,kind,a,b\nr,x,1,2\ns,y,3,4\n")
    check(read_table(path, columns=["b", "a"]), [[2, 1], [4, 3]], ["b", "a"], ["r", "s"])
    path = write("n.csv", "id,a\n7,1\n8,3\n")
    check(read_table(path, columns=["id"]), [[7], [8]], ["id"])  # asked for, so it is data


def test_columns_without_names_are_chosen_by_number(write, tmp_path):
    check(read_table(write("t.csv", "1,2,5\n3,4,6\n"), columns=["3", "1"]), [[5, 1], [6, 3]])
    np.save(tmp_path / "t.npy", [[1, 2, 5]])
    check(read_table(tmp_path / "t.npy", columns=["3"]), [[5]])


def test_transpose_exchanges_values_and_names(write):
    path = write("t.csv", "gene,a,b,c\ng,1,2,3\nh,4,5,6\n")
    check(read_table(path, transpose=True), [[1, 4], [2, 5], [3, 6]], ["g", "h"], ["a", "b", "c"])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", ">f8", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_real_type_and_order(tmp_path, dtype, order):
    X = np.array([[0, 1, 1], [1, 0, 1]], dtype=dtype, order=order)
    np.save(tmp_path / "t.npy", X)
    check(read_table(tmp_path / "t.npy"), X.astype(float))


def test_npz_takes_the_only_matrix_or_the_one_named(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, X=np.eye(2), y=np.arange(2), names=np.array([["a", "b"]]))
    check(read_table(path), np.eye(2))
    np.savez(path, X=np.eye(2), Y=np.ones((2, 3)))
    check(read_table(f"{path}:Y"), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"holds 2 matrices; choose .*t\.npz:NAME.*X \(2, 2\), Y"):
        read_table(path)
    with pytest.raises(ValueError, match=r"no array 'Z'; its arrays: X \(2, 2\), Y \(2, 3\)"):
        read_table(f"{path}:Z")
    np.savez(path, train=np.eye(2), test=np.eye(2))
    with pytest.raises(ValueError, match=r"no array 'trian'; did you mean .*t\.npz:train\?"):
        read_table(f"{path}:trian")


@pytest.mark.parametrize("make", ["coo_array", "coo_matrix"])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_a_sparse_npz_stays_sparse(tmp_path, kind, make):
    import scipy.sparse

    path = tmp_path / "t.npz"
    given = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    scipy.sparse.save_npz(path, getattr(scipy.sparse, make)(given).asformat(kind))
    table = read_table(path)
    assert scipy.sparse.issparse(table.values)
    assert (table.values.toarray() == given).all()
    assert table.notes == ("sparse, 2 entries",)
    assert (read_table(path, transpose=True).values.toarray() == given.T).all()
    assert (read_table(path, columns=["3", "1"]).values.toarray() == given[:, [2, 0]]).all()


def test_small_integers_given_twice_do_not_overflow_in_a_sparse_npz(tmp_path):
    import scipy.sparse

    twice = scipy.sparse.coo_array((np.full(3, 100, np.int8), ([0] * 3, [1] * 3)), shape=(2, 2))
    scipy.sparse.save_npz(tmp_path / "t.npz", twice)
    assert read_table(tmp_path / "t.npz").values[0, 1] == 300.0


def test_the_parts_of_a_sparse_matrix_have_its_name(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X_data=[5], X_indices=[1], X_indptr=[0, 0, 1], X_shape=[2, 2], Y=np.eye(3))
    assert read_table(f"{path}:X").values.toarray().tolist() == [[0.0, 0.0], [0.0, 5.0]]
    check(read_table(f"{path}:Y"), np.eye(3))
    with pytest.raises(ValueError, match=r"a sparse matrix and other arrays; choose .* Sparse: X"):
        read_table(path)
    np.savez(path, X_data=[5], X_indices=[7], X_indptr=[0, 0, 1], X_shape=[2, 2])
    with pytest.raises(ValueError, match="parts do not fit together"):
        read_table(f"{path}:X")


def parquet(path: Path, **columns) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def test_parquet_gives_numbers_and_names(tmp_path):
    path = parquet(tmp_path / "t.parquet", who=["r", "s"], a=[1, None], b=[True, None], c=[0.5, 2])
    check(read_table(path), [[1, 1, 0.5], [NAN, NAN, 2]], ["a", "b", "c"], ["r", "s"])
    check(read_table(path, columns=["c"]), [[0.5], [2]], ["c"], ["r", "s"])


def test_parquet_of_pandas_keeps_its_index(tmp_path):
    import pandas as pd

    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["3", "4"])}, index=["r", "s"])
    frame.to_parquet(path)
    check(read_table(path), [[1, 3], [2, 4]], ["a", "b"], ["r", "s"])
    frame.reset_index(drop=True).to_parquet(path)
    check(read_table(path), [[1, 3], [2, 4]], ["a", "b"])


def test_parquet_notes_the_row_names_and_refuses_prices(tmp_path):
    import pandas as pd

    path = parquet(tmp_path / "t.parquet", who=["r", "s"], a=[1, 2])
    assert read_table(path).notes == ("row names from column 'who'",)
    pd.DataFrame({"a": [1, 2]}, index=pd.Index(["r", "s"], name="who")).to_parquet(path)
    assert read_table(path).notes == ("row names from column 'who'",)
    path = parquet(tmp_path / "t.parquet", price=["$1", "$2"], a=[1, 2])
    with pytest.raises(ValueError, match=r"row 1, column 'price': '\$1' is not a number"):
        read_table(path)
    check(read_table(path, columns=["a"]), [[1], [2]], ["a"], ["$1", "$2"])


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = parquet(tmp_path / "t.parquet", a=[1])
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"needs pyarrow; .* pip install 'thali\[parquet\]'"):
        read_table(path)


def test_parquet_refuses_text_dates_and_nested_columns(tmp_path):
    path = parquet(tmp_path / "t.parquet", a=[1, 2], b=["3", "four"])
    with pytest.raises(ValueError, match=r"row 2, column 'b': 'four' is not a number"):
        read_table(path)
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[s]")
    for bad, shown in (([[1], [2]], r"\[1\]"), (days, "2020-01-01 00:00:00")):
        path = parquet(tmp_path / "t.parquet", a=[1, 2], b=bad)
        with pytest.raises(ValueError, match=f"row 1, column 'b': '{shown}' is not a number; .*or"):
            read_table(path)


BAD = {
    "empty": ("t.csv", "", r"t\.csv is empty \(0 bytes\)"),
    "blank": ("t.csv", "\n\n", "holds only blank lines"),
    "header only": ("t.csv", "a,b\n", "holds a header and no rows"),
    "text only": ("t.csv", "who\nr\ns\n", "holds one column, of text"),
    "text in a column": (
        "t.csv",
        "a,b\n1,2\n3,x4\n",
        r"line 3, column 'b': 'x4' is not a number; correct it, or choose .* --columns",
    ),
    "text without header": ("t.csv", "1,2\n3,x\n5,6\n", "line 2, column 2: 'x' is not a number"),
    "text in line 1": ("t.csv", "1.5,x\n3,4\n", "line 1, column 2: 'x' is not a number"),
    "text in cell 1": ("t.csv", "x,1,7\n3,4,5\n2,2,2\n", "line 1, column 1: 'x' is not a number"),
    "rarely text in column 1": ("t.csv", "a,b\n1,2\n3,4\nx,5\n", "line 4, column 'a': 'x' is not"),
    "second column of names": ("t.csv", "n,k,a\nr,x,1\ns,y,2\n", "line 2, column 'k': 'x' is not"),
    "underscores": ("t.csv", "a\n1_000\n2\n3\n", "line 2, column 'a': '1_000' is not a number"),
    "decimal comma": ("t.csv", 'a,b\n1,"2,5"\n', r"'2,5' is not a number; write it with a point"),
    "commas and points": (
        "t.csv",
        "a;b\n1,5;2.5\n3,5;4,5\n",
        r"line 2, column 'a': '1,5' is not a number; write it with a point \(1\.5\)",
    ),
    "thousands or decimals": (
        "t.csv",
        "a;b\n1,234;2\n3,456;4\n",
        r"line 2, column 'a': '1,234' is not a number; .* comma \(1234\) or .* point \(1\.234\)",
    ),
    "prices first": (
        "t.csv",
        "price,b\n$0.88,1\n€1,2\n",
        r"line 2, column 'price': '\$0\.88' is not a number; write it plainly \(0\.88\), or choose",
    ),
    "prices without header": ("t.csv", "$1,$2\n$3,$4\n", r"line 1, column 1: '\$1' is not"),
    "thousands first": ("t.csv", 'a,b\n"1,234",1\n"5,678",2\n', "line 2, column 'a': '1,234' is"),
    "per cent first": ("t.csv", "a,b\n10%,1\n12 %,2\n", r"'10%' is not .* plainly \(10\)"),
    "hexadecimal first": ("t.csv", "a,b\n0x10,1\n0x11,2\n", r"'0x10' is not .* plainly \(16\)"),
    "long text": ("t.csv", "a,b\n1," + "x" * 99 + "\n", r"'x{40}…' is not a number"),
    "last row short": (
        "t.csv",
        "a,b,c\n1,2,3\n4,5",
        "line 3: the last line has 2 fields where the others have 3, so the file looks half",
    ),
    "ragged": ("t.csv", "a,b\n1,2\n3\n4,5\n", "line 3: 1 field where the other lines have 2"),
    "long row": (
        "t.csv",
        "a,b\n1,2\n3,4,5\n6,7\n",
        "line 3: 3 fields where the other lines have 2",
    ),
    "open quote": ("t.csv", 'a,b\n1,"2\n3,4\n', "line 3: a quote is never closed; .* half-written"),
    "repeated names": (
        "t.csv",
        "a,b,a\n1,2,3\n",
        r"column name 'a' appears 2 times \(at 1 and 3\); give every one its own name",
    ),
    "binary": ("t.csv", b"a,b\n1,\x002\n", "not a text file .a NUL byte in line 2."),
    "rubbish": ("t.csv", bytes(range(128, 256)), "not in UTF-8 .byte 0x80 in line 1."),
    "latin-1": ("t.csv", "a,b\n1,é\n".encode("latin-1"), "not in UTF-8 .byte 0xe9 in line 2."),
    "utf-16": (
        "t.csv",
        "a,b\n1,2\n".encode("utf-16"),
        "is text in UTF-16, not a CSV file in UTF-8",
    ),
    "excel": ("t.csv", b"PK\x03\x04....", "is a zip archive or an Excel workbook, not a CSV"),
    "gzip": ("t.tsv", b"\x1f\x8b....", "is a gzip archive, not a TSV"),
    "unknown suffix": ("t.xlsx", b"PK", r"ends in '\.xlsx'; thali reads \.csv, \.tsv, \.npy"),
    "no suffix": ("t", b"1,2", "ends in 'nothing'; thali reads"),
    "npy rubbish": ("t.npy", b"rubbish!", "not a NumPy file, or a damaged one"),
    "npy cut in the header": ("t.npy", b"\x93NUMPY\x01", "not a NumPy file, or a damaged one"),
    "npz rubbish": ("t.npz", b"rubbish!", "not an .npz file, or a half-written one"),
    "parquet rubbish": ("t.parquet", b"PAR1 rubbish", "not a Parquet file, or a half-written one"),
}


@pytest.mark.parametrize(("name", "content", "words"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_read_gets_one_sentence(write, name, content, words):
    with pytest.raises(ValueError, match=words) as caught:
        read_table(write(name, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("suffix", ["npy", "npz", "parquet"])
def test_a_file_cut_anywhere_is_called_half_written(tmp_path, suffix, keep):
    path = tmp_path / f"t.{suffix}"
    X = np.random.default_rng(0).normal(size=(50, 4))
    if suffix == "parquet":
        parquet(path, **{f"c{j}": X[:, j] for j in range(4)})
    else:
        np.save(path, X) if suffix == "npy" else np.savez(path, X=X)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ValueError, match=r"half-written|damaged") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_a_byte_changed_in_an_npz_is_noticed(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(50, 4)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match="half-written"):
        read_table(path)


ARRAYS = {
    "vector": (np.arange(3.0), r"has 1 dimension \(3,\); .* reshape it to \(3, 1\)"),
    "scalar": (np.array(1.0), r"has 0 dimensions \(\)"),
    "images": (np.ones((5, 6, 6)), r"has 3 dimensions \(5, 6, 6\); .* reshape it to \(5, 36\)"),
    "complex": (np.ones((2, 2), complex), "holds complex numbers; save it as real numbers"),
    "text": (np.array([["1", "2"]]), "holds text"),
    "dates": (np.array([["2020-01-01"]], dtype="M8[D]"), "holds dates"),
    "records": (np.zeros(3, dtype=[("a", float)]), "holds entries of type"),
    "no rows": (np.ones((0, 3)), "holds no data: 0 rows and 3 columns"),
    "no columns": (np.ones((3, 0)), "holds no data: 3 rows and 0 columns"),
}


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize(("array", "words"), ARRAYS.values(), ids=ARRAYS.keys())
def test_arrays_that_are_no_tables(tmp_path, suffix, array, words):
    path = tmp_path / f"t.{suffix}"
    np.save(path, array) if suffix == "npy" else np.savez(path, X=array)
    with pytest.raises(ValueError, match=words):
        read_table(path)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_pickles_are_never_opened(tmp_path, suffix):
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    path = tmp_path / f"t.{suffix}"
    array = np.array([[Bomb()]], dtype=object)
    (np.save if suffix == "npy" else np.savez)(path, array, allow_pickle=True)
    with pytest.raises(ValueError, match="holds Python objects, which thali does not unpickle"):
        read_table(path)


def test_unknown_columns_are_refused_with_the_nearest_names(write):
    path = write("t.csv", "who,height,weight\nr,1,2\n")
    with pytest.raises(ValueError, match="no column 'hieght'; did you mean 'height'"):
        read_table(path, columns=["weight", "hieght"])
    with pytest.raises(ValueError, match="no column 'HEIGHT'; did you mean 'height'"):
        read_table(path, columns=["HEIGHT"])
    with pytest.raises(ValueError, match="no column 'zzz'; it has 'who', 'height', 'weight'"):
        read_table(path, columns=["zzz"])
    with pytest.raises(ValueError, match="'height' appears 2 times"):
        read_table(path, columns=["height", "height"])
    with pytest.raises(ValueError, match="no columns are chosen"):
        read_table(path, columns=[])
    with pytest.raises(ValueError, match="it has no header, so its columns are numbered 1 to 2"):
        read_table(write("n.csv", "1,2\n3,4\n"), columns=["height"])


def test_repeated_names_matter_only_where_they_are_used(write):
    path = write("t.csv", "a,b,a\n1,2,3\n")
    check(read_table(path, columns=["b"]), [[2]], ["b"])
    with pytest.raises(ValueError, match="column name 'a' appears 2 times"):
        read_table(path, columns=["a"])
    rows = write("r.csv", "who,a\nr,1\nr,2\n")
    with pytest.raises(ValueError, match=r"row name 'r' appears 2 times.*transpos"):
        read_table(rows, transpose=True)


def test_a_file_that_is_not_there_is_looked_for(write, tmp_path):
    write("plates.csv", "1,2\n")
    with pytest.raises(FileNotFoundError, match=r"no file .*did you mean .*plates\.csv\?"):
        read_table(tmp_path / "plate.csv")
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere.*; check the path"):
        read_table(tmp_path / "nowhere" / "t.csv")
    with pytest.raises(IsADirectoryError, match="is a folder; give a data file"):
        read_table(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_a_file_that_may_not_be_read(write):
    path = write("t.csv", "1,2\n")
    path.chmod(0)
    with pytest.raises(PermissionError, match=r"cannot be read .* check who may read it"):
        read_table(path)
