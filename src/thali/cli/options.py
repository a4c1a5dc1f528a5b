"""What commands that fit can be told besides the settings of parts: options, with their words."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

inference = partial(typer.Option, rich_help_panel="Inference")
data = partial(typer.Option, rich_help_panel="Data")
results = partial(typer.Option, rich_help_panel="Results")
CORPORA = (
    "A .csv, .tsv or .parquet file: with --text a column of texts, else counts with words as "
    "header; or a .npz (sparse) or .npy matrix of counts."
)
FORMATS = "A .csv, .tsv, .npy, .npz (or file.npz:name), .parquet or .zarr file."
HEADER = "Whether the first row of a .csv or .tsv names columns; found out if not given."
IMAGE_SHAPE = {"metavar": "HxW", "help": "Show rows as images, for example 28x28."}

# what several commands ask
Cluster = Annotated[
    str | None,
    inference(
        "--cluster",
        metavar="ADDRESS|local",
        help="Work on a cluster of Dask's, tcp://host:port, or on processes of this machine; .npy, "
        ".zarr and .parquet files are then read there, by blocks of rows.",
    ),
]
Saved = Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model, as model.thali.")]
DataFile = Annotated[str, typer.Argument(metavar="DATA", help=FORMATS)]
CorpusFile = Annotated[str, typer.Argument(metavar="DATA", help=CORPORA)]
Text = Annotated[str | None, data(metavar="COLUMN", help="The column that holds the texts.")]
Names = Annotated[
    str | None, data(metavar="COLUMN", help="The column that names documents, with --text.")
]
Vocabulary = Annotated[
    Path | None, data(help="A file of words, one a line: what the columns of counts stand for.")
]
StopWords = Annotated[
    str | None,
    data(
        metavar="english|none|FILE",
        help="Words of texts to leave out: scikit-learn's English list, none, or a file of them, "
        "one a line (english).",
    ),
]
MinDf = Annotated[int | None, data(min=1, help="Leave out words in fewer texts than this (2).")]
MaxDf = Annotated[
    float | None,
    data(metavar="SHARE", help="Leave out words in more than this share of texts (0.5)."),
]
Seed = Annotated[int | None, inference(min=0, help="Seed; drawn and printed if not given.")]
Center = Annotated[bool, data("--center", help="Subtract column means first.")]
Scale = Annotated[bool, data("--scale", help="Divide columns by their standard deviations first.")]
Transpose = Annotated[bool, data("--transpose", help="Swap rows and columns.")]
Columns = Annotated[str | None, data(help="Columns of the file to use: a,b,c.")]
Types = Annotated[
    Path | None,
    data(
        metavar="FILE",
        help="Kinds of columns, of tables (mixed, mixed-factors, probit): a .json file such as "
        '{"age": "count"}; those it does not name are found.',
    ),
]
Header = Annotated[bool | None, data("--header/--no-header", help=HEADER)]
Seconds = Annotated[float | None, inference(metavar="SECONDS", help="Stop after so many seconds.")]
ImageShape = Annotated[str | None, results(**IMAGE_SHAPE)]
Out = Annotated[Path, results(help="Folder for the results.")]
Future = Annotated[int, inference(min=0, help="Rows to come, of which a prior must be told.")]
Resume = Annotated[bool, results("--resume", help="Continue the unfinished run in --out.")]
Quiet = Annotated[bool, results("--quiet", "-q", help="Print errors only.")]
