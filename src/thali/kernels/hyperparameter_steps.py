r"""Updates of the hyperparameters between two sweeps, without leaving compiled code.

α | Z ~ Gamma(shape + K, rate + total)       where every e^{λ_m} is proportional to α
σ | Z   by a slice step on log σ             (``scale_steps``)
"""

from typing import NamedTuple

from thali.kernels.compiling import helper
from thali.kernels.scale_steps import BOTH_STAY, ScaleLaws

SMALLEST = 1e-300  # where a draw from a very flat distribution underflows


class Laws(NamedTuple):
    """How hyperparameters are updated; ``here`` is False where that is done elsewhere."""

    here: bool
    alpha: float
    unit: float  # λ_1 where α = 1
    shape: float  # of α's gamma; 0 where α stays
    rate: float
    total: float  # Σ over rows: log P of no features at all is −α · total
    constant: float  # that log P where α stays
    scales: ScaleLaws
    squares: float  # Σ x²
    held: int  # sweeps until scales begin to change


ELSEWHERE = Laws(False, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, BOTH_STAY, 0.0, 0)


@helper
def draw_mass(rng, alpha, k, laws):
    """α given that there are k features."""
    if laws.shape == 0.0:
        return alpha
    scale = 1.0 / (laws.rate + laws.total)
    return max(scale * rng.standard_gamma(laws.shape + k), SMALLEST)
