# SPDX-License-Identifier: GPL-2.0-only
"""The data files of `lull check`: rules, machines, known issues (checker/), and mutants (kernel/mutants.toml)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lull import paths, toml
from lull.base import Base
from lull.errors import UsageError, unknown

Made = TypeVar("Made")
RULES = paths.CHECKER / "rules.toml"
MACHINES = paths.CHECKER / "machines.toml"
KNOWN_ISSUES = paths.CHECKER / "known-issues.toml"
REMEDY = "correct the file: the comment at its beginning explains the form"
CONSOLE = "console/"
"""The beginning of a rule that matches text on the console."""
WIDE, NARROW = 16, 8
"""The two widths, in bits, that an ASID can have."""


class RuleKind(NamedTuple):
    """A kind of a rule: what happened, in one line, and the section of the Arm ARM that forbids it."""

    says: str
    manual: str


@dataclass(frozen=True)
class Rule:
    """A rule of the checker (checker/rules.toml).

    Args:
        kinds: its kinds by name.
        counter: the counter in the plugin's verdict of the events that the rule tests; empty: the plugin has none.
    """

    kinds: Mapping[str, RuleKind]
    counter: str = ""


@dataclass(frozen=True)
class Hardware:
    """A machine that a kernel is checked on.

    Args:
        name: its name in tables, in the form that --cpu takes: ``max+kpti+asid8``.
        cpu: the value of QEMU's -cpu.
        kpti: the kernel parameter kpti= forces kernel page-table isolation on or off; None: the kernel decides.
        asid_bits: width of ASIDs, 16 or 8.
        ntlbpa: whether the checker models CPUs with FEAT_nTLBPA; None: as ID_AA64MMFR1_EL1 says.
        mte: memory has tags (FEAT_MTE2); QEMU refuses it for CPUs that cannot have them.
        sme: the kernel takes the CPU, which is QEMU's max, for one with erratum 4193714 of SME.
    """

    name: str
    cpu: str
    kpti: bool | None = None
    asid_bits: int = WIDE
    ntlbpa: bool | None = None
    mte: bool = False
    sme: bool = False

    def with_settings(self, kpti: bool | None, asid_bits: int | None) -> Hardware:
        """This machine with the settings that are not None, and a name that says so."""
        chosen = replace(
            self, kpti=self.kpti if kpti is None else kpti, asid_bits=self.asid_bits if asid_bits is None else asid_bits
        )
        words, given = [self.name.partition("+")[0]], self.name.split("+")[1:]
        words += [] if chosen.kpti is None else ["kpti" if chosen.kpti else "nokpti"]
        words += ["asid8"] if chosen.asid_bits == NARROW else []
        words += ["mte"] if chosen.mte else []
        words += ["sme"] if chosen.sme else []
        words += [word for word in given if "ntlbpa" in SETTINGS.get(word, {})][-1:]  # without: ntlbpa of the machine
        return replace(chosen, name="+".join(words))

    def parameter(self) -> str:
        """The kernel parameters for the settings of this machine."""
        return "" if self.kpti is None else f"kpti={int(self.kpti)}"


SETTINGS: dict[str, dict[str, Any]] = {
    "kpti": {"kpti": True},
    "nokpti": {"kpti": False},
    "asid8": {"asid_bits": NARROW},
    "mte": {"mte": True},
    "sme": {"sme": True},
    "ntlbpa": {"ntlbpa": True},
    "nontlbpa": {"ntlbpa": False},
}
"""The words that --cpu takes behind ``+``, and the fields of Hardware that each sets."""


@dataclass(frozen=True)
class Mutant:
    """A way in which the lab kernel can be broken (kernel/mutants.toml).

    Args:
        name: its name, which is the value of the kernel parameter ``lull_mutant``, unless it has ``changes``.
        about: what is broken.
        rules: the rules that may catch it, ``rule`` or ``rule/kind``; the first is the rule that is meant to.
            ``console/TEXT`` catches it when the kernel prints TEXT in a report of its own, or dies with TEXT.
        workload: the workload that executes the broken code.
        append: further kernel parameters that it needs.
        cpu: the machine that it needs, as --cpu takes it; empty: any.
        vcpus: the least number of virtual CPUs that it needs.
        may_crash: the guest may crash.
        bases: the series of the base kernels whose lab kernel has it; empty: all.
        beside: known issues at the same place, whose reports do not catch it: it is worse.
        settings: features and the policies that they need, set before the workload runs.
        changes: what breaks an image that has no such parameter (lull.check.broken).
    """

    name: str
    about: str
    rules: tuple[str, ...]
    workload: str
    append: str = ""
    cpu: str = ""
    vcpus: int = 0
    may_crash: bool = False
    bases: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownIssue:
    """A known defect of Linux: a report of it does not fail a check (checker/known-issues.toml).

    Args:
        name: its name in the file.
        about: what is wrong, in one line.
        rule, kind: the rule and kind of its reports; an empty kind: every kind.
        doc: file and anchor of its description, if it has one.
        changed, noticed: functions that are all on the call chain that changed the entry, or where the checker noticed.
        level: the level of the entry in the page tables; None: any.
        conflict: in which property the old entry contradicts the new one, as in the report; empty: in any.
        tlbi: why one of the TLBIs was not enough, as in the report; empty: any reason, or no TLBI.
        before: the first release of Linux without the defect, as ``6.14``: its reports are of a defect that is not
            known. Empty: no release that was looked at is without it.
    """

    name: str
    about: str
    rule: str
    doc: str = ""
    changed: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()
    kind: str = ""
    level: int | None = None
    conflict: str = ""
    tlbi: str = ""
    before: str = ""

    def describes(self, report: Mapping[str, Any], release: str) -> bool:
        """Return true if ``report`` is of this defect, by the names of functions that the plugin has put into it.

        Args:
            release: the output of uname -r in the guest; empty for a guest that did not reach user space.
        """

        def passed(place: str) -> set[str]:
            # GCC makes f.isra.0 and f.constprop.0 of a function f.
            return {name.partition(".")[0] for name in report.get(place, {}).get("functions", ())}

        return (
            report["rule"] == self.rule
            and (not self.before or (bool(release) and version(release) < version(self.before)))
            and self.kind in ("", report["kind"])
            and self.level in (None, report.get("level"))
            and self.conflict in ("", report.get("conflict"))
            and (not self.tlbi or any(t["why"] == self.tlbi for t in report.get("tlbis", ())))
            and passed("changed") >= set(self.changed)
            and passed("noticed") >= set(self.noticed)
        )


def version(release: str) -> tuple[int, ...]:
    """The numbers at the beginning of a release of Linux: (6, 12, 117) of ``6.12.117+deb13-arm64``; else ()."""
    found = re.match(r"\d+(\.\d+)*", release)
    return tuple(map(int, found[0].split("."))) if found else ()


def read_tables(path: Path, what: str, make: Callable[[str, dict[str, Any]], Made]) -> dict[str, Made]:
    """The tables of a TOML file by name. Raises UsageError when it cannot be read, or an entry is malformed.

    Args:
        what: what its tables are (``machines``), for the message.
        make: makes an object of an entry, of which it gets the name and the values.
    """
    with toml.reading(f"a file of {what}", path, REMEDY):
        raw = toml.load_toml(path)
    found = {}
    for name, entry in raw.items():
        if not isinstance(entry, dict):
            raise UsageError(f"not a file of {what}: {name} is not a table", where=str(path), remedy=REMEDY)
        with toml.reading(f"a file of {what}: [{name}]", path, REMEDY):
            found[name] = make(name, entry)
    return found


def load_rules(path: Path = RULES) -> dict[str, Rule]:
    """The checker's rules by name. Raises UsageError when an entry is malformed."""

    def make(name: str, entry: dict[str, Any]) -> Rule:
        kinds = {kind: RuleKind(str(one["says"]), str(one["manual"])) for kind, one in entry["kinds"].items()}
        return Rule(kinds, str(entry.get("counter", "")))

    return read_tables(path, "rules", make)


