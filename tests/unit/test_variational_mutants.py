"""Broken copies of the variational laws are caught: by falls of the bound, by a bound above the
evidence, by the optimizer, each with the tolerances that the right ones pass."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.variational_problems import problem
from oracles.variational_updates import install
from unit import test_variational_bound, test_variational_evidence, test_variational_optima
from unit.test_variational_updates import ROUNDING, falls

STICKS, FREQUENCIES = "thali.priors.stick_frequencies", "thali.priors.frequencies"
STICKS_KERNEL = "thali.kernels.sticks"
FEATURES, BOUND = "thali.likelihoods.feature_posteriors", "thali.engines.ascent.bound"
MUTANTS = {  # what is wrong -> where, old, new, and which checks must notice
    "E[log π] as printed in the paper": (
        STICKS,
        "return np.cumsum(log_sticks(self.tau)[0])",
        "return np.cumsum(log_sticks(self.tau)[1])",
        {"bound", "falls"},
    ),
    "τ_k1 without the later features": (
        STICKS_KERNEL,
        "beyond += counts[y] + off",
        "beyond += off",
        {"falls", "optima"},
    ),
    "q_k of all sticks": (
        STICKS_KERNEL,
        "first, second = alpha + beyond + counts[y], 1.0 + off",
        "first, second = alpha + beyond + counts[y] + off, 1.0 + off",
        {"falls", "optima"},
    ),
    "entropy of the bits with the wrong sign": (
        "thali.kernels.expected_rows",
        "return -p * math.log(p) - (1.0 - p) * math.log1p(-p)",
        "return p * math.log(p) + (1.0 - p) * math.log1p(-p)",
        {"bound"},
    ),
    "half of the features' own square": (
        "thali.kernels.expected_rows",
        "new = logistic(odds[i] + precision * (r[i] + (p[i] - 0.5) * q[i, i]))",
        "new = logistic(odds[i] + precision * (r[i] + p[i] * q[i, i]))",
        {"falls", "optima"},
    ),
    "amounts without their normalizer": (
        "thali.kernels.expected_rows",
        "return m, v + m * m, 0.5 * (math.log(v) + m * b)",
        "return m, v + m * m, 0.5 * m * b",
        {"falls", "optima"},
    ),
    "a gram without D·V": (
        FEATURES,
        "V = self.phi.shape[1] * self.V if self.V.ndim == 2 else self.V.sum(axis=0)",
        "V = 0.0 * self.V if self.V.ndim == 2 else 0.0 * self.V.sum(axis=0)",
        {"bound", "falls", "evidence", "optima"},
    ),
    "σ_a from the means of A": (
        FEATURES,
        "return float(np.trace(self._gram))",
        "return float(np.square(self.phi).sum())",
        {"bound", "falls", "evidence", "optima"},
    ),
    "σ_x from the means of A": (
        FEATURES,
        "quadratic = np.vdot(found.C, q.gram() if found.C.ndim == 2 else q.grams())",
        "quadratic = np.vdot(found.C, q.phi @ q.phi.T if found.C.ndim == 2 else q.grams())",
        {"bound", "falls", "evidence", "optima"},
    ),
    "the factorized law's variances from the joint one": (
        FEATURES,
        "        if not self.joint:\n",
        "        if not self.joint and r < 0.0:\n",
        {"optima"},
    ),
    "C without ν(1 − ν)": (
        "thali.backends.local",
        "    np.fill_diagonal(C, second.sum(axis=0))\n",
        "",
        {"bound", "falls", "optima"},
    ),
    "nonnegative features with a mode of zero or more": (
        "thali.kernels.expected_features",
        "mu[i, e] = left[e] / precision",
        "mu[i, e] = max(left[e] / precision, 0.0)",
        {"optima"},
    ),
    "nonnegative features with what others explain twice": (
        "thali.kernels.expected_features",
        "left[e] -= c * phi[j, e]",
        "left[e] += c * phi[j, e]",
        {"falls", "optima"},
    ),
    "exponential features without their rate": (
        "thali.kernels.expected_features",
        "left[e] = T[i, e] - pull",
        "left[e] = T[i, e]",
        {"optima"},
    ),
    "exponential features of twice the rate": (
        "thali.kernels.expected_features",
        "left[e] = T[i, e] - pull",
        "left[e] = T[i, e] - 2.0 * pull",
        {"optima"},
    ),
    "σ of exponential features with a root too large": (
        BOUND,
        "np.hypot(total, 2.0 * np.sqrt(m * v))",
        "np.hypot(total, 4.0 * np.sqrt(m * v))",
        {"optima"},
    ),
    "σ by the density of σ²": (
        BOUND,
        "(size + 2.0 * hyperprior.shape + 1.0)",
        "(size + 2.0 * hyperprior.shape)",
        {"optima"},
    ),
    "α of a shape too large": (
        BOUND,
        "(hyperprior.shape + frequencies.k - 1.0)",
        "(hyperprior.shape + frequencies.k)",
        {"falls", "optima"},
    ),
    "finite frequencies with α for α/K": (
        FREQUENCIES,
        "tau = np.column_stack([alpha / self.k + counts, 1.0 + n - counts])",
        "tau = np.column_stack([alpha + counts, 1.0 + n - counts])",
        {"falls", "optima"},
    ),
    "no prior of the sticks": (
        FREQUENCIES,
        "return float((np.log(a) + (a - 1.0) * log_v + entropy).sum())",
        "return float(entropy.sum() - entropy.sum())",
        {"bound", "evidence"},
    ),
}


def noticed_by_bound(rng):
    for case in test_variational_bound.CASES:
        if not case[3] or case[0] == "gaussian":
            given = problem(rng, case[0], *case[1], *case[2:])
            if not np.isclose(given.by_library(), given.by_oracle(), rtol=1e-8):
                return True
    return False


def noticed_by_falls(rng):
    return any(fall > ROUNDING for _, fall in falls(rng, 24))


def noticed_by_evidence(rng):
    found = [
        test_variational_evidence.shortfall_of_certain_row(rng, "gaussian", prior)
        for prior in ("ibp", "beta_bernoulli")
    ]
    return min(found) < -1e-6


def noticed_by_optima(rng):
    found = test_variational_optima.distances(rng, gaps=False)
    return any(distance > test_variational_optima.CLOSE for _, distance in found)


CHECKS = {
    "bound": noticed_by_bound,
    "falls": noticed_by_falls,
    "evidence": noticed_by_evidence,
    "optima": noticed_by_optima,
}
QUICK = {"no prior of the sticks", "q_k of all sticks"}  # so that each check is seen to fail
PAIRS = [
    pytest.param(name, check, marks=[] if name in QUICK else pytest.mark.slow)
    for name, parts in MUTANTS.items()
    for check in sorted(parts[3])
]


@pytest.mark.parametrize(("name", "check"), PAIRS)
def test_a_mutant_is_caught(name, check, monkeypatch, rng):
    module, old, new, _ = MUTANTS[name]
    install(monkeypatch, module, [(old, new)])
    assert CHECKS[check](rng)
