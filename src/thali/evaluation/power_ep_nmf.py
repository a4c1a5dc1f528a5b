r"""Infinite nonnegative matrix factorization by power expectation propagation (Ding, Qi, Xiang,
Molloy and Li 2010), the INMF that Reed and Ghahramani (2013) compare with.

    X = Z A + E,   z_nk ~ Bernoulli(π_k),   π_k ~ Beta(α/K, 1),   a_kd ~ N(0, σ_a²) cut off below 0,
    e_nd ~ N(0, σ_x²)

which tends to an Indian buffet process as K grows. The posterior is stood for by

    q = ∏ Bernoulli(z_nk) ∏ N(a_kd) ∏ Beta(π_k),

a product of messages, one from each factor of the model to each of its unknowns, which are made
anew in turn until they stay (``kernels/power_ep.py`` has the formulas). The messages of entries are
of a power η: 1 is expectation propagation, and as it falls they tend to those of mean-field
variational inference. Messages are kept, of N·D·K entries three numbers each.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from thali.data import Table
from thali.data.checks import refuse_nonfinite
from thali.machine import physical_memory
from thali.settings import number_from_zero, positive_number, whole_number

ROUNDS = 100  # of passes for new rows
SHARE = 0.75  # of the data's standard deviation: the scales, unless they are given
NUMBERS = 8 * 3  # bytes of the messages of an entry to one feature and its bit


class PowerEPNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A nonnegative factorization with binary weights; NaN is a missing entry.

    Parameters
    ----------
    n_components : int, the number of features there may be, K
    alpha : float, α; features that no row is likely to have are as good as absent
    sigma_x, sigma_a : float or None, the noise and the size of features; if None, three quarters of
        the standard deviation of what was observed, as in Reed and Ghahramani (2013)
    power : float, at most 1, η
    damping : float from 0 to less than 1, the share of a message that stays when it is made anew;
        with many features messages without damping may swing ever further
    tol, max_iter : it ends when no probability, and no mean in units of σ_a, moved by more than
        ``tol`` in a pass, or after so many passes
    random_state : int, RandomState or None; features begin at draws from their prior

    Attributes
    ----------
    weights_ : (N, K), P(z = 1)
    components_ : (K, D), E[A]
    components_variance_ : (K, D), Var(A)
    frequencies_ : (K,), E[π]
    n_active_ : how many features some row is more likely than not to have
    sigma_x_, sigma_a_ : the scales
    history_ : how far probabilities and means moved in each pass, the largest of all
    n_iter_, converged_ : how many passes, and whether it ended by ``tol``

    Under q, E[ZA] is ``weights_ @ components_``.

    >>> import numpy as np
    >>> X = 5.0 * np.outer([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0])
    >>> model = PowerEPNMF(n_components=2, sigma_x=0.5, sigma_a=5.0, random_state=0).fit(X)
    >>> bool(np.allclose(model.weights_ @ model.components_, X, atol=0.5))
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        alpha: float = 3.0,
        sigma_x: float | None = None,
        sigma_a: float | None = None,
        power: float = 0.5,
        damping: float = 0.3,
        tol: float = 1e-3,
        max_iter: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.sigma_x = sigma_x
        self.sigma_a = sigma_a
        self.power = power
        self.damping = damping
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Table, y: object = None) -> Self:
        """Fit to X (rows are observations). ``y`` is ignored."""
        from thali.kernels.power_ep import pass_signs

        X = self._validated(X, reset=True)
        self._check()
        (n, d), k = X.shape, whole_number("PowerEPNMF", "n_components", self.n_components, 1)
        refuse_messages_beyond_memory(n, d, k)
        scale = SHARE * float(np.nanstd(X)) if np.isfinite(X).any() else 0.0
        self.sigma_x_ = float(self.sigma_x or scale or 1.0)
        self.sigma_a_ = float(self.sigma_a or scale or 1.0)
        rng = check_random_state(self.random_state)
        q = Globals.prior(d, k, self.alpha, self.sigma_a_)
        rows = Rows.empty(n, d, k, q)
        signs = np.zeros((d, k)), np.zeros((d, k))
        # a draw from the prior, seen with the noise of the prior, in the first pass alone
        first = np.abs(rng.standard_normal((d, k))) / self.sigma_a_
        q.P[:] += self.sigma_a_**-2
        q.H[:] += first
        history: list[float] = []
        means, on = q.H / q.P, expit(rows.L)
        for _ in range(int(self.max_iter)):
            self._pass(X, q, rows, hold=False)
            if not history:
                q.P[:] -= self.sigma_a_**-2
                q.H[:] -= first
            pass_signs(q.P, q.H, *signs, q.least, 1.0 - self.damping)
            before, means, on_before, on = means, q.H / q.P, on, expit(rows.L)
            moved = np.abs(means - before).max(initial=0.0) / self.sigma_a_
            history.append(max(float(moved), float(np.abs(on - on_before).max(initial=0.0))))
            if history[-1] <= self.tol and len(history) > 1:
                break
        self._q = q
        self.weights_, self.components_ = on, np.ascontiguousarray(means.T)
        self.components_variance_ = np.ascontiguousarray(1.0 / q.P.T)
        self.frequencies_ = q.b / (q.b + q.c)
        self.n_active_ = int((on > 0.5).any(axis=0).sum())
        self.history_, self.n_iter_ = np.array(history), len(history)
        self.converged_ = history[-1] <= self.tol and len(history) > 1
        self._n_features_out = k
        return self

    def transform(self, X: Table) -> np.ndarray:
        """P(z = 1) of new rows given the features, (n, K)."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        (n, d), k = X.shape, len(self.components_)
        refuse_messages_beyond_memory(n, d, k)
        rows = Rows.empty(n, d, k, self._q)
        for _ in range(ROUNDS):
            before = expit(rows.L)
            self._pass(X, self._q, rows, hold=True)
            if np.abs(expit(rows.L) - before).max(initial=0.0) <= self.tol:
                break
        return np.asarray(expit(rows.L))

    def inverse_transform(self, W: ArrayLike) -> np.ndarray:
        """The data expected of probabilities: W E[A]."""
        check_is_fitted(self)
        W = np.asarray(W, float)
        if W.ndim != 2 or W.shape[1] != len(self.components_):
            raise ValueError(
                f"W must be a matrix (rows x {len(self.components_)} features), not {W.shape}."
            )
        return np.asarray(W @ self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _pass(self, X: np.ndarray, q: "Globals", rows: "Rows", hold: bool) -> None:
        """Over the messages of all entries and bits; ``hold`` leaves features as they are."""
        from thali.kernels.power_ep import pass_rows

        noise, step = self.sigma_x_**2, 1.0 - self.damping
        found = q.P, q.H, q.b, q.c
        pass_rows(X, found, tuple(rows), q.least, noise, float(self.power), step, hold)

    def _check(self) -> None:
        for name in ("alpha", "power", "tol"):
            positive_number("PowerEPNMF", name, getattr(self, name))
        for name in ("sigma_x", "sigma_a"):
            if getattr(self, name) is not None:
                positive_number("PowerEPNMF", name, getattr(self, name), 1e150)
        if self.power > 1.0:
            raise ValueError(f"PowerEPNMF: power must be at most 1, not {self.power}.")
        if number_from_zero("PowerEPNMF", "damping", self.damping) >= 1.0:
            raise ValueError(f"PowerEPNMF: damping must be less than 1, not {self.damping}.")
        whole_number("PowerEPNMF", "max_iter", self.max_iter, 1)

    def _validated(self, X: Table, *, reset: bool) -> np.ndarray:
        X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        refuse_nonfinite(X)
        return np.ascontiguousarray(X)


class Globals(NamedTuple):
    """q of features, natural parameters (D, K), and of frequencies; the least precision allowed."""

    P: np.ndarray
    H: np.ndarray
    b: np.ndarray
    c: np.ndarray
    least: float

    @classmethod
    def prior(cls, d: int, k: int, alpha: float, sigma_a: float) -> Self:
        from thali.kernels.power_ep import LEAST

        precision = sigma_a**-2
        P, H = np.full((d, k), precision), np.zeros((d, k))
        return cls(P, H, np.full(k, alpha / k), np.ones(k), LEAST * precision)


class Rows(NamedTuple):
    """q of bits, log odds (N, K), and the messages of entries and of bits' priors."""

    L: np.ndarray
    tau: np.ndarray
    eta: np.ndarray
    odds: np.ndarray
    prior_odds: np.ndarray
    of_b: np.ndarray
    of_c: np.ndarray

    @classmethod
    def empty(cls, n: int, d: int, k: int, q: Globals) -> Self:
        """Rows of which nothing is seen yet."""
        odds = np.tile(np.log(q.b / q.c), (n, 1))
        tau, eta, of_entries = (np.zeros((n, d, k)) for _ in range(3))
        of_b, of_c = np.zeros((n, k)), np.zeros((n, k))
        return cls(odds, tau, eta, of_entries, odds.copy(), of_b, of_c)


def refuse_messages_beyond_memory(n: int, d: int, k: int) -> None:
    """Say so where the messages do not fit."""
    needed, available = NUMBERS * n * d * k, physical_memory()
    if needed > available:
        raise MemoryError(
            f"PowerEPNMF keeps three numbers for each of {n:,} x {d:,} entries and {k:,} features, "
            f"which need {needed / 2**30:,.0f} GB of memory, more than the "
            f"{available / 2**30:,.0f} GB here; use fewer features, or BayesianNMF."
        )
