# SPDX-License-Identifier: GPL-2.0-only
"""The tables that `lull check` and the report show: verdicts of machines x kernels, valid entries that TLBIs removed,
and the mutants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from lull.judge.tables import Grid, number
from lull.run.records import Record

PASSED = "passed"
NEWS = "nothing new"
"""What is said of a boot that passed, and reported known issues."""
FEW = 4
"""The most kernels that have a column each; more have a row each."""
OVER = "tlb_over_invalidated"
"""The metric: entries that TLBIs removed from CPUs which had used them, although the page tables still had them."""
REFILLS = "tlb_refills_unchanged"
"""The metric: entries of OVER that such a CPU then used again, while the page tables still had them."""
WALKS = "seconds_walks"
"""The metric: modelled seconds of the page walks that reload the entries of OVER."""
COSTS = (OVER, REFILLS, WALKS)
"""The titles of the tables of what TLBIs removed without need."""


@dataclass(frozen=True)
class BootVerdict:
    """One boot in the table of verdicts.

    Args:
        known: the names of the known issues that it reported.
        skipped: the workloads that this kernel or machine cannot run.
    """

    kernel: str
    machine: str
    verdict: str
    known: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """Which rules caught a mutant, and in how many boots.

    Args:
        mutant: its name.
        meant: the rule that is meant to catch it.
        seen: rule -> boots with a report of that rule, or that died with its text.
        caught: boots in which one of the mutant's rules caught it.
        as_meant: boots in which the rule ``meant`` caught it.
        boots: all boots of the mutant.
        ends: how guests that did not end normally ended.
    """

    mutant: str
    meant: str
    seen: dict[str, int]
    caught: int
    as_meant: int
    boots: int
    ends: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if the rule that is meant caught the mutant in every boot."""
        return self.as_meant == self.boots

    def verdict(self) -> str:
        """The last column: ``caught``, ``by another rule``, ``missed`` or ``not each time``."""
        if self.passed:
            return "caught"
        return "by another rule" if self.caught == self.boots else "missed" if not self.caught else "not each time"


def grids(boots: Sequence[BootVerdict], records: Sequence[Record], scores: Sequence[Score]) -> list[Grid]:
    """The tables of a check. A table without rows is left out.

    Args:
        boots: the boots without a mutant.
        records: the metrics of their windows.
        scores: the scores of the mutants.
    """
    found = []
    if boots:
        found.append(_matrix(boots))
        # Only with one machine and few kernels: the columns of more would make the tables too wide.
        if len({b.machine for b in boots}) == 1 and len({b.kernel for b in boots}) <= FEW:
            found += _lost(records)
    if scores:
        found.append(_mutants(scores))
    return found


def _matrix(boots: Sequence[BootVerdict]) -> Grid:
    kernels = list(dict.fromkeys(b.kernel for b in boots))
    machines = list(dict.fromkeys(b.machine for b in boots))
    of = {(m, k): [b for b in boots if (b.machine, b.kernel) == (m, k)] for m in machines for k in kernels}
    if len(kernels) > FEW:
        rows = [(k, *(_cell(of[m, k], names=True) for m in machines)) for k in kernels]
        return Grid("check", ("kernel", *machines), tuple(rows), 1 + len(machines))
    rows = [(m, *(_cell(of[m, k]) for k in kernels)) for m in machines]
    return Grid("check", ("machine", *kernels), tuple(rows), 1 + len(kernels))


def _cell(boots: Sequence[BootVerdict], *, names: bool = False) -> str:
    """The cell for the boots of one kernel on one machine: their verdicts, the known issues that they showed, and the
    workloads that were skipped.

    Args:
        names: with the names of known issues and workloads, not only how many there are.
    """
    bad = Counter(b.verdict for b in boots if b.verdict != PASSED)
    of = f" {{}} of {len(boots)}" if len(boots) > 1 else ""
    known = sorted({name for b in boots for name in b.known})
    skipped = sorted({name for b in boots for name in b.skipped})
    words = ", ".join(word + of.format(n) for word, n in bad.items())
    parts = [words or (NEWS if known else PASSED)] * bool(boots)
    if known:
        parts.append(defects(len(known)) + f": {', '.join(known)}" * names)
    if skipped:
        parts.append(f"skipped: {', '.join(skipped)}" if names else f"{len(skipped)} skipped")
    return "; ".join(parts)


def defects(number: int) -> str:
    """``1 known issue``, ``2 known issues``."""
    return f"{number} known issue{'s' * (number > 1)}"


def _lost(records: Sequence[Record]) -> list[Grid]:
    """Tables of workloads x kernels, per operation: valid entries that TLBIs removed (OVER), those of them that CPUs
    used again (REFILLS), and the modelled time of page walks for all of OVER (WALKS). Workloads whose values are all 0
    are left out."""
    notes = {
        OVER: "over-invalidated: entries that TLBIs took from CPUs which had used them, and that were true",
        REFILLS: "of such entries, those that a CPU used again and walked for, still unchanged",
        WALKS: "page walks for all entries of tlb_over_invalidated, all CPUs together, at most; modelled time",
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
