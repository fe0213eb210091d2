# SPDX-License-Identifier: GPL-2.0-only
"""Whether reclaim's batches reach their goals: far fewer TLBIs and barriers per page than stock.

``swap_bench`` is what system A was published with; nobody else runs its address space, so no CPU is to be told.
``swap_bench_threads`` and ``swap_bench_shared`` keep a thread, or a process, on another CPU all the time: broadcasts
are needed there, and neighbouring pages share one where the machine has range TLBIs. Counts are medians of the repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from lull.judge import goals, tables
from lull.judge.goals import ALL_TLBIS, BROADCASTS, CONTROL, STOCK, TOGETHER, Run, lacking, verdict
from lull.run.records import Check, Results
from lull.timing import METRIC

FEATURE = "reclaim"
KERNELS = (TOGETHER, goals.alone(FEATURE))
"""Each goal is judged on both: all features, and this one by itself."""

PUBLISHED = "swap_bench"
BUSY = ("swap_bench_threads", "swap_bench_shared")
"""By itself reclaim is judged on the first only. In the second it tells two address spaces, where residency leaves one
that need not be told; and reclaim flushes twice for 32 pages: 1/16 is what two TLBIs for a page can just not reach."""
BARRIERS = "dsb_ishst"
SHARE = 1 / 16
"""Of stock's, at most; of broadcasts and barriers where the machine has range TLBIs, else at most as many as stock."""

BEFORE_AND_AFTER = (
    ("Snapdragon 888, one CPU of 8", 14.69, 13.80),
    ("Kunpeng 920", 13.460, 11.771),
)
"""Seconds of 10 000 rounds of 256 pages, with a wait for each page and with one for a batch, as stock has by now."""
PAGES = 2_560_000
SECONDS = {
    METRIC: "modelled seconds",
    "seconds": "seconds",
    "seconds_emulated": "seconds under emulation: not a machine's",
}
"""What a run may have, the first of them first."""


def concerns(results: Results) -> bool:
    """Whether the run measured anything that a goal is about, on a kernel that has the feature."""
    return goals.concerns(results, FEATURE, (PUBLISHED, *BUSY))


def check(results: Results) -> list[Check]:
    """A Check per goal and vCPU number. ``skipped``: what it needs was not measured."""
    return goals.check(FEATURE, results, _judge)


def _judge(run: Run) -> list[Check]:
    judged = [_none(run), _share(run, "TLBIs", ALL_TLBIS, PUBLISHED, TOGETHER, run.ranges)]
    for kernels in KERNELS:
        for program in BUSY if kernels == TOGETHER else BUSY[:1]:
            judged.append(_share(run, "broadcasts", BROADCASTS, program, kernels, run.ranges))
            judged.append(_share(run, "DSB ISHST", BARRIERS, program, kernels, run.ranges))
    return judged


def _none(run: Run) -> Check:
    name = f"broadcasts of {PUBLISHED}"
    record = run.find(TOGETHER, PUBLISHED, [BROADCASTS])
    if record is None:
        return lacking(name, {TOGETHER[0]: None}, PUBLISHED)
    most = max(record.values)
    return Check(name, verdict(most == 0), f"{most:g} at most in {len(record.values)} repeats; none is due")


def _share(run: Run, what: str, metric: str, program: str, kernels: Sequence[str], ranges: bool) -> Check:
    """At most a share of stock's; without range TLBIs at most the most that stock had in any repeat.

    Barriers are executed for other things as well, more of them on a busy host: what stock has beside one for each of
    its TLBIs is allowed in addition, but never more than the share itself.
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
    allowed = SHARE * usual + beside if ranges else most
    pages = max(1, record.operations)
    detail = f"{found / pages:.3g} a page, stock {usual / pages:.3g}; at most {allowed / pages:.3g} are allowed"
    return Check(name, verdict(found <= allowed), detail)


def published(results: Results) -> list[tables.Grid]:
    """What this run has for the program that system A was published with; seconds last, after the published ones.

    Counts are exact. Seconds of an emulator find nothing, and do not belong beside a machine's.
    """
    run = Run(0, results.records)
    found = [_beside(run, "counts", {"broadcasts": BROADCASTS, "DSB ISHST": BARRIERS}), _of_machines()]
    timed = next((metric for metric in SECONDS if run.find([STOCK], PUBLISHED, [metric])), None)
    if timed:
        found.append(replace(_beside(run, SECONDS[timed], {"time": timed}), faint=tables.is_emulated(timed)))
    return [grid for grid in found if grid.rows]


def _beside(run: Run, title: str, metrics: Mapping[str, str]) -> tables.Grid:
    """Metrics, by what they are called, of a page on stock and on Lull: a line for each program and kernel."""
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
    return tables.Grid(
        "system A, a page swapped in and out: published, of machines",
        ("machine", "before", "after", "ratio"),
        rows,
        1,
        (note,),
    )
