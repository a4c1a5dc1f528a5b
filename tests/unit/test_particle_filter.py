"""The particle filter: its kernels against plain NumPy, its results, stops, files and refusals."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from oracles import features as oracle

import thali
from thali import datasets
from thali.cli import run as thali_command
from thali.data import Data
from thali.engines import particle_filter as engine_module
from thali.engines.filtering import particles as particles_module
from thali.engines.filtering.genealogy import Genealogy, parents_of, systematic
from thali.engines.filtering.particles import no_proposals
from thali.kernels import particle_rows as kernel
from thali.likelihoods.gaussian_scales import LEAST
from thali.model import Model
from thali.results.fit import WeightedDraws
from thali.starts import empty_start


@pytest.fixture(scope="module")
def X():
    return datasets.images(n=25, random_state=0).X


@pytest.fixture(scope="module")
def fitted(X):
    engine = thali.ParticleFilter(n_particles=100)
    return thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)


def same(one, other):
    pairs = zip(one.draws(), other.draws(), strict=True)
    return all((a.Z.tolist(), a.weight) == (b.Z.tolist(), b.weight) for a, b in pairs)


# ---- kernels ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain():
    """The NumPy filter of the benchmarks, which shares no code with the library."""
    path = Path(__file__).parents[2] / "benchmarks" / "numpy_filter.py"
    spec = importlib.util.spec_from_file_location("thali_numpy_filter", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("sigma_x", [0.6, 0.15])
def test_proposals_weights_and_changes_are_those_of_plain_numpy(plain, rng, sigma_x):
    """Forty rows of six particles without resampling, from the same uniform numbers."""
    X = (rng.random((40, 3)) < 0.4) @ rng.normal(size=(3, 5)) + sigma_x * rng.normal(size=(40, 5))
    data = Data.of(X)
    numbers = plain.Numbers(1.3, sigma_x, 0.9)
    model = Model(thali.IBP(1.3), thali.LinearGaussian(sigma_x, 0.9))
    engine = thali.ParticleFilter(n_particles=6)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    none = np.zeros((0, 0))
    theirs = [plain.Particle([], np.zeros(0), none, np.zeros((0, 5))) for _ in range(6)]
    for n, x in enumerate(X):
        laws = state.row_numbers()
        u = rng.random((6, state.particles.m.shape[1] + 1))
        ours = no_proposals(state.particles)
        x2 = float(data.squares[n])
        kernel.propose(state.particles, laws, x, x2, u, True, ours, 0, 6)
        ours = state.make_room(ours)
        for p, other in enumerate(theirs):
            z, new, weight = plain.propose(u[p], other, x, n + 1, numbers)
            assert (ours.z[p, : len(z)] == z).all()
            assert ours.new[p] == new
            assert ours.log_weight[p] == pytest.approx(weight, rel=1e-8, abs=1e-8)
            plain.extend(other, x, z, new, numbers)
            other.M, other.mu = afresh(other.Z, X[: n + 1], numbers.r)
        kernel.extend(state.particles, laws, x, x2, ours, 0, 6)
        state.row += 1
    for p, other in enumerate(theirs):
        k = int(state.particles.k[p])
        largest = np.abs(other.M).max(initial=0.0)
        assert np.allclose(state.particles.M[p, :k, :k], other.M, rtol=1e-8, atol=1e-8 * largest)
        assert np.allclose(state.particles.G[p, :k, :k], other.mu @ other.mu.T, atol=1e-8)
        assert (state.particles.m[p, :k] == other.m).all()


def afresh(rows, X, r):
    """M and μ of all rows, inverted from scratch."""
    Z = np.zeros((len(rows), len(rows[-1])))
    for i, row in enumerate(rows):
        Z[i, : len(row)] = row
    M = np.linalg.inv(Z.T @ Z + r * np.eye(Z.shape[1]))
    return M, M @ Z.T @ X


def test_the_prior_proposal_weighs_by_the_predictive_density(rng):
    X = rng.normal(size=(12, 3))
    data = Data.of(X)
    model = Model(thali.TwoParameterIBP(1.3, 0.7), thali.LinearGaussian(0.8, 0.9))
    way = {"proposal": "prior", "resample_below": 0.0, "rejuvenate": 0}
    engine = thali.ParticleFilter(n_particles=40, **way)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    for _ in range(engine.steps(data)):
        engine.step(rng, model, data, state)
    found = engine.population(rng, model, data, state)
    # without resampling, and with rows as they came, a weight is the likelihood of the particle's Z
    logs = np.array(
        [
            model.likelihood.log_marginal(X, np.unpackbits(Z, axis=0, count=12).astype(bool))
            for Z in found.packed
        ]
    )
    assert np.allclose(np.log(found.weights) + found.log_evidence + np.log(40), logs, atol=1e-8)


def test_scales_far_apart_lose_no_digits(rng):
    """σ_x/σ_a = 10⁻⁵: a new dish has M = 10¹⁰ before its row and about one after."""
    X = (rng.random((60, 4)) < 0.4) @ rng.normal(size=(4, 6)) + 1e-5 * rng.normal(size=(60, 6))
    data = Data.of(X)
    model = Model(thali.IBP(1.0), thali.LinearGaussian(1e-5, 1.0))
    engine = thali.ParticleFilter(n_particles=20)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    for _ in range(59):
        engine.step(rng, model, data, state)
    for p in range(20):
        k = int(state.particles.k[p])
        C = state.particles.C[p, :k, :k]
        exact = np.linalg.inv(C + 1e-10 * np.eye(k))
        error = np.abs(state.particles.M[p, :k, :k] - exact).max()
        assert error < 1e-5 * np.abs(exact).max()


# ---- resampling and ancestry ------------------------------------------------------------------


def test_systematic_resampling_is_unbiased_and_near_its_weights(rng):
    weights = rng.dirichlet(np.ones(7))
    counts = np.array([systematic(u, weights, 20) for u in (np.arange(2000) + 0.5) / 2000])
    assert (counts.sum(axis=1) == 20).all()
    assert (np.abs(counts - 20 * weights) < 1.0).all()
    assert np.allclose(counts.mean(axis=0), 20 * weights, atol=2e-3)


def test_survivors_stay_and_the_others_get_copies(rng):
    counts = systematic(rng.random(), rng.dirichlet(np.full(30, 0.2)), 30)
    parents = parents_of(counts)
    assert (np.bincount(parents, minlength=30) == counts).all()
    assert (parents[counts > 0] == np.flatnonzero(counts > 0)).all()


def test_ancestry_gives_back_every_row(rng):
    family, whole = Genealogy(), np.zeros((5, 0, 9), bool)
    for n in range(12):
        z = rng.random((5, 9)) < 0.5
        z[:, 4 + n // 3 :] = False
        family.record(z)
        whole = np.concatenate([whole, z[:, None]], axis=1)
        if n % 2:
            parents = rng.integers(5, size=5)
            family.resampled(parents)
            whole = whole[parents]
    back = Genealogy.from_arrays(family.to_arrays())
    for found in (family, back):
        matrices = list(found.matrices(np.full(5, 7), np.arange(5)))
        for Z, truth in zip(matrices, whole, strict=True):
            assert (np.unpackbits(Z, axis=0, count=12) == truth[:, :7]).all()


# ---- scales -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::thali.NoiseCollapsed")
def test_the_law_of_the_noise_is_cut_off_where_the_samplers_cut_it(rng):
    """Data without noise, which draw σ_x down as far as it may go."""
    X = (rng.random((30, 2)) < 0.5) @ rng.normal(size=(2, 4))
    likelihood = thali.LinearGaussian(thali.InverseGamma(1.0, 1e-14), thali.InverseGamma(2.0, 1.0))
    engine = thali.ParticleFilter(n_particles=60)
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False).fit(X)
    least = LEAST * np.sqrt(np.mean(X**2))
    for draw in model.draws():
        assert draw.sigma_x >= max(least, LEAST * draw.sigma_a)
    assert min(draw.sigma_x for draw in model.draws()) < 10.0 * least


def test_a_weight_that_is_not_a_number_is_an_error_unless_its_particle_is_dead(rng):
    model = Model(thali.IBP(1.0), thali.LinearGaussian(0.5, 1.0))
    data = Data.of(rng.normal(size=(5, 2)))
    engine = thali.ParticleFilter(n_particles=4)
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    proposals = no_proposals(state.particles)
    proposals.log_weight[2] = np.nan
    with pytest.raises(FloatingPointError, match=r"row 0 is not a number at sigma_x=0\.5"):
        state.make_room(proposals)
    state.log_weights[2] = -np.inf
    assert state.make_room(proposals).log_weight[2] == -np.inf


# ---- results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("prior", [thali.IBP(), thali.BetaBernoulli(n_components=5)])
def test_every_particle_reports_its_left_ordered_log_joint(X, prior, passes):
    engine = thali.ParticleFilter(n_particles=20, passes=passes)
    model = thali.LatentFeatures(
        prior, likelihood="linear_gaussian", engine=engine, random_state=1, progress=False
    ).fit(X)
    draws = list(model.draws())
    for draw in draws:
        hyper = {"sigma_x": draw.sigma_x, "sigma_a": draw.sigma_a}
        fixed = Model(model.prior_.at(alpha=draw.alpha), model.likelihood_.at(**hyper))
        assert fixed.log_joint(X, draw.Z) == pytest.approx(draw.log_joint, rel=1e-9)
    assert model.best_.log_joint == max(draw.log_joint for draw in draws)
    assert sum(draw.weight for draw in draws) == pytest.approx(1.0)
    assert np.allclose([draw.weight for draw in draws], model.weights_)
    mean = sum(draw.weight * draw.sigma_x for draw in draws)
    assert model.sigma_x_ == pytest.approx(mean)


def test_a_weighted_result_has_no_arviz_posterior_and_no_rhat(fitted):
    with pytest.raises(ValueError, match="weighted, not draws of a chain"):
        fitted.posterior_  # noqa: B018
    assert isinstance(fitted.fit_, WeightedDraws)
    assert np.isnan(fitted.diagnostics_["alpha"]["rhat"])
    assert 1.0 <= fitted.diagnostics_["alpha"]["ess"] <= 100.0
    assert np.isfinite(fitted.log_evidence_)


def test_a_fixed_number_stays_exactly_what_it_was(X):
    likelihood = thali.LinearGaussian(sigma_x=0.3, sigma_a=0.7)
    engine = thali.ParticleFilter(n_particles=30)
    model = thali.LatentFeatures(thali.IBP(0.9), likelihood, engine, random_state=0).fit(X)
    assert (model.alpha_, model.sigma_x_, model.sigma_a_) == (0.9, 0.3, 0.7)


def test_plots_report_score_and_files_know_weighted_draws(fitted, X, tmp_path):
    assert len(fitted.plot().axes) > 3
    text = fitted.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "of equal weight at the last row" in text
    assert np.isfinite(fitted.score(X))
    fitted.save(tmp_path / "m.thali")
    back = thali.load(tmp_path / "m.thali")
    assert same(fitted, back)
    assert back.log_evidence_ == fitted.log_evidence_
    assert (back.Z_ == fitted.Z_).all()
    assert back.engine_ == fitted.engine_


def test_the_number_of_threads_changes_nothing(X, monkeypatch):
    def fit():
        engine = thali.ParticleFilter(n_particles=150, passes=2)
        return thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=3, progress=False
        ).fit(X)

    many = fit()
    monkeypatch.setattr(particles_module, "cores", lambda: 1)
    assert same(many, fit())


# ---- stops and checkpoints --------------------------------------------------------------------


def stop_at(monkeypatch, step):
    """Let the filter's step number ``step`` ask the loop to stop, as Ctrl-C does."""
    from thali.run import loop as run

    loops, taken = [], []
    begin, advance = run._Loop.begin, thali.ParticleFilter.step

    def keep(loop, *arguments):
        loops.append(loop)
        return begin(loop, *arguments)

    def count(*arguments):
        taken.append(None)
        if len(taken) == step:
            loops[-1].halt("interrupted")
        return advance(*arguments)

    monkeypatch.setattr(run._Loop, "begin", keep)
    monkeypatch.setattr(thali.ParticleFilter, "step", count)


