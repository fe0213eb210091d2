# SPDX-License-Identifier: GPL-2.0-only
"""lull completion: a script that completes the tool's command lines in a shell; shtab writes it from the parser."""

from __future__ import annotations

import argparse

from lull import base as bases
from lull import cli, options, plan, selftests, timing
from lull.base import Base
from lull.check.data import load_known_issues, load_machines, load_mutants
from lull.lab import Lab

SHELLS = ("bash", "zsh", "fish")
PATHS = {"DIR": "DIRECTORY", "PATH": "DIRECTORY", "FILE": "FILE", "IMAGE": "FILE", "RESULTS": "FILE"}
"""What an option's value is called when it is a path, and how shtab completes that."""
WITHOUT = options.SHARED - {"--base"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull completion``."""
    parser.add_argument("shell", metavar="|".join(SHELLS), choices=SHELLS, help="the shell that runs the script")
    parser.epilog = (
        "bash: lull completion bash >~/.local/share/bash-completion/completions/lull\n"
        "zsh:  lull completion zsh >_lull, in a folder of $fpath\n"
        "fish: lull completion fish >~/.config/fish/completions/lull.fish\n"
        "The script contains the names of kernels, workloads and machines of today: make it again when they change."
    )


def kernel_names(base: Base) -> list[str]:
    """Names of kernels, and those of the last of the default ones under each of its settings."""
    features = [f for f in base.features.values() if f.policies]
    tuned = base.default_kernels[-1]
    settings = [f"{tuned}+{f.name}={policy}" for f in features for policy in f.policies]
    off = [f"{tuned}-{f.name}" for f in features]
    return [*base.kernels, *settings, *off, *(f"{tuned}{plan.ONLY}={f.name}" for f in features)]


def words(base: Base) -> dict[str, list[str]]:
    """The words that an option or argument takes, by its name and what its value is called."""
    files = [base.workloads, *(suite.workloads for suite in base.suites.values())]
    return {
        "base NAME": bases.known(),
        "base BASE": bases.known(),
        "suite NAME": list(base.suites),
        "kernel K": kernel_names(base),
        "kernel NAME": list(base.kernels),
        "workload W": [name for file in files for name in plan.load_workloads(file)],
        "cpu C": list(load_machines()),
        "cpu MODEL": list(dict.fromkeys(machine.cpu for machine in load_machines().values())),
        "mutant M": list(load_mutants(base.mutants, base)),
        "fixed NAME": [issue.name for issue in load_known_issues()],
        "tests T": list(selftests.load_suites()),
        "timing NAME": timing.known(),
        "guest NAME": timing.known(),
        "name NAME": timing.known(),
    }


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    parser = cli.build_parser(cli.COMMANDS)
    known = words(lab.base)
    for sub in cli.commands_of(parser).values():
        for action in sub._actions:
            called = action.metavar[0] if isinstance(action.metavar, tuple) else str(action.metavar)
            if called in PATHS:
                action.complete = getattr(shtab, PATHS[called])  # type: ignore[attr-defined]
            action.choices = action.choices or known.get(f"{action.dest} {action.metavar}")
    print(shtab.complete(parser, arguments.shell))
    return 0
