# SPDX-License-Identifier: GPL-2.0-only
"""lull selftest: Linux's own tests of its memory management, on stock and on Lull."""

from __future__ import annotations

import argparse

from lull import options, plan, selftests
from lull.check.kernels import of_debian
from lull.errors import UsageError, require_known
from lull.lab import Lab
from lull.linux import debian
from lull.progress import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull selftest``."""
    options.add(
        parser,
        "kernel",
        help="as for run; the others are compared with the first (default: stock and lull); repeatable",
    )
    parser.add_argument(
        "--debian",
        metavar="RELEASE",
        **options.SEVERAL,
        help="run them under the checker on a kernel of Debian's, as for check, and compare nothing; repeatable",
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
        "says, and the check passed; 1 one did not\n"
        "example: lull selftest --tests hugetlb --kernel stock --kernel lull"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Boot, run, compare. Returns 1 when something differs."""
    if arguments.repeat < 1:
        raise UsageError(f"--repeat {arguments.repeat}: at least one is needed")
    known = selftests.load_suites()
    require_known("tests", arguments.tests, known)
    suites = [suite for name, suite in known.items() if name in (arguments.tests or known)]
    names = list(dict.fromkeys(arguments.debian))
    if names and arguments.kernel:
        raise UsageError("--debian and --kernel are different kernels", remedy="choose one of them")
    if names and not (suites := [suite for suite in suites if suite.options]):
        raise UsageError("Debian's kernels have no KUnit suites", remedy="name other tests, or leave --debian out")
    usual = [] if names else lab.base.default_kernels
    specs = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel or usual)]
    if arguments.dry_run:
        own = [selftests.Setting(name, name) for name in names]
        boots = [(suite, setting) for suite in suites for setting in [*selftests.settings_for(suite, specs, lab), *own]]
        lines = [f"would boot {setting.kernel} ({setting.name}): {suite.name}" for suite, setting in boots]
        data = [{"image": setting.kernel, "setting": setting.name, "tests": suite.name} for suite, setting in boots]
        return print_result(lines, data, as_json=arguments.json)
    checked = [of_debian(lab, name) for given in names for name in debian.names(lab.store, given)]
    return selftests.do_suites(
        lab, suites, specs, arguments.repeat, arguments.out, checked=checked, as_json=arguments.json
    )
