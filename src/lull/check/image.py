# SPDX-License-Identifier: GPL-2.0-only
"""What `lull check` reads from, and patches into, the bytes of an arm64 kernel Image.

It refuses files that are no such image, tests whether the symbols belong to the image, and makes copies of the kernel
that use 8-bit ASIDs, or work around an erratum of SME. The offset of a symbol in the file is its address minus that of
``_text`` (Documentation/arch/arm64/booting.rst; arch/arm64/kernel/image.h).
"""

from __future__ import annotations

import struct
from typing import Literal

from lull.check.unpack import COMPLETE, is_packed
from lull.errors import UsageError
from lull.linux.symbols import Symbols

MAGIC = slice(56, 60), b"ARM\x64"
"""The magic number of an arm64 Image: its place in the header, and its value."""
SIZE_AT = 16
"""Offset of the header's field image_size, 8 bytes, little-endian."""
FLAGS_AT = 24
"""Offset of the header's field flags, 8 bytes; bit 0: big-endian."""
PE_AT, PE_END, SECTIONS = 60, 0x1000, 40
"""Offset of the offset of the PE header, which kernels with an EFI stub have; an offset behind all of it; and bytes of
an entry of its sections."""
BANNER = b"Linux version "
"""Every Linux kernel has this text."""
OTHERS = (
    (slice(0x202, 0x206), b"HdrS", "x86"),
    (slice(56, 60), b"RSC\x05", "RISC-V"),
    (slice(36, 40), b"\x18\x28\x6f\x01", "32-bit Arm"),
)
"""Marks of the kernel images of other architectures."""
ELF, AARCH64 = b"\x7fELF", 183
"""The beginning of an ELF file, and the number of AArch64 there (e_machine)."""
READERS = ("get_cpu_asid_bits", "asids_init")
"""The functions of arch/arm64/mm/context.c in which ID_AA64MMFR0_EL1 is read for the width of ASIDs. It is
get_cpu_asid_bits() that reads it; compilers may inline that function into asids_init()."""
MRS_MMFR0, REGISTER = 0xD5380700, 0x1F
"""The instruction MRS Xn, ID_AA64MMFR0_EL1 without n, and the bits that hold n. Bits 7:4 of this ID register
(ASIDBits) are 0 on a CPU with 8-bit ASIDs."""
MOV_ZERO = 0xD2800000
"""The instruction MOV Xn, #0 without n."""
ERRATUM_4193714 = struct.pack("<III", 0x410FD8B0, 0, 1 << 20 | 2)
"""The CPUs of erratum 4193714 in the table arm64_errata of arch/arm64/kernel/cpu_errata.c, a struct midr_range: C1-Pro,
from revision r0p0 to r1p2. No other table of Linux has these revisions of C1-Pro."""
MIDR_MAX = struct.pack("<I", 0x000F0510)
"""MIDR_EL1 of QEMU's CPU max, which is a revision r0p0, too."""
REMEDY = "name the System.map or vmlinux that was built with the image"


def is_plain(data: bytes) -> bool:
    """Return true if ``data`` is an uncompressed arm64 Image."""
    return data[MAGIC[0]] == MAGIC[1]


def check_kind(data: bytes, where: str) -> bool:
    """Return true if ``data`` is an uncompressed arm64 Image, false if it is compressed.

    Raises: UsageError, which says what the file is, for everything else.
    """
    if is_plain(data):
        check_whole(data, where)
        return True
    if is_packed(data):
        return False
    what = "this is no arm64 kernel image: it has no 'ARM\\x64' at byte 56, and no compressed file begins so"
    if data[:4] == ELF:
        order: Literal["big", "little"] = "big" if data[5:6] == b"\2" else "little"
        machine = int.from_bytes(data[18:20], order)
        what = f"this is an ELF file for another architecture (e_machine {machine})"
        if machine == AARCH64:
            what = "this is a vmlinux, which QEMU cannot boot"
    for place, mark, name in OTHERS:
        if data[place] == mark:
            what = f"this is a kernel image for another architecture: {name}"
    raise UsageError(what, where=where, remedy="name the Image of an arm64 kernel (arch/arm64/boot/Image, or vmlinuz)")


