"""Tables with columns of different kinds: samplers against enumeration, and against the model.

Two rows, a column of each kind: P(K | X) and E[ZZ' | X] by sums over all classes of Z, with the
column's latents integrated by quadrature. Then all kinds in one table with gaps, all numbers
inferred: draws of the model against sweeps between draws of the table (Geweke 2004).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles import features as oracles
from oracles import mixed_columns as integrals
from scipy import stats
from scipy.special import gammaln
from statistical.budget import TESTS, alarms, judge, p_value_of_difference
from statistical.mutants import mutate
from statistical.test_row_potentials import k_and_gram, p_values

import thali
from thali.data import Augmented, Data
from thali.data.columns import Column, Columns
from thali.engines.features.state import FeatureState
from thali.engines.kept_parameters import State
from thali.kernels.maintained_rows import rows_of
from thali.likelihoods import latent_draws
from thali.likelihoods import table as mixed_columns
from thali.likelihoods.latent_columns import Layout
from thali.model import Model
from thali.starts import Start

ENGINES = {
    "collapsed": thali.CollapsedGibbs(moves=2),
    "kept": thali.UncollapsedGibbs(),
    "slices": thali.UncollapsedGibbs(new_features="slice"),
    "moves": thali.UncollapsedGibbs(moves=2),
}
SIGMA_A, ALPHA, CAP, TAU = 1.5, 1.0, 9, 2.0
INF = np.inf


def table(*columns, location=0.0, scale=1.0):
    """A layout in which location and scale are given."""
    d = len(columns)
    middle = (0.0,) * Layout(Columns(columns)).n_latents
    return Layout(Columns(columns), location=(location,) * d, scale=(scale,) * d, middle=middle)


def softplus_inverse(x):
    return np.log(np.expm1(x)) if x > 0.0 else -INF


LEVELS = ("a", "b", "c")
SETTINGS = {"sigma_a": SIGMA_A}
FIXED = {**SETTINGS, "biases": np.array([0.4]), "bias": False}
CASES = {  # column, what each of two rows has, settings of the likelihood
    "real": (Column("x", "real"), [0.8, -0.3], SETTINGS),
    "positive": (Column("x", "positive"), [2.5, 0.6], SETTINGS),
    "count": (Column("x", "count"), [2.0, 0.0], {**SETTINGS, "noise": np.array([0.8])}),
    "binary": (Column("x", "binary", (0, 1)), [1.0, 0.0], SETTINGS),
    "binary, no bias inferred": (Column("x", "binary", (0, 1)), [1.0, 1.0], FIXED),
    "ordinal": (Column("x", "ordinal", LEVELS), [2.0, 1.0], SETTINGS),
    "categorical": (
        *(Column("x", "categorical", LEVELS), [2.0, 0.0]),
        {**SETTINGS, "biases": np.array([0.3, -0.2, 0.5]), "bias": False},
    ),
    "categorical, alike": (
        *(Column("x", "categorical", LEVELS), [1.0, 1.0]),
        {**SETTINGS, "biases": np.array([0.3, -0.2, 0.5]), "bias": False},
    ),
    "censored": (
        *(Column("x", "censored", high=1.0), [1.0, -0.4]),
        {**SETTINGS, "noise": np.array([0.8])},
    ),
    "a gap": (Column("x", "binary", (0, 1)), [1.0, np.nan], SETTINGS),
}


def column_chance(name, Z):
    """P(x | Z) of the column of a case."""
    column, x, settings = CASES[name]
    unit = column.kind in ("binary", "ordinal", "categorical")
    tau = 0.0 if "biases" in settings else (TAU if unit else 10.0)
    C = integrals.covariance(Z, SIGMA_A, tau)
    if column.kind == "categorical":
        return integrals.largest(settings["biases"], C, [int(v) for v in x])
    if column.kind in ("real", "positive"):  # noise and bias integrated out: Student's t
        y = np.log(x) if column.kind == "positive" else np.array(x)
        a, b = mixed_columns.NOISE.shape, mixed_columns.NOISE.scale
        squares = y @ np.linalg.solve(C, y)
        log = gammaln(a + 1.0) - gammaln(a) + a * np.log(b) - np.log(2.0 * np.pi)
        log += -0.5 * np.linalg.slogdet(C)[1] - (a + 1.0) * np.log(b + 0.5 * squares)
        return float(np.exp(log))
    sd = float(settings["noise"][0]) if "noise" in settings else 1.0
    bias = np.full(2, float(settings["biases"][0]) if "biases" in settings else 0.0)
    if column.kind == "ordinal":
        shape, rate = latent_draws.GAPS
        gaps = stats.gamma(shape, scale=1.0 / rate).ppf((np.arange(200) + 0.5) / 200)
        edges = [np.array([-INF, 0.0, gap, INF]) for gap in gaps]
        each = [[(e[int(v)], e[int(v) + 1]) for v in x] for e in edges]
        return float(np.mean([integrals.inside(bias, C, *np.transpose(own)) for own in each]))
    bounds = {
        "binary": lambda v: (0.0, INF) if v == 1.0 else (-INF, 0.0),
        "count": lambda v: (softplus_inverse(v), softplus_inverse(v + 1.0)),
        "censored": lambda v: (v, INF) if v >= 1.0 else (v, v),
    }[column.kind]
    low, high = np.transpose([(-INF, INF) if np.isnan(v) else bounds(v) for v in x])
    return integrals.inside(bias, sd**2 * C, low, high)


@cache
def exact(name):
    counts, h = oracles.classes(2, CAP), oracles.histories(2)
    logs = oracles.log_prior_ibp(counts, 2, ALPHA)
    chances = [column_chance(name, np.repeat(h, own, axis=0).T) for own in counts]
    return k_and_gram(counts, 2, logs + np.log(chances))


def model_of(name):
    column, x, settings = CASES[name]
    layout = table(column)
    likelihood = thali.MixedColumns(layout=layout, **settings)
    data = Data.checked(layout.expand(np.array(x)[:, None]))
    return Model(thali.IBP(ALPHA), likelihood).resolve(data), data


def walk(name, engine, seed, sweeps, burn_in=200):
    """K and ZZ' of every sweep."""
    model, data = model_of(name)
    rng = np.random.default_rng(seed)
    start = Start("empty", np.zeros((2, 0), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    K, gram = np.zeros(sweeps), np.zeros((sweeps, 2, 2))
    for i in range(-burn_in, sweeps):
        engine.step(rng, model, data, state)
        if i >= 0:
            Z = state.latent.astype(float)
            K[i], gram[i] = Z.shape[1], Z @ Z.T
    return K, gram


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        pytest.param(name, engine, marks=() if engine == "collapsed" else pytest.mark.slow)
        for name in CASES
        for engine in ENGINES
    ],
)
def test_samplers_agree_with_enumeration(name, engine, seed):
    judge("mixed_columns", p_values(exact(name), *walk(name, ENGINES[engine], seed, 3000)))


