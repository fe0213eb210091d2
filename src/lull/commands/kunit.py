# SPDX-License-Identifier: GPL-2.0-only
"""lull kunit: build the KUnit kernel again in its kept folder, boot it, and show how the cases ended."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from dataclasses import asdict, replace

from lull import options
from lull.errors import UsageError, require_known
from lull.guest.runner import Guest, logs
from lull.lab import Lab
from lull.progress import print_result, progress
from lull.selftests import kunit

WITHOUT = frozenset({"--suite"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull kunit``."""
    parser.add_argument(
        "glob", nargs="?", metavar="GLOB", default="*", help="suites, or SUITE.CASE, to run (default: all)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--kernel", metavar="NAME", default="kunit", help="a kernel of the base that has KUnit (default: kunit)"
    )
    options.add(which, "image")
    options.add(parser, "cpu")
    options.add(parser, "append")
    parser.epilog = (
        "The kernel is built as with 'lull build --kept': after a small change that takes seconds.\n"
        "exit: 0 no case failed; 1 a case failed\n"
        "example: lull kunit tlb_residency"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Build, boot, and print a line for each case. Returns 1 when one failed."""
    if not arguments.image:
        require_known("kernel", [arguments.kernel], lab.base.kernels)
    machine = kunit.machine(arguments.cpu)
    append = f"kunit.filter_glob={arguments.glob} {arguments.append}".strip()
    if arguments.dry_run:
        what = arguments.image or arguments.kernel
        data = {"kernel": str(what), "machine": asdict(machine), "append": append}
        return print_result([f"would boot {what} on {machine}, with {append}"], data, as_json=arguments.json)
    if arguments.image:
        guest = lab.guest_of(arguments.image, machine, append, None)
    else:
        built = lab.kept(arguments.kernel)
        guest = replace(lab.guest_of(built.image, machine, append, None), limit_factor=built.limit_factor)
    return run_suites(guest, arguments.glob, as_json=arguments.json)


def run_suites(guest: Guest, glob: str, *, as_json: bool) -> int:
    """Boot a guest whose parameters choose the suites ``glob``, and print its cases. Returns 1 when one failed."""
    with logs("kunit") as place, progress.step(f"running the suites {glob}") as step:
        cases = kunit.cases(guest, place, step.update)
    if not cases:
        remedy = "GLOB is SUITE or SUITE.CASE; kernel/bases/ names the suites of each feature"
        raise UsageError(f"no KUnit case matches '{glob}'", where=str(place / "console.log"), remedy=remedy)
    counted = Counter(case.verdict for case in cases)
    lines: list[str] = []
    for case in cases:
        said = ["\n".join(case.diagnostics)] if case.verdict == "failed" else []
        lines += [f"{case.verdict:7} {case.suite}.{case.name}", *said]
    lines.append(f"verdict: {counted['ok']} cases ok, {counted['failed']} failed, {counted['skipped']} skipped")
    if counted["failed"]:
        lines.append(f"console: {place}/console.log")
    else:
        shutil.rmtree(place)
    print_result(lines, [asdict(case) for case in cases], as_json=as_json)
    return 1 if counted["failed"] else 0
