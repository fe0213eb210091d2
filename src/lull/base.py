# SPDX-License-Identifier: GPL-2.0-only
"""Read base kernels (kernel/bases/NAME.toml): the source package, the kernels to build from it, and the features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lull import cache, paths, toml
from lull.errors import UsageError

DEFAULT = "7.3"
LETTER = "COVER.md"
"""In the folder of a subject's last feature: what the cover letter of its series says."""


@dataclass(frozen=True)
class Patch:
    """A patch of a feature for one base: one commit of `lull tree`, and one mail of `lull export`.

    Args:
        name: ``FEATURE``, or ``FEATURE/PATCH`` when the feature has several patches.
        folder: the folder with NOTE.md, which is the commit message, files/ and hooks/.
        series: the kernel series of the base, ``7.3``.
    """

    name: str
    folder: Path
    series: str

    @property
    def hooks(self) -> Path:
        """The file with the changes of files that are there; there is none when the patch changes none.

        It is hooks/all.patch if the series has no file of its own and the bases share the changes.
        """
        own, shared = (self.folder / "hooks" / f"{name}.patch" for name in (self.series, "all"))
        return shared if shared.exists() and not own.exists() else own

    def hooks_text(self) -> str:
        """The changes of Linux's files; empty when there are none."""
        return self.hooks.read_text() if self.hooks.exists() else ""

    def files(self) -> dict[Path, Path]:
        """Path in the kernel tree -> the patch's file: of files/, which all bases share, or of files-SERIES/.

        Raises: UsageError when both folders have the same path.
        """
        found: dict[Path, Path] = {}
        for top in (self.folder / "files", self.folder / f"files-{self.series}"):
            for file in top.rglob("*"):
                relative = file.relative_to(top)
                if file.is_file() and relative in found:
                    raise UsageError(
                        f"{relative} is in files/ and in {top.name}/",
                        where=str(self.folder),
                        remedy="keep it in files/ if all bases share it, else in a folder files-SERIES/ for each base",
                    )
                if file.is_file():
                    found[relative] = file
        return dict(sorted(found.items()))

    def key(self) -> str:
        """A hash of everything that the patch changes in a tree."""
        files = self.files()
        return cache.key_of(self.hooks_text(), *map(str, files), *(file.read_text() for file in files.values()))


