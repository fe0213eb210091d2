# SPDX-License-Identifier: GPL-2.0-only
"""lull x86: what a feature for all architectures saves on x86-64, and its KUnit suite there."""

from __future__ import annotations

import argparse

from lull import options, plan
from lull.judge import tables
from lull.lab import Lab
from lull.progress import print_result, say
from lull_contrib import x86

REPEAT = 3
WITHOUT = frozenset({"--suite"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull x86``."""
    known = list(x86.SUBJECTS)
    parser.add_argument("--feature", metavar="NAME", choices=known, default=known[0], help="default: %(default)s")
    options.add(parser, "repeat", default=REPEAT, help="boots of each kernel")
    options.add(parser, "out")
    parser.epilog = (
        f"Needs QEMU for x86-64 ({x86.REQUIREMENTS[0].package}); no other command does.\n"
        "exit: 0 all programs verified their work and no KUnit case failed; 1 one failed\n"
        f"example: lull x86 --feature {known[-1]} --repeat 1"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Build, boot, and print the table. Returns 1 when something failed."""
    here = x86.X86Lab(lab, arguments.feature)
    boots = x86.boots(arguments.feature, lab.workloads, arguments.repeat)
    if arguments.dry_run:
        lines = [f"would boot {b.image} ({b.name}): " + ", ".join(j.workload.name for j in b.jobs) for b in boots]
        return print_result(lines, plan.as_json(boots), as_json=arguments.json)
    results, folder = x86.measure(here, boots, arguments.out)
    failed = [check for check in results.checks if check.verdict == "failed"]
    if arguments.json:
        print(results.to_json(), end="")
    else:
        for table in x86.grids(results, arguments.feature):
            tables.show_grid(tables.make_console(), table)
        for check in results.checks:
            if check in failed or check.name.startswith("KUnit"):
                print(f"{check.verdict}: {check.name}: {check.detail}")
        say(f"written to {folder / x86.RESULTS}")
    return 1 if failed else 0
