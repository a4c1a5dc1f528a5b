r"""Bayesian nonnegative matrix factorization by iterated conditional modes (Schmidt, Winther and
Hansen 2009).

    X = W A + E,   w_nk ~ Exponential(rate),   a_kd ~ Exponential(rate),   e_nd ~ N(0, σ²),
    σ² ~ InverseGamma(shape, scale)

Each entry in turn goes to its mode given the rest, that of a normal cut off below zero,

    w_nk = max(0, (Σ_d a_kd r_nd − rate σ²) / Σ_d a_kd²),   r_nd = x_nd − Σ_{l≠k} w_nl a_ld,

over the entries observed; a whole column of W, or row of A, at a time, since its entries are
independent given the others. The log posterior rises at every step.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from thali.data import Data, Table
from thali.data.checks import refuse_nonfinite
from thali.machine import refuse_beyond_memory
from thali.settings import positive_number, whole_number

ROUNDS = 200  # of updates for new rows


class BayesianNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A nonnegative factorization; NaN is a missing entry.

    Parameters
    ----------
    n_components : int, the number of factors
    rate : float, of the exponential priors of W and A
    shape, scale : float, of the inverse-gamma prior of σ²
    tol, max_iter : it ends when the log posterior gains less than ``tol`` of itself, or after so
        many iterations
    random_state : int, RandomState or None

    Attributes
    ----------
    weights_ : (N, K), W
    components_ : (K, D), A
    sigma_x_ : σ
    history_ : the log posterior after every iteration, up to a constant that the data do not change

    >>> import numpy as np
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0])
    >>> model = BayesianNMF(n_components=1, rate=1e-6, random_state=0).fit(X)
    >>> bool(np.allclose(model.weights_ @ model.components_, X, atol=0.01))
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        rate: float = 1.0,
        shape: float = 1.0,
        scale: float = 1e-6,
        tol: float = 1e-6,
        max_iter: int = 500,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.rate = rate
        self.shape = shape
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Table, y: object = None) -> Self:
        """Fit to X (rows are observations). ``y`` is ignored."""
        X, mask = self._validated(X, reset=True)
        for name in ("rate", "shape", "scale", "tol"):
            positive_number("BayesianNMF", name, getattr(self, name))
        whole_number("BayesianNMF", "max_iter", self.max_iter, 1)
        k = whole_number("BayesianNMF", "n_components", self.n_components, 1)
        refuse_beyond_memory("BayesianNMF", X.shape[0], k, X.shape[1])
        rng = check_random_state(self.random_state)
        count = X.size if mask is None else int(mask.sum())  # of entries observed
        scale = np.sqrt(max(float(X.sum()), 1e-12) / (max(count, 1) * k))
        W = rng.exponential(scale, (X.shape[0], k))
        A = rng.exponential(scale, (k, X.shape[1]))
        variance, history = self._variance(0.5 * squares(X, mask, W, A), count), []
        for _ in range(int(self.max_iter)):
            improve(W, A, X, mask, self.rate * variance)
            turned = np.ascontiguousarray(A.T)
            improve(turned, W.T, X.T, None if mask is None else mask.T, self.rate * variance)
            A = np.ascontiguousarray(turned.T)
            half = 0.5 * squares(X, mask, W, A)
            variance = self._variance(half, count)
            fit = -0.5 * count * np.log(2.0 * np.pi * variance) - half / variance
            history.append(fit + self._log_prior(W, A, variance))
            if len(history) > 1 and history[-1] - history[-2] <= self.tol * abs(history[-1]):
                break
        self.weights_, self.components_ = W, A
        self.sigma_x_ = float(np.sqrt(variance))
        self.history_ = np.array(history)
        self.n_iter_, self._n_features_out = len(history), k
        return self

    def transform(self, X: Table) -> np.ndarray:
        """The weights of new rows given the factors, (n, K)."""
        check_is_fitted(self)
        X, mask = self._validated(X, reset=False)
        W = np.full((len(X), len(self.components_)), self.weights_.mean())
        for _ in range(ROUNDS):
            before = W.copy()
            improve(W, self.components_, X, mask, self.rate * self.sigma_x_**2)
            if np.abs(W - before).max(initial=0.0) <= 1e-9 * (1.0 + np.abs(W).max(initial=0.0)):
                break
        return W

    def inverse_transform(self, W: ArrayLike) -> np.ndarray:
        """The data expected of weights: W A."""
        check_is_fitted(self)
        W = np.asarray(W, float)
        if W.ndim != 2 or W.shape[1] != len(self.components_):
            raise ValueError(
                f"W must be a matrix (rows x {len(self.components_)} factors), not {W.shape}."
            )
        return np.asarray(W @ self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validated(self, X: Table, *, reset: bool) -> tuple[np.ndarray, np.ndarray | None]:
        X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        refuse_nonfinite(X)
        data = Data.checked(X)
        return data.zeroed, data.observed

    def _variance(self, half: float, count: int) -> float:
        """The mode of σ² given half the sum of squares of what is left of so many entries."""
        return (self.scale + half) / (0.5 * count + self.shape + 1.0)

    def _log_prior(self, W: np.ndarray, A: np.ndarray, variance: float) -> float:
        priors = (W.size + A.size) * np.log(self.rate) - self.rate * (W.sum() + A.sum())
        return float(priors - (self.shape + 1.0) * np.log(variance) - self.scale / variance)


def squares(X: np.ndarray, mask: np.ndarray | None, W: np.ndarray, A: np.ndarray) -> float:
    """‖X − WA‖² over what was observed; without gaps no matrix of X's size is made."""
    if mask is not None:
        return float(np.square((X - W @ A) * mask).sum())
    cross = float((W * (X @ A.T)).sum())
    whole = float(np.vdot(X, X)) - 2.0 * cross + float(((W.T @ W) * (A @ A.T)).sum())
    return max(whole, 0.0)


def improve(
    W: np.ndarray, A: np.ndarray, X: np.ndarray, mask: np.ndarray | None, penalty: float
) -> None:
    """Each column of W at its mode given the others, in place."""
    if mask is not None:
        rest = (X - W @ A) * mask
        for k in range(W.shape[1]):
            size = mask @ np.square(A[k])
            top = rest @ A[k] + W[:, k] * size - penalty
            new = np.divide(np.maximum(top, 0.0), size, out=np.zeros_like(top), where=size > 0.0)
            rest -= np.outer(new - W[:, k], A[k]) * mask
            W[:, k] = new
        return
    G, H = A @ A.T, X @ A.T
    for k in range(W.shape[1]):
        if G[k, k] <= 0.0:  # a factor of zeros: the prior alone, whose mode is zero
            W[:, k] = 0.0
            continue
        top = H[:, k] - W @ G[:, k] + W[:, k] * G[k, k] - penalty
        W[:, k] = np.maximum(top, 0.0) / G[k, k]
