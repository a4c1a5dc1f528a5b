"""What the polish of answers with real parameters at their best shares: how hyperparameters are
weighed. σ_x and those of the prior go to their best, and σ_a stays where it is.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from thali.engines.base import inferred
from thali.engines.search.forms import Form
from thali.engines.search.polish import log_prior_of
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.gaussian_scales import LEAST
from thali.structures.features import feature_counts

KeptT = TypeVar("KeptT")


class RealForm(Form[KeptT]):
    """A form whose parameters are real numbers."""

    @abstractmethod
    def _by_scales(self, Z: np.ndarray, parameters: Parameters) -> Callable[[Values, float], float]:
        """The log joint by numbers of the hyperparameters and the log prior that they give."""

    def hyperpriors(self, Z: np.ndarray) -> Mapping[str, Hyperprior]:
        stays = self.model.labels["likelihood"]["sigma_a"]
        return {name: each for name, each in self.model.hyperpriors.items() if name != stays}

    def log_joint_by_hyper(
        self, Z: np.ndarray, parameters: Parameters
    ) -> Callable[[Values], float]:
        model, log_joint = self.model, self._by_scales(Z, parameters)
        of_prior = log_prior_of(model.prior, feature_counts(Z))
        cut = "sigma_x" in inferred(model.likelihood)
        scale = float(np.sqrt(self.data.mean_square))

        def value(numbers: Values) -> float:
            scales = model.likelihood_values(numbers)
            if cut and scales["sigma_x"] < LEAST * max(scale, scales["sigma_a"]):
                return -np.inf  # where its hyperprior is cut off, as in sampling
            return log_joint(numbers, of_prior(*model.own_values("prior", numbers).items()))

        return value
