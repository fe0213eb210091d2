# SPDX-License-Identifier: GPL-2.0-only
"""HVO on real kernels: memory that it gives back, its controls, whom it interrupts, and HVO with memory tags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import HVO, Tool, common

from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab

ON = "hugetlb_free_vmemmap=on"
IPIS = ("ipi_reschedule", "ipi_call", "ipi_stop", "ipi_other")
MEMMAP = ("nr_memmap_pages", "nr_memmap_boot_pages")


def memmap(text: str) -> list[int]:
    """The pages of vmemmap by each copy of /proc/vmstat in ``text``."""
    rows = re.findall(rf"(?m)^(?:{'|'.join(MEMMAP)}) (\d+)", text)
    return [int(one) + int(two) for one, two in zip(rows[::2], rows[1::2], strict=True)]


def kept(lab: Lab) -> int:
    """How many pages of vmemmap Lull's HVO keeps for each HugeTLB page."""
    return 2 if lab.base.series == "6.12" else 1


@pytest.mark.whole
@pytest.mark.bases
def test_memory_tags_and_hvo(lab: Lab, tmp_path: Path) -> None:
    """KASAN by memory tags, which stand in page->flags: HugeTLB pages whose tail pages are read-only are copied."""
    if HVO not in lab.base.features:
        pytest.skip("this base has no HVO")
    guest = lab.guest("kasan_hw", Machine(vcpus=2, memory_mib=4096, mte=True), append=ON, count=False)
    outcome = launch_retrying(
        guest, "program hvo_copy\n", tmp_path / "boot", job_seconds=lambda n: 240, tell=print, say=print
    )
    console = (tmp_path / "boot/console.log").read_text(errors="replace")
    assert outcome.done == 0 and "kasan:" not in console.lower(), console
    found = re.search(r"hvo_copy: (\d+) copied, (\d+) migrated, (\d+) pages of vmemmap were given back", console)
    assert found and all(int(number) > 0 for number in found.groups()), console


@pytest.mark.bases(whole=True)
def test_hvo_at_boot(lab: Lab, real: Tool) -> None:
    """hugetlb_free_vmemmap=on: pages that the command line asks for give back all pages of vmemmap but those kept."""
    pools = "hugepagesz=1G hugepages=2 hugepagesz=2M hugepages=256"
    used = []
    for more in ("", f"{ON} "):
        show = ["--memory", "6144", "--append", more + pools, "--", "cat", "/proc/vmstat"]
        used += memmap(real("boot", *common(), *show).stdout)
    assert used[0] - used[1] == 2 * (4096 - kept(lab)) + 256 * (8 - kept(lab))


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize("append", ["", ON], ids=["without", "with"])
def test_what_controls_hvo(lab: Lab, real: Tool, append: str) -> None:
    """Lull gives nothing back without the boot parameter. With it, vm.hugetlb_optimize_vmemmap decides."""
    steps = [
        f"echo {on} >/proc/sys/vm/hugetlb_optimize_vmemmap; echo 64 >/proc/sys/vm/nr_hugepages; cat /proc/vmstat; "
        "echo 0 >/proc/sys/vm/nr_hugepages"
        for on in (1, 0)
    ]
    script = "; ".join(["cat /proc/vmstat", *steps])
    words = ["--append", append] if append else []
    done = real("boot", *common(), *words, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    before, *after = memmap(done.stdout)
    assert [before - now for now in after] == [64 * (8 - kept(lab)) if append else 0, 0]


@pytest.mark.bases(whole=True)
def test_surplus_pages_share_a_grace_period(lab: Lab, real: Tool) -> None:
    """The program fails if mmap() of many pages takes a grace period for each, while others busy-wait."""
    memory = str(lab.workloads["hvo_surplus"].memory)
    done = real("boot", *common(), "--memory", memory, "--append", ON, "--", "hvo_surplus")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize("kernel", ["stock", "lull", "unsafe"])
def test_hvo(lab: Lab, tmp_path: Path, kernel: str) -> None:
    """Stock gives nothing back. On Linux 6.12, Lull gives one page less for each HugeTLB page than Linux's own HVO."""
    if kernel == "lull" and HVO not in lab.base.features:
        pytest.skip("this base has no HVO")
    guest = lab.guest(kernel, Machine(memory_mib=lab.workloads["hvo"].memory), append=ON)
    outcome = launch_retrying(guest, "run 1 hvo\n", tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    assert set(outcome.status.values()) == {0}
    keeps = kept(lab) if kernel == "lull" else 1
    given = [0, 0] if kernel == "stock" else [2 * (4096 - keeps), 1024 * (8 - keeps)]
    assert [w["metrics"]["memmap_given_back"] for w in outcome.windows] == [*given, 0, 0]


DISTURBING = {
    "nothing": "",
    "patching": "echo 0 >/proc/sys/kernel/timer_migration; echo 1 >/proc/sys/kernel/timer_migration",
    "stopping": "echo 0 >/sys/devices/system/cpu/cpu4/online; echo 1 >/sys/devices/system/cpu/cpu4/online",
}
"""Done again and again while hvo_many runs: a static key changes, after which all CPUs get an IPI; CPU hotplug."""


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize("kernel", ["lull", "unsafe"])
def test_no_ipi_reaches_a_real_time_cpu(lab: Lab, tmp_path: Path, kernel: str) -> None:
    """HVO sends none to the CPU of hvo_rt. The program fails if anything else does."""
    if kernel == "lull" and HVO not in lab.base.features:
        pytest.skip("this base has no HVO")
    workload = lab.workloads["hvo_rt"]
    guest = lab.guest(kernel, Machine(vcpus=5), append=workload.append)
    job = ""
    for number, command in enumerate(DISTURBING.values(), 1):
        job += f"(while :; do {command or ':'}; sleep 0.1; done) &\n"
        job += f"run {number} {workload.program} {' '.join(workload.args)} rounds=8\nkill $!; wait\n"
    outcome = launch_retrying(guest, job, tmp_path / "boot", job_seconds=lambda n: 120, tell=print, say=print)
    ipis = {
        name: sum(w["metrics"][kind] for w in outcome.windows if w["job"] == number for kind in IPIS)
        for number, name in enumerate(DISTURBING, 1)
    }
    assert ipis["nothing"] == 0 < min(ipis["patching"], ipis["stopping"])
    assert [outcome.status[number] for number in (1, 2, 3)] == [0, 1, 1]
