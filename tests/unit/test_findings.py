"""Degenerate fits are called so, and healthy ones are not."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import thali
from thali.cli import run
from thali.data import Data
from thali.model import Model
from thali.report.convergence import Verdict, with_findings
from thali.results import findings
from thali.results.findings import Finding, of_features, of_run

SHORT = thali.CollapsedGibbs(sweeps=60, chains=2)


def kinds(found: Any) -> list[str]:
    return [finding.kind.__name__ for finding in found]


def fitted(X: np.ndarray, **settings: Any) -> thali.LatentFeatures:
    """A short fit; what it warns of is looked at by ``findings_``."""
    settings = {"engine": SHORT, "random_state": 0, "progress": False} | settings
    settings.setdefault("likelihood", "linear_gaussian")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thali.DegenerateFit)
        warnings.simplefilter("ignore", thali.DiscreteData)  # which is of the data, not of the fit
        return thali.LatentFeatures(**settings).fit(X)


def made(n: int, k: int, d: int, sigma_x: float, seed: int) -> np.ndarray:
    """X = Z A + E with K binary features."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, k)) < rng.uniform(0.2, 0.5, k)
    return Z @ rng.normal(size=(k, d)) + sigma_x * rng.normal(size=(n, d))


def factor(n: int, d: int, sigma_x: float, seed: int) -> np.ndarray:
    """One continuous factor in all columns."""
    rng = np.random.default_rng(seed)
    noise = sigma_x * rng.normal(size=(n, d))
    return np.outer(rng.normal(size=n), rng.choice([-1.0, 1.0], d)) + noise


def yes_and_no(n: int = 101, d: int = 16, seed: int = 0) -> np.ndarray:
    """Seven kinds of rows, in columns of yes and no that nearly always go with the kind."""
    rng = np.random.default_rng(seed)
    odds = rng.choice([0.03, 0.97], size=(7, d))
    return (rng.random((n, d)) < odds[rng.integers(0, 7, n)]).astype(float)


@pytest.fixture(scope="module")
def copied() -> thali.LatentFeatures:
    return fitted(yes_and_no())


@pytest.fixture(scope="module")
def healthy() -> thali.LatentFeatures:
    return fitted(thali.datasets.images(n=60, random_state=0).X)


def answer(healthy: thali.LatentFeatures, X: np.ndarray, Z: np.ndarray, A: np.ndarray) -> list[str]:
    """What is found of an answer made by hand, noise and the rest being those of a healthy fit."""
    return kinds(of_features(replace(healthy.fit_, data=Data.of(X)), Z, {"A": A}))


# Healthy fits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        thali.datasets.images(n=60, random_state=0).X,
        thali.datasets.bars(n=60, random_state=0).X,
        thali.datasets.blocks(random_state=0).X,
        made(100, 4, 8, 0.3, seed=0),
        made(100, 3, 4, 0.3, seed=0),
        made(100, 10, 30, 0.5, seed=0),
        np.round(made(100, 4, 12, 0.3, seed=1), 1),
        np.random.default_rng(0).normal(size=(40, 6)),
    ],
    ids=["images", "bars", "blocks", "4 in 8", "3 in 4", "10 in 30", "rounded", "noise"],
)
def test_data_made_from_features_raise_no_alarm(X: np.ndarray) -> None:
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=SHORT, random_state=0).fit(
        X
    )  # warnings are errors
    assert model.findings_ == ()
    assert model.convergence().findings == ()


def test_whole_numbers_that_few_features_sum_up_are_not_copied() -> None:
    """No noise at all, few values, and yet four features in sixteen columns."""
    rng = np.random.default_rng(0)
    X = (rng.random((100, 4)) < 0.4).astype(float) @ rng.integers(0, 4, size=(4, 16))
    model = fitted(X)
    assert model.sigma_x_ < findings.NO_NOISE * X.std()
    assert model.findings_ == ()


# Degenerate answers ------------------------------------------------------------------------------


