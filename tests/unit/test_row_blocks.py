"""Blocks of rows: the same draws whoever does the work, stops and resumes, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from resuming import assert_same_draws, check_resuming_of_chains

import thali
from thali import machine
from thali.data import Data
from thali.engines.features.row_blocks import pieces_of
from thali.likelihoods import gibbs_updates
from thali.model import Model
from thali.run import loop as run_module
from thali.starts import Start

# runs are stopped here, wherever they are
pytestmark = [
    pytest.mark.filterwarnings("ignore::thali.BurnInCutShort"),
    pytest.mark.filterwarnings("ignore::thali.TooFewDraws"),
    pytest.mark.filterwarnings("ignore::thali.TooManyFeatures"),
]
LIKELIHOODS = {
    "linear_gaussian": thali.LinearGaussian(),
    "column": thali.LinearGaussian(noise="column"),
    "nonnegative": thali.NonnegativeLinearGaussian(),
    "laplace": thali.SparseFactor("laplace"),
    "noisy_or": thali.NoisyOr(),
    "poisson": thali.Poisson(),
}


@pytest.fixture(scope="module")
def X():
    return thali.datasets.planted(n=40, d=6, k=3, random_state=0).X


@pytest.fixture
def threads(monkeypatch):
    """Small data are handed to threads too, of which there are as many as it is told."""
    monkeypatch.setattr(gibbs_updates, "WORTH_THREADS", 0)
    return lambda count: monkeypatch.setattr(machine, "cores", lambda: count)


def model(**settings):
    engine = thali.UncollapsedGibbs(
        **{"sweeps": 40, "chains": 2, "init": "prior", "row_blocks": 3, **settings}
    )
    return thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=5, progress=False
    )


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("prior", [thali.IBP(), thali.BetaBernoulli(n_components=5)], ids=str)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_draws_do_not_depend_on_workers(name, prior, gaps, X, threads):
    """Not a bit, of any likelihood: one worker, or five for seven blocks."""
    counts = np.rint(np.abs(X))
    given = {"noisy_or": (X > 0.0).astype(float), "poisson": counts}.get(name, X)
    if gaps:
        given = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, given)
    data = Data.of(given)
    whole = Model(prior, LIKELIHOODS[name]).resolve(data)
    engine = thali.UncollapsedGibbs(row_blocks=7)
    ends = []
    for workers in (1, 5):
        threads(workers)
        rng = np.random.default_rng(3)
        state = engine.begin(rng, whole, data, Start("", np.ones((40, 2), bool), whole.start(data)))
        log_joints = [engine.step(rng, whole, data, state).log_joint for _ in range(8)]
        assert np.isfinite(log_joints).all()
        assert state.bits.any(axis=0).all()
        assert state.n_components <= (5 if isinstance(prior, thali.BetaBernoulli) else 1000)
        ends.append((log_joints, state.bits, state.parameters))
    assert ends[0][0] == ends[1][0]
    assert np.array_equal(ends[0][1], ends[1][1])
    for key, value in ends[0][2].items():
        assert np.array_equal(value, ends[1][2][key]), key


def test_fits_do_not_depend_on_workers(X, threads, monkeypatch):
    threads(4)
    several = model().fit(X)
    threads(1)
    monkeypatch.setattr(run_module, "cores", lambda: 1)
    assert_same_draws(several, model().fit(X))


def test_another_number_of_blocks_is_another_chain(X):
    one, other = (model(row_blocks=b).fit(X).history_["log_joint"] for b in (2, 3))
    assert not np.array_equal(one, other)


def test_chains_share_as_many_threads_as_cores(X, threads, monkeypatch):
    """However many chains there are."""
    threads(2)
    seen, now, lock = [], [0], threading.Lock()
    update = thali.LinearGaussian.update_bits

    def watched(self, *arguments):
        with lock:
            now[0] += 1
            seen.append(now[0])
        try:
            return update(self, *arguments)
        finally:
            with lock:
                now[0] -= 1

    monkeypatch.setattr(thali.LinearGaussian, "update_bits", watched)
    model(chains=4, sweeps=20, row_blocks=5).fit(X)
    assert max(seen) <= 2


@pytest.mark.parametrize("missing", [False, True])
def test_a_stopped_run_goes_on_to_the_same_end(X, missing, tmp_path, monkeypatch, threads):
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X) if missing else X
    threads(2)
    check_resuming_of_chains(lambda: model(sweeps=150), X, tmp_path / "run.thali", monkeypatch)


def test_a_time_budget_stops_early_and_keeps_what_there_is(X):
    fitted = model(sweeps=10**6, burn_in=3).fit(X, time_budget=3.0)  # a sweep takes milliseconds
    assert fitted.stopped_ == "time budget"
    assert fitted.history_["log_joint"].shape[1] > 3


def test_what_blocks_cannot_do_is_refused(X):
    with pytest.raises(ValueError, match=r"row_blocks=2 needs new_features='integrated'"):
        thali.UncollapsedGibbs(row_blocks=2, new_features="slice")
    with pytest.raises(ValueError, match="row_blocks must be"):
        thali.UncollapsedGibbs(row_blocks=0)
    fitted = thali.LatentFeatures(thali.SmoothIBP(), "linear_gaussian", model().engine)
    with pytest.raises(ValueError, match="HasUsedFrequencies for row_blocks"):
        fitted.fit(X)


def test_pieces_cover_all_rows_and_none_is_empty():
    for n in (1, 2, 5, 17):
        for blocks in (1, 2, 3, 40):
            pieces = pieces_of(n, blocks)
            assert len(pieces) == min(n, blocks)
            assert [i for p in pieces for i in range(n)[p]] == list(range(n))
            assert all(p.stop > p.start for p in pieces)


def test_a_process_that_was_forked_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 2)
    names = set(machine.side_by_side(lambda _: threading.get_ident(), range(50)))
    monkeypatch.setattr(machine.os, "getpid", lambda: -1)
    others = set(machine.side_by_side(lambda _: threading.get_ident(), range(50)))
    assert not names & others
    assert threading.get_ident() not in names | others
