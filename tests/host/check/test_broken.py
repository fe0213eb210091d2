# SPDX-License-Identifier: GPL-2.0-only
"""Images that are broken on purpose: the instructions that a change names, and no others."""

from __future__ import annotations

import struct

import pytest

from lull import base, plan
from lull.check import data
from lull.check.broken import INSTRUCTIONS, broken
from lull.errors import UsageError
from lull.linux.symbols import Entry, Symbols

TEXT = 0xFFFF800080000000
NOP, RET = 0xD503201F, 0xD65F03C0
CODE = [
    0xD503233F,  # flush: paciasp
    0xD50C8025,  # tlbi ipas2e1is, x5
    0xD5033B9F,  # dsb ish
    0xD508831F,  # tlbi vmalle1is
    0xD5033B9F,  # dsb ish
    0x9264F863,  # and x3, x3, #~TGE
    0x9264F820,  # and x0, x1, #~TGE: not of one register
    0x94000002,  # bl other
    RET,
    RET,  # other
    NOP,  # maybe_b
    0xD503233F,
    RET,
    0x14000003,  # maybe_nop: b to its fourth instruction
    0xD503233F,
    RET,
    0xD503233F,
    RET,
]
FORM = f"<{len(CODE)}I"
SYMBOLS = Symbols(
    [
        Entry(TEXT, "T", "_text"),
        Entry(TEXT, "T", "flush"),
        Entry(TEXT + 36, "T", "other"),
        Entry(TEXT + 40, "T", "maybe_b"),
        Entry(TEXT + 52, "T", "maybe_nop"),
        Entry(TEXT + 72, "T", "_end"),
    ]
)


def changed(*changes: str) -> dict[int, int]:
    """The words that the changes put into CODE, by their number."""
    made = broken(struct.pack(FORM, *CODE), SYMBOLS, changes, "Image")
    return {n: new for n, (old, new) in enumerate(zip(CODE, struct.unpack(FORM, made), strict=True)) if old != new}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ("flush: ipas2e1is -> nop", {1: NOP}),
        ("flush: ipas2e1is -> ipas2le1is", {1: 0xD50C80A5}),
        ("flush: dsb ish -> nop", {2: NOP, 4: NOP}),
        ("flush: dsb ish #2 -> nop", {4: NOP}),
        ("flush: vmalle1is -> vmalle1", {3: 0xD508871F}),
        ("flush: clear tge -> nop", {5: NOP}),
        ("flush: call other -> 1", {7: 0x52800020}),
        ("flush: call other -> nop", {7: NOP}),
        ("flush: entry -> return 0", {0: 0x52800000, 1: RET}),
        ("maybe_b: entry -> return 0", {11: 0x52800000}),
        ("maybe_nop: entry -> return 0", {14: 0x52800000, 16: 0x52800000}),
    ],
)
def test_what_is_changed(change: str, want: dict[int, int]) -> None:
    """The words at their places; a register is kept."""
    assert changed(change) == want


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("flush: dsb ish #3 -> nop", "has no 'dsb ish'"),
        ("other: vmalle1is -> nop", "has no 'vmalle1is'"),
        ("flush: call nobody -> nop", "has no 'call nobody'"),
        ("nobody: vmalle1is -> nop", "has no nobody"),
        ("flush: tlbi -> nop", "no change of a kernel"),
        ("flush: vmalle1is", "no change of a kernel"),
    ],
)
def test_what_is_not_there(change: str, said: str) -> None:
    """Said, with what to do."""
    with pytest.raises(UsageError, match=said):
        changed(change)


def test_mutants_of_kvm() -> None:
    """Each is a change of instructions that can be named, and has a workload of hosts."""
    suite = base.load_base().suites["host"]
    path, workloads = suite.mutants, plan.load_workloads(suite.workloads)
    assert path
    for mutant in data.load_mutants(path).values():
        assert mutant.changes and mutant.workload in workloads
        for change in mutant.changes:
            what, instead = change.split(": ")[1].split(" #")[0].split(" -> ")[0], change.split(" -> ")[1]
            assert what.startswith("call ") or what == "entry" or what in INSTRUCTIONS, change
            assert instead.isdecimal() or instead.startswith("return ") or instead in INSTRUCTIONS, change
