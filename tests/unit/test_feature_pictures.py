"""Pictures of column sums, row sums, potentials and the memory of chains tell the right numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pictured import drawn, no_features
from row_weighted import RowWeighted
from scipy.stats import binom, poisson
from sklearn.exceptions import NotFittedError

import thali
from thali import plots
from thali.evaluation import autocorrelation_time
from thali.plots import counts, feature_reading
from thali.priors.feature_sums import expected_sums
from thali.report import write_report

SUMS = ("column_sum_counts", "row_sum_counts", "feature_potentials")
N = 12
THETA = (0.0, 0.4, -0.3, -0.6)


def fitted(prior: Any = None, n: int = N, sweeps: int = 40, **options: Any) -> thali.LatentFeatures:
    options = {"engine": thali.CollapsedGibbs(sweeps=sweeps, chains=2), **options}
    options.setdefault("likelihood", "linear_gaussian")
    model = thali.LatentFeatures(
        prior=prior or thali.IBP(), random_state=0, progress=False, **options
    )
    return model.fit(thali.datasets.images(n=n, random_state=0).X)


@pytest.fixture(scope="module")
def buffet() -> thali.LatentFeatures:
    return fitted()


@pytest.fixture(scope="module")
def weighing() -> thali.LatentFeatures:
    """Its rows have a say, a weak one."""
    return fitted(thali.FlexibleIBP.from_expectations(1.0 / np.arange(1, 5), 4, THETA), n=4)


@pytest.fixture(scope="module")
def partition() -> thali.LatentPartition:
    engine = thali.CollapsedGibbs(sweeps=40, chains=2)
    X = np.random.default_rng(0).normal(size=(20, 2)) + 4.0 * (np.arange(20) % 2)[:, None]
    return thali.LatentPartition(engine=engine, random_state=0, progress=False).fit(X)


def notes(ax: Axes) -> str:
    return " ".join([*(text.get_text() for text in ax.texts), ax.get_title(loc="right")])


# what a prior expects ----------------------------------------------------------------------------

PRIORS = {  # that have few features, since matrices of many are not summed
    "one": thali.IBP(0.3),
    "two": thali.TwoParameterIBP(0.3, 2.5),
    "finite": thali.BetaBernoulli(0.8, 3),
    "smooth": thali.SmoothIBP(0.2, 0.4, 0.5),
    "learned": thali.LearnedIBP(0.3),
    "flexible": thali.FlexibleIBP((-3.0, -2.5, -np.inf)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_sums_of_priors_are_those_of_their_log_probabilities(name: str) -> None:
    """E[m_i] and P(F = j) of three rows by summing e^{log P} over all matrices of few columns."""
    prior, n, most = PRIORS[name], 3, 6
    prior = prior.at(**prior.start())
    columns, rows, total = np.zeros(n), np.zeros(3 * most), 0.0
    histories = [h for h in product((0, 1), repeat=n) if any(h)]
    for times in product(range(most + 1), repeat=len(histories)):
        if sum(times) > most:
            continue
        Z = np.repeat(np.array(histories), times, axis=0).T.reshape(n, -1)
        chance = np.exp(prior.log_prob(Z))
        total += chance
        columns += chance * np.bincount(Z.sum(axis=0), minlength=n + 1)[1:]
        rows += chance * np.bincount(Z.sum(axis=1), minlength=len(rows)) / n
    found = expected_sums(prior, n)
    assert found is not None
    assert not found.estimated
    assert total == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(found.columns, columns, atol=1e-4)
    np.testing.assert_allclose(found.rows, rows[: len(found.rows)], atol=1e-4)


def test_sums_beside_row_potentials_are_those_of_draws(rng: np.random.Generator) -> None:
    prior = thali.FlexibleIBP.from_expectations([1.0, 0.7, 0.4], 3, THETA)
    found = expected_sums(prior, 3)
    assert found is not None
    assert found.estimated
    np.testing.assert_allclose(found.columns, [1.0, 0.7, 0.4], atol=0.05)
    drawn = [prior.sample(rng, 3).sum(axis=1) for _ in range(6000)]
    rows = np.mean([np.bincount(sums, minlength=40) for sums in drawn], axis=0) / 3
    np.testing.assert_allclose(found.rows[:5], rows[:5], atol=0.03)


@pytest.mark.parametrize(
    "prior",
    [
        thali.FlexibleIBP.from_expectations([0.3], 8).replace(row_potentials=(-1e6, 0.0)),
        thali.FlexibleIBP.from_expectations(1.0 / np.arange(1, 41), 40).replace(
            row_potentials=tuple(5.0 * np.array(THETA))
        ),
        thali.SmoothIBP(1.0, -900.0),
    ],
    ids=["no row is empty", "far", "without end"],
)
def test_what_cannot_be_told_is_not(prior: Any) -> None:
    assert expected_sums(prior, prior.rows_described or 8) is None


def test_a_finite_prior_with_row_potentials_is_not_told() -> None:
    assert expected_sums(RowWeighted(1.0, THETA, n_components=4), 3) is None
    assert expected_sums(RowWeighted(1.0, THETA), 3) is not None


# pictures ----------------------------------------------------------------------------------------


def test_column_sums_of_the_buffet_process_fall_as_one_over_i(buffet: thali.LatentFeatures) -> None:
    line, dots = plots.column_sum_counts(buffet).get_lines()
    alpha = np.mean([draw.alpha for draw in buffet.draws()])
    np.testing.assert_allclose(line.get_xdata(), np.arange(1, N + 1))
    np.testing.assert_allclose(line.get_ydata(), alpha / np.arange(1, N + 1))
    drawn = [np.bincount(draw.Z.sum(axis=0), minlength=N + 1)[1:] for draw in buffet.draws()]
    mean = np.mean(drawn, axis=0)
    np.testing.assert_allclose(dots.get_xdata(), 1 + np.flatnonzero(mean))
    np.testing.assert_allclose(dots.get_ydata(), mean[mean > 0])


def test_row_sums_of_the_buffet_process_are_poisson(buffet: thali.LatentFeatures) -> None:
    ax = plots.row_sum_counts(buffet)
    (line,) = ax.get_lines()
    alpha = np.mean([draw.alpha for draw in buffet.draws()])
    np.testing.assert_allclose(line.get_ydata(), N * poisson.pmf(line.get_xdata(), alpha))
    drawn = [np.bincount(draw.Z.sum(axis=1), minlength=40) for draw in buffet.draws()]
    bars = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(bars, np.mean(drawn, axis=0)[: len(bars)])
    assert sum(bars) == pytest.approx(N)


def test_rows_of_a_finite_prior_are_binomial() -> None:
    model = fitted(thali.BetaBernoulli(alpha=2.0, n_components=5))
    (line,) = plots.row_sum_counts(model).get_lines()
    j = np.arange(6)
    expected = np.append(N * binom.pmf(j, 5, 0.4 / 1.4), np.zeros(40))[: len(line.get_ydata())]
    np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-9)


@pytest.mark.parametrize(
    "prior", [thali.SmoothIBP(), thali.LearnedIBP(), thali.FlexibleIBP((-3.0,) * N)]
)
def test_column_sums_of_flexible_priors_are_their_expected_counts(prior: Any) -> None:
    model = fitted(prior)
    at = model.fit_.model.prior_at(model.fit_.mean_hyper())
    line = plots.column_sum_counts(model).get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), at.expected_counts(N), rtol=1e-9)


def test_potentials_tell_the_odds_against_the_buffet_process() -> None:
    prior = thali.FlexibleIBP.from_expectations(np.linspace(0.1, 0.5, N), N)
    model = fitted(prior)
    found = feature_reading.potentials(model)
    assert found is not None
    assert found.rows is None
    buffet = thali.IBP(found.mass)
    for Z in (model.Z_, np.ones((N, 2)), np.eye(N)):
        odds = (found.own - np.log(found.mass))[Z.sum(axis=0).astype(int) - 1].sum()
        assert odds == pytest.approx(prior.log_prob(Z) - buffet.log_prob(Z))
    own, dashed = plots.feature_potentials(model).get_lines()
    np.testing.assert_array_equal(own.get_ydata(), found.own)
    np.testing.assert_allclose(dashed.get_ydata(), np.log(found.mass))


def test_a_buffet_process_in_potentials_lies_on_its_own_line(buffet: thali.LatentFeatures) -> None:
    found = feature_reading.potentials(buffet)
    assert found is not None
    np.testing.assert_allclose(found.own, np.log(found.mass), atol=1e-9)
    low, high = plots.feature_potentials(buffet).get_ylim()
    assert high - low >= counts.LEAST_SPAN  # rounding is not blown up


def test_row_potentials_are_drawn_beside(weighing: thali.LatentFeatures) -> None:
    left, right = plots.feature_potentials(weighing).child_axes
    assert len(left.get_lines()) == 2
    shown = right.get_lines()[0].get_ydata()
    np.testing.assert_array_equal(shown[:4], THETA)
    assert (shown[4:] == THETA[-1]).all()
    assert "estimated" in notes(plots.column_sum_counts(weighing))
    assert "estimated" in notes(plots.row_sum_counts(weighing))


def test_where_the_prior_is_not_known_pictures_say_so(tmp_path: Path) -> None:
    theta = tuple(5.0 * np.array(THETA))
    prior = thali.FlexibleIBP.from_expectations(1.0 / np.arange(1, 31), 30)
    model = fitted(prior.replace(row_potentials=theta), n=30, sweeps=20)
    for name in SUMS[:2]:
        assert "not known" in notes(getattr(plots, name)(model))
    assert not plots.row_sum_counts(model).get_lines()
    assert "is not known" in write_report(model, tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_finite_prior_has_no_potentials_of_its_own() -> None:
    model = fitted(thali.BetaBernoulli())
    assert "not given by" in plots.feature_potentials(model).texts[0].get_text()


@pytest.mark.parametrize("engine", ["variational", thali.BeamSearch(width=5), "particle_filter"])
def test_other_engines_have_sums_and_no_chains(engine: Any) -> None:
    model = fitted(engine=engine)
    for name in SUMS:
        assert drawn(getattr(plots, name)(model))
    assert ("the answer" in notes(plots.row_sum_counts(model))) == (
        type(model.fit_).__name__ == "PointFit"
    )
    assert "no chains" in plots.autocorrelation(model).texts[0].get_text()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n: int, tmp_path: Path) -> None:
    model = fitted(n=n)
    for name in (*SUMS, "autocorrelation"):
        assert drawn(getattr(plots, name)(model))
    assert write_report(model, tmp_path / "r.html").exists()


def test_no_features_leave_the_prior() -> None:
    model = no_features()
    for name in SUMS:
        assert drawn(getattr(plots, name)(model))
    assert "never changes" in plots.autocorrelation(model).texts[0].get_text()


def test_many_dots_become_means_of_neighbors() -> None:
    values = np.random.default_rng(0).random(5000)
    i, means = counts._thinned(values, 300)
    assert len(i) <= 300
    assert i[0] == 1
    assert means[0] == values[0]
    assert means[-1] == pytest.approx(values[int(np.ceil(i[-1])) :].mean(), abs=0.1)
    ax = Figure().subplots()
    counts.draw(ax, None, values)
    assert drawn(ax)


@pytest.mark.parametrize("name", SUMS)
def test_they_use_given_axes_and_refuse_what_has_no_features(
    buffet: thali.LatentFeatures, partition: thali.LatentPartition, name: str
) -> None:
    ax = Figure().subplots()
    assert getattr(plots, name)(buffet, ax) is ax
    assert drawn(ax)
    with pytest.raises(NotFittedError):
        getattr(plots, name)(thali.LatentFeatures(likelihood="linear_gaussian"))
    with pytest.raises(TypeError, match=f"{name} is a picture of features.* LatentPartition"):
        getattr(plots, name)(partition)


# how long chains remember ------------------------------------------------------------------------


def remembering(rng: np.random.Generator, phi: float, chains: int, draws: int) -> np.ndarray:
    """v_t = φ v_{t−1} + noise, stationary from the start."""
    values = rng.normal(size=(chains, draws))
    values[:, 0] /= np.sqrt(1.0 - phi**2)
    for t in range(1, draws):
        values[:, t] += phi * values[:, t - 1]
    return values


def with_chains(model: thali.LatentFeatures, values: np.ndarray) -> thali.LatentFeatures:
    """The model as if its first scalar had gone so, without burn-in."""
    fit = model.fit_
    rest = fit.chains[0].scalars[0][1:]
    chains = [
        replace(chain, scalars=[(value, *rest) for value in own])
        for chain, own in zip(fit.chains, values.tolist(), strict=True)
    ]
    other = thali.LatentFeatures(likelihood="linear_gaussian")
    fit = replace(fit, chains=tuple(chains), burn_in=0)
    other.__dict__ |= model.__dict__ | {"fit_": fit, "history_": fit.history()}
    return other


def test_the_autocorrelation_of_a_known_chain(
    buffet: thali.LatentFeatures, rng: np.random.Generator
) -> None:
    phi = 0.8
    values = remembering(rng, phi, 2, 20_000)
    tau = autocorrelation_time(values)
    assert tau == pytest.approx((1 + phi) / (1 - phi), rel=0.15)
    ax = plots.autocorrelation(with_chains(buffet, values))
    _, *each, whole = ax.get_lines()
    assert len(each) == 2
    lags = np.arange(len(whole.get_ydata()))
    np.testing.assert_allclose(whole.get_ydata()[:15], phi ** lags[:15], atol=0.06)
    for line in each:
        np.testing.assert_allclose(line.get_ydata()[:15], phi ** lags[:15], atol=0.1)
    assert f"integrated time {tau:.3g} sweeps" in notes(ax)


def test_short_chains_say_at_least(buffet: thali.LatentFeatures, rng: np.random.Generator) -> None:
    model = with_chains(buffet, remembering(rng, 0.99, 2, 100))
    assert "at least" in notes(plots.autocorrelation(model))


def test_chains_that_never_meet_do_not_forget() -> None:
    values = np.random.default_rng(0).normal(size=(2, 400)) + np.array([[0.0], [50.0]])
    assert autocorrelation_time(values) > 150


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0, 2.0]])
def test_what_never_changes_has_no_time(values: list[float]) -> None:
    assert np.isnan(autocorrelation_time(values))


def test_it_takes_every_scalar_of_clusters_too(
    buffet: thali.LatentFeatures, partition: thali.LatentPartition
) -> None:
    for model in (buffet, partition):
        for name in model.history_:
            assert drawn(plots.autocorrelation(model, name))
        with pytest.raises(ValueError, match="'nothing' is not recorded; this model has n_comp"):
            plots.autocorrelation(model, "nothing")
    with pytest.raises(NotFittedError):
        plots.autocorrelation(thali.LatentPartition())
    ax = Figure().subplots()
    assert plots.autocorrelation(partition, "log_joint", ax) is ax
    assert "log joint" in ax.get_title(loc="left")


# the report --------------------------------------------------------------------------------------


def test_the_report_has_sums_and_potentials_of_flexible_priors_alone(
    buffet: thali.LatentFeatures, weighing: thali.LatentFeatures, tmp_path: Path
) -> None:
    page = write_report(buffet, tmp_path / "r.html").read_text(encoding="utf-8")
    found = feature_reading.prior_sums(buffet)
    assert found is not None
    assert f"the prior expected {found.columns.sum():.2f} features in all" in page
    assert "Autocorrelation of K" in page
    assert "dashed line" not in page
    page = write_report(weighing, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Indian buffet process that expects as many features" in page
    assert "On the right is what the number of features of a row adds" in page
    assert re.search("as weighted draws estimate it", page)
