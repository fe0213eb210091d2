# SPDX-License-Identifier: GPL-2.0-only
"""The measurements of boots: from the windows that a guest reported to the records of results.json."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lull import plan, timing
from lull.guest.runner import BootOutcome
from lull.run.records import COUNT_UNIT, Breakdown, Measurement, Record

JITTER = "jitter"
"""The program whose windows are iterations of the same work: their largest values are measurements, too."""
RECEIVED = "tlbi_broadcast"
"""The metric of jitter that has the broadcasts for its CPU: its loop issues none."""
WORST = "_worst"
"""The end of the name of a metric whose value is the largest of any window."""
HELD_UP = "seconds_held_up"


def measured(boot: plan.Boot, outcome: BootOutcome, counted: bool, names: Sequence[str] = ()) -> list[Measurement]:
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
    found = []
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
        functions = {}
        if names:
            own = [counts["insns_own"] for counts in each]
            like = [w["window"] for w, count in zip(windows, own, strict=True) if count == quiet(own)]
            functions = by_name([outcome.functions[window] for window in like], names, len(windows))
        found.append(
            Measurement(
                kernel,
                f"{job.workload.name}{case}",
                sum(w["operations"] for w in windows),
                window.get("unit", ""),
                float(sum(w.get("seconds", 0.0) for w in windows)),
                metrics,
                window.get("scale", ""),
                worst(windows, each) if job.workload.program == JITTER else {},
                functions,
            )
        )
    return found


def worst(windows: Sequence[Mapping[str, Any]], each: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The largest seconds of any window, its modelled seconds, and the broadcasts, as far as they were measured."""
    found = {"seconds": max(float(w.get("seconds", 0.0)) for w in windows)}
    if RECEIVED in each[0]:
        found[RECEIVED] = float(max(metrics[RECEIVED] for metrics in each))
    if "modelled_ns" in each[0]:
        found[timing.METRIC] = max(metrics["modelled_ns"] for metrics in each) / 1e9
    return found


def quiet(instructions: Sequence[int]) -> int:
    """What a window takes when nothing else happens: the lowest tenth, without the few that are lower still.

    A tick, a load average brought up to date, an interrupt only ever add, and come by the clock: the slower the host,
    the more windows have one.
    """
    return sorted(instructions)[len(instructions) // 10]


def records_of(measurements: Sequence[Measurement], vcpus: int, seconds: str) -> list[Record]:
    """Measurements of all boots as records: values in the order of the run.

    Those of a workload that did other numbers of operations in other boots (``uneven``) are of one operation each.
    """
    values: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    operations: dict[tuple[str, str], tuple[int, str]] = {}
    timed = uneven(measurements)
    for m in measurements:
        if m.workload in timed and m.operations:
            m = per_operation(m)
        operations[m.kernel, m.workload] = (m.operations, m.unit)
        if timing.METRIC not in m.metrics:  # by a clock that was made slower
            values[m.kernel, m.workload, seconds, "s"].append(m.seconds)
        for metric, value in m.metrics.items():
            unit = "s" if metric == timing.METRIC else COUNT_UNIT
            values[m.kernel, m.workload, metric, unit].append(value)
        for metric, value in m.worst.items():
            unit = COUNT_UNIT if metric == RECEIVED else "s"
            if metric != "seconds":
                values[m.kernel, m.workload, metric + WORST, unit].append(value)
            elif timing.METRIC not in m.metrics:
                values[m.kernel, m.workload, seconds + WORST, unit].append(value)
    found = []
    for (kernel, workload, metric, unit), samples in values.items():
        size = (0, "") if metric.endswith(WORST) else operations[kernel, workload]
        found.append(Record(kernel, workload, vcpus, metric, unit, tuple(samples), *size))
    return found


def uneven(measurements: Sequence[Measurement]) -> dict[str, tuple[int, int]]:
    """Workload -> the fewest and the most operations that a boot did, where they differ: it runs for a time."""
    done: dict[str, set[int]] = defaultdict(set)
    for m in measurements:
        done[m.workload].add(m.operations)
    return {workload: (min(found), max(found)) for workload, found in done.items() if len(found) > 1}


def per_operation(m: Measurement) -> Measurement:
    """A measurement as that of one operation. The values of the worst window stay as they are."""
    metrics = {metric: value / m.operations for metric, value in m.metrics.items()}
    return replace(m, operations=1, seconds=m.seconds / m.operations, metrics=metrics)


def held_up(records: Sequence[Record], costs: timing.Costs) -> list[Record]:
    """For how long the broadcasts that its CPU receives hold up the loop of jitter: in all, and in the worst iteration.

    The interconnect may serve fewer broadcasts in that time than were issued: others are still queued when a window
    closes. So the CPU receives at most one for each ``costs.broadcast``.
    """
    found = {(r.kernel, r.workload, r.metric): r for r in records}
    loops = dict.fromkeys((r.kernel, r.workload) for r in records if r.metric == RECEIVED + WORST)
    held = []
    for loop, end in itertools.product(loops, ("", WORST)):
        times, received = found[*loop, timing.METRIC + end], found[*loop, RECEIVED + end]
        values = (
            min(n, time * 1e9 / costs.broadcast if costs.broadcast else n) * costs.receive / 1e9
            for n, time in zip(received.values, times.values, strict=True)
        )
        held.append(replace(times, metric=HELD_UP + end, values=tuple(values)))
    return held


def by_name(windows: Sequence[Mapping[int, int]], names: Sequence[str], scale: int) -> dict[str, float]:
    """Name -> count, the mean of these windows times ``scale``. Raises IndexError for a number without a name."""
    counts: Counter[str] = Counter()
    for window in windows:
        for number, count in window.items():
            counts[names[number]] += count
    return {name: scale * count / len(windows) for name, count in counts.items()}


def breakdowns(measurements: Sequence[Measurement]) -> list[Breakdown]:
    """The breakdown of each kernel and workload: that of the boot with the median total.

    With an even number of boots it is the mean of the two in the middle. So the counts add up to the median of the
    metric.
    """
    boots: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for m in measurements:
        if m.functions:
            boots[m.kernel, m.workload].append(m)
    found = []
    for (kernel, workload), samples in boots.items():
        samples = sorted(samples, key=lambda m: sum(m.functions.values()))
        middle = samples[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
        names = dict.fromkeys(name for m in middle for name in m.functions)
        counts = {name: statistics.fmean(m.functions.get(name, 0.0) for m in middle) for name in names}
        metric = "insns_quiet" if "insns_quiet" in middle[0].metrics else "insns_own"
        found.append(Breakdown(kernel, workload, metric, counts, middle[0].operations, middle[0].unit))
    return found
