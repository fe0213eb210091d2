# SPDX-License-Identifier: GPL-2.0-only
"""Find the compiler for arm64 or x86-64: the machine's own if it is such a machine, else a cross compiler.

If the variable LLVM of the environment is set, clang compiles kernels and ld.lld links them, as in kbuild
(Documentation/kbuild/llvm.rst). GCC compiles everything else.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import time
from dataclasses import dataclass

from lull import process
from lull.errors import MissingError, UsageError
from lull.requirements import Requirement, apt_line, missing

TRIPLETS = {"arm64": "aarch64-linux-gnu-", "x86_64": "x86_64-linux-gnu-"}
"""ARCH of the kernel's build -> the prefix of the cross compiler's commands."""
IMAGES = {"arm64": "arch/arm64/boot/Image", "x86_64": "arch/x86/boot/bzImage"}
"""ARCH -> the bootable image that the build makes."""
GCC = "gcc-12"
"""The compiler that is taken where it is installed: Debian 12 and 13 have it, and the published counts are of it."""
NEWEST = "-22"
"""Suffix of Debian's newest LLVM: both Debian 12 and 13 have it."""
LLVM_PROGRAMS = {"clang": "clang", "lld": "ld.lld", "llvm": "llvm-objcopy"}
"""Debian's package without its suffix -> a program of it that a build with LLVM needs, by which it is found."""


@dataclass(frozen=True)
class Toolchain:
    """The compilers for Linux and for the guest's programs.

    Args:
        prefix: CROSS_COMPILE of GCC; empty for the machine's own.
        version: the first line of ``gcc --version``, part of the key of every program.
        arch: ARCH of the kernel's build.
        llvm: LLVM of the kernel's build; empty if GCC builds the kernel.
        llvm_version: the versions of clang and ld.lld in one line.
        name: the command name of GCC without the prefix.
    """

    prefix: str
    version: str
    arch: str = "arm64"
    llvm: str = ""
    llvm_version: str = ""
    name: str = "gcc"

    @property
    def gcc(self) -> str:
        """The command name of the C compiler of programs."""
        return f"{self.prefix}{self.name}"

    @property
    def kernel_cc(self) -> str:
        """The command name of the C compiler of kernels."""
        return llvm_program(self.llvm, "clang") if self.llvm else self.gcc

    @property
    def kernel_version(self) -> str:
        """What compiles the kernel, part of the key of every kernel."""
        return self.llvm_version or self.version

    @property
    def nm(self) -> str:
        """The command name of nm, which lists symbols."""
        return f"{self.prefix}nm"

    @property
    def image(self) -> str:
        """The path of the bootable image in the folder of a build."""
        return IMAGES[self.arch]

    def make_variables(self) -> list[str]:
        """The variables for the kernel's make that choose the compiler."""
        # Empty values override variables of the environment, which are no part of a build's key.
        chosen = (
            [f"LLVM={self.llvm}", "LLVM_IAS=1", "CROSS_COMPILE="]
            if self.llvm
            else [f"CROSS_COMPILE={self.prefix}", "LLVM="]
        )
        return [f"ARCH={self.arch}", *chosen, "KCFLAGS=", "KAFLAGS=", "LOCALVERSION="]


def host_is_arm64() -> bool:
    """Return true on an arm64 machine, which has a native compiler and, if /dev/kvm is there, KVM."""
    return platform.machine() == "aarch64"


def host_is_x86() -> bool:
    """Return true on an x86-64 machine, whose own compiler makes programs for x86-64."""
    return platform.machine() == "x86_64"


def kvm_usable() -> bool:
    """Return true if this machine can run arm64 guests under KVM."""
    return host_is_arm64() and os.access("/dev/kvm", os.R_OK | os.W_OK)


def llvm_program(llvm: str, name: str) -> str:
    """The command of LLVM's program ``name``, as kbuild makes it of LLVM: ``1``, a suffix, or a folder."""
    return f"{llvm}{name}" if llvm.endswith("/") else f"{name}{llvm.removeprefix('1')}"


def find_llvm(value: str) -> tuple[str, str]:
    """What kbuild calls LLVM, and the versions of its clang and ld.lld in one line.

    Args:
        value: LLVM as the user has it. ``1`` is NEWEST where there are no programs without a suffix, as in Debian.

    Raises: UsageError for a value that does not name programs, MissingError when they are not installed.
    """
    if not re.fullmatch(r"1|-[0-9.]+|[^\s\"'$#]*/", value):
        raise UsageError(
            f"LLVM={value} in the environment names no compiler",
            remedy="1: clang; -22: clang-22; a path that ends in /: the clang there; unset: GCC",
        )
    if value.endswith("/"):
        value = f"{os.path.abspath(value)}/".replace("//", "/")
    for llvm in ("1", NEWEST) if value == "1" else (value,):
        suffix = llvm if llvm[0] == "-" else NEWEST
        wanted = [Requirement(f"{p}{suffix}", llvm_program(llvm, c), "kernels") for p, c in LLVM_PROGRAMS.items()]
        if not (packages := missing(wanted)):
            lines = [process.output_of([r.probe, "--version"]).splitlines()[0] for r in wanted[:2]]
            return llvm, ", ".join(line.partition(" (compatible")[0] for line in lines)
    lacking = ", ".join(r.probe for r in wanted if not r.present())
    raise MissingError(f"LLVM={value} needs programs that are not installed: {lacking}", remedy=apt_line(packages))


def find(arch: str = "arm64", llvm: str = "") -> Toolchain:
    """The compilers to use for ``arch``.

    Args:
        llvm: LLVM as the user has it (``find_llvm``); empty: GCC compiles kernels, too.

    Raises: MissingError when a compiler is not installed, UsageError for a wrong value of LLVM.
    """
    native = host_is_arm64() if arch == "arm64" else host_is_x86()
    prefix = "" if native else TRIPLETS[arch]
    name = next((name for name in (GCC, "gcc") if shutil.which(prefix + name)), "")
    if not name:
        raise MissingError(f"no compiler for {arch} ({prefix}gcc)", remedy="'./lull doctor' names the package")
    version = process.output_of([prefix + name, "--version"]).splitlines()[0]
    return Toolchain(prefix, version, arch, *(find_llvm(llvm) if llvm else ("", "")), name)


def jobs() -> int:
    """How many compilers to run at once: one per CPU this process may use."""
    return len(os.sched_getaffinity(0))


SAMPLE_SECONDS = 0.0035
"""What ``sample`` takes on the machine on which the lab's time limits and its forecasts were made."""


def sample() -> float:
    """Seconds of CPU that a short loop of Python takes. Other load of the machine hardly counts."""
    started = time.thread_time()
    number = 0
    for step in range(100_000):
        number ^= step
    return time.thread_time() - started


@functools.cache
def slowness() -> float:
    """How many times longer this machine computes than the one of SAMPLE_SECONDS; 1 for a faster one."""
    return max(1.0, min(sample() for _ in range(5)) / SAMPLE_SECONDS)
