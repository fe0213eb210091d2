# SPDX-License-Identifier: GPL-2.0-only
"""Lull under what Linux has to catch itself: the debug kernel says nothing, nor does KCSAN of residency."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import REAL_CACHE, SUMMARY, Tool, lab_under_test, silent

from lull import base as bases
from lull.guest import console
from lull.guest.qemu import Machine
from lull.guest.runner import BootOutcome, launch_retrying

PROGRAMS = (
    "mm_storm rounds=1",
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
STORMS = ("storm_unmap", "storm_wander", "storm_hotplug", "storm_policies", "storm_reclaim_crowd", "hvo_one")
"""What runs on each machine, under two policies."""
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


def of_residency(report: console.Report) -> bool:
    """Is it KCSAN's, of a race in a hook, or in what residency does or calls? ``data-race in f.isra.0 / g+0x4/0x8``."""
    _, race, places = report.title.partition("race in ")
    racing = {place.group() for name in places.split(" / ") if (place := re.match(r"\w+", name))}
    # What an interrupt came in between has no part in it.
    stacks = (re.split(r"(?m)^ (?:call_on_irq_stack|el1_interrupt)\+", stack)[0] for stack in report.text.split("\n\n"))
    callers = {name for stack in stacks for name in re.findall(r"(?m)^ (\w+)\S*\+0x", stack)}
    # One CPU, preempted half way, meets itself: __switch_to() reads the flags of a task that was changing them.
    # What residency has of a CPU is its own functions' affair.
    hooked = racing & HOOKED and len(set(re.findall(r"by (?:task \d+|interrupt) on cpu (\d+)", report.text))) != 1
    return bool(race and (hooked or (racing | callers) & own_functions()))


def test_what_is_of_residency() -> None:
    """Its functions are found in its files, and in KCSAN's reports."""
    own = own_functions()
    assert own >= {"__lull_load", "__lull_decide", "leave", "__lull_left", "lull_is_parked", "res_flush"}
    assert not own & {"if", "while", "switch"}
    race = "BUG: KCSAN: data-race in "
    for title in ("__lull_load.isra.0 / schedule", "schedule / leave", "leave+0x4/0x8", "do_idle / __switch_to"):
        assert of_residency(console.Report(race + title, race + title)), title
    inside = "read to 0xffff of 8 bytes by task 1 on cpu 0:\n {}+0x48/0xf4\n {}+0x4/0x8\n ret_to_user+0x4/0x8"
    assert of_residency(console.Report(race + "_find_next_bit", inside.format("_find_next_bit", "__lull_decide")))
    assert not of_residency(console.Report(race + "_find_next_bit", inside.format("_find_next_bit", "do_idle")))
    interrupt = inside.format("_find_next_bit", "call_on_irq_stack+0x30/0x64\n el1_interrupt+0x4/0x8\n __lull_decide")
    assert not of_residency(console.Report(race + "_find_next_bit", f"{interrupt}\n\n{inside.format('f', 'g')}"))
    twice = "read to 0xffff by task 1 on cpu 0:\n {}+0x4/0x8\n\nwrite to 0xffff by task 2 on cpu {}:\n f+0x4/0x8"
    for reader, cpu, ours in (("__switch_to", 0, False), ("__switch_to", 1, True), ("__lull_decide", 0, True)):
        assert of_residency(console.Report(f"{race}{reader} / f", twice.format(reader, cpu))) == ours, (reader, cpu)
    assert not of_residency(console.Report("WARNING: CPU: 0 PID: 1 at leave", ""))


@pytest.mark.guest
@pytest.mark.whole
class TestKernels:
    """The kernels themselves."""

    @pytest.fixture(autouse=True)
    def real_cache(self, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
        """Kernels are built into, and taken from, the user's cache."""
        monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))

    def run(
        self, kernel: str, policy: str, machine: Machine, append: str, folder: Path
    ) -> tuple[BootOutcome, list[console.Report]]:
        """Boot, and run the programs under a policy of residency: how they ended, and what the kernel reported."""
        guest = lab_under_test().guest(kernel, machine, append=append, count=False)
        guest.arguments = guest.arguments.replace("quiet loglevel=4", "loglevel=7")
        jobs = [f"run {number} {program}" for number, program in enumerate(PROGRAMS, 1)]
        script = "\n".join([f"setting residency {policy}", *jobs]) + "\n"
        outcome = launch_retrying(guest, script, folder, job_seconds=lambda n: 120, tell=print, say=print)
        return outcome, console.reports((folder / "console.log").read_text(errors="replace"))

    @pytest.mark.parametrize(
        ("policy", "cpu", "append"),
        [
            ("counted", Machine.cpu, ""),
            ("rename", "cortex-a72", "kpti=1 lull.residency_ntlbpa=1"),
        ],
        ids=["counted", "rename-old-cpu"],
    )
    def test_debug_kernel_reports_nothing(self, policy: str, cpu: str, append: str, tmp_path: Path) -> None:
        """No warning, no lock out of order, nothing used after it was freed, no stall.

        On an old CPU, PAN is the kernel's own (TTBR0 comes and goes with each entry); with KPTI an ASID is a pair.
        """
        outcome, reports = self.run("debug", policy, Machine(cpu=cpu), f"page_poison=1 {append}", tmp_path / "boot")
        assert not reports, "\n\n".join(r.text for r in reports)
        assert outcome.status == PROVED

    @pytest.mark.parametrize("cpu", MACHINES)
    def test_debug_kernel_on_machines(self, real: Tool, cpu: str) -> None:
        """Storms, and CPUs that go and come; with the kernel's own PAN, KPTI, few ASIDs."""
        kernels = [word for policy in ("counted", "rename") for word in ("--kernel", f"debug+residency={policy}")]
        storms = [word for storm in STORMS for word in ("--workload", storm)]
        silent(real, *kernels, *storms, "--cpu", cpu, "--checker", "off", "--append", "page_poison=1")

    def test_debug_kernel_runs_real_programs(self, real: Tool) -> None:
        """Those of the suite, which verify themselves."""
        silent(real, "--suite", "real", "--kernel", "debug", "--checker", "off", "--append", "page_poison=1")

    @pytest.mark.parametrize("policy", ["counted", "rename"])
    def test_no_data_race_in_residency(self, policy: str, tmp_path: Path) -> None:
        """Linux has races of its own, which are counted. Nothing else is reported."""
        outcome, reports = self.run("kcsan", policy, Machine(), "", tmp_path / "boot")
        ours = [r for r in reports if "KCSAN: " not in r.title or of_residency(r)]
        SUMMARY.append(f"KCSAN, residency {policy}: {len(reports)} races, {len(ours)} of them residency's")
        assert not ours, "\n\n".join(r.text for r in ours)
        assert outcome.status == PROVED
