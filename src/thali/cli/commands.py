"""The command line: thali demo, fit, cluster, topics, show, report, impute and warm-up.

A command reads its options, calls the library and says in one line what went wrong.
Exit codes: 0 done, 1 failed, 2 bad input, 130 stopped by Ctrl-C.
"""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Annotated

import typer

import thali
from thali import datasets
from thali.cli import console, parts, texts
from thali.cli.clusters import at_work
from thali.cli.fitting import Read, fit_and_write, fit_rows
from thali.cli.options import (
    IMAGE_SHAPE,
    Center,
    Cluster,
    Columns,
    CorpusFile,
    DataFile,
    Future,
    Header,
    ImageShape,
    MaxDf,
    MinDf,
    Names,
    Out,
    Quiet,
    Resume,
    Saved,
    Scale,
    Seconds,
    Seed,
    StopWords,
    Text,
    Transpose,
    Types,
    Vocabulary,
)
from thali.cli.outputs import claim_folder
from thali.cli.rows import (
    Asked,
    lies_elsewhere,
    may_be_frame,
    rows_by_blocks,
    rows_by_content,
    rows_of_documents,
    rows_of_frame,
    rows_of_table,
)
from thali.data.columns import read_types
from thali.run.choices import AUTO

OUT = Path("thali-out")


