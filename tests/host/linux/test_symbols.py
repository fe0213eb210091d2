# SPDX-License-Identifier: GPL-2.0-only
"""Symbols of a kernel, from all sorts of files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lull.errors import UsageError
from lull.linux import symbols

TEXT = """\
0000000000000000 A _kernel_flags
ffff800080000000 T _text
ffff800080000000 t $x
ffff800080000100 t __alias
ffff800080000100 T plain
ffff800080000200 t twice
ffff800080000300 T twice
ffff800080000400 t last
ffff800080001000 D data
ffff800080002000 B _end
                 w missing
"""


@pytest.fixture
def found() -> symbols.Symbols:
    """A small file's."""
    return symbols.parse_map(TEXT, "System.map")


def test_addresses_of_names(found: symbols.Symbols) -> None:
    """A global one before a local one; data too; None for what is not there."""
    assert found.address("twice") == 0xFFFF800080000300
    assert found.address("data") == 0xFFFF800080001000
    assert found.address("missing") is None
    assert found.span("plain") == (0xFFFF800080000100, 0xFFFF800080000200)
    assert found.span("data") is None
    assert found.span("missing") is None


def test_functions_of_the_kernel() -> None:
    """Where each begins and where one ends; not the names of sections' ends, nor what is before _text."""
    lines = (
        "0000000000000040 t low\n"
        "ffff800080000000 D _text\n"
        "ffff800080000100 T __sched_text_start\n"
        "ffff800080000100 T __switch_to\n"
        "ffff800080000200 t twice\n"
        "ffff800080000300 D data\n"
        "ffff800080000308 D more\n"
        "ffff800080000400 t twice\n"
        "ffff800080000500 B _end\n"
    )
    base = 0xFFFF800080000000
    wanted = [(0x100, "__switch_to"), (0x200, "twice"), (0x300, None), (0x400, "twice"), (0x500, None)]
    assert symbols.parse_map(lines, "System.map").functions() == [(base + offset, name) for offset, name in wanted]


def test_spans_of_names_that_begin_alike(found: symbols.Symbols) -> None:
    """Each function once, in their order; data, and names within others, are none."""
    plain, twice = (0xFFFF800080000100, 0xFFFF800080000200), (0xFFFF800080000300, 0xFFFF800080000400)
    assert found.spans("plain") == [plain]
    assert found.spans("t") == [twice]
    assert found.spans(("t", "plain", "lain")) == [plain, twice]
    assert found.spans("data") == found.spans("lain") == []
    assert len(found.spans("")) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no function"),
        ("ffff800080001000 D data\n", "no function"),
        ("ffff800080001000 T a\nwhat is this\n", "line 2 is not of the form ADDRESS LETTER NAME"),
        ("#define A_SYMBOL_MAP\n", "line 1"),
        ("\x7fELF\x00\x01", "line 1"),
        ("0000000000000000 T a\n0000000000000000 T b\n", "as root"),
        ("fffffffffffffffff T a\n", "line 1"),
    ],
)
def test_other_files_are_refused(text: str, words: str) -> None:
    """What is wrong, in which line, and what to do."""
    with pytest.raises(UsageError) as caught:
        symbols.parse_map(text, "the file")
    said = caught.value.text()
    assert words in said and "where: the file" in said and "to do: " in said


def test_modules_of_kallsyms_are_left_out() -> None:
    """They are loaded elsewhere at each boot."""
    found = symbols.parse_map("ffff800080001000 T a\nffff800070001000 t b\t[zram]\n", "kallsyms")
    assert found.address("b") is None


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF)) | st.text(alphabet="0f8 \ntTDx_.[]\t\r"))
def test_any_text(text: str) -> None:
    """Symbols, or a UsageError; never anything else. What is read answers for any name."""
    try:
        found = symbols.parse_map(text, "fuzz")
    except UsageError:
        return
    for name in found.addresses:
        found.span(name)


@given(st.binary())
def test_any_file(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Bytes that are no text are refused as such."""
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(data)
    try:
        symbols.load_symbols(path, "false")
    except UsageError as error:
        assert str(path) in error.text() or "false" in error.text()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Named, with what to do."""
    with pytest.raises(UsageError, match="cannot be read"):
        symbols.load_symbols(tmp_path / "none", "nm")
    with pytest.raises(UsageError, match="cannot be read"):
        symbols.load_symbols(tmp_path, "nm")


@pytest.mark.skipif(not shutil.which("gcc"), reason="no compiler")
def test_an_elf_file_is_read_by_nm(tmp_path: Path) -> None:
    """As a vmlinux is."""
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text("int there(void) { return 1; } int main(void) { return there(); }\n")
    subprocess.run(["gcc", "-o", program, source], check=True)
    assert symbols.load_symbols(program, "nm").span("there")
    subprocess.run(["strip", program], check=True)
    with pytest.raises(UsageError, match="no function"):
        symbols.load_symbols(program, "nm")
