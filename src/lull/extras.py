# SPDX-License-Identifier: GPL-2.0-only
"""Fetch Python packages when they are first needed: the tool's own, and those that only one command uses.

Each set is a folder in the cache, and no virtual environment: the launcher starts Python without the machine's packages
(``-S``), so that a folder in its path is enough, wherever the cache is moved.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from lull import cache, paths, process
from lull.errors import FetchError
from lull.progress import progress

TOOL = ""
"""The packages of requirements.txt, which most commands need."""


def use(name: str, *, offline: bool) -> None:
    """Make the packages of requirements-NAME.txt importable, unless they are. Those that are found first win.

    Raises: FetchError when they are not in the cache and cannot be fetched.
    """
    if not importable(name):
        sys.path.append(str(fetched(name, offline=offline)))


def listed(name: str) -> Path:
    """The file that lists the packages ``name``, each pinned by its hash."""
    return paths.REPOSITORY / f"requirements{name and '-'}{name}.txt"


def importable(name: str) -> bool:
    """Return true if Python finds the packages ``name``, each in the version that is asked for."""
    lines = listed(name).with_suffix(".in").read_text().splitlines()
    wanted = [line.split("==") for line in lines if not line.startswith("#")]
    try:
        return all(metadata.version(package) == version for package, version in wanted)
    except metadata.PackageNotFoundError:
        return False


def fetched(name: str, *, offline: bool) -> Path:
    """The folder in the cache with the packages of requirements-NAME.txt, which pins each by its hash.

    Raises: FetchError.
    """
    packages = listed(name)

    def make(part: Path) -> None:
        if offline:
            raise FetchError(
                f"the packages of {packages.name} are not in the cache, and --offline forbids the download",
                remedy="run the same command once with a network",
            )
        only = ["--no-compile", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        with progress.step(f"fetching the packages of {packages.name} (once)"):
            pip(part, ["install", *only, "--target", part, "-r", packages])
        # Their first line names a Python that is gone; what is needed of them is called with python -m.
        for script in part.glob("bin/*"):
            if script.read_bytes().startswith(b"#!"):
                script.unlink()

    key = cache.key_of_files([packages], sys.version, platform.machine())
    return cache.make_entry("python", f"{name or 'tool'}-{key}", make)


def pip(part: Path, words: Sequence[str | Path]) -> None:
    """Run a command of pip, which is in a virtual environment in ``part`` meanwhile, and has its temporary files there.

    Raises: FetchError; DiskFull within ``cache.disk_errors``.
    """
    place, log = part / ".pip", part.parent / f"{part.name}.log"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    argv: Sequence[str | Path]
    for argv in (sys.executable, "-m", "venv", place), (place / "bin/python", "-m", "pip", *quiet, *words):
        process.run_logged(
            argv,
            log,
            env={"TMPDIR": str(place)} if place.exists() else None,
            error=FetchError,
            what="Python packages could not be fetched (network, disk?)",
            remedy="run again to retry",
        )
    shutil.rmtree(place)
