# SPDX-License-Identifier: GPL-2.0-only
"""Break a kernel on purpose, by other instructions in its Image: the mutants of kernels that have none of their own.

A *change* is a text, ``FUNCTION: WHAT -> INSTEAD``. WHAT is an instruction of INSTRUCTIONS, with ``#N`` behind it for
the Nth of the function only; ``call OTHER``, a BL to that function; or ``entry``, where the function begins. INSTEAD
is an instruction of INSTRUCTIONS, ``return N``, or ``N``, which is what the call returns. A register is kept.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from lull.errors import UsageError
from lull.linux.symbols import Symbols

INSTRUCTIONS = {
    "nop": 0xD503201F,
    "dsb ish": 0xD5033B9F,
    "dsb ishst": 0xD5033A9F,
    "ipas2e1": 0xD50C8420,
    "ipas2e1is": 0xD50C8020,
    "ipas2le1is": 0xD50C80A0,
    "ripas2e1": 0xD50C8440,
    "ripas2e1is": 0xD50C8040,
    "vmalle1": 0xD5088700,
    "vmalle1is": 0xD5088300,
    "vmalls12e1": 0xD50C87C0,
    "vmalls12e1is": 0xD50C83C0,
    "alle1is": 0xD50C8380,
    "msr vttbr_el2": 0xD51C2100,
    "clear tge": 0x9264F800,
}
"""Words of A64 instructions, with 0 for register Rt or Rd where there is one. ``clear tge`` is AND with ~HCR_EL2.TGE,
of and to the same register."""
SYSTEM, RT, CLEAR_TGE = 0xD5, 0x1F, 0x9264F800
B, BL, BL_MASK, RET, MOV_W0 = 0x14000000, 0x94000000, 0xFC000000, 0xD65F03C0, 0x52800000
CHANGE = re.compile(r"(\w+): (.+?)(?: #(\d+))? -> (.+)")


def _matches(word: int, name: str, at: int, symbols: Symbols) -> bool:
    """Whether the instruction ``word`` at address ``at`` is what a change names."""
    if name.startswith("call "):
        return word & BL_MASK == BL and _target(word, at) == symbols.address(name.removeprefix("call "))
    wanted = INSTRUCTIONS[name]
    if wanted == CLEAR_TGE:
        return word & ~0x3FF == wanted and word & RT == word >> 5 & RT
    return word == wanted or (wanted >> 24 == SYSTEM and not wanted & RT and word & ~RT == wanted)


def _target(word: int, at: int) -> int:
    """Where the B or BL ``word`` at address ``at`` leads."""
    return at + 4 * ((word & 0x3FFFFFF) - (1 << 26 if word & 1 << 25 else 0))


def _entries(word: int, at: int, end: int) -> list[int]:
    """Where a function from ``at`` to ``end`` begins whose first instruction is ``word``.

    Linux may replace a B or NOP there by the other one when it boots (arch/arm64/kernel/alternative.c). A B to another
    function stays.
    """
    if word & BL_MASK == B and at < _target(word, at) < end:
        return [at + 4, _target(word, at)]
    return [at + 4] if word == INSTRUCTIONS["nop"] else [at]


def _instead(word: int, name: str) -> int:
    """The instruction that takes the place of ``word``."""
    if name.isdecimal():
        return MOV_W0 | int(name) << 5
    wanted = INSTRUCTIONS[name]
    return wanted if wanted & RT else wanted | word & RT


def broken(data: bytes, symbols: Symbols, changes: Sequence[str], where: str) -> bytes:
    """A copy of the image ``data`` with the changes.

    Args:
        symbols: the symbols of the image.
        where: the image's path, for messages.

    Raises: UsageError when a change is malformed, or what it names is not there.
    """
    text, patched = symbols.text, bytearray(data)
    for change in changes:
        form = CHANGE.fullmatch(change)
        names = [name for name in ((form[2], form[4]) if form else ()) if not name.startswith(("call ", "return "))]
        if not form or any(name not in INSTRUCTIONS and name != "entry" and not name.isdecimal() for name in names):
            raise UsageError(f"no change of a kernel: '{change}'", remedy="write FUNCTION: WHAT -> INSTEAD")
        span = symbols.span(form[1])
        if text is None or not span:
            remedy = "choose a kernel with KVM, and with symbols"
            raise UsageError(f"the kernel has no {form[1]}()", where=where, remedy=remedy)
        if form[2] == "entry":
            result = int(form[4].removeprefix("return "))
            (word,) = struct.unpack_from("<I", data, span[0] - text)
            for at in _entries(word, *span):
                struct.pack_into("<II", patched, at - text, MOV_W0 | result << 5, RET)
            continue
        places = []
        for at in range(span[0], span[1], 4):
            (word,) = struct.unpack_from("<I", data, at - text)
            if _matches(word, form[2], at, symbols):
                places.append((at - text, word))
        if form[3]:
            places = places[int(form[3]) - 1 : int(form[3])]
        if not places:
            raise UsageError(f"{form[1]}() has no '{form[2]}'", where=where, remedy="choose another kernel")
        for at, word in places:
            struct.pack_into("<I", patched, at, _instead(word, form[4]))
    return bytes(patched)
