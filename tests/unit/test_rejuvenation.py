"""Steps over the rows that particles have seen: when, what they leave, and when not at all."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import thali
from thali import datasets
from thali.data import Data
from thali.engines.filtering import rejuvenation
from thali.engines.filtering.gaps import Gaps
from thali.engines.filtering.hyperparameters import move_numbers
from thali.engines.filtering.rejuvenation import is_due, rejuvenate
from thali.model import Model
from thali.starts import empty_start
from thali.stopping import stopping


def begun(engine, model, X, rows, seed=0):
    """A filter's state after some rows."""
    rng, data = np.random.default_rng(seed), Data.of(X)
    state = engine.begin(rng, model, data, empty_start(rng, model, data.filled))
    for _ in range(rows):
        engine.step(rng, model, data, state)
    return state


def matrices(state):
    count = np.arange(len(state.log_weights))
    packed = list(state.genealogy.matrices(state.particles.k, count))
    return [np.unpackbits(Z, axis=0, count=state.row).astype(float) for Z in packed]


def images(missing):
    X = datasets.images(n=40, random_state=0).X[:, :8].copy()
    if missing:
        X[:9, 2:5] = X[20, 0] = np.nan
    return X


@pytest.mark.parametrize("rows", [1, 2, 7, 100, 5000])
def test_all_steps_cost_as_much_as_a_few_sweeps_over_all_rows(rows):
    due = [row for row in range(1, rows + 1) if is_due(row, rows)]
    assert due[-1] == rows
    assert sum(due) <= 3 * rows + 2 * len(due)
    assert all(later <= 1.5 * row + 1 for row, later in pairwise(due))


@pytest.mark.parametrize("missing", [False, True])
def test_what_particles_carry_is_that_of_their_matrices(missing):
    X = images(missing)
    model = Model(thali.IBP(1.0), thali.LinearGaussian(0.5, 1.0))
    state = begun(thali.ParticleFilter(n_particles=12, rejuvenate=0), model, X, 25)
    before, weights, evidence = matrices(state), state.log_weights.copy(), state.log_evidence
    rejuvenate(np.random.default_rng(1), state, 1)
    move_numbers(np.random.default_rng(2), state, afresh=True)
    after = matrices(state)
    assert any(a.shape != b.shape or (a != b).any() for a, b in zip(after, before, strict=True))
    assert (state.log_weights == weights).all()
    assert state.log_evidence == evidence
    data, now, r = state.data, state.particles, 0.25
    gaps = Gaps.of(data) if missing else None
    for p, Z in enumerate(after):
        k = Z.shape[1]
        assert Z.any(axis=0).all()
        assert (now.C[p, :k, :k] == Z.T @ Z).all()
        assert (now.m[p, :k] == Z.sum(axis=0)).all()
        rows = data.reduced[:25] if gaps is None else gaps.X[:25]
        assert np.allclose(now.T[p, :k], Z.T @ rows)
        groups = [(now.M[p], now.G[p], Z, slice(None))]
        if gaps is not None:
            mine = [slice(*gaps.start[g : g + 2]) for g in range(gaps.groups)]
            groups = [
                (now.M[p, g], now.G[p, g], Z * gaps.shown[:25, g, None], mine[g])
                for g in range(gaps.groups)
            ]
        for M, G, there, columns in groups:
            exact = np.linalg.inv(there.T @ there + r * np.eye(k))
            mu = exact @ there.T @ rows[:, columns]
            assert np.allclose(M[:k, :k], exact, atol=1e-8)
            assert np.allclose(G[:k, :k], mu @ mu.T, atol=1e-8)


@pytest.mark.parametrize("missing", [False, True])
def test_a_filter_goes_on_from_there(missing):
    X, engine = images(missing), thali.ParticleFilter(n_particles=30, rejuvenate=2)
    parts = thali.IBP(1.0), thali.LinearGaussian(0.5, 1.0)
    fitted = thali.LatentFeatures(*parts, engine, random_state=0, progress=False).fit(X)
    for draw in fitted.draws():
        assert Model(*parts).log_joint(X, draw.Z) == pytest.approx(draw.log_joint, rel=1e-9)


def test_where_a_stop_is_asked_for_particles_stay_as_they_are():
    model = Model(thali.IBP(1.0), thali.LinearGaussian(0.5, 1.0))
    state = begun(thali.ParticleFilter(n_particles=12, rejuvenate=0), model, images(False), 25)
    before, asked = matrices(state), []

    def soon():
        asked.append(None)
        return len(asked) > 3

    with stopping(soon):
        rejuvenate(np.random.default_rng(1), state, 1)
    assert len(asked) > 3
    assert all((a == b).all() for a, b in zip(matrices(state), before, strict=True))


def test_particles_without_weight_or_with_noise_too_fine_are_left_alone(monkeypatch):
    likelihood = thali.LinearGaussian(thali.InverseGamma(2.0, 0.1), thali.InverseGamma(2.0, 1.0))
    model = Model(thali.IBP(1.0), likelihood)
    state = begun(thali.ParticleFilter(n_particles=8, rejuvenate=0), model, images(False), 12)
    sigma_x, sigma_a = state.sigmas
    state.log_weights[1], sigma_x[1], sigma_a[1] = -np.inf, np.nan, 0.0
    sigma_x[2] = 1e-5 * sigma_a[2]
    moved, swept = [], rejuvenation.OfComplete.swept
    monkeypatch.setattr(
        rejuvenation.OfComplete,
        "swept",
        lambda step, p, *rest: moved.append(p) or swept(step, p, *rest),
    )
    before = matrices(state)
    rejuvenate(np.random.default_rng(1), state, 1)
    move_numbers(np.random.default_rng(2), state, afresh=True)
    assert sorted(moved) == [0, 3, 4, 5, 6, 7]
    assert all((matrices(state)[p] == before[p]).all() for p in (1, 2))
    assert np.isnan(state.sigmas[0][1])
    assert np.isfinite(np.delete(state.sigmas[0], 1)).all()


def test_a_partition_has_no_use_for_it():
    engine = thali.ParticleFilter(n_particles=5, rejuvenate=2)
    with pytest.raises(ValueError, match="rejuvenate is for features"):
        thali.LatentPartition(engine=engine, progress=False).fit(np.eye(4))


@pytest.mark.parametrize(
    ("particles", "seeds"), [(40, 2), pytest.param(500, 5, marks=pytest.mark.slow)]
)
def test_features_that_noise_asked_for_go(particles, seeds):
    """Images with four features, in which most filters without it find more."""
    found = {rejuvenated: [] for rejuvenated in (0, 1)}
    for rejuvenated, counts in found.items():
        engine = thali.ParticleFilter(n_particles=particles, rejuvenate=rejuvenated)
        for seed in range(seeds):
            X = datasets.images(n=100, random_state=seed % 2).X
            model = thali.LatentFeatures(
                likelihood="linear_gaussian", engine=engine, random_state=seed, progress=False
            ).fit(X)
            counts.append(model.n_components_)
    assert np.median(found[1]) == 4
    assert np.mean(found[1]) < np.mean(found[0])
