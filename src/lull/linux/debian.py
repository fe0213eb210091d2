# SPDX-License-Identifier: GPL-2.0-only
"""Debian's own arm64 kernels: which there are, and the image and the modules of one of them."""

from __future__ import annotations

import lzma
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache
from lull.base import Base
from lull.errors import FetchError, UsageError, unknown
from lull.linux import apt
from lull.linux.fetch import Fetched, Store
from lull.progress import progress, say

SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid")
"""The suites in which kernels are looked for, beside those of the machine's release."""
PACKAGE = re.compile(r"linux-image-(\d+\.\d+\.\d+\S*?-((?:cloud-|rt-)?arm64(?:-\d+k)?))")
"""The packages of kernels. Group 1 is the release, as ``uname -r`` gives it, group 2 its flavour."""
NAME = re.compile(r"(\d+(?:\.\d+)+)(?:[+-]\S+?)??-((?:cloud-|rt-)?arm64(?:-\d+k)?)")
"""A name that a user gives: the beginning of a release, and the flavour."""
NEWEST = "newest"
"""Names the newest kernel of each series and flavour."""
FLAVOURS = {
    "arm64": ["none_arm64"],
    "cloud": ["none_cloud-arm64"],
    "16k": ["none_arm64-16k"],
    "rt": ["none_rt-arm64", "rt_arm64"],
}
"""Flavour -> what its configuration is called in packages of any version."""
MODULES = ("zram", "lz4", "lzo", "lzo_rle", "virtio_mmio", "virtio_blk", "loop", "crc32c_generic", "ext4")
"""Modules that the workloads use, of kernels that do not have them built in. Until 6.13, ext4 asks for crc32c_generic
when it mounts a file system, and does not name it among the modules that it needs."""
SUFFIXES = (".ko", ".ko.xz")
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
"""What a module says of the modules that it needs (the section .modinfo)."""


@dataclass(frozen=True)
class DebianKernel:
    """A kernel of Debian's in the cache.

    Args:
        release: its name, as ``uname -r`` gives it: ``7.3.4+deb13-arm64-16k``.
        image: its vmlinuz.
        modules: uncompressed modules, each behind those that it needs.
    """

    release: str
    image: Path
    modules: list[Path]


def order(release: str) -> list[int]:
    """A key that sorts releases by their numbers."""
    return [int(number) for number in re.findall(r"\d+", release)]


def flavour(release: str) -> str:
    """The flavour of a release: ``cloud-arm64``."""
    found = PACKAGE.fullmatch(f"linux-image-{release}")
    return found[2] if found else ""


def archive(store: Store) -> apt.PrivateApt:
    """A private apt with the suites that have arm64 kernels. Raises FetchError when none can be fetched."""
    return store.archives(SUITES)


def releases(private: apt.PrivateApt) -> list[str]:
    """The releases of all kernels that can be fetched, newest first."""
    found = (PACKAGE.fullmatch(name) for name in private.names("linux-image-"))
    return sorted({match[1] for match in found if match}, key=order, reverse=True)


def newest(found: Iterable[str]) -> list[str]:
    """The newest of ``found``, which are sorted, of each series (``6.12``) and flavour."""
    chosen: dict[tuple[int, ...], str] = {}
    for release in found:
        chosen.setdefault((*order(release)[:2], *flavour(release).encode()), release)
    return list(chosen.values())


def resolve(name: str, known: Sequence[str]) -> str:
    """The release that ``name`` means: the newest that begins with its version and has its flavour.

    Args:
        name: ``7.3.4+deb13-arm64-16k``, ``7.3.4-arm64-16k`` or ``7.3-arm64-16k``.
        known: the releases, newest first.

    Raises: UsageError when there is none.
    """
    if name in known:
        return name
    asked = NAME.fullmatch(name)
    for release in known:
        if asked and flavour(release) == asked[2] and re.match(rf"{re.escape(asked[1])}(?![0-9])", release):
            return release
    raise unknown("kernel of Debian's", name, newest(known))


def names(store: Store, name: str) -> list[str]:
    """The names that ``name`` stands for: NEWEST for the newest kernel of each series and flavour."""
    return newest(releases(archive(store))) if name == NEWEST else [name]


def fetch_kernel(store: Store, name: str) -> DebianKernel:
    """The kernel ``name`` (see ``resolve``), fetched if it is not in the cache.

    Raises: FetchError when it cannot be fetched, UsageError when there is none of that name.
    """
    found = store.have(entry(name))
    if not found:
        private = archive(store)
        release = resolve(name, releases(private))
        found = store.remember(entry(name), download_kernel(store, private, release))
        store.remember(entry(release), found)
    listed = (found.path / "modules" / "order").read_text().split()
    return DebianKernel(
        found.path.name.removeprefix("debian-").rpartition("-")[0],
        found.path / "vmlinuz",
        [found.path / "modules" / module for module in listed],
    )


