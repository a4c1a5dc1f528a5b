"""Priors of how many rows share a feature: do they bring fewer features of one row alone?

One tenth of the entries is hidden, each prior is fitted to the rest, and told are, as means over
draws and splits: features, features that one row alone has, those that one or two have, the log
density of a hidden entry, and of tables of 0 and 1 the log probability of the right one of the two,
by which likelihoods can be compared: a density of numbers grows without end where noise is small.
± is twice the standard error over splits of the difference from the Indian buffet process.

On the 6×6 images, and on real tables where THALI_DATA names a folder that has them. Also: what a
sweep costs with potentials at the buffet process's values, beside its own.

    python benchmarks/flexible_features.py [--splits 3] [--only images] [--cost]
    python benchmarks/flexible_features.py --only votes --likelihood noisy_or [--from-ibp]
    python benchmarks/flexible_features.py --only votes --likelihood all --prior IBP
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import real_data
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.evaluation import Holdout, holdout
from thali.model import Model
from thali.starts import Start

DRAWS = 400  # of each fit that are looked at


def few_shared(n: int) -> thali.FlexibleIBP:
    """Ten features, in any number of rows from three on alike, and hardly any in one or two."""
    wanted = np.full(n, 10.0 / n)
    wanted[:2] = 0.001
    return thali.FlexibleIBP.from_expectations(m=wanted, n_rows=n)


PRIORS: dict[str, Callable[[int], object]] = {
    "IBP": lambda n: thali.IBP(),
    "TwoParameterIBP": lambda n: thali.TwoParameterIBP(beta=thali.Gamma(1.0, 1.0)),
    "SmoothIBP(power=0)": lambda n: thali.SmoothIBP(power=0.0),
    "SmoothIBP()": lambda n: thali.SmoothIBP(),
    "LearnedIBP()": lambda n: thali.LearnedIBP(),
    "FlexibleIBP": few_shared,
}
LIKELIHOODS = ("linear_gaussian", "noisy_or", "sparse_factor", "nonnegative_linear_gaussian")
SETS = ("images", "votes", "animals")
HEADS = ["data, likelihood", "prior", "features", "of one row", "less IBP's", "of one or two"]
HEADS += ["log density", "less IBP's", "log probability", "less IBP's", "s"]


class Plan(NamedTuple):
    likelihood: str
    sweeps: int | None
    from_ibp: bool


@lru_cache
def table_of(name: str) -> np.ndarray | None:
    if name == "images":
        return thali.datasets.images(n=100, random_state=0).X
    try:
        return np.asarray(real_data.load(name), float)
    except real_data.Skipped as reason:
        print(reason)
        return None


def log_probability(model: thali.LatentFeatures, test: Holdout) -> float:
    """Mean over hidden entries of the log probability of the right one of 0 and 1."""
    if not np.isin(test.values, (0.0, 1.0)).all():
        return np.nan
    logs = []
    for draw in model.draws(DRAWS):
        likelihood = model.fit_.model.likelihood_at(draw.hyper)
        parameters = {"A": draw.A, **draw.parameters}
        entries = likelihood.entries(draw.Z, parameters, test.where_hidden)
        logs.append([entries.log_density(test.values), entries.log_density(1.0 - test.values)])
    right, wrong = np.logaddexp.reduce(logs, axis=0)
    return float(-np.logaddexp(0.0, wrong - right).mean())


def fitted(
    test: Holdout, prior: object, plan: Plan, split: int, init: object = "race"
) -> thali.LatentFeatures:
    """A model of what is not hidden."""
    collapsed = plan.likelihood == "linear_gaussian"
    sampler = thali.CollapsedGibbs if collapsed else thali.UncollapsedGibbs
    engine = sampler(sweeps=plan.sweeps, init=init)
    model = thali.LatentFeatures(prior, plan.likelihood, engine, random_state=split, progress=False)
    return model.fit(test.X)


@lru_cache
def begun(name: str, plan: Plan, split: int) -> object:
    """Where chains begin: as they do by default, or at the buffet process's best draw."""
    if not plan.from_ibp:
        return "race"
    test = holdout(table_of(name), 0.1, "entries", random_state=split)
    return fitted(test, thali.IBP(), plan, split).best_.Z


def told(name: str, label: str, plan: Plan, split: int) -> list[float]:
    """Features, of one row, of one or two, log density, log probability, and seconds."""
    X = table_of(name)
    test, init = holdout(X, 0.1, "entries", random_state=split), begun(name, plan, split)
    began = time.perf_counter()
    model = fitted(test, PRIORS[label](len(X)), plan, split, init)
    taken = time.perf_counter() - began
    sums = [draw.Z.sum(axis=0) for draw in model.draws(DRAWS)]
    found = np.mean([[len(m), (m == 1).sum(), (m <= 2).sum()] for m in sums], axis=0)
    return [*found, test.log_predictive(model), log_probability(model, test), taken]


