# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's symbols, from its System.map or, by nm, from its vmlinux: where its functions begin and end.

The names of code in a check's reports come from the plugin, which reads the same file (checker/symbols.c).
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lull import cache, process
from lull.errors import UsageError

LINE = re.compile(r"([0-9a-fA-F]{1,16}) ([A-Za-z?-]) (\S+)(?:\s+\[(\S+)\])?")
UNDEFINED = re.compile(r"\s+[UwvWV] \S+")
CODE = "tTwWiI"
"""nm's letters of functions."""
SECTION = ("_text_start", "_text_end")
"""How names end that the linker gives to the ends of a section of code: a function may begin there."""
NO_PLACE = "aA"
"""nm's letters of absolute symbols, whose values are not addresses."""
ELF = b"\x7fELF"
ALIGNMENT = 2 << 20
"""Bytes to a multiple of which an arm64 kernel is linked."""
INSTRUCTION = 4
"""Bytes of an instruction: the least that the last function of a kernel has."""
REMEDY = "name the System.map or the vmlinux that was built with the image"


@dataclass(frozen=True)
class Entry:
    """A line of System.map; ``kind`` is nm's letter."""

    address: int
    kind: str
    name: str


class Symbols:
    """The symbols of one kernel.

    Args:
        entries: in any order. An address with several names gets the first in this order: names that are not those of
            a section's ends (SECTION), names without a leading underscore, global names, alphabetical. A name with
            several addresses gets that of a global symbol.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        found = sorted(entries, key=lambda e: (e.address, *self.rank(e)))
        self.addresses: dict[str, int] = {}
        for entry in sorted(found, key=lambda e: e.kind.islower()):
            self.addresses.setdefault(entry.name, entry.address)
        # A symbol of data ends the function before it. The name None marks such an address.
        names: dict[int, str | None] = {}
        for entry in found:
            if entry.kind in CODE and not entry.name.startswith("$"):
                names[entry.address] = names.get(entry.address) or entry.name
            elif entry.kind not in NO_PLACE and not entry.name.startswith("$"):
                names.setdefault(entry.address, None)
        self.starts = list(names)
        self.names = list(names.values())
        last = self.starts[-1] + INSTRUCTION if self.starts else 0
        self.text = self.addresses.get("_text", self.linked(self.addresses.get("_stext")))
        self.end = max(self.addresses.get("_end", last), last)

    @staticmethod
    def linked(first: int | None) -> int | None:
        """The address of ``_text``, by that of ``_stext``: 6.1 without CONFIG_KALLSYMS_ALL does not list data.

        A kernel is linked to a multiple of 2 MiB, and its code begins less than that behind ``_text``.
        """
        return None if first is None else first & -ALIGNMENT

    @staticmethod
    def rank(entry: Entry) -> tuple[bool, bool, bool, str]:
        """The place of an entry among those of one address."""
        return entry.name.endswith(SECTION), entry.name.startswith("_"), entry.kind.islower(), entry.name

    def address(self, name: str) -> int | None:
        """The address of ``name``, or None."""
        return self.addresses.get(name)

    def span(self, name: str) -> tuple[int, int] | None:
        """The first address of function ``name`` and that of the next symbol; None when there is no such function."""
        start = self.address(name)
        place = -1 if start is None else bisect.bisect_right(self.starts, start)
        if start is None or place < 1 or self.starts[place - 1] != start or not self.names[place - 1]:
            return None
        return start, self.starts[place] if place < len(self.starts) else self.end

    def spans(self, prefix: str | tuple[str, ...]) -> list[tuple[int, int]]:
        """The spans of all functions whose names begin with ``prefix``, or with one of several."""
        found = (self.span(name) for name in self.addresses if name.startswith(prefix))
        return sorted({span for span in found if span})

    def functions(self) -> list[tuple[int, str | None]]:
        """The addresses from ``_text`` on where functions begin, sorted, with their names.

        The name None is for an address that ends a function and begins none.
        """
        found: list[tuple[int, str | None]] = []
        for start, name in [*zip(self.starts, self.names, strict=True), (self.end, None)]:
            if start >= (self.text or 0) and (name or (found and found[-1][1])):
                found.append((start, name))
        return found


def parse_map(text: str, where: str) -> Symbols:
    """Symbols in the format of System.map, nm or /proc/kallsyms. Symbols of modules are left out.

    Args:
        where: the file that ``text`` is from, for messages.

    Raises: UsageError when the text has another format, names no function, or has only zeros for addresses.
    """
    entries: list[Entry] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.rstrip()
        match = LINE.fullmatch(stripped)
        if match and not match.group(4):
            entries.append(Entry(int(match.group(1), 16), match.group(2), match.group(3)))
        elif stripped and not match and not UNDEFINED.fullmatch(stripped):
            raise UsageError(
                f"not a symbol file: line {number} is not of the form ADDRESS LETTER NAME", where=where, remedy=REMEDY
            )
    if not any(e.kind in CODE for e in entries):
        raise UsageError("the symbol file has no function", where=where, remedy=REMEDY)
    if not any(e.address for e in entries if e.kind in CODE):
        raise UsageError(
            "the symbol file hides the addresses: all are zero", where=where, remedy="copy /proc/kallsyms as root"
        )
    return Symbols(entries)


def load_symbols(path: Path, nm: str) -> Symbols:
    """The symbols in a System.map, or in a vmlinux.

    Args:
        nm: the program that lists the symbols of a vmlinux.

    Raises: UsageError when the file cannot be read, MissingError when ``nm`` is not installed.
    """
    return parse_map(listing(path, nm).read_text(errors="replace"), str(path))


def listing(path: Path, nm: str) -> Path:
    """The file ``path``, or if that is a vmlinux, a file of the cache with its symbols in the form of System.map.

    Raises: as ``load``.
    """
    try:
        with open(path, "rb") as handle:
            beginning = handle.read(len(ELF))
    except OSError as error:
        raise UsageError(f"the symbols cannot be read: {error.strerror}", where=str(path), remedy=REMEDY) from error
    if beginning != ELF:
        return path

    def make(part: Path) -> None:
        (part / "System.map").write_text(process.output_of([nm, "-n", path], error=UsageError))

    return cache.make_entry("build", f"nm-{cache.key_of_files([path])}", make) / "System.map"
