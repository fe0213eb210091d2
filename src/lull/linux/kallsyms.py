# SPDX-License-Identifier: GPL-2.0-only
"""Read a kernel's symbols from its image alone.

vmlinux-to-elf does this. It is run as a program: its licence (GPL-3.0-or-later) does not allow to import it.
It finds the tables from which the kernel answers /proc/kallsyms.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections import Counter
from pathlib import Path

from lull import cache, extras, process
from lull.errors import UsageError
from lull.progress import progress

EXTRA = "symbols"
SUFFIX = ".kallsyms"
"""The end of the name that the program gives to its output."""
RELATIVE = struct.pack("<Q", 0x403)
"""R_AARCH64_RELATIVE: the second of the three words of a relocation. The first is the address that it changes."""
ALIGNMENT = 128 << 20
"""arm64 kernels are linked to a multiple of this (KIMAGE_VADDR, arch/arm64/include/asm/memory.h), and are smaller."""


def run_script(script: str, words: list[str | Path], offline: bool) -> process.ProcessEnd:
    """Run one of the program's scripts; the result has its output."""
    place = str(extras.fetched(EXTRA, offline=offline))
    argv = [sys.executable, "-m", f"vmlinux_to_elf.scripts.{script}", *words]
    return process.complete(argv, apart=True, env={"PYTHONPATH": place})


def extract(image: Path, *, offline: bool) -> Path:
    """A file in the form of System.map with the symbols of the kernel ``image``, an uncompressed Image; in the cache.

    The addresses may all be wrong by the same number: the image does not always say where it was linked to.

    Raises: UsageError when the image has no symbols, FetchError when the program cannot be fetched.
    """

    def make(part: Path) -> None:
        output = part / f"System.map{SUFFIX}"
        with progress.step(f"reading the symbols of {image.name}"):
            done = run_script("kallsyms_finder", [image, "--output", output], offline)
            if not plausible(output, image):
                base = f"{linked_at(image.read_bytes()):x}"
                done = run_script("kallsyms_finder", [image, "--base-address", base, "--output", output], offline)
        full = os.strerror(errno.ENOSPC)
        if not plausible(output, image):
            raise UsageError(
                "no symbols were found in the image: was it built without CONFIG_KALLSYMS, or is it cut off?",
                where=str(image),
                tail=done.errors[-500:] if full in done.errors else "",  # else a traceback, which says no more
                remedy="name its System.map or vmlinux with --symbols",
            )
        output.rename(part / "System.map")

    # What is found depends on the program's version, and on this module.
    key = cache.key_of_files([image, extras.listed(EXTRA), Path(__file__)])
    return cache.make_entry("build", f"symbols-{key}", make) / "System.map"


def plausible(found: Path, image: Path) -> bool:
    """Return true if the file ``found`` has functions, and the image has room for all of them."""
    lines = (line.split() for line in found.read_text().splitlines()) if found.exists() else ()
    places = [int(line[0], 16) for line in lines if line[1:2] in (["t"], ["T"])]
    return bool(places) and max(places) - min(places) < image.stat().st_size


def linked_at(data: bytes) -> int:
    """Where the kernel ``data`` was linked to: the multiple of ALIGNMENT before most of its relocations; 0 without any.

    The program takes a wrong place for it with 36, 39 and 42 bits of address, and then reads addresses that are none.
    """
    found: Counter[int] = Counter()
    at = data.find(RELATIVE)
    while at >= 0:
        (place,) = struct.unpack_from("<Q", data, max(0, at - 8))
        found[place & -ALIGNMENT] += place >> 63
        at = data.find(RELATIVE, at + 8)
    return found.most_common(1)[0][0] if found else 0
