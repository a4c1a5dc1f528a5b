"""The report is one file that stands alone, reads on a phone, and runs nothing from the data."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from pictured import no_features
from sklearn.exceptions import NotFittedError

import thali
from thali.plots.reading import explained_by
from thali.report import write_report
from thali.report.convergence import Scalar, _scalar, level_of, scalars, verdict_on_chains
from thali.results.fit import WeightedDraws

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img", "br", "hr", "link", "input"}
SECTIONS = [
    "summary",
    "convergence",
    "features",
    "assignments",
    "reconstructions",
    "sums",
    "reading",
]


def fitted(X: Any, sweeps: int = 30, chains: int = 2, **options: Any) -> thali.LatentFeatures:
    engine = thali.CollapsedGibbs(sweeps=sweeps, chains=chains)
    options.setdefault("likelihood", "linear_gaussian")
    return thali.LatentFeatures(engine=engine, random_state=0, progress=False, **options).fit(X)


@pytest.fixture(scope="module")
def images() -> thali.LatentFeatures:
    return fitted(thali.datasets.images(n=40, random_state=0).X, sweeps=40, chains=4)


@pytest.fixture(scope="module")
def named() -> thali.LatentFeatures:
    rng = np.random.default_rng(3)
    X = (rng.random((25, 3)) < 0.4) @ rng.normal(size=(3, 12)) + 0.2 * rng.normal(size=(25, 12))
    names = [
        EVIL,
        '" onload="alert(2)',
        "a&b",
        "名前",
        "गति",
        "سرعة",
        "x" * 300,
        "\x00",
        "$a$",
    ]
    columns = names + [f"column {j}" for j in range(3)]
    rows = [EVIL, "</td></table>", "w" * 200] + [f"r{i}" for i in range(22)]
    return fitted(pd.DataFrame(X, columns=columns, index=rows))


class Outline(HTMLParser):
    """Tags, attributes and text of a page; complains of tags that do not close."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(model: thali.LatentFeatures, folder: Path, **options: Any) -> str:
    path = write_report(model, folder / "report.html", **options)
    return path.read_text(encoding="utf-8")


