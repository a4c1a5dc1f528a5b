"""The step that completes data, by a likelihood whose entries are not Gaussian: a sign is seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import thali
from thali.data import Augmented, Data
from thali.model import Model
from thali.starts import Start

HYPER = {"alpha": 1.0, "sigma_x": 1.0, "sigma_a": 1.0}


@dataclass(frozen=True)
class Signs(thali.LinearGaussian):
    """x = 1 where a latent N(z a, 1) is positive, else 0 (Albert and Chib 1993)."""

    def augments(self, data):
        return True

    def draw_features_and_evidence(self, rng, data, Z):
        return self.draw_features(rng, data, Z), 0.0  # given the latents; P(x | Z) is not known

    def augment(self, rng, data, Z, parameters):
        mean = np.asarray(Z, float) @ parameters["A"]
        below, u = ndtr(-mean), rng.random(mean.shape)
        share = np.where(data.X == 1.0, below + u * (1.0 - below), u * below)
        share = np.where(data.seen, share, u)
        return Augmented(mean + ndtri(np.clip(share, 1e-12, 1.0 - 1e-12)), source=data)


def signs(rng, gaps):
    Z = rng.random((30, 2)) < 0.5
    X = (Z @ rng.normal(size=(2, 6)) * 2.0 + rng.standard_normal((30, 6)) > 0.0).astype(float)
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    return Data.of(X), Z


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("engine", [thali.CollapsedGibbs(), thali.UncollapsedGibbs()], ids=repr)
def test_gaussian_engines_run_on_latent_entries_alone(engine, gaps, rng):
    """Every step draws latents of the signs that were given, and goes on from them."""
    data, Z = signs(rng, gaps)
    model = Model(thali.IBP(alpha=1.0), Signs(1.0, 1.0))
    state = engine.begin(rng, model, data, Start("given", Z, dict(HYPER)))
    before = None
    for _ in range(5):
        engine.step(rng, model, data, state)
        assert state.data.given is data
        X = state.data.X
        np.testing.assert_array_equal((X > 0.0)[data.seen], data.X[data.seen] == 1.0)
        assert np.isfinite(X).all()
        assert before is None or (X != before).all()
        before = X
        if isinstance(engine, thali.CollapsedGibbs):
            sums = state.latent.T.astype(float) @ X
            np.testing.assert_allclose(state.rows.T[: state.n_components], sums, atol=1e-9)
    again = engine.from_arrays(model, data, *engine.to_arrays(state))
    infos = [engine.step(np.random.default_rng(1), model, data, at) for at in (state, again)]
    assert infos[0] == infos[1]
    np.testing.assert_array_equal(state.data.X, again.data.X)
