# SPDX-License-Identifier: GPL-2.0-only
"""lull calibrate: the constants of modelled time, measured on an arm64 machine; or tried where they are known."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lull import cache, options, plan, timing
from lull.errors import LullError, UsageError
from lull.guest.qemu import Machine
from lull.judge import tables
from lull.lab import Lab
from lull.progress import print_result, say
from lull.run import experiment
from lull.run.records import Check
from lull_contrib.calibrate import TOLERANCE, Fit, as_json, fit
from lull_contrib.calibrate import guest as calibrate_guest
from lull_contrib.calibrate import here as calibrate_here
from lull_contrib.calibrate.here import Repeats

OF_HERE = {"out": None, "ms": 20, "rounds": 15, "repeats": None}
OF_GUEST = {"vcpus": 8, "cpu": calibrate_guest.CPU, "repeat": 1}
"""Options of one of both ways, with their defaults: the other refuses them."""
WITHOUT = frozenset({"--suite"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull calibrate``."""
    add = parser.add_argument
    add("--out", metavar="FILE", type=options.FILE, help="write the cost file to FILE.toml (default: standard output)")
    add("--ms", metavar="N", type=int, help=f"approximate milliseconds of a measurement (default: {OF_HERE['ms']})")
    add("--rounds", metavar="N", type=int, help=f"measurements of each case (default: {OF_HERE['rounds']})")
    add(
        "--repeats",
        choices=[repeats.value for repeats in Repeats],
        help="what the kernel repeats in a broadcast flush because of an erratum: nothing, each sync (4118414), or "
        "each TLBI (1286807 and others, before Linux 7.0) (default: what the kernel's log says)",
    )
    add(
        "--guest",
        metavar="NAME",
        help="try the calibration in a guest whose clock follows this model, a name or a TOML file",
    )
    options.add(parser, "vcpus", default=None, help=f"with --guest: virtual CPUs (default: {OF_GUEST['vcpus']})")
    options.add(
        parser,
        "cpu",
        default=None,
        help=f"with --guest: CPU of QEMU (default: {OF_GUEST['cpu']}, which has no TLB ranges)",
    )
    options.add(parser, "repeat", help=f"with --guest: boots of each kernel (default: {OF_GUEST['repeat']})")
    parser.epilog = (
        "exit: 0 measured; with --guest, all costs that must be found were found, and those found are right within "
        f"{TOLERANCE:.0%}; 1 one is not\n"
        "example: lull calibrate --out my-server.toml; then anywhere: lull run --timing my-server.toml"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Measure here, or try it in a guest."""
    if arguments.guest is not None:
        refuse(arguments, OF_HERE, "is of measuring this machine", "leave it out with --guest")
        default(arguments, OF_GUEST)
        return in_guest(lab, arguments)
    refuse(arguments, OF_GUEST, "is of a guest", "name its model with --guest, or leave it out")
    default(arguments, OF_HERE)
    if arguments.ms < 1 or arguments.rounds < 1:
        raise UsageError("--ms and --rounds are 1 or more")
    if arguments.out and arguments.out.suffix != ".toml":
        raise UsageError(f"--out {arguments.out}: a cost file is a .toml file", remedy=f"--out {arguments.out}.toml")
    return here(lab, arguments)


def refuse(arguments: argparse.Namespace, names: Iterable[str], why: str, remedy: str) -> None:
    """Raise UsageError when one of these options was given."""
    for name in names:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} {why}", remedy=remedy)


def default(arguments: argparse.Namespace, values: Mapping[str, Any]) -> None:
    """Set options that were not given."""
    for name, value in values.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)


def here(lab: Lab, arguments: argparse.Namespace) -> int:
    """Measure this machine and write its cost file."""
    calibrate_here.require_arm64()
    if arguments.dry_run:
        program = {"program": "guest/calibrate.c", "ms": arguments.ms, "rounds": arguments.rounds}
        words = f"guest/calibrate.c ms={arguments.ms} rounds={arguments.rounds}"
        return print_result([f"would run {words} here, and fit the costs to it"], program, as_json=arguments.json)
    machine = calibrate_here.examine(Repeats(arguments.repeats) if arguments.repeats else None)
    measured, near, way = calibrate_here.measure(lab, machine, arguments.ms, arguments.rounds)
    found = calibrate_here.fitted(measured, near)
    text = calibrate_here.cost_file(found, machine, way)
    if arguments.out:
        with cache.disk_errors(arguments.out):
            cache.write_atomic(arguments.out, text)
    if arguments.json:
        print(json.dumps(as_json(found), indent=1))
    elif arguments.out:
        console = tables.make_console()
        for grid in (estimates_grid(found), residuals_grid(found)):
            tables.show_grid(console, grid)
            console.print()
        say(f"written to {arguments.out}")
    else:
        print(text, end="")
    return 0


def in_guest(lab: Lab, arguments: argparse.Namespace) -> int:
    """Measure a guest's modelled time, and compare what is found with the model.

    Returns: 1 when a cost is wrong, or not told that must be.
    """
    model = timing.load_model(arguments.guest)
    machine = Machine(arguments.vcpus, cpu=arguments.cpu)
    boots = calibrate_guest.boots(lab.base, lab.workloads, arguments.repeat)
    if arguments.dry_run:
        lines = [f"would boot {b.image} ({b.name}) by {model.name}: {calibrate_guest.WORKLOAD}" for b in boots]
        return print_result(lines, plan.as_json(boots), as_json=arguments.json)
    run = experiment.measure(lab, machine, boots, None, experiment.How(model=model))
    require_sound(run.results.checks, run.folder)
    far, near = (
        calibrate_guest.measurements(run.results, kernel)
        for kernel in (calibrate_guest.BROADCAST, calibrate_guest.LOCAL)
    )
    found = fit(far, near)
    judged = calibrate_guest.verdicts(found, model.costs, far)
    if arguments.json:
        shown = {"verdicts": [{**asdict(v), "passed": v.passed} for v in judged], **as_json(found)}
        print(json.dumps(shown, indent=1))
    else:
        console = tables.make_console()
        for grid in (verdicts_grid(judged), residuals_grid(found)):
            tables.show_grid(console, grid)
            console.print()
    for verdict in judged:
        if verdict.found is None:
            say(f"{verdict.name} was not told" + ("; it must be here" if verdict.must else ""))
    return 0 if calibrate_guest.passed(judged) else 1


def require_sound(checks: Iterable[Check], folder: Path) -> None:
    """Raise LullError when a check of the run failed: nothing can be fitted to it."""
    for check in checks:
        if check.verdict == "failed":
            remedy = "try again on a quieter host" if check.name == experiment.IN_STEP else ""
            raise LullError(f"{check.name}: {check.detail}", where=str(folder), remedy=remedy)


def verdicts_grid(judged: list[calibrate_guest.CostVerdict]) -> tables.Grid:
    """Each cost against the truth."""
    rows = tuple(
        (
            v.name,
            f"{v.true:.4g}",
            "-" if v.found is None else f"{v.found:.4g}",
            "-" if v.off is None else f"{v.off:.1%}",
            ("must be told" if v.must else "not told") if v.found is None else "passed" if v.passed else "wrong",
        )
        for v in judged
    )
    notes = tuple(f"{v.name}: {v.how}" for v in judged)
    return tables.Grid("Costs, in ns", ("constant", "true", "recovered", "error", "verdict"), rows, 1, notes)


def estimates_grid(found: Fit) -> tables.Grid:
    """Each cost, and how far it is known."""
    rows = tuple(
        (name, f"{e.value:.4g}", f"± {2 * e.error:.2g}" if e.told else "not told")
        for name, e in found.estimates.items()
    )
    notes = tuple(f"{name}: {estimate.sentence()}" for name, estimate in found.estimates.items())
    return tables.Grid("Costs, in ns", ("constant", "value", "95 %"), rows, 1, notes)


def residuals_grid(found: Fit) -> tables.Grid:
    """Each measurement, and what it is by the costs."""
    rows = tuple((r.where, f"{r.measurement.ns:.4g}", f"{r.modelled:.4g}", f"{r.off:+.1%}") for r in found.residuals)
    note = "an operation on its CPU, in ns; what is far off the model does not know"
    return tables.Grid("Measured, and by these costs", ("case", "measured", "modelled", "off"), rows, 1, (note,))
