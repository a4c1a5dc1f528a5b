"""Settings: frozen dataclasses that scikit-learn can read, clone and replace.

A prior, a likelihood or an engine is a value: it never changes after it is made.
``get_params`` lets ``clone`` and ``GridSearchCV`` look inside; a new value comes from ``replace``.
Two are equal when their fields are, arrays by what they hold.
"""

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import inf, log10
from typing import NamedTuple, Self, SupportsIndex, TypeVar

import numpy as np

Default = TypeVar("Default")
HYPERPARAMETER, SETTING = "hyperparameter", "setting"  # keys of a field's metadata
LARGEST = 1e305  # of a number: beyond what slice steps reach, and where log Γ is still finite
MOST = 10**15  # of a whole number: exact as a real one, with room for products in 64 bits
LONGEST = 100  # characters of a value that a message shows


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """Base of every frozen dataclass of settings (no state, no template methods)."""

    def __init_subclass__(cls) -> None:
        """Put equality and hash into the class itself, where ``dataclass`` leaves them alone."""
        super().__init_subclass__()
        if "__eq__" not in vars(cls):
            cls.__eq__ = Settings.__eq__  # type: ignore[method-assign]
            cls.__hash__ = Settings.__hash__  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings) or type(other) is not type(self):
            return NotImplemented
        theirs = other.get_params()
        return all(same(mine, theirs[name]) for name, mine in self.get_params().items())

    def __hash__(self) -> int:
        values = self.get_params().values()
        marks = (np.shape(v) if isinstance(v, np.ndarray) else v for v in values)
        return hash((type(self), *marks))

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the fields by name, as scikit-learn expects."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __sklearn_clone__(self) -> Self:
        """A value that cannot change is its own copy (a fitted model in it stays fitted)."""
        return self

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed; unknown names are refused with a suggestion."""
        cls: type = type(self)
        names = (*hyperparameters_of(cls), *settings_of(cls))
        for name in changes:
            if name not in names:
                raise ValueError(
                    f"{type(self).__name__} has no setting {name!r}; it has {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        return dataclasses.replace(self, **changes)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question about the name nearest to one that is not known; nothing where none is near.

    >>> did_you_mean("emty", ["ica", "empty"])
    " Did you mean 'empty'?"
    """
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class Label(NamedTuple):
    """What people are shown of a number: its symbol, and what it is in a few words."""

    symbol: str
    words: str


def hyperparameter(default: Default, *, symbol: str, words: str) -> Default:
    """A field of a prior or likelihood that is a number (fixed) or a hyperprior (inferred).

    Traces, the convergence verdict, plots and the report read the symbol and the words.
    """
    return dataclasses.field(default=default, metadata={HYPERPARAMETER: Label(symbol, words)})


def hyperparameters_of(part: object) -> Mapping[str, Label]:
    """The hyperparameters that a part, or a class of parts, declares, by name.

    >>> from thali import IBP
    >>> {name: said.symbol for name, said in hyperparameters_of(IBP).items()}
    {'alpha': 'α'}
    """
    cls = part if isinstance(part, type) else type(part)
    nested = getattr(cls, "nested_hyperparameters", None)  # of parts that a part has
    if nested is None or part is cls:
        return _hyperparameters(cls)
    found: Mapping[str, Label] = nested.fget(part)
    return found


@lru_cache(maxsize=256)
def _hyperparameters(cls: type[object]) -> Mapping[str, Label]:
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {f.name: f.metadata[HYPERPARAMETER] for f in fields if HYPERPARAMETER in f.metadata}


class Setting(NamedTuple):
    """What a part says of one of its settings: its default, a sentence, and what it may be.

    ``kinds`` are the names of the types in its annotation: int and None of ``int | None``.
    """

    default: object
    help: str = ""
    choices: tuple[str, ...] | None = None
    minimum: float | None = None
    kinds: frozenset[str] = frozenset()
    maximum: int = MOST


