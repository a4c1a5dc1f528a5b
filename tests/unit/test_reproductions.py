"""The reproductions run, and say what they skip where there are no data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "reproductions"


def run(script: str, out: Path, *options: str) -> str:
    """What a reproduction prints, without data from outside; its summary has to be there."""
    environment = {k: v for k, v in os.environ.items() if k != "THALI_DATA"}
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), "--out", str(out), *options],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (out / "summary.md").read_text(encoding="utf-8").startswith("# ")
    return done.stdout


@pytest.mark.slow
def test_the_search_for_the_mode_is_reproduced(tmp_path):
    printed = run("rai_daume_2011.py", tmp_path, "--quick")
    for title in ("Block images", "E. coli", "Scalability", "classifier", "start", "Greedy"):
        assert title in printed
    skipped = [line for line in printed.splitlines() if "Skipped: THALI_DATA is not set" in line]
    # tables 1 and 2 (Sonar, Scene), figures 2 and 3
    assert len(skipped) == 5
    assert {"figure_2_synthetic.png", "figure_3.png"} <= {path.name for path in tmp_path.iterdir()}


def test_data_that_are_not_there_are_named(tmp_path):
    printed = run("rai_daume_2011.py", tmp_path, "--quick", "--only", "table_1")
    assert "Skipped: THALI_DATA is not set (the folder with ecoli_nca.npz)." in printed
