"""The trace: what a run recorded, chain by chain.

Scalars (K, log joint, hyperparameters) are kept of every step, burn-in included; Z only of the
draws that are kept, packed eight rows to a byte. Label-free scalars go to ArviZ; Z stays ragged.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thali.engines.base import Info, Population
from thali.results.point_estimate import spaced


class Draw(NamedTuple):
    """One draw of the posterior. A is as kept, or drawn given the rest where it was integrated out.

    A model without the scales σ_x or σ_a has NaN there; ``hyper`` has all hyperparameters by name,
    and ``parameters`` those that are kept besides A.
    """

    Z: np.ndarray
    A: np.ndarray
    alpha: float
    sigma_x: float
    sigma_a: float
    log_joint: float
    hyper: dict[str, float]
    parameters: dict[str, np.ndarray]
    weight: float  # all weights sum to one; draws of a chain have equal ones


class Kept(NamedTuple):
    """What is kept of a step: its Z, packed, and parameters with features along the first axis."""

    Z: np.ndarray
    parameters: dict[str, np.ndarray]


class Recorded(NamedTuple):
    """A kept draw: Z, the scalars of its step, and the parameters kept with it."""

    Z: np.ndarray
    scalars: dict[str, float]
    parameters: dict[str, np.ndarray]


@dataclass
class ChainTrace:
    """One chain's record: a row of scalars for each step, and the kept Z.

    Weighted draws are no steps: they have scalars of their own (``population``) and ``weights``.
    """

    names: list[str] = field(default_factory=list)
    scalars: list[tuple[float, ...]] = field(default_factory=list)
    kept_at: list[int] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    drift: float = 0.0
    burning: deque[tuple[int, Kept]] = field(default_factory=deque)  # the later half so far
    weights: list[float] = field(default_factory=list)
    population: list[tuple[float, ...]] = field(default_factory=list)
    log_evidence: float = float("nan")

    def record(self, info: Info, measure: str = "log_joint") -> None:
        """Note the scalars of a step."""
        if not self.names:
            self.names = ["n_components", measure, *info.hyper]
        self.scalars.append((float(info.n_components), info.log_joint, *info.hyper.values()))
        self.drift = max(self.drift, info.drift)

    def keep(self, Z: np.ndarray, parameters: dict[str, np.ndarray], burning: bool = False) -> None:
        """Keep the Z of the step just recorded; in burn-in only until a later half replaces it."""
        at, kept = len(self.scalars) - 1, Kept(np.packbits(Z, axis=0), parameters)
        if burning:
            self.burning.append((at, kept))
            while self.burning[0][0] < at // 2:
                self.burning.popleft()
            return
        self.burning.clear()
        self.kept_at.append(at)
        self.kept.append(kept)

    def keep_later_half(self, Z: np.ndarray, parameters: dict[str, np.ndarray]) -> None:
        """For a chain stopped in its burn-in: the later half of its draws, or its last Z."""
        last = len(self.scalars) - 1, Kept(np.packbits(Z, axis=0), parameters)
        both = list(self.burning) or [last]
        self.kept_at = [at for at, _ in both]
        self.kept = [kept for _, kept in both]

    def keep_population(self, found: Population) -> None:
        """Keep the weighted draws with which an engine ends."""
        self.kept_at = [len(self.scalars) - 1] * len(found.Z)
        each = found.parameters or [{}] * len(found.Z)
        self.kept = [Kept(Z, parameters) for Z, parameters in zip(found.Z, each, strict=True)]
        self.weights = found.weights.tolist()
        self.population = [tuple(row) for row in found.scalars.tolist()]
        self.log_evidence = found.log_evidence

    def forget_population(self) -> None:
        """Keep nothing but the record of the steps."""
        self.kept_at, self.kept, self.weights, self.population = [], [], [], []

    def kept_scalars(self) -> list[tuple[float, ...]]:
        """The scalars of each kept draw."""
        return [self.scalars_of(i) for i in range(len(self.kept))]

    def scalars_of(self, i: int) -> tuple[float, ...]:
        """The scalars of kept draw i."""
        return self.population[i] if self.population else self.scalars[self.kept_at[i]]


@dataclass
class Trace:
    """All chains of a run, and how it ended."""

    n: int
    chains: list[ChainTrace]
    burn_in: int
    kind: str = "draws"
    starts: list[str] = field(default_factory=list)
    stopped: str = "finished"
    seconds: float = 0.0
    sweeps: int = 0  # planned for each chain
    law: dict[str, np.ndarray] = field(default_factory=dict)  # of a variational result

    @property
    def log_evidence(self) -> float:
        """The logarithm of the mean of the chains' estimates of P(X)."""
        each = np.array([chain.log_evidence for chain in self.chains])
        return float(np.logaddexp.reduce(each) - np.log(len(each)))

    @property
    def names(self) -> list[str]:
        return self.chains[0].names

    @property
    def drift(self) -> float:
        """The largest relative error that refreshing found in the maintained arrays."""
        return max(chain.drift for chain in self.chains)

    def history(self) -> dict[str, np.ndarray]:
        """Every scalar of every step: name → (chains, steps), cut to the shortest chain.

        Restarts of a variational fit end when they will; shorter ones are shown staying there.
        """
        lengths = [len(chain.scalars) for chain in self.chains]
        steps = max(lengths) if self.kind in ("variational", "point") else min(lengths)
        table = np.array(
            [
                chain.scalars[:steps] + chain.scalars[-1:] * (steps - len(chain.scalars))
                for chain in self.chains
            ]
        )
        table = table.reshape(len(self.chains), steps, len(self.names))
        return {name: table[:, :, i] for i, name in enumerate(self.names)}

    def kept(self) -> dict[str, np.ndarray]:
        """The scalars of the kept draws: name → (chains, draws), cut to the shortest chain."""
        chains = [chain for chain in self.chains if chain.kept]  # of restarts only the best has any
        draws = min(len(chain.kept_at) for chain in chains)
        table = np.array([chain.kept_scalars()[:draws] for chain in chains]).reshape(
            len(chains), draws, len(self.names)
        )
        return {name: table[:, :, i] for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return sum(len(chain.kept) for chain in self.chains)

    def matrices(self) -> Iterator[Recorded]:
        """Every kept draw, chain after chain."""
        for chain in self.chains:
            for i in range(len(chain.kept)):
                yield self._recorded(chain, i)

    def pick(self, indices: Any) -> list[Recorded]:
        """Some of ``matrices()`` by position."""
        flat = [(chain, i) for chain in self.chains for i in range(len(chain.kept))]
        return [self._recorded(*flat[index]) for index in indices]

    def weights(self) -> np.ndarray:
        """The weight of every kept draw, in the order of ``matrices()``; they sum to one."""
        if self.kind != "weighted":
            return np.full(len(self), 1.0 / len(self))
        return np.concatenate([chain.weights for chain in self.chains]) / len(self.chains)

    def means(self) -> dict[str, float]:
        """The posterior mean of each scalar over all kept draws, by weight."""
        table = np.array([row for chain in self.chains for row in chain.kept_scalars()])
        middle = table[0] + self.weights() @ (table - table[0])  # exact for a fixed number
        return dict(zip(self.names, middle.tolist(), strict=True))

    def spread(self, most: int) -> np.ndarray:
        """Positions of at most ``most`` draws to stand for all with equal weight.

        Evenly spaced along the chains; weighted draws at evenly spaced shares of their weight.
        """
        if self.kind != "weighted":
            return spaced(len(self), most)
        shares = (np.arange(most) + 0.5) / most
        return np.minimum(np.searchsorted(np.cumsum(self.weights()), shares), len(self) - 1)

    def _recorded(self, chain: ChainTrace, i: int) -> Recorded:
        scalars = dict(zip(chain.names, chain.scalars_of(i), strict=True))
        packed, parameters = chain.kept[i]
        Z = np.unpackbits(packed, axis=0, count=self.n).astype(bool)
        return Recorded(Z, scalars, parameters)

    def log_joints(self) -> np.ndarray:
        """The log joint of every kept draw, in the order of ``matrices()``."""
        return np.array([scalars[1] for c in self.chains for scalars in c.kept_scalars()])

    def to_arviz(self) -> Any:
        """The kept scalars as ArviZ inference data, dims chain × draw."""
        if self.kind == "point":
            raise ValueError(
                "This result is one matrix that a search found, not draws of a chain; it has no "
                "ArviZ posterior. CollapsedGibbs(init=this model) draws from there."
            )
        if self.kind != "draws":
            raise ValueError(
                f"This result is {self.kind}, not draws of a chain; it has no ArviZ posterior. "
                "draws() yields its draws with their weights."
            )
        kept = self.kept()
        kept["n_components"] = kept["n_components"].astype(int)
        return import_arviz().from_dict(posterior=kept)

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """R-hat and bulk effective sample size of each kept scalar, NaN where undefined.

        Weighted draws have no R-hat; their effective size 1/Σw² is that of the weights. A
        variational result has neither and is refused.
        """
        if self.kind == "variational":
            raise ValueError(
                "This result is variational: a law that was optimized, not draws of a chain. It "
                "has no R-hat and no effective sample size; elbo_ and history_ tell how it went."
            )
        if self.kind == "point":
            raise ValueError(
                "This result is one matrix that a search found, not draws of a chain. It has no "
                "R-hat and no effective sample size; proven_optimal_ and "
                "log_joint_upper_bound_ tell how good it is, and CollapsedGibbs(init=this model) "
                "draws from there."
            )
        if self.kind == "weighted":
            ess = float(1.0 / np.square(self.weights()).sum())
            return {name: {"rhat": float("nan"), "ess": ess} for name in self.names}
        found = {}
        for name, values in self.kept().items():
            rhat = ess = float("nan")
            if values.shape[1] >= 4 and np.ptp(values) > 0:
                ess = summarize("ess", values)
                if values.shape[0] > 1:
                    rhat = summarize("rhat", values)
            found[name] = {"rhat": rhat, "ess": ess}
        return found

    # plain arrays and values, for files

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All of the trace as arrays and JSON-able values."""
        arrays = {f"variational_params_{name}": value for name, value in self.law.items()}
        for c, chain in enumerate(self.chains):
            arrays |= chain_arrays(chain, self.n, len(chain.scalars), len(chain.kept), f"chain{c}")
        meta = {
            "n": self.n,
            "burn_in": self.burn_in,
            "kind_of_result": self.kind,
            "starts": self.starts,
            "stopped": self.stopped,
            "seconds": self.seconds,
            "sweeps": self.sweeps,
            "names": self.names,
            "drift": [chain.drift for chain in self.chains],
        }
        if self.kind != "draws":
            meta["log_evidence"] = [chain.log_evidence for chain in self.chains]
            for c, chain in enumerate(self.chains):
                arrays[f"chain{c}_weights"] = np.array(chain.weights)
                arrays[f"chain{c}_population"] = np.array(chain.population)
        return arrays, meta

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Trace:
        """The trace that ``to_arrays`` saved."""
        chains = [
            chain_from_arrays(arrays, f"chain{c}", meta["names"], drift)
            for c, drift in enumerate(meta["drift"])
        ]
        for c, log_evidence in enumerate(meta.get("log_evidence", [])):
            chains[c].weights = arrays[f"chain{c}_weights"].tolist()
            chains[c].population = [tuple(row) for row in arrays[f"chain{c}_population"].tolist()]
            chains[c].log_evidence = log_evidence
        return cls(
            meta["n"],
            chains,
            meta["burn_in"],
            meta["kind_of_result"],
            meta["starts"],
            meta["stopped"],
            meta["seconds"],
            meta["sweeps"],
            {
                k.removeprefix("variational_params_"): v
                for k, v in arrays.items()
                if k.startswith("variational_params_")
            },
        )


def import_arviz() -> Any:
    """ArviZ, without the daily notice it prints about its next version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def summarize(what: str, values: np.ndarray) -> float:
    """ArviZ's "rhat" or "ess" of (chains, draws), without compiling anything for it."""
    arviz = import_arviz()
    Numba = arviz.utils.Numba
    compiled, Numba.numba_flag = Numba.numba_flag, False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # few draws or constant chains: the answer is NaN
            return float(getattr(arviz, what)(values))
    finally:
        Numba.numba_flag = compiled


def chain_arrays(
    chain: ChainTrace, n: int, steps: int, draws: int, prefix: str
) -> dict[str, np.ndarray]:
    """The first ``steps`` records and ``draws`` matrices of a chain as arrays."""
    scalars = np.array(chain.scalars[:steps], float).reshape(steps, len(chain.names))
    kept = list(zip(chain.kept_at[:draws], chain.kept[:draws], strict=True))
    return {f"{prefix}_scalars": scalars} | draw_arrays(kept, n, prefix)


def draw_arrays(draws: list[tuple[int, Kept]], n: int, prefix: str) -> dict[str, np.ndarray]:
    """Draws with their steps as arrays, features side by side."""
    kept = [draw for _, draw in draws]
    packed = [draw.Z for draw in kept]
    joined = np.concatenate(packed, axis=1) if kept else np.zeros((-(-n // 8), 0), np.uint8)
    names = kept[0].parameters if kept else {}
    return {
        f"{prefix}_kept_at": np.array([at for at, _ in draws], np.int64),
        f"{prefix}_kept_k": np.array([z.shape[1] for z in packed], np.int64),
        f"{prefix}_kept_Z": joined,
    } | {
        f"{prefix}_with_{name}": np.concatenate([draw.parameters[name] for draw in kept])
        for name in names
    }


def chain_from_arrays(
    arrays: dict[str, np.ndarray], prefix: str, names: list[str], drift: float
) -> ChainTrace:
    """The chain that ``chain_arrays`` saved."""
    draws = draws_from_arrays(arrays, prefix)
    return ChainTrace(
        list(names),
        [tuple(row) for row in arrays[f"{prefix}_scalars"].tolist()],
        [at for at, _ in draws],
        [kept for _, kept in draws],
        drift,
    )


def draws_from_arrays(arrays: dict[str, np.ndarray], prefix: str) -> list[tuple[int, Kept]]:
    """The draws that ``draw_arrays`` saved."""
    ends = np.cumsum(arrays[f"{prefix}_kept_k"])
    parts = [slice(end - k, end) for end, k in zip(ends, arrays[f"{prefix}_kept_k"], strict=True)]
    mark = f"{prefix}_with_"
    others = {key.removeprefix(mark): v for key, v in arrays.items() if key.startswith(mark)}
    Z = arrays[f"{prefix}_kept_Z"]
    kept = [Kept(Z[:, part], {k: v[part] for k, v in others.items()}) for part in parts]
    return list(zip(arrays[f"{prefix}_kept_at"].tolist(), kept, strict=True))
