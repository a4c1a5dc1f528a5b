"""Missing entries: the samplers against enumeration, and broken variants; the ladder has the rest.

Enumeration integrates exactly column by column: a column's observed rows are normal with
σ_x² I + σ_a² G_oo, and the law of a missing entry given G = ZZ' is that of one coordinate given the
others.  Compared: all that ``test_enumeration`` compares, and E[x], E[x²] of every missing entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from oracles.features import PriorSpec
from statistical import test_enumeration
from statistical.budget import TESTS, alarms, judge, p_value_of_mean
from statistical.mutants import KERNEL, install_kernel, mutate
from statistical.stories import kept_matrices
from statistical.test_enumeration import SIGMA_A, SIGMA_X, exact_answer

import thali

GAPS = {
    "scattered": {2: [(0, 1), (1, 3)], 3: [(0, 0), (2, 1), (1, 1)]},
    "a row": {3: [(1, 0), (1, 1), (1, 2)]},
    "a column": {2: [(0, 2), (1, 2)], 3: [(0, 1), (1, 1), (2, 1), (0, 2)]},
}


@dataclass(frozen=True)
class Masked(test_enumeration.Case):
    gaps: str = "scattered"

    @property
    def X(self):
        X = super().X
        for place in GAPS[self.gaps][self.n]:
            X[place] = np.nan
        return X


IBP, LAW = PriorSpec("ibp", 1.0), (1.0, 1.0)
CASES = {
    "N=2 ibp α=3": Masked(2, PriorSpec("ibp", 3.0)),
    "N=3 ibp α~Gamma": Masked(3, PriorSpec("ibp", LAW)),
    "N=3 two_parameter": Masked(3, PriorSpec("two_parameter", 1.0, beta=2.5)),
    "N=3 finite": Masked(3, PriorSpec("finite", 1.0, n_components=3)),
    "N=3 ibp, a row": Masked(3, IBP, gaps="a row"),
    "N=3 ibp, a column": Masked(3, IBP, gaps="a column"),
    "N=2 ibp σ inferred": Masked(2, PriorSpec("ibp", LAW), infer_sigmas=True),
}


def moments_of_entries(case, model, within):
    """E[x] and E[x²] of every missing entry, over the draws with K ≤ cap, against the oracle's."""
    exact = exact_answer(case)
    likelihood = thali.LinearGaussian(sigma_x=SIGMA_X, sigma_a=SIGMA_A)
    laws = [likelihood.missing_entries(case.X, Z) for Z in kept_matrices(model)]
    means, variances = (np.array([getattr(law, k) for law in laws]) for k in ("mean", "variance"))
    found = {}
    for i, (n, d) in enumerate(np.argwhere(np.isnan(case.X))):
        first, second = oracles.law_of_entry(case.X, exact.grams, n, d, SIGMA_X, SIGMA_A)
        for name, series, values in (
            ("x", means[:, i], first),
            ("x²", variances[:, i] + means[:, i] ** 2, second),
        ):
            series = series.reshape(within.shape)
            truth = exact.gram_probabilities @ values
            found[f"E[{name}_{n}{d}]"] = p_value_of_mean(within * (series - truth), 0.0)
    return found


def check(case, seed, sweeps, engine=None):
    model, kept, gram = test_enumeration.walked(case, seed, sweeps, engine=engine)
    found = test_enumeration.p_values(case, kept, gram)
    if not case.infer_sigmas:
        within = kept["n_components"] <= len(exact_answer(case).k_probabilities) - 1
        found |= moments_of_entries(case, model, within)
    return found


@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration(name, seed):
    judge("missing", check(CASES[name], seed, sweeps=1000))


UNCOLLAPSED = ["N=2 ibp α=3", "N=3 ibp, a row", "N=3 ibp, a column", "N=2 ibp σ inferred"]


@pytest.mark.parametrize("name", UNCOLLAPSED)
def test_uncollapsed_sampler_agrees_with_enumeration(name, seed):
    engine = thali.UncollapsedGibbs()
    judge("missing", check(CASES[name], seed, sweeps=1000, engine=engine))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration_closely(name, seed):
    judge("missing", check(CASES[name], seed, sweeps=20_000))


