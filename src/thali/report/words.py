"""What the report says of a model in words: what a component is, and the meaning of its symbols.

The likelihood has the words for its components, and every part those for its hyperparameters.
"""

from thali.estimators.base import LatentModel
from thali.results.fit import PointFit

from .convergence import GOOD_RHAT
from .markup import Markup, facts

Entries = list[tuple[str, str]]

OF_CHAINS: Entries = [
    ("R-hat and effective draws", "R-hat compares the chains with each other: near 1 they tell "
     f"the same story, above {GOOD_RHAT} they do not quite. Successive sweeps resemble each "
     "other; effective draws say how many independent ones they are worth."),
    ("Autocorrelation", "How alike the numbers of two sweeps are that are so many sweeps apart: 1 "
     "means the same, 0 that the one says nothing of the other. The integrated time is how many "
     "sweeps are worth one independent draw."),
    ("Burn-in", "The first sweeps, shaded in the traces, depend on where a chain began; "
     "they are not used."),
]  # fmt: skip


def of_features(model: LatentModel, shape: tuple[int, int] | None) -> list[Markup]:
    """The words and symbols of a page on features."""
    answer = [
        ("Point estimate and probabilities", "The sampler visits many explanations. The point "
         "estimate is the one nearest to all of them; a probability is the share of visited "
         "explanations in which a row has a feature."),
        ("K and rare features", "The number of features differs from sweep to sweep. Features that "
         "only one or two rows have are often noise; the frequent ones are the finding."),
    ]  # fmt: skip
    chains = [
        *OF_CHAINS,
        ("Numerical drift", "The sampler updates its matrices in place of recomputing them. Drift "
         "is the largest relative error that this left, measured against recomputed ones."),
    ]  # fmt: skip
    if isinstance(model.fit_, PointFit):  # there is no sampler to speak of
        answer = [("The answer", "One matrix, the most probable that a search found; whether it is "
                   "the most probable of all is known only where it says so. It does not tell how "
                   "sure a feature is.")]  # fmt: skip
        chains = []
    entries = [
        ("Model", f"{model.likelihood_.words.model} How many features there are is found, not "
         "given."),
        ("Feature", "A pattern over the columns. Rows may have none, one or several; "
         "features overlap, unlike clusters."),
        *answer,
        *_symbols(model),
        ("Log joint", "The logarithm of the probability of data and Z together: higher is better, "
         "and only differences on the same data mean something."),
        *chains,
    ]  # fmt: skip
    return [facts(entries, "legend")]


def of_clusters(model: LatentModel, shape: tuple[int, int] | None) -> list[Markup]:
    """The words and symbols of a page on clusters."""
    entries = [
        ("Model", f"{model.likelihood_.words.model} How many clusters there are is found, not "
         "given."),
        ("Cluster", "A group of rows that are alike; every row is in one. Clusters are numbered "
         "from 0 on, as in labels_, the largest first."),
        ("Point estimate", "The sampler visits many partitions. The point estimate is the one "
         "nearest to all of them, in variation of information, which counts in nats what one "
         "partition does not tell of another: 0 means that they are the same."),
        ("Membership", "The mean share of its cluster that a row is with in the visited "
         "partitions: near 100% it is clear where the row belongs."),
        ("K and small clusters", "The number of clusters differs from sweep to sweep. Clusters of "
         "one or two rows come and go, and may be rows that fit nowhere; the large ones are the "
         "finding."),
        *_symbols(model),
        ("Log joint", "The logarithm of the probability of data and partition together: higher is "
         "better, and only differences on the same data mean something."),
        *OF_CHAINS,
    ]  # fmt: skip
    return [facts(entries, "legend")]


def of_topics(model: LatentModel, shape: tuple[int, int] | None) -> list[Markup]:
    """The words and symbols of a page on topics."""
    entries = [
        ("Model", f"{model.likelihood_.words.model} How many topics there are is found, not "
         "given."),
        ("Topic", "A distribution of words; documents share topics, and a document has some of "
         "each. Topics are numbered from 0 on, as in components_, the largest first."),
        ("Groups", "Words of a document are in groups, and all words of a group have one topic. "
         "Groups are how documents come to share topics; they have no meaning of their own."),
        ("Point estimate", "The sampler visits many explanations. The one shown is that whose "
         "topics differ least from those of the others; words, sizes and shares are means over "
         "draws, each topic matched with the one in the draw that shares most words with it."),
        ("Presence", "How much of a topic is found again in other draws: the words that it shares "
         "with its match over the words that either has, on average. Near 100% all draws have the "
         "topic; far below it comes and goes, or is split and merged."),
        ("Coherence", "Whether the ten most probable words of a topic are found together in "
         "documents (normalized pointwise mutual information of pairs): 1 always, 0 as often as by "
         "chance, −1 never."),
        ("Likeness", "The cosine between the words of two topics: 1 for the same words, 0 for none "
         "in common. Two that are much alike may be one topic that was split."),
        ("K and small topics", "The number of topics differs from sweep to sweep. Topics of a few "
         "words come and go; the large ones are the finding."),
        *_symbols(model),
        ("Log joint", "The logarithm of the probability of words, groups and topics together: "
         "higher is better, and only differences on the same data mean something."),
        *OF_CHAINS,
    ]  # fmt: skip
    return [facts(entries, "legend")]


def lacks(model: LatentModel) -> str:
    """What is said of a log joint where the prior's normalizer is not known."""
    return "" if model.prior_.normalized else ", without the prior’s normalizer, which is not known"


def _symbols(model: LatentModel) -> Entries:
    """The hyperparameters; a model may have none."""
    labels = model.fit_.model.hyperparameters.values()
    if not labels:
        return []
    said = "; ".join(f"{label.symbol}: {label.words}" for label in labels)
    symbols = ", ".join(label.symbol for label in labels)
    return [(symbols, f"{said}. They are inferred with the rest unless they were fixed.")]
