# SPDX-License-Identifier: GPL-2.0-only
"""The report's pictures of runs: each with its data, or not at all, and with how to read it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from lull import picture
from lull.guest.runner import WHOLE_ASID
from lull.judge import tables, thresholds
from lull.judge.thresholds import BROADCASTS, CONTROL, STOCK, RunSlice, is_of
from lull.run.records import Results
from lull.timing import METRIC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

SECONDS = (METRIC, "seconds_emulated", "seconds")
FEW = 0.005
"""Of an operation: TLBIs that are too few to be seen in a picture."""
MOST_ROWS = 14
ALIKE, CLIP = 1.05, 1.5
"""Of stock's TLBIs: how far the picture of their kinds goes, when no kernel has more, and when one has."""
SCATTERED = (
    ": pages that lie scattered are invalidated one by one, where stock invalidates all that the process has, so that "
    "other CPUs keep what they have of it."
)
ALL_KINDS = ("tlbi_broadcast", "tlbi_local")


@dataclass(frozen=True)
class Plot:
    """A picture.

    Args:
        title: one line.
        svg: of picture.drawing.
        how: how to read it, a paragraph.
        note: what stands out in it, and why; empty when nothing does.
    """

    title: str
    svg: str
    how: str
    note: str = ""


def kernels_of(results: Results) -> list[str]:
    """The kernels to draw: stock, sticky and lull where a run has two of them, else the first that look different."""
    measured = dict.fromkeys(record.kernel for record in results.records if record.kernel != CONTROL)
    main = [kernel for kernel in picture.FIRST if kernel in measured]
    others = [kernel for kernel in measured if kernel not in main]
    return main if len(main) > 1 else main + others[: len(picture.COLOURS) - len(picture.FIRST)]


def of_run(results: Results) -> Iterator[Plot]:
    """What is drawn of one run."""
    for number in sorted({record.vcpus for record in results.records}):
        run = RunSlice(number, [record for record in results.records if record.vcpus == number])
        for plot in (broadcasts(run, kernels_of(results)), kinds(run, kernels_of(results)), frontier(run)):
            if plot:
                yield plot


def each(run: RunSlice, kernel: str, workload: str, *metrics: str) -> float | None:
    """Median of an operation, of the first of ``metrics`` that was measured."""
    for metric in metrics:
        record = run.find([kernel], workload, [metric])
        if record:
            return median(record.values) / max(1, record.operations)
    return None


def broadcasts(run: RunSlice, kernels: Sequence[str]) -> Plot | None:
    """Broadcast TLBIs of an operation: a row for a workload, a mark for a kernel."""
    found = {
        workload: {
            kernel: count for kernel in kernels if (count := each(run, kernel, workload, BROADCASTS)) is not None
        }
        for workload in run.workloads()
    }
    many = [(workload, counts) for workload, counts in found.items() if max(counts.values(), default=0) >= FEW]
    if STOCK not in kernels or not many:
        return None
    many.sort(key=lambda row: (row[1].get(STOCK, 0), max(row[1].values())))
    looks = picture.looks(kernels)
    with picture.drawing(6.6, 0.9 + 0.07 * (len(looks) + 1) * len(many), clear=True) as (figure, text):
        axes = figure.subplots()
        _marks(axes, [counts for _, counts in many], looks)
        _from_zero(axes, [count for _, counts in many for count in counts.values()])
        _name_rows(axes, [workload for workload, _ in many], pad=9)
        axes.grid(axis="x", color=picture.GREY, alpha=0.2, lw=0.5)
        axes.set_xlabel("broadcast TLBIs of user ASIDs, an operation")
        figure.legend(frameon=False, loc="outside upper left", ncols=len(looks), fontsize=8, handletextpad=0.2)
        svg = text()
    left = len(found) - len(many)
    how = (
        f"One line is a workload, at {run.vcpus} vCPUs; one mark is a kernel, at the median of its "
        "repeats. Further left is better: each is a message that every CPU must obey, and that somebody waits for. The "
        "scale is logarithmic, with 0 put at its left end."
    )
    fewer = f" {left} workload{'s' * (left > 1)} with less than {FEW:g} on every kernel {'are' if left > 1 else 'is'} "
    return Plot("Broadcasts of an operation", svg, how + (fewer + "not shown." if left else ""), _more(many))


