# SPDX-License-Identifier: GPL-2.0-only
"""Features are brought to another Linux; what does not fit stays in a tree to work in, and is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from linuxes import hooks, linux, text
from support import git, write_files

from lull import base as bases
from lull import cli
from lull.base import Base
from lull.commands import port as command
from lull.errors import ApplyError, UsageError
from lull.linux import fitting, port, series
from lull.linux.releases import Source
from lull.linux.tree import Tree

BASE = """# SPDX-License-Identifier: GPL-2.0-only
# An old base.

series = "{series}"

[kernels.lull]
config = []
features = true

[kernels.lab]
config = []
features = true

[features.one]
patches = ["first", "second"]

[features.two]

[features.odd]
only = ["lab"]

[subjects.front]
features = ["one"]

[subjects.back]
features = ["two"]
needs = ["front"]
"""


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """A base of three features; a second base, 6.6, has the same. Patch one/second has shared hooks and files."""
    first, second = text("a", (5, "first")), text("a", (5, "first"), (20, "second"))
    folders = {
        "one/first/NOTE.md": "# one: change a\n\nA text.\n",
        "one/first/hooks/6.12.patch": hooks("a", text("a"), first),
        "one/first/hooks/6.6.patch": hooks("a", text("a"), first),
        "one/second/NOTE.md": "# one: change a again\n",
        "one/second/hooks/all.patch": "# A comment.\n" + hooks("a", first, second),
        "one/second/files/init/new.h": "new\n",
        "two/NOTE.md": "# two: change b\n",
        "two/hooks/6.12.patch": hooks("b", text("b"), text("b", (10, "two of b"))),
        "two/hooks/6.6.patch": hooks("b", text("b"), text("b", (10, "two of b"))),
        "odd/NOTE.md": "# odd: change c\n",
        "odd/hooks/6.12.patch": hooks("c", text("c"), text("c", (10, "odd"))),
        "odd/hooks/6.6.patch": hooks("c", text("c"), text("c", (10, "odd"))),
        **{f"bases/{name}.toml": BASE.format(series=name) for name in ("6.12", "6.6")},
    }
    write_files(tmp_path / "kernel", folders)
    return bases.load(str(tmp_path / "kernel/bases/6.12.toml"))


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
    return git(tree, "log", "--reverse", "--format=%s").splitlines()


def files(folder: Path) -> dict[str, str]:
    """Every file of the features and bases."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_table_has_every_hunk_that_fails(base: Base, tmp_path: Path) -> None:
    """Also those behind the first; what Linux has already, in its own white space, does not fail."""
    new = linux(tmp_path / "new", a=text("a", (5, "other"), (19, "near")), b=text("b", (10, "two\n  of  b")))
    found = fitting.by_series(base, new.path)
    assert {name: (fit.hunks, fit.failing, fit.patches) for name, fit in found.items()} == {
        "front": (2, ["init/a:3", "init/a:18"], []),
        "back": (1, [], ["two"]),
    }
    assert fitting.rows(found) == [("front", "2 of 2", "init/a:3,18"), ("back", "0 of 1", "Linux has two")]
    (new.path / "init/a").unlink()
    assert len(fitting.by_series(base, new.path)["front"].failing) == 2


def test_a_patch_that_linux_has_in_part_fails(base: Base, tmp_path: Path) -> None:
    """It would not drop out."""
    patch = base.features["two"].patches[0]
    patch.hooks.write_text(hooks("b", text("b"), text("b", (2, "x"), (25, "y"))))
    found = fitting.by_series(base, linux(tmp_path / "new", b=text("b", (2, "x"))).path)["back"]
    assert (found.hunks, found.failing, found.patches) == (2, ["init/b:1 (there already)"], [])


def test_a_conflict_keeps_the_tree_and_resumes(base: Base, tree: Path, tmp_path: Path) -> None:
    """It is named with its commit and file until it is resolved; then a new base has what was resolved."""
    new = linux(tmp_path / "new", "6.13", a=text("a", (20, "linux"), (1, "linux")))
    before = files(tmp_path / "kernel")
    state = port.begin(tree, source(new))
    for _ in range(2):
        with pytest.raises(ApplyError) as error:
            port.merge(tree, state)
        assert "commit 2 of 3" in error.value.what and "(one/second)" in error.value.what
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
    assert subjects(tree) == ["Linux 6.13.0", "one: change a", "one: change a again", "two: change b"]
    written = port.write(tree, again, base, "6.12.toml", [])
    assert written.notices == [] and written.base == str(tmp_path / "kernel/bases/6.13.toml")
    after = files(tmp_path / "kernel")
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before) == [
        "bases/6.13.toml",
        *(f"{name}/hooks/6.13.patch" for name in ("odd", "one/first", "one/second", "two")),
    ]
    assert after["one/second/hooks/6.13.patch"].startswith("# A comment.\n--- a/init/a\n")
    ported = bases.load(written.base)
    assert not any(fit.failing for fit in fitting.by_series(ported, new.path).values())
    assert ported.features_of("lab")[-1].name == "odd"
    assert port.write(tree, again, base, "6.12.toml", []).changes == []


def test_a_user_may_go_on_with_git(base: Base, tree: Path, tmp_path: Path) -> None:
    """git rebase --continue, and the port goes on behind it. git rebase --abort, and it begins anew."""
    state = port.begin(tree, source(linux(tmp_path / "new", "6.13", a=text("a", (20, "linux")))))
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
    """One that is empty after the merge, and one that Linux has with other white space; a subject without them, too."""
    new = linux(tmp_path / "new", "6.13", a=text("a", (5, "first")), b=text("b", (10, "two\n  of  b")))
    state = port.begin(tree, source(new))
    assert port.merge(tree, state, ["two"]) == ["one/first", "two"]
    assert subjects(tree) == ["Linux 6.13.0", "one: change a again"]
    written = port.write(tree, state, base, "6.12.toml", ["one/first", "two"])
    ported = bases.load(written.base)
    assert [patch.name for patch in bases.patches_of(ported.features.values())] == ["one/second", "odd"]
    assert list(ported.subjects) == ["front"]


