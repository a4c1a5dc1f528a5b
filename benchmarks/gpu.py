"""Optimizers on a GPU, beside two products there, beside this machine, beside a copy.

1. The rows' half of an iteration (`local_step`) at 10⁵×1000 with 50 features, in each precision,
   beside the two products it cannot do without, X E[A]ᵀ and νᵀX, on the same device; the whole
   iteration; the same here, on all cores; how far the bounds are apart after twenty iterations.
2. 10⁶×1000 with 100 features, X left in the memory of this machine: the rows' half beside a copy of
   X to the device and nothing else.
3. An iteration of maximization-expectation at 10⁵×1000 with 50 features, beside the other one.
4. Whole fits of these data, nothing else set than where they run, starts and answers with them.

    python benchmarks/gpu.py [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.backends import device, gpu
from thali.backends.base import Backend, Globals, Moments
from thali.backends.block import Block
from thali.backends.device_steps import TERMS
from thali.backends.local import Local
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.state import AscentState, iterate
from thali.machine import cores
from thali.model import Model
from thali.starts import Start

TIMES = 20
ITERATIONS = 20


def milliseconds(work: Callable[[], object], times: int = TIMES) -> float:
    """The median by the clock, of work that waits for the device."""
    work()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(1e3 * (time.perf_counter() - began))
    return float(np.median(found))


def on_device(cp: Any, work: Callable[[], object]) -> float:
    """The median in milliseconds by the device's own clock."""
    work()
    found = []
    for _ in range(TIMES):
        began, ended = cp.cuda.Event(), cp.cuda.Event()
        began.record()
        work()
        ended.record()
        ended.synchronize()
        found.append(cp.cuda.get_elapsed_time(began, ended))
    return float(np.median(found))


def problem(cp: Any, n: int, d: int, k: int) -> tuple[Any, np.ndarray]:
    """X on the device, in single precision, and a Z with one bit in twenty wrong."""
    rng = np.random.default_rng(0)
    A = cp.asarray(rng.standard_normal((k, d), dtype=np.float32))
    Z = rng.random((n, k), dtype=np.float32) < 0.3
    cp.random.seed(0)
    X = cp.asarray(Z, "float32") @ A + cp.random.standard_normal((n, d), dtype="float32")
    return X, Z ^ (rng.random(Z.shape, dtype=np.float32) < 0.05)


def begun(data: Data, Z: np.ndarray, backend: Backend, dtype: str) -> AscentState:
    """A state near the truth whose rows are where this backend works."""
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    engine = thali.Variational(truncation=Z.shape[1], n_init=1, backend="local")
    start = Start("near", Z, model.start(data))
    state = engine.begin(np.random.default_rng(0), model, data, start)
    state.data, state.rows = backend.hold(data, state.rows, dtype)
    state.backend = backend
    return state


def products(cp: Any, state: AscentState, dtype: str) -> float:
    """The two products with X alone, as the local step has them made."""
    kind, X, W = device.KINDS[dtype], state.data.X, state.rows.W
    (n, d), k = X.shape, len(W)
    phi, B = cp.asarray(state.features.phi, kind.dtype), cp.empty((k, n), kind.dtype)
    whole = n // TERMS
    T = cp.empty((whole, k, d), kind.dtype)
    w, x = device.Matrix(W, W.shape[1], next=TERMS), device.Matrix(X, d, next=TERMS * d)
    turned, along = device.Matrix(X, d, turned=True), device.Matrix(phi, d)

    def both() -> None:
        device.multiply(kind, (n, k, d), turned, along, device.Matrix(B, n))
        device.multiply(kind, (d, k, TERMS), x, w, device.Matrix(T, d, next=k * d), whole)

    return on_device(cp, both)


def speed(cp: Any, quick: bool) -> None:
    n, d, k = (20_000, 500, 20) if quick else (100_000, 1000, 50)
    X, Z = problem(cp, n, d, k)
    data = Data.of(X)
    here = begun(data, Z, Local(cores()), "float64")
    bounds = [iterate(here) for _ in range(ITERATIONS)]
    at_home = milliseconds(here.local_step, 3)
    rows = [[f"here, {cores()} cores, float64", f"{at_home:.1f}", "", "", "", "1.0", "0"]]
    for dtype in device.KINDS:
        state = begun(data, Z, gpu.Gpu(dtype), dtype)
        apart = max(abs(iterate(state) / bound - 1.0) for bound in bounds)
        step, two = milliseconds(state.local_step), products(cp, state, dtype)
        whole = milliseconds(lambda state=state: iterate(state))
        rows.append([dtype, f"{step:.2f}", f"{two:.2f}", f"{step / two:.2f}", f"{whole:.2f}",
                     f"{at_home / step:.0f}", f"{apart:.0e}"])  # fmt: skip
    headers = ["ms, or times", "rows", "two products", "rows over these", "whole iteration",
               "here over rows", "bounds apart"]  # fmt: skip
    print(f"\n## {n}×{d}, {k} features, on {name(cp)}\n\n{markdown(headers, rows)}", flush=True)


