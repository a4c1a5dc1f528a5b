"""Ctrl-C asks a run to stop; a second one ends it wherever it is.

Python raises KeyboardInterrupt between any two steps of the main thread, also where nothing could
catch it without losing what was computed. While a run is under way a handler of its own takes the
signal instead and notes that a stop was asked for.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Flag:
    """Whether something has happened. No lock guards it: a signal may come while one is held."""

    def __init__(self) -> None:
        self._up = False

    def set(self) -> None:
        self._up = True

    def is_set(self) -> bool:
        """Whether it has."""
        return self._up


@contextmanager
def interrupts_call(halt: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C call ``halt``, and the next ones raise KeyboardInterrupt.

    Only the main thread gets signals, and a handler that somebody else has set is left alone.

    >>> with interrupts_call(lambda: print("asked to stop")):
    ...     signal.raise_signal(signal.SIGINT)
    asked to stop
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    asked = Flag()

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        halt()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
