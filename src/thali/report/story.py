"""What the report tells of one latent structure, beside what it tells of every fit."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from thali.structures.base import AnyStructure

from .markup import Markup, plural

Shape = tuple[int, int] | None  # of rows that are drawn as images
Write = Callable[[Any, Shape], list[Markup]]  # a fitted model to pieces of a section


class Story(NamedTuple):
    """A title, a sentence, the sections in their order (id → heading, writer).

    ``draws_rows`` tells whether rows may be drawn as images.
    """

    title: str
    lede: Callable[[Any], str]
    sections: Mapping[str, tuple[str, Write]]
    draws_rows: bool = False


def found_in(model: Any) -> str:
    """`3 clusters found in 150 rows of 4 numbers`, whatever the components are called."""
    n, d = model.X_.shape
    found = plural(model.n_components_, model.structure.component)
    return f"{found} found in {plural(n, 'row')} of {plural(d, 'number')}"


def plain_story(structure: AnyStructure) -> Story:
    """The story of a structure that nobody wrote one for."""
    return Story(f"Latent {structure.name}", lambda model: f"{found_in(model)}.", {})
