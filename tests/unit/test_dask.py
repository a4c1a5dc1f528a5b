"""The same fit by Dask: on threads, on processes, with workers that come and go."""

from __future__ import annotations

import logging
import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest
from forms import ENGINES, assert_same, fitted, in_blocks, mapped, problem, sparse

import thali
from thali.backends.rows import BLOCK
from thali.cli.commands import run

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

FORMS = {
    "dask array": lambda X, folder: da.from_array(X, chunks=(BLOCK, 5)),
    "dask frame": lambda X, folder: dd.from_pandas(pd.DataFrame(X), chunksize=BLOCK, sort=False),
    "array": lambda X, folder: X,
    "sparse": lambda X, folder: sparse(X),
    "path": lambda X, folder: mapped(X, folder),
    "blocks": lambda X, folder: in_blocks(X),
}


@pytest.fixture(scope="module")
def in_memory():
    """Fits of the array on this machine, by kind of engine and whether entries are missing."""
    made = {}

    def of(kind, gaps):
        if (kind, gaps) not in made:
            X, Z = problem(gaps)
            made[kind, gaps] = fitted(X, kind, init=Z)
        return made[kind, gaps]

    return of


@pytest.fixture(scope="module")
def two_processes():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("form", FORMS)
def test_threads_lead_to_the_same_bound_after_each_iteration(form, kind, gaps, tmp_path, in_memory):
    if form == "sparse" and gaps:
        pytest.skip("a sparse matrix has no gaps")
    X, Z = problem(gaps)
    with dask.config.set(scheduler="threads"):
        model = fitted(FORMS[form](X, tmp_path), kind, init=Z, backend="dask")
    assert_same(model, in_memory(kind, gaps))


@pytest.mark.slow  # it starts processes
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("form", ["dask array", "array", "path"])
def test_so_do_two_processes(form, kind, gaps, tmp_path, in_memory, two_processes):
    X, Z = problem(gaps)
    X, name = FORMS[form](X, tmp_path), "auto" if form == "dask array" else "dask"
    assert_same(fitted(X, kind, init=Z, backend=name), in_memory(kind, gaps))


def test_the_number_of_workers_changes_no_bit():
    X, Z = problem()
    rows = da.from_array(X, chunks=(300, 8))
    models = []
    for workers in (1, 3):
        with dask.config.set(scheduler="threads", num_workers=workers):
            models.append(fitted(rows, "soft", init=Z, max_iter=8))
    for name, values in models[0].history_.items():
        assert np.array_equal(values, models[1].history_[name]), name
    assert models[0].log_joint_ == models[1].log_joint_


@pytest.mark.slow  # it starts processes
def test_a_killed_worker_changes_nothing(monkeypatch, two_processes):
    from thali.backends.dask import Dask

    X, Z = problem()
    rows, settings = da.from_array(X, chunks=(500, 8)), {"init": Z, "max_iter": 8}
    whole = fitted(rows, "soft", **settings)
    steps, step = [], Dask.local_step

    def interrupted(self, *arguments):
        steps.append(1)
        if len(steps) == 3:
            pid = next(iter(two_processes.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
        return step(self, *arguments)

    monkeypatch.setattr(Dask, "local_step", interrupted)
    model = fitted(rows, "soft", **settings)
    assert len(steps) > 3
    for name, values in whole.history_.items():
        assert np.array_equal(values, model.history_[name]), name
    assert np.array_equal(model.assignment_probabilities_, whole.assignment_probabilities_)


def test_what_comes_after_a_fit_is_asked_of_chunks_too():
    X, Z = problem(gaps=True)
    rows = da.from_array(X, chunks=(800, 8))
    model = fitted(rows, "soft", "sparse_factor", init=Z, max_iter=3)
    near = fitted(X, "soft", "sparse_factor", init=Z, max_iter=3)
    assert np.isclose(model.log_joint_, near.log_joint_, rtol=1e-8)
    assert model.predict_proba(X[:9]).shape == (9, model.n_components_)
    assert np.array_equal(model.X_[5:7], X[5:7], equal_nan=True)


def test_chunks_of_any_height(tmp_path):
    """Empty ones, those whose height Dask does not know, and a frame that was filtered."""
    X, _ = problem()
    unknown = da.from_array(X, chunks=(600, 8))
    unknown = unknown[unknown[:, 0] > 3.0]
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")), npartitions=4, sort=True)
    frame = frame[frame.a > 3.0].partitions[:4]
    kept = X[X[:, 0] > 3.0]
    init = np.random.default_rng(0).random((len(kept), 3)) < 0.5
    near = fitted(kept, "soft", init=init, max_iter=3)
    for rows in (unknown, frame):
        assert_same(fitted(rows, "soft", init=init, max_iter=3), near)
    assert fitted(frame, "soft", init=init, max_iter=1).feature_names_in_.tolist() == list(
        "abcdefgh"
    )
    here = fitted(unknown, "soft", init=init, max_iter=3, backend="local")
    assert isinstance(here.X_, np.memmap)  # each chunk was computed once
    assert_same(here, near)


def text_frame():
    return dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)


def test_bad_input_gets_a_sentence():
    import dask.bag

    for given, said in (
        (text_frame(), "has the column 'b' of type str.*, not of numbers"),
        (dask.bag.from_sequence([1]), "X is a Bag of Dask; make it a dask.array"),
        (da.ones((3, 2, 2)), "must be a table of 2 dimensions .*, not 3"),
        (da.full((4, 2), np.nan), "X has no observed entry: all 8 are missing"),
        (da.from_array(np.array([["a"]])), "holds text, not real numbers"),
        (da.from_array(np.array([[1.0], [np.inf]]), chunks=1), "first at row 1, column 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            thali.LatentFeatures(engine=ENGINES["soft"], random_state=0).fit(given)
    engine = ENGINES["soft"].replace(backend="dask")
    with pytest.raises(ValueError, match="backend is for features"):
        thali.LatentPartition(engine=engine).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="backend='dask' is for likelihoods whose columns"):
        thali.LatentFeatures(likelihood="mixed", engine=engine).fit(problem()[0][:50])
    for backend, said in (("dask", "precision of GPUs"), ("gpu", "X is read by blocks of rows")):
        with pytest.raises(ValueError, match=said):
            fitted(da.ones((4, 2)), "soft", backend=backend, dtype="tf32")


def test_without_dask_one_sentence_says_what_to_install(monkeypatch):
    X, Z = problem()
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ModuleNotFoundError, match=r"backend='dask' needs .*pip install thali\[dask"
    ):
        fitted(X, "soft", init=Z, backend="dask")


@pytest.mark.slow  # it starts processes
def test_a_cluster_on_the_command_line(tmp_path, capsys, monkeypatch):
    mapped(problem()[0][:400], tmp_path)
    monkeypatch.setattr("thali.cli.clusters.PATIENCE", "1s")
    words = ["fit", str(tmp_path / "X.npy"), "--truncation", "4", "--n-init", "1", "--seed", "0"]
    words += ["--max-iter", "3", "--out", str(tmp_path / "out")]
    assert run([*words, "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "no scheduler of Dask answers there" in capsys.readouterr().err
    assert run([*words, "--cluster", "local"]) == 0
    assert "400 x 8, read by blocks of rows" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "out" / "assignments.csv")) == 400
