# SPDX-License-Identifier: GPL-2.0-only
"""What a TLBI removes, against a reading of the Arm ARM in Python, and against what Linux issues.

Addresses are signed here, as the architecture's two halves are: TTBR1's are below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from plugin_tools import Talk, run
from test_decode import EL1, EL2, EL3, by_name, sys_word
from test_walk import Half, bits

ALL_64 = (1 << 64) - 1
LEVEL_ANY = 4
EL1_TABLES = [*EL1, "alle1", "alle1is", "alle1os", "vmalls12e1", "vmalls12e1is", "vmalls12e1os"]


@pytest.fixture(scope="module")
def words(build: Callable[[str], Path]) -> dict[str, int]:
    """Every form's word. That the decoder names them right is tested elsewhere."""
    every = [
        sys_word(op1, crn, crm, op2, 1)
        for op1 in range(8)
        for crn in (8, 9)
        for crm in range(16)
        for op2 in range(8)
    ]  # fmt: skip
    said = run(build("decode-cli"), text="".join(f"{w:x} 0\n" for w in every)).splitlines()
    return {s.split()[1]: w for w, s in zip(every, said, strict=True) if s.startswith("tlbi")}


@pytest.fixture(scope="module")
def cli(build: Callable[[str], Path]) -> Iterator[Talk]:
    talk = Talk(build("scope-cli"))
    yield talk
    talk.close()


@dataclass(frozen=True)
class Machine:
    """What TCR_EL1 says of both halves; None: that half is not translated, or not known."""

    lower: int | None
    upper: int | None
    ds: bool

    def tcr(self) -> int:
        low = Half(self.lower or 12, 48, ds=self.ds).tcr()
        high = Half(self.upper or 12, 48, True, ds=self.ds).tcr()
        return (low & 0xFFFF) | (high & 0xFFFF0000) | (low & ~0xFFFFFFFF)

    def units_of_64k(self) -> bool:
        """DS is about 4 and 16 KiB; where only 64 KiB is used it makes no difference."""
        return self.ds and any(granule in (12, 14) for granule in (self.lower, self.upper))


@dataclass(frozen=True)
class Entry:
    va: int
    size: int
    asid: int
    is_global: bool
    table: bool
    level: int


@dataclass(frozen=True)
class Named:
    """What an operand names: addresses [first, end), a level, and whether any of it is sure."""

    first: int
    end: int
    level: int
    sure: bool


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def level_size(granule: int, level: int) -> int:
    """8 bytes a descriptor, a page of them a table: each level up covers that many times more."""
    size = 1 << granule
    for _ in range(3 - level):
        size *= (1 << granule) // 8
    return size


GRANULE = {1: 12, 2: 14, 3: 16}


def named_by_address(operand: int, machine: Machine) -> Named:
    """TLBI VAE1IS and its kind: VA[55:12] in bits 43:0, TTL in 47:44."""
    va = signed((operand & bits(43, 0)) << 12, 56)
    granule = machine.lower if va >= 0 else machine.upper
    ttl = operand >> 44 & 15
    size = 1 << (granule or 12)
    first = va // size * size  # a larger granule ignores the lowest bits
    # "No information supplied"; "Reserved. Treat as if TTL<3:2> is 0b00."
    if ttl < 4 or ttl in (0b1000, 0b1100):
        return Named(first, first + size, LEVEL_ANY, True)
    # "If an incorrect value of the TTL field is specified, ... no entries are required ... to be invalidated"
    return Named(first, first + size, ttl & 3, granule in (None, GRANULE[ttl >> 2]))