BAD_INPUT = (
    *(ValueError, TypeError, FileNotFoundError, FileExistsError, PermissionError),
    *(IsADirectoryError, NotADirectoryError),
    FloatingPointError,  # data or scales beyond double precision
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error becomes one line on stderr."""
    try:
        code = make_app()(args=arguments, prog_name="thali", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        _complain("stopped by Ctrl-C; no results were written.")
        return 130
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError as error:
        _complain(f"not enough memory: {error or 'use fewer rows, columns or features'}")
        return 1
    except BAD_INPUT as error:
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


def _version(wanted: bool) -> None:
    if wanted:
        print(f"thali {thali.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find an unknown number of overlapping features, of clusters, or of topics in data."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    sweeps: Annotated[int, typer.Option(min=2, help="Sweeps of each chain.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and sampler.")] = 0,
) -> None:
    """Find the four images hidden in 100 noisy 6x6 pictures."""
    data = datasets.images(n=100, random_state=seed)
    print("100 noisy pictures of 6x6 pixels, each a sum of some of four hidden images.")
    model = thali.LatentFeatures(engine=thali.CollapsedGibbs(sweeps=sweeps), random_state=seed)
    with claim_folder(out):
        code = fit_and_write(model, data.X, out, data.image_shape, print, resumable=False)
    console.print_matching(model, data.A, ("cross", "box", "stair", "T"))
    print(f"Open {out / 'report.html'} in a browser.")
    raise typer.Exit(code)


def fit(
    data: DataFile,
    *,
    seed: Seed = None,
    center: Center = False,
    scaled: Scale = False,
    types: Types = None,
    transpose: Transpose = False,
    columns: Columns = None,
    header: Header = None,
    time_budget: Seconds = None,
    image_shape: ImageShape = None,
    out: Out = OUT,
    resume: Resume = False,
    quiet: Quiet = False,
    on_cluster: Cluster = None,
    **options: object,
) -> None:
    """Find overlapping features in a table and write them into a folder."""
    asked = Asked(
        data, seed, transpose, columns, header, time_budget, image_shape, out, resume, quiet
    )
    if on_cluster is not None:
        options["backend"] = "dask"
        if options["engine"] == AUTO:
            options["engine"] = "variational"
    settings = {"center": center, "scale": scaled}
    settings = {name: value for name, value in settings.items() if value}
    given = parts.Given(parts.FIT, _own_names(), options)
    name = given.likelihood_name()
    if types is not None and not parts.takes_tables(name):
        raise ValueError(
            "--types belongs to --likelihood mixed, mixed-factors or probit; "
            f"{name} takes numbers alone."
        )
    of_likelihood = {} if types is None else {"types": read_types(types)}
    framed = parts.takes_tables(name) and (name != AUTO or may_be_frame(asked))
    read: Read = rows_of_table
    if framed:
        by_content = name == AUTO and types is None
        of_frame = partial(rows_of_frame, of_likelihood.get("types", ()))
        read = rows_by_content if by_content else of_frame
    if lies_elsewhere(asked, on_cluster):
        read = rows_by_blocks
    with at_work(on_cluster):
        code = fit_rows(given, asked, read, settings, None, of_likelihood)
    raise typer.Exit(code)


def cluster(
    data: DataFile,
    *,
    seed: Seed = None,
    n_future: Future = 0,
    transpose: Transpose = False,
    columns: Columns = None,
    header: Header = None,
    time_budget: Seconds = None,
    image_shape: ImageShape = None,
    out: Out = OUT,
    resume: Resume = False,
    quiet: Quiet = False,
    **options: object,
) -> None:
    """Put the rows of a table in clusters and write them into a folder."""
    asked = Asked(
        data, seed, transpose, columns, header, time_budget, image_shape, out, resume, quiet
    )
    given = parts.Given(parts.CLUSTER, _own_names(), options)
    raise typer.Exit(fit_rows(given, asked, rows_of_table, of_fit={"n_future": n_future}))


def topics(
    data: CorpusFile,
    *,
    text: Text = None,
    names: Names = None,
    vocabulary: Vocabulary = None,
    stop_words: StopWords = None,
    min_df: MinDf = None,
    max_df: MaxDf = None,
    seed: Seed = None,
    transpose: Transpose = False,
    columns: Columns = None,
    header: Header = None,
    time_budget: Seconds = None,
    out: Out = OUT,
    resume: Resume = False,
    quiet: Quiet = False,
    **options: object,
) -> None:
    """Find topics in documents and write them into a folder."""
    asked = Asked(data, seed, transpose, columns, header, time_budget, None, out, resume, quiet)
    wanted = texts.AskedTexts(
        *(text, names, vocabulary, stop_words, min_df, max_df),
        *(parts.read_columns(columns), transpose, header),
    )
    given = parts.Given(parts.TOPICS, _own_names(), options)
    raise typer.Exit(fit_rows(given, asked, partial(rows_of_documents, wanted)))


def show(model: Saved) -> None:
    """Summarize a saved model."""
    console.print_summary(parts.load_model(model))


def report(
    model: Saved,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    image_shape: Annotated[str | None, typer.Option(**IMAGE_SHAPE)] = None,
) -> None:
    """Write the report of a saved model."""
    parts.load_model(model).report(out, image_shape=parts.read_image_shape(image_shape))
    print(f"Open {out} in a browser.")


def impute(
    model: Saved,
    data: DataFile,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("filled.csv"),
    interval: Annotated[
        float | None,
        typer.Option(help="Also the ends of the interval that holds this share, such as 0.9."),
    ] = None,
    header: Header = None,
) -> None:
    """Fill in what is missing in rows of a file, which may be new ones or lack columns."""
    from thali.cli.filling import fill_file

    print(fill_file(parts.load_model(model), Path(data), out, interval, header))


def warm_up(
    engine: Annotated[
        list[str] | None, typer.Option(help="An engine, or several; auto if not given.")
    ] = None,
    likelihood: Annotated[
        list[str] | None,
        typer.Option(help="A likelihood, or several; linear-gaussian and normal-wishart."),
    ] = None,
    missing: Annotated[bool, typer.Option("--missing", help="For data with gaps.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every engine with every likelihood that it can run.")
    ] = False,
) -> None:
    """Compile ahead what a first fit would compile, such as in an image of a machine."""
    from thali.cli import warming

    engines = warming.every_engine() if everything and not engine else engine or [AUTO]
    likelihoods = likelihood or warming.default_likelihoods()
    if everything and not likelihood:
        likelihoods = warming.every_likelihood()
    for line in warming.warm_up(engines, likelihoods, missing):
        print(line, flush=True)


def make_app() -> typer.Typer:
    """The command line, with the options of all parts that are registered now.

    Names of options and of parts may be written with underscores, as in Python.
    """
    app = typer.Typer(
        name="thali", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(_options)
    offers = ((fit, parts.FIT), (cluster, parts.CLUSTER), (topics, parts.TOPICS))
    fitting = [_with_options_of_parts(own, offer) for own, offer in offers]
    commands: list[Callable[..., None]] = [demo, *fitting, show, report, impute, warm_up]
    for command in commands:
        app.command(context_settings={"token_normalize_func": parts.hyphened})(command)
    return app


def _with_options_of_parts(command: Callable[..., None], offer: parts.Offer) -> Callable[..., None]:
    """The command with a parameter for each option of a part, where it has ``**options``."""

    @wraps(command)
    def call(*arguments: object, **options: object) -> None:
        command(*arguments, **options)

    data, *own = [p for p in _parameters(command) if p.kind != inspect.Parameter.VAR_KEYWORD]
    found = [data, *parts.parameters(offer, _own_names()), *own]
    call.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in found}
    return call


def _own_names() -> set[str]:
    """The parameters that ``fit``, ``cluster`` and ``topics`` have by themselves; no option of a
    part may have these names, in none of them, so that an option has one name in all."""
    own = {p.name for command in (fit, cluster, topics) for p in _parameters(command)}
    return own | set(parts.FAMILIES)


def _parameters(command: Callable[..., None]) -> list[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())
