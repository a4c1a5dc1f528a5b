"""Options of ``thali fit``, ``cluster`` and ``topics`` made from what registered parts declare.

A command offers the parts that speak of its latent structure (``Offer``).

A hyperparameter ``sigma_x`` of a likelihood is ``--sigma-x`` and a number; a setting ``n_init`` of
an engine is ``--n-init``, with the type, the choices, the default and the words that it has there.
Parts of a family (priors, likelihoods, engines) share an option if they share a name. A name that
an earlier family has, or the command itself, gets the family in front: ``--engine-alpha``. A
setting that is a row of numbers is read from a file.
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
from thali.data.elsewhere import Source
from thali.data.sparse import is_sparse
from thali.data.tables import check_file, read_table
from thali.engines.base import AnyEngine
from thali.estimators.base import LatentModel
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, Registry
from thali.run.choices import AUTO, EngineChoice, auto_engine, choose_engine, rank
from thali.settings import Setting, check_setting, hyperparameters_of, settings_of
from thali.starts import start_names
from thali.structures.base import AnyStructure
from thali.structures.features import FEATURES
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
from thali.structures.partitions import PARTITIONS

FAMILIES: dict[str, Registry[Any]] = {"prior": PRIORS, "likelihood": LIKELIHOODS, "engine": ENGINES}
PANELS = {"prior": "Model", "likelihood": "Model", "engine": "Inference"}
STANDARD = LIKELIHOODS.name_of(LinearGaussian())  # what "auto" stands for before data are read
NONE = "none"  # on the command line, of a setting that may be None
PLAIN = {"bool", "int", "float", "str", "None"}  # types that are written as a word


class Offer(NamedTuple):
    """What a command offers: the parts that speak of some structures, in words of its own.

    The defaults are those of an estimator; ``start_in`` takes a start from a table that was read.
    """

    estimator: type[LatentModel]
    takes: Callable[[AnyStructure], bool]
    words: Mapping[str, str]
    start_in: Callable[[Any], Any]

    def family(self, name: str) -> dict[str, Any]:
        """The parts of a family by name; engines are those that could run parts of the others."""
        if name != "engine":
            return {k: c for k, c in FAMILIES[name].items() if self.takes(c.structure)}
        structures = {prior.structure for prior in PRIORS.values() if self.takes(prior.structure)}
        return {k: c for k, c in ENGINES.items() if any(speaks_of(c, s) for s in structures)}

    def start_names(self) -> list[str]:
        """The starts, but for those that only likelihoods that are not offered name."""
        own = {start for cls in self.family("likelihood").values() for start in cls.starts}
        others = {start for cls in LIKELIHOODS.values() for start in cls.starts} - own
        return [name for name in start_names() if name not in others]


def speaks_of(engine: type[AnyEngine], structure: AnyStructure) -> bool:
    """Whether an engine runs models of a structure: all that it needs may be of that."""
    needs = (*engine.needs_prior, *engine.needs_likelihood)
    each = [need if isinstance(need, tuple) else (need,) for need in needs]
    return all(any(getattr(n, "structure", structure) == structure for n in one) for one in each)


# a structure that has no command of its own is fitted by ``thali fit``
FIT = Offer(
    thali.LatentFeatures,
    lambda structure: structure not in (PARTITIONS, GROUPED_PARTITIONS),
    {
        "prior": "Prior of the features' pattern.",
        "likelihood": "How features make data.",
        "engine": "How the model is inferred.",
        "init": "a file (.thali, or a 0/1 table)",
    },
    lambda table: table,
)
CLUSTER = Offer(
    thali.LatentPartition,
    lambda structure: structure == PARTITIONS,
    {
        "prior": "Prior of the partition.",
        "likelihood": "What rows of a cluster have in common.",
        "engine": "How the model is inferred.",
        "init": "a file (.thali, or a labels.csv)",
    },
    lambda table: table[:, 0],
)


def _no_table(table: Any) -> Any:
    raise ValueError("--init: topics begin from a name or from a saved model, not from a table.")


TOPICS = Offer(
    thali.TopicModel,
    lambda structure: structure == GROUPED_PARTITIONS,
    {
        "prior": "Prior of groups and topics.",
        "likelihood": "How topics make words.",
        "engine": "How the model is inferred.",
        "init": "a file (.thali)",
    },
    _no_table,
)


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


def part_options(offer: Offer, taken: Container[str]) -> list[PartOption]:
    """The options of all parts on offer, family by family; ``taken`` are names of others."""
    found: dict[str, PartOption] = {}
    for family in FAMILIES:
        for owner, cls in sorted(offer.family(family).items(), key=lambda named: rank(named[1])):
            idle = () if offer.takes(FEATURES) else getattr(cls, "for_features", ())
            for field, said in _fields(cls).items():
                if field in idle:
                    continue
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
        if default is None or _by_column(cls, name):  # an array, not a number
            continue
        shown = default if isinstance(default, int | float) else "inferred"
        found[name] = Setting(shown, label.words, None, -math.inf, frozenset(["float"]))
    return found | {name: said for name, said in settings_of(cls).items() if _kind(name, said)}


def _by_column(cls: Any, name: str) -> bool:
    """Whether a hyperparameter has a number for each column of a table."""
    return takes_tables_of(cls) and "PerLatent" in str(cls.__dataclass_fields__[name].type)


def takes_tables_of(cls: Any) -> bool:
    """Whether a likelihood is of tables with columns of different kinds."""
    return isinstance(cls, type) and issubclass(cls, TableLikelihood)


def takes_tables(likelihood: str) -> bool:
    """The same of one that is named on a command line; of "auto" too, which looks at columns."""
    return likelihood == AUTO or takes_tables_of(LIKELIHOODS[likelihood.replace("-", "_")])


def _kind(name: str, said: Setting) -> str | None:
    """What an option's text is read as; None if it cannot be."""
    if name == "init":
        return "start"
    if "tuple" in said.kinds:
        return "numbers" if said.help else None
    if not said.help and not said.kinds <= PLAIN:  # which no word could tell
        return None
    if said.choices is not None and "int" not in said.kinds:
        return "choice"
    return next((kind for kind in ("bool", "int", "float", "str") if kind in said.kinds), None)