def entry(name: str) -> str:
    """The name under which a kernel is remembered: others if MODULES changes."""
    return f"debian-{name}-{cache.key_of(*MODULES)}"


def download_kernel(store: Store, private: apt.PrivateApt, release: str) -> Fetched:
    """Download the packages of a release, and keep its image and the MODULES.

    Since 7.0 the image and the modules have packages of their own. Without the modules, fewer programs can run.
    """
    names = [f"linux-{part}-{release}:arm64" for part in ("binary", "modules")]
    packages = [found for found in map(private.candidate, names) if found]
    if len(packages) == 1:
        say(f"no archive has the modules of {release}: programs that need some of them are skipped")
    packages = packages or [found for found in [private.candidate(f"linux-image-{release}:arm64")] if found]
    if not packages:
        raise FetchError(f"no archive of this machine has the kernel {release}", where=str(private.home))

    def make(part: Path) -> None:
        with progress.step(f"fetching Debian's kernel {release}"):
            for package in packages:
                deb = private.download(package, part / "debs" / package.name, store.log)
                apt.unpack_deb(deb, part / "root", store.log)
        images = [*(part / "root").glob("boot/vmlinuz-*"), *(part / "root").glob("**/lib/modules/*/vmlinuz")]
        if len(images) != 1:
            raise FetchError(f"the packages of {release} have {len(images)} images", where=str(store.log))
        shutil.move(images[0], part / "vmlinuz")
        keep_modules(part / "root", part / "modules")
        for used in ("debs", "root"):
            shutil.rmtree(part / used)

    key = cache.key_of(*(package.sha256 for package in packages), *MODULES)
    return Fetched(packages[0], cache.make_entry("fetch", f"debian-{release}-{key}", make))


def keep_modules(root: Path, folder: Path) -> None:
    """Write MODULES and what they need to ``folder``, uncompressed, and the file ``order`` with their order.

    Args:
        root: the unpacked packages.
    """
    folder.mkdir()
    there = {path.name.partition(".")[0].replace("-", "_"): path for path in root.rglob("*.ko*") if is_module(path)}
    done: list[str] = []

    def keep(name: str) -> None:
        if name not in there or name in done:
            return
        data = there[name].read_bytes()
        data = lzma.decompress(data) if there[name].suffix == ".xz" else data
        for needed in depends(data):
            keep(needed)
        (folder / f"{name}.ko").write_bytes(data)
        done.append(name)

    for name in MODULES:
        keep(name)
    (folder / "order").write_text("".join(f"{name}.ko\n" for name in done))


def is_module(path: Path) -> bool:
    """Return true for the file of a module, as it is or compressed with xz."""
    return path.name.endswith(SUFFIXES)


def depends(module: bytes) -> list[str]:
    """The names of the modules that ``module`` needs, as modinfo(8) gives them, with underscores."""
    found = DEPENDS.search(module)
    names = found[1].decode(errors="replace").split(",") if found else []
    return [name.replace("-", "_") for name in names if name]


def configuration(store: Store, base: Base, version: str, flavour: str) -> str:
    """Debian's configuration of one of FLAVOURS, of the base's series.

    It is of the package linux-config-SERIES, in the version of the source, or else the newest.

    Args:
        version: Linux's version, ``6.12.117``.

    Raises: FetchError when no archive has it, UsageError when Debian has no such flavour of the series.
    """
    name = f"linux-config-{base.series}"
    found = store.have(f"{name}-{version}")
    if not found:

        def fits(candidate: str) -> bool:
            return candidate.partition("-")[0] == version

        private = store.archives(base.source.suites)
        one = store.one_package(f"{name}:arm64", private, "name a configuration with --config", fits)

        def make(part: Path) -> None:
            apt.unpack_deb(one.path, part, store.log)

        path = cache.make_entry("fetch", f"{name}-unpacked-{cache.key_of(one.package.sha256)}", make)
        found = store.remember(f"{name}-{version}", Fetched(one.package, path))
    files = [found.path / "usr/src" / name / f"config.arm64_{kind}.xz" for kind in FLAVOURS[flavour]]
    there = [file for file in files if file.exists()]
    if not there:
        raise UsageError(f"Debian has no configuration {flavour} of Linux {base.series}", where=str(found.path))
    return lzma.decompress(there[0].read_bytes()).decode()
