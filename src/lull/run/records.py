# SPDX-License-Identifier: GPL-2.0-only
"""What a run measured, and its form on disk (results.json)."""

from __future__ import annotations

import functools
import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

COUNT_UNIT = "count"
FORMS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    int: ("a whole number", lambda value: type(value) is int),
    float: ("a number", lambda value: type(value) in (int, float)),
    bool: ("true or false", lambda value: type(value) is bool),
    tuple: (
        "a list of numbers, one at least",
        lambda value: isinstance(value, list) and bool(value) and all(type(v) in (int, float) for v in value),
    ),
    list: ("a list", lambda value: isinstance(value, list)),
    dict: ("a table", lambda value: isinstance(value, dict)),
}
"""How a value of each type is written in JSON: in words, and how that is told. A tuple is one of numbers."""
hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def from_json(kind: Any, raw: Any, where: str) -> Any:
    """A value of the type ``kind`` from JSON: a dataclass, lists and tables of such, or one of FORMS; or None.

    Raises: ValueError naming the part that is not of its type: that of ``where``, or in it.
    """
    origin, of = get_origin(kind), get_args(kind)
    if kind is Any or (raw is None and NoneType in of):
        return raw
    if origin is UnionType:
        return from_json(of[0], raw, where)
    if is_dataclass(kind):
        if not isinstance(raw, dict):
            raise ValueError(f"{where} is no table")
        needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
        for what, names in (("missing", needed - {*raw}), ("not known", {*raw} - {f.name for f in fields(kind)})):
            if names:
                raise ValueError(f"{where}: {min(names)} is {what}")
        types = hints(kind)
        return kind(**{name: from_json(types[name], value, f"{where}: {name}") for name, value in raw.items()})  # type: ignore[operator]
    form, is_of = FORMS[origin or kind]
    if not is_of(raw):
        raise ValueError(f"{where} is not {form}")
    if origin is list:
        name = where.rpartition(": ")[2]
        return [from_json(of[0], one, f"{name}[{number}]") for number, one in enumerate(raw)]
    if origin is dict:
        return {of[0](key): from_json(of[1], value, f"{where}: {key}") for key, value in raw.items()}
    return tuple(raw) if origin is tuple else raw


@dataclass(frozen=True)
class Record:
    """One metric of one workload on one kernel, a value per repeat.

    Args:
        kernel: the kernel's name, with its run-time settings (``lull+young=sync``). ``stock.control`` is a
            second, identical set of boots of ``stock``: the A/A control.
        workload: program, and case when it has several (``teardown/anon-4k``).
        vcpus: virtual CPUs of the guest.
        metric: its name (``tlbi_broadcast``, ``seconds_emulated``, ...): checker/plugin.md lists those of the plugin.
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
    """A yes/no finding of a run, e.g. a young policy's counts. ``verdict``: passed, failed or skipped."""

    name: str
    verdict: str
    detail: str


@dataclass
class Measurement:
    """A case of a workload in one boot: the sum of its windows.

    Args:
        kernel, workload: as in ``Record``.
        operations, unit: how many operations the windows had, and what one is.
        seconds: of the guest's clock.
        metrics: their names -> values.
        scale: what the case's name grows with, if anything.
        worst: of the program jitter, the largest value of any window, for some metrics.
        functions: function of the kernel -> instructions, if they were counted.
    """

    kernel: str
    workload: str
    operations: int
    unit: str
    seconds: float
    metrics: dict[str, float]
    scale: str = ""
    worst: dict[str, float] = field(default_factory=dict)
    functions: dict[str, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class Kept:
    """What is kept of a boot, in boot.json: at least the ``seconds`` that it took."""

    seconds: float = 0.0


@dataclass(kw_only=True)
class MeasuredBoot(Kept):
    """A boot with workloads.

    Args:
        guest: the output of uname -r in the guest; empty when it did not get so far.
        attempts: boots that were needed.
        status: number of the job -> its exit status.
        measurements: of its windows.
    """

    guest: str = ""
    attempts: int = 1
    status: dict[int, int] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)


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
            found: Results = from_json(cls, json.loads(text), "the file")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a results.json of this version: {error}") from error
        return found

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
