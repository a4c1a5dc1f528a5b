"""Did the chains come to agree? R-hat near 1, enough independent draws, said in plain words.

R-hat compares the variance between chains with the variance within; 1.01 and 100 effective draws a
chain are the limits of Vehtari et al. (2021). With fewer than a fifth of these R-hat itself is too
uncertain to call chains nearly agreed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thali.estimators.base import LatentModel
from thali.plots.reading import labels_of
from thali.results.findings import Finding
from thali.results.fit import PointFit, VariationalFit, WeightedDraws

from .markup import plural

GOOD_RHAT, FAIR_RHAT = 1.01, 1.05
ESS_PER_CHAIN, FAIR_ESS_PER_CHAIN = 100, 20
FEW_DRAWS = 50
SAME_BOUND = 1e-4  # relative
RUN_ON = "Let it run on (resume=True)."


class Scalar(NamedTuple):
    """One line of the table of convergence."""

    name: str
    level: str  # "good", "fair", "poor", "fixed", "unknown", or "found" by optimization
    rhat: float = np.nan
    ess: float = np.nan
    mean: float = np.nan
    low: float = np.nan
    high: float = np.nan
    still: bool = False  # inferred, and yet no chain has moved from where it is
    symbol: str = ""  # as people are shown it, and in words
    words: str = ""


class Verdict(NamedTuple):
    """The answer in a word ("good", "fair", "poor", "unknown"), a headline and what to do.

    ``findings`` are what makes the fit degenerate or too short; ``advice`` tells them too.
    """

    level: str
    headline: str
    advice: str
    findings: tuple[Finding, ...] = ()


def scalars(model: LatentModel) -> list[Scalar]:
    """The recorded scalars with their diagnostics, posterior mean and 90% interval."""
    return [
        _scalar(model, name)._replace(symbol=label.symbol, words=label.words)
        for name, label in labels_of(model).items()
    ]


def _scalar(model: LatentModel, name: str) -> Scalar:
    if isinstance(model.fit_, VariationalFit):
        value = float(model.history_[name][best_restart(model), -1])
        return Scalar(name, "found", mean=value)
    values = model.fit_.after_burn_in(name)
    if isinstance(model.fit_, PointFit):
        return Scalar(name, "found", mean=float(values[0, 0]))
    finite = values[np.isfinite(values)]
    entry = model.diagnostics_.get(name, {})
    rhat, ess = float(entry.get("rhat", np.nan)), float(entry.get("ess", np.nan))
    if not finite.size:
        return Scalar(name, "unknown", rhat, ess)
    if isinstance(model.fit_, WeightedDraws):
        weights = model.weights_[np.isfinite(values.ravel())]  # of those that are left
        return _weighted_scalar(model, name, finite, weights / weights.sum(), ess)
    low, high = np.quantile(finite, [0.05, 0.95])
    inferred = is_inferred(model, name)
    level = level_of(values, rhat, ess, inferred)
    still = inferred and not ranges(values).any()
    return Scalar(name, level, rhat, ess, float(finite.mean()), float(low), float(high), still)


def best_restart(model: LatentModel) -> int:
    """Which restart of a variational fit has the highest bound."""
    return int(np.argmax(model.history_["elbo"][:, -1]))


def is_inferred(model: LatentModel, name: str) -> bool:
    """Whether a scalar is a hyperparameter with a prior, not a number that the model fixes."""
    return name.partition("[")[0] in model.fit_.model.hyperpriors


def _weighted_scalar(
    model: LatentModel, name: str, values: np.ndarray, weights: np.ndarray, ess: float
) -> Scalar:
    """Mean and interval by weight; one population says nothing of its agreement with another."""
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    ends = np.minimum(np.searchsorted(upto, [0.05, 0.95]), len(values) - 1)
    low, high = values[order[ends]]
    fixed = np.ptp(values) == 0 and not is_inferred(model, name)
    mean = float(values[0] + weights @ (values - values[0]))
    return Scalar(name, "fixed" if fixed else "unknown", np.nan, ess, mean, float(low), float(high))


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
        return "poor"  # each chain sits still, at a value of its own: R-hat divides by zero there
    if np.isnan(rhat) or chains < 2:
        return "unknown"
    if rhat <= GOOD_RHAT and not ess < ESS_PER_CHAIN * chains:
        return "good"
    return "fair" if rhat <= FAIR_RHAT and not ess < FAIR_ESS_PER_CHAIN * chains else "poor"


def ranges(values: np.ndarray) -> np.ndarray:
    """How far each chain of (chains, draws) goes, from its lowest value to its highest."""
    return np.asarray(np.nanmax(values, axis=1) - np.nanmin(values, axis=1))


def verdict(model: LatentModel) -> Verdict:
    """One plain answer: what was found to be wrong with the fit, then whether chains agree."""
    plain = with_findings(agreement(model), model.findings_)
    told = " ".join(str(finding) for finding in plain.findings)
    return plain._replace(advice=f"{told} {plain.advice}".strip())


def with_findings(found: Verdict, findings: Sequence[Finding]) -> Verdict:
    """A verdict on the agreement of chains that heeds findings; its advice does not yet tell them.

    A degenerate answer makes the headline, however well chains agree on it.

    >>> from thali.results.findings import SingleColumnFeatures
    >>> single = Finding(SingleColumnFeatures, "5 of 6 features are.", "Standardize the columns.")
    >>> with_findings(Verdict("good", "The chains agree.", "R-hat is small."), [single])[:3]
    ('poor', 'Most features are single columns.', 'Chains that agree on it do not make it right.')
    """
    if not findings:
        return found
    found = found._replace(findings=tuple(findings))
    settled = found.level in ("good", "fair")
    serious = [finding for finding in findings if not finding.expected]
    if not serious:  # a short run that was asked for
        return found._replace(level="unknown") if settled else found
    headline = " ".join(finding.kind.headline for finding in serious)
    rest = f"{found.headline} {found.advice}"
    if settled and any(finding.of_answer for finding in serious):
        rest = "Chains that agree on it do not make it right."
    return found._replace(level="poor", headline=headline, advice=rest)


def agreement(model: LatentModel) -> Verdict:
    """One plain answer over all scalars, whatever the chains agree on."""
    if isinstance(model.fit_, WeightedDraws):
        return verdict_on_weights(model)
    if isinstance(model.fit_, VariationalFit):
        return verdict_on_bounds(model)
    if isinstance(model.fit_, PointFit):
        return verdict_on_search(model)
    K = model.fit_.after_burn_in("n_components")
    what = f"{model.structure.component}s"
    return verdict_on_chains(scalars(model), K.shape[0], K.shape[1], usual_counts(K), what)


def usual_counts(K: np.ndarray) -> list[int]:
    """The number of components that each chain has most often, without repetition.

    >>> usual_counts(np.array([[4, 4, 5], [6, 6, 6]]))
    [4, 6]
    """
    return sorted({int(np.bincount(chain.astype(int)).argmax()) for chain in K})


def verdict_on_weights(model: LatentModel) -> Verdict:
    """The verdict on one population of weighted particles."""
    count, what = len(model.weights_), f"{model.structure.component}s"
    ess = 1.0 / float(np.square(model.weights_).sum())
    worth = f"{plural(count, 'particle')}, worth {ess:,.0f} of equal weight at the last row."
    if model.stopped_ != "finished":
        coded = "" if np.isfinite(model.log_evidence_) else ", and the rows it left were coded"
        return Verdict("poor", f"The filter was stopped before the last row{coded}.", RUN_ON)
    if ess < ESS_PER_CHAIN:
        advice = "Few particles carry nearly all the weight: use more of them, or more passes."
        return Verdict("poor", worth, advice)
    advice = (
        "One population cannot vouch for itself, since resampled particles share their past: run "
        f"the filter again with another seed, and compare log_evidence_ and the {what}."
    )
    return Verdict("unknown", worth, advice)


def verdict_on_bounds(model: LatentModel) -> Verdict:
    """The verdict on an optimized q: whether it ended, and whether restarts came to the same."""
    bounds = np.sort(model.history_["elbo"][:, -1])[::-1]
    if model.stopped_ != "finished":
        return Verdict("poor", "The optimization was stopped before its end.", RUN_ON)
    steps = len(model.fit_.chains[best_restart(model)].scalars)  # a stream's also count pieces
    if steps >= model.fit_.sweeps > 0:
        advice = "Raise max_iter, or tol if the digits gained do not matter."
        return Verdict("fair", "The bound was still rising at the last iteration.", advice)
    too_sure = (
        "A distribution of independent parts is surer of itself than the posterior; to be sure of "
        "the probabilities, start a sampler from here (init=model)."
    )
    if len(bounds) < 2:
        return Verdict("unknown", "One optimization cannot vouch for itself.", too_sure)
    behind = bounds[0] - bounds[1]
    if behind <= SAME_BOUND * abs(bounds[0]):
        return Verdict("good", "The best restarts end at the same bound.", too_sure)
    headline = f"The restarts differ: the best bound is {behind:,.1f} above the next."
    return Verdict("fair", headline, f"Use more restarts. {too_sure}")


def verdict_on_search(model: LatentModel) -> Verdict:
    """The verdict on the answer of a search: whether it is proven, and who else found it."""
    one = "It is one matrix: to see how sure it is, start a sampler from here (init=model)."
    if model.proven_optimal_:
        return Verdict("good", "No matrix is more probable than this one: it is proven.", one)
    if model.stopped_ != "finished":
        return Verdict("poor", "The search was stopped before its end.", RUN_ON)
    if np.isfinite(model.log_joint_upper_bound_):
        gap = model.log_joint_upper_bound_ - model.log_joint_
        headline = f"No matrix has a log joint more than {gap:,.1f} above this one's."
        return Verdict("fair", headline, f"A larger width narrows that down. {one}")
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
    lines: list[Scalar],
    chains: int,
    draws: int,
    counts: Sequence[int] = (),
    what: str = "features",
) -> Verdict:
    """The verdict on `chains` chains of `draws` draws each, mostly with `counts` of `what`."""
    still = [s for s in lines if s.still]
    poor, unknown, fair, good = (
        [s for s in lines if s.level == level] for level in ("poor", "unknown", "fair", "good")
    )
    if still and draws >= FEW_DRAWS:
        has, it = ("has", "it") if len(still) == 1 else ("have", "them")
        advice = (
            f"The model infers {it}, yet no chain has ever changed {it}, so the answer does not "
            "say how sure it is. Scale the data to a size near 1, and leave the engine's "
            "sigma_step at 'slice'."
        )
        return Verdict("poor", f"{_names(still)} {has} not moved.", advice)
    if chains < 2:
        advice = "R-hat compares chains: run two or more to see whether they come to agree."
        return Verdict("unknown", "One chain cannot vouch for itself.", advice)
    if draws < FEW_DRAWS:
        headline = f"Too few draws to tell ({plural(draws, 'sweep')} a chain after burn-in)."
        advice = "Run more sweeps before you rely on the probabilities."
        return Verdict("unknown", headline, advice)
    if poor and all(s.rhat <= FAIR_RHAT for s in poor):
        advice = (
            f"They are worth fewer than {FAIR_ESS_PER_CHAIN} independent draws each in "
            f"{_names(poor)}, too few to say that they agree. Run more sweeps."
        )
        return Verdict("poor", "The chains move too slowly to tell.", advice)
    if poor:
        headline = "The chains do not agree yet."
        if len(counts) > 1 and any(s.name == "n_components" for s in poor):
            headline = f"The chains disagree on K: {' against '.join(map(str, counts))}."
        advice = (
            f"They differ in {_names(poor)}. Run more sweeps; until then take the {what} as one "
            "good explanation among several, and the probabilities with care."
        )
        return Verdict("poor", headline, advice)
    if unknown:
        advice = f"R-hat is not defined for {_names(unknown)}; look at the traces."
        return Verdict("unknown", "Agreement could not be measured.", advice)
    if fair:
        advice = f"Run more sweeps, for the sake of {_names(fair)}."
        return Verdict("fair", "The chains nearly agree.", advice)
    if good:
        advice = (
            f"They tell the same story: R-hat is at most {GOOD_RHAT} and there are enough "
            "independent draws."
        )
        return Verdict("good", "The chains agree.", advice)
    return Verdict("unknown", "Nothing varied, so there is nothing to compare.", "")


def _names(lines: list[Scalar]) -> str:
    words = [s.symbol or s.name for s in lines]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
