r"""What is done once every row is in: bits change while that raises the log joint.

A pass goes over all rows with A integrated out, and sets each bit, and each row's number of dishes
of its own, to the likeliest value given all the rest. Between passes, hyperparameters that have
laws go to where log P(X, [Z]) plus the logarithms of their laws is highest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thali.data import Data
from thali.likelihoods.gaussian_scales import LEAST
from thali.model import Model
from thali.structures.features import feature_counts

WIDE = 3.0  # of log value: how far a hyperparameter may go in one look
ROUNDS = 20


def log_target(model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Any]) -> float:
    """log P(X, [Z]) plus the logarithms of the laws of the hyperparameters."""
    laws = model.hyperpriors
    return model.at(hyper).log_joint(data, Z) + sum(
        law.log_density(hyper[name]) for name, law in laws.items()
    )


def improve(
    rng: np.random.Generator, model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Any]
) -> tuple[np.ndarray, dict[str, Any], float]:
    """One pass, hyperparameters after it, and what was gained; nothing changes for the worse."""
    before = log_target(model, data, Z, hyper)
    found = climb(rng, model.at(hyper), data, Z)
    numbers = settle_hyper(model, data, found, hyper)
    gain = log_target(model, data, found, numbers) - before
    return (found, numbers, gain) if gain > 0.0 else (Z, hyper, 0.0)


def climb(rng: np.random.Generator, model: Model, data: Data, Z: np.ndarray) -> np.ndarray:
    """One pass of changes of one bit, hyperparameters being numbers."""
    from thali.kernels.collapsed_rows import sweep
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.maintained_rows import rows_of

    likelihood: Any = model.likelihood
    prior: Any = model.prior
    tables = prior.tables(data.n)
    scales = Scales(likelihood.sigma_x, likelihood.sigma_a, float(data.d))
    rows, k = rows_of(Z, data.reduced), Z.shape[1]
    rows, report = sweep(
        rng, data.reduced, data.squares, rows, k, tables, scales, max(256, 8 * k), True
    )
    return rows.Z[:, : int(report.n_components)].astype(bool)


def settle_hyper(model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Any]) -> dict[str, Any]:
    """Hyperparameters with laws at their best given Z, one after the other until they stay."""
    from thali.kernels.evidence import log_evidence, spectrum

    hyper, laws = dict(hyper), model.hyperpriors
    if not laws:
        return hyper
    counts = feature_counts(Z)
    bits = Z.astype(float)
    eigenvalues, lengths = spectrum(bits.T @ bits, bits.T @ data.reduced)
    noise = model.labels["likelihood"]["sigma_x"]
    total, scale = float(data.squares.sum()), float(np.sqrt(data.mean_square))

    def value(numbers: dict[str, Any]) -> float:
        scales = model.likelihood_values(numbers)
        sigma_x, sigma_a = scales["sigma_x"], scales["sigma_a"]
        if noise in laws and sigma_x < LEAST * max(scale, sigma_a):
            return -np.inf  # where its law is cut off, as in sampling
        fit = log_evidence(eigenvalues, lengths, total, data.n, float(data.d), sigma_x, sigma_a)
        prior = model.prior_at(numbers).log_prob_counts(counts)
        return fit + prior + sum(law.log_density(numbers[name]) for name, law in laws.items())

    before = value(hyper)
    for _ in range(ROUNDS):
        for name in laws:

            def alone(at: float, name: str = name) -> float:
                return value({**hyper, name: at})

            hyper[name] = _best_number(alone, hyper[name])
        now = value(hyper)
        if now - before < 1e-8 * (1.0 + abs(now)):
            break
        before = now
    return hyper


def _best_number(value: Callable[[float], float], start: float) -> float:
    """The best positive number near ``start``, or ``start`` itself."""
    from scipy.optimize import minimize_scalar

    middle = np.log(start)
    found = minimize_scalar(
        lambda at: -value(float(np.exp(at))),
        bounds=(middle - WIDE, middle + WIDE),
        method="bounded",
        options={"xatol": 1e-7},
    )
    best = float(np.exp(found.x))
    return best if value(best) > value(start) else start
