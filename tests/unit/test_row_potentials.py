"""Row potentials θ: tables, counts, the number of new features, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from row_weighted import THETA, RowWeighted, WeightedIBP
from scipy.special import gammaln, logsumexp

import thali
from thali.data import Data
from thali.kernels.gaussian_row import gaussian_row_at
from thali.kernels.new_features import MOST_NEW, NewFeatures, draw, likeliest, log_sum
from thali.kernels.row_potentials import most_ahead, row_step, sum_of_rows
from thali.model import Model
from thali.run.choices import check_engine
from thali.starts import Start
from thali.structures.features import feature_counts, with_row_sums

# rising, falling, and with a reward far out that a tail cut off too soon would miss
SHAPES = [(0.0, 0.0, -3.0), (0.0, 2.0, 1.0, 4.0), (0.0, -1.0, -2.0, -4.0, 0.0, 0.0, 30.0), ()]


def table_of(theta):
    return np.array(theta) if theta else None


def sums_of(Z, theta):
    """Σ_n θ_{F_n} by the definition."""
    if not theta:
        return 0.0
    return sum(theta[min(int(F), len(theta) - 1)] for F in np.asarray(Z).sum(axis=1))


@pytest.mark.parametrize("theta", SHAPES)
def test_the_rows_part_of_the_log_prior(theta, rng):
    Z = (rng.random((9, 7)) < 0.5).astype(np.uint8)
    assert sum_of_rows(table_of(theta), Z, 7) == pytest.approx(sums_of(Z, theta))
    assert sum_of_rows(table_of(theta), Z, 4) == pytest.approx(sums_of(Z[:, :4], theta))


@pytest.mark.parametrize("theta", SHAPES[:3])
def test_steps_and_bounds_of_the_table(theta):
    def at(F):
        return theta[min(F, len(theta) - 1)]

    for F in range(12):
        assert row_step(np.array(theta), F) == at(F + 1) - at(F)
        assert most_ahead(np.array(theta), F) == max(at(i) for i in range(F, 40)) - at(F)


def test_row_sums_are_counted_only_where_they_are_asked_for(rng):
    Z = rng.random((6, 3)) < 0.5
    plain = feature_counts(Z)._replace(row_sums=np.zeros(0, np.int64))
    assert with_row_sums(plain, thali.IBP(1.0).tables(6), Z) is plain
    found = with_row_sums(plain, RowWeighted().tables(6), Z).row_sums
    assert np.array_equal(found, Z.sum(axis=1))
    assert np.array_equal(feature_counts(Z).row_sums, found)


def log_weights(theta, others, free, log_weight, row, most=400):
    """log w_j f(j) for j = 0, 1, … by the definition."""
    j = np.arange((most if free < 0 else free) + 1)
    value = j * log_weight - gammaln(j + 1.0)
    if free >= 0:
        value += gammaln(free + 1.0) - gammaln(free - j + 1.0)
    if theta:
        table = np.array(theta)
        last = len(theta) - 1
        value += table[np.minimum(others + j, last)] - table[min(others, last)]
    V = row.V + j / row.r
    return value - row.half_d * np.log(V) - row.precision * row.rho / V


@pytest.mark.parametrize("free", [-1, 5])
@pytest.mark.parametrize("theta", SHAPES)
def test_new_features_have_their_exact_law(theta, free, rng):
    for others in (0, 2, 9):
        for log_weight in (-4.0, 0.3):
            row, table = gaussian_row_at(7.0, 1.2, 0.6, 2.5, 0.8), table_of(theta)
            new = NewFeatures(log_weight, free, others, MOST_NEW)
            exact = log_weights(theta, others, free, log_weight, row)
            assert log_sum(new, table, row, None) == pytest.approx(logsumexp(exact), abs=1e-12)
            assert likeliest(new, table, row, None) == exact.argmax()
            cumulative = np.exp(np.logaddexp.accumulate(exact) - logsumexp(exact))
            for _ in range(50):
                before = rng.bit_generator.state
                u = rng.random()
                rng.bit_generator.state = before
                assert draw(rng, new, table, row, None) == np.searchsorted(
                    cumulative, u, side="right"
                )


def data_of(likelihood, n=5, d=3):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d))
    return (X > 0).astype(float) if isinstance(likelihood, thali.NoisyOr) else X


ENGINES = (thali.CollapsedGibbs(), thali.UncollapsedGibbs())


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
def test_the_log_joint_has_the_rows_part(engine, rng):
    model = Model(RowWeighted(), thali.LinearGaussian(0.5, 1.0))
    data = Data.of(data_of(model.likelihood))
    start = Start("given", rng.random((5, 2)) < 0.7, model.start(data))
    state = engine.begin(rng, model, data, start)
    for _ in range(5):
        info = engine.step(rng, model, data, state)
        assert info.log_joint == pytest.approx(model.log_joint(data.X, state.latent))
        plain = Model(thali.IBP(1.5), model.likelihood).log_joint(data.X, state.latent)
        assert info.log_joint - plain == pytest.approx(sums_of(state.latent, THETA))


FLAT = 30.0, 0.001  # of σ_x and σ_a: the data say nothing, and rows turn many bits in a sweep
SAMPLERS = {
    "collapsed": (thali.CollapsedGibbs(moves=0), thali.LinearGaussian(*FLAT)),
    "columns": (thali.CollapsedGibbs(moves=6), thali.LinearGaussian(*FLAT)),
    "linear": (thali.UncollapsedGibbs(), thali.LinearGaussian(*FLAT)),
    "nonnegative": (thali.UncollapsedGibbs(), thali.NonnegativeLinearGaussian(*FLAT)),
    "sparse": (thali.UncollapsedGibbs(), thali.SparseFactor("laplace", *FLAT)),
    "noisy or": (thali.UncollapsedGibbs(), thali.NoisyOr(0.5, 0.001, 0.5)),
}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_no_row_ever_has_a_sum_that_its_potential_forbids(name, gaps, rng):
    """θ allows one to three features a row: a sum F that did not follow every bit of the row would
    let it have none, or four."""
    engine, likelihood = SAMPLERS[name]
    X = np.abs(rng.normal(size=(8, 5)))
    X = (X > 0.5).astype(float) if name == "noisy or" else X
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    data = Data.of(X)
    model = Model(RowWeighted(weight=8.0, theta=(-1e4, 0.0, 0.0, 0.0, -1e4)), likelihood)
    Z = (np.arange(8)[:, None] + np.arange(8)) % 8 < 3  # eight features, each in three rows
    start = Start("given", Z, model.start(data))
    state = engine.begin(rng, model, data, start)
    seen = set()
    for _ in range(30):
        engine.step(rng, model, data, state)
        seen |= set(state.latent.sum(axis=1).tolist())
    assert seen == {1, 2, 3}


def fitted(engine):
    return thali.LatentFeatures(
        RowWeighted(), thali.LinearGaussian(0.5, 1.0), engine, random_state=0, progress=False
    ).fit(data_of(None))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
def test_a_fit_answers_but_for_new_rows(engine):
    """Its starts are raced, without a draw of the prior, which this one cannot make."""
    model = fitted(engine.replace(sweeps=20, chains=1))
    assert len(model.Z_) == 5
    assert np.isfinite(model.log_joint_)
    for ask in (model.score, model.predict_proba):
        with pytest.raises(ValueError, match="New rows cannot be predicted under RowWeighted"):
            ask(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "engine",
    [
        thali.Variational(),
        thali.ParticleFilter(),
        thali.BeamSearch(),
        thali.MaximizationExpectation(),
        thali.UncollapsedGibbs(new_features="slice"),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("kind", [RowWeighted, WeightedIBP])
def test_engines_that_cannot_heed_row_potentials_refuse(engine, kind):
    model = Model(kind(), thali.LinearGaussian(0.5, 1.0))
    with pytest.raises(ValueError, match=r"can: CollapsedGibbs, UncollapsedGibbs, Metropolis\."):
        check_engine(engine, model)


@pytest.mark.parametrize(
    "theta",
    [(0.0, -np.inf), (0.0, np.nan), (), np.zeros((2, 2))],
    ids=["-inf", "nan", "none", "2d"],
)
def test_row_potentials_that_are_no_table_are_refused(theta):
    model = Model(WeightedIBP(theta=theta), thali.LinearGaussian(0.5, 1.0))
    with pytest.raises(ValueError, match="row potentials must be an array of finite numbers"):
        check_engine(thali.CollapsedGibbs(), model)


def test_only_the_slice_step_needs_frequencies():
    model = Model(RowWeighted(), thali.LinearGaussian(0.5, 1.0))
    check_engine(thali.UncollapsedGibbs(), model)
    with pytest.raises(ValueError, match="HasFrequencies for new_features='slice', which RowW"):
        check_engine(thali.UncollapsedGibbs(new_features="slice"), model)
