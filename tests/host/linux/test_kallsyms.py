# SPDX-License-Identifier: GPL-2.0-only
"""Symbols that are read from an image, where vmlinux-to-elf gets them wrong."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from lull import process
from lull.errors import DiskFull, LullError, UsageError
from lull.linux import kallsyms

BASES = {36: 0xFFFFFFF880000000, 39: 0xFFFFFFC080000000, 42: 0xFFFFFE0080000000, 48: 0xFFFF800080000000}
"""Bits of address -> where Linux 6.12 is linked to."""


def relocated(base: int, count: int = 50) -> bytes:
    """An image with relocations of one kind, as they are linked, among other data."""
    some = random.Random(base)
    rows = [(base + 8 * some.randrange(1 << 20), 0x403, base + some.randrange(1 << 23)) for _ in range(count)]
    other = [(some.getrandbits(62), 0x403, 0), (base + (1 << 28), 0x402, 0)]
    return some.randbytes(4000) + b"".join(struct.pack("<QQQ", *row) for row in [*rows, *other])


@pytest.mark.parametrize("base", BASES.values())
def test_where_a_kernel_was_linked_to(base: int) -> None:
    """By most of its relocations. Prelinked kernels have none."""
    assert kallsyms.linked_at(relocated(base)) == base
    assert kallsyms.linked_at(relocated(base + (8 << 20))) == base
    assert kallsyms.linked_at(bytes(999)) == 0
    assert kallsyms.linked_at(struct.pack("<Q", 0x403)) == 0


@pytest.mark.parametrize("base", [None, 0xFFFFFFC080000000])
def test_addresses_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: int | None) -> None:
    """Are asked for again, with the place where the kernel was linked to; refused if that helps nothing."""
    (tmp_path / "Image").write_bytes(relocated(base or 0))
    asked = []

    def run(script: str, words: list[str | Path], offline: bool) -> process.ProcessEnd:
        asked.append(words[1:-2])
        places = (base, base + 0x400) if base and len(asked) == 2 else (0, 0x2D8000000C8)
        text = "".join(f"{place:016x} T f{n}\n" for n, place in enumerate(places))
        Path(words[-1]).write_text(text)
        return process.ProcessEnd(0, "", "")

    monkeypatch.setattr(kallsyms, "run_script", run)
    if base:
        found = kallsyms.extract(tmp_path / "Image", offline=True).read_text()
        assert found == f"{base:016x} T f0\n{base + 0x400:016x} T f1\n"
    else:
        with pytest.raises(UsageError, match="no symbols were found"):
            kallsyms.extract(tmp_path / "Image", offline=True)
    assert asked == [[], ["--base-address", f"{base or 0:x}"]]


@pytest.mark.parametrize(
    ("said", "error"), [("ValueError: No version", UsageError), ("No space left on device", DiskFull)]
)
def test_a_traceback_of_the_program_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[LullError]
) -> None:
    """An image without symbols is no defect; a full disk is named, whoever met it."""
    (tmp_path / "Image").write_bytes(relocated(0))
    failed = process.ProcessEnd(1, "", f"Traceback (most recent call last):\n{said}\n")
    monkeypatch.setattr(kallsyms, "run_script", lambda *words: failed)
    with pytest.raises(error) as caught:
        kallsyms.extract(tmp_path / "Image", offline=True)
    assert ("Traceback" in caught.value.text()) == (error is DiskFull)
