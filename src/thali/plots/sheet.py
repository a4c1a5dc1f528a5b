"""One sheet of the panels that answer most: what, how often, where, how good, how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thali.results.fit import VariationalFit

from . import style
from .chains import feature_count, trace_of
from .components import features, frequencies
from .reading import check_fitted, image_shape_of
from .rows import assignments, reconstructions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thali.estimators.latent_features import LatentFeatures


def overview(model: LatentFeatures, *, image_shape: tuple[int, int] | None = None) -> Figure:
    """The features, their frequencies, the assignments, some reconstructions, and the chains.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12, random_state=0).X
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> figure = thali.plots.overview(model)  # what model.plot() returns
    """
    check_fitted(model)
    image_shape_of(model, image_shape)  # a wrong shape is refused before anything is drawn
    figure = style.new_figure(11.0, 9.6)
    # One subfigure a line: long names in one line do not push the others.
    lines: Any = figure.subfigures(3, 1, height_ratios=[1.15, 1.35, 0.8])
    top, middle, bottom = lines
    axes = dict(
        zip(("features", "frequencies"), top.subplots(1, 2, width_ratios=[2, 1]), strict=True)
    )
    axes.update(
        zip(
            ("assignments", "reconstructions"),
            middle.subplots(1, 2, width_ratios=[1, 2]),
            strict=True,
        )
    )
    axes.update(zip(("count", "k", "fit"), bottom.subplots(1, 3), strict=True))
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
    trace_of(model, "n_components", axes["k"])
    trace_of(model, "elbo" if isinstance(model.fit_, VariationalFit) else "log_joint", axes["fit"])
    return figure
