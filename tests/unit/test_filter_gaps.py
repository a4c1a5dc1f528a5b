"""The particle filter where entries of X are missing: kernels, results, files and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import filter_gaps as oracle

import thali
from thali.data import Data
from thali.engines.filtering import particles as particles_module
from thali.engines.filtering.gaps import Gaps
from thali.model import Model
from thali.starts import empty_start


def gappy(rng, n=30, d=6, sigma_x=0.4, share=0.2):
    """Rows of three features; a row and a column without any entry, and some without gaps."""
    X = (rng.random((n, 3)) < 0.4) @ rng.normal(size=(3, d)) + sigma_x * rng.normal(size=(n, d))
    X[:, : d - 2][rng.random((n, d - 2)) < share] = np.nan
    X[4] = np.nan
    X[:, 1] = np.nan
    return X


def begun(engine, model, data, rng):
    return engine.begin(rng, model, data, empty_start(rng, model, data.filled))


@pytest.fixture(scope="module")
def X():
    return gappy(np.random.default_rng(0))


@pytest.mark.parametrize("sigma_x", [0.6, 0.15])
def test_proposals_weights_and_changes_are_those_of_plain_numpy(rng, sigma_x):
    X = gappy(rng, sigma_x=sigma_x)
    data, model = Data.of(X), Model(thali.IBP(1.3), thali.LinearGaussian(sigma_x, 0.9))
    gaps = Gaps.of(data)
    assert 1 < gaps.groups < data.d  # some columns share a group
    state = begun(thali.ParticleFilter(n_particles=4), model, data, rng)
    theirs = [np.zeros((0, 0)) for _ in range(4)]
    for n, x in enumerate(X):
        u = rng.random((4, state.particles.m.shape[1] + 1))
        ours = state.propose(u, informed=True)
        for p, Z in enumerate(theirs):
            z, new, weight = oracle.propose(u[p], Z, X[:n], x, 1.3, sigma_x, 0.9)
            assert (ours.z[p, : len(z)] == z).all()
            assert ours.new[p] == new
            assert ours.log_weight[p] == pytest.approx(weight, rel=1e-8, abs=1e-8)
            wide = np.zeros((n + 1, len(z) + new))
            wide[:n, : len(z)] = Z
            wide[n] = np.concatenate([z, np.ones(new)])
            theirs[p] = wide
        state.extend(ours)
    order = np.argsort(data.patterns.of_column, kind="stable")
    for p, Z in enumerate(theirs):
        k, now = Z.shape[1], state.particles
        exact = oracle.columns(Z, X[:, order], sigma_x, 0.9)
        assert (now.C[p, :k, :k] == Z.T @ Z).all()
        for g in range(gaps.groups):
            mine = slice(gaps.start[g], gaps.start[g + 1])
            mu = exact.mu[:, mine]
            assert np.allclose(now.M[p, g, :k, :k], exact.M[gaps.start[g]], rtol=1e-8, atol=1e-8)
            assert np.allclose(now.G[p, g, :k, :k], mu @ mu.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("proposal", ["prior", "conditional"])
def test_evidence_and_log_joints_are_those_of_what_was_observed(X, proposal, rng):
    data, model = Data.of(X), Model(thali.TwoParameterIBP(1.3, 0.7), thali.LinearGaussian(0.8, 0.9))
    way = {"proposal": proposal, "resample_below": 0.0, "rejuvenate": 0}
    engine = thali.ParticleFilter(n_particles=20, **way)
    state = begun(engine, model, data, rng)
    for _ in range(engine.steps(data)):
        engine.step(rng, model, data, state)
    found = engine.population(rng, model, data, state)
    matrices = [np.unpackbits(Z, axis=0, count=len(X)).astype(bool) for Z in found.packed]
    joints = [model.log_joint(data, Z) for Z in matrices]
    assert np.allclose(found.scalars[:, 1], joints, rtol=0.0, atol=1e-8)
    if proposal == "prior":  # without resampling, a weight is the likelihood of the particle's Z
        logs = [model.likelihood.log_marginal(X, Z) for Z in matrices]
        ours = np.log(found.weights) + found.log_evidence + np.log(20)
        assert np.allclose(ours, logs, atol=1e-8)


def test_a_fit_infers_everything_and_fills_the_gaps(X):
    engine = thali.ParticleFilter(n_particles=40, passes=2)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)
    filled = model.impute()
    assert np.isfinite(filled).all()
    assert (filled[~np.isnan(X)] == X[~np.isnan(X)]).all()
    assert np.isfinite(model.log_evidence_)


def test_a_state_goes_through_a_file(X, rng):
    data, model = Data.of(X), Model(thali.IBP(1.0), thali.LinearGaussian()).resolve(Data.of(X))
    engine = thali.ParticleFilter(n_particles=20)
    state = begun(engine, model, data, np.random.default_rng(1))
    first = np.random.default_rng(2)
    for _ in range(15):
        engine.step(first, model, data, state)
    again = engine.from_arrays(model, data, *engine.to_arrays(state))
    here, there = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(15, len(X)):
        one = engine.step(here, model, data, state)
        assert engine.step(there, model, data, again) == one
    assert state.log_evidence == again.log_evidence


def test_a_filter_stopped_for_good_codes_rows_by_what_they_show(X, rng, monkeypatch):
    from thali.engines import particle_filter

    monkeypatch.setattr(particle_filter, "A_MOMENT", 0.0)
    data, model = Data.of(X), Model(thali.IBP(1.0), thali.LinearGaussian(0.4, 1.0))
    engine = thali.ParticleFilter(n_particles=20)
    state = begun(engine, model, data, rng)
    for _ in range(20):
        engine.step(rng, model, data, state)
    found = engine.population(rng, model, data, state)
    assert np.isnan(found.log_evidence)
    for Z, joint in zip(found.packed, found.scalars[:, 1], strict=True):
        whole = np.unpackbits(Z, axis=0, count=len(X)).astype(bool)
        assert joint == pytest.approx(model.log_joint(data, whole))


def test_more_than_memory_is_refused_with_the_groups(X, monkeypatch):
    monkeypatch.setattr(particles_module, "physical_memory", lambda: 1 << 20)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=thali.ParticleFilter(), random_state=0, progress=False
    )
    with pytest.raises(MemoryError, match="groups of columns"):
        model.fit(X)


def test_partitions_with_gaps_are_still_refused(X):
    model = thali.LatentPartition(engine=thali.ParticleFilter(n_particles=5), progress=False)
    with pytest.raises(ValueError, match="which ParticleFilter cannot deal with"):
        model.fit(X)
