r"""Pre-learning: potentials of sizes from the size counts that one expects (Welling, section II-A).

The prior of most entropy with E[m] = c maximizes  Σ λ_i c_i − log Z_N(λ), which is concave; its
gradient is c − E[m] and its Hessian −Cov(m), both exact, so that Newton's method takes a few dozen
steps of O(N³). Penalties pull·Σ(λ_i − λ_i^DP)² and smooth·Σ(λ_i − λ_{i−1})² keep it concave.

Which c can be met: those inside the polytope whose corners are the size counts of all partitions of
N rows. Σ i c_i = N is necessary and not enough: N = 3, c = (0, 1.5, 0) is outside. The point of the
polytope nearest to c (least Σ|c_i − c'_i|) is a linear program; corners come in as they are needed,
the best one for a direction being a knapsack problem, O(N²).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from thali.priors.partition_sums import expected_pairs, expected_sizes, sums_of
from thali.priors.pitman_yor import DirichletProcess

ROUNDING = 1e-9
MET = 1e-9  # of an expectation
NEWTON = 500  # steps, far more than there are where a wish can be met
FARTHEST = 600.0  # a potential beyond this has left for infinity


class Wish(NamedTuple):
    """Expected size counts c_1 … c_N, and the sizes that are wished for at all (c_i > 0)."""

    counts: np.ndarray
    sizes: np.ndarray  # indices i − 1

    @classmethod
    def of(cls, counts: Any) -> "Wish":
        """A wish as people give it, or a refusal."""
        try:
            given = np.asarray(counts, float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"counts must be numbers E[m_1], …, E[m_N], not {counts!r}.") from error
        if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or (given < 0).any():
            raise ValueError(
                "counts must be one expected number of clusters, zero or more, for each size "
                "1, …, N of a cluster."
            )
        n, rows = len(given), float(given @ np.arange(1, len(given) + 1))
        if abs(rows - n) > 1e-6 * n:
            raise ValueError(
                f"counts of {n} sizes are for {n} rows, and clusters as wished for have {rows:.6g} "
                f"rows in all: Σ i·counts[i] must be {n}. Multiply all counts by {n / rows:.6g} "
                "to mend that."
            )
        return cls(given * (n / rows), np.flatnonzero(given > 0.0))


class Penalty(NamedTuple):
    """pull·Σ(λ_i − λ_i^DP)² + smooth·Σ(λ_i − λ_{i−1})²: what potentials cost (eq. 4)."""

    pull: float
    smooth: float
    alpha: float  # the mass of the Dirichlet process

    @classmethod
    def of(cls, pull: float, smooth: float, alpha: float) -> "Penalty":
        """A penalty as people give it, or a refusal."""
        for name, weight in (("pull", pull), ("smooth", smooth)):
            if not 0.0 <= weight < np.inf:
                raise ValueError(f"{name}={weight!r} must be zero or a positive number.")
        if not 0.0 < alpha < np.inf:
            raise ValueError(f"alpha={alpha!r} must be a positive number.")
        return cls(pull, smooth, alpha)

    @property
    def some(self) -> bool:
        """Whether anything costs: every potential is then finite."""
        return self.pull > 0.0 or self.smooth > 0.0

    def center(self, n: int) -> np.ndarray:
        """λ^DP of n sizes."""
        return np.asarray(np.log(self.alpha) + gammaln(np.arange(1.0, n + 1.0)))

    def curvature(self, n: int) -> np.ndarray:
        """The second derivatives of the cost of n potentials."""
        bend = np.diff(np.eye(n), axis=0)
        return 2.0 * (self.pull * np.eye(n) + self.smooth * bend.T @ bend)

    def cost(self, potentials: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost of λ_1 … λ_n and its slope; none where nothing costs."""
        if not self.some:
            return 0.0, np.zeros(len(potentials))
        away, bent = potentials - self.center(len(potentials)), np.diff(potentials)
        cost = self.pull * float(away @ away) + self.smooth * float(bent @ bent)
        along = -np.diff(bent, prepend=0.0, append=0.0)
        return cost, 2.0 * (self.pull * away + self.smooth * along)


def potentials_of(wish: Wish, penalty: Penalty) -> np.ndarray:
    """λ_1 … λ_N by Newton's method; sizes that are not wished for get −inf."""
    if not penalty.some:
        refuse_infeasible(wish)
    found = maximize(wish, penalty)
    if found is None:
        dirichlet = DirichletProcess(alpha=penalty.alpha).expected_size_counts(len(wish.counts))
        inside = 0.99 * wish.counts + 0.01 * dirichlet
        raise ValueError(
            "counts lie on the edge of what partitions can have: only potentials without bound "
            f"come near them. A little inside, for example, is {as_words(inside)}; or give pull "
            "a small weight."
        )
    return found


