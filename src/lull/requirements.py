# SPDX-License-Identifier: GPL-2.0-only
"""Find out which Debian packages that the lab needs are not installed, and print the command that installs them."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lull import process
from lull.errors import MissingError


@dataclass(frozen=True)
class Requirement:
    """A Debian package that the lab needs.

    Args:
        package: its name.
        probe: what is there when it is installed: a command (``A|B``: one of them), an absolute path, ``python:MODULE``
            or ``perl:MODULE``.
        purpose: what the lab needs it for.
    """

    package: str
    probe: str
    purpose: str

    def present(self) -> bool:
        """Return true if the command, file or module is there."""
        if self.probe.startswith("/"):
            return Path(self.probe).exists()
        if self.probe.startswith("python:"):
            return importlib.util.find_spec(self.probe.removeprefix("python:")) is not None
        if self.probe.startswith("perl:"):
            module = self.probe.removeprefix("perl:")
            return bool(shutil.which("perl")) and process.complete(["perl", f"-M{module}", "-e", "1"]).status == 0
        return any(map(shutil.which, self.probe.split("|")))


def missing(wanted: Iterable[Requirement]) -> list[str]:
    """The packages that are not installed, each once."""
    return list(dict.fromkeys(r.package for r in wanted if not r.present()))


def require(what: str, wanted: Iterable[Requirement]) -> None:
    """Raise MissingError when packages that ``what`` needs are not installed."""
    if packages := missing(wanted):
        raise MissingError(f"{what} needs {', '.join(packages)}", remedy=apt_line(packages))


def apt_line(packages: Iterable[str]) -> str:
    """A remedy with the command that installs the packages."""
    return f"as root: apt-get install --no-install-recommends {' '.join(packages)}"
