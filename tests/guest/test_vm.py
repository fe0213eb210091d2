# SPDX-License-Identifier: GPL-2.0-only
"""Guests of the guest (suite "vm"): what their TLBIs become under KVM, and under a KVM that leaves local ones local."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Tool, common, lab_under_test

from lull import base
from lull.check import data
from lull.run.records import Results

WORKLOAD = "fork_exec_small"
MUTANTS = data.load_mutants(base.load_base().suites["host"].mutants or Path())


@pytest.mark.whole
@pytest.mark.bases
def test_a_guests_local_tlbis(real: Tool, tmp_path: Path) -> None:
    """A Lull guest gains nothing under KVM, and everything on the kernel nofb.

    A stock guest of 6.12 issues no local TLBIs, one of 7.3 does where a write fault makes an entry writable.
    """
    words = ["--suite", "vm", "--kernel", "stock", "--kernel", "nofb", "--workload", WORKLOAD, "--repeat", "1"]
    done = real("run", *common(), *words, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = Results.load(tmp_path / "out/results.json")

    def each(kernel: str, case: str, metric: str) -> float:
        """The metric for each fork and exec."""
        (record,) = found.find(kernel=kernel, workload=f"{WORKLOAD}/{case}", metric=f"tlbi_{metric}")
        return record.values[0] / record.operations

    old = lab_under_test().base.series == "6.12"
    for host in ("stock", "nofb"):
        assert each(host, "stock-pinned-1", "guest_broadcast_user") > (40 if old else 20)
        assert each(host, "lull-moving-1", "guest_broadcast_user") < 1
    assert each("nofb", "stock-pinned-1", "guest_forced_user") == 0
    forced = each("stock", "stock-pinned-1", "guest_forced_user")
    assert forced == 0 if old else forced > 10
    assert each("stock", "lull-moving-1", "guest_forced_user") > 40
    assert each("stock", "lull-moving-1", "guest_local_user") == 0
    assert each("nofb", "lull-moving-1", "guest_forced_user") == 0
    assert each("nofb", "lull-moving-1", "guest_local_user") > 40
    # Each of these flushes a guest's entries on the CPU to which a vCPU has moved.
    assert each("nofb", "lull-moving-1", "hyp_local") > 0


@pytest.mark.whole
def test_a_host_under_the_checker(real: Tool, tmp_path: Path) -> None:
    """The host's kernel and its tables of stage 2 break no rule, and guests were seen."""
    done = real("check", *common(), "--host", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "entries to guests" in done.stdout


@pytest.mark.whole
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_kvm(real: Tool, name: str, tmp_path: Path) -> None:
    """Caught by the rule that is meant for it."""
    done = real("check", *common(), "--host", "--mutant", name, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
