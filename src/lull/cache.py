# SPDX-License-Identifier: GPL-2.0-only
"""The cache: entries keyed by content, made under a lock, published by rename.

An entry is a folder ``KIND/NAME-KEY``. While it is being made it is ``KIND/NAME-KEY.part``, which nobody reads
but its maker; the rename makes it whole at once. The ``.part`` of an interrupted maker stays, so that a maker
that can resume (make, apt) does.
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

KEY_LENGTH = 16


def root() -> Path:
    """The cache folder: LULL_CACHE, or ``lull`` in the XDG cache folder. Always absolute."""
    named = os.environ.get("LULL_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "lull"


def key_of(*parts: str | bytes) -> str:
    """A short content key of ``parts``; their boundaries count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:KEY_LENGTH]


def key_of_files(files: Iterable[Path], *extra: str) -> str:
    """A content key of files (name and bytes) and of ``extra``, in the order given."""
    parts: list[str | bytes] = list(extra)
    for path in files:
        parts += [path.name, path.read_bytes()]
    return key_of(*parts)


def need_space(where: Path, gib: float, what: str) -> None:
    """Raise DiskFull when the file system of ``where`` has less than ``gib`` GiB free."""
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


UNWRITABLE = (
    errno.EACCES,
    errno.EROFS,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
"""What the system says of a place that cannot be written, whoever tries."""


def unwritable(error: OSError, where: str | Path) -> UsageError:
    """The error for a place that cannot be written."""
    return UsageError(
        f"cannot write: {error.strerror}",
        where=str(where),
        remedy="name a folder you may write to (LULL_CACHE for the cache, --out for results)",
    )


def check_writable(folder: Path) -> None:
    """Raise UsageError when ``folder`` cannot be made, or written: tried with a file without a name, that none sees."""
    try:
        with tempfile.TemporaryFile(dir=next(p for p in (folder, *folder.parents) if is_there(p))):
            pass
    except OSError as error:
        if error.errno not in (*UNWRITABLE, errno.ENOENT):
            raise
        raise unwritable(error, folder) from error


def is_there(path: Path) -> bool:
    """Is there something of this name, be it a link to nothing? Raises OSError for a name that cannot be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextlib.contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn 'no space left' of anything inside into DiskFull, and 'not writable' into a usage error."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                "no space left on the device",
                where=str(error.filename or where),
                remedy="free some space (or name another folder with LULL_CACHE) and run again: it resumes",
            ) from error
        if error.errno in UNWRITABLE:
            raise unwritable(error, error.filename or where) from error
        raise
    except LullError as error:
        # A child (tar, make, apt) met it first and we hold its last lines.
        if not isinstance(error, DiskFull) and "No space left on device" in error.tail:
            raise DiskFull(
                f"no space left on the device: {error.what}",
                where=error.where or str(where),
                remedy="free some space (or name another folder with LULL_CACHE) and run again: it resumes",
                tail=error.tail,
            ) from error
        raise


@contextlib.contextmanager
def lock(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (created); call ``waiting`` once if somebody else has it.

    The kernel drops the lock when its holder dies, however it dies: no stale locks.
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


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data.encode() if isinstance(data, str) else data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class Absent(LullError):
    """An entry is not there, and was only looked for."""


_only_looked_for: ContextVar[bool] = ContextVar("_only_looked_for", default=False)


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """Inside, nothing is made: an entry that is not there raises Absent."""
    token = _only_looked_for.set(True)
    try:
        yield
    finally:
        _only_looked_for.reset(token)


def make_entry(
    kind: str,
    name: str,
    make: Callable[[Path], None],
    *,
    resume: bool = False,
    waiting: Callable[[str], None] | None = None,
) -> Path:
    """The cache entry KIND/NAME, made by ``make(folder)`` if it is not there yet.

    Args:
        kind: folder of the cache (``src``, ``build``, ...).
        name: name with its content key.
        make: fills the folder it is given; when it raises, nothing is published.
        resume: keep what an interrupted maker left, instead of starting anew.
        waiting: told the name when another process is making the same entry.

    Raises: DiskFull, Absent inside ``looking``, and whatever ``make`` raises.
    """
    entry = root() / kind / name
    if entry.is_dir():
        return entry
    if _only_looked_for.get():
        raise Absent(f"{name} is not in the cache", where=str(entry))
    with disk_errors(entry):
        tell = (lambda: waiting(name)) if waiting else None
        with lock(root() / "locks" / f"{kind}-{name}", tell):
            if entry.is_dir():
                return entry
            part = entry.with_name(entry.name + ".part")
            if part.exists() and not resume:
                shutil.rmtree(part)
            part.mkdir(parents=True, exist_ok=True)
            make(part)
            os.replace(part, entry)
    return entry
