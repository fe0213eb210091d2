# SPDX-License-Identifier: GPL-2.0-only
"""What the plugin writes in check mode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lull.errors import MALFORMED, GuestGarbage
from lull.guest import console


@dataclass
class PluginOutput:
    """What the plugin wrote in a boot.

    Args:
        reports: in the order in which the plugin wrote them.
        end: the last line, with verdict and counts; None when QEMU was killed.
        errors: the plugin's errors about itself.
        unchecked: what is not judged because the kernel lacks a symbol, each ``RULE (no SYMBOL)``.
        windows: window id -> the counts of unchanged entries that TLBIs removed in it (checker/over_invalidated.h).
    """

    reports: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None
    errors: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    windows: dict[int, dict[str, int]] = field(default_factory=dict)


def read_reports(paths: Iterable[Path]) -> PluginOutput:
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
            except MALFORMED as error:
                raise GuestGarbage(f"the plugin wrote {line[:200]!r}: {error!r}", where=str(path)) from error
    return output


def take(message: dict[str, Any], output: PluginOutput, reports: dict[int, dict[str, Any]]) -> None:
    """Add one line of the plugin to the output, and to the reports by number."""
    if not isinstance(message, dict):
        raise TypeError("no object")
    if "report" in message:
        words = {"rule": str(message["rule"]), "kind": str(message["kind"]), "text": list(map(str, message["text"]))}
        report = {"count": 1, **message, **words}
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
        {
            "report": n,
            "rule": "console",
            "kind": found.kind,
            "text": f"report {n}: console/{found.kind}: {found.text}".replace("\n", "\n  ").splitlines(),
            "count": 1,
        }
        for n, found in enumerate(reports, known + 1)
    ]


def unseen(end: Mapping[str, Any] | None) -> str:
    """What the plugin never saw, as a sentence; empty if it saw everything.

    Args:
        end: the last line of the plugin; None when it wrote none.
    """
    if end is None:
        return "the plugin wrote no verdict"
    return str(end["text"]) if end["unseen"] else ""


def times(count: int) -> str:
    """How often a report was seen, as words; empty for once."""
    return "" if count == 1 else f", seen {count} times"


def lines(report: Mapping[str, Any]) -> list[str]:
    """The text of a report, and in its first line how often it was seen."""
    first, *more = report["text"]
    return [first.replace(":", f"{times(report['count'])}:", 1), *more]
