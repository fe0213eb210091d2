# SPDX-License-Identifier: GPL-2.0-only
"""What patch(1) says, and what Kconfig drops, put into words."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import write_files

from lull import paths
from lull.base import Patch
from lull.errors import ApplyError, UsageError
from lull.linux import build, series, tree

PATCH_OUTPUT = """\
checking file a/b.c
Hunk #1 succeeded at 10 (offset 2 lines).
Hunk #2 FAILED at 123.
1 out of 2 hunks FAILED
patching file 'my file.h'
Hunk #1 FAILED at 7.
1 out of 1 hunk FAILED
"""


def test_failed_hunks_name_file_and_line() -> None:
    """Only those that failed."""
    assert tree.failed_hunks(PATCH_OUTPUT) == "a/b.c, hunk 2 (line 123); my file.h, hunk 1 (line 7)"


def test_unreadable_patch() -> None:
    """Something is said even when patch(1) says nothing we know."""
    assert "could not read" in tree.failed_hunks("patch: **** Only garbage was found")


HOOKS = """\
--- a/f.h
+++ b/f.h
@@ -1,3 +1,4 @@
 one
+two
 three
 four
@@ -11,3 +12,4 @@
 eleven
+twelve
 thirteen
 fourteen
"""


def test_hooks_are_read_to_their_end(tmp_path: Path) -> None:
    """A header that counts a line too few: patch(1) would leave out the hunks after it, and call that a success."""
    hooks = tmp_path / "6.12.patch"
    hooks.write_text(HOOKS)
    tree.check_hooks(hooks)
    hooks.write_text(HOOKS.replace("-1,3 +1,4", "-1,2 +1,3"))
    with pytest.raises(ApplyError, match="line 8"):
        tree.check_hooks(hooks)


def test_hooks_of_all_features_are_whole() -> None:
    """Those that are here."""
    found = sorted(paths.KERNEL.rglob("hooks/*.patch"))
    assert len(found) > 10
    for hooks in found:
        tree.check_hooks(hooks)


def test_a_file_of_one_base(tmp_path: Path) -> None:
    """The trees of a base have it and no others do; the same path for all bases and for one is an error."""
    top = write_files(tmp_path, {"files/mm/a.c": "a", "files-6.12/mm/b.c": "b", "files-7.3/mm/c.c": "c"})
    old, new = Patch("p", top, "6.12"), Patch("p", top, "7.3")
    assert old.files() == {Path("mm/a.c"): top / "files/mm/a.c", Path("mm/b.c"): top / "files-6.12/mm/b.c"}
    assert list(map(str, new.files())) == ["mm/a.c", "mm/c.c"] and old.key() != new.key()
    before = old.key()
    (top / "files-6.12/mm/b.c").rename(top / "files/mm/b.c")
    assert old.key() == before
    write_files(top, {"files-6.12/mm/a.c": "b"})
    with pytest.raises(UsageError, match=r"mm/a.c is in files/ and in files-6.12/"):
        old.files()


def test_hooks_of_one_base(tmp_path: Path) -> None:
    """The hooks of the base come before those that bases share."""
    top = write_files(tmp_path, {"hooks/all.patch": "a", "hooks/7.3.patch": "b"})
    old, new = Patch("p", top, "6.12"), Patch("p", top, "7.3")
    assert (old.hooks_text(), new.hooks_text()) == ("a", "b")
    assert old.hooks == top / "hooks/all.patch"
    (top / "hooks/all.patch").unlink()
    assert old.hooks == top / "hooks/6.12.patch" and old.hooks_text() == ""


def test_where_a_file_is_saved(tmp_path: Path) -> None:
    """Where it is; a new one in files/, unless it is there for another base only."""
    top = write_files(tmp_path, {"files/mm/a.c": "a", "files-6.12/mm/b.c": "b"})
    old, new = Patch("p", top, "6.12"), Patch("p", top, "7.3")
    assert series.place_of("mm/a.c", new) == top / "files/mm/a.c"
    assert series.place_of("mm/b.c", old) == top / "files-6.12/mm/b.c"
    assert series.place_of("mm/b.c", new) == top / "files-7.3/mm/b.c"
    assert series.place_of("mm/d.c", new) == top / "files/mm/d.c"


def test_no_hooks_for_this_base(tmp_path: Path) -> None:
    """A patch that has hooks for another series is never applied without."""
    top = write_files(tmp_path / "p", {"files/mm/a.c": "a", "hooks/6.12.patch": HOOKS})
    place = tmp_path / "tree"
    place.mkdir()
    with pytest.raises(ApplyError, match=r"p has no hooks for Linux 7.3"):
        tree.apply_patch(Patch("p", top, "7.3"), place, tmp_path / "log", source=place)
    assert not any(place.iterdir())


STOCK = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 9\n"
LINES = "a\nb\nint f(int x,\n      int size)\n{\nc\nd\n"
WIDER = (
    "--- a/mm/f.c\n+++ b/mm/f.c\n@@ -1,7 +1,7 @@\n a\n b\n int f(int x,\n"
    "-      int size)\n+      long size)\n {\n c\n d\n"
)


@pytest.mark.parametrize(
    ("text", "applied", "said"),
    [
        (LINES, True, ""),
        (LINES.replace("int size", "long size"), False, "p: left out, Linux 6.12.9 has this change already"),
        (LINES.replace("int x,\n      int size", "int x, long size"), False, "p: left out, Linux 6.12.9"),
        (LINES.replace("a\n", "A\n"), True, "p: less context fits Linux 6.12.9: mm/f.c:1"),
    ],
    ids=["as tested", "taken", "taken with other line breaks", "other lines beside it"],
)
def test_a_release_near_the_tested_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, applied: bool, said: str
) -> None:
    """A change that Linux has taken drops out, one whose surroundings differ is applied, and both are said."""
    top = write_files(tmp_path / "p", {"hooks/6.12.patch": WIDER})
    place = write_files(tmp_path / "tree", {"mm/f.c": text, "Makefile": STOCK})
    assert tree.apply_patch(Patch("p", top, "6.12"), place, tmp_path / "log", source=place) == applied
    assert "long size)" in (place / "mm/f.c").read_text() and "int size" not in (place / "mm/f.c").read_text()
    err = capsys.readouterr().err
    assert said in err and bool(said) == bool(err)


@pytest.mark.parametrize("lines", [LINES.replace("int x", "int y"), LINES.replace("size", "length"), "a\n"])
def test_another_change_is_not_taken_for_it(tmp_path: Path, lines: str) -> None:
    """Neither left out nor applied: the error names the hunk, and the tree is as it was."""
    top = write_files(tmp_path / "p", {"hooks/6.12.patch": WIDER})
    place = write_files(tmp_path / "tree", {"mm/f.c": lines, "Makefile": STOCK})
    with pytest.raises(ApplyError, match=r"mm/f\.c, hunk 1"):
        tree.apply_patch(Patch("p", top, "6.12"), place, tmp_path / "log", source=place)
    assert (place / "mm/f.c").read_text() == lines


def test_a_patch_with_files_is_never_left_out(tmp_path: Path) -> None:
    """Linux may have its hooks by chance, but not its files."""
    top = write_files(tmp_path / "p", {"hooks/6.12.patch": WIDER, "files/mm/new.c": "new"})
    place = write_files(tmp_path / "tree", {"mm/f.c": LINES.replace("int size", "long size"), "Makefile": STOCK})
    with pytest.raises(ApplyError):
        tree.apply_patch(Patch("p", top, "6.12"), place, tmp_path / "log", source=place)


def test_dropped_options() -> None:
    """Asked y and got n, asked n and got y, asked a value and got another."""
    asked = build.asked_options('CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="x y"\nCONFIG_D=3\n# a comment\n')
    config = 'CONFIG_B=y\nCONFIG_C="x y"\nCONFIG_D=4\n'
    assert build.dropped_options(asked, config) == ["CONFIG_A=y (is n)", "CONFIG_B=n (is y)", "CONFIG_D=3 (is 4)"]


def test_an_absent_option_is_off() -> None:
    """'is not set' is held by an option that Kconfig does not even offer."""
    assert build.dropped_options({"CONFIG_A": "n"}, "") == []


def test_a_tree_half_removed_is_linked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is stopped while it removes its links does not leave a tree without a Makefile to the next one."""
    write_files(tmp_path / "source", {"Makefile": "all:\n", "mm/vmscan.c": "\n"})
    whole = tree.Tree(tmp_path / "source", "key", "7.3.0")
    place = tmp_path / "build" / "linux"
    place.parent.mkdir()

    def stopped(folder: Path) -> None:
        (folder / "Makefile").unlink()
        raise KeyboardInterrupt

    linked = build.linked_tree(whole, place)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("shutil.rmtree", stopped)
        build.remove_tree(linked.path)
    assert (build.linked_tree(whole, place).path / "Makefile").is_file()
    build.remove_tree(place)
    assert list(place.parent.glob("linux*")) == [place.with_name("linux.log")]
