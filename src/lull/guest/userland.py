# SPDX-License-Identifier: GPL-2.0-only
"""Build the guest's disk with Debian's programs: packages, unpacked into the image of an ext4 file system.

No step needs root, and nothing of a package is executed: dpkg-deb unpacks files, mke2fs -d (mke2fs(8)) writes them to
the image, and fakeroot keeps their owners.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lull import cache, paths, process, toml
from lull.errors import BuildError, FetchError
from lull.linux import apt
from lull.linux.fetch import Fetched, Store
from lull.progress import progress

SCRIPT = paths.REAL / "mkdisk"
ROOM_MIB = 1024
"""MiB of free space on the disk for what a guest writes. The image is a sparse file."""
SPACE = 10
"""Bytes that the build needs in the cache for each byte that is downloaded: packages, unpacked files, image. Measured:
910 MB for a download of 103 MB."""


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


def load(path: Path) -> Userland:
    """The userland of a TOML file. Raises UsageError when it is not well formed."""
    with toml.reading("a userland file", path, f"{paths.REAL / 'userland.toml'} is an example"):
        return toml.made(Userland, toml.load(path))


def build(store: Store, wanted: Userland) -> Path:
    """The path of the disk's image, from the cache or built. Raises FetchError, BuildError."""
    name = f"userland-{cache.key_of(repr(wanted), SCRIPT.read_text(), str(ROOM_MIB))}"
    found = store.have(name)
    if not found:
        private = store.guest_apt()
        files = private.closure(wanted.packages, [package for _, package in wanted.sources])

        def make(part: Path) -> None:
            size = sum(int(line.split()[2]) for line in files.splitlines())
            cache.need_space(part, SPACE * size / 2**30, "the guest's disk")
            fetch(private, wanted, part, store.log)
            write_image(wanted, part)
            cache.write_atomic(part / "packages", files + "\n")

        path = cache.make_entry("guest", f"{name}-{cache.key_of(files)}", make, resume=True)
        found = store.remember(name, Fetched(apt.Package(name, apt.codename(), ""), path))
    return found.path / "disk.img"


def fetch(private: apt.PrivateApt, wanted: Userland, folder: Path, log: Path) -> None:
    """Download packages to ``folder``/debs, and download and unpack sources to ``folder``/src. Raises FetchError."""
    with progress.step(f"fetching {len(wanted.packages)} Debian packages for the guest"):
        private.download_closure(wanted.packages, folder / "debs", log)
        for place, package in wanted.sources:
            found = apt.tarballs(private.download_source(package, folder / "fetched" / place, log))
            if "" not in found:
                raise FetchError(f"the source of {package} has no tarball", where=str(folder))
            for below, tarball in sorted(found.items()):
                unpack_source(tarball, folder / "src" / place / below, log)


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
    for used in ("debs", "src", "fetched"):
        shutil.rmtree(folder / used, ignore_errors=True)