def maximize(wish: Wish, penalty: Penalty) -> np.ndarray | None:
    """The best potentials, or None where they go to infinity."""
    n = len(wish.counts)
    at = np.arange(n) if penalty.some else wish.sizes
    i, start = at + 1.0, penalty.center(n)[at]
    own, target = start.copy(), wish.counts[at]
    gauge = 0.0 if penalty.some else np.outer(i, i) / float(i @ i)

    def value(potentials: np.ndarray) -> tuple[float, np.ndarray]:
        whole = np.full(n, -np.inf)
        whole[at] = potentials
        sums = sums_of(whole.tobytes())
        return float(target @ potentials - sums[n]) - penalty.cost(potentials)[0], whole

    now, whole = value(own)
    for _ in range(NEWTON):
        sums = sums_of(whole.tobytes())
        means = expected_sizes(whole, sums)[at]
        with np.errstate(invalid="ignore"):
            pairs = np.nan_to_num(expected_pairs(whole, sums)[np.ix_(at, at)])
        slope = target - means - penalty.cost(own)[1]
        if np.abs(slope).max() < MET:
            return whole
        bow = pairs - np.outer(means, means) + penalty.curvature(len(at)) + gauge
        bow += np.eye(len(at)) * 1e-12 * max(float(np.trace(bow)) / len(at), 1e-300)
        step = np.linalg.solve(bow, slope)
        step *= min(1.0, 5.0 / max(np.abs(step).max(), 1e-300))
        share = 1.0
        while share > 1e-12:
            then, there = value(own + share * step)
            if then >= now + 1e-4 * share * float(slope @ step) or (
                share * np.abs(step).max() < 1e-9 and then >= now - 1e-12 * (1.0 + abs(now))
            ):
                break
            share *= 0.5
        else:
            return whole if np.abs(slope).max() < 1e-6 else None
        own, now, whole = own + share * step, then, there
        if np.abs(own - own.mean()).max() > FARTHEST + np.abs(start).max():
            return None
    return None


def refuse_infeasible(wish: Wish) -> None:
    """Refuse what lies outside of the polytope, with the nearest point of it."""
    nearest = nearest_feasible(wish.counts)
    if np.abs(nearest - wish.counts).sum() > 1e-7 * (1.0 + wish.counts.sum()):
        raise ValueError(
            f"No prior over partitions of {len(wish.counts)} rows has these expected size counts, "
            "although their rows add up: they are not an average of size counts that partitions "
            f"have. The nearest that are: {as_words(nearest)}."
        )


def nearest_feasible(counts: np.ndarray) -> np.ndarray:
    """The average of partitions' size counts with the least Σ|difference| from ``counts``."""
    from scipy.optimize import linprog

    n = len(counts)
    corners = [largest_along(np.zeros(n)), one_size(n, 1), one_size(n, n)]
    while True:
        size = len(corners)
        A = np.zeros((n + 1, size + 2 * n))
        A[:n, :size] = np.array(corners).T
        A[:n, size : size + n], A[:n, size + n :] = np.eye(n), -np.eye(n)
        A[n, :size] = 1.0
        cost = np.concatenate([np.zeros(size), np.ones(2 * n)])
        found = linprog(cost, A_eq=A, b_eq=np.append(counts, 1.0), method="highs")
        duals = np.asarray(found.eqlin.marginals)
        corner = largest_along(duals[:n])
        if corner @ duals[:n] + duals[n] <= ROUNDING or found.fun <= ROUNDING:
            return np.asarray(np.array(corners).T @ found.x[:size])
        corners.append(corner)


def largest_along(direction: np.ndarray) -> np.ndarray:
    """The size counts m of a partition with the largest Σ direction_i m_i: a knapsack problem."""
    n = len(direction)
    best, last = np.zeros(n + 1), np.zeros(n + 1, int)
    for rows in range(1, n + 1):
        values = direction[:rows] + best[rows - 1 :: -1]
        last[rows] = int(np.argmax(values)) + 1
        best[rows] = values[last[rows] - 1]
    found, rows = np.zeros(n), n
    while rows:
        found[last[rows] - 1] += 1.0
        rows -= last[rows]
    return found


def one_size(n: int, size: int) -> np.ndarray:
    """n rows in clusters of one size, which divides n."""
    return np.where(np.arange(1, n + 1) == size, n / size, 0.0)


def as_words(counts: np.ndarray) -> str:
    """The counts that are not zero, rounded, for a sentence."""
    some = [f"{c:.3g} of size {i + 1}" for i, c in enumerate(counts) if c > 5e-4]
    return ", ".join(some[:12]) + (", …" if len(some) > 12 else "")
