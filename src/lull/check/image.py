# SPDX-License-Identifier: GPL-2.0-only
"""What `lull check` reads from, and patches into, the bytes of an arm64 kernel Image.

It tests whether the symbols belong to the image and whether the kernel has markers, and makes a copy of the kernel that
uses 8-bit ASIDs. The offset of a symbol in the file is its address minus that of ``_text``
(Documentation/arch/arm64/booting.rst; arch/arm64/kernel/image.h).
"""

from __future__ import annotations

import struct

from lull.errors import UsageError
from lull.linux.symbols import Symbols

MAGIC = slice(56, 60), b"ARM\x64"
"""The magic number of an arm64 Image: its place in the header, and its value."""
SIZE_AT = 16
"""Offset of the header's field image_size, 8 bytes, little-endian."""
FREE_MARKER = struct.pack("<I", 0xD503201F | 114 << 5)
"""HINT #114, little-endian: the marker by which a lab kernel says which pages it frees."""
READERS = ("get_cpu_asid_bits", "asids_init")
"""The functions of arch/arm64/mm/context.c in which ID_AA64MMFR0_EL1 is read for the width of ASIDs. It is
get_cpu_asid_bits() that reads it; compilers may inline that function into asids_init()."""
MRS_MMFR0, REGISTER = 0xD5380700, 0x1F
"""The instruction MRS Xn, ID_AA64MMFR0_EL1 without n, and the bits that hold n. Bits 7:4 of this ID register
(ASIDBits) are 0 on a CPU with 8-bit ASIDs."""
MOV_ZERO = 0xD2800000
"""The instruction MOV Xn, #0 without n."""
REMEDY = "name an uncompressed Image, and the System.map or vmlinux that was built with it"


def is_plain(data: bytes) -> bool:
    """Return true if ``data`` is an uncompressed arm64 Image."""
    return data[MAGIC[0]] == MAGIC[1]


def check_fit(data: bytes, symbols: Symbols, where: str) -> None:
    """Raise UsageError when the symbols are another kernel's: they span another size than the image's header says.

    A compressed image, and symbols without ``_text`` or ``_end``, are not checked.
    """
    start, end = symbols.address("_text"), symbols.address("_end")
    if not is_plain(data) or start is None or end is None:
        return
    (size,) = struct.unpack_from("<Q", data, SIZE_AT)
    if size != end - start:
        raise UsageError(
            f"the symbols are of another kernel: the image takes {size:#x} bytes, they span {end - start:#x}",
            where=where,
            remedy="name the System.map or vmlinux that was built with the image",
        )


def has_markers(data: bytes) -> bool:
    """Return true if the kernel has the marker for freed pages (kernel/lab): an aligned HINT #114."""
    at = data.find(FREE_MARKER)
    while at >= 0 and at % 4:
        at = data.find(FREE_MARKER, at + 1)
    return at >= 0


def with_8_bit_asids(data: bytes, symbols: Symbols, where: str) -> bytes:
    """A copy of the image ``data`` that finds 8-bit ASIDs.

    Each read of ID_AA64MMFR0_EL1 in READERS becomes a move of 0, which is what a CPU with 8-bit ASIDs has in ASIDBits.

    Args:
        where: the image's path, for messages.

    Raises: UsageError when the image is compressed, the symbols lack ``_text`` or READERS, or no such read is there.
    """
    text = symbols.address("_text")
    if not is_plain(data) or text is None:
        missing = "not an uncompressed arm64 Image" if text is not None else "its symbols have no _text"
        raise UsageError(f"no 8-bit ASIDs with this kernel: {missing}", where=where, remedy=REMEDY)
    patched = bytearray(data)
    spans = [span for name in READERS if (span := symbols.span(name))]
    found = 0
    for start, end in spans:
        for at in range(start - text, min(end - text, len(data) - 3), 4):
            (word,) = struct.unpack_from("<I", patched, at)
            if word & ~REGISTER == MRS_MMFR0:
                struct.pack_into("<I", patched, at, MOV_ZERO | word & REGISTER)
                found += 1
    if not found:
        reason = "does not read ID_AA64MMFR0_EL1 there" if spans else "is not among its symbols"
        raise UsageError(
            f"no 8-bit ASIDs with this kernel: {' or '.join(READERS)} {reason}",
            where=where,
            remedy="leave --asid-bits 8 out, or check the lab kernel, which has a parameter for it",
        )
    return bytes(patched)
