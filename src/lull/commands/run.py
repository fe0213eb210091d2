# SPDX-License-Identifier: GPL-2.0-only
"""lull run: the main job. Build, boot interleaved, count, compare, write results.json and the logs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lull import plan, timing
from lull.guest.qemu import Machine
from lull.lab import Lab
from lull.progress import say
from lull.run import experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull run``."""
    measuring(parser)
    parser.add_argument(
        "--workload",
        metavar="W",
        action="append",
        default=[],
        help="a workload of guest/workloads.toml, or of the suite (default: those marked so); repeatable",
    )
    parser.add_argument("--vcpus", metavar="N", type=int, default=4, help="virtual CPUs (default: 4)")
    parser.add_argument("--cpu", metavar="MODEL", default=Machine.cpu, help=f"CPU of QEMU (default: {Machine.cpu})")


def measuring(parser: argparse.ArgumentParser) -> None:
    """Options of every command that measures: those that are not of one machine or one choice of workloads."""
    parser.add_argument(
        "--kernel",
        metavar="K",
        action="append",
        default=[],
        help="stock, lull, lull+FEATURE=POLICY, lull-FEATURE, lull+only=FEATURE (default: stock, lull, and lull under "
        "the policies a workload names); repeatable",
    )
    parser.add_argument("--repeat", metavar="N", type=int, default=5, help="boots of each kernel (default: 5)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="results (default: a new folder in ./results)")
    parser.add_argument("--memory", metavar="MIB", type=int, default=2048, help="guest memory (default: 2048)")
    parser.add_argument(
        "--accel",
        choices=("tcg", "kvm"),
        default="tcg",
        help="kvm (arm64 hosts) gives real seconds but counts nothing (default: tcg)",
    )
    parser.add_argument(
        "--timing",
        metavar="NAME",
        help=f"seconds of a machine with stated costs, too: {', '.join(timing.known())}, or your own TOML file",
    )
    parser.add_argument("--append", metavar="CMDLINE", default="", help="more kernel parameters")


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Plan, run, compare. Returns 1 when a check or a workload fell short."""
    machine = Machine(arguments.vcpus, arguments.memory, arguments.cpu, arguments.accel)
    model = None if arguments.timing is None else timing.load(arguments.timing)
    named = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel)]
    workloads = plan.select_workloads(arguments.workload, lab.workloads)
    boots = plan.make_plan(workloads, named, lab.base, arguments.repeat)
    if arguments.dry_run:
        if arguments.json:
            print(json.dumps(plan.as_json(boots), indent=1))
        else:
            for boot in boots:
                say(
                    f"would boot {boot.image:6} ({boot.name}): "
                    + ", ".join(
                        f"{j.workload.name}" + (f" [{j.spec.name}]" if j.spec.settings else "") for j in boot.jobs
                    )
                )
        return 0
    return experiment.conduct(
        lab, machine, boots, arguments.out, append=arguments.append, as_json=arguments.json, model=model
    )
