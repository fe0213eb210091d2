# SPDX-License-Identifier: GPL-2.0-only
"""What patch(1) says, and what Kconfig drops, put into words."""

from __future__ import annotations

from pathlib import Path

import pytest
from linuxes import change, mail
from support import write_files

from lull import paths
from lull.base import Patch
from lull.errors import ApplyError
from lull.linux import build, fitting, tree

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


SHORT = change("f.h", "1\n2\n3\n4\n", "1\n2\nb\n3\n4\n") + "@@ -11,3 +12,4 @@\n 11\n+c\n 12\n 13\n"


def test_patches_are_read_to_their_end(tmp_path: Path) -> None:
    """A header that counts a line too few: patch(1) would leave out the hunks after it, and call that a success."""
    whole, cut = (tmp_path / name for name in ("whole.patch", "cut.patch"))
    whole.write_text(mail("p", SHORT))
    tree.check_mail(whole)
    cut.write_text(mail("p", SHORT.replace("-1,4 +1,5", "-1,3 +1,4")))
    with pytest.raises(ApplyError, match=r"line \d+"):
        tree.check_mail(cut)


def test_patches_of_all_features_are_whole() -> None:
    """Those that are here."""
    found = sorted(paths.KERNEL.glob("*/*/*.patch"))
    assert len(found) > 10
    for file in found:
        tree.check_mail(file)


def test_a_patch_is_a_mail(tmp_path: Path) -> None:
    """Its message and the hashes of files do not count in its key; a subject may be folded."""
    changes = change("f.h", "a\n", "b\n"), change("new.h", "", "c\n")
    file = write_files(tmp_path, {"0002-x.patch": mail("one:\n two", *changes)}) / "0002-x.patch"
    patch = Patch("p/0002-x", file)
    assert (patch.subject, fitting.touched([patch.diff()])) == ("one: two", {"f.h", "new.h"})
    key = patch.key()
    file.write_text(mail("other", changes[0].replace("\n---", "\nindex 12ab..34cd 100644\n---", 1), changes[1]))
    assert patch.key() == key
    file.write_text(mail("other", changes[0]))
    assert patch.key() != key


STOCK = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 9\n"
LINES = "a\nb\nint f(int x,\n      int size)\n{\nc\nd\n"
WIDER = change("mm/f.c", LINES, LINES.replace("int size", "long size"))


def applied(folder: Path, lines: str, *changes: str) -> bool:
    """What ``apply_patch`` returns for a patch of a release whose mm/f.c has these lines."""
    file = write_files(folder, {"0001-p.patch": mail("p", *changes)}) / "0001-p.patch"
    place = write_files(folder / "tree", {"mm/f.c": lines, "Makefile": STOCK})
    return tree.apply_patch(Patch("p", file), place, folder / "log", source=place)


@pytest.mark.parametrize(
    ("text", "fits", "said"),
    [
        (LINES, True, ""),
        (LINES.replace("int size", "long size"), False, "p: left out, Linux 6.12.9 has this change already"),
        (LINES.replace("int x,\n      int size", "int x, long size"), False, "p: left out, Linux 6.12.9"),
        (LINES.replace("a\n", "A\n"), True, "p: less context fits Linux 6.12.9: mm/f.c:1"),
    ],
    ids=["as tested", "taken", "taken with other line breaks", "other lines beside it"],
)
def test_a_release_near_the_tested_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, fits: bool, said: str
) -> None:
    """A change that Linux has taken drops out, one whose surroundings differ is applied, and both are said."""
    assert applied(tmp_path, text, WIDER) == fits
    result = (tmp_path / "tree/mm/f.c").read_text()
    assert "long size)" in result and "int size" not in result
    err = capsys.readouterr().err
    assert said in err and bool(said) == bool(err)


@pytest.mark.parametrize(
    "lines",
    [
        LINES.replace("int x", "int y"),
        LINES.replace("size", "length"),
        LINES.replace("a\n", "A\n") + LINES.replace("a\n", "A\n"),
        "a\n",
    ],
    ids=["beside it", "in it", "twice", "nothing"],
)
def test_another_change_is_not_taken_for_it(tmp_path: Path, lines: str) -> None:
    """Neither left out nor applied: the error names the hunk, and the tree is as it was."""
    with pytest.raises(ApplyError, match=r"mm/f\.c, hunk 1"):
        applied(tmp_path, lines, WIDER)
    assert (tmp_path / "tree/mm/f.c").read_text() == lines


def test_a_patch_that_adds_a_file(tmp_path: Path) -> None:
    """Linux may have its other changes by chance, but not its files; unless it has them."""
    taken = LINES.replace("int size", "long size")
    with pytest.raises(ApplyError):
        applied(tmp_path, taken, WIDER, change("mm/new.c", "", "new\n"))
    write_files(tmp_path / "tree", {"mm/new.c": "new\n"})
    assert not applied(tmp_path, taken, WIDER, change("mm/new.c", "", "new\n"))


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
