# SPDX-License-Identifier: GPL-2.0-only
"""Compressed kernels, as the programs write them that Linux's makefiles call."""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from images import image
from support import REAL_CACHE, lab_under_test

from lull import extras
from lull.check import kernels, unpack
from lull.errors import FetchError, UsageError
from lull.linux import kallsyms

PACKERS = {
    "gzip": ("gzip", "-n", "-f", "-9"),
    "xz": ("xz", "--check=crc32", "--arm64", "--lzma2=lp=2,lc=2"),
    "lzma": ("lzma",),
    "bzip2": ("bzip2", "-9"),
    "lz4 -l": ("lz4", "-q", "-l", "-9", "-", "-"),
    "lz4": ("lz4", "-q", "-9", "-", "-"),
    "zstd": ("zstd", "-q", "-22", "--ultra"),
}
"""The commands of scripts/Makefile.lib. xz and lzma have smaller dictionaries here, which take less memory."""
NO_CHECKSUM = ("lzma", "lz4 -l")
FETCHED = ("lz4", "zstd")
"""How the names begin whose readers are fetched."""
KERNEL = image({0x104: 0xD5380702, 0x800000: 0xD65F03C0}, 9 << 20)
"""More than the 8 MiB that lz4 -l writes at once."""


@pytest.fixture(params=PACKERS)
def packer(request: pytest.FixtureRequest, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of each packer; skipped where it, or the module that reads what it writes, cannot be had."""
    name: str = request.param
    if not shutil.which(PACKERS[name][0]):
        pytest.skip(f"{PACKERS[name][0]} is not installed")
    if name.startswith(FETCHED):
        with monkeypatch.context() as patch:
            patch.setenv("LULL_CACHE", str(REAL_CACHE))
            try:
                extras.fetched(kallsyms.EXTRA, offline=lab_under_test().offline)
            except FetchError as error:
                pytest.skip(error.text())
        (own_cache / "python").symlink_to(REAL_CACHE / "python")
    yield name


@functools.cache
def pack(name: str, data: bytes) -> bytes:
    """``data``, compressed."""
    return subprocess.run(PACKERS[name], input=data, stdout=subprocess.PIPE, check=True).stdout


def zboot(payload: bytes, name: str, more: bytes = b"") -> bytes:
    """An EFI zboot image as zboot-header.S begins it; ``more``: what is behind the payload."""
    start = 0x3000
    head = struct.pack("<4s4sII8x32sII", b"MZ\0\0", b"zimg", start, len(payload), name.encode(), 0x818223CD, 0x40)
    return head.ljust(start, b"\0") + payload + more


def refusal(data: bytes) -> str:
    """What is said of a file that cannot be unpacked."""
    with pytest.raises(UsageError) as caught:
        unpack.unpack_image(data, "vmlinuz", offline=True)
    assert "where: vmlinuz" in caught.value.text() and "to do: " in caught.value.text()
    return caught.value.text()


def test_what_packers_write(packer: str) -> None:
    """Read back, also with something behind it: a device tree, or the size that Linux appends."""
    packed = pack(packer, KERNEL)
    assert unpack.is_packed(packed) and len(packed) < len(KERNEL)
    assert unpack.unpack_image(packed, "vmlinuz", offline=True) == KERNEL
    assert unpack.unpack_image(packed + b"\xd0\x0d\xfe\xed" + bytes(64), "vmlinuz", offline=True) == KERNEL


def test_zboot(packer: str) -> None:
    """With each payload; newer kernels have gzip and zstd, the latter with the size behind it."""
    file = zboot(pack(packer, KERNEL), packer, struct.pack("<I", len(KERNEL)) + bytes(512))
    assert unpack.is_packed(file)
    assert unpack.unpack_image(file, "vmlinuz", offline=True) == KERNEL
    assert "cut off: the kernel in it ends at byte 0x" in refusal(file[: 0x3000 + 9])


def test_cut_off(packer: str) -> None:
    """Wherever the file ends, as long as it says what it is."""
    packed = pack(packer, KERNEL)
    for end in (len(unpack.MAGIC[packer]) + 1, len(packed) // 3, len(packed) - 1):
        assert "cut off" in refusal(packed[:end])


@pytest.mark.parametrize("packer", [name for name in PACKERS if name not in NO_CHECKSUM], indirect=True)
def test_damaged(packer: str) -> None:
    """A byte is wrong."""
    packed = bytearray(pack(packer, KERNEL))
    packed[len(packed) * 3 // 4] ^= 0x55
    assert "the file is damaged: its" in refusal(bytes(packed))


def test_streams_in_a_row() -> None:
    """As compressors with several threads write them."""
    assert (
        unpack.unpack_image(pack("gzip", KERNEL[:5000]) + pack("gzip", KERNEL[5000:]), "vmlinuz", offline=True)
        == KERNEL
    )


def test_forms_that_are_not_read() -> None:
    """lzop, and payloads of zboot that are unknown."""
    assert "lzop -d" in refusal(b"\x89LZO" + bytes(99))
    assert "not known" in refusal(zboot(bytes(99), "new"))
    assert "not known" in refusal(b"MZ\0\0zimg")


def test_files(tmp_path: Path, own_cache: Path) -> None:
    """A compressed file becomes an Image in the cache; what is in it must be one kernel."""
    small = image({}, 0x2000)
    cases = {
        "once": (pack("gzip", small), ""),
        "twice": (pack("gzip", pack("gzip", small)), "compressed twice"),
        "other": (pack("gzip", bytes(9999)), "vmlinuz, decompressed"),
        "firmware": (pack("gzip", small.replace(b"Linux version", b"Xen   version")), "hypervisor or firmware"),
    }
    for data, said in cases.values():
        file = tmp_path / "vmlinuz"
        file.write_bytes(data)
        if not said:
            plain = kernels.plain_image(file, offline=True)
            assert plain.read_bytes() == small and own_cache in plain.parents
            continue
        with pytest.raises(UsageError) as caught:
            kernels.plain_image(file, offline=True)
        assert said in caught.value.text()
    file = tmp_path / "Image"
    file.write_bytes(small)
    assert kernels.plain_image(file, offline=True) == file
