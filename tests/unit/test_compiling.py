"""Compiling: helpers without wrappers, once for each kernel, ahead of a run and beside it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

import thali
from thali.cli import run as command_line
from thali.data import Data
from thali.kernels import collapsed_rows, column_moves
from thali.kernels.compiling import Helper, helper, kernel
from thali.model import Model
from thali.registry import ENGINES
from thali.run import compiling
from thali.run.compiling import compile_ahead, watching
from thali.run.progress import Progress

DATA = Data.of(np.eye(3))
MODEL = Model(thali.IBP(), thali.LinearGaussian()).resolve(DATA)

ONE_FIT = """
import json, sys
import thali.kernels
from thali.cli import warming
from numba.core.dispatcher import Dispatcher
list(warming.warm_up([sys.argv[1]], ["linear_gaussian"], False))
kernels = {value for name, module in list(sys.modules.items()) if name.startswith("thali.kernels")
           for value in vars(module).values() if isinstance(value, Dispatcher)}
found = {f"{k.py_func.__module__}.{k.py_func.__name__}": len(k.nopython_signatures)
         for k in kernels}
print(json.dumps(found))
"""


# Copies are made of numbers and of bits alike. The others are called with a plain 0 or 1, or with
# flags, which are types of their own to the compiler: no more of them, and no kernel among them.
SEVERAL = {
    "copying.put": 2,
    "copying.put_matrix": 2,
    "row_solvers.row.flip": 3,
    "row_solvers.row.removed": 2,
    "new_features.log_step": 2,
    "search_heap.swap": 3,
    "search_scores.ties": 2,
    "search_heap.put": 4,
    "search_scores.parting": 2,
    "search_scores.later": 2,
    "search_heap.keep": 3,
    "search_scores.next_new": 2,
    "search_heap.sift": 2,
    "search_rows.keep_all_new": 2,
}


def too_many(found):
    """What was compiled, or loaded, for more types than it should be."""
    short = {name.removeprefix("thali.kernels."): count for name, count in found.items()}
    return {name: count for name, count in short.items() if count > SEVERAL.get(name, 1)}


@helper
def twice_it(x):
    return 2.0 * x


def signatures(engine, **environment):
    """How many versions of each kernel a first fit of an engine has compiled or loaded."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_FIT, engine],
        env=os.environ | {compiling.ASIDE: "0"} | environment,
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_a_helper_can_be_called_from_kernels_and_from_python():
    @njit
    def four_times(x):
        return twice_it(twice_it(x))

    assert four_times(1.5) == 6.0
    assert twice_it(1.5) == 3.0


@pytest.mark.parametrize("engine", ["collapsed_gibbs", "uncollapsed_gibbs"])
def test_a_default_fit_calls_each_kernel_with_one_set_of_types(engine):
    found = signatures(engine)
    assert any(count == 1 for count in found.values())
    assert too_many(found) == {}


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_default_fit_compiles_each_kernel_once(engine, tmp_path):
    """With nothing on disk, so that helpers are seen too."""
    found = signatures(engine, NUMBA_CACHE_DIR=str(tmp_path))
    assert sum(count == 1 for count in found.values()) > 5
    assert too_many(found) == {}


def test_no_kernel_may_have_several_types():
    modules = {name.rpartition(".")[0] for name in SEVERAL}
    for module in modules:
        parts = vars(importlib.import_module(f"thali.kernels.{module}"))
        names = [name.rpartition(".")[2] for name in SEVERAL if name.startswith(f"{module}.")]
        assert all(isinstance(parts[name], Helper) for name in names)


def test_two_sets_of_types_are_counted():
    @kernel
    def plus_one(x):
        return x + 1

    plus_one(1)
    plus_one(1.0)
    assert too_many({"plus_one": len(plus_one.nopython_signatures)}) == {"plus_one": 2}


def test_what_is_compiled_meanwhile_is_counted():
    said = []
    with watching(said.append) as compiler:
        njit(lambda x: x + 1.0)(1.0)
    njit(lambda x: x + 2.0)(1.0)
    assert compiler.functions >= 1
    assert said == list(range(1, compiler.functions + 1))


class Rehearsing:
    """An engine of which only this is asked."""

    def __init__(self, *parts):
        self.parts, self.rehearsed = parts, []

    def rehearsals(self, model):
        return self.parts

    def rehearse(self, part, model, missing):
        self.rehearsed.append(part)
        if part == "new":
            njit(lambda x: x + 3.0)(1.0)


