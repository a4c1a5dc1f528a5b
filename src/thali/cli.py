"""The command line: thali demo, fit, show and report.

A command reads its options, calls the library and says in one line what went wrong.
Exit codes: 0 done, 1 failed, 2 bad input, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import csv
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from thali.tables import Table

__all__ = ["app", "main"]

app = typer.Typer(
    name="thali",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Find an unknown number of overlapping features in a table of numbers.",
)

BAD_INPUT = (ValueError, TypeError, FileNotFoundError, FileExistsError, PermissionError)
BAD_PLACE = (IsADirectoryError, NotADirectoryError)


class Prior(StrEnum):
    """Names of the priors on this command line."""

    ibp = "ibp"
    two_parameter_ibp = "two-parameter-ibp"
    beta_bernoulli = "beta-bernoulli"


class Likelihood(StrEnum):
    """Names of the likelihoods on this command line."""

    linear_gaussian = "linear-gaussian"


class Engine(StrEnum):
    """Names of the engines on this command line."""

    auto = "auto"
    collapsed_gibbs = "collapsed-gibbs"


# ------------------------------------------------------------------------------ errors and exits


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error becomes one line on stderr."""
    try:
        code = app(args=arguments, prog_name="thali", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        _complain("stopped before there was anything to keep; nothing was written.")
        return 130
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError as error:
        _complain(f"not enough memory: {error or 'use fewer rows, columns or features'}")
        return 1
    except (*BAD_INPUT, *BAD_PLACE) as error:
        _complain(error)
        return 2
    except OSError as error:
        _complain(error)
        return 1
    except Exception as error:  # the option parser's own errors, wherever their class lives
        if not hasattr(error, "format_message"):
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "thali")
        _complain(f"{error.format_message()} (see {command} --help)")
        return int(getattr(error, "exit_code", 2))
    return code if isinstance(code, int) else 0


def _complain(message: object) -> None:
    text = " ".join(str(message).split()) or type(message).__name__
    print(f"error: {text}", file=sys.stderr)


# ------------------------------------------------------------------------------------- commands


def _version(wanted: bool) -> None:
    if wanted:
        from thali import __version__

        print(f"thali {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find an unknown number of overlapping features in a table of numbers."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    sweeps: Annotated[int, typer.Option(min=2, help="Sweeps of each chain.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and sampler.")] = 0,
) -> None:
    """Find the four images hidden in 100 noisy 6x6 pictures."""
    import thali
    from thali import datasets
    from thali.console import print_matching
    from thali.outputs import claim_folder

    data = datasets.images(n=100, random_state=seed)
    print("100 noisy pictures of 6x6 pixels, each a sum of some of four hidden images.")
    model = thali.LatentFeatures(engine=thali.CollapsedGibbs(sweeps=sweeps), random_state=seed)
    with claim_folder(out):
        code = _fit_and_write(model, data.X, out, image_shape=data.image_shape, say=print)
    print_matching(model, data.A, ("cross", "box", "stair", "T"))
    print(f"Open {out / 'report.html'} in a browser.")
    raise typer.Exit(code)


