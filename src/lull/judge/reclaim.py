# SPDX-License-Identifier: GPL-2.0-only
"""Judge the goals of feature reclaim: far fewer TLBIs and barriers per page than stock.

System A was published with ``swap_bench``. No other CPU has its address space loaded, so that no broadcast is needed.
``swap_bench_threads`` and ``swap_bench_shared`` always have a thread, or a process, on another CPU: broadcasts are
needed, but neighbouring pages can share one if the machine has range TLBIs. Counts are medians of the repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from lull.judge import goals, tables
from lull.judge.goals import ALL_TLBIS, BROADCASTS, CONTROL, STOCK, TOGETHER, RunSlice, lacking, verdict
from lull.run.records import Check, Results
from lull.timing import METRIC

FEATURE = "reclaim"
SYSTEM = "A"
KERNELS = (TOGETHER, goals.alone(FEATURE))
"""Goals are judged on both kernels: with all features, and with only this one."""

PUBLISHED = "swap_bench"
BUSY = ("swap_bench_threads", "swap_bench_shared")
"""With only feature reclaim, goals are judged on the first alone. In the second, each page needs TLBIs for two address
spaces, while residency would elide those of one. Reclaim flushes twice for 32 pages, in both address spaces: 1/16 of
stock's two TLBIs per page is just out of reach."""
BARRIERS = "dsb_ishst"
SHARE = 1 / 16
"""The largest allowed share of stock's TLBIs and barriers. Without range TLBIs, as many as stock's are allowed."""

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
    """Return true if the run measured a workload of these goals on a kernel with the feature."""
    return goals.concerns(results, FEATURE, (PUBLISHED, *BUSY))


def judge(run: RunSlice) -> list[Check]:
    """A Check for each goal; ``skipped`` when something that it needs was not measured."""
    judged = [_none(run), _share(run, "TLBIs", ALL_TLBIS, PUBLISHED, TOGETHER)]
    for kernels in KERNELS:
        for program in BUSY if kernels == TOGETHER else BUSY[:1]:
            judged.append(_share(run, "broadcasts", BROADCASTS, program, kernels))
            judged.append(_share(run, "DSB ISHST", BARRIERS, program, kernels))
    return judged


def _none(run: RunSlice) -> Check:
    name = f"broadcasts of {PUBLISHED}"
    record = run.find(TOGETHER, PUBLISHED, [BROADCASTS])
    if record is None:
        return lacking(name, {TOGETHER[0]: None}, PUBLISHED)
    most = max(record.values)
    return Check(name, verdict(most == 0), f"{most:g} at most in {len(record.values)} repeats; none is due")


def _share(run: RunSlice, what: str, metric: str, program: str, kernels: Sequence[str]) -> Check:
    """The check that a metric is at most SHARE of stock's or, without range TLBIs, at most stock's largest value.

    The kernel also executes barriers for other purposes, and more of them on a busy host. Barriers that stock has
    beyond one for each of its TLBIs are therefore allowed in addition, up to as many again as SHARE allows.
    """
    name = f"{what} of {program} on {kernels[0]}"
    stock, record = run.find([STOCK], program, [metric]), run.find(kernels, program, [metric])
    most = run.most([STOCK, CONTROL], program, metric)
    if stock is None or record is None or most is None:
        return lacking(name, {STOCK: stock, kernels[0]: record}, program)
    if not most:
        return Check(name, "skipped", "stock has none")
    found, usual = median(record.values), median(stock.values)
    flushes = run.find([STOCK], program, [ALL_TLBIS]) if metric == BARRIERS else None
    beside = min(max(0.0, usual - median(flushes.values)), SHARE * usual) if flushes else 0.0
    allowed = SHARE * usual + beside if run.ranges else most
    pages = max(1, record.operations)
    detail = f"{found / pages:.3g} a page, stock {usual / pages:.3g}; at most {allowed / pages:.3g} are allowed"
    return Check(name, verdict(found <= allowed), detail)


def published(results: Results) -> list[tables.Grid]:
    """The tables of the program that system A was published with: counts, published seconds, and seconds of this run.

    Counts are exact. Nothing is concluded from emulated seconds: they have a table of their own, which is shown dimmed.
    """
    run = RunSlice(0, results.records)
    found = [_beside(run, "counts", {"broadcasts": BROADCASTS, "DSB ISHST": BARRIERS}), _of_machines()]
    timed = next((metric for metric in SECONDS if run.find([STOCK], PUBLISHED, [metric])), None)
    if timed:
        found.append(replace(_beside(run, SECONDS[timed], {"time": timed}), faint=tables.is_emulated(timed)))
    return [grid for grid in found if grid.rows]


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
