# SPDX-License-Identifier: GPL-2.0-only
"""Features are brought to another Linux; what does not fit stays in a tree to work in, and is named."""

from __future__ import annotations

from pathlib import Path

import linuxes
import pytest
from linuxes import change, files, linux, mail, text
from support import git

from lull import base as bases
from lull import cli
from lull.base import Base
from lull.errors import ApplyError, UsageError
from lull.linux import fitting, series
from lull.linux.tree import Tree
from lull_contrib import port
from lull_contrib.commands import port as command
from lull_contrib.releases import Source


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """The made-up base."""
    return linuxes.base(tmp_path)


@pytest.fixture
def tree(base: Base, tmp_path: Path) -> Path:
    """The tree of `lull tree` on the old Linux."""
    series.make_tree(linux(tmp_path / "old"), list(base.exported().values()), tmp_path / "tree")
    return tmp_path / "tree"


def source(found: Tree) -> Source:
    """A Linux to port to, named as its folder."""
    return Source(str(found.path), ".".join(found.version.split(".")[:2]), found)


def subjects(tree: Path) -> list[str]:
    """The subjects of the commits, oldest first."""
    return series.subjects(tree, series.BASE_TAG)


def test_the_table_has_every_hunk_that_fails(base: Base, tmp_path: Path) -> None:
    """Also those behind the first; what Linux has already, in its own white space, does not fail."""
    new = linux(tmp_path / "new", a=text("a", (5, "other"), (19, "near")), b=text("b", (10, "two\n  of  b")))
    (new.path / "init/new.h").write_text("Linux's\n")
    found = fitting.by_series(base, new.path)
    assert {name: (fit.hunks, fit.failing, fit.patches) for name, fit in found.items()} == {
        "one": (3, ["init/a:3", "init/a:18", "init/new.h:0"], []),
        "two": (1, [], ["two/0001-two-change-b"]),
    }
    assert fitting.rows(found) == [
        ("one", "3 of 3", "init/a:3,18; init/new.h:0"),
        ("two", "0 of 1", "Linux has two/0001-two-change-b"),
    ]
    (new.path / "init/a").unlink()
    assert len(fitting.by_series(base, new.path)["one"].failing) == 3


def test_a_patch_that_linux_has_in_part_fails(base: Base, tmp_path: Path) -> None:
    """It would not drop out."""
    patch = base.features["two"].patches[0]
    patch.file.write_text(mail("two", change("init/b", text("b"), text("b", (2, "x"), (25, "y")))))
    found = fitting.by_series(base, linux(tmp_path / "new", b=text("b", (2, "x"))).path)["two"]
    assert (found.hunks, found.failing, found.patches) == (2, ["init/b:1 (there already)"], [])


def test_a_conflict_keeps_the_tree_and_resumes(base: Base, tree: Path, tmp_path: Path) -> None:
    """It is named with its commit and file until it is resolved; then a new base has what was resolved."""
    new = linux(tmp_path / "new", "6.13", a=text("a", (20, "linux"), (1, "linux")))
    before = files(tmp_path / "kernel")
    state = port.begin(tree, source(new), base)
    for _ in range(2):
        with pytest.raises(ApplyError) as error:
            port.merge(tree, state)
        assert "commit 2 of 3, " in error.value.what and "'one: change a again'" in error.value.what
        assert error.value.what.endswith("in init/a") and "same 'lull port' command" in error.value.remedy
        assert subjects(tree)[-1] == "one: change a" and "<<<<<<<" in (tree / "init/a").read_text()
    git(tree, "add", "init/a")
    with pytest.raises(ApplyError, match="init/a"):
        port.merge(tree, state)
    (tree / "init/a").write_text(text("a", (1, "linux"), (5, "first"), (20, "linux and second")))
    git(tree, "add", "init/a")
    again = port.read(tree)
    assert again == state
    assert port.merge(tree, again) == []
    assert subjects(tree) == ["one: change a", "one: change a again", "two: change b"]
    written = port.write(tree, again, base, "6.12.toml")
    assert written.notices == [] and written.base == str(tmp_path / "kernel/bases/6.13.toml")
    after = files(tmp_path / "kernel")
    assert {name: after[name] for name in before} == before
    assert {name.replace("6.13", "6.12") for name in after.keys() - before} == before.keys()
    assert "+linux and second" in after["6.13/one/0002-one-change-a-again.patch"]
    assert "Why, and where:" in after["6.13/one/cover-letter.txt"]
    ported = bases.load_base(written.base)
    assert not any(fit.failing for fit in fitting.by_series(ported, new.path).values())
    assert ported.features_of("lab")[-1].name == "odd"
    assert port.write(tree, again, base, "6.12.toml").changes == []


def test_a_user_may_go_on_with_git(base: Base, tree: Path, tmp_path: Path) -> None:
    """git rebase --continue, and the port goes on behind it. git rebase --abort, and it begins anew."""
    state = port.begin(tree, source(linux(tmp_path / "new", "6.13", a=text("a", (20, "linux")))), base)
    for end in ("--abort", "--continue"):
        with pytest.raises(ApplyError):
            port.merge(tree, state)
        (tree / "init/a").write_text(text("a", (5, "first"), (20, "resolved")))
        git(tree, "add", "init/a")
        git(tree, "-c", "core.editor=true", "rebase", end)
        assert port.is_merged(tree) == (end == "--continue")
    assert port.merge(tree, state) == []
    assert "+resolved" in git(tree, "diff", "lull-base", "HEAD")


