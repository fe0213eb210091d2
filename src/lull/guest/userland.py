# SPDX-License-Identifier: GPL-2.0-only
"""Build the guest's disk with Debian's programs: packages, unpacked into the image of an ext4 file system.

No step needs root, and nothing of a package is executed: dpkg-deb unpacks files, mke2fs -d (mke2fs(8)) writes them to
the image, and fakeroot keeps their owners.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache, paths, process, toml
from lull.base import Pin
from lull.errors import BuildError, FetchError, UsageError
from lull.linux import apt, pins
from lull.linux.fetch import Fetched, Store
from lull.progress import progress

SCRIPT = paths.REAL / "mkdisk"
ROOM_MIB = 1024
"""MiB of free space on the disk for what a guest writes. The image is a sparse file."""
SPACE = 10
"""Bytes that the build needs in the cache for each byte that is downloaded: packages, unpacked files, image. Measured:
910 MB for a download of 103 MB."""
SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
"""Debian's suites whose programs are on the disk: of one release, whatever the host's is."""


@dataclass(frozen=True)
class Userland:
    """The Debian packages of a guest.

    Args:
        packages: names of packages; their dependencies are added.
        links: symbolic links that maintainer scripts would make, as pairs of link and target.
        sources: source packages, as pairs of a folder below usr/src and a package.
    """

    packages: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()


def load_userland(path: Path) -> Userland:
    """The userland of a TOML file. Raises UsageError when it is not well formed."""
    with toml.reading("a userland file", path, f"{paths.REAL / 'userland.toml'} is an example"):
        return toml.made(Userland, toml.load_toml(path))


def build(store: Store, wanted: Userland, pinned: Sequence[Pin] = ()) -> Path:
    """The path of the disk's image, from the cache or built.

    Args:
        pinned: the packages and source tarballs that it is made of. Where no archive has one of them any more, or
            there are none, it is made of the newest in SUITES.

    Raises: FetchError, BuildError; UsageError when a package has no pin.
    """
    check_pins(wanted, pinned)
    name = f"userland-{cache.key_of(repr(wanted), SCRIPT.read_text(), str(ROOM_MIB), pins.key(pinned))}"
    found = store.have(name)
    if not found:
        if pinned and (files := store.files_of(pinned, "the packages of the guest's disk")):
            path = make_disk(wanted, files, f"{name}-pinned")
        else:
            path = make_newest(store, wanted, name)
        found = store.remember(name, Fetched(apt.Package(name, "pinned" if pinned else "newest", ""), path))
    return found.path / "disk.img"


def check_pins(wanted: Userland, pinned: Sequence[Pin]) -> None:
    """Raise UsageError when there are pins, but one of the packages has none."""
    have = {pin.package for pin in pinned}
    if pinned and (lacking := {*wanted.packages, *(package for _, package in wanted.sources)} - have):
        raise UsageError(
            f"{min(lacking)} has no pinned version", where=str(pins.FILE), remedy="write it: ./lull fetch --pin"
        )


def guest_apt(store: Store) -> apt.PrivateApt:
    """A private apt that acts as on an arm64 machine with SUITES and no package installed. Raises FetchError."""
    return store.archives(SUITES, bare=True, alone=True)


def make_newest(store: Store, wanted: Userland, name: str) -> Path:
    """The folder with a disk of the newest packages. Raises FetchError, BuildError."""
    private = guest_apt(store)
    listed = private.closure(wanted.packages, [package for _, package in wanted.sources])
    size = sum(int(line.split()[2]) for line in listed.splitlines())

    def make(part: Path) -> None:
        cache.need_space(part, SPACE * size / 2**30, "the guest's disk")
        fetch_packages(private, wanted, part, store.log)

    debs = cache.make_entry("fetch", f"userland-{cache.key_of(listed)}", make, resume=True)
    files = [path for path in sorted(debs.rglob("*")) if path.is_file() and path.parent.name != "partial"]
    return make_disk(wanted, files, f"{name}-{cache.key_of(listed)}")


def fetch_packages(private: apt.PrivateApt, wanted: Userland, folder: Path, log: Path) -> None:
    """Download the newest packages to ``folder``/debs, and sources to ``folder``/sources. Raises FetchError."""
    with progress.step(f"fetching {len(wanted.packages)} Debian packages for the guest"):
        private.download_closure(wanted.packages, folder / "debs", log)
        for _, package in wanted.sources:
            private.download_source(package, folder / "sources" / package, log)


def make_disk(wanted: Userland, files: Sequence[Path], name: str) -> Path:
    """The folder in the cache with a disk of these packages and source tarballs. Raises FetchError, BuildError."""

    def make(part: Path) -> None:
        cache.need_space(part, SPACE * sum(path.stat().st_size for path in files) / 2**30, "the guest's disk")
        log = part.parent / f"{part.name}.log"
        (part / "debs").mkdir(exist_ok=True)
        for deb in (path for path in files if path.suffix == ".deb"):
            (part / "debs" / deb.name).unlink(missing_ok=True)
            (part / "debs" / deb.name).symlink_to(deb)
        for place, package in wanted.sources:
            found = apt.tarballs([path for path in files if path.name.startswith(f"{package}_")])
            if "" not in found:
                raise FetchError(f"the source of {package} has no tarball", where=str(part))
            for below, tarball in sorted(found.items()):
                unpack_source(tarball, part / "src" / place / below, log)
        write_image(wanted, part)
        cache.write_atomic(part / "packages", "".join(f"{path.name} {apt.hash_of(path)}\n" for path in sorted(files)))

    return cache.make_entry("guest", name, make, resume=True)


def unpack_source(tarball: Path, target: Path, log: Path) -> None:
    """Unpack a tarball without its top folder. Nothing of it is run, and no patch of Debian's is applied."""
    target.mkdir(parents=True, exist_ok=True)
    options = ["--strip-components=1", "--no-same-owner"]
    process.run_logged(["tar", "-xf", tarball, "-C", target, *options], log, error=FetchError)


def write_image(wanted: Userland, folder: Path) -> None:
    """Write ``folder``/disk.img from what ``fetch`` put into ``folder``, and delete the latter. Raises BuildError."""
    cache.write_atomic(folder / "links", "".join(f"{place} {where}\n" for place, where in wanted.links))
    with progress.step("writing the guest's disk"):
        process.run_logged(
            ["fakeroot", "sh", SCRIPT, folder, str(ROOM_MIB)],
            folder.parent / f"{folder.name}.log",
            error=BuildError,
            what="the guest's disk could not be written",
        )
    for used in ("debs", "src"):
        shutil.rmtree(folder / used, ignore_errors=True)
