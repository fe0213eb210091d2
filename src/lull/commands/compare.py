# SPDX-License-Identifier: GPL-2.0-only
"""lull compare: runs of several machines, or several runs of one, side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from lull import options
from lull.judge import joint, tables
from lull.lab import Lab

WITHOUT = options.SHARED - {"--json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull compare``."""
    parser.add_argument(
        "results",
        metavar="RESULTS",
        nargs="+",
        type=Path,
        help="the results.json or the folder of a run; give two or more",
    )
    parser.epilog = (
        "Each run has a column. Ratios are to the stock kernel of the same run.\n"
        "example: lull compare results/001 results/002 server/results.json"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Read, and show."""
    runs = joint.load_runs(arguments.results)
    if arguments.json:
        print(joint.to_json(runs), end="")
    else:
        joint.print_runs(tables.make_console(), runs)
    return 0
