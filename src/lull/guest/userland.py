# SPDX-License-Identifier: GPL-2.0-only
"""Debian's programs for the guest: packages unpacked into the image of an ext4 file system.

Nothing needs root, and nothing of a package is run: dpkg-deb lists files, mke2fs -d (mke2fs(8)) writes them, fakeroot
keeps what they are owned by.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lull import cache, paths, process
from lull.errors import BuildError, FetchError, UsageError
from lull.kernel import apt
from lull.kernel.fetch import Fetched, Store
from lull.kernel.tree import waiting
from lull.progress import progress

SCRIPT = paths.REAL / "mkdisk"
ROOM_MIB = 1024
"""What guests may write to the disk; the image's file is sparse."""
SPACE = 10
"""Bytes of the cache for one that is fetched: packages, their files, the image. Of 103 MB were made 910."""


@dataclass(frozen=True)
class Userland:
    """What a guest has of Debian.

    Args:
        packages: with all they depend on.
        links: symbolic links that maintainer scripts would have made: place -> where to.
        sources: source packages: folder below usr/src -> package.
    """

    packages: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()


def load(path: Path) -> Userland:
    """The userland of a TOML file. Raises UsageError when it is not well formed."""
    try:
        raw = tomllib.loads(path.read_text())
        return Userland(
            tuple(str(p) for p in raw["packages"]),
            tuple((str(k), str(v)) for k, v in raw.get("links", {}).items()),
            tuple((str(k), str(v)) for k, v in raw.get("sources", {}).items()),
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"not a userland file: {error}", where=str(path)) from error


def build(store: Store, wanted: Userland) -> Path:
    """The image of the guest's disk. Raises FetchError, BuildError."""
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

        path = cache.make_entry("guest", f"{name}-{cache.key_of(files)}", make, resume=True, waiting=waiting)
        found = store.remember(name, Fetched(apt.Package(name, apt.codename(), ""), path))
    return found.path / "disk.img"


def fetch(private: apt.PrivateApt, wanted: Userland, folder: Path, log: Path) -> None:
    """Download packages and sources into ``folder``/debs and ``folder``/src."""
    with progress.step(f"fetching {len(wanted.packages)} Debian packages for the guest"):
        private.download_closure(wanted.packages, folder / "debs", log)
        for place, package in wanted.sources:
            found = apt.tarballs(private.download_source(package, folder / "fetched" / place, log))
            if "" not in found:
                raise FetchError(f"the source of {package} has no tarball", where=str(folder))
            for below, tarball in sorted(found.items()):
                unpack_source(tarball, folder / "src" / place / below, log)


def unpack_source(tarball: Path, target: Path, log: Path) -> None:
    """Unpack a tarball without its top folder; nothing of it is run, and none of Debian's patches applied."""
    target.mkdir(parents=True, exist_ok=True)
    options = ["--strip-components=1", "--no-same-owner"]
    process.run_logged(["tar", "-xf", tarball, "-C", target, *options], log, error=FetchError)


def write_image(wanted: Userland, folder: Path) -> None:
    """Unpack what was fetched into a tree, and write it as ``folder``/disk.img; only that is kept."""
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
