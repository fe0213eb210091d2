# SPDX-License-Identifier: GPL-2.0-only
"""The arm64 compiler: a cross compiler, or the machine's own on an arm64 host."""

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
        version: first line of ``gcc --version``; part of every build's key.
        ccache: the kernel is compiled through ccache.
    """

    prefix: str
    version: str
    ccache: bool

    @property
    def gcc(self) -> str:
        """The C compiler's command name."""
        return f"{self.prefix}gcc"

    @property
    def nm(self) -> str:
        """The symbol lister's command name."""
        return f"{self.prefix}nm"

    def make_variables(self) -> list[str]:
        """What the kernel's make is told about the compiler."""
        # What a kernel developer may have exported must not reach a build that is keyed without it.
        variables = ["ARCH=arm64", f"CROSS_COMPILE={self.prefix}", "LLVM=", "KCFLAGS=", "KAFLAGS=", "LOCALVERSION="]
        return [*variables, f"CC=ccache {self.gcc}"] if self.ccache else variables


def host_is_arm64() -> bool:
    """True on an arm64 machine: native tools, and KVM when /dev/kvm is there."""
    return platform.machine() == "aarch64"


def kvm_usable() -> bool:
    """True when arm64 guests can run under KVM here."""
    return host_is_arm64() and os.access("/dev/kvm", os.R_OK | os.W_OK)


def find() -> Toolchain:
    """The compiler to use. Raises MissingError."""
    prefix = "" if host_is_arm64() else TRIPLET
    if not shutil.which(f"{prefix}gcc"):
        raise MissingError(f"no arm64 compiler ({prefix}gcc)", remedy="'./lull doctor' names the package")
    version = process.output_of([f"{prefix}gcc", "--version"]).splitlines()[0]
    return Toolchain(prefix, version, shutil.which("ccache") is not None)


def jobs() -> int:
    """How many compilers to run at once: one per CPU this process may use."""
    return len(os.sched_getaffinity(0))
