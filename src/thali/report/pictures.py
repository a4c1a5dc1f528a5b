"""Pictures inside the page: matplotlib figures as inline SVG, images as PNG of their own pixels.

SVG text stays text, so the browser's fonts draw every script; colors become the page's CSS
variables, so one picture serves light and dark. Namespaces and metadata go: a report has no address
of anything outside itself.
"""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, cast

import numpy as np

from thali.plots import style, tiles

from .markup import Markup, esc, scrolling, tag

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# color in the drawing -> CSS variable of the page
VARIABLES = {
    **{color: ink for ink, color in style.ON_WHITE._asdict().items()},
    style.VERMILLION: "vermillion",
    style.BLUE: "blue",
    **{color: f"chain{c + 1}" for c, color in enumerate(style.CHAINS) if c > 0},
}


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib's own defaults while the report is drawn, whatever the user's settings are."""
    import matplotlib.style

    options = {"svg.fonttype": "none", "svg.hashsalt": "thali", "savefig.bbox": None}
    with matplotlib.style.context(["default", options]), warnings.catch_warnings():
        # The browser finds the glyphs that matplotlib's fonts lack.
        warnings.filterwarnings("ignore", message="(?s).*[Gg]lyph.*")
        yield


def panel(height: float) -> Axes:
    """Axes of a figure as wide as a column of the page, so that 8 points stay readable."""
    return style.given_or_new(None, 3.7, height)


def svg(ax: Axes, name: str, words: str, wide: bool = False) -> Markup:
    """The figure of `ax` as inline SVG; `words` are read to those who cannot see it.

    A wide picture keeps its size and scrolls in its own box, so that it can be read on a phone.
    """
    figure = cast("Figure", ax.figure)
    figure.set_facecolor("none")
    for each in figure.axes:
        each.set_facecolor("none")
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    drawn = _inline(buffer.getvalue(), name, words)
    if not wide:
        return tag("figure", drawn)
    pixels = round(figure.get_figwidth() * 96)
    box = tag("figure", drawn, style=f"min-width:min({pixels}px, 60rem);max-width:{pixels}px")
    return scrolling(box, words)


def _inline(text: str, name: str, words: str) -> Markup:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    # Ids must be unique in the page: keep those that are pointed at, under the picture's name.
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r'\sid="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(#|href="#)([^")]+)', rf"\g<1>{name}-\g<2>", text)
    for color, variable in VARIABLES.items():
        text = re.sub(re.escape(color) + r"\b", f"var(--{variable})", text, flags=re.IGNORECASE)
    head = f'<svg role="img" aria-label="{esc(words)}"'
    # Points, not inches, are what the CSS scales; the page sets the width.
    text = re.sub(r'^<svg[^>]*?(viewBox="[^"]*")[^>]*>', rf"{head} \g<1>>", text)
    return Markup(text.strip())


def png(image: np.ndarray, scale: tiles.Scale, words: str) -> Markup:
    """An (h, w) array as an `<img>` of h x w pixels; the page enlarges it without blurring."""
    from matplotlib.image import imsave

    scaled = (tiles.shrink(image[None])[0] - scale.low) / (scale.high - scale.low)
    buffer = BytesIO()
    colors = scale.colors()(np.clip(scaled, 0, 1))
    # without the version in it, the same picture is the same bytes everywhere
    imsave(buffer, colors, format="png", metadata={"Software": None})  # type: ignore[dict-item]
    code = base64.b64encode(buffer.getvalue()).decode("ascii")
    h, w = scaled.shape
    return Markup(
        f'<img src="data:image/png;base64,{code}" width="{w}" height="{h}" alt="{esc(words)}">'
    )
