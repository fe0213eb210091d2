# SPDX-License-Identifier: GPL-2.0-only
"""Instructions in images: stock and Lull have no markers; residency orders stores to shadow stacks."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from support import lab_under_test

from lull.lab import Lab

GCSB_DSYNC = 0xD503201F | 19 << 5
DSB_ISH = 0xD5033B9F


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
    """On kernels that know GCS, residency's own DSBs come behind a GCSB DSYNC: no machine here has shadow stacks."""
    words = words_of(lab_under_test().kernel("lull").image)
    assert ((GCSB_DSYNC, DSB_ISH) in pairwise(words)) == (GCSB_DSYNC in words)
