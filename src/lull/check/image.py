# SPDX-License-Identifier: GPL-2.0-only
"""A kernel Image as bytes: is it the one its symbols are of, has it markers, and a copy with 8-bit ASIDs.

The offset of a symbol in the file is its address less that of ``_text``
(Documentation/arch/arm64/booting.rst; arch/arm64/kernel/image.h).
"""

from __future__ import annotations

import struct

from lull.errors import UsageError
from lull.kernel.symbols import Symbols

MAGIC = slice(56, 60), b"ARM\x64"
SIZE_AT = 16
FREE_MARKER = struct.pack("<I", 0xD503201F | 114 << 5)
"""HINT #114: the kernel says itself which pages are free."""
READERS = ("get_cpu_asid_bits", "asids_init")
"""Where arch/arm64/mm/context.c asks how wide ASIDs are; compilers put the first into the second."""
MRS_MMFR0, REGISTER = 0xD5380700, 0x1F
"""MRS Xn, ID_AA64MMFR0_EL1, whose bits 7:4 are 0 on a CPU with 8 bits."""
MOV_ZERO = 0xD2800000
"""MOV Xn, #0"""
REMEDY = "name an uncompressed Image, and the System.map or vmlinux that was built with it"


def is_plain(data: bytes) -> bool:
    """Is it an uncompressed arm64 Image?"""
    return data[MAGIC[0]] == MAGIC[1]


def check_fit(data: bytes, symbols: Symbols, where: str) -> None:
    """Raise UsageError when the symbols are another kernel's; a compressed image is taken on trust."""
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
    """Does the kernel mark what it frees (kernel/lab)?"""
    at = data.find(FREE_MARKER)
    while at >= 0 and at % 4:
        at = data.find(FREE_MARKER, at + 1)
    return at >= 0


def with_8_bit_asids(data: bytes, symbols: Symbols, where: str) -> bytes:
    """A copy that finds 8-bit ASIDs: where it reads their width it gets what a CPU with 8 bits says.

    Raises: UsageError saying what was not found.
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
