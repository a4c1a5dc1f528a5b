"""Names of parts: a prior, likelihood, engine, hyperprior or start registers where it is defined.

    @PRIORS.register("ibp")
    @dataclass(frozen=True)
    class IBP(Settings, …): …

The name works in ``LatentFeatures(prior="ibp")``, on the command line and in saved files. Nobody
else keeps a list of parts, so that adding one adds a file.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from thali.settings import Settings

Part = TypeVar("Part", bound=Callable[..., Any])


class Registry(Mapping[str, Any]):
    """Classes (or, of starts, functions) by name, in the order in which they were registered."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._classes: dict[str, Any] = {}

    def register(self, name: str) -> Callable[[Part], Part]:
        """A decorator that gives a class its name; a name can be given once.

        A class of the same module and name takes the place of the one before (a notebook's cell
        that is run again).
        """

        def decorate(cls: Part) -> Part:
            before = self._classes.get(name)
            if before is not None and _source(before) != _source(cls):
                raise ValueError(
                    f"The {self.what} {name!r} is {before.__name__} already; choose another name "
                    f"for {cls.__name__}."
                )
            self._classes[name] = cls
            return cls

        return decorate

    def make(self, value: Any, besides: Iterable[str] = ()) -> Any:
        """The part itself, or the one that a name such as "two-parameter-ibp" stands for.

        ``besides`` are names that someone else understands; a refusal lists them too.
        """
        if not isinstance(value, str):
            return value
        key = value.lower().replace("-", "_")
        if key not in self._classes:
            names = [*besides, *self]
            near = difflib.get_close_matches(key, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{self.what}={value!r} is not known; use one of {', '.join(names)}.{hint}"
            )
        return self._classes[key]()

    def name_of(self, part: Any) -> str:
        """The name under which the class of a part was registered."""
        return next(name for name, cls in self._classes.items() if cls is type(part))

    def __getitem__(self, name: str) -> Any:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def _source(cls: Any) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


PRIORS = Registry("prior")
LIKELIHOODS = Registry("likelihood")
ENGINES = Registry("engine")
HYPERPRIORS = Registry("hyperprior")
ESTIMATORS = Registry("estimator")  # by the names of their classes
STARTS = Registry("start")


def import_family(package: str, folder: Iterable[str]) -> None:
    """Import every module of a family's folder, so that what it defines is registered."""
    for module in pkgutil.iter_modules(folder):
        import_module(f"{package}.{module.name}")


def estimator_of(structure: object) -> Any:
    """The estimator that shows values of a latent structure."""
    return next(cls for cls in ESTIMATORS.values() if cls.structure == structure)


def known_classes() -> dict[str, type[Settings]]:
    """Every registered class by the name of the class, which is how files name it."""
    tables = (PRIORS, LIKELIHOODS, ENGINES, HYPERPRIORS)
    return {cls.__name__: cls for table in tables for cls in table.values()}
