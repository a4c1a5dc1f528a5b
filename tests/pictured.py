"""What tests of pictures and reports share: a picture drawn, and a model that found nothing."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import thali


def drawn(picture: Axes | Figure) -> bytes:
    """Rendered, since matplotlib finds most troubles only then."""
    figure = picture if isinstance(picture, Figure) else picture.figure
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=50)
    return buffer.getvalue()


def no_features() -> thali.LatentFeatures:
    """Its prior has next to none, and there is no need of one in noise."""
    return thali.LatentFeatures(
        prior=thali.IBP(alpha=1e-9),
        likelihood=thali.LinearGaussian(sigma_x=1.0, sigma_a=1.0),
        engine=thali.CollapsedGibbs(sweeps=6, chains=2, init="empty"),
        random_state=0,
        progress=False,
    ).fit(np.random.default_rng(0).normal(size=(7, 16)))
