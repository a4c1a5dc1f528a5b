"""Broken copies of maximization-expectation are caught, with the tolerances that the right one
passes."""

from __future__ import annotations

import pytest
from oracles.variational_updates import install
from statistical.budget import alarms
from unit import test_hard_bound, test_row_solvers

LAWS, KERNELS = "thali.engines.ascent.", "thali.kernels."
ROUNDS = "thali.backends.hard_rounds"
SOLVERS = KERNELS + "row_solvers."
MUTANTS = {  # what is wrong -> where, old, new, and which check must notice
    "log K₊ for log K₊!, as printed": (
        LAWS + "counts",
        "            return np.asarray(-gammaln(used + 1.0))",
        "            return np.asarray(-np.log(np.maximum(used, 1.0)))",
        "objectives",
    ),
    "orders of equal columns counted twice": (
        LAWS + "counts",
        "return float(gammaln(len(gram) + 1.0) - gammaln(times + 1.0).sum())",
        "return float(gammaln(len(gram) + 1.0))",
        "bound",
    ),
    "α at the center of its law": (
        LAWS + "counts",
        "found[name] = best_positive(target, found[name])",
        "found[name] = hyperprior.center()",
        "falls",
    ),
    "a new feature's law for nothing": (
        LAWS + "point_state",
        "tables.new_log_weight + gains,",
        "tables.new_log_weight + 0.0 * gains,",
        "falls",
    ),
    "blocks never put back": (
        ROUNDS,
        "if gained.sum() + then - now >= 0.0:",
        "if True:",
        "put back",
    ),
    "blocks judged by the likelihood alone": (
        ROUNDS,
        "then = level(whole)",
        "then = now",
        "put back",
    ),
    "empty features that stay": (
        LAWS + "point_state",
        "if len(used) < self.k:",
        "if len(used) < 0:",
        "bound",
    ),
    "half-normal features without their factor of two": (
        "thali.likelihoods.feature_posteriors",
        "constant = LOG_2 - 0.5",
        "constant = -0.5",
        "bound",
    ),
    "normal features without half of their entropy": (
        "thali.likelihoods.feature_posteriors",
        "each = np.log(v / sigma_a**2) + 1.0 -",
        "each = np.log(v / sigma_a**2) -",
        "objectives",
    ),
    "a feature's own square left out": (
        KERNELS + "hard_rows",
        "likely[i] = precision * (b[i] - 0.5 * q[i, i])",
        "likely[i] = precision * b[i]",
        "objectives",
    ),
    "a row counted among the others": (
        KERNELS + "hard_rows",
        "count = m[i] - 1 if bits[i] > 0.5 else m[i]",
        "count = min(m[i], len(prior.log_odds) - 1)",
        "objectives",
    ),
    "features of others pay for themselves, as printed": (
        KERNELS + "hard_rows",
        "own[i] = count == 0",
        "own[i] = count > 0",
        "objectives",
    ),
    "a feature paired with itself": (
        KERNELS + "hard_rows",
        "        pairs[i, i] = 0.0\n",
        "",
        "objectives",
    ),
    "counts that do not follow": (
        KERNELS + "hard_rows",
        "m[i] += int(z[i]) - int(out[i] > 0.5)",
        "m[i] += 0",
        "falls",
    ),
    "pairs counted twice": (
        SOLVERS + "row",
        "value += 0.5 * (row.weights[i] + slack[i])",
        "value += slack[i]",
        "objectives",
    ),
    "a complement that looks better than it is": (
        SOLVERS + "local_search",
        "value += row.weights[i] - 0.5 *",
        "value += row.weights[i] + 0.5 *",
        "promises",
    ),
    "the lesser of two greedy steps": (
        SOLVERS + "double_greedy",
        "take = a >= b",
        "take = a < b",
        "promises",
    ),
    "coins the wrong way round": (
        SOLVERS + "double_greedy",
        "rng.random() * (up + down) < up",
        "rng.random() * (up + down) < down",
        "coins",
    ),
    "the last set not looked at": (
        SOLVERS + "enumeration",
        "for step in range(1, 1 << k):",
        "for step in range(1, (1 << k) - 1):",
        "promises",
    ),
    "exchanges of features that are still at odds": (
        SOLVERS + "exchange",
        "gain = upper[l] + pairs[l]",
        "gain = upper[l]",
        "exchanges",
    ),
    "exchanges that must add a lot": (
        SOLVERS + "exchange",
        "lost = slack[i] + row.by_count[row.others + j] - row.by_count[left]",
        "lost = slack[i] + 3.0",
        "exchanges",
    ),
    "a worse row kept": (
        SOLVERS + "combined",
        "if found > value + SAME * (1.0 + abs(value)):",
        "if found > value - 1e300:",
        "promises",
    ),
}


def by_bound(rng, patch):
    return max(test_hard_bound.distance_of_bounds(rng, 36)) > 1e-8


def by_objectives(rng, patch):
    return max(test_hard_bound.distance_of_objectives(rng)) > 1e-9


def by_falls(rng, patch):
    return any(fall > test_hard_bound.ROUNDING for _, fall in test_hard_bound.falls(rng, 24))


def by_put_back(rng, patch):
    try:
        with patch.context() as own:
            check = test_hard_bound.test_a_block_that_would_lower_the_bound_is_put_back
            check(0.1, False, rng, own)
    except AssertionError:
        return True
    return False


def by_promises(rng, patch):
    try:
        found = test_row_solvers.promises(rng, 2000)
    except AssertionError:  # a row that got worse
        return True
    least = min(found[name][0] for name in ("local_search", "double_greedy", "best"))
    return least < 1 / 3 - test_row_solvers.CLOSE or found["exact"][1] < 1.0


def by_coins(rng, patch):
    rows = [test_row_solvers.random_row(rng, 4) for _ in range(12)]
    p = {str(i): test_row_solvers.p_of_draws(rng, row, 4000) for i, row in enumerate(rows)}
    return bool(alarms(p))


def by_exchanges(rng, patch):
    return max(test_row_solvers.left_by_exchanges(rng, 1000)) > test_row_solvers.CLOSE


CHECKS = {
    "bound": by_bound,
    "objectives": by_objectives,
    "falls": by_falls,
    "put back": by_put_back,
    "promises": by_promises,
    "coins": by_coins,
    "exchanges": by_exchanges,
}
QUICK = {  # so that each check is seen to fail
    "orders of equal columns counted twice", "log K₊ for log K₊!, as printed",
    "a new feature's law for nothing", "blocks never put back", "the last set not looked at",
    "coins the wrong way round", "exchanges of features that are still at odds",
}  # fmt: skip
CASES = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow, id=name) for name in MUTANTS
]


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_caught(name, monkeypatch, rng):
    module, old, new, check = MUTANTS[name]
    install(monkeypatch, module, [(old, new)])
    assert CHECKS[check](rng, monkeypatch)


def test_each_check_passes_the_right_program(rng, monkeypatch):
    assert not [name for name, check in CHECKS.items() if check(rng, monkeypatch)]
