# SPDX-License-Identifier: GPL-2.0-only
"""Hunks in files to which several features add lines, in trees that lack some of these features."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lull.errors import ApplyError
from lull.linux import hunks

NAME = "mm/list.c"
HEAD = f"--- a/{NAME}\n+++ b/{NAME}\n"


def hooks(body: str, start: int = 1) -> str:
    """A patch of NAME with one hunk."""
    lines = body.splitlines()
    old, new = (sum(line[0] in f" {sign}" for line in lines) for sign in "-+")
    return f"{HEAD}@@ -{start},{old} +{start},{new} @@\n{body}"


def applied(tmp_path: Path, before: str, text: str, lists: tuple[str, ...] = (NAME,)) -> str:
    """NAME with ``before`` in it, after patch(1) without fuzz has applied the fitted hooks."""
    file = tmp_path / NAME
    file.parent.mkdir(exist_ok=True)
    file.write_text(before)
    patch = hunks.fitted(text, tmp_path, lists)
    subprocess.run(
        ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-d", tmp_path],
        input=patch,
        text=True,
        check=True,
        capture_output=True,
    )
    return file.read_text()


MIDDLE = " #ifdef A\n \ta,\n #endif\n+#ifdef B\n+\tb,\n+#endif\n \n #ifdef SWAP\n \tswap,\n"
"""B's lines, behind A's."""


def test_a_hunk_that_fits_is_not_changed(tmp_path: Path) -> None:
    """Not even its numbers."""
    text = hooks(MIDDLE, 99)
    (tmp_path / "mm").mkdir()
    (tmp_path / NAME).write_text("#ifdef A\n\ta,\n#endif\n\n#ifdef SWAP\n\tswap,\n")
    assert hunks.fitted(text, tmp_path, [NAME]) == text


def test_the_trailing_context_places_a_hunk(tmp_path: Path) -> None:
    """Without A; and where only a part of the leading lines is there."""
    after = "\n#ifdef B\n\tb,\n#endif\n\n#ifdef SWAP\n\tswap,\nend\n"
    assert applied(tmp_path, "top\n\n#ifdef SWAP\n\tswap,\nend\n", hooks(MIDDLE)) == f"top{after}"
    assert applied(tmp_path, "x,\n#endif\n\n#ifdef SWAP\n\tswap,\nend\n", hooks(MIDDLE)) == f"x,\n#endif{after}"


def test_the_end_of_the_file_places_a_hunk(tmp_path: Path) -> None:
    """Without trailing lines, and with fewer than diff writes; the same lines elsewhere do not matter."""
    text = hooks(" obj-a\n obj-b\n obj-c\n+obj-d\n", 7)
    assert applied(tmp_path, "obj-z\n", text) == "obj-z\nobj-d\n"
    assert applied(tmp_path, "obj-c\nobj-z\n", text) == "obj-c\nobj-z\nobj-d\n"
    text = hooks(" a\n b\n c\n+d\n \n endif\n", 7)
    assert applied(tmp_path, "\nendif\nif\n\nendif\n", text) == "\nendif\nif\nd\n\nendif\n"


def test_changed_lines_must_be_there(tmp_path: Path) -> None:
    """Lines that a hunk removes place it, too, and are never left out."""
    text = hooks(" a\n b\n-x\n+y\n-z\n")
    assert applied(tmp_path, "x\nb\nx\nz\n", text) == "x\nb\ny\n"
    (tmp_path / NAME).write_text("b\nz\n")
    assert hunks.fitted(text, tmp_path, [NAME]) == text


def test_further_hunks_of_the_file(tmp_path: Path) -> None:
    """Each is placed by itself, behind what those before it add."""
    text = hooks(" a\n+b\n 1\n 2\n 3\n") + hooks(" c\n+d\n 7\n 8\n 9\n", 40).removeprefix(HEAD)
    before = "".join(f"{n}\n" for n in range(1, 10))
    assert applied(tmp_path, before, text) == "b\n1\n2\n3\n4\n5\n6\nd\n7\n8\n9\n"


def test_a_place_that_is_not_unique(tmp_path: Path) -> None:
    """Is an error with the file, the hunk and the lines."""
    (tmp_path / "mm").mkdir()
    (tmp_path / NAME).write_text("\n#ifdef SWAP\n\tswap,\n\n#ifdef SWAP\n\tswap,\n")
    text = hooks(" top\n+x\n one\n two\n three\n") + hooks(MIDDLE).removeprefix(HEAD)
    with pytest.raises(ApplyError, match=rf"several places fit: {NAME}, hunk 2") as error:
        hunks.fitted(text, tmp_path, [NAME])
    assert error.value.where == "lines 1, 4"


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    """A file that is no list, and one that the tree lacks: patch(1) reports it."""
    (tmp_path / "mm").mkdir()
    assert hunks.fitted(hooks(MIDDLE), tmp_path, [NAME]) == hooks(MIDDLE)
    (tmp_path / NAME).write_text("\n#ifdef SWAP\n\tswap,\n")
    assert hunks.fitted(hooks(MIDDLE), tmp_path, ["mm/other.c"]) == hooks(MIDDLE)
    assert re.search(r"(?m)^@@ -1,3 \+1,6 @@$", hunks.fitted(hooks(MIDDLE), tmp_path, [NAME]))
