# SPDX-License-Identifier: GPL-2.0-only
"""guest/vcpus.c on the host: threads that have the names of vCPUs get their CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import host_program

# Starts two threads with the names that QEMU gives to vCPUs, and one with another name.
GUEST = """
import ctypes, threading, time
def sleep(name):
    ctypes.CDLL(None).prctl(15, name)
    time.sleep(60)
for name in (b"CPU 1/KVM", b"worker", b"CPU 0/KVM"):
    threading.Thread(target=sleep, args=(name,), daemon=True).start()
print(flush=True)
time.sleep(60)
"""
CPUS = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(
    CPUS[:2] != [0, 1] or len(CPUS) != os.sysconf("SC_NPROCESSORS_ONLN"), reason="needs all CPUs, and two of them"
)


@pytest.fixture(scope="module")
def vcpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """guest/vcpus.c, for the host."""
    return host_program("vcpus", tmp_path_factory.mktemp("vcpus"))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A process with the threads of a guest of two vCPUs."""
    with subprocess.Popen([sys.executable, "-c", GUEST], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        child.stdout.readline()
        yield child
        child.kill()


def affinity(pid: int) -> dict[str, list[int]]:
    """Thread name -> its CPUs."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(t / "comm").read_text().strip(): sorted(os.sched_getaffinity(int(t.name))) for t in tasks}


@pytest.mark.parametrize("first", [0, 1])
def test_each_vcpu_stays_on_its_cpu(vcpus: Path, process: subprocess.Popen[str], first: int) -> None:
    """Counted from the first one; other threads are left alone."""
    subprocess.run([vcpus, f"pid={process.pid}", "count=2", f"first={first}"], check=True, timeout=20)
    found = affinity(process.pid)
    assert [found[f"CPU {n}/KVM"] for n in (0, 1)] == [[(first + n) % len(CPUS)] for n in (0, 1)]
    assert found["worker"] == CPUS


def test_vcpus_move_until_the_guest_ends(vcpus: Path, process: subprocess.Popen[str]) -> None:
    """Each comes to several CPUs; the program ends with the guest."""
    seen: dict[str, set[int]] = {"CPU 0/KVM": set(), "CPU 1/KVM": set()}
    with subprocess.Popen([vcpus, f"pid={process.pid}", "count=2", "move=100"]) as mover:
        end = time.monotonic() + 20
        while min(map(len, seen.values())) < 2 and time.monotonic() < end:
            found = affinity(process.pid)
            for name, cpus in seen.items():
                mine = found.get(name, [])  # a thread that starts has no name yet
                cpus.update(mine if len(mine) == 1 else [])
            time.sleep(0.01)
        assert all({0, 1} <= cpus for cpus in seen.values())
        assert mover.poll() is None
        process.kill()
        process.wait()
        assert mover.wait(20) == 0


def test_a_process_that_is_no_guest(vcpus: Path) -> None:
    """It has no such threads, and ends. Its parent has not waited for it yet."""
    with subprocess.Popen(["sleep", "0.5"]) as child:
        done = subprocess.run([vcpus, f"pid={child.pid}", "count=1"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (1, f"vcpus: process {child.pid} has ended\n")
