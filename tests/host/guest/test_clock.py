# SPDX-License-Identifier: GPL-2.0-only
"""A guest's clock that goes slower: what QEMU and the device tree are told."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from support import real_qemu

from lull.errors import LullError
from lull.guest import clock
from lull.guest.qemu import MAX_VCPUS
from lull.timing import clock_slowdown


def words(program: str) -> list[str]:
    """A guest's command line."""
    return [program, "-nodefaults", "-machine", "virt,gic-version=3", "-cpu", "max", "-smp", "2", "-display", "none"]


@pytest.mark.qemu
def test_the_device_tree_says_a_faster_counter(tmp_path: Path) -> None:
    """The counter really ticks slowly, and is said to tick so many times as fast; all else of the tree stays."""
    made = words(str(real_qemu().program))
    tree = tmp_path / "a,b.dtb"
    slow = clock.slowed(made, 96, tree)
    assert f"cntfrq={clock.COUNTER_HZ}" in slow[slow.index("-cpu") + 1] and slow[-2:] == ["-dtb", str(tree)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import fdt
    parsed = fdt.parse_dtb(tree.read_bytes())
    assert parsed.get_property("clock-frequency", "timer").value == 96 * clock.COUNTER_HZ
    assert parsed.exist_node("psci") and len(parsed.get_node("cpus").nodes) >= 2


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """A factor that a device tree cannot say; the largest machine's can be."""
    with pytest.raises(ValueError, match="2 to"):
        clock.slowed(words("qemu"), clock.MOST + 1, tmp_path / "tree")
    assert clock_slowdown(MAX_VCPUS) <= clock.MOST


def test_a_qemu_that_writes_none(tmp_path: Path) -> None:
    """It is said, with what it said."""
    with pytest.raises(LullError, match="did not write its device tree"):
        clock.slowed(words("false"), 4, tmp_path / "tree")
