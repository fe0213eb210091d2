# SPDX-License-Identifier: GPL-2.0-only
"""Find the goals of features: those of the feature ``kernel/NAME`` are in the module ``lull.judge.NAME``.

A suite of programs (``--suite NAME``) may have a module of this kind, too. A feature or suite without goals has none.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from lull import base
from lull.judge.goals import RunSlice
from lull.judge.tables import Grid
from lull.run.records import Check, Results


class Goals(Protocol):
    """What a module with goals has."""

    def concerns(self, results: Results) -> bool:
        """Return true if the run measured a workload of these goals, on a kernel that the goals are for."""

    def judge(self, run: RunSlice) -> list[Check]:
        """A Check for each goal, of the records with one number of vCPUs."""


class Published(Protocol):
    """A module that shows a published system's numbers beside the run's."""

    SYSTEM: str
    """The letter of the published system."""

    def concerns(self, results: Results) -> bool:
        """Return true if the run measured what the published system was measured with."""

    def published(self, results: Results) -> Sequence[Grid]:
        """The tables of published numbers and the run's."""


@cache
def modules() -> Mapping[str, ModuleType]:
    """Feature or suite -> its module in this folder, in the order of kernel/bases/*.toml: features first."""
    bases = [base.load_base(name) for name in base.known()]
    names = [name for one in bases for name in one.features] + [name for one in bases for name in one.suites]
    here = Path(__file__).parent
    found = [n for n in dict.fromkeys(names) if (here / f"{n}.py").exists()]
    return {name: importlib.import_module(f"lull.judge.{name}") for name in found}


def goals() -> Mapping[str, Goals]:
    """Those modules that have goals."""
    return {name: cast(Goals, module) for name, module in modules().items() if hasattr(module, "judge")}


def published() -> list[Published]:
    """The modules with tables of published systems, by the letters of these."""
    found = [cast(Published, module) for module in modules().values() if hasattr(module, "published")]
    return sorted(found, key=lambda module: module.SYSTEM)


def of_system(letter: str) -> set[str]:
    """The features that belong to a published system: their modules name its letter."""
    return {name for name, module in modules().items() if getattr(module, "SYSTEM", "") == letter}
