"""Checkpoints: chains at some step of their own, in a file from which a run goes on.

A chain is its own generator, state and record, so that a snapshot of each, whenever it was taken,
is all that a run needs. A fingerprint tells whether a file belongs to the run that asks for it.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thali import storage
from thali.data import Data
from thali.engines.base import AnyEngine
from thali.model import Model
from thali.results.trace import (
    ChainTrace,
    Kept,
    chain_arrays,
    chain_from_arrays,
    draw_arrays,
    draws_from_arrays,
    with_prefix,
)
from thali.structures.base import Structure

__all__ = ["Chain", "fingerprint", "read", "seed_of", "tell_of_fresh_start", "write"]


class Snapshot(NamedTuple):
    """A chain at one of its steps: the state's arrays, plain values, and draws of its burn-in."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]
    burning: list[tuple[int, Kept]]


@dataclass
class Chain:
    """A generator, a state and a record; ``saved`` is its last snapshot."""

    index: int
    rng: np.random.Generator
    state: Any
    trace: ChainTrace = field(default_factory=ChainTrace)
    saved: Snapshot | None = None

    def snapshot(self, engine: AnyEngine) -> None:
        """Everything needed to go on from here."""
        arrays, numbers = engine.to_arrays(self.state)
        steps, draws = len(self.trace.scalars), len(self.trace.kept)
        meta = {
            "numbers": numbers,
            "rng": self.rng.bit_generator.state,
            "steps": steps,
            "draws": draws,
            "names": self.trace.names,
            "drift": self.trace.drift,
        }
        self.saved = Snapshot(arrays, meta, list(self.trace.burning))


def fingerprint(seed: int, model: Model, engine: AnyEngine, data: Data) -> dict[str, str]:
    """What must be the same for a run to go on from another's checkpoint."""
    settings = {k: _plain(v) for k, v in engine.get_params().items()}
    return {
        "the data": f"{data.X.shape} {_digest_of_data(data)}",
        "the model": f"{model.prior} {model.likelihood}",
        "the engine": f"{type(engine).__name__} {settings}",
        "the seed": str(seed),
    }


def write(
    path: Path,
    fingerprint: dict[str, str],
    chains: Sequence[Chain],
    structure: Structure[Any],
    n: int,
    starts: list[str],
    seconds: float,
) -> None:
    """Write the snapshots of all chains, once all have one."""
    arrays: dict[str, np.ndarray] = {}
    metas = []
    for chain in chains:
        if chain.saved is None:
            return
        (state, meta, burning), i = chain.saved, chain.index
        trace = chain_arrays(structure, chain.trace, n, meta["steps"], meta["draws"])
        for prefix, own in (
            ("state", state),
            ("chain", trace),
            ("burning", draw_arrays(structure, burning, n)),
        ):
            arrays |= {f"{prefix}{i}_{name}": value for name, value in own.items()}
        metas.append(meta)
    whole = {"fingerprint": fingerprint, "chains": metas, "starts": starts, "seconds": seconds}
    storage.write(path, "checkpoint", arrays, whole)


def read(
    path: Path, fingerprint: dict[str, str], model: Model, engine: AnyEngine, data: Data
) -> tuple[list[Chain], list[str], float]:
    """The chains that ``write`` saved, where they began, and the seconds spent on them."""
    arrays, meta = storage.read(path, "checkpoint")
    for what, value in fingerprint.items():
        if meta["fingerprint"].get(what) != value:
            raise ValueError(
                f"The checkpoint {path} belongs to another run: {what} differs. "
                "Resume with the same data, settings and seed, or choose another file."
            )
    chains = []
    for index, saved in enumerate(meta["chains"]):
        rng = np.random.default_rng()
        rng.bit_generator.state = saved["rng"]
        own = with_prefix(arrays, f"state{index}_")
        state = engine.from_arrays(model, data, own, saved["numbers"])
        own = with_prefix(arrays, f"chain{index}_")
        trace = chain_from_arrays(model.structure, own, saved["names"], saved["drift"])
        burning = with_prefix(arrays, f"burning{index}_")
        trace.burning = deque(draws_from_arrays(model.structure, burning))
        chains.append(Chain(index, rng, state, trace))
    return chains, meta["starts"], meta["seconds"]


def seed_of(checkpoint: str | os.PathLike[str]) -> int:
    """The seed of the run that left a checkpoint."""
    _, meta = storage.read(checkpoint, "checkpoint")
    return int(meta["fingerprint"]["the seed"])


def tell_of_fresh_start(checkpoint: Path, resume: bool) -> None:
    """Warn that there is nothing to resume, or that a checkpoint was moved out of the way."""
    if resume:
        said = f"There is no checkpoint {checkpoint} to resume from; starting afresh."
    elif checkpoint.exists():
        earlier = storage.set_aside(checkpoint)
        said = (
            f"Starting afresh: the checkpoint that lay at {checkpoint} is kept as {earlier} "
            "(resume=True goes on from a checkpoint)."
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=6)


def _digest(array: Any) -> str:
    """A hash of an array's bytes, without copying them where they lie in order."""
    return hashlib.sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()


def _digest_of_data(data: Data) -> str:
    """The same for equal data, whatever format a sparse X came in."""
    if not data.sparse:
        return _digest(data.X)
    parts = data.X.data, data.X.indices.astype(np.int64), data.X.indptr.astype(np.int64)
    return " ".join(_digest(part) for part in parts)


def _plain(value: Any) -> Any:
    """A setting as it should be compared: numbers as numbers, a matrix or a model by its Z."""
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "__index__") and np.ndim(value) == 0:
        return int(value)
    return _digest(np.asarray(getattr(value, "Z_", value), dtype=bool))
