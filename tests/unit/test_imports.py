"""Importing thali is light, and a second process compiles nothing."""

import os
import subprocess
import sys

import pytest

# pandas is not listed: scikit-learn itself imports it where it is installed
HEAVY = ("numba", "arviz", "matplotlib", "rich", "typer", "sklearn.decomposition")


def run(code: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_import_brings_in_nothing_heavy():
    loaded = run("import sys, thali; print(*sys.modules)").split()
    assert "thali" in loaded
    assert not set(HEAVY) & set(loaded)


COUNT = """
import thali, numba.core.event as event
compiled = []
class Listener(event.Listener):
    def on_start(self, e): compiled.append(str(e.data))
    def on_end(self, e): pass
event.register("numba:compile", Listener())
X = thali.datasets.images(n=30, random_state=0).X
engine = thali.CollapsedGibbs(sweeps=6, chains=2)
model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
model.transform(X); model.score(X); model.diagnostics_
print(len(compiled))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    cache = str(tmp_path)
    assert int(run(COUNT, NUMBA_CACHE_DIR=cache)) > 0
    assert int(run(COUNT, NUMBA_CACHE_DIR=cache)) == 0


def test_arviz_is_imported_without_its_daily_notice(tmp_path):
    code = (
        "import warnings; warnings.simplefilter('error'); import thali.results.diagnostics as t; {}"
    )
    fresh = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    run(code.format("t.import_arviz()"), **fresh)
