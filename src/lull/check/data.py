# SPDX-License-Identifier: GPL-2.0-only
"""What a check is told in files: machines, mutants, known findings."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lull import paths
from lull.errors import UsageError
from lull.plan import unknown

MACHINES = paths.CHECKER / "machines.toml"
FINDINGS = paths.CHECKER / "findings.toml"
CONSOLE = "console/"
WIDE, NARROW = 16, 8
"""The two widths an ASID can have."""


@dataclass(frozen=True)
class Hardware:
    """What a kernel is checked on.

    Args:
        name: its name in tables, which --cpu takes: ``max+kpti+asid8``.
        cpu: QEMU's -cpu.
        kpti: a kernel parameter forces kernel page-table isolation on or off; None: the kernel decides.
        asid_bits: 16, or 8.
        ntlbpa: does the checker take the CPUs for ones with FEAT_nTLBPA? None: as ID_AA64MMFR1_EL1 says. A kernel
            parameter tells Lull's kernels the same; others see the register, whatever is said here.
    """

    name: str
    cpu: str
    kpti: bool | None = None
    asid_bits: int = WIDE
    ntlbpa: bool | None = None

    def with_settings(self, kpti: bool | None, asid_bits: int | None) -> Hardware:
        """The same with the settings that are not None."""
        chosen = replace(
            self,
            kpti=self.kpti if kpti is None else kpti,
            asid_bits=self.asid_bits if asid_bits is None else asid_bits,
        )
        words, given = [self.name.partition("+")[0]], self.name.split("+")[1:]
        words += [] if chosen.kpti is None else ["kpti" if chosen.kpti else "nokpti"]
        words += ["asid8"] if chosen.asid_bits == NARROW else []
        words += [word for word in given if "ntlbpa" in SETTINGS.get(word, {})][-1:]  # else it is the machine's own
        return replace(chosen, name="+".join(words))

    def parameter(self) -> str:
        """What the kernel's command line says about it."""
        words = [] if self.kpti is None else [f"kpti={int(self.kpti)}"]
        if self.ntlbpa is not None:
            words.append(f"lull.residency_ntlbpa={int(self.ntlbpa)}")
        return " ".join(words)


SETTINGS: dict[str, dict[str, Any]] = {
    "kpti": {"kpti": True},
    "nokpti": {"kpti": False},
    "asid8": {"asid_bits": NARROW},
    "ntlbpa": {"ntlbpa": True},
    "nontlbpa": {"ntlbpa": False},
}


@dataclass(frozen=True)
class Mutant:
    """A way in which the lab kernel can be broken (kernel/lab/mutants.toml).

    Args:
        name: value of the kernel parameter ``lull_mutant``.
        about: what is broken.
        rules: ``rule`` or ``rule/kind`` it may be caught by; the first is the one that is meant. ``console/TEXT``: the
            kernel says so itself, or dies of it.
        workload: shows it.
        append: more kernel parameters it needs.
        settings: features and their policies that it needs, set before its workload runs.
        cpu: a machine it needs, as --cpu takes it.
        vcpus: virtual CPUs that it needs at least.
        may_crash: the guest may not survive it.
    """

    name: str
    about: str
    rules: tuple[str, ...]
    workload: str
    append: str = ""
    cpu: str = ""
    vcpus: int = 0
    may_crash: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Finding:
    """A defect of Linux that is known: reports of it do not fail a check (checker/findings.toml).

    Args:
        name: its name there.
        about: one line for people.
        rule, kind: of the reports; every kind when empty.
        symbol: a function that changed the entry or noticed, or one that called it.
        doc: file and anchor of its description.
        level: of the entry; None: any.
    """

    name: str
    about: str
    rule: str
    symbol: str
    doc: str
    kind: str = ""
    level: int | None = None

    def describes(self, report: Mapping[str, Any]) -> bool:
        """Is it this one? The report has its functions' names (check_report.annotate)."""
        return (
            report["rule"] == self.rule
            and self.kind in ("", report["kind"])
            and self.level in (None, report.get("level"))
            and any(self.symbol in report.get(place, {}).get("functions", ()) for place in ("changed", "noticed"))
        )


