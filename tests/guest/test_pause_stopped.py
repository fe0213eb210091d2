# SPDX-License-Identifier: GPL-2.0-only
"""A virtual CPU stops in the middle of a pause of HVO: QEMU's gdbstub stops the one that pauses, and no other.

Until the pause has begun the CPUs that wait leave by themselves. From then on they stay: entries may be broken.
"""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from lull import guest as userland
from lull import process
from lull.guest.qemu import Machine, command
from lull.lab import Lab

VCPUS = 3
STOPPED = 3.0
"""Seconds. The first try lasts 63 ms with the guest's lull.vmemmap_wait_us."""


class Stub:
    """QEMU's gdbstub: as much of the protocol as this takes."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(str(path))
        self.pending = b""

    def send(self, text: str) -> None:
        """Send a packet and do not wait for what it is answered."""
        self.socket.sendall(f"${text}#{sum(text.encode()) % 256:02x}".encode())

    def receive(self) -> str:
        """The next packet."""
        while not (found := re.search(rb"\$([^#]*)#..", self.pending)):
            data = self.socket.recv(4096)
            assert data, "QEMU is gone"
            self.pending += data
        self.pending = self.pending[found.end() :]
        self.socket.sendall(b"+")
        return found.group(1).decode()

    def ask(self, text: str) -> str:
        """Send a packet; what it is answered."""
        self.send(text)
        return self.receive()

    def interrupt(self) -> str:
        """Stop all CPUs."""
        self.socket.sendall(b"\x03")
        return self.receive()

    def pc(self, cpu: int) -> int:
        """Where a CPU is; the first is 1."""
        assert self.ask(f"Hg{cpu:x}") == "OK"
        return int.from_bytes(bytes.fromhex(self.ask("p20")), "little")


def functions(system_map: Path) -> list[tuple[int, str]]:
    """Addresses and names, in order."""
    words = (line.split() for line in system_map.read_text().splitlines())
    return sorted((int(address, 16), name) for address, kind, name in words if kind in "tT" and name[0] != "$")


def at(places: list[tuple[int, str]], pc: int) -> str:
    """The function that an address belongs to."""
    return next((name for address, name in reversed(places) if address <= pc), "")


@pytest.mark.parametrize(
    ("where", "waits"), [("lull_pause_spin_gather", False), ("lull_pause_end", True)], ids=["asked", "begun"]
)
def test_the_pausing_cpu_stops(lab: Lab, tmp_path: Path, where: str, waits: bool) -> None:
    """The others leave, or stay; and when it goes on, everything comes to its end."""
    if "pause" not in lab.base.features:
        pytest.skip("this base has no pauses")
    booted = lab.guest("lull", Machine(vcpus=VCPUS, memory_mib=6144), append="nokaslr", count=False)
    places = functions(lab.kernel("lull").system_map)
    address = next(address for address, name in places if name == where)
    results, log, stub = tmp_path / "results.jsonl", tmp_path / "console.log", tmp_path / "gdb"
    userland.add_job(booted.initramfs, booted.generator, "run 1 hvo pages=1\n", tmp_path / "initrd.cpio")
    words = command(
        booted.qemu,
        booted.machine,
        kernel=booted.image,
        initrd=tmp_path / "initrd.cpio",
        append=booted.parameters(),
        results=results,
        console=str(log),
    )
    words += ["-gdb", f"unix:{stub},server=on,wait=off"]
    with process.started(words, stdin=process.DEVNULL) as qemu:
        end = time.monotonic() + 120
        while not (results.exists() and '"start"' in results.read_text()):
            assert time.monotonic() < end and qemu.poll() is None, log.read_text(errors="replace")
            time.sleep(0.1)
        gdb = Stub(stub)
        gdb.ask("?")
        assert gdb.ask(f"Z1,{address:x},4") == "OK"
        stop = gdb.ask("vCont;c")
        found = re.search(r"thread:(?:p\w+\.)?(\w+)", stop)
        assert found, stop
        pauser = int(found.group(1), 16)
        assert gdb.pc(pauser) == address
        others = [cpu for cpu in range(1, VCPUS + 1) if cpu != pauser]
        gdb.send("vCont;" + ";".join(f"c:{cpu:x}" for cpu in others))
        time.sleep(STOPPED)
        gdb.interrupt()
        assert gdb.pc(pauser) == address, "the CPU that was stopped is somewhere else"
        spots = [at(places, gdb.pc(cpu)) for cpu in others]
        assert gdb.ask(f"z1,{address:x},4") == "OK"
        gdb.send("vCont;c")
        assert qemu.wait(timeout=300) == 0
    assert all((spot == "lull_pause_spin_wait") == waits for spot in spots), spots
    said = results.read_text()
    ended = re.search(r'"event": ?"end".*"status": ?(\d+)', said)
    console = log.read_text(errors="replace")
    assert ended, said + console
    # A pause that was given up leaves a HugeTLB page as it was, which the program counts: it is no more than that.
    given_up = not waits and "hvo: -7 pages of vmemmap are given back, and not 0" in console
    assert ended.group(1) == "0" or given_up, said + console
