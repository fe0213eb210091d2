# SPDX-License-Identifier: GPL-2.0-only
"""lull soak: a long random mix of everything under the checker."""

from __future__ import annotations

import argparse
import secrets
from functools import partial

from lull import options, plan
from lull.base import DEFAULT
from lull.check.data import load_known_issues, load_machines, matrix, parse_hardware
from lull.errors import UsageError, require_known
from lull.lab import Lab
from lull.progress import print_result
from lull_contrib import soak

SHOWN = 10
"""Rounds that --dry-run shows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull soak``."""
    add, own = partial(options.add, parser), parser.add_argument
    own(
        "--minutes",
        metavar="N",
        type=float,
        default=60.0,
        help="how long to soak; a round that has begun is finished (default: 60)",
    )
    own("--seed", metavar="S", type=int, help="seed of all random choices (default: a new one, which is printed)")
    own("--round", metavar="R", type=int, help="boot only this round of the seed")
    own("--keep-going", action="store_true", help="continue after a round that failed")
    add(
        "kernel",
        metavar="NAME",
        help=f"choose only from these kernels (default: {', '.join(soak.KERNELS)}); repeatable",
    )
    add("cpu", **options.MACHINES, help="choose only from these machines, named as for check; repeatable")
    add("workload", help="choose only from these workloads; repeatable")
    own("--vcpus", metavar="N", type=int, help="virtual CPUs of every guest (default: drawn for each round)")
    add("append")
    add("out")
    parser.epilog = (
        "exit: 0 the checker reported nothing; 1 a round failed: the command that repeats this round is printed\n"
        "The same command with the same --seed resumes an interrupted soak.\n"
        "example: lull soak --minutes 60 --seed 7"
    )


def choice_of(lab: Lab, arguments: argparse.Namespace) -> soak.SoakChoice:
    """What is drawn from. Raises UsageError."""
    base, known = lab.base, load_machines()
    require_known("kernel", arguments.kernel, base.kernels)
    kernels = tuple(dict.fromkeys(arguments.kernel)) or tuple(k for k in soak.KERNELS if k in base.kernels)
    machines = tuple(dict.fromkeys(parse_hardware(name, known) for name in arguments.cpu))
    workloads = {**plan.load_workloads(base.workloads), **lab.workloads}
    chosen = plan.select_workloads(arguments.workload or list(workloads), workloads)
    for image in kernels:
        if not soak.fitting(chosen, image):
            raise UsageError(f"no workload can be drawn for {image}", remedy="name another with --workload")
    words = [
        *(["--base", arguments.base] if arguments.base != DEFAULT else []),
        *(["--tree", str(arguments.tree)] if arguments.tree else []),
        *(["--suite", lab.suite_name] if lab.suite_name else []),
        *(word for k in arguments.kernel for word in ("--kernel", k)),
        *(word for c in arguments.cpu for word in ("--cpu", c)),
        *(word for w in arguments.workload for word in ("--workload", w)),
        *(["--vcpus", str(arguments.vcpus)] if arguments.vcpus is not None else []),
        *(["--append", arguments.append] if arguments.append else []),
    ]
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    return soak.SoakChoice(
        seed,
        kernels,
        machines or tuple(matrix(known, None, None)),
        tuple(chosen),
        arguments.append,
        vcpus=arguments.vcpus,
        words=tuple(words),
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Draw, boot, judge, until the minutes have passed. Returns 1 when a round did not pass."""
    if not arguments.minutes > 0:
        raise UsageError(f"--minutes {arguments.minutes:g}: more than 0 are needed")
    if arguments.round is not None and arguments.round < 1:
        raise UsageError(f"--round {arguments.round}: the first is 1")
    choice = choice_of(lab, arguments)
    first = soak.draw(lab.base, choice, arguments.round or 1)
    first.trial.machine(first.options)  # refuses what cannot be
    known_issues = load_known_issues()
    if arguments.dry_run:
        numbers = range(1, SHOWN + 1) if arguments.round is None else [arguments.round]
        drawn = [soak.draw(lab.base, choice, number) for number in numbers]
        lines = [f"$ {choice.line(one.number)}\n  would boot {one.what}" for one in drawn]
        data = [{"line": choice.line(one.number), "what": one.what} for one in drawn]
        return print_result(lines, data, as_json=arguments.json)
    return soak.do_rounds(
        lab,
        choice,
        known_issues,
        arguments.out,
        seconds=60 * arguments.minutes,
        only=arguments.round,
        keep_going=arguments.keep_going,
        as_json=arguments.json,
    )
