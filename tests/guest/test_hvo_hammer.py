# SPDX-License-Identifier: GPL-2.0-only
"""guest/hvo_hammer.c in guests: each of its actors does its work, and a changed HugeTLB page is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import SUMMARY, lab_under_test

from lull.guest import console
from lull.guest.qemu import Machine
from lull.guest.runner import BootOutcome, launch_retrying

MEMORY = 6144
LOOK = "loglevel=7"
WHOLE = ("stock", "lab", "kunit16k", "kunit39", "kunit64k")
ON = "hugetlb_free_vmemmap=on kunit.enable=0"
"""HVO is on, and a kernel that has KUnit's suites does not run them."""
PLACE = (256 << 30) - (16 << 30)
"""Where users of HugeTLB pages map them first: guest/hvo_hammer.c, take()."""
WORK = ("walked", "huge_seen", "grown", "shrunk", "demoted", "held", "looked_at", "discarded", "moved", "churned")
"""What each run goes on for until it has happened, and must have done; the rest depends on the kernel."""


class TestGuests:
    """On kernels that are built and booted."""

    def run(self, kernel: str, job: str, folder: Path) -> tuple[BootOutcome, str]:
        """Boot, and run a job: how it ended, and the console."""
        booted = lab_under_test().guest(kernel, Machine(memory_mib=MEMORY), append=ON, count=False)
        booted.arguments = booted.arguments.replace("quiet loglevel=4", LOOK)
        outcome = launch_retrying(booted, job, folder, job_seconds=lambda n: 240, tell=print, say=print)
        return outcome, (folder / "console.log").read_text(errors="replace")

    @pytest.mark.parametrize(
        "kernel",
        ["lull", *(pytest.param(name, marks=pytest.mark.whole) for name in WHOLE)],
    )
    def test_it_hammers(self, kernel: str, tmp_path: Path) -> None:
        """All of it happens, the kernel reports nothing; Lull's pages give memory back, and take it again.

        With pages of 64 KiB, only HugeTLB pages of 16 GiB could be demoted.
        """
        more = "" if kernel == "stock" else " sweep=1"
        work = [name for name in WORK if (name, kernel) != ("demoted", "kunit64k")]
        job = f"run 1 hvo_hammer seconds=15 until={','.join(work)} hotplug=1{more}\n"
        outcome, text = self.run(kernel, job, tmp_path / "boot")
        reports = console.reports(text)
        assert not reports, "\n\n".join(r.text for r in reports)
        assert outcome.status == {1: 0}, text[-2000:]
        metrics = outcome.windows[0]["metrics"]
        assert [name for name in work if not metrics[name]] == []
        if kernel == "stock":
            assert not metrics["gave_back"]
        else:
            assert metrics["switched"] and metrics["gave_back"]
        SUMMARY.append(
            f"hvo_hammer on {kernel}: {', '.join(f'{name} {value}' for name, value in metrics.items() if value)}"
        )

    def test_contents_that_change_are_noticed(self, tmp_path: Path) -> None:
        """A HugeTLB page is overwritten behind its user's back: he says which, and what it holds."""
        write = f"echo spoiled | busybox dd of=/proc/$p/mem bs=4096 seek={PLACE // 4096} conv=notrunc 2>/dev/null"
        spoil = f"for i in $(seq 500); do for p in $(busybox pidof hvo_hammer); do {write}; done; done"
        job = f"sh -c '{spoil}' &\nrun 1 hvo_hammer seconds=60 actors=pools,hold\n"
        outcome, text = self.run("stock", job, tmp_path / "boot")
        assert outcome.status == {1: 1}, text[-2000:]
        holds = int.from_bytes(b"spoiled\n", "little")
        assert f"holds {holds:#x}" in text and "seed=" in text
