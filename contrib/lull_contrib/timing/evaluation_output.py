# SPDX-License-Identifier: GPL-2.0-only
"""Show an evaluation of modelled time: tables, a picture, and the files timing.md and timing.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lull import cache, picture
from lull.judge import tables
from lull.judge.tables import Grid, number, ratio
from lull.judge.thresholds import STOCK
from lull_contrib.timing.evaluation import KERNELS, LULL, SWEEP, Point, TimingEvaluation, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "timing.svg"
NEAR = 1.6
"""Lines of the picture that end at times within this factor of each other would have overlapping names."""


def grids(found: TimingEvaluation) -> list[Grid]:
    """The tables of an evaluation; an empty table is left out."""
    made = [costs_grid(found)]
    if found.points:
        made.append(sweep_grid(found))
    if found.outcomes:
        made.append(published_grid(found))
    if found.checks:
        made.append(tables.checks_grid(found.checks))
    return made


def costs_grid(found: TimingEvaluation) -> Grid:
    """The table of the model's costs and their sources."""
    costs = asdict(found.model.costs)
    rows = tuple((name, found.model.sources.get(name, ""), f"{value:g}") for name, value in costs.items())
    return Grid(f"{found.model.name}: {found.model.about}", ("cost", "from", "ns"), rows, 2)


def sweep_grid(found: TimingEvaluation) -> Grid:
    """The table of seconds of an operation by number of CPUs: modelled, simulated, and the difference as a share."""
    points = {(point.kernel, point.cpus): point for point in found.points}
    kernels = [kernel for kernel in KERNELS if any(point.kernel == kernel for point in found.points)]
    rows = []
    for cpus in sorted({point.cpus for point in found.points}):
        cells = [str(cpus)]
        for kernel in kernels:
            point = points.get((kernel, cpus))
            cells += _cells(point) if point else ["", "", ""]
        ends = [points.get((kernel, cpus)) for kernel in (STOCK, LULL)]
        stock, lull = (end and (end.simulated if end.modelled is None else end.modelled) for end in ends)
        rows.append((*cells, ratio(stock / lull) if stock and lull else ""))
    header = ["CPUs"]
    for kernel in kernels:
        header += [kernel.rpartition("=")[2], "simulated", "off"]
    title = f"{SWEEP}: an mprotect as the CPU sees it that does it, all CPUs at once (modelled time)"
    most = max(point.measured.vcpus for point in found.points)
    notes = ["off: simulated to modelled; ratio: stock to lull."]
    if any(point.modelled is None for point in found.points):
        notes.append(f"More than {most} CPUs were only simulated, from the counts at {most}.")
    return Grid(title, (*header, "ratio"), tuple(rows), 1, tuple(notes))


def _cells(point: Point) -> list[str]:
    if point.modelled is None or point.off is None:
        return ["", number(point.simulated, "s"), ""]
    return [number(point.modelled, "s"), number(point.simulated, "s"), f"{point.off:+.1%}"]


def published_grid(found: TimingEvaluation) -> Grid:
    """The table of published numbers, the model's numbers, and the difference as a share."""
    rows, notes = [], []
    for outcome in found.outcomes:
        figure = outcome.figure
        rows.append(
            (
                figure.what,
                "fitted" if figure.calibrated else "test",
                outcome.how,
                shown(figure, figure.published),
                "" if outcome.modelled is None else shown(figure, outcome.modelled),
                "" if outcome.residual is None else f"{outcome.residual:+.1%}",
                "" if outcome.lull is None else shown(figure, outcome.lull),
            )
        )
        if figure.note:
            notes.append(f"{figure.what}: {figure.note}")
    header = ("figure", "use", "modelled by", "published", "modelled", "residual", "Lull")
    return Grid(f"{found.model.name}: published and modelled", header, tuple(rows), 3, tuple(notes))


def how_to_read() -> str:
    """The lines under the tables."""
    return (
        "How to read this: modelled time is the counts of a run times the costs above, broadcasts one after the other; "
        "it is no machine's. Costs were fitted to the figures that say so, the others test them. Not modelled: caches, "
        "page walks, the way of an IPI, locks handed over (docs/timing.md)."
    )


def markdown(found: TimingEvaluation, address: str = "") -> str:
    """The tables as Markdown, with the picture at ``address`` when one is given."""
    parts = [tables.grid_markdown(grid) for grid in grids(found)]
    if address:
        parts.insert(1, f"![Time of an mprotect against CPUs, modelled and simulated]({address})")
    return "\n\n".join([*parts, f"*{how_to_read()}*"]) + "\n"