def named_by_range(operand: int, machine: Machine) -> Named:
    """TLBI RVAE1IS and its kind: [BaseADDR, BaseADDR + ((NUM + 1) * 2^(5 * SCALE + 1) * Translation_Granule_Size)."""
    base, ttl, num, scale, tg = (
        operand >> low & bits(n - 1, 0) for low, n in ((0, 37), (37, 2), (39, 5), (44, 2), (46, 2))
    )
    base = signed(base, 37)
    granule = machine.lower if base >= 0 else machine.upper
    # "If the translations used a different translation granule size than the one being specified, then the
    # architecture does not require that the instruction invalidates any entries."
    sure = tg != 0 and granule in (None, GRANULE[tg])
    granule = granule or GRANULE.get(tg, 12)
    first = base * (65536 if machine.units_of_64k() else 1 << granule)
    end = first + (num + 1) * 2 ** (5 * scale + 1) * 2**granule
    if first < 0:
        end = min(end, 0)
    # "The range of addresses invalidated is UNPREDICTABLE when: ... TTL==10 and BaseADDR[20:12] is not equal to 0"
    if ttl and first % level_size(granule, ttl):
        sure = False
    return Named(first, end, ttl or LEVEL_ANY, sure)


def covers(name: str, operand: int, machine: Machine, entry: Entry) -> str:
    """Is the entry one of those that the manual says are invalidated?"""
    _, what, _, last, is_range, _ = by_name(name)
    if what == "all":
        return "yes"
    if what == "asid":  # non-global entries that match the ASID; tables, which match it
        return "yes" if not entry.is_global and entry.asid == operand >> 48 else "asid"
    named = (named_by_range if is_range else named_by_address)(operand, machine)
    if not (named.first <= entry.va < named.end or entry.va <= named.first < entry.va + entry.size):
        return "va"
    # "from a level of lookup above the final level and matches the specified ASID; a global entry from the final
    # level of lookup; a non-global entry from the final level of lookup that matches the specified ASID"
    if what == "va":
        if entry.table:
            match = not entry.is_global and entry.asid == operand >> 48
        else:
            match = entry.is_global or entry.asid == operand >> 48
        if not match:
            return "asid"
    if not named.sure:
        return "nothing"
    if last and entry.table:
        return "last"
    # TTL "indicates the level of the translation table walk that holds the leaf entry"; ranges: entries "from any
    # level of the translation table walk up to the level indicated in the TTL hint"
    if named.level != LEVEL_ANY and entry.level not in (range(-1, named.level) if entry.table else [named.level]):
        return "level"
    return "yes"


