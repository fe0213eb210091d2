# SPDX-License-Identifier: GPL-2.0-only
"""lull port: bring the features to another Linux: merge, write the base, build, boot, test and check it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lull import eta, options, plan
from lull.base import Base, patches_of
from lull.check import data
from lull.check.conduct import do_check
from lull.check.trials import CheckOptions, plan_kernels
from lull.commands.kunit import run_suites
from lull.errors import BuildError, UsageError
from lull.judge.tables import Grid, make_console, show_grid
from lull.lab import Lab
from lull.linux import fitting, series
from lull.progress import clock, print_result, say
from lull.selftests import kunit
from lull_contrib import port, releases
from lull_contrib.releases import Source

KERNELS = ("lull", "kunit")
FIRST = {"port tree": 60.0, "port merge": 60.0, "port kunit": 80.0, "port check": 240.0}
"""Seconds, where they were never measured here: of an idle machine with two CPUs."""
FROM_CACHE = 20
"""Seconds below which kernels were not built, but were in the cache."""
WITHOUT = frozenset({"--json", "--suite"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull port``."""
    parser.add_argument(
        "--onto",
        metavar="SOURCE",
        required=True,
        help="a folder with a kernel tree, or a release in Debian's archives: 7.2.13, 7.3~rc7",
    )
    parser.add_argument("dir", metavar="DIR", type=options.NEW, help="a new folder, or a tree of 'lull tree' or port")
    parser.epilog = (
        "At a conflict the tree stays: resolve it, git add -u, and run the same command again. --dry-run shows the "
        "table of hunks that do not apply.\n"
        "exit: 0 everything passed; 1 a KUnit case failed, or the checker reported something; 9 a conflict\n"
        "example: lull port --onto 7.2.13 port-7.2"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Port, as far as it goes. Returns the exit code of the KUnit suites and of the check."""
    tree: Path = arguments.dir.absolute()
    begun = port.read(tree) if tree.is_dir() else None
    if begun and begun.source.named == arguments.onto and begun.source.tree.path.is_dir():
        source = begun.source
    elif begun and not port.is_merged(tree):
        raise UsageError(
            f"{tree} is being brought to Linux {begun.source.named}",
            remedy="give that to --onto to go on, or name a new folder",
        )
    else:
        source, begun = releases.named(lab.store, lab.base, arguments.onto), None
    found = fitting.by_series(lab.base, source.tree.path)
    rows = fitting.rows(found)
    show_table(rows, lab.base, source)
    if arguments.dry_run:
        lines = [f"would bring the features to Linux {source.tree.version} in {tree}, build {', '.join(KERNELS)}, boot"]
        return print_result(lines, None, as_json=False)
    say(f"about {clock(expected(tree))} of machine time follow, without conflicts")
    if not series.is_tree(tree):
        with eta.keeping(eta.Part("port tree", FIRST["port tree"])):
            series.make_tree(lab.pristine, list(lab.base.exported().values()), tree)
    begun = begun or port.begin(tree, source, lab.base)
    started = time.monotonic()
    taken = {name for fit in found.values() for name in fit.patches}
    patches = patches_of(lab.base.exported().values())
    dropped = port.merge(tree, begun, [patch for patch in patches if patch.name in taken])
    eta.keep("port merge", time.monotonic() - started)
    written = port.write(tree, begun, lab.base, lab.base_name)
    for name in dropped:
        say(f"Linux {source.named} has '{name}': the patch drops out")
    for notice in written.notices:
        say(notice)
    print("\n".join(f"{'-' if c.text is None else '~'} {c.path}" for c in written.changes))
    new = Lab(written.base, source.tree.path, offline=lab.offline)
    new.pristine = source.tree
    return test(new, tree)


def show_table(rows: Sequence[tuple[str, str, str]], base: Base, source: Source) -> None:
    """Print which hunks do not apply."""
    title = f"base {base.name} on Linux {source.named}: hunks that do not apply as they are, of all"
    show_grid(make_console(sys.stderr), Grid(title, ("series", "hunks", "where"), tuple(rows), labels=3))


def expected(tree: Path) -> float:
    """Seconds that are left of a port, by what each part took before on this machine."""
    parts = [eta.Part(name, seconds) for name, seconds in FIRST.items() if name != "port tree" or not tree.exists()]
    return eta.expected([*parts, eta.Part("kernels " + " ".join(KERNELS), eta.FIRST["kernel"] * len(KERNELS))])


def test(lab: Lab, tree: Path) -> int:
    """Build the kernels, run the KUnit suites, and check the kernel ``lull`` for a short time; what is done is kept."""
    started = time.monotonic()
    try:
        lab.kernels(KERNELS)
    except BuildError as error:
        error.remedy = f"change the commits in {tree} (git rebase -i), and run the same command again"
        raise
    if time.monotonic() - started > FROM_CACHE:
        eta.keep("kernels " + " ".join(KERNELS), time.monotonic() - started)
    passed = tree / ".git" / f"lull-kunit-{lab.kernel('kunit').path.name}"
    if not passed.exists():
        with eta.keeping(eta.Part("port kunit", FIRST["port kunit"])):
            guest = lab.guest("kunit", kunit.machine(), count=False)
            failed = run_suites(guest, "*", as_json=False)
        if failed:
            return failed
        passed.touch()
    chosen = [*plan.short_selection(lab.workloads), *(w for w in lab.workloads.values() if w.check)]
    pairs = [(workload, plan.Spec("lull", "lull")) for workload in chosen]
    trials = plan_kernels(pairs, [data.parse_hardware("max", data.load_machines())], 1)
    out = tree / ".git" / f"lull-check-{lab.kernel('lull').path.name}"
    with eta.keeping(eta.Part("port check", FIRST["port check"])):
        return do_check(lab, trials, [], CheckOptions(), data.load_known_issues(), out, as_json=False)
