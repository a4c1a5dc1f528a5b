"""``anneal`` and ``moves`` of samplers that keep the parameters: what they refuse, what they leave
behind, and that a stop among them changes no draw."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from resuming import assert_same_draws, check_resuming, check_resuming_of_chains

import thali
from thali.data import Data
from thali.engines.ascent.point_state import PointState
from thali.model import Model
from thali.registry import LIKELIHOODS
from thali.run import loop
from thali.starts import Start, anneal

# chains so short, from the prior, may end with more features than columns, and say so
pytestmark = [
    pytest.mark.filterwarnings("ignore::thali.TooManyFeatures"),
    pytest.mark.filterwarnings("ignore::thali.TiledFactor"),
    pytest.mark.filterwarnings("ignore::thali.BurnInCutShort"),
    pytest.mark.filterwarnings("ignore::thali.TooFewDraws"),
]

X = thali.datasets.planted(n=60, d=10, k=3, random_state=0).X
ONES = (X > 0.5).astype(float)
GAPS = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
TEMPERED = {
    "linear_gaussian": X,
    "nonnegative_linear_gaussian": X,
    "sparse_factor": X,
    "noisy_or": ONES,
}
WAYS = {
    "plain": {},
    "slices": {"new_features": "slice"},
    "blocks": {"row_blocks": 2},
    "moves": {"moves": 2},
}


def kept(sweeps=12, chains=2, init="prior", anneal=25, **settings):
    return thali.UncollapsedGibbs(sweeps, chains=chains, init=init, anneal=anneal, **settings)


def unfitted(engine, likelihood="linear_gaussian"):
    return thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False)


def same(one, other):
    return all(np.array_equal(one.history_[name], other.history_[name]) for name in one.history_)


@pytest.mark.parametrize("likelihood", TEMPERED)
def test_the_way_ends_at_the_models_own_numbers(likelihood):
    """And begins where next to nothing is worth a feature, the noise falling all along."""
    data = Data.of(TEMPERED[likelihood])
    model = Model(thali.IBP(), LIKELIHOODS[likelihood]()).resolve(data)
    cold = model.own_values("likelihood", model.start(data))
    way = model.likelihood.cooling(data, cold)
    assert way(1.0) == pytest.approx(cold, rel=1e-12)
    noise = "epsilon" if likelihood == "noisy_or" else "sigma_x"
    assert (np.diff([way(share)[noise] for share in np.linspace(0.0, 1.0, 9)]) < 0.0).all()
    if likelihood == "noisy_or":
        mu, hot = (ONES.sum() + 1.0) / (ONES.size + 2.0), way(0.0)
        assert hot["lam"] ** 2 * data.d * (1.0 - mu) / mu == pytest.approx(1.0, rel=1e-9)
        assert hot["p"] == cold["p"]
    else:
        assert way(0.0)["sigma_x"] == pytest.approx(np.linalg.norm(X, 2) / np.sqrt(60), rel=1e-10)


@pytest.mark.parametrize("likelihood", TEMPERED)
@pytest.mark.parametrize("engine", [kept(), thali.Metropolis(12, chains=2, init="empty", anneal=9)])
def test_annealing_leaves_no_trace(engine, likelihood):
    """Chains are as long as asked, and their first sweeps are at the start's own numbers."""
    model = unfitted(engine, likelihood).fit(TEMPERED[likelihood])
    assert all(values.shape[:2] == (2, 12) for values in model.history_.values())
    held = "epsilon" if likelihood == "noisy_or" else "sigma_x"
    cold = model.history_[held][:, 0]
    assert (cold == cold[0]).all()  # held for the first ten sweeps
    plain = unfitted(engine.replace(anneal=0), likelihood).fit(TEMPERED[likelihood])
    assert (plain.history_[held][:, 0] == cold).all()
    assert not same(model, plain)


