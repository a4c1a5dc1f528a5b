"""Draws are kept eight bits to a byte and read one by one: 1,000 of 10⁵×30 are to fit in 500 MB."""

import gc
import tracemalloc

import thali
from thali.engines.base import Info
from thali.trace import ChainTrace

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
        chain.keep(Z, {})
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
    prior, likelihood = thali.BetaBernoulli(2.0, n_features=K), thali.LinearGaussian(1.0, 1.0)
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
