# SPDX-License-Identifier: GPL-2.0-only
"""Base kernels as data: kernel/bases/NAME.toml says package, kernels, configuration and features."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lull import cache, paths
from lull.errors import UsageError

DEFAULT = "6.12"


@dataclass(frozen=True)
class Feature:
    """One feature of Lull for one base.

    Args:
        name: its folder in kernel/ and its name in kernel specs.
        folder: where NOTE.md, files/ and hooks/ are.
        hooks: the patch of the few lines it adds to files the kernel has; None when it adds none.
        policies: run-time values of its switch; empty for a feature that has none.
        off: the policy that is stock's behaviour.
        default: the policy it boots with.
        lab: more policies, that only the kernel ``lab`` has: wrong on purpose, to be compared with and to be caught.
        kunit: its KUnit suites.
        only: the kernels it is applied for, when not for all that have features. It is no part of Lull then: such a
            feature is never exported.
    """

    name: str
    folder: Path
    hooks: Path | None
    policies: tuple[str, ...] = ()
    off: str = ""
    default: str = ""
    lab: tuple[str, ...] = ()
    kunit: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """Its own kernel files, relative to the kernel tree."""
        top = self.folder / "files"
        return sorted(p.relative_to(top) for p in top.rglob("*") if p.is_file())

    def key(self) -> str:
        """Content key of everything it does to a tree."""
        own = [str(f) for f in self.files()]
        text = [(self.folder / "files" / f).read_text() for f in own]
        return cache.key_of(self.hooks.read_text() if self.hooks else "", *own, *text)


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
        name: as in ``--suite``; empty for the base's own.
        workloads: the workload file.
        fragments: configuration fragments that every kernel has more.
        userland: the file that says which Debian programs the guest has; None: only ours.
    """

    name: str
    workloads: Path
    fragments: tuple[Path, ...] = ()
    userland: Path | None = None


@dataclass(frozen=True)
class Base:
    """A base kernel.

    Args:
        name: file name without ending.
        series: ``6.12``.
        package: Debian's source package of the kernel tree; empty when only --tree can bring one.
        tarball: the tarball inside it.
        suite: a release that carries it, when the machine's own does not.
        kernels: what can be built.
        features: in the order they are applied.
        tried: versions of Linux that the features were tested on: taken where the first archive has one.
        default_kernels: compared when none is named; the baseline first.
        workloads: the workload file.
        mutants: the file of the lab kernel's mutants.
        suites: more programs, by name.
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

    def features_of(self, kernel: str) -> list[Feature]:
        """The features applied to a kernel of this base."""
        if not self.kernels[kernel].features:
            return []
        return [f for f in self.features.values() if not f.only or kernel in f.only]

    def suite_named(self, name: str) -> Suite:
        """A suite by name; the base's own workloads when it is empty. Raises UsageError."""
        if not name:
            return Suite("", self.workloads)
        if name not in self.suites:
            raise UsageError(f"unknown suite '{name}'", remedy=f"known: {', '.join(self.suites) or 'none'}")
        return self.suites[name]

    def exported(self) -> dict[str, Feature]:
        """The features that are Lull: what becomes commits, and what commits become."""
        return {f.name: f for f in self.features.values() if not f.only}

    def default_policies(self) -> dict[str, str]:
        """Feature -> policy it boots with."""
        return {f.name: f.default for f in self.features.values() if f.policies}


def known() -> list[str]:
    """The bases there are."""
    return sorted(p.stem for p in paths.BASES.glob("*.toml"))


def load(name: str = DEFAULT) -> Base:
    """A base by name, or by the path of its TOML file. Raises UsageError."""
    path = Path(name) if name.endswith(".toml") else paths.BASES / f"{name}.toml"
    if not path.is_file():
        raise UsageError(f"unknown base '{name}'", remedy=f"known: {', '.join(known())}")
    try:
        return parse(tomllib.loads(path.read_text()), path.resolve())
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"not a base file: {error!r}", where=str(path)) from error


def parse(raw: dict[str, Any], path: Path) -> Base:
    """The base in the parsed TOML ``raw``; paths in it are relative to the folder above the file's."""
    top = path.parent.parent

    def files(names: Sequence[str]) -> tuple[Path, ...]:
        return tuple(top / n for n in names)

    features: dict[str, Feature] = {}
    for name, entry in raw.get("features", {}).items():
        folder = top / name
        hooks = folder / "hooks" / f"{raw['series']}.patch"
        switch = entry.get("switch", {})
        features[name] = Feature(
            name,
            folder,
            hooks if hooks.exists() else None,
            tuple(switch.get("policies", ())),
            switch.get("off", ""),
            switch.get("default", ""),
            tuple(switch.get("lab", ())),
            tuple(entry.get("kunit", ())),
            tuple(entry.get("only", ())),
        )
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
        **extra,
    )
