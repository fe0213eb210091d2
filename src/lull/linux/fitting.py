# SPDX-License-Identifier: GPL-2.0-only
"""Which hunks of patches fit another Linux: all of them are tried, where ``apply_patch`` stops at the first that fails.

Only the files that the patches change are needed of that Linux.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lull import process
from lull.base import Base, Patch, patches_of
from lull.linux.hunks import adds, head_of, hunks_of, is_there, name_of, near, sections_of
from lull.linux.tree import STRICT


@dataclass
class Fit:
    """How hunks fit.

    Args:
        hunks: how many there are.
        failing: where the hunks are that do not fit: ``mm/rmap.c:1234``; line 0: the tree has a file that is added.
        near: where the hunks are that fit with less context, as ``apply_patch`` applies them.
        taken: where the others are that do not fit, because the tree has what they change already.
        patches: the patches of which the tree has every hunk.
    """

    hunks: int = 0
    failing: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)

    def add(self, other: Fit) -> None:
        """Count the hunks of ``other``, too."""
        self.hunks += other.hunks
        self.failing += other.failing
        self.near += other.near
        self.taken += other.taken
        self.patches += other.patches


def touched(texts: Iterable[str]) -> set[str]:
    """The files that these patches change, add or delete."""
    return {name for text in texts for name in re.findall(r"(?m)^(?:---|\+\+\+) [ab]/(\S+)", text)}


def patch(tree: Path, text: str, *options: str) -> process.ProcessEnd:
    """Run patch(1) with ``text`` in ``tree``."""
    with tempfile.NamedTemporaryFile("w", suffix=".patch") as file:
        file.write(text)
        file.flush()
        return process.complete(["patch", *options, "-d", tree, "-i", file.name])


def apply(tree: Path, text: str) -> Fit:
    """Apply the hunks of a patch that fit ``tree``, in place."""
    found = Fit()
    for section in sections_of(text):
        name, hunks = name_of(section), hunks_of(section)
        there = [hunk for hunk in hunks if is_there(tree, hunk)]
        # Without these: patch(1) would skip the file, because its first hunk has been applied.
        left = [hunk for hunk in hunks if hunk not in there]
        wrong = left
        if left and (tree / name).is_file() != adds(section):
            done = patch(
                tree, head_of(section) + "".join(hunk.removeprefix(head_of(section)) for hunk in left), *STRICT
            )
            failed = [left[int(number) - 1] for number in re.findall(r"(?m)^Hunk #(\d+) FAILED", done.output)]
            wrong = [] if done.status == 0 else failed or left
        found.hunks += len(hunks)
        found.taken += [place_of(name, hunk) for hunk in there]
        nearly = [hunk for hunk in wrong if patch(tree, near(hunk, tree)[0], *STRICT).status == 0]
        found.near += [place_of(name, hunk) for hunk in nearly]
        found.failing += [place_of(name, hunk) for hunk in wrong if hunk not in nearly]
    return found


def place_of(name: str, hunk: str) -> str:
    """The file and the line that a hunk names."""
    line = re.search(r"(?m)^@@ -(\d+)", hunk)
    return f"{name}:{line[1] if line else '?'}"


def fit(found: Patch, tree: Path) -> Fit:
    """Apply what fits of a patch to ``tree``, in place.

    If the tree has some of the hunks only, these fail, because the patch does not drop out.
    """
    one = apply(tree, found.diff())
    if one.taken and len(one.taken) == one.hunks:
        one.patches.append(found.name)
    else:
        one.failing += [f"{place} (there already)" for place in one.taken]
        one.taken = []
    return one


def copied(source: Path, names: Iterable[str], folder: Path) -> None:
    """Copy those files of ``source`` that are there to ``folder``, which can be changed."""
    for name in names:
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, folder / name)


def by_series(base: Base, source: Path) -> dict[str, Fit]:
    """How the hunks of each series of a base fit ``source``, all series applied in the order of the features."""
    found: dict[str, Fit] = {}
    with tempfile.TemporaryDirectory(prefix="lull-fit-") as scratch:
        copied(source, touched(one.diff() for one in patches_of(base.exported().values())), Path(scratch))
        for feature in base.exported().values():
            found[feature.name] = Fit()
            for one in feature.patches:
                found[feature.name].add(fit(one, Path(scratch)))
    return found


def rows(found: Mapping[str, Fit]) -> Sequence[tuple[str, str, str]]:
    """The table for people: series, hunks that fail of all, and where; then what Linux has, and what nearly fails."""
    lines = []
    for name, one in found.items():
        places: dict[str, list[str]] = {}
        for place in one.failing:
            file, _, line = place.partition(":")
            places.setdefault(file, []).append(line.strip())
        where = [f"{file}:{','.join(numbers)}" for file, numbers in places.items()]
        has = [f"Linux has {patch}" for patch in one.patches]
        has += [f"with less context: {', '.join(one.near)}"] if one.near else []
        lines.append((name, f"{len(one.failing)} of {one.hunks}", "; ".join([*where, *has])))
    return lines
