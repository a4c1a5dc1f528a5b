"""The order in which a search goes through the rows; the model does not care, the search does."""

import numpy as np

NAMES = ("given", "random", "farthest_first")


def row_order(name: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A permutation of the rows.

    ``farthest_first`` begins with the row that is farthest from the mean and goes on with the one
    farthest from all so far, so that different rows come early.

    >>> row_order("farthest_first", np.array([[0.0], [1.0], [9.0]]), np.random.default_rng(0))
    array([2, 0, 1])
    """
    n = len(X)
    if name == "given":
        return np.arange(n)
    if name == "random":
        return rng.permutation(n)
    order = np.zeros(n, int)
    order[0] = int(np.square(X - X.mean(axis=0)).sum(axis=1).argmax())
    apart = np.full(n, np.inf)
    for i in range(1, n):
        apart = np.minimum(apart, np.square(X - X[order[i - 1]]).sum(axis=1))
        apart[order[:i]] = -1.0
        order[i] = int(apart.argmax())
    return order
