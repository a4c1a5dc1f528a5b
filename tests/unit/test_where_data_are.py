"""X may lie on disk or come by turns: the same answer, nothing of its size in memory, and words for
what cannot be read."""

from __future__ import annotations

import gc
import os
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from forms import ENGINES, assert_same, fitted, in_blocks, mapped, problem, sparse
from resuming import check_resuming

import thali
from thali.cli.commands import run
from thali.data import Data
from thali.data.elsewhere import FarData, RowBlocks, Source, opened
from thali.data.elsewhere.files import Scratch


def path_of(X, folder):
    np.save(folder / "path.npy", X)
    return folder / "path.npy"


def in_parquet(X, folder):
    pd.DataFrame(X, columns=[f"c{d}" for d in range(X.shape[1])]).to_parquet(folder / "X.parquet")
    return str(folder / "X.parquet")


def in_zarr(X, folder):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=(600, 3), dtype=X.dtype)
    array[:] = X
    return folder / "X.zarr"


FORMS = {
    "memory map": mapped,
    "by columns": lambda X, folder: mapped(np.asfortranarray(X), folder),
    "part of a map": lambda X, folder: mapped(np.vstack([X[:9], X]), folder)[9:],
    "some columns": lambda X, folder: mapped(np.hstack([X, X]), folder)[:, : X.shape[1]],
    "path": path_of,
    "parquet": in_parquet,
    "zarr": in_zarr,
    "blocks": lambda X, folder: in_blocks(X),
}


@pytest.fixture(scope="module")
def in_memory():
    """Fits of the array, by kind of engine and whether entries are missing; made once."""
    made = {}

    def of(kind, gaps, init="given"):
        key = kind, gaps, init
        if key not in made:
            X, Z = problem(gaps)
            made[key] = fitted(X, kind, init=Z if init == "given" else init)
        return made[key]

    return of


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("form", FORMS)
def test_the_bound_is_the_same_after_each_iteration(form, kind, gaps, tmp_path, in_memory):
    X, Z = problem(gaps)
    model = fitted(FORMS[form](X, tmp_path), kind, init=Z)
    assert model.fit_.data.far
    assert_same(model, in_memory(kind, gaps))
    if form == "parquet":
        assert model.feature_names_in_.tolist() == [f"c{d}" for d in range(X.shape[1])]


@pytest.mark.parametrize("kind", ENGINES)
def test_a_sparse_matrix_leads_to_the_same_bound(kind, in_memory):
    X, Z = problem()
    assert_same(fitted(sparse(X), kind, init=Z), in_memory(kind, False))


@pytest.mark.parametrize("gaps", [False, True])
def test_starts_are_the_same_where_they_can_look_at_all_rows(gaps, tmp_path, in_memory):
    model = fitted(mapped(problem(gaps)[0], tmp_path), "soft", init="ica")
    assert_same(model, in_memory("soft", gaps, "ica"))


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", ENGINES)
def test_starts_of_a_sample_find_the_features_of_all(kind, gaps, tmp_path, monkeypatch):
    monkeypatch.setattr("thali.data.matrix.FEWEST", 400)
    monkeypatch.setattr("thali.data.matrix.SAMPLE", 0)
    X, Z = problem(gaps)
    looked_at = []
    whole = FarData.sample
    monkeypatch.setattr(
        FarData, "sample", lambda self, rng: looked_at.append(whole(self, rng)) or looked_at[-1]
    )
    model = fitted(mapped(X, tmp_path), kind, init="ica", max_iter=60)
    (which, near), *_ = looked_at
    assert len(which) == near.n == 400
    assert np.array_equal(near.X, X[which], equal_nan=True)
    given = fitted(X, kind, init=Z, max_iter=60)
    assert np.isclose(model.elbo_, given.elbo_, rtol=1e-3)
    for init in (Z, given):  # a matrix of all rows, and another model's
        other = fitted(mapped(X, tmp_path), kind, init=init, max_iter=60)
        assert np.isclose(other.elbo_, given.elbo_, rtol=1e-3)


