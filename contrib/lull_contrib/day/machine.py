# SPDX-License-Identifier: GPL-2.0-only
"""The machine that is measured: its files, its commands, and the entries of its boot menu.

Everything that a session reads from the machine or changes on it goes through ``Machine``, so that tests have another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache, process
from lull.errors import LullError, MissingError
from lull.process import ProcessEnd

MENU = "boot/grub/grub.cfg"
PROGRAMS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
BUSY_SECONDS = 5.0
"""How long the machine is watched to learn whether it is idle."""
TICKS = 100
"""Ticks of a second in /proc/stat (USER_HZ), on arm64 always."""
NOT_FOUND = 127


@dataclass(frozen=True)
class Busy:
    """A program that uses CPU time: its process, its name, its user's number, and how many CPUs it keeps busy."""

    process: int
    name: str
    user: int
    cpus: float


@dataclass(frozen=True)
class Machine:
    """A machine.

    Args:
        root: its root folder.
        execute: runs a command to its end.
        sleep: waits for some seconds.
    """

    root: Path = Path("/")
    execute: Callable[[Sequence[str]], ProcessEnd] = process.complete
    sleep: Callable[[float], None] = time.sleep

    def read(self, name: str) -> str:
        """The text of a file, without blanks at its ends; empty when it cannot be read."""
        try:
            return (self.root / name).read_bytes().decode(errors="replace").strip("\0 \n\t")
        except OSError:
            return ""

    def glob(self, pattern: str) -> list[str]:
        """The files whose names fit, sorted by the numbers in them."""
        found = (str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        return sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])

    def has(self, program: str) -> bool:
        """Return true if the program is installed."""
        return any((self.root / folder / program).exists() for folder in PROGRAMS)

    def run(self, *words: str) -> str:
        """Run a command that must not fail, and return its output. Raises LullError."""
        done = self.execute(words)
        if done.status != 0:
            raise LullError(f"{words[0]} failed with status {done.status}", where=" ".join(words), tail=done.output)
        return done.output

    def ask(self, *words: str) -> str:
        """The output of a command that may fail or be missing; empty then."""
        try:
            done = self.execute(words)
        except MissingError:
            return ""
        return done.output.strip() if done.status == 0 else ""

    def write(self, name: str, text: str) -> None:
        """Write a file that a power cut leaves as it was before, or as it is after."""
        cache.write_atomic(self.root / name, text, lasting=True)

    def exists(self, name: str) -> bool:
        """Return true if the file is there."""
        return (self.root / name).exists()

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.root / name).unlink(missing_ok=True)

    @property
    def release(self) -> str:
        """The release of the kernel that runs."""
        return self.read("proc/sys/kernel/osrelease")

    @property
    def boot_id(self) -> str:
        """What tells this boot from others."""
        return self.read("proc/sys/kernel/random/boot_id")

    def processes(self) -> dict[int, tuple[str, int, int]]:
        """Process -> its name, its user's number, and the ticks of CPU time that it used."""
        found = {}
        for name in self.glob("proc/[0-9]*/stat"):
            number = int(name.split("/")[1])
            command, _, rest = self.read(name).partition("(")[2].rpartition(")")
            user = re.search(r"(?m)^Uid:\s+(\d+)", self.read(f"proc/{number}/status"))
            if user and len(rest.split()) > 12:
                found[number] = command, int(user[1]), sum(map(int, rest.split()[11:13]))
        return found

    def busy_ticks(self) -> int:
        """The ticks for which CPUs were busy since the boot, all CPUs together."""
        ticks = [int(word) for word in self.read("proc/stat").partition("\n")[0].split()[1:9]]
        return sum(ticks) - sum(ticks[3:5])  # without idle and iowait

    def watch(self, own: int) -> tuple[float, list[Busy]]:
        """Watch the machine for BUSY_SECONDS: how many CPUs are busy, and which programs use CPU time, most first.

        Args:
            own: our own process, which is left out.
        """
        ticks, before = self.busy_ticks(), self.processes()
        self.sleep(BUSY_SECONDS)
        share = TICKS * BUSY_SECONDS
        used = [
            Busy(number, name, user, (end - before[number][2]) / share)
            for number, (name, user, end) in self.processes().items()
            if number in before and number != own and end > before[number][2]
        ]
        return (self.busy_ticks() - ticks) / share, sorted(used, key=lambda busy: -busy.cpus)

    def entries(self) -> dict[str, str]:
        """Release -> the entry of GRUB's menu that boots it, as grub-reboot takes it."""
        return dict(menu(self.read(MENU)))


def menu(text: str) -> Iterator[tuple[str, str]]:
    """The releases of grub.cfg with their entries: those that grub-mkconfig names after a release, not recovery ones.

    An entry in a submenu is SUBMENU>ENTRY.
    """
    within = ""
    for line in text.splitlines():
        found = re.match(r"(\s*)(menuentry|submenu) .*\$menuentry_id_option '([^']*)'", line)
        if not found:
            continue
        indent, kind, name = found.groups()
        if kind == "submenu":
            within = name
        elif release := re.fullmatch(r"gnulinux-(.+)-advanced-.+", name):
            yield release[1], f"{within}>{name}" if indent and within else name
