# SPDX-License-Identifier: GPL-2.0-only
"""lull boot: a shell, or one program, in a guest; the guest's exit code is the tool's."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from lull import options, plan, process
from lull.guest.qemu import Machine
from lull.guest.runner import launch, launch_retrying, logs
from lull.lab import Lab
from lull.linux.toolchain import kvm_usable
from lull.progress import print_result, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull boot``."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--kernel", metavar="K", default="lull", help="kernel, or lull+FEATURE=POLICY (default: lull)")
    options.add(which, "image")
    options.add(parser, "vcpus")
    options.add(parser, "memory")
    options.add(parser, "cpu")
    options.add(
        parser,
        "accel",
        default="kvm" if kvm_usable() else "tcg",
        help="tcg: emulate the CPUs; kvm: use those of an arm64 host (default: kvm where it is usable)",
    )
    parser.add_argument("--mte", action="store_true", help="give the guest memory with tags, for CPUs with MTE")
    options.add(parser, "append")
    options.add_program(parser, 600.0)
    parser.add_argument("program", nargs="*", metavar="-- PROGRAM ARGS", help="run this instead of a shell")
    parser.epilog = (
        "The guest has busybox, and the workloads in /lull/bin. With --suite real or --package,\n"
        "'debian PROGRAM' runs a program of Debian. The exit status is the program's. Ctrl-A X ends QEMU.\n"
        "example: lull boot --kernel lull -- ls /sys/kernel/mm/lull"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Boot, and return the exit code of the program (a shell's is 0 unless it says ``exit N``)."""
    image: Path | None = arguments.image
    spec = plan.Spec(image.name, str(image)) if image else plan.parse_spec(arguments.kernel, lab.base)
    machine = Machine(arguments.vcpus, arguments.memory, arguments.cpu, arguments.accel, mte=arguments.mte)
    settings = [f"setting {name} {value}" for name, value in spec.settings]
    program: list[str] = arguments.program
    if lab.program:
        program = lab.program.words(disk=lab.suite.userland is not None)
    job = "\n".join([*settings, f"program {process.shown(program)}" if program else "shell"]) + "\n"
    if arguments.dry_run:
        what = process.shown(program) if program else "a shell"
        lines = [f"would boot {spec.name} on {machine}, and run {what}"]
        return print_result(
            lines, {"image": spec.image, "machine": asdict(machine), "job": job}, as_json=arguments.json
        )
    if image:
        booted = lab.guest_of(image, machine, arguments.append, None)
    else:
        booted = lab.guest(spec.image, machine, append=f"{arguments.append} {spec.append}".strip(), count=False)
    with logs("boot") as place:
        if program:
            booted.arguments = booted.arguments.replace("loglevel=4", "loglevel=1")
            outcome = launch_retrying(
                booted, job, place, job_seconds=lambda number: arguments.timeout, tell=lambda text: None, say=say
            )
            output = output_of_program((place / "console.log").read_text(errors="replace"))
            if arguments.json:
                print(json.dumps({"status": outcome.done, "output": output}, indent=1))
            else:
                sys.stdout.write(output)
        else:
            outcome = launch(booted, job, place, job_seconds=lambda number: 0.0, interactive=True)
    shutil.rmtree(place)
    return outcome.done or 0


BEGIN, END = "--- lull: program", "--- lull: end"


def output_of_program(console: str) -> str:
    """What the program wrote: the console between the marks that init prints around it."""
    text = console.replace("\r\n", "\n")
    _, begin, rest = text.partition(f"{BEGIN}\n")
    return rest.partition(END)[0] if begin else text
