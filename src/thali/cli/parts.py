"""Options of ``thali fit`` made from what every registered part declares.

A hyperparameter ``sigma_x`` of a likelihood is ``--sigma-x`` and a number; a setting ``n_init`` of
an engine is ``--n-init``, with the type, the choices, the default and the words that it has there.
Parts of a family (priors, likelihoods, engines) share an option if they share a name. A name that
an earlier family has, or the command itself, gets the family in front: ``--engine-alpha``.
The last functions read the words of the command's own options.
"""

import csv
import inspect
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from scipy.sparse import csr_array

import thali
from thali.data.sparse import is_sparse
from thali.data.tables import check_file, read_table
from thali.engines.base import AnyEngine
from thali.estimators.base import LatentModel
from thali.model import Model
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, Registry
from thali.run.choices import AUTO, choose_engine, rank
from thali.settings import Setting, check_setting, hyperparameters_of, settings_of
from thali.starts import start_names

FAMILIES: dict[str, Registry[Any]] = {"prior": PRIORS, "likelihood": LIKELIHOODS, "engine": ENGINES}
PANELS = {"prior": "Model", "likelihood": "Model", "engine": "Inference"}
WORDS = {
    "prior": "Prior of the features' pattern.",
    "likelihood": "How features make data.",
    "engine": "How the model is inferred.",
}
NONE = "none"  # on the command line, of a setting that may be None


class PartOption(NamedTuple):
    """One option: its name as a parameter, and the parts that have such a field, by name."""

    name: str
    family: str
    field: str
    owners: dict[str, Setting]

    @property
    def flag(self) -> str:
        return f"--{hyphened(self.name)}"


def hyphened(name: str) -> str:
    """A name as the command line spells it."""
    return name.replace("_", "-")


def part_options(taken: Container[str]) -> list[PartOption]:
    """The options of all registered parts, family by family; ``taken`` are names of others."""
    found: dict[str, PartOption] = {}
    for family, registry in FAMILIES.items():
        for owner, cls in sorted(registry.items(), key=lambda named: rank(named[1])):
            for field, said in _fields(cls).items():
                clash = field in taken or (field in found and found[field].family != family)
                name = f"{family}_{field}" if clash else field
                option = found.setdefault(name, PartOption(name, family, field, {}))
                option.owners[owner] = said
    return list(found.values())


def _fields(cls: Any) -> dict[str, Setting]:
    """The fields that can be told on a command line, where a hyperparameter is a number."""
    found = {}
    for name, label in hyperparameters_of(cls).items():
        default = cls.__dataclass_fields__[name].default
        shown = default if isinstance(default, int | float) else "inferred"
        found[name] = Setting(shown, label.words, None, -math.inf, frozenset(["float"]))
    return found | {name: said for name, said in settings_of(cls).items() if _kind(name, said)}


def _kind(name: str, said: Setting) -> str | None:
    """What an option's text is read as; None if it cannot be."""
    if name == "init":
        return "start"
    if said.choices is not None and "int" not in said.kinds:
        return "choice"
    return next((kind for kind in ("bool", "int", "float", "str") if kind in said.kinds), None)


def parameters(taken: Container[str]) -> Iterator[inspect.Parameter]:
    """The parameters of the command: the name of each part, followed by what its family has."""
    options = part_options(taken)
    defaults = inspect.signature(thali.LatentFeatures).parameters
    make = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    for family, registry in FAMILIES.items():
        names = [AUTO, *registry] if family == "engine" else list(registry)
        kind = _words(family, names)
        default = kind(hyphened(defaults[family].default))
        said = typer.Option(f"--{family}", help=WORDS[family], rich_help_panel=PANELS[family])
        yield make(family, default=default, annotation=Annotated[kind, said])
        for option in (option for option in options if option.family == family):
            yield make(option.name, default=None, annotation=_annotation(option))


def _annotation(option: PartOption) -> object:
    settings = list(option.owners.values())
    kind = _kind(option.field, settings[0])
    make = partial(typer.Option, help=_help(option), rich_help_panel=PANELS[option.family])
    if kind == "bool":
        both = f"{option.flag}/--no-{option.flag.removeprefix('--')}"
        return Annotated[bool | None, make(both)]
    words = list(dict.fromkeys(word for one in settings for word in one.choices or ()))
    if kind == "choice":
        return Annotated[_words(option.name, words) | None, make(option.flag)]
    if any("None" in one.kinds and one.default is not None for one in settings):
        words.append(NONE)
    if words and kind == "int":  # a whole number, or "auto" and the like, or none at all
        metavar = "|".join(["INTEGER", *words])
        return Annotated[str | None, make(option.flag, parser=_number_or(words), metavar=metavar)]
    number = {"int": int, "float": float}.get(kind or "", str)
    return Annotated[number | None, make(option.flag)]


