# SPDX-License-Identifier: GPL-2.0-only
"""A slower clock of a guest: the factors and the QEMUs that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull.errors import LullError
from lull.guest import clock
from lull.guest.qemu import MAX_VCPUS
from lull.timing import clock_slowdown


def words(program: str) -> list[str]:
    """A guest's command line."""
    return [program, "-nodefaults", "-machine", "virt,gic-version=3", "-cpu", "max", "-smp", "2", "-display", "none"]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """A factor that a device tree cannot say; the largest machine's can be."""
    with pytest.raises(ValueError, match="2 to"):
        clock.slowed(words("qemu"), clock.MOST + 1, tmp_path / "tree")
    assert clock_slowdown(MAX_VCPUS) <= clock.MOST


def test_a_qemu_that_writes_none(tmp_path: Path) -> None:
    """It is said, with what it said."""
    with pytest.raises(LullError, match="did not write its device tree"):
        clock.slowed(words("false"), 4, tmp_path / "tree")
