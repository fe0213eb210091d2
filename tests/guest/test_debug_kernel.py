# SPDX-License-Identifier: GPL-2.0-only
"""Lull under what Linux has to catch itself: the debug kernel says nothing, nor does KCSAN of residency."""

from __future__ import annotations

from pathlib import Path

import pytest
from residency_races import of_residency
from support import SUMMARY, Tool, lab_under_test, passes

from lull.guest import console
from lull.guest.qemu import Machine
from lull.guest.runner import BootOutcome, launch_retrying

PROGRAMS = (
    "mm_storm rounds=1",
    "rare_storm rounds=1",
    "fork_exec loops=10",
    "mprotect_threaded loops=200",
    "sleeper pages=512",
    "swap_bench rounds=1",
    "pingpong windows=8",
    "teardown mib=4",
    "teardown mib=2 how=truncate",
    "teardown mib=2 how=fork windows=2",
    "sparse windows=1",
    "swap_bench procs=2 rounds=1",
    "residency_storm seconds=8 hotplug=1",
    "residency_storm seconds=5 sweep=1",
)
"""What runs on each kernel, in this order: little, as these kernels are slow."""
STRESSORS = ("storm_unmap", "storm_wander", "storm_hotplug", "storm_policies", "storm_reclaim_crowd", "hvo_one")
"""What runs on each machine."""
MACHINES = (
    "cortex-a72+kpti",
    "cortex-a72+nokpti+asid8",
    "cortex-a76+nokpti",
    "cortex-a76+kpti+asid8",
    "neoverse-n1+kpti",
    "neoverse-n1+nokpti+asid8",
    "max+nokpti",
    "max+kpti+asid8",
)
"""Each CPU with both settings of KPTI and both widths of ASIDs, in half the boots of all combinations."""
PROVED = {number: 0 for number in range(1, len(PROGRAMS) + 1)}
"""What each must end with: it ran, and what it did was verified."""


@pytest.mark.whole
class TestKernels:
    """The kernels themselves."""

    def run(self, kernel: str, machine: Machine, append: str, folder: Path) -> tuple[BootOutcome, list[console.Report]]:
        """Boot, and run the programs: how they ended, and what the kernel reported."""
        guest = lab_under_test().guest(kernel, machine, append=append, count=False)
        guest.arguments = guest.arguments.replace("quiet loglevel=4", "loglevel=7")
        jobs = [f"run {number} {program}" for number, program in enumerate(PROGRAMS, 1)]
        script = "\n".join(jobs) + "\n"
        outcome = launch_retrying(guest, script, folder, job_seconds=lambda n: 120, tell=print, say=print)
        return outcome, console.reports((folder / "console.log").read_text(errors="replace"))

    @pytest.mark.bases
    @pytest.mark.parametrize(
        ("cpu", "append"),
        [
            (Machine.cpu, ""),
            ("cortex-a72", "kpti=1"),
        ],
        ids=["new-cpu", "old-cpu"],
    )
    def test_debug_kernel_reports_nothing(self, cpu: str, append: str, tmp_path: Path) -> None:
        """No warning, no lock out of order, nothing used after it was freed, no stall.

        On an old CPU, PAN is the kernel's own (TTBR0 comes and goes with each entry); with KPTI an ASID is a pair.
        """
        outcome, reports = self.run("debug", Machine(cpu=cpu), f"page_poison=1 {append}", tmp_path / "boot")
        assert not reports, "\n\n".join(r.text for r in reports)
        assert outcome.status == PROVED

    @pytest.mark.bases
    @pytest.mark.parametrize("cpu", MACHINES)
    def test_debug_kernel_on_machines(self, real: Tool, cpu: str) -> None:
        """Storms, and CPUs that go and come; with the kernel's own PAN, KPTI, few ASIDs."""
        storms = [word for storm in STRESSORS for word in ("--workload", storm)]
        passes(real, "--kernel", "debug", *storms, "--cpu", cpu, "--checker", "off", "--append", "page_poison=1")

    def test_debug_kernel_runs_real_programs(self, real: Tool) -> None:
        """Those of the suite, which verify themselves."""
        passes(real, "--suite", "real", "--kernel", "debug", "--checker", "off", "--append", "page_poison=1")

    def test_real_time(self, real: Tool) -> None:
        """PREEMPT_RT: nobody sleeps or takes a lock where that is not allowed, and the check passes."""
        programs = ("residency_storm", "mm_storm", "fork_exec", "swap_bench", "hvo", "mprotect_threaded", "file_storm")
        words = [word for program in programs for word in ("--workload", program)]
        passes(real, "--kernel", "rt", *words, "--append", "tlb_residency=1")

    @pytest.mark.bases
    def test_no_data_race_in_residency(self, tmp_path: Path) -> None:
        """Linux has races of its own, which are counted. Nothing else is reported."""
        outcome, reports = self.run("kcsan", Machine(), "", tmp_path / "boot")
        ours = [r for r in reports if "KCSAN: " not in r.title or of_residency(r)]
        SUMMARY.append(f"KCSAN: {len(reports)} races, {len(ours)} of them residency's")
        assert not ours, "\n\n".join(r.text for r in ours)
        assert outcome.status == PROVED
