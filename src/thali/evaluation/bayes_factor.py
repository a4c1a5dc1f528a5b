r"""How much better one prior of features explains the data than another: log P₁(X)/P₂(X).

Where two models differ in the prior alone, their posteriors over Z have the densities
P_i(Z) P(X | Z)/P_i(X), whose ratio is known but for the Bayes factor. With draws of both, and
δ(Z) = log P₁(Z) − log P₂(Z), it is the root r of (Bennett 1976)

    Σ_{Z of model 2} 1/(1 + n₂/n₁ e^{r−δ(Z)}) = Σ_{Z of model 1} 1/(1 + n₁/n₂ e^{δ(Z)−r}),

the best use of both where draws are independent. P_i(Z) has the prior's hyperparameters integrated
out, as the mean over draws of their hyperpriors. The error is the jackknife's, over blocks of the
draws and of these.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp
from sklearn.utils.validation import check_is_fitted

from thali.hyperparameters import Hyperprior
from thali.priors.base import FeaturePrior
from thali.priors.learned_ibp import LearnedIBP
from thali.results.fit import Draws
from thali.settings import generator, hyperparameters_of
from thali.structures.features import feature_counts

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures

MOST, NUMBERS, BLOCKS = 100, 500, 10  # draws of a model, draws of hyperparameters, of the jackknife
FEWEST = 2 * BLOCKS  # draws of a model
EFFECTIVE = 10.0  # draws of hyperparameters that must count
LEAST = 2.0  # draws of a model that must be likely under the other, too
FAR = 1e4  # a logarithm that no Bayes factor of use exceeds


class BayesFactor(NamedTuple):
    """log P₁(X)/P₂(X), and its standard error."""

    estimate: float
    error: float


def log_bayes_factor(
    model: LatentFeatures, other: LatentFeatures, random_state: int = 0
) -> BayesFactor:
    """log P(X) of a fitted model less that of another, which differs in the prior alone.

    Both are sampled by chains of the same data, with one likelihood. Far more certain than the
    difference of two evidences, since only the priors of the features found are compared; as
    certain as the chains that found them.

    >>> import thali
    >>> X = thali.datasets.images(n=20, random_state=0).X
    >>> engine = thali.CollapsedGibbs(sweeps=100, chains=2)
    >>> one, other = (
    ...     thali.LatentFeatures(thali.IBP(alpha=a), engine=engine, random_state=0).fit(X)
    ...     for a in (1.0, 0.4)
    ... )
    >>> log_bayes_factor(one, other).estimate > 0.0
    True
    """
    models = (model, other)
    for each in models:
        check_is_fitted(each)
    refuse(models)
    for each in models:
        if (kept := len(each.fit_.weights())) < FEWEST:
            raise ValueError(
                f"log_bayes_factor: a model kept {kept} draws, and {FEWEST} or more are needed to "
                "tell how sure the answer is. Use more sweeps."
            )
    rng = generator("log_bayes_factor", random_state)
    counts = [[feature_counts(draw.Z) for draw in each.draws(MOST)] for each in models]
    priors = [drawn_priors(rng, cast(FeaturePrior, each.prior_)) for each in models]
    tables = [  # of each prior at each of its numbers, log P of the draws of both models
        [np.array([[at.log_prob_counts(c) for c in own] for at in prior]) for own in counts]
        for prior in priors
    ]

    def without(block: int) -> float:
        """The estimate without one block of the draws and of the numbers; with all for −1."""
        kept = [[left_out(left_out(t, block).T, block) for t in own] for own in tables]
        first, second = ([logsumexp(t, axis=1) - np.log(t.shape[1]) for t in own] for own in kept)
        return bennett(first[0] - second[0], first[1] - second[1])

    warn_of_numbers(tables)
    spread = np.var([without(block) for block in range(BLOCKS)])
    return BayesFactor(without(-1), float(np.sqrt((BLOCKS - 1.0) * spread)))


def drawn_priors(rng: np.random.Generator, prior: FeaturePrior) -> list[FeaturePrior]:
    """The prior at draws of its hyperparameters, over which P([Z]) is a mean; itself if fixed."""
    laws = {name: getattr(prior, name) for name in hyperparameters_of(prior)}
    laws = {name: law for name, law in laws.items() if isinstance(law, Hyperprior)}
    times = NUMBERS if laws else 1
    return [prior.at(**{k: law.sample(rng) for k, law in laws.items()}) for _ in range(times)]


def warn_of_numbers(tables: list[list[np.ndarray]]) -> None:
    """Say so where few draws of a prior's hyperparameters make up the probability of a matrix."""
    for own in tables:
        for logs in own:  # a row for each of the prior's numbers, a column for each matrix
            worth = np.exp(2.0 * logsumexp(logs, axis=0) - logsumexp(2.0 * logs, axis=0))
            if len(logs) > 1 and np.median(worth) < EFFECTIVE:
                warnings.warn(
                    f"log_bayes_factor: of {len(logs)} draws of a prior's hyperparameters some "
                    f"{np.median(worth):.0f} make up the probability of a matrix: the answer is "
                    "less sure than its error says. Use hyperpriors that are less vague.",
                    RuntimeWarning,
                    stacklevel=3,
                )
                return


def left_out(values: np.ndarray, block: int) -> np.ndarray:
    """The rows but one of ``BLOCKS`` blocks of them; all where there is one row, or no block."""
    if block < 0 or len(values) < BLOCKS:
        return values
    return np.delete(values, np.array_split(np.arange(len(values)), BLOCKS)[block], axis=0)


def bennett(of_first: np.ndarray, of_second: np.ndarray) -> float:
    """The root r, from δ of the draws of both models."""
    shift = np.log(len(of_first) / len(of_second))

    def excess(r: float) -> float:
        return float(expit(of_second - r + shift).sum() - expit(r - shift - of_first).sum())

    root = float(brentq(excess, -FAR, FAR))
    if expit(of_second - root + shift).sum() < LEAST:
        raise ValueError(
            "log_bayes_factor: the models cannot be compared: the matrices that one finds are next "
            "to impossible under the other. Compare both with a prior in between."
        )
    return root


def refuse(models: tuple[LatentFeatures, LatentFeatures]) -> None:
    """Say why two models cannot be compared so, where they cannot."""
    one, other = models
    why = ""
    if not all(isinstance(each.fit_, Draws) for each in models):
        why = "both must be fitted by chains (CollapsedGibbs, UncollapsedGibbs or Metropolis)"
    elif not np.array_equal(one.fit_.data.X, other.fit_.data.X, equal_nan=True):
        why = "they were fitted to different data"
    elif one.likelihood_ != other.likelihood_:
        why = f"their likelihoods differ ({one.likelihood_} and {other.likelihood_})"
    elif not all(each.prior_.normalized for each in models):
        why = "a prior with row potentials or features has no normalizer that is known"
    elif any(isinstance(each.prior_, LearnedIBP) for each in models):
        why = "LearnedIBP has too many numbers to integrate out"
    if why:
        raise ValueError(f"log_bayes_factor: the models cannot be compared: {why}.")
