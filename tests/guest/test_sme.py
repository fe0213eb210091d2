# SPDX-License-Identifier: GPL-2.0-only
"""The workaround for erratum 4193714: after a TLBI, an IPI to each CPU that executes user code with SME."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import Tool, passes

from lull.check import kernels as check_kernels
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab

CONFIG = "CONFIG_ARM64_ERRATUM_4193714=y"
DETECTED = "CPU features: detected: C1-Pro SME DVMSync early acknowledgement"
PROTECTED = ("running", "everywhere", "plain", "asleep", "here", "another")
"""Cases in which each operation is an mprotect(), which flushes once."""
ALONE = {"asleep", "here", "another"}
"""Those in which no other CPU has the address space loaded."""

LOOKS = 16
"""RES_DEBT / RES_COST: so many looks in turn clear the bit of a CPU that loads again; then flushes pause to look."""
BOOTS = 3
"""Boots of which one must have all IPIs. The program measures a case again when some are missing; on a busy host that
may be not enough. A kernel that sends none fails in each boot."""


def need_workaround(lab: Lab) -> None:
    """Skip a base without it."""
    if CONFIG not in lab.kernel("lull").image.with_name("config").read_text():
        pytest.skip(f"{lab.base.name} has no workaround for erratum 4193714")


@pytest.mark.bases
@pytest.mark.parametrize("sme", [True, False])
@pytest.mark.parametrize("kernel", ["lull", pytest.param("stock", marks=pytest.mark.whole)])
def test_ipis_after_tlbis(lab: Lab, tmp_path: Path, kernel: str, sme: bool) -> None:
    """The workaround is on in the patched image alone. It sends an IPI for each flush, also for residency's own.

    Where no other CPU has the address space loaded, Lull needs neither a broadcast nor an IPI.
    """
    need_workaround(lab)
    image = check_kernels.of_base(lab, kernel).patched(narrow=False, sme=sme)
    guest = replace(lab.guest(kernel, Machine(vcpus=4)), image=image)
    guest.arguments = guest.arguments.replace("quiet loglevel=4", "loglevel=7")
    for attempt in range(BOOTS):
        boot = tmp_path / f"boot-{attempt}"
        outcome = launch_retrying(guest, "run 1 sme\n", boot, job_seconds=lambda n: 240, tell=print, say=print)
        console = (boot / "console.log").read_text(errors="replace")
        assert (DETECTED in console) == sme
        if outcome.status == {1: 0}:
            break
    assert outcome.status == {1: 0}, console[-2000:]  # the program verifies the number of IPIs of each case
    windows = {window["case"]: window for window in outcome.windows}
    counts = {case: outcome.counts[window["window"]] for case, window in windows.items()}
    ipis = {case: window["metrics"]["ipi_call"] / window["operations"] for case, window in windows.items()}
    for case, least in {"running": 1, "everywhere": 2, "tables": 2, "pageout": 1 / 32}.items():
        assert ipis[case] >= least * 3 / 4 if sme else ipis[case] < 0.25
    for case in PROTECTED:
        broadcasts, operations = counts[case]["tlbi_broadcast_user"], windows[case]["operations"]
        if kernel == "lull" and case in ALONE:
            assert broadcasts < operations / 4
        else:
            assert broadcasts > operations * 3 / 4
    if kernel == "lull":  # residency's own broadcast of the whole ASID has sent its IPI, too
        assert counts["tables"]["tlbi_asid"] >= LOOKS


@pytest.mark.bases
@pytest.mark.whole
def test_storms_with_sme_pass(real: Tool, lab: Lab) -> None:
    """Threads that use SME, on all CPUs, while others change their memory."""
    need_workaround(lab)
    passes(real, "--kernel", "lull", "--cpu", "max+sme", "--workload", "sme", "--workload", "storm_sme")
