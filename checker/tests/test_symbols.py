# SPDX-License-Identifier: GPL-2.0-only
"""Names of code, by a file of symbols: which function an address is in, wherever the kernel runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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
ffff800080001800 T __sched_text_start
ffff800080001800 T __switch_to
ffff800080001900 D _edata
ffff800080002000 B _end
ffff800080003000 t zram [zram]
                 w missing
"""
BASE = 0xFFFF800080000000


@pytest.fixture
def ask(build: Callable[[str], Path], tmp_path: Path) -> Callable[..., list[str]]:
    """Answers of the tool to questions about a file."""

    def answers(*questions: str, text: str = TEXT, slide: int = 0) -> list[str]:
        (tmp_path / "map").write_text(text)
        words = [build("symbols-cli"), tmp_path / "map", f"{slide:x}"]
        done = subprocess.run(words, input="\n".join(questions) + "\n", capture_output=True, text=True)
        assert not done.stderr
        return done.stdout.splitlines()

    return answers


Ask = Callable[..., list[str]]
PLACES = {
    BASE + 0x104: "plain+0x4",
    BASE + 0x400: "last+0x0",
    BASE + 0xFFC: "last+0xbfc",
    BASE + 0x1004: f"{BASE + 0x1004:#x}",
    BASE + 0x1810: "__switch_to+0x10",
    BASE + 0x1900: f"{BASE + 0x1900:#x}",
    BASE + 0x2000: f"{BASE + 0x2000:#x}",
    BASE + 0x3000: f"{BASE + 0x3000:#x}",
    BASE - (1 << 40): f"{BASE - (1 << 40):#x}",
}
"""Kernel addresses and what is there: the plainest name; data, modules and what is outside by number."""


@pytest.mark.parametrize("slide", [0, 0x12340000, -0x7FFF80000000 % 2**64])
def test_names_of_addresses(ask: Ask, slide: int) -> None:
    """A function and how far into it; also of a kernel that runs elsewhere than its symbols say."""
    moved = [place + slide & 2**64 - 1 for place in PLACES]
    if any(not place >> 55 & 1 for place in moved):
        slide, moved = slide + (0x7F << 52) & 2**64 - 1, [place + slide + (0x7F << 52) & 2**64 - 1 for place in PLACES]
    said = ask(*(f"at {place:x}" for place in moved), slide=slide)
    want = [
        f"{place:#x}" if text.startswith("0x") else text for place, text in zip(moved, PLACES.values(), strict=True)
    ]
    assert said == want


def test_user_space_and_the_identity_map(ask: Ask) -> None:
    """An address of user space may be the kernel's before it turns translation on."""
    said = ask("at 400010", "at 40200104", "at 40202000", slide=0x10000)
    assert said[0] == "0x400010 (user space)"
    assert said[1] == "0x40200104 (user space, or plain+0x4 in the identity map)"
    assert said[2] == "0x40202000 (user space)"


def test_a_return_address_is_of_the_call_before_it(ask: Ask) -> None:
    """A call that never returns may be a function's last word."""
    assert ask(f"call {BASE + 0x200:x}", f"at {BASE + 0x200:x}") == ["plain+0x100", "twice+0x0"]


def test_a_signed_return_address(ask: Ask) -> None:
    """Bits of pointer authentication do not matter, but bit 55 does."""
    signed, user = ask("at 12bf800080000104", "at 127f800080000104")
    assert signed == "plain+0x4" and user.endswith("(user space)")


def test_addresses_of_names(ask: Ask) -> None:
    """A global one before a local one; data too; 0 for what is not there, or only in a module."""
    assert ask("find twice", "find data", "find missing", "find zram") == [
        f"{BASE + 0x300:x}",
        f"{BASE + 0x1000:x}",
        "0",
        "0",
    ]


@pytest.mark.parametrize("realtime", [False, True])
def test_the_lock_of_a_table(ask: Ask, realtime: bool) -> None:
    """A real-time kernel drops it by rt_spin_unlock(), and by _raw_spin_unlock() only what is no lock of a table."""
    raw, rt = BASE + 0x100, BASE + 0x200
    text = f"{BASE:x} T _text\n{raw:x} T _raw_spin_unlock\n" + f"{rt:x} T rt_spin_unlock\n" * realtime
    assert ask(f"hook {raw:x}", f"hook {rt:x}", text=text) == (["no", "yes"] if realtime else ["yes", "no"])


def test_code_without_text(ask: Ask) -> None:
    """6.1 without CONFIG_KALLSYMS_ALL does not list _text; the kernel is linked to a multiple of 2 MiB."""
    text = f"{BASE + 0x10000:x} T _stext\n{BASE + 0x10100:x} t last\n"
    assert ask("at 40210102", text=text) == ["0x40210102 (user space, or last+0x2 in the identity map)"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no symbols"),
        ("ffff800080001000 T a\nwhat is this\n", "line 2 is not of the form ADDRESS LETTER NAME"),
        ("ffff800080001000 T\n", "line 1 is not of the form ADDRESS LETTER NAME"),
        ("\x7fELF\x02\x01", "line 1 is not of the form ADDRESS LETTER NAME"),
    ],
)
def test_other_files_are_refused(ask: Ask, text: str, said: str) -> None:
    """What is wrong, and in which line."""
    assert said in ask(text=text)[0]


def test_a_long_file(ask: Ask) -> None:
    """Larger than any buffer; the end of the last line may be missing."""
    text = "".join(f"{BASE + 16 * n:x} t function_{n}\n" for n in range(100_000)).rstrip()
    assert ask(f"at {BASE + 16 * 99_999 + 3:x}", f"at {BASE + 16 * 5:x}", text=text) == [
        "function_99999+0x3",
        "function_5+0x0",
    ]


@pytest.mark.parametrize("slide", [0, 0x7F0000])
def test_the_caller_of_a_function_without_a_frame(ask: Ask, slide: int) -> None:
    """The link register has it, perhaps signed, unless the function's own last call has returned to there."""
    at = BASE + slide
    plain, twice, signed = at + 0x100, at + 0x300, at + 0x404 & ~(0x7F << 48)
    pairs = {
        (plain, at + 0x404): "last+0x4",
        (plain + 4, signed): "last+0x4",
        (
            plain,
            twice,
        ): "twice+0x100",  # a call that never returns may be the last instruction: of the first of that name
        (plain + 0x10, plain + 0x8): "none",
        (plain, at + 0x2000 + 8): "none",
        (plain, 0x400404): "none",
    }
    questions = [f"caller {pc:x},{lr:x}" for pc, lr in pairs]
    assert ask(*questions, slide=slide) == list(pairs.values())
