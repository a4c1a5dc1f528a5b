"""What ``thali topics`` reads: texts in a column of a table, a table of counts, a sparse matrix.

Words of texts are counted by scikit-learn's ``CountVectorizer``: two letters or more, in lower
case. What cannot be read stops here, in one sentence.
"""

import csv
import difflib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from thali.data.sparse import is_sparse
from thali.data.tables import DELIMITERS, check_file, read_table
from thali.data.tables.arrays import read_parquet
from thali.data.tables.text import Sheet, numbers, read_text
from thali.report.markup import plural

MIN_DF, MAX_DF, STOP_WORDS = 2, 0.5, "english"
LONGEST_CELL = 2**31 - 1  # letters of one text
WORDY = 4  # words of a cell from which it is a text, and no name


class AskedTexts(NamedTuple):
    """What was asked of the documents; None where nothing was said."""

    text: str | None = None
    names: str | None = None
    vocabulary: Path | None = None
    stop_words: str | None = None
    min_df: int | None = None
    max_df: float | None = None
    columns: list[str] | None = None
    transpose: bool = False
    header: bool | None = None


class ReadDocuments(NamedTuple):
    """Counts of words by document, what the columns stand for, names of documents, and remarks."""

    X: csr_array
    words: list[str] | None
    names: list[str] | None
    notes: tuple[str, ...] = ()

    def described(self, file: str) -> str:
        """What was read, in one line."""
        n, v = self.X.shape
        total = f"{self.X.sum():,.0f} words, {v:,} different" if self.X.nnz else "no words"
        return "; ".join([f"{file}: {plural(n, 'document')}, {total}", *self.notes])


def read_documents(data: str, asked: AskedTexts) -> ReadDocuments:
    """The documents in a file."""
    if asked.text is not None:
        return _counted(Path(data), asked)
    given = {"--stop-words": asked.stop_words, "--min-df": asked.min_df, "--max-df": asked.max_df}
    for flag, value in (given | {"--names": asked.names}).items():
        if value is not None:
            raise ValueError(f"{flag} is for texts; say which column they are in: --text COLUMN.")
    if not asked.columns and not asked.transpose:
        _refuse_texts(Path(data), asked.header)
    table = read_table(data, transpose=asked.transpose, columns=asked.columns, header=asked.header)
    if not is_sparse(table.values) and np.isnan(table.values).any():
        i, j = (int(at) for at in np.argwhere(np.isnan(table.values))[0])
        column = j + 1 if table.column_names is None else repr(table.column_names[j])
        raise ValueError(
            f"{data} has no count at row {i + 1}, column {column}; a word that a document does "
            "not have is a count of 0."
        )
    words = table.column_names
    if asked.vocabulary is not None:
        words = read_words(asked.vocabulary, "--vocabulary")
        if len(words) != table.values.shape[1]:
            raise ValueError(
                f"--vocabulary {asked.vocabulary} has {plural(len(words), 'word')} where {data} "
                f"has {plural(table.values.shape[1], 'column')}; give one for each, in their order."
            )
    return ReadDocuments(csr_array(table.values), words, table.row_names, table.notes)


def read_words(file: Path, flag: str) -> list[str]:
    """Words from a file, one a line."""
    check_file(file, f"{flag}: a file of words, one a line")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{flag} {file} is no text in UTF-8; save it as one.") from None
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.strip() for line in lines]


# texts


def _counted(file: Path, asked: AskedTexts) -> ReadDocuments:
    """Texts in a column, their words counted."""
    assert asked.text is not None
    if asked.vocabulary is not None or asked.transpose or asked.columns:
        raise ValueError(
            "--vocabulary, --columns and --transpose are for counts of words; with --text the "
            "words are those of the texts."
        )
    check_file(file)
    sheet = _sheet(file, True if asked.header is None else asked.header)
    heads = sheet.names or [str(j + 1) for j in range(len(sheet.columns))]
    at = _column(file, heads, asked.text, sheet)
    if not _is_text(sheet.columns[at]):
        own = [heads[j] for j in range(len(heads)) if _is_text(sheet.columns[j])]
        hint = f"; {_columns(own)} of text" if own else ", and it has no column of text"
        raise ValueError(f"{file}: column {asked.text!r} holds numbers, not texts{hint}.")
    texts = [str(cell) for cell in sheet.columns[at]]
    empty = sum(not text for text in texts)
    if empty == len(texts):
        raise ValueError(f"{file}: every text in column {asked.text!r} is empty.")
    names, notes = _names(file, sheet, heads, at, asked.names)
    X, words, left = count_words(file, texts, asked)
    notes = [f"texts from column {heads[at]!r}", *notes, *left]
    if empty:
        notes.append(f"{empty:,} of {len(texts):,} texts are empty")
    return ReadDocuments(X, words, names, tuple(notes))


