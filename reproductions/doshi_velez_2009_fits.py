"""What the parts of the reproduction of Doshi-Velez and others (2009) share: the methods, a fit of
any of them to data with entries held out, and the form of the report."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import thali
from thali.evaluation import Holdout, holdout

STARTS = {"prior": "random start", "race": "raced start"}
SPARSE_STARTS = {"prior": "random start", "race": "sparse ICA start"}  # nothing is raced there
FILTERS = {"particle filter, 10": 10, "particle filter, 50": 50}  # of figure 3
FOREVER = 1_000_000  # sweeps of a sampler that only its time budget ends


class Method(NamedTuple):
    """An engine, whether its prior has K features or no end of them, and how it is drawn."""

    engine: type
    finite: bool
    color: str

    @property
    def dash(self) -> str:
        return "--" if self.finite else "-"


METHODS = {
    "infinite variational": Method(thali.Variational, False, "#2078b4"),
    "finite variational": Method(thali.Variational, True, "#2078b4"),
    "collapsed Gibbs": Method(thali.CollapsedGibbs, False, "#d55e00"),
    "finite collapsed Gibbs": Method(thali.CollapsedGibbs, True, "#d55e00"),
    "uncollapsed Gibbs": Method(thali.UncollapsedGibbs, False, "#009e73"),
    "finite uncollapsed Gibbs": Method(thali.UncollapsedGibbs, True, "#009e73"),
}
VARIATIONAL = [name for name in METHODS if "variational" in name]


ALPHA, SIGMA_X, SIGMA_A = 5.0, 0.5, 1.0  # of the synthetic data; the paper does not give its own


class Fit(NamedTuple):
    """One fit: its seconds (compilation excluded), mean held-out log density, K, whether cut."""

    seconds: float
    value: float
    n_components: int
    cut: bool


class Task(NamedTuple):
    """What all methods are given: held-out data, the likelihood, and α as a number or a law."""

    test: Holdout
    likelihood: Any
    alpha: Any = thali.Gamma(1.0, 1.0)
    center: bool = False


def fit(
    task: Task, name: str, k: int, start: str, seed: int, *, sweeps: int = FOREVER,
    chains: int = 2, tol: float = 1e-6, budget: float | None = None, anneal: int = 0,
) -> Fit:  # fmt: skip
    """Fit what was left of the data, and ask for what was hidden."""
    method = METHODS[name]
    prior = thali.BetaBernoulli(task.alpha, k) if method.finite else thali.IBP(task.alpha)
    if method.engine is thali.Variational:
        own: dict[str, Any] = {"n_init": 2, "tol": tol}
        own |= {} if method.finite else {"truncation": k}
    else:
        own = {"sweeps": sweeps, "chains": chains}
    engine = method.engine(init=start, anneal=anneal, **own)
    model = thali.LatentFeatures(
        prior, task.likelihood, engine, center=task.center, random_state=seed, progress=False
    )
    began = time.perf_counter()
    model.fit(task.test.X, time_budget=budget)
    took = time.perf_counter() - began
    value = task.test.log_predictive(model)
    return Fit(took, value, model.n_components_, model.stopped_ != "finished")


def fit_filter(
    task: Task, particles: int, seed: int, budget: float | None = None, **settings: Any
) -> Fit:
    """A particle filter: rows join one by one, each by what was left of it."""
    model = thali.LatentFeatures(
        thali.IBP(task.alpha), task.likelihood, thali.ParticleFilter(particles, **settings),
        center=task.center, random_state=seed, progress=False,
    )  # fmt: skip
    began = time.perf_counter()
    model.fit(task.test.X, time_budget=budget)
    took = time.perf_counter() - began
    value = task.test.log_predictive(model)
    return Fit(took, value, model.n_components_, model.stopped_ != "finished")


def warm_up(task: Task, names: Iterable[str]) -> None:
    """Short fits to a corner of the data: they compile the kernels, or load them."""
    X = np.asarray(task.test.X)[-12:, :8]
    small = task._replace(test=holdout(np.nan_to_num(X), 1 / 3, "last_half"))
    for name in names:
        for start in STARTS:
            fit(small, name, 3, start, 0, sweeps=4, chains=1)


# synthetic data


def planted(n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X = Z A + noise with Z of the truncated stick-breaking prior, and its mean Z A."""
    rng = np.random.default_rng(seed)
    pi = np.cumprod(rng.beta(ALPHA, 1.0, k))
    mean = (rng.random((n, k)) < pi) @ (SIGMA_A * rng.standard_normal((k, d)))
    return mean + SIGMA_X * rng.standard_normal((n, d)), mean


def synthetic(n: int, d: int, k: int, seed: int) -> tuple[Task, float]:
    """Held-out data of this size, and the mean log density at the planted features."""
    X, mean = planted(n, d, k, seed)
    test = holdout(X, 1 / 3, "last_half", random_state=seed)
    z = (test.values - mean[test.where_hidden]) / SIGMA_X
    best = float(np.mean(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi * SIGMA_X**2)))
    return Task(test, thali.LinearGaussian(SIGMA_X, SIGMA_A), ALPHA), best
