"""Broken copies of the search are caught, with the tolerances that the right one passes."""

from __future__ import annotations

import numba
import pytest
from oracles.search_problems import KINDS, tiny
from oracles.variational_updates import install
from unit import test_search_bounds, test_search_exact, test_search_polish, test_search_rows

SEARCH, KERNELS = "thali.engines.search.", "thali.kernels."
MUTANTS = {  # what is wrong -> where, old, new, and which check must notice
    "dishes not counted": (
        KERNELS + "search_scores",
        "return gain if row.free < 0 else gain + np.log(float(row.free - j))",
        "return gain",
        "rows",
    ),
    "dishes so far not counted": (
        SEARCH + "prior_bounds",
        "opened = 0.0 if free < 0 else gammaln(bound.capacity + 1.0) - gammaln(free + 1.0)",
        "opened = 0.0",
        "rows",
    ),
    "ties as if nothing could part them": (
        KERNELS + "search_scores",
        "    cells = 1 << left\n",
        "    cells = 1\n",
        "bounds",
    ),
    "no ties at all": (
        KERNELS + "search_scores",
        "max(ties(count, left), lgamma(count + 1.0) - count * slack) if count > 1 else 0.0",
        "0.0",
        "rows",
    ),
    "ties of taken columns alone": (
        KERNELS + "search_scores",
        "        total += parting(size - ones, left, row.slack_stay[i - 1])\n",
        "",
        "rows",
    ),
    "equal columns that lose too much": (
        KERNELS + "search_scores",
        "lgamma(count + 1.0) - count * slack",
        "lgamma(count + 1.0) - 0.5 * count * slack",
        "bounds",
    ),
    "a skipped dish as printed": (
        SEARCH + "prior_bounds",
        "skip = 1.0 - (m + last.offset) / whole if self.corrected else 1.0 - take",
        "skip = 1.0 - take",
        "paper",
    ),
    "the worth of a dish as it is": (
        SEARCH + "prior_bounds",
        "most = np.maximum(within[:last], within[left : left + last])",
        "most = within[:last]",
        "bounds",
    ),
    "no dishes in the future": (
        SEARCH + "prior_bounds",
        "        if left == 0:\n            return np.zeros(max(free, 0) + 1)\n        m = np",
        "        if left >= 0:\n            return np.zeros(max(free, 0) + 1)\n        m = np",
        "bounds",
    ),
    "one dish of each history in the future": (
        SEARCH + "prior_bounds",
        "count = np.floor(np.exp(np.minimum(log_weight, 30.0)) + 1e-12)",
        "count = np.floor(np.minimum(np.exp(np.minimum(log_weight, 30.0)), 1.0) + 1e-12)",
        "bounds",
    ),
    "a bound of densities with the wrong sign": (
        SEARCH + "candidates",
        "return -0.5 * self.dimensions * float(np.log(2.0 * np.pi * self.sigma_x**2))",
        "return 0.5 * self.dimensions * float(np.log(2.0 * np.pi * self.sigma_x**2))",
        "bounds",
    ),
    "new dishes without their variance": (
        KERNELS + "search_rows",
        "score = prior + later(row, j) + log_density(groups, j / r, precision, False)",
        "score = prior + later(row, j) + log_density(groups, 0.0, precision, False)",
        "rows",
    ),
    "evidence without new dishes": (
        SEARCH + "candidates",
        'np.maximum(np.einsum("ni,ni->n", Z @ M, Z), 0.0) + new / self.r',
        'np.maximum(np.einsum("ni,ni->n", Z @ M, Z), 0.0) + 0.0 * new',
        "rows",
    ),
    "the Gray code without the bit below": (
        KERNELS + "search_rows",
        "below_s = M[g, i, i - 1] if i > 0 else 0.0",
        "below_s = 0.0",
        "rows",
    ),
    "the last row of the Gray code left out": (
        KERNELS + "search_rows",
        "for t in range(1 << k):",
        "for t in range(max(1, (1 << k) - 1)):",
        "rows",
    ),
    "equal columns told apart": (
        KERNELS + "search_rows",
        "        if wrong > 0:\n            continue\n",
        "",
        "rows",
    ),
    "new dishes like those before": (
        SEARCH + "candidates",
        "found[old : old + 1] = 0",
        "found[old : old + 1] = int(old > 0)",
        "bounds",
    ),
    "columns that stay equal": (
        SEARCH + "candidates",
        "found[1:old] &= self.z[1:] == self.z[:-1]",
        "found[1:old] &= True",
        "bounds",
    ),
    "what a queue drops forgotten": (
        SEARCH + "best_first",
        "self.lost = max(self.lost, -self.items.pop()[0])",
        "self.items.pop()",
        "bound of a queue",
    ),
    "rows that are not followed forgotten": (
        SEARCH + "best_first",
        "self.queue.lost = max(self.queue.lost, lost)",
        "pass",
        "bound of a queue",
    ),
    "more dishes than may be opened forgotten": (
        KERNELS + "search_rows",
        "return size, max(lost, tail if gain <= 0.0 else np.inf)",
        "return size, lost",
        "words",
    ),
    "the worst taken first": (
        SEARCH + "best_first",
        "item = heapq.heappop(self.items) if self.width is None else self.items.pop(0)",
        "item = self.items.pop()",
        "mode",
    ),
    "rows in the order of the search": (
        "thali.engines.beam_search",
        "Z[state.order] = search.answer.matrix()",
        "Z[:] = search.answer.matrix()",
        "mode",
    ),
    "matrices taken for classes": (
        KERNELS + "collapsed_rows",
        "    return np.log(equal / other)\n",
        "    return 0.0\n",
        "climb",
    ),
}


