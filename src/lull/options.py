# SPDX-License-Identifier: GPL-2.0-only
"""The options that several commands take, and the types of options.

A type says how a value is read, and how it is checked before any work begins, for a dry run too.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from lull import cache, plan, timing
from lull.check.data import load_machines, parse_hardware
from lull.errors import UsageError
from lull.guest import program
from lull.guest.qemu import Machine, host_mib
from lull.lab import Lab
from lull.linux import series, tree
from lull.run import loop

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


UNCHECKED = ("search", "selftest", "soak")
"""Commands that refuse a suite with guests of the guest."""


PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
"""The name of a Debian package."""


def package(word: str) -> str:
    """The name of a Debian package."""
    if not PACKAGE.fullmatch(word):
        raise argparse.ArgumentTypeError(f"'{word}' is no name of a Debian package")
    return word


OWN_SECONDS = 240.0
"""Seconds that a program of the user's has in a run or a check, at 4 vCPUs, without --timeout."""


def add_program(parser: argparse.ArgumentParser, timeout: float) -> None:
    """Add the options for a program of the user's; ``timeout``: the seconds that it has."""
    group = parser.add_argument_group("a program of yours")
    group.add_argument(
        "--program",
        dest="own",
        metavar=("FILE", "ARGS"),
        nargs="+",
        default=[],
        help="run this: an arm64 binary, a C file, a script, or a command of a --package; arguments that begin with - "
        "go last, behind --",
    )
    group.add_argument(
        "--package",
        dest="packages",
        metavar="PACKAGE",
        type=package,
        **SEVERAL,
        help="put this package of Debian 12 on the guest's disk, for the program; repeatable",
    )
    usual = f"seconds until the program counts as hung (default: {timeout:g})"
    group.add_argument("--timeout", metavar="S", type=float, default=timeout, help=usual)
    if timeout == OWN_SECONDS:
        how = "end the program after so many seconds, which is no failure: for those that never end by themselves"
        group.add_argument("--stop-after", metavar="S", type=int, default=0, help=how)


