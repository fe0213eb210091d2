# SPDX-License-Identifier: GPL-2.0-only
"""Judge the thresholds of feature vmemmap (HVO on arm64; no CPU waits): it must cost no more than Linux's own HVO.

Linux's own HVO is unsafe on arm64, because it changes live entries of the vmemmap. The kernel ``unsafe`` has it, as a
baseline. The workload ``hvo`` does the four operations that system D was published with.

The cost of an operation is the number of instructions that all CPUs execute in its window, without those of waiting for
locks (``insns_work``), whose number depends on the host. The smallest value of the repeats is used, because timer ticks
and idle CPUs can only add instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lull import plan
from lull.judge import tables, thresholds
from lull.judge.thresholds import SECONDS, TOGETHER, RunSlice, lacking, verdict
from lull.run.records import Check, Results

FEATURE = "vmemmap"
SYSTEM = "D"
PROGRAM = "hvo"
UNSAFE = (plan.UNSAFE,)
KERNELS = (TOGETHER, thresholds.alone(FEATURE))
"""Thresholds are judged on both kernels: with all features, and with only this one."""


@dataclass(frozen=True)
class Operation:
    """One of the four published operations.

    Args:
        case: the case of the workload.
        name: its name in checks and tables.
        before, after: published seconds without and with a pause.
        limit: the largest allowed ratio of instructions to those of the kernel ``unsafe``.
        given: vmemmap pages that are given back after it, for each operation, on Linux 6.12.
        given_unsafe: the same on the kernel ``unsafe``, and by Lull on later bases.
    """

    case: str
    name: str
    before: float
    after: float
    limit: float
    given: int = 0
    given_unsafe: int = 0

    @property
    def workload(self) -> str:
        """The name of its workload in a run."""
        return f"{PROGRAM}/{self.case}"


OPERATIONS = (
    Operation("allocate-1g", "allocate 1 GiB", 3.526, 3.649, 1.00, 4094, 4095),
    Operation("free-1g", "free 1 GiB", 0.880, 0.917, 1.00),
    Operation("demote", "demote", 1.575, 3.640, 1, 512 * 6, 512 * 7),
    Operation("free-2m", "free 2 MiB", 0.946, 2.921, 1.00),
)
"""The published numbers are for 600 pages of 1 GiB, and 307 200 pages of 2 MiB. Demotion makes 512 pages of one. On
Linux 6.12, Lull keeps two pages of vmemmap for each HugeTLB page. Linux's own HVO keeps one, and so does Lull on later
bases.
"""
WORK, GIVEN = "insns_work", "memmap_given_back"
BARRIERS, MOST_BARRIERS = "dsb_ish", 250


def concerns(results: Results) -> bool:
    """Return true if the run measured the operations on a kernel with the feature on."""
    return thresholds.concerns(results, FEATURE, (PROGRAM,))


def judge(run: RunSlice) -> list[Check]:
    """A Check for each threshold; ``skipped`` when something that it needs was not measured."""
    judged: list[Check] = []
    for kernels in KERNELS:
        judged += [_instructions(run, operation, kernels) for operation in OPERATIONS]
        judged.append(_time(run, kernels))
        judged.append(_barriers(run, kernels))
    return judged + [_given(run, kernels) for kernels in (UNSAFE, *KERNELS)]


def instructions(run: RunSlice, kernels: Sequence[str], operation: Operation) -> float | None:
    """The instructions of an operation's window, without those of waiting; None when it was not measured."""
    record = run.find(kernels, operation.workload, [WORK])
    return min(record.values) if record else None


def _instructions(run: RunSlice, operation: Operation, kernels: Sequence[str]) -> Check:
    name = f"instructions to {operation.name} on {kernels[0]}"
    unsafe, found = instructions(run, UNSAFE, operation), instructions(run, kernels, operation)
    if not unsafe or found is None:
        return lacking(name, {UNSAFE[0]: unsafe or None, kernels[0]: found}, operation.workload)
    ratio, limit = found / unsafe, operation.limit
    published = f"published {operation.after / operation.before:.2f}"
    detail = f"{ratio:.3f} of those on {UNSAFE[0]}, at most {limit:.2f} is allowed ({published})"
    return Check(name, verdict(ratio <= limit), detail)


