# SPDX-License-Identifier: GPL-2.0-only
"""lull compare: runs of several machines, or several runs of one, side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from lull.judge import joint, tables
from lull.lab import Lab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull compare``."""
    parser.add_argument(
        "results", metavar="RESULTS", nargs="+", type=Path, help="results.json of a run, or its folder; two or more"
    )
    parser.epilog = (
        "A ratio is only ever taken inside one run; a column for each run.\n"
        "example: lull compare results/001 results/002 server/results.json"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Read, and show."""
    runs = joint.load(arguments.results)
    if arguments.json:
        print(joint.to_json(runs), end="")
    else:
        joint.show(tables.make_console(), runs)
    return 0
