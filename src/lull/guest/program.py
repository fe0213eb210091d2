# SPDX-License-Identifier: GPL-2.0-only
"""A program of the user's as a workload: an arm64 binary, a C file, a script, or a command of a Debian package."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lull import cache, guest, paths, plan, process
from lull.errors import BuildError, UsageError
from lull.linux.toolchain import Toolchain
from lull.progress import progress

FOLDER = "own"
"""The folder below /lull in the guest that has the program."""
USERLAND = paths.GUEST / FOLDER / "userland.toml"
"""What the disk of such a program has besides its packages."""
CFLAGS = ["-O2", "-pthread", "-static"]
"""How a C file is compiled: as its author would do it, whatever the compiler warns of."""
LIBRARIES = ["-lm", "-lrt"]
ELF, AARCH64 = b"\x7fELF\x02\x01", b"\xb7\0"
PT_INTERP = 3
"""The type of the program header that only a dynamic binary has."""
OPENS = (struct.pack("<I", 0xD503201F | 112 << 5), b"open_window(", b"/lull/bin/window")
"""What is in a binary, a C file and a script that opens windows of its own: HINT #112 (guest/README.md)."""


@dataclass(frozen=True)
class Program:
    """A program and its arguments.

    Args:
        name: the name of its workload.
        file: the file; None for a command of the disk.
        args: its arguments.
        on_disk: it needs the disk with Debian's programs: libraries, an interpreter, or itself.
        windows: it opens windows of its own. Others run in one window.
        timeout: seconds it may take at 4 vCPUs before the guest counts as hung.
        stop_after: seconds after which it is ended, which is no failure; 0: never.
    """

    name: str
    file: Path | None
    args: tuple[str, ...]
    on_disk: bool
    windows: bool
    timeout: float
    stop_after: int = 0

    def words(self, *, disk: bool) -> list[str]:
        """The command line in the guest; ``disk``: whether it has the disk."""
        return ["debian"] * disk + [f"/lull/{FOLDER}/{self.name}" if self.file else self.name, *self.args]

    def workload(self, *, disk: bool) -> plan.Workload:
        """The workload that runs it, in a window unless it opens its own."""
        window = ["window", *[f"seconds={self.stop_after}"] * bool(self.stop_after), "--"] * (not self.windows)
        first, *rest = ["debian"] * disk + window + self.words(disk=False)
        timeout = self.timeout + self.stop_after
        return plan.Workload(self.name, first, tuple(rest), "your own", default=False, timeout=timeout)

    def files(self, toolchain: Toolchain) -> dict[str, Path | str]:
        """Its file for the initramfs, compiled if need be. Raises BuildError."""
        if self.file is None:
            return {}
        return {self.name: compiled(self.file, toolchain) if self.file.suffix == ".c" else self.file}


def compiled(source: Path, toolchain: Toolchain) -> Path:
    """The static arm64 binary of a C file. Raises BuildError with the compiler's words."""
    flags: list[str | Path] = [*CFLAGS, "-I", source.resolve().parent, "-I", guest.LIBRARY]
    library = guest.build_library(toolchain)
    text = process.output_of([toolchain.gcc, *flags, "-E", source], error=BuildError)  # with all that it includes
    key = cache.key_of(text, toolchain.version, library.parent.name, *CFLAGS)

    def make(part: Path) -> None:
        with progress.step(f"compiling {source.name}"):
            process.run_logged(
                [toolchain.gcc, *flags, "-o", part / "program", source, library, *LIBRARIES],
                part.parent / f"{part.name}.log",
                error=BuildError,
                what=f"{source} does not compile for arm64",
                remedy="correct it; or compile it yourself, with aarch64-linux-gnu-gcc, and name the binary",
            )

    return cache.make_entry("guest", f"own-{key}", make) / "program"


def of(
    words: Sequence[str],
    packages: Sequence[str],
    suite: str,
    timeout: float,
    taken: Sequence[str],
    stop_after: int = 0,
) -> Program:
    """The program of a command line ``FILE ARGS``.

    Args:
        packages: those that are named, and
        suite: the suite: with either, FILE may be a command that the disk has.
        timeout, stop_after: as in ``Program``.
        taken: names that other workloads have.

    Raises: UsageError for a file that cannot be read or cannot run on arm64.
    """
    name, *args = words
    file = Path(name)
    if not file.exists() and "/" not in name and (packages or suite):
        return Program(name, None, tuple(args), True, False, timeout, stop_after)
    try:
        content = file.read_bytes()
    except OSError as error:
        remedy = "name a file; a command of a Debian package also needs --package NAME"
        raise UsageError(f"the program cannot be read: {error.strerror}", where=name, remedy=remedy) from error
    label = plan.slug(file.name)
    while label in taken:
        label = f"own-{label}"
    windows = any(mark in content for mark in OPENS)
    if windows and stop_after:
        remedy = "leave --stop-after out, and let it end by itself"
        raise UsageError(
            "the program opens windows of its own, and must not be stopped in one", where=name, remedy=remedy
        )
    return Program(label, file, tuple(args), needs_disk(file, content), windows, timeout, stop_after)


def needs_disk(file: Path, content: bytes) -> bool:
    """Return true if a program needs more than the guest's busybox. Raises UsageError if it cannot run on arm64."""
    if file.suffix == ".c":
        return False
    if content.startswith(b"#!"):
        interpreter = re.match(rb"#!\s*(\S*)", content)
        own = [f"/bin/{applet}" for applet in ("busybox", *guest.APPLETS.split())]
        return not interpreter or interpreter[1].decode(errors="replace") not in own
    if content.startswith(ELF) and content[18:20] == AARCH64:
        with suppress(struct.error):
            (start,), (size, number) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<HH", content, 54)
            return any(struct.unpack_from("<I", content, start + n * size)[0] == PT_INTERP for n in range(number))
    what = "an ELF file, but of no 64-bit arm64 program" if content.startswith(ELF[:4]) else "no program"
    remedy = "name a binary for arm64, a C file (NAME.c), or a script that begins with #!"
    raise UsageError(f"{file} is {what}", where=str(file), remedy=remedy)