def parameters(offer: Offer, taken: Container[str]) -> Iterator[inspect.Parameter]:
    """The parameters of the command: the name of each part, followed by what its family has."""
    options = part_options(offer, taken)
    defaults = inspect.signature(offer.estimator).parameters
    make = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    for family in FAMILIES:
        names = [*([AUTO] if defaults[family].default == AUTO else []), *offer.family(family)]
        kind = _words(family, names)
        default = kind(hyphened(defaults[family].default))
        said = typer.Option(f"--{family}", help=offer.words[family], rich_help_panel=PANELS[family])
        yield make(family, default=default, annotation=Annotated[kind, said])
        for option in (option for option in options if option.family == family):
            yield make(option.name, default=None, annotation=_annotation(offer, option))


def _annotation(offer: Offer, option: PartOption) -> object:
    settings = list(option.owners.values())
    kind = _kind(option.field, settings[0])
    make = partial(typer.Option, help=_help(offer, option), rich_help_panel=PANELS[option.family])
    if kind == "bool":
        both = f"{option.flag}/--no-{option.flag.removeprefix('--')}"
        return Annotated[bool | None, make(both)]
    if kind == "numbers":
        return Annotated[str | None, make(option.flag, metavar="FILE")]
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


def _help(offer: Offer, option: PartOption) -> str:
    """The words of the declarations, and whose they are: ``Passes (particle-filter: 1)``."""
    groups: dict[str, dict[str, list[str]]] = {}
    for owner, said in option.owners.items():
        shown = groups.setdefault(said.help, {}).setdefault(_default(said.default), [])
        shown.append(hyphened(owner))
    texts = []
    for words, by_default in groups.items():
        if option.field == "init":
            words = f"{words}: {', '.join(offer.start_names())}, or {offer.words['init']}"
        everyone = len(offer.family(option.family))
        notes = [_whose(owners, default, everyone) for default, owners in by_default.items()]
        note = "; ".join(note for note in notes if note)
        texts.append(f"{words[:1].upper()}{words[1:]}{f' ({note})' if note else ''}")
    return "; ".join(texts) + "."


def _whose(owners: list[str], default: str, everyone: int) -> str:
    own = "" if len(owners) == everyone else ", ".join(owners)
    return ": ".join(part for part in (own, default) if part)


