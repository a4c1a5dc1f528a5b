"""Bits of rows with gaps under a distribution q: sums, what is left to q, and intervals."""

from itertools import product

import numpy as np
import pytest
from statistical.mutants import mutate

import thali
from thali.data import Data
from thali.results import bits_of_gaps
from thali.results.bits_of_gaps import Shown

MODULE = "thali.results.bits_of_gaps"
ENGINES = {"mean field": thali.Variational, "points": thali.MaximizationExpectation}


def little_shown(seed, n=40, d=20, k=4, noise=0.1):
    """Rows of which every second one hides 85%: with three columns seen there are several ways."""
    rng = np.random.default_rng(seed)
    Z, A = rng.random((n, k)) < 0.4, rng.standard_normal((k, d))
    X = Z @ A + noise * rng.standard_normal((n, d))
    hidden = np.zeros((n, d), bool)
    hidden[::2] = rng.random((n // 2, d)) < 0.85
    return X, hidden


def fit(engine, X, likelihood="linear_gaussian", prior="ibp"):
    model = thali.LatentFeatures(prior, likelihood, engine, random_state=0, progress=False)
    return model.fit(X)


# ---- the sum ------------------------------------------------------------------------------------
def exact(x, seen, z, others, A, log_odds, sigma):
    """P(z) of one row, one combination after the other; bits that no other row has stay."""
    weights = {}
    for bits in product((0, 1), repeat=len(A)):
        if any(b != old for b, old, m in zip(bits, z, others, strict=True) if m == 0):
            continue
        error = (x - np.array(bits) @ A)[seen]
        prior = sum(log_odds[m] for b, m in zip(bits, others, strict=True) if b and m)
        weights[bits] = prior - 0.5 * float(error @ error) / sigma**2
    top = max(weights.values())
    total = sum(np.exp(w - top) for w in weights.values())
    return {bits: np.exp(w - top) / total for bits, w in weights.items()}


def frequencies_and_truth(module=bits_of_gaps, draws=400):
    """Of all combinations of each row with gaps: how often they were drawn, and their chance."""
    rng = np.random.default_rng(2)
    X, hidden = little_shown(4, n=10, d=5, k=3, noise=0.8)
    data = Data.of(np.where(hidden, np.nan, X))
    Z = rng.random((10, 4)) < 0.5
    Z[:, 3] = np.arange(10) == 2  # a row's own, and a row with gaps has it
    A, log_odds = rng.standard_normal((4, 5)), thali.IBP(alpha=2.0).tables(10).log_odds
    shown = Shown.of(data)
    u = module.places(0, draws, len(shown.which))
    drawn = [module.drawn(shown, Z, A, log_odds, 0.8, each) for each in u]
    assert all(np.array_equal(each[1::2], Z[1::2]) for each in drawn)  # rows without gaps stay
    for n in shown.which:
        others = Z.sum(axis=0) - Z[n]
        truth = exact(X[n], ~hidden[n], Z[n], others, A, log_odds, 0.8)
        found = [tuple(each[n].astype(int)) for each in drawn]
        yield [
            (found.count(bits) / draws, truth.get(bits, 0.0)) for bits in product((0, 1), repeat=4)
        ]


def test_rows_are_drawn_from_the_sum_over_their_combinations():
    """Spread evenly: no share is off by more than two places."""
    pairs = np.array(list(frequencies_and_truth()))
    assert np.abs(pairs[..., 0] - pairs[..., 1]).max() < 2.1 / 400
    assert (pairs[..., 1] > 0.05).sum(axis=1).max() >= 3  # several ways there are


MUTANTS = {
    "columns that were not seen count": (
        "shown.seen[part] @ np.square(means).T",
        "np.square(means).sum(axis=1)",
    ),
    "a row counts among the others": ("- Z[shown.which]\n", "\n"),
    "half the square forgotten": ("- 0.5 * shown.seen", "- shown.seen"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_sum_is_caught(name):
    pairs = np.array(list(frequencies_and_truth(mutate(MODULE, [MUTANTS[name]]))))
    assert np.abs(pairs[..., 0] - pairs[..., 1]).max() > 5.0 / 400


# ---- intervals ----------------------------------------------------------------------------------
def coverage(model, X, hidden):
    _, low, high = model.impute(interval=0.9)
    return float(((low <= X) & (X <= high))[hidden].mean())


def with_and_without(engine, init, seeds):
    """Mean coverage by the sums, and by q alone."""
    each = []
    for seed in seeds:
        X, hidden = little_shown(seed)
        model = fit(engine(init=init), np.where(hidden, np.nan, X))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bits_of_gaps, "draws_for", lambda fit, rows, k: 0)
            alone = coverage(model, X, hidden)
        each.append((coverage(model, X, hidden), alone))
    return np.mean(each, axis=0)


@pytest.mark.parametrize("name", ENGINES)
def test_intervals_hold_what_they_promise(name):
    summed, alone = with_and_without(ENGINES[name], "ica", (0, 1))
    assert 0.85 < summed < 0.95
    assert alone < 0.83


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_intervals_hold_what_they_promise_from_the_race_and_from_poor_starts(name):
    """Where q told of the bits itself they held about eight tenths, whatever the start."""
    inits = ("race", "ica", "prior")
    shares = {init: with_and_without(ENGINES[name], init, range(4)) for init in inits}
    for summed, alone in shares.values():
        assert 0.85 < summed < 0.95
        assert summed > alone + 0.03
    assert shares["race"][0] > max(summed for summed, _ in shares.values()) - 0.03


def test_what_is_filled_in_is_nearer_and_the_same_each_time():
    X, hidden = little_shown(0)
    model = fit(thali.MaximizationExpectation(), np.where(hidden, np.nan, X))
    one, two = model.impute(), model.impute()
    assert np.array_equal(one, two)
    assert np.array_equal(one[~hidden], X[~hidden])
    assert np.sqrt(np.mean((one - X)[hidden] ** 2)) < 0.6


# ---- what is left to q --------------------------------------------------------------------------
def told_by_sum(model):
    rows = int(model.fit_.data.where_missing[0].max() + 1)
    return bits_of_gaps.draws_for(model.fit_, rows, model.n_components_) > 0


def test_which_fits_are_summed_over():
    X, hidden = little_shown(1, n=30)
    Y = np.where(hidden, np.nan, X)
    quick = {"init": X[:, :2] > 0.5, "n_init": 1, "max_iter": 5}
    assert told_by_sum(fit(thali.Variational(**quick), Y))
    held = thali.TruncatedIBP(max_features=3)
    assert told_by_sum(fit(thali.MaximizationExpectation(**quick), Y, prior=held))
    nonnegative = fit(thali.Variational(**quick), np.abs(Y), "nonnegative_linear_gaussian")
    assert told_by_sum(nonnegative)
    amounts = fit(thali.Variational(**quick), Y, "sparse_factor")
    assert not told_by_sum(amounts)
    sampled = fit(thali.CollapsedGibbs(sweeps=5, chains=1, init="empty"), Y)
    assert not told_by_sum(sampled)
    for model in (nonnegative, amounts, sampled):
        assert np.isfinite(model.impute()).all()
    stream = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.Variational(**quick | {"init": "empty"}),
        progress=False,
    )
    stream.partial_fit(Y[:15]).partial_fit(Y[15:])
    assert not told_by_sum(stream)
    assert np.isfinite(stream.impute()).all()


def test_too_many_combinations_are_left_to_q():
    X, hidden = little_shown(1, n=30)
    quick = thali.Variational(init=X[:, :2] > 0.5, n_init=1, max_iter=5)
    found = fit(quick, np.where(hidden, np.nan, X)).fit_
    assert bits_of_gaps.draws_for(found, 15, 4) == len(found)
    assert bits_of_gaps.draws_for(found, 15, bits_of_gaps.MOST + 1) == 0
    fewer = bits_of_gaps.draws_for(found, 3000, 10)
    assert bits_of_gaps.FEWEST <= fewer < len(found)
    assert bits_of_gaps.draws_for(found, 10**7, 10) == 0
