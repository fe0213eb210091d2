# SPDX-License-Identifier: GPL-2.0-only
"""A slower clock of a guest: the device tree that QEMU wrote is changed to match."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support import real_qemu

from lull.guest import clock


@pytest.mark.skipif(not shutil.which("fdtput"), reason="no fdtput (apt install device-tree-compiler)")
def test_the_device_tree_says_a_faster_counter(tmp_path: Path) -> None:
    """The counter really ticks slowly, and is said to tick so many times as fast; all else of the tree stays."""
    machine = ["-nodefaults", "-machine", "virt,gic-version=3", "-cpu", "max", "-smp", "2", "-display", "none"]
    made = [str(real_qemu().program), *machine]
    tree = tmp_path / "a,b.dtb"
    slow = clock.slowed(made, 96, tree)
    assert f"cntfrq={clock.COUNTER_HZ}" in slow[slow.index("-cpu") + 1] and slow[-2:] == ["-dtb", str(tree)]
    changed = subprocess.run(["dtc", "-I", "dtb", "-O", "dts", tree], text=True, capture_output=True, check=True).stdout
    timer = changed.partition("\ttimer {\n")[2].partition("\t};")[0]
    assert f"clock-frequency = <{96 * clock.COUNTER_HZ:#x}>;" in timer and "arm,armv8-timer" in timer
    assert "\tpsci {\n" in changed and changed.count("cpu@") == 2
