# SPDX-License-Identifier: GPL-2.0-only
"""What `lull check` prints: each boot, the tables, missed thresholds, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lull import process
from lull.check import tables as check_tables
from lull.check.results import records_of, walks
from lull.check.tables import BootVerdict
from lull.check.verdicts import BootResult, mutant_scores, overall, plain
from lull.judge.tables import Grid, make_console, show_grid
from lull.run.records import Check


def grids(results: Sequence[BootResult], walk: float = 0.0) -> list[Grid]:
    """The tables: verdicts of machines x kernels, valid entries that TLBIs removed, the modelled time of their page
    walks (when ``walk``, the nanoseconds of one, is not 0), and the mutants."""
    boots = [
        BootVerdict(
            r.trial.boot.image,
            r.trial.hardware.name,
            r.verdict()[0],
            tuple(f.name for f in r.known.values()),
            tuple(r.skipped_jobs()),
        )
        for r in plain(results)
    ]
    records = records_of(results, 0)
    return check_tables.grids(boots, records + (walks(records, walk) if walk else []), mutant_scores(results))


def print_check(results: Sequence[BootResult], folder: Path, thresholds: Sequence[Check], walk: float = 0.0) -> None:
    """Print each boot, the tables, missed thresholds, the files with the results, and last the verdict.

    What TLBIs removed without need is in the report, unless its cost was asked for: good news ends with it.
    """
    console = make_console()
    line = partial(console.print, markup=False, soft_wrap=True)
    for result in results:
        for text in result.lines():
            line(text)
        if result.kept.trouble or result.failed_jobs():
            line(f"  where: {folder}/boots/{result.trial.boot.name}/console.log")
        line("")
    found = grids(results, walk)
    shown = [grid for grid in found if walk or grid.title not in check_tables.COSTS]
    for grid in shown:
        show_grid(console, grid)
        line("")
    for threshold in thresholds:
        line(f"{threshold.name}: {threshold.verdict}: {threshold.detail}")
    if shown != found:
        line(f"what TLBIs removed without need: ./lull report {process.shown([folder])}")
    line(f"results: {folder}/check.json, results.json; logs: {folder}/boots")
    line(f"verdict: {overall(results)}")
