"""A model is a prior times a likelihood over the same latent structure.

Hyperparameters belong to the part that declares them. All of them together are one table, in which
a name stands as it is unless both parts have it; then the table has "prior.name" and
"likelihood.name". A part sees its own, by its own names (``prior_values``, ``likelihood_values``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from numpy.typing import ArrayLike

from thali.data import Data, Table
from thali.hyperparameters import Hyperprior, Scope, Value, Values
from thali.likelihoods.base import Collapsed, Likelihood
from thali.priors.base import Prior
from thali.settings import Label, hyperparameters_of, refuse_class
from thali.structures.base import AnyStructure

PARTS = ("prior", "likelihood")


@dataclass(frozen=True)
class Model:
    """Prior × likelihood; refuses parts that speak of different structures.

    A likelihood that a setting makes another (``LinearGaussian(noise="column")``) is that one here:
    engines judge what it can do by its class.
    """

    prior: Prior
    likelihood: Likelihood

    def __post_init__(self) -> None:
        check_part("prior", self.prior, Prior, "thali.IBP()")
        check_part("likelihood", self.likelihood, Likelihood, "thali.LinearGaussian()")
        object.__setattr__(self, "likelihood", self.likelihood.specialized())
        ours, theirs = self.prior.structure, self.likelihood.structure
        if ours != theirs:
            raise ValueError(
                f"{type(self.prior).__name__} is a prior on {ours.name} but "
                f"{type(self.likelihood).__name__} needs {theirs.name}."
            )

    @property
    def structure(self) -> AnyStructure:
        """The latent structure that both parts speak of."""
        return self.prior.structure

    def resolve(self, data: Data) -> Model:
        """The same model with every "auto" replaced by a hyperprior scaled to the data."""
        return Model(self.prior, self.likelihood.resolve(data))

    # hyperparameters

    @cached_property
    def labels(self) -> dict[str, dict[str, str]]:
        """For each part, the name in the table of each of its hyperparameters."""
        names = {part: tuple(hyperparameters_of(getattr(self, part))) for part in PARTS}
        both = set(names["prior"]) & set(names["likelihood"])
        return {
            part: {name: f"{part}.{name}" if name in both else name for name in own}
            for part, own in names.items()
        }

    @property
    def hyperparameters(self) -> dict[str, Label]:
        """Symbol and words of every hyperparameter, by its name in the table."""
        words = {part: hyperparameters_of(getattr(self, part)) for part in PARTS}
        return {label: words[part][k] for part in PARTS for k, label in self.labels[part].items()}

    @property
    def hyperpriors(self) -> dict[str, Hyperprior]:
        """The hyperpriors of the hyperparameters that are inferred, by their names in the table."""
        found = {
            label: getattr(getattr(self, part), name)
            for part in PARTS
            for name, label in self.labels[part].items()
        }
        return {label: value for label, value in found.items() if isinstance(value, Hyperprior)}

    def start(self, data: Data) -> dict[str, Value]:
        """A number for every hyperparameter to begin from: the table."""
        own = {"prior": self.prior.start(), "likelihood": self.likelihood.start(data)}
        return {self.labels[part][k]: v for part in PARTS for k, v in own[part].items()}

    def prior_values(self, hyper: Values) -> Values:
        """The prior's own hyperparameters in a table: writing to them writes to the table."""
        return self._scope("prior", hyper)

    def likelihood_values(self, hyper: Values) -> Values:
        """The likelihood's own hyperparameters in a table: writing to them writes to the table."""
        return self._scope("likelihood", hyper)

    def _scope(self, part: str, hyper: Values) -> Values:
        labels = self.labels[part]
        if all(name == label for name, label in labels.items()):
            return hyper  # the table itself will do, and costs nothing
        return Scope(hyper, labels)

    def at(self, hyper: Values) -> Model:
        """The same model with every hyperparameter a number."""
        return Model(self.prior_at(hyper), self.likelihood_at(hyper))

    def prior_at(self, hyper: Values) -> Prior:
        """The prior alone with every hyperparameter a number, which a sweep needs twice."""
        return self.prior.at(**self.own_values("prior", hyper))

    def likelihood_at(self, hyper: Values) -> Likelihood:
        """The likelihood alone with every hyperparameter a number."""
        return self.likelihood.at(**self.own_values("likelihood", hyper))

    def own_values(self, part: str, hyper: Values) -> dict[str, Value]:
        """A copy of those of a table that belong to a part, by its own names."""
        return {k: hyper[label] for k, label in self.labels[part].items() if label in hyper}

    def log_joint(self, X: Table, Z: ArrayLike) -> float:
        """Left-ordered log P([Z]) + log P(X | Z), hyperparameters given as numbers.

        X is ``Data``, or what ``Data.of`` makes them from.

        >>> import numpy as np
        >>> from thali import IBP, LinearGaussian
        >>> model = Model(IBP(alpha=1.0), LinearGaussian(sigma_x=1.0, sigma_a=1.0))
        >>> round(model.log_joint(np.zeros((1, 1)), np.ones((1, 1))), 4)
        -2.2655
        """
        return self.prior.log_prob(Z) + cast(Collapsed, self.likelihood).log_marginal(X, Z)


def check_part(name: str, part: object, kind: type, such_as: str) -> None:
    """Refuse a class, a part of another kind, and what is no part at all."""
    refuse_class(name, part)
    if isinstance(part, kind):
        return
    kinds = (("prior", Prior), ("likelihood", Likelihood))
    other = next((f" but a {what}" for what, base in kinds if isinstance(part, base)), "")
    raise TypeError(
        f"{name}={part!r} is not a {name}{other}: use one of thali's, such as {such_as}."
    )
