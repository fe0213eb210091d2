# SPDX-License-Identifier: GPL-2.0-only
"""Made-up Linuxes of three files, and patches of them, for tests that bring features from one to another."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from support import write_files

from lull import base as bases
from lull.base import Base
from lull.linux.tree import Tree

LINES = {name: [f"{name} {number}" for number in range(30)] for name in ("a", "b", "c")}


def text(name: str, *changes: tuple[int, str]) -> str:
    """The file init/NAME of a Linux in which lines were replaced."""
    lines = LINES[name] + ["end"]
    for number, line in changes:
        lines[number] = line
    return "".join(f"{line}\n" for line in lines)


def change(path: str, before: str, after: str) -> str:
    """A patch of one file; it is new if nothing was there before."""
    old, head = (f"a/{path}", "") if before else ("/dev/null", "new file mode 100644\n")
    lines = unified_diff(before.splitlines(True), after.splitlines(True), old, f"b/{path}")
    return f"diff --git a/{path} b/{path}\n{head}{''.join(lines)}"


def mail(subject: str, *changes: str, body: str = "") -> str:
    """A mail for git am."""
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "From: A U Thor <author@example.com>\nDate: Thu, 1 Jan 1970 00:00:00 +0000\n"
        f"Subject: [PATCH] {subject}\n\n{body}---\n\n{''.join(changes)}"
    )


def letter(title: str, body: str) -> str:
    """A cover letter."""
    return mail(title).replace("[PATCH]", "[PATCH 0/1]").replace("---\n", f"{body}\n\nA U Thor (1):\n  a patch\n")


def linux(folder: Path, series_name: str = "6.12", **files: str) -> Tree:
    """A Linux whose files are as of old, but for ``files``."""
    version, level = series_name.split(".")
    makefile = f"VERSION = {version}\nPATCHLEVEL = {level}\nSUBLEVEL = 0\n"
    write_files(folder, {"Makefile": makefile, **{f"init/{name}": files.get(name, text(name)) for name in LINES}})
    return Tree(folder, folder.name, f"{series_name}.0")


BASE = """# SPDX-License-Identifier: GPL-2.0-only
# An old base.

series = "6.12"

[kernels.lull]
config = []
features = true

[kernels.lab]
config = []
features = true

[features.one]

[features.two]
needs = ["one"]

[features.odd]
only = ["lab"]
"""


def base(folder: Path) -> Base:
    """A base of two features, of which the first has two patches, and one of the lab's own, in ``folder``/kernel."""
    first, second = text("a", (5, "first")), text("a", (5, "first"), (20, "second"))
    more = change("init/a", first, second), change("init/new.h", "", "new\n")
    files = {
        "bases/6.12.toml": BASE,
        "6.12/one/cover-letter.txt": letter("one: change a", "Why, and where:\n\nHere (2):\n  there\n\nThat is all."),
        "6.12/one/0001-one-change-a.patch": mail("one: change a", change("init/a", text("a"), first), body="A text.\n"),
        "6.12/one/0002-one-change-a-again.patch": mail("one: change a again", *more),
        "6.12/two/cover-letter.txt": letter("two: change b", "Why."),
        "6.12/two/0001-two-change-b.patch": mail(
            "two: change b", change("init/b", text("b"), text("b", (10, "two of b")))
        ),
        "6.12-lab/odd/0001-odd-change-c.patch": mail(
            "odd: change c", change("init/c", text("c"), text("c", (10, "odd")))
        ),
    }
    return bases.load_base(str(write_files(folder / "kernel", files) / "bases/6.12.toml"))


def files(folder: Path) -> dict[str, str]:
    """Every file below ``folder``, but for those of git."""
    found = sorted(p for p in folder.rglob("*") if p.is_file() and ".git" not in p.parts)
    return {str(p.relative_to(folder)): p.read_text() for p in found}
