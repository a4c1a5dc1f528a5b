"""Broken variants of the library, made from its own source by changing a line or two.

A test that cannot fail shows nothing.  `mutate` copies a module's source, replaces given pieces
(each must occur exactly once), and imports the copy under a name of its own; `install_kernel` puts
such a copy in the place of the Gibbs kernel for one test.

Copies stay beside the compiled kernels, so that a mutant too is compiled only once.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import textwrap
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

import thali
import thali.kernels
from thali.registry import Registry

# every kernel is imported before any is replaced: one first imported while a mutant stands in the
# place of another would be compiled against the mutant, and kept so on disk
for found in pkgutil.walk_packages(thali.kernels.__path__, "thali.kernels."):
    importlib.import_module(found.name)

KERNEL, LEAVING = "thali.kernels.collapsed_rows", "thali.kernels.leaving_rows"
Change = tuple[str, str]


def mutate(module: str, changes: Sequence[Change]) -> ModuleType:
    """A copy of ``module`` with each (old, new) piece of text replaced."""
    original = importlib.import_module(module)
    source = inspect.getsource(original)
    for old, new in changes:
        assert source.count(old) == 1, f"{module} has {source.count(old)} times: {old!r}"
        source = source.replace(old, new)
    path = keep(source)
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    sys.modules[name] = copy  # dataclasses and numba look their module up by name
    with pytest.MonkeyPatch.context() as patch:  # the names stay those of the library's own parts
        patch.setattr(Registry, "register", lambda self, name: lambda cls: cls)
        spec.loader.exec_module(copy)
    # its records stay the library's: other kernels take them, and their compiled versions, which
    # numba keeps on disk by the type of what they take, must not come to depend on a mutant
    for key, value in vars(original).items():
        if isinstance(value, type) and issubclass(value, tuple):
            setattr(copy, key, value)
    return copy


def keep(source: str) -> Path:
    """A file with this text, whose name tells it and the mutants that it will be compiled with."""
    replaced = [
        f"{key} {module.__name__}"
        for key, module in sorted(sys.modules.items())
        if key.startswith("thali.kernels.") and module.__name__ != key
    ]
    digest = zlib.crc32("\n".join([source, *replaced]).encode())
    path = Path(os.environ["NUMBA_CACHE_DIR"]) / "mutants" / f"mutant_{digest:08x}.py"
    if not path.exists():  # numba compiles anew what a newer file holds
        path.parent.mkdir(exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(source, encoding="utf-8")
        draft.replace(path)  # at once: another worker may be looking
    return path


def install_kernel(patch: pytest.MonkeyPatch, kernel: ModuleType) -> None:
    """Let the engine find ``kernel`` where it looks for its own, until the patch is undone."""
    patch.setitem(sys.modules, KERNEL, kernel)
    patch.setattr(thali.kernels, "collapsed_rows", kernel)


def update_in_python(patch: pytest.MonkeyPatch) -> None:
    """Let collapsed Gibbs update hyperparameters as it does where compiled code cannot."""
    from thali.engines.features import gibbs
    from thali.kernels.hyperparameter_steps import ELSEWHERE

    patch.setattr(gibbs, "laws_at", lambda *_: ELSEWHERE)


def block(text: str, indent: int) -> str:
    """``text`` dedented and moved to ``indent`` spaces, to fit where it is put."""
    return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * indent).lstrip()


# The same feature is sampled as a bit with the prior m/N, m = 1 counting the row itself, and fresh
# features are drawn on top of those that stay.  (All of a row's own features are equal columns, so
# switching the dropped ones back on and letting the sweep remove that many changes nothing else.)
SINGLETONS_AS_BITS: list[Change] = [
    (
        "            if m == 0.0:\n                continue\n",
        "            if m == 0.0:\n                m = 1.0\n",
    ),
    (
        "if climb is not None:\n            new = likeliest(weights, theta, row, None)\n"
        "        else:\n            new = draw(rng, weights, theta, row, None)",
        block(
            """
            stay = 0
            for i in range(k):
                if rows.m[i] == 0.0:
                    if z[i]:
                        stay += 1
                    else:
                        flip(rows, n, x, k, i)
            left = free - stay if free >= 0 else -1
            weights = NewFeatures(new_log_weight, left, -1, MOST_NEW)
            row = gaussian_row_at(rho, 1.0 + q, r, half_d, precision)
            new = stay + draw(rng, weights, theta, row, None)
            """,
            8,
        ),
    ),
]
AT_MOST_ONE_NEW: list[Change] = [("free, F - own, MOST_NEW)", "free, F - own, 0)")]
NEVER_REFRESHED: list[Change] = [
    (  # once, where a chain begins: M of a fresh state is all zeros
        "            refresh(rows, k, r)\n            if gaps is not None:\n"
        "                means_afresh(means, rows, k)\n            refreshes += 1\n",
        "            if k > 0 and rows.M[0, 0] == 0.0:\n                refresh(rows, k, r)\n",
    ),
    ("                drift = max(drift, refresh(rows, k, r))\n", "                drift = 0.0\n"),
    ("\n            drift = max(drift, refresh(rows, k, r))\n", "\n            drift = 0.0\n"),
    ("SUMS_AFRESH = 64", "SUMS_AFRESH = 1_000_000_000"),
]
NO_ROW_IS_RISKY: list[Change] = [("RISKY = 150.0", "RISKY = 1e300")]  # of LEAVING
# Python, not kernel: P(z = 1) = m/(N+1), and α drawn with (Σm, N) in place of (K, H_N).
ODDS_OFF_BY_ONE: list[Change] = [("np.log(beta + n - 1.0 - m)", "np.log(beta + n - m)")]
ALPHA_FROM_SUMS: list[Change] = [
    (
        "k, rate = len(counts.column_sums), harmonic(counts.n, self._beta(hyper))",
        "k, rate = float(counts.column_sums.sum()), float(counts.n)",
    )
]
ALPHA_FROM_SUMS_COMPILED: list[Change] = [
    (
        "                    alpha = draw_mass(rng, alpha, k, laws)\n",
        "                    takers = 0.0\n"
        "                    for i in range(k):\n"
        "                        takers += rows.C[i, i]\n"
        "                    if laws.shape > 0.0:\n"
        "                        shape, rate = laws.shape + takers, laws.rate + n_rows\n"
        "                        alpha = rng.standard_gamma(shape) / rate\n",
    )
]
# The density of σ in place of that of log σ: a Jacobian forgotten.
NO_JACOBIAN: list[Change] = [("return log_density(exp(u)) + u if", "return log_density(exp(u)) if")]
NO_JACOBIAN_COMPILED: list[Change] = [("prior = (own.power + 1.0) * u", "prior = own.power * u")]
