# SPDX-License-Identifier: GPL-2.0-only
"""Judge the thresholds of feature residency: fewer broadcasts than stock and than policy ``sticky``, time, and cost.

The thresholds are judged by:

* **broadcasts**: the median over the repeats of ``tlbi_broadcast_user``, summed over all cases of a program. The
  emulator counts them, so that they do not depend on the host. ``sleeper`` must have none in any repeat.
* **time**: ``seconds_emulated``, by the interval of its ratio to stock. These are seconds of an emulator on one host,
  not of a machine.
* **cost**: the smallest ``insns_quiet`` of the repeats: the instructions of a CPU in windows without timer ticks. Other
  repeats have a longer path through the scheduler, which depends on the load of the host: a round trip through idle has
  one of two numbers of instructions, 2 % apart, also on stock.
"""

from __future__ import annotations

from statistics import median

from lull.judge import stats, tables, thresholds
from lull.judge.thresholds import BROADCASTS, SECONDS, STOCK, RunSlice, lacking, verdict
from lull.run.records import Check, Results

SYSTEM = "B"

# Kernels by their names in a run. The policy on is the default of lull.
ON = ("lull+residency=on", "lull")
STICKY = ("lab+residency=sticky",)
OFF = ("lull+residency=off", "lull-residency")

# The thresholds, as they were set before residency was written; except COSTS, which were set again, smaller, before its
# second design was written, and OFF_COST, which was too small for GCC 14.
FEW = (
    "swap_bench",
    "mprotect_threaded",
    "mprotect_per_cpu",
    "sort_compute",
    "fork_exec",
    "teardown",
    "teardown_munmap",
    "teardown_dontneed",
)
SHARE = 0.01
"""The largest allowed share of stock's broadcasts, for the programs FEW."""
NONE = "sleeper"
"""The program that must have no broadcast at all."""
FAST, FAST_VCPUS, TIMES = "mprotect_per_cpu", 16, 15.6
"""The program, the number of vCPUs, and the speed-up that system B was published with. The publication used 32 CPUs,
which are too many to emulate."""
SLOWER_VCPUS = 4
COSTS = {"pingpong/same-cpu": 0.01, "pingpong/two-cpus": 0.02, "busy_threads": 0.003}
"""Workload -> the largest allowed share of instructions in addition to stock's: for two switches between processes, a
round trip through idle, and many busy threads."""
OFF_COST = 0.01
"""The same for policy ``off``. A part of these instructions is in compound_head(), because HVO is compiled in, and does
not depend on residency."""

BEFORE_AND_AFTER = (
    ("mprotect_per_cpu", "mprotect-threaded 10000, a copy on each CPU", 2.1696, 0.13941),
    ("sort_compute", "sort-compute, 256 shells of 32 sorts", 1.8094, 1.64025),
    ("tcmalloc", "tcmalloc large_heap_fragmentation", 0.99018, 0.90510),
)
"""Published for system B, on 32 CPUs: the lab's workload for it, the published program, its seconds with broadcasts,
and its seconds without."""


def concerns(results: Results) -> bool:
    """Return true if the run measured a workload of these thresholds on a kernel with residency."""
    programs = {*FEW, NONE, *(workload.partition("/")[0] for workload in COSTS)}
    kernels = {*ON, *STICKY, *OFF}
    return any(r.kernel in kernels and r.workload.partition("/")[0] in programs for r in results.records)


def published(results: Results) -> list[tables.Grid]:
    """The tables of the programs that system B was published with: broadcasts, published seconds, this run's seconds.

    Counts are exact. Nothing is concluded from emulated seconds: they have a table of their own, which is shown dimmed.
    """
    run = RunSlice(0, results.records)
    counts, machines, times, metrics = [], [], [], set()
    for workload, what, before, after in BEFORE_AND_AFTER:
        stock, ours = (run.find(kernels, workload, SECONDS) for kernels in ([STOCK], ON))
        if stock is None or ours is None or not stock.operations:
            continue
        metrics.add(stock.metric)
        broadcasts = (run.total(kernels, workload, BROADCASTS) for kernels in ([STOCK], ON))
        each = ("" if count is None else tables.number(count / stock.operations) for count in broadcasts)
        counts.append((workload, stock.operation, *each))
        machines.append((what, *(tables.number(s, "s") for s in (before, after)), tables.ratio(before / after)))
        seconds = [median(record.values) / record.operations for record in (stock, ours)]
        shown = (tables.number(s, "s") for s in seconds)
        times.append((workload, stock.operation, *shown, tables.ratio(seconds[0] / seconds[1])))
    if not counts:
        return []
    header = ("program", "per", STOCK, "Lull")
    theirs, note = ("program", "broadcast", "avoided", "times"), "the whole program. Not Lull's."
    title = f"system B: {' or '.join(map(tables.metric_title, sorted(metrics)))}"
    faint = any(map(tables.is_emulated, metrics))
    return [
        tables.Grid("system B: broadcasts", header, tuple(counts), 2),
        tables.Grid("system B: published, of 32 CPUs", theirs, tuple(machines), 1, (note,)),
        tables.Grid(title, (*header, "times"), tuple(times), 2, faint=faint),
    ]


