"""What the report says of a model in words: what a feature is, and the meaning of its symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from thali.likelihoods import NoisyOr, NonnegativeLinearGaussian, SparseFactor
from thali.results.fit import PointFit

from .convergence import GOOD_RHAT
from .markup import Markup, facts, section

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures

SCALES = ("α, σₓ, σₐ", "the size of the noise, and the size of the features’ weights")


class Words(NamedTuple):
    """A feature, the model, and its hyperparameters with what they say."""

    feature: str
    model: str
    symbols: str
    sizes: str


SUMS = Words(
    "Each feature is a pattern that is added to every row that has it, most frequent first.",
    "X = Z A + noise: a row of the data X is the sum of the features A that it has (Z says which: "
    "1 or 0), plus noise.",
    *SCALES,
)
OTHERS: dict[type, Words] = {
    NonnegativeLinearGaussian: Words(
        "Each feature is a pattern without negative values that is added to every row that has it, "
        "most frequent first.",
        "X = Z A + noise, no entry of A below zero: a row of the data X is the sum of the features "
        "A that it has (Z says which: 1 or 0), plus noise.",
        *SCALES,
    ),
    SparseFactor: Words(
        "Each feature is a pattern of which every row that has it takes an amount of its own, of "
        "either sign, most frequent first.",
        "X = (Z ⊙ S) A + noise: a row of the data X is a sum of the features A that it has (Z says "
        "which: 1 or 0), each in an amount S of the row’s own, plus noise.",
        *SCALES,
    ),
    NoisyOr: Words(
        "Each feature is a hidden cause that acts on the rows that have it; shown is the "
        "probability that it is active in each column, most frequent first.",
        "A noisy or: a row of the data is a node, and each of the hidden causes A that act on it "
        "(Z says which) brings it on with probability λ wherever the cause is active.",
        "α, ε, λ, p",
        "how often a node comes on by itself, how often an active cause acts, and how often a "
        "cause is active",
    ),
}


OF_SAMPLERS = (
    "Point estimate and probabilities",
    "K and rare features",
    "R-hat and effective draws",
    "Burn-in",
    "Numerical drift",
)


def words_of(likelihood: Any) -> Words:
    """The words for a likelihood; those of sums where it has none of its own."""
    return next((words for kind, words in OTHERS.items() if isinstance(likelihood, kind)), SUMS)


def reading(model: LatentFeatures, id_: str, title: str, shape: tuple[int, int] | None) -> Markup:
    """The words and symbols of the page."""
    words = words_of(model.likelihood_)
    entries = [
        ("Model", f"{words.model} How many features there are is found, not given."),
        ("Feature", "A pattern over the columns. Rows may have none, one or several; "
         "features overlap, unlike clusters."),
        ("Point estimate and probabilities", "The sampler visits many explanations. The point "
         "estimate is the one nearest to all of them; a probability is the share of visited "
         "explanations in which a row has a feature."),
        ("K and rare features", "The number of features differs from sweep to sweep. Features that "
         "only one or two rows have are often noise; the frequent ones are the finding."),
        (words.symbols, f"How readily new features appear, {words.sizes}. They are inferred with "
         "the rest unless they were fixed."),
        ("Log joint", "The logarithm of the probability of data and Z together: higher is better, "
         "and only differences on the same data mean something."),
        ("R-hat and effective draws", "R-hat compares the chains with each other: near 1 they tell "
         f"the same story, above {GOOD_RHAT} they do not quite. Successive sweeps resemble each "
         "other; effective draws say how many independent ones they are worth."),
        ("Burn-in", "The first sweeps, shaded in the traces, depend on where a chain began; "
         "they are not used."),
        ("Numerical drift", "The sampler updates its matrices in place of recomputing them. Drift "
         "is the largest relative error that this left, measured against recomputed ones."),
    ]  # fmt: skip
    if isinstance(model.fit_, PointFit):  # there is no sampler to speak of
        entries = [entry for entry in entries if entry[0] not in OF_SAMPLERS]
        entries.insert(2, ("The answer", "One matrix, the most probable that a search found; "
                           "whether it is the most probable of all is known only where it says "
                           "so. It does not tell how sure a feature is."))  # fmt: skip
    return section(id_, title, facts(entries, "legend"))
