# SPDX-License-Identifier: GPL-2.0-only
"""lull test: Lull's own tests, the fast ones first, through pytest.

Tests marked ``bases`` run on each base kernel. With ``--base`` only they run, on that base.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from lull import cache, extras, options, paths, process
from lull.base import DEFAULT
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux.toolchain import jobs
from lull.progress import print_result, say

PARALLEL = ("-n", str(min(jobs(), 4)), "--maxschedchunk=1")
"""Options of pytest-xdist. A guest under the checker uses little more than one CPU, and up to 2 GiB of memory. A
process gets one test at a time, because tests are sorted, and take from a millisecond to minutes."""
COVERAGE = ("--cov=lull", "--cov-report=")
"""Options of pytest-cov: count the lines of src/lull that run within the processes of the tests."""
WITHOUT = options.SHARED - {"--offline", "--dry-run", "--tree", "--base"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull test``."""
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument(
        "--fast",
        action="store_true",
        help="only lint, types, host tests, the plugin and the fake kernel: no real kernel is built",
    )
    tier.add_argument("--all", action="store_true", help="every test, with every mutant, machine and kernel (hours)")
    parser.add_argument(
        "pytest", nargs="*", metavar="-- PYTEST ARGS", help="options that are passed to pytest, e.g. -- -k plan"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Run pytest. Returns 0, or 1 when a test failed. Raises UsageError."""
    words = [sys.executable, "-m", "pytest", *PARALLEL, *COVERAGE, "--durations=8"]
    without = ["guest", "whole"] if arguments.fast else [] if arguments.all else ["whole"]
    other = lab.base.name != DEFAULT
    if other and arguments.fast:
        raise UsageError(f"--fast --base {lab.base.name}: --fast builds no kernel", remedy="leave --fast out")
    only = lab.base_name if other or lab.user_tree else ""
    marks = [*(["bases"] if other else []), *(f"not {mark}" for mark in without)]
    words += ["-m", " and ".join(marks)] if marks else []
    words += arguments.pytest
    if arguments.dry_run:
        return print_result([f"would run: {process.shown(words)}"], {"command": words}, as_json=arguments.json)
    packages = [extras.fetched(name, offline=arguments.offline) for name in (extras.TOOL, "test")]
    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(map(str, packages)),
        "LULL_QEMU": str(lab.qemu.program),
        "LULL_CACHE": str(cache.root()),
        "LULL_TEST_OFFLINE": "1" if arguments.offline else "",
        "LULL_TEST_TREE": str(lab.user_tree.absolute()) if lab.user_tree else "",
        "LULL_TEST_ONLY": only,
        "COVERAGE_FILE": str(cache.root() / "coverage"),
    }
    status = subprocess.run(words, cwd=paths.REPOSITORY, env=environment, check=False).returncode
    report = [sys.executable, "-m", "coverage", "report", "--format=total"]
    covered = subprocess.run(report, cwd=paths.REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if covered.returncode == 0:
        say(f"these tests ran {covered.stdout.strip()} % of the lines of src/lull")
    return 0 if status == 0 else 1
