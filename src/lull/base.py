# SPDX-License-Identifier: GPL-2.0-only
"""Read base kernels (kernel/bases/NAME.toml): the source package, the kernels to build from it, and the features."""

from __future__ import annotations

import email.parser
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lull import cache, paths, toml
from lull.errors import UsageError

DEFAULT = "7.3"
LETTER = "cover-letter.txt"
"""In the folder of a feature: the mail that introduces its series."""


def title_of(mail: Path) -> str:
    """The subject of the mail in a file, without ``[PATCH 1/2]``."""
    said = email.parser.HeaderParser().parsestr(mail.read_text())["Subject"]
    return re.sub(r"^\[PATCH[^]]*\] ", "", " ".join(said.split()))


@dataclass(frozen=True)
class Patch:
    """A patch of a feature for one base: a mail for ``git am``, and one commit of `lull tree`.

    Args:
        name: ``FEATURE/NNNN-SUBJECT``.
        file: the mail, as ``git format-patch`` writes it.
    """

    name: str
    file: Path

    @property
    def subject(self) -> str:
        """What the mail's header says, without ``[PATCH]``."""
        return title_of(self.file)

    def diff(self) -> str:
        """The changes, without the message and without the hashes of the files: equal trees have equal changes."""
        found = re.search(r"(?ms)^diff --git .*", self.file.read_text())
        return re.sub(r"(?m)^index .*\n", "", found[0]) if found else ""

    @property
    def title(self) -> str:
        """``FEATURE/SUBJECT``: the same for all bases, whatever the number of the patch."""
        return re.sub(r"/\d+-", "/", self.name)

    def key(self) -> str:
        """A hash of everything that the patch changes in a tree."""
        return cache.key_of(self.diff())


@dataclass(frozen=True)
class Feature:
    """One feature of Lull for one base: a series of patches, and at most one switch.

    Args:
        name: the name of its folder, and its name in kernel names (``lull+young=sync``).
        folder: the folder with the mails, and with their cover letter (LETTER) if people get the series.
        needs: the features that are applied before it. Those that these need are not named.
        policies: the policies of its switch; empty when it has no switch.
        off: the policy that does what stock does.
        default: the policy that the kernel boots with.
        boot: the boot parameter of a kernel without the lab's switches: ``NAME=off`` is what stock does, and the kernel
            stays so.
        lab: further policies that only the kernel ``lab`` has: results are compared with them. Some are unsafe on
            purpose, and the checker must report them.
        kunit: its KUnit suites.
        parameter: the boot parameter that people have, as README.md shows it.
        local: it makes flushes local.
        fixes: known issues (checker/known-issues.toml) that it fixes: on a kernel with it, their reports fail a check.
        only: the kernels that the feature is applied to, also if they have no other features; empty: all kernels with
            features. A feature with ``only`` is the lab's own, and is not for Linux.
    """

    name: str
    folder: Path
    needs: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    off: str = ""
    default: str = ""
    boot: str = ""
    lab: tuple[str, ...] = ()
    kunit: tuple[str, ...] = ()
    parameter: str = "none"
    local: bool = False
    fixes: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def patches(self) -> list[Patch]:
        """Its patches, in the order in which they are applied."""
        return [Patch(f"{self.name}/{file.stem}", file) for file in sorted(self.folder.glob("*.patch"))]

    @property
    def letter(self) -> Path:
        """The cover letter; the lab's own series have none."""
        return self.folder / LETTER


@dataclass(frozen=True)
class Pin:
    """One file of Debian's archives.

    Args:
        path: its place below the top of an archive: ``pool/main/l/linux/NAME_VERSION_ARCHITECTURE.deb``.
        sha256: what the file is.
        sha1: its name in Debian's snapshot archive.
        size: bytes.
    """

    path: str
    sha256: str
    sha1: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]

    @property
    def package(self) -> str:
        """The name of the package."""
        return self.name.partition("_")[0]

    @property
    def version(self) -> str:
        """The version, without the epoch, which names of files lack."""
        return self.name.split("_")[1]

    def line(self, group: str) -> str:
        """The line of guest/pins.txt."""
        return f"{group} {self.sha256} {self.sha1} {self.size} {self.path}"


