# SPDX-License-Identifier: GPL-2.0-only
"""Whether giving memory back reaches its goals: instructions per page, against stock's.

``insns_quiet`` of windows without ticks, the least of the repeats: the same case of the same kernel repeats to 0.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from lull.judge import goals, tables
from lull.judge.goals import STOCK, TOGETHER, Run, verdict
from lull.run.records import Check, Results

FEATURE = "teardown"
KERNELS = (TOGETHER, goals.alone(FEATURE))
"""Each goal is judged on both: all features, and this one by itself."""

RATIOS = {
    "teardown_munmap/anon-4k": 0.85,
    "teardown_munmap/anon-64k": 0.7,
    "teardown_munmap/anon-2m": 0.35,
    "teardown_truncate/file-4k": 0.75,
    "teardown_truncate/file-2m": 0.35,
    "teardown_fork/anon-4k": 1.0,
    "teardown_fork/anon-64k": 1.0,
    "teardown_fork/anon-2m": 1.0,
}
"""Instructions against stock's, at most. A forked child frees no page: nothing can be won, and nothing may be lost."""
RESOLUTION = 0.01
"""Where equal is enough, what is no difference."""
ATOMICS = "atomics_own"

PUBLISHED = (
    ("cycles removing rmap, thousand million; order-3 folios", "24.7", "5.5", 5.5 / 24.7),
    ("cycles in exit_group, order-3 folios", "", "", 0.74),
    ("kernel time of a kernel build, order-3 folios", "", "", 1 - 0.039),
    ("the same, order-0", "", "", 1 - 0.003),
)
"""Of system C, on an Ampere Altra, with pages kept as runs; stock 6.12 keeps them so already."""


def concerns(results: Results) -> bool:
    """Whether the run measured anything that a goal is about, on a kernel that has the feature."""
    return goals.concerns(results, FEATURE, {workload.partition("/")[0] for workload in RATIOS})


def check(results: Results) -> list[Check]:
    """A Check per goal and vCPU number. ``skipped``: what it needs was not measured."""
    return goals.check(FEATURE, results, _judge)


def published(results: Results) -> list[tables.Grid]:
    """What system C was published with, beside what teardown takes here; none when that was not measured."""
    run = Run(0, results.records)
    rows: list[tuple[str, ...]] = []
    for kernels in KERNELS:
        for workload in RATIOS:
            more = run.more(kernels, workload)
            found = [run.find(names, workload, [goals.INSNS]) for names in ([STOCK], kernels)]
            if not isinstance(more, str):
                each = [tables.number(min(r.values) / r.operations) for r in found if r]
                rows.append((f"{workload}, {kernels[0]}", *each, f"{1 + more:.3f}"))
    if not rows:
        return []
    theirs = tuple((f"published: {what}", before, after, f"{ratio:.3f}") for what, before, after, ratio in PUBLISHED)
    note = "published: of pages kept as runs, which stock 6.12 has already. Ours, on top of that: instructions a page, "
    note += "the least of the repeats"
    return [tables.Grid("system C", ("", "before", "after", "ratio"), (*theirs, *rows), 1, (note,))]


def _judge(run: Run) -> list[Check]:
    return [_ratio(run, workload, kernels) for kernels in KERNELS for workload in RATIOS]


def _ratio(run: Run, workload: str, kernels: Sequence[str]) -> Check:
    name = f"instructions of {workload} on {kernels[0]}"
    more = run.more(kernels, workload)
    if isinstance(more, str):
        return Check(name, "skipped", more)
    limit = RATIOS[workload]
    allowed = limit + (RESOLUTION if limit >= 1 else 0)
    detail = f"{1 + more:.3f} of stock's, at most {limit:g} is allowed"
    return Check(name, verdict(1 + more <= allowed), detail + _atomics(run, workload, kernels))


def _atomics(run: Run, workload: str, kernels: Sequence[str]) -> str:
    """The same of atomic operations, for which there is no goal; nothing when they were not counted."""
    stock, other = run.find([STOCK], workload, [ATOMICS]), run.find(kernels, workload, [ATOMICS])
    if stock is None or other is None or not min(stock.values):
        return ""
    return f"; atomic operations {min(other.values) / min(stock.values):.3f}"
