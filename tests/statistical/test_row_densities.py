"""Densities of new rows by particles: without bias, under every likelihood that keeps its features.

Means of estimates over many seeds are held to sums over bits and, where rows have amounts, to
quadrature over these; of few particles, so that they are drawn anew and moved more than once.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from statistical.budget import TESTS, alarms, judge
from statistical.mutants import mutate

import thali
import thali.kernels
from thali.data import Data
from thali.data.columns import Columns
from thali.kernels import largest_latent
from thali.model import Model
from thali.results import filtered_rows, summed_bits

PARTICLES, SEEDS = 8, 400
K, D = 3, 6
PLAIN = {
    "nonnegative": thali.NonnegativeLinearGaussian(sigma_x=0.5, sigma_a=1.0),
    "gaussian slab": thali.SparseFactor("gaussian", sigma_x=0.5, sigma_a=1.0),
    "laplace slab": thali.SparseFactor("laplace", sigma_x=0.5, sigma_a=1.0),
}
NAMES = [*PLAIN, "mixed factors"]


def table(n=40):
    """A column of each kind."""
    rng = np.random.default_rng(5)
    levels = rng.integers(3, size=n)
    return pd.DataFrame(
        {
            "level": np.array(["x", "y", "z"])[rng.integers(3, size=n)],
            "real": rng.standard_normal(n),
            "positive": np.exp(2.0 * rng.standard_normal(n)),
            "count": rng.poisson(6.0, n),
            "binary": rng.random(n) < 0.5,
            "ordinal": pd.Categorical(np.array(["a", "b", "c"])[levels], ordered=True),
        }
    )


def problem(name, seed=3):
    """Model, hyperparameters, parameters, prior odds, and two new rows, one with gaps."""
    rng = np.random.default_rng(seed)
    k = 1 if name == "mixed factors" else 2 if name == "laplace slab" else K
    pi = rng.uniform(0.3, 0.7, k)
    odds = np.log(pi) - np.log1p(-pi)
    if name == "mixed factors":
        columns = Columns.of(table())
        codes = columns.encode(table())
        known = thali.MixedFactors().with_layout(columns, codes)
        new = Data.checked(known.known.expand(codes[:2]))
        noise = np.where(known.known.unit, 1.0, 0.6)
        hyper = {"alpha": 1.0, "sigma_a": 1.0, "noise": noise}
        hyper |= {"biases": 0.2 * rng.standard_normal(new.d), "cutpoints": np.array([0.8])}
        A = 1.5 * rng.standard_normal((k, new.d))
        X = new.X.copy()
        X[1, 3:5] = np.nan
        return Model(thali.IBP(alpha=1.0), known), hyper, {"A": A}, odds, Data.checked(X)
    likelihood = PLAIN[name]
    hyper = {"alpha": 1.0, "sigma_x": 0.5, "sigma_a": 1.0}
    A = np.abs(rng.standard_normal((k, D)))
    X = likelihood.sample(rng, rng.random((2, k)) < pi, A)
    X[1, 2] = np.nan
    return Model(thali.IBP(alpha=1.0), likelihood), hyper, {"A": A}, odds, Data.checked(X)


def exact(name, model, hyper, parameters, odds, new):
    """log p of each row: a sum over bits, and over amounts an integral."""
    fixed = model.likelihood_at(hyper)
    if fixed.sums_amounts:
        return summed_bits.summed(fixed, parameters, odds, new)[1]
    nodes, weights = np.polynomial.legendre.leggauss(120)
    half, weights = 7.0 * (nodes + 1.0), 7.0 * weights
    s = np.concatenate([-half[::-1], half])  # in two halves, since a Laplace slab has a corner
    laplace = name == "laplace slab"
    slab = 0.5 * np.exp(-np.abs(s)) if laplace else stats.norm.pdf(s)
    logs = []
    log_slab = np.log(np.concatenate([weights[::-1], weights]) * slab)
    for z in product((0, 1), repeat=len(odds)):
        axes = [s if on else np.zeros(1) for on in z]
        W = np.array([each.ravel() for each in np.meshgrid(*axes)]).T
        log_w = np.array([e.ravel() for e in np.meshgrid(*[log_slab if on else [0.0] for on in z])])
        told = log_entries(fixed, W, parameters["A"], new) + log_w.sum(axis=0)
        logs.append(logsumexp(told, axis=1) + np.asarray(z) @ odds)
    return logsumexp(logs, axis=0) - np.logaddexp(0.0, odds).sum()


def log_entries(fixed, W, A, new):
    """log p(x | w) of rows under many rows of amounts, (n, amounts)."""
    if isinstance(fixed, thali.SparseFactor):
        logs = stats.norm.logpdf(new.zeroed[:, None], W @ A, fixed.sigma_x)
    else:
        logs = fixed.entries_at(fixed.latent_mean(W, A)).log_density(new.zeroed[:, None])
    return np.where(new.seen[:, None], logs, 0.0).sum(axis=2)


def estimate(*given, seed=0):
    return filtered_rows.rows_given_features(*given, seed=seed).log_densities


def check(name, seed, seeds=SEEDS):
    """P-values that estimates over seeds are on average what they should be, row by row."""
    given = problem(name)
    wanted = exact(name, *given)
    logs = [estimate(*given, seed=seed % 2**30 + i) for i in range(seeds)]
    ratios = np.exp(np.array(logs) - wanted)
    errors = (ratios.mean(axis=0) - 1.0) / (ratios.std(axis=0, ddof=1) / np.sqrt(seeds))
    p_values = 2.0 * stats.t.sf(np.abs(errors), seeds - 1)
    return {f"{name} row {i}": float(p) for i, p in enumerate(p_values)}


@pytest.fixture(autouse=True)
def few_particles(monkeypatch):
    """And no sums in their place."""
    monkeypatch.setattr(filtered_rows, "PARTICLES", PARTICLES)
    monkeypatch.setattr(summed_bits, "SUMMED", 0)


@pytest.mark.parametrize("name", NAMES)
def test_densities_are_without_bias(name, seed):
    judge("row_densities", check(name, seed))


@pytest.mark.parametrize("name", NAMES)
def test_many_particles_are_near(name, monkeypatch):
    monkeypatch.setattr(filtered_rows, "PARTICLES", 4000)
    given = problem(name)
    near = estimate(*given)
    assert near == pytest.approx(exact(name, *given), abs=0.15)


def largest_latents(kernels, seed):
    """Of the largest of three latents by draws, against the integral of its density."""
    v, r = np.array([0.3, 1.9, -0.4]), 2
    rng, y = np.random.default_rng(seed), np.empty(3)
    found = np.empty((2000, 3))
    for i in range(len(found)):
        kernels.draw_levels(rng, v, r, y)
        found[i] = y
    at = np.linspace(-8.0, 10.0, 4001)
    density = stats.norm.pdf(at, v[r]) * stats.norm.cdf(at, v[0]) * stats.norm.cdf(at, v[1])
    mass = np.cumsum(density) / density.sum()
    below = stats.norm.cdf(found[:, 0], v[0]) / stats.norm.cdf(found[:, r], v[0])
    return {
        "largest": float(stats.kstest(found[:, r], lambda t: np.interp(t, at, mass)).pvalue),
        "another": float(stats.kstest(below, "uniform").pvalue),
    }


def test_the_largest_of_several_latents(seed):
    judge("row_densities", largest_latents(largest_latent, seed))


def test_a_latent_far_behind_is_drawn_in_no_time():
    """Another level's latent leads by far: the largest is half the way to it, or beyond."""
    rng, y = np.random.default_rng(0), np.empty(3)
    for lead in (1e2, 1e5, 1e8, 1e12):
        largest_latent.draw_levels(rng, np.array([lead, 0.0, -1.0]), 1, y)
        assert y[1] >= max(y[0], y[2])
        assert y[1] == pytest.approx(0.5 * lead, rel=0.05)


