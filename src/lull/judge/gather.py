# SPDX-License-Identifier: GPL-2.0-only
"""Judge the goals of feature gather: TLBIs in proportion to the pages that were mapped, and never one of a whole ASID.

``sparse`` and ``fragmented`` unmap ranges in which few pages are mapped, while threads on other CPUs read pages of
their own. Under the checker, the entries that these threads lose are counted (``tlb_lost_others``). In other runs only
the cause is counted: broadcasts that invalidate a whole ASID. Where all pages of a range are mapped, flushing runs must
not need more TLBIs than stock, which flushes the hull.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from lull.guest.runner import WHOLE_ASID
from lull.judge import goals
from lull.judge.goals import ALL_TLBIS, BROADCASTS, CONTROL, STOCK, TOGETHER, RunSlice, lacking, verdict
from lull.run.records import Check, Record, Results

FEATURE = "gather"
KERNELS = (TOGETHER, goals.alone(FEATURE))
"""Goals are judged on both kernels: with all features, and with only this one."""

SPARSE = ("sparse", "fragmented")
PER_PAGE = 2.5
"""The most TLBIs per page: one for the page, one for a page table that is freed with it, and a share of one for the
table above that."""
DENSE = ("teardown_munmap",)
LOST = "tlb_lost_others"
"""The metric: entries that a TLBI of one CPU removed from others although they were still valid (docs/checker.md)."""


def concerns(results: Results) -> bool:
    """Return true if the run measured a workload of these goals on a kernel with the feature."""
    return goals.concerns(results, FEATURE, (*SPARSE, *DENSE))


def lost(results: Results) -> list[Check]:
    """The checks of the goal that only `lull check` can judge: other threads lose no valid entry from their TLBs."""
    return goals.check(FEATURE, results, _lost)


def _lost(run: RunSlice) -> list[Check]:
    what = "entries that other CPUs lost"
    return [_cases(run, what, program, LOST, kernels, _none) for kernels in KERNELS for program in SPARSE]


def judge(run: RunSlice) -> list[Check]:
    """A Check for each goal; ``skipped`` when something that it needs was not measured."""
    judged = []
    for kernels in KERNELS:
        for program in SPARSE:
            judged.append(_cases(run, "TLBIs in proportion", program, BROADCASTS, kernels, _in_proportion))
            judged.append(_cases(run, "whole-ASID TLBIs", program, WHOLE_ASID, kernels, _none))
        for program in DENSE:
            judged.append(_cases(run, "TLBIs where all is dense", program, ALL_TLBIS, kernels, _no_more))
    return judged


Goal = Callable[[RunSlice, Record, Record], tuple[bool, str]]
"""From the record of stock and that of another kernel: whether the goal is reached, and the figures for it."""


def _cases(run: RunSlice, what: str, program: str, metric: str, kernels: Sequence[str], goal: Goal) -> Check:
    """One check for all cases of a program; it holds if each of them reaches the goal."""
    name = f"{what}: {program} on {kernels[0]}"
    reached, said = [], []
    for workload in run.cases(program):
        stock, record = run.find([STOCK], workload, [metric]), run.find(kernels, workload, [metric])
        if stock is None or record is None:
            return lacking(name, {STOCK: stock, kernels[0]: record}, workload)
        held, text = goal(run, stock, record)
        reached.append(held)
        said.append(f"{workload.partition('/')[2] or program} {text}")
    if not reached:
        return lacking(name, {STOCK: None, kernels[0]: None}, program)
    return Check(name, verdict(all(reached)), ", ".join(said))


def _in_proportion(run: RunSlice, stock: Record, record: Record) -> tuple[bool, str]:
    found, usual = (median(r.values) / max(1, r.operations) for r in (record, stock))
    return found <= PER_PAGE, f"{found:.3g} a page (stock {usual:.3g}, at most {PER_PAGE:g})"


def _none(run: RunSlice, stock: Record, record: Record) -> tuple[bool, str]:
    found = max(record.values)
    return found == 0, f"{found:g} (stock {median(stock.values):g}, none is due)"


def _no_more(run: RunSlice, stock: Record, record: Record) -> tuple[bool, str]:
    found, most = median(record.values), run.most([STOCK, CONTROL], record.workload, record.metric)
    return most is not None and found <= most, f"{found:g} (stock {median(stock.values):g})"
