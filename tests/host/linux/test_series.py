# SPDX-License-Identifier: GPL-2.0-only
"""Mails become branches of a tree, and branches become mails: the same bytes, whoever does it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from linuxes import files, linux, mail, text
from support import FAKE, Tool, git, write_files

from lull import base as bases
from lull import cli
from lull.base import Base
from lull.errors import UsageError
from lull.linux import series
from lull.linux.tree import Tree, apply_features

PREFERRED = """
[user]
name = X
email = x@localhost
[format]
signOff = true
thread = true
attach = true
coverLetter = auto
[diff]
noprefix = true
algorithm = patience
context = 1
renames = copies
[core]
abbrev = 5
autocrlf = true
[log]
showSignature = true
[color]
ui = always
"""


def saved(tree: Path, base: Base) -> list[str]:
    """What ``lull save`` writes and, with a minus, what it deletes."""
    found = series.changes(tree, base)
    series.write(found)
    return [("-" if change.text is None else "") + change.path.name for change in found]


def test_the_same_bytes(tool: Tool, fake_tree: Path, tmp_path: Path) -> None:
    """A tree saved without a change changes nothing, whatever git prefers, and whichever language is spoken."""
    shutil.copytree(FAKE / "6.12", tmp_path / "own/6.12")
    base = Path(shutil.copytree(FAKE / "bases", tmp_path / "own/bases")) / "fake.toml"
    before, words = files(tmp_path / "own/6.12"), ["--base", str(base)]
    (tmp_path / "gitconfig").write_text(PREFERRED)
    mine = {"GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"), "LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    for name, first, second in (("a", {}, mine), ("b", mine, {})):
        done = tool("tree", *words, "--tree", str(fake_tree), "--offline", str(tmp_path / name), **first)
        assert done.returncode == 0, done.stderr
        done = tool("save", *words, str(tmp_path / name), **second)
        assert done.returncode == 0 and "as the tree has them" in done.stdout, done.stdout + done.stderr
    assert files(tmp_path / "own/6.12") == before
    assert git(tmp_path / "a", "rev-parse", "HEAD") == git(tmp_path / "b", "rev-parse", "HEAD")
    done = tool("save", "--base", "7.3", "--dry-run", str(tmp_path / "a"))
    assert done.returncode == 2 and "the tree is Linux 6.12" in done.stderr and "--base" in done.stderr


def test_a_branch_for_each_feature(base: Base, tree: Path, tmp_path: Path) -> None:
    """With a commit for each patch, as patch(1) applies them; the lab's own only with the kernel lab."""
    assert series.branches(tree) == [series.FIRST, "one", "two"]
    assert git(tree, "branch", "--show-current") == "two\n"
    assert series.subjects(tree, series.FIRST, "one") == ["one: change a", "one: change a again"]
    assert series.subjects(tree, "one", "two") == ["two: change b"]
    assert git(tree, "log", "-1", "--format=%B", "one~") == "one: change a\n\nA text.\n\n"
    whole = apply_features(Tree(tmp_path / "old", "old", "6.12.0"), base.features_of("lull"))
    assert files(tree) == files(whole.path)
    with_lab = tmp_path / "lab"
    words = ["tree", "--base", str(base.file), "--tree", str(tmp_path / "old"), "--kernel", "lab", str(with_lab)]
    assert cli.main(words) == 0
    assert series.branches(with_lab) == [series.FIRST, "odd", "one", "two"]
    saved(with_lab, base)
    assert series.changes(tree, base) == series.changes(with_lab, base) == []
    assert sorted(files(tmp_path / "kernel")) == [
        "6.12-lab/odd/0001-odd-change-c.patch",
        "6.12/one/0001-one-change-a.patch",
        "6.12/one/0002-one-change-a-again.patch",
        "6.12/one/cover-letter.txt",
        "6.12/two/0001-two-change-b.patch",
        "6.12/two/cover-letter.txt",
        "bases/6.12.toml",
    ]


def test_a_rebase_changes_mails(base: Base, tree: Path) -> None:
    """Of the feature alone whose commits change; one that is gone removes its mail, one that is new adds one."""
    saved(tree, base)
    (tree / "init/b").write_text("other\n")
    with pytest.raises(UsageError, match="uncommitted"):
        series.changes(tree, base)
    git(tree, "commit", "-q", "-a", "--amend", "-m", "two: change all of b")
    assert saved(tree, base) == ["cover-letter.txt", "0001-two-change-all-of-b.patch", "-0001-two-change-b.patch"]
    git(tree, "-c", "rebase.updateRefs=true", "rebase", "-q", "--onto", "one~2", "one~1", "two")
    assert saved(tree, base) == [
        "cover-letter.txt",
        "0001-one-change-a-again.patch",
        "-0001-one-change-a.patch",
        "-0002-one-change-a-again.patch",
    ]
    assert [patch.subject for patch in bases.patches_of(base.exported().values())] == [
        "one: change a again",
        "two: change all of b",
    ]


