r"""What one bit, one birth and one death do to the rows of a model.

A model says what moves do to a row by a NamedTuple, its *rows*, and by functions of that type
(``moves_are``):

    gain(rows, n, f, on)            log density of row n with feature f, less that without it
    propose(rows, rng, n, f, drawn) put parameters for a new feature of row n alone at f, and what
                                    it gains
    loss(rows, n, f, drawn)         the same of feature f, which row n alone has
    turn_on(rows, rng, n, f, new)   the row has the feature from now on
    turn_off(rows, n, f)
    move(rows, f, g)                what is known of feature f goes to g

Where ``drawn`` is true, parameters of new features come from their prior, and gains are ratios of
likelihoods (as in the paper); else they come from their posterior given the row, and are integrated
out of the gain: the prior and the proposal cancel in both.
"""

from typing import Any

from thali.kernels.by_type import means


def gain(rows: Any, n: Any, f: Any, on: Any) -> Any:
    raise NotImplementedError


def propose(rows: Any, rng: Any, n: Any, f: Any, drawn: Any) -> Any:
    raise NotImplementedError


def loss(rows: Any, n: Any, f: Any, drawn: Any) -> Any:
    raise NotImplementedError


def turn_on(rows: Any, rng: Any, n: Any, f: Any, new: Any) -> Any:
    raise NotImplementedError


def turn_off(rows: Any, n: Any, f: Any) -> Any:
    raise NotImplementedError


def move(rows: Any, f: Any, g: Any) -> Any:
    raise NotImplementedError


def moves_are(kind: type, *own: Any) -> None:
    """Let the six above mean ``own``, in their order, where rows are of this ``kind``."""
    for generic, specific in zip((gain, propose, loss, turn_on, turn_off, move), own, strict=True):
        means(generic, kind, specific)
