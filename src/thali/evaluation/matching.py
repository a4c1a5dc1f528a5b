"""Match the features that were found to those that were planted.

Features carry no names, so an answer is compared with the truth after the best one-to-one pairing:
of A by Σ |corr(a*_i, a_j)| → max, of Z by the Hamming distance Σ_n |z*_ni − z_nj| → min.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Matching(NamedTuple):
    """Pairs of features, one from the truth and one that was found.

    Attributes
    ----------
    pairs : int array of shape (P, 2)
        Row in `truth`, row in `found`; ordered by the first. P = min(K*, K).
    correlations : array of shape (P,)
        Correlation of each pair, with its sign.
    unmatched_truth, unmatched_found : int arrays
        Rows left without a partner.
    """

    pairs: NDArray[np.intp]
    correlations: NDArray[np.float64]
    unmatched_truth: NDArray[np.intp]
    unmatched_found: NDArray[np.intp]


class AssignmentMatching(NamedTuple):
    """Pairs of columns of two binary matrices, and the entries that differ after pairing.

    Attributes
    ----------
    pairs : int array of shape (P, 2)
        Column of `Z_true`, column of `Z`; ordered by the first. P = min(K*, K).
    distance : int
        Entries that differ; a column without a partner is compared with zeros.
    unmatched_truth, unmatched_found : int arrays
        Columns left without a partner.
    """

    pairs: NDArray[np.intp]
    distance: int
    unmatched_truth: NDArray[np.intp]
    unmatched_found: NDArray[np.intp]


def match_features(truth: ArrayLike, found: ArrayLike) -> Matching:
    """Pair the rows of two feature matrices by absolute correlation.

    A constant row has no correlation. Two constant rows other than zero count as equal up to
    scale (±1); a constant row against any other counts 0.

    Parameters
    ----------
    truth : array of shape (K*, D)
    found : array of shape (K, D)

    Examples
    --------
    >>> import numpy as np
    >>> from thali.evaluation import match_features
    >>> truth = np.array([[1., 0., 0., 0.], [0., 1., 1., 0.]])
    >>> found = np.array([[0., 2., 2., 0.], [9., 8., 9., 8.], [1., .3, 0., 0.]])
    >>> match = match_features(truth, found)
    >>> match.pairs.tolist(), match.correlations.round(2).tolist()
    ([[0, 2], [1, 0]], [0.95, 1.0])
    >>> match.unmatched_found.tolist()
    [1]
    """
    a, b = _matrix(truth, "truth"), _matrix(found, "found")
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"truth has {a.shape[1]} columns and found has {b.shape[1]}: "
            "both must describe the same variables."
        )
    correlation = _standardized(a) @ _standardized(b).T
    pairs, lone_a, lone_b = _pair(-np.abs(correlation))
    matched = np.clip(correlation[pairs[:, 0], pairs[:, 1]], -1.0, 1.0)
    return Matching(pairs, matched, lone_a, lone_b)


def match_assignments(Z_true: ArrayLike, Z: ArrayLike) -> AssignmentMatching:
    """Pair the columns of two binary matrices so that the fewest entries differ.

    Parameters
    ----------
    Z_true : array of shape (N, K*) of zeros and ones
    Z : array of shape (N, K) of zeros and ones

    Examples
    --------
    >>> from thali.evaluation import match_assignments
    >>> match = match_assignments([[1, 0], [1, 1], [0, 1]], [[0, 1, 0], [1, 1, 0], [0, 0, 1]])
    >>> match.pairs.tolist(), match.distance
    ([[0, 1], [1, 0]], 2)
    """
    a, b = _matrix(Z_true, "Z_true"), _matrix(Z, "Z")
    if a.shape[0] != b.shape[0]:
        raise ValueError(
            f"Z_true has {a.shape[0]} rows and Z has {b.shape[0]}: "
            "both must assign features to the same observations."
        )
    for name, matrix in (("Z_true", a), ("Z", b)):
        if not np.isin(matrix, (0.0, 1.0)).all():
            raise ValueError(f"{name} has entries other than 0 and 1.")
    # |a − b| = |a| + |b| − 2 a·b: the pairs that share most leave the fewest differences, those of
    # columns left alone, |a| or |b|, included.
    shared = a.T @ b
    pairs, lone_a, lone_b = _pair(-shared)
    distance = a.sum() + b.sum() - 2.0 * shared[pairs[:, 0], pairs[:, 1]].sum()
    return AssignmentMatching(pairs, int(distance), lone_a, lone_b)


def _matrix(values: ArrayLike, name: str) -> NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"{name} has {matrix.ndim} dimensions: it must be a matrix.")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} holds values that are not finite.")
    return matrix


def _standardized(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows to mean 0 and length 1, in D + 1 columns.

    The last column is ±1 for a constant row other than zero and 0 for the rest, so that one
    inner product gives both cases of `match_features`.
    """
    if rows.shape[1] == 0:
        return np.zeros((rows.shape[0], 1))
    # Scaling first keeps the squares of very large or small rows in range.
    peak = np.abs(rows).max(axis=1, keepdims=True)
    scaled = np.divide(rows, peak, out=np.zeros_like(rows), where=peak > 0)
    mean = scaled.mean(axis=1, keepdims=True)
    centered = scaled - mean
    length = np.linalg.norm(centered, axis=1, keepdims=True)
    constant = length <= 1e-12 * np.sqrt(rows.shape[1])
    unit = np.divide(centered, length, out=np.zeros_like(rows), where=~constant)
    return np.concatenate([unit, np.where(constant, np.sign(mean), 0.0)], axis=1)


def _pair(cost: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Cheapest pairing, and the rows and columns left alone."""
    # Imported here: `import thali` should not pay for the solver.
    from scipy.optimize import linear_sum_assignment

    pairs = np.stack(linear_sum_assignment(cost), axis=1).astype(np.intp)
    lone_truth = np.setdiff1d(np.arange(cost.shape[0]), pairs[:, 0])
    return pairs, lone_truth, np.setdiff1d(np.arange(cost.shape[1]), pairs[:, 1])
