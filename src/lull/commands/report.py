# SPDX-License-Identifier: GPL-2.0-only
"""lull report: one page of what runs, checks and timings found."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lull import cache
from lull.errors import UsageError
from lull.lab import Lab
from lull.progress import say

NAME = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull report``."""
    parser.add_argument(
        "results",
        metavar="RESULTS",
        nargs="+",
        type=Path,
        help="results.json, or a folder that 'lull run', 'lull check' or 'lull timing' wrote; the first run leads",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"default: {NAME} in the first folder")
    parser.epilog = "example: lull report results/001 results/002 --out report.html"


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Read, draw, write. Returns 0: what the page says of kernels is no verdict of this command's."""
    first = arguments.results[0]
    out = arguments.out or (first if first.is_dir() else first.parent) / NAME
    if out.is_dir():
        raise UsageError(f"{out} is a folder", remedy="name a file with --out")
    if arguments.dry_run:
        say(f"would write {out} from {', '.join(map(str, arguments.results))}")
        return 0
    from lull import report  # and with it scipy and matplotlib, which --help does not wait for

    text = report.of_folders(arguments.results)
    with cache.disk_errors(out):
        cache.write_atomic(out, text)
    print(json.dumps({"report": str(out)}) if arguments.json else f"report: {out}")
    return 0
