# SPDX-License-Identifier: GPL-2.0-only
"""Calibration in guests: it finds costs that are known, and kernels execute what calibration on hardware assumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import REAL_CACHE, RUNS, Tool, common, lab_under_test

from lull.check import data as check_data
from lull.guest.qemu import Machine, has_range_tlbis
from lull.guest.runner import launch_retrying
from lull.run.measurements import quiet
from lull.timing import clock_slowdown
from lull_contrib.calibrate import guest as calibrate_guest
from lull_contrib.calibrate.guest import CPU
from lull_contrib.calibrate.here import Here, Repeats, counted, executed


@pytest.mark.parametrize(
    ("cpu", "kernel", "append"),
    [
        (CPU, "stock", ""),
        (CPU, "stock", "kpti=on"),
        ("neoverse-n1", "stock", ""),
        ("max", "stock", ""),
        (CPU, "lull", ""),
    ],
)
def test_hardware_is_taken_to_execute_what_kernels_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpu: str, kernel: str, append: str
) -> None:
    """TLBIs, DSBs and instructions of each case, by the plugin; with KPTI, the workaround, ranges, local flushes."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
    lab = lab_under_test()
    model, local, ranges = check_data.load_machines()[cpu].cpu, kernel == "lull", has_range_tlbis(cpu)
    # By a slow clock: on a busy host ticks and who they wake were half a DSB of each batch.
    guest = lab.guest(kernel, Machine(vcpus=2, cpu=model, slower=clock_slowdown(2)), append=append)
    job = f"setting {RUNS} off\n" * local + "run 1 calibrate rounds=10 loops=320\n"
    outcome = launch_retrying(guest, job, tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    repeats = Repeats.SYNC if cpu == "neoverse-n1" else Repeats.NO
    here = Here(outcome.kernel, (), 2, "kpti=on" in append, repeats, ranges)
    entry = 0.0
    for case in ("dsb", "plain", "flush", "batch-511", "batch-512"):
        windows = [w for w in outcome.windows if w["case"] == case]
        each = [{m: n / w["operations"] for m, n in outcome.counts[w["window"]].items()} for w in windows]
        own = quiet([outcome.counts[w["window"]]["insns_own"] for w in windows]) / windows[0]["operations"]
        insns = counted(outcome.kernel, ranges=ranges, local=local)[case]
        if cpu != "neoverse-n1" and not append:  # those have a longer way into the kernel
            assert own == pytest.approx(insns, rel=0.05), case
        expected = executed(case, insns, here, ranges=ranges, local=local)
        least = {metric: min(window[metric] for window in each) for metric in each[0]}
        real = calibrate_guest.counts(least, alone=True)
        assert real.tlbis == pytest.approx(expected.tlbis, rel=0.01, abs=0.02), case
        assert real.broadcasts == pytest.approx(expected.broadcasts, rel=0.01, abs=0.02), case
        if case == "plain":  # where branch history is cleared by a loop, on entry, with a DSB behind it
            entry = round(real.dsbs)
        # A window of batches is long, and has context switches.
        assert real.dsbs - entry == pytest.approx(expected.dsbs, abs=0.5), case
        # What the guest calls a wait is any DSB ISH behind a broadcast; of a flush of one ASID each is one.
        if not append and case != "batch-512":
            assert real.waits == pytest.approx(expected.waits, abs=0.5), case


def test_costs_that_are_known_are_found(real: Tool) -> None:
    """System B's machine, on 8 vCPUs: each cost that is told is right, and those are that can be.

    Modelled time has no page walks.
    """
    done = real("calibrate", *common(), "--guest", "ampere-32", "--vcpus", "8", "--json")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    told = json.loads(done.stdout)["told"]
    assert told == {"insn": True, "tlbi": True, "broadcast": True, "latency": False, "dsb": True, "walk": False}
