# SPDX-License-Identifier: GPL-2.0-only
"""lull sweep: many runs as one, on one machine or on many."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from lull import options, plan, sweep
from lull.errors import UsageError
from lull.guest.qemu import Machine, numbers_of_vcpus
from lull.lab import Lab
from lull.progress import say
from lull.sweep import engine as sweep_engine

VCPUS = "1,4,16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull sweep``."""
    options.add_measuring(parser)
    add = partial(options.add, parser)
    add(
        "workload",
        help="a workload, or several separated by commas, which share a job; repeatable, one job for each (default: "
        "one job with the workloads of 'lull run')",
    )
    options.add_vcpus(parser, VCPUS, "job")
    add("cpu", **options.SEVERAL, help=f"CPU of QEMU; repeatable, one job for each (default: {Machine.cpu})")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="jobs that run at once on this machine (default: as many as leave each vCPU a CPU, and half "
        "of the memory free)",
    )
    group = parser.add_argument_group("other machines")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="tcp://HOST:PORT of this machine, where other machines may join; everybody who can reach a tcp:// "
        "address can run programs here: docs/guide.md says how to use tls://",
    )
    where.add_argument(
        "--join", metavar="ADDRESS", help="run jobs of the sweep that listens at this address, until the sweep ends"
    )
    parser.epilog = (
        "exit: 0 all checks held in all jobs; 1 a check failed, or a job has no results\n"
        "example: lull sweep --vcpus 1,4,16 --workload young --workload swap_bench,fork_exec --repeat 3"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Sweep, or help another machine to."""
    if arguments.workers is not None and arguments.workers < (0 if arguments.listen else 1):
        raise UsageError(f"--workers {arguments.workers}: at least one is needed", remedy="0 goes with --listen")
    if arguments.join:
        return join(lab, arguments)
    choice = chosen(lab, arguments)
    listen = sweep_engine.parse_address(arguments.listen) if arguments.listen else None
    if arguments.dry_run:
        sweep.show_plan(choice.jobs(lab), as_json=arguments.json)
        return 0
    return sweep.conduct(lab, choice, arguments.out, workers=arguments.workers, listen=listen, as_json=arguments.json)


def join(lab: Lab, arguments: argparse.Namespace) -> int:
    """Work for a sweep elsewhere."""
    address = sweep_engine.parse_address(arguments.join)
    usual = sweep.default_workers(Machine.vcpus, Machine.memory_mib)
    workers = usual if arguments.workers is None else arguments.workers
    if arguments.dry_run:
        lines = [f"would run jobs of the sweep at {address}, {workers} at once"]
        return plan.show(lines, {"address": str(address), "workers": workers}, as_json=arguments.json)
    say(f"joining the sweep at {address}, {workers} jobs at once")
    sweep_engine.join(address, workers, offline=lab.offline)
    say("the sweep is over")
    return 0


def chosen(lab: Lab, arguments: argparse.Namespace) -> sweep.SweepChoice:
    """What the command line asks for. Raises UsageError."""
    model = options.model(arguments)
    sets = tuple(tuple(dict.fromkeys(names.split(","))) for names in arguments.workload) or ((),)
    twice = {name for i, one in enumerate(sets) for name in one if any(name in other for other in sets[:i])}
    if twice:
        raise UsageError(f"in two jobs: {', '.join(sorted(twice))}", remedy="name a workload in one --workload only")
    return sweep.SweepChoice(
        tuple(numbers_of_vcpus(arguments.vcpus)),
        tuple(dict.fromkeys(arguments.cpu)) or (Machine.cpu,),
        sets,
        tuple(dict.fromkeys(arguments.kernel)),
        arguments.repeat,
        arguments.memory,
        arguments.accel,
        arguments.append,
        model,
        tuple(shared_words(lab, arguments)),
    )


def shared_words(lab: Lab, arguments: argparse.Namespace) -> list[str]:
    """The words of 'lull run' that all jobs have. A path is absolute in them."""
    named = arguments.timing or ""
    cost_file = str(Path(named).absolute()) if named.endswith(".toml") else named
    values = {
        "--repeat": str(arguments.repeat),
        "--memory": str(arguments.memory),
        "--accel": arguments.accel,
        "--timing": cost_file,
        "--append": arguments.append,
        "--base": str(Path(arguments.base).absolute()) if "/" in arguments.base else arguments.base,
        "--tree": str(lab.user_tree.absolute()) if lab.user_tree else "",
        "--suite": arguments.suite,
    }
    # With "=": a value may begin with a dash.
    return [f"{name}={value}" for name, value in values.items() if value] + ["--offline"] * lab.offline
