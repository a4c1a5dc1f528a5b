"""Figure 4 of Anand (2015), the mode of K: plain samplers with a slip; see `anand_2015.py`.

With m_k the number of rows that have feature k, and row n being updated,

    right      its own features are dropped before its new ones are drawn, bits by m_{−n,k}/N
    as met     its own features are dropped as the scan comes to them, P(z = 1) = 0/N, so that
               other bits are drawn with some of them there; then new ones are drawn
    itself     a row counts itself, m_k/N, and draws new ones beside its own

The second is how section 2.2.2 reads if nothing else is done; the third has m_k where the paper
prints m_{−n,k}. At most four new features a row, σ flat, as there. Slow: every bit has a Cholesky
factor.
"""

from __future__ import annotations

import numpy as np
from presenting import table

from thali import datasets

RULES = ("right", "as met", "itself")
MOST_NEW = 4


class Plain:
    """A chain from one feature in half of the rows."""

    def __init__(self, X: np.ndarray, rule: str, seed: int) -> None:
        self.X, self.rule, self.rng = X, rule, np.random.default_rng(seed)
        self.Z = (self.rng.random((len(X), 1)) < 0.5).astype(float)
        self.alpha, self.sigma_x, self.sigma_a = 1.0, 1.0, 1.0
        self.square = float(np.square(X).sum())

    def log_density(self, Z: np.ndarray, sigma_x: float, sigma_a: float) -> float:
        """log P(X | Z), A integrated out, but for a constant."""
        (n, d), k = self.X.shape, Z.shape[1]
        L = np.linalg.cholesky(Z.T @ Z + (sigma_x / sigma_a) ** 2 * np.eye(k))
        half = np.linalg.solve(L, Z.T @ self.X)
        logs = (n - k) * np.log(sigma_x) + k * np.log(sigma_a) + np.log(np.diagonal(L)).sum()
        return float(-d * logs - 0.5 * (self.square - np.square(half).sum()) / sigma_x**2)

    def value(self, Z: np.ndarray) -> float:
        return self.log_density(Z, self.sigma_x, self.sigma_a)

    def bits(self, n: int) -> None:
        k, rows = 0, len(self.X)
        while k < self.Z.shape[1]:
            others = self.Z[:, k].sum() - (0.0 if self.rule == "itself" else self.Z[n, k])
            if others == 0.0 and self.rule == "as met":
                self.Z = np.delete(self.Z, k, axis=1)
                continue
            if others > 0.0:
                logs = []
                for bit, weight in ((0.0, rows - others), (1.0, others)):
                    self.Z[n, k] = bit
                    logs.append(np.log(max(weight, 1e-300)) + self.value(self.Z))
                odds = np.exp(np.clip(logs[0] - logs[1], -700.0, 700.0))
                self.Z[n, k] = float(self.rng.random() < 1.0 / (1.0 + odds))
            k += 1
        own = self.Z[n] if self.rule == "right" else 0.0
        self.Z = self.Z[:, self.Z.sum(axis=0) - own > 0.0]

    def new(self, n: int) -> None:
        rows = len(self.X)
        choices, logs, log_poisson = [], [], 0.0
        for j in range(MOST_NEW + 1):
            log_poisson += np.log(self.alpha / rows / j) if j else 0.0
            own = np.zeros((rows, j))
            own[n] = 1.0
            choices.append(np.hstack([self.Z, own]))
            logs.append(log_poisson + self.value(choices[-1]))
        p = np.exp(np.array(logs) - max(logs))
        self.Z = choices[self.rng.choice(len(p), p=p / p.sum())]

    def sweep(self) -> int:
        for n in range(len(self.X)):
            self.bits(n)
            self.new(n)
        harmonic = float((1.0 / np.arange(1, len(self.X) + 1)).sum())
        self.alpha = self.rng.gamma(1.0 + self.Z.shape[1]) / (1.0 + harmonic)
        for step in ((1.0, 0.0), (0.0, 1.0)):
            moved = self.rng.uniform(-0.05, 0.05)
            x, a = self.sigma_x + step[0] * moved, self.sigma_a + step[1] * moved
            ratio = self.log_density(self.Z, x, a) - self.value(self.Z) if min(x, a) > 0 else -1e9
            if np.log(self.rng.random()) < ratio:
                self.sigma_x, self.sigma_a = x, a
        return self.Z.shape[1]


def slips(data: datasets.Dataset, seed: int, sweeps: int) -> list[str]:
    """The mode and mean of K under each rule, the first half of the sweeps left out."""
    rows = []
    for rule in RULES:
        chain = Plain(data.X, rule, seed)
        K = np.array([chain.sweep() for _ in range(sweeps)])[sweeps // 2 :]
        rows.append([rule, int(np.bincount(K).argmax()), f"{K.mean():.2f}"])
    return [f"{sweeps} sweeps, the second half counted.", "",
            *table(["rule", "mode of K", "mean of K"], rows)]  # fmt: skip
