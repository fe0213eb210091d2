# SPDX-License-Identifier: GPL-2.0-only
"""What the plugin writes in check mode, as text for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lull.check.data import RuleKind, load_rules
from lull.errors import GuestGarbage
from lull.guest import console

MANUAL = "Arm ARM (DDI 0487)"
KINDS = {f"{rule}/{name}": kind for rule, entry in load_rules().items() for name, kind in entry.kinds.items()}
"""rule/kind -> what a report of it says."""
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
        unchecked: what is not judged because the kernel lacks a symbol, each ``RULE (no SYMBOL)``.
        windows: window id -> the counts of valid, unchanged entries that TLBIs removed in that window (plugin/lost.h).
    """

    reports: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None
    errors: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
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
    elif "unchecked" in message:
        output.unchecked = [f"{one['rule']} (no {one['symbol']})" for one in message["unchecked"]]
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


def blind(end: Mapping[str, Any] | None) -> list[str]:
    """Names, for people, of what the plugin never saw: what it names itself, and each VITAL count that is 0.

    Args:
        end: the last line of the plugin; None when it wrote none.
    """
    if end is None:
        return ["the end: the plugin wrote no verdict"]
    seen: dict[str, Any] = end.get("seen", {})
    said = [str(name) for name in end.get("blind", ())]
    zero = [name for name in VITAL if not seen.get(name)]
    names = list(dict.fromkeys([*said, *zero]))
    if not names and end["verdict"] == "blind":
        names = ["something it does not name"]
    return [VITAL.get(name, name) for name in names]


def number(value: Any) -> int:
    """The value of a number that the plugin wrote; it writes addresses as text."""
    return int(value, 0) if isinstance(value, str) else int(value)


def statement(report: Mapping[str, Any]) -> RuleKind:
    """What happened, and the section of the manual that forbids it."""
    unknown = RuleKind("a rule of the checker was broken", "docs/checker.md")
    return KINDS.get(f"{report['rule']}/{report['kind']}", unknown)


def times(count: int) -> str:
    """How often a report was seen, as words; empty for once."""
    return "" if count == 1 else f", seen {count} times"


def render(report: Mapping[str, Any]) -> list[str]:
    """The lines of a report."""
    if report["rule"] == "console":  # The kernel's own words.
        first, *more = report["text"].splitlines()
        return [f"report {report['report']}: console/{report['kind']}: {first}", *(f"  {line}" for line in more)]
    says, section = statement(report)
    lines = [
        f"report {report['report']}{times(report['count'])}: {report['rule']}/{report['kind']}: {says}",
        f"  rule     {MANUAL} {section}" if section.startswith(("C", "D")) else f"  rule     {section}",
    ]
    space = "every ASID" if report.get("asid") in (None, -1) else f"ASID {report['asid']}"
    level = report.get("level", 3)
    kind = "table" if report.get("table") else "page" if level == 3 else "block"
    lines.append(f"  entry    {report['va']}, {space}, a {kind} at level {level}, seen on CPU {report['cpu']}")
    lines.append(f"  old      {target(report, 'old')}")
    lines.append(f"  new      {target(report, 'new')}")
    if "differs" in report:
        lines.append(f"  differs  the contents of the two pages, from byte {report['differs']} on")
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
    first = f"  {place:<8} by CPU {where['cpu']} at {where.get('at', where['pc'])}"
    return [first, *(f"             called from {name}" for name in where.get("calls", ()))]


def seen_line(end: Mapping[str, Any] | None) -> str:
    """What a check has seen, as counts: silence says little when little was seen."""
    seen: Mapping[str, Any] = (end or {}).get("seen", {})
    words = [f"{seen[key]} {name}" for key, name in VITAL.items() if key in seen]
    words += [f"{seen['accesses']} accesses"] if seen.get("accesses") else []
    words += [f"{seen['memory'] / 2**20:.0f} MiB used"] if seen.get("memory") else []
    return ", ".join(words)
