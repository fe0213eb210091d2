# SPDX-License-Identifier: GPL-2.0-only
"""Check that each policy for the accessed bit (feature young) did what it says, by arithmetic on exact counts.

In the window of the workload ``young``, reclaim clears accessed bits. Counted there are:

* ``young_sync``, ``young_nosync``, ``young_none``: decisions of each kind, counted by the kernel (Lull only);
* ``tlbi_broadcast_user``, ``tlbi_local_user``, ``dsb_ish``: instructions of the CPUs, counted by the emulator;
* ``tlbi_elided``: flushes that residency elided, because the address space was loaded nowhere, counted by the kernel;
* ``tlbi_stale``: TLBIs issued instead when the address space was loaded again, counted by the kernel. Without residency
  it is 0 or missing, as is ``tlbi_elided``;
* ``pswpout``: pages that reclaim then unmapped, with one DSB for each batch of them. Stock issues a TLBI for each; the
  feature reclaim issues one for a run of neighbours, if a CPU has the address space loaded.

Emulator and kernel count independently, so that these sums hold only if both are right:

    flushes = TLBIs - tlbi_stale + tlbi_elided = runs unmapped + decisions for sync + decisions for nosync
    DSBs    = those of the batches and of the rest of the kernel + decisions for sync that were broadcast

The runs are not counted: they are at most the pages unmapped, 2 % of the decisions. An elided flush is of one page.

No counter tells whether an elided flush was for an unmapped page or for an accessed bit. With residency, the number of
decisions for sync that were broadcast is therefore only known within bounds. The bounds are equal when all flushes were
broadcast, or all were elided or local.

The DSBs of the rest of the kernel are those that the policy ``none`` shows under the same policy of residency, because
it adds none. A policy that omits its flush or DSB, or issues one too many, is wrong by the number of decisions. The
tolerance for the DSBs of the kernel (DSB_SLACK) is a small share of that number.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lull.run.records import Check, Record, Results

SYSTEM = "E"
WORKLOAD = "young"
POLICIES = ("none", "nosync", "sync")
STOCK = "stock"
DEFAULT = "nosync"  # the policy of a kernel whose name states none
LULL = "lull"
COUNTERS = ("young_sync", "young_nosync", "young_none")
COUNTS = ("tlbi_broadcast_user", "dsb_ish", "pswpout")
# Metrics of kernels with residency; they count as 0 for other kernels.
RESIDENCY = ("tlbi_local_user", "tlbi_elided", "tlbi_stale")
# Tolerance for the number of DSBs, as a share of the decisions: the rest of the kernel executes DSBs unevenly. A wrong
# policy is off by all decisions. TLBIs need no tolerance.
DSB_SLACK = 0.05


@dataclass(frozen=True)
class Repeat:
    """The counts of one window, each summed over all CPUs of the guest."""

    young_sync: int
    young_nosync: int
    young_none: int
    broadcast: int
    dsb: int
    unmapped: int
    local: int
    elided: int
    stale: int

    @property
    def decisions(self) -> int:
        """The number of accessed bits that were cleared."""
        return self.young_sync + self.young_nosync + self.young_none

    @property
    def flushes(self) -> int:
        """The number of flushes, issued or elided. A TLBI for a flush that was elided earlier is not counted again."""
        return self.broadcast + self.local - self.stale + self.elided

    @property
    def extra(self) -> int:
        """The number of flushes for accessed bits.

        An unmapped page has a flush of its own, or shares one: then it cannot be told from what is due, if that fits.
        """
        due = self.young_sync + self.young_nosync
        for_pages = self.flushes - due
        shared = not self.elided and 0 < for_pages <= self.unmapped
        return due if shared else self.flushes - self.unmapped

    @property
    def waits(self) -> tuple[int, int]:
        """The least and the most decisions for sync that can have been broadcast, each with a DSB ISH."""
        kept = self.elided + max(0, self.local - self.stale)
        return max(0, self.young_sync - kept), min(self.young_sync, self.broadcast)


def concerns(results: Results) -> bool:
    """Return true if the run measured the workload."""
    return any(results.find(workload=WORKLOAD))


def check(results: Results) -> list[Check]:
    """A Check for each policy, and for stock, for each number of vCPUs that the ``young`` workload ran with.

    ``skipped``: not measured, or a count is missing. ``failed``: a sum is wrong in a repeat, or no accessed bit was
    cleared, so that the run shows nothing.
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
        families = _families(kernels)
        for family, policies in families.items():
            under = family.removeprefix(LULL).replace("+", ", ", 1)
            rest = _rest(policies)
            for policy in POLICIES:
                name = f"young: {policy}{under}{where}"
                if policy in policies:
                    found.append(_policy(name, policy, policies[policy], rest))
                else:
                    found.append(Check(name, "skipped", f"{family}+young={policy} was not measured"))
        if STOCK in kernels:
            # Stock is compared with lull where all else is off, if that was measured.
            alike = [f for f, known in families.items() if (f == LULL or f.endswith("=off")) and "none" in known]
            like = families[max(alike, key=len)] if alike else {}
            found.append(_stock(f"young: {STOCK}{where}", kernels[STOCK], like))
    return found


Family = dict[str, dict[str, Record]]
"""Policy -> metric -> record, of kernels that differ only in the policy of young."""


