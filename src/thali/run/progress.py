"""Progress of a run on the terminal: sweep, K, log joint, and R-hat of the chains so far.

Nothing is shown when the output is not a terminal (or a notebook), nor for the first half second;
but that kernels are being compiled, which takes long, is said in a line on stderr then too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from thali.results.trace import ChainTrace

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PATIENCE = 0.5  # seconds before anything is shown
WORD_EVERY = 10.0  # seconds between lines about compilation, where there is no terminal
RHAT_EVERY = 2.0  # seconds between computations of R-hat


class Progress:
    """A bar that ``update`` moves; ``with`` it, and it cleans up after itself."""

    def __init__(self, show: bool | str) -> None:
        self.show = self.given = show
        self.next_word = PATIENCE
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.bar: tuple[Bar, TaskID] | None = None
        self.rhat = float("nan")
        self.rhat_at = self.began

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar[0].stop()

    def compiling(self, functions: int) -> None:
        """Say that kernels are being compiled, also where there is no terminal to see a bar."""
        what = "compiling (once per installation)"
        if shown := self._shown():
            shown[0].update(shown[1], description=f"{what}, {functions} functions so far")
        waited = time.monotonic() - self.began
        if self.show is False and self.given is not False and waited > self.next_word:
            print(f"thali: {what}, {waited:.0f} s so far", file=sys.stderr, flush=True)
            self.next_word = waited + WORD_EVERY

    def say(self, what: str) -> None:
        """Show a phase without numbers (such as the race of starts)."""
        if shown := self._shown():
            shown[0].update(shown[1], description=what)

    def count(self, what: str, done: int, total: int) -> None:
        """Move the bar to ``done`` of ``total`` steps of something that has no chains to show."""
        if shown := self._shown():
            shown[0].update(shown[1], completed=done, total=total, description=what)

    def update(self, chains: Sequence[ChainTrace], total: int, unit: str = "sweep") -> None:
        """Move the bar to where the chains are, of ``total`` steps between them."""
        shown = self._shown()
        if shown is None or not all(chain.scalars for chain in chains):
            return
        last = [chain.scalars[-1] for chain in chains]
        counts = sorted({int(row[0]) for row in last})
        text = f"K {counts[0]}" if len(counts) == 1 else f"K {counts[0]}–{counts[-1]}"
        text += f"  log joint {max(row[1] for row in last):,.1f}"
        text += self._rhat_text(chains)
        steps = sum(len(chain.scalars) for chain in chains)
        text = f"{unit} {steps // len(chains)}  {text}"
        shown[0].update(shown[1], completed=steps, total=total, description=text)

    def _rhat_text(self, chains: Sequence[ChainTrace]) -> str:
        now = time.monotonic()
        steps = min(len(chain.scalars) for chain in chains)
        if now - self.rhat_at > RHAT_EVERY and len(chains) > 1 and steps >= 8:
            from thali.results.diagnostics import summarize

            values = np.array([[row[1] for row in c.scalars[steps // 2 : steps]] for c in chains])
            self.rhat = summarize("rhat", values) if np.ptp(values) > 0 else float("nan")
            self.rhat_at = time.monotonic()
        return "" if np.isnan(self.rhat) else f"  R-hat {self.rhat:.2f}"

    def _shown(self) -> tuple[Bar, TaskID] | None:
        """The bar and its task, once there is something to show and someone to see it.

        Threads that compile ask for it, too.
        """
        with self.lock:
            return self._made()

    def _made(self) -> tuple[Bar, TaskID] | None:
        if self.bar is not None:
            return self.bar
        if self.show is False or time.monotonic() - self.began < PATIENCE:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True, force_terminal=True if self.show is True else None)
        if self.show == "auto" and not (console.is_terminal or console.is_jupyter):
            self.show = False
            return None
        bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        bar.start()
        self.bar = bar, bar.add_task("starting", total=None)
        return self.bar