def test_features_go_along_with_a_start():
    """A chain goes on from the parameters that annealing led to, not from new ones."""
    data, seen = Data.of(X), []
    model = Model(thali.IBP(1.0), thali.SparseFactor("laplace", 0.3, 1.0))
    start = Start("empty", np.zeros((60, 0), bool), model.start(data))
    engine, rng = kept(init="empty"), np.random.default_rng(0)
    led = anneal(rng, engine, model, data, start, lambda: seen.append(1) or len(seen) > 20)
    assert led.latent.shape[1] > 0
    assert led.parameters.keys() == {"A", "S"}
    assert led.parameters["S"].shape == led.latent.shape
    assert led.hyper["sigma_x"] == 0.3  # though it was stopped where it was warm
    assert len(seen) == 21


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_in_the_annealing_changes_no_draw(way, tmp_path, monkeypatch):
    """There is no checkpoint yet: a run that resumes leads its starts along once more."""
    make = lambda: unfitted(kept(**WAYS[way]))  # noqa: E731
    whole = make().fit(X)
    step, seen = thali.UncollapsedGibbs.step, []

    def count(*arguments):
        seen.append(1)
        if len(seen) == 7:
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    path = tmp_path / "run.checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "cores", lambda: 1)
        patch.setattr(thali.UncollapsedGibbs, "step", count)
        part = make().fit(X, checkpoint=path)
    assert part.stopped_ == "interrupted"
    assert part.history_["log_joint"].shape[1] == 1
    assert not path.exists()
    with pytest.warns(UserWarning, match="starting afresh"):
        rest = make().fit(X, checkpoint=path, resume=True)
    assert rest.stopped_ == "finished"
    assert_same_draws(whole, rest)


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_after_the_annealing_changes_no_draw(way, tmp_path, monkeypatch):
    make = lambda: unfitted(kept(400, **WAYS[way]))  # noqa: E731
    check_resuming_of_chains(make, X, tmp_path / "run.checkpoint", monkeypatch)


def test_time_runs_out_in_the_annealing():
    model = unfitted(kept(10**6, anneal=10**6)).fit(X, time_budget=0.5)
    assert model.stopped_ == "time budget"
    assert model.history_["log_joint"].shape[1] >= 1


@pytest.mark.parametrize(
    "engine", [kept(), thali.CollapsedGibbs(12, chains=2, init="prior", anneal=25)]
)
def test_gaps_are_no_data_while_the_noise_falls(engine, monkeypatch):
    """A guess in their place is what other starts look at."""
    seen, begin = [], type(engine).begin

    def look(self, rng, model, data, start):
        seen.append(data.observed is not None)
        return begin(self, rng, model, data, start)

    monkeypatch.setattr(type(engine), "begin", look)
    unfitted(engine).fit(GAPS)
    assert seen == [True] * 4


def test_annealed_chains_end_where_plain_ones_do_not(seed):
    """From draws of the prior, on data with little noise."""
    planted = thali.datasets.planted(n=80, d=12, k=4, sigma_x=0.1, random_state=0)
    fixed, ends = thali.LinearGaussian(0.1, 1.0), {}
    for name, settings in {"annealed": {"anneal": 100}, "plain": {"anneal": 0}}.items():
        engine = kept(20 if settings["anneal"] else 120, chains=3, **settings)
        model = thali.LatentFeatures(
            thali.IBP(1.0), fixed, engine, random_state=seed, progress=False
        ).fit(planted.X)
        ends[name] = model.history_["log_joint"][:, -1]
    assert np.median(ends["annealed"]) > ends["plain"].max()