def load_machines(path: Path = MACHINES) -> dict[str, Hardware]:
    """The machines by name. Raises UsageError."""

    def make(name: str, entry: dict[str, Any]) -> Hardware:
        return Hardware(name, str(entry["cpu"]), ntlbpa=bool(entry["ntlbpa"]) if "ntlbpa" in entry else None)

    return read_tables(path, "machines", make)


def parse_hardware(text: str, machines: Mapping[str, Hardware]) -> Hardware:
    """The machine that --cpu names: NAME+SETTING+... Raises UsageError for a setting that does not exist, or not there.

    NAME is one of ``machines``, or else a value of QEMU's -cpu; SETTING is a key of SETTINGS.
    """
    name, *settings = text.split("+")
    found = replace(machines.get(name) or Hardware(name, name), name=text)
    for setting in settings:
        if setting not in SETTINGS:
            raise unknown("setting of a machine", setting, SETTINGS)
        found = replace(found, **SETTINGS[setting])
    if found.sme and found.cpu.partition(",")[0] != "max":
        raise UsageError(f"{text}: the CPU {found.cpu} has no SME", remedy="use +sme with QEMU's CPU max")
    return found.with_settings(None, None)


def matrix(machines: Mapping[str, Hardware], kpti: bool | None, asid_bits: int | None) -> list[Hardware]:
    """Every machine with KPTI off and on, and with ASIDs of 16 and 8 bits; an argument that is not None fixes one."""
    isolations = (False, True) if kpti is None else (kpti,)
    widths = (WIDE, NARROW) if asid_bits is None else (asid_bits,)
    return [m.with_settings(k, w) for m, w, k in itertools.product(machines.values(), widths, isolations)]


