# SPDX-License-Identifier: GPL-2.0-only
"""Unpack compressed kernel images, in the forms that Linux's makefiles and distributions write.

A stream is read to its end, so that a file which is cut off is refused. The modules that read zstd and lz4 are fetched
when they are first needed.
"""

from __future__ import annotations

import bz2
import importlib
import lzma
import zlib
from typing import Any, Protocol

from lull import extras
from lull.errors import UsageError
from lull.linux import kallsyms

MAGIC = {
    "gzip": b"\x1f\x8b",
    "xz": b"\xfd7zXZ",
    "zstd": b"\x28\xb5\x2f\xfd",
    "lz4": b"\x04\x22\x4d\x18",
    "lz4 -l": b"\x02\x21\x4c\x18",
    "bzip2": b"BZh",
    "lzma": b"]\0\0",
    "lzop": b"\x89LZO",
}
"""How files begin, by the program that writes them."""
ZBOOT = slice(4, 8), b"zimg"
"""The mark of an EFI zboot image, which decompresses a kernel (drivers/firmware/efi/libstub/zboot-header.S)."""
START, SIZE = slice(8, 12), slice(12, 16)
"""Where a zboot image has the offset and the size of the compressed kernel, little-endian."""
LEGACY_BLOCK = 8 << 20
"""Bytes of data in each block of a file of ``lz4 -l``; the last block has fewer."""
COMPLETE = "copy the whole file again"


class Stream(Protocol):
    """A decompressor, as the modules zlib, bz2, lzma, lz4 and zstandard have them."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was read."""

    @property
    def unused_data(self) -> bytes | None:
        """What was behind the end of the stream."""

    def decompress(self, data: bytes, /) -> bytes:
        """What ``data`` decompresses to."""


class LegacyLz4:
    """A stream of ``lz4 -l``: the magic number, then blocks, each behind its size. Only a short block marks the end."""

    eof = False
    unused_data = b""

    def __init__(self, block: Any) -> None:
        self.block = block

    def decompress(self, data: bytes, /) -> bytes:
        """What ``data`` decompresses to; all of the stream must be in it."""
        found, at = bytearray(), len(MAGIC["lz4 -l"])
        while not self.eof:
            end = at + 4 + int.from_bytes(data[at : at + 4], "little")
            if at + 4 > len(data) or end > len(data):
                break
            found += self.block.decompress(data[at + 4 : end], uncompressed_size=LEGACY_BLOCK)
            at = end
            self.eof = at == len(data) or len(found) % LEGACY_BLOCK != 0
        return bytes(found)


def stream(name: str, *, offline: bool) -> Stream:
    """A decompressor for files of the program ``name``. Raises FetchError when its module cannot be fetched."""
    if name == "gzip":
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    if name == "bzip2":
        return bz2.BZ2Decompressor()
    if name in ("xz", "lzma"):
        return lzma.LZMADecompressor()
    extras.use(kallsyms.EXTRA, offline=offline)
    if name == "zstd":
        found: Stream = importlib.import_module("zstandard").ZstdDecompressor().decompressobj()
    elif name == "lz4":
        found = importlib.import_module("lz4.frame").LZ4FrameDecompressor()
    else:
        found = LegacyLz4(importlib.import_module("lz4.block"))
    return found


def is_packed(data: bytes) -> bool:
    """Return true if ``data`` begins as a compressed file or an EFI zboot image does."""
    return data.startswith(tuple(MAGIC.values())) or data[ZBOOT[0]] == ZBOOT[1]


def unpack_image(data: bytes, where: str, *, offline: bool) -> bytes:
    """What is in the compressed file or EFI zboot image ``data``.

    Args:
        where: the file's path, for messages.

    Raises: UsageError when the file is cut off, damaged, or compressed in another way; FetchError.
    """
    if data[ZBOOT[0]] == ZBOOT[1]:
        start, size = (int.from_bytes(data[place], "little") for place in (START, SIZE))
        if start + size > len(data):
            what = f"the file is cut off: the kernel in it ends at byte {start + size:#x}, the file at {len(data):#x}"
            raise UsageError(what, where=where, remedy=COMPLETE)
        data = data[start : start + size]
    name = next((name for name, magic in MAGIC.items() if data.startswith(magic)), "")
    if name in ("", "lzop"):
        what = "an EFI zboot image, compressed in a way that is not known" if not name else "it was compressed by lzop"
        remedy = "decompress it (lzop -d), and name the Image" if name else "name the Image that it was made from"
        raise UsageError(f"the image cannot be decompressed: {what}", where=where, remedy=remedy)
    found = bytearray()
    while data.startswith(MAGIC[name]):
        reader = stream(name, offline=offline)
        try:
            found += reader.decompress(data)
        except Exception as error:  # each module has its own
            what = f"the file is damaged: its {name} data cannot be decompressed ({error})"
            raise UsageError(what, where=where, remedy=COMPLETE) from error
        if not reader.eof:
            raise UsageError(f"the file is cut off: its {name} data has no end", where=where, remedy=COMPLETE)
        data = reader.unused_data or b""
    return bytes(found)
