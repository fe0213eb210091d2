# SPDX-License-Identifier: GPL-2.0-only
"""Instructions in images: stock and Lull have no markers; residency orders stores to shadow stacks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support import lab_under_test

from lull.lab import Lab

GCSB_DSYNC = 0xD503201F | 19 << 5


def words_of(image: Path) -> tuple[int, ...]:
    """The image's aligned words of 32 bits."""
    data = image.read_bytes()
    return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])


def test_production_images_carry_no_marker(lab: Lab) -> None:
    """No HINT #112 to #119 in stock's and Lull's images: markers belong to guest programs and the lab kernel."""
    markers = {0xD503201F | number << 5 for number in range(112, 124)}
    for name in ("stock", "lull"):
        assert not markers & set(words_of(lab.kernel(name).image)), name


@pytest.mark.bases
def test_stores_to_shadow_stacks_are_ordered() -> None:
    """Residency executes GCSB DSYNC where a CPU leaves an address space: no machine here has shadow stacks."""
    lab = lab_under_test()
    stock, lull = (words_of(lab.kernel(name).image).count(GCSB_DSYNC) for name in ("stock", "lull"))
    assert lull >= stock + 2, "a load, and an idle CPU"