@dataclass(frozen=True)
class Source:
    """Where the Linux of a base comes from.

    Args:
        package: Debian's source package; empty: there is none.
        tarball: the path of the source tree's tarball in the package.
        path: the pinned package, with which the features were tested: its path in Debian's archives; empty: no pin.
        sha256: its hash.
        sha1: by which Debian's snapshot archive names it.
        release: the URL of the same version in the archive of kernel releases.
        suites: Debian's suites that have newer packages of the series, besides those of the machine's own release.
    """

    package: str = ""
    tarball: str = ""
    path: str = ""
    sha256: str = ""
    sha1: str = ""
    release: str = ""
    suites: tuple[str, ...] = ()

    @property
    def pin(self) -> Pin | None:
        """The pinned package."""
        return Pin(self.path, self.sha256, self.sha1) if self.path else None

    @property
    def tested(self) -> str:
        """The version of Linux on which the features were tested; empty without a pin."""
        return self.pin.version.partition("-")[0] if self.pin else ""


def patches_of(features: Iterable[Feature]) -> list[Patch]:
    """The patches of ``features``, in the order in which they are applied."""
    return [patch for feature in features for patch in feature.patches]


@dataclass(frozen=True)
class KernelKind:
    """One kernel of a base.

    Args:
        fragments: its configuration.
        features: all features of Lull are applied.
        alone: the only features that are applied.
    """

    name: str
    fragments: tuple[Path, ...]
    features: bool
    alone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Programs to run, and what kernels and guests need for them.

    Args:
        name: the name that ``--suite`` takes; empty for the base's own workloads.
        workloads: the file that lists the workloads.
        fragments: configuration fragments added to those of every kernel.
        userland: the file that lists the Debian packages of the guest; None: the guest has only the lab's programs.
        guests: kernels of the base, without ``fragments``, that the guest boots in guests of its own, by KVM.
        lab: the kernel with its mutants; empty: the suite has none.
        mutants: the file that lists them.
    """

    name: str
    workloads: Path
    fragments: tuple[Path, ...] = ()
    userland: Path | None = None
    guests: tuple[str, ...] = ()
    lab: str = ""
    mutants: Path | None = None


@dataclass(frozen=True)
class Base:
    """A base kernel.

    Args:
        file: what describes it; its name without the ending is the base's name.
        series: the kernel series, ``7.3``.
        source: where Linux comes from; without a package, the tree must be named with --tree.
        of: the base of which this one is a backport, whose features it has; empty: patches are written for this one.
        kernels: the kernels that can be built, by name.
        features: the features by name, in the order in which they are applied.
        default_kernels: the kernels that a run compares when none is named, the baseline first.
        alternatives: kernels with other designs, which run beside those in a full run.
        workloads: the file that lists the workloads.
        mutants: the file that lists the lab kernel's mutants.
        suites: further sets of programs, by name.
    """

    file: Path
    series: str
    source: Source
    kernels: Mapping[str, KernelKind]
    features: Mapping[str, Feature]
    default_kernels: tuple[str, ...] = ("stock", "lull")
    alternatives: tuple[str, ...] = ()
    of: str = ""
    workloads: Path = field(default=paths.GUEST / "workloads.toml")
    mutants: Path = field(default=paths.KERNEL / "mutants.toml")
    suites: Mapping[str, Suite] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What --base takes."""
        return self.file.stem

    def features_of(self, kernel: str) -> list[Feature]:
        """The features applied to a kernel of this base."""
        kind = self.kernels[kernel]
        return [
            f for f in self.features.values() if f.name in kind.alone or (kernel in f.only if f.only else kind.features)
        ]

    def suite_named(self, name: str) -> Suite:
        """The suite ``name``, or the base's own workloads when ``name`` is empty. Raises UsageError for no suite."""
        if not name:
            return Suite("", self.workloads, lab="lab", mutants=self.mutants)
        if name not in self.suites:
            raise UsageError(f"unknown suite '{name}'", remedy=f"known: {', '.join(self.suites) or 'none'}")
        return self.suites[name]

    def exported(self) -> dict[str, Feature]:
        """The features that are for Linux."""
        return {f.name: f for f in self.features.values() if not f.only}

    def rival_policies(self) -> list[str]:
        """The kernels under policies that only the kernel ``lab`` has."""
        return [f"lab+{f.name}={policy}" for f in self.features.values() for policy in f.lab]

    def default_policies(self) -> dict[str, str]:
        """Feature -> the policy that the kernel boots with."""
        return {f.name: f.default for f in self.features.values() if f.policies}


