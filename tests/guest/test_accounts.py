# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's statistics of memory after storms: no page is counted that is gone (guest/accounts.c)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab

STORMS = (
    "mm_storm rounds=1",
    "batch_storm rounds=1",
    "file_storm seconds=10",
    "residency_storm seconds=10",
    "teardown",
    "teardown how=fork",
    "teardown how=truncate",
    "swap_bench procs=2 rounds=2",
)
"""Not hvo_hammer: Linux counts HugeTLB pages of 1 GiB when they are freed, and not when they are allocated."""
FEW = ("mm_storm rounds=1", "teardown how=truncate mib=4")
"""Those that have most of what teardown changes."""


def broken(lab: Lab, kernel: str, programs: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The programs after which a statistic is wrong, or that failed, with the end of the console's log."""
    guest = lab.guest(kernel, Machine(), append="", count=False)
    script = "".join(f"run {number} accounts -- {program}\n" for number, program in enumerate(programs, 1))
    outcome = launch_retrying(guest, script, folder, job_seconds=lambda n: 240, tell=print, say=print)
    log = (folder / "console.log").read_text(errors="replace")[-2000:]
    return {p: log for number, p in enumerate(programs, 1) if outcome.status.get(number) != 0}


def test_statistics_after_storms(lab: Lab, tmp_path: Path) -> None:
    """With all features: the cgroup is empty, and the node is where it was before."""
    assert broken(lab, "lull", FEW, tmp_path / "boot") == {}


@pytest.mark.whole
@pytest.mark.parametrize("kernel", ["stock", "lull"])
def test_statistics_after_all_storms(lab: Lab, kernel: str, tmp_path: Path) -> None:
    """Stock passes, too: what the test allows is what Linux does."""
    assert broken(lab, kernel, STORMS, tmp_path / "boot") == {}
