"""The noisy-or likelihood: kernels against the definition, the doors, and what they refuse."""

from __future__ import annotations

import signal
import time
from itertools import product

import numpy as np
import pytest
from oracles import features as oracles

import thali
import thali.plots
from thali.data import Augmented, Data
from thali.evaluation import autocorrelation, match_assignments
from thali.kernels import noisy_or as kernel
from thali.kernels.bit_prior import BitPrior
from thali.likelihoods.gibbs_updates import GibbsState
from thali.model import Model
from thali.registry import STARTS

RATES = {"epsilon": 0.03, "lam": 0.8, "p": 0.3}


def planted(seed, n=10, k=4, t=200, share=0.5):
    """A two-layer network with distinct causes, at the rates of Wood and others."""
    rng = np.random.default_rng(seed)
    while True:
        Z = rng.random((n, k)) < share
        if Z.any(axis=0).all() and len(np.unique(Z, axis=1).T) == k:
            break
    likelihood = thali.NoisyOr(epsilon=0.01, lam=0.9, p=0.1)
    return Z, likelihood.sample(rng, Z, likelihood.sample_features(rng, k, t))


@pytest.fixture(params=["complete", "gaps"])
def small(rng, request):
    """X, NaN where it has gaps; Z and Y."""
    Z = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 1]], np.uint8)
    Y = (rng.random((3, 6)) < 0.4).astype(np.uint8)
    X = (rng.random((4, 6)) < 0.5).astype(float)
    if request.param == "gaps":
        X[rng.random((4, 6)) < 0.4] = np.nan
    return X, Z, Y


def seen_in(X):
    """What was observed, as the kernels take it."""
    seen = ~np.isnan(X)
    return np.zeros((0, 0), bool) if seen.all() else seen


def codes(X, Z, Y):
    """2c + x by the definition, 2(K + 1) + 2c where x was not observed."""
    C = Z.astype(int) @ Y.astype(int)
    return np.where(np.isnan(X), 2 * (len(Y) + 1), np.nan_to_num(X)).astype(np.int32) + 2 * C


def log_joint(X, Z, Y):
    return oracles.noisy_or_joint(X, Z, Y, **RATES)


def accepted(rng, log_ratio):
    """The rule of ``bit_prior.accepts``, so that both passes draw the same numbers."""
    if abs(log_ratio) > 37.0:
        return log_ratio > 0
    return rng.random() * (1.0 + np.exp(-log_ratio)) < 1.0


def test_densities_are_those_of_the_definition(small):
    X, Z, Y = small
    likelihood = thali.NoisyOr(**RATES)
    data = Data.of(X)
    value = likelihood.log_density(GibbsState(data, Z, {"A": Y}, RATES))
    assert value == pytest.approx(log_joint(X, Z, Y), abs=1e-10)
    drawn = Augmented(np.where(np.isnan(X), 1.0, X), source=data)  # which must not count
    value = likelihood.log_density(GibbsState(drawn, Z, {"A": Y}, RATES))
    assert value == pytest.approx(log_joint(X, Z, Y), abs=1e-10)
    C = Z.astype(int) @ Y
    seen = ~np.isnan(X)
    entries = [
        oracles.noisy_or_entry(int(x), c, 0.03, 0.8) for x, c in zip(X[seen], C[seen], strict=True)
    ]
    assert likelihood.log_likelihood(X, Z, Y) == pytest.approx(sum(entries), abs=1e-10)
    assert np.allclose(likelihood.mean(Z, Y), 1 - 0.97 * 0.2**C)


def test_codes_and_their_counts_are_those_of_the_definition(small):
    X, Z, Y = small
    E = kernel.codes(np.nan_to_num(X).astype(np.uint8), seen_in(X), Z, Y)
    assert np.array_equal(E, codes(X, Z, Y))
    C, counts = Z.astype(int) @ Y, kernel.count_codes(E, len(Y))
    for c, x in product(range(len(Y) + 1), (0, 1)):
        assert counts[c, x] == ((c == C) & (x == X)).sum()


