"""The same fit where the data are: what an iteration costs, what it needs of memory, and that the
answer is the same.

1. An iteration of ``Variational`` for N from 10⁴ to 10⁶ rows of 100 columns with 20 features, from
   an array on disk, beside the two products it cannot do without, X E[A]ᵀ and νᵀX, over the same
   blocks in memory, on one thread each; and the slope of its cost in N, on logarithmic scales.
2. The same iteration by Dask, on as many threads as there are cores, beside ours on as many.
3. The most memory that a fit adds beside q of the rows (N×K), as the file grows: pages of the file
   that the system keeps for itself do not count.
4. The bound after each of 20 iterations from each place that X may be in, beside that of the array.

    python benchmarks/scale.py [--quick] [--only time dask memory same]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from measuring import smallest
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.backends.base import Backend
from thali.backends.local import Local
from thali.backends.rows import BLOCK, pieces_of
from thali.data.elsewhere import FarData, opened
from thali.engines.ascent.state import State, iterate
from thali.machine import cores
from thali.model import Model
from thali.starts import Start

D, K = 100, 20
PIECE = 10_000  # rows that are made at a time


def on_disk(folder: Path, n: int, k: int = K) -> tuple[Path, np.ndarray]:
    """A .npy file of N×D numbers, and a Z with one bit in twenty wrong."""
    rng, path = np.random.default_rng(0), folder / f"{n}.npy"
    A = rng.standard_normal((k, D))
    Z = rng.random((n, k)) < 0.3
    with path.open("wb") as file:
        head = {"descr": "<f8", "fortran_order": False, "shape": (n, D)}
        np.lib.format.write_array_header_1_0(file, head)
        for rows in pieces_of(n, PIECE):
            X = Z[rows] @ A
            file.write((X + rng.standard_normal(X.shape)).tobytes())
    return path, Z ^ (rng.random(Z.shape) < 0.05)


def state_of(path: Path, Z: np.ndarray) -> State:
    """Where an optimization begins."""
    data = FarData.of_source(opened(path))
    model = Model(thali.IBP(alpha=2.0), thali.LinearGaussian(sigma_x=1.0, sigma_a=1.0))
    engine = thali.Variational(truncation=Z.shape[1], n_init=2)
    start = Start("near", Z, model.start(data))
    return engine.begin(np.random.default_rng(0), model, data, start)


def products(path: Path, state: State) -> Callable[[], None]:
    """The two products, block by block, of blocks that are in memory."""
    X = np.load(path, mmap_mode="r")
    rows = slice(0, min(len(X), 10 * BLOCK))
    kept, nu, phi = np.array(X[rows]), state.rows.nu[rows], state.features.phi
    times = len(X) / len(kept)

    def work() -> None:
        for piece in pieces_of(len(kept), BLOCK):
            kept[piece] @ phi.T
            nu[piece].T @ kept[piece]

    work.times = times  # type: ignore[attr-defined]
    return work


def cost(folder: Path, sizes: list[int]) -> None:
    rows, took = [], []
    for n in sizes:
        path, Z = on_disk(folder, n)
        state = state_of(path, Z)
        with threadpool_limits(limits=1, user_api="blas"):
            iterate(state)
            seconds = smallest(lambda s=state: iterate(s), 3)
            work = products(path, state)
            floor = smallest(work, 3) * work.times  # type: ignore[attr-defined]
        took.append(seconds)
        rows.append(
            [f"{n:,}", f"{1e3 * seconds:.0f}", f"{1e3 * floor:.0f}", f"{seconds / floor:.2f}"]
        )
        path.unlink()
    print(f"\n## An iteration over N×{D} on disk, {K} features, one thread\n")
    print(markdown(["N", "iteration, ms", "two products, ms", "ratio"], rows))
    print(f"\nIts cost grows as N to the power {slope(sizes, took):.2f}.", flush=True)


def slope(sizes: list[int], took: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(took), 1)[0])


def by_dask(folder: Path, sizes: list[int]) -> None:
    import dask

    from thali.backends.dask import Dask

    rows = []
    for n in sizes:
        path, Z = on_disk(folder, n)
        state = state_of(path, Z)
        took = []
        makes: list[Callable[[], Backend]] = [lambda: Local(cores()), Dask]
        for make in makes:
            state.backend = make()
            with (
                threadpool_limits(limits=1, user_api="blas"),
                dask.config.set(scheduler="threads", num_workers=cores()),
            ):
                iterate(state)
                took.append(min(seconds_of(lambda s=state: iterate(s)) for _ in range(3)))
        own, theirs = took
        rows.append([f"{n:,}", f"{1e3 * own:.0f}", f"{1e3 * theirs:.0f}", f"{theirs / own:.2f}"])
        path.unlink()
    print(f"\n## The same on {cores()} threads, by the clock\n")
    print(markdown(["N", "ours, ms", "by Dask, ms", "ratio"], rows), flush=True)


def seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def anonymous() -> float:
    """The memory of this process that is no part of a file, in bytes (of Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024.0 * int(line.split()[1])
    return float("nan")


@contextmanager
def peak() -> Iterator[list[float]]:
    """The most such memory above what there was, looked at every hundredth of a second."""
    before, most, done = anonymous(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], anonymous() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        done.set()
        watcher.join()


def memory(folder: Path, sizes: list[int]) -> None:
    rows, k = [], 5
    for n in sizes:
        path, _ = on_disk(folder, n, k)
        engine = thali.Variational(truncation=8, n_init=1, max_iter=3, init="ica")
        with peak() as most:
            model = fitted(path, engine)
        q, size = 8.0 * n * model.n_components_, 8.0 * n * D
        rows.append(
            [
                f"{n:,}",
                *(f"{1e-6 * b:,.0f}" for b in (size, q, most[0])),
                f"{most[0] / size:.2f}",
                f"{model.seconds_:.0f}",
            ]
        )
        path.unlink()
        del model
    heads = ["N", "X, MB", "q of rows, MB", "most added, MB", "share of X", "s"]
    print(f"\n## Memory that a fit of a file of N×{D} adds, 3 iterations\n")
    print(markdown(heads, rows), flush=True)


def fitted(X: object, engine: object) -> thali.LatentFeatures:
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations may end with too many features
        return model.fit(X)


def same(folder: Path, n: int) -> None:
    """The largest relative difference of the bound, over 20 iterations, complete and with gaps."""
    import dask.array

    path, Z = on_disk(folder, n)
    rows = []
    for gaps in (False, True):
        X = np.load(path)
        if gaps:
            X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
        np.save(folder / "X.npy", X)
        places: dict[str, tuple[object, str]] = {
            "array": (X, "auto"),
            "memory map": (np.load(folder / "X.npy", mmap_mode="r"), "auto"),
            "blocks by turns": (
                thali.RowBlocks((X[rows] for rows in pieces_of(n, 3000)), n_rows=n),
                "auto",
            ),
            "Dask array, threads": (dask.array.from_array(X, chunks=(5000, D)), "auto"),
            "file, by Dask on threads": (folder / "X.npy", "dask"),
        }
        if not gaps:
            places["sparse matrix"] = (sp.csr_array(X), "auto")
        for kind in (thali.Variational, thali.MaximizationExpectation):
            engine = kind(truncation=K, n_init=2, max_iter=20, tol=1e-12, init=Z)
            bounds = {}
            for place, (given, backend) in places.items():
                model = fitted(given, engine.replace(backend=backend))
                bounds[place] = model.history_["elbo"]
                apart = np.abs(bounds[place] / bounds["array"] - 1.0).max()
                what = "10% missing" if gaps else "complete"
                rows.append([place, kind.__name__, what, f"{apart:.1e}"])
    heads = ["where X is", "engine", "entries", "largest difference, relative"]
    print(f"\n## The bound after each of 20 iterations, {n}×{D}, {K} features\n")
    print(markdown(heads, rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parts = ("time", "dask", "memory", "same")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    asked = parser.parse_args()
    sizes = [10_000, 20_000] if asked.quick else [10_000, 31_623, 100_000, 316_228, 1_000_000]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "time" in asked.only:
            cost(folder, sizes)
        if "dask" in asked.only:
            by_dask(folder, sizes[::2])
        if "memory" in asked.only:
            memory(folder, sizes[-1:] if asked.quick else [250_000, 500_000, 1_000_000, 2_000_000])
        if "same" in asked.only:
            same(folder, 4000 if asked.quick else 10_000)


if __name__ == "__main__":
    main()
