# SPDX-License-Identifier: GPL-2.0-only
"""The page-table walk and the meaning of a changed descriptor, against tables made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plugin_tools import Talk

TG0 = {12: 0, 14: 2, 16: 1}
TG1 = {12: 2, 14: 1, 16: 3}


@pytest.fixture(scope="module")
def cli(build: Callable[[str], Path]) -> Iterator[Talk]:
    talk = Talk(build("walk-cli"))
    yield talk
    talk.close()


def bits(high: int, low: int) -> int:
    return (1 << (high + 1)) - (1 << low)


@dataclass(frozen=True)
class Half:
    """One half of an address space, and the value of TCR_EL1 that says so."""

    granule: int
    size: int
    upper: bool = False
    ds: bool = False
    ips: int = 5

    @property
    def lpa2(self) -> bool:
        return self.ds and self.granule != 16

    @property
    def pa52(self) -> bool:
        return self.ips == 6 and (self.ds or self.granule == 16)

    def tcr(self, off: bool = False) -> int:
        """The other half has another granule and size, which must not matter."""
        other = 14 if self.granule != 14 else 12
        mine, its = (64 - self.size) | off << 7, 25
        low, high = (its, mine) if self.upper else (mine, its)
        tg0, tg1 = (TG0[other], TG1[self.granule]) if self.upper else (TG0[self.granule], TG1[other])
        return low | tg0 << 14 | high << 16 | tg1 << 30 | self.ips << 32 | self.ds << 59

    def shifts(self) -> dict[int, int]:
        """Level -> what a descriptor covers; from the page up, until the size is reached."""
        found, level, shift = {}, 3, self.granule
        while True:
            found[level] = shift
            if shift + self.granule - 3 >= self.size:
                return found
            shift += self.granule - 3
            level -= 1

    def blocks(self) -> set[int]:
        """Levels that may have one, as tables D8-20 and on of the Arm ARM list them."""
        if self.granule == 12:
            return {0, 1, 2} if self.ds else {1, 2}
        if self.granule == 14:
            return {1, 2} if self.ds else {2}
        return {1, 2} if self.pa52 else {2}

    def address(self, pa: int) -> int:
        """An address as a descriptor has it."""
        if self.lpa2:
            return pa & bits(49, 12) | (pa >> 50) << 8
        if self.pa52:
            return pa & bits(47, 16) | (pa >> 48) << 12
        return pa

    def address_bits(self) -> int:
        if self.lpa2:
            return bits(49, self.granule) | bits(9, 8)
        if self.pa52:
            return bits(47, 12)
        return bits(47, self.granule)

    def ttbr(self, pa: int, asid: int = 0, cnp: int = 0) -> int:
        return (pa & bits(47, 0)) | (pa >> 48 << 2 if self.pa52 else 0) | asid << 48 | cnp


def sizes(granule: int, ds: bool) -> tuple[int, int]:
    """The least and the largest address space: TxSZ 47 or 48, and 16 or 12."""
    return 17 if granule == 16 else 16, 52 if ds or granule == 16 else 48


@st.composite
def halves(draw: st.DrawFn) -> Half:
    granule = draw(st.sampled_from([12, 14, 16]))
    ds = draw(st.booleans())
    size = draw(st.integers(*sizes(granule, ds)))
    return Half(granule, size, draw(st.booleans()), ds, draw(st.sampled_from([2, 5, 6])))


@settings(max_examples=500, deadline=None)
@given(half=halves(), off=st.booleans())
def test_regime(cli: Talk, half: Half, off: bool) -> None:
    shifts = half.shifts()
    start = min(shifts)
    want = [half.granule, half.size, start, half.lpa2, half.pa52, off, 1 << (half.size - shifts[start])]
    want += [shifts[level] for level in range(start, 4)]
    assert [int(word) for word in cli.ask("regime", half.tcr(off), half.upper)] == want


REGIMES = [
    # granule, bits, DS: level of the root, its entries; from the tables of Arm ARM D8.2
    (12, 39, 0, 1, 512),
    (12, 48, 0, 0, 512),
    (12, 47, 0, 0, 256),
    (12, 40, 0, 0, 2),
    (12, 49, 1, -1, 2),
    (12, 52, 1, -1, 16),
    (12, 21, 0, 3, 512),
    (12, 16, 0, 3, 16),
    (14, 36, 0, 2, 2048),
    (14, 47, 0, 1, 2048),
    (14, 48, 0, 0, 2),
    (14, 52, 1, 0, 32),
    (16, 42, 0, 2, 8192),
    (16, 48, 0, 1, 64),
    (16, 52, 0, 1, 1024),
]


@pytest.mark.parametrize(("granule", "size", "ds", "start", "entries"), REGIMES)
def test_known_regimes(cli: Talk, granule: int, size: int, ds: int, start: int, entries: int) -> None:
    got = [int(w) for w in cli.ask("regime", Half(granule, size, ds=bool(ds)).tcr(), 0)]
    assert (got[2], got[6]) == (start, entries)


@pytest.mark.parametrize("upper", [False, True])
def test_reserved(cli: Talk, upper: bool) -> None:
    """TGx, and TxSZ beyond what any CPU has."""
    for granule in (12, 14, 16):
        for ds in (False, True):
            least, most = sizes(granule, ds)
            for size in range(1, 65):
                said = cli.ask("regime", Half(granule, size, upper, ds).tcr(), upper)
                assert (said == ["reserved"]) == (not least <= size <= most), (granule, ds, size)
    assert cli.ask("regime", 16 | 3 << 14 | 16 << 16, upper) == ["reserved"]  # TG0 11, TG1 00
    assert cli.ask("regime", 0, upper) == ["reserved"]


@st.composite
def walks(draw: st.DrawFn) -> tuple[Half, int, int, list[tuple[int, int, int]], int | None]:
    """A half, TTBR, address, the descriptors on its way (level, address, value), and what it leads to."""
    half = draw(halves())
    shifts = half.shifts()
    start = min(shifts)
    va = draw(st.integers(0, (1 << half.size) - 1))
    wide = 52 if half.lpa2 or half.pa52 else 48
    root_size = 8 << (half.size - shifts[start])
    root_align = max(root_size, 64) if half.pa52 else root_size
    root_wide = 52 if half.pa52 else 48

    def aligned(width: int, align: int) -> int:
        return draw(st.integers(0, (1 << width) // align - 1)) * align

    def noise() -> int:
        return draw(st.integers(0, (1 << 64) - 1)) & ~half.address_bits() & ~3

    end = draw(st.sampled_from([level for level in shifts if level == 3 or level in half.blocks()]))
    broken = draw(st.integers(start, 4))  # the level that is invalid; 4: none
    root = table = aligned(root_wide, root_align)
    steps = []
    for level in range(start, end + 1):
        index = va >> shifts[level]
        if level != start:
            index %= 1 << (half.granule - 3)
        where = table + 8 * index
        if level == broken:
            reserved = level == 3 or level not in half.blocks()
            steps.append((level, where, noise() | draw(st.sampled_from([0, 2, 1] if reserved else [0, 2]))))
            break
        table = aligned(wide, 1 << (shifts[level] if level == end else half.granule))
        kind = 1 if level == end != 3 else 3
        inside = draw(st.integers(0, (1 << 48) - 1)) & bits(shifts[level] - 1, 0) & ~bits(half.granule - 1, 0)
        if level != end or (half.pa52 and half.granule == 16):
            inside &= ~bits(15, 12)
        steps.append((level, where, noise() | half.address(table) | kind | (inside if level == end else 0)))
    assume(len({where for _, where, _ in steps}) == len(steps))  # a table of its own for each level
    broke = start <= broken <= end
    leads = None if broke else table | va & bits(shifts[end] - 1, 0)
    full = va | (bits(63, half.size) if half.upper else 0)
    return half, half.ttbr(root, draw(st.integers(0, 65535)), draw(st.integers(0, 1))), full, steps, leads


@settings(max_examples=2000, deadline=None)
@given(walks())
def test_walk(cli: Talk, made: tuple[Half, int, int, list[tuple[int, int, int]], int | None]) -> None:
    half, ttbr, va, steps, leads = made
    memory = [number for step in steps for number in step[1:]]
    said = cli.ask("walk", half.tcr(), half.upper, ttbr, va, *memory)
    assert said[2:] == [f"{level}:{where:x}:{value:x}" for level, where, value in steps]
    assert said[:2] == (["fault", "0"] if leads is None else ["valid", f"{leads:x}"])
    if len(steps) > 1:  # memory that is not known
        said = cli.ask("walk", half.tcr(), half.upper, ttbr, va, *memory[:-2])
        assert said[:2] == ["fault", "0"] and len(said) == 2 + len(steps) - 1
    outside = va ^ (1 << 63)
    assert cli.ask("walk", half.tcr(), half.upper, ttbr, outside, *memory) == ["fault", "0"]
    assert cli.ask("walk", half.tcr(off=True), half.upper, ttbr, va, *memory) == ["fault", "0"]


HAND_MADE = [
    # 48 bits, 4 KiB: ASID 0x12, CnP; indexes 1, 2, 3, 4
    (
        Half(12, 48),
        0x0012_0000_4000_1001,
        0x0000_0080_8060_4567,
        [
            (0x4000_1008, 0x1800_0000_4000_2003),
            (0x4000_2010, 0x4000_3003),
            (0x4000_3018, 0x4000_4003),
            (0x4000_4020, 0x0020_0000_8765_4FD3),
        ],
        0x8765_4567,
    ),
    # a block of 2 MiB, of 1 GiB; kernel
    (Half(12, 39, True), 0x4000_1000, 0xFFFF_FF80_4123_4567,
     [(0x4000_1008, 0x4000_2003), (0x4000_2048, 0x0060_0000_8020_0701)], 0x8023_4567),
    (Half(12, 39, True), 0x4000_1000, 0xFFFF_FF80_4123_4567,
     [(0x4000_1008, 0x0060_0000_8000_0701)], 0x8123_4567),
    # 52 bits, 4 KiB, LPA2: a root of 16 entries at 2^50 + 0x80; page at 3 * 2^50, bits 9:8
    (
        Half(12, 52, ds=True, ips=6),
        0x0000_0000_0000_0090,
        0x0008_0000_0000_0000,
        [
            (0x4_0000_0000_00C0, 0x0000_0000_4000_2003),
            (0x0_0000_4000_2000, 0x0000_0000_4000_3103),
            (0x4_0000_4000_3000, 0x0002_0000_4000_4003),
            (0x2_0000_4000_4000, 0x0000_0000_4000_5003),
            (0x0_0000_4000_5000, 0x0001_0000_0000_0F43),
        ],
        0xD_0000_0000_0000,
    ),
    # 512 GiB block, LPA2 only
    (Half(12, 48, ds=True, ips=6), 0x4000_1000, 0x0000_0000_1234_5678,
     [(0x4000_1000, 0x0000_0080_0000_0701)], 0x80_1234_5678 | 3 << 50),
    (Half(12, 48), 0x4000_1000, 0x0000_0000_1234_5678, [(0x4000_1000, 0x0000_0080_0000_0701)], None),
    # 16 KiB: 47 bits, a page; 32 MiB block; 64 GiB block only with LPA2
    (
        Half(14, 47),
        0x4000_4000,
        0x0000_0010_0200_4001,
        [(0x4000_4008, 0x4000_8003), (0x4000_8008, 0x4000_C003), (0x4000_C008, 0x8001_0703)],
        0x8001_0001 & ~0x3FFF | 1,
    ),
    (Half(14, 47), 0x4000_4000, 0x0000_0010_0200_4001,
     [(0x4000_4008, 0x4000_8003), (0x4000_8008, 0x8200_0701)], 0x8200_4001),
    (Half(14, 47), 0x4000_4000, 0x0000_0010_0200_4001, [(0x4000_4008, 0x10_0000_0701)], None),
    (Half(14, 47, ds=True, ips=6), 0x4000_4000, 0x0000_0010_0200_4001,
     [(0x4000_4008, 0x10_0000_0401)], 0x10_0200_4001),
    # 64 KiB, 52 bits, LPA: TTBR 5:2 and descriptor 15:12 are 51:48; 4 TiB block at 2^48
    (
        Half(16, 52, ips=6),
        0x4001_0000 | 0xF << 2,
        0x000F_FC00_0001_0007,
        [(0xF_0000_4001_1FF8, 0x4002_5003), (0x5_0000_4002_0000, 0x4003_0003), (0x4003_0008, 0x8000_1743)],
        0x1_0000_8000_0007,
    ),
    (Half(16, 52, ips=6), 0x4001_0000, 0x0000_0400_0000_0007, [(0x4001_0008, 0x0000_0400_0000_1701)],
     0x1_0400_0000_0007),
    (Half(16, 52), 0x4001_0000, 0x0000_0400_0000_0007, [(0x4001_0008, 0x0000_0400_0000_0701)], None),
    # Linux with 52 bits on a CPU of 48: TTBR1 points at entry 960 of the page
    (Half(16, 48, True), 0x4001_1E00, 0xFFFF_0000_0000_0007,
     [(0x4001_1E00, 0x4002_0003), (0x4002_0000, 0x4003_0003), (0x4003_0000, 0x8001_0743)], 0x8001_0007),
    # a page's bit 1 clear is reserved; 0b10 is invalid like 0b00
    (Half(16, 42), 0x4001_0000, 0, [(0x4001_0000, 0x4002_0003), (0x4002_0000, 0x8001_0741)], None),
    (Half(16, 42), 0x4001_0000, 0, [(0x4001_0000, 0x4002_0002)], None),
]  # fmt: skip


@pytest.mark.parametrize(("half", "ttbr", "va", "memory", "leads"), HAND_MADE)
def test_hand_made(cli: Talk, half: Half, ttbr: int, va: int, memory: list[tuple[int, int]], leads: int | None) -> None:
    said = cli.ask("walk", half.tcr(), half.upper, ttbr, va, *(n for pair in memory for n in pair))
    assert said[:2] == (["fault", "0"] if leads is None else ["valid", f"{leads:x}"])
    assert [step.split(":")[1:] for step in said[2:]] == [[f"{pa:x}", f"{value:x}"] for pa, value in memory]


AP1, AP2, AF, NG = 1 << 6, 1 << 7, 1 << 10, 1 << 11
NT, GP, DBM, CONT, PXN, UXN = 1 << 16, 1 << 50, 1 << 51, 1 << 52, 1 << 53, 1 << 54
SH_INNER, SH_OUTER = 3 << 8, 2 << 8
PAGE = 0x8765_4003 | AF | SH_INNER
BLOCK = 0x8760_0001 | AF | SH_INNER
TABLE = 0x8765_4003

LEAF_CHANGES = [
    # what is set, and cleared, in a page or block that has all of the cleared: what it means
    (0, 0, "nothing"),
    (AF, 0, "nothing"),
    (0, AF, "nothing"),
    (0xF << 55, 0, "nothing"),  # software
    (0x11 << 59, 0, "nothing"),  # ignored
    (0, 0x11 << 59, "nothing"),
    (1 << 60, 0, "less"),  # protection keys: what they forbid is in a register
    (0, 1 << 62, "less"),
    (AP1, 1 << 61, "less"),
    (DBM, 0, "nothing"),  # AP[2] is clear: writable anyhow
    (0, DBM, "nothing"),
    (AP2, 0, "less"),
    (0, AP2, "more"),
    (AP2 | DBM, 0, "less"),  # hardware could make it writable again, but it is not now
    (AP2, DBM, "less"),  # pte_wrprotect()
    (DBM, AP2, "more"),
    (0, AP2 | DBM, "more"),
    (AP1, 0, "more"),
    (0, AP1, "less"),
    (UXN, 0, "less"),
    (0, UXN, "more"),
    (PXN, 0, "less"),
    (0, PXN, "more"),
    (GP, 0, "less"),
    (0, GP, "more"),
    (UXN, AP2, "less"),  # both
    (AP2, UXN, "less"),
    (AP1, PXN, "more"),
    (AF | AP2, 0, "less"),
    (NG, 0, "less"),  # the old one serves every ASID
    (NG, AP2, "less"),
    (0, NG, "bbm"),
    (CONT, 0, "bbm"),
    (0, CONT, "bbm"),
    (0, 1 << 2, "bbm"),
    (1 << 4, 0, "bbm"),
    (1 << 5, 0, "bbm"),  # NS
    (1 << 20, 0, "output"),
    (0, 1 << 47, "output"),
    (AP2 | CONT, 0, "bbm"),
]
DIRTY = [
    # with AP[2] set in both: DBM decides whether it can become writable
    (AP2 | DBM, AP2, "less"),
    (AP2, AP2 | DBM, "more"),
    (AP2, AP2, "nothing"),
]
HALF_48, HALF_52, HALF_64K = Half(12, 48), Half(12, 52, ds=True, ips=6), Half(16, 52, ips=6)


def change(cli: Talk, half: Half, level: int, old: int, new: int, mair: int = 0) -> str:
    return cli.ask("change", half.tcr(), half.upper, mair, level + 1, old, new)[4]


@pytest.mark.parametrize(("put", "take", "meaning"), LEAF_CHANGES)
@pytest.mark.parametrize(("level", "base"), [(3, PAGE), (2, BLOCK)])
def test_leaf_change(cli: Talk, level: int, base: int, put: int, take: int, meaning: str) -> None:
    inside = level == 2 and (put | take) == 1 << 20  # of a block: no address bit
    want = ("nothing" if inside else "bbm") if meaning == "output" else meaning
    old = (base | take) & ~put
    assert change(cli, HALF_48, level, old, (old | put) & ~take) == want
    # to and from invalid, whatever the bits
    assert change(cli, HALF_48, level, old, ((old | put) & ~take) & ~1) == "gone"
    assert change(cli, HALF_48, level, old, 0) == "gone"
    assert change(cli, HALF_48, level, old & ~1, (old | put) & ~take) == "nothing"


@pytest.mark.parametrize(("old", "new", "meaning"), DIRTY)
def test_dirty_change(cli: Talk, old: int, new: int, meaning: str) -> None:
    assert change(cli, HALF_48, 3, PAGE | old, PAGE | new) == meaning


def test_shareability_is_address_with_lpa2(cli: Talk) -> None:
    assert change(cli, HALF_48, 3, PAGE, PAGE ^ 1 << 8) == "bbm"
    assert change(cli, HALF_64K, 3, PAGE, PAGE ^ 1 << 8) == "bbm"
    assert change(cli, HALF_52, 3, PAGE, PAGE ^ 1 << 8) == "bbm"
    said = cli.ask("change", HALF_52.tcr(), 0, 0, 4, PAGE, PAGE ^ 1 << 8)
    assert said[1] == f"{0x8765_4000 | 3 << 50:x}" and said[3] == f"{0x8765_4000 | 2 << 50:x}"
    # bits 49:48 are address with LPA2 only
    assert change(cli, HALF_48, 3, PAGE, PAGE | 1 << 49) == "nothing"
    assert change(cli, HALF_52, 3, PAGE, PAGE | 1 << 49) == "bbm"
    # 15:12 with LPA
    assert change(cli, HALF_64K, 3, 0x8765_0003, 0x8765_1003) == "bbm"
    assert change(cli, Half(16, 48), 3, 0x8765_0003, 0x8765_1003) == "nothing"


def test_memory_type(cli: Talk) -> None:
    """By MAIR_EL1 where it is known: Linux's is device, device, uncached, normal, tagged at 0 to 4 or otherwise."""
    normal, tagged, device = 0 << 2, 1 << 2, 3 << 2
    plain, mte = 0x00_04_44_FF_FF, 0x00_04_44_F0_FF
    for mair, want in ((0, "bbm"), (plain, "nothing"), (mte, "less")):
        assert change(cli, HALF_48, 3, PAGE | normal, PAGE | tagged, mair) == want
        assert change(cli, HALF_48, 3, PAGE | tagged, PAGE | normal, mair) == want
        assert change(cli, HALF_48, 3, PAGE | tagged, PAGE | device, mair) == "bbm"
        assert change(cli, HALF_48, 3, PAGE | device, PAGE | normal, mair) == "bbm"
    assert change(cli, HALF_48, 3, PAGE | normal, PAGE | tagged | AP2, plain) == "less"
    assert change(cli, HALF_48, 3, PAGE | normal | AP2, PAGE | tagged, plain) == "more"


