# SPDX-License-Identifier: GPL-2.0-only
"""What is needed of the machine, package by package, and the one line that installs what is missing."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lull import process


@dataclass(frozen=True)
class Requirement:
    """A package, how to see that it is there (a command, a file, python:MODULE, perl:MODULE), and what it is for."""

    package: str
    probe: str
    purpose: str

    def present(self) -> bool:
        """Is the command, file or module there?"""
        if self.probe.startswith("/"):
            return Path(self.probe).exists()
        if self.probe.startswith("python:"):
            return importlib.util.find_spec(self.probe.removeprefix("python:")) is not None
        if self.probe.startswith("perl:"):
            return process.complete(["perl", f"-M{self.probe.removeprefix('perl:')}", "-e", "1"]).status == 0
        return shutil.which(self.probe) is not None


def missing(wanted: Iterable[Requirement]) -> list[str]:
    """The packages that are not there, each once."""
    return list(dict.fromkeys(r.package for r in wanted if not r.present()))


def apt_line(packages: Iterable[str]) -> str:
    """What installs packages."""
    return f"as root: apt-get install --no-install-recommends {' '.join(packages)}"
