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


def has_all(hooks: str, tree: Path) -> bool:
    """Return true if ``tree`` has every change of the patch ``hooks`` already, whatever its lines' breaks and indents.

    A hunk is there if its file has the hunk's new lines and their context.
    """
    for section in re.split(r"(?m)^(?=--- a/)", hooks)[1:]:
        head, *found = re.split(r"(?m)^(?=@@ )", section)
        named = re.match(r"--- a/(\S+)", head)
        if not named or not (tree / named[1]).is_file():
            return False
        text = " ".join((tree / named[1]).read_text(errors="replace").split())
        for hunk in found:
            new = "".join(line[1:] for line in hunk.splitlines(keepends=True)[1:] if line[0] != "-")
            if " ".join(new.split()) not in text:
                return False
    return True


def places(old: list[str], lines: list[str], *, at_end: bool) -> list[int]:
    """The indices at which ``lines`` has ``old``; with ``at_end`` only the one at which both end."""
    last = len(lines) - len(old)
    starts = range(last if at_end else 0, last + 1)
    return [start for start in starts if start >= 0 and lines[start : start + len(old)] == old]
