# SPDX-License-Identifier: GPL-2.0-only
"""The jobs of a sweep in one table for each CPU. Imports scipy; imported when needed.

A line is of one number of vCPUs and one workload, and that is one job's: so each ratio in it is of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lull import cache, compare, tables
from lull.records import Record, Results


@dataclass(frozen=True)
class Joint:
    """The records of all complete jobs with one CPU, as if one run had made them, and their comparison."""

    cpu: str
    results: Results
    comparison: compare.Comparison


def join(places: Mapping[str, Path]) -> list[Joint]:
    """The complete jobs joined, CPU by CPU.

    Args:
        places: each job's name and folder.
    """
    found: dict[str, list[Results]] = {}
    for place in places.values():
        if (place / "complete").exists():
            results = Results.load(place / "results.json")
            found.setdefault(str(results.settings["machine"]["cpu"]), []).append(results)
    joints = []
    for cpu, group in found.items():
        one = Results(
            group[0].lull,
            group[0].base,
            alike([results.host for results in group]),
            in_order([record for results in group for record in results.records]),
            settings=alike([results.settings for results in group]),
        )
        joints.append(Joint(cpu, one, compare.compare(one)))
    return joints


def in_order(records: Sequence[Record]) -> list[Record]:
    """By workload, as they came, then by vCPUs: what is asked of a sweep is how one changes with the other."""
    place = {name: number for number, name in enumerate(dict.fromkeys(record.workload for record in records))}
    return sorted(records, key=lambda record: (place[record.workload], record.vcpus))


def alike(dictionaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of them say, and say alike; of tables in them, too."""
    first, *others = dictionaries
    found: dict[str, Any] = {}
    for name, value in first.items():
        theirs = [other.get(name) for other in others]
        if isinstance(value, dict) and all(isinstance(one, dict) for one in theirs):
            found[name] = alike([value, *theirs])  # type: ignore[list-item]
        elif all(one == value for one in theirs):
            found[name] = value
    return found


def index(entries: Sequence[Mapping[str, Any]]) -> tables.Grid:
    """Each job, and what became of it."""
    rows = tuple(
        (
            entry["name"],
            entry["cpu"],
            entry["state"] + (f": {', '.join(entry['failed'])}" if entry["failed"] else ""),
            str(entry["vcpus"]),
            str(entry["boots"]),
            "" if entry["exit_code"] is None else str(entry["exit_code"]),
            "" if entry["seconds"] is None else f"{entry['seconds']:.0f}",
        )
        for entry in entries
    )
    return tables.Grid("jobs", ("job", "cpu", "verdict", "vcpus", "boots", "exit code", "seconds"), rows, 3)


def write(joints: Sequence[Joint], entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write comparison.md."""
    parts = [f"## {joint.cpu}\n\n{tables.markdown(joint.results, joint.comparison)}" for joint in joints]
    cache.write_atomic(folder / "comparison.md", "\n".join([*parts, tables.grid_markdown(index(entries)), ""]))


def show(joints: Sequence[Joint], entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Print the tables, each job's verdict and where everything is."""
    console = tables.make_console()
    for joint in joints:
        tables.show(console, joint.results, joint.comparison)
        console.print()
    tables.show_grid(console, index(entries))
    console.print()
    console.print(f"results: {folder}/sweep.json, comparison.md; jobs: {folder}/jobs", markup=False, soft_wrap=True)
