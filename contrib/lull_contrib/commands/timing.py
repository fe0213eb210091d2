# SPDX-License-Identifier: GPL-2.0-only
"""lull timing: modelled time against the number of CPUs, and against what was published."""

from __future__ import annotations

import argparse

from lull import options, timing
from lull.guest.qemu import numbers_of_vcpus
from lull.lab import Lab

VCPUS = "1,2,4,8,16,32"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull timing``."""
    names = ", ".join(timing.known())
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="ampere-32",
        help=f"the model: {names}, or your own TOML file (default: ampere-32)",
    )
    options.add(
        parser, "vcpus", metavar="LIST", type=str, default=VCPUS, help="numbers of virtual CPUs, one run for each"
    )
    options.add(parser, "repeat", default=3, help="boots of each kernel in each run")
    options.add(parser, "out")
    parser.epilog = (
        "exit: 0 the simulation agrees with the runs, and the model with the numbers it was fitted to; 1 one does not\n"
        "example: lull timing kunpeng-920 --vcpus 4"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Run, evaluate, compare. Returns 1 when the simulation or the model is off."""
    from lull_contrib.timing import runs as timing_run  # and with it NumPy, which --help does without

    model = timing.load_model(arguments.name)
    vcpus = numbers_of_vcpus(arguments.vcpus)
    planned = timing_run.plans(model, lab.base, lab.workloads, vcpus, arguments.repeat)
    if arguments.dry_run:
        timing_run.tell(planned, as_json=arguments.json)
        return 0
    return timing_run.do_timing(lab, model, planned, arguments.out, as_json=arguments.json)
