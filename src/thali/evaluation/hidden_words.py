"""Words of documents that a model is not shown, so that its predictions can be judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.documents import check_counts, is_texts, is_word_lists
from thali.estimators.word_counts import as_csr, as_lists
from thali.settings import generator, positive_number


def hide_words(
    X: Any,
    *,
    words: float = 0.5,
    documents: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> tuple[csr_array, csr_array]:
    """Counts that are seen, and counts that are hidden, which add up to X.

    A share of the words of a share of the documents is hidden, both at random and rounded down.

    Parameters
    ----------
    X : sparse matrix or array of counts, (D, V)
        Lists of words are to be counted first.
    words, documents : float between 0 and 1
        The share of a document's words, and of the documents of which some are hidden.
    random_state : int, Generator or None
        An int makes it reproducible.

    Examples
    --------
    >>> import numpy as np
    >>> seen, held = hide_words(np.array([[2, 2], [0, 4]]), random_state=0)
    >>> (seen + held).toarray().tolist(), held.sum(axis=1).tolist()
    ([[2.0, 2.0], [0.0, 4.0]], [2.0, 2.0])
    """
    for name, share in (("words", words), ("documents", documents)):
        positive_number("hide_words", name, share, most=1.0)
    X = as_lists(X)
    if is_word_lists(X) or is_texts(X):
        raise TypeError(
            "hide_words takes a matrix of counts: count words first, such as by scikit-learn's "
            "CountVectorizer (with analyzer=list for lists of words)."
        )
    rng = generator("hide_words", random_state)
    data = Data.of(X)
    check_counts(data, "hide_words")
    whole = as_csr(data).copy()
    hidden = np.zeros(len(whole.data))
    for j in rng.permutation(whole.shape[0])[: int(documents * whole.shape[0])]:
        own = np.arange(whole.indptr[j], whole.indptr[j + 1])
        each = np.repeat(own, whole.data[own].astype(np.int64))
        np.add.at(hidden, rng.permutation(each)[: int(words * len(each))], 1.0)
    held = csr_array((hidden, whole.indices.copy(), whole.indptr.copy()), shape=whole.shape)
    whole.data -= hidden
    for part in (whole, held):
        part.eliminate_zeros()
    return whole, held
