# SPDX-License-Identifier: GPL-2.0-only
"""The mutants of the lab kernel: kernel, tool and document have the same ones, each with its workload."""

from __future__ import annotations

import re

from support import REPOSITORY

from lull import base as bases
from lull import plan
from lull.check import data as check_data

BASE = bases.load_base()
MUTANTS = check_data.load_mutants(BASE.mutants)


def test_mutants_are_the_same_everywhere() -> None:
    """In the kernel, and in the file for the tool, which says why each is a bug; README and tutorial count them."""
    patches = "".join(patch.diff() for patch in bases.patches_of([BASE.features["lab"]]))
    names = re.findall(r'(?m)^\+\t\[LULL_\w+\]\s*= "([a-z-]+)"', patches)
    assert names[0] == "none"
    assert sorted(MUTANTS) == sorted(names[1:])
    assert len(MUTANTS) >= 15
    explained = re.findall(r"(?m)^\[([a-z-]+)\]\n(?:# .*\n)*# .*\bWhy: \S(?:.*\n# )*", BASE.mutants.read_text())
    assert sorted(explained) == sorted(MUTANTS)
    assert f"The lab has {len(MUTANTS)} such mutants" in (REPOSITORY / "README.md").read_text()
    assert f"has {len(MUTANTS)} *mutants*" in (REPOSITORY / "docs/tutorial.md").read_text()


NOT_EXPRESSED = {
    "kpti-temp-ttl": "assembly that runs before a mutant is switched on",
    "munmap-unmaps-before-flush": "in Linux before 6.2, of which there is no lab kernel",
}
"""Known issues without a mutant, and why."""


def test_each_known_issue_has_a_worse_mutant() -> None:
    """So that a known issue hides nothing worse at its place."""
    beside = {name for mutant in MUTANTS.values() for name in mutant.beside}
    assert beside | NOT_EXPRESSED.keys() == {issue.name for issue in check_data.load_known_issues()}


def test_bases_of_mutants_are_there() -> None:
    """A mutant that only some bases have names their series, of which each has the kernel lab."""
    labs = {base.series for base in map(bases.load_base, bases.known()) if plan.LAB in base.kernels}
    for mutant in MUTANTS.values():
        assert set(mutant.bases) <= labs, mutant.name


def test_each_mutant_has_its_workload() -> None:
    """What shows it is there, and runs only when it is asked for."""
    workloads = plan.load_workloads(BASE.workloads)
    for mutant in MUTANTS.values():
        assert mutant.workload in workloads, mutant.name
        assert not workloads[mutant.workload].default, mutant.name
