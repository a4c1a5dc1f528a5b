"""Pictures show what a fitted model holds, whatever its size and names, and touch nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pictured import drawn, no_features
from sklearn.exceptions import NotFittedError

import thali
from thali import plots
from thali.plots.style import plain

SINGLE = ("feature_count", "frequencies", "features", "assignments", "reconstructions")
ODD_NAMES = [
    "<script>alert(1)</script>",
    "costs $5 or $6",
    "名前がとても長い列の名前です",
    "скорость",
    "a column name that goes on and on and on",
]


def fitted(X: Any, **engine: Any) -> thali.LatentFeatures:
    settings = {"sweeps": 20, "chains": 2, **engine}
    return thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(**settings),
        random_state=0,
        progress=False,
    ).fit(X)


def superposed(n: int, d: int, k: int = 3) -> np.ndarray:
    rng = np.random.default_rng(5)
    Z, A = rng.random((n, k)) < 0.4, rng.normal(size=(k, d))
    return Z @ A + 0.2 * rng.normal(size=(n, d))


@pytest.fixture(scope="module")
def images() -> thali.LatentFeatures:
    return fitted(thali.datasets.images(n=40, random_state=0).X, sweeps=40)


@pytest.fixture(scope="module")
def named() -> thali.LatentFeatures:
    rows = [f"{'δ' * i} row" for i in range(12)]
    return fitted(pd.DataFrame(superposed(12, 5), columns=ODD_NAMES, index=rows))


EXTREMES = {
    "no features": no_features,
    "one row": lambda: fitted(superposed(1, 5)),
    "one column": lambda: fitted(superposed(15, 1)),
    "one sweep": lambda: fitted(superposed(15, 4), sweeps=1, chains=1),
    "centered": lambda: thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=10, chains=1),
        center=True,
        random_state=0,
        progress=False,
    ).fit(superposed(15, 4) + 100),
    "wide": lambda: fitted(superposed(20, 5_000), sweeps=4),
    "tall": lambda: fitted(superposed(20_000, 2), sweeps=4, chains=1, init="empty"),
    "huge values": lambda: fitted(1e15 * superposed(15, 4)),
    "constant": lambda: fitted(np.ones((10, 3))),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_every_picture_copes_with(case: str) -> None:
    model = EXTREMES[case]()
    assert drawn(plots.trace(model))
    assert drawn(plots.overview(model))  # every other picture is a panel of it
    for name in SINGLE:
        assert isinstance(getattr(plots, name)(model), Axes)


@pytest.mark.filterwarnings("ignore:.*[Gg]lyph")  # the machine may have no font for a script
def test_odd_names_are_drawn_short_and_never_as_formulas(named: thali.LatentFeatures) -> None:
    ax = plots.features(named)
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert labels[0].startswith("<script>")
    assert labels[1] == r"costs \$5 or \$6"
    assert all(len(label) <= 18 for label in labels)
    assert drawn(ax)
    assert drawn(plots.overview(named))
    assert "row" in plots.assignments(named).get_yticklabels()[0].get_text()


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\tb\x00\ud800c", "a bc"), ("", "·"), ("x" * 99, "x" * 9 + "…"), ("漢" * 9, "漢漢漢漢…")],
)
def test_names_become_short_lines(text: str, shown: str) -> None:
    assert plain(text, 10) == shown


def test_trace_draws_every_chain_of_the_five_scalars(images: thali.LatentFeatures) -> None:
    figure = plots.trace(images)
    for ax, name in zip(figure.axes, ("n_components", "alpha", "sigma_x", "sigma_a"), strict=False):
        for line, values in zip(ax.get_lines(), images.history_[name], strict=True):
            np.testing.assert_array_equal(line.get_ydata(), values)
    assert len(figure.axes) == 5
    shaded = (
        figure.axes[0].patches[0].get_extents().transformed(figure.axes[0].transData.inverted())
    )
    assert shaded.x1 == pytest.approx(images.burn_in_ + 0.5)


def test_pictures_use_the_axes_they_are_given(images: thali.LatentFeatures) -> None:
    figure = Figure()
    axes = figure.subplots(1, 5)
    assert plots.trace(images, axes=list(axes)) is figure
    for name in SINGLE:
        ax = Figure().subplots()
        assert getattr(plots, name)(images, ax) is ax
    with pytest.raises(ValueError, match="5 panels"):
        plots.trace(images, axes=[axes[0]])


@pytest.mark.parametrize("name", SINGLE)
def test_each_picture_stands_alone(images: thali.LatentFeatures, name: str) -> None:
    assert drawn(getattr(plots, name)(images))


def test_text_is_light_on_dark_axes(images: thali.LatentFeatures) -> None:
    ax = Figure(facecolor="black").subplots(subplot_kw={"facecolor": "black"})
    plots.frequencies(images, ax)
    assert min(mpl.colors.to_rgb(ax.xaxis.label.get_color())) > 0.5


def test_feature_count_is_the_share_of_kept_sweeps(images: thali.LatentFeatures) -> None:
    ax = plots.feature_count(images)
    kept = images.history_["n_components"][:, images.burn_in_ :]
    for bar in ax.patches:
        k = round(bar.get_x() + bar.get_width() / 2)
        assert bar.get_height() == pytest.approx((kept == k).mean())
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1.0)


def test_frequencies_are_posterior_means(images: thali.LatentFeatures) -> None:
    widths = [bar.get_width() for bar in plots.frequencies(images).patches]
    np.testing.assert_allclose(widths, images.assignment_probabilities_.mean(axis=0))


def test_features_are_images_when_they_can_be(images: thali.LatentFeatures) -> None:
    (picture,) = plots.features(images).get_images()
    canvas = np.ma.filled(picture.get_array(), np.nan)
    np.testing.assert_allclose(canvas[:6, :6], images.components_[0].reshape(6, 6))
    (picture,) = plots.features(images, image_shape=(4, 9), max_features=1).get_images()
    np.testing.assert_allclose(picture.get_array(), images.components_[0].reshape(4, 9))


def test_named_columns_are_stems(named: thali.LatentFeatures) -> None:
    assert not plots.features(named).get_images()


@pytest.mark.parametrize("shape", [(5, 5), (36,), (0, 36), (-6, -6)])
def test_a_wrong_image_shape_is_refused(images: thali.LatentFeatures, shape: Any) -> None:
    for name in ("features", "reconstructions", "overview"):
        with pytest.raises(ValueError, match="does not fit rows of 36 values"):
            getattr(plots, name)(images, image_shape=shape)


def test_assignments_put_equal_rows_together(images: thali.LatentFeatures) -> None:
    (picture,) = plots.assignments(images).get_images()
    shown = np.asarray(picture.get_array())
    order = sorted(range(len(images.Z_)), key=lambda i: tuple(~images.Z_[i]))
    np.testing.assert_allclose(shown, images.assignment_probabilities_[order])


def test_many_rows_are_averaged_not_dropped() -> None:
    model = fitted(superposed(3_000, 3), sweeps=4, chains=1, init="empty")
    (picture,) = plots.assignments(model).get_images()
    assert len(picture.get_array()) == 500
    np.testing.assert_allclose(
        np.asarray(picture.get_array()).mean(axis=0), model.assignment_probabilities_.mean(axis=0)
    )


def test_reconstructions_show_data_and_model(images: thali.LatentFeatures) -> None:
    rows, left = plots.reconstructions(images, rows=[7]).get_images()
    canvas = np.fmax(*(np.ma.filled(picture.get_array(), np.nan) for picture in (rows, left)))
    lines = canvas[~np.isnan(canvas).any(axis=1)].reshape(3, 36)
    made = images.inverse_transform(images.Z_[[7]])[0]
    np.testing.assert_allclose(lines, [images.X_[7], made, images.X_[7] - made])


def test_data_without_negatives_are_photographs() -> None:
    model = fitted(np.random.default_rng(0).random((12, 16)), sweeps=6)
    rows, left = plots.reconstructions(model).get_images()
    assert rows.get_cmap().name == "gray"
    assert left.get_clim()[0] == -left.get_clim()[1]


@pytest.mark.parametrize("rows", [[], [40], [-1], [0.5], ["a"]])
def test_rows_that_do_not_exist_are_refused(images: thali.LatentFeatures, rows: Any) -> None:
    with pytest.raises(ValueError, match="rows must"):
        plots.reconstructions(images, rows=rows)


def test_nothing_global_changes(images: thali.LatentFeatures) -> None:
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    drawn(images.plot())
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


def test_a_picture_shows_itself_in_a_notebook(images: thali.LatentFeatures) -> None:
    assert images.plot()._repr_png_().startswith(b"\x89PNG")


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, thali, thali.plots, thali.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", [*SINGLE, "trace", "overview"])
def test_an_unfitted_model_says_so(name: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(plots, name)(thali.LatentFeatures(likelihood="linear_gaussian"))


def test_every_hyperparameter_of_every_part_has_a_symbol():
    from thali.data import Data
    from thali.data.columns import Columns
    from thali.likelihoods.table import TableLikelihood
    from thali.registry import LIKELIHOODS, PRIORS
    from thali.settings import hyperparameters_of

    data = Data.of([[0.0, 1.0], [1.0, 0.0]])
    for part in PRIORS.values():
        table = {thali.FlexiblePartition: "potentials", thali.FlexibleIBP: "column_potentials"}
        given = {table[part]: (0.0, 0.0)} if part in table else {}
        made = part(**given)
        assert set(made.start()) == set(hyperparameters_of(made))
    columns = Columns.of([[0.0, "a"], [1.5, "b"], [2.5, "c"]])
    for part in LIKELIHOODS.values():
        made, own = part(), data
        if isinstance(made, TableLikelihood):
            codes = columns.encode([[0.0, "a"], [1.5, "b"], [2.5, "c"]])
            made = made.with_layout(columns, codes)
            own = Data.checked(made.known.expand(codes))
        assert set(made.resolve(own).start(own)) == set(hyperparameters_of(part))
