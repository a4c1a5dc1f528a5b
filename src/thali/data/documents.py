r"""Documents as a sparse matrix of counts: one row for each, a column for every word of a list.

They are made from such a matrix, from a table of counts, or from lists of words, and never made
dense. ``hidden`` words of each document are known to be there, and not which they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from thali.data.matrix import Data

LARGEST_COUNT = 10**6  # of one word in one document
MOST_WORDS = 2**31 - 1  # in all: positions of words are 32 bits wide


@dataclass(frozen=True)
class Documents(Data):
    """Counts of words by document, and how many hidden words each document has besides."""

    hidden: np.ndarray | None = None


def lengths_of(data: Data) -> np.ndarray:
    """How many words each document has, hidden ones included."""
    seen = np.asarray(data.X.sum(axis=1)).ravel().astype(np.int64)
    hidden = getattr(data, "hidden", None)
    return seen if hidden is None else seen + hidden


def words_of(data: Data) -> np.ndarray:
    """All words, document after document, −1 for those that are hidden, (N,) int32."""
    X, hidden = cast(Any, data.X), getattr(data, "hidden", None)
    seen = np.repeat(X.indices.astype(np.int32), X.data.astype(np.int64))
    if hidden is None:
        return seen
    found = np.full(int(lengths_of(data).sum()), -1, np.int32)
    first = np.cumsum(lengths_of(data)) - lengths_of(data)
    own = np.asarray(X.sum(axis=1)).ravel().astype(np.int64)
    where = np.repeat(first - (np.cumsum(own) - own), own) + np.arange(len(seen))
    found[where] = seen
    return found


def check_counts(data: Data, owner: str, empty: bool = False) -> None:
    """Refuse what is no count, and a corpus without words unless it may be ``empty``."""
    if data.observed is not None:
        i, j = (int(at[0]) for at in data.where_missing)
        raise ValueError(
            f"X has {data.missing} counts missing (NaN), the first at row {i}, column {j}; a word "
            "that a document does not have is a count of 0."
        )
    X: Any = data.X
    values = np.asarray(X.data if data.sparse else X)
    with np.errstate(invalid="ignore"):
        wrong = (values < 0.0) | (values != np.rint(values)) | (values > LARGEST_COUNT)
    if wrong.any():
        if data.sparse:
            entry = int(np.flatnonzero(wrong)[0])
            i = int(np.searchsorted(X.indptr, entry, side="right")) - 1
            j, value = int(X.indices[entry]), values[entry]
        else:
            i, j = (int(at) for at in np.argwhere(wrong)[0])
            value = values[i, j]
        if value < 0.0:
            raise ValueError(
                f"Negative values in data: X has {value:g} at row {i}, column {j}, where {owner} "
                "needs counts of words."
            )
        raise ValueError(
            f"X has {value:g} at row {i}, column {j}, where {owner} needs counts of words: whole "
            f"numbers from 0 to {LARGEST_COUNT:,}. Weights such as those of tf-idf are none; use "
            "CountVectorizer."
        )
    total = float(values.sum())
    if total == 0.0 and not empty:
        raise ValueError("X has no words: every count is 0.")
    if total > MOST_WORDS:
        raise ValueError(f"X has {total:,.0f} words in all, more than {MOST_WORDS:,}.")


def is_word_lists(X: object) -> bool:
    """Whether X is a list of documents that are lists of words."""
    if not isinstance(X, list | tuple) or not len(X):
        return False
    lists = all(isinstance(d, list | tuple) for d in X)
    return lists and any(isinstance(w, str) for d in X for w in d)


def is_texts(X: object) -> bool:
    """Whether X is a list of texts, which are no lists of words yet."""
    values = X.tolist() if hasattr(X, "tolist") and getattr(X, "ndim", 0) == 1 else X
    return isinstance(values, list | tuple) and len(values) > 0 and isinstance(values[0], str)


def counts_of(
    documents: Sequence[Iterable[str]], vocabulary: Mapping[str, int] | None = None
) -> tuple[csr_array, list[str]]:
    """Lists of words as a matrix of counts, and what the columns stand for, in alphabetic order.

    Given a vocabulary, words that are not in it are left out.

    >>> X, words = counts_of([["dal", "rice", "dal"], ["rice"]])
    >>> X.toarray().tolist(), words
    ([[2.0, 1.0], [0.0, 1.0]], ['dal', 'rice'])
    """
    for i, document in enumerate(documents):
        for word in document:
            if not isinstance(word, str):
                raise TypeError(
                    f"Document {i} has {word!r}, of type {type(word).__name__}, among its words; "
                    "give lists of text, or a matrix of counts."
                )
    if vocabulary is None:
        words = sorted({word for document in documents for word in document})
        known: Mapping[str, int] = {word: i for i, word in enumerate(words)}
    else:
        known = vocabulary
        words = sorted(known, key=lambda word: known[word])
    rows: list[Any] = []
    columns: list[int] = []
    for i, document in enumerate(documents):
        own = [known[word] for word in document if word in known]
        rows += [i] * len(own)
        columns += own
    ones = np.ones(len(columns))
    X = csr_array((ones, (rows, columns)), shape=(len(documents), len(words)))
    X.sum_duplicates()
    return X, words
