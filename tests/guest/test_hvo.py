# SPDX-License-Identifier: GPL-2.0-only
"""HVO by pausing on real kernels: how much memory it gives back, what a pause sends, and HVO with memory tags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import Tool

from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab


@pytest.mark.whole
def test_memory_tags_and_hvo(lab: Lab, tmp_path: Path) -> None:
    """KASAN by memory tags, which stand in page->flags: HugeTLB pages whose tail pages are read-only are copied."""
    if "vmemmap" not in lab.base.features:
        pytest.skip("this base has no HVO by pausing")
    guest = lab.guest("kasan_hw", Machine(vcpus=2, memory_mib=4096, mte=True), count=False)
    outcome = launch_retrying(
        guest, "program hvo_copy\n", tmp_path / "boot", job_seconds=lambda n: 240, tell=print, say=print
    )
    console = (tmp_path / "boot/console.log").read_text(errors="replace")
    assert outcome.done == 0 and "kasan:" not in console.lower(), console
    found = re.search(r"hvo_copy: (\d+) copied, (\d+) migrated, (\d+) HugeTLB pages were optimized", console)
    assert found and all(int(number) > 0 for number in found.groups()), console


def test_hvo_at_boot(real: Tool) -> None:
    """hugetlb_free_vmemmap=on: pages that the command line asks for give back 4095 of 4096, and 7 of 8."""
    pools = "hugepagesz=1G hugepages=2 hugepagesz=2M hugepages=256"
    given = []
    for more in ("", "hugetlb_free_vmemmap=on "):
        show = ["--memory", "6144", "--append", more + pools, "--", "cat", "/proc/vmstat"]
        rows = dict(line.split() for line in real("boot", *show, timeout=300).stdout.splitlines() if " " in line)
        given.append(int(rows["nr_memmap_pages"]) + int(rows["nr_memmap_boot_pages"]))
        assert rows["vmemmap_optimized"] == ("258" if more else "0")
    assert given[0] - given[1] == 2 * 4095 + 256 * 7


@pytest.mark.parametrize("append", ["", "nr_cpus=3"])
def test_a_pause_is_one_sgi(lab: Lab, tmp_path: Path, append: str) -> None:
    """Each try to pause is one write of ICC_SGI1R_EL1, to all but the sender; nothing else in Linux sends to all.

    There may be CPUs that Linux was told to leave alone: then nothing is sent to all.
    """
    if "pause" not in lab.base.features:
        pytest.skip("this base has no pauses")
    guest = lab.guest("lull", Machine(memory_mib=lab.workloads["hvo"].memory), append=append)
    outcome = launch_retrying(guest, "run 1 hvo\n", tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    for window in outcome.windows:
        tries = window["metrics"]["vmemmap_pause"] + window["metrics"]["vmemmap_pause_retry"]
        assert outcome.counts[window["window"]]["ipi_all"] == (0 if append else tries)
        assert tries > 0


@pytest.mark.parametrize("kernel", ["stock", "lull"])
def test_hvo(lab: Lab, tmp_path: Path, kernel: str) -> None:
    """Production kernels: stock gives nothing back, Lull what x86 gives back; with its switch off, nothing again."""
    if kernel == "lull" and "vmemmap" not in lab.base.features:
        pytest.skip("this base has no HVO by pausing")
    guest = lab.guest(kernel, Machine(memory_mib=lab.workloads["hvo"].memory))
    job = "run 1 hvo\n" + "setting vmemmap off\nrun 2 hvo\n" * (kernel == "lull")
    outcome = launch_retrying(guest, job, tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    assert set(outcome.status.values()) == {0}
    given = [w["metrics"]["memmap_given_back"] for w in outcome.windows]
    assert given == ([0] * 4 if kernel == "stock" else [8190, 7168, 0, 0, 0, 0, 0, 0])
    # What the lab knows by their names is where CPUs really wait: in pauses always, now and then for a lock.
    paused = [w for w in outcome.windows if w["metrics"].get("vmemmap_pause", 0) > 0]
    assert all(outcome.counts[w["window"]]["insns_spin"] > 0 for w in paused)
