# SPDX-License-Identifier: GPL-2.0-only
"""Fetch what the lab does not build: the kernel's source package, busybox and libraries for the guest.

Everything is pinned (``lull.linux.pins``). Where no archive has the pinned file any more, the newest version that the
machine's archives have takes its place, with a notice. ``fetched.json`` in the cache records what was fetched: later
runs use the same files and need no network. ``lull.guest.qemu`` and ``lull.guest.userland`` fetch more with the same
Store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lull import cache
from lull.base import Base, Pin, Source
from lull.errors import FetchError
from lull.linux import apt, pins
from lull.progress import progress, say

BUSYBOX = "busybox-static"
LIBRARIES = "libraries"
"""The group of pinned packages with libraries for Linux's own tests."""


@dataclass(frozen=True)
class Fetched:
    """A fetched package, and the folder or file in the cache that has it."""

    package: apt.Package
    path: Path


class Store:
    """The fetched packages by name, and the means to fetch more.

    Args:
        offline: never use the network.
    """

    def __init__(self, *, offline: bool = False) -> None:
        self.offline = offline
        self.index = cache.root() / "fetched.json"
        self.log = cache.root() / "apt" / "fetch.log"
        self.updated: dict[str, apt.PrivateApt] = {}

    def entries(self) -> dict[str, Any]:
        """What fetched.json has; nothing if the file is missing, malformed or of a version of Lull that had another."""
        try:
            raw = json.loads(self.index.read_text())
        except (OSError, ValueError):
            return {}
        return raw if isinstance(raw, dict) else {}

    def known(self, name: str) -> Fetched | None:
        """The entry ``name`` of fetched.json, or None when there is none or its files are gone."""
        try:
            raw = self.entries()[name]
            # Relative to the cache, which may have been moved. Earlier versions wrote absolute paths.
            fetched = Fetched(apt.Package(**raw["package"]), self.index.parent / raw["path"])
        except (KeyError, TypeError):
            return None
        return fetched if fetched.path.exists() else None

    def remember(self, name: str, fetched: Fetched) -> Fetched:
        """Write ``fetched`` to fetched.json under ``name``, and return it."""
        with cache.disk_errors(self.index), cache.lock(cache.root() / "locks" / "fetched"):
            path = str(fetched.path.relative_to(cache.root()))
            raw = self.entries() | {name: {"package": vars(fetched.package), "path": path}}
            cache.write_atomic(self.index, json.dumps(raw, indent=1) + "\n")
        return fetched

    def have(self, name: str) -> Fetched | None:
        """The entry ``name``, or None when it has to be fetched.

        Raises: FetchError when it has to be fetched but ``offline`` forbids that.
        """
        found = self.known(name)
        if not found and self.offline:
            raise FetchError(
                f"{name} is not in the cache, and --offline forbids the download",
                where=str(cache.root()),
                remedy="run './lull fetch', with the same --base and --suite, once with a network",
            )
        return found

    def fresh(self, private: apt.PrivateApt) -> apt.PrivateApt:
        """``private`` with its indexes fetched, once for each process; without the suites that cannot be fetched.

        A mirror may lack suites, or an old copy may have expired: they are named.

        Raises: FetchError if no suite can be fetched.
        """
        if private.key not in self.updated:
            self.updated[private.key] = self.fetched_indexes(private)
        return self.updated[private.key]

    def fetched_indexes(self, private: apt.PrivateApt) -> apt.PrivateApt:
        """See ``fresh``."""
        try:
            with progress.step("fetching package indexes"):
                private.update(self.log)
        except FetchError as error:
            accepted = private.accepted()
            missing = list(dict.fromkeys(s.suite for s in private.sources if s not in accepted))
            if not accepted or not missing:
                raise
            say(f"left out: {', '.join(missing)}: {error.what}")
            return self.fresh(apt.PrivateApt(accepted, private.architectures, bare=private.bare))
        return private

    def archives(
        self, suites: Sequence[str] = (), architecture: str = "arm64", *, bare: bool = False, alone: bool = False
    ) -> apt.PrivateApt:
        """A private apt with the archives of the machine's release, its backports and ``suites``.

        Args:
            architecture: whose packages are wanted, besides the host's.
            bare: act as a machine of ``architecture`` without any package (``apt.PrivateApt``).
            alone: with ``suites`` only.

        Raises: FetchError when no index can be fetched, MissingError on a host without apt.
        """
        sources = apt.with_suites(apt.machine_sources(), suites if alone else [*backports(), *suites])
        sources = [source for source in sources if not alone or source.suite in suites]
        host = [] if bare else [apt.host_architecture()]
        return self.fresh(apt.PrivateApt(sources, list(dict.fromkeys([*host, architecture])), bare=bare))

    def pinned(self, wanted: Sequence[Pin], what: str) -> Path:
        """A folder in the cache with these files of Debian's archives. Raises FetchError when one is nowhere."""

        def make(part: Path) -> None:
            gib = 2 * sum(pin.size for pin in wanted) / 2**30
            cache.need_space(part, gib, f"fetching {what}")
            with progress.step(f"fetching {what}"):
                pins.download_pins(wanted, part, self.log)

        return cache.make_entry("fetch", f"{wanted[0].package}-{pins.key(wanted)}", make, resume=True)

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
        """The base's source: Debian's pinned package (a .deb), or else what takes its place, with a notice.

        That is the release of the same version in the archive of kernel releases (a tarball), or else the newest
        package of the series in Debian's archives.

        Raises: FetchError when the base has no package, or nothing of it can be had.
        """
        if not base.source.package:
            raise FetchError(f"base {base.name} has no source package", remedy="name its source tree with --tree PATH")
        name = kernel_entry(base.source)
        return self.have(name) or self.remember(name, self.fetch_kernel(base.source))

    def fetch_kernel(self, source: Source) -> Fetched:
        """See ``kernel_source``."""
        answers = []
        gone = f"no archive has {source.package} {source.tested} any more"
        for fetch in (self.pinned_kernel, self.kernel_release, self.newest_kernel):
            try:
                found = fetch(source)
            except FetchError as error:
                answers.append(error.tail or error.what)
                continue
            if fetch == self.kernel_release:
                say(f"{gone}: using {source.release}, which lacks Debian's patches")
            elif fetch == self.newest_kernel and source.pin:
                version = found.package.version
                say(f"{gone}: using the newest, {version}; the features were tested on {source.tested}")
            return found
        raise FetchError(
            f"no archive that this machine reaches has {source.package}",
            tail="\n".join(filter(None, answers)),
            where=str(self.log),
            remedy="check the network and run again (once everything is fetched, --offline needs none); or download "
            f"{source.release or 'the kernel'}, unpack it, and name the folder with --tree PATH",
        )

    def pinned_kernel(self, source: Source) -> Fetched:
        """The pinned source package. Raises FetchError."""
        if not (pin := source.pin):
            raise FetchError("")
        path = self.pinned([pin], f"{pin.package} {pin.version}") / pin.name
        return Fetched(apt.Package(pin.package, pin.version, pin.sha256), path)

    def newest_kernel(self, source: Source) -> Fetched:
        """The newest source package in the archives. Raises FetchError."""
        return self.one_package(source.package, self.archives(source.suites), apt.NO_CANDIDATE_REMEDY)

    def kernel_release(self, source: Source) -> Fetched:
        """A tarball of the archive of kernel releases, with the hash that the list beside it has. Raises FetchError."""
        folder, _, name = source.release.rpartition("/")
        if not name:
            raise FetchError("")

        def make(part: Path) -> None:
            with progress.step(f"fetching {source.release}"):
                sums = part / "sha256sums.asc"
                fetch_url(f"{folder}/{sums.name}", sums, "", self.log)
                listed = re.search(rf"(?m)^([0-9a-f]{{64}}) [ *]{re.escape(name)}$", sums.read_text(errors="replace"))
                if not listed:
                    raise FetchError(f"{folder}/{sums.name} does not list {name}")
                fetch_url(source.release, part / name, listed[1], self.log)

        path = cache.make_entry("fetch", name, make, resume=True) / name
        return Fetched(apt.Package(name, source.tested, apt.hash_of(path)), path)

    def busybox(self, architecture: str = "arm64") -> Path:
        """The path of a static busybox for the guest, of a Debian architecture. Raises FetchError."""
        folder = self.unpacked(f"busybox-{architecture}", [f"{BUSYBOX}:{architecture}"], architecture)
        return next(p for p in (folder / "bin/busybox", folder / "usr/bin/busybox") if p.exists())

    def libraries(self, names: Sequence[str]) -> Path:
        """A folder with the unpacked arm64 packages ``names``: libraries and their headers. Raises FetchError."""
        return self.unpacked(LIBRARIES, names, "arm64")

    def unpacked(self, group: str, packages: Sequence[str], architecture: str) -> Path:
        """A folder with the unpacked ``packages``: the pinned ones of ``group``, or else the newest, with a notice.

        Raises: FetchError.
        """
        wanted = pins.load_pins(group)
        name = unpacked_entry(group, packages)
        if found := self.have(name):
            return found.path
        debs = self.files_of(wanted, group) if wanted else []
        if not debs:
            private = self.archives([], architecture)
            debs = [self.one_package(p, private, "it is in Debian's main archive").path for p in packages]

        def make(part: Path) -> None:
            for deb in debs:
                apt.unpack_deb(deb, part, self.log)

        path = cache.make_entry("guest", f"{group}-{cache.key_of(*map(apt.hash_of, debs))}", make)
        version = debs[0].name.split("_")[1]
        return self.remember(name, Fetched(apt.Package(packages[0], version, ""), path)).path

    def files_of(self, wanted: Sequence[Pin], what: str) -> list[Path]:
        """The pinned files; none, with a notice, when no archive has one of them."""
        try:
            folder = self.pinned(wanted, what)
        except FetchError as error:
            say(f"{what}: {error.what}: using the newest packages instead\n  | " + error.tail.replace("\n", "\n  | "))
            return []
        return [folder / pin.name for pin in wanted]


def fetch_url(url: str, path: Path, sha256: str, log: Path) -> None:
    """Download one file. Raises FetchError with the cause."""
    if failed := apt.download_files({url: (path, sha256)}, log):
        raise FetchError(f"{url}: {failed[url]}", where=str(log))


def unpacked_entry(group: str, packages: Sequence[str]) -> str:
    """The name in fetched.json of a group's unpacked packages: other pins are another entry."""
    return f"{group}-{cache.key_of(pins.key(pins.load_pins(group)), *packages)}"


def busybox_entry(architecture: str = "arm64") -> str:
    """The name of the guest's busybox in fetched.json."""
    return unpacked_entry(f"busybox-{architecture}", [f"{BUSYBOX}:{architecture}"])


def kernel_entry(source: Source) -> str:
    """The name of a base's source in fetched.json: another pin is another entry."""
    return f"{source.package}-{source.sha256[:8]}" if source.pin else source.package


def backports() -> list[str]:
    """The name of the backports suite of the machine's release, as a list."""
    return [f"{apt.codename()}-backports"]
