r"""Statistics of clusters, by which rows are added and removed, whatever the likelihood.

A likelihood keeps what it knows of each cluster in arrays of a named tuple, a slot a cluster, and
tells in ``groups_of`` how five things are done with it; ``size`` is how many rows the slot has:

    add(groups, k, i, size)         row i enters; size counts it
    remove(groups, k, i, size)      row i leaves; size does not count it any more
    log_predictives(groups, which, sizes, count, i, out, nothing)
                                    adds log p(x_i | the rows of a slot), i not among them, to the
                                    log weights ``out`` of the first ``count`` slots of the list
                                    ``which``; ``sizes`` is by slot. A sum that is surely more than
                                    ``nothing`` below the largest may be −inf
    log_marginal(groups, k, size)   log p(the rows of slot k)
    clear(groups, k)                slot k has no rows

and names in ``laws`` the fields that hyperparameters decide, so that particles of a filter, each
with hyperparameters of its own, can share all others.

Compiled code finds them by the type of the tuple, so that one sampler is written for all, and is
compiled for those that are used.
"""

from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.extending import overload

from thali.kernels.compiling import BORROWS

Operation = Callable[..., Any]
NAMES = ("add", "remove", "log_predictives", "log_marginal", "clear")
_OPERATIONS: dict[type, dict[str, Operation]] = {}
_LAWS: dict[type, tuple[str, ...]] = {}


def groups_of(
    cls: type,
    *,
    add: Operation,
    remove: Operation,
    log_predictives: Operation,
    log_marginal: Operation,
    clear: Operation,
    laws: tuple[str, ...] | None = None,
) -> None:
    """Tell how the operations are done with tuples of a class: plain functions, or helpers."""
    own = (add, remove, log_predictives, log_marginal, clear)
    _OPERATIONS[cls] = dict(zip(NAMES, own, strict=True))
    if laws is not None:
        _LAWS[cls] = laws


def laws_of(cls: type) -> tuple[str, ...]:
    """The fields of a class of tuples that hyperparameters decide."""
    if cls not in _LAWS:
        raise TypeError(
            f"{cls.__name__} does not say which of its fields hyperparameters decide; give "
            "groups_of(…, laws=…) their names, and a particle filter can use it."
        )
    return _LAWS[cls]


def add(groups, k, i, size):
    """Row i enters slot k, which then has ``size`` rows."""
    _OPERATIONS[type(groups)]["add"](groups, k, i, size)


def remove(groups, k, i, size):
    """Row i leaves slot k, which then has ``size`` rows."""
    _OPERATIONS[type(groups)]["remove"](groups, k, i, size)


def log_predictives(groups, which, sizes, count, i, out, nothing):
    """log p(x_i | the rows of a slot), of several of them."""
    _OPERATIONS[type(groups)]["log_predictives"](groups, which, sizes, count, i, out, nothing)


def log_marginal(groups, k, size):
    """log p(the rows of slot k)."""
    return _OPERATIONS[type(groups)]["log_marginal"](groups, k, size)


def clear(groups, k):
    """Slot k has no rows."""
    _OPERATIONS[type(groups)]["clear"](groups, k)


def _operation(groups, name):
    """What compiled code calls, by the type of the tuple."""
    if not isinstance(groups, types.NamedTuple | types.NamedUniTuple):
        return None
    own = _OPERATIONS.get(groups.instance_class)
    return None if own is None else own[name]


@overload(add, jit_options=BORROWS)
def _add(groups, k, i, size):
    own = _operation(groups, "add")
    return None if own is None else lambda groups, k, i, size: own(groups, k, i, size)


@overload(remove, jit_options=BORROWS)
def _remove(groups, k, i, size):
    own = _operation(groups, "remove")
    return None if own is None else lambda groups, k, i, size: own(groups, k, i, size)


@overload(log_predictives, jit_options=BORROWS)
def _log_predictives(groups, which, sizes, count, i, out, nothing):
    own = _operation(groups, "log_predictives")
    if own is None:
        return None

    def call(groups, which, sizes, count, i, out, nothing):
        own(groups, which, sizes, count, i, out, nothing)

    return call


@overload(log_marginal, jit_options=BORROWS)
def _log_marginal(groups, k, size):
    own = _operation(groups, "log_marginal")
    return None if own is None else lambda groups, k, size: own(groups, k, size)


@overload(clear, jit_options=BORROWS)
def _clear(groups, k):
    own = _operation(groups, "clear")
    return None if own is None else lambda groups, k: own(groups, k)