MACHINES = st.builds(
    Machine, st.sampled_from([12, 14, 16, None]), st.sampled_from([12, 14, 16, None]), st.booleans()
) | st.builds(lambda granule, ds: Machine(granule, granule, ds), st.sampled_from([12, 14, 16]), st.booleans())


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, int, Machine, Entry]:
    """A TLBI, and an entry that it names, or nearly."""
    name = draw(st.sampled_from(EL1_TABLES))
    machine = draw(MACHINES)
    _, _, _, _, is_range, _ = by_name(name)
    asid = draw(st.sampled_from([0, 1, 2, 0x8000, 0xFFFF]))
    granule = draw(st.sampled_from([machine.lower or 12, machine.upper or 12, 12, 14, 16]))
    tg = (granule - 10) // 2 if draw(st.integers(0, 7)) else draw(st.integers(0, 3))
    near_end = st.integers(0, 3) | st.integers(1, 40).map(lambda n: (1 << 37) - n)
    aligned = st.integers(0, 12).map(lambda n: n << 9 | (n & 1) << 36)
    if is_range:
        base = draw(near_end | aligned | st.integers(0, (1 << 37) - 1))
        num, scale = draw(st.integers(0, 31)), draw(st.integers(0, 3))
        ttl = draw(st.sampled_from([0, 0, 1, 2, 3]))
        operand = asid << 48 | tg << 46 | scale << 44 | num << 39 | ttl << 37 | base
        named = named_by_range(operand, machine)
    else:
        top = st.integers(1, 40).map(lambda n: (1 << 44) - n)
        page = draw(st.integers(0, 40) | top | st.integers(0, (1 << 44) - 1))
        ttl = tg << 2 | draw(st.integers(0, 3)) if draw(st.booleans()) else 0
        operand = asid << 48 | ttl << 44 | page
        named = named_by_address(operand, machine)
    used = (machine.lower if named.first >= 0 else machine.upper) or granule
    level = draw(st.integers(0 if used != 12 else -1, 3))
    size = level_size(used, level)
    near = draw(
        st.sampled_from([named.first - 1, named.first, named.end - 1, named.end, (named.first + named.end) // 2])
    )
    va = near // size * size
    if not -(1 << 55) <= va < 1 << 55 or (near < 0) != (va < 0):
        va = 0
    entry = Entry(va, size, draw(st.sampled_from([asid, asid, 1])), draw(st.booleans()), draw(st.booleans()), level)
    return name, operand, machine, entry


def ask(cli: Talk, word: int, operand: int, machine: Machine, entry: Entry | None = None) -> list[str]:
    numbers = [word, operand, machine.tcr(), machine.lower is not None, machine.upper is not None]
    if entry:
        numbers += [entry.va & ALL_64, entry.size, entry.asid, entry.is_global, entry.table, entry.level]
    return cli.ask(*numbers)


@settings(max_examples=6000, deadline=None)
@given(case=cases())
def test_scope(cli: Talk, words: dict[str, int], case: tuple[str, int, Machine, Entry]) -> None:
    name, operand, machine, entry = case
    domain, what, _, last, is_range, _ = by_name(name)
    local, any_asid, asid, every_va, upper, first, end, leaves, level, nothing, cover = ask(
        cli, words[name], operand, machine, entry
    )
    assert local == str(int(domain == "local"))
    assert any_asid == str(int(what in ("all", "vaa")))
    assert every_va == str(int(what in ("all", "asid")))
    assert leaves == str(int(last))
    if what in ("asid", "va"):
        assert int(asid) == operand >> 48
    if what in ("va", "vaa"):
        named = (named_by_range if is_range else named_by_address)(operand, machine)
        assert (int(first, 16), int(end, 16)) == (named.first & ALL_64, named.end & ALL_64)
        assert (int(upper), int(level), int(nothing)) == (named.first < 0, named.level, not named.sure)
    want = covers(name, operand, machine, entry)
    event(want)
    assert cover == want


def test_scopes_and_other_regimes(cli: Talk, words: dict[str, int]) -> None:
    """nXS forms reach what the others do; those of other regimes and of stage 2 nothing of EL1&0."""
    machine = Machine(12, 12, False)
    for name, word in words.items():
        said = ask(cli, word, 0x0005_0000_0000_1234, machine)
        bare = name.removesuffix("nxs")
        if bare in EL1_TABLES:
            assert said == ask(cli, words[bare], 0x0005_0000_0000_1234, machine)
            assert said[0] == str(int(not bare.endswith(("is", "os")))), name
        else:
            assert said == ["none"], name
            assert bare not in EL1 and (bare in EL2 + EL3 or bare.startswith(("pa", "rpa")))


KNOWN = [
    # by hand. name, operand, granules, DS: start, end, level, nothing
    ("vale1is", 0x0012_0000_0000_0401, 12, 0, 0x40_1000, 0x40_2000, 4, 0),
    ("vale1is", 0x0012_7000_0000_0401, 12, 0, 0x40_1000, 0x40_2000, 3, 0),
    ("vale1is", 0x0012_6000_0000_0400, 12, 0, 0x40_0000, 0x40_1000, 2, 0),
    ("vale1is", 0x0012_B000_0000_0400, 12, 0, 0x40_0000, 0x40_1000, 3, 1),  # TTL of 16 KiB
    ("vale1is", 0x0012_3000_0000_0400, 12, 0, 0x40_0000, 0x40_1000, 4, 0),  # 0b00xx
    ("vae1is", 0x0012_4000_0000_0400, 12, 1, 0x40_0000, 0x40_1000, 0, 0),  # level 0 with LPA2
    ("vae1is", 0x0012_8000_0000_0400, 14, 0, 0x40_0000, 0x40_4000, 4, 0),  # reserved
    ("vae1is", 0x0012_C000_0000_0407, 16, 0, 0x40_0000, 0x41_0000, 4, 0),  # reserved; low bits ignored
    ("vaale1is", 0x0000_0FFF_8000_8001, 12, 0, 0xFFFF_F800_0800_1000, 0xFFFF_F800_0800_2000, 4, 0),
    ("vaae1", 0x0000_0FFF_FFFF_FFFF, 12, 0, 0xFFFF_FFFF_FFFF_F000, 0, 4, 0),
    # BaseADDR 0x401 pages, NUM 0, SCALE 0: two pages
    ("rvale1is", 0x0012_4000_0000_0401, 12, 0, 0x40_1000, 0x40_3000, 4, 0),
    # NUM 3, SCALE 1: 4 << 6 pages; TTL 3
    ("rvale1is", 0x0012_5000_0000_0401 | 3 << 39 | 3 << 37, 12, 0, 0x40_1000, 0x50_1000, 3, 0),
    # units of 64 KiB; the count is still in pages
    ("rvale1is", 0x0012_5000_0000_0401 | 3 << 39, 12, 1, 0x401_0000, 0x411_0000, 4, 0),
    ("rvale1is", 0x0012_9000_0000_0401 | 3 << 39, 14, 1, 0x401_0000, 0x441_0000, 4, 0),
    ("rvale1is", 0x0012_D000_0000_0401 | 3 << 39, 16, 0, 0x401_0000, 0x501_0000, 4, 0),
    # TTL 2 at an address that no block of 2 MiB has
    ("rvae1is", 0x0012_5000_0000_0400 | 2 << 37, 12, 0, 0x40_0000, 0x44_0000, 2, 0),
    ("rvae1is", 0x0012_5000_0000_0401 | 2 << 37, 12, 0, 0x40_1000, 0x44_1000, 2, 1),
    # TG reserved, and of 64 KiB
    ("rvae1is", 0x0012_1000_0000_0400, 12, 0, 0x40_0000, 0x44_0000, 4, 1),
    ("rvae1is", 0x0012_D000_0000_0400, 12, 0, 0x40_0000, 0x44_0000, 4, 1),
    # the kernel's half, up to its end and beyond
    ("rvaae1is", 0x0000_401F_FFFF_FFFE, 12, 0, 0xFFFF_FFFF_FFFF_E000, 0, 4, 0),
    ("rvaae1is", 0x0000_701F_FFFF_FFFE, 12, 0, 0xFFFF_FFFF_FFFF_E000, 0, 4, 0),
    ("rvaae1is", 0x0000_4010_0000_0000, 12, 0, 0xFFFF_0000_0000_0000, 0xFFFF_0000_0000_2000, 4, 0),
    ("rvaae1is", 0x0000_4010_0000_0000, 12, 1, 0xFFF0_0000_0000_0000, 0xFFF0_0000_0000_2000, 4, 0),
]


@pytest.mark.parametrize(("name", "operand", "granule", "ds", "start", "end", "level", "nothing"), KNOWN)
def test_known_operands(
    cli: Talk, words: dict[str, int], name: str, operand: int, granule: int, ds: int,
    start: int, end: int, level: int, nothing: int,
) -> None:  # fmt: skip
    said = ask(cli, words[name], operand, Machine(granule, granule, bool(ds)))
    assert (said[5], said[6], said[8], said[9]) == (f"{start:x}", f"{end:x}", str(level), str(nothing))


# What Linux issues. From arch/arm64/include/asm/tlbflush.h (6.12), macro by macro.


def tlbi_vaddr(addr: int, asid: int) -> int:
    return (addr & ALL_64) >> 12 & bits(43, 0) | asid << 48


def tlbi_level(operand: int, level: int | None, tg: int) -> int:
    if level is None or not 0 <= level <= 3:
        return operand
    return operand & ~bits(47, 44) | (level & 3 | tg << 2) << 44


def tlbi_vaddr_range(baddr: int, asid: int, scale: int, num: int, level: int | None, tg: int) -> int:
    ttl = level if level is not None and 1 <= level <= 3 else 0
    return baddr & bits(36, 0) | ttl << 37 | num << 39 | scale << 44 | tg << 46 | asid << 48


def range_pages(num: int, scale: int) -> int:
    return (num + 1) << (5 * scale + 1)


def range_num(pages: int, scale: int) -> int:
    return (min(pages, range_pages(31, scale)) >> (5 * scale + 1)) - 1


MAX_RANGE_PAGES = range_pages(31, 3)


def flush_tlb_range_op(
    op: str,
    start: int,
    pages: int,
    stride: int,
    asid: int,
    level: int | None,
    page_shift: int,
    lpa2: bool,
    ranges: bool,
) -> list[tuple[str, int]]:
    """__flush_tlb_range_op(): the TLBIs it issues, and their operands."""
    issued = []
    tg = (page_shift - 10) // 2
    scale = 3
    while pages > 0:
        if not ranges or pages == 1 or (lpa2 and start % 65536):
            issued.append((op, tlbi_level(tlbi_vaddr(start, asid), level, tg)))
            start += stride
            pages -= stride >> page_shift
            continue
        num = range_num(pages, scale)
        if num >= 0:
            base = (start & ALL_64) >> (16 if lpa2 else page_shift)
            issued.append(("r" + op, tlbi_vaddr_range(base, asid, scale, num, level, tg)))
            start += range_pages(num, scale) << page_shift
            pages -= range_pages(num, scale)
        scale -= 1
    return issued


@st.composite
def flushes(draw: st.DrawFn) -> tuple[int, bool, bool, int, int, int, int]:
    """page shift, LPA2, range TLBIs, level of the leaves, start, number of leaves, ASID."""
    shift = draw(st.sampled_from([12, 14, 16]))
    lpa2 = shift != 16 and draw(st.booleans())
    ranges = draw(st.booleans())
    level = draw(st.sampled_from([3, 3, 3, 2] + ([1] if shift == 12 else [])))
    stride = level_size(shift, level)
    most = 40 if not ranges else (MAX_RANGE_PAGES << shift) // stride - 1
    count = draw(st.integers(1, min(most, 70)) | st.integers(1, most))
    wide = 52 if lpa2 or shift == 16 else 48
    upper = draw(st.booleans())
    low, high = (-(1 << wide), 0) if upper else (0, 1 << wide)
    last = (high - low) // stride - count
    where = draw(st.integers(0, last) | st.sampled_from([0, last]))
    return shift, lpa2, ranges, level, low + where * stride, count, draw(st.integers(0, 65535))


@settings(max_examples=1500, deadline=None)
@given(made=flushes(), hinted=st.booleans(), op=st.sampled_from(["vale1is", "vae1is", "vaale1is"]))
def test_linux_flushes_what_it_is_asked_to(
    cli: Talk,
    words: dict[str, int],
    made: tuple[int, bool, bool, int, int, int, int],
    hinted: bool,
    op: str,
) -> None:
    """Every leaf of the range goes, and by ranges exactly the range: no byte is left, named twice, or too many."""
    shift, lpa2, ranges, level, start, count, asid = made
    stride = level_size(shift, level)
    machine = Machine(shift, shift, lpa2)
    issued = flush_tlb_range_op(
        op, start, count * stride >> shift, stride, asid, level if hinted else None, shift, lpa2, ranges
    )
    end = start + count * stride
    spans = []
    for name, operand in issued:
        said = ask(cli, words[name], operand, machine)
        assert said[9] == "0", f"{name} {operand:#x} may remove nothing"
        first = signed(int(said[5], 16), 64)
        after = int(said[6], 16)
        spans.append((first, signed(after, 64) if after else 0))
    event("ranges" if any(name.startswith("r") for name, _ in issued) else "single")
    if stride == 1 << shift or ranges:
        spans.sort()
        assert spans[0][0] == start and spans[-1][1] == end
        assert all(a[1] == b[0] for a, b in pairwise(spans))

    def gone(va: int) -> bool:
        entry = Entry(va, stride, asid, False, False, level)
        return any(ask(cli, words[name], operand, machine, entry)[-1] == "yes" for name, operand in issued)

    for index in {0, count - 1, count // 2, count // 3}:
        assert gone(start + index * stride)
    assert not gone(start - stride) and not gone(end)
