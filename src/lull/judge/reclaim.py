# SPDX-License-Identifier: GPL-2.0-only
"""Judge the thresholds of feature reclaim, and show system A, one wait for a batch of pages: published, and the run's.

System A was published with ``swap_bench``. No other CPU has its address space loaded, so that no broadcast is needed.
``swap_bench_threads`` and ``swap_bench_shared`` always have a thread, or a process, on another CPU. Counts are medians
of the repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from lull.judge import tables, thresholds
from lull.judge.thresholds import BROADCASTS, STOCK, TOGETHER, RunSlice, lacking, verdict
from lull.run.records import Check, Record, Results
from lull.timing import METRIC

FEATURE = "reclaim"
SYSTEM = "A"
ALONE = (FEATURE,)
"""The kernel that is stock with this feature alone."""
KERNELS = (TOGETHER, ALONE)
"""The kernels in the tables: with all features, and with only reclaim."""

PUBLISHED = "swap_bench"
BUSY = ("swap_bench_threads", "swap_bench_shared")
ALL_BROADCASTS = "tlbi_broadcast"
"""Those for every address space, too: reclaim issues one in place of many."""
BARRIERS, WAITS, IPIS = "dsb_ishst", "waits_own", "ipi"
THRESHOLDS = (
    (PUBLISHED, WAITS, 0.04),
    ("swap_bench_threads", BROADCASTS, 0.07),
    ("swap_bench_threads", BARRIERS, 0.07),
    ("reclaim/folios", BROADCASTS, 0.07),
    ("reclaim/crowd", ALL_BROADCASTS, 0.1),
)
"""Workload, metric, and the most that is allowed for each page."""

BEFORE_AND_AFTER = (("Snapdragon 888, one CPU of 8", 14.69, 13.80), ("Kunpeng 920", 13.460, 11.771))
"""Published: machine; seconds of 10 000 rounds of 256 pages with a wait for each page; with a wait for each batch, as
stock 6.12 does."""
PAGES = 2_560_000
"""Pages of these 10 000 rounds."""
SECONDS = {
    METRIC: "modelled seconds",
    "seconds": "seconds",
    "seconds_emulated": "seconds under emulation: not a machine's",
}
"""The metrics of time that a run may have, and their titles; the first that it has is shown."""


def concerns(results: Results) -> bool:
    """Return true if the run measured one of the programs on a kernel with the feature."""
    programs = {PUBLISHED, *BUSY, *(workload.partition("/")[0] for workload, *_ in THRESHOLDS)}
    alone = any(r.kernel in ALONE and r.workload.partition("/")[0] in programs for r in results.records)
    return alone or thresholds.concerns(results, FEATURE, programs)


def judge(run: RunSlice) -> list[Check]:
    """A Check for each threshold, on both kernels; ``skipped`` when a workload was not measured."""
    return [_threshold(run, kernels, *threshold) for kernels in KERNELS for threshold in THRESHOLDS]


def _threshold(run: RunSlice, kernels: Sequence[str], workload: str, metric: str, most: float) -> Check:
    name = f"{metric} of {workload} on {kernels[0]}"
    stock, ours = run.find([STOCK], workload, [metric]), run.find(kernels, workload, [metric])
    if stock is None or ours is None:
        return lacking(name, {STOCK: stock, kernels[0]: ours}, workload)
    usual, found = (_a_page(run, r) for r in (stock, ours))
    return Check(name, verdict(found <= most), f"{found:.3g} a page (stock {usual:.3g}, at most {most:g})")


def _a_page(run: RunSlice, record: Record) -> float:
    """The median of a page; barriers without those of IPIs, one each: how many these are differs by boot."""
    ipis = run.find([record.kernel], record.workload, [IPIS]) if record.metric == BARRIERS else None
    return (median(record.values) - (median(ipis.values) if ipis else 0)) / max(1, record.operations)


def published(results: Results) -> list[tables.Grid]:
    """The tables of the program that system A was published with: counts, published seconds, and seconds of this run.

    Counts are exact. Nothing is concluded from emulated seconds: they have a table of their own, which is shown dimmed.
    """
    run = RunSlice(0, results.records)
    found = [_beside(run, "counts", {"broadcasts": BROADCASTS, "DSB ISHST": BARRIERS})]
    timed = next((metric for metric in SECONDS if run.find([STOCK], PUBLISHED, [metric])), None)
    if timed:
        faint = tables.is_emulated(timed)
        found.append(replace(_beside(run, SECONDS[timed], {"emulated " * faint + "time": timed}), faint=faint))
    ours = [grid for grid in found if grid.rows]
    return [*ours[:1], _of_machines(), *ours[1:]] if ours else []


def _beside(run: RunSlice, title: str, metrics: Mapping[str, str]) -> tables.Grid:
    """The table of metrics per page on stock and on Lull, with a line for each program and kernel.

    Args:
        metrics: name in the header -> metric.
    """
    rows = []
    for program, kernels in ((program, kernels) for program in (PUBLISHED, *BUSY) for kernels in KERNELS):
        found = [run.find(of, program, [metric]) for metric in metrics.values() for of in ([STOCK], kernels)]
        if any(found[1::2]):
            each = (tables.number(median(r.values) / max(1, r.operations), r.unit) if r else "" for r in found)
            rows.append((program, kernels[0], *each))
    header = ("program", "kernel", *(head for name in metrics for head in (f"{name}, {STOCK}", "Lull")))
    return tables.Grid(f"system A, a page swapped in and out: {title}", header, tuple(rows), 2)


def _of_machines() -> tables.Grid:
    rows = tuple(
        (where, *(tables.number(seconds / PAGES, "s") for seconds in (before, after)), f"{after / before:.3f}")
        for where, before, after in BEFORE_AND_AFTER
    )
    note = "before: a wait for each page; after: one for a batch, as stock 6.12 has it. Not Lull's."
    title = "system A, a page swapped in and out: published, of machines"
    return tables.Grid(title, ("machine", "before", "after", "ratio"), rows, 1, (note,))
