"""Flexible priors of features: closed forms, special cases, wishes, refusals."""

import numpy as np
import pytest

import thali
from thali.priors.column_potentials import ColumnPotentials
from thali.structures.features import potentials

N = 5
ALL_ONE = thali.FlexibleIBP.from_expectations([0.3], 8).replace(row_potentials=(-1e6, 0.0))
Z = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])


@pytest.mark.parametrize(
    "prior", [thali.IBP(alpha=1.7), thali.TwoParameterIBP(alpha=1.7, beta=2.5)], ids=["one", "two"]
)
def test_at_the_values_of_buffet_processes_it_is_these(prior):
    own = thali.FlexibleIBP(tuple(potentials(prior.tables(N))[1:]))
    assert own.log_prob(Z) == pytest.approx(prior.log_prob(Z), rel=1e-12)
    for mine, other in zip(own.tables(N), prior.tables(N), strict=True):
        np.testing.assert_allclose(
            np.array(mine, float), np.array(other, float), rtol=1e-9, atol=1e-12
        )


def test_the_smooth_form_is_the_buffet_process_at_power_one():
    own, other = thali.SmoothIBP(1.7, 1.0), thali.IBP(1.7)
    assert own.log_prob(Z) == pytest.approx(other.log_prob(Z), rel=1e-12)
    hyper = {"alpha": 1.7, "power": 1.0, "shift": 0.0}
    law = thali.SmoothIBP(power=1.0).mass_law(N, hyper)
    np.testing.assert_allclose(law, thali.IBP().mass_law(N, {"alpha": 1.7}), rtol=1e-12)


def test_chains_under_its_potentials_are_those_of_the_buffet_process(rng):
    """Bit by bit: the tables are the same."""
    X = rng.normal(size=(20, 6)) + 2.0 * (rng.random((20, 1)) < 0.5)
    engine = thali.CollapsedGibbs(sweeps=30, chains=1, init="empty")
    made = thali.FlexibleIBP.from_expectations(m=2.0 / np.arange(1, 21), n_rows=20)
    a, b = (
        thali.LatentFeatures(
            likelihood="linear_gaussian", prior=prior, engine=engine, random_state=0, progress=False
        ).fit(X)
        for prior in (thali.IBP(alpha=2.0), made)
    )
    assert np.array_equal(a.history_["n_components"], b.history_["n_components"])
    np.testing.assert_allclose(a.history_["log_joint"], b.history_["log_joint"], rtol=1e-8)


def test_wishes_are_met_exactly():
    wish = np.array([0.3, 2.0, 0.0, 1.5])
    prior = thali.FlexibleIBP.from_expectations(m=wish, n_rows=6)
    np.testing.assert_allclose(prior.expected_counts(6), [*wish, 0.0, 0.0], rtol=1e-12)


def test_wishes_beside_row_potentials_are_met_within_the_noise_of_draws(rng):
    wish = np.array([1.0, 0.7, 0.4])
    prior = thali.FlexibleIBP.from_expectations(
        m=wish, n_rows=3, row_potentials=(0.0, 0.4, -0.3, -0.6)
    )
    sums = [np.bincount(prior.sample(rng, 3).sum(axis=0), minlength=4)[1:] for _ in range(6000)]
    np.testing.assert_allclose(np.mean(sums, axis=0), wish, atol=0.06)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: thali.FlexibleIBP(()), "one number λ_i for each"),
        (lambda: thali.FlexibleIBP((np.nan,)), "one number λ_i for each"),
        (lambda: thali.FlexibleIBP((800.0,)), "without end"),
        (lambda: thali.FlexibleIBP("abc"), "must be numbers"),
        (lambda: thali.FlexibleIBP((0.0,), (np.inf,)), "finite numbers θ_0"),
        (lambda: thali.FlexibleIBP((0.0, 0.0), lambda j: 0.05 * j**2), "no normalizer"),
        (lambda: thali.FlexibleIBP.from_expectations([1.0, 2.0], 1), "at most n_rows=1"),
        (lambda: thali.FlexibleIBP.from_expectations([-1.0], 1), "not negative"),
        (lambda: thali.FlexibleIBP((0.0, 0.0)).log_prob(np.ones((3, 1))), "for 2 rows"),
        (lambda: thali.SmoothIBP(shift=-1.0), "above -1"),
        (lambda: thali.SmoothIBP(power=thali.Gamma(1, 1)), "thali.Normal"),
        (lambda: thali.SmoothIBP(power="steep"), "must be a number"),
        (lambda: thali.SmoothIBP().log_prob(Z), "alpha"),
        (lambda: thali.FlexibleIBP((0.0, 0.0), lambda j: "a"), "must give a number for each"),
        (lambda: thali.FlexibleIBP((0.0,), lambda j: -np.inf if j else 0.0), "finite numbers θ_0"),
        (
            lambda: thali.FlexibleIBP.from_expectations([0.0, 3.0], 3).tables(3),
            "features of 1 rows",
        ),
        (lambda: thali.FlexibleIBP((0.0, 0.0)).log_normalizer(7), "for 2 rows"),
        (lambda: ALL_ONE.log_normalizer(8), "few of 2,000 draws count"),
        (lambda: thali.LearnedIBP(alpha=-1.0), "alpha"),
        (lambda: thali.LearnedIBP(expected="abc"), "must be N numbers"),
        (lambda: thali.LearnedIBP(expected=[-1.0, 2.0]), "one positive number"),
        (lambda: thali.LearnedIBP().log_prob(Z), "alpha"),
        (lambda: thali.LearnedIBP(expected=np.ones(3)).log_prob(Z), "learned of 3 rows"),
    ],
)
def test_what_is_refused(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()


def test_features_of_too_many_rows_lose_them(rng):
    """A chain that begins where the prior has no weight finds its way to where it has."""
    A, Z = 5.0 * rng.normal(size=(2, 6)), rng.random((30, 2)) < 0.5
    X = Z @ A + 0.3 * rng.normal(size=(30, 6))
    prior = thali.FlexibleIBP.from_expectations(np.full(4, 0.5), 30)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        prior=prior,
        engine=thali.CollapsedGibbs(sweeps=60, chains=2),
        random_state=0,
    ).fit(X)
    assert np.isfinite(model.log_joint_)
    assert model.Z_.sum(axis=0).max(initial=0) <= 4


