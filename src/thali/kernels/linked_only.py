"""Compile a function only as far as others need it that take it in.

Numba optimizes every function and makes machine code of it, then links it, once more as LLVM's
intermediate code, into each function that calls it, and optimizes that. For a function that nothing
else ever calls the first round is for nothing: without it a first fit compiles a fifth less, and
its kernels are as fast. There is no option for this; ``pipeline_class`` is Numba's way for others
to bring their own compiler. Where another version of Numba has not the parts that are set aside
here, its own compiler is used.
"""

from typing import Any

from numba.core import codegen
from numba.core.compiler import Compiler

PARTS = (
    "_optimize_final_module",
    "_finalize_final_module",
    "_finalize_dynamic_globals",
    "_verify_declare_only_symbols",
    "_ensure_finalized",
    "get_pointer_to_function",
    "codegen",
)


class LinkedOnly(codegen.JITCodeLibrary):
    """Intermediate code for others to link; it is never run as it is."""

    def _optimize_final_module(self):
        """Left to those that link it."""

    def _finalize_final_module(self):
        """Without machine code."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name):
        """No function here has an address."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self):
        return Unplaced(self._codegen)


class Unplaced:
    """A code generator for code without an address: there is no place to put an environment.

    An environment is where a function finds objects of Python, which a message made at run time
    would need: helpers raise errors with constant messages only.
    """

    def __init__(self, own):
        self.own = own

    def __getattr__(self, name):
        return getattr(self.own, name)

    def set_env(self, name, env):
        """Nothing."""


class LinkedOnlyCompiler(Compiler):
    """Numba's, with a library of that kind."""

    def compile_extra(self, func):
        self.state.library = LinkedOnly(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


KNOWN = all(hasattr(codegen.JITCodeLibrary, name) for name in PARTS)
LINKED_ONLY: dict[str, Any] = {"pipeline_class": LinkedOnlyCompiler} if KNOWN else {}
