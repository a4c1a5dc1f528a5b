r"""Empirical Bayes: potentials of sizes learned from the data, while they are sampled.

The gradient of log p(X | λ) is E[m | X] − E[m], posterior less prior (Welling and others 2012,
II-B). After every sweep the potentials take a step along what the sweep says of it,

    λ ← λ + η (m − E[m] + ∇ log p(λ)),    log p(λ) = −pull Σ δ_i² − smooth Σ (δ_i − δ_{i−1})²

where δ = λ − λ_DP (in eq. 4 it is λ itself that is smooth, which λ_DP is not), with the exact E[m]
of the prior (``partition_sums``), or as the paper has it, with the m of a few sweeps of the prior
that begin at the partition (contrastive divergence). With a constant rate η potentials wander
around a maximum of the penalized likelihood: the chain is that of an optimizer, and draws are of
the posterior given potentials near their best, not of one with their uncertainty.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import Value, Values
from thali.priors.linear_partition import LinearPartition
from thali.registry import PRIORS
from thali.settings import check_settings, hyperparameter, setting
from thali.structures.partitions import PartitionCounts

LONGEST_STEP = 0.5  # of a potential at once
CONTRASTED = 2  # sweeps of the prior


@PRIORS.register("learned_partition")
@dataclass(frozen=True)
class LearnedPartition(LinearPartition):
    """A flexible prior whose potentials are learned from the data (empirical Bayes).

    Parameters
    ----------
    alpha : float, default 1.0
        The mass of the Dirichlet process that potentials begin at and are pulled to.
    pull : float, default 0.05
        How strongly they are.
    smooth : float, default 0.5
        How strongly neighbouring potentials are held together.
    rate : float, default 0.05
        How far potentials go in a sweep.
    gradient : {"exact", "contrastive"}, default "exact"
        The prior's term: exact, or by contrastive divergence as in the paper.

    Notes
    -----
    Potentials are those of the rows that are fitted, and of rows to come. There is one for each of
    N sizes, so that this is for some thousands of rows at most.

    Examples
    --------
    >>> prior = LearnedPartition()
    >>> prior.expected_size_counts(3).round(4).tolist()  # before anything is learned
    [1.0, 0.5, 0.3333]
    """

    potentials: Any = hyperparameter(None, symbol="λ", words="what sizes of clusters are worth")
    alpha: float = setting(1.0, help="Mass of the Dirichlet process to begin at")
    pull: float = setting(0.05, help="How strongly potentials are pulled to it", minimum=0.0)
    smooth: float = setting(0.5, help="How strongly neighbours are held together", minimum=0.0)
    rate: float = setting(0.05, help="How far potentials go in a sweep")
    gradient: str = setting(
        "exact", help="The prior's term of the gradient", choices=("exact", "contrastive")
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def potentials_for(self, n: int) -> np.ndarray:
        if self.potentials is None or (np.size(self.potentials) == 1 and n > 1):
            return self.dirichlet(n)
        own = np.asarray(self.potentials, float)
        if len(own) < n:
            raise ValueError(
                f"LearnedPartition has learned potentials of sizes up to {len(own)}, and {n} rows "
                f"need {n} of them: fit with n_future={n - len(own)} or more."
            )
        return own[:n].copy()

    def dirichlet(self, n: int) -> np.ndarray:
        """λ_1 … λ_n of the Dirichlet process."""
        return np.asarray(np.log(self.alpha) + gammaln(np.arange(1.0, n + 1.0)))

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, Value]:
        """How many potentials there are, the first sweep tells."""
        return {"potentials": np.zeros(1)}

    def resample(self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts) -> None:
        n = counts.n
        own = self.at(potentials=hyper["potentials"])
        potentials = own.potentials_for(n)
        expected = (
            own.at(potentials=potentials).expected_size_counts(n)
            if self.gradient == "exact"
            else relaxed(rng, own, counts)
        )
        away = potentials - self.dirichlet(n)
        bent = np.diff(away, prepend=away[0], append=away[-1])
        slope = counts.size_counts - expected
        slope += 2.0 * self.smooth * np.diff(bent) - 2.0 * self.pull * away
        step = np.clip(self.rate * slope, -LONGEST_STEP, LONGEST_STEP)
        hyper["potentials"] = potentials + step


def relaxed(
    rng: np.random.Generator, prior: LinearPartition, counts: PartitionCounts
) -> np.ndarray:
    """Size counts after a few sweeps of the prior that begin at a partition."""
    from thali.kernels.cluster_rows import prior_sweeps

    n = counts.n
    labels = np.repeat(np.arange(len(counts.sizes)), counts.sizes)
    tables = prior.tables(n)
    sizes = prior_sweeps(rng, labels, tables.join, tables.open, CONTRASTED)
    return np.bincount(sizes[sizes > 0], minlength=n + 1)[1:].astype(float)
