# SPDX-License-Identifier: GPL-2.0-only
"""The results of `lull check` for other people's CI: KTAP, JUnit's XML, and exit codes for ``git bisect run``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from lull.check.verdicts import FELL_SHORT, PASSED, BootResult, nothing_ran
from lull.run.records import Check

CANNOT = 125
"""The exit code by which ``git bisect run`` skips a kernel that cannot be judged."""
STOP = 128
"""The exit code with which ``git bisect run`` stops."""
CODES = {0: 0, FELL_SHORT: FELL_SHORT, CANNOT: CANNOT, **dict.fromkeys((3, 4, 5, 6, 9), CANNOT)}
"""Exit code -> that for ``git bisect run``: what was not built or did not run is skipped. Any other code is STOP."""
ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""Characters that XML cannot have."""


@dataclass(frozen=True)
class Case:
    """A boot, or a threshold, as a test case.

    Args:
        name: the line that names it.
        verdict: ``ok``, ``failed`` or ``skipped``.
        about: the verdict in words.
        text: everything that is printed of it.
        seconds: what the boot took.
    """

    name: str
    verdict: str
    about: str
    text: str
    seconds: float = 0.0


def cases(results: Sequence[BootResult], thresholds: Sequence[Check]) -> list[Case]:
    """A case for each boot and each missed threshold. One with a mutant is ok if the rule that is meant reported it."""
    found = []
    for result in results:
        verdict, detail = result.verdict()
        if mutant := result.trial.mutant:
            state = "ok" if result.caught(mutant.rules[:1]) else "failed"
        elif verdict != PASSED:
            state = "failed"
        else:
            state = "skipped" if nothing_ran([result]) else "ok"
        seconds = result.kept.seconds
        found.append(Case(result.what, state, f"{verdict}: {detail}", "\n".join(result.lines()[1:]), seconds))
    return found + [Case(threshold.name, "failed", threshold.detail, threshold.detail) for threshold in thresholds]


def ktap(found: Sequence[Case]) -> str:
    """The cases as KTAP (Documentation/dev-tools/ktap.rst), with what was printed as diagnostics."""
    lines = ["KTAP version 1", f"1..{len(found)}"]
    for number, case in enumerate(found, 1):
        lines += [f"# {line}" for line in case.text.splitlines()]
        skip = " # SKIP every program was skipped" if case.verdict == "skipped" else ""
        lines.append(f"{'not ' if case.verdict == 'failed' else ''}ok {number} {case.name.replace('#', '')}{skip}")
    return "\n".join(lines) + "\n"


def junit(found: Sequence[Case]) -> str:
    """The cases as JUnit's XML, as CI systems read it."""
    count = {state: str(sum(case.verdict == state for case in found)) for state in ("failed", "skipped")}
    total = {"tests": str(len(found)), "failures": count["failed"], "skipped": count["skipped"], "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": "lull check", **total})
    for case in found:
        kernel, _, rest = case.name.partition(" on ")
        named = {"classname": kernel, "name": rest or kernel, "time": f"{case.seconds:.1f}"}
        node = ElementTree.SubElement(suite, "testcase", named)
        if case.verdict == "failed":
            ElementTree.SubElement(node, "failure", {"message": ILLEGAL.sub("?", case.about)})
        elif case.verdict == "skipped":
            ElementTree.SubElement(node, "skipped")
        ElementTree.SubElement(node, "system-out").text = ILLEGAL.sub("?", case.text)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def bisect_code(results: Sequence[BootResult]) -> int:
    """0 for a good kernel; 1 if something new was reported, or a workload failed; CANNOT for one that says nothing."""
    if any(r.new or (r.failed_jobs() and not r.kept.trouble and not r.kept.errors) for r in results):
        return FELL_SHORT
    return CANNOT if nothing_ran(results) or any(r.verdict()[0] != PASSED for r in results) else 0
