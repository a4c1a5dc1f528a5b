"""What several benchmarks measure by: processor time, memory, growth, and a planted truth."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tables import markdown

import thali
from thali import datasets
from thali.model import Model

__all__ = [
    "growth",
    "peak_growth",
    "planted_truth",
    "resident",
    "resident_now",
    "shortfall",
    "smallest",
]

BASE = {"N": 20_000, "D": 200, "K": 20}


def smallest(work: Callable[[], object], times: int) -> float:
    """The smallest of several processor times of this thread, in seconds."""
    seconds = []
    for _ in range(times):
        began = time.thread_time()
        work()
        seconds.append(time.thread_time() - began)
    return min(seconds)


def resident() -> float:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def resident_now() -> float:
    """The memory that this process has, in bytes (of Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * float(resource.getpagesize())


@contextmanager
def peak_growth() -> Iterator[list[float]]:
    """The most resident memory above what there was, in MB, looked at every hundredth of a second.

    ``resident`` cannot tell of one piece of work after another: it never falls.
    """
    before, grown, done = resident_now(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            grown[0] = max(grown[0], 1e-6 * (resident_now() - before))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield grown
    finally:
        done.set()
        watcher.join()


def growth(seconds: Callable[[int, int, int], float]) -> str:
    """A table of how the cost ``seconds(n, d, k)`` grows when each is doubled twice over."""
    table = []
    for name in BASE:
        took = [seconds(*({**BASE, name: factor * BASE[name]}).values()) for factor in (1, 2, 4)]
        slope = np.polyfit(np.log([1, 2, 4]), np.log(took), 1)[0]
        table.append([name, *(f"{1e3 * t:.0f}" for t in took), f"{slope:.2f}"])
    return markdown(["doubling", "ms", "×2", "×4", "exponent"], table)


def planted_truth(seed: int) -> tuple[datasets.Dataset, Model]:
    """500×500 with 20 binary features and unit noise, and the model at what was planted.

    α is the mass at which as many features are expected.
    """
    data = datasets.noisy_nonnegative(random_state=seed)
    n, k = data.Z.shape
    alpha = k / float((1.0 / np.arange(1, n + 1)).sum())
    return data, Model(thali.IBP(alpha=alpha), thali.LinearGaussian(1.0, data.sigma_a))


def shortfall(data: datasets.Dataset, at: Model, Z: np.ndarray) -> float:
    """How far the log joint of Z is below that of the planted one, in per cent of its size."""
    truth = at.log_joint(data.X, data.Z)
    return 100.0 * (truth - at.log_joint(data.X, Z)) / abs(truth)
