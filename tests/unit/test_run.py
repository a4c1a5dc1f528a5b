"""The run loop: chains independent of threads, stops that keep, budgets, checkpoints."""

import signal
import threading
import time

import numpy as np
import pytest
from resuming import check_resuming_of_chains

import thali
from thali.data import Data
from thali.model import Model
from thali.results.fit import Draws
from thali.results.trace import ChainTrace, Kept
from thali.run import loop as run_module

# runs are stopped here, wherever they are
pytestmark = [
    pytest.mark.filterwarnings("ignore::thali.BurnInCutShort"),
    pytest.mark.filterwarnings("ignore::thali.TooFewDraws"),
]


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=40, random_state=0).X


def model(**engine):
    settings = {"sweeps": 40, "chains": 3, **engine}
    return thali.LatentFeatures(
        likelihood="linear_gaussian", engine=thali.CollapsedGibbs(**settings), random_state=5
    )


def test_draws_do_not_depend_on_the_number_of_threads(X, monkeypatch):
    several = model().fit(X)
    monkeypatch.setattr(run_module, "cores", lambda: 1)
    monkeypatch.setattr(run_module, "SLICE", 0.0)  # a thread changes chains after every sweep
    single = model().fit(X)
    for name, values in several.history_.items():
        assert np.array_equal(values, single.history_[name])
    assert np.array_equal(several.Z_, single.Z_)


def test_burn_in_and_thinning_keep_the_draws_they_should(X):
    fitted = model(sweeps=20, burn_in=6, thin=4).fit(X)
    kept = fitted.posterior_.posterior["log_joint"].values
    assert kept.shape == (3, 4)
    assert np.array_equal(kept, fitted.history_["log_joint"][:, [6, 10, 14, 18]])
    assert len(list(fitted.draws())) == 12


def test_a_time_budget_stops_early_and_keeps_what_there_is(X):
    fitted = model(sweeps=10**6, burn_in=3, init="prior").fit(X, time_budget=0.5)
    assert fitted.stopped_ == "time budget"
    assert 0 < fitted.history_["log_joint"].shape[1] < 10**6
    assert np.isfinite(fitted.log_joint_)


def test_a_budget_too_short_for_burn_in_still_gives_an_answer(X):
    fitted = model(sweeps=10**6).fit(X, time_budget=1e-3)
    assert fitted.Z_.shape[0] == 40
    assert np.isfinite(fitted.best_.log_joint)


@pytest.mark.parametrize(("thin", "kept"), [(1000, [99]), (70, [70]), (40, [80]), (20, [60, 80])])
def test_a_stop_in_burn_in_keeps_no_draw_of_the_first_half(thin, kept):
    """Also where draws are kept so seldom that there is none of the later half, but the last."""
    trace = ChainTrace(names=["n_components", "log_joint"])
    for step in range(100):
        trace.scalars.append((1.0, float(step)))
        if step % thin == 0:
            trace.keep(Kept(step, {}), burning=True)
    trace.keep_later_half(Kept(99, {}))
    assert trace.kept_at == [draw.packed for draw in trace.kept] == kept


def test_a_stop_in_burn_in_keeps_the_later_half(X):
    fitted = model(sweeps=10**6, init="empty").fit(X, time_budget=2.0)
    steps, kept = fitted.history_["log_joint"].shape[1], fitted.posterior_.posterior.sizes["draw"]
    assert steps > 20
    assert 0.4 * steps < kept <= 0.6 * steps + 2
    assert abs(fitted.burn_in_ - steps / 2) < 0.2 * steps


def test_checkpoints_are_written_while_the_run_goes_on(X, tmp_path, monkeypatch):
    """The third one stops the run, which would otherwise go on for a million sweeps."""
    monkeypatch.setattr(run_module, "CHECKPOINT_EVERY", 0.1)
    written = []
    write = run_module.storage.write

    def count(*arguments):
        write(*arguments)
        written.append(arguments)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(run_module.storage, "write", count)
    fitted = model(sweeps=10**6, init="empty").fit(
        X, checkpoint=tmp_path / "c.thali", time_budget=120.0
    )
    assert fitted.stopped_ == "interrupted"
    assert len(written) == 4  # and one more with what there was at the end


def test_ctrl_c_keeps_what_was_computed(X, monkeypatch):
    fitted = model(sweeps=10**6, burn_in=3, init="prior")
    stopped_at(fitted, 100, monkeypatch, X)
    assert fitted.posterior_.posterior.sizes["draw"] >= 1


