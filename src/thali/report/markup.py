"""HTML made of escaped pieces: what is not `Markup` already is text, and text is always escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from thali.plots.style import plain


class Markup(str):
    """HTML that is safe to put in the page as it stands."""


def esc(value: Any) -> Markup:
    """`value` as HTML: markup unchanged, anything else escaped.

    >>> esc("a < b"), esc(Markup("<b>"))
    ('a &lt; b', '<b>')
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def name(text: Any, longest: int = 80) -> Markup:
    """A name from the data: one line, no control characters, its writing direction its own."""
    return Markup(f"<bdi>{esc(plain(text, longest))}</bdi>")


def join(parts: Iterable[Any], between: str = "\n") -> Markup:
    """Pieces of text or markup in a row."""
    return Markup(between.join(esc(part) for part in parts))


def tag(element: str, *content: Any, **attributes: Any) -> Markup:
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
    caption: Any, head: Sequence[Any], rows: Iterable[Sequence[Any]], kind: str = ""
) -> Markup:
    """A table in a box of its own that scrolls sideways; the first cell of a row heads it.

    A cell is text, markup, or a whole `<td>` made with `tag`.
    """
    heads = join((tag("th", cell, scope="col") for cell in head), "")
    lines = []
    for first, *rest in rows:
        cells = join((c if _is_cell(c) else tag("td", c) for c in rest), "")
        lines.append(tag("tr", tag("th", first, scope="row"), cells))
    body = tag("tbody", join(lines))
    inner = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", heads)),
        body,
        class_=kind or None,
    )
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _is_cell(cell: Any) -> bool:
    return isinstance(cell, Markup) and cell.startswith("<td")


def facts(pairs: Iterable[tuple[Any, Any]], kind: str) -> Markup:
    """A list of names and values."""
    return tag("dl", join(_fact(k, v, kind) for k, v in pairs), class_=kind)


def _fact(key: Any, value: Any, kind: str) -> Markup:
    pair = join((tag("dt", key), tag("dd", value)), "")
    return tag("div", pair) if kind == "tiles" else pair


def section(id_: str, title: str, *content: Any) -> Markup:
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


def percent(share: float) -> str:
    """A share in percent, never 0% for something nor 100% for not all.

    >>> percent(0.5), percent(0.0004), percent(0.9999), percent(1.0)
    ('50%', '<1%', '>99%', '100%')
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
