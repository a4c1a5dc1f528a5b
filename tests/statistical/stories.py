"""What the ladder needs to know of each likelihood: its story told forward, and its exact answers.

A story has tiny data with the enumerated posterior, a version in which data say nothing, and
simulators of hyperparameters, parameters and data, written from the definitions and sharing no
line with the library. Statistics speak of features only through their class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from oracles import counts as count_oracles
from oracles import features as oracles
from oracles import nonnegative as nonnegative_oracles
from oracles.features import PriorSpec
from oracles.sparse import enumerate_sparse, shapes

import thali

ALPHA = (2.0, 2.0)  # Gamma(shape, rate), where α is inferred
SCALES = {"sigma_x": (4.0, 3.0), "sigma_a": (4.0, 6.0)}  # of σ²: InverseGamma(shape, scale)
RATES = {"epsilon": (1.5, 6.0), "lam": (4.0, 1.5), "p": (2.0, 3.0)}  # Beta(a, b)


def library_prior(spec: PriorSpec):
    alpha = thali.Gamma(*spec.alpha) if isinstance(spec.alpha, tuple) else spec.alpha
    if spec.kind == "finite":
        return thali.BetaBernoulli(alpha=alpha, n_components=spec.n_components)
    if spec.kind == "truncated":
        return thali.TruncatedIBP(alpha=alpha, max_features=spec.n_components)
    if spec.kind == "two_parameter":
        return thali.TwoParameterIBP(alpha=alpha, beta=spec.beta)
    return thali.IBP(alpha=alpha)


def kept_matrices(model):
    """Z of every kept draw; ``draws()`` would draw an A for each, which takes twice the fit."""
    return [recorded[0] for recorded in model.fit_.draws()]


def simulate_alpha(rng, spec):
    return rng.gamma(spec.alpha[0]) / spec.alpha[1] if isinstance(spec.alpha, tuple) else spec.alpha


def simulate_matrix(rng, spec, n, alpha):
    """Z without empty columns."""
    if spec.kind == "finite":
        Z = oracles.simulate_finite(rng, n, alpha, spec.n_components)
        return Z[:, Z.any(axis=0)]
    if spec.kind == "truncated":
        return oracles.simulate_truncated(rng, n, alpha, spec.n_components)
    return oracles.simulate_buffet(rng, n, alpha, spec.beta)


@dataclass(frozen=True)
class Story:
    """The part that all share: scales, and the statistics of Z and the hyperparameters."""

    laws: ClassVar = SCALES  # of the hyperparameters besides α
    priors: ClassVar = {  # of the enumeration, each with the largest K that is enumerated
        "ibp": (PriorSpec("ibp", 3.0), 16),
        "two_parameter_ibp": (PriorSpec("two_parameter", 2.0, beta=0.4), 16),
        "beta_bernoulli": (PriorSpec("finite", (1.0, 1.0), n_components=3), 3),
        "truncated_ibp": (PriorSpec("truncated", (1.0, 1.0), n_components=3), 3),
    }
    tiny = ((1.4, -0.6, 0.1), (1.5, 0.4, -0.8))

    def exact(self, spec, cap):
        return enumerated(self, spec, cap)

    def law(self, name):
        return thali.InverseGamma(*self.laws[name])

    def inferred(self):
        """The likelihood with every hyperparameter inferred."""
        return self.likelihood(**{name: self.law(name) for name in self.laws})

    def simulate_hyper(self, rng):
        return {name: np.sqrt(scale / rng.gamma(a)) for name, (a, scale) in self.laws.items()}

    def simulate_data(self, rng, Z, parameters, hyper):
        mean = Z @ parameters["A"]
        return mean + hyper["sigma_x"] * rng.normal(size=mean.shape)

    def statistics(self, Z, hyper, X):
        """Functions of one joint draw: means of these are compared."""
        Z = np.asarray(Z, float)
        K, gram, size = Z.shape[1], Z @ Z.T, np.log(np.mean(X**2))
        found = {
            "K": K,
            "K²": K**2,
            "ΣZ": np.trace(gram),
            "shared": gram.sum() - np.trace(gram),
            "α": hyper["alpha"],
            "α²": hyper["alpha"] ** 2,
            "αK": hyper["alpha"] * K,
            "log mean X²": size,
            "K log mean X²": K * size,
        }
        for name in self.laws:
            value = np.log(hyper[name])
            found |= {f"log {name}": value, f"log² {name}": value**2, f"K log {name}": K * value}
        return found

    def statistics_of_parameters(self, Z, parameters, hyper, X):
        """The same, of parameters that are kept."""
        A = parameters["A"] / hyper["sigma_a"]
        return {"Σ(a/σ_a)²": np.square(A).sum(), "Σ(m a/σ_a)": (np.sum(Z, axis=0) @ A).sum()}

    def truths(self, exact):
        """Means of ``measures`` that enumeration gives: name -> number."""
        return {}

    def measures(self, Z, parameters):
        """Functions of a draw's parameters that enumeration knows the means of."""
        return {}

    def flat_measures(self, Z, parameters):
        """Functions of a draw's parameters whose mean is zero under the prior."""
        return {}


