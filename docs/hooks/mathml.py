r"""Formulas as MathML: $...$ within a line and $$...$$ on their own, through latex2mathml.

The browser draws MathML by itself, so the site needs no script and no font from elsewhere.
A formula is taken out of the Markdown before it is read, since _ and * mean something else there,
and put back into the finished HTML. Code spans and fenced blocks are left as they are.
"""

from __future__ import annotations

import re
from html import escape

from latex2mathml.converter import convert

CODE_OR_MATH = re.compile(
    r"""
    (?P<code> ^(?P<fence>[ ]*(?:```+|~~~+)).*?^(?P=fence)[ ]*$   # a fenced block
            | (?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`) )       # a code span
    | \$\$ (?P<display> .+? ) \$\$
    | (?<![\\$\w]) \$ (?P<inline> [^\s$] (?: [^$\n]*? [^\s$\\] )? ) \$ (?![\w$])
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
TOKEN = re.compile(r"xMATHMLx(\d+)x")

# What the converter leaves tight or loose: named functions, ∼, a transpose, a slash.
SPACING = [
    (re.compile(r"<mi>(log|ln|exp|min|max)</mi>"), r'<mo lspace="0.17em" rspace="0.17em">\1</mo>'),
    (re.compile(r"<mi>&#x0007E;</mi>"), "<mo>&#x0223C;</mo>"),
    (re.compile(r"<mo>&#x022A4;</mo>"), "<mi>&#x022A4;</mi>"),
    (re.compile(r"<mo>&#x0002F;</mo>|<mo>/</mo>"), '<mo lspace="0" rspace="0">/</mo>'),
]

_formulas: dict[str, list[str]] = {}


def mathml(latex: str, *, display: bool) -> str:
    """One formula; the LaTeX stays in the page as the text that a copy or a reader gets."""
    made = convert(latex.strip(), display="block" if display else "inline")
    for pattern, better in SPACING:
        made = pattern.sub(better, made)
    made = made.replace("<math ", f'<math alttext="{escape(latex.strip(), quote=True)}" ', 1)
    return f'<span class="thali-math">{made}</span>' if display else made


def on_page_markdown(markdown: str, *, page, config, files) -> str:
    found: list[str] = []
    _formulas[page.file.src_uri] = found

    def take(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        latex = match["display"] or match["inline"]
        found.append(mathml(latex, display=match["display"] is not None))
        return f"xMATHMLx{len(found) - 1}x"

    return CODE_OR_MATH.sub(take, markdown)


def on_page_content(html: str, *, page, config, files) -> str:
    found = _formulas.pop(page.file.src_uri, [])
    return TOKEN.sub(lambda match: found[int(match[1])], html)
