"""Checkpoints: chains at some step of their own, in a file from which a run goes on.

A chain is its own generator, state and record, so that a snapshot of each, whenever it was taken,
is all that a run needs. A fingerprint tells whether a file belongs to the run that asks for it.
"""

import hashlib
import os
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from thali import storage
from thali.data import Data
from thali.data.elsewhere import Source
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
from thali.structures.base import AnyStructure


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
    state: Any  # of the engine's own type
    trace: ChainTrace = field(default_factory=ChainTrace)
    saved: Snapshot | None = None

    def snapshot(self, engine: AnyEngine) -> None:
        """Everything needed to go on from here."""
        arrays, numbers = engine.to_arrays(self.state)
        meta = {
            "numbers": numbers,
            "rng": self.rng.bit_generator.state,
            "steps": len(self.trace.scalars),
            "draws": len(self.trace.kept),
            "names": self.trace.names,
            "drift": self.trace.drift,
        }
        self.saved = Snapshot(arrays, meta, list(self.trace.burning))


def fingerprint(seed: int, model: Model, engine: AnyEngine, data: Data) -> dict[str, str]:
    """What must be the same for a run to go on from another's checkpoint."""
    answer = model.structure.answer
    settings = {k: _plain(getattr(v, answer, v)) for k, v in engine.get_params().items()}
    return {
        "the data": f"{data.X.shape} {_digest_of_data(data)} {data.future or ''}".rstrip(),
        "the model": f"{model.prior} {model.likelihood}",
        "the engine": f"{type(engine).__name__} {settings}",
        "the seed": str(seed),
    }


def write(
    path: Path, chains: Sequence[Chain], structure: AnyStructure, n: int, whole: dict[str, object]
) -> None:
    """Write the snapshots of all chains, once all have one, with what is known of the ``whole``."""
    arrays: dict[str, np.ndarray] = {}
    metas = []
    for chain in chains:
        if chain.saved is None:
            return
        (state, meta, burning), i = chain.saved, chain.index
        trace = chain_arrays(structure, chain.trace, n, meta["steps"], meta["draws"])
        own = {"state": state, "chain": trace, "burning": draw_arrays(structure, burning, n)}
        for prefix, found in own.items():
            arrays |= {f"{prefix}{i}_{name}": value for name, value in found.items()}
        metas.append(meta)
    storage.write(path, "checkpoint", arrays, {**whole, "chains": metas})


def read(
    path: Path, fingerprint: dict[str, str], model: Model, engine: AnyEngine, data: Data
) -> tuple[list[Chain], list[str], bool, float]:
    """The chains that ``write`` saved, where they began, whether starts disagreed, and the seconds
    spent on them."""
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
        own, recorded, burning = (
            with_prefix(arrays, f"{part}{index}_") for part in ("state", "chain", "burning")
        )
        state = engine.from_arrays(model, data, own, saved["numbers"])
        trace = chain_from_arrays(model.structure, recorded, saved["names"], saved["drift"])
        trace.burning = deque(draws_from_arrays(model.structure, burning))
        chains.append(Chain(index, rng, state, trace))
    return chains, meta["starts"], bool(meta.get("disagreed", False)), meta["seconds"]


def seed_of(checkpoint: str | os.PathLike[str]) -> int:
    """The seed of the run that left a checkpoint."""
    _, meta = storage.read(checkpoint, "checkpoint")
    return int(meta["fingerprint"]["the seed"])


def likelihood_of(checkpoint: str | os.PathLike[str] | None, among: Sequence[str]) -> str | None:
    """Which likelihood ``among`` these the run had that left a checkpoint, if there is one."""
    if checkpoint is None or not Path(checkpoint).is_file():
        return None
    _, meta = storage.read(checkpoint, "checkpoint")
    model = f" {meta['fingerprint']['the model']}"
    return next((name for name in among if f" {name}(" in model), None)


def tell_of_fresh_start(checkpoint: Path, resume: bool) -> None:
    """Warn that there is nothing to resume, or that a checkpoint was moved out of the way."""
    if resume:
        said = f"There is no checkpoint {checkpoint} to resume from; starting afresh."
    elif checkpoint.exists():
        earlier = checkpoint.with_name(f"{checkpoint.stem}.previous{checkpoint.suffix}")
        os.replace(checkpoint, earlier)
        said = (
            f"Starting afresh: the checkpoint that lay at {checkpoint} is kept as {earlier} "
            "(resume=True goes on from a checkpoint)."
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=5)


def _digest(array: np.ndarray) -> str:
    """A hash of an array's bytes, without copying them where they lie in order."""
    return hashlib.sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()


def _digest_of_data(data: Data) -> str:
    """The same for equal data, whatever format a sparse X came in."""
    X = data.X
    if isinstance(X, Source):
        return hashlib.sha256("".join(X.each(_digest)).encode()).hexdigest()
    if isinstance(X, np.ndarray):
        return _digest(X)
    parts = [X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)]
    hidden = getattr(data, "hidden", None)  # words of documents of which is not known which
    parts += [] if hidden is None else [hidden]
    return " ".join(_digest(part) for part in parts)


def _plain(value: object) -> int | str | None:
    """A setting as it should be compared: numbers as numbers, arrays by their bytes."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple) and all(isinstance(part, np.ndarray) for part in value):
        return " ".join(_digest(part) for part in value)
    array = np.asarray(value)
    if isinstance(value, SupportsIndex) and array.ndim == 0:
        return value.__index__()
    return _digest(array) if array.dtype.kind in "biuf" else str(value)