def apart(found: np.ndarray, base: np.ndarray, digits: int) -> str:
    """The mean difference ± twice its standard error."""
    gap = found - base
    if np.isnan(gap).any():
        return ""
    error = 2.0 * gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
    return f"{gap.mean():+.{digits}f} ± {error:.{digits}f}"


def quality(names: list[str], plans: list[Plan], labels: list[str], splits: int) -> None:
    rows = []
    for name in names:
        if table_of(name) is None:
            continue
        for plan in plans:
            base = None
            for label in labels:
                found = np.array([told(name, label, plan, split) for split in range(splits)])
                base = found if base is None else base
                gaps = [apart(found[:, j], base[:, j], 2 if j < 3 else 4) for j in range(5)]
                k, one, two, density, chance, taken = found.mean(axis=0)
                row = [f"{name}, {plan.likelihood}", label, f"{k:.1f}", f"{one:.2f}", gaps[1]]
                row += [f"{two:.2f}", f"{density:.4f}", gaps[3]]
                row += ["" if np.isnan(chance) else f"{chance:.4f}", gaps[4], f"{taken:.1f}"]
                rows.append(row)
                print(*row, sep="  ", flush=True)
    print("\n" + markdown(HEADS, rows))


def cost(n: int = 500, d: int = 500, k: int = 20, rounds: int = 200) -> None:
    """The median ratio of neighbouring calls, and how far rounds are from one another.

    Both priors walk one state in turns, there and back (ABBA): so where its arrays lie in memory,
    which alone makes a tenth of a sweep, is the same for both, and so is what else the machine
    does. Calls are those of a run, of a few sweeps each; times are of this thread's processor.
    """
    rng = np.random.default_rng(0)
    Z = rng.random((n, k)) < 0.3
    X = Z @ rng.normal(size=(k, d)) + 0.5 * rng.normal(size=(n, d))
    data, engine = Data.of(X), thali.CollapsedGibbs(moves=0)
    made = thali.FlexibleIBP.from_expectations(m=2.0 / np.arange(1, n + 1), n_rows=n)
    walks = []
    for prior in (thali.IBP(alpha=2.0), made):
        model = Model(prior, thali.LinearGaussian(0.5, 1.0))
        start = Start("given", Z, model.start(data))
        walks.append((model, engine.begin(np.random.default_rng(0), model, data, start)))
    times, last = np.zeros((rounds + 2, 2)), walks[0][1]
    with threadpool_limits(1):
        for i in range(rounds + 2):
            for j in (0, 1, 1, 0) if i % 2 else (1, 0, 0, 1):
                model, state = walks[j]
                state.rows, state.n_components = last.rows, last.n_components
                began = time.thread_time()
                drawn = engine.several(rng, model, data, state, 4, keep=False)
                times[i, j] += (time.thread_time() - began) / (2 * len(drawn))
                last = state
    own, other = np.median(times[2:], axis=0)
    low, ratio, high = np.percentile(times[2:, 1] / times[2:, 0], [25, 50, 75])
    error = 2.0 * 1.25 * (high - low) / 1.35 / np.sqrt(rounds)  # of a median, near a normal law
    print(f"a sweep at {n}×{d}, K = {k}: IBP {1e3 * own:.2f} ms, FlexibleIBP {1e3 * other:.2f} ms")
    print(f"median ratio: {ratio:.3f} ± {error:.3f}; half of the rounds: {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Priors of how many rows share a feature.")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    known = [*LIKELIHOODS, "all"]
    parser.add_argument("--likelihood", nargs="+", choices=known, default=["linear_gaussian"])
    parser.add_argument("--prior", nargs="+", choices=PRIORS, default=list(PRIORS))
    parser.add_argument("--sweeps", type=int, help="of each chain; as many as fit takes by itself")
    parser.add_argument("--from-ibp", action="store_true", help="begin at the IBP's best draw")
    parser.add_argument("--cost", action="store_true", help="the cost of a sweep alone")
    given = parser.parse_args()
    if not given.cost:
        likelihoods = list(LIKELIHOODS) if "all" in given.likelihood else given.likelihood
        plans = [Plan(likelihood, given.sweeps, given.from_ibp) for likelihood in likelihoods]
        labels = [label for label in PRIORS if label == "IBP" or label in given.prior]
        quality(given.only, plans, labels, given.splits)
    cost()
