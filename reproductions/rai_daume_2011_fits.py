"""What the parts of the reproduction of Rai and Daumé III (2011) share: the methods, a fit of any
of them at given hyperparameters, the data of E. coli, and the form of the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from presenting import read

import thali
from thali.model import Model
from thali.results.fit import Draws

TRUNCATION = 12
RESTARTS = 5  # of variational inference; its seconds are those of one


class Method(NamedTuple):
    """An engine by the width of its beam and its sweeps, and how it is drawn."""

    engine: Callable[[int, int], Any]
    color: str
    dash: str = "-"


def alone(heuristic: str, width: int, **settings: Any) -> thali.BeamSearch:
    """The search as in the paper: nothing before it, nothing after it, the rows as they come."""
    plain: dict[str, Any] = {"init": "empty", "order": "given", "n_init": 1, "polish": False}
    return thali.BeamSearch(width, heuristic, **{**plain, **settings})


def greedy(**settings: Any) -> thali.BeamSearch:
    """Section 6.7: no look ahead, one candidate."""
    plain: dict[str, Any] = {"init": "empty", "order": "given", "n_init": 1, "polish": False}
    return thali.BeamSearch.greedy(**{**plain, **settings})


METHODS = {
    "Gibbs sampling": Method(
        lambda width, sweeps: thali.UncollapsedGibbs(sweeps=sweeps, chains=1, init="prior"),
        "#7f7f7f", "--",
    ),
    "particle filter": Method(lambda width, sweeps: thali.ParticleFilter(500), "#8c6d31", "--"),
    "infinite variational": Method(
        lambda width, sweeps: thali.Variational(TRUNCATION, n_init=1, init="prior"),
        "#c2609a", "--",
    ),
    "trivial": Method(lambda width, sweeps: alone("trivial", width), "#2078b4"),
    "cluster": Method(lambda width, sweeps: alone("cluster", width), "#009e73"),
    "inadmissible": Method(lambda width, sweeps: alone("inadmissible", width), "#d55e00"),
}  # fmt: skip
SEARCHES = ("trivial", "cluster", "inadmissible")
BASELINES = tuple(name for name in METHODS if name not in SEARCHES)
OTHERS = ("neighbor", "neighbors_or", "admissible")


class Task(NamedTuple):
    """Data and the numbers that every method is given, and the planted Z where there is one."""

    X: np.ndarray
    alpha: float
    sigma_x: float
    sigma_a: float
    Z: np.ndarray | None = None

    @property
    def model(self) -> Model:
        return Model(thali.IBP(self.alpha), thali.LinearGaussian(self.sigma_x, self.sigma_a))


class Fit(NamedTuple):
    """One fit: its seconds (compilation excluded), K, log P(X, [Z]), and the model."""

    seconds: float
    n_components: int
    value: float
    model: Any


def fit_engine(task: Task, engine: Any, seed: int) -> Fit:
    """One fit; its Z judged by the log joint at the task's numbers, of a sampler the best draw."""
    model = thali.LatentFeatures(
        thali.IBP(task.alpha), thali.LinearGaussian(task.sigma_x, task.sigma_a), engine,
        random_state=seed, progress=False,
    )  # fmt: skip
    began = time.perf_counter()
    model.fit(task.X)
    took = time.perf_counter() - began
    if isinstance(model.fit_, Draws):
        values = model.history_["log_joint"]
        best = int(values.argmax())
        k = int(model.history_["n_components"].flat[best])
        return Fit(took, k, float(values.flat[best]), model)
    return Fit(took, model.n_components_, task.model.log_joint(task.X, model.Z_), model)


def fit(task: Task, name: str, seed: int, *, width: int = 10, sweeps: int = 500) -> Fit:
    """A fit of a method; of variational inference the best of several, in their mean time."""
    engine = METHODS[name].engine(width, sweeps)
    if name != "infinite variational":
        return fit_engine(task, engine, seed)
    fits = [fit_engine(task, engine, seed + i) for i in range(RESTARTS)]
    best = max(fits, key=lambda one: one.model.elbo_)
    return best._replace(seconds=float(np.mean([one.seconds for one in fits])))


def warm_up(names: Iterable[str] = METHODS) -> None:
    """Short fits to small data: they compile the kernels, or load them."""
    X = thali.datasets.blocks(n=8).X
    for name in names:
        fit(Task(X, 1.0, 0.1, 0.5), name, 0, sweeps=3)


def from_variance(X: np.ndarray) -> tuple[float, float]:
    """σ_x and σ_a "based on the data variance"; how, the paper does not say."""
    spread = float(X.std())
    return 0.5 * spread, spread


# data


def block_images(seed: int) -> Task:
    """Section 6.2: each of four images in each picture with probability one half."""
    data = thali.datasets.blocks(random_state=seed)
    return Task(data.X, 1.0, 0.1, float(data.X.std()), data.Z)


def ecoli(seed: int, genes: int = 50, factors: int = 8, d: int = 100) -> Task:
    """X = Z A + noise, Z the regulation of 50 genes of E. coli by 8 factors.

    Of the network of Kao and others (2004) the factors that regulate the most genes, and of those
    genes that any of them regulates the ones that most of them do, earlier ones first.
    """
    network = np.abs(read("ecoli_nca.npz")["connectivity"]).astype(bool)
    most = np.sort(np.argsort(-network.sum(axis=0), kind="stable")[:factors])
    Z = network[:, most]
    chosen = np.sort(np.argsort(-Z.sum(axis=1), kind="stable")[:genes])
    Z = Z[chosen]
    rng = np.random.default_rng(seed)
    X = Z @ rng.standard_normal((factors, d)) + 0.5 * rng.standard_normal((genes, d))
    return Task(X, 3.0, *from_variance(X), Z)


def synthetic(seed: int, n: int, k: int = 4, d: int = 100) -> Task:
    """X = Z A + noise of 0.1 with Z of an IBP, α = 1, drawn again until it has k features."""
    for attempt in range(seed, seed + 10_000):
        Z = np.asarray(thali.IBP(1.0).sample(np.random.default_rng(attempt), n), bool)
        if Z.shape[1] == k:
            break
    rng = np.random.default_rng(seed)
    X = Z @ rng.standard_normal((k, d)) + 0.1 * rng.standard_normal((n, d))
    return Task(X, 1.0, 0.1, 1.0, Z)