def count_words(
    file: Path, texts: Sequence[str], asked: AskedTexts
) -> tuple[csr_array, list[str], list[str]]:
    """Counts of words, the words, and remarks on what was left out."""
    from sklearn.feature_extraction.text import CountVectorizer

    stop = asked.stop_words or STOP_WORDS
    listed: str | list[str] | None = stop if stop == "english" else None
    if stop not in ("english", "none"):
        listed = [word.lower() for word in read_words(Path(stop), "--stop-words")]
    low = MIN_DF if asked.min_df is None else asked.min_df
    high = MAX_DF if asked.max_df is None else asked.max_df
    if not 0.0 < high <= 1.0:
        raise ValueError(f"--max-df {high:g} is a share of documents: above 0 and at most 1.")
    counter = CountVectorizer(stop_words=listed, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # stop words that no text can have
        try:
            X = csr_array(counter.fit_transform(texts))
        except ValueError:
            raise ValueError(
                f"{file}: the texts have no words of two letters or more"
                f"{', stop words left out: --stop-words none keeps them' if listed else ''}."
            ) from None
    in_documents = np.bincount(X.indices, minlength=X.shape[1])
    rare, common = in_documents < low, in_documents > high * len(texts)
    if (rare | common).all():
        raise ValueError(
            f"{file}: none of {plural(X.shape[1], 'word')} is left: {int(rare.sum()):,} are in "
            f"fewer than {low} of the {plural(len(texts), 'text')} and {int(common.sum()):,} in "
            f"more than {high:.0%} of them. Lower --min-df (to 1), or raise --max-df (to 1)."
        )
    kept = np.flatnonzero(~(rare | common))
    names = counter.get_feature_names_out()
    notes = []
    if rare.any() or common.any():
        notes.append(
            f"left out: {int(rare.sum()):,} words in fewer than {low} documents, "
            f"{int(common.sum()):,} in more than {high:.0%}"
        )
    return csr_array(X[:, kept]), [str(names[v]) for v in kept], notes


def _sheet(file: Path, header: bool | None) -> Sheet:
    """All cells of a file, however long."""
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        return read_parquet(file)
    if suffix not in DELIMITERS:
        raise ValueError(f"{file}: --text needs a .csv, .tsv or .parquet file, which has columns.")
    with _long_cells():
        return read_text(file, DELIMITERS[suffix], header)


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let cells be longer than the csv module has it."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _column(file: Path, heads: Sequence[str], wanted: str, sheet: Sheet | None = None) -> int:
    """Where a column is, or which may have been meant."""
    if wanted in heads:
        return list(heads).index(wanted)
    lower = {head.lower(): head for head in heads}
    near = difflib.get_close_matches(wanted.lower(), lower, n=3)
    if near:
        hint = f"did you mean {' or '.join(repr(lower[word]) for word in near)}?"
    else:
        listed = f"{', '.join(map(repr, heads[:10]))}{', …' * (len(heads) > 10)}"
        hint = f"it has {listed}."
        own = [h for h, c in zip(heads, sheet.columns, strict=True) if _is_text(c)] if sheet else []
        if own and len(own) < len(heads):
            hint += f" C{_columns(own)[1:]} of text."
    raise ValueError(f"{file} has no column {wanted!r}; {hint}")


def _is_text(cells: Sequence[str] | np.ndarray) -> bool:
    """Whether some cells are neither numbers nor missing, or nothing is there at all."""
    if isinstance(cells, np.ndarray):
        return False
    values, texts = numbers(cells)
    return bool(texts.any()) or bool(np.isnan(values).all())


def _columns(names: Sequence[str]) -> str:
    listed = " and ".join(map(repr, names[:5]))
    return f"column {listed} is" if len(names) == 1 else f"columns {listed} are"


def _names(
    file: Path, sheet: Sheet, heads: Sequence[str], text: int, wanted: str | None
) -> tuple[list[str] | None, list[str]]:
    """Names of documents: the column that was asked for, else the first where all are different."""
    if wanted is not None:
        at = _column(file, heads, wanted)
        return [str(cell) for cell in sheet.columns[at]], []
    if sheet.row_names is not None:
        return sheet.row_names, []
    first = [_as_name(cell) for cell in sheet.columns[0]]
    if text == 0 or len(set(first)) < len(first) or not sheet.names:
        return None, []
    return first, [f"names of documents from column {heads[0]!r}"]


def _as_name(cell: object) -> str:
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _refuse_texts(file: Path, header: bool | None) -> None:
    """Say which columns are text where a table of counts should be."""
    if file.suffix.lower() not in DELIMITERS and file.suffix.lower() != ".parquet":
        return
    check_file(file)
    sheet = _sheet(file, header)
    own = [j for j, cells in enumerate(sheet.columns) if _has_texts(cells, j)]
    if not own and not all(_is_text(cells) for cells in sheet.columns):
        return
    own = own or list(range(len(sheet.columns)))
    heads = sheet.names
    if heads is None:  # a file of text alone has a header that looks like text
        heads = [str(cells[0]) for cells in _sheet(file, False).columns]
    names = [heads[j] for j in own]
    longest = max(own, key=lambda j: sum(map(len, map(str, sheet.columns[j]))))
    shown = heads[longest] if " " not in heads[longest] else repr(heads[longest])
    if len(heads[longest].split()) >= WORDY:  # no name, but the first of the texts
        names, shown = [str(j + 1) for j in own], f"{longest + 1} --no-header"
    raise ValueError(
        f"{file} is no table of counts: {_columns(names)} of text. Say which one holds the "
        f"documents, and its words are counted: --text {shown}"
    )


def _has_texts(cells: Sequence[str] | np.ndarray, place: int) -> bool:
    """Whether a column is no numbers; the first one may have names of rows, of a few words."""
    if isinstance(cells, np.ndarray) or not numbers(cells)[1].any():
        return False
    if place > 0:
        return True
    return float(np.mean([len(cell.split()) for cell in cells])) >= WORDY
