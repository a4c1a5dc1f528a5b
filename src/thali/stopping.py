"""A stop that reaches long work: Ctrl-C and a time budget, asked for by loops that take seconds.

A run says what asks for a stop (``stopping``), in a variable of the context that its threads share;
starts and engines ask ``stopped()`` where one of their pieces may take long, and end with what they
have. Outside of a run nothing ever asks for a stop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


class Stopped(Exception):
    """Raised by work that has nothing to show before it is done."""


def stopped() -> bool:
    """Whether the run that this is part of was asked to stop.

    >>> stopped()
    False
    """
    return _asked.get()()


def check_stop() -> None:
    """Give up where nothing is worth keeping yet, if a stop was asked for."""
    if stopped():
        raise Stopped


@contextmanager
def stopping(asked: Callable[[], bool]) -> Iterator[None]:
    """Let ``asked`` say, meanwhile, whether to stop.

    >>> with stopping(lambda: True):
    ...     stopped()
    True
    """
    before = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(before)
