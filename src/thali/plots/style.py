"""How every picture looks: one palette, one hand for axes, names made safe to draw.

Colors are Okabe and Ito's, told apart by color-blind eyes. Both color maps fade to
transparent at zero, so that a picture reads on white and on dark paper alike:
`p in [0, 1] -> blue at opacity p` and `v in [-1, 1] -> vermillion | blue at opacity |v|`.
Nothing here touches pyplot, the backend or rcParams.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

BLUE = "#2078b4"
VERMILLION = "#d55e00"
CHAINS = (BLUE, "#e08a00", "#009e73", "#c2609a", "#5a4fcf", "#56a8d9", "#8c6d31", "#7f7f7f")


class Inks(NamedTuple):
    """The neutral colors of a picture: text, quiet text, hairlines, paper."""

    ink: str
    quiet: str
    rule: str
    paper: str


ON_WHITE = Inks("#1c2733", "#5b6875", "#d5dbe1", "#ffffff")
ON_DARK = Inks("#e8ecf0", "#a3afbb", "#3c4650", "#14181d")


def inks(ax: Axes) -> Inks:
    """The inks that can be read on the paper of `ax`, also when its figure is somebody else's."""
    from matplotlib.colors import to_rgba

    for color in (ax.get_facecolor(), ax.figure.get_facecolor()):
        r, g, b, opacity = to_rgba(color)
        if opacity > 0.5:
            return ON_WHITE if 0.299 * r + 0.587 * g + 0.114 * b > 0.5 else ON_DARK
    return ON_WHITE


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of its own (inches), known to no backend; notebooks show it as a picture."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from .canvas import Picture

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    return Picture(figsize=(width, height), dpi=120, layout=layout, facecolor=ON_WHITE.paper)


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """`ax` itself, or the only axes of a new figure."""
    return ax or new_figure(width, height).add_subplot(facecolor=ON_WHITE.paper)


