# SPDX-License-Identifier: GPL-2.0-only
"""lull bench: the guest programs on an arm64 machine itself, under the kernel it runs."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence

from lull import options, plan
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import toolchain
from lull.linux.switches import FOLDER
from lull.progress import say
from lull.run import experiment, native


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull bench``."""
    add = parser.add_argument
    add(
        "--here",
        action="store_true",
        required=True,
        help="confirm that the workloads run on this machine, as processes of its kernel",
    )
    options.add(
        parser,
        "kernel",
        help="as for run, if the switches of the running kernel can make it so (default: all that are "
        "possible); repeatable",
    )
    options.add(
        parser,
        "workload",
        help="a workload of guest/workloads.toml (default: those of a run that change no setting of the "
        "machine); repeatable",
    )
    options.add(parser, "repeat", default=options.REPEAT, help="rounds of each kernel")
    options.add(parser, "out")
    add(
        "--allow-changes",
        action="store_true",
        help="also run workloads that change settings of the machine: HugeTLB pools, cgroups, huge pages, CPUs",
    )
    parser.epilog = (
        "Nothing is set up for the workloads: they run with the swap and the settings that the machine has.\n"
        "example: lull bench --here --workload mprotect_per_cpu --workload fork_exec"
    )


def workloads(lab: Lab, named: Sequence[str], allowed: bool) -> list[plan.Workload]:
    """The workloads named, or those of a run. Raises UsageError for one that may not change the machine and would."""
    chosen = plan.select_workloads(named, lab.workloads)
    harmful = [] if allowed else [w.name for w in chosen if not w.harmless]
    if harmful and named:
        raise UsageError(
            f"settings of the whole machine are changed by {', '.join(harmful)}",
            remedy="add --allow-changes on a machine that you can spare, or leave them out",
        )
    if harmful:
        say(f"left out, as they change settings of the whole machine (--allow-changes): {', '.join(harmful)}")
    return [w for w in chosen if w.name not in harmful]


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Plan, run, compare. Returns 1 when a workload fell short."""
    if not toolchain.host_is_arm64():
        raise UsageError(
            f"this machine is {platform.machine()}; the programs would say nothing of arm64",
            remedy="clone the repository on an arm64 machine, and run it there; here './lull run' emulates one",
        )
    switches = native.Switches(lab.base)
    named = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel)]
    for spec in named:
        if not switches.possible(spec):
            raise UsageError(
                f"the running kernel cannot be {spec.name}",
                where=str(FOLDER),
                remedy="boot a Lull kernel that has the feature, and be root to set policies",
            )
    chosen = workloads(lab, arguments.workload, arguments.allow_changes)
    boots = plan.make_plan(chosen, named, lab.base, arguments.repeat, switches.possible)
    if arguments.dry_run:
        shown = [(b.name, [f"{j.spec.name} {j.workload.name}" for j in b.jobs]) for b in boots]
        lines = [f"would run {name}: {', '.join(jobs)}" for name, jobs in shown]
        return plan.show(lines, [{"round": name, "jobs": jobs} for name, jobs in shown], as_json=arguments.json)
    results, folder = native.measure(boots, toolchain.find(), switches, arguments.out)
    return experiment.told(results, folder, as_json=arguments.json)
