# SPDX-License-Identifier: GPL-2.0-only
"""One job of a sweep, on whichever machine it is given to: a ``lull run`` of its own, with its own folder and log."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from lull import cache, paths, process

JOBS = "jobs"
TOKEN = "token"
"""A file in a sweep's folder: who can read it there is on the sweep's machine, or shares its files."""
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
        sweep: the sweep's folder on the machine that began it, absolute.
        token: what the file TOKEN says there.
        key: the sweep's plan.
    """

    name: str
    words: tuple[str, ...]
    sweep: str
    token: str
    key: str


@dataclass(frozen=True)
class Done:
    """How a job ended.

    Args:
        name: the job's.
        status: the exit code of its run.
        seconds: that it took.
        files: what it left, path in the sweep's folder -> content; nothing when it is there already.
    """

    name: str
    status: int
    seconds: float
    files: dict[str, bytes] = field(default_factory=dict)


def place_of(sweep: Path, name: str) -> Path:
    """The folder of a job's run."""
    return sweep / JOBS / name


def log_of(sweep: Path, name: str) -> Path:
    """What its run said; beside its folder, for a run takes no folder that holds other files."""
    return sweep / JOBS / f"{name}.log"


def perform(order: Order) -> Done:
    """Run a job to its end. Raises Stopped.

    Where the sweep's folder cannot be seen the run goes to the cache, is sent back whole, and is removed when it is
    complete: what was interrupted is resumed by whoever gets the job again here.
    """
    sweep = Path(order.sweep)
    if token(sweep) == order.token:
        return run(order, sweep)
    sweep = cache.root() / "sweep" / order.key
    done = run(order, sweep)
    place, log = place_of(sweep, order.name), log_of(sweep, order.name)
    found = [log, *(path for path in place.rglob("*") if path.is_file())]
    files = {str(path.relative_to(sweep)): path.read_bytes() for path in found}
    log.unlink()
    if (place / "complete").exists():
        shutil.rmtree(place)
    return Done(done.name, done.status, done.seconds, files)


def token(sweep: Path) -> str:
    """What the sweep's folder says it is; empty when there is none here."""
    try:
        return (sweep / TOKEN).read_text()
    except OSError:
        return ""


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
    """Put what a machine sent back where its run would have been: whole, or not at all."""
    place = place_of(sweep, done.name)
    part = place.with_name(f"{place.name}.part")
    for folder in (part, place):
        if done.files and folder.exists():
            shutil.rmtree(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    inside = place.relative_to(sweep)
    for name, content in done.files.items():
        path = Path(name)
        if path.is_relative_to(inside):
            target = part / path.relative_to(inside)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        else:
            with open(log_of(sweep, done.name), "ab") as log:
                log.write(content)
    if part.exists():
        part.rename(place)


def fingerprint() -> str:
    """A key of everything here that a number depends on: machines of one sweep have the same."""
    files = [
        path
        for folder in SOURCES
        for path in sorted((paths.REPOSITORY / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return cache.key_of_files(files)