def tidy(ax: Axes, title: str = "", note: str = "") -> Inks:
    """Axes with two hairline spines, small quiet ticks, and a title with a quiet remark."""
    colors = inks(ax)
    for side, spine in ax.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=colors.rule, linewidth=0.8)
    ax.tick_params(
        length=3, width=0.8, color=colors.rule, labelcolor=colors.quiet, labelsize=8, which="both"
    )
    ax.grid(False)
    in_line = 0.09 * len(title) + 0.065 * len(note) + 0.2 < inches(ax)[0]
    below = bool(note) and not in_line
    if title:
        pad = 20 if below else 8
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold", color=colors.ink, pad=pad)
    if note and below:
        ax.annotate(
            note, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points",
            fontsize=8, color=colors.quiet,
        ).set_in_layout(False)  # fmt: skip
    elif note:
        ax.set_title(note, loc="right", fontsize=8, color=colors.quiet, pad=8)
    return colors


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes, about: the layout is known only when the figure is drawn."""
    box, figure = ax.get_position(), ax.figure
    return figure.bbox.width * box.width / figure.dpi, figure.bbox.height * box.height / figure.dpi


def ticks(n: int, most: int) -> list[int]:
    """Numbers (from 0) of at most about `most` of n things, at round numbers counted from 1.

    >>> ticks(4, 10), ticks(100, 5)
    ([0, 1, 2, 3], [0, 19, 39, 59, 79, 99])
    """
    steps = (m * 10**e for e in range(12) for m in (1, 2, 5))
    step = next(s for s in steps if n / s <= most)
    return ([0] if step > 2 else []) + list(range(step - 1, n, step))


def percent(share: float) -> str:
    """A share in percent, never 0% for something nor 100% for not all.

    >>> percent(0.5), percent(0.0004), percent(0.9999), percent(1.0)
    ('50%', '<1%', '>99%', '100%')
    """
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def label(ax: Axes, x: str = "", y: str = "") -> None:
    """Axis labels in quiet ink."""
    quiet = inks(ax).quiet
    ax.set_xlabel(x, fontsize=8.5, color=quiet)
    ax.set_ylabel(y, fontsize=8.5, color=quiet)


def bare(ax: Axes, title: str = "", note: str = "") -> Inks:
    """Axes without spines and ticks: paper for images."""
    colors = tidy(ax, title, note)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    return colors


def say(ax: Axes, title: str, sentence: str) -> Axes:
    """A panel that has nothing to draw says why."""
    colors = bare(ax, title)
    ax.text(
        0.5, 0.5, sentence, transform=ax.transAxes, ha="center", va="center",
        fontsize=9, color=colors.quiet, wrap=True,
    )  # fmt: skip
    return ax


NO_FEATURES = "No features: noise alone\nexplains these data best."


def color_map(signed: bool) -> Colormap:
    """p in [0, 1] -> blue at opacity p; v in [-1, 1] -> vermillion | blue at opacity |v|."""
    from matplotlib.colors import ListedColormap, to_rgb

    values = np.linspace(-1, 1, 255) if signed else np.linspace(0, 1, 256)
    table = np.empty((len(values), 4))
    table[:, :3] = np.where(values[:, None] < 0, to_rgb(VERMILLION), to_rgb(BLUE))
    # An exponent below 1 keeps faint values visible on white.
    table[:, 3] = np.abs(values) ** 0.85
    return ListedColormap(table, name="thali_signed" if signed else "thali_probability")


def plain(text: object, longest: int = 24) -> str:
    """A name from the data as one short line: control characters out, `…` where it was cut.

    `longest` counts Latin letters; Chinese, Japanese and Korean ones are twice as wide.

    >>> plain("a\\nvery   long name", 10)
    'a very lo…'
    """
    text = str(text)[: 8 * longest]  # a cell may hold a book
    # Cc: control, Cs: lone surrogate, Co, Cn: no agreed meaning. Joiners (Cf) shape words: kept.
    bad = ("Cc", "Cs", "Co", "Cn")
    kept = (c for c in text if c.isspace() or unicodedata.category(c) not in bad)
    line = " ".join("".join(kept).split()) or "·"
    if width_of(line) <= longest:
        return line
    while line and width_of(line) > longest - 1:
        line = line[:-1]
    return line.rstrip() + "…"


def width_of(line: str) -> int:
    """Width of a line in Latin letters."""
    return len(line) + sum(unicodedata.east_asian_width(c) in "WF" for c in line)


def drawable(text: object, longest: int = 24) -> str:
    """`plain`, with the dollar signs kept from starting a formula."""
    return plain(text, longest).replace("$", r"\$")


def fonts(texts: Iterable[str]) -> list[str]:
    """Installed font families that together have a glyph for every character of `texts`."""
    return list(_covering(frozenset(c for c in "".join(texts) if not c.isspace())))


@lru_cache(maxsize=64)
def _covering(missing: frozenset[str]) -> tuple[str, ...]:
    """The default, then others picked greedily, Noto first; opening them is slow: regular only."""
    from matplotlib.font_manager import findfont, fontManager
    from matplotlib.ft2font import FT2Font

    regular = [
        f for f in fontManager.ttflist if f.style == "normal" and f.weight in (400, "normal")
    ]
    regular.sort(key=lambda f: ("Sans" not in f.name, "Noto" not in f.name, f.name))
    found = ["DejaVu Sans"]
    for family, path in [(found[0], findfont(found[0])), *((f.name, f.fname) for f in regular)]:
        if not missing:
            break
        try:
            font = FT2Font(path)
        except (OSError, RuntimeError):
            continue
        covered = frozenset(c for c in missing if font.get_char_index(ord(c)))
        if covered:
            found.append(family)
            missing -= covered
    return tuple(dict.fromkeys(found))


def blocks(length: int, most: int) -> np.ndarray:
    """Starts of at most `most` nearly equal blocks of `range(length)`.

    >>> blocks(10, 4).tolist()
    [0, 2, 5, 7]
    """
    return (np.arange(min(length, most)) * length) // min(length, most)


def envelope(values: np.ndarray, most: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of a long series, thinned so that every peak and dip stays.

    >>> x, y = envelope(np.eye(1, 10_000, 4_321)[0], most=100)
    >>> len(x) <= 200, float(y.max())
    (True, 1.0)
    """
    if len(values) <= 2 * most:
        return np.arange(len(values)), values
    starts = blocks(len(values), most)
    low, high = (extreme.reduceat(values, starts) for extreme in (np.fmin, np.fmax))
    return np.repeat(starts, 2), np.stack([low, high], axis=1).ravel()


def block_means(values: np.ndarray, most: int, axis: int) -> np.ndarray:
    """Means of at most `most` nearly equal blocks along an axis; a shorter one as it is."""
    length = values.shape[axis]
    if length <= most:
        return values
    starts = blocks(length, most)
    sizes = np.diff(np.append(starts, length))
    sums = np.add.reduceat(values, starts, axis=axis)
    return np.moveaxis(np.moveaxis(sums, axis, -1) / sizes, -1, axis)
