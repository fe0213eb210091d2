# SPDX-License-Identifier: GPL-2.0-only
"""What can be switched in a Lull kernel, in words: for a cover letter, and for who has installed one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lull.base import Feature
from lull.kernel import message
from lull.kernel.series import note_of

FOLDER = "/sys/kernel/mm/lull"


def counters(feature: Feature) -> list[str]:
    """What a feature adds to /proc/vmstat: the names that its hooks add to mm/vmstat.c."""
    hooks = feature.hooks.read_text() if feature.hooks else ""
    of_vmstat = re.findall(r"(?ms)^\+\+\+ b/mm/vmstat\.c\n(.*?)(?=^--- |\Z)", hooks)
    return re.findall(r'(?m)^\+\s*"(\w+)",', "".join(of_vmstat))


def table(features: Iterable[Feature]) -> str:
    """A Markdown table of the switches: where, the policies, the default, and what stock does."""
    rows = [f"| {FOLDER}/{f.name} | {' '.join(f.policies)} | {f.default} | {f.off} |" for f in features if f.policies]
    return "\n".join(["| file | policies | default | as stock |", "|---|---|---|---|", *rows])


def section(feature: Feature) -> str:
    """What is said of one feature: its title, its switch and counters, and how its note begins; Markdown."""
    title, body = message.split(note_of(feature.folder))
    facts = []
    if feature.policies:
        facts = [
            f"* Switch: {FOLDER}/{feature.name}. Policies: {', '.join(feature.policies)}. It boots with "
            f"`{feature.default}`; `{feature.off}` is what Linux does without Lull.",
            f"* Boot parameter: lull_{feature.name}=POLICY.",
        ]
    if names := counters(feature):
        facts.append(f"* In /proc/vmstat: {', '.join(names)}.")
    about = re.split(r"(?m)^## ", body)[0].strip()
    return "\n".join([f"# {feature.name}: {title.partition(': ')[2]}", "", *facts, "", about])