@pytest.mark.parametrize(("k", "d", "sigma"), [(8, 20, 0.2), (8, 20, 0.1), (12, 30, 0.3)])
def test_low_noise_and_many_features_are_not_far_off(k, d, sigma, monkeypatch):
    """With as many particles as are in use, and features much alike: densities and bits."""
    monkeypatch.setattr(filtered_rows, "PARTICLES", 32)
    rng = np.random.default_rng(4)
    A, pi = np.abs(rng.standard_normal((k, d))), np.full(k, 0.4)
    odds, Z = np.log(pi) - np.log1p(-pi), rng.random((8, k)) < pi
    likelihood = thali.NonnegativeLinearGaussian(sigma_x=sigma, sigma_a=1.0)
    new = Data(likelihood.sample(rng, Z, A))
    hyper = {"alpha": 1.0, "sigma_x": sigma, "sigma_a": 1.0}
    given = Model(thali.IBP(alpha=1.0), likelihood), hyper, {"A": A}, odds, new
    marginals, logs = summed_bits.summed(likelihood, {"A": A}, odds, new)
    found = [filtered_rows.rows_given_features(*given, seed=seed) for seed in range(30)]
    near = np.array([one.log_densities for one in found])
    assert np.abs(logsumexp(near, axis=0) - np.log(30) - logs).max() < 0.5
    assert (near - logs).mean() > -1.0
    bits = np.mean([one.bits for one in found], axis=0)
    assert np.abs(bits - marginals).max() < 0.35
    assert np.abs(bits - marginals).mean() < 0.05


