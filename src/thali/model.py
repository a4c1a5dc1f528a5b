"""A model is a prior times a likelihood over the same latent structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thali.data import Data
from thali.likelihoods.base import FeatureLikelihood
from thali.priors.base import FeaturePrior
from thali.settings import refuse_class


@dataclass(frozen=True)
class Model:
    """Prior × likelihood; refuses parts that speak of different structures."""

    prior: FeaturePrior
    likelihood: FeatureLikelihood

    def __post_init__(self) -> None:
        check_part("prior", self.prior, FeaturePrior, "thali.IBP()")
        check_part("likelihood", self.likelihood, FeatureLikelihood, "thali.LinearGaussian()")
        ours, theirs = self.prior.structure, self.likelihood.structure
        if ours != theirs:
            raise ValueError(
                f"{type(self.prior).__name__} is a prior on {ours} but "
                f"{type(self.likelihood).__name__} needs {theirs}."
            )

    def resolve(self, data: Data) -> Model:
        """The same model with every "auto" replaced by a law scaled to the data."""
        return Model(self.prior, self.likelihood.resolve(data))

    def start(self, data: Data) -> dict[str, float]:
        """A number for every hyperparameter to begin from."""
        return {**self.prior.start(), **self.likelihood.start(data)}

    def at(self, hyper: dict[str, float]) -> Model:
        """The same model with every hyperparameter a number."""
        theirs = {k: v for k, v in hyper.items() if hasattr(self.likelihood, k)}
        return Model(self.prior_at(hyper), self.likelihood.at(**theirs))

    def prior_at(self, hyper: dict[str, float]) -> FeaturePrior:
        """The prior alone with every hyperparameter a number, which a sweep needs twice."""
        return self.prior.at(**{k: v for k, v in hyper.items() if hasattr(self.prior, k)})

    def log_joint(self, X: Any, Z: Any) -> float:
        """Left-ordered log P([Z]) + log P(X | Z), hyperparameters given as numbers.

        X is ``Data``, or what ``Data.of`` makes them from.

        >>> import numpy as np
        >>> from thali import IBP, LinearGaussian
        >>> model = Model(IBP(alpha=1.0), LinearGaussian(sigma_x=1.0, sigma_a=1.0))
        >>> round(model.log_joint(np.zeros((1, 1)), np.ones((1, 1))), 4)
        -2.2655
        """
        return self.prior.log_prob(Z) + self.likelihood.log_marginal(X, Z)  # type: ignore[attr-defined]


def check_part(name: str, part: Any, kind: type, such_as: str) -> None:
    """Refuse a class, a part in the place of another, and what is no part at all."""
    refuse_class(name, part)
    if isinstance(part, kind):
        return
    other = ""
    for what, base in (("prior", FeaturePrior), ("likelihood", FeatureLikelihood)):
        if isinstance(part, base):
            other = f" but a {what}"
    raise TypeError(
        f"{name}={part!r} is not a {name}{other}: use one of thali's, such as {such_as}."
    )