def test_the_integrals_sum_to_one():
    Z = np.array([[1, 1], [0, 1]])
    C = integrals.covariance(Z, SIGMA_A, 0.0)
    biases = np.array([0.3, -0.2, 0.5])
    found = sum(integrals.largest(biases, C, (r, s)) for r in range(3) for s in range(3))
    assert found == pytest.approx(1.0, abs=1e-4)
    signs = [(-INF, 0.0), (0.0, INF)]
    boxes = [np.transpose([a, b]) for a in signs for b in signs]
    assert sum(integrals.inside(np.zeros(2), C, *box) for box in boxes) == pytest.approx(1.0)


# ---- all kinds in one table ----------------------------------------------------------------------

ALL = (
    Column("real", "real"),
    Column("positive", "positive"),
    Column("count", "count"),
    Column("yes", "binary", (0, 1)),
    Column("grade", "ordinal", ("a", "b", "c", "d")),
    Column("colour", "categorical", LEVELS),
    Column("score", "censored", high=0.5),
)
ROWS, NEAR = 4, 0.7
HIDDEN = np.zeros((ROWS, len(ALL)), bool)
HIDDEN[[0, 1, 2, 3, 0, 1, 2], range(len(ALL))] = True
LAYOUT = table(*ALL)


def values_of(Y, cutpoints):
    """What latents show, (N, L), NaN where hidden."""
    X = Y.copy()
    X[:, 1] = np.exp(Y[:, 1])
    X[:, 2] = np.floor(np.log1p(np.exp(Y[:, 2])))
    X[:, 3] = Y[:, 3] > 0.0
    X[:, 4] = (Y[:, 4, None] > np.append(0.0, cutpoints)).sum(axis=1)
    X[:, 5:8] = Y[:, 5:8].argmax(axis=1)[:, None] == np.arange(3)
    X[:, 8] = np.minimum(Y[:, 8], 0.5)
    X[np.repeat(HIDDEN, [1, 1, 1, 1, 1, 3, 1], axis=1)] = np.nan
    return X


