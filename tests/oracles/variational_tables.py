"""Random problems of tables for the variational laws, and their bound by the oracles.

q(Y) is the best one at some means of latents: those of the present, or of when it was made.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

import thali
from oracles import mixed_columns as integrals
from oracles import variational as oracle
from thali.data import Data
from thali.data.columns import Column, Columns
from thali.likelihoods.feature_posteriors import GaussianFeatures
from thali.likelihoods.latent_columns import Layout
from thali.model import Model
from thali.starts import Start

LEVELS = ("a", "b", "c", "d")
KINDS = {
    "real": Column("real", "real"),
    "positive": Column("positive", "positive"),
    "count": Column("count", "count"),
    "binary": Column("binary", "binary", (0, 1)),
    "ordinal": Column("ordinal", "ordinal", LEVELS),
    "categorical": Column("categorical", "categorical", LEVELS[:3]),
    "censored": Column("censored", "censored", high=0.5),
}
ALPHA, SIGMA_A = (2.0, 0.7), (2.0, 2.0)


def layout_of(kinds, location=0.3, scale=1.4):
    """Columns of these kinds, units given."""
    table = Columns(tuple(KINDS[kind] for kind in kinds))
    d, wide = len(kinds), Layout(table).n_latents
    return Layout(table, location=(location,) * d, scale=(scale,) * d, middle=(0.0,) * wide)


def drawn(rng, layout, n, k, gaps):
    """Data of a random model of these columns, with a column for each latent."""
    fixed = thali.MixedColumns(
        layout=layout, sigma_a=1.5, noise=np.where(layout.unit, 1.0, 0.6),
        biases=0.3 * rng.standard_normal(layout.n_latents), cutpoints=layout.first_cutpoints(),
    )  # fmt: skip
    A = fixed.sample_features(rng, k, layout.n_latents)
    X = fixed.sample(rng, rng.random((n, k)) < 0.5, A)
    if gaps:
        hidden = rng.random((n, len(layout.columns))) < 0.3
        hidden[0, 0], hidden[-1, -1] = True, False
        X[np.repeat(hidden, layout.width, axis=1)] = np.nan
    return Data.checked(X)


def problem(rng, kinds, n=5, k=2, gaps=False, features="joint", amounts=False, **settings):
    """A state anywhere: no update has been made but that of q(Y)."""
    layout = layout_of(kinds)
    data = drawn(rng, layout, n, k, gaps)
    own = {"sigma_a": thali.InverseGamma(*SIGMA_A)} | settings
    kind = thali.MixedFactors if amounts else thali.MixedColumns
    model = Model(thali.IBP(alpha=thali.Gamma(*ALPHA)), kind(layout=layout, **own)).resolve(data)
    hyper, wide = model.start(data), layout.n_latents
    hyper["alpha"] = float(rng.gamma(2.0)) + 0.2
    for name, value in (
        ("sigma_a", float(rng.uniform(0.5, 2.0))),
        ("noise", np.where(layout.unit, 1.0, rng.uniform(0.4, 1.2, wide))),
        ("biases", 0.5 * rng.standard_normal(wide)),
        ("cutpoints", np.cumsum(rng.uniform(0.3, 1.5, layout.n_cutpoints))),
    ):
        hyper[name] = settings.get(name, value)
    engine = thali.Variational(truncation=k + 1, features=features)
    at = dict(hyper)
    start = Start("given", rng.random((n, k)) < 0.5, hyper)
    state = engine.begin(rng, model, data, start)
    state.hyper.update(at)
    state.rows.nu[:] = rng.random(state.rows.nu.shape)
    if amounts:  # normal ones, with their divergence from the slab
        first, v = rng.standard_normal(state.rows.nu.shape), rng.uniform(0.1, 1.0, (n, state.k))
        state.rows.amounts = first, first**2 + v, 0.5 * (v + first**2 - 1.0 - np.log(v))
    noise = rng.standard_normal((wide, state.k, state.k + 2))
    V = 0.1 * noise @ noise.transpose(0, 2, 1)
    V = V if features == "joint" else V * np.eye(state.k)
    V = V if gaps else V[0]
    state.features = GaussianFeatures(
        rng.standard_normal((state.k, wide)), V, features == "joint"
    )  # fmt: skip
    state.see_latents()
    return state


def means(state):
    """Of the latents, with the numbers that go along: what the best q(Y) is made of."""
    hyper = state.hyper
    center = state.rows.weights() @ state.features.phi * hyper["noise"] + hyper["biases"]
    return center, np.array(hyper["noise"]), np.array(hyper.get("cutpoints", ()))


def bound(state, given=None):
    """The bound, and the log densities of the numbers; q(Y) as at ``given``."""
    layout, hyper = state.likelihood.known, state.hyper
    center, sd, cutpoints = means(state) if given is None else given
    raw = state.known[0]
    noise, biases = hyper["noise"], hyper["biases"]
    X = np.full(center.shape, np.nan)
    value = -raw.log_units
    low, high = raw.low.copy(), raw.high.copy()
    for one in raw.ordered:
        edges = np.concatenate([[-np.inf, 0.0], cutpoints[one.own], [np.inf]])
        for n in np.flatnonzero(one.level >= 0):
            low[n, one.latent], high[n, one.latent] = edges[one.level[n] : one.level[n] + 2]
    for n, j in zip(*np.nonzero(np.isfinite(low) | np.isfinite(high)), strict=True):
        y, variance, entropy = integrals.moments_between(center[n, j], sd[j], low[n, j], high[n, j])
        X[n, j] = (y - biases[j]) / noise[j]
        value += entropy - np.log(noise[j]) - 0.5 * variance / noise[j] ** 2
    for column in raw.unordered:
        own = slice(column.first, column.end)
        for n in np.flatnonzero(column.level >= 0):
            y, gain = integrals.moments_of_levels(center[n, own], int(column.level[n]))
            X[n, own] = y - biases[own]
            value += gain
    return value + oracle.bound(law(state, X)) + densities(state, layout)


def law(state, X):
    """The linear-Gaussian q of X', noise one, as the oracle has it."""
    d, more, sigma_a = X.shape[1], state.room, state.hyper["sigma_a"]
    after = [(0, 0), (0, more)]
    V = np.zeros((d, state.frequencies.k, state.frequencies.k))
    V[:] = sigma_a**2 * np.eye(state.frequencies.k)
    V[:, : state.k, : state.k] = state.features.V
    parts = {"phi": np.pad(state.features.phi, after[::-1]), "V": V}
    if state.rows.slab is not None:
        names = ("first", "second", "divergence")
        held = (np.pad(each, after) for each in state.rows.amounts)
        parts |= dict(zip(names, held, strict=True))
    nu = np.pad(state.rows.nu, after)
    return oracle.Law(X, nu, state.frequencies.tau, state.hyper["alpha"], 1.0, sigma_a, **parts)


