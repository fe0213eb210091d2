# SPDX-License-Identifier: GPL-2.0-only
"""lull upstream: whether the series and fixes apply to the newest Linux of each suite, and what Linux has fixed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lull import base as bases
from lull import options
from lull.base import DEFAULT, Base
from lull.errors import FetchError
from lull.judge.tables import Grid, make_console, show_grid
from lull.lab import Lab
from lull.linux import fitting
from lull.linux.tree import kernel_version
from lull.progress import print_result
from lull_contrib import releases, upstream

WITHOUT = options.SHARED - {"--offline", "--dry-run", "--tree", "--base"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``lull upstream`` has no options of its own."""
    parser.epilog = "exit: 0 everything applies that must; 1 something does not"


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


def run(lab: Lab, arguments: argparse.Namespace) -> int:
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
        raise FetchError("the archives are asked, which --offline forbids", remedy="leave it out, or use --tree")
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
