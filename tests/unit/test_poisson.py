"""The Poisson likelihood: kernels against the definition, the doors, and what they refuse."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

import thali
from thali.data import Data
from thali.kernels import added_counts
from thali.kernels import poisson as kernel
from thali.likelihoods.gibbs_updates import GibbsState
from thali.likelihoods.observed_counts import observed_counts
from thali.likelihoods.poisson_entries import PoissonEntries
from thali.model import Model
from thali.registry import STARTS

SHORT = thali.UncollapsedGibbs(sweeps=30, chains=2)


def planted(seed, n=50, d=10, gaps=0.0):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, 2)) < 0.4
    X = rng.poisson(2.0 + Z @ rng.gamma(0.6, 15.0, (2, d))).astype(float)
    X[rng.random(X.shape) < gaps] = np.nan
    return Z, X


def fitted(X, **settings):
    return thali.LatentFeatures(likelihood="poisson", engine=SHORT, random_state=0, **settings).fit(
        X
    )


# ---- kernels ------------------------------------------------------------------------------------
@pytest.mark.parametrize("x", [0, 1, 3, 40, 3000])
@pytest.mark.parametrize("sigma", [0.1, 1.0, 7.5])
def test_sums_over_parts_are_those_of_the_definition(x, sigma):
    y = np.arange(x + 1)
    ways = gammaln(x + 1) - gammaln(y + 1) - gammaln(x - y + 1) + gammaln(sigma + y)
    for q in (1e-60, 0.3 * x + 0.1, x + 1.0, x + 2.0 * np.sqrt(x) + 0.5, 1e60):
        exact = logsumexp(ways - gammaln(sigma) - y * np.log(q))
        assert added_counts.log_sum(float(x), sigma, q) == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_sums_over_parts_are_integrals_over_the_rate():
    x, sigma, r, unit, rate = 5, 1.5, 0.7, 2.0, 0.4
    law, count = stats.gamma(sigma, scale=1.0 / r), stats.poisson
    mean, _ = integrate.quad(lambda g: law.pdf(g) * count.pmf(x, unit * (rate + g)), 0.0, 80.0)
    told = sigma * np.log(r / (r + unit)) + added_counts.log_sum(x, sigma, rate * (r + unit))
    assert told + count.logpmf(x, unit * rate) == pytest.approx(np.log(mean), rel=1e-7)


def test_their_logarithm_is_concave_in_the_shape():
    """By which the sum over the number of own features ends."""
    shapes = 0.3 * np.arange(30)
    for x, q in ((1.0, 0.2), (6.0, 3.0), (50.0, 40.0), (50.0, 500.0)):
        logs = np.array([0.0, *(added_counts.log_sum(x, s, q) for s in shapes[1:])])
        assert (np.diff(logs, 2) < 1e-9).all()


def test_huge_counts_are_summed_over(rng):
    """E y = x g/(λ + g) where g is all but known."""
    for x in (1e6, 1e9):
        sigma, q = x / 2.0, x  # g near σ/(r + μ), as large as λ
        y = np.array([added_counts.draw_part(rng, x, sigma, q) for _ in range(20)])
        shares = y / x
        g = (sigma + y.mean()) / q
        assert np.isfinite(added_counts.log_sum(x, sigma, q))
        assert shares.mean() == pytest.approx(g / (1.0 + g), rel=0.01)


def test_counts_are_split_whole_and_in_proportion(rng):
    for x, repeats in ((3, 4000), (1000, 400)):
        Z = np.ones((repeats, 2), np.uint8)
        data = Data.of(np.full((repeats, 1), float(x)))
        A, base = np.array([[1.0], [4.0]]), np.array([5.0])
        own, rest = kernel.split_counts(rng, observed_counts(data).listed, base, A, Z)
        total = x * repeats
        assert own.sum() + rest.sum() == total
        for found, share in ((own[0], 0.1), (own[1], 0.4), (rest, 0.5)):
            assert abs(found[0] / total - share) < 6.0 * np.sqrt(share / total)


def test_densities_are_those_of_the_definition():
    Z, X = planted(0, n=8, d=3)
    X[2, 1] = np.nan
    A, base = np.array([[0.5, 2.0, 0.1], [3.0, 0.2, 1.0]]), np.array([0.4, 0.8, 1.2])
    likelihood = thali.Poisson(1.5, base, 0.6, units=(2.0, 3.0, 0.5))
    mean = np.array([2.0, 3.0, 0.5]) * (base + Z @ A)
    assert np.allclose(likelihood.mean(Z, A), mean)
    seen = ~np.isnan(X)
    exact = stats.poisson.logpmf(X[seen], mean[seen]).sum()
    assert likelihood.log_likelihood(X, Z, A) == pytest.approx(exact)
    state = GibbsState(Data.of(X), Z.astype(np.uint8), {"A": A}, {"size": 1.5, "base": base})
    prior = stats.gamma.logpdf(A, 0.6, scale=1.5 / 0.6).sum()
    assert likelihood.log_density(state) == pytest.approx(exact + prior)


def test_the_evidence_of_one_feature_without_a_base_is_exact(rng):
    """All counts of a row that has it come from the feature: the parts are known."""
    X = np.array([[3.0, 1.0], [2.0, 0.0]])
    likelihood = thali.Poisson(size=2.0, base=1e-30, shape=0.5)
    state = GibbsState(
        Data.of(X), np.ones((2, 1), np.uint8), {"A": np.array([[2.0, 0.7]])}, {"size": 2.0}
    )
    state.hyper["base"] = np.full(2, 1e-30)
    exact = 0.0
    for x in X.T:
        law = stats.gamma(0.5, scale=4.0)
        value = integrate.quad(  # in √a, for the pole at 0
            lambda v, x=x, law=law: 2 * v * law.pdf(v**2) * stats.poisson.pmf(x, v**2).prod(), 0, 9
        )
        exact += np.log(value[0])
    assert likelihood.estimate_evidence(rng, state) == pytest.approx(exact, rel=1e-6)


# ---- entries ------------------------------------------------------------------------------------
def test_quantiles_of_mixtures_of_counts():
    law = PoissonEntries(np.array([[0.5, 40.0, 1e7], [3.0, 90.0, 2e7]]))
    for p in (0.05, 0.5, 0.99):
        found = law.mixed_quantile(p)
        below = stats.poisson.cdf(found - 1.0, law.mean).mean(axis=0)
        up_to = stats.poisson.cdf(found, law.mean).mean(axis=0)
        assert ((below < p) & (up_to >= p)).all()
    assert np.allclose(
        law.log_density(np.array([2.0, 50.0, 1e7]))[0, 1], stats.poisson.logpmf(50, 40)
    )


# ---- doors --------------------------------------------------------------------------------------
def test_all_doors_open(tmp_path):
    """Fit, read, save, load, transform, score, impute, plot and report, with gaps."""
    Z, X = planted(1, gaps=0.1)
    model = fitted(X)
    assert thali.evaluation.match_assignments(Z, model.Z_).distance <= 5
    assert 0.0 < model.size_
    assert (model.components_ > 0.0).all()
    assert model.likelihood_.units == pytest.approx(np.nanmean(X, axis=0))
    assert model.transform(X).shape == model.Z_.shape
    assert np.isfinite(model.score(X))
    mean, low, high = model.impute(interval=0.9)
    assert not np.isnan(mean).any()
    gone = np.isnan(X)
    assert ((low[gone] <= high[gone]) & (low[gone] == np.rint(low[gone]))).all()
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert np.array_equal(again.components_, model.components_)
    assert again.likelihood_ == model.likelihood_
    assert "Counts are Poisson" in model.report(tmp_path / "r.html").read_text(encoding="utf-8")


def test_rows_with_many_features_are_transformed_too():
    """Beyond those that are summed over: by sweeps, of the columns that a row shows."""
    rng = np.random.default_rng(0)
    Z = np.eye(15, dtype=bool)[np.arange(45) % 15]
    X = rng.poisson(0.5 + 30.0 * np.repeat(Z, 2, axis=1)).astype(float)
    engine = thali.UncollapsedGibbs(sweeps=10, chains=1, init=Z)
    model = thali.LatentFeatures("ibp", "poisson", engine, random_state=0).fit(X)
    assert model.n_components_ == 15
    X[0, 3:9] = np.nan
    found = model.transform(X[:20])
    assert (found == model.Z_[:20]).mean() > 0.97


def test_a_column_of_zeros_says_next_to_nothing():
    Z, X = planted(2)
    X[:, 4] = 0.0
    model = fitted(X)
    assert thali.evaluation.match_assignments(Z, model.Z_).distance <= 5
    X[0, 4] = np.nan
    assert fitted(X).impute()[0, 4] < 0.2
    empty = fitted(np.zeros((6, 3)))
    assert empty.n_components_ <= 1
    assert (empty.inverse_transform(empty.Z_) < 0.5).all()


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # the chain is short
def test_huge_counts_overflow_nothing():
    rng = np.random.default_rng(3)
    Z = rng.random((20, 2)) < 0.5
    mean = 2.0 + Z @ rng.gamma(0.6, 15.0, (2, 6))
    engine = thali.UncollapsedGibbs(sweeps=20, chains=1, init=Z)
    for scale in (1e4, 1e7):
        X = rng.poisson(scale * mean)
        model = thali.LatentFeatures("ibp", "poisson", engine, random_state=0).fit(X)
        assert np.isfinite(model.history_["log_joint"]).all()
        left = X - model.inverse_transform(model.Z_)
        assert np.abs(left).mean() < 0.02 * X.mean()


@pytest.mark.parametrize("X", [np.zeros((3, 4)), np.ones((1, 1)), 7.0 * np.eye(5), planted(0)[1]])
def test_every_start_is_valid(X, rng):
    data = Data.of(X)
    for name in (name for name in thali.Poisson.starts if name in STARTS):
        start = STARTS[name](rng, Model(thali.IBP(), thali.Poisson()).resolve(data), data)
        assert start.latent.shape[0] == len(X)


def test_data_can_be_drawn():
    data = thali.datasets.draw(thali.IBP(2.0), thali.Poisson(size=2.0, base=0.5), n=8, d=30)
    assert (data.X == np.rint(data.X)).all()
    assert data.A.shape == (data.Z.shape[1], 30)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1.0, "X has -1 at row 1, column 0: this likelihood is of counts, whole numbers"),
        (0.5, "X has 0.5 at row 1, column 0: this likelihood is of counts"),
        (2e9, "counts may be at most 1,000,000,000; count in a larger unit"),
        (np.inf, "inf"),
    ],
)
def test_what_are_no_counts_is_refused(value, words):
    with pytest.raises(ValueError, match=words):
        fitted([[1.0, 2.0], [value, np.nan], [0.0, 3.0]])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": -1.0}, "size must be positive"),
        ({"size": "large"}, "size must be a positive number"),
        ({"base": 0.0}, "base must be positive"),
        ({"base": [1.0, -1.0]}, "base must be one positive number, or one for each column"),
        ({"base": thali.Gamma(1, 1)}, "a hyperprior; base rates are inferred under Exponential"),
        ({"shape": 0.01}, "shape must be at least 0.1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        thali.Poisson(**settings)


def test_base_rates_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="X has 3 columns and 2 base rates"):
        thali.LatentFeatures(likelihood=thali.Poisson(base=[1.0, 2.0])).fit(np.eye(3))
    with pytest.raises(ValueError, match="base is 'auto', to be inferred; this needs numbers"):
        thali.Poisson(size=1.0).mean(np.eye(2), np.eye(2))
