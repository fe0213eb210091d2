# SPDX-License-Identifier: GPL-2.0-only
"""A slower clock of a guest: the device tree that QEMU wrote is changed to match."""

from __future__ import annotations

import warnings
from pathlib import Path

from support import real_qemu

from lull.guest import clock


def test_the_device_tree_says_a_faster_counter(tmp_path: Path) -> None:
    """The counter really ticks slowly, and is said to tick so many times as fast; all else of the tree stays."""
    machine = ["-nodefaults", "-machine", "virt,gic-version=3", "-cpu", "max", "-smp", "2", "-display", "none"]
    made = [str(real_qemu().program), *machine]
    tree = tmp_path / "a,b.dtb"
    slow = clock.slowed(made, 96, tree)
    assert f"cntfrq={clock.COUNTER_HZ}" in slow[slow.index("-cpu") + 1] and slow[-2:] == ["-dtb", str(tree)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import fdt
    parsed = fdt.parse_dtb(tree.read_bytes())
    assert parsed.get_property("clock-frequency", "timer").value == 96 * clock.COUNTER_HZ
    assert parsed.exist_node("psci") and len(parsed.get_node("cpus").nodes) >= 2