@dataclass(frozen=True)
class LinearGaussianStory(Story):
    likelihood = thali.LinearGaussian

    def fixed(self):
        return thali.LinearGaussian(sigma_x=0.6, sigma_a=0.9)

    def flat(self):
        return thali.LinearGaussian(sigma_x=1e3, sigma_a=1e-3)

    def enumerate(self, spec, cap):
        return oracles.enumerate_posterior(spec, np.array(self.tiny), 0.6, 0.9, cap)

    def simulate_parameters(self, rng, Z, hyper, d):
        return {"A": hyper["sigma_a"] * rng.normal(size=(Z.shape[1], d))}


@dataclass(frozen=True)
class NonnegativeStory(Story):
    likelihood = thali.NonnegativeLinearGaussian
    tiny = ((1.4, 0.5), (1.8, -0.3))
    priors: ClassVar = {
        "ibp": (PriorSpec("ibp", (2.0, 1.0)), 9),
        "two_parameter_ibp": (PriorSpec("two_parameter", 2.0, beta=2.5), 9),
        "beta_bernoulli": (PriorSpec("finite", 3.0, n_components=4), 4),
        "truncated_ibp": (PriorSpec("truncated", 2.0, n_components=4), 4),
    }

    def fixed(self):
        return thali.NonnegativeLinearGaussian(sigma_x=0.6, sigma_a=0.9)

    def flat(self):
        return thali.NonnegativeLinearGaussian(sigma_x=1e3, sigma_a=1e-3)

    def enumerate(self, spec, cap):
        return nonnegative_oracles.enumerate_posterior(spec, np.array(self.tiny), 0.6, 0.9, cap)

    def simulate_parameters(self, rng, Z, hyper, d):
        return {"A": np.abs(hyper["sigma_a"] * rng.normal(size=(Z.shape[1], d)))}

    def statistics_of_parameters(self, Z, parameters, hyper, X):
        found = super().statistics_of_parameters(Z, parameters, hyper, X)
        return found | {"mean X/σ_a": X.mean() / hyper["sigma_a"]}

    def truths(self, exact):
        return {f"E[ZA]_{i}{d}": v for (i, d), v in np.ndenumerate(exact.fitted)}

    def measures(self, Z, parameters):
        return {f"E[ZA]_{i}{d}": v for (i, d), v in np.ndenumerate(Z @ parameters["A"])}


@dataclass(frozen=True)
class ExponentialStory(NonnegativeStory):
    def likelihood(self, **settings):
        return thali.NonnegativeLinearGaussian(law="exponential", **settings)

    def fixed(self):
        return self.likelihood(sigma_x=0.6, sigma_a=0.9)

    def flat(self):
        return self.likelihood(sigma_x=1e3, sigma_a=1e-3)

    def enumerate(self, spec, cap):
        X = np.array(self.tiny)
        law = nonnegative_oracles.exponential
        return nonnegative_oracles.enumerate_posterior(spec, X, 0.6, 0.9, cap, law)

    def simulate_parameters(self, rng, Z, hyper, d):
        return {"A": rng.exponential(hyper["sigma_a"] / np.sqrt(2.0), size=(Z.shape[1], d))}

    def flat_measures(self, Z, parameters):
        A = parameters["A"] / 1e-3
        return {
            "E[a/σ_a]": (A - np.sqrt(0.5)).sum(),
            "E min(a/σ_a, 1)": (np.minimum(A, 1.0) - np.sqrt(0.5) * -np.expm1(-np.sqrt(2.0))).sum(),
        }


