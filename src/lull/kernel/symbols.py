# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's symbols: from its System.map, or by nm from its vmlinux. Addresses to names, names to addresses."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lull import process
from lull.errors import UsageError

LINE = re.compile(r"([0-9a-fA-F]{1,16}) ([A-Za-z?-]) (\S+)(?:\s+\[(\S+)\])?")
UNDEFINED = re.compile(r"\s+[UwvWV] \S+")
CODE = "tTwWiI"
NO_PLACE = "aA"
ELF = b"\x7fELF"
USER_BIT = 55
"""Clear in addresses that TTBR0 translates. Around it, from bit 48 on, a pointer may be signed."""
SIGNATURE = 0xFFFF << 48
LOADED = 0x40200000
"""Where QEMU's virt machine puts an Image: code that runs in the identity map has addresses from here on."""
INSTRUCTION = 4
"""Bytes; a return address is the one behind the call."""
REMEDY = "name the System.map or the vmlinux that was built with the image"


@dataclass(frozen=True)
class Entry:
    """A line of System.map; ``kind`` is nm's letter."""

    address: int
    kind: str
    name: str


class Symbols:
    """Looks up both ways.

    Args:
        entries: in any order. Of several names of one place the plainest stands for it, of several places of one name
            a global one.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        found = sorted(entries, key=lambda e: (e.address, e.name.startswith("_"), e.kind.islower(), e.name))
        self.addresses: dict[str, int] = {}
        for entry in sorted(found, key=lambda e: e.kind.islower()):
            self.addresses.setdefault(entry.name, entry.address)
        # Data ends the function before it: its name is None.
        names: dict[int, str | None] = {}
        for entry in found:
            if entry.kind in CODE and not entry.name.startswith("$"):
                names[entry.address] = names.get(entry.address) or entry.name
            elif entry.kind not in NO_PLACE and not entry.name.startswith("$"):
                names.setdefault(entry.address, None)
        self.starts = list(names)
        self.names = list(names.values())
        last = self.starts[-1] + INSTRUCTION if self.starts else 0
        self.text = self.addresses.get("_text")
        self.end = max(self.addresses.get("_end", last), last)

    def address(self, name: str) -> int | None:
        """Where ``name`` is."""
        return self.addresses.get(name)

    def span(self, name: str) -> tuple[int, int] | None:
        """The first address of a function, and that of the next one."""
        start = self.address(name)
        place = -1 if start is None else bisect.bisect_right(self.starts, start)
        if start is None or place < 1 or self.starts[place - 1] != start or not self.names[place - 1]:
            return None
        return start, self.starts[place] if place < len(self.starts) else self.end

    def spans(self, prefix: str | tuple[str, ...]) -> list[tuple[int, int]]:
        """Those of all functions whose names begin so, or in one of these ways."""
        found = (self.span(name) for name in self.addresses if name.startswith(prefix))
        return sorted({span for span in found if span})

    def function(self, address: int, *, returns: bool = False) -> tuple[str, int] | None:
        """The function an address is in, and how far; None for user space, modules, and what is no code.

        Args:
            returns: it is a return address: the function that called is meant, also when the call is its last word.
        """
        if not address >> USER_BIT & 1:
            return None
        place = address | SIGNATURE
        back = INSTRUCTION if returns else 0
        if place >= self.end:
            return None
        index = bisect.bisect_right(self.starts, place - back) - 1
        name = self.names[index] if index >= 0 else None
        return (name, place - self.starts[index]) if name else None

    def identity(self, address: int) -> tuple[str, int] | None:
        """The function an address is in, if it is one of the identity map: user space has the same addresses."""
        linked = address - LOADED + (self.text or 0)
        return self.function(linked) if self.text and self.text <= linked < self.end else None

    def describe(self, address: int, *, returns: bool = False) -> str:
        """``function+0x1c``, or the number and what is known of it."""
        found = self.function(address, returns=returns)
        if found:
            return f"{found[0]}+{found[1]:#x}"
        if address >> USER_BIT & 1:
            return f"{address:#x}"
        found = self.identity(address)
        if found:
            return f"{address:#x} (user space, or {found[0]}+{found[1]:#x} in the identity map)"
        return f"{address:#x} (user space)"


def parse(text: str, where: str) -> Symbols:
    """Symbols in the format of System.map, nm or /proc/kallsyms (whose modules are left out). Raises UsageError."""
    entries: list[Entry] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.rstrip()
        match = LINE.fullmatch(stripped)
        if match and not match.group(4):
            entries.append(Entry(int(match.group(1), 16), match.group(2), match.group(3)))
        elif stripped and not match and not UNDEFINED.fullmatch(stripped):
            raise UsageError(
                f"not a symbol file: line {number} is not an address, a letter and a name",
                where=where,
                remedy=REMEDY,
            )
    if not any(e.kind in CODE for e in entries):
        raise UsageError("the symbol file names no function", where=where, remedy=REMEDY)
    if not any(e.address for e in entries if e.kind in CODE):
        raise UsageError(
            "the symbol file hides the addresses: all are zero", where=where, remedy="read /proc/kallsyms as root"
        )
    return Symbols(entries)


def load(path: Path, nm: str) -> Symbols:
    """The symbols in a System.map, or in a vmlinux by the program ``nm``. Raises UsageError, MissingError."""
    try:
        data = path.read_bytes() if not is_elf(path) else None
    except OSError as error:
        raise UsageError(f"the symbols cannot be read: {error.strerror}", where=str(path), remedy=REMEDY) from error
    if data is None:
        return parse(process.output_of([nm, "-n", path], error=UsageError), str(path))
    return parse(data.decode(errors="replace"), str(path))


def is_elf(path: Path) -> bool:
    """Does the file begin as an ELF file does?"""
    with open(path, "rb") as handle:
        return handle.read(len(ELF)) == ELF
