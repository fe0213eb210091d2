# SPDX-License-Identifier: GPL-2.0-only
"""Judge the thresholds of feature teardown: the instructions for giving memory back, compared with stock's.

The smallest ``insns_quiet`` (instructions of windows without timer ticks) of the repeats is compared. For the same case
on the same kernel it repeats to 0.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from lull.judge import tables, thresholds
from lull.judge.thresholds import STOCK, TOGETHER, RunSlice
from lull.run.records import Check, Results

FEATURE = "teardown"
SYSTEM = "C"
KERNELS = (TOGETHER, thresholds.alone(FEATURE))
"""Thresholds are judged on both kernels: with all features, and with only this one."""

RATIOS = {
    "teardown_munmap/anon-4k": 0.52,
    "teardown_munmap/anon-64k": 0.6,
    "teardown_munmap/anon-2m": 0.32,
    "teardown_truncate/file-4k": 0.5,
    "teardown_truncate/file-2m": 0.3,
    "teardown_fork/anon-4k": 1.0,
    "teardown_fork/anon-64k": 1.0,
    "teardown_fork/anon-2m": 1.0,
}
"""Workload -> the largest allowed ratio of instructions to stock's. In teardown_fork a forked child frees no page, so
that there is nothing to gain; the ratio must not get worse."""
RESOLUTION = 0.01
"""Added to the limit of thresholds that ask for no more than stock: smaller differences cannot be measured."""
ATOMICS = "atomics_own"

PUBLISHED = (
    ("cycles removing rmap, thousand million; order-3 folios", "24.7", "5.5", 5.5 / 24.7),
    ("cycles in exit_group, order-3 folios", "", "", 0.74),
    ("kernel time of a kernel build, order-3 folios", "", "", 1 - 0.039),
    ("the same, order-0", "", "", 1 - 0.003),
)
"""Published for system C, on an Ampere Altra: what, before, after, ratio. The system keeps pages as runs, which stock
6.12 already does."""


def concerns(results: Results) -> bool:
    """Return true if the run measured a workload of these thresholds on a kernel with the feature."""
    return thresholds.concerns(results, FEATURE, {workload.partition("/")[0] for workload in RATIOS})


def published(results: Results) -> list[tables.Grid]:
    """The table of the numbers that system C was published with, and of this run's; none when nothing was measured."""
    run = RunSlice(0, results.records)
    rows: list[tuple[str, ...]] = []
    for kernels in KERNELS:
        for workload in RATIOS:
            more = run.more(kernels, workload)
            found = [run.find(names, workload, [thresholds.INSNS]) for names in ([STOCK], kernels)]
            if not isinstance(more, str):
                each = [tables.number(min(r.values) / r.operations) for r in found if r]
                rows.append((f"{workload}, {kernels[0]}", *each, f"{1 + more:.3f}"))
    if not rows:
        return []
    theirs = tuple((f"published: {what}", before, after, f"{ratio:.3f}") for what, before, after, ratio in PUBLISHED)
    note = "published: of pages kept as runs, which stock 6.12 has already. Ours, on top of that: instructions a page, "
    note += "the least of the repeats"
    return [tables.Grid("system C", ("", "before", "after", "ratio"), (*theirs, *rows), 1, (note,))]


def judge(run: RunSlice) -> list[Check]:
    """A Check for each threshold; ``skipped`` when something that it needs was not measured."""
    return [_ratio(run, workload, kernels) for kernels in KERNELS for workload in RATIOS]


def _ratio(run: RunSlice, workload: str, kernels: Sequence[str]) -> Check:
    name = f"instructions of {workload} on {kernels[0]}"
    more = run.more(kernels, workload)
    if isinstance(more, str):
        return Check(name, "skipped", more)
    limit = RATIOS[workload]
    allowed = limit + (RESOLUTION if limit >= 1 else 0)
    detail = f"{1 + more:.3f} of stock's, at most {limit:g} is allowed"
    return thresholds.cost(run, name, {workload: more}, allowed - 1, detail + _atomics(run, workload, kernels))


def _atomics(run: RunSlice, workload: str, kernels: Sequence[str]) -> str:
    """The ratio of atomic operations to stock's, as text. It has no threshold. Empty when they were not counted."""
    stock, other = run.find([STOCK], workload, [ATOMICS]), run.find(kernels, workload, [ATOMICS])
    if stock is None or other is None or not min(stock.values):
        return ""
    return f"; atomic operations {min(other.values) / min(stock.values):.3f}"
