"""Did the chains come to agree? R-hat near 1, enough independent draws, said in plain words.

R-hat compares the spread between chains with the spread within; 1.01 and 100 effective draws a
chain are the limits of Vehtari et al. (2021). With fewer than a fifth of these R-hat itself is too
uncertain to call chains nearly agreed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.plots.reading import kept, labels_of
from thali.results.fit import PointFit, VariationalFit, WeightedDraws

from .markup import plural

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures

GOOD_RHAT, FAIR_RHAT = 1.01, 1.05
ESS_PER_CHAIN, FAIR_ESS_PER_CHAIN = 100, 20
FEW_DRAWS = 50
SAME_BOUND = 1e-4  # relative


class Scalar(NamedTuple):
    """One line of the table of convergence."""

    name: str
    level: str  # "good", "fair", "poor", "fixed", "unknown", or "found" by optimization
    rhat: float
    ess: float
    mean: float
    low: float
    high: float
    still: bool = False  # inferred, and yet no chain has moved from where it is
    symbol: str = ""  # as people are shown it, and in words
    words: str = ""


class Verdict(NamedTuple):
    """The answer in a word ("good", "fair", "poor", "unknown"), a headline and what to do."""

    level: str
    headline: str
    advice: str


def scalars(model: LatentFeatures) -> list[Scalar]:
    """The recorded scalars with their diagnostics, posterior mean and 90% interval."""
    return [
        _scalar(model, name)._replace(symbol=label.symbol, words=label.words)
        for name, label in labels_of(model).items()
    ]


def _scalar(model: LatentFeatures, name: str) -> Scalar:
    if isinstance(model.fit_, VariationalFit):
        value = float(model.history_[name][best_restart(model), -1])
        return Scalar(name, "found", np.nan, np.nan, value, np.nan, np.nan)
    if isinstance(model.fit_, PointFit):
        value = float(kept(model, name)[0, 0])
        return Scalar(name, "found", np.nan, np.nan, value, np.nan, np.nan)
    values = kept(model, name)
    finite = values[np.isfinite(values)]
    entry = model.diagnostics_.get(name, {})
    rhat, ess = float(entry.get("rhat", np.nan)), float(entry.get("ess", np.nan))
    if not finite.size:
        return Scalar(name, "unknown", rhat, ess, np.nan, np.nan, np.nan)
    if isinstance(model.fit_, WeightedDraws):
        weights = model.weights_[np.isfinite(values.ravel())]  # of those that are left
        return _weighted_scalar(model, name, finite, weights / weights.sum(), ess)
    low, high = np.quantile(finite, [0.05, 0.95])
    inferred = is_inferred(model, name)
    level = level_of(values, rhat, ess, inferred)
    still = inferred and not ranges(values).any()
    return Scalar(name, level, rhat, ess, float(finite.mean()), float(low), float(high), still)


def best_restart(model: LatentFeatures) -> int:
    """Which restart of a variational fit has the highest bound."""
    return int(np.argmax(model.history_["elbo"][:, -1]))


def is_inferred(model: LatentFeatures, name: str) -> bool:
    """Whether a scalar is a hyperparameter with a law, not a number that the model fixes."""
    return name.partition("[")[0] in model.fit_.model.hyperpriors


def _weighted_scalar(
    model: LatentFeatures, name: str, values: np.ndarray, weights: np.ndarray, ess: float
) -> Scalar:
    """Mean and interval by weight; one population says nothing of its agreement with another."""
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    ends = np.minimum(np.searchsorted(upto, [0.05, 0.95]), len(values) - 1)
    low, high = values[order[ends]]
    fixed = np.ptp(values) == 0 and not is_inferred(model, name)
    level = "fixed" if fixed else "unknown"
    mean = float(values[0] + weights @ (values - values[0]))
    return Scalar(name, level, float("nan"), ess, mean, float(low), float(high))


def level_of(values: np.ndarray, rhat: float, ess: float, inferred: bool = False) -> str:
    """How well the chains (chains, draws) of one scalar agree.

    One that never varies is "fixed", unless it was to be inferred: then nothing is known of it.

    >>> level_of(np.array([[3.0, 3.0], [4.0, 4.0]]), np.inf, np.nan)
    'poor'
    >>> level_of(np.array([[3.0, 4.0], [4.0, 3.0]]), rhat=1.0, ess=12.0)
    'poor'
    >>> level_of(np.full((2, 3), 0.5), np.nan, np.nan, inferred=True)
    'unknown'
    """
    chains = len(values)
    if np.nanmax(values) == np.nanmin(values):
        return "unknown" if inferred else "fixed"
    if chains > 1 and not ranges(values).any():
        return "poor"  # each chain sits still, in a place of its own; R-hat divides by zero there
    if np.isnan(rhat) or chains < 2:
        return "unknown"
    if rhat <= GOOD_RHAT and not ess < ESS_PER_CHAIN * chains:
        return "good"
    return "fair" if rhat <= FAIR_RHAT and not ess < FAIR_ESS_PER_CHAIN * chains else "poor"


def ranges(values: np.ndarray) -> np.ndarray:
    """How far each chain of (chains, draws) goes, from its lowest value to its highest."""
    return np.nanmax(values, axis=1) - np.nanmin(values, axis=1)


def verdict(model: LatentFeatures) -> Verdict:
    """One plain judgment over all scalars."""
    if isinstance(model.fit_, WeightedDraws):
        return verdict_on_weights(model)
    if isinstance(model.fit_, VariationalFit):
        return verdict_on_bounds(model)
    if isinstance(model.fit_, PointFit):
        return verdict_on_search(model)
    K = kept(model, "n_components")
    return verdict_on_chains(scalars(model), K.shape[0], K.shape[1], usual_counts(K))


def usual_counts(K: np.ndarray) -> list[int]:
    """The number of features that each chain has most often, without repetition.

    >>> usual_counts(np.array([[4, 4, 5], [6, 6, 6]]))
    [4, 6]
    """
    return sorted({int(np.bincount(chain.astype(int)).argmax()) for chain in K})


def verdict_on_weights(model: LatentFeatures) -> Verdict:
    """The verdict on one population of weighted particles."""
    count = len(model.weights_)
    ess = 1.0 / float(np.square(model.weights_).sum())
    worth = f"{plural(count, 'particle')}, worth {ess:,.0f} of equal weight at the last row."
    if ess < ESS_PER_CHAIN:
        return Verdict(
            "poor",
            worth,
            "Few particles carry nearly all the weight: use more of them, or more passes.",
        )
    return Verdict(
        "unknown",
        worth,
        "One population cannot vouch for itself, since resampled particles share their past: run "
        "the filter again with another seed, and compare log_evidence_ and the features.",
    )


def verdict_on_bounds(model: LatentFeatures) -> Verdict:
    """The verdict on an optimized law: whether it ended, and whether restarts came to the same."""
    bounds = np.sort(model.history_["elbo"][:, -1])[::-1]
    if model.stopped_ != "finished":
        return Verdict(
            "poor", "The optimization was stopped before its end.", "Let it run on (resume=True)."
        )
    steps = len(model.fit_.chains[best_restart(model)].scalars)  # a stream's also count pieces
    if steps >= model.fit_.sweeps > 0:
        return Verdict(
            "fair",
            "The bound was still rising at the last iteration.",
            "Raise max_iter, or tolerance if the digits gained do not matter.",
        )
    too_sure = (
        "A law of independent parts is surer of itself than the posterior; to be sure of the "
        "probabilities, start a sampler from here (init=model)."
    )
    if len(bounds) < 2:
        return Verdict("unknown", "One optimization cannot vouch for itself.", too_sure)
    behind = bounds[0] - bounds[1]
    if behind <= SAME_BOUND * abs(bounds[0]):
        return Verdict("good", "The best restarts end at the same bound.", too_sure)
    return Verdict(
        "fair",
        f"The restarts differ: the best bound is {behind:,.1f} above the next.",
        f"Use more restarts. {too_sure}",
    )


def verdict_on_search(model: LatentFeatures) -> Verdict:
    """The verdict on the answer of a search: whether it is proven, and who else found it."""
    one = "It is one matrix: to see how sure it is, start a sampler from here (init=model)."
    if model.proven_optimal_:
        return Verdict("good", "No matrix is more probable than this one: it is proven.", one)
    if model.stopped_ != "finished":
        return Verdict(
            "poor", "The search was stopped before its end.", "Let it run on (resume=True)."
        )
    if np.isfinite(model.log_joint_upper_bound_):
        gap = model.log_joint_upper_bound_ - model.log_joint_
        return Verdict(
            "fair",
            f"No matrix has a log joint more than {gap:,.1f} above this one's.",
            f"A larger width narrows that down. {one}",
        )
    behind = model.log_joint_ - model.history_["log_joint"][:, -1]  # of each search by itself
    there = int((behind <= SAME_BOUND * abs(model.log_joint_)).sum())
    if there >= 2:
        return Verdict("good", f"{there} of {len(behind)} searches came to this answer.", one)
    headline = "One search alone came to this answer."
    if there == 0:
        headline = (
            f"The answer is the start's, polished: the search came {behind.min():,.1f} below it."
        )
    return Verdict("fair", headline, f"Use more restarts, or a larger width. {one}")


def verdict_on_chains(
    lines: list[Scalar], chains: int, draws: int, counts: Sequence[int] = ()
) -> Verdict:
    """The verdict on `chains` chains of `draws` draws each, that mostly have `counts` features."""
    levels = ("poor", "unknown", "fair", "good")
    by_level = {level: [s for s in lines if s.level == level] for level in levels}
    still = [s for s in lines if s.still]
    if still and draws >= FEW_DRAWS:
        one = len(still) == 1
        return Verdict(
            "poor",
            f"{_names(still)} {'has' if one else 'have'} not moved.",
            f"The model infers {'it' if one else 'them'}, yet no chain has ever changed "
            f"{'it' if one else 'them'}, so the answer does not say how sure it is. Scale the "
            "data to a size near 1, and leave the engine's sigma_step at 'slice'.",
        )
    if chains < 2:
        return Verdict(
            "unknown",
            "One chain cannot vouch for itself.",
            "R-hat compares chains: run two or more to see whether they come to agree.",
        )
    if draws < FEW_DRAWS:
        return Verdict(
            "unknown",
            f"Too few draws to judge ({plural(draws, 'sweep')} a chain after burn-in).",
            "Run more sweeps before you rely on the probabilities.",
        )
    slow = [s for s in by_level["poor"] if s.rhat <= FAIR_RHAT]
    if slow and slow == by_level["poor"]:
        return Verdict(
            "poor",
            "The chains move too slowly to judge.",
            f"They are worth fewer than {FAIR_ESS_PER_CHAIN} independent draws each in "
            f"{_names(slow)}, too few to say that they agree. Run more sweeps.",
        )
    if by_level["poor"]:
        headline = "The chains do not agree yet."
        if len(counts) > 1 and any(s.name == "n_components" for s in by_level["poor"]):
            headline = f"K has not settled: chains disagree, {' against '.join(map(str, counts))}."
        return Verdict(
            "poor",
            headline,
            f"They differ in {_names(by_level['poor'])}. Run more sweeps; until then take the "
            "features as one good explanation among several, and the probabilities with care.",
        )
    if by_level["unknown"]:
        return Verdict(
            "unknown",
            "Agreement could not be measured.",
            f"R-hat is not defined for {_names(by_level['unknown'])}; look at the traces.",
        )
    if by_level["fair"]:
        return Verdict(
            "fair",
            "The chains nearly agree.",
            f"More sweeps should settle {_names(by_level['fair'])}.",
        )
    if by_level["good"]:
        return Verdict(
            "good",
            "The chains agree.",
            "They tell the same story: R-hat is at most "
            f"{GOOD_RHAT} and there are enough independent draws.",
        )
    return Verdict("unknown", "Nothing varied, so there is nothing to compare.", "")


def _names(lines: list[Scalar]) -> str:
    words = [s.symbol or s.name for s in lines]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
