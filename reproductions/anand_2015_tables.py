"""Tables 1 and 2 of Anand (2015): seconds for a thousand inverses and a thousand likelihoods; see
`anand_2015.py`.

Hers are in NumPy and so are these, in this process: ratios compare, seconds do not. Ours stands
beside them, with what her rank-one updates lack: M is made afresh before its error matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from presenting import table

import thali
from thali import datasets
from thali.data import Data

PAPER_INVERSE = {"linalg.inv": 0.027662, "calcInverse": 0.018522}
PAPER_LIKELIHOOD = {"old": 0.161591, "new": 0.148518}


def seconds(call: Callable[[], object], loops: int, times: int = 7) -> float:
    """Of a thousand calls, by the least of several times: others may have had the processor."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        for _ in range(loops):
            call()
        took.append(time.perf_counter() - began)
    return min(took) * 1000 / loops


def without_row(M: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(M⁻¹ − zᵀz)⁻¹, Griffiths and Ghahramani (2005), equation 51."""
    Mz = M @ z
    return M - np.outer(Mz, Mz) / (z @ Mz - 1.0)


def with_row(M: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(M⁻¹ + zᵀz)⁻¹, equation 52."""
    Mz = M @ z
    return M - np.outer(Mz, Mz) / (z @ Mz + 1.0)


def table_1(
    data: datasets.Dataset, chain: thali.LatentFeatures, took: float, loops: int
) -> list[str]:
    """An inverse against one change of a row; ``took`` is what our chain's sweeps took."""
    Z = data.Z.astype(float)
    r = (data.sigma_x / data.sigma_a) ** 2
    inverse_M = Z.T @ Z + r * np.eye(Z.shape[1])
    M, z = np.linalg.inv(inverse_M), Z[np.flatnonzero(Z.any(axis=1))[0]]
    taken = without_row(M, z)
    ours = {"linalg.inv": seconds(lambda: np.linalg.inv(inverse_M), loops),
            "calcInverse": seconds(lambda: with_row(taken, z), loops)}  # fmt: skip
    both = seconds(lambda: with_row(without_row(M, z), z), loops)
    K = chain.history_["n_components"]
    bits = float(K.sum()) * len(data.X)
    whole = 1000 * took / bits
    base, paper = ours["linalg.inv"], PAPER_INVERSE
    rows: list[list[object]] = [
        [name, f"{paper[name]:.4f}", f"{paper[name] / paper['linalg.inv']:.2f}",
         f"{one:.4f}", f"{one / base:.2f}"] for name, one in ours.items()
    ]  # fmt: skip
    rows.append(["calcInverse, a row taken out and put back", "–", "–", f"{both:.4f}",
                 f"{both / base:.2f}"])  # fmt: skip
    rows.append(["thali, all that a bit of Z costs in a chain", "–", "–", f"{whole:.4f}",
                 f"{whole / base:.2f}"])  # fmt: skip
    head = ["a thousand times", "paper, s", "of linalg.inv", "here, s", "of linalg.inv"]
    errors, lost = drift(Z, r, 100 * loops), drift(Z[:2], 1e-6, 10 * loops)
    larger = []
    for k in (16, 64):
        large, M_of_it, row = of_size(k, len(Z), r)
        whole, change = (
            seconds(call, loops)
            for call in (lambda a=large: np.linalg.inv(a), lambda a=M_of_it, b=row: with_row(a, b))
        )
        larger.append(f"{change / whole:.2f} with {k}")
    return [
        *table(head, rows), "",
        f"With {len(M)} features both are little but calls; one change costs "
        f"{ours['calcInverse'] / base:.2f} of an inverse, {' and '.join(larger)} features.",
        "",
        "She gave rank-one updates up, since their errors grew until the chain was no longer "
        "stable. M of these data after so many changes of a bit, rows taken out and put back, "
        "never made afresh: largest error relative to the inverse "
        + ", ".join(f"{error:.0e} after {count:,}" for count, error in errors.items())
        + ". The same where features come and go with one row (two rows, four features, r = 1e-6: "
        "σ_x far below σ_a, as a chain from a bad start may have it): "
        + ", ".join(f"{error:.0e} after {count:,}" for count, error in lost.items())
        + f". Ours, renewed as it goes: {chain.drift_:.0e} in the whole chain.",
    ]  # fmt: skip


def of_size(k: int, n: int, r: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M⁻¹, M and a row for n rows that have each of k features with probability one half."""
    Z = (np.random.default_rng(0).random((n, k)) < 0.5).astype(float)
    M_inverse = Z.T @ Z + r * np.eye(k)
    return M_inverse, np.linalg.inv(M_inverse), Z[0]


def drift(Z: np.ndarray, r: float, flips: int) -> dict[int, float]:
    """The error of M kept by rank-one changes alone, after powers of ten of bits turned."""
    rng = np.random.default_rng(0)
    Z = Z.copy()
    eye = r * np.eye(Z.shape[1])
    M = np.linalg.inv(Z.T @ Z + eye)
    errors = {}
    for count in range(1, flips + 1):
        n, k = rng.integers(len(Z)), rng.integers(Z.shape[1])
        M = without_row(M, Z[n])
        Z[n, k] = 1.0 - Z[n, k]
        M = with_row(M, Z[n])
        if count in (100, 1_000, 10_000, 100_000):
            exact = np.linalg.inv(Z.T @ Z + eye)
            errors[count] = float(np.abs(M - exact).max() / np.abs(exact).max())
    return errors


class Given(NamedTuple):
    """What a likelihood of the paper is given."""

    X: np.ndarray
    Z: np.ndarray
    sigma_x: float
    sigma_a: float

    @property
    def inverse_M(self) -> np.ndarray:
        return self.Z.T @ self.Z + (self.sigma_x / self.sigma_a) ** 2 * np.eye(self.Z.shape[1])

    def log_density(self, inverse_M: np.ndarray, M: np.ndarray) -> float:
        (n, d), k = self.X.shape, self.Z.shape[1]
        left = np.eye(n) - self.Z @ M @ self.Z.T
        return float(
            -0.5 * n * d * np.log(2.0 * np.pi)
            - (n - k) * d * np.log(self.sigma_x)
            - k * d * np.log(self.sigma_a)
            - 0.5 * d * np.log(np.linalg.det(inverse_M))
            - 0.5 * np.trace(self.X.T @ left @ self.X) / self.sigma_x**2
        )


def old_likelihood(given: Given) -> float:
    """The matrix is made for its inverse outside, and once more for the determinant."""
    M = np.linalg.inv(given.inverse_M)
    return given.log_density(given.inverse_M, M)


def new_likelihood(given: Given) -> float:
    """Made once."""
    inverse_M = given.inverse_M
    return given.log_density(inverse_M, np.linalg.inv(inverse_M))


def table_2(data: datasets.Dataset, loops: int) -> list[str]:
    """The likelihood before and after what was done twice is done once."""
    given = Given(data.X, data.Z.astype(float), data.sigma_x, data.sigma_a)
    ours, checked = thali.LinearGaussian(data.sigma_x, data.sigma_a), Data.of(data.X)
    values = [old_likelihood(given), new_likelihood(given), ours.log_marginal(checked, data.Z)]
    assert np.ptp(values) < 1e-6 * abs(values[0])
    took = {"old": seconds(lambda: old_likelihood(given), loops),
            "new": seconds(lambda: new_likelihood(given), loops)}  # fmt: skip
    whole = seconds(lambda: ours.log_marginal(checked, data.Z), loops)
    rows: list[list[object]] = [
        [f"{name} likelihood", f"{PAPER_LIKELIHOOD[name]:.3f}",
         f"{PAPER_LIKELIHOOD[name] / PAPER_LIKELIHOOD['old']:.2f}", f"{one:.3f}",
         f"{one / took['old']:.2f}"] for name, one in took.items()
    ]  # fmt: skip
    rows.append(["thali, `log_marginal`, Z checked each time", "–", "–", f"{whole:.3f}",
                 f"{whole / took['old']:.2f}"])  # fmt: skip
    head = ["a thousand times", "paper, s", "of the old", "here, s", "of the old"]
    return [*table(head, rows), "", f"All three give {values[0]:.3f}."]
