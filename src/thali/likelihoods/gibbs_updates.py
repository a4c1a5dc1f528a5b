"""What a likelihood can do whose parameters are kept: the state of a chain, and exact steps on it.

Those of tables draw latent Gaussians besides. What a likelihood can do without a chain is in
``base.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import Conditional, FeatureLikelihood, Masked, Parameters
from thali.machine import Found, Item, side_by_side
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior

WORTH_THREADS = 50_000  # entries of X: handing out less takes longer than doing it


@dataclass
class GibbsState:
    """Where a chain that keeps its parameters is.

    ``data`` are complete: the data themselves, or ``Augmented`` ones where the likelihood draws
    entries; those given with gaps only where a density is asked of what was observed. ``bits`` is
    Z, (N, K) uint8 without empty columns, and ``hyper`` has a number for each hyperparameter.
    """

    data: Data
    bits: np.ndarray
    parameters: Parameters
    hyper: Values
    fresh: bool = False
    pieces: tuple[slice, ...] = (slice(None),)  # of the rows, for work that is done side by side

    @property
    def observed(self) -> np.ndarray | None:
        """Where X was observed, (N, D), or has a latent of which something was; None where it was
        everywhere."""
        return self.data.given.observed

    @property
    def latent(self) -> np.ndarray:
        """The bits as they are recorded."""
        return self.bits.astype(bool)

    def side_by_side(self, work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
        """``work`` of each item, one for each piece: in threads where the data are worth it."""
        if self.data.X.size < WORTH_THREADS:
            return [work(item) for item in items]
        return side_by_side(work, items)

    @property
    def n_components(self) -> int:
        return self.bits.shape[1]


class Turned(NamedTuple):
    """What a pass over the bits leaves for the step on own features, so as not to make it twice."""

    m: np.ndarray  # (K,) int64, rows that have each feature
    products: tuple[np.ndarray, ...] = ()  # of the data and the parameters


class GibbsUpdates(Conditional):
    """The parameters can be kept and updated by exact steps (uncollapsed Gibbs).

    ``axes`` names the parameters that are kept, each with its axis of features: 0, or 1 for those
    that have a row for each row of X, which ``update_bits`` updates along with the bits.
    Steps are asked of the likelihood as the user gave it (a number or a hyperprior each),
    change the state that they are given, and leave P(Z, parameters | X) invariant.
    ``initial_updates`` is how many updates of the parameters come before the first step, so that
    they belong to the Z that a chain begins with.
    """

    axes: ClassVar[dict[str, int]]
    initial_updates: ClassVar[int] = 1

    @abstractmethod
    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        """The parameters of k features, drawn from their prior."""

    @abstractmethod
    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        """One pass over all bits given the parameters; ``bits`` is the prior of each.

        Best given what was observed of each row alone (``state.observed``): what was drawn in its
        gaps was drawn given its bits, and holds them where they are. What it returns is handed to
        ``update_own``.
        """

    @abstractmethod
    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Draw anew the features that only one row has, and their parameters.

        Shared features first and in their order, then those of the state's rows. These may be some
        of all: then ``turned.m`` counts all rows, features that a row elsewhere has alone go, and
        count as used.

        Given the same entries as ``update_bits``. Missing entries are drawn after it, given these
        parameters too.
        """

    def update_matrix(
        self, rng: np.random.Generator, state: GibbsState, bits: BitPrior, tables: FeatureTables
    ) -> None:
        """Bits, then own features; a likelihood may do both in one call."""
        self.update_own(rng, state, tables, self.update_bits(rng, state, bits))

    @abstractmethod
    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """Draw scales (unless ``hold``) and parameters given Z.

        Returns what is added to log P([Z]) in the log joint: log P(X | Z) where the parameters can
        be integrated out, else ``log_density`` of the new ones.
        """

    @abstractmethod
    def log_density(self, state: GibbsState) -> float:
        """log P(X, parameters | Z); of the observed entries, where the state's data have gaps.

        Parameters that can be integrated out given the others are not among them.
        """

    def representative(self, state: GibbsState, draws: Iterable[Parameters]) -> Parameters:
        """Parameters that stand for draws of them given the state's Z: their means.

        Not where flipping signs, or the like, leaves the likelihood alone: then means are of no
        draw's like.
        """
        total: Parameters = {}
        count = 0
        for draw in draws:
            total = {name: total.get(name, 0.0) + value for name, value in draw.items()}
            count += 1
        return {name: value / count for name, value in total.items()}


class MovesSingly(GibbsUpdates):
    """It is known what one bit, and one feature that one row alone has, do to the density of a row
    (Metropolis)."""

    @abstractmethod
    def moving_rows(self, state: GibbsState, room: int) -> Any:
        """What ``kernels/single_moves`` changes along with Z, with room for so many features.

        A NamedTuple that the kernel has functions of; the fields that are called as the parameters
        in ``axes`` hold these.
        """


class EstimatesEvidence(FeatureLikelihood):
    """Of states with different Z it can be told which is better, where P(X | Z) is not known.

    A density of the parameters themselves cannot tell: it rises with their number and with the
    unit in which they are measured.
    """

    @abstractmethod
    def estimate_evidence(self, rng: np.random.Generator, state: GibbsState) -> float:
        """An estimate of log P(X | Z), the parameters being a draw given X and Z."""


class LatentGaussians(Masked, GibbsUpdates):
    """What is seen of X depends on latent Gaussians Z A + noise, one for each column of A.

    The state's data are ``Augmented`` by draws of them, ``whole``: steps on Z take these as data of
    the linear-Gaussian model with noise one, and integrate those out of which nothing was observed.
    A is kept with a draw, whether a step on Z integrates it out or not.
    """

    @abstractmethod
    def refreshed(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: Values,
        hold: bool = False,
        fresh: bool = False,
    ) -> tuple[Data, Parameters, float]:
        """New latents, new parameters, and log P(X, parameters | Z) given hyperparameters, which
        are drawn too, into ``hyper``; the noise stays where ``hold`` says so.

        Leaves the posterior given Z invariant.
        """


class LatentBits(LatentGaussians):
    """A row has a feature or not, so that A can be integrated out given the latents: ``refreshed``
    looks at no parameters."""
