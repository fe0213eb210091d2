# SPDX-License-Identifier: GPL-2.0-only
"""Read base kernels (kernel/bases/NAME.toml): the source package, the kernels to build from it, and the features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lull import cache, paths, toml
from lull.errors import UsageError

DEFAULT = "6.12"


@dataclass(frozen=True)
class Patch:
    """A patch of a feature for one base: one commit of `lull tree`, and one mail of `lull export`.

    Args:
        name: ``FEATURE``, or ``FEATURE/PATCH`` when the feature has several patches.
        folder: the folder with NOTE.md, which is the commit message, files/ and hooks/.
        series: the kernel series of the base, ``6.12``.
    """

    name: str
    folder: Path
    series: str

    @property
    def hooks(self) -> Path:
        """The file with the changes of Linux's files; there is none when the patch changes none."""
        return self.folder / "hooks" / f"{self.series}.patch"

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
        lab: further policies that only the kernel ``lab`` has: results are compared with them. Some are unsafe on
            purpose, and the checker must report them.
        kunit: its KUnit suites.
        only: the kernels that the feature is applied to; empty: all kernels with features. A feature with ``only`` is
            not part of Lull, and is never exported.
    """

    name: str
    folder: Path
    patches: tuple[Patch, ...]
    policies: tuple[str, ...] = ()
    off: str = ""
    default: str = ""
    lab: tuple[str, ...] = ()
    kunit: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


def patches_of(features: Iterable[Feature]) -> list[Patch]:
    """The patches of ``features``, in the order in which they are applied."""
    return [patch for feature in features for patch in feature.patches]


@dataclass(frozen=True)
class KernelKind:
    """One kernel of a base: its configuration fragments, and whether the features are applied."""

    name: str
    fragments: tuple[Path, ...]
    features: bool


@dataclass(frozen=True)
class Suite:
    """Programs to run, and what kernels and guests need for them.

    Args:
        name: the name that ``--suite`` takes; empty for the base's own workloads.
        workloads: the file that lists the workloads.
        fragments: configuration fragments added to those of every kernel.
        userland: the file that lists the Debian packages of the guest; None: the guest has only the lab's programs.
    """

    name: str
    workloads: Path
    fragments: tuple[Path, ...] = ()
    userland: Path | None = None


@dataclass(frozen=True)
class Base:
    """A base kernel.

    Args:
        name: the name of its file, without the ending.
        series: the kernel series, ``6.12``.
        package: Debian's source package of the kernel tree; empty when the tree must be named with --tree.
        tarball: the path of the tarball in that package.
        suite: a Debian suite that has the package, tried when the machine's own release does not.
        kernels: the kernels that can be built, by name.
        features: the features by name, in the order in which they are applied.
        tried: the versions of Linux that the features were tested on; preferred when an archive has one of them.
        default_kernels: the kernels that a run compares when none is named, the baseline first.
        workloads: the file that lists the workloads.
        mutants: the file that lists the lab kernel's mutants.
        suites: further sets of programs, by name.
        checked: the checker knows the functions of this series that it watches (lull.check.kernels).
    """

    name: str
    series: str
    package: str
    tarball: str
    suite: str
    kernels: Mapping[str, KernelKind]
    features: Mapping[str, Feature]
    tried: tuple[str, ...] = ()
    default_kernels: tuple[str, ...] = ("stock", "lull")
    workloads: Path = field(default=paths.GUEST / "workloads.toml")
    mutants: Path = field(default=paths.KERNEL / "lab/mutants.toml")
    suites: Mapping[str, Suite] = field(default_factory=dict)
    checked: bool = True

    def features_of(self, kernel: str) -> list[Feature]:
        """The features applied to a kernel of this base."""
        if not self.kernels[kernel].features:
            return []
        return [f for f in self.features.values() if not f.only or kernel in f.only]

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
        name: KernelKind(name, files(entry["config"]), bool(entry.get("features", False)))
        for name, entry in raw["kernels"].items()
    }
    suites = {
        name: Suite(
            name,
            top / entry["workloads"],
            files(entry.get("config", ())),
            top / entry["userland"] if "userland" in entry else None,
        )
        for name, entry in raw.get("suites", {}).items()
    }
    source = raw.get("source", {})
    extra: dict[str, Any] = {"tried": tuple(source.get("tried", ()))}
    for name in ("workloads", "mutants"):
        if name in raw:
            extra[name] = top / raw[name]
    if "compare" in raw:
        extra["default_kernels"] = tuple(raw["compare"])
    return Base(
        path.stem,
        raw["series"],
        source.get("package", ""),
        source.get("tarball", ""),
        source.get("suite", ""),
        kernels,
        features,
        suites=suites,
        checked=bool(raw.get("checker", True)),
        **extra,
    )