def noticed(check):
    """Whether a check fails, by its numbers, by what it asserts on the way, or where a search goes
    so far astray that it has too many features for all rows."""
    try:
        return bool(check())
    except (AssertionError, ValueError) as error:
        return isinstance(error, AssertionError) or "too many" in str(error)


def by_rows(rng):
    errors = (
        test_search_rows.distance_of_rows(rng, kind, "convex", "admissible", k, rows=4, n=n)
        for k in (3, 4, 2)
        for n in (5, 7)
        for kind in KINDS
    )
    return any(not error < test_search_rows.CLOSE for error in errors)


def by_bounds(rng, bound="convex"):
    """On the data of the tests of bounds: few rows, or the most for the bound of the paper."""
    sizes = test_search_bounds.SIZES[1:3] if bound == "convex" else test_search_bounds.SIZES[-1:]
    for kind in KINDS:
        for case, cap in test_search_bounds.cases(rng, kind, sizes):
            excess, whole = test_search_bounds.lowest_excess(case, cap, bound)
            if not (excess > -1e-9 and whole < 1e-9):
                return True
    return False


def by_mode(rng):
    return bool(test_search_exact.misses(rng, 12, polish=False))


def by_bound_of_a_queue(rng):
    return max(test_search_exact.forgotten(rng, 6, width) for width in (1, 3)) > 1e-8


def by_words(rng):
    for i in range(18):
        case = tiny(rng, i)
        model = case.fit(seed=i, **test_search_exact.EXACT, most_new=0, polish=False)
        if test_search_exact.wrong_words(case, model):
            return True
    return False


def by_climb(rng):
    fall, left = test_search_polish.worst_climb(rng, 28, "ibp")
    return max(fall, left) > test_search_polish.CLOSE


CHECKS = {
    "rows": by_rows,
    "bounds": by_bounds,
    "paper": lambda rng: by_bounds(rng, "paper"),
    "mode": by_mode,
    "bound of a queue": by_bound_of_a_queue,
    "words": by_words,
    "climb": by_climb,
}


QUICK = {  # so that each check is seen to fail
    "dishes not counted", "ties as if nothing could part them", "a skipped dish as printed",
    "a bound of densities with the wrong sign", "new dishes without their variance",
    "the Gray code without the bit below", "what a queue drops forgotten",
    "more dishes than may be opened forgotten", "the worst taken first",
    "matrices taken for classes",
}  # fmt: skip
CASES = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow, id=name) for name in MUTANTS
]


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_caught(name, monkeypatch, rng):
    module, old, new, check = MUTANTS[name]
    with monkeypatch.context() as plain:  # data are tiny: Python is faster than a compiler
        plain.setattr(numba.config, "DISABLE_JIT", True)
        install(monkeypatch, module, [(old, new)])
        if module == KERNELS + "search_scores":  # by which rows are scored
            install(monkeypatch, KERNELS + "search_rows", [])
    assert noticed(lambda: CHECKS[check](rng))


def test_each_check_passes_the_right_program(rng):
    assert not [name for name, check in CHECKS.items() if noticed(lambda c=check: c(rng))]
