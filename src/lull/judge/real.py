# SPDX-License-Identifier: GPL-2.0-only
"""Whether real programs (--suite real) reach their goals: fewer broadcasts than stock, and no more instructions.

* **broadcasts**: ``tlbi_broadcast_user`` in the window: the median of the repeats. Programs here are not pinned: how
  many CPUs have an address space loaded when it is flushed is the scheduler's affair, and differs from boot to boot.
* **instructions**: ``insns_work``, those of all CPUs but for the loops in which they wait for a lock, of every program
  and case. Where the host has fewer CPUs it stops the holder of a lock at any time: of what stress-ng's workers execute
  then, nine tenths can be waiting. Beside the program's own work ticks are left, and come by the host's clock, too;
  stock's two series show how much that spreads.
"""

from __future__ import annotations

from statistics import median

from lull.judge import goals
from lull.judge.goals import BROADCASTS, STOCK, TOGETHER, Run, lacking, verdict
from lull.run.records import Check, Results

PROGRAMS = ("compile", "redis", "python", "stress_ng", "stress_ng_mmapfork", "tcmalloc")
SHARES = {"compile": 0.02, "redis": 0.25}
"""Of stock's broadcasts, at most."""
WORK = "insns_work"
MANY = "residency_many"
"""Address spaces that became more than residency counts: flushes of these tell all CPUs without looking."""


def concerns(results: Results) -> bool:
    """Whether the run measured any of the programs on a kernel with all features."""
    measured = (r for r in results.records if r.kernel in TOGETHER)
    return any(goals.is_of(r.workload, program) for r in measured for program in PROGRAMS)


def check(results: Results) -> list[Check]:
    """A Check per goal and vCPU number. ``skipped``: what it needs was not measured."""
    return goals.check("real", results, _judge)


def _judge(run: Run) -> list[Check]:
    shares = [_share(run, program, limit) for program, limit in SHARES.items()]
    return [*shares, goals.not_more(run, "instructions of programs", TOGETHER, [WORK])]


def _share(run: Run, program: str, limit: float) -> Check:
    name = f"broadcasts of {program}"
    stock, ours = run.find([STOCK], program, [BROADCASTS]), run.find(TOGETHER, program, [BROADCASTS])
    if stock is None or ours is None:
        return lacking(name, {STOCK: stock, TOGETHER[0]: ours}, program)
    all_, left = median(stock.values), median(ours.values)
    if not all_:
        return Check(name, "skipped", "stock has none")
    detail = f"{left:g}, stock {all_:g}: {100 * left / all_:.3g} %, at most {100 * limit:g} % are allowed"
    return Check(name, verdict(left <= limit * all_), detail + (_due(run, program) if left else ""))


def _due(run: Run, program: str) -> str:
    """Whether what is left was due: where CPUs are counted, a flush tells others if one has its address space."""
    many = run.find(TOGETHER, program, [MANY])
    if many is None or max(many.values):
        return ""
    return "; each of these found its address space loaded on another CPU"
