"""Rank-one changes drift; what the sampler maintains must stay what it would compute afresh.

    T = Z'X,   M = (Z'Z + rI)⁻¹,   G = μμ',  μ = M T

Two chains: an ordinary one, and one on nearly equal columns with little noise, where a single row
tells two features apart and each leave and return of it costs digits.  The check can fail: without
refreshing, the second chain loses everything within a thousand sweeps.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from statistical.mutants import (
    KERNEL,
    LEAVING,
    NEVER_REFRESHED,
    NO_ROW_IS_RISKY,
    install_kernel,
    mutate,
)

import thali
from thali.data import Data
from thali.model import Model
from thali.starts import Start

TOLERANCE = 1e-8


@dataclass(frozen=True)
class Setting:
    Z: np.ndarray
    X: np.ndarray
    sigma_x: float


def ordinary(rng, n=60, d=6):
    Z = rng.random((n, 4)) < 0.3
    return Setting(Z, Z @ rng.normal(size=(4, d)) + 0.3 * rng.normal(size=(n, d)), 0.3)


def nearly_equal_columns(rng, n=40, d=6, sigma_x=0.003):
    """Columns 0 and 1 differ in row 0 only, columns 2 and 3 in row 1 only."""
    Z = rng.random((n, 4)) < 0.5
    Z[:, 1], Z[:, 3] = Z[:, 0], Z[:, 2]
    Z[0, :2], Z[1, 2:] = [1, 0], [0, 1]
    return Setting(Z, Z @ rng.normal(size=(4, d)) + sigma_x * rng.normal(size=(n, d)), sigma_x)


def with_gaps(rng):
    """Rows of which all, most, few and no entries were observed."""
    setting = ordinary(rng)
    hidden = rng.random(setting.X.shape) < rng.choice([0.0, 0.2, 0.7], len(setting.X))[:, None]
    hidden[3] = True
    return replace(setting, X=np.where(hidden, np.nan, setting.X))


SETTINGS = {
    "ordinary": ordinary,
    "nearly equal columns": nearly_equal_columns,
    "with gaps": with_gaps,
}


class Chain:
    """The engine's own steps on fixed scales, from the planted Z."""

    def __init__(self, setting, seed, moves=5):
        self.rng = np.random.default_rng(seed)
        self.data = Data.of(setting.X)
        self.model = Model(thali.IBP(alpha=2.0), thali.LinearGaussian(setting.sigma_x, 1.0))
        self.engine = thali.CollapsedGibbs(moves=moves)
        hyper = {"alpha": 2.0, "sigma_x": setting.sigma_x, "sigma_a": 1.0}
        start = Start("planted", setting.Z, hyper)
        self.state = self.engine.begin(self.rng, self.model, self.data, start)
        self.drift = 0.0

    def run(self, sweeps):
        for _ in range(sweeps):
            info = self.engine.step(self.rng, self.model, self.data, self.state)
            self.drift = max(self.drift, info.drift)

    def errors(self):
        """Largest relative error of each maintained array."""
        k, rows = self.state.n_components, self.state.rows
        Z = self.state.latent.astype(float)
        r = (self.state.hyper["sigma_x"] / self.state.hyper["sigma_a"]) ** 2
        M = np.linalg.inv(Z.T @ Z + r * np.eye(k))
        T = Z.T @ self.state.X
        fresh = {
            "m": Z.sum(axis=0),
            "C": Z.T @ Z,
            "T": T,
            "M": M,
        }
        if self.data.observed is None:  # else drawn entries are others since, and G is made afresh
            fresh["G"] = (M @ T) @ (M @ T).T
        kept = {name: getattr(rows, name)[:k] for name in fresh}
        kept |= {name: kept[name][:, :k] for name in ("C", "M", "G") if name in kept}
        return {
            name: np.abs(kept[name] - value).max(initial=0.0) / np.abs(value).max(initial=1e-300)
            for name, value in fresh.items()
        }


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    "sweeps", [2000, pytest.param(100_000, marks=pytest.mark.slow)], ids=["2e3", "1e5"]
)
def test_maintained_arrays_equal_recomputed_ones(name, sweeps, seed):
    chain = Chain(SETTINGS[name](np.random.default_rng(seed)), seed)
    for _ in range(20):
        chain.run(sweeps // 20)
        errors = chain.errors()
        assert max(errors.values()) < TOLERANCE, errors
    if name != "nearly equal columns":  # here nothing is lost between refreshes either
        assert chain.drift < TOLERANCE


@pytest.mark.slow
def test_without_refreshing_the_check_fails(monkeypatch, seed):
    monkeypatch.setitem(sys.modules, LEAVING, mutate(LEAVING, NO_ROW_IS_RISKY))
    install_kernel(monkeypatch, mutate(KERNEL, NEVER_REFRESHED))
    # moves on columns leave M to be made afresh, which is what this mutant does not do
    worst = []
    for own in range(seed, seed + 5):  # how fast errors grow depends on data and machine
        chain = Chain(nearly_equal_columns(np.random.default_rng(own)), own, moves=0)
        chain.run(1000)
        worst.append(max(chain.errors().values()))
    assert np.median(worst) > TOLERANCE


FORGETFUL = {  # of rows with gaps: what is not changed, too little for enumeration to notice
    "means keep a row": ("take_out_of_means(means, x, others, k, u, c0)", "pass"),
    "G of old entries": (
        "change_entries(means, G, u, change2, k, gone, h)",
        "change_entries(means, G.copy(), u, change2, k, gone, h)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGETFUL)
def test_with_gaps_the_check_fails_where_something_is_not_changed(name, monkeypatch, seed):
    install_kernel(monkeypatch, mutate(KERNEL, [FORGETFUL[name]]))
    chain = Chain(with_gaps(np.random.default_rng(seed)), seed)
    chain.run(50)
    assert chain.drift > TOLERANCE


@pytest.mark.parametrize("name", ["ordinary", "with gaps"])
def test_refreshing_at_every_row_changes_no_draw(name, monkeypatch, seed):
    """Drift so small that no bit comes out otherwise, for as long as the chains can be compared."""
    from thali.kernels import collapsed_rows as kernel

    setting = SETTINGS[name](np.random.default_rng(seed))
    plain = Chain(setting, seed)
    plain.run(300)
    sweeps = kernel.sweeps

    def always_fresh(*arguments):
        *rest, plan, climb = arguments
        return sweeps(*rest, plan._replace(refresh_every=1), climb)

    monkeypatch.setattr(kernel, "sweeps", always_fresh)
    fresh = Chain(setting, seed)
    fresh.run(300)
    assert np.array_equal(plain.state.latent, fresh.state.latent)


@pytest.mark.parametrize("sigma_x", [0.3, 0.01, 0.001])
def test_log_odds_of_a_row_that_left_are_right(sigma_x, rng):
    """What a row's bits are drawn from, once the row has left, against exact fractions."""
    from thali.kernels.leaving_rows import leave
    from thali.kernels.maintained_rows import refresh

    setting = nearly_equal_columns(rng, n=20, d=4, sigma_x=sigma_x)
    data = Data.of(setting.X)
    model = Model(thali.IBP(alpha=1.0), thali.LinearGaussian(sigma_x, 1.0))
    candidates = np.array(list(product((0.0, 1.0), repeat=4)))
    for n in range(3):
        start = Start("planted", setting.Z, {"alpha": 1.0, "sigma_x": sigma_x, "sigma_a": 1.0})
        rows = thali.CollapsedGibbs().begin(rng, model, data, start).rows
        r = sigma_x**2
        refresh(rows, 4, r)
        b, u, v, s, h = (np.zeros(len(rows.m)) for _ in range(5))
        x, z = data.reduced[n], rows.Z[n]
        b[:4] = rows.M[:4, :4] @ (rows.T[:4] @ x)
        _, _, c0, c1, c2 = leave(rows, x, z, b, data.squares[n], 4, r, u, v, s, h)
        u, v = u[:4], v[:4]
        M = rows.M[:4, :4] + c0 * np.outer(u, u)
        G = rows.G[:4, :4] + c1 * (np.outer(u, v) + np.outer(v, u)) + c2 * np.outer(u, u)
        np.testing.assert_allclose(s[:4], M @ z[:4], rtol=1e-6, atol=1e-8 * np.abs(M).max())
        np.testing.assert_allclose(h[:4], G @ z[:4], rtol=1e-6, atol=1e-8 * np.abs(G).max())
        V = 1.0 + np.einsum("ci,ij,cj->c", candidates, M, candidates)
        rho = data.squares[n] - 2.0 * candidates @ b[:4]
        rho = rho + np.einsum("ci,ij,cj->c", candidates, G, candidates)
        found = -0.5 * data.d * np.log(V) - 0.5 * rho / sigma_x**2 / V
        Z = rows.Z[:, :4].astype(bool)  # a chain begins with the columns in an order of its own
        wanted = oracles.log_predictive_exact(setting.X, Z, n, candidates, sigma_x, 1.0)
        likely = wanted > wanted.max() - 30.0
        best = int(wanted.argmax())
        np.testing.assert_allclose(
            (found - found[best])[likely], (wanted - wanted[best])[likely], rtol=0, atol=1e-4
        )
        assert (found[~likely] < found[best] - 25.0).all()
