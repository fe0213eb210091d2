# SPDX-License-Identifier: GPL-2.0-only
"""Fetch Python packages that only one command needs, when that command is first used.

They are not in the environment that the launcher makes for every user.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from lull import cache, paths, process
from lull.errors import FetchError
from lull.progress import progress


def use(name: str, *, offline: bool) -> None:
    """Make the packages of requirements-NAME.txt importable. Packages of the environment take precedence.

    Raises: FetchError when they are not in the cache and cannot be fetched.
    """
    place = str(fetched(name, offline=offline))
    if place not in sys.path:
        sys.path.append(place)


def listed(name: str) -> Path:
    """The file that lists the packages ``name``, each pinned by its hash."""
    return paths.REPOSITORY / f"requirements-{name}.txt"


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
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        only = ["--no-compile", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        with progress.step(f"fetching the packages of {packages.name} (once)"):
            process.run_logged(
                [*pip, *only, "--target", part, "-r", packages],
                part.parent / f"{part.name}.log",
                error=FetchError,
                what=f"the packages of {packages.name} could not be fetched (network, disk?)",
                remedy="run again to retry",
            )

    key = cache.key_of_files([packages], sys.version, platform.machine())
    return cache.make_entry("python", f"{name}-{key}", make)
