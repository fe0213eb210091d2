# SPDX-License-Identifier: GPL-2.0-only
"""lull kunit: build the KUnit kernel again in its kept folder, boot it, and show how the cases ended."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

from lull import options, plan
from lull.errors import LullError, UsageError
from lull.lab import Lab
from lull.progress import progress
from lull.selftests import kunit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull kunit``."""
    parser.add_argument(
        "glob", nargs="?", metavar="GLOB", default="lull*", help="suites, or SUITE.CASE, to run (default: lull*)"
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
        "example: lull kunit lull_young"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Build, boot, and print a line for each case. Returns 1 when one failed."""
    if not arguments.image and arguments.kernel not in lab.base.kernels:
        raise plan.unknown("kernel", arguments.kernel, lab.base.kernels)
    machine = kunit.machine(arguments.cpu)
    append = f"kunit.filter_glob={arguments.glob} {arguments.append}".strip()
    if arguments.dry_run:
        what = arguments.image or arguments.kernel
        data = {"kernel": str(what), "machine": asdict(machine), "append": append}
        plan.show([f"would boot {what} on {machine}, with {append}"], data, as_json=arguments.json)
        return 0
    if arguments.image:
        guest = lab.guest_of(arguments.image, machine, append, None)
    else:
        built = lab.kept(arguments.kernel)
        guest = replace(lab.guest_of(built.image, machine, append, None), limit_factor=built.limit_factor)
    place = Path(tempfile.mkdtemp(prefix="lull-kunit-"))
    try:
        with progress.step(f"running the suites {arguments.glob}") as step:
            cases = kunit.cases(guest, place, step.update)
    except LullError:
        raise  # its message names logs: they stay
    except BaseException:
        shutil.rmtree(place)
        raise
    if not cases:
        remedy = "GLOB is SUITE or SUITE.CASE; kernel/bases/ names the suites of each feature"
        raise UsageError(f"no KUnit case matches '{arguments.glob}'", where=str(place / "console.log"), remedy=remedy)
    if arguments.json:
        print(json.dumps([asdict(case) for case in cases], indent=1))
    else:
        for case in cases:
            print(f"{case.verdict:7} {case.suite}.{case.name}")
            if case.verdict == "failed":
                print("\n".join(case.diagnostics))
        counted = Counter(case.verdict for case in cases)
        print(f"verdict: {counted['ok']} cases ok, {counted['failed']} failed, {counted['skipped']} skipped")
    failed = any(case.verdict == "failed" for case in cases)
    if not failed:
        shutil.rmtree(place)
    elif not arguments.json:
        print(f"console: {place}/console.log")
    return 1 if failed else 0
