"""Words of documents that a model is not shown, so that its predictions can be judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.checks import as_sparse
from thali.data.documents import check_counts


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
        What ``TopicModel.fit`` takes.
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
        if not 0.0 < share <= 1.0:
            raise ValueError(f"hide_words: {name} must be above 0 and at most 1, not {share!r}.")
    whole = as_sparse(csr_array(X))
    check_counts(Data(whole), "hide_words")
    rng = np.random.default_rng(random_state)
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