def test_hooks_that_only_some_kernels_have(base: Base, tree: Path, tmp_path: Path) -> None:
    """Where they do not apply, the new base lacks the kernel, and says so."""
    state = port.begin(tree, source(linux(tmp_path / "new", "6.13", c=text("c", (11, "linux")))))
    port.merge(tree, state)
    written = port.write(tree, state, base, "6.12.toml", [])
    assert "no kernel lab: 1 of 1 hunks of odd do not apply (init/c:8)" in written.notices[0]
    ported = bases.load(written.base)
    assert list(ported.kernels) == ["lull"] and list(ported.features) == ["one", "two"]


def test_the_same_series_changes_its_own_hooks(base: Base, tree: Path, tmp_path: Path) -> None:
    """What it shares with another base is split, so that the other keeps it."""
    new = linux(tmp_path / "new", a=text("a", (19, "near")))
    state = port.begin(tree, source(new))
    with pytest.raises(ApplyError):
        port.merge(tree, state)
    (tree / "init/a").write_text(text("a", (5, "first"), (19, "near"), (20, "second")))
    (tree / "init/new.h").write_text("newer\n")
    git(tree, "add", "init")
    port.merge(tree, state)
    before = files(tmp_path / "kernel")
    assert port.write(tree, state, base, "6.12.toml", []).base == "6.12.toml"
    after = files(tmp_path / "kernel")
    second = {name: data for name, data in after.items() if name.startswith("one/second") and "NOTE" not in name}
    assert second.pop("one/second/hooks/6.12.patch") != before["one/second/hooks/all.patch"]
    assert second == {
        "one/second/hooks/all.patch": before["one/second/hooks/all.patch"],
        "one/second/files-6.6/init/new.h": "new\n",
        "one/second/files-6.12/init/new.h": "newer\n",
    }
    assert not any(fit.failing for fit in fitting.by_series(base, new.path).values())


def test_a_series_with_a_base_of_its_own(base: Base, tree: Path, tmp_path: Path) -> None:
    """It is not overwritten."""
    state = port.begin(tree, source(linux(tmp_path / "new", "6.6")))
    port.merge(tree, state)
    before = files(tmp_path / "kernel")
    with pytest.raises(UsageError, match=r"6\.6 has a base already"):
        port.write(tree, state, base, "6.12.toml", [])
    assert files(tmp_path / "kernel") == before


def test_uncommitted_work_is_refused(tree: Path, tmp_path: Path) -> None:
    """And stays."""
    (tree / "init/a").write_text("work\n")
    with pytest.raises(UsageError, match="uncommitted"):
        port.begin(tree, source(linux(tmp_path / "new")))
    assert (tree / "init/a").read_text() == "work\n"


def test_a_tree_that_fails_stays(base: Base, tmp_path: Path) -> None:
    """With the commits so far, what fits of the patch, and the rest beside it; then it goes on, and can be saved."""
    new, target = linux(tmp_path / "new", a=text("a", (19, "near"))), tmp_path / "tree"
    features = list(base.exported().values())
    with pytest.raises(ApplyError) as error:
        series.make_tree(new, features, target)
    assert "one/second" in error.value.what and "place the hunks of init/a.rej" in error.value.remedy
    assert str(target) in error.value.remedy
    assert subjects(target) == ["Linux 6.12.0", "one: change a"]
    assert "+second" in (target / "init/a.rej").read_text() and (target / "init/new.h").exists()
    with pytest.raises(UsageError, match="uncommitted"):
        series.make_tree(new, features, target)
    (target / "init/a").write_text(text("a", (5, "first"), (19, "near"), (20, "second")))
    git(target, "add", "-u")
    git(target, "-c", "core.editor=true", "commit", "-q")
    series.make_tree(new, features, target)
    assert subjects(target) == ["Linux 6.12.0", "one: change a", "one: change a again", "two: change b"]
    assert [change.path.name for change in series.changes(target, base)] == ["all.patch"]
    with pytest.raises(UsageError, match=r"is a tree of Linux 6\.12\.0"):
        series.make_tree(Tree(new.path, "", "6.12.1"), features, target)


def test_the_command(
    base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table; exit 9 at a conflict; the same command goes on, and hands the new base to what builds and boots."""
    old, new = linux(tmp_path / "old").path, linux(tmp_path / "new", "6.13", a=text("a", (20, "linux"))).path
    target, named = tmp_path / "tree", str(tmp_path / "kernel/bases/6.12.toml")
    words = ["port", "--base", named, "--tree", str(old), "--onto", str(new), str(target)]
    assert cli.main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "front   1 of 2  init/a:18" in shown.err and shown.out.startswith("would bring") and not target.exists()
    assert cli.main(words) == 9
    assert "(one/second), conflicts with Linux" in capsys.readouterr().err
    assert cli.main([*words[:-2], str(old), str(target)]) == 2
    assert "is being brought to Linux" in capsys.readouterr().err
    (target / "init/a").write_text(text("a", (5, "first"), (20, "both")))
    git(target, "add", "init/a")
    built: list[tuple[str, str]] = []
    monkeypatch.setattr(command, "test", lambda lab, tree: built.append((lab.base.series, lab.pristine.version)) or 1)
    assert cli.main(words) == 1
    assert built == [("6.13", "6.13.0")]
    assert "kernel/one/second/hooks/6.13.patch" in capsys.readouterr().out
