# SPDX-License-Identifier: GPL-2.0-only
"""Completion of command lines: the parser, with the words that exist, given to shtab, which writes the scripts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import shtab

from lull import base as bases
from lull import options, plan, selftests, timing
from lull.base import Base
from lull.check.data import load_machines, load_mutants
from lull.options import Kind

SHELLS = ("bash", "zsh", "fish")
Words = Callable[[Base], Iterable[str]]


def kernels(base: Base) -> list[str]:
    """Names of kernels, and those of the last of the default ones under each of its settings."""
    features = [f for f in base.features.values() if f.policies]
    tuned = base.default_kernels[-1]
    settings = [f"{tuned}+{f.name}={policy}" for f in features for policy in f.policies]
    return [
        *base.kernels,
        *settings,
        *(f"{tuned}-{f.name}" for f in features),
        *(f"{tuned}{plan.ONLY}={f.name}" for f in features),
    ]


def workloads(base: Base) -> list[str]:
    """Workloads of the base and of its suites."""
    files = [base.workloads, *(suite.workloads for suite in base.suites.values())]
    return [name for file in files for name in plan.load_workloads(file)]


def models(base: Base) -> list[str]:
    """Values of QEMU's -cpu that the checker's machines have."""
    return list(dict.fromkeys(machine.cpu for machine in load_machines().values()))


WORDS: dict[str, Words] = {
    "base": lambda base: bases.known(),
    "suite": lambda base: base.suites,
    "kernel": kernels,
    "workload": workloads,
    "cpu": lambda base: load_machines(),
    "mutant": lambda base: load_mutants(base.mutants),
    "tests": lambda base: selftests.load(),
    "timing": lambda base: timing.known(),
    "guest": lambda base: timing.known(),
    "build kernel": lambda base: base.kernels,
    "soak kernel": lambda base: base.kernels,
    "run cpu": models,
    "sweep cpu": models,
    "sweep vcpus": lambda base: ["1,4,16"],
    "boot cpu": models,
    "timing name": lambda base: timing.known(),
    "timing vcpus": lambda base: ["1,2,4,8,16,32"],
    "calibrate cpu": models,
}
"""What an option takes, by its name, or, where commands differ, by the command's and its own."""
FREE = ("append", "listen", "join", "program", "pytest")
"""What takes any words: nothing is offered."""
FOLDERS = ("DIR", "PATH")
"""Path options that are shown so take a folder, others a file."""


def script(
    parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser], shell: str, base: Base
) -> str:
    """The completion script for one of SHELLS.

    Args:
        parser: the whole parser; of no other use afterwards.
        commands: its commands, by name.
        base: the words are of this one.
    """
    for command, sub in commands.items():
        for action in values_of(sub):
            offer(command, action, base)
    return shtab.complete(parser, shell)


def values_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments and options of a command that take a value which is no number and no choice of a few."""
    actions = (a for a in parser._actions if a.nargs != 0 and not a.choices)
    return [a for a in actions if takes_words(a) or takes_path(a)]


def takes_words(action: argparse.Action) -> bool:
    """Is its value a word as it stands?"""
    return action.type is None or (isinstance(action.type, Kind) and action.type.read is str)


def takes_path(action: argparse.Action) -> bool:
    """Is its value a path?"""
    return action.type is Path or (isinstance(action.type, Kind) and action.type.read is options.path)


def offer(command: str, action: argparse.Action, base: Base) -> None:
    """Let ``action`` complete to what it takes."""
    if takes_path(action):
        place = shtab.DIRECTORY if action.metavar in FOLDERS else shtab.FILE
        action.complete = place  # type: ignore[attr-defined]
    elif action.dest not in FREE:
        words = WORDS.get(f"{command} {action.dest}") or WORDS[action.dest]
        action.choices = list(words(base))