def check_whole(data: bytes, where: str) -> None:
    """Raise UsageError for an arm64 Image that is cut off, big-endian, or not Linux."""
    check_size(data, pe_size(data), where)
    what = ""
    if data[FLAGS_AT] & 1:
        what = "a big-endian kernel: the checker reads page tables of little-endian ones"
    elif BANNER not in data:
        what = "no Linux kernel, although it is an arm64 Image: a hypervisor or firmware, or cut off?"
    if what:
        raise UsageError(what, where=where, remedy="name the complete Image of a little-endian arm64 Linux")


def check_size(data: bytes, size: int, where: str) -> None:
    """Raise UsageError for an Image that has fewer than ``size`` bytes."""
    if len(data) < size:
        what = f"the image is cut off: it has {len(data):#x} bytes of {size:#x}"
        raise UsageError(what, where=where, remedy=COMPLETE)


def pe_size(data: bytes) -> int:
    """The bytes of an Image by its PE header; 0 when it has none (CONFIG_EFI is off), or a damaged one."""
    data = data[:PE_END].ljust(PE_END, b"\0")
    (at,) = struct.unpack_from("<I", data, PE_AT)
    if data[:2] != b"MZ" or data[at : at + 4] != b"PE\0\0":
        return 0
    try:
        sections, optional = struct.unpack_from("<H", data, at + 6)[0], struct.unpack_from("<H", data, at + 20)[0]
        table = at + 24 + optional
        found = [struct.unpack_from("<II", data, table + SECTIONS * n + 16) for n in range(sections)]
    except struct.error:
        return 0
    return max((size + start for size, start in found), default=0)


def check_fit(data: bytes, symbols: Symbols, where: str) -> None:
    """Raise UsageError when the symbols are another kernel's: they span another size than the image's header says.

    So it does for an image that ends before ``_edata``. Symbols without ``_text`` or ``_end`` are not checked.
    """
    start, end = symbols.address("_text"), symbols.address("_end")
    if start is None or end is None:
        return
    (size,) = struct.unpack_from("<Q", data, SIZE_AT)
    if size != end - start:
        raise UsageError(
            f"the symbols are of another kernel: the image takes {size:#x} bytes, they span {end - start:#x}",
            where=where,
            remedy=REMEDY,
        )
    check_size(data, (symbols.address("_edata") or start) - start, where)


def with_8_bit_asids(data: bytes, symbols: Symbols, where: str) -> bytes:
    """A copy of the image ``data`` that finds 8-bit ASIDs.

    Each read of ID_AA64MMFR0_EL1 in READERS becomes a move of 0, which is what a CPU with 8-bit ASIDs has in ASIDBits.

    Args:
        where: the image's path, for messages.

    Raises: UsageError when the symbols lack ``_text`` or READERS, or no such read is there.
    """
    text = symbols.text
    if text is None:
        raise UsageError("no 8-bit ASIDs with this kernel: its symbols have no _text", where=where, remedy=REMEDY)
    patched = bytearray(data)
    spans = [span for name in READERS if (span := symbols.span(name))]
    found = 0
    for start, end in spans:
        for at in range(max(start - text, 0), min(end - text, len(data) - 3), 4):
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


def with_sme_erratum(data: bytes, where: str) -> bytes:
    """A copy of the image ``data`` that takes QEMU's CPU max for one with erratum 4193714, and for nothing else.

    Args:
        where: the image's path, for messages.

    Raises: UsageError when the kernel has no workaround for this erratum.
    """
    found = data.count(ERRATUM_4193714)
    if found != 1:
        raise UsageError(
            f"the image has {found} entries for erratum 4193714 of SME, not 1",
            where=where,
            remedy="leave +sme out, or name a kernel with CONFIG_ARM64_ERRATUM_4193714: Linux 7.3 has it",
        )
    return data.replace(ERRATUM_4193714, MIDR_MAX + ERRATUM_4193714[len(MIDR_MAX) :])
