# SPDX-License-Identifier: GPL-2.0-only
"""lull test: Lull's own tests, the fast ones first, through pytest.

Tests marked ``bases`` run on each base kernel. With ``--base`` only they run, on that base.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lull import base as bases
from lull import cache, extras, options, paths, process
from lull.base import DEFAULT, Base
from lull.errors import FetchError, UsageError
from lull.judge.tables import Grid, make_console, show_grid
from lull.lab import Lab
from lull.linux import fitting, releases, upstream
from lull.linux.toolchain import jobs
from lull.linux.tree import kernel_version
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
    tier.add_argument(
        "--upstream",
        action="store_true",
        help="no test: whether the series and fixes apply to the newest Linux of each of Debian's suites, and which "
        "findings Linux has fixed; exit 1 if something does not apply",
    )
    parser.add_argument(
        "pytest", nargs="*", metavar="-- PYTEST ARGS", help="options that are passed to pytest, e.g. -- -k young"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Run pytest over tests/. Returns 0, or 1 when a test failed. Raises UsageError."""
    if arguments.upstream:
        return run_upstream(lab, arguments)
    words = [sys.executable, "-m", "pytest", *PARALLEL, *COVERAGE, "--durations=8"]
    without = "guest" if arguments.fast else "" if arguments.all else "whole"
    other = lab.base.name != DEFAULT
    if other and arguments.fast:
        raise UsageError(f"--fast --base {lab.base.name}: --fast builds no kernel", remedy="leave --fast out")
    only = lab.base_name if other or lab.user_tree else ""
    marks = [*(["bases"] if other else []), *([f"not {without}"] if without else [])]
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


@dataclass(frozen=True)
class Judged:
    """One Linux in the tables: its version, the base that was tried on it, its suites, what was found.

    Args:
        newest: the fixes must apply, because none is newer. An older Linux may lack what a fix is for.
        superseded: a release candidate whose release is out. It is shown, and need not fit.
    """

    linux: str
    base: Base
    suites: str
    found: upstream.Judgement
    newest: bool = True
    superseded: bool = False

    @property
    def holds(self) -> bool:
        """True if everything applies that must."""
        return self.superseded or self.found.holds(fixes=self.newest)


def run_upstream(lab: Lab, arguments: argparse.Namespace) -> int:
    """Try the series and fixes on the newest Linux of each suite. Returns 1 when something does not apply."""
    found = [lab.base] if lab.base_name != DEFAULT or lab.user_tree else list(map(bases.load_base, bases.known()))
    if arguments.dry_run:
        lines = [f"would try base {base.name} on the newest {base.source.package} of each suite" for base in found]
        return print_result(lines, None, as_json=False)
    judged = list(judge_all(lab, found))
    for base in found:
        own = [one for one in judged if one.base is base]
        names = [name for name in own[0].found.series if name] or [base.name] if own else []
        rows = [
            (one.linux, one.suites, *(f"{len(fit.failing)} of {fit.hunks}" for fit in one.found.series.values()))
            for one in own
        ]
        title = f"base {base.name}: hunks that do not apply, of all"
        show_grid(make_console(), Grid(title, ("Linux", "suites", *names), tuple(rows), labels=2))
        lines = [f"{one.linux}: need not fit: its release is out" for one in own if one.superseded]
        for one in own:
            lines += [f"{one.linux}: {name}: {where}" for name, _, where in fitting.rows(one.found.series) if where]
        print("\n".join([*lines, ""]))
    names = list(dict.fromkeys(name for one in judged for name in one.found.findings))
    states = tuple((name, *(one.found.findings[name] for one in judged)) for name in names)
    notes = f"{upstream.UNKNOWN}: no patch in the repository by which it could be judged"
    header = ("finding", *(one.linux for one in judged))
    show_grid(make_console(), Grid("has this Linux the defect?", header, states, labels=len(header), notes=(notes,)))
    wrong = [one.linux for one in judged if not one.holds]
    verdict = f"something does not apply to {', '.join(wrong)}" if wrong else "all that must apply does"
    print(f"verdict: {verdict}")
    return 1 if wrong else 0


def judge_all(lab: Lab, found: Sequence[Base]) -> Iterator[Judged]:
    """Judge the newest Linux of each suite that has one of the bases' series; or the tree of the user's.

    Raises: FetchError when no archive can be asked.
    """
    if lab.user_tree:
        yield Judged(kernel_version(lab.user_tree), lab.base, "--tree", upstream.judge(lab.base, lab.user_tree))
        return
    if lab.offline:
        raise FetchError("--upstream asks the archives, which --offline forbids", remedy="leave it out, or use --tree")
    private = releases.archive(lab.store)
    for base in found:
        there = releases.newest(private, base.source.package) if base.source.package else []
        out = any("~" not in release.linux for release in there)
        for number, release in enumerate(there):
            fetched = releases.download(lab.store, release.package)
            files = releases.some_files(fetched, base.source.tarball, upstream.needed(base))
            superseded = out and "~" in release.linux
            yield Judged(
                release.linux, base, ", ".join(release.suites), upstream.judge(base, files), number == 0, superseded
            )
