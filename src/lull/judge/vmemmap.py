# SPDX-License-Identifier: GPL-2.0-only
"""Judge the goals of feature vmemmap (HVO with a pause of all CPUs): it should cost little more than HVO without pause.

HVO without a pause is unsafe on arm64. Only the lab kernel has it, as policy ``unsafe``: Linux's own code, which
changes live entries of the vmemmap. The workload ``hvo`` does the four operations that system D was published with.

The cost of an operation is the number of instructions that all CPUs execute in its window, without those of waiting for
each other (``insns_spin``), whose number depends on the host. The smallest value of the repeats is used, because timer
ticks and idle CPUs can only add instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lull.judge import goals, tables
from lull.judge.goals import SECONDS, RunSlice, lacking, verdict
from lull.run.records import Check, Results

FEATURE = "vmemmap"
SYSTEM = "D"
PROGRAM = "hvo"
UNSAFE = ("lab+only=vmemmap+vmemmap=unsafe",)
KERNELS = (("lab",), ("lab+only=vmemmap",))
"""Goals are judged on both kernels: with all features, and with only this one."""


@dataclass(frozen=True)
class Operation:
    """One of the four published operations.

    Args:
        case: the case of the workload.
        name: its name in checks and tables.
        before, after: published seconds without and with a pause.
        limit: the largest allowed ratio of instructions to those of policy ``unsafe``.
        given: vmemmap pages that are given back after it, for each operation.
    """

    case: str
    name: str
    before: float
    after: float
    limit: float
    given: int

    @property
    def workload(self) -> str:
        """The name of its workload in a run."""
        return f"{PROGRAM}/{self.case}"


OPERATIONS = (
    Operation("allocate-1g", "allocate 1 GiB", 3.526, 3.649, 1.02, 4095),
    Operation("free-1g", "free 1 GiB", 0.880, 0.917, 1.02, 0),
    Operation("demote", "demote", 1.575, 3.640, 0.25, 512 * 7),
    Operation("free-2m", "free 2 MiB", 0.946, 2.921, 1.02, 0),
)
"""The published numbers are for 600 pages of 1 GiB, and 307 200 pages of 2 MiB. Demotion makes 512 pages of one; each
of them gives back 7 of its 8 vmemmap pages.
"""
PAUSES, MOST_PAUSES = "vmemmap_pause", 2
BARRIERS, MOST_BARRIERS = "dsb_ish", 250
LONGEST, GIVEN = "vmemmap_pause_max_ns", "memmap_given_back"


def concerns(results: Results) -> bool:
    """Return true if the run measured the operations on a kernel with the feature on."""
    kernels = {kernel for names in (UNSAFE, *KERNELS) for kernel in names}
    measured = any(r.kernel in kernels and goals.is_of(r.workload, PROGRAM) for r in results.records)
    return measured and goals.has(results, FEATURE)


def judge(run: RunSlice) -> list[Check]:
    """A Check for each goal; ``skipped`` when something that it needs was not measured."""
    judged: list[Check] = []
    for kernels in KERNELS:
        judged += [_instructions(run, operation, kernels) for operation in OPERATIONS]
        judged.append(_at_most(run, "pauses", PAUSES, MOST_PAUSES, kernels))
        judged.append(_at_most(run, "DSB ISH", BARRIERS, MOST_BARRIERS, kernels))
        judged.append(_longest(run, kernels))
        judged.append(_time(run, kernels))
    return judged + [_given(run, kernels) for kernels in (UNSAFE, *KERNELS)]


def instructions(run: RunSlice, kernels: Sequence[str], operation: Operation) -> float | None:
    """The instructions of an operation's window, without those of waiting; None when it was not measured."""
    everything = run.find(kernels, operation.workload, ["insns"])
    spin = run.find(kernels, operation.workload, ["insns_spin"])
    if everything is None or spin is None:
        return None
    return min(every - apart for every, apart in zip(everything.values, spin.values, strict=True))


def _instructions(run: RunSlice, operation: Operation, kernels: Sequence[str]) -> Check:
    name = f"instructions to {operation.name} on {kernels[0]}"
    unsafe, found = instructions(run, UNSAFE, operation), instructions(run, kernels, operation)
    if not unsafe or found is None:
        return lacking(name, {UNSAFE[0]: unsafe or None, kernels[0]: found}, operation.workload)
    ratio, limit = found / unsafe, operation.limit
    published = f"published {operation.after / operation.before:.2f}"
    detail = f"{ratio:.3f} of the unsafe way's, at most {limit:g} is allowed ({published})"
    return Check(name, verdict(ratio <= limit), detail)


