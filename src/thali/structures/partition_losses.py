r"""How far two partitions are from one another, by the sizes n_ij of their clusters' intersections.

    Binder (1978)                ½ (Σ n_i² + Σ n_j² − 2 Σ n_ij²)
        pairs of rows that are together in one and apart in the other
    variation of information     (Σ n_i log n_i + Σ n_j log n_j − 2 Σ n_ij log n_ij) / N
        (Meilă 2007), in nats: between 0 and log N

Both are Σ f(n_i) + Σ f(n_j) − 2 Σ f(n_ij) for one convex f, and both are metrics.
"""

import numpy as np

LOSSES = ("vi", "binder")


def intersections(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sizes of the intersections that are not empty; labels from 0."""
    if not len(a):
        return np.zeros(0, np.int64)
    wide = int(b.max()) + 1
    codes = a.astype(np.int64) * wide + b
    if (int(a.max()) + 1) * wide <= 4 * len(a) + 1024:
        sizes = np.bincount(codes)
        return np.asarray(sizes[sizes > 0])
    return np.unique(codes, return_counts=True)[1]


def weights(loss: str, n: int) -> np.ndarray:
    """f(0) … f(n) of a loss.

    >>> weights("binder", 3).tolist()
    [0.0, 0.5, 2.0, 4.5]
    """
    x = np.arange(n + 1.0)
    if loss == "binder":
        return np.asarray(0.5 * x * x)
    if loss == "vi":
        return np.asarray(x * np.log(np.maximum(x, 1.0)) / max(n, 1))
    raise ValueError(f"loss={loss!r} is not known; use one of {', '.join(map(repr, LOSSES))}.")


def distance(loss: str, a: np.ndarray, b: np.ndarray) -> float:
    """The loss between two partitions, labels from 0."""
    f = weights(loss, len(a))
    own = f[np.bincount(a)].sum() + f[np.bincount(b)].sum()
    return max(float(own - 2.0 * f[intersections(a, b)].sum()), 0.0)


def binder(a: np.ndarray, b: np.ndarray) -> float:
    """Pairs of rows that are together in one and apart in the other.

    >>> binder(np.array([0, 0, 1]), np.array([0, 1, 1]))
    2.0
    """
    return distance("binder", a, b)


def variation_of_information(a: np.ndarray, b: np.ndarray) -> float:
    """What each partition leaves unknown of the other, in nats.

    >>> round(variation_of_information(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), 4)
    1.3863
    """
    return distance("vi", a, b)