@pytest.mark.parametrize("kind", ENGINES)
def test_starts_of_tall_data_in_memory_look_at_a_sample_too(kind, monkeypatch):
    monkeypatch.setattr("thali.data.matrix.FEWEST", 400)
    monkeypatch.setattr("thali.data.matrix.SAMPLE", 0)
    looked_at, whole = [], Data.sample
    monkeypatch.setattr(
        Data, "sample", lambda self, rng: looked_at.append(whole(self, rng)) or looked_at[-1]
    )
    X, Z = problem()
    short = X[: 4 * 400]
    assert len(X) > len(short)
    model = fitted(X, kind, init="ica", max_iter=60)
    (which, near), *_ = looked_at
    assert len(which) == near.n == 400
    assert np.array_equal(near.X, X[which])
    assert np.isclose(model.elbo_, fitted(X, kind, init=Z, max_iter=60).elbo_, rtol=1e-3)
    looked_at.clear()
    fitted(short, kind, init="ica", max_iter=2)
    fitted(X, kind, init="prior", max_iter=2)  # looks at no row
    assert not looked_at


def test_a_prior_of_so_many_rows_and_no_fewer_gets_all_of_them(monkeypatch):
    monkeypatch.setattr("thali.data.matrix.FEWEST", 60)
    monkeypatch.setattr("thali.data.matrix.SAMPLE", 0)
    prior = thali.FlexibleIBP(column_potentials=-np.log(np.arange(1.0, 401.0)))
    engine = thali.MaximizationExpectation(n_init=1, init="ica", max_iter=5)
    model = thali.LatentFeatures(prior, thali.LinearGaussian(), engine, random_state=0)
    assert model.fit(problem()[0][:400]).n_components_ > 0


def test_units_are_found_in_one_pass_more(tmp_path):
    X, Z = problem(gaps=True)
    X = 100.0 + X * np.linspace(1.0, 50.0, X.shape[1])
    options = {"center": True, "scale": True}
    model, other = (fitted(x, "soft", init=Z, estimator=options) for x in (mapped(X, tmp_path), X))
    assert np.allclose(model.mean_, other.mean_, rtol=1e-12)
    assert np.allclose(model.scale_, other.scale_, rtol=1e-12)
    assert_same(model, other, rtol=1e-8)
    assert np.array_equal(np.asarray(model.X_), X, equal_nan=True)


@pytest.mark.parametrize("likelihood", ["nonnegative_linear_gaussian", "sparse_factor"])
def test_other_likelihoods_lead_to_the_same_answer(likelihood, tmp_path):
    X, Z = problem()
    settings = {"init": Z, "max_iter": 5}
    far, near = (fitted(x, "soft", likelihood, **settings) for x in (mapped(X, tmp_path), X))
    assert_same(far, near)


@pytest.mark.slow
@pytest.mark.parametrize("init", ["given", "ica"])
@pytest.mark.parametrize("gaps", [False, True])
def test_nothing_of_the_size_of_X_is_in_memory(gaps, init, tmp_path, monkeypatch):
    monkeypatch.setattr("thali.data.matrix.BLOCK", 2**14)  # as small beside this X as 2²⁰
    monkeypatch.setattr("thali.data.sparse.PIECE", 2**14)  # is beside a large one
    rng = np.random.default_rng(0)
    Z = rng.random((12_000, 4)) < 0.4
    X = Z @ rng.standard_normal((4, 150)) + rng.standard_normal((12_000, 150))
    X[rng.random(X.shape) < 0.01 * gaps] = np.nan
    on_disk, init = mapped(X, tmp_path), Z if init == "given" else init
    fitted(on_disk[:400], "soft", init=Z[:400] if init is Z else init, max_iter=2)  # compiled
    gc.collect()
    tracemalloc.start()
    model = fitted(on_disk, "soft", init=init, max_iter=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_components_ >= 3
    # pieces of 2,048 rows on two threads; rows' q, draws of it, bits: all are N×K
    assert peak < 0.8 * X.nbytes if gaps else peak < 0.6 * X.nbytes


# what comes after the fit


def test_predictions_are_those_of_the_array(tmp_path, in_memory):
    X, Z = problem()
    model, other = fitted(mapped(X, tmp_path), "hard", init=Z), in_memory("hard", False)
    assert np.allclose(model.predict_proba(X[:50]), other.predict_proba(X[:50]), atol=1e-9)
    assert np.isclose(model.score(X[:50]), other.score(X[:50]), rtol=1e-9)
    assert np.array_equal(model.transform(path_of(X[:50], tmp_path)), other.transform(X[:50]))
    model.report(tmp_path / "report.html")


def test_with_gaps_new_rows_are_told_of_by_q(tmp_path, in_memory):
    X, Z = problem(gaps=True)
    model, other = fitted(mapped(X, tmp_path), "soft", init=Z), in_memory("soft", True)
    apart = np.abs(model.predict_proba(X[:200]) - other.predict_proba(X[:200]))
    assert (apart < 0.05).mean() > 0.9  # coordinate ascent may end elsewhere in a row
    assert model.score(X[:200]) < other.score(X[:200])  # a lower bound
    with pytest.raises(ValueError, match="needs all of X in memory, but the model was fitted to X"):
        model.impute()


def test_a_model_is_saved_with_the_path_of_X_alone(tmp_path):
    X, Z = problem()
    path = path_of(X, tmp_path)
    model = fitted(path, "soft", init=Z, max_iter=3)
    model.save(tmp_path / "m.thali")
    assert (tmp_path / "m.thali").stat().st_size < 0.75 * X.nbytes
    again = thali.load(tmp_path / "m.thali")
    assert again.log_joint_ == model.log_joint_
    assert np.array_equal(again.X_, X)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"path\.npy, where there is nothing"):
        thali.load(tmp_path / "m.thali")
    with pytest.raises(ValueError, match="cannot be saved: its file names the one that X is in"):
        fitted(in_blocks(X), "soft", init=Z, max_iter=3).save(tmp_path / "b.thali")


