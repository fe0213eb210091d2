# SPDX-License-Identifier: GPL-2.0-only
"""Images as bytes: fit, markers, and the copy with 8-bit ASIDs."""

from __future__ import annotations

import struct

import pytest
from images import image

from lull.check import image as check_image
from lull.errors import UsageError
from lull.linux import symbols

BASE = 0xFFFF800080000000
RET = 0xD65F03C0
MRS_X2, MRS_OTHER = 0xD5380702, 0xD5380722  # id_aa64mmfr0_el1, id_aa64mmfr1_el1


def names(size: int = 0x400, **functions: int) -> symbols.Symbols:
    """Symbols with functions at offsets."""
    lines = [f"{BASE:x} T _text", f"{BASE + size:x} B _end"]
    lines += [f"{BASE + at:x} t {name}" for name, at in functions.items()]
    return symbols.parse_map("\n".join(lines), "map")


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
        (image({}), symbols.parse_map(f"{BASE:x} T asids_init\n", "map"), "no _text"),
    ],
)
def test_refused(data: bytes, found: symbols.Symbols, words: str) -> None:
    """What is missing, and what to do."""
    with pytest.raises(UsageError) as caught:
        check_image.with_8_bit_asids(data, found, "Image")
    assert words in caught.value.text() and "to do: " in caught.value.text()


def test_the_erratum_of_sme() -> None:
    """The CPU of the entry becomes QEMU's; its revisions, and entries with others, stay."""
    entry, other = [0x410FD8B0, 0, 0x100002], [0x410FD8B0, 0, 0xFFFFFFFF]
    words = dict(zip(range(0x100, 0x118, 4), [*entry, *other], strict=True))
    data = image(words)
    new = check_image.with_sme_erratum(data, "Image")
    changed = {at for at in range(0, len(data), 4) if data[at : at + 4] != new[at : at + 4]}
    assert changed == {0x100} and struct.unpack_from("<III", new, 0x100) == (0x000F0510, 0, 0x100002)


@pytest.mark.parametrize("places", [(), (0x100, 0x200)])
def test_no_erratum_of_sme(places: tuple[int, ...]) -> None:
    """A kernel without the entry, and one in which it is not certain which entry it is, are refused."""
    words = {at + 4 * n: word for at in places for n, word in enumerate((0x410FD8B0, 0, 0x100002))}
    with pytest.raises(UsageError, match=f"has {len(places)} entries") as caught:
        check_image.with_sme_erratum(image(words), "Image")
    assert "to do: " in caught.value.text()


def test_a_truncated_image() -> None:
    """Symbols beyond the file's end are not followed."""
    with pytest.raises(UsageError):
        check_image.with_8_bit_asids(image({})[:64], names(asids_init=0x300), "Image")


def test_symbols_of_another_kernel() -> None:
    """The header's size must be theirs."""
    check_image.check_fit(image({}), names(), "Image")
    check_image.check_fit(image({}), symbols.parse_map(f"{BASE:x} T schedule\n", "map"), "Image")
    with pytest.raises(UsageError, match="another kernel"):
        check_image.check_fit(image({}), names(size=0x500), "Image")
    with pytest.raises(UsageError, match="cut off"):
        check_image.check_fit(image({})[:0x300], names(_edata=0x301), "Image")


def test_text_by_its_first_function() -> None:
    """6.1 without CONFIG_KALLSYMS_ALL does not list _text; the kernel is linked to a multiple of 2 MiB."""
    found = symbols.parse_map(
        f"{BASE + 0x10000:x} T _stext\n{BASE + 0x10100:x} T asids_init\n{BASE + 0x10200:x} T other\n", "map"
    )
    data = image({0x10104: MRS_X2}, 0x10200)
    assert check_image.with_8_bit_asids(data, found, "Image") != data


def with_pe(sections: list[tuple[int, int]]) -> bytes:
    """An Image with an EFI stub: the size and start in the file of each section."""
    data = bytearray(image({}))
    data[:2] = b"MZ"
    struct.pack_into("<I", data, 60, 0x80)
    struct.pack_into("<4sHHIIIHH", data, 0x80, b"PE\0\0", 0xAA64, len(sections), 0, 0, 0, 0x20, 0)
    for number, (size, start) in enumerate(sections):
        struct.pack_into("<II", data, 0x80 + 24 + 0x20 + 40 * number + 16, size, start)
    return bytes(data)


def test_an_image_that_is_whole() -> None:
    """With an EFI stub or without one."""
    assert check_image.check_kind(image({}), "Image")
    assert check_image.check_kind(with_pe([(0x200, 0x100), (0x100, 0x300)]), "Image")


ELF = b"\x7fELF\x02\x01" + bytes(12)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no arm64 kernel image"),
        (b"root:x:0", "no arm64 kernel image"),
        (bytes(range(256)) * 9, "no arm64 kernel image"),
        (ELF + b"\xb7\0" + bytes(99), "a vmlinux, which QEMU cannot boot"),
        (ELF + b"\x3e\0" + bytes(99), "another architecture (e_machine 62)"),
        (b"MZ" + bytes(0x200) + b"HdrS" + bytes(99), "another architecture: x86"),
        (bytes(56) + b"RSC\x05" + bytes(99), "another architecture: RISC-V"),
        (bytes(36) + b"\x18\x28\x6f\x01" + bytes(99), "another architecture: 32-bit Arm"),
        (image({24: 1}), "big-endian"),
        (image({}).replace(b"Linux version", b"Xen   version"), "a hypervisor or firmware, or cut off?"),
        (with_pe([(0x200, 0x100), (0x101, 0x300)]), "cut off: it has 0x400 bytes of 0x401"),
        (image({})[:64], "no Linux kernel"),
    ],
)
def test_files_that_are_no_kernel(data: bytes, said: str) -> None:
    """Each is told apart, with what to do."""
    with pytest.raises(UsageError) as caught:
        check_image.check_kind(data, "Image")
    assert said in caught.value.text() and "to do: " in caught.value.text()