def read(path: Path, what: str) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file. Raises UsageError."""
    try:
        raw: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"not a file of {what}: {error}", where=str(path)) from error
    for name, entry in raw.items():
        if not isinstance(entry, dict):
            raise UsageError(f"not a file of {what}: {name} is no table", where=str(path))
    return raw


def broken(what: str, name: str, path: Path, error: Exception) -> UsageError:
    """The error for an entry that lacks something, or has it in another form."""
    return UsageError(f"not a file of {what}: [{name}] {error!r}", where=str(path))


def load_machines(path: Path = MACHINES) -> dict[str, Hardware]:
    """The machines by name. Raises UsageError."""
    found = {}
    for name, entry in read(path, "machines").items():
        try:
            ntlbpa = bool(entry["ntlbpa"]) if "ntlbpa" in entry else None
            found[name] = Hardware(name, str(entry["cpu"]), ntlbpa=ntlbpa)
        except KeyError as error:
            raise broken("machines", name, path, error) from error
    return found


def parse_hardware(text: str, machines: Mapping[str, Hardware]) -> Hardware:
    """A machine as --cpu names it: NAME or a value of QEMU's -cpu, then of SETTINGS. Raises UsageError."""
    name, *settings = text.split("+")
    found = replace(machines.get(name) or Hardware(name, name), name=text)
    for setting in settings:
        if setting not in SETTINGS:
            raise unknown("setting of a machine", setting, SETTINGS)
        found = replace(found, **SETTINGS[setting])
    return found.with_settings(None, None)


def matrix(machines: Mapping[str, Hardware], kpti: bool | None, asid_bits: int | None) -> list[Hardware]:
    """Every machine, with KPTI on and off, with either width of ASIDs; less what is not None."""
    isolations = (False, True) if kpti is None else (kpti,)
    widths = (WIDE, NARROW) if asid_bits is None else (asid_bits,)
    return [m.with_settings(k, w) for m, w, k in itertools.product(machines.values(), widths, isolations)]


def load_mutants(path: Path) -> dict[str, Mutant]:
    """The mutants by name. Raises UsageError."""
    if not path.exists():
        raise UsageError("this base has no mutants", where=str(path), remedy="choose another with --base")
    found = {}
    for name, entry in read(path, "mutants").items():
        try:
            rules = entry["rules"]
            if not isinstance(rules, list) or not rules:
                raise TypeError("rules is no list of them")
            found[name] = Mutant(
                name,
                str(entry["about"]),
                tuple(map(str, rules)),
                str(entry["workload"]),
                str(entry.get("append", "")),
                str(entry.get("cpu", "")),
                int(entry.get("vcpus", 0)),
                bool(entry.get("may_crash", False)),
                tuple((str(k), str(v)) for k, v in entry.get("settings", {}).items()),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise broken("mutants", name, path, error) from error
    return found


def load_findings(path: Path = FINDINGS) -> list[Finding]:
    """The known findings. Raises UsageError."""
    found = []
    for name, entry in read(path, "findings").items():
        try:
            texts = {key: str(entry[key]) for key in ("about", "rule", "symbol", "doc")}
            level = int(entry["level"]) if "level" in entry else None
            found.append(Finding(name, kind=str(entry.get("kind", "")), level=level, **texts))
        except (KeyError, TypeError, ValueError) as error:
            raise broken("findings", name, path, error) from error
    return found


def died_of(trouble: Mapping[str, Any] | None, rules: Sequence[str]) -> list[str]:
    """Those of ``rules`` that are of the console, and what the kernel died of."""
    what = trouble["what"] if trouble else ""
    return [rule for rule in rules if rule.startswith(CONSOLE) and rule.removeprefix(CONSOLE) in what]


def matches(report: Mapping[str, Any], rules: Sequence[str]) -> bool:
    """Is the report of one of ``rules``, each ``rule``, ``rule/kind``, or ``console/TEXT``?"""
    if report["rule"] == "console":
        return bool(died_of({"what": report["text"]}, rules))
    return report["rule"] in rules or f"{report['rule']}/{report['kind']}" in rules
