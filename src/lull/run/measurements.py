# SPDX-License-Identifier: GPL-2.0-only
"""The measurements of boots: from the windows that a guest reported to the records of results.json."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lull import plan, timing
from lull.guest.runner import BootOutcome
from lull.run.records import COUNT_UNIT, Breakdown, Record


def measured(boot: plan.Boot, outcome: BootOutcome, counted: bool, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The measurements of a boot: one per job and case, with kernel, workload and every metric.

    With the ``names`` of the kernel's functions they have the counts of these, too. The counts are of the windows that
    insns_quiet is of, and add up to it; those of a single window add up to insns_own.

    The windows of a case are one measurement, their sum; several say what a quiet one is, too. What CPUs execute
    without waiting for each other is called work.
    """
    jobs = {job.number: job for job in boot.jobs}
    silent = [n for n, status in outcome.status.items() if status == 0 and n not in {w["job"] for w in outcome.windows}]
    if silent:
        raise ValueError(f"{jobs[silent[0]].workload.name} ended well and reported nothing")
    cases: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for window in outcome.windows:
        cases[window["job"], window["case"]].append(window)
    found: list[dict[str, Any]] = []
    for (number, name), windows in cases.items():
        job, window = jobs[number], windows[0]
        if len({w["operations"] for w in windows}) > 1:
            raise ValueError(f"the windows of {job.workload.name} {name} are not of one size")
        kernel = job.spec.name if job.spec.settings else boot.label
        case = f"/{name}" if name else ""
        each = [{**w.get("metrics", {}), **(outcome.counts[w["window"]] if counted else {})} for w in windows]
        metrics = {metric: float(sum(counts[metric] for counts in each)) for metric in each[0]}
        if len(windows) > 1 and "insns_own" in metrics:
            metrics["insns_quiet"] = float(len(windows) * quiet([counts["insns_own"] for counts in each]))
        if "insns_spin" in metrics:
            metrics["insns_work"] = metrics["insns"] - metrics["insns_spin"]
        if "modelled_ns" in metrics:
            metrics[timing.METRIC] = metrics.pop("modelled_ns") / 1e9
        by_function = {}
        if names:
            own = [counts["insns_own"] for counts in each]
            like = [w["window"] for w, count in zip(windows, own, strict=True) if count == quiet(own)]
            chosen = [outcome.functions[window] for window in like]
            by_function = {"functions": by_name(chosen, names, len(windows))}
        found.append(
            {
                "kernel": kernel,
                "workload": f"{job.workload.name}{case}",
                "operations": sum(w["operations"] for w in windows),
                "unit": window.get("unit", ""),
                "scale": window.get("scale", ""),
                "seconds": float(sum(w.get("seconds", 0.0) for w in windows)),
                "metrics": metrics,
                **by_function,
            }
        )
    return found


def quiet(instructions: Sequence[int]) -> int:
    """What a window takes when nothing else happens: the lowest tenth, without the few that are lower still.

    A tick, a load average brought up to date, an interrupt only ever add, and come by the clock: the slower the host,
    the more windows have one.
    """
    return sorted(instructions)[len(instructions) // 10]


def records_of(measurements: Sequence[dict[str, Any]], vcpus: int, seconds: str) -> list[Record]:
    """Measurements of all boots as records: values in the order of the run."""
    values: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    operations: dict[tuple[str, str], tuple[int, str]] = {}
    for m in measurements:
        operations[m["kernel"], m["workload"]] = (m["operations"], m["unit"])
        if timing.METRIC not in m["metrics"]:  # by a clock that was made slower
            values[m["kernel"], m["workload"], seconds, "s"].append(m["seconds"])
        for metric, value in m["metrics"].items():
            unit = "s" if metric == timing.METRIC else COUNT_UNIT
            values[m["kernel"], m["workload"], metric, unit].append(value)
    return [
        Record(kernel, workload, vcpus, metric, unit, tuple(series), *operations[kernel, workload])
        for (kernel, workload, metric, unit), series in values.items()
    ]


def by_name(windows: Sequence[Mapping[int, int]], names: Sequence[str], scale: int) -> dict[str, float]:
    """Name -> count, the mean of these windows times ``scale``. Raises IndexError for a number without a name."""
    counts: Counter[str] = Counter()
    for window in windows:
        for number, count in window.items():
            counts[names[number]] += count
    return {name: scale * count / len(windows) for name, count in counts.items()}


def breakdowns(measurements: Sequence[Mapping[str, Any]]) -> list[Breakdown]:
    """The breakdown of each kernel and workload: that of the boot with the median total.

    With an even number of boots it is the mean of the two in the middle. So the counts add up to the median of the
    metric.
    """
    boots: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for m in measurements:
        if "functions" in m:
            boots[m["kernel"], m["workload"]].append(m)
    found = []
    for (kernel, workload), series in boots.items():
        series = sorted(series, key=lambda m: sum(m["functions"].values()))
        middle = series[(len(series) - 1) // 2 : len(series) // 2 + 1]
        names = dict.fromkeys(name for m in middle for name in m["functions"])
        counts = {name: statistics.fmean(m["functions"].get(name, 0.0) for m in middle) for name in names}
        metric = "insns_quiet" if "insns_quiet" in middle[0]["metrics"] else "insns_own"
        found.append(Breakdown(kernel, workload, metric, counts, middle[0]["operations"], middle[0]["unit"]))
    return found
