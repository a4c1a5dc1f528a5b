"""Two likelihoods tried on hidden entries: what is compared, when, and what is said of it."""

from __future__ import annotations

import signal
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import thali
from thali.data.columns import Columns
from thali.model import Model
from thali.run import trials
from thali.run.likelihoods import choose_likelihood

PRIOR = thali.IBP()
STEPS = thali.MixedColumns()
AMOUNTS = thali.MixedFactors()


def kinds_of_people(rng, n=240):
    """Rows that have each of three features or not; two numbers, too few to look for clumps in,
    two words and four answers tell them."""
    tall, rich, loud = rng.random((3, n)) < 0.5
    words = np.array(["kadhi", "dal", "roti", "rice"])
    frame = pd.DataFrame({"a": 5.0 * tall - 5.0 * loud, "b": 5.0 * rich + 5.0 * tall})
    frame += rng.standard_normal((n, 2))
    for name, place in {"dish": 2 * tall + rich, "side": 2 * rich + loud}.items():
        frame[name] = words[np.where(rng.random(n) < 0.97, place, rng.integers(4, size=n))]
    for name, has in {"i": tall & rich, "j": loud, "k": tall | loud, "l": rich}.items():
        frame[name] = np.where(rng.random(n) < 0.02, ~has, has)
    return frame


def in_amounts(rng, n=160):
    """Rows with two amounts, that all columns follow."""
    size = rng.standard_normal((n, 2))
    numbers = size @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((n, 5))
    frame = pd.DataFrame(numbers, columns=list("abcde"))
    frame["tall"] = size[:, 0] + 0.3 * rng.standard_normal(n) > 0.0
    return frame


def chosen(X, engine="auto", **settings):
    return choose_likelihood(X, PRIOR, engine, **settings)


def tried(X, pair, **settings):
    columns = Columns.of(X)
    return trials.compared(columns, columns.encode(X), PRIOR, pair, **settings)


def test_what_tells_hidden_entries_better_is_chosen_and_why_is_said():
    choice = chosen(kinds_of_people(np.random.default_rng(1)))
    assert isinstance(choice.likelihood, thali.MixedColumns)
    assert "without amounts told hidden entries better in short runs (384 entries of 240" in (
        choice.why
    )
    assert choice.seconds > 0.0


def test_amounts_stay_where_rows_have_them(rng):
    choice = chosen(in_amounts(rng))
    assert isinstance(choice.likelihood, thali.MixedFactors)
    assert "hidden" not in choice.why
    assert choice.seconds > 0.0


def test_the_order_of_the_two_turns_the_sign(rng):
    X = in_amounts(rng, 60)
    one, other = tried(X, (STEPS, AMOUNTS)), tried(X, (AMOUNTS, STEPS))
    assert one.gain == -other.gain < 0.0
    assert other.clear
    assert not one.clear


@pytest.mark.parametrize("likelihood", [STEPS, AMOUNTS])
def test_densities_are_those_of_a_fit_to_what_is_left(rng, likelihood, monkeypatch):
    monkeypatch.setattr(trials, "DRAWS", 400)
    X = kinds_of_people(rng, 60)
    columns = Columns.of(X)
    codes = columns.encode(X)
    test = thali.evaluation.holdout(X, 0.1, "entries")
    hidden = np.zeros(codes.shape, bool)
    hidden[test.where_hidden] = True
    run = trials.short_run(columns, codes, hidden, Model(PRIOR, likelihood), "auto")
    kind = thali.CollapsedGibbs if likelihood is STEPS else thali.UncollapsedGibbs
    engine = kind(sweeps=trials.SWEEPS, chains=trials.CHAINS)
    model = thali.LatentFeatures(likelihood=likelihood, engine=engine, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(test.X)
    np.testing.assert_allclose(run.log_densities(), test.log_densities(model), rtol=0, atol=1e-8)


def test_no_entry_is_hidden_twice_and_none_that_was_missing():
    rng = np.random.default_rng(0)
    seen = rng.random((60, 7)) < 0.8
    parts = list(trials.parts(rng, seen))
    assert len(parts) == trials.TIMES
    times = np.sum(parts, axis=0)
    assert times.max() == 1
    assert not times[~seen].any()
    assert {part.sum() for part in parts} == {int(trials.SHARE * seen.sum())}
    assert len(list(trials.parts(rng, np.ones((500, 20), bool)))) == 1  # 1000 are enough


def test_one_entry_cannot_decide():
    first, second = np.array([0.0, -np.inf, -900.0, 1.0]), np.array([-np.inf, -np.inf, 0.0, 0.5])
    found = trials.difference(first, second)
    np.testing.assert_array_equal(found, [trials.MOST, 0.0, -trials.MOST, 0.5])


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": thali.UncollapsedGibbs(sweeps=20)},
        {"engine": thali.CollapsedGibbs(sweeps=20)},
        {"time_budget": 10.0},
    ],
)
def test_no_trial_where_it_would_take_longer_than_the_fit(rng, settings):
    assert chosen(kinds_of_people(rng), **settings).seconds == 0.0


