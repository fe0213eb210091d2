# SPDX-License-Identifier: GPL-2.0-only
"""The cache: folders keyed by what they were made from, made under a lock and published by a rename.

An entry is a folder ``KIND/NAME-KEY``. While it is made it is called ``KIND/NAME-KEY.part``, and only its maker reads
it; the rename publishes it in one step. If the maker is interrupted, its ``.part`` stays, so that programs that can
resume (make, apt) do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path

from lull.errors import DiskFull, LullError, UsageError
from lull.progress import say

KEY_LENGTH = 16
FREE_SPACE = "free some space (or name another folder with LULL_CACHE) and run again: it resumes"
"""The remedy for a full disk."""


def root() -> Path:
    """The absolute path of the cache: LULL_CACHE, or ``lull`` in the XDG cache folder (~/.cache)."""
    named = os.environ.get("LULL_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "lull"


def key_of(*parts: str | bytes) -> str:
    """A hash of ``parts`` with KEY_LENGTH hex digits; different boundaries between parts give different keys."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:KEY_LENGTH]


def key_of_files(files: Iterable[Path], *extra: str) -> str:
    """A hash, as of ``key_of``, of the names and contents of files and of ``extra``, in the order given."""
    parts: list[str | bytes] = list(extra)
    for path in files:
        parts += [path.name, path.read_bytes()]
    return key_of(*parts)


def need_space(where: Path, gib: float, what: str) -> None:
    """Raise DiskFull when the file system of ``where`` has less than ``gib`` GiB free; ``what`` needs the space."""
    probe = where
    while not probe.exists():
        probe = probe.parent
    free = shutil.disk_usage(probe).free / 2**30
    if free < gib:
        raise DiskFull(
            f"{what} needs {gib:g} GiB, {free:.1f} GiB are free",
            where=str(where),
            remedy="free some space, or name another folder with LULL_CACHE",
        )


UNWRITABLE = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""Error numbers of a path that cannot be written."""


def unwritable(error: OSError, where: str | Path) -> UsageError:
    """The error for a path that cannot be written."""
    return UsageError(
        f"cannot write: {error.strerror}",
        where=str(where),
        remedy="name a folder you may write to (LULL_CACHE for the cache, --out for results)",
    )


def check_writable(folder: Path) -> None:
    """Raise UsageError when ``folder`` cannot be created or written to. A temporary file without a name is the test."""
    try:
        with tempfile.TemporaryFile(dir=next(p for p in (folder, *folder.parents) if is_there(p))):
            pass
    except OSError as error:
        if error.errno not in (*UNWRITABLE, errno.ENOENT):
            raise
        raise unwritable(error, folder) from error


def is_there(path: Path) -> bool:
    """Return true if something has this name, even a dangling link. Raises OSError for a name that is not possible."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextlib.contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """In the body, turn errors of a full disk into DiskFull, and errors of an unwritable path into UsageError.

    Args:
        where: the path to name when the error has none.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                "no space left on the device", where=str(error.filename or where), remedy=FREE_SPACE
            ) from error
        if error.errno in UNWRITABLE:
            raise unwritable(error, error.filename or where) from error
        raise
    except LullError as error:
        # The disk was full for a program that the body ran (tar, make, apt): its last lines say so.
        if not isinstance(error, DiskFull) and "No space left on device" in error.tail:
            raise DiskFull(
                f"no space left on the device: {error.what}",
                where=error.where or str(where),
                remedy=FREE_SPACE,
                tail=error.tail,
            ) from error
        raise


@contextlib.contextmanager
def lock(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path``, which is created; call ``waiting`` once if another process has it.

    The kernel releases the lock when its holder ends in any way, so that no stale locks stay.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_atomic(path: Path, data: str | bytes, *, lasting: bool = False) -> None:
    """Write ``data`` to ``path`` so that a reader sees either the old file or the whole new one.

    Args:
        lasting: also after a power cut, at any moment; on return the new file is on the disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data.encode() if isinstance(data, str) else data)
        if lasting:
            sync(part)
        os.replace(part, path)
        if lasting:
            sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Absent(LullError):
    """An entry is not in the cache, and ``looking`` forbids making it."""


_only_looked_for: ContextVar[bool] = ContextVar("_only_looked_for", default=False)


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """In the body, make no entries: ``make_entry`` raises Absent for an entry that is not in the cache."""
    token = _only_looked_for.set(True)
    try:
        yield
    finally:
        _only_looked_for.reset(token)


def waiting(name: str) -> None:
    """Tell the user that another run is making the cache entry ``name``, and that this one waits."""
    say(f"another lull is making {name}; waiting for it")


def make_entry(kind: str, name: str, make: Callable[[Path], None], *, resume: bool = False) -> Path:
    """The cache entry KIND/NAME, made by ``make(folder)`` if it is not there yet.

    Args:
        kind: a folder of the cache (``src``, ``build``, ...).
        name: the name of the entry, with its key.
        make: fills the folder that it is given. When it raises, nothing is published.
        resume: give ``make`` the folder that an interrupted maker left, instead of an empty one.

    Raises: DiskFull, Absent inside ``looking``, and whatever ``make`` raises.
    """
    entry = root() / kind / name
    if entry.is_dir():
        return entry
    if _only_looked_for.get():
        raise Absent(f"{name} is not in the cache", where=str(entry))
    with disk_errors(entry), lock(root() / "locks" / f"{kind}-{name}", lambda: waiting(name)):
        if entry.is_dir():
            return entry
        part = entry.with_name(entry.name + ".part")
        if part.exists() and not resume:
            shutil.rmtree(part)
        part.mkdir(parents=True, exist_ok=True)
        make(part)
        os.replace(part, entry)
    return entry
