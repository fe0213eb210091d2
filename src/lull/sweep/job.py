# SPDX-License-Identifier: GPL-2.0-only
"""Run one job of a sweep, on any machine: a ``lull run`` in a process of its own, with its own folder and log."""

from __future__ import annotations

import shutil
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from lull import cache, paths, process

JOBS = "jobs"
HERE = uuid.uuid4().hex
"""Identifies this process among the processes of all machines."""
COMPLETE = "complete"
"""The file that marks the folder of a complete run."""
GRACE = 10.0
"""Seconds that a run has to end its guest."""
INTERVAL = 0.2
SOURCES = ("src/lull", "kernel", "guest", "plugin", "timing")
"""Folders whose files make the fingerprint."""

stopping = threading.Event()
"""Set when this process is to end. Jobs then end their runs, which can be resumed."""


class Stopped(Exception):
    """A job was ended before its run was complete. It has no result; the next attempt resumes its run."""


@dataclass(frozen=True)
class Order:
    """A job as it is sent to a machine.

    Args:
        name: the name of the job, of its folder and of its log.
        words: the arguments of ``lull run``, without ``--out``.
        sweep: the absolute path of the sweep's folder.
        giver: the process (HERE) that has this folder.
        key: the key of the sweep's plan.
    """

    name: str
    words: tuple[str, ...]
    sweep: str
    giver: str
    key: str


@dataclass(frozen=True)
class JobEnd:
    """How a job ended.

    Args:
        name: the name of the job.
        status: the exit code of its run.
        seconds: the time it took, in seconds.
        files: path in the sweep's folder -> content of the files that the run wrote on another machine; empty when the
            run wrote them to the sweep's folder itself.
    """

    name: str
    status: int
    seconds: float
    files: dict[str, bytes] = field(default_factory=dict)


def place_of(sweep: Path, name: str) -> Path:
    """The folder of the run of job ``name`` in the folder ``sweep``."""
    return sweep / JOBS / name


def complete(sweep: Path, name: str) -> bool:
    """Return true if the run of a job is complete, as its folder says."""
    return (place_of(sweep, name) / COMPLETE).exists()


def log_of(sweep: Path, name: str) -> Path:
    """The log of a job's run. It is beside the run's folder, because `lull run` refuses a folder with other files."""
    return sweep / JOBS / f"{name}.log"


def perform(order: Order) -> JobEnd:
    """Run a job to its end. Raises Stopped when this process is to end.

    In the sweep's own process the run writes to the sweep's folder. On another machine it writes to the cache: its
    files are returned in JobEnd, and removed from the cache when the run is complete. An interrupted run stays there
    and is resumed when the machine gets the job again. The sweep's folder is not used even if both machines share it,
    because a run can only be resumed with the cache that it started with.
    """
    if order.giver == HERE:
        return run(order, Path(order.sweep))
    sweep = cache.root() / "sweep" / order.key
    done = run(order, sweep)
    place, log = place_of(sweep, order.name), log_of(sweep, order.name)
    found = [log, *(path for path in place.rglob("*") if path.is_file())]
    files = {str(path.relative_to(sweep)): path.read_bytes() for path in found}
    log.unlink()
    if complete(sweep, order.name):
        shutil.rmtree(place)
    return JobEnd(done.name, done.status, done.seconds, files)


def run(order: Order, sweep: Path) -> JobEnd:
    """Run a job on this machine, in the folder ``sweep``. Raises Stopped when this process is to end."""
    place, tool = place_of(sweep, order.name), paths.REPOSITORY / "src"
    argv: list[str | Path] = [sys.executable, "-S", tool, "run", *order.words, "--out", place]
    log = log_of(sweep, order.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with open(log, "ab") as out:
        out.write(f"$ {process.shown(argv)}\n".encode())
        out.flush()
        with process.started(argv, grace=GRACE, stdin=process.DEVNULL, stdout=out, stderr=out) as child:
            while child.poll() is None:
                if stopping.wait(INTERVAL):
                    raise Stopped(order.name)
    return JobEnd(order.name, child.returncode, time.monotonic() - begun)


def take(done: JobEnd, sweep: Path) -> None:
    """Write the files that a machine sent back to the folder of the job, or to NAME.broken if its run is incomplete.

    An incomplete run of another machine cannot be resumed here, because it needs that machine's cache.
    """
    place, log = place_of(sweep, done.name), log_of(sweep, done.name)
    inside = place.relative_to(sweep)
    target = place if f"{inside}/{COMPLETE}" in done.files else place.with_name(f"{place.name}.broken")
    part = place.with_name(f"{place.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    for name, content in done.files.items():
        path = Path(name)
        if path.is_relative_to(inside):
            cache.write_atomic(part / path.relative_to(inside), content)
        else:
            with open(log, "ab") as out:
                out.write(content)
    if target.exists():
        shutil.rmtree(target)
    part.rename(target)


def fingerprint() -> str:
    """A hash of all sources that results depend on. It must be the same on all machines of a sweep."""
    files = [
        path
        for folder in SOURCES
        for path in sorted((paths.REPOSITORY / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return cache.key_of_files(files)
