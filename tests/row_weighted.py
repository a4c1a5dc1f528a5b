"""A prior with row potentials, for tests: the columns of an IBP, and a weight for each row's sum.

    log P([Z]) = log IBP([Z]; α) + Σ_n θ_{F_n} + const,

its constant unknown. ``ignored`` makes the broken variant, whose tables keep quiet about θ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from oracles import features as oracles

import thali
from thali.priors.base import PredictsRow
from thali.structures.features import feature_counts

THETA = (0.0, 0.7, -0.9, -1.6)  # one feature a row; the last is that of all larger sums


@dataclass(frozen=True)
class RowWeighted(PredictsRow):
    weight: float = 1.5  # α
    theta: tuple[float, ...] = THETA
    ignored: bool = False
    n_components: int = 0  # of a finite prior

    @property
    def base(self):
        if self.n_components:
            return thali.BetaBernoulli(self.weight, self.n_components)
        return thali.IBP(alpha=self.weight)

    def at(self, **numbers):
        return self

    def start(self):
        return {}

    def sample(self, rng, n):
        raise NotImplementedError("there is no way to draw from it but by a chain")

    def tables(self, n):
        theta = None if self.ignored else np.array(self.theta)
        return self.base.tables(n)._replace(row_potentials=theta)

    def log_prob(self, Z):
        return self.log_prob_counts(feature_counts(Z))

    def log_prob_counts(self, counts):
        rows = np.array(self.theta)[np.minimum(counts.row_sums, len(self.theta) - 1)]
        return self.base.log_prob_counts(counts) + float(rows.sum())

    def resample(self, rng, hyper, counts):
        pass

    # as the oracles see it
    @property
    def kind(self):
        return "finite" if self.n_components else "ibp"

    def log_classes(self, counts, n):
        """log P([Z]) of each class, up to a constant, and a stand-in for E[α | Z]."""
        sums = (counts @ oracles.histories(n)).astype(int)
        rows = np.array(self.theta)[np.minimum(sums, len(self.theta) - 1)].sum(axis=1)
        spec = oracles.PriorSpec(self.kind, self.weight, n_components=self.n_components)
        log_p, alpha = spec.log_classes(counts, n)
        return log_p + rows, alpha


@dataclass(frozen=True)
class WeightedIBP(thali.IBP):
    """The IBP with weights of row sums added, and all capabilities that it inherits."""

    theta: tuple[float, ...] = THETA

    def tables(self, n):
        return super().tables(n)._replace(row_potentials=np.array(self.theta))