@dataclass(frozen=True)
class Feature:
    """One feature of Lull for one base: at most one switch, and one or more patches.

    Args:
        name: the name of its folder in kernel/, and its name in kernel names (``lull+young=sync``).
        folder: the folder with NOTE.md, which describes the feature.
        patches: its patches, in the order in which they are applied. A single patch is in ``folder`` itself.
        policies: the policies of its switch; empty when it has no switch.
        off: the policy that does what stock does.
        default: the policy that the kernel boots with.
        boot: the exported feature has no file for its switch, only the boot parameter ``lull_NAME=POLICY``. A kernel
            that is booted with ``off`` stays off.
        file: the exported feature has the switch. False: only kernels with the lab's own patch have it.
        lab: further policies that only the kernel ``lab`` has: results are compared with them. Some are unsafe on
            purpose, and the checker must report them.
        kunit: its KUnit suites.
        only: the kernels that the feature is applied to, also if they have no other features; empty: all kernels with
            features. A feature with ``only`` is not part of Lull, and is never exported.
    """

    name: str
    folder: Path
    patches: tuple[Patch, ...]
    policies: tuple[str, ...] = ()
    off: str = ""
    default: str = ""
    boot: bool = False
    file: bool = True
    lab: tuple[str, ...] = ()
    kunit: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Subject:
    """One series of `lull export`: the features that it has, what it needs, and who gets it.

    Args:
        name: the name of its folder. Empty: the base divides its features into no subjects, and they are one series.
        features: the features whose patches it has, and no other series has.
        needs: the subjects that are applied before it. Those that these need are not named.
        shares: features of subjects that it does not need, whose patches it has too.
        to: the headings of its recipients' entries in Linux's file MAINTAINERS.
        letter: the file with what its cover letter says; None: the letter has only what all letters have.
    """

    name: str
    features: tuple[str, ...]
    needs: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    letter: Path | None = None


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
    """

    name: str
    workloads: Path
    fragments: tuple[Path, ...] = ()
    userland: Path | None = None
    guests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Base:
    """A base kernel.

    Args:
        name: the name of its file, without the ending.
        series: the kernel series, ``7.3``.
        source: where Linux comes from; without a package, the tree must be named with --tree.
        kernels: the kernels that can be built, by name.
        features: the features by name, in the order in which they are applied.
        default_kernels: the kernels that a run compares when none is named, the baseline first.
        rivals: kernels with other designs, which run beside those in a full run.
        workloads: the file that lists the workloads.
        mutants: the file that lists the lab kernel's mutants.
        suites: further sets of programs, by name.
        subjects: the series of `lull export` by name, each after those that it needs.
        lists: files to which several features add lines: `lull export` places their hunks where earlier features are
            missing (lull.linux.hunks).
    """

    name: str
    series: str
    source: Source
    kernels: Mapping[str, KernelKind]
    features: Mapping[str, Feature]
    default_kernels: tuple[str, ...] = ("stock", "lull")
    rivals: tuple[str, ...] = ()
    workloads: Path = field(default=paths.GUEST / "workloads.toml")
    mutants: Path = field(default=paths.KERNEL / "lab/mutants.toml")
    suites: Mapping[str, Suite] = field(default_factory=dict)
    subjects: Mapping[str, Subject] = field(default_factory=dict)
    lists: tuple[str, ...] = ()

    def features_of(self, kernel: str) -> list[Feature]:
        """The features applied to a kernel of this base."""
        kind = self.kernels[kernel]
        return [
            f for f in self.features.values() if f.name in kind.alone or (kernel in f.only if f.only else kind.features)
        ]

    def suite_named(self, name: str) -> Suite:
        """The suite ``name``, or the base's own workloads when ``name`` is empty. Raises UsageError for no suite."""
        if not name:
            return Suite("", self.workloads)
        if name not in self.suites:
            raise UsageError(f"unknown suite '{name}'", remedy=f"known: {', '.join(self.suites) or 'none'}")
        return self.suites[name]

    def exported(self) -> dict[str, Feature]:
        """The features that are part of Lull: `lull export`, `lull tree` and `lull save` handle these only."""
        return {f.name: f for f in self.features.values() if not f.only}

    def features_in(self, subject: Subject) -> list[Feature]:
        """The features of a series of `lull export`, in the order in which they are applied."""
        return [f for f in self.exported().values() if f.name in subject.features + subject.shares]

    def subjects_before(self, subject: Subject) -> list[Subject]:
        """The series that must be applied before ``subject``, in their order."""
        found = set(subject.needs)
        for other in reversed(list(self.subjects.values())):
            if other.name in found:
                found.update(other.needs)
        return [other for other in self.subjects.values() if other.name in found]

    def features_before(self, subject: Subject) -> list[Feature]:
        """The features that are in the tree before ``subject``, in the order in which they are applied."""
        names = {feature for other in self.subjects_before(subject) for feature in other.features + other.shares}
        return [f for f in self.exported().values() if f.name in names]

    def default_policies(self) -> dict[str, str]:
        """Feature -> the policy that the kernel boots with."""
        return {f.name: f.default for f in self.features.values() if f.policies}


def known() -> list[str]:
    """The names of the bases in kernel/bases/."""
    return sorted(p.stem for p in paths.BASES.glob("*.toml"))