def test_no_trial_of_few_rows_nor_of_many_columns(rng):
    assert chosen(kinds_of_people(rng, 30)).seconds == 0.0
    wide = pd.DataFrame(rng.random((300, 50)) < 0.5)
    assert chosen(wide).seconds == 0.0


def test_rows_that_are_looked_at_are_bounded(rng):
    assert tried(kinds_of_people(rng, 1200), (STEPS, AMOUNTS)).rows == trials.MOST_ROWS


def test_columns_of_which_too_little_is_seen_are_not_tried(rng):
    X = kinds_of_people(rng)
    X.loc[5:, "a"] = np.nan
    assert tried(X, (STEPS, AMOUNTS)) == trials.NONE


@pytest.mark.filterwarnings("error")
def test_a_long_table_of_which_hardly_anything_is_seen(rng):
    X = np.full((20_000, 3), np.nan)
    X[np.arange(8) * 7] = rng.standard_normal((8, 3)) * [1, 20, 300]
    assert isinstance(chosen(pd.DataFrame(X)).likelihood, thali.MixedFactors)


def test_settings_of_a_given_engine_do_not_spoil_a_trial(rng):
    X = kinds_of_people(rng, 60)
    plain = tried(X, (STEPS, AMOUNTS), engine=thali.UncollapsedGibbs())
    engine = thali.UncollapsedGibbs(burn_in=200, thin=1000)
    assert tried(X, (STEPS, AMOUNTS), engine=engine)[:4] == plain[:4]


def test_engines_by_name_are_called_what_they_are(rng):
    choice = chosen(kinds_of_people(rng), "metropolis")
    assert choice.why == "Metropolis runs no likelihood of columns"


def test_a_trial_that_takes_too_long_tells_nothing(rng):
    trial = tried(kinds_of_people(rng), (STEPS, AMOUNTS), time_budget=0.001)
    assert not trial.clear
    assert trial.seconds < 10.0


def test_a_resumed_run_keeps_what_the_trial_chose(tmp_path):
    X, path = kinds_of_people(np.random.default_rng(1)), tmp_path / "run.thali"
    model = thali.LatentFeatures(random_state=0, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, checkpoint=path, time_budget=1.0)
        assert isinstance(model.likelihood_, thali.MixedFactors)
        assert isinstance(chosen(X).likelihood, thali.MixedColumns)
        model.fit(X, checkpoint=path, resume=True, time_budget=61.0)
        assert isinstance(model.likelihood_, thali.MixedFactors)
        steps = thali.LatentFeatures(likelihood="mixed", random_state=0, progress=False)
        other = tmp_path / "other.thali"
        steps.fit(X, checkpoint=other, time_budget=1.0)
    again = chosen(X, resumed=other, time_budget=1.0)
    assert isinstance(again.likelihood, thali.MixedColumns)
    assert again.why.endswith("and the run that is resumed has it")


def test_the_seconds_of_a_trial_count_in_the_budget_of_the_fit(rng):
    X = kinds_of_people(rng)
    model = thali.LatentFeatures(random_state=0, progress=False)
    assert model._model_of(X, 60.0)[2] > 0.0
    assert model._model_of(X, 10.0)[2] == 0.0


def test_ctrl_c_ends_a_trial(rng):
    X = kinds_of_people(rng, 500)
    tried(X.iloc[:60], (STEPS, AMOUNTS))  # compiled
    main = threading.main_thread().ident
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    began = time.monotonic()

    def on_and_on():
        for _ in range(100):
            tried(X, (STEPS, AMOUNTS))

    timer.start()
    with pytest.raises(KeyboardInterrupt):
        on_and_on()
    assert time.monotonic() - began < 20.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
