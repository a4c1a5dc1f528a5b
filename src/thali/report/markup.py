"""HTML made of escaped pieces: what is not `Markup` already is text, and text is always escaped."""

import html
import math
from collections.abc import Iterable, Sequence

from thali.plots.style import plain


class Markup(str):
    """HTML that is safe to put in the page as it stands."""


def esc(value: object) -> Markup:
    """`value` as HTML: markup unchanged, anything else escaped.

    >>> esc("a < b"), esc(Markup("<b>"))
    ('a &lt; b', '<b>')
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def name(text: object, longest: int = 80) -> Markup:
    """A name from the data: one line, no control characters, its writing direction its own."""
    return Markup(f"<bdi>{esc(plain(text, longest))}</bdi>")


def join(parts: Iterable[object], between: str = "\n") -> Markup:
    """Pieces of text or markup in a row."""
    return Markup(between.join(esc(part) for part in parts))


def tag(element: str, *content: object, **attributes: object) -> Markup:
    """`<element ...>content</element>`; `class_` stands for `class`, None leaves one out.

    >>> tag("p", "1 < 2", class_="quiet")
    '<p class="quiet">1 &lt; 2</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{element}{written}>{join(content, '')}</{element}>")


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], kind: str | None = None
) -> Markup:
    """A table in a box of its own that scrolls sideways; the first cell of a row heads it.

    A cell is text, markup, or a whole `<td>` made with `tag`.
    """
    heads = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    lines = []
    for first, *rest in rows:
        cells = [c if esc(c).startswith("<td") else tag("td", c) for c in rest]
        lines.append(tag("tr", tag("th", first, scope="row"), *cells))
    inner = (tag("caption", tag("span", caption)), heads, tag("tbody", join(lines)))
    return scrolling(tag("table", *inner, class_=kind), caption)


def scrolling(content: Markup, words: str) -> Markup:
    """A box that scrolls sideways, with words for those who cannot see it."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=words)


def facts(pairs: Iterable[tuple[str, object]], kind: str) -> Markup:
    """A list of names and values."""
    found = [join((tag("dt", key), tag("dd", value)), "") for key, value in pairs]
    return tag("dl", join(tag("div", p) if kind == "tiles" else p for p in found), class_=kind)


def section(id_: str, title: str, *content: object) -> Markup:
    """A titled section that the navigation can point to."""
    heading = tag("h2", title, id=f"{id_}-title")
    return tag("section", join((heading, *content)), id=id_, aria_labelledby=f"{id_}-title")


def number(value: float, digits: int = 3) -> str:
    """A number for people: `digits` significant ones, thousands apart, a true minus sign.

    >>> number(-1234.567), number(0.04567), number(1), number(2e-13, 2), number(-2981.33, 5)
    ('−1,235', '0.0457', '1.00', '2.0e−13', '−2,981.3')
    """
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if size == 0:
        return "0"
    if 1e-4 <= size < 1e15:
        places = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:,.{places}f}"
    else:
        text = f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