def _each(
    run: RunSlice, name: str, metric: str, kernels: Sequence[str], judge: Callable[[Operation, float, int], str]
) -> Check:
    """One check for the four operations in all repeats.

    Args:
        judge: from an operation, a value and the number of operations, what is wrong with the value; empty: nothing.
    """
    held, said = True, []
    for operation in OPERATIONS:
        record = run.find(kernels, operation.workload, [metric])
        if record is None:
            return lacking(name, {kernels[0]: None}, f"{metric} of {operation.workload}")
        wrong = next(filter(None, (judge(operation, value, record.operations) for value in record.values)), "")
        held = held and not wrong
        said.append(f"{operation.case} {max(record.values):g}{wrong}")
    return Check(name, verdict(held), ", ".join(said))


def _at_most(run: RunSlice, what: str, metric: str, most: int, kernels: Sequence[str]) -> Check:
    def judge(operation: Operation, value: float, operations: int) -> str:
        return "" if value <= most else f" (at most {most})"

    return _each(run, f"{what} on {kernels[0]}", metric, kernels, judge)


def _given(run: RunSlice, kernels: Sequence[str]) -> Check:
    """The check that exactly as many vmemmap pages are given back as on x86."""

    def judge(operation: Operation, value: float, operations: int) -> str:
        due = operation.given * operations
        return "" if value == due else f" ({value:g}, and {due} are due)"

    return _each(run, f"pages of vmemmap given back on {kernels[0]}", GIVEN, kernels, judge)


def _time(run: RunSlice, kernels: Sequence[str]) -> Check:
    """A check that states emulated time, waits included. It always holds: the host decides how long vCPUs wait."""
    said = []
    for operation in OPERATIONS:
        unsafe, ours = (run.find(names, operation.workload, SECONDS) for names in (UNSAFE, kernels))
        if unsafe and ours and median(unsafe.values):
            said.append(f"{operation.case} {median(ours.values) / median(unsafe.values):.2f}")
    return _stated(f"emulated time on {kernels[0]}", kernels, said, "of the unsafe way's")


def _longest(run: RunSlice, kernels: Sequence[str]) -> Check:
    """A check that states the longest pause. It always holds: under emulation the host decides how long that is."""
    found = [run.find(kernels, operation.workload, [LONGEST]) for operation in OPERATIONS]
    said = [f"{o.case} {max(r.values) / 1000:.0f} us" for o, r in zip(OPERATIONS, found, strict=True) if r]
    return _stated(f"longest pause on {kernels[0]}", kernels, said, "(emulated)")


def _stated(name: str, kernels: Sequence[str], said: Sequence[str], of: str) -> Check:
    """A check that holds if anything was measured; ``of`` follows the figures."""
    return Check(name, "held", f"{', '.join(said)} {of}") if said else lacking(name, {kernels[0]: None}, PROGRAM)


def published(results: Results) -> list[tables.Grid]:
    """The tables of the operations that system D was published with: published and this run's; one for each kernel."""
    run = RunSlice(0, results.records)
    return [grid for kernels in KERNELS if (grid := _table(run, kernels))]


def _table(run: RunSlice, kernels: Sequence[str]) -> tables.Grid | None:
    rows = [row for operation in OPERATIONS if (row := _row(run, operation, kernels))]
    if not rows:
        return None
    header = ("", "published", "paused", "ratio", "insns, M", "paused", "ratio", "ms", "paused", "ratio", "pauses")
    note = (
        "published: seconds, of 600 pages of 1 GiB, 307 200 of 2 MiB. Ours: instructions of all CPUs without those of "
        "waiting for each other, the least of the repeats; emulated milliseconds, which include the waits, their "
        "median; the most pauses. A pause of a batch is longer than the published one of a single page, which is worse "
        "for real-time users"
    )
    return tables.Grid(f"system D: {kernels[0]}, to {UNSAFE[0]}", header, tuple(rows), 1, (note,))


def _row(run: RunSlice, operation: Operation, kernels: Sequence[str]) -> tuple[str, ...] | None:
    before, after = instructions(run, UNSAFE, operation), instructions(run, kernels, operation)
    if before is None or after is None:
        return None
    seconds = [run.find(names, operation.workload, SECONDS) for names in (UNSAFE, kernels)]
    unsafe, ours = (1e3 * median(record.values) if record else math.nan for record in seconds)
    pauses = run.find(kernels, operation.workload, [PAUSES])
    return (
        operation.name,
        *_compared(operation.before, operation.after, ".3f"),
        *_compared(before / 1e6, after / 1e6, ".2f"),
        *_compared(unsafe, ours, ".1f"),
        f"{max(pauses.values):g}" if pauses else "",
    )


def _compared(before: float, after: float, form: str) -> tuple[str, str, str]:
    """Two figures and their ratio."""
    return f"{before:{form}}", f"{after:{form}}", f"{after / before:.2f}"
