"""A partition with a conjugate likelihood: structure, prior, likelihood, engine and estimator.

    labels c_1 … c_N       P(c) = α^K Γ(α)/Γ(α+N) ∏_k (n_k − 1)!          (Chinese restaurant)
    x_nd | c, μ ~ N(μ_{c_n d}, s_d²),  μ_kd ~ N(0, α²)                     (μ integrated out)

Prior and likelihood both call a hyperparameter ``alpha``, and the likelihood's ``scales`` are an
array: neither may trouble the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log
from typing import Any, ClassVar

import numpy as np

from thali.data import Data
from thali.engines.base import Info, Sampler
from thali.estimators.base import LatentModel
from thali.hyperparameters import Gamma, Hyperprior, slice_step
from thali.likelihoods.base import Likelihood, Words
from thali.priors.base import Prior
from thali.results.point_estimate import point_estimate
from thali.settings import Settings, check_settings, hyperparameter, setting
from thali.structures.base import PointEstimate, Structure


class Partition(Structure[np.ndarray]):
    """Labels 0 … K−1 of N rows, in the order of their first appearance."""

    name = "toy clusters"
    component = "cluster"
    answer = "labels_"

    def n_components(self, latent):
        return len(np.unique(latent))

    def empty(self, n):
        return np.zeros(n, int)

    def canonical(self, latent):
        _, first, inverse = np.unique(latent, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse]

    def counts(self, latent):
        return np.bincount(self.canonical(latent))

    def check(self, owner, given, n=None):
        if np.ndim(given) != 1 or n not in (None, len(given)):
            raise ValueError(f"{owner}: init must be a label for each of the {n} rows.")
        return self.canonical(np.asarray(given, int))

    def pack(self, latent):
        return np.asarray(latent, np.uint16)

    def unpack(self, packed, n):
        return packed.astype(int)

    def join(self, packed, n):
        return {"labels": np.array(packed, np.uint16).reshape(len(packed), n)}

    def split(self, arrays):
        return list(arrays["labels"])

    def point_estimate(self, draws, log_joints):
        """Of the draws, the one that is nearest to all in pairs that are together or not."""
        together = np.array([draw[:, None] == draw for draw in draws], float)
        share = together.mean(axis=0)
        losses = np.abs(together - share).sum(axis=(1, 2))
        best = int(np.argmin(losses))
        return PointEstimate(draws[best], share, float(losses[best]))

    def distance(self, a, b):
        return float(((a[:, None] == a) != (b[:, None] == b)).sum())

    def changed(self, rng, latent, capacity):
        return latent


PARTITION = Partition()


@dataclass(frozen=True)
class ToyRestaurant(Settings, Prior):
    """The Chinese restaurant process."""

    alpha: float | Hyperprior = hyperparameter(Gamma(2.0, 2.0), symbol="α", words="how many")

    structure = PARTITION

    def at(self, **numbers):
        return self.replace(**numbers)

    def start(self):
        return {"alpha": self.alpha.center() if isinstance(self.alpha, Hyperprior) else self.alpha}

    def sample(self, rng, n):
        labels = [0]
        for _ in range(n - 1):
            weights = np.append(np.bincount(labels), self.alpha).astype(float)
            labels.append(int(rng.choice(len(weights), p=weights / weights.sum())))
        return np.array(labels)

    def log_prob_counts(self, sizes):
        n, a = int(np.sum(sizes)), float(self.alpha)
        ahead = len(sizes) * log(a) + lgamma(a) - lgamma(a + n)
        return ahead + sum(lgamma(int(size)) for size in sizes)

    def resample(self, rng, hyper, sizes):
        if isinstance(self.alpha, Hyperprior):
            hyper["alpha"] = slice_step(
                rng,
                hyper["alpha"],
                lambda a: self.alpha.log_density(a) + self.at(alpha=a).log_prob_counts(sizes),
                1.0,
            )


@dataclass(frozen=True)
class ToyNormal(Settings, Likelihood):
    """Clusters of normal rows, their means integrated out."""

    alpha: float = hyperparameter(3.0, symbol="a", words="how far apart clusters are")
    scales: Any = hyperparameter((0.5, 0.5), symbol="s", words="noise of each column")

    structure = PARTITION
    starts: ClassVar[tuple[str, ...]] = ("prior", "empty")
    words: ClassVar[Words] = Words("Each cluster has a mean.", "A row is its mean, plus noise.")

    def at(self, **numbers):
        return self.replace(**numbers)

    def resolve(self, data):
        return self

    def start(self, data):
        return {"alpha": float(self.alpha), "scales": np.array(self.scales, float)}

    def log_marginal(self, X, labels):
        X = X.X if isinstance(X, Data) else np.asarray(X, float)
        return sum(self.log_cluster(X[labels == k]) for k in np.unique(labels))

    def log_cluster(self, rows):
        """log ∫ ∏ N(x; μ, s²) N(μ; 0, α²) dμ, column by column."""
        n, s2, a2 = len(rows), np.square(np.asarray(self.scales, float)), self.alpha**2
        spread = s2 + n * a2
        fit = (np.square(rows) / s2).sum(axis=0) - a2 * rows.sum(axis=0) ** 2 / (s2 * spread)
        each = -0.5 * (n * np.log(2 * np.pi * s2) + np.log(spread / s2) + fit)
        return float(each.sum())


@dataclass
class ToyClusterState:
    latent: np.ndarray
    hyper: dict[str, Any]


@dataclass(frozen=True)
class ToyClusterGibbs(Settings, Sampler):
    """One label after the other, then the prior's hyperparameters."""

    sweeps: int = setting(20, help="Sweeps of the toy", minimum=1)
    chains: int = setting(2, help="Chains of the toy", minimum=1)
    init: Any = setting("prior", help="Where to begin")

    needs_prior: ClassVar[tuple[type, ...]] = (ToyRestaurant,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (ToyNormal,)
    races: ClassVar[bool] = False

    def __post_init__(self):
        check_settings(self)

    def steps(self, data):
        return self.sweeps

    def keeps(self, step):
        return True

    def begin(self, rng, model, data, start):
        return ToyClusterState(np.array(start.latent), dict(start.hyper))

    def step(self, rng, model, data, state):
        prior, likelihood = model.prior_at(state.hyper), model.likelihood_at(state.hyper)
        X, labels = data.X, state.latent
        for n in range(data.n):
            labels[n] = -1
            old = np.unique(labels[labels >= 0])
            logs = []
            for k in [*old, -2]:
                rows = X[labels == k]
                weight = np.log(len(rows)) if k >= 0 else np.log(prior.alpha)
                with_n = likelihood.log_cluster(np.vstack([rows, X[n]]))
                without = likelihood.log_cluster(rows) if len(rows) else 0.0
                logs.append(weight + with_n - without)
            p = np.exp(np.array(logs) - max(logs))
            chosen = int(rng.choice(len(p), p=p / p.sum()))
            labels[n] = old[chosen] if chosen < len(old) else labels.max() + 1
        state.latent = PARTITION.canonical(labels)
        sizes = PARTITION.counts(state.latent)
        model.prior.resample(rng, model.prior_values(state.hyper), sizes)
        log_joint = model.at(state.hyper).log_joint(X, state.latent)
        return Info(len(sizes), log_joint, dict(state.hyper), 0.0)

    def to_arrays(self, state):
        return {"labels": state.latent}, {"hyper": dict(state.hyper)}

    def from_arrays(self, model, data, arrays, numbers):
        return ToyClusterState(arrays["labels"].copy(), dict(numbers["hyper"]))


class ToyClusters(LatentModel):
    """Find clusters: ``labels_``."""

    structure = PARTITION

    def __init__(
        self,
        prior="toy_restaurant",
        likelihood="toy_normal",
        engine="toy_cluster_gibbs",
        *,
        center=False,
        random_state=None,
        progress=False,
    ):
        self.prior = prior
        self.likelihood = likelihood
        self.engine = engine
        self.center = center
        self.random_state = random_state
        self.progress = progress

    def _show(self, fit):
        super()._show(fit)
        estimate, _ = point_estimate(fit)
        self.labels_ = estimate.latent
        self.n_components_ = PARTITION.n_components(self.labels_)
        self.log_joint_ = fit.model.at(fit.mean_hyper()).log_joint(fit.data, self.labels_)
        return self