def test_a_pass_over_bits_is_the_slow_one_bit_by_bit(small, seed):
    """Each bit by the whole joint with it on and off, on the same random numbers."""
    X, Z, Y = small
    log_odds = np.array([np.nan, -0.7, 0.2, 1.1])
    slow, fast = Z.copy(), Z.copy()
    rng = np.random.default_rng(seed)
    for i, k in product(range(4), range(3)):
        others = int(slow[:, k].sum() - slow[i, k])
        if others == 0:
            continue
        on, off = slow.copy(), slow.copy()
        on[i, k], off[i, k] = 1, 0
        odds = log_odds[others] + log_joint(X, on, Y) - log_joint(X, off, Y)
        if accepted(rng, -odds if slow[i, k] else odds):
            slow[i, k] = 1 - slow[i, k]
    E = codes(X, fast, Y)
    bits = BitPrior(log_odds, fast.sum(axis=0, dtype=np.int64), np.zeros(0))
    gain = kernel.gains(kernel.rates_at(**RATES), 3)
    kernel.turn_bits(np.random.default_rng(seed), E, fast, Y, gain, bits)
    assert np.array_equal(fast, slow)
    assert np.array_equal(E, codes(X, fast, Y))  # maintained = made afresh
    assert np.array_equal(bits.m, fast.sum(axis=0))


def test_log_odds_of_causes_are_those_of_the_joint(small, rng):
    X, Z, Y = small
    E, before = codes(X, Z, Y), Y.copy()
    gain = kernel.gains(kernel.rates_at(**RATES), 3)
    score, step = np.empty(6), np.empty(6, np.int32)
    entropy = 0.0
    for k in range(3):
        kernel.score_states(E, Z, Y[k], k, gain, np.log(0.3 / 0.7), step, score)
        for t in range(6):
            on, off = Y.copy(), Y.copy()
            on[k, t], off[k, t] = 1, 0
            odds = log_joint(X, Z, on) - log_joint(X, Z, off)
            assert score[t] == pytest.approx(odds, abs=1e-8)
            q = 1 / (1 + np.exp(-odds))
            entropy -= q * np.log(q) + (1 - q) * np.log(1 - q)
    assert kernel.single_entropies(E, Z, Y, gain, np.log(0.3 / 0.7)) == pytest.approx(entropy)
    kernel.turn_states(rng, E, Z, Y, gain, np.log(0.3 / 0.7))
    assert not np.array_equal(Y, before)
    assert np.array_equal(E, codes(X, Z, Y))


def test_a_step_in_one_call_is_that_in_two(small, seed):
    """Bits and own causes, on the same random numbers; drawn entries are not looked at."""
    X, Z, Y = small
    tables = thali.IBP(alpha=3.0).tables(4)
    found = []
    for fill in (0.0, 1.0):
        drawn = Augmented(np.where(np.isnan(X), fill, X), source=Data.of(X))
        place = GibbsState(drawn, Z.copy(), {"A": Y}, RATES)
        bits = BitPrior(tables.log_odds, Z.sum(axis=0, dtype=np.int64), np.zeros(0))
        rng, likelihood = np.random.default_rng(seed), thali.NoisyOr(**RATES)
        if fill:
            likelihood.update_matrix(rng, place, bits, tables)
        else:
            turned = likelihood.update_bits(rng, place, bits)
            likelihood.update_own(rng, place, tables, turned)
        log_density = likelihood.update_parameters(rng, place, hold=True)
        assert log_density == pytest.approx(log_joint(X, place.bits, place.parameters["A"]))
        found.append((place.bits, place.parameters["A"]))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])


