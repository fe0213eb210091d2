# SPDX-License-Identifier: GPL-2.0-only
"""Pictures as SVG text: how they look, and that the same data gives the same text.

matplotlib is imported where it is used, so that nothing else waits for it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = "#808080"
"""A colour that can be read on a light page and on a dark one."""


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
