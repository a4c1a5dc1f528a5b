"""What a run leaves in its folder, whole or not at all.

    model.thali       the fitted model
    features.csv      of features: E[A | X, Z], K×D: a row for each feature
    assignments.csv   of features: Z, N×K: a row's name, then 0 or 1 for each feature
    labels.csv        of clusters: a row's name, its cluster, and its membership
    clusters.csv      of clusters: a row for each, how many rows it has, and its profile
    topics.csv        of topics: a row for each, its words, share, presence, coherence, first words
    words.csv         of topics: the most probable words of each, with their probabilities
    documents.csv     of topics: a document's name, and its share of each topic
    summary.json      n_components, log_joint, missing, engine, prior, likelihood, seed, seconds,
                      hint, findings, rhat, ess
    report.html       the report
    imputed.csv       where entries are missing: the data with their posterior means filled in; of
                      a table with columns of any kind in its own types, with the likeliest levels
    types.json        of such a table: what its columns were found to be, as --types takes it
    effects.csv       of such a table: what each feature does to each column, in words too

The files are written into a folder of their own and moved into place when all are complete.
"""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd

from thali.estimators import tables
from thali.estimators.base import LatentModel
from thali.plots.reading import column_names
from thali.plots.topic_reading import ranked_words, size_shares
from thali.results.fit import PointFit, VariationalFit
from thali.storage import Json
from thali.structures.base import AnyStructure
from thali.structures.features import FEATURES
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
from thali.structures.partitions import PARTITIONS

FILES = ("model.thali", "features.csv", "assignments.csv", "summary.json", "report.html")
CLUSTER_FILES = ("model.thali", "labels.csv", "clusters.csv", "summary.json", "report.html")
TOPIC_FILES = (
    *("model.thali", "topics.csv", "words.csv", "documents.csv"),
    *("summary.json", "report.html"),
)
MOST_WORDS = 100  # of each topic in words.csv
LINE = "\r\n"  # as csv has it: names with a carriage return are then quoted
IMPUTED = "imputed.csv"  # where entries are missing
OF_TABLES = ("types.json", "effects.csv")  # where columns are of different kinds
CHECKPOINT = "checkpoint.thali"


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Make the output folder, and take it away again if the run ends in an error."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out {folder} is a file; name a folder.")
    for name in (*FILES, *CLUSTER_FILES, *TOPIC_FILES, *OF_TABLES, IMPUTED):
        if (folder / name).is_dir():
            raise IsADirectoryError(f"{folder / name} is a folder where a file must go; remove it.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise type(error)(
                f"--out {folder}: cannot write there ({error.strerror}); name another folder."
            ) from None
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):  # not empty: something else lives there now
                path.rmdir()
        raise