def test_own_causes_are_summed_out_exactly():
    """log P(x_i | j) against the sum over all 2^{jT} states of their y."""
    rates = kernel.rates_at(**RATES)
    x, c = np.array([1, 0, 1]), np.array([0, 1, 2])
    on = np.bincount(c[x == 1], minlength=3)
    values = []
    for j in range(3):
        total = 0.0
        for y in product((0, 1), repeat=3 * j):
            Y = np.array(y).reshape(j, 3)
            weight = 0.3 ** Y.sum() * 0.7 ** (Y.size - Y.sum())
            counts = c + Y.sum(axis=0)
            entries = [oracles.noisy_or_entry(a, b, 0.03, 0.8) for a, b in zip(x, counts)]  # noqa: B905
            total += weight * np.exp(sum(entries))
        values.append(np.log(total) - kernel.log_row(1, on, rates, j))
    assert np.allclose(values, values[0], atol=1e-8)


@pytest.mark.parametrize("rates", [(1e-300, 1e-12, 1e-9), (1 - 1e-12, 1 - 1e-12, 0.5)])
def test_extreme_rates_stay_finite(rates, rng):
    data = Data.of(np.eye(4))
    model = Model(thali.IBP(alpha=1.0), thali.NoisyOr(*rates))
    engine = thali.UncollapsedGibbs(chains=1)
    state = engine.begin(rng, model, data, STARTS["prior"](rng, model, data))
    for _ in range(20):
        assert np.isfinite(engine.step(rng, model, data, state).log_joint)


def test_all_doors_open(tmp_path):
    """Fit, read, save, load, transform, plot and report, at the default settings."""
    _, X = planted(0, t=60)
    model = thali.LatentFeatures(likelihood="noisy_or", random_state=0).set_params(
        engine__sweeps=30, engine__chains=2
    )
    model.fit(X)
    assert isinstance(model.engine_, thali.UncollapsedGibbs)
    assert 0.0 < model.epsilon_ < 1.0
    assert 0.0 < model.lam_ < 1.0
    assert 0.0 < model.p_ < 1.0
    assert model.components_.shape == (model.n_components_, 60)
    assert ((model.components_ >= 0) & (model.components_ <= 1)).all()
    assert all(np.isin(draw.A, (0, 1)).all() for draw in model.draws())
    assert model.transform(X).shape == model.Z_.shape
    expected = model.inverse_transform(model.Z_)
    assert ((expected > 0) & (expected < 1)).all()
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert np.array_equal(again.components_, model.components_)
    assert again.likelihood_ == model.likelihood_
    assert all(np.array_equal(a.A, b.A) for a, b in zip(model.draws(), again.draws(), strict=True))
    assert "A noisy or" in model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert len(thali.plots.trace(model).axes) == len(model.history_)


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_a_run_stopped_and_resumed_gives_the_same_draws(tmp_path, monkeypatch):
    _, X = planted(1, t=40)
    path = tmp_path / "checkpoint.thali"
    make = lambda: thali.LatentFeatures(  # noqa: E731
        likelihood="noisy_or",
        engine=thali.UncollapsedGibbs(sweeps=40, chains=2, init="prior"),
        random_state=3,
    )
    whole = make().fit(X)
    step, seen = thali.UncollapsedGibbs.step, []

    def count(*arguments):
        seen.append(1)
        if len(seen) == 20:  # of 80 in both chains
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.002)  # so that the signal comes before the end
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(thali.UncollapsedGibbs, "step", count)
        part = make().fit(X, checkpoint=path)
    assert part.stopped_ == "interrupted"
    assert part.history_["log_joint"].shape[1] < 40
    resumed = make().fit(X, checkpoint=path, resume=True)
    assert np.array_equal(whole.history_["log_joint"], resumed.history_["log_joint"])


def test_data_can_be_drawn():
    data = thali.datasets.draw(thali.IBP(2.0), thali.NoisyOr(0.01, 0.9, 0.1), n=8, d=30)
    assert np.isin(data.X, (0.0, 1.0)).all()
    assert np.isin(data.A, (0.0, 1.0)).all()
    assert data.A.shape == (data.Z.shape[1], 30)