def test_ctrl_c_between_two_steps_of_the_main_thread_is_not_lost(X, monkeypatch):
    """Where nothing would catch a KeyboardInterrupt: chains have been driven, nothing is kept."""
    conclude = run_module.conclude

    def late(*arguments):
        signal.raise_signal(signal.SIGINT)
        return conclude(*arguments)

    monkeypatch.setattr(run_module, "conclude", late)
    fitted = model(sweeps=20, init="prior").fit(X)
    assert fitted.history_["log_joint"].shape[1] == 20
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_waits_for_nothing(X, monkeypatch):
    def twice(*_, **__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(run_module, "conclude", twice)
    with pytest.raises(KeyboardInterrupt):
        model(sweeps=20, init="prior").fit(X)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_is_left_alone(X, monkeypatch):
    heard, conclude = [], run_module.conclude
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))

    def late(*arguments):
        signal.raise_signal(signal.SIGINT)
        return conclude(*arguments)

    monkeypatch.setattr(run_module, "conclude", late)
    try:
        assert model(sweeps=20, init="prior").fit(X).stopped_ == "finished"
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


@pytest.mark.parametrize("missing", [False, True])
def test_a_stopped_run_goes_on_from_its_checkpoint_to_the_same_end(
    X, missing, tmp_path, monkeypatch
):
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X) if missing else X
    check_resuming_of_chains(
        lambda: model(sweeps=2000, init="prior"), X, tmp_path / "run.thali", monkeypatch
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": True}, "the data differs"),
        ({"sweeps": 50}, "the engine differs"),
        ({"seed": 6}, "the seed differs"),
        ({"prior": thali.IBP(alpha=1.0)}, "the model differs"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(X, tmp_path, change, words):
    path = tmp_path / "run.thali"
    model(sweeps=10**6, init="empty").fit(X, checkpoint=path, time_budget=0.2)
    other = model(sweeps=change.get("sweeps", 10**6), init="empty").set_params(
        random_state=change.get("seed", 5), prior=change.get("prior", "ibp")
    )
    with pytest.raises(ValueError, match=words):
        other.fit(X + 1.0 if "data" in change else X, checkpoint=path, resume=True)


@pytest.mark.parametrize("source", [None, np.random.RandomState(0), np.random.default_rng(0)])
def test_a_run_with_a_seed_of_its_own_is_resumed_with_it(X, tmp_path, source):
    path = tmp_path / "run.thali"
    unseeded = model(sweeps=10**6, init="empty").set_params(random_state=source)
    seed = unseeded.fit(X, checkpoint=path, time_budget=0.2).seed_
    steps = unseeded.history_["log_joint"].shape[1]
    unseeded.fit(X, checkpoint=path, resume=True, time_budget=0.2)
    assert unseeded.seed_ == seed
    assert unseeded.history_["log_joint"].shape[1] > steps


def stopped_at(fitted, steps, monkeypatch, X, **options):
    """Fit, with Ctrl-C in the given step of this call, or a little before."""
    several, seen, lock = thali.CollapsedGibbs.several, [0], threading.Lock()

    def count(*arguments, **options):
        drawn = several(*arguments, **options)
        with lock:  # chains come from threads of their own, and a second signal would end the run
            before, seen[0] = seen[0], seen[0] + len(drawn)
            last = before < steps <= seen[0]
        if last:
            signal.raise_signal(signal.SIGINT)
        return drawn

    with monkeypatch.context() as patch:
        patch.setattr(thali.CollapsedGibbs, "several", count)
        fitted.fit(X, **options)
    assert fitted.stopped_ == "interrupted"
    return fitted


def test_a_run_stopped_twice_in_burn_in_keeps_the_later_half(X, tmp_path, monkeypatch):
    path = tmp_path / "run.thali"
    fitted = model(sweeps=10**6, chains=1, init="empty")
    stopped_at(fitted, 60, monkeypatch, X, checkpoint=path)
    first = [draw.Z for draw in fitted.draws()]
    before = len(fitted.history_["log_joint"][0])
    stopped_at(fitted, 30, monkeypatch, X, checkpoint=path, resume=True)
    steps = len(fitted.history_["log_joint"][0])
    assert steps > before >= 60
    assert fitted.burn_in_ == (steps - 1) // 2
    again = [draw.Z for draw in fitted.draws()]
    assert len(again) == steps - fitted.burn_in_
    left = first[fitted.burn_in_ - (before - 1) // 2 :]  # of the draws of the first stop
    assert all(np.array_equal(a, b) for a, b in zip(left, again[: len(left)], strict=True))


def test_a_fresh_run_moves_a_checkpoint_aside_and_says_so(X, tmp_path):
    path, earlier = tmp_path / "run.thali", tmp_path / "run.previous.thali"
    fresh = model(sweeps=10**6, init="empty")
    fresh.fit(X, checkpoint=path, time_budget=0.2)
    before = path.read_bytes()
    with pytest.warns(UserWarning, match=r"kept as .*run\.previous\.thali") as warned:
        fresh.fit(X, checkpoint=path, time_budget=0.2)
    assert warned[0].filename == __file__
    assert earlier.read_bytes() == before
    fresh.fit(X, checkpoint=earlier, resume=True, time_budget=0.01)


def test_nothing_to_resume_is_said(X, tmp_path):
    with pytest.warns(UserWarning, match=r"no checkpoint .*run\.thali to resume from") as warned:
        model(sweeps=4, init="empty").fit(X, checkpoint=tmp_path / "run.thali", resume=True)
    assert warned[0].filename == __file__


def test_means_are_over_all_draws_of_chains_of_different_length():
    chains = [
        ChainTrace(["n_components", "log_joint", "alpha"], [(1.0, -1.0, a) for a in values])
        for values in ([1.0], [2.0, 3.0, 6.0])
    ]
    for chain in chains:
        for at in range(len(chain.scalars)):
            chain.kept_at.append(at)
            chain.kept.append(Kept(np.ones((1, 1), np.uint8), {}))
    parts = Model(thali.IBP(), thali.LinearGaussian())
    data = Data.of(np.ones((1, 1)))
    fit = Draws(parts, data, thali.CollapsedGibbs(), 0, tuple(chains), 0)
    assert fit.mean_hyper()["alpha"] == pytest.approx(3.0)
    assert fit.kept()["alpha"].shape == (2, 1)


def test_a_race_cut_short_leaves_no_checkpoint(X, tmp_path):
    path = tmp_path / "run.thali"
    model(sweeps=10**6).fit(X, checkpoint=path, time_budget=1e-3)
    assert not path.exists()


def test_resume_needs_a_path_and_a_folder(X, tmp_path):
    with pytest.raises(ValueError, match="needs checkpoint=path"):
        model().fit(X, resume=True)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model().fit(X, checkpoint=tmp_path / "nowhere" / "run.thali")


def test_a_failure_in_a_chain_reaches_the_caller(X, monkeypatch):
    def fail(*_, **__):
        raise FloatingPointError("a chain failed")

    monkeypatch.setattr(thali.CollapsedGibbs, "several", fail)
    with pytest.raises(FloatingPointError, match="a chain failed"):
        model(init="empty").fit(X)


def test_progress_is_shown_when_asked_for(X, capfd):
    thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=10**6, chains=2, init="prior", burn_in=3),
        random_state=0,
        progress=True,
    ).fit(X, time_budget=3.0)
    shown = capfd.readouterr().err
    assert "sweep" in shown
    assert "log joint" in shown


def test_nothing_is_shown_otherwise(X, capfd):
    began = time.monotonic()
    model(sweeps=10**6, burn_in=3, init="prior").fit(X, time_budget=1.0)
    assert time.monotonic() - began > 0.5  # long enough that a bar would have come
    assert capfd.readouterr().err == ""


def test_sweeps_left_open_suit_the_size_of_data_and_features(X):
    """A chain gets at most so much work, and never fewer than a hundred sweeps."""
    small, large = thali.data.matrix.Data(X), thali.data.matrix.Data(np.zeros((4000, 1000)))
    engine, binary = thali.CollapsedGibbs(), Model(thali.IBP(), thali.LinearGaussian())
    assert engine.planned(binary, small, 4).sweeps == 1000
    assert engine.planned(binary, large, 10).sweeps == 1000
    assert 100 < engine.planned(binary, large, 60).sweeps < 1000
    assert engine.planned(binary, large, 500).sweeps == 100
    assert thali.CollapsedGibbs(sweeps=7).planned(binary, large, 500).sweeps == 7
    late = thali.CollapsedGibbs(burn_in=2000).planned(binary, large, 500)
    assert late.sweeps > late.burned == 2000
    with pytest.raises(ValueError, match="give sweeps to fix it"):
        engine.kept  # noqa: B018


@pytest.mark.parametrize("init", ["race", "empty"])
def test_a_run_with_sweeps_left_open_plans_them_from_the_features_it_finds(X, monkeypatch, init):
    from thali.engines import chain_settings

    def fit(cores=None):
        if cores:
            monkeypatch.setattr(run_module, "cores", lambda: cores)
            monkeypatch.setattr(run_module, "SLICE", 0.0)
        return model(sweeps=None, chains=2, init=init).fit(X)

    monkeypatch.setattr(chain_settings, "WORK", 4e6)
    monkeypatch.setattr(chain_settings, "LITTLE_WORK", 0.0)  # whether starts agree or not
    fitted = fit()
    most = fitted.history_["n_components"][:, run_module.LOOK - 1].max()
    planned = fitted.engine.planned(fitted.fit_.model, fitted.fit_.data, int(most)).sweeps
    assert 100 < planned < 1000
    assert fitted.history_["n_components"].shape == (2, planned)
    assert fitted.burn_in_ == planned // 2
    assert fitted.engine_.sweeps == planned
    assert fitted.posterior_.posterior.sizes["draw"] == planned - planned // 2
    assert np.array_equal(fitted.history_["log_joint"], fit(cores=1).history_["log_joint"])


def test_a_run_with_sweeps_left_open_resumes_to_the_same_draws(X, tmp_path, monkeypatch):
    """Stopped once before and once after the number of sweeps is known."""
    from thali.engines import chain_settings

    monkeypatch.setattr(chain_settings, "WORK", 4e6)
    monkeypatch.setattr(chain_settings, "LITTLE_WORK", 0.0)  # whether starts agree or not
    path = tmp_path / "c.thali"
    whole = model(sweeps=None, chains=2, init="empty").fit(X)
    for stop_at in (60, 170):  # steps of both chains together
        part = model(sweeps=None, chains=2, init="empty")
        stopped_at(part, stop_at, monkeypatch, X, checkpoint=path, resume=path.exists())
    again = model(sweeps=None, chains=2, init="empty").fit(X, checkpoint=path, resume=True)
    for name, values in whole.history_.items():
        assert np.array_equal(values, again.history_[name])
    assert np.array_equal(whole.Z_, again.Z_)


def test_weights_of_some_draws_sum_to_one():
    X = thali.datasets.images(n=20, random_state=0).X
    for engine in (thali.CollapsedGibbs(sweeps=40, chains=2), thali.ParticleFilter(n_particles=50)):
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
        ).fit(X)
        for most in (None, 7, 10_000):
            assert sum(draw.weight for draw in model.draws(most)) == pytest.approx(1.0)
        assert len(list(model.draws(7))) == 7
        assert not list(model.draws(0))


