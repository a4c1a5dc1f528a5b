"""Draws are kept eight bits to a byte and read one by one: 1,000 of 10⁵×30 are to fit in 500 MB.
Optimizers, which are for large data, need no second X."""

import gc
import tracemalloc

import numpy as np
import pytest

import thali
from thali.engines.base import Info
from thali.results.trace import ChainTrace, Kept
from thali.structures.features import FEATURES

N, K = 100_000, 30
BUDGET = 500e6 / 1000  # bytes a draw


def test_a_kept_draw_takes_an_eighth_of_its_entries(rng):
    chain = ChainTrace()
    Z = rng.random((N, K)) < 0.3
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(20):
        Z[i] ^= True
        chain.record(Info(K, -1.0, {"alpha": 1.0}, 0.0))
        chain.keep(Kept(FEATURES.pack(Z), {}))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(chain.kept) == 20
    assert N * K / 8 <= grown / 20 < BUDGET


def test_draws_are_read_one_by_one(rng):
    n, draws = 4_000, 12
    Z = rng.random((n, K)) < 0.3
    X = Z @ rng.standard_normal((K, 2)) + rng.standard_normal((n, 2))
    engine = thali.CollapsedGibbs(sweeps=draws, burn_in=0, chains=1, init=Z, moves=0)
    prior, likelihood = thali.BetaBernoulli(2.0, n_components=K), thali.LinearGaussian(1.0, 1.0)
    model = thali.LatentFeatures(prior, likelihood, engine, random_state=0).fit(X)
    gc.collect()
    tracemalloc.start()
    peak = 0
    for count, draw in enumerate(model.draws()):
        assert draw.Z.shape[0] == n
        if count == 2:  # once what a single draw needs is known
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
    later = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == draws - 1
    assert later < peak + 2 * n * K  # not another draw or two, let alone twelve


def large(rng):
    """20,000×200 from five features, and a random Z to begin with."""
    n, d, k = 20_000, 200, 5
    Z = rng.random((n, k)) < 0.4
    X = Z @ (rng.random((k, d)) < 0.3).astype(float)
    X += rng.standard_normal(X.shape)
    return X, rng.random(Z.shape) < 0.5


@pytest.mark.parametrize("start", ["prior", "given"])
def test_maximization_expectation_makes_no_second_X(rng, monkeypatch, start):
    monkeypatch.setattr(
        "thali.data.matrix.BLOCK", 2**16
    )  # as small beside this X as 2²⁰ beside a large
    monkeypatch.setattr(
        "thali.estimators.validation.LARGE", 1e6
    )  # and this X as one that is not copied
    X, Z = large(rng)
    likelihood = "nonnegative_linear_gaussian"

    def fitted(X, init):
        engine = thali.MaximizationExpectation(
            truncation=5, n_init=1, max_iter=15, init="prior" if start == "prior" else init
        )
        model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False)
        return model.fit(X)

    fitted(X[:500], Z[:500])  # what is compiled and imported on the way is not counted
    gc.collect()
    tracemalloc.start()
    model = fitted(X, Z)
    added = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert added < 0.5 * X.nbytes
    assert np.shares_memory(model.X_, X)


def test_a_fit_leaves_X_as_it_was_and_its_X_cannot_be_written_to(rng):
    X, Z = large(rng)
    X, Z = X[:60, :8].copy(), Z[:60]
    before = X.copy()
    for engine in (
        thali.CollapsedGibbs(sweeps=5, chains=1, init=Z),
        thali.UncollapsedGibbs(sweeps=5, chains=1, init=Z),
        thali.ParticleFilter(n_particles=5),
        thali.Variational(truncation=5, n_init=1),
        thali.MaximizationExpectation(truncation=5, n_init=1),
    ):
        for center in (False, True):
            model = thali.LatentFeatures(engine=engine, center=center, random_state=0).fit(X)
            assert np.array_equal(X, before)
            assert X.flags.writeable
            assert np.array_equal(model.X_, before) or (center and np.allclose(model.X_, before))
            assert not np.shares_memory(model.X_, X)
            with pytest.raises(ValueError, match="read-only"):
                model.X_[0, 0] = 1.0