@pytest.mark.parametrize("step", [1, 9, 24])
def test_a_stopped_filter_goes_through_the_other_rows_with_a_few(X, monkeypatch, step):
    stop_at(monkeypatch, step)
    monkeypatch.setattr(engine_module, "A_MOMENT", 60.0)
    engine = thali.ParticleFilter(n_particles=100)
    part = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)
    assert part.stopped_ == "interrupted"
    assert len(part.weights_) <= engine_module.FEWEST
    assert part.Z_.shape[0] == len(X)
    assert np.isfinite(part.log_evidence_)


@pytest.mark.parametrize("prior", [thali.IBP(), thali.BetaBernoulli(n_components=5)])
def test_a_filter_stopped_for_good_codes_the_other_rows(prior, monkeypatch):
    X = datasets.images(n=60, random_state=0).X
    stop_at(monkeypatch, 30)
    monkeypatch.setattr(engine_module, "A_MOMENT", 0.0)
    engine = thali.ParticleFilter(n_particles=100)
    part = thali.LatentFeatures(
        prior, likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)
    assert len(part.weights_) <= engine_module.CODED
    assert np.isnan(part.log_evidence_)
    for draw in part.draws():
        marginal = oracle.log_marginal(X, draw.Z, draw.sigma_x, draw.sigma_a)
        own = part.fit_.model.prior_at({"alpha": draw.alpha}).log_prob(draw.Z)
        assert np.isclose(draw.log_joint, own + marginal)
    # given the features of thirty images the others are explained, and not left without
    assert part.Z_[40:].any(axis=1).mean() > 0.8
    residual = X - part.Z_ @ part.components_
    assert np.square(residual[40:]).mean() < 0.5 * np.square(X[40:]).mean()
    assert "stopped" in part.convergence().headline


