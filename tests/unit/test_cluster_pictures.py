"""Pictures and report of clusters show what a fitted LatentPartition holds, whatever its size."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pictured import drawn
from scipy.special import gammaln
from sklearn.exceptions import NotFittedError

import thali
from thali import plots
from thali.plots import cluster_reading
from thali.report import write_report
from thali.report.sections import repr_of

SINGLE = (
    "cluster_map",
    "cluster_profiles",
    "cluster_sizes",
    "co_clustering",
    "feature_count",
    "potentials",
    "size_counts",
)
SECTIONS = ["summary", "convergence", "clusters", "together", "sizes", "reading"]
EVIL = "<script>alert(1)</script>"


def fitted(X: Any, likelihood: Any = "normal_gamma", **options: Any) -> thali.LatentPartition:
    engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    model = thali.LatentPartition(
        likelihood=likelihood, engine=engine, random_state=0, progress=False, **options
    )
    return model.fit(X)


def groups(n: int, d: int, k: int = 3) -> np.ndarray:
    rng = np.random.default_rng(5)
    return 6.0 * rng.normal(size=(k, d))[np.arange(n) % k] + rng.normal(size=(n, d))


def text_of(model: thali.LatentPartition, folder: Path, **options: Any) -> str:
    return write_report(model, folder / "r.html", **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plain() -> thali.LatentPartition:
    return fitted(groups(60, 4))


@pytest.fixture(scope="module")
def flexible() -> thali.LatentPartition:
    potentials = gammaln(np.arange(1, 31)) + np.log(0.7) + np.where(np.arange(1, 31) < 4, -2.0, 0.0)
    return fitted(groups(30, 3), prior=thali.FlexiblePartition(tuple(potentials)))


@pytest.fixture(scope="module")
def named() -> thali.LatentPartition:
    columns = [EVIL, "costs $5", "名前", "x" * 300]
    rows = [EVIL, "</td>", *(f"r{i}" for i in range(18))]
    return fitted(pd.DataFrame(groups(20, 4), columns=columns, index=rows))


def no_pairs() -> thali.LatentPartition:
    """Most sizes are impossible."""
    potentials = np.where(np.isin(np.arange(1, 13), (1, 4, 8)), gammaln(np.arange(1, 13)), -np.inf)
    return fitted(groups(12, 2), prior=thali.FlexiblePartition(tuple(potentials)))


def with_gaps() -> np.ndarray:
    X = groups(20, 3)
    X[0, 0] = X[3] = np.nan
    return X


EXTREMES: dict[str, Callable[[], thali.LatentPartition]] = {
    "one row": lambda: fitted(groups(1, 3)),
    "one column": lambda: fitted(groups(12, 1)),
    "two columns": lambda: fitted(groups(12, 2)),
    "gaps": lambda: fitted(with_gaps()),
    "impossible sizes": no_pairs,
    "learned potentials": lambda: fitted(groups(20, 2), prior=thali.LearnedPartition()),
    "constant": lambda: fitted(np.ones((6, 3))),
    "huge values": lambda: fitted(1e15 * groups(12, 3)),
    "wide": lambda: fitted(groups(12, 400)),
    "yes and no": lambda: fitted(groups(20, 4) > 0, "beta_bernoulli_items"),
    "categories": lambda: fitted(np.abs(groups(20, 4)).round() % 4, "categorical"),
    "counts": lambda: fitted(np.abs(groups(20, 4)).round(), "dirichlet_multinomial"),
}


@pytest.mark.filterwarnings("ignore:.*most rows are alone")
@pytest.mark.parametrize("case", EXTREMES)
def test_every_picture_and_the_report_cope_with(case: str, tmp_path: Path) -> None:
    model = EXTREMES[case]()
    assert drawn(model.plot())
    for name in SINGLE:
        assert isinstance(getattr(plots, name)(model), Axes)
    page = text_of(model, tmp_path)
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS
    words = re.findall(r"[a-z]+", re.sub(r"<[^>]*>", " ", page).lower())
    assert "nan" not in words


@pytest.mark.parametrize("name", SINGLE)
def test_each_picture_stands_alone_and_uses_given_axes(
    plain: thali.LatentPartition, name: str
) -> None:
    assert drawn(getattr(plots, name)(plain))
    ax = Figure().subplots()
    assert getattr(plots, name)(plain, ax) is ax
    with pytest.raises(NotFittedError):
        getattr(plots, name)(thali.LatentPartition())


# what they show ----------------------------------------------------------------------------------


def test_sizes_spread_as_the_draws_of_rows_do(plain: thali.LatentPartition) -> None:
    found = cluster_reading.size_spread(plain)
    draws = [draw.labels for draw in plain.draws()]
    for k in range(plain.n_clusters_):
        rows = np.flatnonzero(plain.labels_ == k)
        sizes = [(labels == labels[i]).sum() for labels in draws for i in rows]
        expected = [len(rows), *np.quantile(sizes, [0.05, 0.5, 0.95])]
        assert [part[k] for part in found] == pytest.approx(expected)
    assert [bar.get_width() for bar in plots.cluster_sizes(plain).patches] == found.rows.tolist()


def test_pairs_are_the_shares_of_draws_by_cluster(plain: thali.LatentPartition) -> None:
    rows, shares = cluster_reading.together(plain, 600)
    assert sorted(rows) == list(range(60))
    assert (np.diff(plain.labels_[rows]) >= 0).all()
    np.testing.assert_allclose(shares, plain.co_clustering_[np.ix_(rows, rows)], atol=1e-6)
    (picture,) = plots.co_clustering(plain).get_images()
    np.testing.assert_array_equal(picture.get_array(), shares)


def test_many_rows_are_chosen_evenly_and_it_is_said(plain: thali.LatentPartition) -> None:
    ax = plots.co_clustering(plain, max_rows=30)
    said = [text.get_text() for text in ax.texts] + [ax.get_title(loc="right")]
    assert "30 of 60 rows, evenly chosen" in said
    rows, _ = cluster_reading.together(plain, 30)
    share = np.bincount(plain.labels_[rows]) / np.bincount(plain.labels_)
    np.testing.assert_allclose(share, 0.5, atol=0.1)


def test_columns_that_differ_most_come_first() -> None:
    X = groups(40, 3, k=2)
    X[:, 0] = np.random.default_rng(0).normal(size=40)  # says nothing
    model = fitted(pd.DataFrame(X, columns=["noise", "b", "c"]))
    table = cluster_reading.profile_table(model)
    assert table.names[-1] == "noise"
    np.testing.assert_allclose(table.values, model.cluster_profiles_[table.names])
    written = [text.get_text() for text in plots.cluster_profiles(model, max_columns=2).texts]
    assert {f"{value:.3g}" for value in table.values[:, :2].ravel()} < set(written)
    assert "the 2 of 3 columns that differ most" in written


def test_probabilities_are_shown_as_they_are() -> None:
    model = fitted(groups(20, 4) > 0, "beta_bernoulli_items")
    table = cluster_reading.profile_table(model)
    np.testing.assert_array_equal(table.shown, table.values)


def test_typical_rows_are_sure_members(plain: thali.LatentPartition) -> None:
    for k, rows in enumerate(cluster_reading.typical_rows(plain, 3)):
        assert len(rows) == 3
        assert (plain.labels_[rows] == k).all()
        least = plain.membership_[rows].min()
        others = np.setdiff1d(np.flatnonzero(plain.labels_ == k), rows)
        assert least >= plain.membership_[others].max() - 0.011


def test_size_counts_are_expectations(flexible: thali.LatentPartition) -> None:
    found = cluster_reading.size_counts(flexible)
    sizes = np.arange(1, 31)
    assert found.prior @ sizes == pytest.approx(30)
    assert found.posterior @ sizes == pytest.approx(30)
    mean = np.mean([draw.n_clusters for draw in flexible.draws()])
    assert found.posterior.sum() == pytest.approx(mean)


def test_rows_to_come_count_as_rows_of_the_prior(tmp_path: Path) -> None:
    engine = thali.CollapsedGibbs(sweeps=10, chains=1)
    model = thali.LatentPartition(likelihood="normal_gamma", engine=engine, random_state=0)
    model.fit(groups(9, 2), n_future=3)
    assert len(cluster_reading.size_counts(model).prior) == 12
    assert "3 rows to come" in plots.size_counts(model).get_xlabel()
    assert "clusters of 12 rows" in text_of(model, tmp_path)


def test_potentials_tell_the_odds_against_a_dirichlet_process(
    flexible: thali.LatentPartition,
) -> None:
    found = cluster_reading.potentials(flexible)
    assert found is not None
    process = thali.DirichletProcess(alpha=found.mass)
    assert process.expected_components(30) == pytest.approx(found.expected)
    for labels in (flexible.labels_, np.arange(30), np.zeros(30, int)):
        odds = (found.own - np.log(found.mass))[np.bincount(labels) - 1].sum()
        difference = flexible.prior_.log_prob(labels) - process.log_prob(labels)
        assert odds == pytest.approx(difference)


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_a_dirichlet_process_in_potentials_lies_on_its_own_line(alpha: float) -> None:
    prior = thali.FlexiblePartition(tuple(gammaln(np.arange(1, 13)) + np.log(alpha)))
    found = cluster_reading.potentials(fitted(groups(12, 2), prior=prior))
    assert found is not None
    assert found.mass == pytest.approx(alpha)
    np.testing.assert_allclose(found.own, np.log(alpha), atol=1e-8)


def test_a_prior_without_potentials_says_so(plain: thali.LatentPartition) -> None:
    assert cluster_reading.potentials(plain) is None
    assert "not given by" in plots.potentials(plain).texts[0].get_text()


# the report --------------------------------------------------------------------------------------


def test_the_report_says_what_was_found(plain: thali.LatentPartition, tmp_path: Path) -> None:
    page = text_of(plain, tmp_path)
    sizes = np.bincount(plain.labels_)
    listed = ", ".join(map(str, sizes[:-1])) + f" and {sizes[-1]} rows"
    assert f"{len(sizes)} clusters found in 60 rows of 4 numbers, of {listed}" in page
    assert plain.convergence().headline in page
    for words in ("size in the draws", "Most typical", "R-hat", "The profiles in numbers", "x3"):
        assert words in page
    assert "feature" not in page
    assert "potentials" not in page


def test_the_report_shows_potentials_where_there_are_any(
    flexible: thali.LatentPartition, tmp_path: Path
) -> None:
    page = text_of(flexible, tmp_path)
    assert "Dirichlet process that expects as many clusters" in page


def test_rows_can_be_images(tmp_path: Path) -> None:
    model = fitted(groups(20, 16))
    page = text_of(model, tmp_path)
    assert page.count('alt="Cluster ') == model.n_clusters_
    with pytest.raises(ValueError, match="does not fit rows of 16 values"):
        write_report(model, tmp_path / "r.html", image_shape=(3, 5))


@pytest.mark.filterwarnings("ignore:.*[Gg]lyph")  # the machine may have no font for a script
def test_names_are_text_and_never_markup(named: thali.LatentPartition, tmp_path: Path) -> None:
    page = text_of(named, tmp_path)
    assert "<script" not in page
    assert "://" not in page
    assert "x" * 300 not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert drawn(named.plot())


def test_the_same_model_gives_the_same_bytes(plain: thali.LatentPartition, tmp_path: Path) -> None:
    first = text_of(plain, tmp_path)
    plain.save(tmp_path / "m.thali")
    assert text_of(thali.load(tmp_path / "m.thali"), tmp_path) == first


def test_chains_that_disagree_are_said_to_disagree_on_clusters() -> None:
    from thali.report.convergence import Scalar, verdict_on_chains

    lines = [Scalar("n_components", "poor", 2.0, 3, 5, 4, 6, symbol="K")]
    assert "take the clusters as" in verdict_on_chains(lines, 2, 500, [4, 6], "clusters").advice


def test_long_rows_of_numbers_are_cut() -> None:
    assert repr_of(tuple(range(31))) == "(0, 1, 2, …, 30: 31 numbers)"
    assert repr_of((1.0, 2.0)) == "(1.0, 2.0)"