def test_a_table_of_yes_and_no_is_copied_and_every_place_says_so(
    copied: thali.LatentFeatures, tmp_path: Path
) -> None:
    assert "NoiseCollapsed" in kinds(copied.findings_)
    assert "SingleColumnFeatures" in kinds(copied.findings_)
    first = copied.findings_[0]
    assert f"{copied.sigma_x_:.2g}" in first.seen
    assert "16 of 16 columns have at most 2 different values" in first.seen
    assert "noisy_or" in first.advice
    said = copied.convergence()
    assert said.level == "poor"
    assert said.findings == copied.findings_
    assert "The noise collapsed." in said.headline
    assert "agree." not in said.headline
    assert str(first) in said.advice
    page = copied.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.index("copy the table") < page.index("The numbers that every sweep records")
    copied.save(tmp_path / "m.thali")
    assert thali.load(tmp_path / "m.thali").findings_ == copied.findings_


def test_fit_warns_of_each_once() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=SHORT, random_state=0
        ).fit(yes_and_no())
    assert told.pop().category is thali.DiscreteData  # of the data, and last
    assert [w.category for w in told] == [finding.kind for finding in model.findings_]
    assert [str(w.message) for w in told] == [str(finding) for finding in model.findings_]
    assert {w.filename for w in told} == {__file__}


@pytest.mark.parametrize("center", [False, True])
def test_columns_of_several_types_are_sent_elsewhere(center: bool) -> None:
    X = yes_and_no()
    X[:, 3] = np.array([0.0, 2.0, 4.0, 6.0])[(2 * X[:, 0] + X[:, 1]).astype(int)]
    X[4, 5] = np.nan
    first = fitted(X, center=center).findings_[0]
    assert first.kind is thali.NoiseCollapsed
    assert "'mixed'" in first.advice


def test_noise_that_was_given_has_not_collapsed(copied: thali.LatentFeatures) -> None:
    fit = copied.fit_
    given = Model(fit.model.prior, fit.model.likelihood.replace(sigma_x=0.005))
    parts = (copied.Z_, {"A": copied.components_})
    assert "NoiseCollapsed" in kinds(of_features(fit, *parts))
    assert "NoiseCollapsed" not in kinds(of_features(replace(fit, model=given), *parts))


def test_a_sparse_table_is_looked_at_as_a_dense_one_is(copied: thali.LatentFeatures) -> None:
    sparse = replace(copied.fit_, data=Data.of(csr_array(yes_and_no())))
    found = of_features(sparse, copied.Z_, {"A": copied.components_})
    assert tuple(found) == tuple(of_features(copied.fit_, copied.Z_, {"A": copied.components_}))
    direction = np.arange(16.0)
    apart = findings._scores(sparse, direction) - findings._scores(copied.fit_, direction)
    assert np.allclose(apart, apart[0])


def test_little_noise_of_continuous_columns_is_no_finding() -> None:
    model = fitted(made(60, 3, 5, 0.005, seed=0))
    assert model.sigma_x_ < findings.NO_NOISE
    assert "NoiseCollapsed" not in kinds(model.findings_)


def test_a_column_of_few_rows_is_not_discrete() -> None:
    assert findings.is_few(2, 10)
    assert not findings.is_few(2, 9)
    assert not findings.is_few(5, 20)
    assert findings.is_few(10, 50)
    assert not findings.is_few(11, 1000)


def test_single_columns_are_counted(healthy: thali.LatentFeatures) -> None:
    rng = np.random.default_rng(0)
    Z, X = rng.random((50, 5)) < 0.4, rng.normal(size=(50, 8))
    spread = rng.choice([-1.0, 1.0], (5, 8)) * rng.uniform(0.5, 1.0, (5, 8))
    single = 0.1 * spread
    single[np.arange(5), np.arange(5)] = 2.0
    assert answer(healthy, X, Z, single) == ["SingleColumnFeatures"]
    assert answer(healthy, X, Z, spread) == []
    some = np.concatenate([single[:3], spread[3:]])
    assert answer(healthy, X, Z, some) == []
    most = np.concatenate([single[:4], spread[4:]])
    assert answer(healthy, X, Z, most) == ["SingleColumnFeatures"]
    many = np.concatenate([single[:4], spread[:4]])  # one half, not more
    assert answer(healthy, X, Z[:, [0, 1, 2, 3, 4, 0, 1, 2]], many) == []
    few = np.eye(3)[[0, 1, 2, 0]]  # columns
    assert answer(healthy, X[:, :3], Z[:, :4], few) == []


