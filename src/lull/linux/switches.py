# SPDX-License-Identifier: GPL-2.0-only
"""Describe the switches of a Lull kernel: for the cover letter, and for the packages' README.lull."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from lull.base import Feature
from lull.linux import message
from lull.linux.series import note_of

FOLDER = Path("/sys/kernel/mm/lull")
"""Lull's run-time switches, a file each, with the policy in brackets among those there are."""


def chosen(switch: Path) -> str | None:
    """The policy that a switch of the running kernel has; None when the file names none."""
    found = re.search(r"\[(\w+)\]", switch.read_text())
    return found[1] if found else None


def counters(feature: Feature) -> list[str]:
    """The names that a feature adds to /proc/vmstat, read from its hooks in mm/vmstat.c."""
    hooks = "".join(patch.hooks_text() for patch in feature.patches)
    of_vmstat = re.findall(r"(?ms)^\+\+\+ b/mm/vmstat\.c\n(.*?)(?=^--- |\Z)", hooks)
    # Newer kernels name the index of each entry: [I(SWAP_RA)] = "swap_ra",
    return re.findall(r'(?m)^\+\s*(?:\[I\(\w+\)\]\s*= )?"(\w+)",', "".join(of_vmstat))


def table(features: Iterable[Feature]) -> str:
    """A Markdown table of the switches: where they are, policies, default, and the policy that does what stock does."""
    rows = [
        f"| {f'boot parameter lull_{f.name}' if f.boot else FOLDER / f.name} | {' '.join(f.policies)} | {f.default} "
        f"| {f.off} |"
        for f in features
        if f.policies and f.file
    ]
    return "\n".join(["| switch | policies | default | as stock |", "|---|---|---|---|", *rows])


def section(feature: Feature) -> str:
    """A feature described in Markdown: its title, switch and counters, and the beginning of its note.

    The beginnings of the notes of its patches follow, if these have notes of their own.
    """
    title, about = beginning(feature.folder)
    facts = []
    if feature.policies and feature.file:
        facts = [
            f"* Switch: {FOLDER}/{feature.name}. Policies: {', '.join(feature.policies)}. It boots with "
            f"`{feature.default}`; `{feature.off}` is what Linux does without Lull.",
            f"* Boot parameter: lull_{feature.name}=POLICY.",
        ]
    if names := counters(feature):
        facts.append(f"* In /proc/vmstat: {', '.join(names)}.")
    notes = [beginning(patch.folder) for patch in feature.patches if patch.folder != feature.folder]
    parts = [line for subject, text in notes for line in ("", f"## {subject}", "", text)]
    return "\n".join([f"# {feature.name}: {title.partition(': ')[2]}", "", *facts, "", about, *parts])


def beginning(folder: Path) -> tuple[str, str]:
    """The title of the note in ``folder``, and the text before the note's first section."""
    title, body = message.split(note_of(folder))
    return title, re.split(r"(?m)^## ", body)[0].strip()
