# SPDX-License-Identifier: GPL-2.0-only
"""The tables of a check: machines x kernels, what TLBIs took in vain, and the mutants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from lull.judge.tables import Grid, number
from lull.run.records import Record

SILENT = "silent"
LOST = "tlb_lost"
WALKS = "seconds_walks"


@dataclass(frozen=True)
class Boot:
    """What the table says of a boot; ``known``: the findings that describe what it reported."""

    kernel: str
    machine: str
    verdict: str
    known: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """How a mutant fared.

    Args:
        meant: the rule it is meant to be caught by.
        seen: rule -> boots that had a report of it, or died of it.
        caught: boots in which it was one of its rules.
        as_meant: boots in which it was the one that is meant.
        boots: all.
        ends: how its guests ended, where not well.
    """

    mutant: str
    meant: str
    seen: dict[str, int]
    caught: int
    as_meant: int
    boots: int
    ends: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Caught each time, by the rule that is meant for it."""
        return self.as_meant == self.boots

    def verdict(self) -> str:
        """In a word or two."""
        if self.held:
            return "caught"
        return "by another rule" if self.caught == self.boots else "missed" if not self.caught else "not each time"


def grids(boots: Sequence[Boot], records: Sequence[Record], scores: Sequence[Score]) -> list[Grid]:
    """Everything that there is a table of.

    Args:
        boots: of no mutant.
        records: what was counted in their windows.
        scores: of the mutants.
    """
    found = []
    if boots:
        found.append(_matrix(boots))
        # Of one machine: several are too wide for a table.
        if len({b.machine for b in boots}) == 1:
            found += _lost(records)
    if scores:
        found.append(_mutants(scores))
    return found


def _matrix(boots: Sequence[Boot]) -> Grid:
    kernels = list(dict.fromkeys(b.kernel for b in boots))
    machines = list(dict.fromkeys(b.machine for b in boots))
    rows = [
        (m, *(_cell([b for b in boots if (b.machine, b.kernel) == (m, kernel)]) for kernel in kernels))
        for m in machines
    ]
    return Grid("check", ("machine", *kernels), tuple(rows), 1 + len(kernels))


def _cell(boots: Sequence[Boot]) -> str:
    """A kernel on a machine."""
    bad = Counter(b.verdict for b in boots if b.verdict != SILENT)
    of = f" {{}} of {len(boots)}" if len(boots) > 1 else ""
    known = len({name for b in boots for name in b.known})
    notes = f" ({known} known)" if known else ""
    return (", ".join(word + of.format(n) for word, n in bad.items()) or (SILENT if boots else "")) + notes


def _lost(records: Sequence[Record]) -> list[Grid]:
    """What TLBIs took though nothing about it had changed, per operation, where anything was, and what walking for it
    costs, where that was said: workloads x kernels."""
    notes = {
        LOST: "entries that TLBIs took from CPUs which had used them, and that were still true",
        WALKS: "page walks for these, all CPUs together, at most; modelled time",
    }
    return [grid for metric, note in notes.items() if (grid := _per_operation(records, metric, note))]


def _per_operation(records: Sequence[Record], metric: str, note: str) -> Grid | None:
    counted = [r for r in records if r.metric == metric and r.operations]
    kernels = list(dict.fromkeys(r.kernel for r in counted))
    found = {(r.workload, r.operation, r.kernel): (median(r.values) / r.operations, r.unit) for r in counted}
    rows = [
        (*work, *(_shown(*found[*work, k]) if (*work, k) in found else "" for k in kernels))
        for work in dict.fromkeys(key[:2] for key, (value, _) in found.items() if value)
    ]
    return Grid(metric, ("workload", "per", *kernels), tuple(rows), 2, (note,)) if rows else None


def _shown(value: float, unit: str) -> str:
    return number(value, unit) if unit == "s" else f"{value:.3g}"


def _mutants(scores: Sequence[Score]) -> Grid:
    lines = [
        (
            s.mutant,
            s.meant,
            ", ".join(s.seen) or "none",
            f"{s.caught} of {s.boots}",
            "; ".join([s.verdict(), *(f"guest {end}" for end in s.ends)]),
        )
        for s in scores
    ]
    return Grid("mutants", ("mutant", "rule meant", "rules seen", "caught", "verdict"), tuple(lines), 5)