@pytest.mark.parametrize(
    ("engine", "likelihood", "words"),
    [
        (kept(), "poisson", "needs Tempered for anneal=25, which Poisson does not have"),
        (kept(), thali.LinearGaussian(noise="column"), "Tempered for anneal=25, which ColumnNoise"),
        (kept(init="race"), "sparse_factor", "with SparseFactor it begins from 'sparse_ica'; "
         "give init='prior' or 'empty'"),
        (kept(anneal=0, moves=3), "noisy_or", "GaussianRows or LatentBits for moves=3, which"),
        (kept(anneal=0, moves=3), "sparse_factor", "for moves=3, which SparseFactor does not"),
        (kept(anneal=0, moves=3), thali.LinearGaussian(1e-5, 1.0), "UncollapsedGibbs: sigma_x="),
        (thali.CollapsedGibbs(12, chains=1, init="prior", anneal=5),
         thali.LinearGaussian(noise="column"), "data in by degrees, which ColumnNoise"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(engine, likelihood, words):
    with pytest.raises(ValueError, match=words):
        unfitted(engine, likelihood).fit(np.round(np.abs(X)) if likelihood == "poisson" else ONES)


@pytest.mark.parametrize(
    "owner", [thali.UncollapsedGibbs, thali.Metropolis, thali.MaximizationExpectation]
)
def test_bad_settings_are_refused(owner):
    with pytest.raises(ValueError, match=f"{owner.__name__}: anneal melts whatever it begins from"):
        owner(anneal=3, init="ica")
    with pytest.raises(ValueError, match=f"{owner.__name__}: anneal melts"):
        owner(anneal=3, init=np.ones((3, 1), bool))
    with pytest.raises(ValueError, match="anneal must be at least 0"):
        owner(anneal=-1)


@pytest.mark.parametrize("noise", ["shared", "column"])
def test_moves_leave_features_that_belong_to_their_rows(noise):
    likelihood = thali.LinearGaussian(noise=noise)
    for data in (X, GAPS):
        model = unfitted(kept(sweeps=30, anneal=0, moves=5), likelihood).fit(data)
        for draw in model.draws():
            assert draw.A.shape == (draw.Z.shape[1], 10)
            assert draw.Z.any(axis=0).all()
        assert np.isfinite(model.history_["log_joint"]).all()


def test_a_column_split_at_random_is_joined_again(seed):
    """Given the features a chain keeps both halves; a few moves make one of them."""
    planted = thali.datasets.planted(n=200, d=30, k=3, random_state=0)
    half = np.random.default_rng(seed).random(200) < 0.5
    split = np.column_stack([planted.Z[:, :2], planted.Z[:, 2] & half, planted.Z[:, 2] & ~half])
    found = [
        unfitted(kept(60, chains=1, init=split, anneal=0, moves=moves)).fit(planted.X).n_components_
        for moves in (0, 5)
    ]
    assert found == [4, 3]


@pytest.mark.usefixtures("blank_report")
def test_the_command_line_has_them(tmp_path):
    from thali.cli import run

    path, out = tmp_path / "data.npy", tmp_path / "out"
    np.save(path, X)
    asked = ["--engine", "uncollapsed-gibbs", "--sweeps", "6", "--chains", "1", "--init", "prior"]
    new = ["--anneal", "7", "--moves", "2", "--likelihood", "linear-gaussian"]
    assert run(["fit", str(path), *asked, *new, "--out", str(out), "--quiet"]) == 0
    engine = thali.load(out / "model.thali").engine_
    assert (engine.anneal, engine.moves) == (7, 2)


# ---- hard assignments ----------------------------------------------------------------------------
@pytest.mark.parametrize("likelihood", ["linear_gaussian", "nonnegative_linear_gaussian"])
@pytest.mark.parametrize("data", [X, GAPS], ids=["complete", "gaps"])
def test_the_bound_rises_at_every_noise(likelihood, data, monkeypatch):
    """In the annealing the bound is that at the noise of its time, and no change lowers it; then it
    is that of the model, and rises all along."""
    noises = []

    def watched(change):
        def made(*arguments):
            state = arguments[-1]
            before = state.reported
            assert state.bound == pytest.approx(state.value(state.found), rel=1e-12)
            found = change(*arguments)
            assert state.reported >= before - 1e-9 * abs(before)
            noises.append(state.sigmas[0])
            return found

        return made

    engine = thali.MaximizationExpectation(n_init=1, init="prior", anneal=12, max_iter=40)
    annealed = thali.MaximizationExpectation.annealed

    def watching(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(PointState, "advance", watched(PointState.advance))
            move = thali.MaximizationExpectation._move
            patch.setattr(thali.MaximizationExpectation, "_move", watched(move))
            return annealed(*arguments)

    monkeypatch.setattr(thali.MaximizationExpectation, "annealed", watching)
    model = unfitted(engine, likelihood).fit(data)
    assert len(noises) == 24
    assert len(set(noises)) == 12
    assert noises == sorted(noises, reverse=True)
    bounds = model.history_["elbo"][0]
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert model.history_["sigma_x"][0, 0] == noises[-1]  # held at first, where the start has it
    assert model.n_components_ > 0


def test_a_stop_after_the_annealing_changes_no_answer(tmp_path, monkeypatch):
    make = lambda: unfitted(  # noqa: E731
        thali.MaximizationExpectation(n_init=2, init="prior", anneal=6, max_iter=30)
    )
    check_resuming(make, X, tmp_path / "run.checkpoint", monkeypatch, at=3)


@pytest.mark.parametrize("likelihood", ["linear_gaussian", "sparse_factor"])
def test_variational_inference_is_annealed_where_entries_are_missing(likelihood):
    engine = thali.Variational(truncation=6, n_init=1, init="prior", anneal=8, max_iter=30)
    model = unfitted(engine, likelihood).fit(GAPS)
    bounds = model.history_["elbo"][0]
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert model.n_components_ > 0
