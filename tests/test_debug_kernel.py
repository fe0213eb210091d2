# SPDX-License-Identifier: GPL-2.0-only
"""Lull under what Linux has to catch itself: the debug kernel says nothing. LULL_KCSAN=all: nor KCSAN of residency."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support import REAL_CACHE, SUMMARY, lab_under_test

from lull import base as bases
from lull import console
from lull.qemu import Machine
from lull.runner import Outcome, launch_retrying

PROGRAMS = (
    "mm_storm rounds=1",
    "fork_exec loops=10",
    "mprotect_threaded loops=200",
    "sleeper pages=512",
    "swap_bench rounds=1",
    "pingpong loops=200",
    "teardown mib=4",
)
"""What runs on each kernel, in this order: little, as these kernels are slow."""
SECONDS = 300.0
"""For each of them, on a busy machine."""
PROVED = {number: 0 for number in range(1, len(PROGRAMS) + 1)}
"""What each must end with: it ran, and what it did was verified."""
HOOKED = {
    "check_and_switch_context",
    "cpu_do_switch_mm",
    "arm64_mm_context_get",
    "__switch_to",
    "__switch_mm",
    "switch_mm",
    "enter_lazy_tlb",
    "idle_task_exit",
}
"""Linux's functions that residency has a say in, and those they are inlined in."""


def own_functions() -> set[str]:
    """The functions that residency defines."""
    folder = bases.load().features["residency"].folder / "files"
    text = "\n".join(path.read_text() for path in folder.rglob("*.[ch]"))
    return set(re.findall(r"(?m)^[a-z][\w *]*?(\w+)\([^;]*?\)\n\{", text))


def racing(report: console.Report) -> set[str]:
    """The functions of a KCSAN report: ``data-race in f / g.isra.0`` gives f and g."""
    _, race, places = report.title.partition("race in ")
    return {name.partition(".")[0] for name in places.split(" / ")} if race else set()


def test_what_is_residency() -> None:
    """Its functions are found in its files, and in KCSAN's reports."""
    own = own_functions()
    assert own >= {"lull_load", "decide", "leave", "__lull_left", "lull_is_loaded", "res_flush"}
    assert not own & {"if", "while", "switch"}
    title = "BUG: KCSAN: data-race in lull_load.isra.0 / __schedule"
    assert racing(console.Report(title, title)) == {"lull_load", "__schedule"}
    assert racing(console.Report("BUG: KCSAN: assert: race in leave", "")) == {"leave"}
    assert not racing(console.Report("WARNING: CPU: 0 PID: 1 at leave", ""))


@pytest.mark.guest
class TestKernels:
    """The kernels themselves."""

    @pytest.fixture(autouse=True)
    def real_cache(self, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
        """Kernels are built into, and taken from, the user's cache."""
        monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))

    def run(
        self, kernel: str, policy: str, machine: Machine, append: str, folder: Path
    ) -> tuple[Outcome, list[console.Report]]:
        """Boot, and run the programs under a policy of residency: how they ended, and what the kernel reported."""
        guest = lab_under_test().guest(kernel, machine, append=append, count=False)
        guest.arguments = guest.arguments.replace("quiet loglevel=4", "loglevel=7")
        jobs = [f"run {number} {program}" for number, program in enumerate(PROGRAMS, 1)]
        script = "\n".join([f"setting residency {policy}", *jobs]) + "\n"
        outcome = launch_retrying(guest, script, folder, job_seconds=lambda n: SECONDS, tell=print, say=print)
        return outcome, console.reports((folder / "console.log").read_text(errors="replace"))

    @pytest.mark.parametrize(
        ("policy", "cpu", "append"),
        [("counted", Machine.cpu, ""), ("rename", "cortex-a72", "kpti=1")],
        ids=["counted", "rename-old-cpu"],
    )
    def test_debug_kernel_reports_nothing(self, policy: str, cpu: str, append: str, tmp_path: Path) -> None:
        """No warning, no lock out of order, nothing used after it was freed, no stall.

        On an old CPU, PAN is the kernel's own (TTBR0 comes and goes with each entry); with KPTI an ASID is a pair.
        """
        outcome, reports = self.run("debug", policy, Machine(cpu=cpu), f"page_poison=1 {append}", tmp_path / "boot")
        assert not reports, "\n\n".join(r.text for r in reports)
        assert outcome.status == PROVED

    @pytest.mark.skipif(os.environ.get("LULL_KCSAN") != "all", reason="not asked for: LULL_KCSAN=all")
    @pytest.mark.parametrize("policy", ["counted", "rename"])
    def test_no_data_race_in_residency(self, policy: str, tmp_path: Path) -> None:
        """Linux has races of its own, which are counted."""
        outcome, reports = self.run("kcsan", policy, Machine(), "", tmp_path / "boot")
        ours = [r for r in reports if not racing(r) or racing(r) & (own_functions() | HOOKED)]
        SUMMARY.append(f"KCSAN, residency {policy}: {len(reports)} reports, {len(ours)} of residency or no data race")
        assert not ours, "\n\n".join(r.text for r in ours)
        assert outcome.status == PROVED