def sent(cp: Any, quick: bool) -> None:
    n, d, k = (100_000 if quick else 1_000_000), 1000, 100
    rng = np.random.default_rng(0)
    phi, X = rng.standard_normal((k, d)), np.empty((n, d), np.float32)
    for first in range(0, n, 100_000):
        problem(cp, 100_000, d, k)[0].get(out=X[first : first + 100_000])
    X = device.locked(X)
    room, stream = cp.empty((TERMS * 32, d), "float32"), cp.cuda.get_current_stream()

    def copy() -> None:
        for first in range(0, n, len(room)):
            part = X[first : first + len(room)]
            cp.cuda.runtime.memcpyAsync(room.data.ptr, part.ctypes.data, part.nbytes, 1, stream.ptr)
        stream.synchronize()

    given = Globals(Moments(phi, (phi @ phi.T)[None], None), np.full(k, -0.8), 1.0)
    block, alone = Block(X, None, np.ones(n)), milliseconds(copy, 5)
    rows = [["a copy alone", f"{alone:.1f}", f"{X.nbytes / alone / 1e6:.1f}", "1.00"]]
    for dtype in ("float32", "tf32"):
        backend = gpu.Gpu(dtype, room=0)
        held = gpu.DeviceRows.sent(Rows.of(np.full((n, k), 0.3)).nu, "float32")
        took = milliseconds(
            lambda backend=backend, held=held: backend.local_step(block, held, given), 5
        )
        rows.append([dtype, f"{took:.1f}", f"{X.nbytes / took / 1e6:.1f}", f"{alone / took:.2f}"])
    print(f"\n## {n}×{d}, {k} features, X sent in each iteration\n")
    print(markdown(["rows", "ms", "GB/s", "of the copy's speed"], rows), flush=True)


def near(data: Data, Z: np.ndarray, engine: Any) -> AscentState:
    """A state of this engine near the truth, iterated until little moves."""
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    start = Start("near", Z, model.start(data))
    state = engine.begin(np.random.default_rng(0), model, data, start)
    for _ in range(3):
        iterate(state)
    return state


def hard(cp: Any, quick: bool) -> None:
    n, d, k = (20_000, 500, 20) if quick else (100_000, 1000, 50)
    X, Z = problem(cp, n, d, k)
    data = Data.of(X)
    engines = {
        "variational, float32": thali.Variational(
            truncation=k, n_init=1, backend="gpu", dtype="float32"
        ),
        "variational, float64": thali.Variational(truncation=k, n_init=1, backend="gpu"),
        **{
            f"maximization-expectation, {solver}": thali.MaximizationExpectation(
                n_init=1, backend="gpu", solver=solver
            )
            for solver in ("best", "local_search", "double_greedy")
        },
        "maximization-expectation here, best": thali.MaximizationExpectation(
            n_init=1, backend="local"
        ),
    }
    rows = []
    for label, engine in engines.items():
        state = near(data, Z, engine)
        times = 3 if "here" in label else TIMES
        whole = milliseconds(lambda state=state: iterate(state), times)
        rows.append([label, f"{whole:.2f}", f"{milliseconds(state.local_step, times):.2f}"])
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X.get())
    for label, engine in (
        ("variational, float32, 10% missing", engines["variational, float32"]),
        ("maximization-expectation, best, 10% missing", engines["maximization-expectation, best"]),
    ):
        state = near(Data.of(gaps), Z, engine)
        whole = milliseconds(lambda state=state: iterate(state), 5)
        rows.append([label, f"{whole:.2f}", f"{milliseconds(state.local_step, 5):.2f}"])
    print(f"\n## An iteration, {n}×{d}, {k} features\n")
    print(markdown(["ms", "whole", "its rows' half"], rows), flush=True)


def fits(cp: Any, quick: bool) -> None:
    n, d, k = (20_000, 500, 20) if quick else (100_000, 1000, 50)
    X = problem(cp, n, d, k)[0]
    rows = []
    for label, engine in {
        "variational, float32": thali.Variational(dtype="float32", n_init=1),
        "variational, float32, n_init=2": thali.Variational(dtype="float32"),
        "maximization-expectation": thali.MaximizationExpectation(n_init=1),
    }.items():
        model = thali.LatentFeatures(
            "ibp", "linear_gaussian", engine.replace(backend="gpu"), random_state=0, progress=False
        )
        model.fit(X[:5000])  # compiles
        began = time.perf_counter()
        model.fit(X)
        took = time.perf_counter() - began
        rows.append([label, f"{took:.2f}", str(model.n_components_), f"{model.elbo_:.1f}"])
    print(f"\n## Whole fits, {n}×{d}, {k} features, X on the device\n")
    print(markdown(["", "seconds", "features", "bound"], rows), flush=True)


def name(cp: Any) -> str:
    """What the device is called."""
    return str(cp.cuda.runtime.getDeviceProperties(0)["name"].decode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    quick = parser.parse_args().quick
    try:
        cp = device.cupy()
    except ValueError as none:
        print(f"Nothing to measure: {none}")
        return
    with threadpool_limits(limits=1, user_api="blas"):
        speed(cp, quick)
        hard(cp, quick)
        sent(cp, quick)
    fits(cp, quick)


if __name__ == "__main__":
    main()
