"""Features with exponential entries, through the doors for people: every engine, files, reports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

import thali
from thali.evaluation import match_assignments
from thali.hyperparameters import InverseGamma
from thali.likelihoods.exponential_features import WIDE, ExponentialFeatures, rate_of
from thali.likelihoods.gaussian_scales import scale_given_sum
from thali.structures.statistics import Statistics

ENGINES = {
    "maximization_expectation": thali.MaximizationExpectation(n_init=2),
    "variational": thali.Variational(truncation=8, n_init=2, max_iter=100),
    "uncollapsed_gibbs": thali.UncollapsedGibbs(sweeps=40, chains=1, init="ica"),
    "metropolis": thali.Metropolis(sweeps=40, chains=1, init="ica"),
    "beam_search": thali.BeamSearch(4, n_init=1),
}


class Planted(NamedTuple):
    X: np.ndarray
    Z: np.ndarray
    A: np.ndarray


def planted(n=60, d=25, k=3):
    """Rows of a few features with exponential entries."""
    rng = np.random.default_rng(3)
    Z, A = rng.random((n, k)) < 0.4, rng.exponential(1.0, (k, d))
    return Planted(Z @ A + 0.2 * rng.standard_normal((n, d)), Z, A)


def fitted(engine, X, **options):
    likelihood = thali.NonnegativeLinearGaussian(law="exponential", **options)
    return thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False).fit(X)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_finds_planted_features_and_agrees_on_their_size(name, tmp_path):
    data = planted()
    scales = {"sigma_x": 0.2, "sigma_a": 1.4} if name == "beam_search" else {}  # a joint mode's
    model = fitted(ENGINES[name], data.X, **scales)
    assert match_assignments(data.Z, model.Z_).distance <= 0.03 * data.Z.size
    assert (model.components_ >= 0.0).all()
    assert model.sigma_x_ == pytest.approx(0.2, rel=0.15)
    if not scales:
        assert model.sigma_a_ == pytest.approx(np.sqrt(np.mean(data.A**2)), rel=0.35)
    assert np.isfinite(model.log_joint_)
    gap = np.where(np.eye(1, data.X.size).reshape(data.X.shape), np.nan, data.X)
    assert np.isfinite(model.score(gap))
    assert (model.transform(data.X) == model.Z_).mean() > 0.95
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert again.likelihood_.law == "exponential"
    assert np.array_equal(again.components_, model.components_)


@pytest.mark.parametrize("name", ["maximization_expectation", "variational", "uncollapsed_gibbs"])
def test_entries_that_are_missing_are_filled_in(name):
    data = planted()
    X = data.X.copy()
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    X[hidden] = np.nan
    filled = fitted(ENGINES[name], X).impute()
    error = np.sqrt(np.mean((filled - data.Z @ data.A)[hidden] ** 2))
    assert error < 0.5 * np.std(data.X)


def test_sparse_data_and_rows_that_come_later():
    data = planted(n=80)
    X = np.where(np.abs(data.X) > 0.5, data.X, 0.0)
    engine = thali.MaximizationExpectation(n_init=1, init="empty")
    dense, sparse = fitted(engine, X), fitted(engine, csr_array(X))
    assert np.array_equal(dense.Z_, sparse.Z_)
    assert dense.components_ == pytest.approx(sparse.components_, abs=1e-8)
    rows = thali.LatentFeatures(
        "ibp", thali.NonnegativeLinearGaussian(law="exponential"), thali.Variational(truncation=6),
        random_state=0, progress=False,
    )  # fmt: skip
    for part in np.array_split(data.X, 4):
        rows.partial_fit(part, total_samples=80)
    assert (rows.components_ >= 0.0).all()


def test_the_report_speaks_of_it(tmp_path):
    model = fitted(thali.MaximizationExpectation(n_init=1), planted().X)
    model.report(tmp_path / "report.html")
    assert "exponential" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_feature_that_no_row_has_keeps_its_prior():
    """Whatever the others: its mean, variance and entropy are those of an exponential entry."""
    prior = ExponentialFeatures.prior(2, 3, sigma_a=1.7)
    rate = rate_of(1.7)
    none = np.zeros(2)
    nothing = Statistics(5.0, none, np.zeros((2, 2)), np.zeros((2, 3)), 9.0, 15.0, none)
    for q in (prior, prior.updated(nothing, 0.4, 1.7), prior.grown(nothing.padded(), 0.4, 1.7)):
        assert q.phi == pytest.approx(1.0 / rate, rel=1e-9)
        assert q.variance == pytest.approx(1.0 / rate**2, rel=1e-9)
        assert q.entropy == pytest.approx(1.0 - np.log(rate), rel=1e-9)
        assert q.gains(1.7) == pytest.approx(0.0, abs=1e-8)
    assert prior.s[0, 0] == pytest.approx(WIDE / rate)


@pytest.mark.parametrize("law", [InverseGamma(3.0, 2.0), thali.Gamma(2.5, 1.5)])
def test_the_scale_given_a_sum_has_its_law(law, rng):
    """Means of log σ and 1/σ against the density on a grid."""
    n, total = 6, 7.5
    sigma = np.exp(np.linspace(-4.0, 6.0, 40_001))
    logs = np.array([law.log_density(s) for s in sigma]) - n * np.log(sigma) - total / sigma
    weights = np.exp(logs - logs.max()) * sigma
    weights /= weights.sum()
    draws, value = [], 1.0
    for _ in range(8000):
        value = scale_given_sum(rng, law, value, total, n)
        draws.append(value)
    for f in (np.log, lambda s: 1.0 / s):
        truth, seen = weights @ f(sigma), f(np.array(draws))
        spread = np.sqrt(weights @ np.square(f(sigma) - truth))
        assert abs(seen.mean() - truth) < 0.1 * spread  # an effective size of some thousands
    assert scale_given_sum(rng, 2.0, 2.0, total, n) == 2.0