def write_outputs(
    model: LatentModel, folder: Path, image_shape: tuple[int, int] | None = None
) -> None:
    """Write every file beside the folder, then move them in."""
    here = folder.resolve()
    beside = os.stat(here).st_dev == os.stat(here.parent).st_dev and os.access(here.parent, os.W_OK)
    parent = here.parent if beside else here  # where a move would cross file systems
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=parent))
    try:
        model.save(staging / "model.thali")
        if (write := TABLES.get(model.structure)) is not None:
            write(model, staging)
        (staging / "summary.json").write_text(
            json.dumps(summary_of(model), indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )
        model.report(staging / "report.html", image_shape=image_shape)
        if model.fit_.data.missing and hasattr(model, "impute") and not model.fit_.data.far:
            _write_imputed(model, staging / IMPUTED)
        if (layout := tables.layout_of(model)) is not None:
            text = layout.table.to_json()
            (staging / "types.json").write_text(f"{text}\n", encoding="utf-8")
            effects = model.effects()
            effects.to_csv(staging / "effects.csv", index=False, lineterminator=LINE)
        names = os.listdir(staging)
        for name in names:
            os.replace(staging / name, folder / name)
        for name in (IMPUTED, *OF_TABLES):  # of an earlier run on other data
            if name not in names:
                (folder / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write_imputed(model: LatentModel, path: Path) -> None:
    filled = model.impute()
    if tables.layout_of(model) is None:
        _write_rows(model, path, _columns(model), np.asarray(filled))
        return
    names = range(1, len(filled) + 1) if model.row_names_ is None else model.row_names_
    table = pd.DataFrame(filled)
    if not isinstance(filled, pd.DataFrame):
        table.columns = [f"column_{j + 1}" for j in range(table.shape[1])]
    table.set_axis(pd.Index(names)).to_csv(path, index_label="row", lineterminator=LINE)


def _write_features(model: LatentModel, folder: Path) -> None:
    heads = [f"feature_{k + 1}" for k in range(model.n_components_)]
    table = pd.DataFrame(model.components_, columns=_columns(model))
    table.to_csv(folder / "features.csv", index=False, lineterminator=LINE)
    _write_rows(model, folder / "assignments.csv", heads, model.Z_.astype(int))


def _write_clusters(model: LatentModel, folder: Path) -> None:
    names = range(1, len(model.labels_) + 1) if model.row_names_ is None else model.row_names_
    said = {"cluster": model.labels_, "membership": model.membership_}
    table = pd.DataFrame(said, index=names)
    table.to_csv(folder / "labels.csv", index_label="row", lineterminator=LINE)
    sizes = pd.DataFrame({"rows": np.bincount(model.labels_)})
    profiles = pd.concat([sizes, model.cluster_profiles_], axis=1)  # a column may be "rows" too
    profiles.to_csv(folder / "clusters.csv", index_label="cluster", lineterminator=LINE)


def _write_topics(model: LatentModel, folder: Path) -> None:
    words, shares = ranked_words(model, MOST_WORDS)
    said = {
        "words": model.topic_sizes_,
        "share": size_shares(model),
        "presence": model.topic_presence_,
        "coherence": model.coherence(10),
        "first_words": [" ".join(row[:10]) for row in words],
    }
    table = pd.DataFrame(said)
    table.to_csv(folder / "topics.csv", index_label="topic", lineterminator=LINE)
    each = {
        "topic": np.repeat(np.arange(len(words)), [len(own) for own in words]),
        "word": [word for own in words for word in own],
        "probability": np.concatenate(shares),
    }
    pd.DataFrame(each).to_csv(folder / "words.csv", index=False, lineterminator=LINE)
    heads = [f"topic_{k}" for k in range(model.n_components_)]
    _write_rows(model, folder / "documents.csv", heads, model.document_topics_, "document")


TABLES: dict[AnyStructure, Callable[[LatentModel, Path], None]] = {
    FEATURES: _write_features,
    PARTITIONS: _write_clusters,
    GROUPED_PARTITIONS: _write_topics,
}


def _columns(model: LatentModel) -> list[str]:
    return column_names(model) or [f"column_{j + 1}" for j in range(model.n_features_in_)]


def summary_of(model: LatentModel) -> dict[str, Json]:
    """The run in a few entries; a number that does not exist is None."""
    diagnostics = {} if model.fit_.ends_early else model.diagnostics_
    answer: dict[str, Json] = {
        "n_components": int(model.n_components_),
        "log_joint": _finite(model.log_joint_),
        **({} if model.prior_.normalized else {"log_joint_lacks": "the prior's normalizer"}),
    }
    if isinstance(model.fit_, VariationalFit):
        answer["elbo"] = _finite(model.elbo_)
    if isinstance(model.fit_, PointFit):
        answer["proven_optimal"] = model.proven_optimal_
        answer["bound"] = _finite(model.log_joint_upper_bound_)
    return answer | {
        "missing": tables.n_missing(model),
        "engine": repr(model.engine_),
        "prior": repr(model.prior_),
        "likelihood": repr(tables.told(model.likelihood_)),
        "choice": model.choice_,
        **({"hint": model.hint_} if model.hint_ else {}),
        "seed": int(model.seed_),
        "seconds": _finite(model.seconds_),
        "findings": {finding.kind.__name__: str(finding) for finding in model.findings_},
        "rhat": {name: _finite(value["rhat"]) for name, value in diagnostics.items()},
        "ess": {name: _finite(value["ess"]) for name, value in diagnostics.items()},
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _write_rows(
    model: LatentModel, path: Path, heads: Sequence[str], values: np.ndarray, label: str = "row"
) -> None:
    """A table with a line for each row of the data, its name in front."""
    names = range(1, len(values) + 1) if model.row_names_ is None else model.row_names_
    table = pd.DataFrame(values, index=names, columns=heads)
    table.to_csv(path, index_label=label, lineterminator=LINE)
