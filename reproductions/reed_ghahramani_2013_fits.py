"""What the parts of the reproduction of Reed and Ghahramani (2013) share: the methods, how a fit of
any of them to data with entries held out evolves, and the form of the report."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import thali
from thali.evaluation import BayesianNMF, Holdout, PowerEPNMF, holdout
from thali.plots import style

ALPHA = 3.0  # section 5
SHARE = 0.75  # of the data's standard deviation: σ_x and σ_a of the same section
FOREVER = 1_000_000  # sweeps of a sampler that only its seconds end
RACE_SECONDS = 30.0
REFILL = 10  # iterations of scikit-learn's NMF between two fillings of what is missing


class Method(NamedTuple):
    """An engine with its likelihood, or a factorization; and how it is drawn."""

    engine: type
    likelihood: Any
    color: str
    finite: bool = False
    raced: bool = False
    truncated: bool = False  # the Indian buffet process held to K features

    @property
    def dash(self) -> str:
        if self.truncated:
            return "-."
        return ":" if self.raced else "--" if self.finite or self.likelihood is None else "-"


METHODS = {
    "maximization-expectation": Method(
        thali.MaximizationExpectation, thali.NonnegativeLinearGaussian, style.VERMILLION
    ),
    "variational": Method(thali.Variational, thali.LinearGaussian, style.BLUE),
    "variational, finite": Method(thali.Variational, thali.LinearGaussian, style.BLUE, True),
    "collapsed Gibbs": Method(thali.CollapsedGibbs, thali.LinearGaussian, style.CHAINS[2]),
    "uncollapsed Gibbs": Method(
        thali.UncollapsedGibbs, thali.NonnegativeLinearGaussian, style.CHAINS[3]
    ),
    "Bayesian NMF": Method(BayesianNMF, None, style.CHAINS[6]),
    "NMF of scikit-learn": Method(NMF, None, style.CHAINS[7]),
}
RACED = {
    "maximization-expectation, by default": METHODS["maximization-expectation"]._replace(raced=True)
}  # of figure 3: what the library does by itself, from a raced start, scales and α inferred
INMF = {"INMF": Method(PowerEPNMF, None, style.CHAINS[5])}  # of figure 3, left, as in the paper
SAMPLERS = ("collapsed Gibbs", "uncollapsed Gibbs")
TRUNCATED = {f"{name}, truncated": METHODS[name]._replace(truncated=True) for name in SAMPLERS}
BUFFETS = [name for name in METHODS if "NMF" not in name]


class Point(NamedTuple):
    """A fit so far: its seconds, mean held-out log density, number of features, whether ended."""

    seconds: float
    value: float
    n_components: int
    ended: bool


class Task(NamedTuple):
    """Held-out data, and σ, the standard deviation of what is left times 3/4."""

    test: Holdout
    sigma: float

    @classmethod
    def of(cls, test: Holdout) -> Task:
        return cls(test, SHARE * float(np.nanstd(np.asarray(test.X))))

    def density(self, predicted: np.ndarray) -> float:
        """The mean log density of the hidden entries around these values, scale σ."""
        z = (self.test.values - predicted) / self.sigma
        return float(np.mean(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi * self.sigma**2)))


def evolution(task: Task, name: str, k: int, seed: int, budgets: Sequence[float]) -> list[Point]:
    """A fit as it stands after so many seconds, and after so many more; shorter if it ends."""
    method = (METHODS | RACED | INMF | TRUNCATED)[name]
    walk = {BayesianNMF: by_modes, PowerEPNMF: by_messages, NMF: by_filling}.get(
        method.engine, by_resuming
    )
    points: list[Point] = []
    for point in walk(task, method, k, seed, budgets):
        points.append(point)
        if point.ended or point.seconds >= budgets[-1]:
            break
    return points


def engine_of(method: Method, k: int, start: Any) -> Any:
    own: dict[str, Any] = {"n_init": 1, "tol": 1e-5}
    if method.engine not in (thali.MaximizationExpectation, thali.Variational):
        own = {"sweeps": FOREVER, "chains": 1}
    elif not method.finite:
        own["truncation"] = k
    return method.engine(init=start, **own)


def prior_of(method: Method, k: int) -> Any:
    if method.truncated:
        return thali.TruncatedIBP(ALPHA, max_features=k)
    return thali.BetaBernoulli(ALPHA, k) if method.finite else thali.IBP(ALPHA)


def by_resuming(
    task: Task, method: Method, k: int, seed: int, budgets: Sequence[float]
) -> Iterator[Point]:
    """One run, stopped at each budget and resumed: no draw is made twice."""
    rng = np.random.default_rng(seed)
    start = (
        "race"
        if method.raced
        else thali.BetaBernoulli(ALPHA, k).sample(rng, len(task.test.observed))
    )
    if method.raced:  # a race is not cut within; what follows it is short
        budgets = (max(RACE_SECONDS, budgets[-1]),)
    model = thali.LatentFeatures(
        thali.IBP() if method.raced else prior_of(method, k),
        method.likelihood() if method.raced else method.likelihood(task.sigma, task.sigma),
        engine_of(method, k, start),
        random_state=seed, progress=False,
    )  # fmt: skip
    spent = 0.0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        for until in budgets:
            left = max(until - spent, 0.05)
            model.fit(task.test.X, checkpoint=path, resume=path.exists(), time_budget=left)
            spent = model.seconds_ if path.exists() else spent + model.seconds_
            if method.raced:  # its own σ_x would not compare
                value = task.density(np.asarray(model.impute(), float)[task.test.where_hidden])
            else:
                value = task.test.log_predictive(model)
            yield Point(spent, value, model.n_components_, model.stopped_ == "finished")


def shifted(task: Task) -> tuple[np.ndarray, float]:
    """What is left of the data, moved so that its least entry is 0."""
    X = np.asarray(task.test.X, dtype=float)
    least = float(np.nanmin(X))
    return X - least, least


def by_modes(
    task: Task, method: Method, k: int, seed: int, budgets: Sequence[float]
) -> Iterator[Point]:
    """Fits of 1, 4, 16, … iterations with the same seed, each the beginning of the next."""
    X, least = shifted(task)
    for power in range(8):
        model = BayesianNMF(k + 1, max_iter=4**power, random_state=seed)
        began = time.perf_counter()
        model.fit(X)
        took = time.perf_counter() - began
        found = (model.weights_ @ model.components_)[task.test.where_hidden] + least
        yield Point(took, task.density(found), k + 1, model.n_iter_ < 4**power)


def by_messages(
    task: Task, method: Method, k: int, seed: int, budgets: Sequence[float]
) -> Iterator[Point]:
    """Fits of 1, 4, 16, … passes with the same seed, each the beginning of the next; the data are
    not moved, as for the engines."""
    for power in range(6):
        model = PowerEPNMF(
            k, alpha=ALPHA, sigma_x=task.sigma, sigma_a=task.sigma, max_iter=4**power,
            random_state=seed,
        )  # fmt: skip
        began = time.perf_counter()
        model.fit(np.asarray(task.test.X, dtype=float))
        took = time.perf_counter() - began
        found = (model.weights_ @ model.components_)[task.test.where_hidden]
        yield Point(took, task.density(found), model.n_active_, model.converged_)


def by_filling(
    task: Task, method: Method, k: int, seed: int, budgets: Sequence[float]
) -> Iterator[Point]:
    """scikit-learn's NMF takes no gaps: they are filled with what it says of them, and so on."""
    X, least = shifted(task)
    gone = np.isnan(X)
    filled = np.where(gone, np.nanmean(X, axis=0), X)
    W = A = None
    spent, last, gaps = 0.0, np.inf, 0
    while True:
        began = time.perf_counter()
        given = {"init": "random"} if W is None else {"init": "custom"}
        model = NMF(k + 1, max_iter=REFILL, tol=1e-5, random_state=seed, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            W = model.fit_transform(filled, W=W, H=A)
        A = model.components_
        found = W @ A
        filled[gone] = found[gone]
        error = float(np.sqrt(np.mean(np.square(found - filled)[~gone])))
        spent += time.perf_counter() - began
        ended = last - error < 1e-5 * last
        last = error
        gaps += 1
        if ended or gaps & (gaps - 1) == 0:  # 1, 2, 4, … fillings
            yield Point(spent, task.density(found[task.test.where_hidden] + least), k + 1, ended)
        if ended:
            return


def warm_up(names: Iterable[str]) -> None:
    """Short fits to a small table with gaps: they compile the kernels, or load them."""
    X = thali.datasets.noisy_nonnegative(n=60, d=12, k=3).X
    task = Task.of(holdout(X, 0.2, "last_half"))
    for name in names:
        evolution(task, name, 3, 0, (0.1,))


# the form of the report


def panels(titles: Sequence[str], height: float = 3.9) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side in the house style."""
    figure = style.new_figure(max(4.6 * len(titles), 7.0), height)
    axes = list(figure.subplots(1, len(titles), squeeze=False)[0])
    for ax, title in zip(axes, titles, strict=True):
        style.tidy(ax, title)
    return figure, axes
