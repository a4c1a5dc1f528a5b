"""The point estimate of a fit: the value with the least expected loss, by its structure."""

from typing import Any

import numpy as np

from thali.results.fit import Fit
from thali.results.trace import Recorded
from thali.structures.base import PointEstimate


def point_estimate(fit: Fit) -> tuple[PointEstimate[Any], list[Recorded]]:
    """The estimate, and the draws that it was made of."""
    structure = fit.model.structure
    most = structure.draws_to_use(fit.data.n, int(fit.kept()["n_components"].max()))
    picked = fit.pick(fit.representatives(most))
    log_joints = np.array([draw.scalars["log_joint"] for draw in picked])
    return structure.point_estimate([draw.latent for draw in picked], log_joints), picked
