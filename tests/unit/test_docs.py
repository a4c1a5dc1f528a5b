"""What the documentation says is so: its examples run, its links lead somewhere."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import thali
from thali.engines import chain_settings
from thali.registry import ENGINES, ESTIMATORS, LIKELIHOODS, PRIORS, STARTS
from thali.run import loop
from thali.starts import start_names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem
)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's Python blocks run one after the other, as a reader would type them.

    Where they leave the number of sweeps open there are few: that they run is what is asked here.
    """
    for most in ("MOST", "MOST_OF_ALL"):  # whether starts agree or not
        monkeypatch.setattr(chain_settings, most, chain_settings.FEWEST)
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY", 0.0)  # few sweeps are over before the first
    registries = (PRIORS, LIKELIHOODS, ENGINES, ESTIMATORS, STARTS)
    before = [dict(registry) for registry in registries]
    monkeypatch.chdir(tmp_path)  # examples write their files here
    reader = ModuleType("reader")
    monkeypatch.setitem(sys.modules, "reader", reader)  # dataclasses ask for their module
    try:
        for number, block in enumerate(blocks(page), start=1):
            exec(compile(block, f"{page.name}, block {number}", "exec"), reader.__dict__)
    finally:  # parts stay on their page
        for registry, parts in zip(registries, before, strict=True):
            registry.clear()
            registry.update(parts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_one_version_number() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == thali.__version__
    assert f"## [{thali.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_is_inside_names_every_part(page: str) -> None:
    inside = (ROOT / page).read_text(encoding="utf-8").split("## What is inside")[1].split("##")[0]
    parts = [part.__name__ for kind in (PRIORS, LIKELIHOODS, ENGINES) for part in kind.values()]
    assert [name for name in (*parts, *start_names()) if f"`{name}`" not in inside] == []
