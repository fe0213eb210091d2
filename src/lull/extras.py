# SPDX-License-Identifier: GPL-2.0-only
"""Python packages that one command alone needs: not in everybody's environment, fetched when it is first called."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from lull import cache, paths, process
from lull.errors import FetchError
from lull.kernel.tree import waiting
from lull.progress import progress


def use(name: str, *, offline: bool) -> None:
    """Make the packages of requirements-NAME.txt importable, behind those of the environment.

    Raises: FetchError when they are not in the cache and cannot be fetched.
    """
    place = str(fetched(name, offline=offline))
    if place not in sys.path:
        sys.path.append(place)


def fetched(name: str, *, offline: bool) -> Path:
    """The folder of the packages of requirements-NAME.txt: as the launcher's environment, pinned and keyed by content.

    Raises: FetchError.
    """
    listed = paths.REPOSITORY / f"requirements-{name}.txt"

    def make(part: Path) -> None:
        if offline:
            raise FetchError(
                f"the packages of {listed.name} are not in the cache, and --offline forbids to fetch them",
                remedy=f"run 'lull {name}' once with a network",
            )
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        only = ["--no-compile", "--require-hashes", "--only-binary", ":all:"]
        with progress.step(f"fetching the packages of {listed.name} (once)"):
            process.run_logged(
                [*pip, *only, "--target", part, "-r", listed],
                part.parent / f"{part.name}.log",
                error=FetchError,
                what=f"the packages of {listed.name} could not be fetched (network, disk?)",
                remedy="run again to retry",
            )

    key = cache.key_of_files([listed], sys.version, platform.machine())
    return cache.make_entry("python", f"{name}-{key}", make, waiting=waiting)
