# SPDX-License-Identifier: GPL-2.0-only
"""`lull fetch --pin`: pin the newest packages that the archives have now, in place of those that are pinned.

For contributors. The pins are files of the repository: after this the tests have to pass with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

from lull import cache, paths, selftests
from lull.base import Base, Pin
from lull.errors import FetchError
from lull.guest import qemu, userland
from lull.linux import apt, pins
from lull.linux.fetch import BUSYBOX, LIBRARIES, Store
from lull.progress import progress

LISTED = re.compile(r"(?m)^'(\S+?)/(pool/\S+)' \S+ \d+ SHA256:(\w+)$")
"""A line of ``apt-get --print-uris``: the archive, the file's path there, its hash."""
DISKS = (paths.REAL / "userland.toml", paths.VIRTUAL / "userland.toml")
"""The lists of packages of the guests' disks."""
HOSTS = ("amd64", "arm64")


def pinned(store: Store, listing: str, only: Sequence[str] = ()) -> list[Pin]:
    """The pins of the files in ``listing`` (``apt.PrivateApt.closure``), which are downloaded into the cache.

    Args:
        only: names of packages; the others of the listing are left out. Empty: none is.

    Raises: FetchError.
    """
    found = []
    folder = cache.root() / "fetch" / "pinning"
    wanted = {}
    for uri, quoted, sha256 in LISTED.findall(listing):
        path = unquote(quoted)
        if not only or path.rpartition("/")[2].partition("_")[0] in only:
            target = folder / path.rpartition("/")[2]
            found.append((target, path))
            if not pins.whole(target, Pin(path, sha256)):
                wanted[f"{uri}/{quoted}"] = (target, sha256)
    if wanted:
        with progress.step(f"fetching {len(wanted)} packages"):
            for url, cause in apt.download_files(wanted, store.log).items():
                raise FetchError(f"{url}: {cause}", where=str(store.log))
    return [pins.of_file(target, path) for target, path in found]


def groups(store: Store) -> Iterable[tuple[str, list[Pin]]]:
    """The newest packages of each group of guest/pins.txt. Raises FetchError."""
    for host in HOSTS:
        private = store.archives(qemu.SUITES, host, bare=True, alone=True)
        yield f"qemu-{host}", pinned(store, private.closure([qemu.PACKAGE]))
        bare = store.archives(userland.SUITES, host, bare=True, alone=True)
        yield f"busybox-{host}", pinned(store, bare.closure([BUSYBOX]))
    guest = userland.guest_apt(store)
    yield LIBRARIES, pinned(store, guest.closure(selftests.LIBRARIES), selftests.LIBRARIES)
    for file in DISKS:
        wanted = userland.load_userland(file)
        listing = guest.closure(wanted.packages, [package for _, package in wanted.sources])
        yield file.parent.name, pinned(store, listing)


def source_text(text: str, pin: Pin) -> str:
    """The text of a base's TOML file with another pin, and the URL of the release of the same version."""
    for name, value in (("path", pin.path), ("sha256", pin.sha256), ("sha1", pin.sha1)):
        text = re.sub(rf'(?m)^({name} = )"[^"]*"', rf'\g<1>"{value}"', text, count=1)
    version = re.escape(pin.version.partition("-")[0])
    return re.sub(r'(?m)^(release = ".*/linux-)[\d.]+(\.tar\.\w+")', rf"\g<1>{version}\g<2>".replace("\\.", "."), text)


def pin_source(store: Store, base: Base, file: Path) -> Pin:
    """Pin the newest source package of ``base`` in its TOML file, and return the pin. Raises FetchError."""
    private = store.archives(base.source.suites)
    listing = private.uris("download", base.source.package)
    (pin,) = pinned(store, listing)
    cache.write_atomic(file, source_text(file.read_text(), pin))
    return pin
