"""What a topic model accepts: a matrix of counts of words, sparse or not, or lists of words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.documents import (
    MOST_WORDS,
    check_counts,
    counts_of,
    is_texts,
    is_word_lists,
)
from thali.data.tables.text import means_numbers
from thali.estimators import validation
from thali.settings import shown

if TYPE_CHECKING:
    from thali.estimators.base import LatentModel


def as_matrix(X: Any, vocabulary: Sequence[str] | None) -> tuple[Any, list[str] | None]:
    """Lists of words as a sparse matrix, others as they are; and the names of columns."""
    names = None if vocabulary is None else checked_vocabulary(vocabulary)
    X = as_lists(X)
    refuse_texts(X)
    refuse_mixed(X)
    if is_word_lists(X):
        if names is None:
            return counts_of(X)
        refuse_unknown(X, names)
        return counted(X, names), names
    if isinstance(X, pd.DataFrame) and names is None:
        names = [str(column) for column in X.columns]
    return X, names


def as_lists(X: Any) -> Any:
    """Words of documents as a list of lists, whatever holds them; anything else as it is.

    Both may be columns or arrays of pandas and NumPy, and a document may be a set. A table of
    numbers that are written as text is one of counts.

    >>> as_lists(np.array([["dal", "rice"], ["goal", "ball"]]))
    [['dal', 'rice'], ['goal', 'ball']]
    """
    if isinstance(X, np.ndarray) and X.ndim == 2 and _is_of_words(X):
        return X.tolist() if X.shape[1] > 1 else X[:, 0].tolist()  # a column is of whole texts
    column = getattr(X, "ndim", 0) == 1 and getattr(X, "dtype", None) == np.dtype(object)
    if not (column or isinstance(X, list | tuple)):
        return X
    documents = [_as_list(each) for each in X]
    return documents if any(isinstance(each, list) for each in documents) else X


def _is_of_words(X: np.ndarray) -> bool:
    """Whether all of an array is text, and not all of that numbers."""
    if X.dtype.kind not in "UO" or not all(isinstance(value, str) for value in X.flat):
        return False
    return not means_numbers(X.ravel().tolist())


def _as_list(document: object) -> object:
    """The words of a document as a list; what holds no words as it is."""
    if isinstance(document, tuple | set | frozenset):
        return list(document)
    if isinstance(document, np.ndarray | pd.Series) and document.ndim == 1:
        return document.tolist() if document.dtype.kind in "UO" or not len(document) else document
    return document


def refuse_mixed(X: Any) -> None:
    """Refuse lists of words among which one is none, and those without any word."""
    if not isinstance(X, list | tuple):
        return
    if not len(X):
        raise ValueError("X is empty: it has no documents.")
    if any(isinstance(d, list) and any(isinstance(w, str) for w in d) for d in X):
        for i, document in enumerate(X):
            if not isinstance(document, list):
                raise TypeError(
                    f"Document {i} is {shown(document)}, where a list of words should be; a "
                    "document without words is []."
                )
    elif is_empty_lists(X):
        raise ValueError("X has no words: every document is empty.")


def refuse_texts(X: Any) -> None:
    """Refuse texts whose words have not been told apart."""
    if is_texts(X):
        raise TypeError(
            "X is a list of texts. Count their words first: scikit-learn's CountVectorizer, or "
            "[text.split() for text in X]; on the command line: thali topics docs.csv --text "
            "column."
        )


def checked_vocabulary(vocabulary: Sequence[str]) -> list[str]:
    """Names of columns, each once, or one sentence."""
    ordered = isinstance(vocabulary, Iterable) and np.ndim(cast(Any, vocabulary)) == 1
    if not ordered or isinstance(vocabulary, str | bytes | Mapping | Set):
        raise TypeError(
            "vocabulary must be a list with the word of each column in order, such as "
            "vectorizer.get_feature_names_out()."
        )
    for word in vocabulary:
        if not isinstance(word, str | int | np.integer):
            raise TypeError(f"vocabulary has {shown(word)}, which is no word.")
    names = [str(word) for word in vocabulary]
    if not names:
        raise ValueError("vocabulary is empty: it must have the word of each column.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"vocabulary has {twice!r} twice.")
    return names


def check_names(names: Sequence[str] | None, d: int) -> None:
    """Refuse a vocabulary that is not of these columns."""
    if names is not None and len(names) != d:
        raise ValueError(f"vocabulary has {len(names)} words, and X has {d} columns.")


def refuse_unknown(X: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Refuse documents of which no word is in the vocabulary."""
    known = set(names)
    if not any(word in known for document in X for word in document):
        raise ValueError("None of the words of X is in the vocabulary.")


def counted(X: Sequence[Sequence[str]], names: Sequence[str]) -> csr_array:
    """Lists of words as counts; words that are not in the vocabulary are left out, with a word."""
    found = counts_of(X, {word: i for i, word in enumerate(names)})[0]
    words = sum(len(document) for document in X)
    left_out = words - int(found.sum())
    if left_out:
        warnings.warn(
            f"{left_out} of {words} words are not in the vocabulary of the model, and are left "
            "out.",
            UserWarning,
            stacklevel=4,
        )
    return found


def is_empty_lists(X: Any) -> bool:
    """Whether X is a list of documents without words."""
    lists = isinstance(X, list | tuple) and len(X) > 0
    return lists and all(isinstance(d, list | tuple) and not d for d in X)


def new_counts(estimator: LatentModel, X: Any, names: Sequence[str] | None) -> csr_array:
    """New documents in the columns of those that were fitted; some or all may be empty."""
    X = as_lists(X)
    refuse_texts(X)
    if is_empty_lists(X):
        X = csr_array((len(X), estimator.n_features_in_))
    refuse_mixed(X)
    if is_word_lists(X):
        if names is None:
            raise ValueError(
                "The model was fitted to a matrix whose columns have no names, and cannot tell "
                "which words these are; give counts, or fit with vocabulary=names."
            )
        X = counted(X, names)
    data = Data.checked(validation.validated(estimator, X, reset=False))
    check_counts(data, type(estimator).__name__, empty=True)
    return as_csr(data)


def as_csr(data: Data) -> csr_array:
    """Counts as a sparse matrix."""
    return data.X if data.sparse else csr_array(data.X)


def checked_hidden(n_hidden: Any, n: int) -> np.ndarray | None:
    """Whole numbers from zero on, one for each document, or one sentence."""
    if n_hidden is None:
        return None
    hidden = np.asarray(n_hidden)
    whole = hidden.dtype.kind in "iu" or (
        hidden.dtype.kind == "f" and bool(np.all(hidden == np.rint(hidden)))
    )
    if hidden.shape != (n,) or not whole or not (0 <= hidden.min() and hidden.sum() <= MOST_WORDS):
        raise ValueError(
            f"n_hidden must be a whole number from 0 on for each of the {n} documents, at most "
            f"{MOST_WORDS:,} in all, not {shown(n_hidden)}."
        )
    return hidden.astype(np.int64)
