"""One sheet of the panels that answer most: what, how often, where, how good, how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_features import LatentFeatures

from . import style
from .chains import feature_count, trace_of
from .components import features, frequencies
from .reading import image_shape_of
from .rows import assignments, reconstructions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def overview(model: LatentFeatures, *, image_shape: tuple[int, int] | None = None) -> Figure:
    """The features, their frequencies, the assignments, some reconstructions, and the chains.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> figure = thali.plots.overview(model)  # what model.plot() returns
    """
    check_is_fitted(model)
    shape = image_shape_of(model, image_shape)  # a wrong one is refused before anything is drawn
    figure = style.new_figure(11.0, 9.6)
    # One subfigure a line: long names in one line do not push the others.
    lines = figure.subfigures(3, 1, squeeze=False, height_ratios=[1.15, 1.35, 0.8])
    top, middle, bottom = lines.ravel()
    found, often = top.subplots(1, 2, width_ratios=[2, 1])
    where, rebuilt = middle.subplots(1, 2, width_ratios=[1, 2])
    count, walk, measure = bottom.subplots(1, 3)
    features(model, found, image_shape=image_shape, max_features=None if shape else 5)
    frequencies(model, often, max_features=12)
    assignments(model, where)
    reconstructions(model, rebuilt, image_shape=image_shape)
    feature_count(model, count)
    trace_of(model, "n_components", walk)
    trace_of(model, model.fit_.engine.measure, measure)
    return figure