def fresh(rng, likelihood):
    """A draw of everything from the prior."""
    free = ~LAYOUT.unit
    size = LAYOUT.n_latents
    noise = np.where(free, np.sqrt(mixed_columns.NOISE.scale / rng.standard_gamma(2.0, size)), 1.0)
    biases = noise * NEAR * rng.standard_normal(size)
    shape, rate = latent_draws.GAPS
    hyper = {
        "alpha": 1.0,
        "sigma_a": float(np.sqrt(2.0 / rng.standard_gamma(2.0))),
        "noise": noise,
        "biases": biases,
        "cutpoints": np.cumsum(rng.gamma(shape, 1.0 / rate, 2)),
    }
    Z = thali.IBP(1.0).sample(rng, ROWS)
    own = {"A": hyper["sigma_a"] * rng.standard_normal((Z.shape[1], size))}
    if isinstance(likelihood, thali.MixedFactors):
        draw = rng.laplace if likelihood.slab == "laplace" else rng.normal
        own["S"] = draw(size=Z.shape)
    return Z, own, hyper


def latents(rng, likelihood, Z, own, hyper):
    W = np.asarray(Z, float) * own.get("S", 1.0)
    noise = rng.standard_normal((ROWS, LAYOUT.n_latents))
    return hyper["biases"] + hyper["noise"] * (W @ own["A"] + noise)


def told(Z, own, hyper, Y, X):
    """What both ways of drawing are compared by; without X, a sampler blind to it would pass."""
    A, S = own["A"], own.get("S", np.zeros(Z.shape))
    K, unit = Z.shape[1], LAYOUT.unit
    scales = np.log(hyper["noise"][~unit])
    inside = (Y - hyper["biases"]) / hyper["noise"]
    numbers = [K, Z.sum(), np.log(hyper["sigma_a"]), *scales, *np.log(hyper["cutpoints"])]
    numbers += [*np.arctan(hyper["biases"] / 3.0), *np.arctan(inside).mean(axis=0)]
    effects = np.arctan(A).mean(axis=0) if K else np.zeros(A.shape[1])
    both = [K * numbers[2], *(K * scales), *(numbers[2] * scales)]
    shown = np.arctan(np.nan_to_num(X))
    with_data = [*(shown * np.arctan(inside)).mean(axis=0), *(K * shown).mean(axis=0)]
    again = np.nan_to_num(values_of(Y, hyper["cutpoints"]))
    with_data.append(np.isclose(again, np.nan_to_num(X), rtol=1e-6).mean())  # all of them
    return [*numbers, *np.square(effects), np.arctan(np.abs(S) * Z).sum(), *both, *with_data]


def in_place(engine, model, data, Z, parameters, hyper, Y):
    """The state of a sampler with these latents."""
    X = (Y - hyper["biases"]) / hyper["noise"]
    own, hyper = Augmented(X, source=data, latent=True), dict(hyper)
    if isinstance(engine, thali.CollapsedGibbs):
        return FeatureState(own, rows_of(Z, X), Z.shape[1], hyper)
    bits, values = np.ascontiguousarray(Z, np.uint8), model.likelihood_values(hyper)
    return State(own, bits, dict(parameters), values, all_hyper=hyper)


JOINT = {  # engine and likelihood
    **{name: (engine, thali.MixedColumns(layout=LAYOUT)) for name, engine in ENGINES.items()},
    "factors": (ENGINES["kept"], thali.MixedFactors(layout=LAYOUT)),
    "laplace": (ENGINES["kept"], thali.MixedFactors(layout=LAYOUT, slab="laplace")),
}


