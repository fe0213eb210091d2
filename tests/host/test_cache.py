# SPDX-License-Identifier: GPL-2.0-only
"""The cache: whole entries or none, one maker at a time, clear errors."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from lull import cache
from lull.errors import DiskFull, LullError, UsageError


def test_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """LULL_CACHE wins over XDG_CACHE_HOME."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LULL_CACHE", str(tmp_path / "own"))
    assert cache.root() == tmp_path / "own"
    monkeypatch.delenv("LULL_CACHE")
    assert cache.root() == tmp_path / "xdg" / "lull"


def test_key_depends_on_boundaries() -> None:
    """'ab','c' and 'a','bc' differ; text and its bytes do not."""
    assert cache.key_of("ab", "c") != cache.key_of("a", "bc")
    assert cache.key_of("ab") == cache.key_of(b"ab")


def test_entry_is_made_once() -> None:
    """The second request does not call the maker."""
    calls = []

    def make(part: Path) -> None:
        calls.append(part)
        (part / "file").write_text("x")

    first = cache.make_entry("kind", "name", make)
    assert cache.make_entry("kind", "name", make) == first
    assert len(calls) == 1 and (first / "file").read_text() == "x"


def test_failed_maker_publishes_nothing_and_starts_anew() -> None:
    """What a failed maker left is not seen by the next, unless it resumes."""

    def fail(part: Path) -> None:
        (part / "half").write_text("x")
        raise LullError("no")

    with pytest.raises(LullError):
        cache.make_entry("kind", "name", fail)
    assert not (cache.root() / "kind/name").exists()
    seen: list[bool] = []
    cache.make_entry("kind", "other", lambda part: seen.append((part / "half").exists()))
    cache.make_entry("kind", "name", lambda part: seen.append((part / "half").exists()))
    assert seen == [False, False]


def test_resuming_maker_finds_its_work() -> None:
    """With resume, the next maker continues in the same folder."""

    def fail(part: Path) -> None:
        (part / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.make_entry("kind", "name", fail, resume=True)
    entry = cache.make_entry("kind", "name", lambda part: None, resume=True)
    assert (entry / "half").exists()


def test_two_makers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one makes an entry the other waits, is told so, and then uses it."""
    started, told, calls = threading.Event(), [], []

    def slow(part: Path) -> None:
        started.set()
        time.sleep(0.3)
        calls.append("slow")

    monkeypatch.setattr(cache, "waiting", told.append)
    thread = threading.Thread(target=cache.make_entry, args=("kind", "name", slow))
    thread.start()
    started.wait()
    cache.make_entry("kind", "name", lambda part: calls.append("second"))
    thread.join()
    assert calls == ["slow"] and told == ["name"]


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EROFS, UsageError)]
)
def test_errors_of_the_file_system_have_a_remedy(code: int, kind: type[LullError], tmp_path: Path) -> None:
    """Disk full and read-only are told apart, with what to do."""
    with pytest.raises(kind) as caught, cache.disk_errors(tmp_path):
        raise OSError(code, "message", "file")
    assert caught.value.remedy


def test_disk_full_of_a_child_is_recognised(tmp_path: Path) -> None:
    """A log whose last lines say so is enough."""
    with pytest.raises(DiskFull), cache.disk_errors(tmp_path):
        raise LullError("tar failed", tail="tar: write error: No space left on device")


def test_need_space_names_what_is_missing(tmp_path: Path) -> None:
    """An impossible demand is refused before the work."""
    with pytest.raises(DiskFull, match="needs 1e\\+09 GiB"):
        cache.need_space(tmp_path / "not/there/yet", 1e9, "this")


def test_a_power_cut_finds_one_file_or_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file is on the disk before it has its name, and the name is on the disk on return."""
    log: list[str] = []
    replace = os.replace
    monkeypatch.setattr(cache, "sync", lambda path: log.append(path.name))
    monkeypatch.setattr(os, "replace", lambda a, b: (log.append("rename"), replace(a, b)))
    cache.write_atomic(tmp_path / "x", "one", lasting=True)
    assert log == [f".x.{os.getpid()}", "rename", tmp_path.name]
    cache.write_atomic(tmp_path / "x", "two")
    assert len(log) == 4


def test_a_file_and_a_folder_are_synced(tmp_path: Path) -> None:
    """Both can be."""
    (tmp_path / "x").write_text("one")
    cache.sync(tmp_path / "x")
    cache.sync(tmp_path)


def test_write_atomic_replaces_and_leaves_no_litter(tmp_path: Path) -> None:
    """Old content, then new content, and nothing beside it."""
    target = tmp_path / "folder/file"
    cache.write_atomic(target, "one")
    cache.write_atomic(target, b"two")
    assert target.read_text() == "two"
    assert list(target.parent.iterdir()) == [target]


def test_looking_makes_nothing() -> None:
    """What is there is found; what is not raises, and nobody is asked to make it."""
    there = cache.make_entry("kind", "there", lambda part: None)
    with cache.looking():
        assert cache.make_entry("kind", "there", lambda part: None) == there
        with pytest.raises(cache.Absent, match="other is not in the cache"):
            cache.make_entry("kind", "other", lambda part: pytest.fail("made"))
    assert cache.make_entry("kind", "other", lambda part: None).is_dir()


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.EROFS])
def test_places_that_cannot_be_written(number: int, tmp_path: Path) -> None:
    """A usage error, which names the place."""
    with pytest.raises(UsageError, match="cannot write") as caught, cache.disk_errors(tmp_path):
        raise OSError(number, "no", str(tmp_path / "x"))
    assert caught.value.where == str(tmp_path / "x")


def test_check_writable_leaves_nothing(tmp_path: Path) -> None:
    """Folders that are there, and those that would be made."""
    for folder in (tmp_path, tmp_path / "a/b"):
        cache.check_writable(folder)
    assert not any(tmp_path.iterdir())
