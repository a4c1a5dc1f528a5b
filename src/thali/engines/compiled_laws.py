"""Which hyperparameters compiled code can update between two sweeps, and how.

The mass of a prior that has a ``mass_law``, and scales whose hyperpriors have ``powers``. All
others are updated in Python, as their parts say. So are all of data with gaps, unless A and what is
missing are drawn as ``LinearGaussian`` draws them: then compiled code does that too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from thali.data import Data
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import Likelihood, Scale, Scaled
from thali.likelihoods.gaussian_scales import LEAST
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.settings import defined_together

if TYPE_CHECKING:
    from thali.kernels.hyperparameter_steps import Laws
    from thali.kernels.scale_steps import ScaleLaw, ScaleLaws


DRAWS = "augment", "entries", "draw_features_and_evidence", "log_marginal"  # of A, and of gaps


def laws_of(
    model: Model, data: Data, hyper: Values, squares: float, held: int, by_slice: bool
) -> Laws:
    """How all of them are updated; ``ELSEWHERE`` where compiled code cannot see to one.

    ``squares`` is Σx² of complete data, ``held`` the number of sweeps until scales begin to change.
    """
    from thali.kernels.hyperparameter_steps import ELSEWHERE, Laws

    if model.likelihood.augments(data) and not completes_plainly(model.likelihood):
        return ELSEWHERE
    likelihood, prior = cast(Scaled, model.likelihood), cast(PredictsRow, model.prior)
    mass = prior.mass_law(data.n, model.prior_values(hyper))
    scales = scale_laws(likelihood, data)
    if mass is None or scales is None or not by_slice:
        return ELSEWHERE
    alpha, unit, shape, rate, total, constant = map(float, mass)
    return Laws(
        here=True,
        alpha=alpha,
        unit=unit,
        shape=shape,
        rate=rate,
        total=total,
        constant=constant,
        scales=scales,
        squares=squares,
        held=held,
    )


def completes_plainly(likelihood: Likelihood) -> bool:
    """Whether A and missing entries are drawn as ``LinearGaussian`` does: no subclass changed
    how."""
    kind = type(likelihood)
    return issubclass(kind, LinearGaussian) and all(
        getattr(kind, name) is getattr(LinearGaussian, name) for name in DRAWS
    )


def scale_laws(likelihood: Scaled, data: Data, fixed: float = 0.0) -> ScaleLaws | None:
    """How σ_x and σ_a are updated; None where only their hyperpriors can tell.

    An inferred σ_x is cut off at a share of the data's scale and of σ_a, one that stays at
    ``fixed`` of σ_a.
    """
    from thali.kernels.scale_steps import ScaleLaws

    x, a = scale_law(likelihood.sigma_x), scale_law(likelihood.sigma_a)
    if x is None or a is None:
        return None
    if not x.inferred:
        return ScaleLaws(x, a, fixed, 0.0)
    return ScaleLaws(x, a, LEAST, LEAST * float(np.sqrt(data.mean_square)))


def scale_law(given: Scale) -> ScaleLaw | None:
    """How a scale is updated; None where only its hyperprior can tell.

    That is so, too, where a subclass changed the density alone.
    """
    from thali.kernels.scale_steps import STAYS, ScaleLaw

    if not isinstance(given, Hyperprior):
        return STAYS
    powers = given.powers() if defined_together(given, "powers", ("log_density",)) else None
    if powers is None:
        return None
    power, inverse_square, linear = powers
    return ScaleLaw(float(power), float(inverse_square), float(linear), True)
