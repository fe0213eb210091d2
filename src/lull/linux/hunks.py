# SPDX-License-Identifier: GPL-2.0-only
"""The hunks of a patch: whether a tree has them already, and where they fit a release near the tested one."""

from __future__ import annotations

import re
from pathlib import Path

SECTION = re.compile(r"(?m)^(?=diff --git )")
"""Where the part of a patch begins that is for one file."""
CONTEXT = 3
"""Lines of context that diff writes around a change."""


def sections_of(diff: str) -> list[str]:
    """The parts of a patch, one for each file."""
    return [section for section in SECTION.split(diff) if section.startswith("diff --git ")]


def name_of(section: str) -> str:
    """The file that a part of a patch changes, adds or deletes."""
    named = re.search(r"(?m)^--- a/(\S+)", section) or re.search(r"(?m)^\+\+\+ b/(\S+)", section)
    return named[1] if named else ""


def adds(section: str) -> bool:
    """Return true if the part of a patch adds its file."""
    return bool(re.search(r"(?m)^--- /dev/null$", section))


def head_of(section: str) -> str:
    """What is before the first hunk in the part of a patch for one file."""
    return re.split(r"(?m)^(?=@@ )", section)[0]


def hunks_of(section: str) -> list[str]:
    """The part of a patch for one file as one patch for each of its hunks."""
    return [head_of(section) + hunk for hunk in re.split(r"(?m)^(?=@@ )", section)[1:]]


def is_there(tree: Path, hunk: str) -> bool:
    """Return true if ``tree`` has what the one hunk of a patch makes of its lines, and no longer what it replaces.

    White space does not count: Linux often takes a change with its lines broken elsewhere.
    """
    name = name_of(hunk)
    lines = hunk.partition("\n@@ ")[2].splitlines()[1:]
    old, new = ("".join("".join(line[1:].split()) for line in lines if line[:1] != sign) for sign in "+-")
    text = "".join((tree / name).read_text(errors="replace").split()) if (tree / name).is_file() else ""
    return new in text and not (old and old in text)


def has_all(diff: str, tree: Path) -> bool:
    """Return true if ``tree`` has every change of the patch already, as ``is_there`` says."""
    return all(is_there(tree, hunk) for section in sections_of(diff) for hunk in hunks_of(section))


def near(diff: str, tree: Path) -> tuple[str, list[str]]:
    """The patch ``diff`` for a release near the tested one, and which hunks were changed for it: ``mm/rmap.c:1234``.

    A hunk that has no place in ``tree`` gets one if all its context on one side is there, and the nearest line on the
    other; and if there is one such place only. Its context then has one or two lines less. Others are not changed.
    """
    sections, changed = sections_of(diff), []
    for number, section in enumerate(sections):
        name = name_of(section)
        if adds(section) or not (tree / name).is_file():
            continue
        lines = (tree / name).read_text().splitlines(keepends=True)
        head, *found = re.split(r"(?m)^(?=@@ )", section)
        shift = 0
        for index, hunk in enumerate(found):
            if fitting := near_hunk(hunk, lines, shift):
                changed.append(f"{name}:{hunk[4:].split(',')[0]}")
                found[index] = fitting
            shift += sum({"+": 1, "-": -1}.get(line[0], 0) for line in hunk.splitlines(keepends=True)[1:])
        sections[number] = head + "".join(found)
    return "".join(sections), changed


def near_hunk(hunk: str, lines: list[str], shift: int) -> str:
    """The hunk with less context, as ``near`` says; empty if it fits as it is, or has no such place, or several.

    Args:
        shift: lines that the hunks before it add to the file.
    """
    body = hunk.splitlines(keepends=True)[1:]
    edits = [number for number, line in enumerate(body) if line[0] != " "]
    old = [line[1:] for line in body if line[0] != "+"]
    least = min(edits[0], len(body) - 1 - edits[-1])
    if places(old, lines):
        return ""
    for less in range(1, min(CONTEXT, least)):
        for kept, before in ((old[less:], 0), (old[:-less], less)):
            found = places(kept, lines)
            if len(found) == 1:
                start, rest = found[0] + before + 1, body[less:-less]
                new = sum(line[0] != "-" for line in rest)
                return f"@@ -{start},{len(old) - 2 * less} +{start + shift},{new} @@\n" + "".join(rest)
    return ""


def places(old: list[str], lines: list[str]) -> list[int]:
    """The indices at which ``lines`` has ``old``."""
    return [start for start in range(len(lines) - len(old) + 1) if lines[start : start + len(old)] == old]
