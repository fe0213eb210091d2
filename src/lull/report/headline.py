# SPDX-License-Identifier: GPL-2.0-only
"""What a report says before anything else: what was compared, what came of it, and how far it can be trusted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from lull.judge import short, tables
from lull.judge.compare import CONTROL_CHECK
from lull.judge.thresholds import BROADCASTS, CONTROL, STOCK, TOGETHER, RunSlice
from lull.report.data import ReportSource
from lull.report.plots import each
from lull.run.records import Check

LULL = TOGETHER[0]
TELLING = ("swap_bench", "mprotect_threaded", "mprotect_per_cpu", "sort_compute", "fork_exec", "sleeper")
"""Workloads that systems were published with, one for each of the ways that broadcasts come about; what a run
has none of is filled up by those of its own that have the most."""
MOST = 6
FEW_KERNELS = 3
"""That are named in a sentence; of more, how many there are."""
PROGRAMS_OWN = ("exact", "calibrate")
"""Workloads that measure the measuring."""
WHY = {
    "not measured in this run": r"\bnot measured\b",
    "meant for another number of vCPUs": r"^measured at \d+ vCPUs",
    "with too few repeats to tell": r"\bfew repeats\b",
}
"""Reasons for not judging a check, by what is said in it."""
OTHERWISE = "for reasons that stand with each below"


@dataclass(frozen=True)
class Tally:
    """How checks came out."""

    passed: int
    failed: int
    skipped: int

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Tally:
        """Count them."""
        counts = Counter(check.verdict for check in checks)
        return cls(counts["passed"], counts["failed"], counts["skipped"])


@dataclass(frozen=True)
class Head:
    """The first screen.

    Args:
        title: the verdict, in a line.
        compared: what was compared with what, a sentence for each run.
        vcpus: that broadcasts were counted with.
        broadcasts: workload, what an operation is, stock's and Lull's broadcasts of it.
        changes: what is better, worse, and cannot be told on Lull, in this order; of each workload what is counted, in
            the words of the short run's table, and how much on stock and Lull.
        came_out: the thresholds that passed; what failed or was skipped, threshold or not.
        why: how many were skipped for which reason.
        control: how the A/A control came out, of each run: its verdict, and why or what it found.
    """

    title: str
    compared: list[str]
    vcpus: int
    broadcasts: list[tuple[str, str, str, str]]
    changes: list[tuple[str, list[tuple[str, str, str, str]]]]
    came_out: Tally
    why: list[str]
    control: list[tuple[str, str]]


def head_of(sources: Sequence[ReportSource], thresholds: Sequence[Check], checks: Sequence[Check]) -> Head:
    """What is said of the sources first.

    Args:
        thresholds: those of ``checks`` that are thresholds.
        checks: all.
    """
    runs = [source for source in sources if source.run]
    records = runs[0].run.records if runs and runs[0].run else []
    most = max((record.vcpus for record in records), default=0)
    came_out = replace(Tally.of(checks), passed=Tally.of(thresholds).passed)
    said = [compared(source, named=len(sources) > 1) for source in runs]
    run = RunSlice(most, [record for record in records if record.vcpus == most])
    controls = [check for check in checks if check.name == CONTROL_CHECK]
    control = [("not judged", reason(c)) if c.verdict == "skipped" else (c.verdict, c.detail) for c in controls]
    first = title(came_out, sources, run)
    return Head(first, said, most, broadcasts(run), changes(run), came_out, why(checks), control)


def title(came_out: Tally, sources: Sequence[ReportSource], run: RunSlice) -> str:
    """The verdict, in a line, or what ``run`` counted. Who has read only this must not take skipped for passed.

    Args:
        run: what the first run has of its largest number of vCPUs.
    """
    unfinished = {source.name: source.unfinished for source in sources if source.unfinished}
    if unfinished:
        if len(sources) == 1:
            return capital(*unfinished.values())
        return "; ".join(f"{name}: {text}" for name, text in unfinished.items())
    verdicts = [source.check.verdict for source in sources if source.check]
    if verdicts and not came_out.passed + came_out.failed:
        return capital(verdicts[0])
    parts = [count(came_out.passed, "threshold") + " passed"] if came_out.passed else []
    parts += [f"{came_out.failed} failed"] if came_out.failed else []
    parts += [f"{came_out.skipped} not judged"] if came_out.skipped else []
    if came_out.passed + came_out.failed:
        return ", ".join(parts)
    return gained(run) or ", ".join(["No threshold was judged", *parts])


def gained(run: RunSlice) -> str:
    """What came of a run, whose thresholds were not judged: in how many workloads Lull has fewer broadcasts, and more.

    Empty when it did not count them on both kernels.
    """
    pairs = counted(run).values()
    fewer, more = sum(lull < stock for stock, lull in pairs), sum(lull > stock for stock, lull in pairs)
    said = f"{LULL} has fewer broadcast TLBIs than {STOCK} in {fewer} of {count(len(pairs), 'workload')}"
    return capital(said + f", and more in {more}" * bool(more)) if pairs else ""


def capital(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]


def compared(source: ReportSource, *, named: bool) -> str:
    """What a run compared, in a sentence."""
    assert source.run is not None
    records = source.run.records
    kernels = [kernel for kernel in dict.fromkeys(r.kernel for r in records) if kernel != CONTROL]
    others = [kernel for kernel in kernels if kernel != STOCK]
    if len(others) > FEW_KERNELS:
        first = [LULL] if LULL in others else []
        others = [*first, f"{len(others) - len(first)} {'others' if first else 'kernels'}"]
    against = f"{STOCK} against " if STOCK in kernels and others else STOCK if STOCK in kernels else ""
    sizes = [
        count(len({record.workload for record in records}), "workload"),
        *([count(source.boots, "boot")] if source.boots else []),
        " and ".join(map(str, sorted({record.vcpus for record in records}))) + " vCPUs" if records else "",
    ]
    linux = source.run.settings.get("linux", source.run.base)
    text = f"Linux {linux}, {against}{' and '.join(others)}: {', '.join(filter(None, sizes))}"
    return f"{source.name}: {text}" if named else text


def count(number: int, what: str) -> str:
    """``1 boot``, ``2 boots``."""
    return f"{number} {what}{'s' * (number != 1)}"


def counted(run: RunSlice) -> dict[str, tuple[float, float]]:
    """Broadcasts of an operation of each workload, of stock and of Lull; what measures the measuring is left out."""
    found = {}
    for workload in run.workloads():
        stock, lull = (each(run, kernel, workload, BROADCASTS) for kernel in (STOCK, LULL))
        if stock is not None and lull is not None and stock + lull and workload.partition("/")[0] not in PROGRAMS_OWN:
            found[workload] = (stock, lull)
    return found


def broadcasts(run: RunSlice) -> list[tuple[str, str, str, str]]:
    """Broadcasts of an operation, of stock and of Lull, where they tell most."""
    found = counted(run)
    telling = [workload for workload in TELLING if workload in found]
    rest = sorted(set(found) - set(telling), key=lambda workload: (-found[workload][0], workload))
    shown = []
    for workload in [*telling, *rest][:MOST]:
        record = run.find([STOCK], workload, [BROADCASTS])
        operation = (record.operation or "operation") if record and record.operations else "window"
        stock, lull = found[workload]
        shown.append((workload, operation, tables.number(stock), tables.number(lull)))
    return shown


BETTER, WORSE, UNTOLD = "Better on lull", "Worse on lull", "Cannot be told: boots of one kernel differ as much"


def changes(run: RunSlice) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """What is better, worse, and cannot be told on Lull: the lines of a short run, and broadcasts where they tell most.

    A kernel has more if each of its boots has more than each of the other's. What is equal is left out.
    """
    told = {line.workload for line in short.LINES if line.metric == BROADCASTS}
    rest = [workload for workload, *_ in broadcasts(run) if workload not in told]
    found: dict[str, list[tuple[str, str, str, str]]] = {BETTER: [], WORSE: [], UNTOLD: []}
    for line in (*short.LINES, *(short.Line(workload, BROADCASTS, "") for workload in rest)):
        stock, lull = (run.find([kernel], line.workload, [line.metric]) for kernel in (STOCK, LULL))
        if not stock or not lull or set(stock.values) == set(lull.values):
            continue
        fewer, more = max(lull.values) < min(stock.values), min(lull.values) > max(stock.values)
        if line.metric in short.MORE_IS_BETTER:
            fewer, more = more, fewer
        text = line.text or f"{short.TLBIS} {stock.operation or 'operation'}"
        shown = [tables.number(median(one.values) / (one.operations or 1), one.unit) for one in (stock, lull)]
        found[BETTER if fewer else WORSE if more else UNTOLD].append((line.workload, text, shown[0], shown[1]))
    return [(word, rows) for word, rows in found.items() if rows]


def why(checks: Iterable[Check]) -> list[str]:
    """How many checks were skipped for which reason, in the order of WHY."""
    reasons = Counter(reason(check) for check in checks if check.verdict == "skipped")
    return [f"{reasons[one]} {one}" for one in (*WHY, OTHERWISE) if reasons[one]]


def reason(check: Check) -> str:
    """Why a check was skipped."""
    return next((one for one, said in WHY.items() if re.search(said, check.detail)), OTHERWISE)
