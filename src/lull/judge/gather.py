# SPDX-License-Identifier: GPL-2.0-only
"""Judge the thresholds of feature gather: never more TLBIs than stock, and far fewer where pages lie far apart.

``sparse`` and ``fragmented`` unmap ranges in which few pages are mapped, while threads on other CPUs read pages of
their own. Under the checker, the entries that these threads lose are counted (``tlb_over_invalidated_others``). In
``teardown_munmap`` all pages of a range are mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from statistics import median

from lull.judge import thresholds
from lull.judge.thresholds import ALL_TLBIS, BROADCASTS, CONTROL, SPARSE, STOCK, SWEEP, TOGETHER, RunSlice
from lull.run.records import Check, Record, Results

FEATURE = "gather"
SYSTEM = "C"
KERNELS = (TOGETHER, thresholds.alone(FEATURE))
"""Thresholds are judged on both kernels: with all features, and with only this one."""

APART = ("sparse/munmap", "sparse/dontneed", "fragmented/growing", "fragmented/alternate")
"""Cases whose flushes have few pages, far apart, in a range for which stock needs several TLBIs."""
SHARE = 0.6
"""The largest share of stock's TLBIs that is allowed for them."""
DENSE = ("teardown_munmap",)
OVER = "tlb_over_invalidated_others"
"""The metric: entries that a TLBI of one CPU removed from others although they were still valid (docs/checker.md)."""


def concerns(results: Results) -> bool:
    """Return true if the run measured a workload of these thresholds on a kernel with the feature."""
    return thresholds.concerns(results, FEATURE, (*SPARSE, *DENSE, SWEEP))


def judge_checked(run: RunSlice) -> list[Check]:
    """What only `lull check` can judge: no more entries of other threads are over-invalidated than on stock.

    It is for the kernel with gather alone. Without FEAT_nTLBPA, residency broadcasts for the whole ASID when tables
    are freed that several CPUs walked, which takes valid entries, too (docs/decisions/residency.md).
    """
    what = "over-invalidated entries of other CPUs"
    return [_cases(run, what, program, OVER, thresholds.alone(FEATURE), _no_more, APART) for program in SPARSE]


def judge(run: RunSlice) -> list[Check]:
    """A Check for each threshold; ``skipped`` when something that it needs was not measured."""
    judged = []
    for kernels in KERNELS:
        if any(run.cases(SWEEP)):
            judged.append(_cases(run, "no more TLBIs", SWEEP, BROADCASTS, kernels, _no_more))
        for program in SPARSE:
            judged.append(_cases(run, "no more TLBIs", program, BROADCASTS, kernels, _no_more))
            judged.append(_cases(run, "fewer TLBIs", program, BROADCASTS, kernels, _fewer, APART))
        for program in DENSE:
            judged.append(_cases(run, "no more TLBIs", program, ALL_TLBIS, kernels, _no_more))
    return judged


Judge = Callable[[RunSlice, Record, Record], tuple[bool, str]]
"""From the record of stock and that of another kernel: whether the threshold is met, and the figures for it."""


def _cases(
    run: RunSlice, what: str, program: str, metric: str, kernels: Sequence[str], met: Judge, only: Collection[str] = ()
) -> Check:
    """One check for all cases of a program, or for those in ``only``; it passes if each of them meets the threshold."""
    name = f"{what}: {program} on {kernels[0]}"
    reached, said = [], []
    for workload in run.cases(program):
        if only and workload not in only:
            continue
        stock, record = run.find([STOCK], workload, [metric]), run.find(kernels, workload, [metric])
        if stock is None or record is None:
            return thresholds.lacking(name, {STOCK: stock, kernels[0]: record}, workload)
        passed, text = met(run, stock, record)
        reached.append(passed)
        said.append(f"{workload.partition('/')[2] or program} {text}")
    if not reached:
        return thresholds.lacking(name, {STOCK: None, kernels[0]: None}, program)
    return Check(name, thresholds.verdict(all(reached)), ", ".join(said))


def _fewer(run: RunSlice, stock: Record, record: Record) -> tuple[bool, str]:
    found, usual = (median(r.values) / max(1, r.operations) for r in (record, stock))
    return found <= SHARE * usual, f"{found:.3g} a page (stock {usual:.3g}, at most {SHARE:g} of it)"


def _no_more(run: RunSlice, stock: Record, record: Record) -> tuple[bool, str]:
    found, most = median(record.values), run.most([STOCK, CONTROL], record.workload, record.metric)
    return most is not None and found <= most, f"{found:g} (stock {median(stock.values):g})"
