# SPDX-License-Identifier: GPL-2.0-only
"""Fetch what the lab does not build: the kernel's source package, busybox and libraries for the guest.

``fetched.json`` in the cache records what was fetched: later runs use the same versions and need no network. ``lull
fetch`` looks for newer versions. ``lull.guest.qemu`` and ``lull.guest.userland`` fetch more with the same Store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lull import cache
from lull.base import Base
from lull.errors import FetchError
from lull.linux import apt
from lull.progress import progress, say

BUSYBOX = "busybox-static"


@dataclass(frozen=True)
class Fetched:
    """A fetched package, and the folder or file in the cache that has it."""

    package: apt.Package
    path: Path


class Store:
    """The fetched packages by name, and the means to fetch more.

    Args:
        offline: never use the network.
        refresh: look for newer versions of what is already there.
    """

    def __init__(self, *, offline: bool = False, refresh: bool = False) -> None:
        self.offline = offline
        self.refresh = refresh
        self.index = cache.root() / "fetched.json"
        self.log = cache.root() / "apt" / "fetch.log"
        self.updated: set[str] = set()

    def known(self, name: str) -> Fetched | None:
        """The entry ``name`` of fetched.json, or None when there is none or its files are gone."""
        try:
            raw: dict[str, Any] = json.loads(self.index.read_text())[name]
            fetched = Fetched(apt.Package(**raw["package"]), Path(raw["path"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return fetched if fetched.path.exists() else None

    def remember(self, name: str, fetched: Fetched) -> Fetched:
        """Write ``fetched`` to fetched.json under ``name``, and return it."""
        with cache.disk_errors(self.index), cache.lock(cache.root() / "locks" / "fetched"):
            try:
                raw = json.loads(self.index.read_text())
            except (OSError, ValueError):
                raw = {}
            raw[name] = {"package": vars(fetched.package), "path": str(fetched.path)}
            cache.write_atomic(self.index, json.dumps(raw, indent=1) + "\n")
        return fetched

    def have(self, name: str) -> Fetched | None:
        """The entry ``name``, or None when it has to be fetched.

        Raises: FetchError when it has to be fetched but ``offline`` forbids that.
        """
        found = self.known(name)
        if found and (self.offline or not self.refresh):
            return found
        if self.offline:
            raise FetchError(
                f"{name} is not in the cache, and --offline forbids the download",
                where=str(cache.root()),
                remedy="run './lull fetch', with the same --base and --suite, once with a network",
            )
        return None

    def guest_apt(self) -> apt.PrivateApt:
        """A private apt that acts as on an arm64 machine of the same release with no package installed."""
        return self.fresh(apt.PrivateApt(apt.machine_sources(), ["arm64"], bare=True))

    def fresh(self, private: apt.PrivateApt) -> apt.PrivateApt:
        """``private``, its indexes fetched if this process has not done so yet. Raises FetchError."""
        if private.key not in self.updated:
            with progress.step("fetching package indexes"):
                private.update(self.log)
            self.updated.add(private.key)
        return private

    def private_apt_with(
        self,
        package: str,
        choices: Sequence[Sequence[str]],
        fits: Callable[[str], bool] = lambda version: True,
        architecture: str = "arm64",
    ) -> apt.PrivateApt:
        """The first private apt that has ``package`` in a version that ``fits``, or else the last one that was tried.

        Args:
            choices: sets of further suites, tried in turn. Suites of later sets are not asked for when an earlier set
                suffices, because a mirror may lack them.
            fits: returns true for a version that will do.
            architecture: whose packages are wanted, besides the host's.

        Raises: FetchError when an index cannot be fetched, MissingError on a host without apt.
        """
        for suites in choices:
            sources = apt.with_suites(apt.machine_sources(), [s for s in suites if s])
            private = self.fresh(apt.PrivateApt(sources, list(dict.fromkeys([apt.host_architecture(), architecture]))))
            if any(fits(v) for v in private.versions(package)):
                break
        return private

    def one_package(
        self, name: str, private: apt.PrivateApt, remedy: str, fits: Callable[[str], bool] = lambda version: True
    ) -> Fetched:
        """Download the newest version of ``name`` that ``fits``, or else the newest of all, into the cache.

        Args:
            remedy: what the user can do when no archive has the package.

        Raises: FetchError when no archive has the package, or the download fails.
        """
        package = private.candidate(name, fits) or private.candidate(name)
        if package is None:
            raise FetchError(f"no archive of this machine has {name}", where=str(private.home), remedy=remedy)

        def make(part: Path) -> None:
            with progress.step(f"fetching {package.name} {package.version}"):
                private.download(package, part, self.log)

        plain = re.sub(r"[^\w.-]", "_", name)
        path = cache.make_entry("fetch", f"{plain}-{package.sha256[: cache.KEY_LENGTH]}", make, resume=True)
        return Fetched(package, next(path.glob("*.deb")))

    def kernel_source(self, base: Base) -> Fetched:
        """The base's source package, a .deb, in a version that the features were tested on, or else the newest.

        Raises: FetchError when the base has no package, no archive has it, or the download fails.
        """
        if not base.package:
            raise FetchError(f"base {base.name} has no source package", remedy="name its source tree with --tree PATH")
        if found := self.have(base.package):
            return found

        def tried(version: str) -> bool:
            return not base.tried or version.partition("-")[0] in base.tried

        private = self.private_apt_with(base.package, [[], backports(), [*backports(), base.suite]])
        fetched = self.one_package(base.package, private, apt.NO_CANDIDATE_REMEDY, tried)
        if not tried(fetched.package.version):
            say(
                f"the archive has {base.package} {fetched.package.version}; "
                f"the features were tested on {', '.join(base.tried)}"
            )
        return self.remember(base.package, fetched)

    def busybox(self, architecture: str = "arm64") -> Path:
        """The path of a static busybox for the guest, of a Debian architecture. Raises FetchError."""
        package = f"{BUSYBOX}:{architecture}"
        name = "busybox" if architecture == "arm64" else f"busybox-{architecture}"
        folder = self.unpacked(name, [package], lambda: self.private_apt_with(package, [[]], architecture=architecture))
        return next(p for p in (folder / "bin/busybox", folder / "usr/bin/busybox") if p.exists())

    def libraries(self, names: Sequence[str]) -> Path:
        """A folder with the unpacked arm64 packages ``names``: libraries and their headers. Raises FetchError."""
        return self.unpacked("libraries-" + "-".join(names), names, self.guest_apt)

    def unpacked(self, name: str, packages: Sequence[str], private: Callable[[], apt.PrivateApt]) -> Path:
        """A folder with the unpacked ``packages``, remembered as ``name``. Raises FetchError."""
        found = self.have(name)
        if not found:
            archive = private()
            fetched = [self.one_package(p, archive, "it is in Debian's main archive") for p in packages]

            def make(part: Path) -> None:
                for one in fetched:
                    apt.unpack(one.path, part, self.log)

            key = cache.key_of(*(one.package.sha256 for one in fetched))
            path = cache.make_entry("guest", f"{name}-{key}", make)
            found = self.remember(name, Fetched(fetched[0].package, path))
        return found.path


def backports() -> list[str]:
    """The name of the backports suite of the machine's release, as a list."""
    return [f"{apt.codename()}-backports"]