def test_writing_to_a_draw_does_not_change_the_fit():
    X = np.abs(np.random.default_rng(0).normal(size=(12, 4)))
    engine = thali.UncollapsedGibbs(sweeps=10, chains=1, init="columns")
    model = thali.LatentFeatures("ibp", "nonnegative_linear_gaussian", engine, random_state=0)
    before = model.fit(X).score(X)
    for draw in model.draws():
        draw.A[:] = 0.0
        for value in draw.parameters.values():
            value[:] = 0.0
    assert model.score(X) == before


def test_an_ascent_stopped_in_a_move_goes_on_where_it_was(X, tmp_path, monkeypatch):
    """A stop is no sign that nothing is left to gain, and no resumed step is cut short."""
    from thali.engines.ascent.optimizer import Optimizer

    def fitted(**options):
        engine = thali.Variational(n_init=1, init="prior", max_iter=60)
        return thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0
        ).fit(X, **options)

    whole, move, path = fitted(), Optimizer._move, tmp_path / "v.thali"

    def interrupted(self, rng, state):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.3)  # for the loop to see it
        return move(self, rng, state)

    with monkeypatch.context() as patch:
        patch.setattr(Optimizer, "_move", interrupted)
        assert fitted(checkpoint=path).stopped_ == "interrupted"
    again = fitted(checkpoint=path, resume=True)
    assert np.array_equal(whole.history_["elbo"], again.history_["elbo"])


def test_kept_draws_do_not_hold_on_to_what_a_call_made(X):
    fitted = model(sweeps=40, chains=1, init="empty", thin=8).fit(X)
    assert all(kept.packed.base is None for kept in fitted.fit_.chains[0].kept)
