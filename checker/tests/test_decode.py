# SPDX-License-Identifier: GPL-2.0-only
"""The decoder against the assembler, the disassembler and the rules of the names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_tools import HERE, run

# Every TLBI of the Arm ARM without nXS, as C5.5 lists them. An address form may be last-level
# ("l"), a range ("r"), and reach further than this CPU ("is", "os").
DOMAINS = ("", "is", "os")


def forms(el: int, whole: list[str], addresses: list[str], ranges: list[str]) -> list[str]:
    """All there are of one regime: whole ones, and addresses with "l", "r" or both."""
    stems = whole + [f"{a}{last}" for a in addresses + ["r" + r for r in ranges] for last in ("", "l")]
    return [f"{stem}e{el}{domain}" for stem in stems for domain in DOMAINS]


EL1 = forms(1, ["vmall", "asid"], ["va", "vaa"], ["va", "vaa"])
EL2 = forms(2, ["all"], ["va"], ["va"]) + forms(1, ["all", "vmalls12"], ["ipas2"], ["ipas2"])
EL3 = forms(3, ["all"], ["va"], ["va"])
RME = ["paall", "paallos", "rpaos", "rpalos"]
TLBI = EL1 + EL2 + EL3 + RME
DSB = ["oshld", "oshst", "osh", "nshld", "nshst", "nsh", "ishld", "ishst", "ish", "ld", "st", "sy"]
DSB_NXS = ["oshnxs", "nshnxs", "ishnxs", "synxs"]

Decode = Callable[[list[int]], list[str]]


@pytest.fixture(scope="session")
def decode(build: Callable[[str], Path]) -> Decode:
    """Words in, one line of decode-cli for each."""
    cli = build("decode-cli")

    def ask(words: list[int], operand: int = 0) -> list[str]:
        lines = run(cli, text="".join(f"{w:x} {operand:x}\n" for w in words)).splitlines()
        assert len(lines) == len(words)
        return lines

    return ask


def sys_word(op1: int, crn: int, crm: int, op2: int, rt: int = 31) -> int:
    return 0xD5080000 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5 | rt


def nxs_words() -> dict[str, int]:
    """name -> word, from the kernel's table."""
    words = {}
    for line in (HERE / "tlbi-nxs.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, _op0, *fields = line.split()
            words[name] = sys_word(*map(int, fields))
    return words


def assemble(cross: str, tmp: Path, lines: list[str]) -> list[int]:
    source, obj, raw = tmp / "a.s", tmp / "a.o", tmp / "a.bin"
    source.write_text(".arch armv9.3-a\n" + "\n".join(lines) + "\n")
    run(cross + "as", source, "-o", obj)
    run(cross + "objcopy", "-O", "binary", "-j", ".text", obj, raw)
    data = raw.read_bytes()
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def disassemble(cross: str, tmp: Path, words: list[int]) -> list[str]:
    """The disassembler's text of each word."""
    raw = tmp / "d.bin"
    raw.write_bytes(b"".join(w.to_bytes(4, "little") for w in words))
    out = run(cross + "objdump", "-D", "-z", "-b", "binary", "-m", "aarch64", raw)
    found = re.findall(r"^\s*[0-9a-f]+:\s+[0-9a-f]{8} \t(.*)$", out, re.M)
    assert len(found) == len(words)
    return [re.sub(r"\s+", " ", line.split("//")[0]).strip() for line in found]


def by_name(name: str) -> tuple[str, str, int, int, int, int]:
    """Scope, what, EL, last, range, nXS: all of it is in the name."""
    nxs = name.endswith("nxs")
    bare = name.removesuffix("nxs")
    domain = bare[-2:] if bare.endswith(("is", "os")) else "local"
    if bare in RME:
        rest = bare.removesuffix("os")
        return (
            domain,
            "pa" if rest.startswith("rpa") else "all",
            3,
            rest == "rpal",
            rest[0] == "r",
            nxs,
        )
    m = re.fullmatch(r"(r?)(vmall|vmalls12|all|asid|vaa|va|ipas2)(l?)e([123])(is|os)?", bare)
    assert m, name
    what = {"vmall": "all", "vmalls12": "all", "ipas2": "ipa"}.get(m[2], m[2])
    return domain, what, int(m[4]), bool(m[3]), bool(m[1]), nxs


def expected(name: str, rt: int) -> str:
    domain, what, el, last, rng, nxs = by_name(name)
    return f"tlbi {name} {domain} {what} {el} {last:d} {rng:d} {nxs:d} {rt}"


def test_assembled_tlbi(cross: str, tmp_path: Path, decode: Decode) -> None:
    """Every operation the assembler knows, by its name. (It knows RME's only when it reads.)"""
    names = EL1 + EL2 + EL3
    lines = [f"tlbi {n}" + ("" if by_name(n)[1] == "all" else ", x7") for n in names]
    rt = [31 if by_name(n)[1] == "all" else 7 for n in names]
    got = decode(assemble(cross, tmp_path, lines))
    assert [" ".join(g.split()[:9]) for g in got] == [expected(n, r) for n, r in zip(names, rt, strict=True)]
    assert len(set(names)) == 78


def test_nxs_tlbi(decode: Decode) -> None:
    """The assembler of Debian 12 has no nXS operations; the kernel's table has EL1's and EL2's."""
    words = nxs_words()
    assert set(words) == {n + "nxs" for n in EL1 + EL2}
    got = decode(list(words.values()))
    assert [" ".join(g.split()[:9]) for g in got] == [expected(n, 31) for n in words]


def test_assembler_knows_nxs(cross: str, tmp_path: Path, decode: Decode) -> None:
    """Where the assembler does know them, it is asked, EL3's too."""
    names = [n + "nxs" for n in EL1 + EL2 + EL3]
    try:
        words = assemble(cross, tmp_path, [f"tlbi {n}, x7" for n in names if "all" not in n])
    except AssertionError:
        pytest.skip(f"this assembler does not know {len(names)} nXS forms; tlbi-nxs.txt does 63")
    got = decode(words)
    assert [g.split()[1] for g in got] == [n for n in names if "all" not in n]


def test_assembled_dsb(cross: str, tmp_path: Path, decode: Decode) -> None:
    names = DSB + DSB_NXS
    assert decode(assemble(cross, tmp_path, [f"dsb {n}" for n in names])) == [f"dsb {n}" for n in names]


def test_markers_and_sgi(cross: str, tmp_path: Path, decode: Decode) -> None:
    words = assemble(
        cross,
        tmp_path,
        ["hint #112", "hint #113", "msr icc_sgi1r_el1, x9", "msr icc_sgi1r_el1, xzr"],
    )
    assert words[:2] == [0xD5032E1F, 0xD5032E3F]
    assert decode(words) == ["open", "close", "sgi 9", "sgi 31"]


def test_lab_markers(cross: str, tmp_path: Path, decode: Decode) -> None:
    """And no other hint."""
    words = assemble(cross, tmp_path, [f"hint #{n}" for n in range(112, 128)])
    marks = {114: "free", 115: "dead", 116: "kernel-pte", 119: "loaded", 120: "collected", 121: "program"}
    assert decode(words)[2:] == [f"mark {marks[n]}" if n in marks else "other leaves" for n in range(114, 128)]


def test_context_synchronisation(cross: str, tmp_path: Path, decode: Decode) -> None:
    """ISB in all its forms, and the three returns from an exception; not RET, DRPS or SB."""
    lines = [*(f"isb #{n}" for n in range(16)), "eret", "eretaa", "eretab"]
    assert decode(assemble(cross, tmp_path, lines)) == ["sync"] * 19
    assert decode(assemble(cross, tmp_path, ["ret", "retaa", "drps", "sb"])) == ["other leaves"] * 4


def test_instruction_caches(cross: str, tmp_path: Path, decode: Decode) -> None:
    """What is broadcast to instruction caches, whatever its operand; not what stays on its CPU."""
    assert decode(assemble(cross, tmp_path, ["ic ivau, x0", "ic ivau, xzr", "ic ialluis"])) == ["ic"] * 3
    assert "ic" not in decode(assemble(cross, tmp_path, ["ic iallu", "dc cvau, x0", "dc ivac, x0"]))


def test_calls_of_firmware(cross: str, tmp_path: Path, decode: Decode) -> None:
    """Whatever their immediate; and no other instruction of that row."""
    lines = [f"{name} #{n}" for name in ("hvc", "smc", "svc", "brk", "hlt", "dcps1", "dcps2") for n in (0, 1, 0xFFFF)]
    assert decode(assemble(cross, tmp_path, lines)) == ["call"] * 6 + ["other leaves"] * 15


REGISTERS = {
    "ttbr0_el1": "ttbr0",
    "ttbr1_el1": "ttbr1",
    "tcr_el1": "tcr",
    "sctlr_el1": "sctlr",
    "mair_el1": "mair",
    "vbar_el1": "vbar",
    "sp_el0": "sp_el0",
    "hcr_el2": "hcr",
    "vtcr_el2": "vtcr",
    "vttbr_el2": "vttbr",
    "vmpidr_el2": "vmpidr",
}


def test_whole_msr_space(cross: str, tmp_path: Path, decode: Decode) -> None:
    """All of MSR (register) and MRS: those that REGISTERS names, written, and no others."""
    words = [0xD5100000 | l_bit << 21 | x << 5 | 3 for l_bit in (0, 1) for x in range(1 << 15)]
    seen = set()
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        name = text.split()[1].rstrip(",") if text.startswith("msr") else ""
        if name in REGISTERS:
            assert got == f"msr {REGISTERS[name]} 3", f"{word:#x} {text}"
            seen.add(name)
        elif name == "icc_sgi1r_el1":
            assert got == "sgi 3"
        else:
            assert got == "other leaves", f"{word:#x} {text}"
    assert seen == set(REGISTERS)


def test_unprivileged(cross: str, tmp_path: Path, decode: Decode) -> None:
    """LDTR and STTR in all their forms, as the disassembler names them; nothing else of the loads and stores."""
    rng = random.Random(3)
    row = [
        0x38000800 | s << 30 | o << 22 | rng.getrandbits(9) << 12 | rng.getrandbits(10)
        for s in range(4)
        for o in range(4)
    ]
    words = row * 8 + [w | 1 << 26 for w in row] + [w | 1 << 21 for w in row]
    words += [w ^ 1 << bit for w in row for bit in range(32)]
    words += [0x08000000 | (rng.getrandbits(32) & ~0x0A000000) for _ in range(100000)]  # op0 x1x0
    found = set()
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        mnemonic = text.split()[0]
        unprivileged = re.fullmatch(r"(ldtr|sttr)(s?[bhw])?", mnemonic) is not None
        assert (" unprivileged" in got) == unprivileged, f"{word:#x} {text} {got}"
        if unprivileged:
            found.add((mnemonic, text.split()[1][0]))
    names = "sttrb.w ldtrb.w ldtrsb.x ldtrsb.w sttrh.w ldtrh.w ldtrsh.x ldtrsh.w sttr.w ldtr.w ldtrsw.x sttr.x ldtr.x"
    assert found == {tuple(name.split(".")) for name in names.split()}


ATOMIC = re.compile(r"(casp?|swp|(ld|st)(add|clr|eor|set|[su](max|min)))(a?l?[bh]?)|stl?x(r[bh]?|p)")


def test_atomic(cross: str, tmp_path: Path, decode: Decode) -> None:
    """Read-modify-writes in all their forms, as the disassembler names them; nothing else of the loads and stores."""
    rng = random.Random(5)
    rows = [0x08000000 | s << 30 | o << 21 | r << 15 for s in range(4) for o in range(8) for r in (0, 1)]
    rows = [row | rt2 << 10 for row in rows for rt2 in (31, 31, rng.getrandbits(5))]
    rows += [0x38200000 | s << 30 | ar << 22 | o << 12 for s in range(4) for ar in range(4) for o in range(16)]
    words = [row | rng.getrandbits(5) << 16 | rng.getrandbits(10) for row in rows * 4]
    words += [w ^ 1 << bit for w in words[: len(rows)] for bit in range(32)]
    words += [0x08000000 | (rng.getrandbits(32) & ~0x02000000) for _ in range(100000)]  # op0 x1x0
    found = set()
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        mnemonic = text.split()[0]
        atomic = ATOMIC.fullmatch(mnemonic) is not None
        # CASP wants even registers; the disassembler looks, and says so with what it names it
        if not (got.endswith(" atomic") and mnemonic in (".inst", "undefined") and word & 0xBFA07C00 == 0x08207C00):
            assert got.endswith(" atomic") == atomic, f"{word:#x} {text} {got}"
        if atomic:
            found.add(mnemonic)
    sized = [
        f"{name}{order}{size}" for name in ("cas", "swp") for order in ("", "a", "l", "al") for size in ("", "b", "h")
    ]
    assert found >= {*sized, "casp", "caspa", "caspl", "caspal", "stxr", "stlxr", "stxrb", "stlxrh", "stxp", "stlxp"}
    operations = ("add", "clr", "eor", "set", "smax", "smin", "umax", "umin")
    assert found >= {f"ld{o}{m}{s}" for o in operations for m in ("", "a", "l", "al") for s in ("", "b", "h")}


def test_whole_sys_space(cross: str, tmp_path: Path, decode: Decode) -> None:
    """All of SYS and SYSL, C8 and C9: TLBI where the disassembler, or the kernel, says so only."""
    fields = [
        (l_bit, op1, crn, crm, op2)
        for l_bit in (0, 1)
        for op1 in range(8)
        for crn in (8, 9)
        for crm in range(16)
        for op2 in range(8)
    ]
    words = [sys_word(*f[1:], rt=3) | f[0] << 21 for f in fields]
    names = {w | 28: n for n, w in nxs_words().items()}  # Rt 31
    # EL3's nXS forms are in no table at hand; what all the others have in common is CRn + 1
    el3 = {
        w | 28: t.split()[1].rstrip(",") + "nxs"
        for w, t in ((w | 1 << 12, t) for w, t in zip(words, disassemble(cross, tmp_path, words), strict=True))
        if t.startswith("tlbi") and "e3" in t
    }
    assert len(el3) == 15
    seen = set()
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        name = text.split()[1].rstrip(",") if text.startswith("tlbi") else None
        name = name or names.get(word | 28) or el3.get(word | 28)
        if name:
            assert got.split()[:2] == ["tlbi", name], f"{word:#x} {text}"
            seen.add(name)
        else:
            assert got == "other leaves", f"{word:#x} {text}"
    assert seen == set(TLBI) | {n + "nxs" for n in EL1 + EL2 + EL3}


def test_whole_barrier_and_hint_space(cross: str, tmp_path: Path, decode: Decode) -> None:
    """Every word 0xd503xxxx with Rt 31, and a few Rt more: DSB and markers only where they are."""
    words = [0xD5030000 | x << 5 | rt for x in range(1 << 11) for rt in (0, 30, 31)]
    count = 0
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        if text.startswith("dsb"):
            # CRm 8 and 12 are reserved and executed as SY (the disassembler prints the number)
            kind = {"#0x08": "sy", "#0x0c": "sy"}.get(text.split()[1], text.split()[1])
            assert got == f"dsb {kind}", f"{word:#x} {text}"
            count += 1
        elif text in ("hint #0x70", "hint #0x71"):
            assert got == ("open" if text.endswith("0") else "close")
            count += 1
        elif text in ("hint #0x72", "hint #0x73", "hint #0x74", "hint #0x77", "hint #0x78", "hint #0x79"):
            assert got.startswith("mark ")
            count += 1
        elif text.startswith("isb"):
            assert got == "sync", f"{word:#x} {text}"
            count += 1
        else:
            assert got == "other leaves", f"{word:#x} {text}"
    assert count == len(DSB) + 2 + len(DSB_NXS) + 8 + 16


def test_no_other_system_word(cross: str, tmp_path: Path, decode: Decode) -> None:
    """A sample of all words of the system group, and of all words there are."""
    rng = random.Random(1)
    words = [0xD5000000 | rng.getrandbits(22) for _ in range(60000)]
    words += [rng.getrandbits(32) for _ in range(60000)]
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        kind = got.split()[0]
        if text.startswith("tlbi"):
            assert kind == "tlbi", f"{word:#x} {text}"
        elif text.startswith("dsb"):
            assert kind == "dsb", f"{word:#x} {text}"
        elif text.startswith("msr icc_sgi1r_el1"):
            assert kind == "sgi", f"{word:#x} {text}"
        elif text.startswith("msr") and text.split()[1].rstrip(",") in REGISTERS:
            assert kind == "msr", f"{word:#x} {text}"
        elif text.startswith(("hvc", "smc")):
            assert kind == "call", f"{word:#x} {text}"
        elif text.startswith(("isb", "eret")):
            assert kind == "sync", f"{word:#x} {text}"
        elif text.split()[:2] in (["ic", "ivau,"], ["ic", "ialluis"]):
            assert kind == "ic", f"{word:#x} {text}"
        elif kind != "other":
            assert kind == "tlbi" and "nxs" in got, f"{word:#x} {text} {got}"


# What may leave a block in the middle: all that touches memory, traps or branches.
LEAVES = re.compile(
    r"(ld|st|prf|cas|swp|cpy|set[pmge]|gc|dc|ic|at|tlbi|sys|mrs|msr|svc|hvc|smc|brk|hlt|dcps|udf"
    r"|b$|b\.|bc\.|bl|br|ret|eret|cb|tb[nz]|hint|nop|yield|wf|sev|dsb|dmb|isb|sb$|ssbb|pssbb|esb"
    r"|psb|tsb|csdb|clrex|cfp|cpp|dvp|brb|chkfeat|bti|aut|pac|xpac|rprfm|tstart|tcommit|ttest"
    r"|tcancel|smstart|smstop|undefined|\.inst)"
)


def test_may_leave_block(cross: str, tmp_path: Path, decode: Decode) -> None:
    """Nothing the disassembler names as one of LEAVES may be taken for harmless."""
    rng = random.Random(2)
    words = [rng.getrandbits(32) for _ in range(150000)]
    words += [0xDAC10000 | rng.getrandbits(16) for _ in range(2000)]  # pointer authentication
    stays = 0
    for word, text, got in zip(words, disassemble(cross, tmp_path, words), decode(words), strict=True):
        if got != "other stays":
            continue
        stays += 1
        mnemonic = text.split()[0]
        # an unallocated word raises an exception, always: it ends its block
        assert mnemonic in (".inst", "undefined") or not LEAVES.match(mnemonic), f"{word:#x} {text}"
    assert stays > 50000


OPERANDS = [
    # form, operand, class: VA[55:12] in 43:0, ASID in 63:48
    ("vae1is", 0x0005_0000_0000_1234, "user"),
    ("vae1is", 0x0005_0FFF_FFFF_FFFF, "kernel"),
    ("vae1is", 0x0005_0800_0000_0000, "kernel"),
    ("vae1is", 0xFFFF_F7FF_FFFF_FFFF, "user"),  # all but bit 43, which is VA[55]
    ("vale1", 0x0005_0800_0000_0000, "kernel"),
    ("vale1", 0x0005_0010_0000_0000, "user"),  # bit 36 means nothing here ...
    ("rvae1is", 0x0005_0010_0000_0000, "kernel"),  # ... and is the sign of a range
    ("rvale1os", 0x0005_400F_FFFF_FFFF, "user"),
    ("rvale1", 0x0005_4800_0000_0000, "user"),  # bit 43 of a range is NUM
    ("aside1is", 0x0005_0FFF_FFFF_FFFF, "user"),
    ("vaae1is", 0, "kernel"),
    ("rvaale1is", 0, "kernel"),
    ("vmalle1is", 0, "all"),
    ("alle2", 0, "all"),
    ("vae2is", 0x0800_0000_0000, "other"),
    ("vae3", 0, "other"),
    ("ipas2e1is", 0, "other"),
]


@pytest.mark.parametrize(("name", "operand", "cls"), OPERANDS)
def test_class(name: str, operand: int, cls: str, cross: str, tmp_path: Path, decode: Callable[..., list[str]]) -> None:
    has = by_name(name)[1] != "all"
    words = assemble(cross, tmp_path, [f"tlbi {name}" + (", x1" if has else "")])
    fields = decode(words, operand)[0].split()
    assert fields[9:] == [cls, str(operand >> 48), str(int(has))]
