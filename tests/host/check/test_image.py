# SPDX-License-Identifier: GPL-2.0-only
"""Images as bytes: fit, markers, and the copy with 8-bit ASIDs."""

from __future__ import annotations

import struct

import pytest

from lull.check import image as check_image
from lull.errors import UsageError
from lull.linux import symbols

BASE = 0xFFFF800080000000
NOP, RET = 0xD503201F, 0xD65F03C0
MRS_X2, MRS_OTHER = 0xD5380702, 0xD5380722  # id_aa64mmfr0_el1, id_aa64mmfr1_el1


def image(words: dict[int, int], size: int = 0x400) -> bytes:
    """An Image of NOPs with ``words`` at their offsets."""
    data = bytearray(struct.pack("<I", NOP) * (size // 4))
    struct.pack_into("<Q", data, 16, size)
    data[56:60] = b"ARM\x64"
    for at, word in words.items():
        struct.pack_into("<I", data, at, word)
    return bytes(data)


def names(size: int = 0x400, **functions: int) -> symbols.Symbols:
    """Symbols with functions at offsets."""
    lines = [f"{BASE:x} T _text", f"{BASE + size:x} B _end"]
    lines += [f"{BASE + at:x} t {name}" for name, at in functions.items()]
    return symbols.parse("\n".join(lines), "map")


@pytest.mark.parametrize("name", check_image.READERS)
def test_the_width_reads_as_zero(name: str) -> None:
    """In the function, whatever its register; nothing else changes."""
    words = {0xFC: MRS_X2, 0x104: MRS_X2, 0x108: MRS_OTHER, 0x10C: RET, 0x110: MRS_X2}
    data = image(words)
    new = check_image.with_8_bit_asids(data, names(**{name: 0x100, "next": 0x110}), "Image")
    changed = {at for at in range(0, len(data), 4) if data[at : at + 4] != new[at : at + 4]}
    assert changed == {0x104}
    assert struct.unpack_from("<I", new, 0x104) == (0xD2800002,)  # mov x2, #0


@pytest.mark.parametrize(
    ("data", "found", "words"),
    [
        (image({0x104: MRS_X2}), names(other=0x100), "not among its symbols"),
        (image({}), names(asids_init=0x100), "does not read"),
        (b"\x1f\x8b" + bytes(200), names(asids_init=0x100), "uncompressed"),
        (image({}), symbols.parse(f"{BASE:x} T asids_init\n", "map"), "no _text"),
    ],
)
def test_refused(data: bytes, found: symbols.Symbols, words: str) -> None:
    """What is missing, and what to do."""
    with pytest.raises(UsageError) as caught:
        check_image.with_8_bit_asids(data, found, "Image")
    assert words in caught.value.text() and "to do: " in caught.value.text()


def test_a_truncated_image() -> None:
    """Symbols beyond the file's end are not followed."""
    with pytest.raises(UsageError):
        check_image.with_8_bit_asids(image({})[:64], names(asids_init=0x300), "Image")


def test_symbols_of_another_kernel() -> None:
    """The header's size must be theirs."""
    check_image.check_fit(image({}), names(), "Image")
    check_image.check_fit(b"compressed", names(), "Image")
    with pytest.raises(UsageError, match="another kernel"):
        check_image.check_fit(image({}), names(size=0x500), "Image")


def test_markers() -> None:
    """HINT #114, at a place where an instruction can be."""
    assert not check_image.has_markers(image({}))
    marked = image({0x200: 0xD5032E5F})
    assert check_image.has_markers(marked)
    assert not check_image.has_markers(b"\0\0" + marked)