def _families(kernels: Mapping[str, dict[str, Record]]) -> dict[str, Family]:
    """Kernel without its policy of young (``lull+residency=off``) -> what was measured on it with each policy."""
    found: dict[str, Family] = {}
    for kernel, records in kernels.items():
        named = re.search(r"\+young=(\w+)", kernel)
        family = kernel.replace(named[0], "") if named else kernel
        if family.startswith(LULL):
            policies = found.setdefault(family, {})
            if named or DEFAULT not in policies:
                policies[named[1] if named else DEFAULT] = records
    return found or {LULL: {}}


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
        why = "DSBs cannot be judged without young=none"
        return Check(name, "skipped", f"{why}; {_sum(repeats)}")
    return Check(name, "passed", _sum(repeats))


def _faults(policy: str, r: Repeat, rest: tuple[int, int] | None) -> list[str]:
    """What is wrong with a repeat, a sentence each."""
    if r.decisions == 0:
        return ["no accessed bit was cleared, so nothing was shown"]
    found = []
    for counter in COUNTERS:
        value = getattr(r, counter)
        if counter != f"young_{policy}" and value:
            found.append(f"{counter} is {value}, but the policy was {policy}")
    due = r.young_sync + r.young_nosync
    if r.extra != due:
        found.append(
            f"{r.extra} flushes for {r.decisions} accessed bits cleared, {due} are due ({r.broadcast} broadcast, "
            f"{r.local} local, {r.stale} of them for earlier ones, {r.elided} left out; {r.unmapped} pages unmapped)"
        )
    if rest is not None:
        low, high = _allowed(rest, r.decisions)
        if not low + r.waits[0] <= r.dsb <= high + r.waits[1]:
            found.append(
                f"{r.dsb} DSBs; {_range(r.waits)} are due for accessed bits cleared, and {_range(rest)} for all else"
            )
    return found


def _stock(name: str, records: Mapping[str, Record], policies: Family) -> Check:
    """The check of stock, which counts no decisions: it must flush like ``nosync``, and wait no more than ``none``."""
    repeats = _repeats(records, COUNTS)
    like = _repeats(policies.get("nosync", {}), (*COUNTERS, *COUNTS))
    rest = _rest(policies)
    if isinstance(repeats, str):
        return Check(name, "skipped", repeats)
    if isinstance(like, str) or rest is None:
        return Check(name, "skipped", "nothing to compare with: nosync or none was not measured")
    shown = f"{_range([r.extra for r in repeats])} flushes for accessed bits cleared, nosync "
    shown += f"{_range([r.extra for r in like])}; {_range([r.dsb for r in repeats])} DSBs, "
    shown += f"none {_range(rest)}"
    decisions = int(median(r.decisions for r in like))
    low, high = _allowed(rest, decisions)
    flushes = all(r.extra > decisions / 2 for r in repeats)
    waits = all(low <= r.dsb <= high for r in repeats)
    verdict = "passed" if decisions and flushes and waits else "failed"
    return Check(name, verdict, shown)


def _rest(policies: Family) -> tuple[int, int] | None:
    """The least and the most DSBs of a window under the policy ``none``, for which accessed bits cost no DSB."""
    repeats = _repeats(policies.get("none", {}), (*COUNTERS, *COUNTS))
    if isinstance(repeats, str):
        return None
    return min(r.dsb for r in repeats), max(r.dsb for r in repeats)


def _allowed(rest: tuple[int, int], decisions: int) -> tuple[float, float]:
    return rest[0] - DSB_SLACK * decisions, rest[1] + DSB_SLACK * decisions


def _repeats(records: Mapping[str, Record], metrics: Sequence[str]) -> list[Repeat] | str:
    """The counts of each repeat of one kernel; a sentence when metrics are missing or have unequal numbers of repeats.

    Raises: ValueError for a count that is not a whole number.
    """
    lacking = [metric for metric in metrics if metric not in records or not records[metric].values]
    if lacking:
        return f"not measured: {', '.join(lacking)}"
    metrics = [*metrics, *(metric for metric in RESIDENCY if metric in records)]
    lengths = {metric: len(records[metric].values) for metric in metrics}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{metric} {length}" for metric, length in lengths.items())
        return f"repeats do not pair up: {listed}"
    for metric in metrics:
        for value in records[metric].values:
            if not math.isfinite(value) or value != int(value) or value < 0:
                raise ValueError(f"{metric} of {records[metric].kernel} is not a count: {value}")
    missing = (0,) * next(iter(lengths.values()))
    columns = [records[m].values if m in metrics else missing for m in (*COUNTERS, *COUNTS, *RESIDENCY)]
    return [Repeat(*map(int, values)) for values in zip(*columns, strict=True)]


def _sum(repeats: Sequence[Repeat]) -> str:
    off = [r.extra - r.young_sync - r.young_nosync for r in repeats]
    exact = "exactly as many as due" if not any(off) else f"{_range(off, '+')} beyond what is due"
    shown = ((r.decisions, r.extra, r.broadcast, r.local, r.elided, r.unmapped) for r in repeats)
    decisions, extra, broadcast, local, elided, unmapped = map(_range, zip(*shown, strict=True))
    waits, rest = _range([wait for r in repeats for wait in r.waits]), _range([r.dsb - r.waits[1] for r in repeats])
    return (
        f"{decisions} accessed bits cleared, {extra} flushes for them, {exact} ({broadcast} broadcast, {local} local, "
        f"{elided} left out; {unmapped} pages unmapped); {waits} DSBs due for them, {rest} beside those"
    )


def _range(values: Sequence[int], sign: str = "") -> str:
    low, high = min(values), max(values)
    return f"{low:{sign}}" if low == high else f"{low:{sign}} to {high:{sign}}"
