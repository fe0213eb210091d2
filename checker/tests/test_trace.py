# SPDX-License-Identifier: GPL-2.0-only
"""Traces, good and bad, given to the rules of the checker without QEMU."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import HERE, run

from lull.check import data

KINDS = {f"{rule}/{name}": kind for rule, entry in data.load_rules().items() for name, kind in entry.kinds.items()}
TRACES = sorted((HERE / "traces").glob("*.txt"))

# Traces that the rules do not judge right yet, and why.
OPEN: dict[str, str] = {}


def judge(cli: Path, script: str) -> tuple[list[str], dict[str, Any]]:
    """The findings, as RULE/KIND, and the verdict."""
    lines = [json.loads(line) for line in run(cli, text=script).splitlines()]
    assert lines[0]["plugin"] == "lull" and lines[0]["mode"] == "check"
    return sorted({f"{r['rule']}/{r['kind']}" for r in lines if "report" in r}), lines[-1]


def expected(text: str) -> list[str]:
    """From the last line of a trace."""
    found = re.fullmatch(r"# expect: (.+)", text.splitlines()[-1])
    assert found, "the last line is no `# expect: ...`"
    return [] if found[1] == "nothing" else sorted(found[1].split())


WINDOW = re.compile(
    r"# window (\d+): held (\d+), kept (\d+), over-invalidated (\d+), others (\d+), refills (\d+), unchanged (\d+)"
)


def windows(text: str) -> list[list[int]]:
    """What a trace says of its windows: the number; held, kept, over-invalidated, that of others, refilled."""
    return [[int(word) for word in found] for found in WINDOW.findall(text)]


def totals(line: dict[str, Any]) -> list[int]:
    """The same of a line of the plugin's."""
    names = ("held", "kept", "over_invalidated", "over_invalidated_others", "refills", "refills_unchanged")
    return [line["window"], *(line["total"][f"tlb_{name}"] for name in names)]


def traces() -> list[Any]:
    """Every file; those that fail for a known reason must do so."""
    return [
        pytest.param(
            path,
            id=path.stem,
            marks=[pytest.mark.xfail(strict=True, reason=OPEN[path.stem])] if path.stem in OPEN else [],
        )
        for path in TRACES
    ]


@pytest.mark.parametrize("path", traces())
def test_trace(build: Callable[[str], Path], path: Path) -> None:
    """Exactly what its last line says is found."""
    text = path.read_text()
    want = expected(text)
    assert path.name.startswith("bad_" if want else "good_")
    found, verdict = judge(build("trace-cli"), text)
    assert found == want
    assert (verdict["verdict"] == "reports") == bool(want)
    lines = [json.loads(line) for line in run(build("trace-cli"), text=text).splitlines()]
    assert [totals(line) for line in lines if "window" in line] == windows(text)
    for report in (line for line in lines if "report" in line):
        name = f"{report['rule']}/{report['kind']}"
        said = [
            f"report {report['report']}: {name}: {KINDS[name].says}",
            f"  rule     Arm ARM (DDI 0487) {KINDS[name].manual}",
        ]
        assert report["text"][:2] == said


HIGH = {"0xffff0000": "0xffffff80", "0xffff8000": "0xffffffc0", "0xfffffdff": "0xfffffffe"}
"""How addresses of the kernel begin with 48 bits of address -> with 39."""
LEVELS = {"bad_shared_table", "good_fork_of_two", "good_teardown"}
"""Traces that give levels of tables as numbers."""


def elsewhere(text: str, size: str) -> str:
    """A trace of 48 bits of address with another ``size`` of ``on``. Those that name a size stay as they are."""
    moved = re.sub(r"\bon (\d)(?= *(;|$))", rf"on \1 {size}", text, flags=re.MULTILINE)
    if moved == text or size != "4k39":
        return moved
    return re.sub("|".join(HIGH), lambda found: HIGH[found[0]], moved)


def found_in(cli: Path, texts: Iterable[str]) -> list[list[str]]:
    """The findings of each of several traces, all given to one process."""
    found: list[set[str]] = []
    for line in run(cli, text="".join(f"{text}reset\n" for text in texts)).splitlines():
        said = json.loads(line)
        found += [set()] if "plugin" in said else []
        found[-1] |= {f"{said['rule']}/{said['kind']}"} if "report" in said else set()
    return [sorted(one) for one in found]