def _time(run: RunSlice, kernels: Sequence[str]) -> Check:
    """The check that no operation takes more emulated time than on the kernel ``unsafe``, by the noise of repeats."""
    check = thresholds.not_more(run, f"emulated time on {kernels[0]}", kernels, SECONDS, UNSAFE)
    said = []
    for operation in OPERATIONS:
        unsafe, ours = _seconds(run, UNSAFE, operation), _seconds(run, kernels, operation)
        if unsafe and ours:
            said.append(f"{operation.case} {ours / unsafe:.2f}")
    medians = f"; medians: {', '.join(said)}" if said else ""
    return Check(check.name, check.verdict, check.detail + medians)


def _seconds(run: RunSlice, kernels: Sequence[str], operation: Operation) -> float | None:
    record = run.find(kernels, operation.workload, SECONDS)
    return median(record.values) if record else None


def _each(
    run: RunSlice, name: str, metric: str, kernels: Sequence[str], judge: Callable[[Operation, float, int], str]
) -> Check:
    """One check for the four operations in all repeats.

    Args:
        judge: from an operation, a value and the number of operations, what is wrong with the value; empty: nothing.
    """
    passed, said = True, []
    for operation in OPERATIONS:
        record = run.find(kernels, operation.workload, [metric])
        if record is None:
            return lacking(name, {kernels[0]: None}, f"{metric} of {operation.workload}")
        wrong = next(filter(None, (judge(operation, value, record.operations) for value in record.values)), "")
        passed = passed and not wrong
        said.append(f"{operation.case} {max(record.values):g}{wrong}")
    return Check(name, verdict(passed), ", ".join(said))


def _barriers(run: RunSlice, kernels: Sequence[str]) -> Check:
    def judge(operation: Operation, value: float, operations: int) -> str:
        return "" if value <= MOST_BARRIERS else f" (at most {MOST_BARRIERS})"

    return _each(run, f"DSB ISH on {kernels[0]}", BARRIERS, kernels, judge)


def _given(run: RunSlice, kernels: Sequence[str]) -> Check:
    """The check that exactly as many vmemmap pages are given back as the kernel's way of HVO can."""

    def judge(operation: Operation, value: float, operations: int) -> str:
        most = kernels == UNSAFE or run.base != "6.12"
        due = (operation.given_unsafe if most else operation.given) * operations
        return "" if value == due else f" ({value:g}, and {due} are due)"

    return _each(run, f"pages of vmemmap given back on {kernels[0]}", GIVEN, kernels, judge)


def published(results: Results) -> list[tables.Grid]:
    """The tables of the operations that system D was published with: published and this run's; one for each kernel."""
    run = RunSlice(0, results.records)
    return [grid for kernels in KERNELS if (grid := _table(run, kernels))]


def _table(run: RunSlice, kernels: Sequence[str]) -> tables.Grid | None:
    rows = [row for operation in OPERATIONS if (row := _row(run, operation, kernels))]
    if not rows:
        return None
    header = ("", "published", "paused", "ratio", "insns, M", "Lull", "ratio", "ms", "Lull", "ratio")
    note = (
        "published: seconds without and with a pause of all other CPUs, of 600 pages of 1 GiB, 307 200 of 2 MiB. Lull "
        "pauses no CPU. Ours: instructions of all CPUs without those of waiting for locks, the least of the repeats; "
        "emulated milliseconds, the median of the repeats"
    )
    return tables.Grid(f"system D: {kernels[0]}, to {UNSAFE[0]}", header, tuple(rows), 1, (note,))


def _row(run: RunSlice, operation: Operation, kernels: Sequence[str]) -> tuple[str, ...] | None:
    before, after = instructions(run, UNSAFE, operation), instructions(run, kernels, operation)
    if before is None or after is None:
        return None
    unsafe, ours = (_seconds(run, names, operation) or math.nan for names in (UNSAFE, kernels))
    return (
        operation.name,
        *_compared(operation.before, operation.after, ".3f"),
        *_compared(before / 1e6, after / 1e6, ".2f"),
        *_compared(1e3 * unsafe, 1e3 * ours, ".1f"),
    )


def _compared(before: float, after: float, form: str) -> tuple[str, str, str]:
    """Two figures and their ratio."""
    return f"{before:{form}}", f"{after:{form}}", f"{after / before:.2f}"
