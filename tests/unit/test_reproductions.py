"""The reproductions run, write what they promise, and say what they skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "reproductions"
RAI, REED = FOLDER / "rai_daume_2011.py", FOLDER / "reed_ghahramani_2013.py"
VALERA = FOLDER / "valera_2020.py"


def run(script: Path, out: Path, *arguments: str, data: Path | None = None) -> str:
    """The summary of a run that knows of no outside data, or of those in this folder."""
    environment = {name: value for name, value in os.environ.items() if name != "THALI_DATA"}
    environment |= {} if data is None else {"THALI_DATA": str(data)}
    command = [sys.executable, str(script), "--quick", "--out", str(out), *arguments]
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return (out / "summary.md").read_text(encoding="utf-8")


def test_rows_of_reed_and_ghahramani(tmp_path):
    summary = run(REED, tmp_path, "--only", "figure_1", "figure_2", "starts")
    assert "ends as the library's in 100.00% of rows" in summary
    assert "THALI_DATA is not set" in summary
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {"figure_1.png", "figure_2.png"}
    line = next(line for line in summary.splitlines() if line.startswith("| 12 |"))
    shares = [float(cell) for cell in line.strip("| ").split("|")[2:]]
    assert len(shares) == 10
    assert all(at <= near for at, near in zip(shares[:5], shares[5:], strict=True))


@pytest.mark.slow
def test_all_of_reed_and_ghahramani(tmp_path):
    summary = run(REED, tmp_path)
    assert summary.count("\n## ") == 7
    assert summary.count("\n| INMF | ") == 2  # of figure 3, left, and table 1
    assert summary.count("THALI_DATA is not set") == 2
    assert len(list(tmp_path.glob("*.png"))) == 4


@pytest.mark.slow
def test_all_of_rai_and_daume(tmp_path):
    summary = run(RAI, tmp_path)
    for title in ("Block images", "E. coli", "Scalability", "classifier", "start", "Greedy"):
        assert title in summary
    # tables 1 and 2 (Sonar, Scene), figures 2 and 3
    assert summary.count("Skipped: THALI_DATA is not set") == 5
    assert {"figure_2_synthetic.png", "figure_3.png"} <= {path.name for path in tmp_path.iterdir()}


def test_data_that_are_not_there_are_named(tmp_path):
    summary = run(RAI, tmp_path, "--only", "table_1")
    assert "Skipped: THALI_DATA is not set (the folder with ecoli_nca.npz)." in summary


def test_valera_names_the_tables_that_are_not_there(tmp_path):
    summary = run(VALERA, tmp_path)
    for file in ("prostate_glfm.npz", "counties_glfm.npz"):  # explored, and with hidden entries
        assert summary.count(f"THALI_DATA is not set (the folder with {file}).") == 2
    assert not list(tmp_path.glob("*.png"))


def glfm(path: Path, types: str, columns: str, X: np.ndarray, labels: dict[str, str]) -> None:
    """A file in the form of the tables of Valera and others."""
    names = columns.split()
    said = np.array([labels.get(name, "") for name in names])
    np.savez(path, X=X, types=np.array(types), columns=np.array(names), cat_labels=said)


@pytest.mark.slow
def test_all_of_valera_on_tables_made_up(tmp_path):
    rng, n = np.random.default_rng(0), 60
    has = rng.random(n) < 0.4
    X = rng.random((n, 16))
    X[:, 0], X[:, 1], X[:, 3] = 3 + has, rng.choice([0, 1, 5], n), rng.integers(1, 5, n)
    X[:, 12], X[:, 14] = rng.poisson(8 + 20 * has), np.exp(rng.standard_normal(n) + 2 * has)
    X[5, 12] = np.nan
    deaths = {"stage": "3;4", "status": "alive;vascular;prostatic ca;others"}
    columns = "stage rx dtime status age wt pf hx sbp dbp ekg hg sz sg ap bm"
    glfm(tmp_path / "prostate_glfm.npz", "concnnocnncpnopc", columns, X, deaths)
    X = np.exp(rng.standard_normal((n, 19)) + has[:, None])
    X[:, 1], X[:, 13:16], X[:, 16] = rng.integers(1, 4, n), 100 * rng.random((n, 3)), 80 + 10 * has
    X[7, 13:16] = np.nan
    columns = (
        "county state msa pmsa pop.density pop pop.change age6574 age75 crime college income farm "
        "democrat republican Perot white black turnout"
    )
    states = {"state": "Ohio;Utah;Iowa"}
    glfm(tmp_path / "counties_glfm.npz", "ccnnnngppnpnppppppp", columns, X, states)
    summary = run(VALERA, tmp_path / "out", data=tmp_path)
    assert "60 rows." in summary
    assert "Skipped" not in summary
    for words in ("| P(stage = 4) |", "| phosphatase |", "| Republican |", "5 mg less 0 or 0.2 mg"):
        assert words in summary
    assert summary.count("| 50% | -") == 2
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert pictures == {"prostate.png", "counties.png"}