def test_the_oracle_without_gaps_is_the_plain_one():
    X = test_enumeration.CASES["N=3 ibp α=1"].X
    plain, masked = oracles.spectrum(X, 4), oracles.masked_spectrum(X, 4)
    assert np.allclose(plain.log_likelihood(0.6, 0.9), masked.log_likelihood(0.6, 0.9))
    assert plain.size == masked.size == 9


def test_the_budget_counts_these_tests():
    assert TESTS["missing"] == 2 * len(CASES) + len(UNCOLLAPSED)


# ------------------------------------------------------------------------------------- mutants

ALL_COLUMNS = [  # D in place of D_o
    ("max(scales.dimensions - len(gone), NO_DIMENSION)", "scales.dimensions")
]
ENTRIES_WITHOUT_NOISE = [
    ("sigma = scales.sigma_x * np.sqrt(1.0 + q)", "sigma = 0.0"),
    ("sigma = scales.sigma_x * np.sqrt(V)", "sigma = 0.0"),
]
ENTRIES_AS_OBSERVED = [
    ("x2 = observed_square(x, gaps.seen[n])", "pass"),
    (
        "look_away(means, G, aside, fewer, k, others, b, h, u, v, c0, c1, c2)",
        "expect(means, gone, len(gone), x, z, others, k, u, c0); aside, fewer = 0, True",
    ),
    ("add_unseen(means, x, k, gone, b)", "dot_rows(means.mu, x, k, b)"),
]
ENTRIES_TOO_NOISY = [  # A and what is missing, with ten times the noise
    (
        "evidence = complete(rng, X, gaps, rows, k, scales)",
        "evidence = complete(rng, X, gaps, rows, k, Scales(10.0 * sigma_x, sigma_a, 1.0))",
    )
]
BROKEN = [
    "ALL_COLUMNS",
    "ENTRIES_WITHOUT_NOISE",
    "ENTRIES_AS_OBSERVED",
    "ENTRIES_TOO_NOISY",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Rounding errors grew:RuntimeWarning")  # as they look
@pytest.mark.parametrize("name", BROKEN)
def test_enumeration_catches_a_broken_sweep(name, monkeypatch, seed):
    install_kernel(monkeypatch, mutate(KERNEL, globals()[name]))
    assert alarms(check(CASES["N=2 ibp α=3"], seed, sweeps=4000))


@pytest.mark.slow
def test_an_unchanged_copy_of_the_sweep_raises_no_alarm(monkeypatch, seed):
    install_kernel(monkeypatch, mutate(KERNEL, []))
    assert not alarms(check(CASES["N=2 ibp α=3"], seed, sweeps=4000))


# --------------------------------------------------------------------------- imputed pictures


def best_guess(data, hidden):
    """E[x] of the hidden entries with the features, the noise and P(z = 1) = 1/2 all known."""
    rows = np.array(list(product((0.0, 1.0), repeat=len(data.A)))) @ data.A
    misfit = ((data.X[:, None] - rows) ** 2 * ~hidden[:, None]).sum(axis=2)
    weights = np.exp(-(misfit - misfit.min(axis=1, keepdims=True)) / (2 * data.sigma_x**2))
    return (weights / weights.sum(axis=1, keepdims=True)) @ rows


@pytest.mark.slow
def test_a_fifth_of_the_pixels_hidden_are_found_again():
    """Within 5% of the noise, and intervals that hold what they promise."""
    errors, floor, covered = [], [], []
    for k in range(10):
        data = thali.datasets.images(n=200, random_state=k)
        hidden = np.random.default_rng(100 + k).random(data.X.shape) < 0.2
        engine = thali.CollapsedGibbs(sweeps=400, chains=2, init="ica")
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=k, progress=False
        )
        filled, low, high = model.fit(np.where(hidden, np.nan, data.X)).impute(interval=0.9)
        errors.append((filled - data.X)[hidden])
        floor.append((best_guess(data, hidden) - data.X)[hidden])
        covered.append(((low <= data.X) & (data.X <= high))[hidden])

    def rmse(parts):
        return np.sqrt(np.mean(np.concatenate(parts) ** 2))

    assert rmse(errors) < 1.05 * data.sigma_x
    assert rmse(errors) < 1.03 * rmse(floor)  # of one who knows the features
    assert 0.87 < np.concatenate(covered).mean() < 0.93
