# SPDX-License-Identifier: GPL-2.0-only
"""Releases of Linux in all of Debian's suites that this machine's mirrors have, and sources that the user names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lull import base as bases
from lull import cache, process
from lull.base import Base, Pin
from lull.errors import FetchError, UsageError
from lull.linux import apt, pins, tree
from lull.linux.fetch import Store
from lull.progress import progress

SUITES = ("trixie", "trixie-security", "trixie-backports", "forky", "sid", "experimental")
"""Suites in which releases are looked for, beside those of the machine's release and its backports."""
RELEASE = re.compile(r"(\d+\.\d+)(?:\.\d+|~rc\d+)")
"""A release of Linux as Debian writes it. Group 1 is its series."""


@dataclass(frozen=True)
class Release:
    """A release of Linux in the archives.

    Args:
        linux: its version, ``7.2.13`` or ``7.3~rc7``.
        package: the newest source package of it.
        suites: the suites in which it is the newest release of its series.
    """

    linux: str
    package: Pin
    suites: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A Linux to port to.

    Args:
        named: how the user names it: a release, or the path of a tree.
        series: ``7.2``.
        tree: its source, in the cache.
        package: the package that it is from; None for a tree of the user's.
        suite: a suite that has the package.
        tarball: the path of the tarball in the package.
    """

    named: str
    series: str
    tree: tree.Tree
    package: Pin | None = None
    suite: str = ""
    tarball: str = ""

    def raw(self) -> dict[str, object]:
        """What ``source_of`` reads."""
        found = asdict(self.tree) | {"path": str(self.tree.path), "origin": str(self.tree.origin or "")}
        return asdict(self) | {"tree": found}


def source_of(raw: dict[str, object]) -> Source:
    """The source that ``raw`` describes. Raises TypeError or KeyError for another dictionary."""
    place = dict(raw["tree"])  # type: ignore[call-overload]
    found = tree.Tree(
        Path(place["path"]), place["key"], place["version"], Path(place["origin"]) if place["origin"] else None
    )
    package = Pin(**raw["package"]) if raw["package"] else None  # type: ignore[arg-type]
    return Source(**{**raw, "tree": found, "package": package})  # type: ignore[arg-type]


def archive(store: Store) -> apt.PrivateApt:
    """A private apt with all suites that can be fetched of the machine's mirrors. Raises FetchError without any."""
    return store.archives(SUITES, apt.host_architecture())


def upstream(version: str) -> str:
    """Linux's version in the version of a package: ``6.12.95`` of ``6.12.95-1~bpo12+1``."""
    return version.partition("-")[0]


def packages(private: apt.PrivateApt, name: str) -> dict[str, Pin]:
    """Version -> package, of each version of a source package in the archives."""
    done = process.complete(private.command("apt-cache", "show", name), apart=True)
    found = {}
    for stanza in done.output.split("\n\n"):
        fields = dict(re.findall(r"(?m)^(Version|SHA256|Filename|Size): (\S+)$", stanza))
        if len(fields) == 4:
            found[fields["Version"]] = Pin(fields["Filename"], fields["SHA256"], size=int(fields["Size"]))
    return found


def places(private: apt.PrivateApt, name: str) -> list[tuple[str, str]]:
    """Version and suite of each version of a package, newest first."""
    listed = [(fields[1], fields[2]) for fields in private.madison(name) if fields[2].endswith("Packages")]
    return list(dict.fromkeys((version, place.split()[1].partition("/")[0]) for version, place in listed))


def newest(private: apt.PrivateApt, name: str) -> list[Release]:
    """The newest release of each suite of the source package ``name``, each release once, the newest first."""
    there, found, seen = packages(private, name), dict[str, Release](), set[str]()
    for version, suite in places(private, name):
        if suite not in seen and version in there:
            seen.add(suite)
            known = found.get(upstream(version), Release(upstream(version), there[version], ()))
            found[known.linux] = replace(known, suites=(*known.suites, suite))
    return list(found.values())


def download(store: Store, package: Pin) -> Path:
    """The source package, from the cache or downloaded. Raises FetchError."""
    return store.pinned([package], f"{package.package} {package.version}") / package.name


def some_files(fetched: Path, tarball: str, names: Iterable[str]) -> Path:
    """A folder in the cache with those files ``names`` of a source package that it has.

    Args:
        tarball: the path of the tarball in the package.

    Raises: FetchError when the package cannot be read.
    """
    wanted = sorted({"Makefile", *names})

    def make(part: Path) -> None:
        (part / "names").write_text("".join(f"*/{name}\n" for name in wanted))
        unpack = (
            'dpkg-deb --fsys-tarfile "$1" | tar -xOf - "./$2" | '
            'tar -xJf - -C "$3" --strip-components=1 --wildcards --no-wildcards-match-slash -T "$3/names"'
        )
        with progress.step(f"unpacking what is patched of {fetched.name}"):
            done = process.complete(["sh", "-c", unpack, "sh", fetched, tarball, part])
        said = [line for line in done.output.splitlines() if "Not found in archive" not in line]
        if [line for line in said if "previous errors" not in line] or not (part / "Makefile").is_file():
            raise FetchError("a source package cannot be read", where=str(fetched), tail=done.output[-2000:])

    key = cache.key_of(apt.hash_of(fetched), *wanted)
    return cache.make_entry("src", f"some-{key}", make)


def named(store: Store, base: Base, word: str) -> Source:
    """The Linux that ``word`` names: a folder with a kernel tree, or a release in the archives.

    Args:
        base: the base from which is ported; packages of other series are called as its own.

    Raises: UsageError when it is neither; FetchError.
    """
    if Path(word).is_dir():
        series = ".".join(tree.kernel_version(Path(word)).split(".")[:2])
        return Source(word, series, tree.of_user(Path(word), replace(base, series=series)))
    match = RELEASE.fullmatch(word)
    if not match or not base.source.package:
        raise UsageError(
            f"'{word}' is neither a folder nor a release of Linux",
            remedy="name a kernel tree, or a release that Debian has, for example 7.2.13 or 7.3~rc7",
        )
    series = match[1]
    name, tarball = (text.replace(base.series, series) for text in (base.source.package, base.source.tarball))
    if store.offline:
        raise FetchError(f"the archives must be asked for {name} {word}", remedy="leave --offline out, or name a tree")
    private = archive(store)
    there = places(private, name)
    version, suite = next((one for one in there if upstream(one[0]) == word), ("", ""))
    if not version:
        listed = dict.fromkeys(upstream(one) for one, _ in there)
        raise UsageError(
            f"no archive of this machine has {name} {word}",
            remedy=f"there are: {', '.join(listed)}" if listed else "unpack it yourself, and name the folder",
        )
    found = packages(private, name)[version]
    fetched = download(store, found)
    package = pins.of_file(fetched, found.path)
    own = bases.Source(package=name, tarball=tarball)
    of_series = replace(base, file=base.file.with_stem(series), series=series, source=own)
    return Source(word, series, tree.unpack_base(fetched, of_series, package.sha256), package, suite, tarball)