@pytest.fixture
def started(monkeypatch):
    """The parts that another process was asked to compile; none is started."""
    asked = []
    monkeypatch.setenv(compiling.ASIDE, "1")
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(compiling, "_start", lambda *given: asked.append(given[-1]) or [])
    return asked


def test_another_process_is_started_when_there_is_something_to_compile(started):
    engine = Rehearsing("new", "b", "c")
    with watching(lambda functions: None) as compiler:
        compile_ahead(compiler, engine, MODEL, DATA)
    assert started == [("b", "c")]
    assert engine.rehearsed == ["new", "b", "c"]  # found on disk then, or compiled after all


def test_a_rehearsal_that_fails_does_not_fail_the_run(started):
    class Failing(Rehearsing):
        def rehearse(self, part, model, missing):
            super().rehearse(part, model, missing)
            raise ValueError("made for five columns")

    engine = Failing("new", "b")
    with watching(lambda functions: None) as compiler:
        compile_ahead(compiler, engine, MODEL, DATA)
    assert engine.rehearsed == ["new", "b"]


def test_none_is_started_for_what_was_compiled_before(started):
    engine = Rehearsing("a", "new")
    with watching(lambda functions: None) as compiler:
        compile_ahead(compiler, engine, MODEL, DATA)
    assert started == []


@pytest.mark.parametrize("name", ["", "/opt/app/editor.exe"])
def test_an_application_that_embeds_python_is_not_started(name, started, monkeypatch):
    monkeypatch.setattr(sys, "executable", name)
    with watching(lambda functions: None) as compiler:
        compile_ahead(compiler, Rehearsing("new", "b"), MODEL, DATA)
    assert started == []


def test_what_cannot_be_sent_to_another_process_is_compiled_here():
    local = type("Local", (thali.IBP,), {})()
    model = Model(local, MODEL.likelihood)
    assert compiling._start(thali.CollapsedGibbs(), model, False, ("moves",)) == []


def test_the_other_process_does_as_it_is_told():
    (process,) = compiling._start(thali.CollapsedGibbs(), MODEL, False, ("sweeps",))
    assert process.wait(timeout=300) == 0


@pytest.mark.parametrize("missing", [False, True])
def test_a_rehearsal_leaves_nothing_to_compile(missing):
    X = np.random.default_rng(0).normal(size=(6, 4))
    X[0, 0] = np.nan if missing else 0.0
    data = Data.of(X)
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    engine = thali.CollapsedGibbs(sweeps=2, chains=1, init="empty")
    for part in engine.rehearsals(model):
        engine.rehearse(part, model, missing)
    called = collapsed_rows.sweeps, column_moves.column_moves
    before = [len(each.nopython_signatures) for each in called]
    thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(X)
    assert [len(each.nopython_signatures) for each in called] == before


def test_compiling_is_told_where_there_is_no_terminal(capsys, monkeypatch):
    clock = iter([0.0, *(1.0 * i for i in range(1, 60))])
    monkeypatch.setattr("thali.run.progress.time.monotonic", lambda: next(clock))
    with Progress("auto") as bar:
        for functions in range(14):
            bar.compiling(functions)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 4
    assert all("compiling (once per installation)" in line for line in lines)
    with Progress(False) as bar:
        bar.compiling(1)
    assert capsys.readouterr().err == ""


def test_warming_up_says_what_it_did(capsys):
    assert command_line(["warm-up"]) == 0
    assert "CollapsedGibbs × LinearGaussian" in capsys.readouterr().out


def test_warming_up_for_what_cannot_be_run_is_refused(capsys):
    assert command_line(["warm-up", "--engine", "variational", "--likelihood", "noisy-or"]) == 2
    assert "nothing to compile" in capsys.readouterr().err
    assert command_line(["warm-up", "--engine", "gibs"]) == 2
    assert "gibs" in capsys.readouterr().err


def test_helpers_are_compiled_for_linking_alone():
    """Where Numba has other insides they are compiled as ever, only more slowly: say so here."""
    from thali.kernels.compiling import helper, kernel
    from thali.kernels.linked_only import KNOWN, LinkedOnly

    assert KNOWN

    @helper
    def twice(x):
        if x < 0.0:
            raise ValueError("below zero")
        return 2.0 * x

    @kernel
    def four_times(x):
        return twice(twice(x))

    assert four_times(1.5) == 6.0
    with pytest.raises(ValueError, match="below zero"):
        four_times(-1.0)
    (compiled,) = twice.overloads.values()
    assert isinstance(compiled.library, LinkedOnly)
    assert twice(2.0) == 4.0  # from Python, as a kernel