def load_mutants(path: Path, base: Base | None = None) -> dict[str, Mutant]:
    """The mutants by name. Raises UsageError when the base has none, or an entry is malformed.

    Args:
        base: leave out mutants that bases of its series do not have; values in the table ``on.SERIES`` of an entry take
            the place of the entry's own. Its switches that ``append`` turns off are off, and all with ``as_stock``.
    """
    series = base.series if base else ""
    switches = [f for f in base.features.values() if f.off != f.default] if base else []
    if not path.exists():
        raise UsageError("this base has no mutants", where=str(path), remedy="choose another with --base")

    def make(name: str, entry: dict[str, Any]) -> Mutant:
        entry = entry | entry.get("on", {}).get(series, {})
        if not isinstance(entry["rules"], list) or not entry["rules"]:
            raise TypeError("'rules' is not a list with at least one rule")
        plain = entry.get("as_stock", False)
        words = [*(f"{f.boot}={f.off}" for f in switches if plain and f.boot), *entry.get("append", "").split()]
        off = tuple((f.name, f.off) for f in switches if plain or f"{f.boot}={f.off}" in words)
        return toml.made(Mutant, entry, name=name, append=" ".join(words), settings=off)

    found = read_tables(path, "mutants", make)
    return {m.name: m for m in found.values() if not series or not m.bases or series in m.bases}


def load_known_issues(path: Path = KNOWN_ISSUES) -> list[KnownIssue]:
    """The known issues. Raises UsageError when an entry is malformed."""
    return [*read_tables(path, "known issues", lambda name, entry: toml.made(KnownIssue, entry, name=name)).values()]


def unfixed(issues: Iterable[KnownIssue], base: Base, kernel: str) -> list[KnownIssue]:
    """Those of ``issues`` that no feature of ``kernel`` fixes; all, if it is no kernel of ``base``."""
    fixed = {name for f in base.features_of(kernel) for name in f.fixes} if kernel in base.kernels else set()
    return [issue for issue in issues if issue.name not in fixed]


def died_of(what: str, rules: Sequence[str]) -> list[str]:
    """The ``console/TEXT`` rules among ``rules`` whose TEXT is in the guest's last words, ``what``."""
    return [rule for rule in rules if rule.startswith(CONSOLE) and rule.removeprefix(CONSOLE) in what]


def matches(report: Mapping[str, Any], rules: Sequence[str]) -> bool:
    """Return true if ``report`` is of one of ``rules``, each written ``rule``, ``rule/kind`` or ``console/TEXT``."""
    if report["rule"] == "console":
        return bool(died_of("\n".join(report["text"]), rules))
    return report["rule"] in rules or f"{report['rule']}/{report['kind']}" in rules
