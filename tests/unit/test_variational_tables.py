"""Variational inference of tables: every update raises the bound, which is below the evidence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from oracles import mixed_columns as integrals
from oracles import variational as oracle
from oracles.variational_tables import KINDS, every_update, layout_of, problem
from oracles.variational_updates import install
from scipy.stats import norm

import thali
from thali.data import Data
from thali.engines.ascent.state import State, iterate
from thali.kernels import latent_moments as kernel
from thali.model import Model
from thali.starts import Start

ROUNDING = 1e-9  # of the bound, that an update may lower it by
ALL = tuple(KINDS)
PROBLEMS = [
    {"kinds": ALL},
    {"kinds": ALL, "gaps": True},
    {"kinds": ALL, "gaps": True, "features": "factorized"},
    {"kinds": ALL, "features": "factorized"},
    {"kinds": ("real", "count")},
    {"kinds": ("ordinal", "categorical", "binary"), "gaps": True, "n": 12, "k": 3},
    {"kinds": ALL, "bias": False},
    {"kinds": ALL, "amounts": True},
    {"kinds": ALL, "amounts": True, "gaps": True},
]


# ---- the bound -----------------------------------------------------------------------------------


def worst(rng, **how):
    """The largest fall of the oracle's bound, and how far the library's is from it."""
    watch = every_update(problem(rng, **how), rng)
    return max(watch.falls.values()), watch.error


@pytest.mark.parametrize("how", PROBLEMS, ids=str)
def test_no_update_lowers_the_bound(how, rng):
    fall, error = worst(rng, **how)
    assert fall < ROUNDING
    assert error < 1e-9  # and the library's bound is the oracle's


@pytest.mark.slow
def test_no_update_lowers_the_bound_of_many_tables(rng):
    for i in range(60):
        how = dict(PROBLEMS[i % len(PROBLEMS)])
        how["n"], how["k"] = int(rng.integers(1, 15)), int(rng.integers(1, 5))
        fall, error = worst(rng, **how)
        assert max(fall, error) < ROUNDING, how


def log_chance(state, j_of, Z):
    """log P(x | Z) of the column of latents ``j_of``, of two rows, by integrals."""
    hyper, (shown, _) = state.hyper, state.known
    C = integrals.covariance(Z, hyper["sigma_a"], 0.0)
    first = j_of[0]
    b, s = hyper["biases"][j_of], float(hyper["noise"][first])
    if len(j_of) > 1:
        levels = next(one.level for one in shown.unordered if one.first == first)
        return np.log(integrals.largest(b, C, levels.tolist()))
    low, high = shown.low[:, first].copy(), shown.high[:, first].copy()
    for one in shown.ordered:
        if one.latent == first:
            edges = np.concatenate([[-np.inf, 0.0], hyper["cutpoints"][one.own], [np.inf]])
            low, high = edges[one.level], edges[one.level + 1]
    return np.log(integrals.inside(np.repeat(b, 2), s**2 * C, low, high))


def log_evidence(state):
    """Two rows, every number fixed; Z one after the other."""
    layout, hyper = state.likelihood.known, state.hyper
    columns = [np.arange(a, b) for a, b in zip(layout.first[:-1], layout.first[1:], strict=True)]
    return (
        oracle.log_evidence(
            np.zeros((2, 1)),
            state.frequencies.k,
            lambda counts: oracle.log_prior_of_sticks(counts, 2, hyper["alpha"]),
            lambda Z: sum(log_chance(state, own, Z) for own in columns),
        )
        - state.known[0].log_units
    )


def shortfalls(rng, kinds, sigma_a=1.3, **how):
    """log P(X) less the bound, at first and after some iterations."""
    size = layout_of(kinds).n_latents
    unit = layout_of(kinds).unit
    state = problem(
        rng, kinds, n=2, k=1, sigma_a=sigma_a, biases=0.4 * rng.standard_normal(size), bias=False,
        noise=np.where(unit, 1.0, 0.7), cutpoints=layout_of(kinds).first_cutpoints(), **how,
    )  # fmt: skip
    state.model = Model(state.model.prior.at(alpha=state.hyper["alpha"]), state.likelihood)
    truth = log_evidence(state)
    found = [truth - state.value(state.local_step(passes=0))]
    for _ in range(20):
        iterate(state)
    return np.array([*found, truth - state.bound])


@pytest.mark.parametrize(
    "kinds", [*((kind,) for kind in KINDS), ("binary", "real"), ("ordinal", "count")], ids=str
)
def test_the_bound_stays_below_the_evidence(kinds, rng):
    for sigma_a in (0.3, 1.3, 2.5):
        found = shortfalls(rng, kinds, sigma_a)
        assert found.min() > -1e-5, found  # the quadrature's digits
        assert found[-1] < found[0]


@pytest.mark.parametrize("features", ["joint", "factorized"])
@pytest.mark.parametrize("gaps", [False, True])
def test_numbers_alone_have_the_bound_of_the_linear_gaussian_model(features, gaps, rng):
    """All columns real, σ and b fixed: the same bound on X' = ((x − m)/s − b)/σ, but for units."""
    kinds = ("real",) * 3
    sd, biases = np.array([0.5, 0.8, 1.3]), np.array([0.2, -0.4, 0.1])
    given = problem(
        rng, kinds, n=8, gaps=gaps, features=features, sigma_a=1.2, noise=sd, biases=biases,
        bias=False,
    )  # fmt: skip
    layout = given.likelihood.known
    shown = given.known[0]
    X = np.where(shown.low == shown.high, (shown.low - biases) / sd, np.nan)
    data, prior = Data.checked(X), given.model.prior
    plain = Model(prior, thali.LinearGaussian(sigma_x=1.0, sigma_a=1.2))
    hyper = plain.start(data) | {"alpha": given.hyper["alpha"]}
    engine = thali.Variational(truncation=given.frequencies.k, features=features)
    start = Start("given", np.ones(given.rows.nu.shape, bool), hyper)
    other = engine.begin(rng, plain, data, start)
    assert type(other) is State
    other.rows, other.features = given.rows.copied(), given.features
    other.frequencies, other.hyper["alpha"] = given.frequencies, given.hyper["alpha"]
    units = np.isfinite(X).sum(axis=0) @ np.log(sd * layout.s)
    for _ in range(5):
        assert given.value(given.local_step(passes=0)) == pytest.approx(
            other.value(other.local_step(passes=0)) - units, rel=1e-12
        )
        iterate(given)
        iterate(other)
    np.testing.assert_allclose(given.rows.nu, other.rows.nu, atol=1e-12)


