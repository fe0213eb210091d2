# SPDX-License-Identifier: GPL-2.0-only
"""What the modules with the features' thresholds share: access to the records of a run, and checks made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lull.base import DEFAULT
from lull.guest import qemu
from lull.judge import stats
from lull.run.records import Check, Record, Results

STOCK, CONTROL = "stock", "stock.control"
TOGETHER = ("lull",)
"""The kernel with all features, by its name in a run."""
BROADCASTS, ALL_TLBIS = "tlbi_broadcast_user", "tlbi_user"
INSNS, SECONDS = "insns_quiet", ("seconds_emulated", "seconds")
SPARSE, SWEEP = ("sparse", "fragmented"), "gaps"
"""Programs that unmap pages which lie far apart; one with many distances, which is judged if it was measured."""
ERROR = 0.05
"""The probability that ``not_more`` finds any workload above stock when none is."""


def alone(feature: str) -> tuple[str, ...]:
    """The kernel with one feature on and all others off, by its name in a run."""
    return (f"lull+only={feature}",)


def concerns(results: Results, feature: str, programs: Collection[str]) -> bool:
    """Return true if any of ``programs`` was measured on a kernel with the feature on."""
    kernels = {*TOGETHER, *alone(feature)}
    measured = any(r.kernel in kernels and r.workload.partition("/")[0] in programs for r in results.records)
    return measured and feature in results.settings.get("features", ())


def is_of(workload: str, program: str) -> bool:
    """Return true if ``workload`` is ``program`` or a case of it (``teardown/anon-4k`` of ``teardown``)."""
    return workload.partition("/")[0] == program


@dataclass(frozen=True)
class RunSlice:
    """The records of a run with one number of vCPUs; ``ranges``: its CPUs have range TLBIs; ``base``: the base."""

    vcpus: int
    records: Sequence[Record]
    ranges: bool = True
    base: str = DEFAULT

    def find(self, kernels: Sequence[str], workload: str, metrics: Sequence[str]) -> Record | None:
        """The record, of one of ``metrics``, of the first of ``kernels`` that has one with values; None without any."""
        for kernel in kernels:
            for record in self.records:
                named = (record.kernel, record.workload) == (kernel, workload) and record.metric in metrics
                if named and record.values:
                    return record
        return None

    def total(self, kernels: Sequence[str], program: str, metric: str) -> float | None:
        """The sum of the medians of a metric over all cases of a program. None when it was not measured."""
        cases = [self.find(kernels, workload, [metric]) for workload in self.cases(program)]
        found = [median(record.values) for record in cases if record]
        return sum(found) if found else None

    def most(self, kernels: Sequence[str], workload: str, metric: str) -> float | None:
        """The largest value of a metric in any repeat on any of ``kernels``. None when it was not measured."""
        found = [self.find([kernel], workload, [metric]) for kernel in kernels]
        return max((value for record in found if record for value in record.values), default=None)

    def cases(self, program: str) -> list[str]:
        """The workloads of the run that are the program or its cases."""
        return [workload for workload in self.workloads() if is_of(workload, program)]

    def workloads(self) -> list[str]:
        """The workloads of the run, in its order."""
        return list(dict.fromkeys(record.workload for record in self.records))

    def more(self, kernels: Sequence[str], workload: str) -> float | str:
        """Additional instructions compared with stock, as a share of stock's; a sentence when they are not known.

        The smallest value of the repeats is compared.
        """
        stock, other = self.find([STOCK], workload, [INSNS]), self.find(kernels, workload, [INSNS])
        if stock is None or other is None:
            return lacking("", {STOCK: stock, kernels[0]: other}, workload).detail
        if not stock.operations == other.operations > 0:
            return f"{workload} is not the same measurement on {stock.kernel} and {other.kernel}"
        return min(other.values) / min(stock.values) - 1

    def spread(self, workload: str) -> float:
        """How far the smallest number of stock's instructions is to be trusted, as a share of it.

        It is compared with the median, and with the smallest of the control.
        """
        stock, control = (self.find([kernel], workload, [INSNS]) for kernel in (STOCK, CONTROL))
        if stock is None:
            return 0.0
        others = [median(stock.values), *([min(control.values)] if control else [])]
        return max(abs(other / min(stock.values) - 1) for other in others)


def check(feature: str, results: Results, judge: Callable[[RunSlice], Sequence[Check]]) -> list[Check]:
    """The checks that ``judge`` makes for each number of vCPUs, with the feature's name in front of theirs."""
    machine = results.settings.get("machine", {})
    ranges = qemu.has_range_tlbis(machine.get("cpu", qemu.Machine.cpu))
    numbers = list(dict.fromkeys(record.vcpus for record in results.records))
    found: list[Check] = []
    for vcpus in numbers:
        run = RunSlice(vcpus, [record for record in results.records if record.vcpus == vcpus], ranges, results.base)
        where = "" if len(numbers) == 1 else f" ({vcpus} vCPUs)"
        found += [Check(f"{feature}: {c.name}{where}", c.verdict, c.detail) for c in judge(run)]
    return found


