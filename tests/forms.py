"""A small problem, the forms in which its rows may lie, and the bound after each iteration."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

import thali

N, D, K = 2500, 8, 3  # two pieces of rows
ITERATIONS = 20
ENGINES = {
    "soft": thali.Variational(truncation=5, n_init=1, max_iter=ITERATIONS, tol=1e-12),
    "hard": thali.MaximizationExpectation(truncation=5, n_init=1, max_iter=ITERATIONS, tol=1e-12),
}


def problem(gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """X of three features and noise, and a Z to begin with that is often wrong."""
    rng = np.random.default_rng(0)
    Z = rng.random((N, K)) < 0.4
    X = Z @ rng.gamma(2.0, 1.0, (K, D)) + 0.4 * rng.standard_normal((N, D))
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, Z ^ (rng.random(Z.shape) < 0.3)


def fitted(X, kind, likelihood="linear_gaussian", seed=0, estimator=(), **settings):
    """A model of X in whatever form; ``settings`` are those of the engine."""
    engine = ENGINES[kind].replace(**settings)
    model = thali.LatentFeatures(
        likelihood=likelihood, engine=engine, random_state=seed, progress=False, **dict(estimator)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thali.DegenerateFit)
        return model.fit(X)


def mapped(X, folder, name="X.npy"):
    """X on disk, as an array that is only read."""
    np.save(folder / name, X)
    return np.load(folder / name, mmap_mode="r")


def in_blocks(X, size=700):
    """X by turns, from a generator that can be read once."""
    return thali.RowBlocks((X[i : i + size] for i in range(0, len(X), size)), n_rows=len(X))


def sparse(X):
    return sp.csr_array(X)


def assert_same(model, other, rtol=1e-9):
    """The same bound after each iteration, and the same answer."""
    bounds, others = model.history_["elbo"], other.history_["elbo"]
    assert bounds.shape == others.shape
    assert np.allclose(bounds, others, rtol=rtol, atol=0.0)
    assert np.array_equal(model.Z_, other.Z_)
    assert np.allclose(model.components_, other.components_, rtol=1e-6, atol=1e-8)
    assert np.isclose(model.log_joint_, other.log_joint_, rtol=rtol)
