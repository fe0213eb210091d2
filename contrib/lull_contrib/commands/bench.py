# SPDX-License-Identifier: GPL-2.0-only
"""lull bench: the guest programs on an arm64 machine itself, under the kernel it runs."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from lull import options, plan
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import toolchain
from lull.linux.switches import FOLDER
from lull.progress import print_result, say
from lull.run import experiment
from lull_contrib.day import day_plan, native, ready, session
from lull_contrib.day.machine import Machine

WITHOUT = frozenset({"--offline", "--tree", "--suite"})


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
    add(
        "--across",
        action="store_true",
        help="measure the installed kernels -stock and -lull, with a reboot before each measurement; goes on by itself "
        "after each reboot, writes one file to send, and restores the machine",
    )
    add("--stop", action="store_true", help="with --across: end it, write what was measured, restore the machine")
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
    if arguments.stop and not arguments.across:
        raise UsageError("--stop ends a session of --across", remedy="add --across")
    if arguments.across:
        return across(lab, arguments, Machine())
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
        return print_result(lines, [{"round": name, "jobs": jobs} for name, jobs in shown], as_json=arguments.json)
    found = native.measure(boots, toolchain.find(), switches, arguments.out)
    experiment.draw(found)
    return experiment.print_outcome(found, as_json=arguments.json)


def across(lab: Lab, arguments: argparse.Namespace, machine: Machine) -> int:
    """Begin a session, or go on with it. Returns 0 when it goes on after a reboot, or has ended."""
    ready.require_root(os.geteuid() == 0)
    words = [*(w for kernel in arguments.kernel for w in ("--kernel", kernel))]
    words += [*(w for workload in arguments.workload for w in ("--workload", workload))]
    words += ["--repeat", str(arguments.repeat), "--base", lab.base_name]
    words += ["--allow-changes"] * arguments.allow_changes
    named = [plan.parse_spec(kernel, lab.base) for kernel in dict.fromkeys(arguments.kernel)]
    for spec in named:
        if spec.image not in ready.SUFFIXES:
            raise UsageError(f"{spec.name} is not measured across reboots: only stock and lull are")
    chosen = workloads(lab, arguments.workload, arguments.allow_changes)
    booted = [w.name for w in chosen if w.append]
    if arguments.workload and booted:
        raise UsageError(
            f"{', '.join(booted)} needs kernel parameters, which a session does not set",
            remedy="leave it out, or boot with them and use 'lull bench --here'",
        )
    chosen = [w for w in chosen if not w.append]
    boots = plan.make_plan(chosen, named, lab.base, arguments.repeat, lambda spec: spec.image in ready.SUFFIXES)
    out: Path = (arguments.out or Path("results/across")).absolute()
    if arguments.dry_run:
        pair = day_plan.DayPlan(lab, machine, boots, out, words).require()
        lines = [f"would boot {pair.kernels[boot.image]} for {boot.name}" for boot in boots]
        return print_result(lines, {"kernels": pair.kernels, "boots": plan.as_json(boots)}, as_json=arguments.json)
    with session.held(machine):
        return day_plan.DayPlan(lab, machine, boots, out, words).run(stop=arguments.stop)
