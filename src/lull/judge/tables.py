# SPDX-License-Identifier: GPL-2.0-only
"""Show a comparison as tables, for the terminal and as Markdown, in the style of benchstat.

What all rows have in common is stated once, above the tables, and not in a column. A figure that shows no difference is
marked. A table is made as a ``Grid`` of text, and then rendered in either form.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

from lull.judge.compare import BASELINE, Comparison, GeoMean, Row, Summary
from lull.judge.stats import CONFIDENCE, Effect, Verdict
from lull.run.records import COUNT_UNIT, Check, Results

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

Item = TypeVar("Item")

WIDTH = 100
"""Columns of text, for output that does not go to a terminal, and for the division of wide tables."""
METRICS = {
    "tlbi": (
        "tlbi_broadcast_user",
        "tlbi_broadcast_asid",
        "tlbi_local",
        "tlbi_guest_broadcast_user",
        "tlbi_guest_forced_user",
        "tlbi_guest_local_user",
        "tlbi_guests_broadcast_user",
        "tlbi_guests_forced_user",
        "tlbi_hyp_local",
        "tlbi_hyp_stage2",
    ),
    "barriers": ("dsb_ish", "dsb_ishst"),
    "instructions": ("insns", "insns_work", "insns_quiet", "atomics_own"),
    "seconds": (
        "seconds_modelled",
        "seconds_modelled_worst",
        "seconds_held_up",
        "seconds_held_up_worst",
        "seconds_emulated",
        "seconds",
        "seconds_worst",
    ),
}
"""Kind of metric -> the metrics that are shown; a page has the tables of each kind."""
MAIN_METRICS = tuple(metric for metrics in METRICS.values() for metric in metrics)
"""The metrics that are shown, in this order."""
GAP = 2
"""Spaces between columns."""
GEOMEAN = "geometric mean"
VERSUS = f"vs {BASELINE}"
"""The header of the columns that compare with the baseline."""


@dataclass(frozen=True)
class Grid:
    """A table of text.

    Args:
        title: the line above it.
        header: the names of the columns.
        rows: the cells.
        labels: the number of columns of words, which are aligned left. The others have figures, aligned right.
        notes: lines below it.
        faint: show the figures dimmed, because nothing is concluded from them.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    notes: tuple[str, ...] = ()
    faint: bool = False

    @property
    def width(self) -> int:
        """The characters of its longest line."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        return sum(widths) + GAP * (len(widths) - 1)


def print_comparison(console: Console, results: Results, comparison: Comparison) -> None:
    """Print what all rows have in common, a table for each metric, the control, and how to read the tables."""
    for name, value in common(results, comparison):
        say_line(console, f"{name}: {value}")
    for grid in grids(comparison):
        say_line(console, "")
        show_grid(console, grid)
    for line in ["", *_remarks(comparison, MAIN_METRICS), ""]:
        say_line(console, line)
    say_line(console, how_to_read(comparison), style="dim")


def markdown(results: Results, comparison: Comparison, metrics: Sequence[str] = MAIN_METRICS) -> str:
    """The same contents as ``show`` prints, as Markdown."""
    parts = ["\n".join(f"* {name}: {value}" for name, value in common(results, comparison))]
    parts += [grid_markdown(grid) for grid in grids(comparison, metrics)]
    parts.append("\n".join(f"* {line}" for line in _remarks(comparison, metrics)))
    parts.append(f"*{how_to_read(comparison)}*")
    return "\n\n".join(parts) + "\n"


def make_console(file: IO[str] | None = None) -> Console:
    """A console for ``file``, or for standard output when it is None.

    If that is not a terminal, the console writes plain text of a fixed width, so that output in files and pipes is the
    same everywhere. rich obeys NO_COLOR.
    """
    from rich.console import Console

    target = file or sys.stdout
    if target.isatty():
        return Console(file=target, highlight=False)
    return Console(file=target, highlight=False, width=WIDTH, force_terminal=False, no_color=True)


def common(results: Results, comparison: Comparison) -> list[tuple[str, str]]:
    """What all rows have in common: versions, host, settings, and vCPUs and repeats if they are the same everywhere."""
    pairs: dict[str, object] = {"lull": results.lull, "base": results.base}
    for name, value in results.settings.items():
        # Take in one level of nesting, which has the machine's properties. Deeper levels, such as configurations of
        # kernels, are only in results.json.
        pairs |= value if isinstance(value, dict) else {name: value}
    pairs |= {f"host {name}": value for name, value in results.host.items()}
    vcpus = {row.vcpus for row in comparison.rows}
    repeats = {count for row in comparison.rows for count in _repeats(row)}
    if len(vcpus) == 1:
        pairs["vcpus"] = vcpus.pop()
    if len(repeats) == 1:
        pairs["repeats"] = repeats.pop()
    return [(name, str(value)) for name, value in pairs.items() if isinstance(value, str | int | float) and value != ""]


def grids(comparison: Comparison, metrics: Sequence[str] = MAIN_METRICS) -> list[Grid]:
    """The tables of the metrics, in the order given."""
    return [grid for metric in metrics for grid in metric_grids(comparison, metric)]


def metric_grids(comparison: Comparison, metric: str) -> list[Grid]:
    """The tables of a metric; none when it was not measured, or is 0 everywhere.

    Kernels that were measured with different workloads are in different tables. So are kernels that do not fit side by
    side into WIDTH characters. Kernels that were all measured with one workload have a row each instead of a column.
    """
    rows = [row for row in comparison.rows if row.metric == metric]
    if not any_value(rows):
        return []
    groups: dict[frozenset[tuple[str, int]], list[str]] = {}
    for kernel in comparison.kernels:
        lines = frozenset((row.workload, row.vcpus) for row in rows if row.kernel == kernel)
        if lines:
            groups.setdefault(lines, []).append(kernel)
    found: list[Grid] = []
    for lines, kernels in groups.items():
        if len({workload for workload, _ in lines}) == 1 < len(kernels):
            found.append(_one_workload(comparison, [row for row in rows if row.kernel in kernels]))
        else:
            found += fitting(kernels, WIDTH, partial(_grid, comparison, rows))
    return found


def fitting(columns: Sequence[Item], width: int, make: Callable[[Sequence[Item]], Grid]) -> list[Grid]:
    """Divide ``columns`` among tables of at most ``width`` characters; each table has one of them at least.

    Args:
        make: makes the table of some of the columns.
    """
    found = []
    while columns:
        take = len(columns)
        grid = make(columns)
        while grid.width > width and take > 1:
            take -= 1
            grid = make(columns[:take])
        found.append(grid)
        columns = columns[take:]
    return found


def all_zero(comparison: Comparison, metrics: Sequence[str] = MAIN_METRICS) -> list[str]:
    """The metrics that were measured and are 0 everywhere."""
    measured = {row.metric for row in comparison.rows}
    there = {row.metric for row in comparison.rows if any_value([row])}
    return [metric for metric in metrics if metric in measured - there]


def any_value(rows: Iterable[Row]) -> bool:
    """Return true if any median is not 0."""
    return any(row.baseline.median or row.other.median for row in rows)


def show_grid(console: Console, grid: Grid) -> None:
    """Print one table with its notes."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for place, name in enumerate(grid.header):
        side: JustifyMethod = "left" if place < grid.labels else "right"
        table.add_column(Text(_safe(console, name)), justify=side, overflow="fold")
    for row in grid.rows:
        # Text and not str, because rich reads the brackets of an interval as markup.
        table.add_row(*(Text(_safe(console, cell), style="dim" if grid.faint else _style(cell)) for cell in row))
    say_line(console, grid.title, style="bold")
    console.print(table)
    for note in grid.notes:
        say_line(console, note)


