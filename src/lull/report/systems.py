# SPDX-License-Identifier: GPL-2.0-only
"""The five published systems that Lull takes up: what a report shows of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lull.judge import features
from lull.judge.tables import Grid
from lull.run.records import Check, Results


@dataclass(frozen=True)
class System:
    """A published system.

    Args:
        letter: as the documents call it.
        title, about: its idea; what Linux has of it, and what Lull makes of it.
    """

    letter: str
    title: str
    about: str

    def tables(self, run: Results) -> list[Grid]:
        """What of a run stands beside what was published."""
        modules = [one for one in features.published(run) if self.letter == one.SYSTEM]
        return [grid for one in modules for grid in one.published(run)]


SYSTEMS = (
    System(
        "A",
        "One wait for a batch of pages that reclaim unmaps",
        "Published in 2022: TLBIs are issued while pages are unmapped, and waited for once. Linux 6.12 does so; "
        "Linux 7.3 waits for each page of swap_bench. Lull waits once for up to 32 pages, and issues their TLBIs by "
        "ranges; with residency, none where the process is loaded on no CPU.",
    ),
    System(
        "B",
        "No broadcast for what runs on one CPU, or none",
        "Published in 2020: broadcasts of many CPUs wait for each other, and most are for address spaces that no "
        "other CPU has loaded. Linux broadcasts each. Lull knows where an address space is loaded.",
    ),
    System(
        "C",
        "Memory given back by runs of pages",
        "Published in 2023: pages of a large folio are given back together. Linux 6.12 has that. Lull flushes what "
        "was there, if that takes fewer TLBIs, and gives it back with fewer instructions.",
    ),
    System(
        "D",
        "HugeTLB pages that give back their struct pages",
        "Published in 2024: the other CPUs pause while entries that all use are changed, by break-before-make. Linux "
        "has the optimisation disabled on arm64. Lull has it without a pause. On Linux 6.12, it keeps two pages of "
        "struct pages for each HugeTLB page, where Linux keeps one.",
    ),
    System(
        "E",
        "No flush when the accessed bit is cleared",
        "Published in 2018: TLBI and wait, TLBI alone, or neither, and which makes programs vary least. Linux issues "
        "the TLBI and does not wait. Lull has each as a policy.",
    ),
)


@dataclass(frozen=True)
class Section:
    """A system as the report shows it: not at all where runs have nothing of it."""

    system: System
    grids: tuple[Grid, ...]
    thresholds: tuple[Check, ...]


def sections(runs: Mapping[str, Results], checks: Sequence[Check]) -> list[Section]:
    """The systems that runs, by name, or checks have something of. Raises ValueError for values that are none."""
    found = []
    for system in SYSTEMS:
        grids = tuple(_named(grid, name) for name, run in runs.items() for grid in system.tables(run))
        thresholds = tuple(check for check in checks if kind(check) in features.of_system(system.letter))
        if grids or any(check.verdict != "skipped" for check in thresholds):
            found.append(Section(system, grids, thresholds))
    return found


def _named(grid: Grid, run: str) -> Grid:
    return replace(grid, title=f"{grid.title} ({run})") if run else grid


def kind(check: Check) -> str:
    """The feature, or what else the check is of."""
    return check.name.partition(":")[0]
