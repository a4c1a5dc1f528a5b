"""The process held to a number of features, in engines: what takes it, what refuses it."""

import numpy as np
import pytest

import thali
from thali.engines.maximization_expectation import MaximizationExpectation
from thali.priors.feature_sums import expected_sums

PLANTED = thali.datasets.planted(n=60, d=8, k=4, random_state=0)
MOST = 2  # fewer than the data have


def fit(engine, X=PLANTED.X, likelihood="linear_gaussian", most=MOST, **settings):
    prior = thali.TruncatedIBP(max_features=most)
    model = thali.LatentFeatures(
        prior, likelihood, engine, random_state=0, progress=False, **settings
    )
    return model.fit(X)


@pytest.mark.parametrize("init", ["race", "ica", "columns", "prior", "empty"])
def test_no_start_and_no_sweep_has_more_features_than_there_may_be(init):
    model = fit(thali.CollapsedGibbs(sweeps=25, chains=2, init=init))
    K = model.history_["n_components"]
    assert K.max() == MOST == model.n_components_
    assert model.history_["alpha"].std() > 0.0


ENGINES = {
    "uncollapsed": (thali.UncollapsedGibbs(sweeps=25, chains=1), "linear_gaussian"),
    "moves": (thali.UncollapsedGibbs(sweeps=25, chains=1, moves=5), "linear_gaussian"),
    "blocks": (thali.UncollapsedGibbs(sweeps=25, chains=1, row_blocks=3), "linear_gaussian"),
    "metropolis": (thali.Metropolis(sweeps=25, chains=1), "linear_gaussian"),
    "nonnegative": (thali.UncollapsedGibbs(sweeps=25, chains=1), "nonnegative_linear_gaussian"),
    "amounts": (thali.UncollapsedGibbs(sweeps=25, chains=1), "sparse_factor"),
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("gaps", [False, True])
def test_every_engine_keeps_to_the_limit(name, gaps):
    engine, likelihood = ENGINES[name]
    X = np.where(np.random.default_rng(1).random(PLANTED.X.shape) < 0.1 * gaps, np.nan, PLANTED.X)
    model = fit(engine.replace(init="empty"), X, likelihood)
    assert 1 <= model.history_["n_components"].max() <= MOST


def test_a_limit_beyond_all_that_there_is_says_nothing():
    """With room to spare the tables are those of the IBP, and so are the draws."""
    free, held = thali.IBP(alpha=1.5), thali.TruncatedIBP(alpha=1.5, max_features=500)
    assert np.array_equal(free.tables(9).log_odds, held.tables(9).log_odds)
    Z = np.eye(9, dtype=bool)
    assert held.log_prob(Z) == pytest.approx(free.log_prob(Z), rel=1e-12)
    engine = thali.CollapsedGibbs(sweeps=20, chains=1, init="empty", moves=0)
    one, two = (
        thali.LatentFeatures(p, thali.LinearGaussian(0.5, 1.0), engine, random_state=3).fit(
            PLANTED.X
        )
        for p in (free, held)
    )
    assert np.array_equal(one.history_["n_components"], two.history_["n_components"])
    np.testing.assert_allclose(one.history_["log_joint"], two.history_["log_joint"], rtol=1e-10)


def test_the_log_joint_has_the_normalizer():
    """That of a chain is the likelihood and ``log_prob``, α fixed or not."""
    for alpha in (3.0, thali.Gamma(2.0, 1.0)):
        prior, likelihood = thali.TruncatedIBP(alpha, MOST), thali.LinearGaussian(0.5, 1.0)
        engine = thali.CollapsedGibbs(sweeps=6, burn_in=0, chains=1, init="empty")
        model = thali.LatentFeatures(prior, likelihood, engine, random_state=0).fit(PLANTED.X)
        for (draw, *_), told, mass in zip(
            model.fit_.draws(),
            model.history_["log_joint"][0],
            model.history_["alpha"][0],
            strict=True,
        ):
            wanted = prior.at(alpha=mass).log_prob(draw)
            wanted += likelihood.log_marginal(PLANTED.X, draw.astype(float))
            assert told == pytest.approx(wanted, rel=1e-9)


def test_maximization_expectation_keeps_to_it_too():
    model = fit(MaximizationExpectation())
    assert model.n_components_ == MOST
    engine = MaximizationExpectation(truncation=1)
    assert fit(engine).n_components_ == 1


@pytest.mark.parametrize(
    ("engine", "lacks"),
    [
        (thali.Variational(), "it needs Truncates, which TruncatedIBP does not have"),
        (thali.ParticleFilter(), "it needs Sequential"),
        (thali.BeamSearch(), "it needs Sequential"),
        (thali.UncollapsedGibbs(new_features="slice"), "HasFrequencies for new_features='slice'"),
    ],
    ids=["variational", "filter", "search", "slice"],
)
def test_engines_that_cannot_say_so_and_name_those_that_can(engine, lacks):
    with pytest.raises(ValueError, match=lacks) as refused:
        fit(engine)
    assert "CollapsedGibbs" in str(refused.value)


def test_new_rows_are_refused_with_the_reason():
    model = fit(thali.CollapsedGibbs(sweeps=5, chains=1, init="empty"))
    with pytest.raises(ValueError, match="how many features n rows have together"):
        model.predict_proba(PLANTED.X[:2])


def test_a_start_with_more_features_is_refused():
    with pytest.raises(ValueError, match="has 4 features but the prior allows at most 2"):
        fit(thali.CollapsedGibbs(init=PLANTED.Z))
    with pytest.raises(ValueError, match="max_features must be at least 1"):
        thali.TruncatedIBP(max_features=0)


def test_what_rows_and_columns_are_expected_to_sum_to(rng):
    prior = thali.TruncatedIBP(alpha=2.0, max_features=3)
    told = expected_sums(prior, 4)
    draws = [prior.sample(rng, 4) for _ in range(4000)]
    columns = np.mean([np.bincount(Z.sum(axis=0), minlength=5)[1:] for Z in draws], axis=0)
    rows = np.bincount([Z[0].sum() for Z in draws], minlength=4) / len(draws)
    np.testing.assert_allclose(told.columns, columns, atol=0.06)
    np.testing.assert_allclose(told.rows, rows, atol=0.04)
    assert told.rows.sum() == pytest.approx(1.0)


def test_limits_are_what_data_can_have():
    assert thali.TruncatedIBP(alpha=1.0, max_features=7).most_components(3) == 7
    assert thali.IBP(alpha=1.0).most_components(3) == -1
