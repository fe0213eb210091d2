# SPDX-License-Identifier: GPL-2.0-only
"""lull export: the features as series of mails for git am, each with a cover letter; or fixes of Linux, a mail each."""

from __future__ import annotations

import argparse
from pathlib import Path

from lull import options, plan
from lull.base import Base, Subject, patches_of
from lull.lab import Lab
from lull.linux import export
from lull.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull export``."""
    # The same as --base: without it --base stands.
    parser.add_argument("base", metavar="BASE", nargs="?", default=argparse.SUPPRESS, help="the same as --base BASE")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=options.FOLDER,
        help="folder for the series (default: a new folder lull-BASE; for the fixes lull-BASE-fixes)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--series",
        metavar="NAME",
        action="append",
        default=[],
        help="write only this series (repeatable)",
    )
    which.add_argument(
        "--fixes",
        action="store_true",
        help="write the fixes of Linux's own defects (fixes/README.md), a mail each, and no series",
    )
    parser.epilog = "Then, in a kernel tree: git am --empty=drop DIR/NAME/*.patch"


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Write the series, or the fixes."""
    if arguments.fixes:
        return write_fixes(lab, arguments)
    named: Path = arguments.out or Path(f"lull-{lab.base.name}")
    out = named.resolve()
    export.check_out(out)
    subjects = export.chosen(lab.base, arguments.series)
    if arguments.dry_run:
        lines, found = [], []
        for subject in subjects:
            names = [patch.name for patch in patches_of(lab.base.features_in(subject))]
            lines.append(f"would write to {out / subject.name}: a cover letter and a mail each for {', '.join(names)}")
            found.append({**described(lab.base, subject, out), "patches": names})
        return plan.show(lines, {"series": found}, as_json=arguments.json)
    mails = export.export(lab.pristine, lab.base, out, arguments.series)
    lines = [str(named / subject.name / mail.name) for subject in subjects for mail in mails[subject.name]]
    found = [
        {**described(lab.base, subject, out), "mails": [mail.name for mail in mails[subject.name]]}
        for subject in subjects
    ]
    plan.show(lines, {"series": found}, as_json=arguments.json)
    if not arguments.json:
        for subject in subjects:
            after = [one.name for one in lab.base.subjects_before(subject)]
            where = f"in a tree of {lab.pristine.version}{' with ' if after else ''}{' and '.join(after)}"
            say(f"{where}: git am --empty=drop {out / subject.name}/*.patch")
    return 0


def write_fixes(lab: Lab, arguments: argparse.Namespace) -> int:
    """Write the fixes, each a mail of its own."""
    named: Path = arguments.out or Path(f"lull-{lab.base.name}-fixes")
    out = named.resolve()
    export.check_out(out)
    mails = export.fixes(lab.base) if arguments.dry_run else export.export_fixes(lab.pristine, lab.base, out)
    lines = [f"would write to {out}: {mail.stem}" if arguments.dry_run else str(named / mail.name) for mail in mails]
    found = {"fixes": {"folder": str(out), "mails": [mail.name for mail in mails]}}
    return plan.show(lines, found, as_json=arguments.json)


def described(base: Base, subject: Subject, out: Path) -> dict[str, object]:
    """A series for --json: its name, its folder, and the series that are applied before it."""
    needs = [one.name for one in base.subjects_before(subject)]
    return {"name": subject.name, "folder": str(out / subject.name), "needs": needs}