@pytest.fixture
def near(monkeypatch):
    """Biases near zero, which a few rows move: far away ones would be forgotten too slowly."""
    for kind in mixed_columns.BIAS:
        monkeypatch.setitem(mixed_columns.BIAS, kind, NEAR)


def joint_p_values(name, seed, draws=4000):
    engine, likelihood = JOINT[name]
    model = Model(thali.IBP(1.0), likelihood)
    model = model.resolve(Data.checked(np.zeros((ROWS, LAYOUT.n_latents))))
    rng = np.random.default_rng(seed)
    one, other = [], []
    for _ in range(draws):
        Z, own, hyper = fresh(rng, likelihood)
        Y = latents(rng, likelihood, Z, own, hyper)
        one.append(told(Z, own, hyper, Y, values_of(Y, hyper["cutpoints"])))
    Z, own, hyper = fresh(rng, likelihood)
    for _ in range(draws):
        Y = latents(rng, likelihood, Z, own, hyper)
        data = Data.checked(values_of(Y, hyper["cutpoints"]))
        state = in_place(engine, model, data, Z, own, hyper, Y)
        engine.step(rng, model, data, state)
        Z, own = state.latent, state.parameters
        hyper = dict(state.all_hyper if hasattr(state, "all_hyper") else state.hyper)
        Y = state.data.X * hyper["noise"] + hyper["biases"]
        other.append(told(Z, own, hyper, Y, data.X))
    a, b = np.array(one), np.array(other)
    found = {}
    for i in range(a.shape[1]):
        found[f"mean {i}"] = p_value_of_difference(a[:, i], b[:, i])
        found[f"square {i}"] = p_value_of_difference(a[:, i] ** 2, b[:, i] ** 2)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINT)
def test_sweeps_and_draws_of_the_model_agree(name, seed, near):
    judge("mixed_columns", joint_p_values(name, seed))


def test_the_tests_are_counted():
    assert TESTS["mixed_columns"] == len(CASES) * len(ENGINES) + len(JOINT)


# ---- broken variants -----------------------------------------------------------------------------


def test_a_latent_on_the_wrong_side_is_caught(seed, monkeypatch):
    right = Layout.bounds

    def wrong(self, X):
        low, high = right(self, X)
        return -high, -low

    monkeypatch.setattr(Layout, "bounds", wrong)
    chain = walk("binary, no bias inferred", ENGINES["collapsed"], seed, 2000)
    assert alarms(p_values(exact("binary, no bias inferred"), *chain))


def test_levels_that_are_forgotten_are_caught(seed, monkeypatch, near):
    module = "thali.kernels.latent_columns"
    change = ("if r < 0 or largest == r:", "if True:")
    monkeypatch.setattr(f"{module}.draw_levels", mutate(module, [change]).draw_levels)
    assert alarms(joint_p_values("collapsed", seed, draws=1000))


def test_cutpoints_out_of_order_are_caught(seed, monkeypatch, near):
    module = "thali.likelihoods.latent_draws"
    broken = mutate(module, [("= edges[2:-1]", "= edges[2:-1][::-1]")]).Shown.draw_cutpoints
    monkeypatch.setattr(latent_draws.Shown, "draw_cutpoints", broken)
    with pytest.raises(RuntimeWarning, match="invalid value encountered in log"):
        joint_p_values("collapsed", seed, draws=1000)  # of what is below the first


def test_gaps_without_their_jacobian_are_caught(seed, monkeypatch, near):
    module = "thali.kernels.latent_columns"
    change = ("total = shape * u - rate * gap", "total = (shape - 1.0) * u - rate * gap")
    monkeypatch.setattr(f"{module}.draw_edges", mutate(module, [change]).draw_edges)
    assert alarms(joint_p_values("collapsed", seed, draws=1000))


BROKEN = {  # what is changed in likelihoods/table.py, and the step that it is in
    "effects not in proportion to the noise": (
        *("draw = half / noise[own] + ", "draw = half + "),
        "_noise_and_bias",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_step_is_caught(what, seed, monkeypatch, near):
    before, after, step = BROKEN[what]
    broken = mutate("thali.likelihoods.table", [(before, after)]).TableLikelihood
    monkeypatch.setattr(mixed_columns.TableLikelihood, step, getattr(broken, step))
    assert alarms(joint_p_values("collapsed", seed, draws=1000))
