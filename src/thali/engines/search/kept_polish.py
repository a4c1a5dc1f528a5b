r"""Polishing where binary parameters Y are kept: changes of Z and Y that raise P(X, Y, [Z]).

A pass takes one cause after the other, turns its bits with its y at their best, and gives a row a
cause of its own where that is better (``kernels/climb_kept``); then all of Y is set to its best
given Z, where there are few causes. Hyperparameters that have laws go to where log P(X, Y, [Z])
plus the logarithms of their laws is highest, through the counts n_cx of entries with value x and c
active causes. Where there is no cause, only their laws would speak of λ and p: they stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thali.data import Data
from thali.engines.search.polish import ROUNDS, WIDE
from thali.hyperparameters import Beta
from thali.model import Model
from thali.structures.features import feature_counts, potentials

FEW = 10  # causes up to which the best Y is found by looking at all of them
EDGE = 1e-6  # a probability with a law stays this far from 0 and 1, where its best may be


def log_joint(
    model: Model, data: Data, Z: np.ndarray, Y: np.ndarray, hyper: dict[str, Any]
) -> float:
    """log P(X, Y, [Z])."""
    fixed = model.at(hyper)
    counts = count_table(data.binary, Z, Y)
    return float(fixed.prior.log_prob(Z)) + log_density_of(fixed.likelihood, counts, Y)


def log_density_of(likelihood: Any, counts: np.ndarray, Y: np.ndarray) -> float:
    """log P(X, Y | Z) from n_cx and Y."""
    law, active = likelihood.count_probabilities(len(Y)), float(Y.sum())
    return float((counts * law.table).sum() + active * law.on + (Y.size - active) * law.off)


def count_table(X: np.ndarray, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """n_cx: how many entries have c active causes and value x, (K + 1, 2)."""
    C = np.rint(Z.astype(float) @ Y.astype(float)).astype(np.int64)
    size = 2 * (Z.shape[1] + 1)
    return np.bincount((2 * C + X).ravel(), minlength=size).reshape(-1, 2)


def best_parameters(
    likelihood: Any, X: np.ndarray, Z: np.ndarray, otherwise: np.ndarray
) -> np.ndarray:
    """The best Y given Z where there are few causes, else ``otherwise``."""
    from thali.kernels.climb_kept import best_states

    if Z.shape[1] > FEW:
        return otherwise
    table, on, off = likelihood.count_probabilities(Z.shape[1])
    return best_states(X, np.ascontiguousarray(Z, np.uint8), table, on, off)  # type: ignore[no-any-return]


def improve(
    model: Model, data: Data, Z: np.ndarray, Y: np.ndarray, hyper: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, dict[str, Any], float]:
    """One pass, hyperparameters after it, and what was gained; nothing changes for the worse."""
    laws = model.hyperpriors

    def value(Z: np.ndarray, Y: np.ndarray, numbers: dict[str, Any]) -> float:
        of_laws = sum(law.log_density(numbers[name]) for name, law in laws.items())
        return log_joint(model, data, Z, Y, numbers) + of_laws

    found, causes = climb(model.at(hyper), data, Z, Y)
    numbers = settle_hyper(model, data, found, causes, hyper)
    gain = value(found, causes, numbers) - value(Z, Y, hyper)
    return (found, causes, numbers, gain) if gain > 0.0 else (Z, Y, hyper, 0.0)


def climb(model: Model, data: Data, Z: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One pass, hyperparameters being numbers."""
    from thali.kernels.climb_kept import climb as climb_kept

    likelihood: Any = model.likelihood
    prior: Any = model.prior
    tables = prior.tables(data.n)
    Z, Y = np.array(Z, np.uint8, order="C"), Y.copy()
    table, on, off = likelihood.count_probabilities(Z.shape[1] + 1)
    potential = potentials(tables)
    climb_kept(data.binary, Z, Y, table, on, off, potential, tables.capacity)
    used = Z.any(axis=0)
    Z, Y = own_causes(model, data, np.ascontiguousarray(Z[:, used]), np.ascontiguousarray(Y[used]))
    return Z.astype(bool), best_parameters(likelihood, data.binary, Z, Y)


def own_causes(
    model: Model, data: Data, Z: np.ndarray, Y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give each row a cause of its own where that is better; rows do not touch each other's."""
    likelihood: Any = model.likelihood
    prior: Any = model.prior
    X, tables = data.binary, prior.tables(data.n)
    weight, capacity = tables.new_log_weight, tables.capacity
    table, on, off = likelihood.count_probabilities(Z.shape[1] + 1)
    C = np.rint(Z.astype(float) @ Y.astype(float)).astype(np.int64)
    active = on - off + table[C + 1, X] - table[C, X]
    own = Z[:, Z.sum(axis=0) == 1].sum(axis=1)
    gain = np.maximum(active, 0.0).sum(axis=1) + data.d * off + weight - np.log(own + 1.0)
    columns, causes = [Z], [Y]
    for i in np.argsort(-gain, kind="stable"):
        free = capacity - Z.shape[1] - len(columns) + 1
        if capacity >= 0 and free == 0:
            break
        if gain[i] + (0.0 if capacity < 0 else np.log(free)) <= 0.0:
            break
        columns.append((np.arange(data.n) == i).astype(np.uint8)[:, None])
        causes.append((active[i] > 0.0).astype(np.uint8)[None])
    return np.concatenate(columns, axis=1), np.concatenate(causes)


def settle_hyper(
    model: Model, data: Data, Z: np.ndarray, Y: np.ndarray, hyper: dict[str, Any]
) -> dict[str, Any]:
    """Hyperparameters with laws at their best given Z and Y, in turn until they stay."""
    hyper, laws = dict(hyper), model.hyperpriors
    if not len(Y):
        idle = {model.labels["likelihood"][name] for name in ("lam", "p")}
        laws = {name: law for name, law in laws.items() if name not in idle}
    if not laws:
        return hyper
    counts, entries = feature_counts(Z), count_table(data.binary, Z, Y)

    def value(numbers: dict[str, Any]) -> float:
        fixed = model.at(numbers)
        prior = float(fixed.prior.log_prob_counts(counts))
        density = log_density_of(fixed.likelihood, entries, Y)
        return density + prior + sum(law.log_density(numbers[n]) for n, law in laws.items())

    before = value(hyper)
    for _ in range(ROUNDS):
        for name, law in laws.items():

            def alone(at: float, name: str = name) -> float:
                return value({**hyper, name: at})

            hyper[name] = best_number(alone, hyper[name], isinstance(law, Beta))
        now = value(hyper)
        if now - before < 1e-8 * (1.0 + abs(now)):
            break
        before = now
    return hyper


def best_number(value: Callable[[float], float], start: float, probability: bool) -> float:
    """The best positive number, or probability, near ``start``, or ``start`` itself."""
    from scipy.optimize import minimize_scalar
    from scipy.special import expit, logit

    middle = float(logit(start) if probability else np.log(start))
    low, high = middle - WIDE, middle + WIDE
    if probability:
        low, high = max(low, float(logit(EDGE))), min(high, -float(logit(EDGE)))

    def back(at: float) -> float:
        return float(expit(at) if probability else np.exp(at))

    if not low < high:
        return start
    found = minimize_scalar(
        lambda at: -value(back(at)), bounds=(low, high), method="bounded", options={"xatol": 1e-7}
    )
    best = back(float(found.x))
    return best if value(best) > value(start) else start
