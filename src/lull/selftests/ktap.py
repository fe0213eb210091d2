# SPDX-License-Identifier: GPL-2.0-only
"""Parse KTAP, the format in which the kernel prints KUnit results (Documentation/dev-tools/ktap.rst).

The tests of this module use logs of real guests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lull.guest.console import TIMESTAMP

RESULT = re.compile(
    r"^(?P<indent> *)(?P<not>not )?ok (?P<number>\d+) ?(?:- )?(?P<name>[^#]*?)(?: *# ?(?P<directive>.*))?$"
)
PLAN = re.compile(r"^(?P<indent> *)1\.\.(?P<count>\d+)$")
SUBTEST = re.compile(r"^ *# Subtest: (?P<name>.*)$")


@dataclass
class Case:
    """One test case: its suite, name, verdict (``ok``, ``failed``, ``skipped``) and the diagnostics before it."""

    suite: str
    name: str
    verdict: str
    diagnostics: list[str] = field(default_factory=list)


def parse(text: str) -> list[Case]:
    """The cases of all suites in a console log with one KTAP document, among which other messages may stand.

    Raises: ValueError when there is no KTAP, when a suite ends early, or when a planned suite is missing.
    """
    cases: list[Case] = []
    suite, planned, seen, suites_planned, suites_seen = "", 0, 0, -1, 0
    notes: list[str] = []
    for raw in text.replace("\r", "").splitlines():
        line = TIMESTAMP.sub("", raw)
        if match := PLAN.match(line):
            if match.group("indent"):
                planned = int(match.group("count"))
            else:
                suites_planned = int(match.group("count"))
        elif match := SUBTEST.match(line):
            if not suite:
                suite, seen, notes = match.group("name"), 0, []
        elif match := RESULT.match(line):
            depth = len(match.group("indent"))
            if depth == 0:
                if seen != planned:
                    raise ValueError(f"suite {suite}: {seen} of {planned} planned cases reported")
                suite, planned, suites_seen = "", 0, suites_seen + 1
            elif depth == 4:
                seen += 1
                skipped = (match.group("directive") or "").upper().startswith("SKIP")
                verdict = "failed" if match.group("not") else "skipped" if skipped else "ok"
                cases.append(Case(suite, match.group("name").strip(), verdict, notes))
                notes = []
        elif suite:
            notes.append(line)
    if suites_planned < 0:
        raise ValueError("the console has no KTAP plan: KUnit did not run")
    if suite or suites_seen != suites_planned:
        raise ValueError(f"{suites_seen} of {suites_planned} planned suites ended")
    return cases
