"""From the words of the command line to the parts of a model: priors, engines, columns, shapes."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = [
    "Engine",
    "Expansion",
    "Heuristic",
    "Likelihood",
    "Order",
    "Prior",
    "Proposal",
    "Solver",
    "given",
    "load_model",
    "read_columns",
    "read_engine",
    "read_image_shape",
    "read_init",
    "read_likelihood",
    "read_prior",
    "read_time_budget",
    "with_hyphens",
]


NAMING = (
    "--prior",
    "--likelihood",
    "--engine",
    "--solver",
    "--heuristic",
    "--expansion",
    "--order",
)  # options whose values are names of parts


class Prior(StrEnum):
    """Names of the priors on this command line."""

    ibp = "ibp"
    two_parameter_ibp = "two-parameter-ibp"
    beta_bernoulli = "beta-bernoulli"


class Likelihood(StrEnum):
    """Names of the likelihoods on this command line."""

    linear_gaussian = "linear-gaussian"
    nonnegative_linear_gaussian = "nonnegative-linear-gaussian"
    sparse_factor = "sparse-factor"
    noisy_or = "noisy-or"


class Engine(StrEnum):
    """Names of the engines on this command line."""

    auto = "auto"
    collapsed_gibbs = "collapsed-gibbs"
    uncollapsed_gibbs = "uncollapsed-gibbs"
    particle_filter = "particle-filter"
    variational = "variational"
    maximization_expectation = "maximization-expectation"
    beam_search = "beam-search"


class Proposal(StrEnum):
    """Names of a particle filter's proposals."""

    conditional = "conditional"
    prior = "prior"


class Solver(StrEnum):
    """Names of the solvers of a row in maximization-expectation."""

    best = "best"
    local_search = "local-search"
    double_greedy = "double-greedy"
    randomized_double_greedy = "randomized-double-greedy"
    exact = "exact"


class Heuristic(StrEnum):
    """Names of what a search takes rows to come to add."""

    auto = "auto"
    inadmissible = "inadmissible"
    trivial = "trivial"
    admissible = "admissible"
    cluster = "cluster"
    neighbor = "neighbor"
    neighbors_or = "neighbors-or"


class Expansion(StrEnum):
    """Names of the ways in which a search looks at the rows that may follow."""

    auto = "auto"
    all = "all"
    within = "within"


class Order(StrEnum):
    """Names of the orders in which a search goes through the rows."""

    random = "random"
    given = "given"
    farthest_first = "farthest-first"


def with_hyphens(arguments: Sequence[str]) -> list[str]:
    """The arguments with names of parts as this command line spells them, not as Python does.

    >>> with_hyphens(["fit", "a_b.csv", "--prior", "beta_bernoulli", "--engine=particle_filter"])
    ['fit', 'a_b.csv', '--prior', 'beta-bernoulli', '--engine=particle-filter']
    """
    found: list[str] = []
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if equals and option in NAMING:
            argument = f"{option}={value.replace('_', '-')}"
        elif found and found[-1] in NAMING:
            argument = argument.replace("_", "-")
        found.append(argument)
    return found


def read_prior(
    name: Prior, alpha: float | None, beta: float | None, n_components: int | None
) -> Any:
    import thali

    if beta is not None and name is not Prior.two_parameter_ibp:
        raise ValueError(f"--beta belongs to --prior two-parameter-ibp; {name.value} has none.")
    if n_components is not None and name is not Prior.beta_bernoulli:
        raise ValueError(
            f"--n-components belongs to --prior beta-bernoulli; {name.value} infers the number."
        )
    classes = {
        Prior.ibp: thali.IBP,
        Prior.two_parameter_ibp: thali.TwoParameterIBP,
        Prior.beta_bernoulli: thali.BetaBernoulli,
    }
    return classes[name](**given(alpha=alpha, beta=beta, n_components=n_components))


def read_likelihood(name: Likelihood, **options: float | str | None) -> Any:
    """The likelihood with those of its settings that were given; others' are refused."""
    from thali.run.choices import LIKELIHOODS, named

    likelihood = named("likelihood", name.value, LIKELIHOODS)
    settings = given(**options)
    for setting in settings:
        if not hasattr(likelihood, setting):
            raise ValueError(f"--{setting.replace('_', '-')}: {name.value} has no such setting.")
    return likelihood.replace(**settings)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the library has the defaults of the others."""
    return {name: value for name, value in options.items() if value is not None}


def read_engine(
    name: Engine, settings: dict[str, Any], model: Any, say: Callable[[str], None]
) -> Any:
    from thali.run.choices import choose_engine

    engine = choose_engine(name.value, model).replace(**settings)
    if name is Engine.auto:
        say(f"engine: {type(engine).__name__} (chosen by auto)")
    return engine


def read_init(text: str | None) -> Any:
    """A start by name, or the model or table in a file."""
    if text is None:
        return None
    suffix = Path(text.split(".npz:")[0]).suffix.lower()
    if suffix == ".thali":
        return load_model(Path(text))
    if suffix in {".csv", ".tsv", ".npy", ".npz", ".parquet"} or ".npz:" in text:
        from thali.data.tables import read_table

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


def load_model(path: Path) -> Any:
    import thali
    from thali.data.tables import check_file

    check_file(path, "a saved model")
    return thali.load(path)
