# SPDX-License-Identifier: GPL-2.0-only
"""The workaround for erratum 4118414: affected CPUs execute each broadcast TLBI twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import LOCAL

from lull.check import data as check_data
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab


@pytest.mark.parametrize(("cpu", "times"), [("max", 1), ("cortex-a76", 2), ("neoverse-n1", 2), ("neoverse-n2", 2)])
@pytest.mark.parametrize("kernel", ["stock", "lull"])
def test_broadcasts_are_repeated(lab: Lab, tmp_path: Path, kernel: str, cpu: str, times: int) -> None:
    """The workaround for erratum 4118414 is on where it is due: each broadcast TLBI and its DSB are executed again."""
    guest = lab.guest(kernel, Machine(vcpus=2, cpu=check_data.load_machines()[cpu].cpu))
    job = f"setting {LOCAL} off\n" * (kernel == "lull") + "run 1 exact barriers=1 atomics=1 flushes=1009\n"
    outcome = launch_retrying(guest, job, tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    (window,) = (w for w in outcome.windows if w["case"] == "mprotect")
    counts = outcome.counts[window["window"]]
    assert counts["tlbi_broadcast_user"] == times * 2 * 1009
    assert times * 2 * 1009 <= counts["dsb_ish"] < times * 2 * 1009 + 500
