# SPDX-License-Identifier: GPL-2.0-only
"""Made-up Linuxes of three files, and patches of them, for tests that bring features from one to another."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from support import write_files

from lull.linux.tree import Tree

LINES = {name: [f"{name} {number}" for number in range(30)] for name in ("a", "b", "c")}


def text(name: str, *changes: tuple[int, str]) -> str:
    """The file init/NAME of a Linux in which lines were replaced."""
    lines = LINES[name] + ["end"]
    for number, line in changes:
        lines[number] = line
    return "".join(f"{line}\n" for line in lines)


def hooks(name: str, before: str, after: str) -> str:
    """A patch of init/NAME."""
    lines = unified_diff(before.splitlines(True), after.splitlines(True), f"a/init/{name}", f"b/init/{name}")
    return "".join(line for line in lines)


def linux(folder: Path, series_name: str = "6.12", **files: str) -> Tree:
    """A Linux whose files are as of old, but for ``files``."""
    version, level = series_name.split(".")
    makefile = f"VERSION = {version}\nPATCHLEVEL = {level}\nSUBLEVEL = 0\n"
    write_files(folder, {"Makefile": makefile, **{f"init/{name}": files.get(name, text(name)) for name in LINES}})
    return Tree(folder, folder.name, f"{series_name}.0")
