"""Sums over all 2^K rows of bits that a new row may have, given features that are kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from thali.data import Data
from thali.likelihoods.base import Masked, Parameters

SUMMED = 14  # features up to which bits are summed over
BLOCK = 4e6  # entries of a table of densities


def can_sum(fixed: Masked, k: int) -> bool:
    """Whether all that a row may have is summed over, exactly."""
    return k <= SUMMED and fixed.sums_amounts


def summed(
    likelihood: Masked, parameters: Parameters, odds: np.ndarray, new: Data
) -> tuple[np.ndarray, np.ndarray]:
    """P(z_k = 1 | x) (n, K) and log p(x) (n,), by the sum over all rows of bits."""
    marginals, logs = np.empty((new.n, len(odds))), np.empty(new.n)
    for part, bits, joint in joints(likelihood, parameters, odds, new):
        logs[part] = logsumexp(joint, axis=1)
        marginals[part] = np.exp(joint - logs[part, None]) @ bits
    return marginals, logs


def joints(
    likelihood: Masked, parameters: Parameters, odds: np.ndarray, new: Data
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Some rows at a time: which, all rows of bits (2^K, K), and log p(x, z) under each."""
    bits = (np.arange(2 ** len(odds))[:, None] >> np.arange(len(odds))) & 1
    block = max(1, int(BLOCK / (len(bits) * new.d)))
    for first in range(0, new.n, block):
        part = slice(first, first + block)
        yield part, bits, log_joints(likelihood, parameters, odds, new.rows(part), bits)


def log_joints(
    likelihood: Masked, parameters: Parameters, odds: np.ndarray, new: Data, bits: np.ndarray
) -> np.ndarray:
    """log p(x, z) of new rows under each row z of ``bits``, (n, B)."""
    joint = np.tile(bits @ odds - np.logaddexp(0.0, odds).sum(), (new.n, 1))
    block = max(1, int(BLOCK / (new.n * new.d)))
    for first in range(0, len(bits), block):
        part = slice(first, first + block)
        joint[:, part] += likelihood.log_rows(new, bits[part], parameters)
    return joint
