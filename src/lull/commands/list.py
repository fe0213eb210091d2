# SPDX-License-Identifier: GPL-2.0-only
"""lull list: everything that a command line can name."""

from __future__ import annotations

import argparse

from lull import options, plan, selftests, timing
from lull.check.data import MACHINES, load_mutants, read_tables
from lull.lab import Lab
from lull.linux import debian
from lull.progress import print_result

Names = dict[str, str]
"""Name -> one line about it."""
WITHOUT = options.SHARED - {"--json", "--base", "--suite"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull list``."""
    parser.add_argument("--debian", action="store_true", help="show Debian's arm64 kernels, which check --debian takes")
    parser.epilog = "'lull list --suite real' shows the workloads of that suite."


def kernel_lines(lab: Lab) -> Names:
    """The base's kernels, what is in them, and how they are configured."""
    found = {}
    for name, kind in lab.base.kernels.items():
        own = "".join(f" + {f.name}" for f in lab.base.features_of(name) if f.only or kind.alone)
        configuration = " ".join(fragment.name for fragment in lab.fragments(name))
        found[name] = f"{'with Lull' if kind.features else 'as Linux is'}{own}; {configuration}"
    return found


def policies(lab: Lab) -> Names:
    """The features that have a switch, and what it can be; in brackets what it boots with."""
    return {
        f.name: " ".join(f"[{p}]" if p == f.default else p for p in f.policies) + "".join(f" {p} (lab)" for p in f.lab)
        for f in lab.base.features.values()
        if f.policies
    }


def everything(lab: Lab) -> dict[str, Names]:
    """What can be named, under a title that says where."""
    return {
        "kernels: --kernel NAME": kernel_lines(lab),
        "policies: --kernel NAME+FEATURE=POLICY, NAME-FEATURE, NAME+only=FEATURE": policies(lab),
        "workloads: --workload": {w.name: w.about for w in lab.workloads.values()},
        "suites: --suite": {name: ", ".join(plan.load_workloads(s.workloads)) for name, s in lab.base.suites.items()},
        "machines: check, soak --cpu; also +kpti, +nokpti, +asid8, +mte, +sme, +[no]ntlbpa behind, or QEMU's -cpu": {
            **read_tables(MACHINES, "machines", lambda name, entry: str(entry["about"]))
        },
        "mutants: check --mutant": (
            {m.name: m.about for m in load_mutants(lab.suite.mutants, lab.base).values()}
            if lab.suite.lab in lab.base.kernels and lab.suite.mutants and lab.suite.mutants.exists()
            else {}
        ),
        "models of time: --timing, timing": {name: timing.load_model(name).about for name in timing.known()},
        "tests: selftest --tests": {
            name: " ".join(s.options) or "KUnit" for name, s in selftests.load_suites().items()
        },
    }


def of_debian(lab: Lab) -> dict[str, Names]:
    """Debian's kernels: the newest of each series and flavour, and how many older ones there are."""
    known = debian.releases(debian.archive(lab.store))
    newest = debian.newest(known)
    series = [debian.order(release)[:2] for release in known]
    names = {}
    for release in newest:
        same = [r for r in known if debian.flavour(r) == debian.flavour(release)]
        older = sum(debian.order(r)[:2] == debian.order(release)[:2] for r in same) - 1
        names[release] = f"and {older} older" if older else ""
    return {f"Debian's kernels: check --debian ({len(series)} in all)": names}


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Print it; as JSON by the title's first words."""
    found = of_debian(lab) if arguments.debian else everything(lab)
    lines: list[str] = []
    for title, names in found.items():
        width = max(map(len, names), default=0)
        lines += [title, *(f"  {name:{width}}  {about}" for name, about in names.items()), ""]
    return print_result(
        lines, {title.partition(":")[0]: names for title, names in found.items()}, as_json=arguments.json
    )