# ---- expectations --------------------------------------------------------------------------------

ENDS = [(-1.0, 2.0), (3.0, 3.01), (-8.0, -7.5), (20.0, 21.0), (-30.0, -10.0), (-9.0, 9.0)]
ENDS += [(0.0, 1e-6), (5.0, 5.9), (-5.0, 8.0), (-np.inf, -6.0), (-np.inf, 3.0), (4.0, np.inf)]


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_moments_between_bounds(ends):
    """Against a quadrature that knows of no tail."""
    low, high = ends
    log_total, first, variance = kernel.cut(low, high)
    mean, spread, entropy = integrals.moments_between(0.0, 1.0, low, high)
    assert first == pytest.approx(mean, rel=1e-8, abs=1e-12)
    assert variance == pytest.approx(spread, rel=1e-6)
    own = log_total + 0.5 * np.log(2.0 * np.pi) + 0.5 * (first**2 + variance)
    assert own == pytest.approx(entropy, abs=1e-8)


@pytest.mark.parametrize("scale", [0.5, 3.0, 15.0])
def test_levels_of_which_one_wins(scale, rng):
    for levels in (3, 6):
        for _ in range(5):
            center, c = scale * rng.standard_normal((1, levels)), int(rng.integers(levels))
            Y, gain = np.zeros((1, levels)), np.zeros(levels)
            kernel.expect_levels(center, np.array([c]), 0, levels, Y, gain)
            mean, own = integrals.moments_of_levels(center[0], c)
            np.testing.assert_allclose(Y[0], mean, atol=1e-6)
            assert gain.sum() == pytest.approx(own, abs=1e-6)


