"""thali topics: what it reads, what it writes, what it says, and what it refuses."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import save_npz

import thali
from thali.cli import run, texts
from thali.cli.outputs import TOPIC_FILES

SHORT = ["--sweeps", "10", "--thin", "1", "--chains", "2", "--seed", "3", "--init", "one_topic"]


@pytest.fixture(scope="module")
def data() -> thali.datasets.Corpus:
    return thali.datasets.topics(n=30, k=2, length=20, random_state=0)


@pytest.fixture(scope="module")
def table(data: thali.datasets.Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file of texts with names of documents."""
    path = tmp_path_factory.mktemp("data") / "docs.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["title", "Body", "year"])
        for i, row in enumerate(data.X.toarray().astype(int)):
            words = ", ".join(np.repeat(data.words, row))
            writer.writerow([f"letter {i}", f"The {words.upper()}.\nAnd so on; I.", 1990 + i % 3])
    return path


@pytest.fixture(scope="module")
def fitted(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    arguments = ["--text", "Body", "--min-df", "1", "--max-df", "1", "--out", str(out)]
    assert run(["topics", str(table), *arguments, *SHORT, "--quiet"]) == 0
    return out


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_writes_six_files_and_nothing_else(fitted: Path) -> None:
    assert sorted(os.listdir(fitted)) == sorted(TOPIC_FILES)
    page = (fitted / "report.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert "<bdi>letter " in page
    assert isinstance(thali.load(fitted / "model.thali"), thali.TopicModel)


def test_the_tables_hold_topics_words_and_shares(fitted: Path, data: thali.datasets.Corpus) -> None:
    model = thali.load(fitted / "model.thali")
    topics = pd.read_csv(fitted / "topics.csv", index_col="topic")
    assert len(topics) == json.loads((fitted / "summary.json").read_text())["n_components"]
    np.testing.assert_allclose(topics["words"], model.topic_sizes_)
    np.testing.assert_allclose(topics["share"] * data.X.sum(), model.topic_sizes_)
    np.testing.assert_allclose(topics["presence"], model.topic_presence_)
    np.testing.assert_allclose(topics["coherence"], model.coherence(10))
    words = pd.read_csv(fitted / "words.csv")
    assert set(words["word"]) <= set(data.words)
    first = words[words["topic"] == 0]
    assert topics["first_words"][0].split() == first["word"].tolist()[:10]
    np.testing.assert_allclose(first["probability"], -np.sort(-model.components_[0])[: len(first)])
    assert first["word"].tolist() == model.top_words(100)[0]
    documents = pd.read_csv(fitted / "documents.csv", index_col="document")
    assert list(documents.index) == [f"letter {i}" for i in range(30)]
    np.testing.assert_allclose(documents, model.document_topics_)


def test_texts_are_counted_as_they_are_written(table: Path, data: thali.datasets.Corpus) -> None:
    asked = texts.AskedTexts(text="Body", min_df=1, max_df=1.0)
    found = texts.read_documents(str(table), asked)
    assert found.words == data.words  # without stop words, single letters and capitals
    np.testing.assert_array_equal(found.X.toarray(), data.X.toarray())
    assert found.names == [f"letter {i}" for i in range(30)]
    named = texts.read_documents(str(table), asked._replace(names="year"))
    assert named.names is not None
    assert named.names[:2] == ["1990", "1991"]


def test_what_is_left_out_is_said(table: Path, data: thali.datasets.Corpus) -> None:
    n = (data.X > 0).sum(axis=0)
    found = texts.read_documents(str(table), texts.AskedTexts(text="Body", min_df=9, max_df=0.4))
    kept = [word for word, own in zip(data.words, n, strict=True) if 9 <= own <= 12]
    assert found.words == kept
    assert f"left out: {(n < 9).sum()} words in fewer than 9 documents" in found.notes[-1]
    every = texts.AskedTexts(text="Body", min_df=1, max_df=1.0, stop_words="none")
    assert {"the", "and", "so", "on"} < set(texts.read_documents(str(table), every).words or ())
    Path("stop.txt").write_text("The\nand\nrice\n", encoding="utf-8")
    own = texts.read_documents(str(table), every._replace(stop_words="stop.txt")).words or []
    assert not {"the", "and", "rice"} & set(own)
    assert "so" in own


@pytest.mark.usefixtures("blank_report")
def test_counts_in_a_table_and_in_a_sparse_file(
    data: thali.datasets.Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame(data.X.toarray().astype(int), columns=data.words)
    frame.to_csv("counts.csv", index=False)
    save_npz("counts.npz", data.X)
    Path("words.txt").write_text("\n".join(data.words) + "\n", encoding="utf-8")
    assert run(["topics", "counts.csv", *SHORT, "--out", "one"]) == 0
    said = capsys.readouterr().out
    assert f"30 documents, {data.X.sum():,.0f} words, {len(data.words)} different" in said
    assert re.search(r"\n  0: \w+, \w+, .* of words, presence \d+%\)", said)
    asked = ["topics", "counts.npz", "--vocabulary", "words.txt", *SHORT, "--out", "two"]
    assert run([*asked, "--quiet"]) == 0
    for name in ("topics.csv", "words.csv", "documents.csv"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


@pytest.mark.usefixtures("blank_report")
def test_a_flexible_prior_is_fitted_and_shown(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flexible = ["--prior", "hierarchical-flexible", "--learning", "exact", "--out", "out"]
    assert run(["topics", str(table), "--text", "Body", *SHORT, *flexible]) == 0
    assert "Chosen: Franchise, since DirectAssignment cannot run" in capsys.readouterr().out
    assert run(["show", "out/model.thali"]) == 0
    assert "presence" in capsys.readouterr().out


def test_help_states_the_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert run(["--help"]) == 0
    assert re.search(r"topics +Find topics in documents", capsys.readouterr().out)
    assert run(["topics", "--help"]) == 0
    said = capsys.readouterr().out
    for words in ("--text", "(english)", "(2)", "(0.5)", "franchise", "one_topic"):
        assert words in said
    assert "linear-gaussian" not in said
    assert f"({texts.MIN_DF})" in said
    assert f"({texts.MAX_DF})" in said


MISTAKES = {
    "file": (["nowhere.csv", "--text", "a"], "there is no file nowhere.csv"),
    "near file": (["text.cvs"], "did you mean text.csv?"),
    "folder": (["."], "is a folder; give a data file"),
    "near column": (["DATA", "--text", "body"], "has no column 'body'; did you mean 'Body'?"),
    "column": (["DATA", "--text", "zzz"], "Columns 'title' and 'Body' are of text."),
    "numbers": (["DATA", "--text", "year"], "column 'year' holds numbers, not texts; columns"),
    "no --text": (["DATA"], "column 'Body' is of text. Say which one holds the documents"),
    "text alone": (["text.csv"], "its words are counted: --text body"),
    "no header": (["nameless.csv"], "column '1' is of text. Say which one"),
    "empty": (["empty.csv", "--text", "body"], "every text in column 'body' is empty"),
    "no words": (["short.csv", "--text", "body"], "no words of two letters or more"),
    "none left": (["text.csv", "--text", "body"], "Lower --min-df (to 1), or raise --max-df"),
    "no column": (["text.npz", "--text", "body"], "--text needs a .csv, .tsv or .parquet file"),
    "option of texts": (["counts.csv", "--min-df", "2"], "--min-df is for texts"),
    "option of counts": (["DATA", "--text", "Body", "--vocabulary", "few.txt"], "are for counts"),
    "vocabulary": (
        ["counts.csv", "--vocabulary", "few.txt"],
        "--vocabulary few.txt has 1 word where counts.csv has 2 columns",
    ),
    "gap": (["gap.csv"], "no count at row 2, column 'dal'; a word that a document does not have"),
    "not whole": (["half.csv", *SHORT], "needs counts of words: whole numbers"),
    "share": (["DATA", "--text", "Body", "--max-df", "3"], "--max-df 3 is a share"),
    "stop words": (["DATA", "--text", "Body", "--stop-words", "x.txt"], "there is no file x.txt"),
    "engine": (
        ["counts.csv", "--prior", "hierarchical-flexible", "--engine", "direct-assignment"],
        "Franchise",
    ),
    "start": (["counts.csv", "--init", "counts.csv"], "--init: topics begin from a name"),
    "part of another": (["counts.csv", "--prior", "ibp"], "'hierarchical-flexible'"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_line_and_leaves_nothing(
    arguments: list[str], words: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text.csv").write_text('body\n"rice and more of the dal"\n"goal after goal again"\n')
    Path("nameless.csv").write_text('"rice and more of it"\n"goal after goal again"\n')
    Path("empty.csv").write_text('id,body\n1,""\n2,""\n')
    Path("short.csv").write_text('id,body\n1,"a b"\n2,"c the"\n')
    Path("counts.csv").write_text("rice,dal\n1,2\n3,0\n")
    Path("gap.csv").write_text("rice,dal\n1,2\n3,\n")
    Path("half.csv").write_text("rice,dal\n1,2\n3,0.5\n")
    Path("few.txt").write_text("rice\n")
    np.savez("text.npz", x=np.ones((2, 2)))
    before = sorted(os.listdir())
    assert run(["topics", *(str(table) if part == "DATA" else part for part in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert words in complaint
    assert sorted(os.listdir()) == before