def test_scales_that_lose_digits_are_not_numbers_in_silence():
    """Noise far below the features: a density, or a sentence, and no error of arithmetic."""
    rng = np.random.default_rng(0)
    for sigma in (1e-3, 1e-5, 1e-8):
        for slab in ("gaussian", "laplace"):
            A = rng.standard_normal((6, 8))
            A[5] = A[4]
            likelihood = thali.SparseFactor(slab, sigma_x=sigma, sigma_a=1.0)
            new = Data(rng.standard_normal((2, 6)) @ A)
            hyper = {"alpha": 1.0, "sigma_x": sigma, "sigma_a": 1.0}
            given = Model(thali.IBP(alpha=1.0), likelihood), hyper, {"A": A}, np.zeros(6), new
            for seed in range(10):
                try:
                    found = estimate(*given, seed=seed)
                except FloatingPointError:
                    assert sigma < 1e-4
                else:
                    assert not np.isnan(found).any()


def test_a_largest_latent_at_any_place_is_caught(seed):
    old = "< log_others_below(v, r, drawn) - top - steep * (drawn - t)"
    assert alarms(largest_latents(mutate("thali.kernels.largest_latent", [(old, "< 1.0")]), seed))


FILTER, ANNEALED = "thali.kernels.row_filter", "thali.kernels.annealed_row"
MUTANTS = {
    "weights kept twice": (FILTER, "mixed factors", "            logs[:] = 0.0\n", ""),
    "a level forgotten": (
        *(FILTER, "mixed factors"),
        *("    return math.log(max(chance, LEAST))", "    return 0.0"),
    ),
    "drawn anew without weights": (
        *(FILTER, "mixed factors"),
        *("parents[i] = p\n", "parents[i] = i\n"),
    ),
    "amounts known": (FILTER, "gaussian slab", "sd = math.sqrt(variance)", "sd = 1.0"),
    "a bit's variance forgotten": (FILTER, "gaussian slab", "0.5 * e * e / d", "0.5 * e * e"),
    "variances not drawn": (
        *(FILTER, "laplace slab"),
        *("2.0 * rng.standard_exponential() if slab == LAPLACE else 1.0", "1.0"),
    ),
    "steps at another temperature": (
        *(ANNEALED, "nonnegative"),
        *("accepts(rng, beta * gain + sign", "accepts(rng, gain + sign"),
    ),
    "swaps without the prior": (
        *(ANNEALED, "nonnegative"),
        *("beta * gain + odds[j] - odds[i]", "beta * gain"),
    ),
}
QUICK = "amounts known"


@pytest.mark.parametrize(
    "mutant", [m if m == QUICK else pytest.param(m, marks=pytest.mark.slow) for m in MUTANTS]
)
def test_broken_filters_are_caught(mutant, monkeypatch, seed):
    kernel, name, old, new = MUTANTS[mutant]
    broken = mutate(kernel, [(old, new)])
    monkeypatch.setitem(sys.modules, kernel, broken)
    monkeypatch.setattr(thali.kernels, kernel.rpartition(".")[2], broken)
    assert alarms(check(name, seed, 3000))


def test_the_number_of_tests():
    assert TESTS["row_densities"] == len(NAMES) + 1
