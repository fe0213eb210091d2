# SPDX-License-Identifier: GPL-2.0-only
"""What options take: how a word is read, and what must hold of it before any work begins, a dry run's too."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from lull import cache
from lull.errors import UsageError
from lull.guest.qemu import host_mib
from lull.kernel import series, tree
from lull.lab import Lab
from lull.run import experiment

T = TypeVar("T")
LEAST_MIB = 256
"""What a guest's memory is at least: the largest initramfs and what it unpacks to, 55 MB each, the kernel, and as much
again for programs."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The type of an option, as argparse's ``type``.

    Args:
        read: makes the value of a word. Raises ArgumentTypeError.
        check: raises LullError for a value that cannot be, or cannot be used; cheap, and changes nothing.
    """

    read: Callable[[str], T]
    check: Callable[[Lab, T], object]

    def __call__(self, word: str) -> T:
        """The value of a word."""
        return self.read(word)


def check_all(lab: Lab, parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Check the values of all options of a command that have a Kind. Raises what their checks raise."""
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
    """A path: not the empty word that a variable of the shell leaves which is not set."""
    if not word:
        raise argparse.ArgumentTypeError("an empty word names no path")
    return Path(word)


def check_results(lab: Lab, folder: Path) -> None:
    """It can be written, and holds nothing but results."""
    cache.check_writable(folder)
    experiment.check_free(folder)


def check_new(folder: Path) -> None:
    """It can be written, and nothing is in it."""
    cache.check_writable(folder)
    series.check_new(folder)


def check_file(lab: Lab, file: Path) -> None:
    """It is, or can be, a file."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder", remedy="name a file with --out")
    cache.check_writable(file.parent)


def check_memory(lab: Lab, mib: int) -> None:
    """A guest can live in it, and the host has it."""
    most = host_mib()
    if not LEAST_MIB <= mib <= most:
        raise UsageError(f"--memory {mib}: {LEAST_MIB} to {most} MiB are possible on this host")


def check_hardware(lab: Lab, name: str) -> None:
    """It is a machine that QEMU can be."""
    from lull.check.data import load_machines, parse_hardware  # with scipy: no start waits for it

    lab.check_cpu(parse_hardware(name, load_machines()).cpu)


TREE = Kind(path, lambda lab, folder: tree.check_series(folder, lab.base))
"""A kernel tree of the base's series."""
RESULTS = Kind(path, check_results)
"""A folder that takes results."""
FOLDER = Kind(path, lambda lab, folder: cache.check_writable(folder))
"""A folder that files are put in."""
NEW = Kind(path, lambda lab, folder: check_new(folder))
"""A folder that is made, or empty."""
FILE = Kind(path, check_file)
"""A file that is written."""
MEMORY = Kind(whole, check_memory)
"""A guest's memory, MiB."""
MODEL = Kind(str, lambda lab, cpu: lab.check_cpu(cpu))
"""A value of QEMU's -cpu."""
HARDWARE = Kind(str, check_hardware)
"""A machine to check on."""
TYPES: dict[type, Callable[[str], object]] = {int: whole, float: number, Path: path}
"""How argparse reads plain types: with words of ours for what is none."""
