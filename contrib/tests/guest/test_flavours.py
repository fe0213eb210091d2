# SPDX-License-Identifier: GPL-2.0-only
"""The kernels of Debian's flavours that are measured on hardware, stock and Lull."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import SUMMARY

from lull.lab import Lab
from lull.linux import deb, debian
from lull.linux.build import asked_options
from lull_contrib.day import ready

HARDWARE = re.compile(
    r"CONFIG_(ARM64|EFI|ACPI|PCI|BLK_DEV|NVME|VIRTIO|EXT4|VFAT|TRANSPARENT|HUGETLB|HZ|SMP|NR_CPUS|NUMA)"
)


@pytest.mark.bases
@pytest.mark.parametrize("flavour", debian.FLAVOURS)
def test_flavours_of_debian(lab: Lab, tmp_path: Path, flavour: str) -> None:
    """Stock and Lull have Debian's configuration, and differ from each other in nothing that the bench refuses."""
    text = debian.configuration(lab.store, lab.base, lab.pristine.version, flavour)
    made: dict[str, dict[str, str]] = {}
    for kernel in ready.SUFFIXES:
        source = lab.tree_of(kernel)
        (tmp_path / kernel).mkdir()
        packager = deb.Packager(source, lab.toolchain, tmp_path / kernel, tmp_path / "log", print, debug=False)
        packager.configure(deb.config_of_user(text, lab.base, source, kernel))
        made[kernel] = asked_options((packager.out / ".config").read_text())
    stock, lull = made["stock"], made["lull"]
    unlike = {option for option in {*stock, *lull} if stock.get(option, "n") != lull.get(option, "n")}
    assert not [option for option in unlike if not ready.OURS.fullmatch(option)]
    assert "CONFIG_LULL" not in stock and lull["CONFIG_ARM64_TLB_RESIDENCY"] == lull["CONFIG_MMU_GATHER_RUNS"] == "y"
    assert (stock.get("CONFIG_PREEMPT_RT") == "y") == (flavour == "rt")
    assert (stock.get("CONFIG_ARM64_16K_PAGES") == "y") == (flavour == "16k")
    lost = [o for o, v in asked_options(text).items() if stock.get(o, "n") != v and not deb.COMPILER.match(f"{o}=")]
    SUMMARY.append(f"Linux {source.version}, {flavour}: not as in Debian: {', '.join(sorted(lost)) or 'nothing'}")
    # Rust, BTF and the vDSO of arm32 need tools that few machines have. What concerns hardware and booting does not.
    assert not [option for option in lost if HARDWARE.match(option)]
