# SPDX-License-Identifier: GPL-2.0-only
"""Find the arm64 compiler: a cross compiler, or on an arm64 host the machine's own."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass

from lull import process
from lull.errors import MissingError

TRIPLET = "aarch64-linux-gnu-"


@dataclass(frozen=True)
class Toolchain:
    """A compiler for arm64 Linux.

    Args:
        prefix: CROSS_COMPILE of the kernel's build; empty for the machine's own compiler.
        version: the first line of ``gcc --version``, part of the key of every build.
        ccache: whether the kernel is compiled through ccache.
    """

    prefix: str
    version: str
    ccache: bool

    @property
    def gcc(self) -> str:
        """The command name of the C compiler."""
        return f"{self.prefix}gcc"

    @property
    def nm(self) -> str:
        """The command name of nm, which lists symbols."""
        return f"{self.prefix}nm"

    def make_variables(self) -> list[str]:
        """The variables for the kernel's make that choose the compiler."""
        # Empty values override variables of the environment, which are no part of a build's key.
        variables = ["ARCH=arm64", f"CROSS_COMPILE={self.prefix}", "LLVM=", "KCFLAGS=", "KAFLAGS=", "LOCALVERSION="]
        return [*variables, f"CC=ccache {self.gcc}"] if self.ccache else variables


def host_is_arm64() -> bool:
    """Return true on an arm64 machine, which has a native compiler and, if /dev/kvm is there, KVM."""
    return platform.machine() == "aarch64"


def kvm_usable() -> bool:
    """Return true if this machine can run arm64 guests under KVM."""
    return host_is_arm64() and os.access("/dev/kvm", os.R_OK | os.W_OK)


def find() -> Toolchain:
    """The compiler to use. Raises MissingError when it is not installed."""
    prefix = "" if host_is_arm64() else TRIPLET
    if not shutil.which(f"{prefix}gcc"):
        raise MissingError(f"no arm64 compiler ({prefix}gcc)", remedy="'./lull doctor' names the package")
    version = process.output_of([f"{prefix}gcc", "--version"]).splitlines()[0]
    return Toolchain(prefix, version, shutil.which("ccache") is not None)


def jobs() -> int:
    """How many compilers to run at once: one per CPU this process may use."""
    return len(os.sched_getaffinity(0))