def known() -> list[str]:
    """The names of the bases in kernel/bases/."""
    return sorted(p.stem for p in paths.BASES.glob("*.toml"))


def load_base(name: str = DEFAULT) -> Base:
    """A base by name, or by the path of its TOML file. Raises UsageError when there is none, or it is malformed."""
    path = Path(name) if name.endswith(".toml") else paths.BASES / f"{name}.toml"
    if not path.is_file():
        raise UsageError(f"unknown base '{name}'", remedy=f"known: {', '.join(known())}")
    with toml.reading("a base file", path, f"{paths.BASES / f'{DEFAULT}.toml'} explains each line"):
        return parse_base(toml.load_toml(path), path.resolve())


def parse_base(raw: dict[str, Any], path: Path) -> Base:
    """The base in the parsed TOML ``raw`` of the file ``path``.

    Paths in it are relative to the parent of the file's folder. Raises KeyError, TypeError or AttributeError when a
    value is missing or has the wrong type.
    """
    top = path.parent.parent

    def files(names: Sequence[str]) -> tuple[Path, ...]:
        return tuple(top / n for n in names)

    listed = raw.get("features", {})
    if "of" in raw and not listed:
        above = toml.load_toml(path.with_name(f"{raw['of']}.toml"))["features"]
        listed = {n: e for n, e in above.items() if "only" not in e or raw["kernels"].keys() & set(e["only"])}
    features: dict[str, Feature] = {}
    for name, entry in listed.items():
        folder = top / (f"{raw['series']}-lab" if "only" in entry else raw["series"]) / name
        features[name] = toml.made(Feature, entry, name=name, folder=folder)
        if unknown := set(features[name].needs) - features.keys():
            raise UsageError(
                f"feature '{name}' needs '{min(unknown)}', which is no feature before it",
                where=str(path),
                remedy=f"before it are: {', '.join(list(features)[:-1]) or 'none'}",
            )
    kernels = {
        name: KernelKind(name, files(entry["config"]), which is True, (name,) if which == "own" else ())
        for name, entry in raw["kernels"].items()
        for which in [entry.get("features", False)]
    }
    suites = {
        name: Suite(
            name,
            top / entry["workloads"],
            files(entry.get("config", ())),
            top / entry["userland"] if "userland" in entry else None,
            tuple(entry.get("guests", ())),
            entry.get("lab", ""),
            top / entry["mutants"] if "mutants" in entry else None,
        )
        for name, entry in raw.get("suites", {}).items()
    }
    extra: dict[str, Any] = {"alternatives": tuple(raw.get("alternatives", ())), "of": raw.get("of", "")}
    for name in ("workloads", "mutants"):
        if name in raw:
            extra[name] = top / raw[name]
    if "compare" in raw:
        extra["default_kernels"] = tuple(raw["compare"])
    return Base(
        path,
        raw["series"],
        toml.made(Source, raw.get("source", {})),
        kernels,
        features,
        suites=suites,
        **extra,
    )
