"""The Poisson model beyond the ladder: inferred rates, gaps and three rows, own features, mutants.

Enumeration is over left-ordered classes with all rates integrated out (``oracles.counts``), and
over a grid of θ where it is inferred.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest
from oracles import counts as oracles
from oracles.features import PriorSpec
from scipy.special import gammaln
from statistical.budget import TESTS, alarms, judge, p_value_of_counts, p_value_of_mean, pooled
from statistical.mutants import mutate
from statistical.stories import library_prior
from statistical.test_ladder import walk

import thali
from thali import UncollapsedGibbs
from thali.model import Model

KERNEL = "thali.kernels.poisson"
NAN = np.nan
UNITS, SHAPE, LAW = (1.0, 2.5), 0.7, (3.0, 2.0)  # of columns, of the rates, of θ: Gamma(…)
DATA = {
    "two": ((3, 0), (4, 2)),
    "gap": ((3, NAN), (4, 2)),
    "three": ((3, 0), (1, NAN), (0, 2)),
}


@dataclass(frozen=True)
class Case:
    data: str
    prior: PriorSpec
    cap: int
    size: float | tuple[float, float] = 1.2
    base: float | None = 0.4
    new_features: str = "integrated"

    def model(self):
        size = thali.Gamma(*self.size) if isinstance(self.size, tuple) else self.size
        base = "auto" if self.base is None else self.base
        likelihood = thali.Poisson(size, base, SHAPE, UNITS)
        return Model(library_prior(self.prior), likelihood)


IBP3, FINITE = PriorSpec("ibp", 3.0), PriorSpec("finite", 2.0, n_components=2)
CASES = {
    "base and size inferred": Case("two", FINITE, 2, LAW, None),
    "base and size inferred, slice": Case("two", FINITE, 2, LAW, None, "slice"),
    "base inferred": Case("two", PriorSpec("ibp", (2.0, 1.0)), 12, base=None),
    "a gap": Case("gap", IBP3, 14),
    "three rows and a gap": Case("three", FINITE, 2, base=None),
}


@cache
def exact_answer(case):
    X = np.array(DATA[case.data])
    return oracles.enumerate_counts(
        case.prior, X, case.size, SHAPE, case.base, case.cap, np.array(UNITS)
    )


def check(case, seed, sweeps, engine=None):
    """P-values of P(K), E[ZZ'], E[θ], E[b] and E[μ(b + ZA)] where X was observed."""
    exact, X = exact_answer(case), np.array(DATA[case.data])
    seen = [tuple(at) for at in np.argwhere(~np.isnan(X))]
    cells = pooled(exact.k_probabilities)
    truths = {f"P(K in {cell})": exact.k_probabilities[cell].sum() for cell in cells}
    truths |= {f"E[ZZ']_{i}{j}": v for (i, j), v in np.ndenumerate(exact.gram) if i <= j}
    truths |= {f"E[x]_{i}{d}": exact.rates[i, d] for i, d in seen}
    if isinstance(case.size, tuple):
        truths["E[θ]"] = exact.size
    if case.base is None:
        truths |= {f"E[b]_{d}": b for d, b in enumerate(exact.base)}
    engine = engine or UncollapsedGibbs(new_features=case.new_features)
    rows = []
    for Z, parameters, hyper in walk(engine, case.model(), X, seed, sweeps):
        mean = np.array(UNITS) * (hyper["base"] + Z @ parameters["A"])
        found = {f"P(K in {cell})": float(Z.shape[1] in cell) for cell in cells}
        found |= {f"E[ZZ']_{i}{j}": v for (i, j), v in np.ndenumerate(Z @ Z.T)}
        found |= {f"E[x]_{i}{d}": mean[i, d] for i, d in seen}
        found |= {f"E[b]_{d}": b for d, b in enumerate(hyper["base"])} | {"E[θ]": hyper["size"]}
        rows.append((Z.shape[1] <= case.cap, found))
    return {
        name: p_value_of_mean(np.array([within * (v[name] - truth) for within, v in rows]), 0.0)
        for name, truth in truths.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration(name, seed):
    judge("poisson", check(CASES[name], seed, sweeps=1500))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration_closely(name, seed):
    judge("poisson", check(CASES[name], seed, sweeps=15_000))


# ---- own features: the exact laws of their number, and of the parts of counts -------------------
X_ROW, RATES, WEIGHT, R = (0, 1, 4), (0.3, 0.5, 0.4), 1.7, 0.8  # a row, its λ, e^{λ_1}, and r
MU = (1.0, 2.5, 0.6)


def law_of_number(capacity, most=40):
    """w_j ∏_d P(x_d | j), each a sum over the part that j features have of x."""
    j = np.arange(capacity + 1 if capacity >= 0 else most)
    logs = j * np.log(WEIGHT) - gammaln(j + 1.0)
    if capacity >= 0:
        logs += gammaln(capacity + 1.0) - gammaln(capacity - j + 1.0)
    for x, rate, unit in zip(X_ROW, RATES, MU, strict=True):
        sizes = (x + 1,)
        shared = oracles.fixed_source(sizes, rate, unit)
        none = np.eye(1, x + 1)[0]
        own = [oracles.source((0,), sizes, i * SHAPE, R, unit) if i else none for i in j]
        logs += np.log([np.convolve(shared, table)[x] for table in own])
    return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()


def draws_of_own(rng, kernel, capacity, repeats=20_000):
    """That many rows alike: how many features each has of its own."""
    n = repeats if capacity < 0 else 1
    x = np.tile(np.array(X_ROW, float), (n, 1))
    at, columns = np.nonzero(x)
    start = np.searchsorted(at, np.arange(n + 1))
    counts = kernel.Counts(start.astype(np.int64), columns.astype(np.int64), x[at, columns])
    gammas = kernel.Gammas(SHAPE, R, np.array(MU))
    quiet = np.array([np.log(R / (R + np.array(MU))).sum()])
    given = counts, np.zeros((0, 0), bool), np.array(RATES)
    found = []
    for _ in range(repeats // n):
        Z, A = np.zeros((n, 0), np.uint8), np.zeros((0, 3))
        own = kernel.renew_own_features(
            rng, *given, Z, A, np.zeros(0, np.int64), np.log(WEIGHT), capacity, None, quiet, gammas
        )
        found.append(own)
    return found


@pytest.mark.parametrize("capacity", [-1, 4])
def test_the_number_of_own_features_has_its_exact_law(capacity, rng):
    from thali.kernels import poisson

    law = law_of_number(capacity)
    found = draws_of_own(rng, poisson, capacity, 20_000 if capacity < 0 else 4000)
    number = np.concatenate([Z.sum(axis=1, dtype=np.int64) for Z, _ in found])
    judge("poisson", {"j": p_value_of_counts(np.bincount(number, minlength=len(law)), law)})


def own_rates_p_values(rng, kernel):
    """Means of own rates given their number, 1 or 2: E g = Σ_y P(y | x) (jσ + y)/(r + μ), of which
    each of them has the same share."""
    ((Z, A),) = draws_of_own(rng, kernel, -1)
    number, found = Z.sum(axis=1, dtype=np.int64), {}
    for j, (d, x) in product((1, 2), enumerate(X_ROW)):
        own = oracles.source((0,), (x + 1,), j * SHAPE, R, MU[d])
        shared = oracles.fixed_source((x + 1,), RATES[d], MU[d])
        parts = own * shared[::-1]
        mean = (parts / parts.sum()) @ (j * SHAPE + np.arange(x + 1)) / (R + MU[d])
        rates = A[:, d][Z[number == j].any(axis=0)].reshape(-1, j)
        found[f"j={j}, x={x}"] = p_value_of_mean(rates.sum(axis=1), mean)
        found[f"first, j={j}, x={x}"] = p_value_of_mean(rates[:, 0], mean / j)
    return found


def test_rates_of_own_features_have_their_law(rng):
    from thali.kernels import poisson

    judge("poisson", own_rates_p_values(rng, poisson))


# ---- mutants ------------------------------------------------------------------------------------
WITHOUT_BASE = [("ahead[F] = base[d]", "ahead[F] = 0.0")]  # parts of counts, none of the base rate
WITHOUT_ORDERS = [  # w_j without 1/j!
    ("log_w += log_step(new, theta, j)", "log_w += log_step(new, theta, j) + np.log(j + 1.0)")
]
FROM_THE_PRIOR = [("rng.standard_gamma(sigma + y)", "rng.standard_gamma(sigma)")]


def install(monkeypatch, kernel):
    import thali.kernels
    import thali.kernels.poisson

    monkeypatch.setitem(sys.modules, KERNEL, kernel)
    monkeypatch.setattr(thali.kernels, "poisson", kernel)


def test_enumeration_catches_parts_without_the_base_rate(monkeypatch, seed):
    install(monkeypatch, mutate(KERNEL, WITHOUT_BASE))
    assert alarms(check(CASES["base and size inferred"], seed, sweeps=1500))


def test_numbers_without_their_orders_are_noticed(rng):
    law = law_of_number(-1)
    ((Z, _),) = draws_of_own(rng, mutate(KERNEL, WITHOUT_ORDERS), -1)
    observed = np.bincount(Z.sum(axis=1, dtype=np.int64), minlength=len(law))
    assert alarms({"j": p_value_of_counts(observed[: len(law)], law)})


def test_own_rates_that_do_not_look_at_counts_are_noticed(rng):
    assert alarms(own_rates_p_values(rng, mutate(KERNEL, FROM_THE_PRIOR)))


def test_enumeration_catches_a_gap_that_counts_as_zero(monkeypatch, seed):
    """A feature pays for its rates in all columns, also in those that the row does not show."""

    def all_sums(self, state, values):
        return values.sum(axis=1)[None]

    monkeypatch.setattr(thali.Poisson, "_seen_sums", all_sums)
    assert alarms(check(CASES["a gap"], seed, sweeps=3000))


@pytest.mark.slow
def test_an_unchanged_copy_raises_no_alarm(monkeypatch, seed):
    install(monkeypatch, mutate(KERNEL, []))
    judge("poisson", check(CASES["base and size inferred"], seed, sweeps=1500))


def test_the_budget_counts_these_tests():
    assert TESTS["poisson"] == 2 * len(CASES) + 2 + 1 + 1
