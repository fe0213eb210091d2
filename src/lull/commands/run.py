# SPDX-License-Identifier: GPL-2.0-only
"""lull run: the main job. Build, boot interleaved, count, compare, write results.json and the logs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from lull import options, plan, timing
from lull.check.kernels import of_user
from lull.errors import UsageError
from lull.guest.qemu import Machine
from lull.lab import Lab
from lull.progress import say
from lull.run import experiment

REPEAT, SHORT_REPEAT = 5, 2
"""Boots of each kernel."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull run``."""
    parser.epilog = """Without --full, --kernel and --workload this is the short run: stock and lull, each as it
boots, on one workload of each published system.

'lull list' has what can be named: kernels, features and their policies, workloads."""
    parser.add_argument(
        "--full", action="store_true", help="all default workloads, under each policy they name; judges the goals"
    )
    parser.add_argument(
        "--image",
        metavar="IMAGE",
        type=options.IMAGE,
        help="run your own kernel image, too: beside stock, or the kernels of --kernel; needs --symbols",
    )
    parser.add_argument("--symbols", metavar="FILE", type=Path, help="the System.map or vmlinux of --image")
    measuring(parser, repeat=f"{REPEAT}; the short run: {SHORT_REPEAT}")
    parser.add_argument(
        "--workload",
        metavar="W",
        action="append",
        default=[],
        help="a workload of guest/workloads.toml, or of the suite (default: those marked so); repeatable",
    )
    parser.add_argument("--vcpus", metavar="N", type=int, default=4, help="virtual CPUs (default: 4)")
    parser.add_argument(
        "--cpu", metavar="MODEL", type=options.MODEL, default=Machine.cpu, help=f"CPU of QEMU (default: {Machine.cpu})"
    )


def measuring(parser: argparse.ArgumentParser, repeat: str = "") -> None:
    """Options of every command that measures: those that are not of one machine or one choice of workloads.

    Args:
        repeat: the default of --repeat in words, where it is not one number; it is None then.
    """
    parser.add_argument(
        "--kernel",
        metavar="K",
        action="append",
        default=[],
        help="stock, lull, lull+FEATURE=POLICY, lull-FEATURE, lull+only=FEATURE (default: stock, lull, and lull under "
        "the policies a workload names); repeatable",
    )
    parser.add_argument(
        "--repeat",
        metavar="N",
        type=int,
        default=None if repeat else REPEAT,
        help=f"boots of each kernel (default: {repeat or REPEAT})",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=options.RESULTS, help="results (default: a new folder in ./results)"
    )
    parser.add_argument(
        "--memory", metavar="MIB", type=options.MEMORY, default=2048, help="guest memory (default: 2048)"
    )
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


def preview(lab: Lab, machine: Machine, boots: Sequence[plan.Boot], out: Path | None) -> list[str]:
    """What would be fetched, built, booted and run, and where the results would be."""

    def state(name: str, find: Callable[[Lab], object], otherwise: str) -> str:
        return f"{name} ({'in the cache' if lab.has(find) else otherwise})"

    here = lab.qemu_here()
    source = str(lab.user_tree) if lab.user_tree else lab.base.package
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
    machine = Machine(arguments.vcpus, arguments.memory, arguments.cpu, arguments.accel)
    model = None if arguments.timing is None else timing.load(arguments.timing)
    if bool(arguments.image) != bool(arguments.symbols):
        raise UsageError("--image and --symbols belong together", remedy="name both")
    named = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel)]
    if arguments.image:
        own = plan.slug(of_user(lab, arguments.image, arguments.symbols).name)
        named = [*(named or [plan.parse_spec(plan.BASELINE, lab.base)]), plan.Spec(own, own)]
    short = [] if arguments.full or named or arguments.workload else plan.short_selection(lab.workloads)
    if short:
        named = [plan.parse_spec(kernel, lab.base) for kernel in lab.base.default_kernels]
    workloads = short or plan.select_workloads(arguments.workload, lab.workloads)
    usual = SHORT_REPEAT if short else REPEAT
    repeat = usual if arguments.repeat is None else arguments.repeat
    boots = plan.make_plan(workloads, named, lab.base, repeat)
    if arguments.dry_run:
        plan.show(preview(lab, machine, boots, arguments.out), plan.as_json(boots), as_json=arguments.json)
        return 0
    if arguments.image:
        lab.adopt(own, arguments.image, arguments.symbols)
    if named and plan.BASELINE not in {boot.image for boot in boots}:
        say(f"nothing will be compared: {plan.BASELINE} is not among the kernels (add --kernel {plan.BASELINE})")
    return experiment.conduct(
        lab,
        machine,
        boots,
        arguments.out,
        append=arguments.append,
        as_json=arguments.json,
        model=model,
        short=bool(short),
    )