@dataclass(frozen=True)
class SparseFactorStory(Story):
    slab: str = "laplace"
    tiny = ((1.3, -0.5), (1.1, 0.6))
    priors: ClassVar = {
        "ibp": (PriorSpec("ibp", 0.8), 2),
        "two_parameter_ibp": (PriorSpec("two_parameter", 0.6, beta=2.5), 2),
        "beta_bernoulli": (PriorSpec("finite", 1.5, n_components=2), 2),
        "truncated_ibp": (PriorSpec("truncated", 1.0, n_components=2), 2),
    }

    def likelihood(self, **settings):
        return thali.SparseFactor(self.slab, **settings)

    def fixed(self):
        return self.likelihood(sigma_x=0.7, sigma_a=0.8)

    def flat(self):
        return self.likelihood(sigma_x=1e3, sigma_a=1e-3)

    def enumerate(self, spec, cap):
        return enumerate_sparse(spec, np.array(self.tiny), 0.7, 0.8, self.slab, cap, points=5)

    def amounts(self, rng, shape):
        return rng.laplace(size=shape) if self.slab == "laplace" else rng.normal(size=shape)

    def simulate_parameters(self, rng, Z, hyper, d):
        A = hyper["sigma_a"] * rng.normal(size=(Z.shape[1], d))
        return {"A": A, "S": Z * self.amounts(rng, Z.shape)}

    def simulate_data(self, rng, Z, parameters, hyper):
        return super().simulate_data(rng, Z * parameters["S"], parameters, hyper)

    def statistics_of_parameters(self, Z, parameters, hyper, X):
        s = np.abs(parameters["S"][np.asarray(Z) != 0])
        return {
            "Σ|s|": s.sum(),
            "Σ min(s², 4)": np.minimum(s**2, 4.0).sum(),
            "Σ(a/σ_a)²": np.square(parameters["A"] / hyper["sigma_a"]).sum(),
            "Σ|s| log mean X²": s.sum() * np.log(np.mean(X**2)),
        }

    def truths(self, exact):
        return {f"E[WW']_{i}{j}": v for (i, j), v in np.ndenumerate(exact.shapes) if i <= j}

    def measures(self, Z, parameters):
        W = Z * parameters["S"]
        return {f"E[WW']_{i}{j}": v for (i, j), v in np.ndenumerate(shapes(W @ W.T)) if i <= j}

    def flat_measures(self, Z, parameters):
        s = np.abs(parameters["S"][np.asarray(Z) != 0])
        if self.slab == "gaussian":
            return {"E|s|": (s - np.sqrt(2.0 / np.pi)).sum()}
        second = 2.0 - 6.0 * np.exp(-2.0)  # E min(s², 4) under Laplace(1)
        return {"E|s|": (s - 1.0).sum(), "E min(s², 4)": (np.minimum(s**2, 4.0) - second).sum()}


@dataclass(frozen=True)
class NoisyOrStory(Story):
    likelihood = thali.NoisyOr
    laws: ClassVar = RATES
    tiny = ((1, 1, 0, 1, 0), (1, 0, 0, 1, 1))
    priors: ClassVar = {
        "ibp": (PriorSpec("ibp", 3.0), 14),
        "two_parameter_ibp": (PriorSpec("two_parameter", 2.0, beta=0.4), 14),
        "beta_bernoulli": (PriorSpec("finite", (1.0, 1.0), n_components=3), 3),
        "truncated_ibp": (PriorSpec("truncated", (1.0, 1.0), n_components=3), 3),
    }
    rates: ClassVar = {"epsilon": 0.1, "lam": 0.7, "p": 0.35}

    def law(self, name):
        return thali.Beta(*self.laws[name])

    def fixed(self):
        return thali.NoisyOr(**self.rates)

    def flat(self):
        return thali.NoisyOr(epsilon=0.5, lam=1e-12, p=0.2)

    def enumerate(self, spec, cap):
        return oracles.enumerate_noisy_or(spec, np.array(self.tiny), self.rates, cap)

    def simulate_hyper(self, rng):
        return {name: rng.beta(*law) for name, law in self.laws.items()}

    def simulate_parameters(self, rng, Z, hyper, d):
        return {"A": (rng.uniform(size=(Z.shape[1], d)) < hyper["p"]).astype(np.uint8)}

    def simulate_data(self, rng, Z, parameters, hyper):
        C = np.asarray(Z, int) @ parameters["A"].astype(int)
        off = (1.0 - hyper["epsilon"]) * (1.0 - hyper["lam"]) ** C
        return (rng.uniform(size=C.shape) >= off).astype(float)

    def statistics(self, Z, hyper, X):
        found = super().statistics(Z, hyper, X + 1.0)  # never all zeros
        return found | {"K ΣX": Z.shape[1] * X.sum(), "λ ΣX": hyper["lam"] * X.sum()}

    def statistics_of_parameters(self, Z, parameters, hyper, X):
        C = np.asarray(Z, int) @ parameters["A"].astype(int)
        return {"ΣY": parameters["A"].sum(), "ΣZY": C.sum(), "ΣXZY": (X * C).sum()}


