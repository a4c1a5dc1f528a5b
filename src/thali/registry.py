"""Names of parts: a prior, likelihood, engine, hyperprior or start registers where it is defined.

    @PRIORS.register("ibp")
    @dataclass(frozen=True)
    class IBP(Settings, …): …

The name works in ``LatentFeatures(prior="ibp")``, on the command line and in saved files. Nobody
else keeps a list of parts, so that adding one adds a file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from thali.settings import Settings, did_you_mean

if TYPE_CHECKING:
    from thali.engines.base import AnyEngine
    from thali.estimators.base import LatentModel
    from thali.hyperparameters import Hyperprior
    from thali.likelihoods.base import Likelihood
    from thali.priors.base import Prior
    from thali.starts.base import StartMaker


Named = TypeVar("Named")
Part = TypeVar("Part")


class Registry(MutableMapping[str, Named]):
    """What was registered by name, in the order in which that happened.

    Given the name of a ``family``, a package, it imports the modules of that when somebody first
    looks into it, and not before.
    """

    def __init__(self, what: str, family: str = "") -> None:
        self.what = what
        self._family = family  # until it is imported
        self._parts: dict[str, Named] = {}

    def _known(self) -> dict[str, Named]:
        if self._family:
            import_family(self._family, import_module(self._family).__path__)
            # as if nobody had imported one of its modules before the others
            self._parts = dict(sorted(self._parts.items(), key=lambda item: _source(item[1])[0]))
            self._family = ""
        return self._parts

    def __getitem__(self, name: str) -> Named:
        return self._known()[name]

    def __setitem__(self, name: str, named: Named) -> None:
        self._parts[name] = named

    def __delitem__(self, name: str) -> None:
        del self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def register(self, name: str) -> Callable[[Named], Named]:
        """A decorator that gives a class or a function its name; a name can be given once.

        One of the same module and name replaces the one before (a notebook's cell that is run
        again).
        """

        def decorate(named: Named) -> Named:
            inside = _source(named)[0].startswith(f"{self._family}.")
            before = (self._parts if inside else self._known()).get(name)
            if before is not None and _source(before) != _source(named):
                raise ValueError(
                    f"The {self.what} {name!r} is {_source(before)[1]} already; choose another "
                    f"name for {_source(named)[1]}."
                )
            self[name] = named
            return named

        return decorate

    def make(
        self: Registry[type[Part]],
        value: str | Part,
        besides: Iterable[str] = (),
        structure: object = None,
    ) -> Part:
        """The part itself, or the one that a name such as "two-parameter-ibp" stands for.

        ``besides`` are names that someone else understands; a refusal lists them too, and of parts
        only those that speak of a ``structure`` where one is given.
        """
        if not isinstance(value, str):
            return value
        key = value.lower().replace("-", "_")
        if key not in self:
            names = [*besides, *(self if structure is None else speaking_of(self, structure))]
            raise ValueError(
                f"{self.what}={value!r} is not known; use one of {', '.join(names)}."
                f"{did_you_mean(key, names)}"
            )
        return self[key]()

    def name_of(self, part: object) -> str:
        """The name under which the class of a part was registered."""
        return next(name for name, cls in self.items() if cls is type(part))


def _source(named: object) -> tuple[str, str]:
    return named.__module__, getattr(named, "__qualname__", "")


PRIORS: Registry[type[Prior]] = Registry("prior")
LIKELIHOODS: Registry[type[Likelihood]] = Registry("likelihood")
# what likelihoods stand for under some of their settings: no choice of anybody, but named in files
BEHIND: Registry[type[Likelihood]] = Registry("likelihood")
ENGINES: Registry[type[AnyEngine]] = Registry("engine", family="thali.engines")
HYPERPRIORS: Registry[type[Hyperprior]] = Registry("hyperprior")
ESTIMATORS: Registry[type[LatentModel]] = Registry("estimator")  # by the names of their classes
STARTS: Registry[StartMaker] = Registry("start")


def import_family(package: str, folder: Iterable[str]) -> None:
    """Import every module of a family's folder, so that what it defines is registered."""
    for module in pkgutil.iter_modules(folder):
        import_module(f"{package}.{module.name}")


def speaking_of(registry: Registry[type[Part]], structure: object) -> dict[str, type[Part]]:
    """The priors, or the likelihoods, of one latent structure, by name.

    >>> from thali.structures.features import FEATURES
    >>> list(speaking_of(PRIORS, FEATURES))[:3]
    ['beta_bernoulli', 'flexible_ibp', 'ibp']
    """
    return {k: cls for k, cls in registry.items() if getattr(cls, "structure", None) == structure}


def estimator_of(structure: object) -> type[LatentModel]:
    """The estimator that shows values of a latent structure."""
    return next(cls for cls in ESTIMATORS.values() if cls.structure == structure)


def known_classes() -> dict[str, type[Settings]]:
    """Every registered class by the name of the class, which is how files name it."""
    likelihoods = (*LIKELIHOODS.values(), *BEHIND.values())
    parts = (*PRIORS.values(), *likelihoods, *ENGINES.values(), *HYPERPRIORS.values())
    return {cls.__name__: cls for cls in parts if issubclass(cls, Settings)}
