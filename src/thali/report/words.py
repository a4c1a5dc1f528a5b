"""What the report says of a model in words: what a feature is, and the meaning of its symbols.

The likelihood has the words for its features, and every part those for its hyperparameters.
"""

from thali.estimators.latent_features import LatentFeatures
from thali.results.fit import PointFit

from .convergence import GOOD_RHAT
from .markup import Markup, facts


def reading(model: LatentFeatures, shape: tuple[int, int] | None) -> list[Markup]:
    """The words and symbols of the page."""
    words = model.likelihood_.words
    labels = model.fit_.model.hyperparameters.values()
    said = "; ".join(f"{label.symbol}: {label.words}" for label in labels)
    answer = [
        ("Point estimate and probabilities", "The sampler visits many explanations. The point "
         "estimate is the one nearest to all of them; a probability is the share of visited "
         "explanations in which a row has a feature."),
        ("K and rare features", "The number of features differs from sweep to sweep. Features that "
         "only one or two rows have are often noise; the frequent ones are the finding."),
    ]  # fmt: skip
    chains = [
        ("R-hat and effective draws", "R-hat compares the chains with each other: near 1 they tell "
         f"the same story, above {GOOD_RHAT} they do not quite. Successive sweeps resemble each "
         "other; effective draws say how many independent ones they are worth."),
        ("Burn-in", "The first sweeps, shaded in the traces, depend on where a chain began; "
         "they are not used."),
        ("Numerical drift", "The sampler updates its matrices in place of recomputing them. Drift "
         "is the largest relative error that this left, measured against recomputed ones."),
    ]  # fmt: skip
    if isinstance(model.fit_, PointFit):  # there is no sampler to speak of
        answer = [("The answer", "One matrix, the most probable that a search found; whether it is "
                   "the most probable of all is known only where it says so. It does not tell how "
                   "sure a feature is.")]  # fmt: skip
        chains = []
    entries = [
        ("Model", f"{words.model} How many features there are is found, not given."),
        ("Feature", "A pattern over the columns. Rows may have none, one or several; "
         "features overlap, unlike clusters."),
        *answer,
        (", ".join(label.symbol for label in labels),
         f"{said}. They are inferred with the rest unless they were fixed."),
        ("Log joint", "The logarithm of the probability of data and Z together: higher is better, "
         "and only differences on the same data mean something."),
        *chains,
    ]  # fmt: skip
    # a model may have no hyperparameters
    return [facts([entry for entry in entries if entry[0]], "legend")]
