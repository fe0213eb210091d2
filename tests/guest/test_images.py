# SPDX-License-Identifier: GPL-2.0-only
"""The images of stock and Lull have no markers."""

from __future__ import annotations

import struct

from lull.lab import Lab


def test_production_images_carry_no_marker(lab: Lab) -> None:
    """No HINT #112 to #119 in stock's and Lull's images: markers belong to guest programs and the lab kernel."""
    markers = {0xD503201F | number << 5 for number in range(112, 124)}
    for name in ("stock", "lull"):
        data = lab.kernel(name).image.read_bytes()
        words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
        assert not markers & set(words), name
