"""Importing thali is light, what is left for later is found, a second process compiles nothing."""

import os
import pickle
import subprocess
import sys

import pytest

import thali
from thali.registry import Registry

# what thali cannot do without: scikit-learn imports much of scipy, and pandas where that is
DEPENDENCIES = "import numpy, scipy.linalg, scipy.sparse, scipy.special, sklearn.base"
HEAVY = {"arviz", "matplotlib", "numba", "pandas", "pyarrow", "rich", "scipy", "typer"}
ENGINES = [name for name in thali.__all__ if name in thali.engines.__all__]


def run(code: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def loaded(imports: str) -> set[str]:
    return set(run(f"{imports}; import sys; print(*sys.modules)").split())


def test_import_brings_in_nothing_heavy():
    beyond = loaded("import thali") - loaded(DEPENDENCIES)
    assert "thali" in beyond
    assert not [name for name in beyond if name.split(".")[0] in HEAVY]
    assert not [name for name in beyond if name.startswith("sklearn.decomposition")]


@pytest.mark.parametrize("first", ["thali.registry", "thali.engines.particle_filter"])
def test_a_registry_knows_all_parts_in_one_order(first):
    """Whatever was imported first, and in a process that has asked for no part yet."""
    names = run(
        f"import {first}, thali.registry as r; print(*r.PRIORS, *r.LIKELIHOODS, *r.STARTS);"
        "print(*(engine.__name__ for engine in r.ENGINES.values()))"
    ).split("\n")
    assert {"ibp", "two_parameter_ibp", "noisy_or", "sparse_factor", "ica"} < set(names[0].split())
    assert names[1].split() == ENGINES


def test_a_family_is_imported_when_its_registry_is_looked_into(tmp_path, monkeypatch):
    family = tmp_path / "toy_late_family"
    family.mkdir()
    (family / "__init__.py").write_text(
        "from thali.registry import Registry\nTOYS = Registry('toy')\n"
    )
    for name in ("ball", "abacus"):
        (family / f"{name}.py").write_text(
            f"from toy_late_family import TOYS\n\n\n@TOYS.register({name!r})\nclass Toy: ...\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    import toy_late_family

    toys = toy_late_family.TOYS = Registry("toy", family="toy_late_family")
    assert "toy_late_family.ball" not in sys.modules
    import toy_late_family.ball

    assert "toy_late_family.abacus" not in sys.modules
    with pytest.raises(ValueError, match="'abacus' is Toy already"):  # one of another module
        toys.register("abacus")(Registry)
    toys.register("aardvark")(Registry)
    assert list(toys) == ["abacus", "ball", "aardvark"]
    assert toys["ball"] is toy_late_family.ball.Toy


def test_names_that_are_imported_late_are_there():
    code = "import thali; print(*dir(thali)); from thali import *; print(*globals())"
    listed, imported = (set(line.split()) for line in run(code).splitlines())
    assert set(thali.__all__) <= listed & imported
    with pytest.raises(AttributeError, match="module 'thali' has no attribute 'Nothing'"):
        thali.Nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'thali\.engines' has no attribute"):
        thali.engines.Nothing  # noqa: B018


def test_engines_are_unpickled_where_none_was_imported():
    engines = [getattr(thali, name)() for name in ENGINES]
    read = f"import pickle; print(pickle.loads({pickle.dumps(engines)!r}))"
    assert run(read).strip() == str(engines)


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
