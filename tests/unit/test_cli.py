"""The command line: what it writes, what it says, and what it leaves behind when it fails."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import thali
from thali import datasets
from thali.cli import parts, run
from thali.cli.outputs import FILES
from thali.data.tables import read_table
from thali.engines import chain_settings

SHORT = ["--sweeps", "20", "--chains", "2"]
SUMMARY = [
    "n_components",
    "log_joint",
    "missing",
    "engine",
    "prior",
    "likelihood",
    "choice",
    "seed",
    "seconds",
    "findings",
]
SUMMARY += ["rhat", "ess"]


def command(*arguments: object, **options) -> subprocess.Popen:
    """Start `thali` in a process of its own."""
    code = "from thali.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return datasets.images(n=30, random_state=1).X


@pytest.fixture(scope="module")
def plates(X, tmp_path_factory) -> Path:
    """A CSV file with names for rows and columns."""
    path = tmp_path_factory.mktemp("data") / "plates.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["plate", *(f"pixel {j}" for j in range(36))])
        writer.writerows([f"plate {i}", *row] for i, row in enumerate(X.tolist()))
    return path


@pytest.fixture(scope="module")
def fitted(plates, tmp_path_factory) -> Path:
    """The folder of one short run."""
    out = tmp_path_factory.mktemp("run") / "deep" / "out"
    arguments = ["fit", str(plates), *SHORT, "--seed", "3", "--out", str(out), "--quiet"]
    assert run(arguments) == 0
    return out


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# --------------------------------------------------------------------------------- what is written


def test_fit_writes_five_files_and_nothing_else(fitted):
    assert names(fitted) == sorted(FILES)
    assert names(fitted.parent) == ["out"]  # nothing is left beside the folder


def test_the_summary_is_valid_json_with_the_stated_keys(fitted):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    summary = json.loads((fitted / "summary.json").read_text(), parse_constant=refuse)
    model = thali.load(fitted / "model.thali")
    assert list(summary) == SUMMARY
    assert summary["seed"] == 3
    assert summary["n_components"] == model.n_components_
    assert summary["log_joint"] == model.log_joint_
    assert summary["prior"] == repr(model.prior_)
    assert set(summary["rhat"]) == {"n_components", "alpha", "sigma_x", "sigma_a", "log_joint"}
    assert set(summary["ess"]) == set(summary["rhat"])


def test_the_tables_hold_the_model_under_the_names_of_the_file(fitted, plates):
    model = thali.load(fitted / "model.thali")
    table = read_table(plates)
    features = read_table(fitted / "features.csv")
    assert features.column_names == table.column_names
    assert features.row_names is None
    np.testing.assert_array_equal(features.values, model.components_)
    assignments = read_table(fitted / "assignments.csv")
    assert assignments.row_names == table.row_names
    assert assignments.column_names == [f"feature_{k + 1}" for k in range(model.n_components_)]
    np.testing.assert_array_equal(assignments.values, model.Z_)
    np.testing.assert_array_equal(model.X_, table.values)


def test_the_report_is_whole(fitted):
    text = (fitted / "report.html").read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")


@pytest.mark.usefixtures("blank_report")
def test_a_file_without_names_gets_numbers(X, tmp_path):
    np.save("x.npy", X)
    assert run(["fit", "x.npy", *SHORT, "--seed", "3", "-q", "--out", "out"]) == 0
    assert read_table("out/features.csv").column_names[:2] == ["column_1", "column_2"]
    assert read_table("out/assignments.csv").row_names[:2] == ["1", "2"]


def test_the_same_seed_gives_the_same_files(fitted, plates):
    assert run(["fit", str(plates), *SHORT, "--seed", "3", "--out", "again", "--quiet"]) == 0
    for name in ("features.csv", "assignments.csv"):
        assert Path("again", name).read_bytes() == (fitted / name).read_bytes()


def test_a_second_run_replaces_the_files_and_leaves_others_alone(fitted, plates, capsys):
    Path("out").mkdir()
    Path("out", "notes.txt").write_text("mine")
    Path("out", "summary.json").write_text("old")
    assert run(["fit", str(plates), *SHORT, "--seed", "3", "--out", "out"]) == 0
    assert names(Path("out")) == sorted([*FILES, "notes.txt"])
    assert Path("out", "summary.json").read_text() != "old"


@pytest.mark.usefixtures("blank_report")
def test_options_reach_the_model(plates):
    options = {
        "--prior": "two-parameter-ibp", "--alpha": 1.5, "--beta": 2, "--sigma-x": 0.5,
        "--sigma-a": 0.4, "--engine": "collapsed-gibbs", "--sweeps": 9, "--burn-in": 3,
        "--thin": 2, "--chains": 1, "--init": "empty", "--seed": 7,
        "--columns": "pixel 3,pixel 1,pixel 2", "--out": "out",
    }  # fmt: skip
    arguments = [str(part) for pair in options.items() for part in pair]
    assert run(["fit", str(plates), *arguments, "--center", "--quiet"]) == 0
    model = thali.load("out/model.thali")
    assert model.prior_ == thali.TwoParameterIBP(alpha=1.5, beta=2.0)
    assert (model.likelihood_.sigma_x, model.likelihood_.sigma_a) == (0.5, 0.4)
    engine = model.engine_
    assert (engine.sweeps, engine.burn_in, engine.thin, engine.chains) == (9, 3, 2, 1)
    assert list(model.feature_names_in_) == ["pixel 3", "pixel 1", "pixel 2"]
    assert model.seed_ == 7
    columns = read_table(plates, columns=["pixel 3", "pixel 1", "pixel 2"]).values
    np.testing.assert_allclose(model.mean_, columns.mean(axis=0))
    assert model.starts_ == ["empty"]


def test_a_likelihood_by_name_brings_an_engine_that_can_run_it(plates, tmp_path, capsys):
    arguments = ["fit", str(plates), *SHORT, "--init", "prior", "--seed", "3", "--out", "o"]
    assert run([*arguments, "--likelihood", "nonnegative-linear-gaussian"]) == 0
    assert (
        "Chosen: UncollapsedGibbs, since CollapsedGibbs cannot run IBP" in capsys.readouterr().out
    )
    model = thali.load(tmp_path / "o" / "model.thali")
    assert isinstance(model.likelihood_, thali.NonnegativeLinearGaussian)
    assert (model.components_ >= 0.0).all()


def test_the_settings_of_an_optimizer_are_read(plates, tmp_path, capsys):
    arguments = ["--likelihood", "nonnegative-linear-gaussian", "--truncation", "5"]
    arguments += ["--engine", "maximization_expectation", "--solver", "local_search"]
    assert run(["fit", str(plates), *arguments, "--n-init", "1", "--seed", "3", "--out", "o"]) == 0
    assert "Bound of the log evidence" in capsys.readouterr().out
    model = thali.load(tmp_path / "o" / "model.thali")
    assert model.engine_ == thali.MaximizationExpectation(
        solver="local_search", truncation=5, n_init=1
    )


def test_the_rates_of_noisy_or_are_read(tmp_path):
    X = thali.datasets.draw(thali.IBP(2.0), thali.NoisyOr(0.01, 0.9, 0.1), n=8, d=12).X
    np.save(tmp_path / "nodes.npy", X)
    rates = ["--epsilon", "0.02", "--lam", "0.7", "--p", "0.2"]
    arguments = ["--likelihood=noisy_or", *rates, "--init", "prior", "--out", "out", "--quiet"]
    assert run(["fit", "nodes.npy", *SHORT, *arguments]) == 0
    assert thali.load("out/model.thali").likelihood_ == thali.NoisyOr(0.02, 0.7, 0.2)


@pytest.mark.usefixtures("blank_report")
@pytest.mark.parametrize("name", ["beta-bernoulli", "beta_bernoulli"])
def test_beta_bernoulli_keeps_to_its_number_of_features(name, plates):
    arguments = ["--prior", name, "--n-components", "2", "--out", "out", "--quiet"]
    assert run(["fit", str(plates), *SHORT, *arguments]) == 0
    assert thali.load("out/model.thali").n_components_ <= 2


@pytest.mark.usefixtures("blank_report")
def test_transpose_fits_the_columns(plates):
    assert run(["fit", str(plates), *SHORT, "--transpose", "--out", "out", "--quiet"]) == 0
    model = thali.load("out/model.thali")
    assert model.Z_.shape[0] == 36
    assert model.row_names_[:2] == ["pixel 0", "pixel 1"]
    assert model.feature_names_in_[0] == "plate 0"


@pytest.mark.usefixtures("blank_report")
def test_a_run_can_start_from_a_model_or_a_table(fitted, plates):
    for k, start in enumerate((fitted / "model.thali", fitted / "assignments.csv")):
        arguments = ["--init", str(start), "--out", f"out{k}", "--quiet"]
        assert run(["fit", str(plates), *SHORT, *arguments]) == 0


def test_what_is_not_given_is_left_to_the_library(plates, monkeypatch):
    assert chain_settings.MOST == 1000
    for most in ("MOST", "MOST_OF_ALL"):  # whether starts agree or not
        monkeypatch.setattr(chain_settings, most, 130)
    assert run(["fit", str(plates), "--quiet", "--out", "out"]) == 0
    model = thali.load("out/model.thali")
    assert model.engine_ == thali.CollapsedGibbs(sweeps=130)
    assert model.prior_ == thali.IBP()


# ------------------------------------------------------------------------------------ what is said


@pytest.mark.usefixtures("blank_report")
def test_a_run_without_seed_draws_one_and_says_it(plates, capsys):
    assert run(["fit", str(plates), *SHORT, "--out", "a"]) == 0
    said = capsys.readouterr().out
    seed = re.search(r"--seed (\d+) repeats this run", said).group(1)
    assert json.loads(Path("a/summary.json").read_text())["seed"] == int(seed)
    assert run(["fit", str(plates), *SHORT, "--out", "b", "--seed", seed]) == 0
    assert Path("a/assignments.csv").read_bytes() == Path("b/assignments.csv").read_bytes()


@pytest.mark.usefixtures("blank_report")
def test_a_run_says_what_it_read_and_where_to_look(plates, capsys):
    assert run(["fit", str(plates), *SHORT, "--out", "out"]) == 0
    said = capsys.readouterr().out
    assert "30 x 36, named rows, named columns; row names from column 'plate'" in said
    assert "\nChosen: LinearGaussian, since X has 36 real columns in like units" in said
    assert "\nChosen: CollapsedGibbs, since it samples the model exactly.\n" in said
    assert "open out/report.html" in said


def test_the_command_line_judges_as_the_report_does(fitted, plates, capsys):
    assert run(["fit", str(plates), *SHORT, "--seed", "3", "--out", "out"]) == 0
    found = thali.load("out/model.thali").convergence()
    assert f"\n{found.headline} {found.advice}\n" in capsys.readouterr().out
    assert found.headline in Path("out/report.html").read_text(encoding="utf-8")
    assert run(["show", str(fitted / "model.thali")]) == 0
    assert f"\n{found.headline} {found.advice}\n" in capsys.readouterr().out


def test_quiet_says_nothing(plates, capfd):
    assert run(["fit", str(plates), *SHORT, "--out", "out", "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("blank_report")
def test_the_header_is_guessed_aloud_and_can_be_told(capsys):
    Path("t.csv").write_text("2001,2002,2003\n0.1,0.2,0.7\n0.3,0.1,0.4\n")
    for option, size in (([], "2 x 3"), (["--header"], "2 x 3"), (["--no-header"], "3 x 3")):
        assert run(["fit", "t.csv", *SHORT, "--out", "out", *option]) == 0
        line = capsys.readouterr().out.splitlines()[0]
        assert line.startswith(f"t.csv: {size}")
        assert ("first row read as names of columns (--no-header" in line) is (not option)


def test_show_summarizes_a_model(fitted, capsys):
    assert run(["show", str(fitted / "model.thali")]) == 0
    said = capsys.readouterr().out
    for words in ("30 rows x 36 columns", "IBP(alpha=Gamma", "R-hat", "sigma_x", "rows having it"):
        assert words in said


def test_report_writes_a_report_again(fitted, capsys):
    model = str(fitted / "model.thali")
    assert run(["report", model]) == 0
    assert run(["report", model, "--out", "images.html", "--image-shape", "6x6"]) == 0
    assert names(Path()) == ["images.html", "report.html"]
    assert "Open images.html in a browser." in capsys.readouterr().out


def test_version_and_help(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"thali {thali.__version__}\n"
    assert run(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("demo", "fit", "cluster", "show", "report"))


def test_numbers_beyond_double_precision_are_one_line(plates, capsys, monkeypatch):
    def lost(*_, **__):
        raise FloatingPointError("The density of row 3 is not a number; rescale the data.")

    monkeypatch.setattr(thali.LatentFeatures, "fit", lost)
    assert run(["fit", str(plates), *SHORT, "--out", "out", "--quiet"]) == 2
    assert capsys.readouterr().err == (
        "error: The density of row 3 is not a number; rescale the data.\n"
    )


def test_help_names_every_start(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["fit", "--help"]) == 0
    assert ", ".join(parts.FIT.start_names()) in " ".join(
        capsys.readouterr().out.replace("│", " ").split()
    )


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from thali.cli import run; run(['fit', '--help'])\n"
        "heavy = {'numba', 'arviz', 'matplotlib', 'xarray'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_demo_finds_the_four_images(capsys):
    assert run(["demo", "--sweeps", "200"]) == 0
    said = capsys.readouterr().out
    rows = re.findall(r"│ +\d+ +│ +(cross|box|stair|T) +│ +([\d.]+) +│ +\d+ +│", said)
    assert sorted(name for name, _ in rows) == ["T", "box", "cross", "stair"]
    assert all(float(correlation) > 0.95 for _, correlation in rows)
    assert "Open demo/report.html in a browser." in said
    assert names(Path("demo")) == sorted(FILES)


# --------------------------------------------------------------------------------- what goes wrong

MISTAKES = {
    "command": (["fti"], "No such command 'fti'. Did you mean 'fit'?"),
    "no data": (["fit"], "Missing argument"),
    "option": (["fit", "DATA", "--sweep", "9"], "--sweeps"),
    "number": (["fit", "DATA", "--sweeps", "many"], "--sweeps"),
    "fraction": (["fit", "DATA", "--sweeps", "1.5"], "--sweeps"),
    "no sweeps": (["fit", "DATA", "--sweeps", "0"], "--sweeps"),
    "no chains": (["fit", "DATA", "--chains", "0"], "--chains"),
    "prior": (["fit", "DATA", "--prior", "ipb"], "'two-parameter-ibp'"),
    "likelihood": (["fit", "DATA", "--likelihood", "gaussian"], "'linear-gaussian'"),
    "engine": (["fit", "DATA", "--engine", "gibbs"], "'collapsed-gibbs'"),
    "solver": (["fit", "DATA", "--solver", "fast"], "'local-search'"),
    "start": (["fit", "DATA", "--init", "rase"], "Did you mean 'race'?"),
    "alpha": (["fit", "DATA", "--alpha", "-1"], "alpha must be positive and finite, not -1.0"),
    "sigma": (["fit", "DATA", "--sigma-x", "0"], "sigma_x must be positive and finite, not 0.0"),
    "rate": (
        ["fit", "DATA", "--likelihood", "noisy-or", "--lam", "1"],
        "lam must lie between 0 and 1",
    ),
    "no rate": (
        ["fit", "DATA", "--likelihood", "linear-gaussian", "--epsilon", "0.1"],
        "--epsilon belongs to --likelihood noisy-or",
    ),
    "beta": (["fit", "DATA", "--beta", "1"], "--beta belongs to --prior two-parameter-ibp"),
    "features": (
        ["fit", "DATA", "--n-components", "5"],
        "--n-components belongs to --prior beta-bernoulli",
    ),
    "no features": (
        ["fit", "DATA", "--prior", "beta-bernoulli", "--n-components", "0"],
        "n_components must be at least 1, not 0",
    ),
    "burn-in": (["fit", "DATA", "--sweeps", "9", "--burn-in", "9"], "leaves nothing of 9 sweeps"),
    "seed": (["fit", "DATA", "--seed", "-1"], "--seed"),
    "time": (["fit", "DATA", "--time-budget", "-1"], "--time-budget -1 is no time"),
    "no time": (["fit", "nowhere.csv", "--time-budget", "0"], "--time-budget 0 is no time to run"),
    "no number of seconds": (["fit", "DATA", "--time-budget", "nan"], "--time-budget nan"),
    "column": (["fit", "DATA", "--columns", "pixel1"], "did you mean 'pixel 1'"),
    "no columns": (["fit", "DATA", "--columns", ""], "no columns are chosen"),
    "shape": (["fit", "DATA", "--image-shape", "6by6"], "is not HEIGHTxWIDTH"),
    "wrong shape": (["fit", "DATA", "--image-shape", "6x7"], "needs 42 columns; the table has 36"),
    "file": (["fit", "nowhere.csv"], "there is no file nowhere.csv"),
    "folder": (["fit", "."], "is a folder; give a data file"),
    "model": (["show", "nowhere.thali"], "there is no file nowhere.thali"),
    "model folder": (["show", "."], "is a folder; give a saved model"),
    "no model": (["show", "DATA"], "not a thali model"),
    "out is a file": (["fit", "DATA", "--out", "DATA"], "is a file; name a folder"),
    "out below a file": (["fit", "DATA", "--out", "DATA/out"], "cannot write there"),
    "out of reach": (["fit", "DATA", "--out", "/proc/thali/out"], "cannot write there"),
    "report to a folder": (["report", "MODEL", "--out", "."], "is a folder; name a file"),
    "report nowhere": (["report", "MODEL", "--out", "a/b.html"], "the folder a does not exist"),
    "report shape": (["report", "MODEL", "--image-shape", "6x7"], "36"),
    "start of other size": (["fit", "DATA", "--init", "MODEL", "--transpose"], "rows"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_line_and_leaves_nothing(arguments, words, plates, fitted, capsys):
    places = {"DATA": str(plates), "MODEL": str(fitted / "model.thali")}
    arguments = [re.sub("^(DATA|MODEL)", lambda m: places[m[0]], part) for part in arguments]
    assert run(arguments) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert words in complaint
    assert names(Path()) == []


def test_missing_entries_are_counted_and_filled_in(tmp_path, capsys):
    text = "plate,rice,dal\nMonday,1,NA\nTuesday,,2\nFriday,3,4\n"
    Path("plates.csv").write_text(text)
    plain = ["--likelihood", "linear-gaussian", "--out", "out", "--seed", "1", *SHORT]
    assert run(["fit", "plates.csv", *plain]) == 0
    said = capsys.readouterr().out
    assert "plates.csv: 3 x 2, named rows, named columns, 2 of 6 entries missing" in said
    assert "2 missing entries were filled in: out/imputed.csv." in said
    assert names(Path("out")) == sorted([*FILES, "imputed.csv"])
    filled = read_table("out/imputed.csv")
    assert filled.column_names == ["rice", "dal"]
    assert filled.row_names == ["Monday", "Tuesday", "Friday"]
    assert filled.values[0, 0] == 1.0
    assert np.isfinite(filled.values).all()
    assert json.loads(Path("out/summary.json").read_text())["missing"] == 2
    assert "missing entries, imputed" in Path("out/report.html").read_text(encoding="utf-8")
    assert run(["show", "out/model.thali"]) == 0
    assert "2 entries missing" in capsys.readouterr().out
    Path("plates.csv").write_text(text.replace("NA", "5").replace(",,", ",5,"))
    assert run(["fit", "plates.csv", *plain]) == 0
    assert names(Path("out")) == sorted(FILES)  # nothing of the earlier data is left


def test_infinite_entries_are_located_by_name(tmp_path, capsys):
    Path("n.csv").write_text("1,2\n3,inf\n")
    assert run(["fit", "n.csv"]) == 2
    assert "1 of 4 entries are infinite (first: row 2, column 2)" in capsys.readouterr().err
    assert names(Path()) == ["n.csv"]


def test_a_failing_run_puts_back_what_it_found(plates, capsys):
    Path("out").mkdir()
    Path("out/checkpoint.thali").write_text("an unfinished run")
    Path("bad.csv").write_text("1,2\n3,inf\n")
    assert run(["fit", "bad.csv", "--out", "out"]) == 2
    assert run(["fit", str(plates), "--resume", "--out", "out"]) == 2
    assert Path("out/checkpoint.thali").read_text() == "an unfinished run"
    assert names(Path("out")) == ["checkpoint.thali"]


def test_results_that_cannot_be_written_are_not_half_written(plates, fitted):
    """The run of ``fitted`` has compiled what this one needs, so that only results are written."""

    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    process = command(
        "fit", plates, *SHORT, "--out", "out", "--quiet",
        preexec_fn=small_files_only,
    )  # fmt: skip
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 1, complaint
    assert "File too large" in complaint
    assert "could not be written to out" in complaint
    assert names(Path()) == []


# --------------------------------------------------------------------------- stopping and resuming


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen]:
    """A command that has written its first checkpoint; killed at the end, if it still runs."""
    process = command(*arguments)
    checkpoint = Path(str(arguments[-1]), "checkpoint.thali")
    end = time.monotonic() + 120
    try:
        while not checkpoint.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, f"{checkpoint} did not appear"
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_keeps_what_was_computed(plates):
    with running("fit", plates, "--sweeps", 10**7, "--out", "out") as process:
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=200)
    assert process.returncode == 130, complaint
    assert "Stopped by Ctrl-C: what was computed is kept; --resume continues" in said
    assert set(FILES) <= set(names(Path("out")))
    model = thali.load("out/model.thali")
    assert model.stopped_ == "interrupted"
    assert model.n_components_ > 0


@pytest.mark.slow
def test_a_killed_run_resumed_ends_as_one_never_killed(plates):
    """The seed is drawn by the first run; the resumed one takes it from the checkpoint."""
    settings = ["--sweeps", 10_000, "--chains", 2, "--thin", 100]
    with running("fit", plates, *settings, "--out", "killed") as process:
        process.kill()
    assert names(Path("killed")) == ["checkpoint.thali"]  # it did not end before it was killed
    arguments = ["fit", str(plates), *map(str, settings), "--quiet"]
    assert run([*arguments, "--resume", "--out", "killed"]) == 0
    seed = json.loads(Path("killed/summary.json").read_text())["seed"]
    assert run([*arguments, "--seed", str(seed), "--out", "whole"]) == 0
    assert names(Path("killed")) == names(Path("whole")) == sorted(FILES)
    for name in ("features.csv", "assignments.csv"):
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
    one, other = (thali.load(f"{out}/model.thali") for out in ("killed", "whole"))
    for name, history in one.history_.items():
        np.testing.assert_array_equal(history, other.history_[name])


def test_a_checkpoint_of_another_run_is_refused_and_kept(plates, capsys):
    with running("fit", plates, "--sweeps", 10**7, "--seed", 1, "--out", "out") as process:
        process.kill()
    before = Path("out/checkpoint.thali").read_bytes()
    for other in (["--sweeps", "99"], ["--alpha", "3"], ["--seed", "2"], ["--transpose"]):
        assert run(["fit", str(plates), *other, "--resume", "--out", "out"]) == 2
        assert "belongs to another run" in capsys.readouterr().err
    assert Path("out/checkpoint.thali").read_bytes() == before


@pytest.mark.usefixtures("blank_report")
def test_resuming_nothing_starts_afresh_and_says_so(plates, capsys):
    assert run(["fit", str(plates), *SHORT, "--resume", "--out", "out"]) == 0
    assert "no unfinished run in out; starting afresh" in capsys.readouterr().out
    assert names(Path("out")) == sorted(FILES)


@pytest.mark.usefixtures("blank_report")
def test_a_time_budget_stops_the_run_and_keeps_it(plates, fitted, capsys):
    arguments = ["--sweeps", "10000000", "--init", "empty", "--time-budget", "2", "--out", "out"]
    assert run(["fit", str(plates), *arguments]) == 0
    said = capsys.readouterr().out
    assert "The time budget is spent: what was computed is kept; --resume continues" in said
    assert thali.load("out/model.thali").stopped_ == "time budget"
    before = Path("out/checkpoint.thali").read_bytes()
    assert run(["fit", str(plates), *SHORT, "--out", "out"]) == 0  # another run in the same folder
    assert Path("out/checkpoint.previous.thali").read_bytes() == before
    assert "kept as out/checkpoint.previous.thali" in capsys.readouterr().out
