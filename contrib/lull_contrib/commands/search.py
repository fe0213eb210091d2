# SPDX-License-Identifier: GPL-2.0-only
"""lull search: search for programs under which the checker reports something."""

from __future__ import annotations

import argparse
import random
import secrets
from functools import partial

from lull import options, plan
from lull.check.data import load_known_issues, load_machines, load_mutants, parse_hardware
from lull.check.trials import CheckOptions, Trial
from lull.errors import UsageError, require_known
from lull.lab import Lab
from lull.progress import print_result
from lull_contrib import calls, search

KERNEL = "lull"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull search``."""
    add, own = partial(options.add, parser), parser.add_argument
    own("--minutes", metavar="N", type=float, default=60.0, help="how long to search (default: 60)")
    own("--seed", metavar="S", type=int, help="seed of all random choices (default: a new one, which is printed)")
    own("--unguided", action="store_true", help="choose programs without regard to what others reached, to compare")
    own("--kernel", metavar="NAME", help=f"a kernel of the base, also with policies as for run (default: {KERNEL})")
    own("--mutant", metavar="M", help="search the lab kernel with this bug switched on, until it is reported")
    own(
        "--cpu",
        metavar="C",
        type=options.HARDWARE,
        help="the machine, named as for check (default: max, or the mutant's)",
    )
    add("vcpus")
    add("memory")
    add("append")
    add("out")
    parser.epilog = (
        "exit: 0 nothing was reported, or the mutant was; 1 something was reported, or the mutant was not\n"
        "The results have a C file for each report; 'lull check --program FILE.c' runs it.\n"
        "example: lull search --kernel stock --minutes 120\n"
        "         lull search --mutant mremap-none --minutes 10"
    )


def trial_of(lab: Lab, arguments: argparse.Namespace) -> Trial:
    """What is to be booted, without its job. Raises UsageError."""
    if arguments.mutant and arguments.kernel:
        raise UsageError("--kernel does not go with a mutant", remedy="leave it out: mutants are of the lab kernel")
    mutant = None
    if arguments.mutant:
        require_known("kernel", [plan.LAB], lab.base.kernels)
        known = load_mutants(lab.base.mutants, lab.base)
        require_known("mutant", [arguments.mutant], known)
        mutant = known[arguments.mutant]
    spec = plan.parse_spec(plan.LAB if mutant else arguments.kernel or KERNEL, lab.base)
    machine = arguments.cpu or (mutant and mutant.cpu) or "max"
    boot = plan.Boot("search", 1, spec.image, spec.name)
    return Trial(boot, parse_hardware(machine, load_machines()), mutant)


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Search until the minutes have passed. Returns 1 when something was reported, or the mutant was not."""
    if not arguments.minutes > 0:
        raise UsageError(f"--minutes {arguments.minutes:g}: more than 0 are needed")
    trial = trial_of(lab, arguments)
    chosen = CheckOptions(arguments.vcpus, arguments.memory, arguments.append)
    trial.machine(chosen)  # refuses what cannot be
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    known_issues = load_known_issues()
    words = ("--seed", str(seed), *(["--unguided"] if arguments.unguided else []), repr(chosen))
    what = f"would search {trial.what(chosen)}programs for {arguments.minutes:g} minutes with the seed {seed}"
    if arguments.dry_run:
        return print_result([what], [{"what": what}], as_json=arguments.json)
    release = lab.pristine.version
    ops = len(calls.names_of_ops(calls.HEADER.read_text()))
    wanted = search.Search(
        calls.Engine(random.Random(seed), ops, not arguments.unguided),
        60 * arguments.minutes,
        lambda report: not trial.mutant and any(issue.describes(report, release) for issue in known_issues),
        trial.mutant.rules if trial.mutant else (),
    )
    return search.conduct(lab, trial, chosen, wanted, words, arguments.out, as_json=arguments.json)
