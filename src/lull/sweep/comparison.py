# SPDX-License-Identifier: GPL-2.0-only
"""Show the results of a sweep: one table of all jobs, with the ratios of several CPUs side by side.

A line of the table is of one workload and one number of vCPUs, on one CPU. It therefore comes from one job, and each
ratio compares boots of one run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lull import cache
from lull.judge import compare, joint, tables
from lull.judge.joint import ComparedRun
from lull.plan import slug
from lull.run.records import Record, Results
from lull.sweep import job as sweep_job


def join(places: Iterable[Path], folder: Path) -> list[ComparedRun]:
    """The results of complete jobs, joined to one run for each CPU. Each such run is written to ``folder``.

    Args:
        places: the folders of the jobs.
    """
    found: dict[str, list[Results]] = {}
    for place in places:
        if (place / sweep_job.COMPLETE).exists():
            results = Results.load(place / joint.FILE)
            found.setdefault(str(results.settings["machine"]["cpu"]), []).append(results)
    runs = []
    labels = itertools.chain(joint.LABELS, map(str, itertools.count(len(joint.LABELS) + 1)))
    for label, (cpu, group) in zip(labels, found.items(), strict=False):
        one = Results(
            group[0].lull,
            group[0].base,
            alike([results.host for results in group]),
            in_order([record for results in group for record in results.records]),
            [check for results in group for check in results.checks],
            settings=alike([results.settings for results in group]),
        )
        path = folder / (joint.FILE if len(found) == 1 else f"results-{slug(cpu)}.json")
        cache.write_atomic(path, one.to_json())
        runs.append(ComparedRun(label, path, one, compare.compare(one)))
    return runs


def in_order(records: Sequence[Record]) -> list[Record]:
    """The records sorted by workload, in the order given, and then by vCPUs, so that scaling can be read off."""
    place = {name: number for number, name in enumerate(dict.fromkeys(record.workload for record in records))}
    return sorted(records, key=lambda record: (place[record.workload], record.vcpus))


def alike(dictionaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entries that all dictionaries have with the same value; nested dictionaries are compared likewise."""
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
    """The table of jobs and their verdicts."""
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


def write(runs: Sequence[ComparedRun], entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write comparison.md: the tables of each CPU, and the table of jobs."""
    parts = [
        f"## {run.results.settings['machine']['cpu']}\n\n{tables.markdown(run.results, run.comparison)}" for run in runs
    ]
    cache.write_atomic(folder / "comparison.md", "\n".join([*parts, tables.grid_markdown(index(entries)), ""]))


def show(runs: Sequence[ComparedRun], entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Print the tables, the verdict of each job, and the paths of the results."""
    console = tables.make_console()
    if len(runs) > 1:
        joint.show(console, runs)
    elif runs:
        tables.show(console, runs[0].results, runs[0].comparison)
    tables.say(console, "")
    tables.show_grid(console, index(entries))
    tables.say(console, "")
    results = "results.json" if len(runs) == 1 else "results-CPU.json"
    console.print(
        f"results: {folder}/sweep.json, {results}, comparison.md; jobs: {folder}/jobs", markup=False, soft_wrap=True
    )
