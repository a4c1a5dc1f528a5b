r"""Whether the words of a topic are found together: normalized pointwise mutual information.

With p_i the share of documents that have word i and p_ij of those that have both i and j,

    NPMI(i, j) = log(p_ij / (p_i p_j)) / (−log p_ij),

−1 for words that are never together, 0 for words that have nothing to do with each other and 1 for
words that are always together (Bouma 2009). The coherence of a topic is the mean over all pairs of
its most probable words (Lau, Newman and Baldwin 2014, there over windows of ten words in place of
documents). Words that a corpus does not have are never together; words that all documents have are
always.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csc_array, csr_array


def npmi(X: csr_array, words: Sequence[np.ndarray]) -> np.ndarray:
    """The coherence of each topic's ``words`` (columns of X), (topics,); NaN of fewer than two, and
    where no document has words.

    What is made dense is n × n for n words, one topic after the other.

    >>> X = csr_array([[1, 2, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
    >>> npmi(X, [np.array([0, 1]), np.array([1, 2])]).round(3).tolist()
    [0.415, -1.0]
    """
    found = np.full(len(words), np.nan)
    if not X.nnz:
        return found
    own = np.unique(np.concatenate(words))
    has = csc_array(X[:, own] > 0).astype(np.float64)  # (documents, words that are asked about)
    for t, columns in enumerate(words):
        if len(columns) < 2:
            continue
        some = has[:, np.searchsorted(own, columns)]
        together = np.asarray((some.T @ some).toarray()) / X.shape[0]
        i, j = np.triu_indices(len(columns), 1)
        found[t] = _of_pairs(together[i, j], together[i, i], together[j, j]).mean()
    return found


def _of_pairs(both: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """NPMI from shares of documents."""
    found = np.full(len(both), -1.0)
    some, always = (both > 0.0) & (both < 1.0), both >= 1.0
    log_both = np.log(both[some])
    found[some] = (log_both - np.log(one[some]) - np.log(other[some])) / -log_both
    found[always] = 1.0
    return np.asarray(np.clip(found, -1.0, 1.0))  # but for rounding it is there already
