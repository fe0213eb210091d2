# SPDX-License-Identifier: GPL-2.0-only
"""What a run measured, and its form on disk (results.json)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COUNT_UNIT = "count"


@dataclass(frozen=True)
class Record:
    """One metric of one workload on one kernel, a value per repeat.

    Args:
        kernel: the kernel's name, with its run-time settings (``lull+young=sync``). ``stock.control`` is a
            second, identical series of ``stock``: the A/A control.
        workload: program, and case when it has several (``teardown/anon-4k``).
        vcpus: virtual CPUs of the guest.
        metric: a name of the design's section 6 (``tlbi_broadcast``, ``seconds_emulated``, ...).
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
class Check:
    """A yes/no finding of a run, e.g. a young policy's counts. ``verdict``: held, failed or skipped."""

    name: str
    verdict: str
    detail: str


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

    def to_json(self) -> str:
        """The text of results.json."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read results.json back. Raises ValueError when it is not one."""
        raw = json.loads(text)
        try:
            records = [Record(**{**r, "values": tuple(r["values"])}) for r in raw.pop("records")]
            checks = [Check(**c) for c in raw.pop("checks")]
            found = cls(records=records, checks=checks, **raw)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a results.json of this version: {error}") from error
        if not isinstance(found.host, dict) or not isinstance(found.settings, dict):
            raise ValueError("not a results.json of this version: host and settings are tables")
        return found

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read the results.json at ``path``."""
        return cls.from_json(path.read_text())

    def find(self, **wanted: object) -> Iterable[Record]:
        """The records whose fields equal all of ``wanted``."""
        return (r for r in self.records if all(getattr(r, key) == value for key, value in wanted.items()))
