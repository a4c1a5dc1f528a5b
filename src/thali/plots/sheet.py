"""One sheet with the panels that answer most questions: what, how often, where, how good, how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import style
from .chains import feature_count, trace_of
from .components import features, frequencies
from .reading import check_fitted, image_shape_of
from .rows import assignments, reconstructions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thali.estimators import LatentFeatures


def overview(model: LatentFeatures, *, image_shape: tuple[int, int] | None = None) -> Figure:
    """The features, their frequencies, the assignments, some reconstructions, and the chains."""
    check_fitted(model)
    image_shape_of(model, image_shape)  # a wrong shape is refused before anything is drawn
    figure = style.new_figure(11.0, 9.6)
    grid = figure.add_gridspec(3, 6, height_ratios=[1.15, 1.35, 0.75])
    panels = {
        "features": grid[0, :4], "frequencies": grid[0, 4:],
        "assignments": grid[1, :2], "reconstructions": grid[1, 2:],
        "count": grid[2, :2], "k": grid[2, 2:4], "fit": grid[2, 4:],
    }  # fmt: skip
    axes = {name: figure.add_subplot(place) for name, place in panels.items()}
    features(
        model, axes["features"], image_shape=image_shape,
        max_features=None if image_shape_of(model, image_shape) else 5,
    )  # fmt: skip
    frequencies(model, axes["frequencies"], max_features=12)
    assignments(model, axes["assignments"])
    if getattr(model, "X_", None) is None:
        style.say(axes["reconstructions"], "Reconstructions", "The data were not kept.")
    else:
        reconstructions(model, axes["reconstructions"], image_shape=image_shape)
    feature_count(model, axes["count"])
    trace_of(model, "n_features", axes["k"])
    trace_of(model, "log_joint", axes["fit"])
    return figure
