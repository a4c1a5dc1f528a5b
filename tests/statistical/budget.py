"""One failure budget for the whole suite, and the p-values that draw on it.

If the library is right, the whole suite, slow tests included, raises a false alarm on a new seed
with probability at most ``BUDGET``.  Each test draws its share: the budget is divided evenly among
the ``TESTS`` statistical tests (Bonferroni), and a test's share evenly among its p-values.
A test that must catch a broken sampler uses the very same threshold.

P-values of means of Markov chains are from batch means: a chain is cut into batches so long that
their means are nearly independent and nearly normal, and (grand mean − truth) is compared with
their spread by Student's t.  Means of skewed quantities are only nearly normal, and far in the tail
that makes such a p-value too small by up to a factor of about ten (Edgeworth, with the effective
sample sizes used here and no cell rarer than 0.1); hence ``SAFETY``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats

BUDGET = 1e-3
SAFETY = 10.0
TESTS = {  # family -> how many tests judge p-values in it; each family asserts its number
    "priors": 21,
    "forms": 12,
    "fine_noise": 1,
    "ladder": 1200,
    "linear_gaussian": 2,
    "oracles": 2,
    "enumeration": 86,
    "prior_recovery": 20,
    "geweke": 10,
    "noisy_or": 16,
    "poisson": 14,
    "particle_filter": 24,
    "cluster_filter": 14,
    "missing": 18,
    "column_moves": 27,
    "truncated_normal": 8,
    "nonnegative": 15,
    "sparse_enumeration": 4,
    "sparse_agreement": 1,
    "sparse_moves": 6,
    "sparse_draws": 2,
    "observed_rows": 14,
    "truncation": 2,
    "variational_draws": 7,
    "row_solvers": 1,
    "row_potentials": 27,
    "flexible_ibp": 25,
    "metropolis": 49,
    "evidence": 14,
    "partition_ladder": 103,
    "topics": 34,
    "mixed_columns": 46,
    "column_noise": 20,
    "row_blocks": 24,
    "tables_with_gaps": 14,
    "row_densities": 5,
    "annealing": 23,
}
SHARE = BUDGET / SAFETY / sum(TESTS.values())


def threshold(n_p_values: int) -> float:
    """The p-value below which one of a test's ``n_p_values`` is an alarm."""
    return SHARE / n_p_values


def alarms(p_values: Mapping[str, float]) -> dict[str, float]:
    """Those p-values that a right program gives too rarely to believe."""
    for name, p in p_values.items():
        assert 0.0 <= p <= 1.0, f"{name}: {p} is not a p-value"
    return {name: p for name, p in p_values.items() if p < threshold(len(p_values))}


def judge(family: str, p_values: Mapping[str, float]) -> None:
    """Fail, with the offending p-values, when a test's share of the budget is overspent."""
    assert family in TESTS
    assert p_values
    found = alarms(p_values)
    assert not found, f"below {threshold(len(p_values)):.1e}: {found}"


def batch_means(series: NDArray, n_batches: int) -> NDArray[np.float64]:
    """(chains, draws) -> about n_batches means of consecutive stretches, none across chains."""
    series = np.atleast_2d(np.asarray(series, dtype=np.float64))
    chains, draws = series.shape
    per_chain = max(n_batches // chains, 2)
    length = draws // per_chain
    assert length >= 20, "batches of fewer than 20 draws are not nearly independent"
    return series[:, : per_chain * length].reshape(chains * per_chain, length).mean(axis=1)


def standard_error(means: NDArray) -> float:
    """Of the grand mean; batches too short to be independent are allowed for, as an AR(1) series.

    A positive correlation ρ of neighbors multiplies the variance of their mean by (1+ρ)/(1−ρ).
    """
    left = means - means.mean()
    total = float(left @ left)
    rho = float(left[1:] @ left[:-1]) / total if total > 0.0 else 0.0
    rho = min(max(rho, 0.0), 0.9)
    return float(means.std(ddof=1) / np.sqrt(len(means)) * np.sqrt((1.0 + rho) / (1.0 - rho)))


def p_value_of_mean(series: NDArray, truth: float, n_batches: int = 50) -> float:
    """Two-sided p-value that the chains' mean is ``truth``, by batch means and Student's t.

    A constant series is judged exactly: it agrees with the truth, or it does not.
    """
    means = batch_means(series, n_batches)
    spread = standard_error(means)
    error = means.mean() - truth
    if spread <= 1e-12 * max(1.0, abs(truth)):
        return 1.0 if abs(error) <= 1e-9 * max(1.0, abs(truth)) else 0.0
    return float(2.0 * stats.t.sf(abs(error) / spread, len(means) - 1))


def pooled(probabilities: NDArray, at_least: float = 0.1) -> list[list[int]]:
    """Consecutive indices put together until each cell weighs ``at_least``; the rest to the last.

    >>> pooled(np.array([0.05, 0.6, 0.2, 0.1, 0.04, 0.01]))
    [[0, 1], [2], [3, 4, 5]]
    """
    cells: list[list[int]] = [[]]
    for i in range(len(probabilities)):
        if cells[-1] and probabilities[cells[-1]].sum() >= at_least:
            cells.append([])
        cells[-1].append(i)
    if len(cells) > 1 and probabilities[cells[-1]].sum() < at_least:
        last = cells.pop()
        cells[-1] += last
    return cells


def p_value_of_difference(a: NDArray, b: NDArray, n_batches: int = 50) -> float:
    """Two-sided p-value that two chains (or independent samples) have the same mean (Welch)."""
    one, other = batch_means(a, n_batches), batch_means(b, n_batches)
    spread = np.hypot(standard_error(one), standard_error(other))
    if spread == 0.0:
        return 1.0 if one.mean() == other.mean() else 0.0
    freedom = min(len(one), len(other)) - 1
    return float(2.0 * stats.t.sf(abs(one.mean() - other.mean()) / spread, freedom))


def p_value_of_counts(observed: NDArray, probabilities: NDArray, at_least: float = 10.0) -> float:
    """Chi-square p-value that independent draws have these probabilities; rare cells are pooled.

    ``observed`` may have one more cell than ``probabilities``: the draws in none of them.
    """
    observed = np.asarray(observed, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if len(observed) == len(p) + 1:
        p = np.append(p, max(1.0 - p.sum(), 0.0))
    assert len(observed) == len(p)
    expected = p * observed.sum()
    rare = expected < at_least
    cells = [(observed[~rare], expected[~rare])]
    if rare.any():
        cells.append((observed[rare].sum(keepdims=True), expected[rare].sum(keepdims=True)))
    found = np.concatenate([c[0] for c in cells])
    hoped = np.concatenate([c[1] for c in cells])
    if hoped[-1] < at_least and len(hoped) > 1:  # the pool itself is rare: into the largest cell
        top = int(hoped[:-1].argmax())
        found[top] += found[-1]
        hoped[top] += hoped[-1]
        found, hoped = found[:-1], hoped[:-1]
    if len(hoped) == 1:
        return 1.0
    statistic = float(((found - hoped) ** 2 / hoped).sum())
    return float(stats.chi2.sf(statistic, len(hoped) - 1))