def densities(state, layout):
    """Of the numbers that are inferred: α, σ_a, σ and b | σ, and gaps between cutpoints."""
    hyper, likelihood = state.hyper, state.likelihood
    found = stats.gamma.logpdf(hyper["alpha"], ALPHA[0], scale=1.0 / ALPHA[1])
    if not isinstance(likelihood.sigma_a, float):
        found += oracle.log_density_of_scale(hyper["sigma_a"], "inverse gamma", *SIGMA_A)
    free = ~layout.unit
    if isinstance(likelihood.noise, str):
        for sigma in hyper["noise"][free]:
            found += oracle.log_density_of_scale(sigma, "inverse gamma", 2.0, 0.2)
    if isinstance(likelihood.biases, str) and likelihood.bias:
        tau = np.where(layout.unit, 2.0, 10.0)
        found += stats.norm.logpdf(hyper["biases"], 0.0, tau * hyper["noise"]).sum()
    if isinstance(likelihood.cutpoints, str):
        for _, own, _ in layout.ordinal:
            gaps = np.diff(hyper["cutpoints"][own], prepend=0.0)
            found += stats.gamma.logpdf(gaps, 2.0, scale=0.5).sum()
    return float(found)


# ---- every update --------------------------------------------------------------------------------


class Watch:
    """The largest fall of the oracle's bound, relative to it, by each kind of update, and the
    largest difference from what the library says."""

    def __init__(self, state):
        self.state, self.falls, self.given = state, {}, means(state)
        self.value, self.error = bound(state), 0.0

    def after(self, name, found=None, same=False):
        """Look at the bound; q(Y) is as it was made last, unless it is not the ``same``."""
        if not same:
            self.given = means(self.state)
        now = bound(self.state, self.given)
        fall = (self.value - now) / abs(now)
        self.falls[name] = max(self.falls.get(name, -np.inf), fall)
        self.value = now
        if found is not None:
            self.error = max(self.error, abs(self.state.value(found) / now - 1.0))


def every_update(state, rng, rounds=2):
    """Make every update there is, one by one, then whole iterations and moves, and watch."""
    from thali.engines.ascent import moves
    from thali.engines.ascent.state import iterate

    watch = Watch(state)
    for _ in range(rounds):
        found = state.local_step()
        watch.after("rows", found, same=True)
        state.fit_prior(found)
        watch.after("frequencies and α", found, same=True)
        found = state.fit_units(found)
        state.features = state.features.updated(found, *state.sigmas)
        watch.after("bias, noise and features", found, same=True)
        state.fit_scale()
        watch.after("σ_a", found, same=True)
        state.features = state.features.updated(found, *state.sigmas)
        watch.after("features", found, same=True)
        found = state.fit_latents(found)
        watch.after("q(Y)", found)
        state.fit_cutpoints()
        found = state.fit_latents(found)
        watch.after("cutpoints and q(Y)", found)
    for _ in range(3):
        iterate(state)
        watch.after("iteration", state.found)
    for move in (moves.drop_features, moves.join_features, moves.add_feature):
        move(state, *([rng] if move is moves.add_feature else []))
        watch.after(move.__name__, state.found)
    return watch