def grid_markdown(grid: Grid) -> str:
    """One table as Markdown, with its title in a line above it."""
    parts = [f"**{grid.title}**", markdown_table(grid.header, grid.rows, grid.labels)]
    parts += grid.notes
    return "\n\n".join(parts)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], labels: int = 1) -> str:
    """A Markdown table: the first ``labels`` columns are aligned left, the others right."""
    rule = ["---" if place < labels else "---:" for place in range(len(header))]
    lines = [header, rule, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def checks_grid(checks: Sequence[Check]) -> Grid:
    """The table of checks."""
    rows = tuple((check.name, check.verdict, check.detail) for check in checks)
    return Grid("checks", ("check", "verdict", "detail"), rows, 3)


def how_to_read(comparison: Comparison) -> str:
    """The line below the tables that explains them."""
    text = (
        "How to read this: a value is the median of the repeats. ± is the distance to the further end of its "
        f"{100 * CONFIDENCE:g} % interval; without ±, every repeat gave the same value. "
    )
    return text + how_to_read_changes(comparison.rows)


def how_to_read_changes(rows: Iterable[Row]) -> str:
    """The part of ``how_to_read`` about the columns that compare a kernel with its baseline."""
    text = (
        f"vs {BASELINE} is the ratio kernel / {BASELINE}, with its "
        f"{100 * CONFIDENCE:g} % interval in brackets. -100% means that the value is 0 on the kernel, and "
        f"not on {BASELINE}. Where another 0 leaves no ratio, the difference is given, with its sign and "
        "the unit of work (+2/page). ~ means within noise; = the same exact count; ? too few repeats to tell. "
        "Counts are exact."
    )
    emulated = any(is_emulated(row.metric) for row in rows)
    return text + " Seconds are emulated, not the time of a real machine." * emulated


def number(value: float, unit: str = COUNT_UNIT) -> str:
    """A value as text with four digits and a prefix: ``12.35k``, ``3.2ms``."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}{'s' if unit == 's' else ''}"
    steps = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]
    if unit == "s":
        steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]
    # Choose the prefix after rounding: 999.96 is shown like 1000.
    for scale, prefix in steps:
        if float(f"{abs(value):.4g}") >= scale:
            return f"{float(f'{value / scale:.4g}'):g}{prefix}"
    scale, prefix = steps[-1]
    return f"{value / scale:.3g}{prefix}"


def ratio(value: float) -> str:
    """A ratio as text with three digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def _grid(comparison: Comparison, rows: Sequence[Row], kernels: Sequence[str]) -> Grid:
    """The table of one metric. What all lines have in common is in the title and not in a column."""
    lines: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        if row.kernel in kernels:
            lines.setdefault((row.workload, row.vcpus), {})[row.kernel] = row
    firsts = [next(iter(line.values())) for line in lines.values()]
    pers = [_per(row) for row in firsts]
    repeats = [_repeats_text(line.values()) for line in lines.values()]
    extra: list[tuple[str, list[str]]] = []
    if len({row.vcpus for row in comparison.rows}) > 1:
        extra.append(("vcpus", [str(row.vcpus) for row in firsts]))
    if len({count for row in comparison.rows for count in _repeats(row)}) > 1:
        extra.append(("repeats", repeats))
    title = metric_title(rows[0].metric)
    if len(set(pers)) == 1:
        title += f", per {pers[0]}"
    else:
        extra.append(("per", pers))
    body = []
    for place, (row, line) in enumerate(zip(firsts, lines.values(), strict=True)):
        cells = [row.workload, *(column[place] for _, column in extra)]
        cells.append(_value(row, row.baseline))
        for kernel in kernels:
            one = line.get(kernel)
            cells += [_value(one, one.other), change(one)] if one else ["", ""]
        body.append(tuple(cells))
    notes = _notes(r for line in lines.values() for r in line.values())
    means = [g for g in comparison.geomeans if g.metric == rows[0].metric and g.kernel in kernels]
    if len(lines) > 1:
        body += _mean_lines(means, kernels, [name for name, _ in extra])
        notes += _mean_notes(means)
    header = ["workload", *(name for name, _ in extra), BASELINE]
    for kernel in kernels:
        header += [kernel, VERSUS]
    return Grid(title, tuple(header), tuple(body), 1 + len(extra), tuple(notes))


def _one_workload(comparison: Comparison, rows: Sequence[Row]) -> Grid:
    """The table of one metric of one workload: for each number of vCPUs a line for the baseline and each kernel."""
    lines: list[tuple[str, int, int, str, str]] = []
    for vcpus in dict.fromkeys(row.vcpus for row in rows):
        here = [row for row in rows if row.vcpus == vcpus]
        lines.append((BASELINE, vcpus, here[0].baseline.repeats, _value(here[0], here[0].baseline), ""))
        lines += [(row.kernel, vcpus, row.other.repeats, _value(row, row.other), change(row)) for row in here]
    extra = {"vcpus": len({row.vcpus for row in comparison.rows}) > 1}
    extra["repeats"] = len({count for row in rows for count in _repeats(row)}) > 1
    shown = (True, *extra.values(), True, True)
    return Grid(
        f"{metric_title(rows[0].metric)} of {rows[0].workload}, per {_per(rows[0])}",
        tuple(itertools.compress(("kernel", *extra, "median", VERSUS), shown)),
        tuple(tuple(map(str, itertools.compress(line, shown))) for line in lines),
        1 + sum(extra.values()),
        tuple(_notes(rows)),
    )


def _per(row: Row) -> str:
    """The unit that a row's figures are per: an operation of the workload, or the window."""
    return row.operation or "operation" if row.operations > 0 else "window"


def _mean_lines(means: Sequence[GeoMean], kernels: Sequence[str], extra: Sequence[str]) -> list[tuple[str, ...]]:
    lines = []
    for vcpus in dict.fromkeys(mean.vcpus for mean in means):
        of_kernel = {mean.kernel: mean for mean in means if mean.vcpus == vcpus}
        cells = [GEOMEAN, *(str(vcpus) if name == "vcpus" else "" for name in extra), ""]
        for kernel in kernels:
            mean = of_kernel.get(kernel)
            cells += ["", ratio(mean.ratio) if mean and mean.ratio is not None else ""]
        lines.append(tuple(cells))
    return [line for line in lines if any(line[1 + len(extra) :])]


def _mean_notes(means: Sequence[GeoMean]) -> list[str]:
    return [
        f"{GEOMEAN}, {m.kernel}: {m.left_out} of {m.used + m.left_out} workloads left out, a zero has no ratio"
        for m in means
        if m.left_out and m.used
    ]


def _notes(rows: Iterable[Row]) -> list[str]:
    """A note for each number of repeats whose intervals do not reach the requested confidence: their real coverage."""
    short = {
        summary.repeats: summary.interval.coverage
        for row in rows
        for summary in (row.baseline, row.other)
        if not summary.interval.reached and summary.half_width != 0
    }
    return [
        f"± of {count} repeat{'s' * (count > 1)} is their whole range, which holds the median with "
        f"{100 * coverage:.4g} % confidence"
        for count, coverage in sorted(short.items())
    ]


def _value(row: Row, summary: Summary) -> str:
    text = number(row.per_operation(summary.median), row.unit)
    spread = summary.half_width
    if spread is None:
        ends = (summary.interval.low, summary.interval.high)
        low, high = (number(row.per_operation(end), row.unit) for end in ends)
        return f"{text} [{low}, {high}]"
    return f"{text} ± {_percent(spread)}" if spread else text


def change(row: Row) -> str:
    """The result of a comparison as text: a ratio, -100% or a difference, each with its interval, or ``~`` or ``=``."""
    effect = row.effect
    if effect.verdict is Verdict.EQUAL:
        return "="
    if effect.verdict is Verdict.NOISE:
        return f"~ (p={effect.p:.2g})"
    gone = row.baseline.median > 0 == row.other.median == row.other.half_width
    low, high = effect.interval.low, effect.interval.high
    text = "-100%" if gone else _estimate(row, effect.estimate, effect)
    if effect.verdict is Verdict.TOO_FEW:
        return f"{text} ?"
    if gone or low == high:
        return text
    return f"{text} [{_estimate(row, low, effect)}, {_estimate(row, high, effect)}]"


def _estimate(row: Row, value: float, effect: Effect) -> str:
    """A ratio as text or, where there is none, a difference, with sign and unit so that it is not read as a ratio."""
    if effect.kind == "ratio":
        return ratio(value)
    return f"{'+' if value > 0 else ''}{number(row.per_operation(value), row.unit)}/{_per(row)}"


def _percent(fraction: float) -> str:
    percent = 100 * fraction
    if percent < 0.05:
        return "<0.1%"
    return f"{percent:.1f}%" if percent < 0.95 else f"{percent:.0f}%"


def _repeats(row: Row) -> tuple[int, int]:
    return row.baseline.repeats, row.other.repeats


def _repeats_text(rows: Iterable[Row]) -> str:
    """``10`` when all kernels have the same number of repeats, else ``10/5``, the baseline's first."""
    found: list[int] = []
    for row in rows:
        found = [*(found or [row.baseline.repeats]), row.other.repeats]
    return str(found[0]) if len(set(found)) == 1 else "/".join(map(str, found))


def is_emulated(metric: str) -> bool:
    """Return true if the metric is of emulated seconds, which QEMU took."""
    return metric.endswith("_emulated")


def metric_title(metric: str) -> str:
    """The title of a metric's table."""
    return f"{metric} (emulated, not a machine's time)" if is_emulated(metric) else metric


def _remarks(comparison: Comparison, metrics: Sequence[str]) -> list[str]:
    """The lines under the tables: metrics without a table, the control, and what could not be compared."""
    control = comparison.control.check
    return [
        *(f"{metric}: 0 everywhere" for metric in all_zero(comparison, metrics)),
        f"{control.name}: {control.verdict}: {control.detail}",
        *(f"not compared: {problem}" for problem in comparison.problems),
    ]


def _style(cell: str) -> str:
    return "dim" if cell.startswith(("~", "=")) else ""


def say_line(console: Console, line: str, style: str = "") -> None:
    """Print a line, without markup, in characters that the console's encoding has."""
    from rich.text import Text

    console.print(Text(_safe(console, line), style=style))


def _safe(console: Console, text: str) -> str:
    """``text`` in characters that the console's encoding has, so that an ASCII terminal does not end the run."""
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return text.replace("±", "+-").replace("µ", "u").encode("ascii", "replace").decode()
    return text
