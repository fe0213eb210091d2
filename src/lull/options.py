# SPDX-License-Identifier: GPL-2.0-only
"""The types of the command line's options: how each value is read, and how it is checked before any work begins.

Values are also checked for a dry run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from lull import cache
from lull.check.data import load_machines, parse_hardware
from lull.errors import UsageError
from lull.guest.qemu import host_mib
from lull.kernel import series, tree
from lull.lab import Lab
from lull.run import experiment

T = TypeVar("T")
LEAST_MIB = 256
"""The least MiB of a guest: room for the largest initramfs and its unpacked files, 55 MB each, for the kernel, and as
much again for programs."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The type of an option, as argparse's ``type``.

    Args:
        read: converts a word to the value. Raises ArgumentTypeError.
        check: raises LullError for a value that does not exist or cannot be used. It is fast and changes nothing.
    """

    read: Callable[[str], T]
    check: Callable[[Lab, T], object]

    def __call__(self, word: str) -> T:
        """Convert a word to the value."""
        return self.read(word)


def check_all(lab: Lab, parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Check the values of all options whose type is a Kind. Raises the errors of their checks."""
    for action in parser._actions:
        if isinstance(action.type, Kind):
            found = getattr(arguments, action.dest)
            for value in found if isinstance(found, list) else [found]:
                if value is not None:
                    action.type.check(lab, value)


def whole(word: str) -> int:
    """A whole number."""
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{word}' is no whole number") from None


def number(word: str) -> float:
    """A number."""
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{word}' is no number") from None


def path(word: str) -> Path:
    """A path. An empty word, which an unset variable of the shell leaves, is refused."""
    if not word:
        raise argparse.ArgumentTypeError("an empty word names no path")
    return Path(word)


def check_results(lab: Lab, folder: Path) -> None:
    """Raise UsageError when ``folder`` cannot be written, or holds anything but results."""
    cache.check_writable(folder)
    experiment.check_free(folder)


def check_new(folder: Path) -> None:
    """Raise UsageError when ``folder`` cannot be written, or is not empty."""
    cache.check_writable(folder)
    series.check_new(folder)


def check_file(lab: Lab, file: Path) -> None:
    """Raise UsageError when ``file`` is a folder, or cannot be written."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder", remedy="name a file with --out")
    cache.check_writable(file.parent)


def check_image(lab: Lab, image: Path) -> None:
    """Raise UsageError when the kernel image cannot be read."""
    try:
        with open(image, "rb"):
            pass
    except OSError as error:
        remedy = "name the Image of a kernel build, arch/arm64/boot/Image"
        raise UsageError(f"the image cannot be read: {error.strerror}", where=str(image), remedy=remedy) from error


def check_memory(lab: Lab, mib: int) -> None:
    """Raise UsageError when ``mib`` is too little for a guest, or more than the host has."""
    most = host_mib()
    if not LEAST_MIB <= mib <= most:
        raise UsageError(f"--memory {mib}: {LEAST_MIB} to {most} MiB are possible on this host")


def check_hardware(lab: Lab, name: str) -> None:
    """Raise UsageError when ``name`` is not a machine that QEMU can emulate."""
    lab.check_cpu(parse_hardware(name, load_machines()).cpu)


TREE = Kind(path, lambda lab, folder: tree.check_series(folder, lab.base))
"""A kernel tree of the base's series."""
RESULTS = Kind(path, check_results)
"""A folder for results."""
FOLDER = Kind(path, lambda lab, folder: cache.check_writable(folder))
"""A folder that files are written to; it may have others."""
NEW = Kind(path, lambda lab, folder: check_new(folder))
"""A folder that is new or empty."""
FILE = Kind(path, check_file)
"""A file to write."""
IMAGE = Kind(path, check_image)
"""A kernel image of the user's."""
MEMORY = Kind(whole, check_memory)
"""A guest's memory in MiB."""
MODEL = Kind(str, lambda lab, cpu: lab.check_cpu(cpu))
"""A value of QEMU's -cpu."""
HARDWARE = Kind(str, check_hardware)
"""A machine to check on, as --cpu of `lull check` takes it."""
TYPES: dict[type, Callable[[str], object]] = {int: whole, float: number, Path: path}
"""Readers of plain types, with messages of their own for words that cannot be read."""
