# SPDX-License-Identifier: GPL-2.0-only
"""What a guest's console says: how it ended, and what its kernel reported. Tested on real logs (tests/data)."""

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
"""Somebody waits: for the host, where that is busy."""
REPORT = re.compile(
    r"WARNING: |\bBUG[: ]|INFO: (?:task|trying|rcu)|pagealloc: |turning off the locking"
    r"|Kernel panic - |Internal error: |Unable to handle kernel |SError Interrupt"
)
"""The first line of what a kernel holds to be wrong with itself: WARN, BUG, lockdep, KASAN, KCSAN, SLUB, bad pages,
overwritten poison; tasks and CPUs that make no progress; crashes."""
TIMESTAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")
PRINTED = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?(?P<line>.*)")
"""A line of the kernel's; what programs print has no time stamp, and may stand before it."""
CONTEXT_LINES = 12


@dataclass(frozen=True)
class Verdict:
    """What the console shows.

    Args:
        kind: ``panic``, ``oom``, ``stall`` or ``fine``, the worst found.
        detail: the telling line, without its time stamp.
        excerpt: the lines around it, or the last ones.
    """

    kind: str
    detail: str
    excerpt: str


def judge(text: str) -> Verdict:
    """Read a console log. A panic says more than the memory shortage or stall before it, unless that caused it."""
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
        return Verdict("fine", "", "\n".join(lines[-CONTEXT_LINES:]))
    number, detail = found[kind]
    start = max(0, number - 2)
    return Verdict(kind, detail, "\n".join(lines[start : start + CONTEXT_LINES]))


@dataclass(frozen=True)
class Report:
    """Something that the kernel holds to be wrong with itself.

    Args:
        title: its first line, without the time stamp.
        text: it and the lines behind it, to the next one.
    """

    title: str
    text: str

    @property
    def kind(self) -> str:
        """``BUG``, ``WARNING``, ``INFO: task``"""
        found = REPORT.search(self.title)
        return found.group().strip(" :-") if found else ""


REPORT_LINES = 100
"""A report of KCSAN has two stacks."""


def reports(text: str) -> list[Report]:
    """What the kernel reported, in order. Programs warn of things of their own, in the same words."""
    printed = map(PRINTED.search, text.replace("\r", "").splitlines())
    lines = [found["line"] for found in printed if found]
    starts = [number for number, line in enumerate(lines) if REPORT.search(line)]
    ends = [*starts[1:], len(lines)]
    return [
        Report(lines[start], "\n".join(lines[start : min(end, start + REPORT_LINES)]))
        for start, end in zip(starts, ends, strict=False)
    ]
