# SPDX-License-Identifier: GPL-2.0-only
"""What the plugin costs: CPU time of QEMU with it over CPU time without, in both modes. Run it alone.

    PYTHONPATH=src python checker/tests/cost.py [ROUNDS [BASE [SUITE [WORKLOAD ...]]]]

Each round boots stock with the default workloads, or those named: without plugin, counting, and checking, in turning
order. A ratio is of one round; medians and ranges are printed. CPU time, because boots wait for timers at times, which
costs nothing.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from lull import plan
from lull.check import kernels as check_kernels
from lull.check import trials as check_trials
from lull.guest.qemu import Machine
from lull.guest.runner import Guest, Plugin, launch
from lull.lab import Lab
from lull.progress import progress


def cpu_seconds(guest: Guest, job: str) -> float:
    """User and system time of one boot."""
    before = os.times()
    with tempfile.TemporaryDirectory() as folder:
        launch(guest, job, Path(folder), job_seconds=lambda number: 900.0)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure, and print a line per mode."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    progress.quiet = True
    lab = Lab(*sys.argv[2:3], suite_name="".join(sys.argv[3:4]))
    machine = Machine()
    kernel = check_kernels.of_base(lab, "stock")
    workloads = plan.select_workloads(sys.argv[4:], lab.workloads)
    boot = plan.make_plan(workloads, [plan.Spec("stock", "stock")], lab.base, 1)[0]
    job = lab.job_script(boot)
    bare = lab.guest_of(kernel.image, machine, check_trials.APPEND, None)
    guests = {
        "none": bare,
        "count": replace(bare, plugin=Plugin(lab.plugin)),
        "check": replace(bare, plugin=Plugin(lab.plugin, "check", (f"symbols={kernel.place}",))),
    }
    ratios: dict[str, list[float]] = {"count": [], "check": []}
    for number in range(rounds):
        seconds = {name: cpu_seconds(guests[name], job) for name in plan.rotate(list(guests), number)}
        for name, found in ratios.items():
            found.append(seconds[name] / seconds["none"])
        print(f"round {number + 1}: " + "  ".join(f"{n} {s:.2f} s" for n, s in seconds.items()), flush=True)
    for name, found in ratios.items():
        print(f"{name}: {statistics.median(found):.2f}x (from {min(found):.2f} to {max(found):.2f}, {rounds} rounds)")


if __name__ == "__main__":
    main()
