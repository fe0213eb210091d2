# SPDX-License-Identifier: GPL-2.0-only
"""The storms on the host, whose kernel is not in question: do they notice what they are to notice?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import host_program

from lull import base as bases
from lull import plan

FIRST_FRESH = 0x200200000
"""Where the actor "spawn" has its memory: what fresh() of guest/lib/storm.c gives out first."""


ONLY_READ = 0x200680000
"""The slice of guest/batch_storm.c's memory that is only read: 6 slices of 128 KiB behind a lone one."""


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """residency_storm."""
    return host_program("residency_storm", tmp_path_factory.mktemp("storm"))


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """batch_storm."""
    return host_program("batch_storm", tmp_path_factory.mktemp("storm"))


def children(pid: int) -> list[int]:
    """Its child processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            pass  # it has ended
    return found


@contextmanager
def started(storm: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The storm, and its one actor."""
    running = subprocess.Popen(
        [storm, "seed=3", "seconds=60", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 10
        while not (actor := children(running.pid)) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.5)
        yield running, actor[0]
    finally:
        running.kill()
        running.wait()


def test_each_actor_does_its_work(storm: Path) -> None:
    """A second of all of them: verified, and every count but those of the guest's own actors goes up."""
    done = subprocess.run([storm, "seconds=2", "seed=1"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    metrics = json.loads(line)["metrics"]
    swap_or_kernel = {"pswpin", "pswpout", "offlined", "switched"}
    assert [name for name, value in metrics.items() if not value and name not in swap_or_kernel] == []
    assert "seed=1" in done.stdout


def test_memory_that_changes_is_noticed(storm: Path) -> None:
    """What an actor wrote is overwritten behind its back: it says what, where, and its seed."""
    with started(storm, "actors=spawn") as (running, actor):
        with open(f"/proc/{actor}/mem", "r+b", buffering=0) as memory:
            until = time.monotonic() + 20
            while running.poll() is None and time.monotonic() < until:
                try:
                    os.pwrite(memory.fileno(), b"\x55" * 8, FIRST_FRESH)
                except OSError:
                    break  # it has ended
        assert running.wait(timeout=20) == 1
        assert running.stderr
        said = running.stderr.read()
        assert "seed=3: spawn-0: " in said and "at 0x200200000, holds 0x5555555555555555" in said


def test_an_actor_that_stands_still_is_named(storm: Path) -> None:
    """As it would when a CPU does not get its address space back."""
    with started(storm, "actors=idle", "patience=2") as (running, actor):
        os.kill(actor, signal.SIGSTOP)
        assert running.wait(timeout=20) == 1
        assert running.stderr and "seed 3: idle-0 has made no step for 2 s" in running.stderr.read()


def test_an_actor_that_is_killed_is_named(storm: Path) -> None:
    """A signal that the kernel sends, for one."""
    with started(storm, "actors=threads") as (running, actor):
        os.kill(actor, signal.SIGKILL)
        assert running.wait(timeout=20) == 1
        assert running.stderr and "ended with wait status 0x9" in running.stderr.read()


def test_unknown_actors_are_refused(storm: Path) -> None:
    """Whole words only."""
    for wrong in ("spawn,treads", "thread", "", "spawn,,idle"):
        done = subprocess.run([storm, f"actors={wrong}"], capture_output=True, text=True)
        assert done.returncode == 2 and "spawn, threads, outside and idle" in done.stderr


def test_each_case_has_its_workload(batches: Path) -> None:
    """So that a mutant can name it."""
    done = subprocess.run([batches, "only=list"], capture_output=True, text=True, check=True)
    known = plan.load_workloads(bases.load_base().workloads).values()
    alone = {word for w in known if w.program == "batch_storm" for word in w.args if word.startswith("only=")}
    assert {f"only={case}" for case in done.stdout.split()} == alone


@pytest.mark.parametrize("case", ["pieces", "file_pieces", "nested"])
def test_pieces(batches: Path, case: str) -> None:
    """Cases that any kernel can run."""
    done = subprocess.run([batches, f"only={case}", "rounds=1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_pages_that_change_under_readers_are_noticed(batches: Path) -> None:
    """What nobody writes is overwritten behind its back."""
    running = subprocess.Popen(
        [batches, "only=pageout", "rounds=100000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 30
        while running.poll() is None and time.monotonic() < until:
            for actor in children(running.pid):
                try:
                    with open(f"/proc/{actor}/mem", "r+b", buffering=0) as memory:
                        os.pwrite(memory.fileno(), b"\x55" * 8, ONLY_READ)
                except OSError:
                    pass  # it has ended, or not begun
        assert running.wait(timeout=20) == 1
    finally:
        running.kill()
        running.wait()
    assert running.stderr
    said = running.stderr.read()
    assert "a page that is only read: page 0, at 0x200680000, holds 0x5555555555555555" in said
