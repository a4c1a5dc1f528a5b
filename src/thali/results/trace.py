"""The trace of one chain: what a run records while it goes.

Scalars (number of components, log joint, hyperparameters) are kept of every step, burn-in included;
latent values only of the draws that are kept, packed as their structure packs them.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thali.engines.base import Info, Population
from thali.hyperparameters import as_scalars
from thali.likelihoods.base import Parameters
from thali.structures.base import AnyStructure


class Kept(NamedTuple):
    """What is kept of a step: its latent value, packed, and parameters by component."""

    packed: np.ndarray
    parameters: Parameters


class Recorded(NamedTuple):
    """A kept draw: its latent value, the scalars of its step, and the parameters kept with it."""

    latent: Any
    scalars: dict[str, float]
    parameters: Parameters


@dataclass
class ChainTrace:
    """One chain's record: a row of scalars for each step, and the kept values.

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
        hyper = as_scalars(info.hyper)
        if not self.names:
            self.names = ["n_components", measure, *hyper]
        self.scalars.append((float(info.n_components), info.log_joint, *hyper.values()))
        self.drift = max(self.drift, info.drift)

    def keep(self, kept: Kept, burning: bool = False) -> None:
        """Keep the draw of the step just recorded; in burn-in until a later half replaces it."""
        at = len(self.scalars) - 1
        if burning:
            self.burning.append((at, kept))
            while self.burning[0][0] < at // 2:
                self.burning.popleft()
            return
        self.burning.clear()
        self.kept_at.append(at)
        self.kept.append(kept)

    def keep_later_half(self, last: Kept) -> None:
        """For a chain stopped in its burn-in: the later half of its draws, or its last one."""
        end = len(self.scalars) - 1
        later = [(at, kept) for at, kept in self.burning if at >= end // 2]
        both = later or [(end, last)]  # draws that are kept seldom may all be of the first half
        self.kept_at = [at for at, _ in both]
        self.kept = [kept for _, kept in both]

    def keep_population(self, found: Population) -> None:
        """Keep the weighted draws with which an engine ends."""
        self.kept_at = [len(self.scalars) - 1] * len(found.packed)
        each = found.parameters or [{}] * len(found.packed)
        self.kept = [Kept(packed, own) for packed, own in zip(found.packed, each, strict=True)]
        self.weights = found.weights.tolist()
        self.population = [tuple(row) for row in found.scalars.tolist()]
        self.log_evidence = found.log_evidence

    def kept_scalars(self) -> list[tuple[float, ...]]:
        """The scalars of each kept draw."""
        return [self.scalars_of(i) for i in range(len(self.kept))]

    def scalars_of(self, i: int) -> tuple[float, ...]:
        """The scalars of kept draw i."""
        return self.population[i] if self.population else self.scalars[self.kept_at[i]]


# ---- files --------------------------------------------------------------------------------------


def chain_arrays(
    structure: AnyStructure, chain: ChainTrace, n: int, steps: int, draws: int
) -> dict[str, np.ndarray]:
    """The first ``steps`` records and ``draws`` kept values of a chain as arrays."""
    scalars = np.array(chain.scalars[:steps], float).reshape(steps, len(chain.names))
    kept = list(zip(chain.kept_at[:draws], chain.kept[:draws], strict=True))
    return {"scalars": scalars} | draw_arrays(structure, kept, n)


def draw_arrays(
    structure: AnyStructure, draws: Sequence[tuple[int, Kept]], n: int
) -> dict[str, np.ndarray]:
    """Draws with their steps as arrays, parameters one component after the other."""
    kept = [draw for _, draw in draws]
    joined = structure.join([draw.packed for draw in kept], n)
    found = {"kept_at": np.array([at for at, _ in draws], np.int64)}
    found |= {f"kept_{name}": array for name, array in joined.items()}
    for name in kept[0].parameters if kept else ():
        parts = [draw.parameters[name] for draw in kept]
        found[f"with_{name}"] = np.concatenate(parts)
        found[f"length_{name}"] = np.array([len(part) for part in parts], np.int64)
    return found


def chain_from_arrays(
    structure: AnyStructure, arrays: Mapping[str, np.ndarray], names: Sequence[str], drift: float
) -> ChainTrace:
    """The chain that ``chain_arrays`` saved."""
    draws = draws_from_arrays(structure, arrays)
    scalars = [tuple(row) for row in arrays["scalars"].tolist()]
    return ChainTrace(list(names), scalars, [at for at, _ in draws], [z for _, z in draws], drift)


def draws_from_arrays(
    structure: AnyStructure, arrays: Mapping[str, np.ndarray]
) -> list[tuple[int, Kept]]:
    """The draws that ``draw_arrays`` saved."""
    packed = structure.split(with_prefix(arrays, "kept_"))
    parameters: list[Parameters] = [{} for _ in packed]
    for name, joined in with_prefix(arrays, "with_").items():
        ends = np.cumsum(arrays[f"length_{name}"])
        for i, part in enumerate(np.split(joined, ends[:-1])):
            parameters[i][name] = part
    kept = [Kept(*pair) for pair in zip(packed, parameters, strict=True)]
    return list(zip(arrays["kept_at"].tolist(), kept, strict=True))


def with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
