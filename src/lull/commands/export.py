# SPDX-License-Identifier: GPL-2.0-only
"""lull export: the features as a series of mails for git am, with a cover letter."""

from __future__ import annotations

import argparse
from pathlib import Path

from lull import options, plan
from lull.base import patches_of
from lull.lab import Lab
from lull.linux import export
from lull.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull export``."""
    # The same as --base: without it --base stands.
    parser.add_argument("base", metavar="BASE", nargs="?", default=argparse.SUPPRESS, help="the same as --base BASE")
    parser.add_argument(
        "--out", metavar="DIR", type=options.FOLDER, help="folder for the patches (default: a new folder lull-BASE)"
    )
    parser.epilog = "Then, in a kernel tree: git am --empty=drop DIR/*.patch"


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Write the series."""
    named: Path = arguments.out or Path(f"lull-{lab.base.name}")
    out = named.resolve()
    export.check_out(out)
    if arguments.dry_run:
        names = [patch.name for patch in patches_of(lab.base.exported().values())]
        lines = [f"would write to {out}: a cover letter and a mail each for {', '.join(names)}"]
        return plan.show(lines, {"series": str(out), "patches": names}, as_json=arguments.json)
    mails = export.export(lab.pristine, lab.base, out)
    data = {"series": str(out), "mails": [mail.name for mail in mails]}
    plan.show([str(named / mail.name) for mail in mails], data, as_json=arguments.json)
    if not arguments.json:
        say(f"in a tree of {lab.pristine.version}: git am --empty=drop {out}/*.patch")
    return 0
