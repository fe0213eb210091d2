# SPDX-License-Identifier: GPL-2.0-only
"""Read a kernel's symbols from its image alone.

vmlinux-to-elf does this. It is run as a program: its licence (GPL-3.0-or-later) does not allow to import it.
It finds the tables from which the kernel answers /proc/kallsyms.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lull import cache, extras, process
from lull.errors import UsageError
from lull.progress import progress

EXTRA = "symbols"
SUFFIX = ".kallsyms"
"""The end of the name that the program gives to its output."""


def run(script: str, words: list[str | Path], offline: bool) -> process.ProcessEnd:
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
        with progress.step(f"reading the symbols of {image.name}"):
            done = run("kallsyms_finder", [image, "--output", part / f"System.map{SUFFIX}"], offline)
        found = part / f"System.map{SUFFIX}"
        if done.status != 0 or not found.exists():
            raise UsageError(
                "no symbols were found in the image: was it built without CONFIG_KALLSYMS, or is it cut off?",
                where=str(image),
                tail=done.errors[-500:],
                remedy="name its System.map or vmlinux with --symbols",
            )
        found.rename(part / "System.map")

    return cache.make_entry("build", f"symbols-{cache.key_of_files([image], extras_key())}", make) / "System.map"


def extras_key() -> str:
    """What the results depend on beside the image: the version of the program."""
    return cache.key_of_files([extras.listed(EXTRA)])
