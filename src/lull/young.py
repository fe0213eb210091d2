# SPDX-License-Identifier: GPL-2.0-only
"""Whether each policy for the accessed bit did what its name says, by arithmetic on exact counts.

The ``young`` workload lets reclaim clear accessed bits in a window and counts, in that window:

* ``young_sync``, ``young_nosync``, ``young_none``: decisions, counted by the kernel (lull only);
* ``tlbi_broadcast_user`` and ``dsb_ish``: what the CPUs executed, counted by the emulator;
* ``pswpout``: pages that reclaim went on to unmap, with a TLBI each, and one DSB per batch of them.

Emulator and kernel know nothing of each other, so the sums hold only if both are right:

    TLBIs = pages unmapped + decisions for sync + decisions for nosync
    DSBs  = those of the batches and of the rest of the kernel + decisions for sync

The DSBs of the rest are not known beforehand; they are what the policy ``none`` shows, which adds
none of its own. A policy that left out its TLBI or DSB, or issued another, is off by as many as
there are decisions; what is allowed for the kernel's own DSBs is a small share of that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lull.records import Check, Record, Results

WORKLOAD = "young"
POLICIES = ("none", "nosync", "sync", "auto")
STOCK = "stock"
DEFAULTS = {"auto": "lull"}  # the kernel that does so when nothing is set
COUNTERS = ("young_sync", "young_nosync", "young_none")
COUNTS = ("tlbi_broadcast_user", "dsb_ish", "pswpout")
# Share of the decisions, of which a fault is off by all. TLBIs are exact; the rest of the kernel makes DSBs uneven.
DSB_SLACK = 0.05


@dataclass(frozen=True)
class Repeat:
    """The counts of one window, each for the whole guest."""

    young_sync: int
    young_nosync: int
    young_none: int
    tlbi: int
    dsb: int
    unmapped: int

    @property
    def decisions(self) -> int:
        """Accessed bits that were cleared."""
        return self.young_sync + self.young_nosync + self.young_none

    @property
    def extra_tlbi(self) -> int:
        """TLBIs that unmapping does not account for."""
        return self.tlbi - self.unmapped


def check(results: Results) -> list[Check]:
    """A Check per policy (and stock) for each vCPU number the ``young`` workload ran at.

    ``skipped``: not measured, or a count is missing. ``failed``: a sum is off in any repeat, or no
    accessed bit was cleared at all, which shows nothing.
    """
    groups: defaultdict[tuple[str, int], dict[str, dict[str, Record]]] = defaultdict(dict)
    for record in results.records:
        if record.workload.partition("/")[0] == WORKLOAD:
            of_group = groups[record.workload, record.vcpus]
            of_group.setdefault(record.kernel, {})[record.metric] = record
    if not groups:
        return [Check("young", "skipped", f"the workload {WORKLOAD} was not measured")]
    found = []
    for (workload, vcpus), kernels in groups.items():
        where = "" if len(groups) == 1 else f" ({workload}, {vcpus} vCPUs)"
        rest = _rest(kernels)
        for policy in POLICIES:
            name = f"young: {policy}{where}"
            named = [f"lull+young={policy}", DEFAULTS.get(policy, "")]
            kernel = next((kernel for kernel in named if kernel in kernels), None)
            if kernel is None:
                found.append(Check(name, "skipped", f"{named[0]} was not measured"))
            else:
                found.append(_policy(name, policy, kernels[kernel], rest))
        if STOCK in kernels:
            found.append(_stock(f"young: {STOCK}{where}", kernels, rest))
    return found


def _policy(name: str, policy: str, records: Mapping[str, Record], rest: tuple[int, int] | None) -> Check:
    repeats = _repeats(records, (*COUNTERS, *COUNTS))
    if isinstance(repeats, str):
        return Check(name, "skipped", repeats)
    wrong: list[str] = []
    for place, r in enumerate(repeats, 1):
        wrong += [f"repeat {place}: {fault}" for fault in _faults(policy, r, rest)]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Check(name, "failed", wrong[0] + more)
    if rest is None:
        why = "DSBs cannot be judged without lull+young=none"
        return Check(name, "skipped", f"{why}; {_sum(repeats)}")
    return Check(name, "held", _sum(repeats))


def _faults(policy: str, r: Repeat, rest: tuple[int, int] | None) -> list[str]:
    """What is wrong with a repeat, the first thing first."""
    if r.decisions == 0:
        return ["no accessed bit was cleared, so nothing was shown"]
    found = []
    for counter in COUNTERS:
        value = getattr(r, counter)
        if policy != "auto" and counter != f"young_{policy}" and value:
            found.append(f"{counter} is {value}, but the policy was {policy}")
    due = r.young_sync + r.young_nosync
    if r.extra_tlbi != due:
        found.append(
            f"{r.extra_tlbi} TLBIs for {r.decisions} accessed bits cleared, {due} are due "
            f"({r.tlbi} TLBIs, {r.unmapped} pages unmapped)"
        )
    if rest is not None:
        low, high = _allowed(rest, r.decisions)
        if not low <= r.dsb - r.young_sync <= high:
            found.append(
                f"{r.dsb} DSBs; {r.young_sync} are due for accessed bits cleared, and {rest[0]} to "
                f"{rest[1]} for all else"
            )
    return found


def _stock(name: str, kernels: Mapping[str, Mapping[str, Record]], rest: tuple[int, int] | None) -> Check:
    """Stock has no counters: it must flush as often as ``nosync`` does, and wait as seldom."""
    repeats = _repeats(kernels[STOCK], COUNTS)
    like = _repeats(kernels.get("lull+young=nosync", {}), (*COUNTERS, *COUNTS))
    if isinstance(repeats, str):
        return Check(name, "skipped", repeats)
    if isinstance(like, str) or rest is None:
        return Check(name, "skipped", "nothing to compare with: nosync or none was not measured")
    shown = f"{_range([r.extra_tlbi for r in repeats])} TLBIs for accessed bits cleared, nosync "
    shown += f"{_range([r.extra_tlbi for r in like])}; {_range([r.dsb for r in repeats])} DSBs, "
    shown += f"none {rest[0]} to {rest[1]}"
    decisions = int(median(r.decisions for r in like))
    low, high = _allowed(rest, decisions)
    flushes = all(r.extra_tlbi > decisions / 2 for r in repeats)
    waits = all(low <= r.dsb <= high for r in repeats)
    verdict = "held" if decisions and flushes and waits else "failed"
    return Check(name, verdict, shown)


def _rest(kernels: Mapping[str, Mapping[str, Record]]) -> tuple[int, int] | None:
    """The least and the most DSBs of a window that clearing accessed bits adds none to."""
    repeats = _repeats(kernels.get("lull+young=none", {}), (*COUNTERS, *COUNTS))
    if isinstance(repeats, str):
        return None
    return min(r.dsb for r in repeats), max(r.dsb for r in repeats)


def _allowed(rest: tuple[int, int], decisions: int) -> tuple[float, float]:
    return rest[0] - DSB_SLACK * decisions, rest[1] + DSB_SLACK * decisions


def _repeats(records: Mapping[str, Record], metrics: Sequence[str]) -> list[Repeat] | str:
    """The repeats of one kernel, paired by their place; a sentence when they cannot be.

    Raises ValueError for a count that is no whole number.
    """
    lacking = [metric for metric in metrics if metric not in records or not records[metric].values]
    if lacking:
        return f"not measured: {', '.join(lacking)}"
    lengths = {metric: len(records[metric].values) for metric in metrics}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{metric} {length}" for metric, length in lengths.items())
        return f"repeats do not pair up: {listed}"
    for metric in metrics:
        for value in records[metric].values:
            if not math.isfinite(value) or value != int(value) or value < 0:
                raise ValueError(f"{metric} of {records[metric].kernel} is no count: {value}")

    def column(metric: str) -> list[int]:
        if metric not in metrics:
            return [0] * next(iter(lengths.values()))
        return [int(value) for value in records[metric].values]

    columns = [column(metric) for metric in (*COUNTERS, *COUNTS)]
    return [Repeat(*values) for values in zip(*columns, strict=True)]


def _sum(repeats: Sequence[Repeat]) -> str:
    off = [r.extra_tlbi - r.young_sync - r.young_nosync for r in repeats]
    exact = "exactly as many as due" if not any(off) else f"{_range(off, '+')} beyond what is due"
    columns = (
        [r.decisions for r in repeats],
        [r.extra_tlbi for r in repeats],
        [r.tlbi for r in repeats],
        [r.unmapped for r in repeats],
        [r.young_sync for r in repeats],
        [r.dsb - r.young_sync for r in repeats],
    )
    decisions, extra, tlbi, unmapped, waits, rest = (_range(column) for column in columns)
    return (
        f"{decisions} accessed bits cleared, {extra} TLBIs for them, {exact} ({tlbi} TLBIs, "
        f"{unmapped} pages unmapped); {waits} DSBs due for them, {rest} beside those"
    )


def _range(values: Sequence[int], sign: str = "") -> str:
    low, high = min(values), max(values)
    return f"{low:{sign}}" if low == high else f"{low:{sign}} to {high:{sign}}"
