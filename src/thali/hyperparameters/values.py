"""Tables of hyperparameters: what a state has of each, a part's own among them, and as scalars."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

Value = Any  # of a hyperparameter: a number, or an array that is replaced, never written to
Values = MutableMapping[str, Any]


class Scope(MutableMapping[str, Value]):
    """One part's hyperparameters, by its own names, in a table that holds those of all parts.

    >>> table = {"prior.alpha": 1.0, "likelihood.alpha": 2.0, "beta": 3.0}
    >>> mine = Scope(table, {"alpha": "likelihood.alpha", "beta": "beta"})
    >>> mine["alpha"] = 5.0
    >>> dict(mine), table["likelihood.alpha"]
    ({'alpha': 5.0, 'beta': 3.0}, 5.0)
    """

    def __init__(self, table: Values, labels: Mapping[str, str]) -> None:
        self.table, self.labels = table, labels

    def __getitem__(self, name: str) -> Value:
        return self.table[self.labels[name]]

    def __setitem__(self, name: str, value: Value) -> None:
        self.table[self.labels[name]] = value

    def __delitem__(self, name: str) -> None:
        del self.table[self.labels[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)


def as_scalars(hyper: Mapping[str, Value]) -> dict[str, float]:
    """Hyperparameters as single numbers, an array's entries one by one.

    >>> as_scalars({"alpha": 1.0, "scales": np.array([2.0, 3.0])})
    {'alpha': 1.0, 'scales[0]': 2.0, 'scales[1]': 3.0}
    """
    found: dict[str, float] = {}
    for name, value in hyper.items():
        if type(value) is float or np.ndim(value) == 0:
            found[name] = value
        else:
            found |= {f"{name}[{i}]": x for i, x in enumerate(np.ravel(value).tolist())}
    return found


def from_scalars(scalars: Mapping[str, float]) -> dict[str, Value]:
    """The hyperparameters that ``as_scalars`` took apart; arrays have one dimension.

    >>> from_scalars({"alpha": 1.0, "scales[0]": 2.0, "scales[1]": 3.0})
    {'alpha': 1.0, 'scales': array([2., 3.])}
    """
    found: dict[str, Value] = {}
    for label, value in scalars.items():
        name, bracket, _ = label.partition("[")
        if bracket:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return {k: np.array(v, float) if isinstance(v, list) else v for k, v in found.items()}