@pytest.mark.parametrize(("size", "less"), [("4k39", LEVELS), ("lpa2", LEVELS | {"good_range", "good_guest_range"})])
def test_traces_with_other_sizes(build: Callable[[str], Path], size: str, less: set[str]) -> None:
    """With 39 and 52 bits of address the same is found. With LPA2 a TLBI's range begins at a multiple of 64 KiB."""
    texts = {path.stem: path.read_text() for path in TRACES if path.stem not in less}
    moved = {name: text for name, old in texts.items() if (text := elsewhere(old, size)) != old}
    assert len(moved) > 300
    found = found_in(build("trace-cli"), moved.values())
    assert dict(zip(moved, found, strict=True)) == {name: expected(text) for name, text in moved.items()}


SIZES = {
    "4k39": (12, 39),
    "4k48": (12, 48),
    "lpa2": (12, 52),
    "16k36": (14, 36),
    "16k47": (14, 47),
    "16k48": (14, 48),
    "16k52": (14, 52),
    "64k42": (16, 42),
    "64k48": (16, 48),
    "64k52": (16, 52),
}
"""Each size that Linux has: log2 of the page size, and bits of address. With 36 and 42 bits, blocks are in the root."""
SET = {12: 16, 14: 128, 16: 32}
"""Pages of a contiguous block, by log2 of the page size."""
OF_EACH_SIZE = {
    "page": ("unmap 0 mm VA; FLUSH vale1is 17 VA ttl=3; DONE; free 0 x ORDER", ""),
    "page, not flushed": ("unmap 0 mm VA", "pending/no-tlbi"),
    "page, freed early": ("unmap 0 mm VA; free 0 x ORDER; FLUSH vale1is 17 VA; DONE", "free/page"),
    "page, flushed as a block": ("unmap 0 mm VA; FLUSH vale1is 17 VA ttl=2; DONE", "pending/level"),
    "page, the one before flushed": ("unmap 0 mm VA; FLUSH vale1is 17 VA-PAGE ttl=3; DONE", "pending/no-tlbi"),
    "pages": ("unmap 0 mm VA; unmap 0 mm LAST; FLUSH rvale1is 17 VA 16 ttl=3; DONE", ""),
    "pages, one not in the range": ("unmap 0 mm VA; unmap 0 mm LAST; FLUSH rvale1is 17 VA 14; DONE", "pending/no-tlbi"),
    "block": ("unmap 0 mm BLOCK 2; FLUSH vale1is 17 BLOCK ttl=2; DONE", ""),
    "block, by a range": ("unmap 0 mm BLOCK 2; FLUSH rvale1is 17 BLOCK PAGES ttl=2; DONE", ""),
    "block, not flushed": ("unmap 0 mm BLOCK 2", "pending/no-tlbi"),
    "block, flushed as a page": ("unmap 0 mm BLOCK 2; FLUSH vale1is 17 BLOCK ttl=3; DONE", "pending/level"),
    "block, split in place": ("store 0 slot(mm,BLOCK,2) 0x42030000|table; FLUSH vae1is 17 BLOCK; DONE", "bbm/size"),
    "table": ("let pt table(mm,ALONE); unmap 0 mm ALONE 2; FLUSH vae1is 17 ALONE; DONE; free 0 pt ORDER", ""),
    "table, only leaves flushed": ("unmap 0 mm ALONE 2; FLUSH vale1is 17 ALONE; DONE", "pending/table"),
    "root": ("load 0 reserved 0; load 1 reserved 0; dead 0 mm", ""),
    "root, loaded": ("load 0 reserved 0; dead 0 mm", "free/root"),
    "kernel page": ("store 0 slot(swapper,KERNEL) x|kro; FLUSH vaae1is KERNEL ttl=3; DONE", ""),
    "kernel page, not flushed": ("store 0 slot(swapper,KERNEL) x|kro", "pending/permission"),
    "contiguous block": ("UNMAP; UNMAP MORE; FLUSH aside1is 17; DONE", ""),
    "contiguous block, half of it": ("UNMAP; FLUSH aside1is 17; DONE", "bbm/set"),
}
"""What happens, and what is reported of it."""


