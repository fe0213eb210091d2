# SPDX-License-Identifier: GPL-2.0-only
"""lull aging: ways to clear the accessed bit, compared by the rules of the study of system E."""

from __future__ import annotations

import argparse
from pathlib import Path

from lull import cache, options
from lull.judge import joint, tables
from lull.lab import Lab

PICTURE, PAGE = "aging.svg", "aging.md"
WITHOUT = options.SHARED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull aging``."""
    parser.add_argument(
        "results", metavar="RESULTS", type=Path, help="the results.json or the folder of a run of workload aging"
    )
    parser.epilog = (
        f"Prints the tables, and writes them to {PAGE} in the folder of the run, with the picture {PICTURE}.\n"
        "example: lull run --workload aging --vcpus 8 --out results/aging && lull aging results/aging"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Evaluate the run, print and write the tables. Returns 0: a study has no verdict."""
    from lull_contrib import aging  # and with it NumPy, which --help does without

    path = arguments.results / joint.FILE if arguments.results.is_dir() else arguments.results
    if not path.is_file():
        raise joint.no_results(arguments.results, "'lull run'")
    results = joint.load_one("", path).results
    found = aging.evaluate(results)
    if not found.spreads:
        raise joint.no_results(arguments.results, "'lull run --workload aging'")
    with cache.disk_errors(path.parent):
        cache.write_atomic(path.parent / PICTURE, aging.picture_svg(results))
        cache.write_atomic(path.parent / PAGE, aging.results_markdown(results, PICTURE))
    console = tables.make_console()
    for grid in aging.grids(found):
        tables.show_grid(console, grid)
        console.print()
    console.print(f"results: {path.parent}/{PAGE}, {PICTURE}", markup=False, soft_wrap=True)
    return 0
