# SPDX-License-Identifier: GPL-2.0-only
"""lull save: write the branches of a tree back to the mails of the features."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lull import options
from lull.lab import Lab
from lull.linux import series
from lull.progress import print_result

WITHOUT = options.SHARED - {"--dry-run", "--json", "--base"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull save``."""
    parser.add_argument("dir", metavar="DIR", type=Path, help="a tree made by 'lull tree'")


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Write what differs; with --dry-run only say so."""
    found = series.changes(arguments.dir.absolute(), lab.base)
    if not arguments.dry_run:
        series.write(found)
        if noted := series.backported(lab.base, found):
            series.write([noted])
    names = [("-" if c.text is None else "~", os.path.relpath(c.path)) for c in found]
    lines = [f"{kind} {name}" for kind, name in names] or ["the features are as the tree has them"]
    return print_result(lines, [{"change": kind, "path": name} for kind, name in names], as_json=arguments.json)
