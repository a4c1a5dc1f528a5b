r"""The prior of an entry a ≥ 0 of a feature, half-normal or exponential, and its law given a row.

    half-normal  p(a) = √(2/π)/σ_a e^{−a²/2σ_a²}      exponential  p(a) = λ e^{−λa}

Up to a constant N(e; a, σ_x²) e^{−λa} is N(e − λσ_x²; a, σ_x²): under an exponential prior all is
as under a flat one with residuals less ``pull`` = λσ_x². So with r = σ_x²/σ_a², or 0, and pull = 0,
or λσ_x², an entry of which m residuals of sum s are seen, and what one residual e says of it, are

    a | s ~ TN((s − pull)/(m + r), σ_x²/(m + r))
    ∫₀^∞ N(e; a, σ_x²) p(a) da / N(e; 0, σ_x²) = p(0) τ √(π/2) · 2Φ(t) e^{t²/2},
    a | e ~ TN(τt, τ²),   τ² = σ_x²/(1 + r),  t = (e − pull) τ/σ_x²
"""

import math
from typing import NamedTuple

from thali.kernels.compiling import helper


class Entries(NamedTuple):
    """The law of an entry, and what a residual of scale ``sigma_x`` says of it."""

    sigma_x: float
    ridge: float  # r
    pull: float
    slope: float  # τ/σ_x²
    share: float  # τ²/σ_x²
    scale: float  # τ
    log_each: float  # log p(0) τ √(π/2)
    size: float  # σ_a, or 1/λ
    exponential: bool


def half_normal(sigma_x: float, sigma_a: float) -> Entries:
    """a ~ N(0, σ_a²) cut off below zero."""
    variance = sigma_x**2 + sigma_a**2
    deviation = math.sqrt(variance)
    return Entries(
        sigma_x=float(sigma_x),
        ridge=float((sigma_x / sigma_a) ** 2),
        pull=0.0,
        slope=float(sigma_a / (sigma_x * deviation)),
        share=float(sigma_a**2 / variance),
        scale=float(sigma_x * sigma_a / deviation),
        log_each=math.log(sigma_x / deviation),
        size=float(sigma_a),
        exponential=False,
    )


def exponential(sigma_x: float, rate: float) -> Entries:
    """a ~ Exponential(λ), λ the rate."""
    return Entries(
        sigma_x=float(sigma_x),
        ridge=0.0,
        pull=float(rate * sigma_x**2),
        slope=float(1.0 / sigma_x),
        share=1.0,
        scale=float(sigma_x),
        log_each=math.log(rate * sigma_x * math.sqrt(0.5 * math.pi)),
        size=float(1.0 / rate),
        exponential=True,
    )


@helper
def draw_entry(rng, law):
    """An entry from its prior."""
    if law.exponential:
        return law.size * rng.standard_exponential()
    return law.size * abs(rng.standard_normal())