def setting(
    default: Default,
    *,
    help: str,
    choices: tuple[str, ...] | None = None,
    minimum: float | None = None,
    maximum: int = MOST,
) -> Default:
    """A field that is told how to work, not what to believe: sweeps of a chain, a kind of step.

    A whole number is at least ``minimum`` and at most ``maximum``; another number is positive, or
    at least ``minimum``; a word is one of ``choices``. The command line shows ``help``.
    """
    said = Setting(default, help, choices, minimum, maximum=maximum)
    return dataclasses.field(default=default, metadata={SETTING: said})


@lru_cache(maxsize=256)
def settings_of(cls: type[object]) -> Mapping[str, Setting]:
    """The settings of a class of parts by name: its fields that are no hyperparameters.

    >>> from thali import BetaBernoulli
    >>> found = settings_of(BetaBernoulli)["n_components"]
    >>> found.default, found.minimum, sorted(found.kinds)
    (10, 1, ['int'])
    """
    found = {}
    for f in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if HYPERPARAMETER not in f.metadata:
            # an annotation is text in a module with postponed annotations
            text = f.type.__name__ if isinstance(f.type, type) else str(f.type)
            said = f.metadata.get(SETTING, Setting(f.default))
            found[f.name] = said._replace(kinds=frozenset(re.findall(r"\w+", text)))
    return found


def check_settings(part: object) -> None:
    """Refuse settings that are not what the part declares, in a sentence that names the setting.

    A word may be written with hyphens; it is kept with underscores.
    """
    cls: type = type(part)
    for name, said in settings_of(cls).items():
        value = getattr(part, name)
        if said.help:  # a plain field declares nothing
            found = check_setting(cls.__name__, name, said, value)
            if found is not value:
                object.__setattr__(part, name, found)


def check_setting(owner: str, name: str, said: Setting, value: object) -> object:
    """The value of one setting, or a sentence about what is wrong with it."""
    if value is None and ("None" in said.kinds or "Optional" in said.kinds):
        return None
    if said.choices is not None and (isinstance(value, str) or "int" not in said.kinds):
        return _choice(owner, name, said.choices, value)
    if "bool" in said.kinds and not isinstance(value, bool):
        raise TypeError(f"{owner}: {name} must be True or False, not {value!r}.")
    if "int" in said.kinds and said.minimum is not None:
        whole_number(owner, name, value, int(said.minimum), said.maximum)
    elif "float" in said.kinds and said.minimum is None:
        positive_number(owner, name, value)
    elif "float" in said.kinds and said.minimum is not None and said.minimum > -inf:
        number = _as_float(value)
        if number is None:
            raise TypeError(f"{owner}: {name} must be a number, not {shown(value)}.")
        if not number >= said.minimum:
            raise ValueError(f"{owner}: {name} must be at least {said.minimum:g}, not {value!r}.")
    return value


def _choice(owner: str, name: str, choices: tuple[str, ...], value: object) -> str:
    word = value.replace("-", "_") if isinstance(value, str) else value
    if not isinstance(word, str) or word not in choices:
        names = [repr(choice) for choice in choices]
        known = " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"
        raise ValueError(f"{owner}: {name} must be {known}, not {value!r}.")
    return word


def same(left: object, right: object) -> bool:
    """Whether two values of a setting are equal; arrays are when all their entries are.

    >>> same(np.eye(2), np.eye(2)), same(np.eye(2), "race"), same("race", "race")
    (True, False, True)
    """
    arrays = isinstance(left, np.ndarray), isinstance(right, np.ndarray)
    if any(arrays):
        return all(arrays) and np.array_equal(left, right)  # type: ignore[arg-type]
    return left is right or bool(left == right)