@app.command()
def fit(
    data: Annotated[
        str, typer.Argument(help="A .csv, .tsv, .npy, .npz (or file.npz:name) or .parquet file.")
    ],
    prior: Annotated[Prior, typer.Option(help="Prior of the features' pattern.")] = Prior.ibp,
    alpha: Annotated[
        float | None, typer.Option(help="Expected features of a row; inferred if not given.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Second parameter of two-parameter-ibp (1).")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Largest number of features, for beta-bernoulli (10).")
    ] = None,
    likelihood: Annotated[
        Likelihood, typer.Option(help="How features make data.")
    ] = Likelihood.linear_gaussian,
    sigma_x: Annotated[
        float | None, typer.Option(help="Size of the noise; inferred if not given.")
    ] = None,
    sigma_a: Annotated[
        float | None, typer.Option(help="Size of the features; inferred if not given.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="How the model is inferred.")] = Engine.auto,
    sweeps: Annotated[
        int | None, typer.Option(min=1, help="Sweeps of each chain (1000; auto: fewer if large).")
    ] = None,
    burn_in: Annotated[
        int | None, typer.Option(min=0, help="First sweeps that are not kept (half).")
    ] = None,
    thin: Annotated[int | None, typer.Option(min=1, help="Keep one of so many sweeps (1).")] = None,
    chains: Annotated[int | None, typer.Option(min=1, help="Chains, run in parallel (4).")] = None,
    init: Annotated[
        str | None,
        typer.Option(help="race, ica, prior, empty, a .thali file, or a table of 0 and 1 (race)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed; drawn and printed if not given.")
    ] = None,
    center: Annotated[bool, typer.Option("--center", help="Subtract column means first.")] = False,
    transpose: Annotated[bool, typer.Option("--transpose", help="Swap rows and columns.")] = False,
    columns: Annotated[str | None, typer.Option(help="Columns of the file to use: a,b,c.")] = None,
    time_budget: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Stop after so many seconds.")
    ] = None,
    image_shape: Annotated[
        str | None, typer.Option(metavar="HxW", help="Show rows as images, for example 28x28.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("thali-out"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the unfinished run in --out.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Fit a model to a table and write what it found into a folder."""
    import thali
    from thali.outputs import claim_folder
    from thali.tables import read_table

    say = _silence if quiet else print
    chosen_prior = _prior(prior, alpha, beta, features)
    chosen_likelihood = thali.LinearGaussian(**_given(sigma_x=sigma_x, sigma_a=sigma_a))
    settings = _given(sweeps=sweeps, burn_in=burn_in, thin=thin, chains=chains, init=_init(init))
    thali.CollapsedGibbs(**settings)  # refuses bad settings before the data are read
    shape = _image_shape(image_shape)
    table = read_table(data, transpose=transpose, columns=_columns(columns))
    if shape is not None and shape[0] * shape[1] != table.values.shape[1]:
        raise ValueError(
            f"--image-shape {image_shape} needs {shape[0] * shape[1]} columns; "
            f"the table has {table.values.shape[1]}."
        )
    say(_describe(data, table))
    model = thali.LatentFeatures(
        prior=chosen_prior,
        likelihood=chosen_likelihood,
        engine=_engine(engine, settings, table, say),
        center=center,
        random_state=_seed(seed, out, resume, say),
        progress=False if quiet else "auto",
    )
    with claim_folder(out):
        try:
            code = _fit_and_write(
                model, _frame(table), out, shape, say, resume=resume, time_budget=time_budget
            )
        except ValueError as error:
            raise ValueError(_with_places(data, table, error)) from error
    say(f"{model.n_features_} features, log joint {model.log_joint_:,.2f}.")
    say(f"Written to {out}: open {out / 'report.html'} in a browser.")
    raise typer.Exit(code)


@app.command()
def show(
    model: Annotated[Path, typer.Argument(help="A saved model, such as model.thali.")],
) -> None:
    """Summarise a saved model."""
    from thali.console import print_summary

    print_summary(_load(model))


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="A saved model, such as model.thali.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    image_shape: Annotated[
        str | None, typer.Option(metavar="HxW", help="Show rows as images, for example 28x28.")
    ] = None,
) -> None:
    """Write the report of a saved model."""
    shape = _image_shape(image_shape)
    fitted = _load(model)
    if out.is_dir():
        raise IsADirectoryError(f"--out {out} is a folder; name a file such as report.html.")
    if not out.parent.is_dir():
        raise NotADirectoryError(f"--out {out}: there is no folder {out.parent}; make it first.")
    part = out.with_name(f".{out.name}.part")
    try:
        fitted.report(part, image_shape=shape)
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    print(f"Open {out} in a browser.")


# ----------------------------------------------------------------------------- running and saving


def _fit_and_write(
    model: Any,
    X: Any,
    out: Path,
    image_shape: tuple[int, int] | None,
    say: Callable[[str], None],
    *,
    resume: bool = False,
    time_budget: float | None = None,
) -> int:
    """Fit, write the outputs, and return the exit code."""
    from thali.outputs import CHECKPOINT, write_outputs

    checkpoint, earlier = out / CHECKPOINT, out / "checkpoint.previous.thali"
    if resume and not checkpoint.exists():
        say(f"There is no unfinished run in {out}; starting afresh.")
        resume = False
    replaces = checkpoint.exists() and not resume
    if replaces:
        os.replace(checkpoint, earlier)
        say(f"Starting afresh; the unfinished run that lay there is kept as {earlier}.")
    try:
        model.fit(X, checkpoint=checkpoint, resume=resume, time_budget=time_budget)
    except BaseException:
        if not resume:
            checkpoint.unlink(missing_ok=True)
        if replaces:
            os.replace(earlier, checkpoint)
        raise
    try:
        write_outputs(model, out, image_shape)
    except OSError as error:
        hint = f"; --resume continues from {checkpoint}" if checkpoint.exists() else ""
        raise OSError(f"the results could not be written to {out} ({error}){hint}") from error
    if model.stopped_ == "finished":
        checkpoint.unlink(missing_ok=True)
        return 0
    why = "Stopped by Ctrl-C" if model.stopped_ == "interrupted" else "The time budget is spent"
    say(f"{why}: what was computed is kept; --resume continues this run.")
    return 130 if model.stopped_ == "interrupted" else 0


def _frame(table: Table) -> Any:
    """The table as pandas, where it has names for the model to keep."""
    if table.column_names is None and table.row_names is None:
        return table.values
    import pandas as pd

    return pd.DataFrame(table.values, index=table.row_names, columns=table.column_names)


def _seed(seed: int | None, out: Path, resume: bool, say: Callable[[str], None]) -> int:
    """The given seed, or that of the run to be resumed, or a new one."""
    from thali import storage
    from thali.outputs import CHECKPOINT

    if seed is None and resume and (out / CHECKPOINT).exists():
        _, meta = storage.read(out / CHECKPOINT, "checkpoint")
        return int(meta["fingerprint"]["the seed"])
    if seed is None:
        seed = secrets.randbelow(2**31)
        say(f"seed: {seed} (drawn; --seed {seed} repeats this run)")
    return seed


def _load(path: Path) -> Any:
    import thali
    from thali.tables import check_file

    check_file(path, "a saved model")
    return thali.load(path)


# ------------------------------------------------------------------------------ reading options


def _prior(name: Prior, alpha: float | None, beta: float | None, features: int | None) -> Any:
    import thali

    if beta is not None and name is not Prior.two_parameter_ibp:
        raise ValueError(f"--beta belongs to --prior two-parameter-ibp; {name.value} has none.")
    if features is not None and name is not Prior.beta_bernoulli:
        raise ValueError(
            f"--features belongs to --prior beta-bernoulli; {name.value} infers the number."
        )
    classes = {
        Prior.ibp: thali.IBP,
        Prior.two_parameter_ibp: thali.TwoParameterIBP,
        Prior.beta_bernoulli: thali.BetaBernoulli,
    }
    return classes[name](**_given(alpha=alpha, beta=beta, n_features=features))


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; the library has the defaults of the others."""
    return {name: value for name, value in options.items() if value is not None}


def _engine(
    name: Engine, settings: dict[str, Any], table: Table, say: Callable[[str], None]
) -> Any:
    from thali.choices import choose_engine
    from thali.data import Data

    engine = choose_engine(name.value, Data(table.values)).replace(**settings)
    if name is Engine.auto:
        say(f"engine: {type(engine).__name__}, {engine.sweeps} sweeps (chosen by auto)")
    return engine


def _init(text: str | None) -> Any:
    """A start by name, or the model or table in a file."""
    if text is None:
        return None
    suffix = Path(text.split(".npz:")[0]).suffix.lower()
    if suffix == ".thali":
        return _load(Path(text))
    if suffix in {".csv", ".tsv", ".npy", ".npz", ".parquet"} or ".npz:" in text:
        from thali.tables import read_table

        return read_table(text).values
    return text


def _columns(text: str | None) -> list[str] | None:
    """Names between commas; one that holds a comma is quoted, as in a CSV file."""
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def _image_shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) != 2 or not all(side.strip().isdecimal() and int(side) for side in sides):
        raise ValueError(f"--image-shape {text!r} is not HEIGHTxWIDTH; write it like 28x28.")
    return int(sides[0]), int(sides[1])


# --------------------------------------------------------------------------------------- saying


def _silence(message: str) -> None:
    """Say nothing."""


def _describe(name: str, table: Table) -> str:
    n, d = table.values.shape
    columns = "named columns" if table.column_names is not None else "columns without names"
    rows = "named rows" if table.row_names is not None else "rows without names"
    return f"{name}: {n} x {d}, {rows}, {columns}"


def _with_places(name: str, table: Table, error: ValueError) -> str:
    """Say in the file's own words where entries are missing or infinite, if that is the trouble."""
    import numpy as np

    X = table.values
    if np.isfinite(X).all():
        return str(error)
    missing = bool(np.isnan(X).any())
    bad = np.isnan(X) if missing else np.isinf(X)
    places = "; ".join(_place(table, i, j) for i, j in np.argwhere(bad)[:3])
    kind = "missing" if missing else "infinite"
    cure = "drop those rows or columns, or fill them in first."
    return (
        f"{name}: {int(bad.sum())} of {X.size} entries are {kind} (first: {places}). "
        f"{kind.capitalize()} entries are not supported by this engine: {cure}"
    )


def _place(table: Table, i: np.intp, j: np.intp) -> str:
    row = f"row {i + 1}" if table.row_names is None else f"row {table.row_names[i]!r}"
    names = table.column_names
    return f"{row}, column {j + 1 if names is None else repr(names[j])}"