def test_slopes_of_cutpoints(rng):
    """First and second derivatives against differences."""
    edges, level = np.array([-np.inf, 0.0, 0.8, 1.9, np.inf]), rng.integers(-1, 4, 30)
    center = 2.0 * rng.standard_normal(30)

    def told(edges):
        found = np.zeros((3, 5))
        return kernel.edge_slopes(center, level, edges, *found), found

    value, (slope, curve, beside) = told(edges)
    low, high = (np.append(edges, np.nan)[np.maximum(level, 0) + i] - center for i in (0, 1))
    chance = norm.cdf(high) - norm.cdf(low)
    assert value == pytest.approx(np.log(chance[level >= 0]).sum(), rel=1e-9)
    for i in (2, 3):
        up, down = (edges + sign * 1e-5 * (np.arange(5) == i) for sign in (1.0, -1.0))
        assert slope[i] == pytest.approx((told(up)[0] - told(down)[0]) / 2e-5, abs=1e-5)
        rise = (told(up)[1][0] - told(down)[1][0]) / 2e-5
        assert curve[i] == pytest.approx(rise[i], abs=1e-5)
        assert beside[2] == pytest.approx(rise[5 - i], abs=1e-5)


# ---- broken copies -------------------------------------------------------------------------------

MOMENTS = "thali.likelihoods.latent_moments"
KERNEL = "thali.kernels.latent_moments"
MUTANTS = {  # what is wrong -> where, old, new
    "half of the variances of q(Y) left out": (
        MOMENTS, " - 0.5 * self.spread / np.square(noise)", "", {"evidence"},
    ),
    "entropy of q(Y) left out": (
        MOMENTS, "own = self.entropy - self.count", "own = -self.count", {"error"},
    ),
    "no σ in the bound": (MOMENTS, "self.count * np.log(noise)", "0.0 * noise", {"error"}),
    "σ without the variances of q(Y)": (
        MOMENTS, '"nl,nl->l", latents.Y, latents.Y) + latents.spread',
        '"nl,nl->l", latents.Y, latents.Y)', {"falls"},
    ),
    "the old bias for the new": (
        MOMENTS,
        "(old.biases - new.biases)",
        "(new.biases - old.biases)",
        {"error"},
    ),
    "cut off on the wrong side": (
        KERNEL, "return log_ndtr(b), b - mean(b, 1.0)", "return log_ndtr(b), mean(b, 1.0) - b",
        {"falls", "error"},
    ),
    "the level that lost": (
        KERNEL, "slopes[j] -= p * rates[q, j]", "slopes[j] += p * rates[q, j]", {"falls"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if parts[0] == KERNEL else ())
        for name, parts in MUTANTS.items()
    ],
)
def test_broken_copies_are_caught(name, monkeypatch, rng):
    module, old, new, caught_by = MUTANTS[name]
    install(monkeypatch, module, [(old, new)])
    fall, error = np.max([worst(rng, kinds=ALL) for _ in range(3)], axis=0)
    noticed = {"falls": fall > ROUNDING, "error": error > 1e-9}
    noticed["evidence"] = shortfalls(rng, ("binary",) * 8, sigma_a=0.1)[-1] < -1e-5
    assert caught_by <= {what for what, seen in noticed.items() if seen}, (fall, error)


# ---- fits ----------------------------------------------------------------------------------------


def people(rng, n=150):
    """A table with gaps, of two features that rows have or not."""
    tall, rich = rng.random((2, n)) < 0.45
    frame = pd.DataFrame(
        {
            "height": 168 + 12 * tall + 2 * rng.standard_normal(n),
            "income": np.exp(1.0 + 2.0 * rich + 0.4 * rng.standard_normal(n)),
            "visits": rng.poisson(2 + 15 * tall),
            "owner": np.where(rng.random(n) < np.where(rich, 0.95, 0.1), "yes", "no"),
            "grade": pd.Categorical(
                np.array(list("abc"))[rng.binomial(2, np.where(tall, 0.9, 0.1))],
                categories=list("abc"), ordered=True,
            ),
            "dish": np.where(tall, "dal", np.where(rich, "rice", "roti")),
        },
        index=np.arange(n) + 100,
    )  # fmt: skip
    for name in frame:
        frame[name] = frame[name].mask(rng.random(n) < 0.1)
    return frame, np.column_stack([tall, rich])


