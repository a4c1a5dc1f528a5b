r"""What the rows tell the features: sums over rows, that add up over blocks of them.

    counts_k = Σ_n ν_nk,   T = E[W]ᵀ X,   C = Σ_n E[w_nᵀ w_n],   gain_k = Σ_n H[q(z_nk)] − …

With gaps T is of the observed entries, and C is one matrix for each column of X, of the rows that
were observed there. Everything that the bound and the updates of the features need of the data is
here, so that blocks of rows may lie anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np


@dataclass(frozen=True)
class Statistics:
    """Sums over ``n`` rows; C is (K, K), or (D, K, K) where entries are missing."""

    n: float
    counts: np.ndarray
    C: np.ndarray
    T: np.ndarray
    squares: float  # Σ x² of what was observed
    entries: float  # how many entries were observed
    gain: np.ndarray  # the bound's terms of q(z_k) and q(s_k) themselves

    def __add__(self, other: Statistics) -> Statistics:
        return self.mixed(1.0, other, 1.0)

    def mixed(self, mine: float, other: Statistics, theirs: float) -> Statistics:
        """A weighted sum, field by field."""
        return Statistics(
            *(
                mine * getattr(self, name) + theirs * getattr(other, name)
                for name in self.__dataclass_fields__
            )
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, for files."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray], prefix: str = "") -> Self:
        """The statistics that ``arrays`` were, under names that begin with ``prefix``."""
        own = (arrays[prefix + name] for name in cls.__dataclass_fields__)
        return cls(*(value if value.ndim else float(value) for value in own))  # type: ignore[arg-type]

    def padded(self) -> Self:
        """With one more feature, that no row has."""
        one, beside = [(0, 1)], [(0, 0)] * (self.C.ndim - 2)
        return replace(
            self,
            counts=np.pad(self.counts, one),
            C=np.pad(self.C, beside + 2 * one),
            T=np.pad(self.T, [(0, 1), (0, 0)]),
            gain=np.pad(self.gain, one),
        )

    def taken(self, order: np.ndarray) -> Self:
        """The statistics of some features, in this order."""
        C = np.ascontiguousarray(self.C[..., order[:, None], order])
        return replace(self, counts=self.counts[order], C=C, T=self.T[order], gain=self.gain[order])