def test_a_column_without_noise_does_not_make_features_of_one_column() -> None:
    """Effects of one size in all columns; in units of the noise nearly all is in the first."""
    rng = np.random.default_rng(0)
    noise = np.array([0.02] + 7 * [0.7])
    given, engine = thali.MixedColumns(noise=noise), thali.CollapsedGibbs(sweeps=20, chains=1)
    fit = fitted(made(100, 3, 8, 0.5, seed=0), likelihood=given, engine=engine).fit_
    Z, A = rng.random((100, 5)) < 0.4, rng.normal(size=(5, 8)) / noise
    assert kinds(of_features(fit, Z, {"A": A})) == []
    single = np.eye(5, 8) / noise
    assert kinds(of_features(fit, Z, {"A": single})) == ["SingleColumnFeatures"]


def test_levels_of_one_column_are_one_column() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice(["a", "b", "c"], 60) for name in "pqrs"})
    engine = thali.CollapsedGibbs(sweeps=10, chains=1)
    fit = fitted(X, likelihood="mixed", engine=engine).fit_
    Z, A = rng.random((60, 4)) < 0.4, np.kron(np.eye(4), [1.0, -1.0, 1.0])
    (found,) = of_features(fit, Z, {"A": A})
    assert found.kind is thali.SingleColumnFeatures
    assert "in one of 4" in found.seen
    assert kinds(of_features(fit, Z, {"A": np.roll(A, 2, axis=1)})) == []


@pytest.mark.parametrize(
    ("n", "k", "d", "many"),
    [
        (200, 7, 6, False),  # as found of made data
        (200, 9, 6, True),
        (200, 10, 10, False),
        (200, 11, 10, True),
        (200, 9, 3, False),
        (20, 15, 100, False),
        (20, 16, 100, True),
        (19, 19, 100, False),
        (19, 9, 6, False),
    ],
)
def test_features_are_too_many_for_columns_or_rows(
    n: int, k: int, d: int, many: bool, healthy: thali.LatentFeatures
) -> None:
    rng = np.random.default_rng(0)
    Z, A = rng.random((n, k)) < 0.5, rng.normal(size=(k, d))
    found = answer(healthy, Z @ A, Z, A)
    assert ("TooManyFeatures" in found) == many


AMOUNTS = {"likelihood": "mixed_factors", "engine": thali.UncollapsedGibbs(sweeps=200, chains=2)}


