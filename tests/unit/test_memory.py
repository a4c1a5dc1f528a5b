"""Draws are kept eight bits to a byte and read one by one: 1,000 of 10⁵×30 are to fit in 500 MB.
Optimizers, which are for large data, need no second X."""

import gc
import sys
import tracemalloc
import warnings

import numpy as np
import pytest

import thali
from thali.engines.base import Info
from thali.results.trace import ChainTrace, Kept
from thali.structures.features import FEATURES

N, K = 100_000, 30
BUDGET = 500e6 / 1000  # bytes a draw
SHARE = 0.4  # of X, that a fit of a memory map may need: rows' laws, draws, a few blocks


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


BLOCKWISE = {
    "linear_gaussian": thali.Variational(truncation=5, n_init=1, max_iter=12),
    "nonnegative_linear_gaussian": thali.MaximizationExpectation(
        truncation=5, n_init=1, max_iter=12
    ),
}


def fitted_by_blocks(X, Z, likelihood):
    engine = BLOCKWISE[likelihood].replace(init=Z)
    return thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False).fit(X)


def mapped(X, folder):
    """X on disk, as an array that is only read."""
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("likelihood", BLOCKWISE)
def test_a_memory_map_is_read_by_blocks(rng, monkeypatch, tmp_path, likelihood):
    """It is not copied, whatever its size, and leads where the array does."""
    monkeypatch.setattr("thali.data.matrix.BLOCK", 2**16)  # as small as 2²⁰ beside a large X
    monkeypatch.setattr("thali.data.sparse.PIECE", 2**16)
    X, Z = large(rng)
    on_disk = mapped(X, tmp_path)
    fitted_by_blocks(on_disk[:500], Z[:500], likelihood)  # what is compiled is not counted
    gc.collect()
    tracemalloc.start()
    model = fitted_by_blocks(on_disk, Z, likelihood)
    added = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert added < SHARE * X.nbytes
    assert np.shares_memory(model.X_, on_disk)
    other = fitted_by_blocks(X, Z, likelihood)
    assert not np.shares_memory(other.X_, X)  # it is small
    assert np.allclose(model.history_["elbo"], other.history_["elbo"], rtol=1e-10, atol=0.0)
    assert np.array_equal(model.Z_, other.Z_)
    for name in ("assignment_probabilities_", "components_", "log_joint_"):
        near = np.allclose(getattr(model, name), getattr(other, name), rtol=1e-8, atol=1e-10)
        assert near, name


def only_read(kind):
    """Whether numba's type is, or holds, an array that cannot be written to."""
    if hasattr(kind, "layout"):
        return not kind.mutable
    return any(map(only_read, getattr(kind, "types", ())))


def compiled_for_reading():
    """Kernels of the library that were compiled for an array that is only read."""
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("thali.kernels"):
            for each in vars(module).values():
                for types in () if isinstance(each, type) else getattr(each, "signatures", ()):
                    if any(map(only_read, types)):
                        found.add((each.py_func.__qualname__, str(types)))
    return found


@pytest.mark.parametrize("likelihood", BLOCKWISE)
def test_no_kernel_is_compiled_again_for_a_memory_map(rng, tmp_path, likelihood):
    X, Z = large(rng)
    X, Z = mapped(np.ascontiguousarray(X[:60, :8]), tmp_path), Z[:60]
    before = compiled_for_reading()
    for init in (Z, "race"):
        model = fitted_by_blocks(X, init, likelihood)
        model.predict_proba(X)
        model.score(X)
    assert compiled_for_reading() == before


def test_an_array_that_is_only_read_is_copied_for_other_engines(rng, tmp_path):
    X, Z = large(rng)
    X = mapped(np.ascontiguousarray(X[:60, :8]), tmp_path)
    engine = thali.CollapsedGibbs(sweeps=3, chains=1, init=Z[:60])
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(X)
    assert not np.shares_memory(model.X_, X)


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
            model = thali.LatentFeatures(
                likelihood="linear_gaussian", engine=engine, center=center, random_state=0
            )
            with warnings.catch_warnings():  # a short run may end with more features than columns
                warnings.simplefilter("ignore", thali.TooManyFeatures)
                model.fit(X)
            assert np.array_equal(X, before)
            assert X.flags.writeable
            assert np.array_equal(model.X_, before) or (center and np.allclose(model.X_, before))
            assert not np.shares_memory(model.X_, X)
            with pytest.raises(ValueError, match="read-only"):
                model.X_[0, 0] = 1.0
