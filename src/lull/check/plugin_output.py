# SPDX-License-Identifier: GPL-2.0-only
"""What the plugin writes in check mode, with names for its addresses, as text for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lull.errors import GuestGarbage
from lull.guest import console
from lull.kernel.symbols import Symbols

MANUAL = "Arm ARM (DDI 0487)"
BBM = 'D8.17.1 "Using break-before-make when updating translation table entries", R_WHZWS'
MAINTENANCE = 'D8.17 "TLB maintenance", R_GPPYH'
COMPLETION = 'D8.17.8 "Ordering and completion of TLB maintenance instructions"'
CACHED = 'D8.16 "Translation Lookaside Buffers", R_SQBCS; D8.17 "TLB maintenance", R_GPPYH'
WALKS_OVER = f'{CACHED}; B2.3.12 "Data Synchronization Barrier (DSB)"'
CONTEXT = 'D24.1 "Synchronization requirements for AArch64 System registers"'
ASIDS = 'D8.16.3 "Use of ASIDs and VMIDs to reduce TLB maintenance requirements", R_XXNPZ'
WALKS = 'D24 "AArch64 System Register Descriptions", ID_AA64MMFR1_EL1.nTLBPA'

# rule/kind -> what happened, and the section of the manual that forbids it. Section numbers are those of issues K and L
# of the manual; the letters of a rule (R_GPPYH) are the same in every issue.
RULES: dict[str, tuple[str, str]] = {
    "owed/no-tlbi": (
        "a valid entry was removed or replaced, and a CPU can still use it: no TLBI was issued for it",
        MAINTENANCE,
    ),
    "owed/local": (
        "a valid entry was taken away, and only the CPU that did it was told; others may hold it",
        f"{COMPLETION}, R_QRNJC",
    ),
    "owed/permission": (
        "an entry lost a permission, and a CPU can still use the old one: no TLBI was issued for it",
        MAINTENANCE,
    ),
    "owed/table": (
        "an entry that points to a table was removed or replaced, and no TLBI was issued that removes more than leaves",
        'D8.17 "TLB maintenance", R_RVJDB (walk caches are TLB entries), R_GPPYH',
    ),
    "owed/level": (
        "the level hint (TTL) of the TLBI is not the level of the entry, so that the TLBI need not remove the entry",
        'C5.5 "A64 system instructions for TLB maintenance" (TTL)',
    ),
    "owed/no-dsb": ("the TLBI for an entry that was taken away was issued, and no DSB completed it", COMPLETION),
    "owed/order": (
        "the TLBI for an entry that was removed or replaced was issued with no DSB after the store, so that it does not"
        " count",
        f"{COMPLETION}, R_TGVWD",
    ),
    "owed/asid": ("the TLBI for an entry that was removed or replaced named another ASID", ASIDS),
    "owed/unsettled": (
        "a task relied on the flush of an entry that another task had removed, and that flush was not complete",
        MAINTENANCE,
    ),
    "owed/unlocked": (
        "a page or table was mapped at another address, and a table lock dropped before the old entry was flushed",
        MAINTENANCE,
    ),
    "owed/rmap": (
        "pages lost their reverse mappings before the entries that had mapped them were flushed",
        MAINTENANCE,
    ),
    "free/page": ("a page was freed, and a CPU can still translate to it", CACHED),
    "free/table": ("the page of a table was freed, and a CPU can still walk through it", CACHED),
    "free/root": ("the root table of an address space was freed, and a CPU can still walk from it", CACHED),
    "remap/data": (
        "an access went to another page than the tables say, or than an entry says that no TLBI has removed",
        'D8.17 "TLB maintenance", R_FFWJK, R_GPPYH',
    ),
    "remap/fetch": (
        "an instruction was fetched from another page than the tables say, or than an entry says that no TLBI has"
        " removed",
        'D8.17 "TLB maintenance", R_FFWJK, R_GPPYH',
    ),
    "bbm/output": ("the output address of a valid entry was changed without an invalid entry in between", BBM),
    "bbm/size": (
        "a block was replaced by a table, or a table by a block, without an invalid entry in between",
        BBM,
    ),
    "bbm/attributes": ("the memory attributes of a valid entry were changed without an invalid entry in between", BBM),
    "bbm/global": ("the nG bit of a valid entry was changed without an invalid entry in between", BBM),
    "bbm/contiguous": (
        "the contiguous bit of a valid entry was changed without an invalid entry in between",
        f'D8.7.1 "The Contiguous bit"; {BBM}',
    ),
    "bbm/set": (
        "the entries of a contiguous block contradict each other when the task that changed one returns to user space",
        'D8.7.1 "The Contiguous bit"',
    ),
    "bbm/table": ("a valid entry was pointed at another table without an invalid entry in between", BBM),
    "bbm/anew": ("a different valid entry was written while a CPU can still hold the old one", f"{BBM}, R_DDMVT"),
    "bbm/collected": (
        "a different valid entry was written while the flush of the old one was deferred, and no TLBI had been issued",
        f"{BBM}, R_DDMVT",
    ),
    "order/no-dsb": (
        "a TLBI was issued with no DSB after the store that it is for, so that a walk may fetch the old entry again",
        f"{COMPLETION}, R_TGVWD; {BBM.split(',')[0]}, R_DDMVT",
    ),
    "written/no-tlbi": (
        "a page was cleaned, written out or copied, and a CPU can still store to it: no TLBI was issued",
        COMPLETION,
    ),
    "written/no-dsb": (
        "a page was cleaned, written out or copied, and a CPU can still store to it: no DSB has completed the TLBI",
        COMPLETION,
    ),
    "written/unlocked": (
        "a page of a file was unlocked, so that another task may clean it, and a CPU can still store to it: no DSB has"
        " completed the TLBI",
        COMPLETION,
    ),
    "pause/running": (
        "kernel entries that every CPU uses were made invalid while another CPU was not paused",
        BBM.split(",")[0],
    ),
    "pause/left": (
        "a paused CPU went on while kernel entries that every CPU uses were invalid",
        BBM.split(",")[0],
    ),
    "unload/loaded": (
        "a CPU announced that an address space is not loaded while TTBR0 or the ASID still named it",
        CACHED,
    ),
    "unload/no-isb": (
        "a CPU announced that an address space is not loaded with no context synchronisation event after its write of"
        " TTBR0 or the ASID",
        CONTEXT,
    ),
    "unload/no-dsb": (
        "a CPU announced that an address space is not loaded before a DSB had waited for its table walks",
        WALKS_OVER,
    ),
    "unload/uncounted": (
        "a CPU announced that an address space is not loaded, and loaded it again without announcing that",
        CACHED,
    ),
    "asid/reused": (
        "a CPU loaded an ASID while it can still hold entries that it made for other tables under this ASID",
        ASIDS,
    ),
    "asid/shared": (
        "CPUs that share TLB entries (CnP) run different tables under one ASID",
        ASIDS,
    ),
    "asid/global": (
        "a CPU loaded an address space while it can still hold global entries of another one's tables",
        ASIDS,
    ),
    "walk/freed": (
        "a page-table page was freed and is a table again, and a CPU may hold copies of its old descriptors by their"
        " physical addresses",
        WALKS,
    ),
    "walk/unlinked": (
        "a table was linked elsewhere, and a CPU may hold copies of its old descriptors by their physical addresses",
        WALKS,
    ),
    "walk/renamed": (
        "an address space got another ASID instead of a TLBI, and a CPU may hold copies of its old descriptors by their"
        " physical addresses",
        WALKS,
    ),
}
WHY = {
    "local": "reaches only its own CPU",
    "no-dsb": "was never completed by a DSB",
    "last": "is for leaf entries only",
    "level": "has the hint (TTL) of another level",
    "asid": "is for another ASID",
    "va": "is for another address, close to this one",
    "nothing": "has an operand with which it need not remove anything",
    "order": "was issued with no DSB after the store",
    "covered": "covered it",
}
VITAL = {
    "frees": "frees of pages",
    "tlbis": "TLBIs",
    "table_stores": "stores to page tables",
    "obligations": "entries taken away",
}
"""A check in which one of these counts is 0 has tested nothing."""


@dataclass
class PluginOutput:
    """What the plugin wrote in a boot.

    Args:
        reports: in the order in which the plugin wrote them.
        end: the last line, with verdict and counts; None when QEMU was killed.
        errors: the plugin's errors about itself.
        windows: window id -> the counts of valid, unchanged entries that TLBIs removed in that window (checker/lost.h).
    """

    reports: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None
    errors: list[str] = field(default_factory=list)
    windows: dict[int, dict[str, int]] = field(default_factory=dict)


def read(paths: Iterable[Path]) -> PluginOutput:
    """Read the files that the plugin wrote in a boot: one file, and one more for each attempt that stalled.

    Raises GuestGarbage for a line that is not the plugin's. An incomplete last line is ignored: QEMU was killed.
    """
    output = PluginOutput()
    for path in paths:
        *lines, _ = path.read_bytes().split(b"\n")
        reports: dict[int, dict[str, Any]] = {}
        for line in filter(None, lines):
            try:
                take(json.loads(line), output, reports)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise GuestGarbage(f"the plugin wrote {line[:200]!r}: {error!r}", where=str(path)) from error
    return output


def take(message: dict[str, Any], output: PluginOutput, reports: dict[int, dict[str, Any]]) -> None:
    """Add one line of the plugin to the output, and to the reports by number."""
    if not isinstance(message, dict):
        raise TypeError("no object")
    if "report" in message:
        report = {"count": 1, **message, "rule": str(message["rule"]), "kind": str(message["kind"])}
        reports[int(message["report"])] = report
        output.reports.append(report)
    elif "verdict" in message:
        output.end = message
        for more in message.get("by", ()):
            if int(more["report"]) in reports:
                reports[int(more["report"])]["count"] = int(more["count"])
    elif "window" in message:
        output.windows[int(message["window"])] = message["total"]
    elif "error" in message:
        output.errors.append(str(message["error"]))


def of_console(text: str, known: int) -> list[dict[str, Any]]:
    """Reports of the kernel on its console, as reports of the rule ``console``, numbered after the plugin's ``known``.

    Stalls and soft lockups are left out: a busy host causes them. A guest that really hangs passes its deadline.
    """
    reports = [found for found in console.reports(text) if not console.STALL.search(found.title)]
    return [
        {"report": known + n, "rule": "console", "kind": found.kind, "text": found.text, "count": 1}
        for n, found in enumerate(reports, 1)
    ]


def blind(output: PluginOutput) -> list[str]:
    """Names, for people, of what the plugin never saw: what it names itself, and each VITAL count that is 0."""
    if output.end is None:
        return ["the end: the plugin wrote no verdict"]
    seen: dict[str, Any] = output.end.get("seen", {})
    said = [str(name) for name in output.end.get("blind", ())]
    zero = [name for name in VITAL if not seen.get(name)]
    names = list(dict.fromkeys([*said, *zero]))
    if not names and output.end["verdict"] == "blind":
        names = ["something it does not name"]
    return [VITAL.get(name, name) for name in names]


def number(value: Any) -> int:
    """The value of a number that the plugin wrote; it writes addresses as text."""
    return int(value, 0) if isinstance(value, str) else int(value)


def annotate(report: dict[str, Any], symbols: Symbols) -> None:
    """Add the names of code to a report.

    The places ``changed`` and ``noticed`` get ``at``, ``calls`` and ``functions``; each TLBI gets ``at``.
    """
    for place in ("changed", "noticed"):
        where = report.get(place)
        if not where:
            continue
        pc = number(where["pc"])
        stack = [number(a) for a in where.get("stack", ())]
        stack = stack[1:] if stack[:1] == [pc] else stack
        where["at"] = symbols.describe(pc)
        where["calls"] = [symbols.describe(a, returns=True) for a in stack]
        # User space does not write the kernel's tables, so a low address is code that runs in the identity map.
        own = symbols.identity(pc) if report.get("kernel") else None
        named = [symbols.function(pc) or own, *(symbols.function(a, returns=True) for a in stack)]
        where["functions"] = [found[0] for found in named if found]
    for tlbi in report.get("tlbis", ()):
        if "pc" in tlbi:
            tlbi["at"] = symbols.describe(number(tlbi["pc"]))


def statement(report: Mapping[str, Any]) -> tuple[str, str]:
    """What happened, as one line, and the section of the manual that forbids it."""
    return RULES.get(f"{report['rule']}/{report['kind']}", ("a rule of the checker was broken", "docs/checker.md"))


def times(count: int) -> str:
    """How often a report was seen, as words; empty for once."""
    return "" if count == 1 else f", seen {count} times"


def render(report: Mapping[str, Any]) -> list[str]:
    """The lines of a report, which must have been annotated."""
    if report["rule"] == "console":  # The kernel's own words.
        first, *more = report["text"].splitlines()
        return [f"report {report['report']}: console/{report['kind']}: {first}", *(f"  {line}" for line in more)]
    says, section = statement(report)
    lines = [
        f"report {report['report']}{times(report['count'])}: {report['rule']}/{report['kind']}: {says}",
        f"  rule     {MANUAL} {section}" if section.startswith(("C", "D")) else f"  rule     {section}",
    ]
    if report["rule"] == "pause":  # About the CPUs that run, not about one entry.
        return [*lines, f"  running  {cpus(report['holders'])}", *stack("noticed", report.get("noticed"))]
    space = "every ASID" if report.get("asid") in (None, -1) else f"ASID {report['asid']}"
    level = report.get("level", 3)
    kind = "table" if report.get("table") else "page" if level == 3 else "block"
    lines.append(f"  entry    {report['va']}, {space}, a {kind} at level {level}, seen on CPU {report['cpu']}")
    lines.append(f"  old      {target(report, 'old')}")
    lines.append(f"  new      {target(report, 'new')}")
    if report.get("holders"):
        lines.append(f"  held by  {cpus(report['holders'])}")
    for place in ("changed", "noticed"):
        lines += stack(place, report.get(place))
    tlbis = report.get("tlbis") or []
    head = "  TLBIs    "
    for tlbi in tlbis:
        why = WHY.get(tlbi.get("why", ""), tlbi.get("why", ""))
        operand = f" {tlbi['operand']}" if tlbi.get("operand") else ""
        lines.append(f"{head}{tlbi['name']}{operand} by CPU {tlbi['cpu']} at {tlbi.get('at', '?')}: {why}")
        head = " " * len(head)
    if not tlbis:
        lines.append(f"{head}none for this ASID or address since the change")
    return lines


def target(report: Mapping[str, Any], which: str) -> str:
    """The page that an entry points to, and the descriptor."""
    bits = number(report.get(which, 0))
    page = report.get(f"{which}_page")
    valid = bits & 1 and page is not None
    return f"page {page}, descriptor {bits:#018x}" if valid else f"nothing, descriptor {bits:#018x}"


def cpus(numbers: Sequence[int]) -> str:
    """``CPU 2``; ``CPUs 0, 3``."""
    return f"CPU{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def stack(place: str, where: Mapping[str, Any] | None) -> list[str]:
    """The lines of a place in the code and its callers."""
    if not where:
        return []
    first = f"  {place:<8} by CPU {where['cpu']} at {where['at']}"
    return [first, *(f"             called from {name}" for name in where["calls"])]


def seen_line(end: Mapping[str, Any] | None) -> str:
    """What a check has seen, as counts: silence says little when little was seen."""
    seen: Mapping[str, Any] = (end or {}).get("seen", {})
    words = [f"{seen[key]} {name}" for key, name in VITAL.items() if key in seen]
    words += [f"{seen['accesses']} accesses"] if seen.get("accesses") else []
    words += [f"{seen['memory'] / 2**20:.0f} MiB used"] if seen.get("memory") else []
    return ", ".join(words)