def load(name: str = DEFAULT) -> Base:
    """A base by name, or by the path of its TOML file. Raises UsageError when there is none, or it is malformed."""
    path = Path(name) if name.endswith(".toml") else paths.BASES / f"{name}.toml"
    if not path.is_file():
        raise UsageError(f"unknown base '{name}'", remedy=f"known: {', '.join(known())}")
    with toml.reading("a base file", path, f"{paths.BASES / f'{DEFAULT}.toml'} explains each line"):
        return parse(toml.load(path), path.resolve())


def parse(raw: dict[str, Any], path: Path) -> Base:
    """The base in the parsed TOML ``raw`` of the file ``path``.

    Paths in it are relative to the parent of the file's folder. Raises KeyError, TypeError or AttributeError when a
    value is missing or has the wrong type.
    """
    top = path.parent.parent

    def files(names: Sequence[str]) -> tuple[Path, ...]:
        return tuple(top / n for n in names)

    features: dict[str, Feature] = {}
    for name, entry in raw.get("features", {}).items():
        folder = top / name
        several = [Patch(f"{name}/{patch}", folder / patch, raw["series"]) for patch in entry.get("patches", ())]
        patches = tuple(several) or (Patch(name, folder, raw["series"]),)
        more = {key: value for key, value in entry.items() if key in ("kunit", "only")}
        features[name] = toml.made(Feature, entry.get("switch", {}) | more, name=name, folder=folder, patches=patches)
    kernels = {
        name: KernelKind(name, files(entry["config"]), which is True, () if which in (True, False) else tuple(which))
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
        )
        for name, entry in raw.get("suites", {}).items()
    }
    extra: dict[str, Any] = {"rivals": tuple(raw.get("rivals", ()))}
    for name in ("workloads", "mutants"):
        if name in raw:
            extra[name] = top / raw[name]
    if "compare" in raw:
        extra["default_kernels"] = tuple(raw["compare"])
    base = Base(
        path.stem,
        raw["series"],
        toml.made(Source, raw.get("source", {})),
        kernels,
        features,
        suites=suites,
        lists=tuple(raw.get("lists", ())),
        **extra,
    )
    return replace(base, subjects=read_subjects(raw.get("subjects", {}), base, path))


def read_subjects(raw: Mapping[str, Any], base: Base, path: Path) -> dict[str, Subject]:
    """The series of ``base``: those of the table [subjects] in the file ``path``, or one of all features without it.

    Raises: UsageError for an unknown feature or series, and for a feature that is in none or in several.
    """
    exported = base.exported()
    if not raw:
        return {"": Subject("", tuple(exported))}
    found: dict[str, Subject] = {}
    for name, entry in raw.items():
        one = toml.made(Subject, entry, name=name, letter=None)
        wrong = f"subject '{name}'"
        if not one.features:
            raise UsageError(f"{wrong} has no features", where=str(path), remedy="name them: features = [...]")
        for feature in one.features + one.shares:
            if feature not in exported:
                raise UsageError(
                    f"{wrong} has the unknown feature '{feature}'",
                    where=str(path),
                    remedy=f"known: {', '.join(exported)}",
                )
        for need in one.needs:
            if need not in found:
                raise UsageError(
                    f"{wrong} needs '{need}', which is no subject before it",
                    where=str(path),
                    remedy=f"before it are: {', '.join(found) or 'none'}",
                )
        found[name] = replace(one, letter=exported[one.features[-1]].folder / LETTER)
    for feature in exported:
        having = [one.name for one in found.values() if feature in one.features]
        if len(having) != 1:
            raise UsageError(
                f"feature '{feature}' is in {'the subjects ' + ' and '.join(having) if having else 'no subject'}",
                where=str(path),
                remedy="list it under features of one subject; another that needs its patches, but not that subject, "
                "lists it under shares",
            )
    whole = replace(base, subjects=found)
    for one in found.values():
        if twice := set(one.shares) & {*one.features, *(f.name for f in whole.features_before(one))}:
            raise UsageError(
                f"subject '{one.name}' shares '{min(twice)}', which it has or needs anyway",
                where=str(path),
                remedy="remove it from shares",
            )
    return found
