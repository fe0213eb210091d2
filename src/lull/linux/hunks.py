# SPDX-License-Identifier: GPL-2.0-only
"""Fit hooks to a tree that lacks features which come earlier in the base, as the trees of `lull export` do.

Some files of Linux and of core are lists to which several features add lines: Kconfig.lull, a Makefile, the counters
(``lists`` in the base's TOML file). There the first lines of a hunk's context may come from a feature that the tree
lacks. The hunk is then placed by the lines that are left.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from lull.errors import ApplyError

SECTION = re.compile(r"(?m)^(?=--- a/)")
"""Where the part of a patch begins that is for one file."""
CONTEXT = 3
"""Lines of context that diff writes around a change. With fewer of them behind it, the change is at the file's end."""


def fitted(hooks: str, tree: Path, lists: Collection[str]) -> str:
    """The patch ``hooks`` with hunks that fit ``tree``, where these are for files in ``lists``.

    A hunk that fits is not changed, nor is one for which no place is found: patch(1) reports it.

    Raises: ApplyError, which names file and hunk, when a hunk without the missing lines has several places.
    """
    sections = re.split(r"(?m)^(?=--- a/)", hooks)
    for number, section in enumerate(sections):
        named = re.match(r"--- a/(\S+)", section)
        if named and named[1] in lists and (tree / named[1]).is_file():
            sections[number] = fit_file(section, named[1], (tree / named[1]).read_text().splitlines(keepends=True))
    return "".join(sections)


def fit_file(section: str, name: str, lines: list[str]) -> str:
    """The part of a patch for the file ``name``, which has these lines, fitted as ``fitted`` says."""
    head, *hunks = re.split(r"(?m)^(?=@@ )", section)
    shift = 0
    for number, hunk in enumerate(hunks, 1):
        changes = hunk.splitlines(keepends=True)[1:]
        hunks[number - 1] = fit_hunk(hunk, f"{name}, hunk {number}", lines, shift)
        shift += sum({"+": 1, "-": -1}.get(line[0], 0) for line in changes)
    return head + "".join(hunks)


def fit_hunk(hunk: str, where: str, lines: list[str], shift: int) -> str:
    """A hunk without the leading lines of context that are not in ``lines``.

    Args:
        where: the file and the number of the hunk, for an error.
        shift: lines that the hunks before it add to the file.
    """
    body = hunk.splitlines(keepends=True)[1:]
    after = len(body) - max((n for n, line in enumerate(body, 1) if line[0] in "+-"), default=0)
    for left_out in range(len(body)):
        rest = body[left_out:]
        old = [line[1:] or "\n" for line in rest if line[0] != "+"]
        found = places(old, lines, at_end=after < CONTEXT)
        if found and left_out == 0:
            return hunk
        if len(found) > 1:
            raise ApplyError(
                f"several places fit: {where}",
                where=f"lines {', '.join(str(place + 1) for place in found)}",
                remedy="give the hunk a context that is in no other place, or let its series need the feature whose "
                "lines its context has",
            )
        if found:
            start, new = found[0] + bool(old), len(rest) - sum(line[0] == "-" for line in rest)
            # A hunk without old lines is inserted after the line that its header names.
            return f"@@ -{start},{len(old)} +{found[0] + 1 + shift},{new} @@\n" + "".join(rest)
        if body[left_out][0] in "+-":
            break
    return hunk


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
    name = hunk.split(maxsplit=2)[1].removeprefix("a/")
    lines = hunk.partition("\n@@ ")[2].splitlines()[1:]
    old, new = ("".join("".join(line[1:].split()) for line in lines if line[:1] != sign) for sign in "+-")
    text = "".join((tree / name).read_text(errors="replace").split()) if (tree / name).is_file() else ""
    return new in text and old not in text


def has_all(hooks: str, tree: Path) -> bool:
    """Return true if ``tree`` has every change of the patch ``hooks`` already, as ``is_there`` says."""
    sections = SECTION.split(hooks)[1:]
    return all(is_there(tree, hunk) for section in sections for hunk in hunks_of(section))


def near(hooks: str, tree: Path) -> tuple[str, list[str]]:
    """The patch ``hooks`` for a release near the tested one, and which hunks were changed for it: ``mm/rmap.c:1234``.

    A hunk that has no place in ``tree`` gets one if all its context on one side is there, and the nearest line on the
    other; and if there is one such place only. Its context then has one or two lines less. Others are not changed.
    """
    sections, changed = SECTION.split(hooks), []
    for number, section in enumerate(sections):
        named = re.match(r"--- a/(\S+)", section)
        if not named or not (tree / named[1]).is_file():
            continue
        lines = (tree / named[1]).read_text().splitlines(keepends=True)
        head, *found = re.split(r"(?m)^(?=@@ )", section)
        shift = 0
        for index, hunk in enumerate(found):
            if fitting := near_hunk(hunk, lines, shift):
                changed.append(f"{named[1]}:{hunk[4:].split(',')[0]}")
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
    if places(old, lines, at_end=False):
        return ""
    for less in range(1, min(CONTEXT, least)):
        for kept, before in ((old[less:], 0), (old[:-less], less)):
            found = places(kept, lines, at_end=False)
            if len(found) == 1:
                start, rest = found[0] + before + 1, body[less:-less]
                new = sum(line[0] != "-" for line in rest)
                return f"@@ -{start},{len(old) - 2 * less} +{start + shift},{new} @@\n" + "".join(rest)
    return ""


def places(old: list[str], lines: list[str], *, at_end: bool) -> list[int]:
    """The indices at which ``lines`` has ``old``; with ``at_end`` only the one at which both end."""
    last = len(lines) - len(old)
    starts = range(last if at_end else 0, last + 1)
    return [start for start in starts if start >= 0 and lines[start : start + len(old)] == old]