@pytest.mark.parametrize("step", [1, 2])
def test_a_filter_stopped_at_once_has_an_answer(step, monkeypatch):
    X = np.random.default_rng(0).normal(size=(12, 3))
    stop_at(monkeypatch, step)
    monkeypatch.setattr(engine_module, "A_MOMENT", 0.0)
    engine = thali.ParticleFilter(n_particles=20)
    parts = {"prior": thali.IBP(alpha=1e-6), "likelihood": thali.LinearGaussian(1.0, 1.0)}
    part = thali.LatentFeatures(**parts, engine=engine, random_state=0, progress=False).fit(X)
    assert part.Z_.shape == (12, 0)
    assert np.isfinite(part.log_joint_)


def test_scales_may_wander_far_where_nothing_holds_them():
    """Without a feature only its hyperprior speaks of sigma_a, and a flat one speaks softly."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    likelihood = thali.LinearGaussian(sigma_x=1.0, sigma_a=thali.Gamma(0.01, 0.01))
    engine = thali.ParticleFilter(n_particles=300, resample_below=1.0)
    model = thali.LatentFeatures(
        thali.IBP(alpha=1e-3), likelihood, engine, random_state=0, progress=False
    ).fit(X)
    assert np.isfinite(model.log_evidence_)


@pytest.mark.parametrize("step", [11, 26])  # among the rows, and after the first sweep
def test_a_stopped_filter_resumed_ends_as_one_never_stopped(X, tmp_path, monkeypatch, step):
    engine = thali.ParticleFilter(n_particles=70, passes=3)
    whole = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)
    path = tmp_path / "c.thali"
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        part = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
        )
        part.fit(X, checkpoint=path)
        assert part.stopped_ == "interrupted"
    rest = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    rest.fit(X, checkpoint=path, resume=True)
    assert rest.stopped_ == "finished"
    assert same(whole, rest)
    assert rest.log_evidence_ == whole.log_evidence_


# ---- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_particles": 0}, "particles must be at least 1"),
        ({"passes": 0}, "passes must be at least 1"),
        ({"rejuvenate": -1}, "rejuvenate must be at least 0"),
        ({"proposal": "posterior"}, "proposal must be 'conditional' or 'prior'"),
        ({"resample_below": 1.5}, "share between 0 and 1"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        thali.ParticleFilter(**settings)


def test_scales_that_cannot_make_the_data_are_refused_with_the_row(rng):
    X = 1e3 * rng.normal(size=(6, 4))
    likelihood = thali.LinearGaussian(sigma_x=1e-2, sigma_a=1e-2)
    engine = thali.ParticleFilter(n_particles=20)
    with pytest.raises(ValueError, match="none of them has any weight left"):
        thali.LatentFeatures(thali.IBP(1.0), likelihood, engine, random_state=0).fit(X)


def test_more_than_memory_is_refused(monkeypatch, X):
    monkeypatch.setattr(particles_module, "physical_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="use fewer particles"):
        thali.LatentFeatures(
            likelihood="linear_gaussian", engine="particle-filter", random_state=0
        ).fit(X)


def test_the_command_line_runs_a_filter(X, tmp_path, capsys):
    path, out = tmp_path / "x.csv", tmp_path / "out"
    np.savetxt(path, X, delimiter=",", header=",".join(f"c{j}" for j in range(36)), comments="")
    options = ["--engine", "particle-filter", "--n-particles", "40", "--passes", "2", "--seed", "1"]
    assert thali_command(["fit", str(path), *options, "--out", str(out)]) == 0
    assert "Log evidence" in capsys.readouterr().out
    assert (
        "ParticleFilter(n_particles=40" in json.loads((out / "summary.json").read_text())["engine"]
    )
    assert thali_command(["show", str(out / "model.thali")]) == 0
    assert thali_command(["fit", str(path), *options, "--sweeps", "3", "--out", str(out)]) == 2
    assert "--sweeps belongs to --engine" in capsys.readouterr().err
