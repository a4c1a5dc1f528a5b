"""The reproductions run, write what they promise, and say what they skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "reproductions"
RAI, REED = FOLDER / "rai_daume_2011.py", FOLDER / "reed_ghahramani_2013.py"


def run(script: Path, out: Path, *arguments: str) -> str:
    """The summary of a run that knows of no outside data."""
    environment = {name: value for name, value in os.environ.items() if name != "THALI_DATA"}
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
