"""What collapsed Gibbs sampling of a feature matrix carries from sweep to sweep, and its packing.

The maintained arrays of ``kernels.maintained_rows`` (Z, C = ZᵀZ, T = ZᵀX and more), the
hyperparameters and the count of sweeps; where entries of X are missing, the data as last completed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from thali.data import Augmented, Data
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import Collapsed, Parameters
from thali.likelihoods.gibbs_updates import LatentGaussians
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.starts import Start

if TYPE_CHECKING:
    from thali.kernels.maintained_rows import Rows


FINEST = 3e-4  # of σ_a, that a given σ_x may be: the log odds of bits are then good to ε/r² = 0.03


@dataclass
class FeatureState:
    """What the next sweep needs: the maintained arrays, the hyperparameters, and the count."""

    data: Data  # those given, or ``Augmented`` by draws
    rows: Rows
    n_components: int
    hyper: Values
    sweep: int = 0
    hold_sigma: int = 0  # the scales stay put until this sweep, while features are being born
    prior: PredictsRow | None = None  # the model's at ``hyper``, kept for the next sweep
    parameters: Parameters = field(default_factory=dict)  # A, where a draw keeps it

    @property
    def latent(self) -> np.ndarray:
        """The N×K matrix of the features in use."""
        return np.asarray(self.rows.Z[:, : self.n_components], bool)

    @property
    def X(self) -> np.ndarray:
        """What the rows are made of: reduced, unless entries were drawn into gaps."""
        return kernel_matrix(self.data)


def begin(rng: np.random.Generator, model: Model, data: Data, start: Start) -> FeatureState:
    """The state at a start, arrays made afresh from its matrix."""
    from thali.kernels.maintained_rows import rows_of

    refuse_fine_noise(model, start.hyper)
    Z = start.latent[:, start.latent.any(axis=0)]
    Z = Z[:, rng.permutation(Z.shape[1])]  # the order of columns must carry no information
    hyper = dict(start.hyper)
    at, parameters, _ = augmented(rng, model, data, Z, hyper, hold=True)
    rows = rows_of(Z, kernel_matrix(at))
    return FeatureState(at, rows, Z.shape[1], hyper, 0, start.hold_sigma, parameters=parameters)


def refuse_fine_noise(model: Model, hyper: Values) -> None:
    """Refuse a given σ_x so far below σ_a that A cannot be integrated out in double precision.

    Where columns of Z depend on each other M has entries of size 1/r, and μ = M ZᵀX, of size 1, an
    error of ε/r: in the log odds of a bit that is ε/r², with r = σ_x²/σ_a².
    """
    if not isinstance(model.likelihood, LinearGaussian):
        return
    given, sigma_a = model.likelihood.sigma_x, model.likelihood.sigma_a
    if isinstance(given, Hyperprior):
        return
    if isinstance(sigma_a, Hyperprior):
        sigma_a = model.likelihood_values(hyper)["sigma_a"]
    sigma_x, sigma_a = float(given), float(sigma_a)
    if sigma_x < FINEST * sigma_a:
        raise ValueError(
            f"CollapsedGibbs: sigma_x={sigma_x:.3g} is less than {FINEST:g} of "
            f"sigma_a={sigma_a:.3g}: with features integrated out, double precision then cannot "
            "tell how likely those are that are sums of others; use a larger sigma_x, or let it be "
            "inferred."
        )


def to_arrays(state: FeatureState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The state as arrays and plain values; T goes along, so that a resumed chain is bitwise the
    same (M and G are made afresh at each sweep)."""
    k = state.n_components
    arrays = {"Z": np.packbits(state.rows.Z[:, :k], axis=0), "T": state.rows.T[:k].copy()}
    if isinstance(state.data, Augmented):
        arrays["X"] = state.data.X
    arrays |= state.parameters
    progress = {"k": k, "sweep": state.sweep, "hold": state.hold_sigma}
    return arrays, progress | {"hyper": dict(state.hyper)}


def from_arrays(
    model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
) -> FeatureState:
    """What ``to_arrays`` packed."""
    from thali.kernels.maintained_rows import rows_of

    Z = np.unpackbits(arrays["Z"], axis=0, count=data.n).astype(bool)
    latent = isinstance(model.likelihood, LatentGaussians)
    at = Augmented(arrays["X"], source=data, latent=latent) if "X" in arrays else data
    rows = rows_of(Z, kernel_matrix(at))
    rows.T[: numbers["k"]] = arrays["T"]
    hyper = dict(numbers["hyper"])
    parameters = {"A": arrays["A"]} if "A" in arrays else {}
    counted = numbers["k"], hyper, numbers["sweep"], numbers["hold"]
    return FeatureState(at, rows, *counted, parameters=parameters)


def kernel_matrix(data: Data) -> np.ndarray:
    """X with drawn entries as it is, any other reduced: the reduction changes with these."""
    return np.asarray(data.X if isinstance(data, Augmented) else data.reduced)


def total_square(data: Data) -> float:
    """Σx² of complete data."""
    return data.total_square if isinstance(data, Augmented) else float(data.squares.sum())


def augmented(
    rng: np.random.Generator,
    model: Model,
    data: Data,
    Z: np.ndarray,
    hyper: Values,
    hold: bool = False,
) -> tuple[Data, Parameters, float]:
    """What was given as the likelihood augments it, A being drawn first; parameters that a draw
    keeps; and log P given Z.

    Data that need nothing come back as they are, and no log P of them: a sweep knows it.
    """
    if not model.likelihood.augments(data.given):
        return data, {}, np.nan
    if isinstance(model.likelihood, LatentGaussians):
        own = model.likelihood_values(hyper)
        return model.likelihood.refreshed(rng, data, Z.astype(np.uint8), {}, own, hold)
    likelihood = cast(Collapsed, model.likelihood_at(hyper))
    A, evidence = likelihood.draw_features_and_evidence(rng, data, Z)
    return likelihood.augment(rng, data.given, Z, {"A": A}), {}, evidence