def test_the_letter_describes_the_branch(base: Base, tree: Path, tmp_path: Path) -> None:
    """Its title and text are the description, without what git adds; they are kept."""
    title, rest = "one: change a", "Why, and where:\n\nHere (2):\n  there\n\nThat is all."
    assert git(tree, "config", "branch.one.description").rstrip() == f"{title}\n\n{rest}"
    git(tree, "config", "branch.two.description", f"two: much\n\nBecause,\n\n{rest}\n")
    (tree / "init/b").write_text("b\n")
    git(tree, "commit", "-q", "-a", "-m", "x", "--author", "B <b@localhost>")
    saved(tree, base)
    letter = base.features["two"].letter.read_text()
    assert f"Subject: [PATCH 0/2] two: much\n\nBecause,\n\n{rest}\n\nA U Thor (1):\n" in letter
    assert "\n\nB (1):\n" in letter and "1 file changed" in letter and "\n-- \n" not in letter
    series.make_tree(linux(tmp_path / "old"), list(base.exported().values()), tmp_path / "again")
    assert series.changes(tmp_path / "again", base) == []


def test_what_is_no_series(base: Base, tree: Path) -> None:
    """Commits of no feature, and a feature that does not begin where the one before it ends, are refused."""
    git(tree, "checkout", "-q", "--detach")
    git(tree, "commit", "-q", "--allow-empty", "-m", "mine")
    with pytest.raises(UsageError, match="commits are behind the last branch, two: 'mine'"):
        series.changes(tree, base)
    git(tree, "checkout", "-q", "one")
    git(tree, "commit", "-q", "--allow-empty", "--amend", "-m", "one: changed without the others")
    with pytest.raises(UsageError, match="branch two is not behind one"):
        series.changes(tree, base)
    git(tree, "rebase", "-q", "--onto", "one", "one@{1}", "two")
    git(tree, "config", "--unset", "branch.one.description")
    with pytest.raises(UsageError, match="branch one has no description"):
        series.changes(tree, base)
    with pytest.raises(UsageError, match="is not a git tree"):
        series.changes(tree / "init", base)


def test_a_tree_that_fails_stays(base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the commits so far; git am --continue, and the same command goes on; then it can be saved."""
    new, target = linux(tmp_path / "new", a=text("a", (19, "near"))), tmp_path / "tree"
    words = ["tree", "--base", str(base.file), "--tree", str(new.path), str(target)]
    assert cli.main(words) == 9
    shown = capsys.readouterr().err
    assert "patch one/0002-one-change-a-again does not apply" in shown and "git am --continue" in shown
    assert series.subjects(target, series.FIRST) == ["one: change a"]
    assert cli.main(words) == 2
    write_files(target, {"init/a": text("a", (5, "first"), (19, "near"), (20, "second")), "init/new.h": "new\n"})
    git(target, "add", "init")
    git(target, "am", "--continue")
    assert cli.main(words) == 0
    assert series.subjects(target, series.FIRST) == ["one: change a", "one: change a again", "two: change b"]
    saved(target, base)
    assert "+second" in base.features["one"].patches[1].diff() and " a 19" not in base.features["one"].patches[1].diff()
    with pytest.raises(UsageError, match=r"is a tree of Linux 6\.12\.0"):
        series.make_tree(Tree(new.path, "", "6.12.1"), [], target)


def test_a_backport_says_of_what(base: Base, tmp_path: Path) -> None:
    """A line for each patch: a hash of the lines that it changes in the other base, if that has it."""
    assert series.backported(base) is None
    toml = base.file.read_text().replace('series = "6.12"', 'series = "6.6"\nof = "6.12"')
    write_files(tmp_path / "kernel", {"bases/6.6.toml": toml, "6.6/two/0001-other.patch": mail("other", "")})
    backport = bases.load_base(str(base.file.with_name("6.6.toml")))

    def said() -> dict[str, str]:
        found = series.backported(backport)
        assert found and found.path == tmp_path / "kernel/6.6/of-6.12" and found.text
        return dict(line.split() for line in found.text.splitlines())

    before, titles = said(), [patch.title for patch in bases.patches_of(base.exported().values())]
    assert list(before) == [*titles, "two/other"] and before["two/other"] == "-"
    file = base.features["two"].patches[0].file
    for old, new, stale in ((" b 9\n", " near\n", []), ("+two of b\n", "+two\n", ["two/two-change-b"])):
        file.write_text(file.read_text().replace(old, new))
        assert [title for title, key in said().items() if key != before[title]] == stale
    now = series.backported(backport)
    assert now
    write_files(tmp_path / "kernel", {"6.6/of-6.12": "".join(f"{title} {before[title]}\n" for title in before)})
    for changes, stale in (([], ["two/two-change-b"]), ([series.Change(file, "")], [])):
        kept = series.backported(backport, changes)
        assert kept and kept.text
        assert [line.split()[0] for line in set(now.text.splitlines()) - set(kept.text.splitlines())] == stale
