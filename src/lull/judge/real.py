# SPDX-License-Identifier: GPL-2.0-only
"""Judge the thresholds of real programs (`--suite real`): fewer broadcasts than stock, and no more instructions.

* **broadcasts**: the median of ``tlbi_broadcast_user`` over the repeats. These programs are not pinned: the scheduler
  decides on how many CPUs an address space is loaded when it is flushed, and that differs between boots.
* **instructions**: ``insns_work`` of every program and case: the instructions of all CPUs without the loops in which
  they wait for a lock. A host with fewer CPUs than the guest may stop the holder of a lock at any time; the workers of
  stress-ng then spend up to nine tenths of their instructions waiting. What is left is the program's work and timer
  ticks, whose number depends on the host's clock. The two samples of stock show the spread of this.
"""

from __future__ import annotations

from statistics import median

from lull.judge import thresholds
from lull.judge.thresholds import BROADCASTS, STOCK, TOGETHER, RunSlice, lacking, verdict
from lull.run.records import Check, Results

PROGRAMS = ("compile", "redis", "python", "stress_ng", "stress_ng_mmapfork", "tcmalloc")
SHARES = {"compile": 0.02, "redis": 0.25}
"""Program -> the largest allowed share of stock's broadcasts."""
WORK = "insns_work"


def concerns(results: Results) -> bool:
    """Return true if the run measured any of the programs on a kernel with all features."""
    measured = (r for r in results.records if r.kernel in TOGETHER)
    return any(thresholds.is_of(r.workload, program) for r in measured for program in PROGRAMS)


def judge(run: RunSlice) -> list[Check]:
    """A Check for each threshold; ``skipped`` when something that it needs was not measured."""
    shares = [_share(run, program, limit) for program, limit in SHARES.items()]
    return [*shares, thresholds.not_more(run, "instructions of programs", TOGETHER, [WORK])]


def _share(run: RunSlice, program: str, limit: float) -> Check:
    name = f"broadcasts of {program}"
    stock, ours = run.find([STOCK], program, [BROADCASTS]), run.find(TOGETHER, program, [BROADCASTS])
    if stock is None or ours is None:
        return lacking(name, {STOCK: stock, TOGETHER[0]: ours}, program)
    all_, left = median(stock.values), median(ours.values)
    if not all_:
        return Check(name, "skipped", "stock has none")
    detail = f"{left:g}, stock {all_:g}: {100 * left / all_:.3g} %, at most {100 * limit:g} % are allowed"
    return Check(name, verdict(left <= limit * all_), detail)
