"""Fixtures for every test: one seed, fixed by default and settable from outside.

``THALI_TEST_SEED=7 pytest`` runs the same tests on other random numbers; each test derives its own
stream from the seed and its name, so that no two statistical tests share draws.

What tests compile is kept as ``cache_key.py`` says, unless NUMBA_CACHE_DIR names another folder.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cache_key
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

if "NUMBA_CACHE_DIR" not in os.environ:  # numba reads it when it is imported
    os.environ["NUMBA_CACHE_DIR"] = str(cache_key.prepare())

DEFAULT_SEED = 20150430


def seed_of(name: str) -> int:
    """The seed of the test called ``name``: from THALI_TEST_SEED if set, else a fixed one."""
    base = int(os.environ.get("THALI_TEST_SEED", DEFAULT_SEED))
    return int(np.random.SeedSequence([base, zlib.crc32(name.encode())]).generate_state(1)[0] >> 1)


# Two workers begin at the two halves of the tests, and neither finds what the other is still
# compiling. So what either compiles first should differ, and tests that share kernels stand
# together: those whose name matches the first pattern, then those that match the second, ...
ONE = [
    "cluster|partition",
    "collapsed_gibbs|CollapsedGibbs",
    "column_moves|drift|enumeration|geweke",
    "missing|row_potentials|filter",
]
OTHER = [
    "topic|new_documents|hidden_words",
    "search",
    "hard|maximi|solvers|variational",
    "noisy_or|nonnegative|sparse_factor",
    "poisson|probit|mixed|column_noise",
    "ncollapsed",
]


SLOW = {
    f"tests/{line}": False  # whether there is such a test
    for line in Path(__file__).with_name("slow.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark as slow what ``slow.txt`` names, a test or one case of it."""
    for name in (item.nodeid, item.nodeid.split("[")[0]):
        if name in SLOW:
            SLOW[name] = True
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)  # once it is known which tests are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of collapsed samplers first, and those of other engines from the middle on."""
    seen = {name.split("::")[0] for name, there in SLOW.items() if there}
    stale = [name for name, there in SLOW.items() if not there and name.split("::")[0] in seen]
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and stale and not config.option.lf:
        raise pytest.UsageError(f"tests/slow.txt names no test: {', '.join(stale)}")
    halves: list[list[pytest.Item]] = []
    rest = items[:]
    for names in (OTHER, ONE):  # "uncollapsed" is among the others before "collapsed" is looked for
        half = []
        for name in names:
            half += [item for item in rest if re.search(name, item.nodeid)]
            rest = [item for item in rest if not re.search(name, item.nodeid)]
        halves.append(half)
    other, one = halves
    between = max(0, len(items) // 2 - len(one))
    items[:] = one + rest[:between] + other + rest[between:]


def pytest_collection_finish() -> None:
    """Modules and tests are no garbage: looking through them again and again, whenever the compiler
    has made many small objects, is a twentieth of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed for this test: the same in every run unless THALI_TEST_SEED says otherwise."""
    return seed_of(request.node.name)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator seeded by `seed`."""
    return np.random.default_rng(seed)


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Tests run side by side and their matrices are tiny: BLAS threads would only wait in line."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of processes that tests start
    os.environ.setdefault("THALI_COMPILE_ASIDE", "0")  # both cores are busy with tests
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.fixture
def blank_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are blank, for tests that look at other things: pictures take the most time."""

    def blank(model: object, path: Path, **_: object) -> Path:
        path.write_text("<!doctype html></html>", encoding="utf-8")
        return path

    monkeypatch.setattr("thali.report.write_report", blank)


@pytest.fixture(scope="session")
def textbook() -> ModuleType:
    """The textbook sampler of ``benchmarks/textbook.py``, which is not part of the package."""
    path = Path(__file__).parents[1] / "benchmarks" / "textbook.py"
    spec = importlib.util.spec_from_file_location("thali_textbook", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
