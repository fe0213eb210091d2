# SPDX-License-Identifier: GPL-2.0-only
"""lull selftest: Linux's own tests of its memory management, on stock and on Lull."""

from __future__ import annotations

import argparse

from lull import options, plan, selftests
from lull.errors import UsageError
from lull.lab import Lab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull selftest``."""
    options.add(
        parser,
        "kernel",
        help="as for run; the others are compared with the first (default: stock and lull); repeatable",
    )
    parser.add_argument(
        "--tests",
        metavar="T",
        **options.SEVERAL,
        help="a group of tests of guest/selftests.toml (default: all); repeatable",
    )
    options.add(parser, "repeat", default=1, help="boots of each kernel for each group of tests")
    options.add(parser, "out")
    parser.set_defaults(suite="real")
    parser.epilog = (
        "exit: 0 all tests ended as on the first kernel, and there as guest/selftests-baseline.toml "
        "says; 1 one did not\n"
        "example: lull selftest --tests hugetlb --kernel stock --kernel lull+residency=off"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Boot, run, compare. Returns 1 when something differs."""
    if arguments.repeat < 1:
        raise UsageError(f"--repeat {arguments.repeat}: at least one is needed")
    known = selftests.load()
    plan.require("tests", arguments.tests, known)
    suites = [suite for name, suite in known.items() if name in (arguments.tests or known)]
    specs = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel or lab.base.default_kernels)]
    if arguments.dry_run:
        boots = [(suite, setting) for suite in suites for setting in selftests.settings_for(suite, specs, lab)]
        lines = [f"would boot {setting.kernel} ({setting.name}): {suite.name}" for suite, setting in boots]
        data = [{"image": setting.kernel, "setting": setting.name, "tests": suite.name} for suite, setting in boots]
        return plan.show(lines, data, as_json=arguments.json)
    return selftests.conduct(lab, suites, specs, arguments.repeat, arguments.out, as_json=arguments.json)