@pytest.mark.parametrize("name", [name for name in thali.NoisyOr.starts if name in STARTS])
@pytest.mark.parametrize("X", [np.zeros((3, 4)), np.ones((3, 4)), np.ones((1, 1)), np.eye(5)])
def test_every_start_is_valid(name, X, rng):
    data = Data.of(X)
    for prior, most in ((thali.IBP(), np.inf), (thali.BetaBernoulli(n_components=2), 2)):
        start = STARTS[name](rng, Model(prior, thali.NoisyOr()).resolve(data), data)
        assert start.latent.shape[0] == len(X)
        assert start.latent.dtype == bool
        assert start.latent.shape[1] <= most
        assert start.latent.any(axis=0).all()


def test_the_patterns_start_is_near_the_planted_network():
    Z, X = planted(2, n=50, k=6, t=300, share=0.2)
    data = Data.of(X)
    model = Model(thali.IBP(), thali.NoisyOr()).resolve(data)
    start = STARTS["patterns"](np.random.default_rng(0), model, data)
    assert match_assignments(Z, start.latent).distance < 0.5 * Z.sum()


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0])
def test_other_data_are_refused_with_the_place(value):
    X = np.eye(4)
    X[2, 1] = value
    with pytest.raises(ValueError, match=rf"X has {value:g} at row 2, column 1.*0 or 1"):
        thali.LatentFeatures(likelihood="noisy_or").fit(X)
    model = thali.LatentFeatures(
        likelihood="noisy_or", engine=thali.UncollapsedGibbs(sweeps=5, chains=1), random_state=0
    ).fit(np.eye(4))
    with pytest.raises(ValueError, match="row 2, column 1"):
        model.transform(X)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon must be positive"),
        ({"lam": 1.0}, ValueError, "lam must lie between 0 and 1"),
        ({"p": thali.Gamma(1, 1)}, TypeError, "thali.Beta"),
        ({"p": "auto"}, TypeError, "thali.Beta"),
    ],
)
def test_bad_settings_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        thali.NoisyOr(**settings)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(TypeError, match="hyperprior of a number between 0 and 1"):
        thali.IBP(alpha=thali.Beta(1, 1))
    with pytest.raises(ValueError, match=r"cannot run IBP × NoisyOr.*can: UncollapsedGibbs"):
        thali.LatentFeatures(likelihood="noisy_or", engine="collapsed_gibbs").fit(np.eye(3))
    engine = thali.UncollapsedGibbs(init="ica", sweeps=5)
    with pytest.raises(ValueError, match="'ica' does not suit NoisyOr; use one of race, pat"):
        thali.LatentFeatures(likelihood="noisy_or", engine=engine).fit(np.eye(3))
    engine = thali.UncollapsedGibbs(init="patterns", sweeps=5)
    with pytest.raises(ValueError, match="'patterns' does not suit LinearGaussian"):
        thali.LatentFeatures(likelihood="linear_gaussian", engine=engine).fit(np.eye(3))


def test_autocorrelation_is_that_of_the_definition(rng):
    series = rng.normal(size=(3, 50)).cumsum(axis=1)
    found = autocorrelation(series, lags=5)
    v = series - series.mean()
    slow = [sum((a[lag:] * a[: 50 - lag]).sum() for a in v) / (v**2).sum() for lag in range(6)]
    assert np.allclose(found, slow)
    assert np.isnan(autocorrelation(np.ones(9), lags=3)).all()
    with pytest.raises(ValueError, match="not finite"):
        autocorrelation([1.0, np.nan])


@pytest.mark.slow
@pytest.mark.parametrize("graph", range(10))
def test_a_planted_network_is_found(graph):
    """N = 10 nodes, K = 4 causes, T = 200 trials, rates as Wood and others (2006)."""
    Z, X = planted(graph)
    model = thali.LatentFeatures(
        likelihood=thali.NoisyOr(epsilon=0.01, lam=0.9, p=0.1),
        engine=thali.UncollapsedGibbs(sweeps=300),
        random_state=graph,
    ).fit(X)
    assert match_assignments(Z, model.Z_).distance == 0
