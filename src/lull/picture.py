# SPDX-License-Identifier: GPL-2.0-only
"""Draw pictures as SVG text, with the same look everywhere. The same data gives the same text.

matplotlib is imported inside functions, because importing it takes long and most commands draw nothing.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from lull import base

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = "#808080"
"""A colour for text and axes that is readable on light and on dark pages."""
PAPER = "#fefefe"
"""Stands for the background colour of the page: ``inline`` replaces it with a CSS variable."""
COLOURS = ("#d1603d", "#a8862b", "#3b82c4", "#3f9d7c", "#9d6fb5", "#c2618f")
"""Colours of lines and bars: readable on light and dark pages, distinct for readers with red-green colour blindness."""
MARKERS = "osDv^P"
"""Markers of the same, for readers who see no colours."""
FIRST = ("stock", *base.load_base().rival_policies(), "lull")
"""The kernels that have the same colour and marker in every picture."""
FONT = re.compile(r"(?<=[\" ])font-family: [^;\"]*;? ?")


def looks(kernels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each kernel."""
    others = [kernel for kernel in kernels if kernel not in FIRST]
    places = {kernel: FIRST.index(kernel) for kernel in kernels if kernel in FIRST}
    rest = len(COLOURS) - len(FIRST)
    places |= {kernel: len(FIRST) + number % rest for number, kernel in enumerate(others)}
    return {kernel: (COLOURS[places[kernel]], MARKERS[places[kernel]]) for kernel in kernels}


def inline(svg: str, number: int, about: str) -> str:
    """A picture for use in an HTML page: as wide as there is room, in the page's font, with CSS variables as colours.

    Args:
        svg: the text that ``drawing`` gave.
        number: the number of the picture in the page; it becomes part of ids, which must be unique.
        about: what the picture shows, for screen readers.
    """
    svg = re.sub(r"\s*<metadata>.*?</metadata>|\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>p{number}-", svg)
    svg = FONT.sub("", svg).replace("xlink:href", "href")
    colours = {GREY: "ink", PAPER: "paper", **{colour: f"s{place}" for place, colour in enumerate(COLOURS)}}
    for colour, name in colours.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None  # matplotlib always writes one
    head = f'<svg class="plot" role="img" aria-label={quoteattr(about)} {box[0]}>'
    return head + svg[svg.index(">") + 1 :]


@contextlib.contextmanager
def drawing(width: float, height: float, *, clear: bool = False) -> Iterator[tuple[Figure, Callable[[], str]]]:
    """Yield a figure to draw on, and a function that returns its SVG text, an ``<svg>`` element for use in HTML.

    Args:
        width, height: the size of the figure in inches.
        clear: no background, and text in GREY, for light and dark pages.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ink = GREY if clear else "black"
    with matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "lull",
            "text.parse_math": False,  # a name may have two dollars
            "font.family": "sans-serif",
            "font.size": 9.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink),
        }
    ):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)

        def text() -> str:
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None}, transparent=clear)
            found = file.getvalue()
            return found[found.index("<svg") :]

        yield figure, text
