"""Hyperpriors, and the steps that sample a positive scale."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit

import thali
from thali.hyperparameters import (
    Above,
    Beta,
    Gamma,
    Hyperprior,
    InverseGamma,
    Normal,
    metropolis_step,
    slice_step,
)


def chain(step, rng, log_density, width, n):
    value, values = 1.0, np.empty(n)
    for i in range(n):
        value = step(rng, value, log_density, width)
        values[i] = value
    return values


@pytest.mark.parametrize(
    ("law", "frozen"),
    [
        (thali.Gamma(2.5, 1.5), stats.gamma(2.5, scale=1 / 1.5)),
        (thali.InverseGamma(3.0, 2.0), None),
    ],
)
def test_density_is_that_of_the_samples(law, frozen, seed):
    rng = np.random.default_rng(seed)
    draws = np.array([law.sample(rng) for _ in range(4000)])
    if frozen is None:  # σ² is inverse gamma, so the law of σ is a change of variable away
        frozen_cdf = lambda s: stats.invgamma(3.0, scale=2.0).cdf(s**2)  # noqa: E731
        points = np.linspace(0.4, 3.0, 7)
        slope = (frozen_cdf(points + 1e-6) - frozen_cdf(points - 1e-6)) / 2e-6
    else:
        frozen_cdf = frozen.cdf
        points = np.linspace(0.2, 4.0, 7)
        slope = frozen.pdf(points)
    assert stats.kstest(draws, frozen_cdf).pvalue > 1e-4
    assert np.allclose([np.exp(law.log_density(p)) for p in points], slope, rtol=1e-5)


@pytest.mark.parametrize(("step", "width"), [(slice_step, 0.5), (slice_step, 5.0)])
def test_slice_step_leaves_the_law_invariant(step, width, seed):
    law = thali.Gamma(2.5, 1.5)
    draws = chain(step, np.random.default_rng(seed), law.log_density, width, 20000)[::10]
    assert stats.kstest(draws, stats.gamma(2.5, scale=1 / 1.5).cdf).pvalue > 1e-4


def test_metropolis_step_leaves_the_law_invariant(seed):
    law = thali.Gamma(2.5, 1.5)
    rng = np.random.default_rng(seed)
    draws = chain(metropolis_step, rng, law.log_density, 2.0, 60000)[::30]
    assert stats.kstest(draws, stats.gamma(2.5, scale=1 / 1.5).cdf).pvalue > 1e-4


def test_a_step_on_the_wrong_density_is_noticed(seed):
    """The same check fails for a target that forgets one power: it is not blind."""
    law = thali.Gamma(2.5, 1.5)
    rng = np.random.default_rng(seed)
    draws = chain(slice_step, rng, lambda v: law.log_density(v) - np.log(v), 0.5, 20000)[::10]
    assert stats.kstest(draws, stats.gamma(2.5, scale=1 / 1.5).cdf).pvalue < 1e-6


@pytest.mark.slow
def test_the_papers_step_is_an_option_and_agrees_with_slice_sampling(seed):
    X = thali.datasets.images(n=20, random_state=0).X
    means = []
    for step in ("slice", "metropolis"):
        engine = thali.CollapsedGibbs(sweeps=3000, burn_in=500, chains=2, sigma_step=step)
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=seed
        ).fit(X)
        values = model.posterior_.posterior["sigma_x"].values
        error = values.std() / np.sqrt(model.diagnostics_["sigma_x"]["ess"])
        means.append((values.mean(), error))
    (a, ea), (b, eb) = means
    assert abs(a - b) < 5.0 * np.hypot(ea, eb)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: thali.Gamma(-1.0, 1.0), "shape must be positive"),
        (lambda: thali.Gamma("a", 1.0), "shape must be a positive number"),
        (lambda: thali.IBP(alpha=0.0), "alpha must be positive"),
        (lambda: thali.IBP(alpha="auto"), "a positive number \\(fixed\\) or a hyperprior"),
        (lambda: thali.IBP(alpha=None), "a positive number \\(fixed\\) or a hyperprior"),
        (lambda: thali.IBP(alpha=float("nan")), "positive and finite"),
        (lambda: thali.LinearGaussian(sigma_x=-1.0), "sigma_x must be positive"),
        (lambda: thali.BetaBernoulli(n_components=0), "n_components must be at least 1"),
        (lambda: thali.BetaBernoulli(n_components=2.5), "n_components must be a whole number"),
        (lambda: thali.CollapsedGibbs(sweeps=0), "sweeps must be at least 1"),
        (lambda: thali.CollapsedGibbs(sweeps=10, burn_in=10), "leaves nothing of 10"),
        (lambda: thali.CollapsedGibbs(init="rice"), "Did you mean 'race'"),
        (lambda: thali.CollapsedGibbs(init=3), "or a fitted model; not int"),
        (lambda: thali.CollapsedGibbs(sigma_step="slize"), "sigma_step must be"),
        (lambda: thali.IBP().log_prob(np.ones((2, 1))), "Fix it first with .at\\(alpha=...\\)"),
        (lambda: thali.IBP(alpha=1.0).log_prob([[2]]), "only 0 and 1"),
        (lambda: thali.IBP(alpha=1.0).at(beta=1.0), "has no setting 'beta'"),
    ],
)
def test_wrong_settings_are_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@dataclass(frozen=True)
class Arc(Hyperprior):
    """Beta(2, 2) under another name: a hyperprior of somebody else."""

    probability: ClassVar[bool] = True

    def center(self):
        return 0.5

    def sample(self, rng):
        return float(rng.beta(2.0, 2.0))

    def log_density(self, value):
        return float(np.log(6.0 * value * (1.0 - value))) if 0.0 < value < 1.0 else -np.inf


def test_somebody_elses_hyperprior_is_sampled_like_ours(rng):
    """p | Σ y, and ε and λ given the counts, in a noisy-or."""
    counts = np.array([[30, 2], [3, 9], [1, 6]])
    found = []
    for own in (Arc(), thali.Beta(2.0, 2.0)):
        likelihood = thali.NoisyOr(epsilon=own, lam=own, p=own)
        hyper, seen = {"epsilon": 0.5, "lam": 0.5, "p": 0.5}, []
        for _ in range(3000):
            assert likelihood._update_rates(rng, counts, 7, 20, hyper)
            seen.append([hyper["epsilon"], hyper["lam"], hyper["p"]])
        found.append(np.mean(seen[100:], axis=0))
    assert np.allclose(found[0], found[1], atol=0.02)
    assert abs(found[0][2] - 9 / 24) < 0.02


@dataclass(frozen=True)
class Flat(Hyperprior):
    """Uniform on (0, 10)."""

    def center(self):
        return 5.0

    def sample(self, rng):
        return float(10.0 * rng.random())

    def log_density(self, value):
        return -float(np.log(10.0)) if 0.0 < value < 10.0 else -np.inf


def test_a_filter_says_which_hyperpriors_of_scales_it_knows():
    likelihood = thali.LinearGaussian(sigma_x=Flat(), sigma_a=1.0)
    model = thali.LatentFeatures(likelihood=likelihood, engine=thali.ParticleFilter(5))
    with pytest.raises(ValueError, match="infers scales under Gamma or InverseGamma, not Flat"):
        model.fit(np.eye(4))


@pytest.mark.parametrize(
    ("hyperprior", "value_of", "most"),
    [
        (Gamma(1.5, 0.7), np.exp, 20.0),
        (InverseGamma(2.0, 0.5), np.exp, 20.0),
        (Beta(1.2, 2.5), expit, 30.0),
        (Normal(0.3, 2.0), float, 30.0),
        (Above(Gamma(2.0, 1.0), 3.0), lambda x: 3.0 + np.exp(x), 20.0),
    ],
    ids=["gamma", "inverse gamma", "beta", "normal", "above"],
)
def test_densities_of_logarithms_integrate_to_one(hyperprior, value_of, most):
    density = lambda x: np.exp(hyperprior.log_density_of_log(float(value_of(x))))  # noqa: E731
    assert quad(density, -most, most, limit=500)[0] == pytest.approx(1.0, rel=1e-6)