def _marks(axes: Axes, rows: Sequence[Mapping[str, float]], looks: Mapping[str, tuple[str, str]]) -> None:
    """Each row's kernels around a line, below each other: marks at one count are all seen. Stock is hollow."""
    for place, counts in enumerate(rows):
        axes.plot([min(counts.values()), max(counts.values())], [place] * 2, color=picture.GREY, alpha=0.35, lw=1)
    for number, (kernel, (colour, marker)) in enumerate(looks.items()):
        lower = 0.25 - 0.5 * number / max(1, len(looks) - 1)
        marks = [(counts[kernel], place + lower) for place, counts in enumerate(rows) if kernel in counts]
        hollow = {"markerfacecolor": picture.PAPER, "mew": 1.4} if kernel == STOCK else {"mew": 0}
        if marks:
            axes.plot(*zip(*marks, strict=True), marker, ms=5.5, color=colour, label=kernel, clip_on=False, **hollow)


def _more(rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """A note on the workloads where Lull has more than stock; empty when there are none."""
    more = [workload for workload, counts in rows if counts.get("lull", 0) - counts.get(STOCK, math.inf) >= FEW]
    if not more:
        return ""
    scattered = any(is_of(workload, program) for workload in more for program in thresholds.SPARSE)
    return f"lull has more than stock on {' and '.join(more)}" + (SCATTERED if scattered else ".")


def _from_zero(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis that has room for 0, and ticks at the decades."""
    least = min(value for value in values if value > 0)
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(max(values)) + 1e-9)
    axes.set_xscale("symlog", linthresh=10**first, linscale=0.6)
    decades = range(first, max(last, first + 1) + 1)
    axes.set_xticks([0, *(10.0**decade for decade in decades)], ["0", *(f"{10.0**decade:g}" for decade in decades)])
    axes.minorticks_off()
    axes.set_xlim(0 if min(values) == 0 else 10.0**first, 10.0 ** max(last, first + 1))


def kinds(run: RunSlice, kernels: Sequence[str]) -> Plot | None:
    """What TLBIs are of, as shares of all that stock has: a bar for a workload on a kernel."""
    shown = [kernel for kernel in kernels if kernel in picture.FIRST]
    totals = {workload: _total(run, STOCK, workload) for workload in run.workloads()}
    others = [kernel for kernel in shown if kernel != STOCK]
    counted = {
        w: total for w, total in totals.items() if total >= FEW and any(run.find([k], w, ALL_KINDS) for k in others)
    }
    chosen = sorted(counted, key=lambda workload: counted[workload], reverse=True)[:MOST_ROWS]
    if STOCK not in shown or len(shown) < 2 or not chosen:
        return None
    wholes = {workload: counted[workload] for workload in run.workloads() if workload in chosen}
    with picture.drawing(6.6, 0.9 + 0.15 * (len(shown) + 0.8) * len(wholes), clear=True) as (figure, text):
        _bars(figure.subplots(), run, shown, wholes)
        figure.legend(frameon=False, loc="outside upper left", ncols=3, fontsize=8, handlelength=1)
        svg = text()
    left = len(counted) - len(chosen)
    how = (
        "A bar is what one kernel executes for a workload, in shares of what stock does, which is 100 %. Blue is "
        "local: no other CPU hears of it. Everything else is sent to all CPUs: for a page or a range of a process, for "
        "all that a process has, for the kernel's own addresses, or for everything. A bar that goes on beyond the edge "
        "has its length in figures. No bar: no TLBI."
    )
    more = f" {left} workload{'s' * (left > 1)} with fewer TLBIs left out." if left > 0 else ""
    return Plot("What TLBIs are of", svg, how + more)


KINDS = {
    "broadcast: pages": picture.COLOURS[0],
    "a whole process": picture.COLOURS[5],
    "the kernel's": picture.COLOURS[1],
    "everything": picture.GREY,
    "local, of any kind": picture.COLOURS[2],
}
"""In the order of the bars."""


def _kinds(run: RunSlice, kernel: str, workload: str) -> list[float]:
    """TLBIs of an operation, of each of KINDS."""

    def of(metric: str) -> float:
        return each(run, kernel, workload, metric) or 0.0

    asid = of(WHOLE_ASID)
    everything = of("tlbi_broadcast_all") + of("tlbi_broadcast_other")
    pages = max(0.0, of("tlbi_broadcast_user") - asid)
    return [pages, asid, of("tlbi_broadcast_kernel"), everything, of("tlbi_local")]


def _total(run: RunSlice, kernel: str, workload: str) -> float:
    return sum(each(run, kernel, workload, metric) or 0.0 for metric in ALL_KINDS)


def _bars(axes: Axes, run: RunSlice, kernels: Sequence[str], wholes: Mapping[str, float]) -> None:
    """The workloads from above; ``wholes``: what 100 % is of each."""
    height = 0.8 / len(kernels)
    rows = list(wholes)[::-1]
    for place, workload in enumerate(rows):
        for number, kernel in enumerate(kernels):
            y = place + 0.4 - (number + 0.5) * height
            _bar(axes, y, height, _kinds(run, kernel, workload), wholes[workload])
            name = kernel.rpartition("=")[2] if kernel in picture.FIRST else kernel
            axes.text(-0.012, y, name, ha="right", va="center", fontsize=6.5, transform=axes.get_yaxis_transform())
    most = max(_total(run, kernel, workload) / whole for kernel in kernels for workload, whole in wholes.items())
    axes.set_xlim(0, CLIP if most > ALIKE else ALIKE)
    axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_xlabel("TLBIs, of all that stock has")
    axes.axvline(1, color=picture.GREY, lw=0.7, alpha=0.5)
    _name_rows(axes, rows, pad=32)
    for name, colour in KINDS.items():
        axes.bar(0, 0, color=colour, label=name)


def _name_rows(axes: Axes, names: Sequence[str], pad: float) -> None:
    """A row's name instead of an axis."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.tick_params(axis="y", length=0, pad=pad)
    axes.spines["left"].set_visible(False)


def _bar(axes: Axes, y: float, height: float, counts: Sequence[float], whole: float) -> None:
    left = 0.0
    for count, colour in zip(counts, KINDS.values(), strict=True):
        if count and left < CLIP:
            axes.barh(y, min(count / whole, CLIP - left), height * 0.86, left=left, color=colour)
        left += count / whole
    if left > CLIP:
        axes.text(
            CLIP * 0.99, y, f"{tables.ratio(left)} times", ha="right", va="center", fontsize=6.5, color=picture.PAPER
        )


Lines = dict[str, dict[int, float]]
"""Kernel -> vCPUs -> seconds of an operation."""


def scaling(runs: Sequence[Results]) -> Plot | None:
    """Seconds of an operation against vCPUs, a panel for a workload that was measured with several numbers."""
    metric, panels = next(((m, found) for m in SECONDS if (found := _several(runs, m))), ("", {}))
    if not panels:
        return None
    rows = (len(panels) + 1) // 2
    with picture.drawing(6.6, 0.5 + 2.1 * rows, clear=True) as (figure, text):
        places = figure.subplots(rows, 2, squeeze=False).ravel()
        for place in places[len(panels) :]:
            place.set_axis_off()
        for place, (workload, lines) in zip(places, panels.items(), strict=False):
            _panel(place, workload, lines)
        handles = {label: h for p in places for h, label in zip(*p.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles, frameon=False, loc="outside upper left", ncols=3, fontsize=8)
        svg = text()
    what = {METRIC: "modelled seconds", "seconds_emulated": "emulated seconds"}.get(metric, "seconds")
    how = (
        f"A mark is the median of a run's {what}, divided by the operations of all CPUs. Lower is better; a line that "
        "rises says that CPUs stand in each other's way."
    )
    if metric == "seconds_emulated":
        how += " Emulated seconds are the host's: with more vCPUs than it has CPUs, every line rises for that alone."
    return Plot("Time against vCPUs", svg, how)


def _several(runs: Sequence[Results], metric: str) -> dict[str, Lines]:
    """The workloads that were measured with several numbers of vCPUs, on one host, under the same costs."""
    found: dict[str, Lines] = {}
    alike = [run for run in runs if _where(run) == _where(runs[0])]
    for record in (record for run in alike for record in run.find(metric=metric)):
        if record.values and record.kernel in picture.FIRST:
            line = found.setdefault(record.workload, {}).setdefault(record.kernel, {})
            line.setdefault(record.vcpus, median(record.values) / max(1, record.operations))
    return {workload: lines for workload, lines in found.items() if any(len(line) > 1 for line in lines.values())}


def _where(run: Results) -> tuple[object, ...]:
    """What seconds depend on beside the kernel and vCPUs: those of two places are nothing to draw a line through."""
    machine = run.settings.get("machine", {})
    return run.host, machine.get("cpu"), machine.get("accel"), run.settings.get("timing")


def _panel(axes: Axes, workload: str, lines: Lines) -> None:
    for kernel, (colour, marker) in picture.looks(list(lines)).items():
        points = sorted(lines[kernel].items())
        axes.plot(*zip(*points, strict=True), f"{marker}-", ms=4.5, lw=1.4, color=colour, label=kernel)
    numbers = sorted({vcpus for line in lines.values() for vcpus in line})
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda seconds, _: tables.number(seconds, "s"))
    axes.set_title(workload, fontsize=9)
    axes.set_xlabel("vCPUs")
    axes.set_ylabel("an operation")
    axes.grid(color=picture.GREY, alpha=0.2, lw=0.5)


def frontier(run: RunSlice) -> Plot | None:
    """TLBIs of a call of the sweep ``gaps`` on stock and lull, by the pages that it gives back and their distance."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for workload in run.cases(thresholds.SWEEP):
        pages, distance = map(int, workload.partition("/")[2].split("-"))
        stock, lull = (each(run, kernel, workload, BROADCASTS) for kernel in (STOCK, "lull"))
        if stock and lull is not None:
            found[pages, distance] = stock, lull
    if not found:
        return None
    rows, columns = (sorted({key[place] for key in found}) for place in (0, 1))
    with picture.drawing(6.6, 0.9 + 0.32 * len(rows), clear=True) as (figure, text):
        axes = figure.subplots()
        for (pages, distance), (stock, lull) in found.items():
            x, y = columns.index(distance), rows.index(pages)
            saved = 1 - min(1.0, lull / stock)
            colour = picture.COLOURS[0] if lull > stock else picture.COLOURS[2]
            axes.add_patch(_cell(x, y, colour, 0.9 if lull > stock else 0.75 * saved))
            said = f"{stock:g}" if lull == stock else f"{stock:g} \N{RIGHTWARDS ARROW} {lull:g}"
            axes.text(x, y, said, ha="center", va="center", fontsize=7)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_xticks(range(len(columns)), [f"{distance}" for distance in columns])
        axes.set_xlabel("distance from one page to the next, in pages")
        axes.set_ylabel("pages")
        _name_rows(axes, [f"{pages}" for pages in rows], pad=2)
        svg = text()
    how = (
        "A field is one madvise(MADV_DONTNEED) that gives back so many pages, at such distances. Its numbers are "
        "stock's broadcast TLBIs and, where they differ, Lull's: blue where Lull has fewer, the darker the fewer; red "
        "where it has more."
    )
    return Plot("Where runs are flushed", svg, how)


def _cell(x: int, y: int, colour: str, strength: float) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=colour, alpha=strength, lw=0)