def test_it_has_every_section_and_the_numbers(images: thali.LatentFeatures, tmp_path: Path) -> None:
    page = page_of(images, tmp_path, title="Forty images")
    outline = Outline(page)
    assert [a["id"] for t, a in outline.tags if t == "section"] == SECTIONS
    assert "<h1>Forty images</h1>" in page
    for words in ("40", "36", repr(images.prior_), "finished", "R-hat", str(images.seed_)):
        assert words in outline.text
    ids = [a["id"] for _, a in outline.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert all(a.get("alt") for t, a in outline.tags if t == "img")


@pytest.mark.parametrize("which", ["images", "named"])
def test_it_needs_nothing_outside_itself(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = page_of(request.getfixturevalue(which), tmp_path)
    assert "://" not in page
    assert not re.search(r"@import|url\((?!#)", page)
    for tag, attributes in Outline(page).tags:
        assert tag not in ("script", "link", "iframe", "object", "base")
        for key in ("src", "href"):
            value = attributes.get(key) or "#"
            assert value.startswith(("#", "data:image/png;base64,"))


def test_names_are_text_and_never_markup(named: thali.LatentFeatures, tmp_path: Path) -> None:
    page = page_of(named, tmp_path, title=f"</title>{EVIL}")
    outline = Outline(page)
    assert "<script" not in page
    assert not [a for _, a in outline.tags if any(key.startswith("on") for key in a)]
    assert EVIL in outline.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\x00" not in page
    assert "x" * 300 not in page


def test_it_is_written_whole_or_not_at_all(
    images: thali.LatentFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def refuse(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", refuse)
        patch.setattr("thali.report.page.page", lambda *_: "new")
        with pytest.raises(OSError, match="no space"):
            write_report(images, path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"
    assert write_report(images, str(path)) == path
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_bad_places_and_shapes_get_one_sentence(
    images: thali.LatentFeatures, tmp_path: Path
) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_report(images, tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_report(images, tmp_path / "none" / "report.html")
    with pytest.raises(ValueError, match="does not fit rows of 36 values"):
        write_report(images, tmp_path / "report.html", image_shape=(5, 5))
    with pytest.raises(NotFittedError):
        write_report(thali.LatentFeatures(likelihood="linear_gaussian"), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_the_same_model_gives_the_same_bytes_whatever_the_settings(
    images: thali.LatentFeatures, tmp_path: Path
) -> None:
    first = page_of(images, tmp_path)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.grid": True}):
        before = dict(mpl.rcParams)
        assert page_of(images, tmp_path) == first
        assert dict(mpl.rcParams) == before


EXTREMES = {
    "one row": lambda: fitted(np.ones((1, 5))),
    "one column": lambda: fitted(np.arange(12.0)[:, None]),
    "one chain": lambda: fitted(np.eye(8), chains=1),
    "zeros": lambda: fitted(np.zeros((6, 16))),
    "centered": lambda: fitted(np.eye(9) + 50, center=True),
    "huge": lambda: fitted(1e15 * np.eye(9)),
    "wide": lambda: fitted(np.random.default_rng(0).normal(size=(10, 3_000)), sweeps=4),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_it_copes_with(case: str, tmp_path: Path) -> None:
    outline = Outline(page_of(EXTREMES[case](), tmp_path))
    assert [a["id"] for t, a in outline.tags if t == "section"] == SECTIONS
    assert "nan" not in re.findall(r"[a-z]+", outline.text.lower())


def test_no_features_is_an_answer(tmp_path: Path) -> None:
    model = no_features()
    assert model.n_components_ == 0
    assert "No features were found" in Outline(page_of(model, tmp_path)).text


def test_fit_is_what_the_formula_says(images: thali.LatentFeatures) -> None:
    left = images.X_ - images.inverse_transform(images.Z_)
    found = explained_by(images)
    assert found.explained == pytest.approx(1 - (left**2).sum() / (images.X_**2).sum())
    assert found.left_over == pytest.approx(np.sqrt((left**2).mean()))
    assert found.worst == (left**2).sum(axis=1).argmax()


@pytest.mark.parametrize("shape", [None, (6, 6)])
def test_missing_entries_leave_gaps_and_are_counted(shape, tmp_path: Path) -> None:
    X = np.abs(thali.datasets.images(n=20, random_state=0).X)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    X[3], X[:, 5] = np.nan, np.nan
    model = fitted(X)
    left = model.X_ - model.inverse_transform(model.Z_)
    found = explained_by(model)
    assert found.explained == pytest.approx(1 - np.nansum(left**2) / np.nansum(X**2))
    assert found.left_over == pytest.approx(np.sqrt(np.nanmean(left**2)))
    path = write_report(model, tmp_path / "gaps.html", image_shape=shape)
    text = Outline(path.read_text(encoding="utf-8")).text
    assert "missing entries, imputed" in text
    assert f"{int(np.isnan(X).sum()):,}" in text
    thali.plots.reconstructions(model, rows=[3, 4], image_shape=shape)
    model.plot(image_shape=shape)


@pytest.mark.parametrize(
    ("level", "values", "rhat", "ess"),
    [
        ("good", [[1, 2, 1], [2, 1, 2]], 1.005, 500),
        ("fair", [[1, 2, 1], [2, 1, 2]], 1.005, 150),
        ("fair", [[1, 2, 1], [2, 1, 2]], 1.03, 500),
        ("fair", [[1, 2, 1], [2, 1, 2]], 1.005, 40),
        ("poor", [[1, 2, 1], [2, 1, 2]], 1.005, 39),
        ("poor", [[1, 2, 1], [2, 1, 2]], 1.3, 500),
        ("poor", [[3, 3, 3], [4, 4, 4]], np.nan, np.nan),
        ("fixed", [[3, 3, 3], [3, 3, 3]], np.nan, np.nan),
        ("unknown", [[1, 2, 3]], np.nan, 100),
        ("unknown", [[1, 2], [2, 1]], np.nan, np.nan),
    ],
)
def test_levels(level: str, values: Any, rhat: float, ess: float) -> None:
    assert level_of(np.array(values, dtype=float), rhat, ess) == level


@pytest.mark.parametrize(
    ("levels", "chains", "draws", "verdict"),
    [
        (["good"] * 5, 4, 500, "good"),
        (["good", "fixed", "fair"], 4, 500, "fair"),
        (["good", "fair", "poor"], 4, 500, "poor"),
        (["good"] * 5, 1, 500, "unknown"),
        (["good"] * 5, 4, 10, "unknown"),
        (["fixed"] * 5, 4, 500, "unknown"),
        (["good", "unknown"], 4, 500, "unknown"),
    ],
)
def test_the_worst_scalar_decides(levels: list[str], chains: int, draws: int, verdict: str) -> None:
    names = ["n_components", "alpha", "sigma_x", "sigma_a", "log_joint"]
    lines = [Scalar(n, s, 1, 1, 0, 0, 0) for n, s in zip(names, levels, strict=False)]
    assert verdict_on_chains(lines, chains, draws).level == verdict


def test_chains_worth_few_draws_are_not_said_to_differ() -> None:
    lines = [
        Scalar("alpha", "poor", 1.0, 9, 5, 4, 6, symbol="α"),
        Scalar("n_components", "good", 1, 1, 0, 0, 0),
    ]
    said = verdict_on_chains(lines, 2, 500)
    assert (said.level, said.headline) == ("poor", "The chains move too slowly to tell.")
    assert "fewer than 20 independent draws each in α" in said.advice
    lines.append(Scalar("log_joint", "poor", 1.4, 9, 5, 4, 6))
    assert verdict_on_chains(lines, 2, 500).headline == "The chains do not agree yet."


def test_weights_stay_with_their_particles_where_some_values_are_not_finite() -> None:
    """Left are 5, 1, 9 and 3, of particles with weights ½, ⅙, ⅙ and ⅙."""
    values = np.array([[5.0, -np.inf, 1.0, np.nan, 9.0, 3.0]])
    weighted = object.__new__(WeightedDraws)
    object.__setattr__(weighted, "after_burn_in", lambda name: values)
    model: Any = SimpleNamespace(
        weights_=np.array([0.3, 0.2, 0.1, 0.2, 0.1, 0.1]),
        diagnostics_={},
        prior_=thali.IBP(),
        likelihood_=thali.LinearGaussian(),
        fit_=weighted,
    )
    line = _scalar(model, "log_joint")
    assert line.mean == pytest.approx((3 * 5 + 1 + 9 + 3) / 6)
    assert (line.low, line.high) == (1.0, 9.0)


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        (thali.LinearGaussian(), "pattern that is added"),
        (thali.NonnegativeLinearGaussian(), "without negative values"),
        (thali.SparseFactor(), "an amount of its own"),
        (thali.NoisyOr(), "hidden cause that acts on the rows"),
    ],
)
def test_the_report_says_what_a_feature_is(likelihood: Any, words: str, tmp_path: Path) -> None:
    data = thali.datasets.images(n=12, random_state=0)
    model = thali.LatentFeatures(
        likelihood=likelihood,
        engine=thali.UncollapsedGibbs(sweeps=6, chains=1, init=data.Z),
        random_state=0,
    ).fit(data.X > 0.5)
    assert model.n_components_ > 0
    page = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert words in page
    assert ("added to every row" in page) == ("added" in words or "negative" in words)


def test_chains_that_disagree_on_k_are_named() -> None:
    lines = [Scalar("n_components", "poor", 2.0, 3, 5, 4, 6, symbol="K")]
    assert verdict_on_chains(lines, 2, 500, [4, 6]).headline == (
        "The chains disagree on K: 4 against 6."
    )
    assert verdict_on_chains(lines, 2, 500, [4]).headline == "The chains do not agree yet."


@pytest.mark.parametrize("init", ["empty", "prior"])
@pytest.mark.parametrize("inferred", [True, False])
def test_fixed_is_what_the_model_fixed_and_the_rest_has_not_moved(
    inferred: bool, init: str
) -> None:
    """A Metropolis step of a width far beyond the data's scale is never accepted."""
    model = thali.LatentFeatures(
        likelihood=thali.LinearGaussian(sigma_x="auto" if inferred else 1e-6, sigma_a=1e-6),
        engine=thali.CollapsedGibbs(sweeps=120, chains=2, init=init, sigma_step="metropolis"),
        random_state=0,
    ).fit(1e-6 * thali.datasets.images(n=15, random_state=0).X)
    assert not np.ptp(model.history_["sigma_x"][:, model.burn_in_ :], axis=1).any()
    levels = {line.name: line.level for line in scalars(model)}
    assert levels["sigma_a"] == "fixed"
    assert (levels["sigma_x"] == "fixed") != inferred
    said = model.convergence()
    assert (said.headline == "σₓ has not moved.") == inferred
    assert not inferred or said.level == "poor"


def test_several_that_have_not_moved_are_named() -> None:
    names = {"sigma_x": "σₓ", "sigma_a": "σₐ"}
    lines = [
        Scalar(name, "unknown", np.nan, np.nan, 1, 1, 1, True, symbol)
        for name, symbol in names.items()
    ]
    assert verdict_on_chains(lines, 4, 500).headline == "σₓ and σₐ have not moved."
    assert verdict_on_chains(lines, 1, 500).level == "poor"
    assert verdict_on_chains(lines, 4, 10).headline.startswith("Too few draws")


# In a browser ------------------------------------------------------------------------------------

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium on this machine: the report was not looked at in a browser")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def written(
    images: thali.LatentFeatures, named: thali.LatentFeatures, tmp_path_factory: Any
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    models = {"images": images, "named": named}
    return {k: write_report(m, folder / f"{k}.html", title=EVIL) for k, m in models.items()}


@pytest.mark.parametrize("which", ["images", "named"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1200])
def test_it_reads_well_in_a_browser(
    browser: Any, written: dict[str, Path], width: int, scheme: str, which: str
) -> None:
    path = written[which]
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    troubles: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert troubles == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert page.title() == EVIL
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    paper, ink = page.evaluate(BACKGROUND_AND_INK)
    assert (paper < 0.2 and ink > 0.8) if scheme == "dark" else (paper > 0.8 and ink < 0.2)
    assert page.evaluate(SMALLEST_TEXT) >= 8.0
    assert page.evaluate(CUT_OFF) == []
    context.close()


BACKGROUND_AND_INK = """() => {
  const style = getComputedStyle(document.body);
  return [style.backgroundColor, style.color].map(color =>
    color.match(/[0-9.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765);
}"""

# Letters of a picture shrink with it: the size on the screen counts.
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll("svg text")].map(text => {
  const scale = text.ownerSVGElement.getScreenCTM().a;
  return parseFloat(getComputedStyle(text).fontSize) * scale;
}))"""

# What sticks out of the window must lie in a box that scrolls.
CUT_OFF = """() => [...document.querySelectorAll("main *")].filter(element =>
  element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll")
).map(element => element.outerHTML.slice(0, 80))"""