def behind(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line, and those behind ``--`` if these are arguments of --program."""
    own, end = [word.partition("=")[0] == "--program" for word in words], [*words, "--"].index("--")
    return (list(words[:end]), list(words[end + 1 :])) if any(own[:end]) else (list(words), [])


def take_program(lab: Lab, arguments: argparse.Namespace) -> None:
    """Let ``lab`` have the user's program and packages; the program becomes a workload that was asked for.

    Raises: UsageError for a program that cannot run.
    """
    lab.packages = tuple(getattr(arguments, "packages", ()))
    if not getattr(arguments, "own", ()):
        if lab.packages and not lab.suite_name and arguments.command != "boot":
            raise UsageError("--package is for a program, and none is named", remedy="name one with --program")
        return
    known = plan.load_workloads(lab.base.suite_named(lab.suite_name).workloads)
    stop_after = getattr(arguments, "stop_after", 0)
    if stop_after < 0:
        raise UsageError(f"--stop-after {stop_after}: there is no such time", remedy="name seconds, from 1")
    lab.program = program.of(arguments.own, lab.packages, lab.suite_name, arguments.timeout, list(known), stop_after)
    if arguments.command != "boot":
        arguments.workload = [*arguments.workload, lab.program.name]


def check_all(lab: Lab, parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Check the suite, the user's program, and the values of all options whose type is a Kind.

    Raises: the errors of the checks.
    """
    take_program(lab, arguments)
    if lab.suite.guests and (arguments.command in UNCHECKED or getattr(arguments, "accel", "tcg") == "kvm"):
        what = f"suite {lab.suite.name} has guests of the guest: they are emulated"
        raise UsageError(what, remedy="use './lull run', 'boot' or 'check', with --accel tcg")
    for action in parser._actions:
        if isinstance(action.type, Kind):
            found = getattr(arguments, action.dest)
            for value in found if isinstance(found, list) else [found]:
                if value is not None:
                    action.type.check(lab, value)


def reader(kind: Callable[[str], T], what: str) -> Callable[[str], T]:
    """A function that converts a word by ``kind``, and says that it is no ``what`` when that raises ValueError."""

    def read(word: str) -> T:
        try:
            return kind(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no {what}") from None

    return read


whole, number = reader(int, "whole number"), reader(float, "number")


def path(word: str) -> Path:
    """A path. An empty word, which an unset variable of the shell leaves, is refused."""
    if not word:
        raise argparse.ArgumentTypeError("an empty word names no path")
    return Path(word)


def check_results(lab: Lab, folder: Path) -> None:
    """Raise UsageError when ``folder`` cannot be written, or holds anything but results."""
    cache.check_writable(folder)
    loop.check_free(folder)


def check_new(folder: Path) -> None:
    """Raise UsageError when ``folder`` cannot be written, or has anything but a tree of `lull tree`."""
    cache.check_writable(folder)
    series.check_tree(folder)


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
"""A folder that is new or empty, or a tree of `lull tree`."""
FILE = Kind(path, check_file)
"""A file to write."""
IMAGE = Kind(path, check_image)
"""A kernel image of the user's."""
MEMORY = Kind(whole, check_memory)
"""A guest's memory in MiB."""
CPU_MODEL = Kind(str, lambda lab, cpu: lab.check_cpu(cpu))
"""A value of QEMU's -cpu."""
HARDWARE = Kind(str, check_hardware)
"""A machine to check on, as --cpu of `lull check` takes it."""
TYPES: dict[type, Callable[[str], object]] = {int: whole, float: number, Path: path}
"""Readers of plain types, with messages of their own for words that cannot be read."""

SHARED = frozenset({"--offline", "--dry-run", "--json", "--tree", "--base", "--suite", "--quiet"})
"""The options that most commands take (lull.cli). A command refuses those that its module lists in ``WITHOUT``."""
REPEAT = 5
"""Boots of each kernel in a measurement."""
SEVERAL: dict[str, Any] = {"action": "append", "default": []}
"""An option that may be repeated."""
MACHINES: dict[str, Any] = {"metavar": "C", "type": HARDWARE, **SEVERAL}
"""The option --cpu of commands that check on several machines."""
COMMON: dict[str, dict[str, Any]] = {
    "kernel": {"metavar": "K", **SEVERAL},
    "workload": {"metavar": "W", **SEVERAL},
    "image": {"metavar": "IMAGE", "type": IMAGE, "help": "boot this kernel image, and build none"},
    "symbols": {"metavar": "FILE", "type": Path, "help": "the System.map or vmlinux of the build of --image"},
    "repeat": {"metavar": "N", "type": int},
    "out": {"metavar": "DIR", "type": RESULTS, "help": "folder for the results (default: a new folder in ./results)"},
    "vcpus": {"metavar": "N", "type": int, "default": Machine.vcpus, "help": "virtual CPUs"},
    "memory": {"metavar": "MIB", "type": MEMORY, "default": Machine.memory_mib, "help": "guest memory"},
    "cpu": {"metavar": "MODEL", "type": CPU_MODEL, "default": Machine.cpu, "help": "CPU of QEMU"},
    "accel": {"choices": ("tcg", "kvm"), "default": "tcg"},
    "timing": {"metavar": "NAME"},
    "append": {"metavar": "CMDLINE", "default": "", "help": "more kernel parameters"},
}
"""The options that several commands take, without ``--``, and what argparse is told of each. A command adds its own
help text where the option means something special to it."""


def add(parser: argparse._ActionsContainer, name: str, **more: Any) -> None:
    """Add an option of COMMON to a parser or group. A default that the help text does not state is added to it.

    Args:
        more: arguments of argparse that add to those in COMMON, or replace them.
    """
    found = {**COMMON[name], **more}
    if found.get("default") and "(default: " not in found["help"]:
        found["help"] += f" (default: {found['default']})"
    parser.add_argument(f"--{name}", **found)


def add_measuring(parser: argparse.ArgumentParser, repeat: str = "") -> None:
    """Add the options of every command that measures: those that are not of one machine or one choice of workloads.

    Args:
        repeat: the default of --repeat in words, where it is not one number; it is None then.
    """
    add(
        parser,
        "kernel",
        help="stock, lull, lull+FEATURE=POLICY, lull-FEATURE, lull+only=FEATURE (default: stock, lull, and lull under "
        "the policies a workload names); repeatable",
    )
    usual = None if repeat else REPEAT
    add(parser, "repeat", default=usual, help=f"boots of each kernel (default: {repeat or REPEAT})")
    add(parser, "out")
    add(parser, "memory")
    add(parser, "accel", help="kvm (arm64 hosts) gives real seconds but counts nothing")
    names = ", ".join(timing.known())
    add(parser, "timing", help=f"seconds of a machine with stated costs, too: {names}, or your own TOML file")
    add(parser, "append")


def model(arguments: argparse.Namespace) -> timing.CostModel | None:
    """The model that --timing names; None without it. Raises UsageError when --accel has no modelled time."""
    if arguments.timing is None:
        return None
    if arguments.accel != "tcg":
        raise UsageError("modelled time needs --accel tcg", remedy="leave one out: kvm has seconds of its own")
    return timing.load_model(arguments.timing)


def require_both(arguments: argparse.Namespace) -> None:
    """Raise UsageError when only one of --image and --symbols was given."""
    if bool(arguments.image) != bool(arguments.symbols):
        raise UsageError("--image and --symbols belong together", remedy="name both")