@pytest.fixture(scope="module")
def fitted():
    table, Z = people(np.random.default_rng(3))
    engine = thali.Variational(truncation=8, n_init=1)
    types = {"income": "positive", "visits": "count"}
    model = thali.LatentFeatures(
        likelihood=thali.MixedColumns(types=types), engine=engine, random_state=0
    )
    return model.fit(table), table, Z


def test_a_fit_finds_the_features(fitted):
    model, _, Z = fitted
    kinds = {column.kind for column in model.likelihood_.known.columns}
    assert kinds == {"real", "positive", "count", "binary", "ordinal", "categorical"}
    together = np.abs(np.corrcoef(Z.T, model.Z_.T)[:2, 2:])
    assert (together.max(axis=1) > 0.85).all()
    rises = np.diff(model.history_["elbo"][0])
    assert rises.min() > -1e-9 * abs(model.elbo_)
    assert model.elbos_["joint"] >= model.elbos_["factorized"]


def test_what_is_asked_of_a_fit(fitted, tmp_path):
    model, table, _ = fitted
    filled = model.impute()
    assert filled.index.equals(table.index)
    assert not filled.isna().any().any()
    seen = table["height"].notna()
    assert np.allclose(filled["height"][seen], table["height"][seen])
    assert set(model.impute_proba()) == {"owner", "grade", "dish"}
    again = model.transform(table)
    assert (again == model.Z_).mean() > 0.95
    assert np.isfinite(model.score(table[:20]))
    assert len(model.inverse_transform(model.Z_)) == len(table)
    loaded = thali.load(model.save(tmp_path / "model.thali") or tmp_path / "model.thali")
    assert loaded.elbo_ == model.elbo_
    assert np.array_equal(loaded.predict_proba(table[:9]), model.predict_proba(table[:9]))
    draw = next(model.draws())
    assert draw.hyper["noise"].shape == draw.A[0].shape


def test_a_state_comes_back_from_its_arrays(rng):
    table, _ = people(rng, 40)
    likelihood = thali.MixedColumns()
    columns = likelihood.columns_of(table)
    likelihood = likelihood.with_layout(columns, columns.encode(table))
    data = Data.checked(likelihood.known.expand(columns.encode(table)))
    model = Model(thali.IBP(), likelihood).resolve(data)
    engine = thali.Variational(truncation=4)
    start = Start("given", rng.random((40, 3)) < 0.5, model.start(data))
    state = engine.begin(rng, model, data, start)
    for _ in range(3):
        iterate(state)
    back = engine.from_arrays(model, data, *engine.to_arrays(state))
    assert back.value(back.found) == pytest.approx(state.bound, rel=1e-12)
    assert iterate(back) == pytest.approx(iterate(state), rel=1e-12)


def test_what_tables_do_not_have_is_refused(fitted):
    model, table, _ = fitted
    with pytest.raises(ValueError, match="partial_fit is not there for MixedColumns"):
        model.partial_fit(table[:10])
    fresh = thali.LatentFeatures(likelihood="mixed", engine="variational")
    with pytest.raises(ValueError, match="partial_fit is not there for MixedColumns"):
        fresh.partial_fit(table)
    fresh.engine = thali.Variational(anneal=5)
    with pytest.raises(ValueError, match="anneal=5 lets data in by degrees, which MixedColumns"):
        fresh.fit(table)


def test_columns_with_levels_alone_and_rows_that_show_nothing(rng):
    table, _ = people(rng, 40)
    table.iloc[3] = None
    engine = thali.Variational(truncation=4, n_init=1, max_iter=30)
    model = thali.LatentFeatures(likelihood="mixed", engine=engine, random_state=0)
    model.fit(table[["owner", "dish"]])
    assert np.isfinite(model.elbo_)
