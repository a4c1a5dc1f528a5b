r"""Pre-learning with nonlinear features of the size counts (Welling and others 2012, section II-A).

    log P(partition) = Σ_i λ_i m_i + w·φ(m) − log 𝒵,    wished for: E[m] = c and E[φ(m)] = e

λ and w maximize λ·c + w·e − log 𝒵 less the penalties of eq. 4, which is concave; its gradient is
(c − E[m], e − E[φ]), its Hessian the covariance of (m, φ), and Newton's method solves it. The paper
estimates the gradient by a sampler, and takes a small step after each sweep (eq. 5). Here it is a
sum over all sets of sizes up to 60 rows, and beyond a mean over independent draws of the linear
prior with E[m] = c, which of all linear ones is nearest, weighted by what λ and w then add.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from thali.priors.checked_features import given_by, refuse_no_function
from thali.priors.size_sets import (
    EVERY_SET,
    OWNER,
    SizeFeatures,
    SizeSets,
    all_features,
    all_size_sets,
    drawn_size_sets,
    tilted,
)
from thali.priors.wished_sizes import Penalty, Wish

DRAWS = 400_000
NEWTON = 40  # steps, several times as many as there are where a wish can be met
MET = 1e-8  # of an expectation, in standard deviations
FEWEST = 0.01  # of the draws, the effective number that weights must leave
COMMON = 0.1  # a size count of which an error is told of
TOLD = 0.02  # the error, of what was wished for


class NonlinearWish(NamedTuple):
    """Wanted size counts, the features, their wanted expectations, and penalties of potentials."""

    counts: np.ndarray
    features: SizeFeatures
    expected: np.ndarray
    penalty: Penalty

    @classmethod
    def of(cls, wish: Wish, features: Any, expected: Any, penalty: Penalty) -> "NonlinearWish":
        """A wish as people give it, or a refusal."""
        refuse_no_function(OWNER, features, "the size counts m")
        try:
            target = np.atleast_1d(np.asarray(expected, float))
        except (TypeError, ValueError):
            target = np.array([np.nan])
        if target.ndim != 1 or not np.isfinite(target).all():
            raise ValueError("expected must be a finite number for each of the features.")
        given = len(given_by(OWNER, features, one_cluster(len(wish.counts))))
        if given != len(target):
            raise ValueError(
                f"features gives {given} numbers, but {len(target)} are expected of it."
            )
        return cls(wish.counts, features, target, penalty)


def one_cluster(n: int) -> np.ndarray:
    """The size counts of n rows in one cluster."""
    return np.append(np.zeros(n - 1), 1.0)


def learn(
    rng: np.random.Generator, wish: NonlinearWish, potentials: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """λ and w; ``potentials`` are those of the wished size counts alone, to begin from."""
    n = len(wish.counts)
    if n <= EVERY_SET:
        sets, phi = all_size_sets(n), all_features(wish.features, n)
    else:
        laws = tilted(potentials)
        sets = drawn_size_sets(rng, laws, np.eye(len(laws))[0], DRAWS)
        phi = sets.features(wish.features)
    if not np.isfinite(phi[sets.log_weights(potentials, 0.0) > -np.inf]).all():
        raise ValueError(
            "Features of which an expectation is wished for must be finite; what there cannot be "
            "goes into counts, as sizes that are not wished for."
        )
    found, missed = Solver(wish, sets, phi, potentials).solve()
    if missed > TOLD:
        warnings.warn(
            f"The expectations wished for are met within about {missed:.0%}: they are means over "
            f"draws for more than {EVERY_SET} rows, of which weights leave few. Wish for features "
            "nearer to those of the size counts alone to have them nearer.",
            stacklevel=3,
        )
    return found


class Solver:
    """Newton's method for (λ, w) on sets of sizes."""

    def __init__(
        self, wish: NonlinearWish, sets: SizeSets, phi: np.ndarray, potentials: np.ndarray
    ) -> None:
        self.wish, self.sets, self.start = wish, sets, potentials
        self.at = np.flatnonzero(np.isfinite(potentials))
        self.logs = sets.log_weights(potentials, 0.0)
        some = self.logs > -np.inf  # sets with sizes that are not wished for are out
        self.logs = self.logs[some]
        # m and φ side by side, φ less what is wished of it, which keeps the digits
        self.values = sparse.csr_array(
            sparse.hstack([sets.counts[some][:, self.at], phi[some] - wish.expected])
        )
        self.target = np.append(wish.counts[self.at], np.zeros(len(wish.expected)))
        i = self.at + 1.0
        self.gauge = np.zeros(2 * (len(self.target),))  # λ_i + c·i is the same prior
        if not wish.penalty.some:
            self.gauge[: len(i), : len(i)] = np.outer(i, i) / float(i @ i)

    def solve(self) -> tuple[tuple[np.ndarray, np.ndarray], float]:
        """λ and w, and by what share expectations may be missed; or a refusal."""
        x, f = np.zeros(len(self.target)), len(self.at)
        now, shares = self.objective(x)
        for _ in range(NEWTON):
            mean = shares @ self.values
            slope = self.target - mean - self.charge(x)[1]
            covariance = self.covariance(mean, shares)
            scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
            if np.abs(slope / np.maximum(scale, 1e-9)).max() < MET:
                learned = self.start.copy()
                learned[self.at] += x[:f]
                return (learned, x[f:]), self.missed(mean, shares)
            bow = covariance + self.gauge
            bow[:f, :f] += self.wish.penalty.curvature(f)
            bow = bow / np.outer(scale, scale) + 1e-10 * np.eye(len(x))
            try:
                step = np.linalg.solve(bow, slope / scale) / scale
            except np.linalg.LinAlgError:
                break  # all that is left of the sets is alike
            share = 1.0
            while share > 1e-9:
                then, new = self.objective(x + share * step)
                enough = self.sets.exact or 1.0 / np.square(new).sum() > FEWEST * len(new)
                if enough and then >= now + 1e-4 * share * float(slope @ step) - 1e-12 * abs(now):
                    break
                share *= 0.5
            else:
                break
            x, now, shares = x + share * step, then, new
        raise ValueError(
            "No prior over partitions has these expected features beside these size counts, or one "
            "that is too far from that of the size counts alone: what is wished for may contradict "
            "itself, as a variance of K below that of whole numbers with its mean."
        )

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """What is maximized, and the probability of each set."""
        logs = self.logs + self.values @ x
        top = logs.max()
        shares = np.exp(logs - top)
        total = shares.sum()
        value = float(self.target @ x) - (top + np.log(total)) - self.charge(x)[0]
        return value, shares / total

    def charge(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The penalty and its slope."""
        f = len(self.at)
        cost, slope = self.wish.penalty.cost(self.start[self.at] + x[:f])
        return cost, np.append(slope, np.zeros(len(x) - f))

    def covariance(self, mean: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Cov(m, φ)."""
        weighted = self.values.copy()
        weighted.data *= np.repeat(shares, np.diff(self.values.indptr))
        return np.asarray((self.values.T @ weighted).toarray() - np.outer(mean, mean))

    def missed(self, mean: np.ndarray, shares: np.ndarray) -> float:
        """Twice the largest standard error of what is wished for, by its size; 0 where exact."""
        if self.sets.exact:
            return 0.0
        size = np.append(self.wish.counts[self.at], np.abs(self.wish.expected))
        squares = self.values.copy()
        squares.data = np.square(squares.data)
        twice, once = np.square(shares) @ squares, np.square(shares) @ self.values
        error = np.sqrt(twice - 2.0 * mean * once + np.square(mean) * np.square(shares).sum())
        told = size > np.append(np.full(len(self.at), COMMON), np.zeros(len(self.wish.expected)))
        return float(2.0 * (error[told] / size[told]).max(initial=0.0))
