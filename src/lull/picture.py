# SPDX-License-Identifier: GPL-2.0-only
"""Pictures as SVG text: how they look, and that the same data gives the same text.

matplotlib is imported where it is used, so that nothing else waits for it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = "#808080"
"""A colour that can be read on a light page and on a dark one."""
PAPER = "#fefefe"
"""What is the page's own colour there."""
SERIES = ("#d1603d", "#a8862b", "#3b82c4", "#3f9d7c", "#9d6fb5", "#c2618f")
"""Dark enough for a light page, light enough for a dark one, and told apart by who does not see red from green."""
MARKERS = "osDv^P"
"""Of the series, for those who see no colours at all."""
FIRST = ("stock", "lull+residency=sticky", "lull")
"""The kernels that have the same look in every picture."""
FONT = re.compile(r"(?<=[\" ])font-family: [^;\"]*;? ?")


def looks(kernels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each kernel."""
    others = [kernel for kernel in kernels if kernel not in FIRST]
    places = {kernel: FIRST.index(kernel) for kernel in kernels if kernel in FIRST}
    rest = len(SERIES) - len(FIRST)
    places |= {kernel: len(FIRST) + number % rest for number, kernel in enumerate(others)}
    return {kernel: (SERIES[places[kernel]], MARKERS[places[kernel]]) for kernel in kernels}


def inline(svg: str, number: int, about: str) -> str:
    """A picture for a page: as wide as there is room, in the page's font, its colours named by CSS variables.

    Args:
        svg: of ``drawing``.
        number: of the picture in its page, so that no two have the same ids.
        about: what it shows, for who cannot see it.
    """
    svg = re.sub(r"\s*<metadata>.*?</metadata>|\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>p{number}-", svg)
    svg = FONT.sub("", svg).replace("xlink:href", "href")
    colours = {GREY: "ink", PAPER: "paper", **{colour: f"s{place}" for place, colour in enumerate(SERIES)}}
    for colour, name in colours.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None  # matplotlib always writes one
    head = f'<svg class="plot" role="img" aria-label={quoteattr(about)} {box[0]}>'
    return head + svg[svg.index(">") + 1 :]


@contextlib.contextmanager
def drawing(width: float, height: float, *, clear: bool = False) -> Iterator[tuple[Figure, Callable[[], str]]]:
    """A figure of so many inches to draw on, and what gives its SVG text, fit to stand inside HTML, in the end.

    Args:
        width, height: inches.
        clear: without a background, its text in grey: for light and dark pages.
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
            "text.color": ink,
            "axes.edgecolor": ink,
            "axes.labelcolor": ink,
            "xtick.color": ink,
            "ytick.color": ink,
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
