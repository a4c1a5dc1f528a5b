"""How kernels are compiled: once for each installation, kept beside the source, free of the lock.

A ``kernel`` is called from Python. A ``helper`` is called from kernels alone, so it is compiled
without the code through which Python would call it, and only as far as kernels need it: it is
optimized, and made into machine code, where it becomes part of one (``kernels/linked_only.py``).
Called from Python all the same, as tests do, it is compiled a second time, as a kernel.

A helper that ``borrows`` makes no array and returns none. It is compiled without the counting of
references, which in short loops over named tuples of arrays takes longer than the loops, and put
into what calls it, as handing over a tuple of arrays does too. What it divides by is not zero: a
test of that would keep loops from becoming vector instructions.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit
from numba.core.registry import CPUDispatcher

from thali.kernels.linked_only import LINKED_ONLY

Function = Callable[..., Any]
EVERY: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
KEPT: dict[str, Any] = {"cache": True}  # a kernel with all that it calls, so helpers need not be
WITHIN: dict[str, Any] = {"no_cpython_wrapper": True, **LINKED_ONLY}
BORROWS: Any = {"_nrt": False, "forceinline": True, "error_model": "numpy"}


def kernel(function: Function | None = None, **options: Any) -> Any:
    """A function that Python calls; ``options`` are Numba's."""
    if function is None:
        return lambda own: kernel(own, **options)
    return njit(**EVERY, **KEPT, **options)(function)


def helper(function: Function | None = None, *, borrows: bool = False, **options: Any) -> Any:
    """A function that only compiled code calls; see above for what one that ``borrows`` is."""
    if function is None:
        return lambda own: helper(own, borrows=borrows, **options)
    made = njit(**EVERY, **WITHIN, **(BORROWS if borrows else {}), **options)(function)
    if not isinstance(made, CPUDispatcher):
        return made  # Numba was told not to compile
    made.__class__ = Helper
    made.__dict__["options"] = options
    return made


class Helper(CPUDispatcher):
    """What compiled code calls as it is, and Python by way of a kernel of its own."""

    def __call__(self, *arguments: Any) -> Any:
        own = self.__dict__
        if "entry" not in own:
            given = self.py_func
            copy = FunctionType(given.__code__, given.__globals__, given.__name__)
            copy.__qualname__ += "_from_python"  # by which what was compiled is found again
            own["entry"] = kernel(copy, **own.get("options", {}))
        return own["entry"](*arguments)
