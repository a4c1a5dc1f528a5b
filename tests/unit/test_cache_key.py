"""Compiled kernels are kept as long as no kernel changes, and not much longer."""

from __future__ import annotations

import os
from pathlib import Path

import cache_key
import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of one kernel, one callee, one other module and one compiled test."""
    files = {
        "src/thali/kernels/sweep.py": "from thali.kernels.rows import flip\n",
        "src/thali/kernels/inner/rows.py": "flip = 1\n",
        "src/thali/model.py": "K = 1\n",
        "tests/test_drive.py": "from numba import njit\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "# more\n", encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["src/thali/kernels/sweep.py", "src/thali/kernels/inner/rows.py", "tests/test_drive.py"]
)
def test_an_edited_kernel_changes_the_key(root, name):
    before = cache_key.key(root)
    edit(root / name)
    assert cache_key.key(root) != before


def test_a_renamed_kernel_changes_the_key(root):
    before = cache_key.key(root)
    kernels = root / "src/thali/kernels"
    (kernels / "sweep.py").rename(kernels / "swept.py")
    assert cache_key.key(root) != before


def test_other_edits_do_not(root):
    before = cache_key.key(root)
    edit(root / "src/thali/model.py")
    os.utime(root / "src/thali/kernels/sweep.py", (1, 1))
    assert cache_key.key(root) == before


@pytest.mark.parametrize("package", ["numpy", "numba"])
def test_another_version_changes_the_key(root, package, monkeypatch):
    before = cache_key.key(root)
    right = cache_key.version
    monkeypatch.setattr(cache_key, "version", lambda name: right(name) + "+" * (name == package))
    assert cache_key.key(root) != before


def test_the_folders_last_used_stay(root):
    kernel = root / "src/thali/kernels/sweep.py"
    folders = []
    for used in range(1, 4):
        folders.append(cache_key.prepare(root))
        os.utime(folders[-1], (used, used))
        edit(kernel)
    newest = cache_key.prepare(root)
    assert set(newest.parent.iterdir()) == {folders[-1], newest}
    assert cache_key.prepare(root) == newest
