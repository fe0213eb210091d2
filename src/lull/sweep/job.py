# SPDX-License-Identifier: GPL-2.0-only
"""One job of a sweep, on whichever machine it is given to: a ``lull run`` of its own, with its own folder and log."""

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
"""This process, among those of all machines."""
COMPLETE = "complete"
GRACE = 10.0
"""Seconds for a run to end its guest in."""
INTERVAL = 0.2
SOURCES = ("src/lull", "kernel", "guest", "checker", "timing")

stopping = threading.Event()
"""Set when this process is to end: jobs end theirs, and leave what can be resumed."""


class Stopped(Exception):
    """A job was ended before its run had: nothing of it counts, what it did is there for the next time."""


@dataclass(frozen=True)
class Order:
    """A job as it is sent to a machine.

    Args:
        name: its folder, and its log's name.
        words: of ``lull run``, but for ``--out``.
        sweep: the sweep's folder, absolute.
        giver: the process that has that folder.
        key: the sweep's plan.
    """

    name: str
    words: tuple[str, ...]
    sweep: str
    giver: str
    key: str


@dataclass(frozen=True)
class Done:
    """How a job ended.

    Args:
        name: the job's.
        status: the exit code of its run.
        seconds: that it took.
        files: what it left, path in the sweep's folder -> content; nothing when it is there.
    """

    name: str
    status: int
    seconds: float
    files: dict[str, bytes] = field(default_factory=dict)


def place_of(sweep: Path, name: str) -> Path:
    """The folder of a job's run."""
    return sweep / JOBS / name


def complete(sweep: Path, name: str) -> bool:
    """Whether the run of a job is: that is for its folder to say, whoever wrote it."""
    return (place_of(sweep, name) / COMPLETE).exists()


def log_of(sweep: Path, name: str) -> Path:
    """What its run said; beside its folder, for a run takes no folder that holds other files."""
    return sweep / JOBS / f"{name}.log"


def perform(order: Order) -> Done:
    """Run a job to its end. Raises Stopped.

    In another process than the sweep's the run is in the cache, is sent back whole, and is removed when it is complete.
    What was interrupted is resumed there when the job comes again. The sweep's folder is of no use even where files are
    shared: a run is resumed under the cache that it was begun under, and no other.
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
    return Done(done.name, done.status, done.seconds, files)


def run(order: Order, sweep: Path) -> Done:
    """Run a job in ``sweep``'s folder on this machine. Raises Stopped."""
    place, tool = place_of(sweep, order.name), paths.REPOSITORY / "src"
    argv: list[str | Path] = [sys.executable, tool, "run", *order.words, "--out", place]
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
    return Done(order.name, child.returncode, time.monotonic() - begun)


def take(done: Done, sweep: Path) -> None:
    """Put what a machine sent back where its run would have been; one that is not complete beside it.

    A run that broke off elsewhere cannot be resumed here: it is of another machine's cache.
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
    """A key of everything here that a number depends on: machines of one sweep have the same."""
    files = [
        path
        for folder in SOURCES
        for path in sorted((paths.REPOSITORY / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return cache.key_of_files(files)
