r"""What a backend does: everything that needs X, one block of rows at a time.

    Statistics = local_step(block, rows, globals),   globals = global_step(Statistics)

A block is rows of X wherever they are (``block.py``); rows are what q says of them, changed in
place; globals are the few small arrays that all rows are given. Statistics add up, so that a
backend may cut a block into pieces and work on them in threads, on a device or on other machines.
A new one is one file: a class with the methods of ``Backend``. The first is ``local.py``.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np

from thali.backends.far import AnyBlock
from thali.backends.rows import Rows
from thali.data import Data
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.structures.statistics import Statistics

PASSES = 4  # over a row's features in a local step, at most


class Moments(NamedTuple):
    """Of the features' q: E[A], (K, D), Σ_d E[a_d a_dᵀ], (1, K, K), and where entries are
    missing E[a_d a_dᵀ] of each column, (D, K²)."""

    phi: np.ndarray
    gram: np.ndarray
    grams: np.ndarray | None

    @classmethod
    def of(cls, q: FeaturePosterior, masked: bool) -> Self:
        """The moments that blocks with or without missing entries need."""
        k, d = q.phi.shape
        gram = np.ascontiguousarray(q.gram())[None]
        grams = np.ascontiguousarray(q.grams().reshape(d, k * k)) if masked else None
        return cls(q.phi, gram, grams)


class Globals(NamedTuple):
    """What all rows are given: the features, E[log π_k] − E[log(1 − π_k)], and σ_x."""

    features: Moments
    odds: np.ndarray
    sigma_x: float


class HardGlobals(NamedTuple):
    """What all rows are given where each has a feature or not.

    ``log_odds`` is by the number of other rows that have a feature, ``own`` (K,) for features that
    no other has, ``in_use`` by the number of features in use; ``solver`` is one of ``SOLVERS``.
    ``level`` tells what the bound has of the counts m alone, ``side_by_side`` whether pieces of the
    rows are worked on at once; neither is sent to blocks.
    """

    features: Moments
    sigma_x: float
    log_odds: np.ndarray
    own: np.ndarray
    in_use: np.ndarray
    solver: int
    level: Callable[[np.ndarray], float]
    side_by_side: bool


class Backend(Protocol):
    """Where blocks of rows are worked on."""

    def hold(self, data: Data, rows: Rows, dtype: str) -> tuple[AnyBlock, Rows]:
        """All rows of X, and q of them, where steps are to find them."""

    def local_step(
        self, block: AnyBlock, rows: Rows, given: Globals, passes: int = PASSES
    ) -> Statistics:
        """Update the rows' q in place, and return their statistics.

        ``passes=0`` leaves the rows as they are.
        """

    def hard_step(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: HardGlobals
    ) -> Statistics:
        """Improve rows of 0 and 1 in place, and return their statistics.

        One after the other, or pieces of them side by side (``hard_rounds.py``).
        """

    def tally(self, block: AnyBlock, rows: Rows) -> Statistics:
        """The statistics of rows as they are, but for the gain of q itself."""

    def residual_scores(
        self, block: AnyBlock, rows: Rows, phi: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ev and EᵀEv of what is left, E = X − E[W]E[A]; v is (D,), or several side by side."""

    def row_bounds(self, block: AnyBlock, rows: Rows, given: Globals, none: float) -> np.ndarray:
        """Each row's own part of the bound, (N,): a lower bound of log p(x) given the rest of q.

        ``none`` is Σ_k E[log(1 − π_k)].
        """

    def draw_rows(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: Globals
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Bits drawn from q, packed along the rows (⌈N/8⌉, K), and amounts, zero where a bit is off
        (None where rows have none)."""