def _default(default: object) -> str:
    """A default in a word or two; nothing where the help says what happens."""
    if not isinstance(default, str | int | float):
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return hyphened(default) if isinstance(default, str) else f"{default:g}"


class Given:
    """The options of parts that were given on a command line."""

    def __init__(self, offer: Offer, taken: Container[str], values: Mapping[str, object]) -> None:
        self.offer, self.values = offer, values
        self.options = [o for o in part_options(offer, taken) if values.get(o.name) is not None]

    def likelihood_name(self) -> str:
        """The likelihood that was named; the first that has the settings that were given, where
        "auto" was left to find one."""
        name = str(self.values["likelihood"])
        own = [set(one.owners) for one in self.options if one.family == "likelihood"]
        if name != AUTO or not own:
            return name
        able = [each for each in self.offer.family("likelihood") if all(each in o for o in own)]
        if not able:
            raise ValueError("No likelihood has all the settings given; name one by --likelihood.")
        return hyphened(STANDARD if STANDARD in able else able[0])

    def likelihood_told(self) -> list[str]:
        """Which likelihood was found by its settings, and by which, in a sentence if it was."""
        own = [one for one in self.options if one.family == "likelihood"]
        if str(self.values["likelihood"]) != AUTO or not own:
            return []
        flags = " and ".join(one.flag for one in own)
        found = LIKELIHOODS[self.likelihood_name().replace("-", "_")].__name__
        return [f"{found}, since it has {flags}."]

    def part(self, family: str, name: str = "") -> Any:
        """The prior or likelihood that was named, with those of its settings that were given."""
        name = name or str(self.values[family])
        registered = name.replace("-", "_")
        return FAMILIES[family][registered](**self._changes(family, registered, name))

    def engine(self, model: Model | None) -> AnyEngine:
        """The engine that was named, or "auto" tries first for the model, with its settings."""
        name = str(self.values["engine"])
        return self._with_settings(choose_engine(name, model), name)

    def engine_for(
        self, model: Model, X: np.ndarray | csr_array | Source, seconds: float | None
    ) -> EngineChoice:
        """The engine that suits the model and the data, with its settings, and why."""
        sparse = is_sparse(X)
        if isinstance(X, Source):
            gaps = X.survey.missing > 0
        else:
            gaps = not sparse and bool(np.isnan(X).any())
        found = auto_engine(model, sparse, gaps, (X.shape[0], X.shape[1]), seconds)
        return EngineChoice(self._with_settings(found.engine, AUTO), found.why)

    def _with_settings(self, engine: AnyEngine, name: str) -> AnyEngine:
        registered = ENGINES.name_of(engine)
        if name == AUTO:
            name = f"{hyphened(registered)} (chosen by auto)"
        return engine.replace(**self._changes("engine", registered, name))

    def _changes(self, family: str, registered: str, name: str) -> dict[str, Any]:
        """The settings of a part as given; those of others are refused."""
        changes = {}
        for option in (one for one in self.options if one.family == family):
            said = option.owners.get(registered)
            if said is None:
                owners = " or ".join(map(hyphened, option.owners))
                raise ValueError(
                    f"{option.flag} belongs to --{family} {owners}; {name} has no such setting."
                )
            changes[option.field] = self._value(option, said, self.values[option.name])
        return changes

    def _value(self, option: PartOption, said: Setting, value: object) -> object:
        kind = _kind(option.field, said)
        if kind == "start":
            return read_init(str(value), self.offer)
        if kind == "numbers":
            return read_numbers(str(value))
        value = None if value == NONE and "None" in said.kinds else value
        value = str(value) if isinstance(value, StrEnum) else value
        return check_setting(option.flag, option.field, said, value) if said.help else value


def read_init(text: str, offer: Offer) -> object:
    """A start by name, or the model or table in a file."""
    suffix = Path(text.split(".npz:")[0]).suffix.lower()
    if suffix == ".thali":
        return load_model(Path(text))
    if suffix in {".csv", ".tsv", ".npy", ".npz", ".parquet"} or ".npz:" in text:
        return offer.start_in(read_table(text).values)
    return text


def read_numbers(text: str) -> tuple[float, ...]:
    """All numbers of a table without names."""
    header = False if Path(text).suffix.lower() in {".csv", ".tsv"} else None
    return tuple(np.ravel(read_table(text, header=header).values).tolist())


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