def test_a_checkpoint_is_resumed(tmp_path, monkeypatch):
    X, Z = problem()
    engine = ENGINES["soft"].replace(init=Z, max_iter=6)

    def make():
        return thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
        )

    file = tmp_path / "checkpoint.thali"
    check_resuming(make, mapped(X, tmp_path), file, monkeypatch, at=3)
    X[7, 1] += 1.0
    with pytest.raises(ValueError, match="belongs to another run: the data differs"):
        make().fit(mapped(X, tmp_path, "other.npy"), checkpoint=file, resume=True)


def test_a_scratch_file_goes_with_the_model(monkeypatch):
    made = []
    of = Scratch.__init__

    def noted(self, *arguments):
        of(self, *arguments)
        made.append(self.path)

    monkeypatch.setattr(Scratch, "__init__", noted)
    X, Z = problem()
    model = fitted(in_blocks(X), "soft", init=Z, max_iter=2)
    assert [os.path.exists(path) for path in made] == [True]
    assert np.array_equal(model.X_, X)
    del model
    gc.collect()
    assert not os.path.exists(made[0])


# other engines


def test_engines_that_need_all_of_X_load_it_if_it_fits(tmp_path, monkeypatch):
    X, Z = problem()
    on_disk = path_of(X[:60], tmp_path)
    engine = thali.CollapsedGibbs(sweeps=3, chains=1, init=Z[:60])
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0)
    assert isinstance(model.fit(on_disk).X_, np.ndarray)
    assert not model.fit_.data.far
    monkeypatch.setattr("thali.data.elsewhere.source.physical_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"60 rows and 8 columns.*CollapsedGibbs needs all of it"):
        model.fit(on_disk)
    with pytest.raises(ValueError, match="Probit needs all of it there; Variational and Maximi"):
        thali.LatentFeatures(likelihood="probit").fit(on_disk)
    clusters = thali.LatentPartition(engine=thali.Variational(truncation=3), random_state=0)
    with pytest.raises(ValueError, match="needs all of it there"):
        clusters.fit(on_disk)


def test_auto_reads_by_blocks_what_it_would_not_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("thali.run.choices.LONG", 0.1)
    model = thali.LatentFeatures(random_state=0, progress=False).fit(
        path_of(problem()[0], tmp_path)
    )
    assert isinstance(model.engine_, thali.Variational)
    assert model.choice_.startswith("LinearGaussian, since X is read by blocks of rows")
    assert model.fit_.data.far


# bad input


def bad(folder):
    """What is given, and what is said of it."""
    X = np.ones((6, 2))
    infinite, text = X.copy(), folder / "text.npy"
    infinite[4, 1] = np.inf
    np.save(text, np.array([["a", "b"]]))
    (folder / "junk.npy").write_bytes(b"not an array at all")
    (folder / "table.csv").write_text("1,2\n")
    np.save(folder / "cube.npy", np.ones((2, 2, 2)))
    np.save(folder / "none.npy", np.ones((0, 2)))
    pd.DataFrame({"a": [1.0], "name": ["x"]}).to_parquet(folder / "named.parquet")
    return [
        (RowBlocks([X, X], 13), "12 rows, fewer than the n_rows=13 that RowBlocks announced"),
        (RowBlocks([X, X], 11), "more rows than the n_rows=11 that RowBlocks announced: 12"),
        (RowBlocks([X, X[:, :1]], 12), "Block 1 of X has 1 columns where block 0 has 2"),
        (RowBlocks([X, X[:0]], 6), "Block 1 of X is empty: 0 rows and 2 columns"),
        (RowBlocks([], 6), "X has no blocks"),
        (RowBlocks([X, [["a", "b"]]], 7), "Block 1 of X holds text, not real numbers"),
        (RowBlocks([np.array([[1, "b"]], object)], 1), "Block 0 of X has 'b' where a number"),
        (RowBlocks([[1.0, 2.0]], 1), "Block 0 of X must have rows and columns, not 1 dimensions"),
        (RowBlocks([sparse(X)], 6), "Block 0 of X is a sparse matrix; stack the blocks"),
        (RowBlocks([X, infinite], 12), "X contains infinity: 1 entries, the first at row 10, col"),
        (RowBlocks([X * np.nan], 6), "X has no observed entry: all 12 are missing"),
        (RowBlocks([X * 1e200], 6), "X has values as large as 1e.200, whose squares overflow"),
        (RowBlocks([X * 1e-200], 6), "X has no value larger than 1e-200, and such squares vanish"),
        (iter([X]), "X is an iterator; say how many rows it has in all: thali.RowBlocks"),
        (folder / "nowhere.npy", r"X is the path .*nowhere\.npy, where there is nothing"),
        (
            folder / "table.csv",
            r"X is a path .*, not a table; read it first .* Paths that end in \.npy, \.zarr",
        ),
        (text, "text.npy holds text, not real numbers"),
        (folder / "junk.npy", "junk.npy cannot be read as a .npy file of numbers"),
        (folder / "cube.npy", "cube.npy must be a table of 2 dimensions .*, not 3"),
        (folder / "none.npy", "none.npy is empty: 0 rows and 2 columns"),
        (folder / "named.parquet", "named.parquet has the column 'name' of type .*string"),
    ]


@pytest.mark.parametrize("case", range(21))
def test_bad_input_gets_a_sentence(case, tmp_path):
    cases = bad(tmp_path)
    assert len(cases) == 21
    given, said = cases[case]
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=said):
        thali.LatentFeatures(engine=ENGINES["soft"], random_state=0).fit(given)


