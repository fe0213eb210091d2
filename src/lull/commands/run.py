# SPDX-License-Identifier: GPL-2.0-only
"""lull run: the main job. Build, boot interleaved, count, compare, write results.json and the logs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lull import options, plan
from lull.check.kernels import of_user
from lull.errors import UsageError
from lull.guest.qemu import Machine
from lull.lab import Lab
from lull.progress import print_result, say
from lull.run import experiment

SHORT_REPEAT = 2
"""Boots of each kernel in the short run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull run``."""
    parser.epilog = """Without --full, --kernel and --workload this is the short run: stock and lull, each as it
boots, on one workload of each published system.

'lull list' has what can be named: kernels, features and their policies, workloads."""
    parser.add_argument(
        "--full", action="store_true", help="all default workloads, under each policy they name; judges the thresholds"
    )
    add = partial(options.add, parser)
    parser.add_argument(
        "--functions", action="store_true", help="list the instructions of each workload by function of the kernel, too"
    )
    add("image", help="run your own kernel image, too: beside stock and the kernels of --kernel; needs --symbols")
    add("symbols")
    options.add_measuring(parser, repeat=f"{options.REPEAT}; the short run: {SHORT_REPEAT}")
    add("workload", help="a workload of guest/workloads.toml, or of the suite (default: those marked so); repeatable")
    add("vcpus")
    add("cpu")
    options.add_program(parser, options.OWN_SECONDS)


def preview(lab: Lab, machine: Machine, boots: Sequence[plan.Boot], out: Path | None) -> list[str]:
    """What would be fetched, built, booted and run, and where the results would be."""

    def state(name: str, find: Callable[[Lab], object], otherwise: str) -> str:
        return f"{name} ({'in the cache' if lab.has(find) else otherwise})"

    here = lab.qemu_here()
    source = str(lab.user_tree) if lab.user_tree else lab.base.source.package
    fetched = [
        state(source, lambda lab: lab.pristine, "to be copied" if lab.user_tree else "to be fetched"),
        state("busybox", lambda lab: lab.store.busybox(), "to be fetched"),
        f"QEMU {here.version}" if here else "QEMU (to be fetched)",
    ]
    built = [
        state(image, lambda lab, image=image: lab.kernel(image), "to be built")  # type: ignore[misc]
        if image in lab.base.kernels
        else f"{image} (your own)"
        for image in dict.fromkeys(boot.image for boot in boots)
    ]
    if lab.suite.userland:
        built.append(state("its disk", lambda lab: lab.disk, "to be made"))
    runs: dict[str, dict[str, None]] = {}
    for job in (job for boot in boots for job in boot.jobs):
        runs.setdefault(job.spec.name, {})[job.workload.name] = None
    times = Counter(boot.label for boot in boots)
    rows = {
        "needs": ", ".join(fetched),
        "kernels": ", ".join(built),
        "machine": str(machine),
        "boots": f"{len(boots)}: " + ", ".join(f"{label} {number}" for label, number in times.items()),
        **{name: ", ".join(workloads) for name, workloads in runs.items()},
        "results": str(out or "a new folder in ./results, or that of the same run, unfinished"),
    }
    width = max(map(len, rows))
    return [f"{name:{width}}  {text}" for name, text in rows.items()]


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Plan, run, compare. Returns 1 when a check or a workload fell short."""
    if arguments.functions and arguments.accel != "tcg":
        raise UsageError("--functions needs --accel tcg", remedy="leave one out: under kvm nothing is counted")
    machine = Machine(arguments.vcpus, arguments.memory, arguments.cpu, arguments.accel)
    model = options.model(arguments)
    options.require_both(arguments)
    named = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel)]
    if arguments.image:
        mine = of_user(lab, arguments.image, arguments.symbols)
        own = plan.slug(mine.name)
        baseline = plan.parse_spec(plan.BASELINE, lab.base)  # without it nothing could be compared
        named = [*([] if baseline in named else [baseline]), *named, plan.Spec(own, own)]
    short = [] if arguments.full or named or arguments.workload else plan.short_selection(lab.workloads)
    if short:
        named = [plan.parse_spec(kernel, lab.base) for kernel in lab.base.default_kernels]
    workloads = short or plan.select_workloads(arguments.workload, lab.workloads)
    usual = SHORT_REPEAT if short else options.REPEAT
    repeat = usual if arguments.repeat is None else arguments.repeat
    boots = plan.make_plan(workloads, named, lab.base, repeat, alternatives=arguments.full, control=not short)
    if arguments.dry_run:
        return print_result(preview(lab, machine, boots, arguments.out), plan.as_json(boots), as_json=arguments.json)
    if arguments.image:
        lab.adopt(own, mine.image, mine.place)
    if named and plan.BASELINE not in {boot.image for boot in boots}:
        say(f"nothing will be compared: {plan.BASELINE} is not among the kernels (add --kernel {plan.BASELINE})")
    how = experiment.How(arguments.append, model, bool(short), arguments.functions)
    found = experiment.measure(lab, machine, boots, arguments.out, how)
    experiment.draw(found)
    return experiment.print_outcome(found, as_json=arguments.json, short=bool(short))