def as_json(found: TimingEvaluation) -> str:
    """The text of timing.json: all results, in seconds, shares and counts."""
    points = [
        {
            "kernel": point.kernel,
            "cpus": point.cpus,
            "modelled": point.modelled,
            "modelled_spread": None if point.modelled is None else point.measured.spread,
            "simulated": point.simulated,
            "off": point.off,
            "counted_at": point.measured.vcpus,
            "counts": asdict(point.measured.counts),
        }
        for point in found.points
    ]
    figures = [{**asdict(outcome), "residual": outcome.residual} for outcome in found.outcomes]
    checks = [asdict(check) for check in found.checks]
    made = {"model": asdict(found.model), "workload": SWEEP, "points": points, "figures": figures, "checks": checks}
    return json.dumps(made, indent=1) + "\n"


def picture_svg(found: TimingEvaluation) -> str:
    """The picture: seconds of an operation against CPUs. Modelled: solid lines with dots. Simulated: dashed lines.

    Raises: ValueError when there is nothing to draw.
    """
    if not found.points:
        raise ValueError(f"{SWEEP} was not measured: there is nothing to draw")
    with picture.drawing(5.6, 3.9, clear=True) as (figure, text):
        axes = figure.subplots()
        for kernel, (colour, marker) in picture.looks(KERNELS).items():
            mine = [point for point in found.points if point.kernel == kernel]
            ran = [(point.cpus, point.modelled) for point in mine if point.modelled is not None]
            if not ran:
                continue
            dashed = [(point.cpus, point.simulated) for point in mine]
            axes.plot(*zip(*ran, strict=True), marker + "-", ms=4.5, lw=1.6, color=colour)
            axes.plot(*zip(*dashed, strict=True), "--", lw=1.2, color=colour)
        _name_ends(axes, found)
        axes.plot([], [], "o-", ms=4.5, lw=1.6, color=picture.GREY, label="modelled: a run of so many vCPUs")
        axes.plot([], [], "--", lw=1.2, color=picture.GREY, label="simulated from the run's counts")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = sorted({point.cpus for point in found.points})
        axes.set_xticks(ticks, [str(cpus) for cpus in ticks])
        axes.set_xlabel("CPUs, each in an mprotect loop")
        axes.set_ylabel(f"an mprotect, modelled ({found.model.name})")
        axes.yaxis.set_major_formatter(lambda seconds, _: number(seconds, "s"))
        axes.minorticks_off()
        axes.grid(color=picture.GREY, alpha=0.2, lw=0.5)
        axes.legend(frameon=False, loc="upper left", fontsize=8)
        return text()


def _name_ends(axes: Axes, found: TimingEvaluation) -> None:
    """Write the kernels' names at the ends of their lines, above or below the line where two are near each other."""
    last = {point.kernel: point for point in found.points}
    ends = sorted(last.values(), key=lambda point: point.simulated)
    looks = picture.looks(KERNELS)
    for place, end in enumerate(ends):
        below = place > 0 and end.simulated < NEAR * ends[place - 1].simulated
        above = place + 1 < len(ends) and ends[place + 1].simulated < NEAR * end.simulated
        axes.annotate(
            f" {end.kernel.rpartition('=')[2]} {number(end.simulated, 's')}",
            (end.cpus, end.simulated),
            color=looks[end.kernel][0],
            va="bottom" if below else "top" if above else "center",
        )


def write(found: TimingEvaluation, folder: Path) -> None:
    """Write timing.json, timing.md and, if SWEEP was measured, the picture to ``folder``."""
    if found.points:
        cache.write_atomic(folder / PICTURE, picture_svg(found))
    cache.write_atomic(folder / "timing.md", markdown(found, PICTURE if found.points else ""))
    cache.write_atomic(folder / "timing.json", as_json(found))


def print_evaluation(found: TimingEvaluation, folder: Path) -> None:
    """Print the tables, and the paths of the results."""
    console = tables.make_console()
    for grid in grids(found):
        tables.show_grid(console, grid)
        console.print()
    console.print(how_to_read(), style="dim", markup=False)
    console.print(f"results: {folder}/timing.json, timing.md; runs: {folder}/vcpus-*", markup=False, soft_wrap=True)