def trace_of(size: str, events: str) -> str:
    """A trace with ``events``; words in capitals have the addresses that suit the size: the last ones of each half."""
    shift, bits = SIZES[size]
    page, block = 1 << shift, 1 << (2 * shift - 3)
    # At the end of the half, each in the reach of a last-level table of its own. Ranges begin at multiples of 64 KiB.
    top = 1 << bits
    contiguous = [top - 2 * block + n * page for n in range(SET[shift])]
    unmaps = [f"unmap 0 mm {va}" for va in contiguous]
    words = {
        "FLUSH": "dsb 0 ishst; tlbi 0",
        "DONE": "dsb 0 ish",
        "ORDER": str(shift - 12),
        "PAGES": str(block >> shift),
        "PAGE": str(page),
        "VA": str(top - 64 * page),
        "LAST": str(top - 49 * page),
        "BLOCK": str(top - 3 * block),
        "ALONE": str(top - 4 * block),
        "UNMAP": "\n".join(unmaps[SET[shift] // 2 :]),
        "UNMAP MORE": "\n".join(unmaps[: SET[shift] // 2]),
        "KERNEL": str((1 << 64) - top + 5 * page),
    }
    begin = [
        "ram 64<<20; let reserved 0x42000000; let swapper 0x42010000; let mm 0x42020000; let x 0x42400000",
        f"on 0 {size}; on 1 {size}",
        "task 0 1; load 0 mm 17; map 0 mm VA x rw; map 0 mm LAST x+PAGE rw; map 0 mm ALONE x+PAGE+PAGE rw",
        "map 0 mm BLOCK 0x40000000 rw 2",
        *(f"map 0 mm {va} 0x43000000+{n * page} rw|cont" for n, va in enumerate(contiguous)),
        "map 0 swapper KERNEL x krw; user 0",
        "task 1 2; load 1 mm 17; user 1; task 0 1",
    ]
    text = "\n".join([*begin, events, "user 0", ""])
    return re.sub("|".join(sorted(words, key=len, reverse=True)), lambda found: words[found[0]], text)


@pytest.mark.parametrize("size", SIZES)
def test_each_size(build: Callable[[str], Path], size: str) -> None:
    """Of pages and of addresses: leaves and tables at each place where a kernel of that size has them."""
    found = found_in(build("trace-cli"), (trace_of(size, events) for events, _ in OF_EACH_SIZE.values()))
    want = {name: kinds.split() for name, (_, kinds) in OF_EACH_SIZE.items()}
    assert dict(zip(OF_EACH_SIZE, found, strict=True)) == want


@pytest.mark.parametrize("finding", data.load_known_issues(), ids=lambda finding: str(finding.name))
def test_what_is_worse_than_a_known_issue(build: Callable[[str], Path], finding: data.KnownIssue) -> None:
    """A bug at the same place: though all of it be in the functions of the known issue, some reports are of none."""
    text = (HERE / "traces" / f"bad_worse_{finding.name}.txt").read_text()
    findings = data.load_known_issues()
    related = [f for f in findings if f.doc == finding.doc]
    places: dict[str, Any] = {
        place: {"functions": {name for f in related for name in getattr(f, place)}} for place in ("changed", "noticed")
    }
    lines = map(json.loads, run(build("trace-cli"), text=text).splitlines())
    reports = [line | places for line in lines if "report" in line]
    assert any(finding.describes(report, "6.1") for report in reports)
    unknown = [r for r in reports if not any(f.describes(r, "6.1") for f in findings)]
    worse = re.search(r"^# worse: (.+)$", text, re.MULTILINE)
    assert worse and {f"{r['rule']}/{r['kind']}" for r in unknown} == set(worse[1].split())


def test_the_same_noticed_elsewhere(build: Callable[[str], Path]) -> None:
    """Of one change, what is noticed at two places is two reports, so that a known issue does not hide the second."""
    text = (HERE / "traces" / "bad_written_no_dsb.txt").read_text().replace("; user 1\ndsb", "; user 1\nsync 0 x\ndsb")
    lines = list(map(json.loads, run(build("trace-cli"), text=text).splitlines()))
    assert [(r["rule"], r["kind"]) for r in lines if "report" in r] == [("written", "no-dsb")] * 2


def test_every_kind_has_its_trace() -> None:
    """What docs and report readers know by name is shown once at least."""
    told = {kind for path in TRACES for kind in expected(path.read_text())}
    assert told >= set(KINDS)


def for_people(cli: Path, script: str, tmp_path: Path) -> str:
    """What is said for people; it has the lines that reports have."""
    said = run(cli, tmp_path / "text", text=script)
    text = (tmp_path / "text").read_text()
    for line in map(json.loads, said.splitlines()):
        if "report" in line:
            assert "\n".join(line["text"]) + "\n" in text
    return text


def test_what_is_said_of_a_whole_tlb(build: Callable[[str], Path], tmp_path: Path) -> None:
    """No entry: there is none."""
    text = for_people(build("trace-cli"), (HERE / "traces/bad_asid_kept.txt").read_text(), tmp_path)
    assert "  held by  CPU 1\n  noticed  by CPU 1 at 0x8\nverdict" in text


EXAMPLE = """\
on 0; on 1; page mm x y z; load 0 mm 17; load 1 mm 17; task 0 1
map 0 mm 0x1000 x rw; map 0 mm 0x200000 y rw; map 0 mm 0x300000 z rw; user 0; task 0 1
unmap 0 mm 0x1000; dsb 0 ishst; tlbi 0 vale1 17 0x1000; dsb 0 nsh
unmap 0 mm 0x200000; unmap 0 mm 0x300000
user 0
"""
FOR_PEOPLE = """\
report 1: pending/local: a valid entry was taken away, and only the CPU that did it was told; others may hold it
  rule     Arm ARM (DDI 0487) D8.17.8 "Ordering and completion of TLB maintenance instructions", R_QRNJC
  entry    0x1000, ASID 17, a page at level 3, seen on CPU 0
  old      page 0x40003000, descriptor 0x0068000040003f43
  new      nothing, descriptor 0x0000000000000000
  held by  CPU 1
  changed  by CPU 0 at 0x3
  noticed  by CPU 0 at 0x5
  TLBIs    vale1 0x11000000000001 by CPU 0 at 0x3: reaches only its own CPU
report 2: pending/no-tlbi: a valid entry was removed or replaced, and a CPU can still use it: no TLBI was issued for it
  rule     Arm ARM (DDI 0487) D8.17 "TLB maintenance", R_GPPYH
  entry    0x200000, ASID 17, a page at level 3, seen on CPU 0
  old      page 0x40004000, descriptor 0x0068000040004f43
  new      nothing, descriptor 0x0000000000000000
  held by  CPUs 0, 1
  changed  by CPU 0 at 0x4
  noticed  by CPU 0 at 0x5
  TLBIs    none for this ASID or address since the change
verdict: reports: 2, seen 3 times
  report 2, seen 2 times: pending/no-tlbi
"""


def test_the_text_of_reports(build: Callable[[str], Path], tmp_path: Path) -> None:
    """Every line, with a TLBI and without; the verdict, and how often each was seen."""
    assert for_people(build("trace-cli"), EXAMPLE, tmp_path) == FOR_PEOPLE


def test_the_text_of_a_verdict(build: Callable[[str], Path], tmp_path: Path) -> None:
    """What was seen, or what was not; and where contents differ, in the report before it."""
    text = (HERE / "traces" / "good_all_seen.txt").read_text()
    said = for_people(build("trace-cli"), text, tmp_path)
    assert said.startswith("verdict: passed: 2 frees of pages, 1 frees of tables, 1 TLBIs, ") and said.count("\n") == 1
    said = for_people(build("trace-cli"), without(text, "free"), tmp_path)
    assert said == "verdict: inconclusive: it did not see frees of pages, frees of tables\n"
    said = for_people(build("trace-cli"), (HERE / "traces" / "bad_bbm_contents.txt").read_text(), tmp_path)
    assert "\n  differs  the contents of the two pages, from byte 0x19 on\n" in said


def without(text: str, word: str) -> str:
    """A trace that lacks one kind of event."""
    events = [event.strip() for line in text.splitlines() for event in line.partition("#")[0].split(";")]
    return "".join(f"{event}\n" for event in events if not event.startswith(word))


def many_pages(missed: int | None, table: bool, how: str, speculation: str) -> str:
    """Enough at a time that the checker looks entries up instead of going through them all."""
    pages = [0x200000 + 0x1000 * n for n in range(64)]
    rest = [va for n, va in enumerate(pages) if n != missed]
    lines = [
        f"speculation {speculation}",
        "filter off",
        "page mm x y",
        "on 0",
        "on 1",
        "load 1 mm 17",
        "load 0 mm 17",
        "task 0 1",
    ]
    lines += [f"map 0 mm {va} x rw" for va in pages]
    lines += [f"access {cpu} {va} x" for va in pages for cpu in (0, 1)]
    lines += ["let at slot(mm,0x200000,2)", "let pt table(mm,0x200000)"]
    lines += [f"unmap 0 mm {va}" for va in pages]
    lines += ["store 0 at 0"] * table + ["dsb 0 ishst"]
    if how == "range":
        lines += [f"tlbi 0 rvae1is 17 {va} 2" for va in rest if va + 0x1000 in rest]
    else:
        lines += [f"tlbi 0 v{'' if how == 'asid' else 'a'}ae1is {'17 ' if how == 'asid' else ''}{va}" for va in rest]
    lines += ["dsb 0 ish", "user 0", "task 0 1", *["store 0 at pt|table"] * table]
    lines += [f"map 0 mm {va} y rw" for va in pages] + ["user 0"]
    lines += [f"access 1 {va} y" for va in pages]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("speculation", ["on", "off"])
@pytest.mark.parametrize("how", ["asid", "any", "range"])
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("missed", [None, 0, 31, 63])
def test_many_pages(build: Callable[[str], Path], missed: int | None, table: bool, how: str, speculation: str) -> None:
    """Just the page whose TLBI is missing is found: pending, and then at an access."""
    lines = run(build("trace-cli"), text=many_pages(missed, table, how, speculation)).splitlines()
    said = [json.loads(line) for line in lines]
    found = [(r["rule"], int(r["va"], 16), r["table"]) for r in said if "report" in r]
    va = 0x200000 + 0x1000 * (missed or 0)
    assert found == ([] if missed is None else [("pending", va, False), ("remap", va, False)])
    assert said[-1]["occurrences"] == len(found)


def test_anew_below(build: Callable[[str], Path]) -> None:
    """A leaf that changed while its table was unlinked: the leaf is what the report is about."""
    text = (HERE / "traces" / "bad_relink_changed.txt").read_text()
    (said,) = [r for r in map(json.loads, run(build("trace-cli"), text=text).splitlines()) if "report" in r]
    assert (said["level"], said["table"]) == (3, False)


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("bad_bbm_contents", "0x19"),
        ("bad_bbm_contents_later", "0xff8"),
        ("bad_bbm_contents_block", "0x1ffff8"),
        ("bad_bbm_anew_contents", "0x0"),
        ("bad_bbm_output_old_writable", None),
        ("bad_bbm_older_writable", None),
    ],
)
def test_where_contents_differ(build: Callable[[str], Path], name: str, differs: str | None) -> None:
    """The first byte; nothing where the contents were not the reason."""
    text = (HERE / "traces" / f"{name}.txt").read_text()
    (said,) = [r for r in map(json.loads, run(build("trace-cli"), text=text).splitlines()) if "report" in r]
    assert said.get("differs") == differs


@pytest.mark.parametrize(("flushed", "left"), [("dsb 0 nshst; tlbi 0 vale1 17 0x1000; dsb 0 nsh", 0), ("", 1)])
def test_left(build: Callable[[str], Path], flushed: str, left: int) -> None:
    """What is still pending at the end, of all that was: no report of it, as its task has not returned."""
    trace = "page mm x; on 0; task 0 1; load 0 mm 17; map 0 mm 0x1000 x rw; user 0; task 0 1; unmap 0 mm 0x1000"
    found, verdict = judge(build("trace-cli"), f"{trace}; {flushed}")
    assert (found, verdict["seen"]["pending"], verdict["seen"]["left"]) == ([], 1, left)


@pytest.mark.parametrize(("pages", "refills"), [(256, 256), (300, 256)])
def test_most_refills(build: Callable[[str], Path], pages: int, refills: int) -> None:
    """Of entries that no CPU holds, as many are remembered as the guest has pages: those that were lost last."""
    each = [0x200000 + 0x1000 * n for n in range(pages)]
    lines = ["ram 1<<20", "page mm x", "on 0", "load 0 mm 17", "task 0 1", *(f"map 0 mm {va} x rw" for va in each)]
    lines += [*(f"access 0 {va} x" for va in each), "tlbi 0 aside1 17", "dsb 0 nsh"]
    lines += [f"access 0 {va} x" for va in each]
    _, verdict = judge(build("trace-cli"), "\n".join(lines))
    assert verdict["seen"]["tlb_refills"] == verdict["seen"]["tlb_refills_unchanged"] == refills


NEEDED = {"accesses", "dsbs", "frees", "loads", "pending", "table_frees", "table_stores", "tlbis", "user_returns"}


@pytest.mark.parametrize(
    ("word", "unseen"),
    [
        ("nothing", set()),
        ("access", set()),  # the fetch is one too
        ("tlbi", {"tlbis"}),
        ("dsb", {"dsbs"}),
        ("free", {"frees", "table_frees"}),
        ("free 0 pt", {"table_frees"}),
        ("user", {"user_returns"}),
    ],
)
def test_inconclusive(build: Callable[[str], Path], word: str, unseen: set[str]) -> None:
    """A verdict of silence needs all kinds of events to have been seen; the names of those that were not."""
    text = (HERE / "traces" / "good_all_seen.txt").read_text()
    found, verdict = judge(build("trace-cli"), without(text, word))
    assert set(verdict["unseen"]) == unseen
    assert verdict["verdict"] == ("reports" if found else "inconclusive" if unseen else "passed")


def test_sees_nothing(build: Callable[[str], Path]) -> None:
    """Nothing happened; and stores, TLBIs and frees of a machine whose translation was never seen to be on."""
    cli = build("trace-cli")
    assert set(judge(cli, "")[1]["unseen"]) == NEEDED
    events = "page x y; store 0 x y|table; store 0 x 0; tlbi 0 vmalle1is; dsb 0 ish; user 0; free 0 x"
    verdict = judge(cli, events)[1]
    assert verdict["verdict"] == "inconclusive"
    assert set(verdict["unseen"]) == {"accesses", "loads", "pending", "table_frees", "table_stores"}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("page x\nfly 0\n", "line 2: no such command: fly"),
        ("cpus 0", "1 to 64 CPUs"),
        ("page x; cpus 2", "too late"),
        ("on 2", "no such CPU: 2"),
        ("on", "too few words"),
        ("on 0 5k", "no such machine: 5k"),
        ("poke 0x40000004 0", "is no word of memory"),
        ("poke 0x41000000 0", "is no word of memory"),
        ("poke x 0", "no such name: x"),
        ("poke 0x4000000z 0", "no number: 0x4000000z"),
        ("on 0\nlet a slot(swapper,0x1000)", "no address: 0x1000\nno table there"),
        ("let a 1+", "a value is missing"),
        ("let a 1)", "what is this: )"),
        ("tlbi 0 vae9 1 2", "no such TLBI: vae9"),
        ("tlbi 0 vae1 1", "not what vae1 needs"),
        ("on 0; tlbi 0 rvae1 1 0 3", "no range of 3 pages"),
        ("dsb 0 full", "no such DSB: full"),
        ("msr 0 vbar 1", "no such register: vbar"),
        ("free 0 0x3ffff000", "no pages: 0x3ffff000"),
        ("ram 0x2000; page x", "no memory left"),
    ],
)
def test_bad_scripts(build: Callable[[str], Path], script: str, complaint: str) -> None:
    """The line and what is wrong with it; exit 2."""
    done = subprocess.run([build("trace-cli")], input=script, capture_output=True, text=True)
    assert done.returncode == 2
    assert any(one in done.stderr for one in complaint.split("\n")), done.stderr
    assert done.stderr.startswith("line ")


def test_wrong_markers(build: Callable[[str], Path]) -> None:
    """As in count mode: said, and the window that is open stays whole."""
    text = "close 0 3; open 0 4; open 1 5; close 1 5; close 0 4; open 1 6"
    lines = [json.loads(line) for line in run(build("trace-cli"), text=text).splitlines()]
    assert [line.get("error", line.get("window")) for line in lines[1:-1]] == [
        "window 3 was to close and none is open",
        "window 5 was to open while 4 is open",
        "window 5 was to close while 4 is open",
        4,
        "window 6 is still open at exit",
    ]


def test_reset(build: Callable[[str], Path]) -> None:
    """Traces one after the other in one process know nothing of each other."""
    texts = [path.read_text() for path in TRACES if path.stem not in OPEN]
    lines = run(build("trace-cli"), text="".join(f"{text}reset\n" for text in texts)).splitlines()
    verdicts = [json.loads(line)["verdict"] for line in lines if '"verdict"' in line]
    assert [v == "reports" for v in verdicts] == [bool(expected(t)) for t in texts]
