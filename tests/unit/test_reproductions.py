"""The reproductions run, write what they promise, and say what they skip."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import thali

FOLDER = Path(__file__).parents[2] / "reproductions"
RAI, REED = FOLDER / "rai_daume_2011.py", FOLDER / "reed_ghahramani_2013.py"
VALERA, DOSHI = FOLDER / "valera_2020.py", FOLDER / "doshi_velez_2009.py"
TOPICS = FOLDER / "welling_2012_topics.py"
ECOLI = "Skipped: THALI_DATA is not set (the folder with ecoli_nca.npz)."


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Runs the script of this name in this process; nothing but its summary is looked at."""
    monkeypatch.delenv("THALI_DATA", raising=False)
    monkeypatch.syspath_prepend(str(FOLDER))

    def summary(name: str, *arguments: str) -> str:
        command = [name, "--quick", "--out", str(tmp_path), *arguments]
        monkeypatch.setattr(sys, "argv", command)
        importlib.import_module(name).main()
        return (tmp_path / "summary.md").read_text(encoding="utf-8")

    return summary


def cells(summary: str, first: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    line = next(line for line in summary.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("| ").split("|")][1:]


# a short form of each, in this process


@pytest.mark.filterwarnings("default")
def test_a_quick_run_of_anand(here, tmp_path):
    summary = here("anand_2015", "--slips", "1")
    for table in range(1, 5):
        assert f"## Table {table}." in summary
    assert float(cells(summary, "calcInverse")[2]) > 0.0
    assert all(int(cells(summary, rule)[0]) >= 0 for rule in ("right", "as met", "itself"))
    assert len(list(tmp_path.glob("figure_*.png"))) == 6


@pytest.mark.filterwarnings("default")
def test_a_quick_run_of_doshi_velez(here, tmp_path):
    summary = here("doshi_velez_2009", "--only", "figure_2", "table_1", "table_2")
    found, chance, bound = (float(cells(summary, "30")[i].split()[0]) for i in range(3))
    assert 0.0 < found <= chance <= bound
    assert summary.count("Skipped: THALI_DATA is not set") == 2
    assert (tmp_path / "figure_2.png").is_file()


@pytest.mark.filterwarnings("default")
def test_a_quick_run_of_rai_and_daume(here):
    summary = here("rai_daume_2011", "--only", "table_1", "greedy")
    assert ECOLI in summary
    assert float(cells(summary, "greedy")[0]) >= 1.0


@pytest.mark.filterwarnings("default")
def test_a_quick_run_of_reed_and_ghahramani(here):
    summary = here("reed_ghahramani_2013", "--only", "figure_2", "starts")
    assert "ends as the library's in 100.00% of rows" in summary
    assert "Skipped: THALI_DATA is not set" in summary


def test_quick_runs_of_what_needs_outside_data(here):
    assert here("valera_2020").count("Skipped: THALI_DATA is not set") == 4
    assert "Skipped: THALI_DATA is not set (the folder with kos_bow" in here("welling_2012_topics")


@pytest.mark.filterwarnings("default")
def test_a_quick_run_of_welling(here, tmp_path):
    summary = here("welling_2012")
    assert all(
        float(cell.split()[0].replace(",", "")) > 0 for cell in cells(summary, "5, 16, 3, 60")
    )
    assert (tmp_path / "figure_5.png").is_file()


def test_the_law_of_a_truncated_process_sums_to_one_and_gives_the_distance(here):
    """Two rows, three features at most: all classes can be looked through."""
    law = importlib.import_module("doshi_velez_2009_truncation")
    n, alpha, k = 2, 1.5, 3
    prior, truncated = thali.IBP(alpha), law.Truncated(n, alpha, k)
    total = apart = 0.0
    drawn = []  # the classes, in proportion to their probability
    for counts in product(range(9), repeat=3):
        Z = np.repeat(np.array([[1, 0, 1], [0, 1, 1]], bool), counts, axis=1)
        whole = np.exp(prior.log_prob(Z))
        drawn += [Z] * round(2000 * whole)
        if sum(counts) <= k:
            share = np.exp(truncated.log_probability(Z))
            total += share
            apart += 2.0 * max(share - whole, 0.0)  # classes of more than k features have no share
    assert total == pytest.approx(1.0, abs=1e-9)
    logs = np.array([prior.log_prob(Z) for Z in drawn])
    value, error = law.distance(n, alpha, k, drawn, logs)
    assert value == pytest.approx(apart, abs=0.02)  # rare classes are rounded away
    assert 0.0 < error < 0.03
    assert apart <= 2.0 * prior.truncation_error(n, k)


# all parts, as they are run by hand


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
    assert summary.count("\n## ") == 8
    assert summary.count("\n| INMF | ") == 2  # of figure 3, left, and table 1
    assert summary.count("THALI_DATA is not set") == 3
    assert len(list(tmp_path.glob("*.png"))) == 4


@pytest.mark.slow
def test_all_of_rai_and_daume(tmp_path):
    summary = run(RAI, tmp_path)
    for title in ("Block images", "E. coli", "Scalability", "classifier", "start", "Greedy"):
        assert title in summary
    # tables 1 and 2 (Sonar, Scene) and their causes, figures 2 and 3
    assert summary.count("Skipped: THALI_DATA is not set") == 7
    assert {"figure_2_synthetic.png", "figure_3.png"} <= {path.name for path in tmp_path.iterdir()}


def sparse(X: np.ndarray) -> dict[str, np.ndarray]:
    """A table as files of sparse data have it."""
    rows = csr_array(X)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {f"X_{name}": part for name, part in parts.items()} | {"X_shape": np.array(X.shape)}


@pytest.fixture
def made_up(tmp_path) -> Path:
    """A folder with the files that the reproductions ask for, small and of numbers made up."""
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    network = np.where(rng.random((60, 10)) < 0.2, rng.choice([-1, 1], (60, 10)), 0)
    np.savez(folder / "ecoli_nca.npz", connectivity=network)
    mines = rng.permutation(np.repeat(["M", "R"], 20))
    np.savez(folder / "sonar.npz", X=rng.random((40, 12)) + (mines == "M")[:, None], y=mines)
    np.savez(
        folder / "scene.npz", X_u6=rng.integers(0, 10**6, (30, 8)), scale=1e-6,
        labels=np.array(["Mountain", "Urban"]), Y=rng.random((30, 2)) < 0.5,
    )  # fmt: skip
    np.savez(folder / "audio_vibeace_500x161.npz", X=rng.random((60, 10)).astype(np.float32))
    np.savez(folder / "mirflickr_tags.npz", **sparse((rng.random((250, 50)) < 0.2).astype(int)))
    faces = rng.integers(0, 255, (730, 1024)).astype(np.uint8)
    np.savez(folder / "yaleb_ext_32x32.npz", X=faces, y=np.repeat([0, 1], 365))
    np.savez(
        folder / "speech_cmuarctic_5src.npz", S=rng.integers(-99, 99, (5, 300)).astype(np.int16),
        mixing_10x5=rng.standard_normal((10, 5)),
    )  # fmt: skip
    np.savez(folder / "kos_bow.npz", **sparse(rng.poisson(0.4, (60, 40))))
    return folder


@pytest.mark.slow
def test_all_of_doshi_velez_on_data_made_up(tmp_path, made_up):
    summary = run(DOSHI, tmp_path / "out", data=made_up)
    assert summary.count("\n## ") == 7
    assert "Skipped" not in summary
    assert "sparse ICA start" in summary
    assert cells(summary, "particle filter, 50")[1] == "–"  # it has no start
    for name in ("collapsed Gibbs", "uncollapsed Gibbs", "particle filter"):
        assert f"\n| {name} |" in summary[summary.index("Figures 4 and 5") :]
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert pictures == {f"figure_{i}.png" for i in range(2, 6)}


@pytest.mark.slow
def test_rai_and_daume_on_data_made_up(tmp_path, made_up):
    summary = run(
        RAI,
        tmp_path,
        "--only",
        "table_1",
        "table_2",
        "table_1_causes",
        "table_2_causes",
        data=made_up,
    )
    assert "Skipped" not in summary
    assert "Scene is left out of a quick run." in summary
    assert len(cells(summary, "Gibbs sampling, annealed")) == 6


@pytest.mark.slow
def test_reed_and_ghahramani_on_data_made_up(tmp_path, made_up):
    summary = run(REED, tmp_path, "--only", "figure_4", "starts", "figure_4_causes", data=made_up)
    assert "Skipped" not in summary
    for what in ("Audio", "Tags", "Faces"):
        assert f"- {what}, K = 4, best to worst:" in summary


@pytest.mark.slow
def test_topics_on_data_made_up(tmp_path, made_up):
    summary = run(TOPICS, tmp_path, data=made_up)
    assert len(cells(summary, "exact")) == 6


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
