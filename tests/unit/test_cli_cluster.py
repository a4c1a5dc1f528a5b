"""thali cluster: what it writes, what it says, which parts it offers, and what it refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import thali
from thali.cli import parts, run
from thali.cli.outputs import CLUSTER_FILES
from thali.data.tables import read_table
from thali.registry import ENGINES, LIKELIHOODS, PRIORS
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
from thali.structures.partitions import PARTITIONS

SHORT = ["--likelihood", "normal-gamma", "--sweeps", "20", "--chains", "2", "--seed", "3"]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A CSV file with names for rows and columns, and three groups of rows."""
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[np.arange(24) % 3] + rng.normal(size=(24, 2))
    path = tmp_path_factory.mktemp("data") / "plates.csv"
    names = [f"plate {i}" for i in range(24)]
    pd.DataFrame(X, index=names, columns=["rice", "dal"]).to_csv(path, index_label="plate")
    return path


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    assert run(["cluster", str(table), *SHORT, "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_it_writes_five_files_and_nothing_else(fitted):
    assert sorted(os.listdir(fitted)) == sorted(CLUSTER_FILES)
    assert (fitted / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    model = thali.load(fitted / "model.thali")
    assert isinstance(model, thali.LatentPartition)
    assert json.loads((fitted / "summary.json").read_text())["n_components"] == model.n_clusters_


def test_the_tables_hold_the_clusters_under_the_names_of_the_file(fitted, table):
    model = thali.load(fitted / "model.thali")
    labels = pd.read_csv(fitted / "labels.csv", index_col="row")
    assert list(labels.index) == read_table(table).row_names
    assert list(labels.columns) == ["cluster", "membership"]
    np.testing.assert_array_equal(labels["cluster"], model.labels_)
    np.testing.assert_allclose(labels["membership"], model.membership_)
    clusters = pd.read_csv(fitted / "clusters.csv", index_col="cluster")
    assert list(clusters.columns) == ["rows", "rice", "dal"]
    np.testing.assert_array_equal(clusters["rows"], np.bincount(model.labels_))
    np.testing.assert_allclose(clusters[["rice", "dal"]], model.cluster_profiles_)


def test_it_says_what_it_found(table, capsys):
    assert run(["cluster", str(table), *SHORT, "--out", "out"]) == 0
    said = capsys.readouterr().out
    model = thali.load("out/model.thali")
    sizes = ", ".join(map(str, np.bincount(model.labels_)))
    assert f"\nRows in each: {sizes}; a row is with" in said
    assert "24 x 2, named rows, named columns" in said
    assert f"\n{model.convergence().headline} " in said
    assert "open out/report.html" in said
    assert run(["show", "out/model.thali"]) == 0
    assert "membership" in capsys.readouterr().out
    assert run(["report", "out/model.thali", "--out", "again.html"]) == 0
    assert Path("again.html").read_bytes() == Path("out/report.html").read_bytes()


@pytest.mark.usefixtures("blank_report")
def test_a_run_can_start_from_labels_and_from_a_model(table, fitted):
    for start in ("labels.csv", "model.thali"):
        arguments = ["--init", str(fitted / start), "--out", "out", "--quiet"]
        assert run(["cluster", str(table), *SHORT, *arguments]) == 0


@pytest.mark.usefixtures("blank_report")
def test_potentials_are_read_from_a_file(table):
    own = gammaln(np.arange(1, 25)) + 0.3
    Path("own.csv").write_text("\n".join(map(str, own)))
    np.save("own.npy", own[:, None])
    arguments = ["--prior", "flexible-partition", "--out", "out", "--quiet"]
    for file in ("own.csv", "own.npy"):
        assert run(["cluster", str(table), *SHORT, *arguments, "--potentials", file]) == 0
        found = thali.load("out/model.thali").prior_
        np.testing.assert_allclose(found.potentials, own)


def test_missing_entries_are_counted_and_not_filled_in(capsys):
    Path("gaps.csv").write_text("rice,dal\n1,\n2,3\n2.1,3.2\n9,9.5\n")
    assert run(["cluster", "gaps.csv", *SHORT, "--out", "out"]) == 0
    assert "1 of 8 entries missing" in capsys.readouterr().out
    assert sorted(os.listdir("out")) == sorted(CLUSTER_FILES)
    assert "missing entries, imputed" not in Path("out/report.html").read_text(encoding="utf-8")


def test_each_command_offers_the_parts_of_its_structure():
    for family, registry in (("prior", PRIORS), ("likelihood", LIKELIHOODS)):
        ours = {name for name, cls in registry.items() if cls.structure == PARTITIONS}
        assert set(parts.CLUSTER.family(family)) == ours
        topics = {name for name, cls in registry.items() if cls.structure == GROUPED_PARTITIONS}
        assert set(parts.TOPICS.family(family)) == topics
        assert set(parts.FIT.family(family)) == set(registry) - ours - topics
    assert set(parts.TOPICS.family("engine")) == {"direct_assignment", "franchise"}
    assert set(parts.FIT.family("engine")) == set(ENGINES) - {"direct_assignment", "franchise"}
    assert "collapsed_gibbs" in parts.CLUSTER.family("engine")
    assert "beam_search" not in parts.CLUSTER.family("engine")
    assert "kmeans" in parts.CLUSTER.start_names()
    assert "kmeans" not in parts.FIT.start_names()
    assert "ica" not in parts.CLUSTER.start_names()


def test_help_lists_the_command_and_its_options(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["--help"]) == 0
    assert re.search(r"cluster +Put the rows of a table in clusters", capsys.readouterr().out)
    assert run(["cluster", "--help"]) == 0
    said = capsys.readouterr().out
    for words in ("--discount", "--potentials", "normal-wishart", "one_cluster"):
        assert words in said
    assert "linear-gaussian" not in said
    assert "--center" not in said


MISTAKES = {
    "file": (["nowhere.csv"], "there is no file nowhere.csv"),
    "folder": (["."], "is a folder; give a data file"),
    "text": (["text.csv"], "'x' is not a number"),
    "infinite": (["inf.csv", *SHORT], "1 of 4 entries are infinite (first: row 2, column 'b')"),
    "prior of features": (["DATA", "--prior", "ibp"], "'pitman-yor'"),
    "likelihood of features": (["DATA", "--likelihood", "noisy-or"], "'normal-wishart'"),
    "engine": (["DATA", "--engine", "beam-search"], "'collapsed-gibbs'"),
    "option of features": (["DATA", "--sigma-x", "1"], "No such option"),
    "other prior's": (["DATA", "--discount", "0.5"], "--discount belongs to --prior pitman-yor"),
    "no potentials": (["DATA", "--prior", "flexible-partition"], "potentials must be one number"),
    "few potentials": (
        ["DATA", *SHORT, "--prior", "flexible-partition", "--potentials", "few.csv"],
        "24 rows need 24 of them",
    ),
    "not 0 and 1": (["DATA", "--likelihood", "beta-bernoulli-items"], "needs 0 or 1"),
    "gaps": (["gaps.csv", "--likelihood", "dirichlet-multinomial"], "entries missing"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_line_and_leaves_nothing(arguments, words, table, capsys):
    Path("text.csv").write_text("a,b\n1,2\n3,x\n")
    Path("inf.csv").write_text("a,b\n1,2\n3,inf\n")
    Path("gaps.csv").write_text("a,b\n1,2\n3,\n")
    Path("few.csv").write_text("0.5\n0.25\n")
    before = sorted(os.listdir())
    assert run(["cluster", *(str(table) if part == "DATA" else part for part in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert words in complaint
    assert sorted(os.listdir()) == before


def test_warming_up_knows_clusters(capsys):
    assert run(["warm-up", "--likelihood", "normal-gamma"]) == 0
    assert "CollapsedGibbs × NormalGamma" in capsys.readouterr().out
    assert run(["warm-up", "--likelihood", "normal-gamma", "--engine", "beam-search"]) == 2
    assert "nothing to compile" in capsys.readouterr().err


def test_settings_of_features_are_not_offered():
    from thali.cli.parts import CLUSTER, FIT, part_options

    flags = {option.name for option in part_options(CLUSTER, ())}
    every = {option.name for option in part_options(FIT, ())}
    idle = {"sigma_step", "anneal", "stick_bound", "features", "forgetting", "delay"}
    assert not flags & idle
    assert idle <= every


@pytest.mark.usefixtures("blank_report")
def test_rows_to_come_are_told_of(table, tmp_path):
    """A prior that is not consistent has then an answer for new rows, and none without."""
    out = str(tmp_path / "out")
    asked = ["cluster", str(table), *SHORT, "--prior", "smooth-partition", "--out", out, "--quiet"]
    assert run([*asked, "--n-future", "3"]) == 0
    model = thali.load(tmp_path / "out" / "model.thali")
    X = pd.DataFrame(read_table(table).values, columns=model.feature_names_in_)
    assert model.predict(X[:3] + 0.1).shape == (3,)
    assert run([*asked, "--out", str(tmp_path / "none")]) == 0
    with pytest.raises(ValueError, match="n_future"):
        thali.load(tmp_path / "none" / "model.thali").predict(X[:3] + 0.1)