def test_blocks_are_announced_by_a_number():
    with pytest.raises(TypeError, match="blocks=5 is no iterable of blocks of rows"):
        RowBlocks(5, n_rows=3)
    with pytest.raises(ValueError, match="n_rows"):
        RowBlocks([[[1.0]]], n_rows=0)


def test_a_full_disk_is_told_of(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(OSError, match=r"has 0\.0 GB left: name a roomier folder by TMPDIR"):
        opened(in_blocks(np.ones((6, 2))))


def test_masked_and_nullable_blocks_have_gaps():
    masked = np.ma.masked_array([[1, 2]], [[True, False]])
    nullable = pd.DataFrame({"a": pd.array([None], "Int64"), "b": [2.0]})
    for block in (masked, nullable, [[None, 2]]):
        source = opened(RowBlocks([block], 1))
        assert isinstance(source, Source)
        assert np.array_equal(source[:1], [[np.nan, 2.0]], equal_nan=True)


def test_a_zarr_store_on_the_command_line(tmp_path, capsys):
    pytest.importorskip("zarr")
    path = in_zarr(problem(gaps=True)[0][:300], tmp_path)
    words = ["--engine", "variational", "--truncation", "4", "--n-init", "1", "--seed", "0"]
    out = tmp_path / "out"
    assert run(["fit", str(path), *words, "--max-iter", "4", "--out", str(out)]) == 0
    assert "300 x 8, read by blocks of rows, " in capsys.readouterr().out
    assert len(pd.read_csv(out / "assignments.csv")) == 300
    assert run(["fit", str(path), *words, "--columns", "1", "--out", str(out)]) == 2
    assert "which is read by blocks of rows; write another file" in capsys.readouterr().err