def judge(run: RunSlice) -> list[Check]:
    """A Check for each threshold; ``skipped`` when something that it needs was not measured."""
    judged = [*(_few(run, program) for program in FEW), _none(run), _sticky(run), _fast(run), _slower(run)]
    return [*judged, *(_cost(run, workload) for workload in COSTS), _off(run)]


def _few(run: RunSlice, program: str) -> Check:
    name = f"broadcasts of {program}"
    stock, ours = run.total([STOCK], program, BROADCASTS), run.total(ON, program, BROADCASTS)
    if stock is None or ours is None:
        return lacking(name, {STOCK: stock, ON[0]: ours}, program)
    if not stock:
        return Check(name, "skipped", "stock has none")
    detail = f"{ours:g}, stock {stock:g}: {100 * ours / stock:.3g} %, at most {100 * SHARE:g} % are allowed"
    return Check(name, verdict(ours <= SHARE * stock), detail)


def _none(run: RunSlice) -> Check:
    name = f"broadcasts of {NONE}"
    stock, record = run.total([STOCK], NONE, BROADCASTS), run.find(ON, NONE, [BROADCASTS])
    if stock is None or record is None:
        return lacking(name, {STOCK: stock, ON[0]: record}, NONE)
    if not stock:
        return Check(name, "skipped", "stock has none")
    most = max(record.values)
    detail = f"{most:g} at most in {len(record.values)} repeats, stock {stock:g}; none is due"
    return Check(name, verdict(most == 0), detail)


def _sticky(run: RunSlice) -> Check:
    name = "fewer broadcasts than sticky"
    better, alike, worse = [], [], []
    for program in (*FEW, NONE):
        stock, ours = run.total([STOCK], program, BROADCASTS), run.total(ON, program, BROADCASTS)
        sticky = run.total(STICKY, program, BROADCASTS)
        if not stock or ours is None or sticky is None:
            continue
        listed = f"{program} ({ours:g}, sticky {sticky:g})"
        if ours < sticky:
            better.append(listed)
        elif ours == sticky == 0:
            alike.append(program)
        else:
            worse.append(listed)
    if not better and not worse and not alike:
        return Check(name, "skipped", f"no workload was measured on {STOCK}, {ON[0]} and {STICKY[0]}")
    parts = [("not fewer on ", worse), ("fewer on ", better), ("none on both on ", alike)]
    detail = "; ".join(text + ", ".join(names) for text, names in parts if names)
    return Check(name, verdict(not worse) if better or worse else "skipped", detail)


def _fast(run: RunSlice) -> Check:
    name = f"{FAST} {TIMES:g} times as fast at {FAST_VCPUS} vCPUs"
    if run.vcpus != FAST_VCPUS:
        return Check(name, "skipped", f"measured at {run.vcpus} vCPUs")
    stock, ours = run.find([STOCK], FAST, SECONDS), run.find(ON, FAST, SECONDS)
    if stock is None or ours is None:
        return lacking(name, {STOCK: stock, ON[0]: ours}, FAST)
    effect = stats.effect(ours.values, stock.values, test=False)
    low, high = effect.interval.low, effect.interval.high
    detail = f"stock takes {effect.estimate:.3g} times as long [{low:.3g}, {high:.3g}]"
    if effect.kind != "ratio" or not effect.interval.reached:
        return Check(name, "skipped", f"too few repeats to tell: {detail}")
    return Check(name, verdict(low >= TIMES), detail)


def _slower(run: RunSlice) -> Check:
    """The check that no workload is slower than on stock, with only residency if that was measured, else with all."""
    name = f"no workload slower at {SLOWER_VCPUS} vCPUs"
    if run.vcpus != SLOWER_VCPUS:
        return Check(name, "skipped", f"measured at {run.vcpus} vCPUs")
    return thresholds.not_more(run, name, (*thresholds.alone("residency"), *ON), SECONDS)


def _cost(run: RunSlice, workload: str) -> Check:
    name = f"instructions of {workload}"
    more = run.more(ON, workload)
    if isinstance(more, str):
        return Check(name, "skipped", more)
    detail = f"{100 * more:+.2f} % of stock's, at most {100 * COSTS[workload]:+g} % is allowed"
    return thresholds.cost(run, name, {workload: more}, COSTS[workload], detail)


def _off(run: RunSlice) -> Check:
    name = "instructions with residency=off"
    measured = {workload: run.more(OFF, workload) for workload in COSTS}
    lacking = [why for why in measured.values() if isinstance(why, str)]
    if len(lacking) == len(measured):
        return Check(name, "skipped", lacking[0])
    costs = {workload: more for workload, more in measured.items() if not isinstance(more, str)}
    shown = ", ".join(f"{workload} {100 * more:+.2f} %" for workload, more in costs.items())
    detail = f"{shown} of stock's, at most {100 * OFF_COST:+g} % is allowed"
    found = thresholds.cost(run, name, costs, OFF_COST, detail)
    return Check(name, "skipped", f"{lacking[0]}; {shown}") if lacking and found.verdict == "passed" else found
