# SPDX-License-Identifier: GPL-2.0-only
"""Find the compiler for arm64 or x86-64: the machine's own if it is such a machine, else a cross compiler."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import time
from dataclasses import dataclass

from lull import process
from lull.errors import MissingError

TRIPLETS = {"arm64": "aarch64-linux-gnu-", "x86_64": "x86_64-linux-gnu-"}
"""ARCH of the kernel's build -> the prefix of the cross compiler's commands."""
IMAGES = {"arm64": "arch/arm64/boot/Image", "x86_64": "arch/x86/boot/bzImage"}
"""ARCH -> the bootable image that the build makes."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler for Linux.

    Args:
        prefix: CROSS_COMPILE of the kernel's build; empty for the machine's own compiler.
        version: the first line of ``gcc --version``, part of the key of every build.
        arch: ARCH of the kernel's build.
    """

    prefix: str
    version: str
    arch: str = "arm64"

    @property
    def gcc(self) -> str:
        """The command name of the C compiler."""
        return f"{self.prefix}gcc"

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
        variables = [f"ARCH={self.arch}", f"CROSS_COMPILE={self.prefix}", "LLVM=", "KCFLAGS=", "KAFLAGS="]
        return [*variables, "LOCALVERSION="]


def host_is_arm64() -> bool:
    """Return true on an arm64 machine, which has a native compiler and, if /dev/kvm is there, KVM."""
    return platform.machine() == "aarch64"


def host_is_x86() -> bool:
    """Return true on an x86-64 machine, whose own compiler makes programs for x86-64."""
    return platform.machine() == "x86_64"


def kvm_usable() -> bool:
    """Return true if this machine can run arm64 guests under KVM."""
    return host_is_arm64() and os.access("/dev/kvm", os.R_OK | os.W_OK)


def find(arch: str = "arm64") -> Toolchain:
    """The compiler to use for ``arch``. Raises MissingError when it is not installed."""
    native = host_is_arm64() if arch == "arm64" else host_is_x86()
    prefix = "" if native else TRIPLETS[arch]
    if not shutil.which(f"{prefix}gcc"):
        raise MissingError(f"no compiler for {arch} ({prefix}gcc)", remedy="'./lull doctor' names the package")
    version = process.output_of([f"{prefix}gcc", "--version"]).splitlines()[0]
    return Toolchain(prefix, version, arch)


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