def defined_together(part: object, method: str, others: Iterable[str]) -> bool:
    """Whether no subclass changed one of the other methods and left this one, that builds on them.

    >>> class Plain:
    ...     def law(self): ...
    ...     def draw(self): ...
    >>> class Changed(Plain):
    ...     def draw(self): ...
    >>> defined_together(Plain(), "law", ["draw"]), defined_together(Changed(), "law", ["draw"])
    (True, False)
    """
    order = type(part).__mro__

    def where(name: str) -> int:
        return next(i for i, cls in enumerate(order) if name in vars(cls))

    return all(where(method) <= where(other) for other in others)


def refuse_class(what: str, value: object) -> None:
    """Refuse a class where one of its instances is meant."""
    if isinstance(value, type):
        name = value.__name__
        raise TypeError(f"{what}={name} is a class; write {name}(), with brackets.")


def positive_number(owner: str, name: str, value: object, most: float = LARGEST) -> float:
    """Return ``value`` as a float, or say which setting must be a positive finite number."""
    number = _as_float(value)
    if number is None:
        raise TypeError(f"{owner}: {name} must be a positive number, not {shown(value)}.")
    refuse_beyond(owner, name, value, number, most)
    if not 0.0 < number < inf:
        raise ValueError(f"{owner}: {name} must be positive and finite, not {shown(value)}.")
    return number


def number_from_zero(owner: str, name: str, value: object, most: float = LARGEST) -> float:
    """Return ``value`` as a float that is positive or zero, or say what is wrong."""
    number = _as_float(value)
    if number is None:
        raise TypeError(f"{owner}: {name} must be a number from 0 on, not {shown(value)}.")
    refuse_beyond(owner, name, value, number, most)
    if not 0.0 <= number < inf:
        raise ValueError(f"{owner}: {name} must be 0 or positive, and finite, not {shown(value)}.")
    return number


def refuse_beyond(owner: str, name: str, value: object, number: float, most: float) -> None:
    """Refuse a finite ``value``, ``number`` as a float, that is too large to compute with."""
    if number > most and not (isinstance(value, float | np.floating) and np.isinf(value)):
        raise ValueError(f"{owner}: {name} must be at most {most:g}, not {shown(value)}.")


def _as_float(value: object) -> float | None:
    """The number that ``value`` is, infinite where it is beyond all floats; None of other things,
    truth values and text among them."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # of an integer or a fraction
        return inf if value > 0 else -inf  # type: ignore[operator]
    except (TypeError, ValueError):
        return None


def whole_number(owner: str, name: str, value: object, least: int, most: int = MOST) -> int:
    """Return ``value`` as an int from ``least`` to ``most``, or say what is wrong."""
    if isinstance(value, bool) or not isinstance(value, int | SupportsIndex):  # a protocol is slow
        raise TypeError(f"{owner}: {name} must be a whole number, not {shown(value)}.")
    if value.__index__() < least:
        raise ValueError(f"{owner}: {name} must be at least {least}, not {shown(value)}.")
    if value.__index__() > most:
        raise ValueError(f"{owner}: {name} must be at most {most:,}, not {shown(value)}.")
    return value.__index__()


def generator(owner: str, random_state: object) -> np.random.Generator:
    """The source of chance that ``random_state`` stands for, or one sentence."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise type(error)(f"{owner}: {no_source_of_chance(random_state)}") from None


def no_source_of_chance(random_state: object) -> str:
    """What is wrong with a ``random_state``, in one sentence."""
    return (
        "random_state must be a whole number from 0 on, a NumPy Generator or RandomState, or None, "
        f"not {shown(random_state)}."
    )


def shown(value: object) -> str:
    """A value as a message shows it: as Python writes it, but a very long one cut short.

    >>> shown(-1.5), shown(10**400), len(shown("a" * 1000))
    ('-1.5', 'a number of about 401 digits', 100)
    """
    if isinstance(value, int) and value.bit_length() > 3 * LONGEST:
        return f"a number of about {int(value.bit_length() * log10(2.0)) + 1:,} digits"
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