def test_wide_hyperpriors_stay_within_bounds(rng):
    prior = thali.SmoothIBP(2.0, thali.Normal(0.0, 500.0), thali.Gamma(2.0, 0.01))
    hyper = {"alpha": 2.0, "power": 1.0, "shift": 1.0}
    for _ in range(200):
        prior.resample(rng, hyper, thali.structures.features.feature_counts(Z[:1]))
    assert abs(hyper["power"]) < 1000.0
    assert -1.0 < hyper["shift"] < 1000.0


def test_rare_wishes_beside_idle_row_potentials_are_exact():
    prior = thali.FlexibleIBP.from_expectations([1.0, 1e-5], 2, row_potentials=(0.0, 0.0))
    np.testing.assert_allclose(prior.expected_counts(2), [1.0, 1e-5], rtol=1e-9)


def test_row_potentials_in_proportion_have_a_normalizer():
    assert thali.FlexibleIBP((-9.0,) * 20, lambda j: 0.7 * j).row_potentials[2] == 1.4


def test_learned_numbers_that_are_given_are_drawn_with(rng):
    prior = thali.LearnedIBP(2.0, np.array([0.01, 50.0, 0.01]))
    assert np.mean([prior.sample(rng, 3).shape[1] for _ in range(50)]) > 40.0


def test_slow_row_potentials_may_be_a_function():
    prior = thali.FlexibleIBP((0.0, 0.0), lambda j: -0.3 * j)
    assert prior.row_potentials[:3] == pytest.approx((0.0, -0.3, -0.6))


@pytest.mark.parametrize("engine", ["particle_filter", "variational", "beam_search"])
def test_engines_that_need_consistency_refuse(engine):
    prior = thali.FlexibleIBP.from_expectations([1.0, 1.0], 4)
    with pytest.raises((TypeError, ValueError), match="FlexibleIBP"):
        thali.LatentFeatures(likelihood="linear_gaussian", prior=prior, engine=engine).fit(
            np.eye(4)
        )


@pytest.mark.parametrize(
    "prior",
    [
        thali.FlexibleIBP.from_expectations([0.2, 1.0, 1.0], 12),
        thali.FlexibleIBP.from_expectations([0.2, 1.0, 1.0], 12).replace(
            row_potentials=(0.0, 0.5, -1.0)
        ),
        thali.SmoothIBP(),
        thali.LearnedIBP(),
    ],
    ids=["table", "rows", "smooth", "learned"],
)
@pytest.mark.parametrize("engine", ["collapsed_gibbs", "uncollapsed_gibbs"])
def test_fits_are_saved_loaded_and_say_why_new_rows_are_not_predicted(prior, engine, tmp_path, rng):
    X = rng.normal(size=(12, 4))
    X[3, 1] = np.nan
    chosen = {"collapsed_gibbs": thali.CollapsedGibbs, "uncollapsed_gibbs": thali.UncollapsedGibbs}
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        prior=prior,
        engine=chosen[engine](sweeps=20, chains=2),
        random_state=0,
        progress=False,
    ).fit(X)
    model.save(tmp_path / "fit.thali")
    again = thali.load(tmp_path / "fit.thali")
    assert np.array_equal(again.Z_, model.Z_)
    assert again.log_joint_ == model.log_joint_
    with pytest.raises(ValueError, match="not that of the first n of n"):
        model.score(X[:2])
    assert not np.isnan(np.asarray(model.impute())).any()


def test_expected_counts_of_all_forms_are_those_of_their_draws(rng):
    for prior in (thali.SmoothIBP(2.0, 0.3, 0.5), thali.LearnedIBP(2.0, np.array([0.3, 2.0, 1.0]))):
        sums = [np.bincount(Z.sum(axis=0), minlength=4)[1:] for Z in draws(prior, rng)]
        error = np.sqrt(prior.expected_counts(3) / len(sums))
        assert (np.abs(np.mean(sums, axis=0) - prior.expected_counts(3)) < 5.0 * error).all()


def draws(prior, rng):
    for _ in range(3000):
        yield ColumnPotentials.sample(prior, rng, 3)


def test_a_learned_prior_goes_on_from_numbers_that_were_learned(rng):
    X = rng.normal(size=(8, 3))
    engine = thali.CollapsedGibbs(sweeps=6, chains=1)
    prior = thali.LearnedIBP(expected=1.0 / np.arange(1, 9))
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", prior=prior, engine=engine, random_state=0, progress=False
    )
    assert len(model.fit(X).fit_.mean_hyper()["expected"]) == 8
    with pytest.raises(ValueError, match="learned of 8 rows"):
        model.fit(X[:5])
