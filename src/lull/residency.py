# SPDX-License-Identifier: GPL-2.0-only
"""Whether residency reaches its goals: fewer broadcasts than stock and than ``sticky``, time, and what it costs.

What each goal is judged by:

* **broadcasts**: ``tlbi_broadcast_user`` in the window, all cases of a program together: the median of the repeats. The
  emulator counts them, so they are the same anywhere. ``sleeper`` must have none in any repeat.
* **time**: ``seconds_emulated``, by intervals of the ratio to stock; seconds of one emulator on one host, no machine's.
* **cost**: ``insns_quiet``, the instructions of a CPU in windows without ticks: the least of the repeats. What comes on
  top is a longer path through the scheduler, which depends on how busy the host is: a round trip through idle takes one
  of two numbers of instructions, 2 % apart, on stock as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from lull import stats
from lull.records import Check, Record, Results

STOCK, CONTROL = "stock", "stock.control"
# By name in a run: counted is what lull boots with.
COUNTED = ("lull+residency=counted", "lull")
STICKY = ("lull+residency=sticky",)
OFF = ("lull+residency=off", "lull-residency")

BROADCASTS, INSNS = "tlbi_broadcast_user", "insns_quiet"
SECONDS = ("seconds_emulated", "seconds")

# The goals, as the project set them for residency before it was written.
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
"""Of stock's broadcasts, at most."""
NONE = "sleeper"
FAST, FAST_VCPUS, TIMES = "mprotect_per_cpu", 16, 15.6
"""The speed-up system B was published with, and the CPUs it takes here: 32 are too many to emulate."""
SLOWER_VCPUS, ERROR = 4, 0.05
"""Chance that any workload at all is called slower when none is."""
COSTS = {"pingpong/same-cpu": 0.03, "pingpong/two-cpus": 0.05, "busy_threads": 0.01}
"""Instructions more than stock's, at most: two switches between users, a round trip through idle, many threads."""
OFF_COST = 0.005
"""The same for the policy ``off``."""


@dataclass(frozen=True)
class Run:
    """The records of one vCPU number."""

    vcpus: int
    records: Sequence[Record]

    def find(self, kernels: Sequence[str], workload: str, metrics: Sequence[str]) -> Record | None:
        """The record of the first of ``kernels`` that has one."""
        for kernel in kernels:
            for record in self.records:
                if (record.kernel, record.workload) == (kernel, workload) and record.metric in metrics:
                    return record
        return None

    def broadcasts(self, kernels: Sequence[str], program: str) -> float | None:
        """Of all cases of a program: the sum of their medians. None when it was not measured."""
        cases = [
            self.find(kernels, workload, [BROADCASTS]) for workload in self.workloads() if is_of(workload, program)
        ]
        found = [median(record.values) for record in cases if record and record.values]
        return sum(found) if found else None

    def workloads(self) -> list[str]:
        """Programs and cases, in the order of the run."""
        return list(dict.fromkeys(record.workload for record in self.records))


def is_of(workload: str, program: str) -> bool:
    """``teardown/anon-4k`` is of ``teardown``."""
    return workload.partition("/")[0] == program


def concerns(results: Results) -> bool:
    """Whether the run measured anything that a goal is about, on a kernel that has residency."""
    goals = {*FEW, NONE, *(workload.partition("/")[0] for workload in COSTS)}
    kernels = {*COUNTED, *STICKY, *OFF}
    return any(r.kernel in kernels and r.workload.partition("/")[0] in goals for r in results.records)


def check(results: Results) -> list[Check]:
    """A Check per goal and vCPU number. ``skipped``: what it needs was not measured."""
    numbers = list(dict.fromkeys(record.vcpus for record in results.records))
    found: list[Check] = []
    for vcpus in numbers:
        run = Run(vcpus, [record for record in results.records if record.vcpus == vcpus])
        where = "" if len(numbers) == 1 else f" ({vcpus} vCPUs)"
        judged = [*(_few(run, program) for program in FEW), _none(run), _sticky(run), _fast(run), _slower(run)]
        judged += [*(_cost(run, workload) for workload in COSTS), _off(run)]
        found += [Check(f"residency: {c.name}{where}", c.verdict, c.detail) for c in judged]
    return found


def _few(run: Run, program: str) -> Check:
    name = f"broadcasts of {program}"
    stock, counted = run.broadcasts([STOCK], program), run.broadcasts(COUNTED, program)
    if stock is None or counted is None:
        return _lacking(name, {STOCK: stock, COUNTED[0]: counted}, program)
    if not stock:
        return Check(name, "skipped", "stock has none")
    detail = f"{counted:g}, stock {stock:g}: {100 * counted / stock:.3g} %, at most {100 * SHARE:g} % are allowed"
    return Check(name, _verdict(counted <= SHARE * stock), detail)


def _none(run: Run) -> Check:
    name = f"broadcasts of {NONE}"
    stock, record = run.broadcasts([STOCK], NONE), run.find(COUNTED, NONE, [BROADCASTS])
    if stock is None or record is None or not record.values:
        return _lacking(name, {STOCK: stock, COUNTED[0]: record}, NONE)
    if not stock:
        return Check(name, "skipped", "stock has none")
    most = max(record.values)
    return Check(
        name, _verdict(most == 0), f"{most:g} at most in {len(record.values)} repeats, stock {stock:g}; none is due"
    )


