"""Functions of compiled code that mean something else for each type of their first argument."""

from typing import Any

from numba import types
from numba.extending import overload


def means(generic: Any, kind: type, specific: Any) -> None:
    """Let compiled code put ``specific`` where ``generic`` is called with a ``kind`` first.

    ``kind`` is a NamedTuple, and ``specific`` a plain function with the arguments of ``generic``.
    """

    def choose(*arguments):
        first = arguments[0]
        if isinstance(first, types.BaseNamedTuple) and first.instance_class is kind:
            return specific
        return None

    overload(generic, inline="always", strict=False)(choose)
