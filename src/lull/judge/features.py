# SPDX-License-Identifier: GPL-2.0-only
"""Find the thresholds of features: those of the feature ``kernel/NAME`` are in the module ``lull.judge.NAME``.

A suite of programs (``--suite NAME``) may have a module of this kind, too. One without thresholds has none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from lull import base
from lull.judge.tables import Grid
from lull.judge.thresholds import RunSlice
from lull.run.records import Check, Results


class Judge(Protocol):
    """What these modules may have. Whether the run measured what it is about, each says by ``concerns``.

    ``judge`` has a Check for each threshold, of the records with one number of vCPUs; ``judge_checked`` for those only
    `lull check` can judge. ``check`` checks any run. ``published`` has the tables of the published system ``SYSTEM``.
    """

    SYSTEM: str
    concerns: Callable[[Results], bool]
    judge: Callable[[RunSlice], list[Check]]
    judge_checked: Callable[[RunSlice], list[Check]]
    check: Callable[[Results], list[Check]]
    published: Callable[[Results], Sequence[Grid]]


@cache
def modules() -> Mapping[str, Judge]:
    """Feature or suite -> its module in this folder, in the order of kernel/bases/*.toml: features first."""
    bases = [base.load_base(name) for name in base.known()]
    names = [name for one in bases for name in one.features] + [name for one in bases for name in one.suites]
    here = Path(__file__).parent
    found = [n for n in dict.fromkeys(names) if (here / f"{n}.py").exists()]
    return {name: cast(Judge, importlib.import_module(f"lull.judge.{name}")) for name in found}


def having(what: str, results: Results | None = None) -> Mapping[str, Judge]:
    """Those modules that have ``what``, and that concern the run."""
    found = {name: module for name, module in modules().items() if hasattr(module, what)}
    return {name: module for name, module in found.items() if results is None or module.concerns(results)}


def published(results: Results | None = None) -> list[Judge]:
    """The modules with tables of published systems, by the letters of these."""
    return sorted(having("published", results).values(), key=lambda module: module.SYSTEM)


def of_system(letter: str) -> set[str]:
    """The features that belong to a published system: their modules name its letter."""
    return {name for name, module in having("SYSTEM").items() if letter == module.SYSTEM}
