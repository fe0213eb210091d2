# SPDX-License-Identifier: GPL-2.0-only
"""lull calibrate: the constants of modelled time, measured on an arm64 machine; or tried where they are known."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lull import cache, calibrate_guest, calibrate_here, experiment, tables, timing
from lull.calibrate import TOLERANCE, Fit, fit
from lull.errors import LullError, UsageError
from lull.lab import Lab
from lull.progress import say
from lull.qemu import Machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull calibrate``."""
    add = parser.add_argument
    add("--out", metavar="FILE", type=Path, help="where the cost file goes, FILE.toml (default: standard output)")
    add("--ms", metavar="N", type=int, default=20, help="milliseconds of a measurement (default: 20)")
    add("--rounds", metavar="N", type=int, default=15, help="measurements of each case (default: 15)")
    add(
        "--repeats",
        choices=("yes", "no"),
        help="whether this kernel repeats broadcast TLBIs, as for erratum 4118414 (default: as its log says)",
    )
    add("--guest", metavar="NAME", help="try it in a guest whose time is made by this model, a name or a file in TOML")
    add("--vcpus", metavar="N", type=int, default=8, help="with --guest: virtual CPUs (default: 8)")
    add(
        "--cpu",
        metavar="MODEL",
        default=calibrate_guest.CPU,
        help=f"with --guest: CPU of QEMU (default: {calibrate_guest.CPU}, which has no TLB ranges)",
    )
    add("--repeat", metavar="N", type=int, default=1, help="with --guest: boots of each kernel (default: 1)")
    parser.epilog = (
        f"exit: 0 measured; with --guest, every cost that is told is right within {TOLERANCE:.0%}; 1 one is not\n"
        "example: lull calibrate --out my-server.toml; then anywhere: lull run --timing my-server.toml"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Measure here, or try it in a guest."""
    if arguments.ms < 1 or arguments.rounds < 1:
        raise UsageError("--ms and --rounds are 1 or more")
    if arguments.guest is not None:
        if arguments.out:
            raise UsageError("--out is where the costs of this machine go", remedy="leave it out with --guest")
        return in_guest(lab, arguments)
    if arguments.out and arguments.out.suffix != ".toml":
        raise UsageError(f"--out {arguments.out}: a cost file is a .toml file", remedy=f"--out {arguments.out}.toml")
    return here(lab, arguments)


def here(lab: Lab, arguments: argparse.Namespace) -> int:
    """Measure this machine and write its cost file."""
    calibrate_here.require_arm64()
    if arguments.dry_run:
        say(f"would run guest/calibrate.c ms={arguments.ms} rounds={arguments.rounds} here, and fit the costs to it")
        return 0
    machine = calibrate_here.examine({None: None, "yes": True, "no": False}[arguments.repeats])
    measured, near, counter = calibrate_here.measure(lab, machine, arguments.ms, arguments.rounds)
    found = calibrate_here.fitted(measured, near)
    text = calibrate_here.cost_file(found, machine, counter)
    if arguments.out:
        with cache.disk_errors(arguments.out):
            cache.write_atomic(arguments.out, text)
    if arguments.json:
        print(json.dumps(as_json(found), indent=1))
    elif arguments.out:
        console = tables.make_console()
        for grid in (estimates_grid(found), residuals_grid(found)):
            tables.show_grid(console, grid)
        say(f"written to {arguments.out}")
    else:
        print(text, end="")
    return 0


def in_guest(lab: Lab, arguments: argparse.Namespace) -> int:
    """Measure a guest's modelled time, and compare what is found with the model. Returns 1 when a cost is wrong."""
    model = timing.load(arguments.guest)
    machine = Machine(arguments.vcpus, cpu=arguments.cpu)
    boots = calibrate_guest.boots(lab.base, lab.workloads, arguments.repeat)
    if arguments.dry_run:
        for boot in boots:
            say(f"would boot {boot.image} ({boot.name}) by {model.name}: {calibrate_guest.WORKLOAD}")
        return 0
    results, folder = experiment.measure(lab, machine, boots, None, model=model)
    failed = [check for check in results.checks if check.verdict == "failed"]
    if failed:
        raise LullError(
            f"{failed[0].name}: {failed[0].detail}", where=str(folder), remedy="try again on a quieter host"
        )
    far, near = (
        calibrate_guest.measurements(results, kernel) for kernel in (calibrate_guest.BROADCAST, calibrate_guest.LOCAL)
    )
    found = fit(far, near)
    judged = calibrate_guest.verdicts(found, model.costs)
    if arguments.json:
        shown = {"verdicts": [{**asdict(v), "held": v.held} for v in judged], **as_json(found)}
        print(json.dumps(shown, indent=1))
    else:
        console = tables.make_console()
        for grid in (verdicts_grid(judged), residuals_grid(found)):
            tables.show_grid(console, grid)
    return 0 if calibrate_guest.held(judged) else 1


def as_json(found: Fit) -> Mapping[str, Any]:
    """The fit, with each measurement."""
    return {
        "costs": asdict(found.costs),
        "told": {name: estimate.told for name, estimate in found.estimates.items()},
        "sources": {name: estimate.sentence() for name, estimate in found.estimates.items()},
        "measurements": [
            {"where": r.where, "ns": r.measurement.ns, "modelled": r.modelled, "counts": asdict(r.measurement.counts)}
            for r in found.residuals
        ],
    }


def verdicts_grid(judged: list[calibrate_guest.Verdict]) -> tables.Grid:
    """Each cost against the truth."""
    rows = tuple(
        (
            v.name,
            f"{v.true:.4g}",
            "-" if v.found is None else f"{v.found:.4g}",
            "-" if v.off is None else f"{v.off:.1%}",
            "held" if v.held and v.found is not None else "not told" if v.held else "wrong",
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