def test_more_features_in_amounts_than_columns_are_too_many() -> None:
    """Two factors of all rows, and a feature for each entry in the long tails of the noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.4 * rng.standard_t(3, (200, 6))
    model = fitted(X, **AMOUNTS)
    assert model.fit_.after_burn_in("n_components").mean() > 6
    assert kinds(model.findings_) == ["TooManyFeatures"]
    assert "in 6 columns, in amounts, 2.7 of them in a row" in model.findings_[0].seen
    assert "types=" in model.findings_[0].advice
    assert "sigma_x" not in model.findings_[0].advice


@pytest.mark.parametrize(("share", "found"), [(0.2, []), (0.8, ["TooManyFeatures"])])
def test_a_few_more_than_columns_are_too_many_where_a_row_has_most(share, found) -> None:
    """Nine sources in eight columns, where chains begin; a row has two of them, or seven."""
    rng = np.random.default_rng(3)
    Z = rng.random((300, 9)) < share
    X = 4.0 * (Z * rng.normal(size=(300, 9))) @ rng.normal(size=(9, 8))
    engine = thali.UncollapsedGibbs(sweeps=40, chains=1, init=Z)
    settings = {**AMOUNTS, "engine": engine, "prior": thali.BetaBernoulli(n_components=10)}
    model = fitted(X + 0.2 * rng.normal(size=(300, 8)), **settings)
    assert 8 < model.fit_.after_burn_in("n_components").mean() <= 10
    assert kinds(model.findings_) == found


@pytest.mark.parametrize(("k", "d"), [(5, 6), (2, 10)])
def test_as_many_sources_as_were_made_are_not(k: int, d: int) -> None:
    rng = np.random.default_rng(2)
    S = (rng.random((300, k)) < 0.3) * rng.normal(size=(300, k))
    X = 2.0 * S @ rng.normal(size=(k, d)) + 0.3 * rng.normal(size=(300, d))
    model = fitted(X, **AMOUNTS)
    assert model.n_components_ == k
    assert model.findings_ == ()


@pytest.mark.parametrize("sigma_x", [0.1, 0.3])
def test_steps_along_a_factor_are_called_so(sigma_x: float) -> None:
    model = fitted(factor(200, 10, sigma_x, seed=0))
    assert kinds(model.findings_) == ["TiledFactor"]
    assert f"{model.n_components_} features lie along one direction of 10" in str(
        model.findings_[0]
    )


def test_steps_between_clumps_are_not(healthy: thali.LatentFeatures) -> None:
    """Five features along one direction, and six places where rows are: nothing between them."""
    rng = np.random.default_rng(0)
    Z = np.tri(6, 5, -1)[rng.integers(0, 6, 200)].astype(bool)  # 0, 1, … 5 steps
    A = np.outer(np.ones(5), rng.normal(size=10))
    clumps = Z @ A + 0.02 * rng.normal(size=(200, 10))
    assert answer(healthy, clumps, Z, A) == []
    between = (Z.sum(axis=1) + rng.uniform(-0.5, 0.5, 200))[:, None] * A[:1]
    assert answer(healthy, between, Z, A) == ["TiledFactor"]


def test_steps_along_a_factor_behind_a_table_are_called_so() -> None:
    model = fitted(factor(200, 10, 0.1, seed=0), likelihood="mixed")
    assert kinds(model.findings_) == ["TiledFactor"]
    assert "'mixed_factors'" in model.findings_[0].advice


def test_directions_are_those_of_the_product() -> None:
    rng = np.random.default_rng(0)
    for k, d in ((3, 8), (8, 3), (5, 5)):
        Z, A = rng.random((40, k)) < 0.5, rng.normal(size=(k, d))
        _, s, vt = np.linalg.svd(Z @ A - (Z @ A).mean(axis=0))
        share = np.cumsum(s**2) / np.sum(s**2)
        count, first = findings._directions(Z, A)
        assert count == int((share < findings.EXPLAINED).sum()) + 1
        assert abs(first @ vt[0]) == pytest.approx(1.0)
    assert findings._directions(np.ones((4, 2), bool), np.ones((2, 3)))[0] == 0


def test_no_features_are_no_finding(healthy: thali.LatentFeatures) -> None:
    assert answer(healthy, np.ones((30, 5)), np.zeros((30, 0), bool), np.zeros((0, 5))) == []


@pytest.mark.parametrize("seed", range(20))
def test_true_features_are_no_steps_along_a_factor(
    seed: int, healthy: thali.LatentFeatures
) -> None:
    rng = np.random.default_rng(seed)
    n, k, d = (int(rng.integers(*ends)) for ends in ((40, 300), (5, 12), (12, 40)))
    Z = rng.random((n, k)) < rng.uniform(0.1, 0.6, k)
    for A in (rng.normal(size=(k, d)), np.abs(rng.normal(size=(k, d)))):
        assert answer(healthy, Z @ A + 0.2 * rng.normal(size=(n, d)), Z, A) == []


# Short runs --------------------------------------------------------------------------------------


def test_few_draws_that_were_asked_for_are_told_and_not_warned_of() -> None:
    X = thali.datasets.images(n=20, random_state=0).X
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=38, chains=1),
        random_state=0,
    )
    said = model.fit(X).convergence()  # warnings are errors
    assert kinds(said.findings) == ["TooFewDraws"]
    assert "rest on 19 draws" in said.advice
    assert said.headline == "One chain cannot vouch for itself."
    model.set_params(engine__sweeps=40)
    assert model.fit(X).findings_ == ()


@pytest.mark.parametrize(
    ("estimator", "X"),
    [
        (thali.LatentFeatures, thali.datasets.images(n=20, random_state=0).X),
        (thali.LatentPartition, thali.datasets.images(n=20, random_state=0).X[:, :4]),
    ],
)
def test_a_run_stopped_in_its_burn_in_says_so(estimator: Any, X: np.ndarray) -> None:
    model = estimator(engine=thali.CollapsedGibbs(sweeps=10**6, chains=2), random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, time_budget=0.2)
    assert thali.BurnInCutShort in [w.category for w in told]
    said = model.convergence()
    assert said.level == "poor"
    assert "The run was stopped in its burn-in." in said.headline
    assert "of 500,000 sweeps" in said.advice


def test_the_burn_in_is_over_where_its_draws_are_not_kept(healthy: thali.LatentFeatures) -> None:
    stopped = replace(healthy.fit_, stopped="interrupted")
    assert kinds(of_run(stopped)) == []
    inside = [replace(chain, kept_at=[at - 1 for at in chain.kept_at]) for chain in stopped.chains]
    found = list(of_run(replace(stopped, chains=tuple(inside))))
    assert kinds(found) == ["BurnInCutShort"]
    assert "an interrupt" in found[0].seen
    few = tuple(
        replace(chain, kept_at=chain.kept_at[:2], kept=chain.kept[:2]) for chain in stopped.chains
    )
    (short,) = of_run(replace(stopped, chains=few))
    assert short.kind is thali.TooFewDraws
    assert not short.expected


def test_an_interval_of_few_draws_comes_with_a_warning() -> None:
    X = thali.datasets.images(n=20, random_state=0).X
    X[3, 4] = np.nan
    model = fitted(X, engine=thali.CollapsedGibbs(sweeps=18, chains=1))
    for asked in ({"interval": 0.9}, {"return_std": True}):
        with pytest.warns(thali.TooFewDraws, match="rests on 9 draws"):
            model.impute(**asked)
    model.impute()
    fitted(X, engine=thali.CollapsedGibbs(sweeps=20, chains=1)).impute(interval=0.9)


# The verdict and the command line ----------------------------------------------------------------


@pytest.mark.parametrize("level", ["good", "fair", "poor", "unknown"])
def test_no_verdict_is_good_where_something_was_found(level: str) -> None:
    plain = Verdict(level, "The chains do this.", "Do that.")
    assert with_findings(plain, ()) == plain
    ails = Finding(thali.TiledFactor, "Seen.", "Do.")
    short = Finding(thali.TooFewDraws, "Seen.", "Do.", expected=True)
    assert with_findings(plain, [ails, short])[:2] == ("poor", thali.TiledFactor.headline)
    assert ("The chains do this." in with_findings(plain, [ails]).advice) == (
        level in ("poor", "unknown")
    )
    only = with_findings(plain, [short])
    assert only.level == ("poor" if level == "poor" else "unknown")
    assert only.headline == plain.headline


def test_the_command_line_tells_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "thali.estimators.base.LatentModel.report", lambda self, path, **_: Path(path).touch()
    )
    np.savetxt("t.csv", yes_and_no(), delimiter=",", fmt="%d")
    plain = ["--likelihood", "linear-gaussian", "--sweeps", "60", "--chains", "2", "--seed", "0"]
    assert run(["fit", "t.csv", *plain]) == 0
    said = capsys.readouterr()
    assert "The noise collapsed." in said.out
    assert "features copy the table" in said.out
    assert said.err == ""
    assert "NoiseCollapsed" in Path("thali-out/summary.json").read_text()


def test_warnings_are_of_one_family() -> None:
    own = [findings.NoiseCollapsed, findings.SingleColumnFeatures, findings.TooManyFeatures]
    own += [findings.TiledFactor, findings.TooFewDraws, findings.BurnInCutShort]
    for kind in own:
        assert issubclass(kind, thali.DegenerateFit)
        assert getattr(thali, kind.__name__) is kind
    assert issubclass(thali.DegenerateFit, UserWarning)
    assert len({kind.headline for kind in own}) == len(own)