TABLE_CHANGES = [
    (0, 0, "nothing"),
    (0xFC, 0, "nothing"),  # ignored
    (AF, 0, "nothing"),
    (0xFF << 51, 0, "nothing"),
    (NG, 0, "nothing"),
    (1 << 59, 0, "less"),
    (1 << 60, 0, "less"),
    (1 << 61, 0, "less"),
    (1 << 62, 0, "less"),
    (1 << 63, 0, "less"),
    (0, 1 << 59, "more"),
    (0, 1 << 63, "more"),
    (1 << 59, 1 << 60, "less"),
    (1 << 13, 0, "bbm"),
    (0, 1 << 47, "bbm"),
]


@pytest.mark.parametrize(("put", "take", "meaning"), TABLE_CHANGES)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_table_change(cli: Talk, level: int, put: int, take: int, meaning: str) -> None:
    old = (TABLE | take) & ~put
    assert change(cli, HALF_48, level, old, (old | put) & ~take) == meaning
    assert change(cli, HALF_48, level, old, 0) == "gone"
    assert change(cli, HALF_48, level, 0, old) == "nothing"


def test_block_against_table(cli: Talk) -> None:
    """The same address in both, and what is neither at that level."""
    assert change(cli, HALF_48, 2, BLOCK, BLOCK | 2) == "bbm"
    assert change(cli, HALF_48, 2, BLOCK | 2, BLOCK) == "bbm"
    assert change(cli, HALF_48, 0, BLOCK | 2, BLOCK) == "gone"  # no blocks at level 0
    assert change(cli, HALF_48, 0, BLOCK, BLOCK | 2) == "nothing"
    assert change(cli, HALF_52, 0, BLOCK, BLOCK | 2) == "bbm"
    assert change(cli, HALF_52, -1, BLOCK | 2, BLOCK) == "gone"
    assert change(cli, HALF_48, 3, PAGE, PAGE & ~2) == "gone"
    assert change(cli, HALF_48, 2, BLOCK, BLOCK | NT) == "nothing"
