# SPDX-License-Identifier: GPL-2.0-only
"""What a run measured, and its form on disk (results.json)."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

COUNT_UNIT = "count"
FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", lambda value: isinstance(value, str)),
    "int": ("a whole number", lambda value: type(value) is int),
    "tuple[float, ...]": (
        "a list of numbers, one at least",
        lambda value: isinstance(value, list) and bool(value) and all(type(v) in (int, float) for v in value),
    ),
    "list": ("a list", lambda value: isinstance(value, list)),
    "dict": ("a table", lambda value: isinstance(value, dict)),
}
"""How a field of each type, or of lists and tables of anything, is written in JSON: in words, and how that is told."""


@dataclass(frozen=True)
class Record:
    """One metric of one workload on one kernel, a value per repeat.

    Args:
        kernel: the kernel's name, with its run-time settings (``lull+young=sync``). ``stock.control`` is a
            second, identical series of ``stock``: the A/A control.
        workload: program, and case when it has several (``teardown/anon-4k``).
        vcpus: virtual CPUs of the guest.
        metric: its name (``tlbi_broadcast``, ``seconds_emulated``, ...): plugin/README.md lists those of the plugin.
        unit: ``count`` for exact counts, ``s`` for seconds.
        values: one per repeat, in the order of the run.
        operations: operations of the workload in one window (0: it has none).
        operation: what one operation is (``page``, ``mprotect``).
    """

    kernel: str
    workload: str
    vcpus: int
    metric: str
    unit: str
    values: tuple[float, ...]
    operations: int = 0
    operation: str = ""


@dataclass(frozen=True)
class Breakdown:
    """The instructions of a workload on a kernel, by function of the kernel.

    Args:
        kernel, workload, operations, operation: as in ``Record``.
        metric: whose median the counts add up to: insns_quiet or, of a case with one window, insns_own.
        counts: the function's name -> instructions.
    """

    kernel: str
    workload: str
    metric: str
    counts: dict[str, float]
    operations: int = 0
    operation: str = ""


@dataclass(frozen=True)
class Check:
    """A yes/no finding of a run, e.g. a young policy's counts. ``verdict``: held, failed or skipped."""

    name: str
    verdict: str
    detail: str


def fields_of(kind: type, raw: Any, where: str) -> dict[str, Any]:
    """What the dataclass ``kind`` is made of, from JSON. Raises ValueError naming the field that is not of its type."""
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is no table")
    known = {f.name: f for f in fields(kind)}
    needed = {name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    for what, names in (("missing", needed - {*raw}), ("not known", {*raw} - {*known})):
        if names:
            raise ValueError(f"{where}: {min(names)} is {what}")
    for name, value in raw.items():
        form, is_of = FORMS.get(str(known[name].type)) or FORMS[str(known[name].type).partition("[")[0]]
        if not is_of(value):
            raise ValueError(f"{where}: {name} is not {form}")
    return {name: tuple(value) if known[name].type == "tuple[float, ...]" else value for name, value in raw.items()}


@dataclass
class Results:
    """Everything a run found, as written to results.json."""

    lull: str
    base: str
    host: dict[str, Any]
    records: list[Record] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    functions: list[Breakdown] = field(default_factory=list)

    def to_json(self) -> str:
        """The text of results.json."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read results.json back. Raises ValueError when it is not one."""
        try:
            raw = fields_of(cls, json.loads(text), "the file")
            for name, kind in (("records", Record), ("checks", Check), ("functions", Breakdown)):
                found = raw.get(name, [])
                raw[name] = [kind(**fields_of(kind, one, f"{name}[{number}]")) for number, one in enumerate(found)]
        except ValueError as error:
            raise ValueError(f"not a results.json of this version: {error}") from error
        return cls(**raw)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read the results.json at ``path``."""
        return cls.from_json(path.read_text())

    def find(self, **wanted: object) -> Iterable[Record]:
        """The records whose fields equal all of ``wanted``."""
        return (r for r in self.records if all(getattr(r, key) == value for key, value in wanted.items()))


def host() -> dict[str, Any]:
    """The machine, for results.json; no names of it."""
    return {
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "model": cpu_model(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPUs by name or, on arm64, where they have none, by implementer and part; empty when neither is said."""
    try:
        lines = [line.partition(":") for line in cpuinfo.read_text().splitlines()]
    except OSError:
        return ""
    found: dict[str, list[str]] = defaultdict(list)
    for name, _, value in lines:
        found[name.strip()].append(value.strip())
    if "model name" in found:
        return found["model name"][0]
    parts = dict.fromkeys(zip(found["CPU implementer"], found["CPU part"], strict=False))
    return ", ".join(f"implementer {implementer} part {part}" for implementer, part in parts)
