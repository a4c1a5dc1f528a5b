"""Hyperparameters: a number, which is fixed, or a hyperprior, under which it is inferred."""

from thali.hyperparameters.given import (
    as_number,
    check_center,
    check_hyperparameter,
    check_hyperparameters,
    check_real,
    draw_numbers,
    first_numbers,
)
from thali.hyperparameters.hyperpriors import (
    LARGEST,
    SMALLEST,
    Above,
    Beta,
    Gamma,
    Hyperprior,
    InverseGamma,
    Normal,
    draw_probability,
    draw_scale,
)
from thali.hyperparameters.steps import (
    Density,
    metropolis_step,
    slice_step,
    slice_step_of_probability,
    slice_step_of_real,
)
from thali.hyperparameters.values import Scope, Value, Values, as_scalars, from_scalars

__all__ = [
    "LARGEST",
    "SMALLEST",
    "Above",
    "Beta",
    "Density",
    "Gamma",
    "Hyperprior",
    "InverseGamma",
    "Normal",
    "Scope",
    "Value",
    "Values",
    "as_number",
    "as_scalars",
    "check_center",
    "check_hyperparameter",
    "check_hyperparameters",
    "check_real",
    "draw_numbers",
    "draw_probability",
    "draw_scale",
    "first_numbers",
    "from_scalars",
    "metropolis_step",
    "slice_step",
    "slice_step_of_probability",
    "slice_step_of_real",
]
