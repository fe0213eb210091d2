# SPDX-License-Identifier: GPL-2.0-only
"""The kept folder: only files whose content changed get a new time stamp, and one later than that of any object."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import FAKE, Tool, write_files

from lull.errors import ApplyError
from lull.lab import Lab
from lull.linux import kept

OLD = 1_000_000_000
FILES = {"Makefile": "all:\n", "mm/a.c": "a\n", "mm/b.c": "b\n", "old/only.h": "o\n", "scripts/run": "#!/bin/sh\n"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small tree, as old as a package's, with a link to a folder."""
    top = write_files(tmp_path / "source", FILES)
    (top / "scripts/run").chmod(0o755)
    (top / "link").symlink_to("mm")
    for name in FILES:
        os.utime(top / name, (OLD, OLD))
    return top


def stamps(top: Path) -> dict[str, int]:
    """Path -> time stamp of everything below ``top``."""
    return {path: os.lstat(full).st_mtime_ns for path, full in kept.files_of(top).items()}


def contents(top: Path) -> dict[str, str]:
    """Path -> content, or what a link names."""
    found = kept.files_of(top).items()
    return {path: os.readlink(full) if os.path.islink(full) else Path(full).read_text() for path, full in found}


def test_the_first_time_files_are_linked(source: Path, tmp_path: Path) -> None:
    """No content is copied; links to folders are links; the same again changes nothing."""
    target = tmp_path / "target"
    assert sorted(kept.synchronise(kept.files_of(source), target, link=True)) == sorted([*FILES, "link"])
    assert contents(target) == contents(source) and stamps(target) == stamps(source)
    assert (target / "mm/a.c").samefile(source / "mm/a.c") and (target / "link").is_symlink()
    assert kept.synchronise(kept.files_of(source), target, link=False) == []


def test_only_what_changed_is_written(source: Path, tmp_path: Path) -> None:
    """Content, mode and what a link names; files that are gone go, with their folder; the source is not touched."""
    target = tmp_path / "target"
    kept.synchronise(kept.files_of(source), target, link=True)
    before = stamps(target)
    other = write_files(tmp_path / "other", FILES | {"mm/a.c": "A\n", "new/c.c": "c\n"})
    (other / "old/only.h").unlink()
    (other / "scripts/run").chmod(0o644)
    (other / "link").symlink_to("scripts")
    changed = kept.synchronise(kept.files_of(other), target, link=False)
    assert sorted(changed) == ["link", "mm/a.c", "new/c.c", "old/only.h", "scripts/run"]
    assert contents(target) == contents(other) and not (target / "old").exists()
    now = stamps(target)
    assert {path for path in now if now[path] != before.get(path)} == {*changed} - {"old/only.h"}
    assert contents(source)["mm/a.c"] == "a\n" and os.access(source / "scripts/run", os.X_OK)


def test_an_older_file_that_comes_back_is_new(source: Path, tmp_path: Path) -> None:
    """A feature is removed: the pristine file is older than the object, which was built from the patched file."""
    target = tmp_path / "target"
    kept.synchronise(kept.files_of(source), target, link=True)
    changed = write_files(tmp_path / "patched", {"mm/a.c": "patched\n"})
    kept.synchronise(kept.files_of(source) | kept.files_of(changed), target, link=False)
    built = write_files(tmp_path / "objects", {"a.o": ""}) / "a.o"
    kept.synchronise(kept.files_of(source), target, link=False)
    assert (target / "mm/a.c").read_text() == "a\n"
    assert (target / "mm/a.c").stat().st_mtime_ns >= built.stat().st_mtime_ns > OLD * 10**9


def test_an_interrupted_synchronisation_is_repeated(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interruption leaves a part file but no file that is half written; the next call removes the part file."""
    target = tmp_path / "target"
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            kept.synchronise(kept.files_of(source), target, link=True)
    assert [name for name in kept.files_of(target) if name.endswith(kept.PART)]
    kept.synchronise(kept.files_of(source), target, link=True)
    assert contents(target) == contents(source)


def test_a_file_becomes_a_folder_and_back(source: Path, tmp_path: Path) -> None:
    """Neither stands in the other's way."""
    target = tmp_path / "target"
    for files in (FILES, {"mm": "a file\n", "Makefile/x": "in a folder\n"}, FILES):
        other = write_files(tmp_path / f"other{len(list(tmp_path.iterdir()))}", files)
        kept.synchronise(kept.files_of(other), target, link=False)
        assert contents(target) == files


@pytest.fixture
def build(tool: Tool, fake_tree: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Build a kernel of the fake base in its kept folder."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return tool("build", "--kept", "--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), *words)

    return run


def test_a_kernel_is_built_again(
    build: Callable[..., subprocess.CompletedProcess[str]], tool: Tool, fake_tree: Path
) -> None:
    """A changed line gives a new image at the same place; a compiler error is reported, and leaves the old one."""
    folder = tool.cache / "kept/fake-lull"
    done = build("--kernel", "lull")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"lull     {folder}/Image\n"
    assert (folder / "src/init/fast.h").exists() and not (folder / "src/usr").is_symlink()
    before, image = stamps(folder / "src"), (folder / "Image").read_bytes()
    with open(fake_tree / "init/main.c", "a") as file:
        file.write('const char lull_changed[] __attribute__((used)) = "changed";\n')
    assert build("--kernel", "lull").returncode == 0
    now = stamps(folder / "src")
    assert {path for path in now if now[path] != before[path]} == {"init/main.c"}
    assert (folder / "Image").read_bytes() != image
    assert not (tool.cache / "build").exists(), "kernels that are measured are never taken from there"
    image = (folder / "Image").read_bytes()
    with open(fake_tree / "init/main.c", "a") as file:
        file.write("what\n")
    done = build("--kernel", "lull")
    assert done.returncode == 3 and "does not build" in done.stderr and str(folder / "build.log") in done.stderr
    assert (folder / "Image").read_bytes() == image


def test_another_tree_starts_anew(
    build: Callable[..., subprocess.CompletedProcess[str]], tool: Tool, tmp_path: Path, fake_tree: Path
) -> None:
    """Objects of another source are not kept, whatever the time stamps of its files."""
    folder = tool.cache / "kept/fake-stock"
    assert build("--kernel", "stock").returncode == 0
    (folder / "objects/left").touch()
    assert build("--kernel", "stock").returncode == 0 and (folder / "objects/left").exists()
    other = fake_tree.rename(tmp_path / "other")
    assert build("--kernel", "stock", "--tree", str(other)).returncode == 0
    assert not (folder / "objects/left").exists()


def test_a_feature_that_does_not_apply_changes_nothing(fake_tree: Path, own_cache: Path) -> None:
    """The file and the hunk are named, as for any build, and the folder's source stays."""
    base = str(FAKE / "bases/fake.toml")
    kernel = Lab(base, fake_tree).kept("lull")
    before = stamps(kernel.path / "src")
    main = fake_tree / "init/main.c"
    main.write_text("\n".join(reversed(main.read_text().splitlines())))
    with pytest.raises(ApplyError, match=r"init/main\.c, hunk 1"):
        Lab(base, fake_tree).kept("lull")
    assert stamps(kernel.path / "src") == before
