# SPDX-License-Identifier: GPL-2.0-only
"""Kernel images for tests."""

from __future__ import annotations

import struct

NOP = 0xD503201F


def image(words: dict[int, int], size: int = 0x400) -> bytes:
    """An Image of NOPs with ``words`` at their offsets."""
    data = bytearray(struct.pack("<I", NOP) * (size // 4))
    struct.pack_into("<Q", data, 16, size)
    struct.pack_into("<Q", data, 24, 0)
    data[56:60] = b"ARM\x64"
    data[64:78] = b"Linux version "
    for at, word in words.items():
        struct.pack_into("<I", data, at, word)
    return bytes(data)