def _words(name: str, words: Iterable[str]) -> Any:
    """The words that an option accepts, as typer wants them."""
    return StrEnum(name, {word: hyphened(word) for word in words})


def _number_or(words: list[str]) -> Callable[[str], int | str]:
    def read(text: str) -> int | str:
        if text in words:
            return text
        try:
            return int(text)
        except ValueError:
            known = " or ".join(map(repr, words))
            raise typer.BadParameter(f"{text!r} is neither a whole number nor {known}.") from None

    return read


def _help(option: PartOption) -> str:
    """The words of the declarations, and whose they are: ``Passes (particle-filter: 1)``."""
    groups: dict[str, dict[str, list[str]]] = {}
    for owner, said in option.owners.items():
        shown = groups.setdefault(said.help, {}).setdefault(_default(said.default), [])
        shown.append(hyphened(owner))
    texts = []
    for words, by_default in groups.items():
        if option.field == "init":
            words = f"{words}: {', '.join(start_names())}, or a file (.thali, or a 0/1 table)"
        notes = [_whose(option, owners, default) for default, owners in by_default.items()]
        note = "; ".join(note for note in notes if note)
        texts.append(f"{words[:1].upper()}{words[1:]}{f' ({note})' if note else ''}")
    return "; ".join(texts) + "."


def _whose(option: PartOption, owners: list[str], default: str) -> str:
    everyone = len(owners) == len(FAMILIES[option.family])
    return ": ".join(part for part in ("" if everyone else ", ".join(owners), default) if part)


def _default(default: object) -> str:
    """A default in a word or two; nothing where the help says what happens."""
    if not isinstance(default, str | int | float):
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return hyphened(default) if isinstance(default, str) else f"{default:g}"


class Given:
    """The options of parts that were given on a command line."""

    def __init__(self, taken: Container[str], values: Mapping[str, object]) -> None:
        self.options = [o for o in part_options(taken) if values.get(o.name) is not None]
        self.values = values

    def part(self, family: str) -> Any:
        """The prior or likelihood that was named, with those of its settings that were given."""
        name = str(self.values[family])
        return self._with_settings(family, FAMILIES[family].make(name), name)

    def engine(self, model: Model | None, X: np.ndarray | csr_array | None = None) -> AnyEngine:
        """The engine that was named, or that suits the model and the data, with its settings."""
        name = str(self.values["engine"])
        sparse = is_sparse(X)
        gaps = X is not None and not sparse and bool(np.isnan(X).any())
        engine = choose_engine(name, model, sparse=sparse, missing=gaps)
        if name == AUTO:
            name = f"{hyphened(ENGINES.name_of(engine))} (chosen by auto)"
        return self._with_settings("engine", engine, name)

    def _with_settings(self, family: str, part: Any, name: str) -> Any:
        """The part with its settings as given; those of others are refused."""
        changes = {}
        for option in (one for one in self.options if one.family == family):
            said = option.owners.get(FAMILIES[family].name_of(part))
            if said is None:
                owners = " or ".join(map(hyphened, option.owners))
                raise ValueError(
                    f"{option.flag} belongs to --{family} {owners}; {name} has no such setting."
                )
            changes[option.field] = _value(option, said, self.values[option.name])
        return part.replace(**changes)


def _value(option: PartOption, said: Setting, value: object) -> object:
    if option.field == "init":
        return read_init(str(value))
    value = None if value == NONE and "None" in said.kinds else value
    value = str(value) if isinstance(value, StrEnum) else value
    return check_setting(option.flag, option.field, said, value) if said.help else value


def read_init(text: str) -> object:
    """A start by name, or the model or table in a file."""
    suffix = Path(text.split(".npz:")[0]).suffix.lower()
    if suffix == ".thali":
        return load_model(Path(text))
    if suffix in {".csv", ".tsv", ".npy", ".npz", ".parquet"} or ".npz:" in text:
        return read_table(text).values
    return text


def read_columns(text: str | None) -> list[str] | None:
    """Names between commas; one that holds a comma is quoted, as in a CSV file."""
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def read_image_shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) != 2 or not all(side.strip().isdecimal() and int(side) for side in sides):
        raise ValueError(f"--image-shape {text!r} is not HEIGHTxWIDTH; write it like 28x28.")
    return int(sides[0]), int(sides[1])


def read_time_budget(seconds: float | None) -> float | None:
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"--time-budget {seconds:g} is no time to run; give it seconds above 0.")
    return seconds


def load_model(path: Path) -> LatentModel:
    check_file(path, "a saved model")
    return thali.load(path)