def _sticky(run: Run) -> Check:
    name = "fewer broadcasts than sticky"
    better, alike, worse = [], [], []
    for program in (*FEW, NONE):
        stock, counted = run.broadcasts([STOCK], program), run.broadcasts(COUNTED, program)
        sticky = run.broadcasts(STICKY, program)
        if not stock or counted is None or sticky is None:
            continue
        listed = f"{program} ({counted:g}, sticky {sticky:g})"
        if counted < sticky:
            better.append(listed)
        elif counted == sticky == 0:
            alike.append(program)
        else:
            worse.append(listed)
    if not better and not worse and not alike:
        return Check(name, "skipped", f"no workload was measured on {STOCK}, {COUNTED[0]} and {STICKY[0]}")
    parts = [("not fewer on ", worse), ("fewer on ", better), ("none on both on ", alike)]
    detail = "; ".join(text + ", ".join(names) for text, names in parts if names)
    return Check(name, _verdict(not worse) if better or worse else "skipped", detail)


def _fast(run: Run) -> Check:
    name = f"{FAST} {TIMES:g} times as fast at {FAST_VCPUS} vCPUs"
    if run.vcpus != FAST_VCPUS:
        return Check(name, "skipped", f"measured at {run.vcpus} vCPUs")
    stock, counted = run.find([STOCK], FAST, SECONDS), run.find(COUNTED, FAST, SECONDS)
    if stock is None or counted is None:
        return _lacking(name, {STOCK: stock, COUNTED[0]: counted}, FAST)
    effect = stats.effect(counted.values, stock.values, test=False)
    low, high = effect.interval.low, effect.interval.high
    detail = f"stock takes {effect.estimate:.3g} times as long [{low:.3g}, {high:.3g}]"
    if effect.kind != "ratio" or not effect.interval.reached:
        return Check(name, "skipped", f"too few repeats to tell: {detail}")
    return Check(name, _verdict(low >= TIMES), detail)


def _slower(run: Run) -> Check:
    """Noise is what both series of stock show, and every workload is another chance to be slower by chance."""
    name = f"no workload slower at {SLOWER_VCPUS} vCPUs"
    if run.vcpus != SLOWER_VCPUS:
        return Check(name, "skipped", f"measured at {run.vcpus} vCPUs")
    pairs: list[tuple[str, list[float], Record]] = []
    for workload in run.workloads():
        counted = run.find(COUNTED, workload, SECONDS)
        stock = [run.find([kernel], workload, SECONDS) for kernel in (STOCK, CONTROL)]
        values = [value for record in stock if record for value in record.values]
        if counted and counted.values and values:
            pairs.append((workload, values, counted))
    if not pairs:
        return Check(name, "skipped", f"no workload was measured on {STOCK} and {COUNTED[0]}")
    slower, open_ = [], []
    for workload, values, counted in pairs:
        effect = stats.effect(values, counted.values, confidence=1 - ERROR / len(pairs), test=False)
        if effect.verdict is stats.Verdict.HIGHER:
            slower.append(f"{workload} ({effect.estimate:.3g} times stock's time, {effect.interval.low:.3g} at least)")
        elif not effect.interval.reached:
            open_.append(workload)
    if slower:
        return Check(name, "failed", f"slower: {', '.join(slower)}")
    if open_:
        return Check(name, "skipped", f"too few repeats to tell of {len(open_)} of {len(pairs)} workloads")
    return Check(name, "held", f"{len(pairs)} workloads, none slower beyond the noise of stock's own series")


def _cost(run: Run, workload: str) -> Check:
    name = f"instructions of {workload}"
    more = _more(run, COUNTED, workload)
    if isinstance(more, str):
        return Check(name, "skipped", more)
    detail = f"{100 * more:+.2f} % of stock's, at most {100 * COSTS[workload]:+g} % is allowed"
    return Check(name, _verdict(more <= COSTS[workload]), detail)


def _off(run: Run) -> Check:
    name = "instructions with residency=off"
    found = {workload: _more(run, OFF, workload) for workload in COSTS}
    lacking = [why for why in found.values() if isinstance(why, str)]
    if len(lacking) == len(found):
        return Check(name, "skipped", lacking[0])
    costs = {workload: more for workload, more in found.items() if not isinstance(more, str)}
    shown = ", ".join(f"{workload} {100 * more:+.2f} %" for workload, more in costs.items())
    held = all(more <= OFF_COST for more in costs.values())
    if held and lacking:
        return Check(name, "skipped", f"{lacking[0]}; {shown}")
    return Check(name, _verdict(held), f"{shown} of stock's, at most {100 * OFF_COST:+g} % is allowed")


def _more(run: Run, kernels: Sequence[str], workload: str) -> float | str:
    """Instructions beyond stock's, as a share of those; why not, when it cannot be said."""
    stock, other = run.find([STOCK], workload, [INSNS]), run.find(kernels, workload, [INSNS])
    if stock is None or other is None:
        return _lacking("", {STOCK: stock, kernels[0]: other}, workload).detail
    if not stock.operations == other.operations > 0:
        return f"{workload} is not the same measurement on {stock.kernel} and {other.kernel}"
    return min(other.values) / min(stock.values) - 1


def _lacking(name: str, found: dict[str, object], workload: str) -> Check:
    kernels = " and ".join(kernel for kernel, value in found.items() if value is None)
    return Check(name, "skipped", f"{workload} was not measured on {kernels}")


def _verdict(held: bool) -> str:
    return "held" if held else "failed"
