# SPDX-License-Identifier: GPL-2.0-only
"""Tables of the instructions of each case by function of the kernel, the kernels of a run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lull.judge import tables
from lull.judge.compare import BASELINE, CONTROL
from lull.run.records import Breakdown, Results

MOST = 20
"""The most functions in a printed table. The file has all that differ."""
DIGITS = 5
"""Digits of a total. It has one behind the point at least."""
TOTAL = "total"
DIFFERENCE = "difference"


def grids(results: Results, most: int | None = MOST) -> list[tables.Grid]:
    """The tables, one or several for each workload. ``most``: the functions in each; None: all."""
    workloads: dict[str, list[Breakdown]] = {}
    for one in results.functions:
        workloads.setdefault(one.workload, []).append(one)
    found = []
    for each in workloads.values():
        base = [one for one in each if one.kernel == BASELINE]
        others = [one for one in each if one.kernel not in (BASELINE, CONTROL)]
        control = [one for one in each if one.kernel == CONTROL]
        if base and others:
            found += tables.fitting(others, tables.WIDTH, partial(_grid, base[0], control=control, most=most))
        else:
            found += [_grid(one, [], control=control if base else [], most=most) for one in base or others]
    return found


def markdown(results: Results) -> str:
    """The tables with all functions that differ, as Markdown."""
    return "\n".join(tables.grid_markdown(grid) + "\n" for grid in grids(results, None))


def _per_operation(one: Breakdown) -> dict[str, float]:
    return {name: count / (one.operations or 1) for name, count in one.counts.items()}


def _differences(base: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: other.get(name, 0.0) - base.get(name, 0.0) for name in dict.fromkeys([*base, *other])}


def _grid(
    base: Breakdown, others: Sequence[Breakdown], *, control: Sequence[Breakdown], most: int | None
) -> tables.Grid:
    """One table: a column for ``base``; for each other kernel one with its counts and one with the differences.

    The lines are sorted by the largest difference or, if there are no other kernels, by the count.
    """
    counts = [_per_operation(one) for one in (base, *others)]
    changes = [_differences(counts[0], other) for other in counts[1:]]
    names = dict.fromkeys(name for each in counts for name in each)
    digits = max(1, DIGITS - len(str(int(max(sum(each.values()) for each in counts)))))
    weight = {name: max(abs(each.get(name, 0.0)) for each in changes or counts) for name in names}
    shown = sorted((name for name in names if round(weight[name], digits)), key=lambda name: (-weight[name], name))
    shown = shown[:most]
    rest = [name for name in names if name not in set(shown)]

    def row(title: str, of: Sequence[str]) -> tuple[str, ...]:
        cells = [f"{sum(counts[0].get(name, 0.0) for name in of):,.{digits}f}"]
        for each, change in zip(counts[1:], changes, strict=True):
            cells.append(f"{sum(each.get(name, 0.0) for name in of):,.{digits}f}")
            cells.append(f"{sum(change.get(name, 0.0) for name in of):+,.{digits}f}")
        return (title, *cells)

    rows = [row(name, [name]) for name in shown]
    if rest:
        rows.append(row(f"{len(rest)} other function{'s' * (len(rest) > 1)}", rest))
    rows.append(row(TOTAL, list(names)))
    header = ["function", base.kernel]
    for one in others:
        header += [one.kernel, DIFFERENCE]
    notes = []
    for one in control:
        noise = _differences(counts[0], _per_operation(one))
        worst = max(noise, key=lambda name: abs(noise[name]))
        notes.append(
            f"noise: in a second sample of {BASELINE} no function differs by more than "
            f"{abs(noise[worst]):,.{digits}f} ({worst})"
        )
    title = f"instructions of {base.workload} by function ({base.metric}), per {base.operation or 'window'}"
    return tables.Grid(title, tuple(header), tuple(rows), 1, tuple(notes))