def test_patches_that_linux_has_drop_out(base: Base, tree: Path, tmp_path: Path) -> None:
    """One that is empty after the merge, and one that Linux has with other white space; a feature without them, too."""
    new = linux(tmp_path / "new", "6.13", a=text("a", (5, "first")), b=text("b", (10, "two\n  of  b")))
    state = port.begin(tree, source(new), base)
    assert port.merge(tree, state, base.features["two"].patches) == ["one: change a", "two: change b"]
    assert subjects(tree) == ["one: change a again"]
    for _ in range(2):
        written = port.write(tree, state, base, "6.12.toml")
    patches = bases.patches_of(bases.load_base(written.base).features.values())
    assert [patch.name for patch in patches] == ["one/0001-one-change-a-again", "odd/0001-odd-change-c"]


def test_patches_that_only_some_kernels_have(base: Base, tree: Path, tmp_path: Path) -> None:
    """Where they do not apply, the new base lacks the kernel, and says so."""
    state = port.begin(tree, source(linux(tmp_path / "new", "6.13", c=text("c", (11, "linux")))), base)
    port.merge(tree, state)
    written = port.write(tree, state, base, "6.12.toml")
    assert "no kernel lab: 1 of 1 hunks of odd do not apply (init/c:8)" in written.notices[0]
    ported = bases.load_base(written.base)
    assert list(ported.kernels) == ["lull"] and list(ported.features) == ["one", "two"]


def test_the_same_series_changes_its_own_mails(base: Base, tree: Path, tmp_path: Path) -> None:
    """There is no new base."""
    new = linux(tmp_path / "new", a=text("a", (19, "near")))
    state = port.begin(tree, source(new), base)
    with pytest.raises(ApplyError):
        port.merge(tree, state)
    (tree / "init/a").write_text(text("a", (5, "first"), (19, "near"), (20, "second")))
    git(tree, "add", "init")
    port.merge(tree, state)
    before = files(tmp_path / "kernel")
    assert port.write(tree, state, base, "6.12.toml").base == "6.12.toml"
    assert files(tmp_path / "kernel").keys() == before.keys()
    assert not any(fit.failing for fit in fitting.by_series(base, new.path).values())


def test_a_series_with_a_base_of_its_own(base: Base, tree: Path, tmp_path: Path) -> None:
    """It is not overwritten."""
    other = base.file.with_name("6.6.toml")
    other.write_text(base.file.read_text().replace("6.12", "6.6"))
    state = port.begin(tree, source(linux(tmp_path / "new", "6.6")), base)
    port.merge(tree, state)
    before = files(tmp_path / "kernel")
    with pytest.raises(UsageError, match=r"6\.6 has a base already"):
        port.write(tree, state, base, "6.12.toml")
    assert files(tmp_path / "kernel") == before


def test_a_base_of_a_backport(tmp_path: Path) -> None:
    """It has the features that the backport has of another base, but for those that are left out."""
    origin = bases.load_base("6.12")
    (tmp_path / "bases").mkdir()
    file = tmp_path / "bases/7.2.toml"
    some = Source("x", "7.2", Tree(tmp_path, "", "7.2"))
    file.write_text(port.toml_of(origin, some, "# mark", ["features.lab"]))
    assert origin.of and bases.load_base(str(file)).features.keys() == origin.features.keys() - {"lab"}


def test_uncommitted_work_is_refused(base: Base, tree: Path, tmp_path: Path) -> None:
    """And stays."""
    (tree / "init/a").write_text("work\n")
    with pytest.raises(UsageError, match="uncommitted"):
        port.begin(tree, source(linux(tmp_path / "new")), base)
    assert (tree / "init/a").read_text() == "work\n"


def test_the_command(
    base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table; exit 9 at a conflict; the same command goes on, and hands the new base to what builds and boots."""
    old, new = linux(tmp_path / "old").path, linux(tmp_path / "new", "6.13", a=text("a", (20, "linux"))).path
    target, named = tmp_path / "tree", str(tmp_path / "kernel/bases/6.12.toml")
    words = ["port", "--base", named, "--tree", str(old), "--onto", str(new), str(target)]
    assert cli.main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "one     1 of 3  init/a:18" in shown.err and shown.out.startswith("would bring") and not target.exists()
    assert cli.main(words) == 9
    assert "'one: change a again', conflicts with Linux" in capsys.readouterr().err
    assert cli.main([*words[:-2], str(old), str(target)]) == 2
    assert "is being brought to Linux" in capsys.readouterr().err
    (target / "init/a").write_text(text("a", (5, "first"), (20, "both")))
    git(target, "add", "init/a")
    built: list[tuple[str, str]] = []
    monkeypatch.setattr(command, "test", lambda lab, tree: built.append((lab.base.series, lab.pristine.version)) or 1)
    assert cli.main(words) == 1
    assert built == [("6.13", "6.13.0")]
    assert "kernel/6.13/one/0002-one-change-a-again.patch" in capsys.readouterr().out
