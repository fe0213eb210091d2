# SPDX-License-Identifier: GPL-2.0-only
"""Pinned files of Debian's archives: those with which Lull was tested, by their SHA-256.

Archives move on: a mirror drops a package when a newer one replaces it. A pinned file is looked for in the archives of
the machine's apt, whatever suite has it, then in public archives, of which Debian's snapshot archive keeps every file.
The pins of a base's kernel source are in its TOML file, all others in guest/pins.txt; ``lull fetch --pin`` writes both.
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from lull import cache, paths, toml
from lull.base import Pin
from lull.errors import FetchError, LullError, UsageError
from lull.linux import apt

FILE = paths.GUEST / "pins.txt"
"""The pins of QEMU, busybox, libraries and the guest's disks: a line with group, SHA-256, SHA-1, size and path each."""
PUBLIC = ("https://snapshot.debian.org/file/{sha1}",)
"""Public archives, tried after the machine's own: Debian's snapshot archive, which keeps every version. The variable
LULL_ARCHIVES replaces them."""
PROBE_SECONDS = 10.0


def of_file(path: Path, place: str) -> Pin:
    """The pin of a file that was downloaded from ``place`` in an archive."""
    sha1 = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    return Pin(place, apt.hash_of(path), sha1, path.stat().st_size)


def load_pins(group: str, file: Path = FILE) -> list[Pin]:
    """The pins of a group; none when the group is not pinned. Raises UsageError for a malformed file."""
    with toml.reading("a list of pins", file, "./lull fetch --pin writes it"):
        rows = [line.split() for line in file.read_text().splitlines() if line and not line.startswith("#")]
        return [Pin(path, sha256, sha1, int(size)) for name, sha256, sha1, size, path in rows if name == group]


def save(group: str, pins: Iterable[Pin], file: Path = FILE) -> None:
    """Replace the pins of a group in ``file``."""
    old = file.read_text().splitlines() if file.exists() else []
    kept = [line for line in old if line.partition(" ")[0] != group]
    lines = [*kept, *sorted(pin.line(group) for pin in pins)]
    cache.write_atomic(file, "\n".join(lines) + "\n")


def key(pins: Sequence[Pin]) -> str:
    """A hash that names these files."""
    return cache.key_of(*sorted(pin.sha256 for pin in pins))


def templates() -> list[str]:
    """URLs with {path}, {sha1} or {sha256}: where pinned files are looked for, in this order.

    Raises: UsageError for a LULL_ARCHIVES with something else in braces.
    """
    named = os.environ.get("LULL_ARCHIVES")
    public = PUBLIC if named is None else named.split()
    for template in public:
        if not re.fullmatch(r"[^{}]*(\{(path|sha1|sha256)\}[^{}]*)+", template):
            raise UsageError(
                f"'{template}' names no file",
                where="LULL_ARCHIVES",
                remedy="write URLs with {path}, {sha1} or {sha256}, for example " + PUBLIC[-1],
            )
    machine: list[str] = []
    try:
        uris = [source.uri.rstrip("/") for source in apt.machine_sources()]
        # A machine may not name its mirror's security suites.
        beside = [f"{uri}{apt.SECURITY}" for uri in uris if uri.endswith("/debian")]
        machine = [f"{uri}/{{path}}" for uri in dict.fromkeys([*uris, *beside])]
    except LullError:  # no apt, or no archive: the public ones are left
        pass
    return list(dict.fromkeys([*machine, *public]))


def whole(path: Path, pin: Pin) -> bool:
    """Return true if the file is there, and is the pinned one."""
    return path.is_file() and apt.hash_of(path) == pin.sha256


def download_pins(wanted: Sequence[Pin], folder: Path, log: Path) -> list[Path]:
    """Download pinned files into ``folder``, and return them. Files that are there already stay.

    Args:
        log: takes the output.

    Raises: FetchError, which says what each archive answered, when one of them is nowhere; DiskFull; MissingError.
    """
    said: list[str] = []
    left = [pin for pin in wanted if not whole(folder / pin.name, pin)]
    for template in templates():
        urls = {template.format(**vars(pin)): pin for pin in left if pin.sha1 or "{sha1}" not in template}
        if not urls:
            continue
        failed = apt.download_files({url: (folder / pin.name, pin.sha256) for url, pin in urls.items()}, log)
        said += [f"{url}: {cause}" for url, cause in failed.items()]
        left = [pin for pin in left if pin not in [found for url, found in urls.items() if url not in failed]]
    if left:
        last = [line for line in said if any(pin.name in line or (pin.sha1 and pin.sha1 in line) for pin in left[:1])]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise FetchError(
            f"no archive has {left[0].name}{more} with the pinned hash",
            where=str(log),
            remedy="check the network; LULL_ARCHIVES names other archives",
            tail="\n".join(last),
        )
    return [folder / pin.name for pin in wanted]


def place_of(pin: Pin) -> str:
    """The URL at which an archive has the file now; empty when none answers. Nothing is downloaded."""
    return next(filter(answers, (template.format(**vars(pin)) for template in templates())), "")


def answers(url: str) -> bool:
    """Return true if there is something at ``url``. Nothing is downloaded."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(apt.proxies()))
    try:
        with opener.open(urllib.request.Request(url, method="HEAD"), timeout=PROBE_SECONDS) as answer:
            kind: str = answer.headers.get("Content-Type") or ""
            return "html" not in kind
    except (OSError, ValueError):
        return False