def cost(run: RunSlice, name: str, costs: Mapping[str, float], limit: float, detail: str) -> Check:
    """The check that no workload executes more instructions than allowed.

    Skipped as undecided if a cost is nearer to the limit than boots of stock are to each other, and none is a miss.

    Args:
        costs: workload -> instructions in addition to stock's, as a share of stock's.
        limit: the largest cost that is allowed.
    """
    open_ = [workload for workload, more in costs.items() if abs(more - limit) < run.spread(workload)]
    missed = any(more > limit for workload, more in costs.items() if workload not in open_)
    if open_ and not missed:
        why = (f"boots of stock differ by {100 * run.spread(workload):.2f} % on {workload}" for workload in open_)
        return Check(name, "skipped", f"undecided: {detail}; {', '.join(why)}")
    return Check(name, verdict(not missed), detail)


def not_more(
    run: RunSlice,
    name: str,
    kernels: Sequence[str],
    metrics: Sequence[str],
    baseline: Sequence[str] = (STOCK, CONTROL),
) -> Check:
    """The check that no workload has a higher value than on stock, for example of seconds or of instructions.

    Each sample of ``baseline`` is used: of stock, the control too. The confidence of each comparison grows with the
    number of workloads (Bonferroni), so that the probability of any false finding is at most ERROR.
    """
    pairs: list[tuple[str, list[float], Record]] = []
    for workload in run.workloads():
        ours = run.find(kernels, workload, metrics)
        stock = [run.find([kernel], workload, metrics) for kernel in baseline]
        values = [value for record in stock if record for value in record.values]
        if ours and values:
            pairs.append((workload, values, ours))
    if not pairs:
        return Check(name, "skipped", f"no workload was measured on {baseline[0]} and {kernels[-1]}")
    more, open_ = [], []
    for workload, values, ours in pairs:
        effect = stats.effect(values, ours.values, confidence=1 - ERROR / len(pairs), test=False)
        if effect.verdict is stats.Verdict.HIGHER:
            more.append(f"{workload} ({effect.estimate:.3g} times {baseline[0]}'s, {effect.interval.low:.3g} at least)")
        elif not effect.interval.reached:
            open_.append(workload)
    if more:
        return Check(name, "failed", f"more: {', '.join(more)}")
    if open_:
        return Check(name, "skipped", f"too few repeats to tell of {len(open_)} of {len(pairs)} workloads")
    return Check(name, "passed", f"{len(pairs)} workloads, none above the noise of {baseline[0]}'s own sample")


def lacking(name: str, found: Mapping[str, object], workload: str) -> Check:
    """A skipped check, because ``workload`` was not measured on the kernels whose value in ``found`` is None."""
    kernels = " and ".join(kernel for kernel, value in found.items() if value is None)
    return Check(name, "skipped", f"{workload} was not measured on {kernels}")


LACKING = re.compile(r"(.+) was not measured on ([^;]+)")
"""Matches exactly the details that ``lacking`` writes: the workload, and the kernels."""


def why_skipped(checks: Sequence[Check]) -> str:
    """One line for several skipped checks: first the workloads that were not measured, then other reasons."""
    absent: dict[str, list[str]] = {}
    reasons = []
    for check in checks:
        if found := LACKING.fullmatch(check.detail):
            absent.setdefault(found[2], []).append(found[1])
        else:
            reasons.append(f"{check.name.partition(': ')[2]}: {check.detail}")
    named = [f"not measured on {kernels}: {', '.join(dict.fromkeys(who))}" for kernels, who in absent.items()]
    return "; ".join([*named, *reasons])


def verdict(passed: bool) -> str:
    """The verdict on a threshold that was measured: ``passed`` or ``failed``."""
    return "passed" if passed else "failed"
