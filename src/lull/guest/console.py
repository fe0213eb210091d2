# SPDX-License-Identifier: GPL-2.0-only
"""Read a guest's console log: how the guest ended, and which defects its kernel reported.

The tests use logs of real guests (tests/data).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEADLY = re.compile(
    r"Kernel panic - not syncing: (?P<panic>.*)"
    r"|(?P<oops>Internal error: .*|Unable to handle kernel .*|kernel BUG at .*)"
)
OUT_OF_MEMORY = re.compile(
    r"Out of memory: Killed process \d+ \((?P<name>[^)]*)\)|(?P<system>System is deadlocked on memory)"
)
STALL = re.compile(
    r"rcu: INFO: .*detected .*stalls?\b|watchdog: BUG: soft lockup.*"
    r"|INFO: task \S+ blocked for more than|BUG: workqueue lockup"
)
"""Messages about a task or CPU that makes no progress. A busy host alone can cause them."""
REPORT = re.compile(
    r"WARNING: |\bBUG[: ]|INFO: (?:task|trying|rcu)|pagealloc: |turning off the locking"
    r"|Kernel panic - |Internal error: |Unable to handle kernel |SError Interrupt"
)
"""The first line of a kernel's report of a defect of its own: WARN, BUG, lockdep, KASAN, KCSAN, SLUB, bad pages,
overwritten poison; tasks and CPUs that make no progress; crashes."""
TIMESTAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")
PRINTED = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?(?P<line>.*)")
"""A line of the kernel. Output of programs has no time stamp, and may precede the kernel's on the same line."""
CONTEXT_LINES = 12
"""Lines of an excerpt."""


@dataclass(frozen=True)
class ConsoleVerdict:
    """How a guest ended, by its console.

    Args:
        kind: the worst that was found: ``panic``, ``oom`` (out of memory), ``stall`` or ``fine``.
        detail: the line that says so, without its time stamp.
        excerpt: lines around it; the last lines of the log when all is fine.
    """

    kind: str
    detail: str
    excerpt: str


def diagnose(text: str) -> ConsoleVerdict:
    """The verdict on a console log.

    A panic is worse than a memory shortage or a stall before it. A panic for lack of memory counts as ``oom``.
    """
    lines = text.replace("\r", "").splitlines()
    found: dict[str, tuple[int, str]] = {}
    for number, raw in enumerate(lines):
        line = TIMESTAMP.sub("", raw)
        if match := DEADLY.search(line):
            found.setdefault("panic", (number, match.group("panic") or match.group("oops")))
        elif OUT_OF_MEMORY.search(line):
            found.setdefault("oom", (number, line))
        elif STALL.search(line):
            found.setdefault("stall", (number, line))
    kind = next((k for k in ("panic", "oom", "stall") if k in found), "fine")
    if kind == "panic" and "memory" in found["panic"][1].replace("read-only memory", ""):
        kind = "oom"
        found.setdefault("oom", found["panic"])
    if kind == "fine":
        return ConsoleVerdict("fine", "", "\n".join(lines[-CONTEXT_LINES:]))
    number, detail = found[kind]
    start = max(0, number - 2)
    return ConsoleVerdict(kind, detail, "\n".join(lines[start : start + CONTEXT_LINES]))


@dataclass(frozen=True)
class Report:
    """A kernel's report of a defect of its own.

    Args:
        title: its first line, without the time stamp.
        text: all its lines: up to the next report, at most REPORT_LINES.
    """

    title: str
    text: str

    @property
    def kind(self) -> str:
        """The kind of report: ``BUG``, ``WARNING``, ``INFO: task``."""
        found = REPORT.search(self.title)
        return found.group().strip(" :-") if found else ""


REPORT_LINES = 100
"""Lines that are kept of a report: enough for one of KCSAN, which has two call chains."""


def reports(text: str) -> list[Report]:
    """The kernel's reports in a console log, in order.

    Only lines with the kernel's time stamp are read, because programs print warnings of the same form.
    """
    printed = map(PRINTED.search, text.replace("\r", "").splitlines())
    lines = [found["line"] for found in printed if found]
    starts = [number for number, line in enumerate(lines) if REPORT.search(line)]
    ends = [*starts[1:], len(lines)]
    return [
        Report(lines[start], "\n".join(lines[start : min(end, start + REPORT_LINES)]))
        for start, end in zip(starts, ends, strict=False)
    ]