@dataclass(frozen=True)
class PoissonStory(Story):
    """Base rates stand among the hyperparameters, one for each of two columns."""

    likelihood = thali.Poisson
    laws: ClassVar = {"size": (4.0, 3.0)}  # Gamma(shape, rate)
    tiny = ((3, 0), (4, 2))
    priors: ClassVar = {
        "ibp": (PriorSpec("ibp", 3.0), 14),
        "two_parameter_ibp": (PriorSpec("two_parameter", 2.0, beta=0.4), 14),
        "beta_bernoulli": (PriorSpec("finite", (1.0, 1.0), n_components=3), 3),
        "truncated_ibp": (PriorSpec("truncated", (1.0, 1.0), n_components=3), 3),
    }
    size, base, shape = 0.8, 0.4, 0.5

    def law(self, name):
        return thali.Gamma(*self.laws[name])

    def fixed(self):
        return thali.Poisson(size=self.size, base=self.base, shape=self.shape)

    def flat(self):
        return thali.Poisson(size=1e-12, base=1.0)

    def enumerate(self, spec, cap):
        return count_oracles.enumerate_counts(
            spec, np.array(self.tiny), self.size, self.shape, self.base, cap
        )

    def simulate_hyper(self, rng):
        shape, rate = self.laws["size"]
        return {"size": rng.gamma(shape) / rate, "base": rng.exponential(size=2)}

    def simulate_parameters(self, rng, Z, hyper, d):
        A = rng.gamma(self.shape, size=(Z.shape[1], d)) * hyper["size"] / self.shape
        return {"A": np.maximum(A, 1e-100)}

    def simulate_data(self, rng, Z, parameters, hyper):
        return rng.poisson(hyper["base"] + Z @ parameters["A"]).astype(float)

    def statistics(self, Z, hyper, X):
        return super().statistics(Z, hyper, X + 1.0)  # never all zeros

    def statistics_of_parameters(self, Z, parameters, hyper, X):
        """With the data where no gaps are: entries there are drawn before the parameters, which do
        not look at them."""
        A, base = parameters["A"] / hyper["size"], hyper["base"]
        rate = base[1] + np.asarray(Z, float)[0] @ parameters["A"][:, 1]
        seen = np.log1p(X[0, 1])
        return {
            "Σ√(a/θ)": np.sqrt(A).sum(),
            "Σ(m min(a/θ, 4))": (np.sum(Z, axis=0) @ np.minimum(A, 4.0)).sum(),
            "Σ log b": np.log(base).sum(),
            "K Σ log b": Z.shape[1] * np.log(base).sum(),
            "log θ Σ log b": np.log(hyper["size"]) * np.log(base).sum(),
            "log λ": np.log(rate),
            "log(1+x) log λ": seen * np.log(rate),
            "log(1+x) log b": seen * np.log(base[1]),
        }

    def truths(self, exact):
        return {f"E[b+ZA]_{i}{d}": v for (i, d), v in np.ndenumerate(exact.rates)}

    def measures(self, Z, parameters):
        rates = self.base + Z @ parameters["A"]
        return {f"E[b+ZA]_{i}{d}": v for (i, d), v in np.ndenumerate(rates)}

    def flat_measures(self, Z, parameters):
        return {"E[a/θ]": (parameters["A"] / 1e-12 - 1.0).sum()}


@cache
def enumerated(story, spec, cap):
    """The exact posterior on the story's tiny data, made once."""
    return story.enumerate(spec, cap)


STORIES: dict[str, dict[str, Story]] = {  # by likelihood and variant
    "linear_gaussian": {"": LinearGaussianStory()},
    "nonnegative_linear_gaussian": {"": NonnegativeStory(), "exponential": ExponentialStory()},
    "sparse_factor": {slab: SparseFactorStory(slab) for slab in ("laplace", "gaussian")},
    "noisy_or": {"": NoisyOrStory()},
    "poisson": {"": PoissonStory()},
}
FLAT_DATA = np.random.default_rng(0).integers(0, 2, (8, 3)).astype(float)
