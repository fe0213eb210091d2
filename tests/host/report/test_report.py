# SPDX-License-Identifier: GPL-2.0-only
"""The report: each part with its data and not without, the numbers of the JSON, and a page that stands alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_results import STICKY, checked, given_back, hvo, put, run, swapped
from support import AGING, LOCAL, RUNS, Tool

from lull import picture, report
from lull.check import tables as check_tables
from lull.errors import UsageError
from lull.judge import short
from lull.judge.tables import Grid
from lull.judge.thresholds import BROADCASTS, RunSlice
from lull.report import data as report_data
from lull.report import headline
from lull.report import plots as report_plots
from lull.run.records import Check, Record, Results

VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each kind."""
    top = tmp_path_factory.mktemp("results")
    made = {
        "run": put(top / "run", "results.json", run().to_json()),
        "more": put(top / "more", "results.json", run(vcpus=8, more=(*swapped(), *hvo(), *given_back())).to_json()),
        "check": put(top / "check", "check.json", json.dumps(checked())),
    }
    put(made["run"], "config-stock", "CONFIG_ARM64=y\n# CONFIG_LULL is not set\nCONFIG_SMP=y\n")
    put(made["run"], "config-lull", "CONFIG_ARM64=y\nCONFIG_LULL=y\nCONFIG_SMP=y\n")
    return made


@pytest.fixture(scope="module")
def whole(folders: dict[str, Path]) -> str:
    """The page of everything."""
    return report.of_folders(list(folders.values()))


class Page(HTMLParser):
    """A page read back: tags that fit together, ids, links, and tables as text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open it."""
        if tag != "wbr":
            self.words.append(" ")
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As in SVG."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close what was opened last."""
        assert self.open and self.open[-1] == tag, f"</{tag}> at {self.getpos()} closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Text, of a cell or not."""
        if "style" not in self.open:
            self.words.append(data)
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data

    def rows(self, first: str) -> list[list[str]]:
        """The rows that begin with a cell."""
        return [[c.strip() for c in row] for table in self.tables for row in table if row and row[0].strip() == first]

    @property
    def text(self) -> str:
        """What a reader sees, and what is folded."""
        return " ".join("".join(self.words).split())


def page(*paths: Path) -> Page:
    """The page of some folders."""
    return Page(report.of_folders(list(paths)))


PARTS = {
    "System A:": {"more"},
    "System B:": {"run", "more"},
    "System C:": {"run", "more"},
    "System D:": {"more"},
    "Broadcasts of an operation": {"run", "more"},
    "What TLBIs are of": {"run", "more"},
    "A/A control: stock beside itself": {"run", "more"},
    "What fell short": {"run", "more"},
    "Is the measuring itself right?": {"run", "more"},
    "The checker: a TLB that forgets nothing": {"check"},
    "pending/no-tlbi: a valid entry was removed": {"check"},
    "configuration of lull, to stock": {"run"},
    "What differs": set(),
    "Time against vCPUs": set(),
    "Runs side by side": set(),
}


@pytest.mark.parametrize("kind", ["run", "more", "check"])
def test_parts_stand_where_their_data_is_and_nowhere_else(kind: str, folders: dict[str, Path]) -> None:
    text = page(folders[kind]).text
    assert {part for part in PARTS if part in text} == {part for part, kinds in PARTS.items() if kind in kinds}


def test_parts_of_several_folders(whole: str) -> None:
    """Two numbers of vCPUs make a picture of its own, and what differs between folders is a table."""
    text = Page(whole).text
    assert not [part for part in PARTS if part not in text]


def test_the_page_is_well_formed_and_its_links_lead_somewhere(whole: str) -> None:
    found = Page(whole)
    assert not found.open
    assert len(set(found.ids)) == len(found.ids)
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    pictures = re.findall(r"<svg.*?</svg>", whole, re.DOTALL)
    assert len(pictures) == 5  # time against vCPUs; two of each run
    for svg in pictures:
        words = {"".join(node.itertext()).strip() for node in ET.fromstring(svg).iter() if node.tag == "text"}
        assert not any("$" in word for word in words)
        assert set(re.findall(r"url\(#([^)]*)\)", svg)) <= set(found.ids)


def test_nothing_is_loaded(whole: str) -> None:
    """No address of elsewhere, no script, no font, no file."""
    assert not re.search(r"https?:|//[a-z]+\.|@import|@font-face|<script|<link|<img|<iframe", whole)
    assert all(link.startswith("#") for link in Page(whole).links)
    assert not re.search(r"url\((?!#)", whole)


def test_pictures_follow_the_page(whole: str) -> None:
    """Every colour is a variable of the style sheet's, in both themes; the font is the page's."""
    style = whole[whole.index("<style>") : whole.index("</style>")]
    themes = [set(re.findall(r"--(\w+):", part)) for part in style.split("@media (prefers-color-scheme: dark)")]
    for svg in re.findall(r"<svg.*?</svg>", whole, re.DOTALL):
        assert set(re.findall(r"var\(--(\w+)", svg)) <= themes[0] & themes[1]
        bare = set(re.findall(r"(?<!, )#[0-9a-f]{6}\b", svg))
        assert not bare, bare
        assert "DejaVu" not in svg and "font:" not in svg


def test_numbers_are_those_of_the_results(folders: dict[str, Path]) -> None:
    found = page(folders["run"])
    # stock, sticky and Lull, a line each: medians of an operation, each with the half of its range.
    kernels = {kernel: found.rows(kernel)[0] for kernel in ("stock", STICKY, "lull")}
    assert [kernels["stock"][1], *kernels[STICKY][1:4:2], *kernels["lull"][1:4:2]] == [
        "4.323",
        "0.989",
        "0.229",
        "0.066",
        "0.0153",
    ]
    assert "broadcasts of mprotect_per_cpu passed 64, stock 4321: 1.5 %" in found.text
    assert f"{RUNS}: no more TLBIs: sparse on lull failed munmap 2.1" in found.text
    for fact in ("6.12.117", "A Model of CPU, x86_64, 2 CPUs", f"stock, lab+{LOCAL}=sticky, lull", "3 (stock twice)"):
        assert fact in found.text
    # System B: counts, what was published of machines, and what is an emulator's, apart.
    (row,) = found.rows("mprotect-threaded 10000, a copy on each CPU")
    assert row[1:] == ["2.17s", "139.4ms", "15.6"]
    rows = [row[1:] for row in found.rows("mprotect_per_cpu")]
    assert ["mprotect", "4.323", "0.066"] in rows and ["mprotect", "22µs", "11µs", "2.00"] in rows


def head(text: str) -> str:
    """The first screen of a page, as text."""
    return Page(text[text.index("<h1>") : text.index('<dl id="compared">')]).text


def test_the_first_screen_says_what_came_of_it(folders: dict[str, Path]) -> None:
    """What was compared, how far broadcasts fell, what passed and failed, and what was not judged, for which reason."""
    results = run()
    few = "with so few repeats it could not have failed"
    results.checks += [
        Check(f"{LOCAL}: a", "skipped", "too few repeats to tell of 2 of 3 workloads"),
        Check(f"{LOCAL}: b", "skipped", "measured at 4 vCPUs"),
        Check(f"{LOCAL}: c", "skipped", "stock has none"),
        Check("A/A control", "skipped", few),
    ]
    for number in range(3):
        put(folders["run"].parent / "first" / "boots" / f"r{number}", "boot.json", "{}")
    text = head(report.of_folders([put(folders["run"].parent / "first", "results.json", results.to_json())]))
    assert text.startswith("1 threshold passed, 1 failed, 5 not judged")
    assert f"Linux 6.12.117, stock against lab+{LOCAL}=sticky and lull: 1 workload, 3 boots, 4 vCPUs." in text
    line = "Better on lull, stock → lull, at 4 vCPUs 4.323 → 0.066 mprotect_ per_ cpu: broadcast TLBIs, per mprotect"
    assert line in text.replace("_per", "_ per").replace("_cpu", "_ cpu")
    skipped = sum(check.verdict == "skipped" for check in results.checks)
    assert (
        f"1 passed 1 failed {skipped} not judged: 1 not measured in this run, 1 meant for another number of vCPUs, "
        "2 with too few repeats to tell, 1 for reasons that stand with each below" in text
    )
    assert "A/A control not judged: with too few repeats to tell" in text


def test_what_changed_is_said_in_this_order() -> None:
    """Better, worse, what boots cannot tell, in the words of the short run's table; memory given back is better."""
    values = {
        ("swap_bench", BROADCASTS): ((10, 11), (2, 9)),
        ("hvo_one/allocate-1g", "memmap_given_back"): ((0, 0), (5, 5)),
        ("pingpong/same-cpu", "insns_quiet"): ((10, 11), (12, 13)),
        ("fork_exec", BROADCASTS): ((3, 5), (4, 4)),
        ("young", BROADCASTS): ((7, 7), (7, 7)),
        ("storm", BROADCASTS): ((1, 1), (2, 3)),
    }
    records = [
        Record(kernel, workload, 4, metric, "", one, 1, "page")
        for (workload, metric), both in values.items()
        for kernel, one in zip(("stock", "lull"), both, strict=True)
    ]
    found = {word: [row[0] for row in rows] for word, rows in headline.changes(RunSlice(4, records))}
    assert list(found) == [headline.BETTER, headline.WORSE, headline.UNTOLD]
    assert list(found.values()) == [
        ["swap_bench", "hvo_one/allocate-1g"],
        ["pingpong/same-cpu", "storm"],
        ["fork_exec"],
    ]
    lines = {row[:2] for row in short.grid(Results("", "", {}, records)).rows}
    rows = [row[:2] for _, group in headline.changes(RunSlice(4, records)) for row in group]
    assert set(rows) - lines == {("storm", "broadcast TLBIs, per page")}


def test_there_is_no_cross_where_nothing_failed(folders: dict[str, Path]) -> None:
    """Nor a tick where nothing passed."""
    results = run()
    results.checks = [Check(f"{LOCAL}: a", "passed", "0")]
    text = report.of_folders([put(folders["run"].parent / "passed", "results.json", results.to_json())])
    verdict = text[text.index('id="verdict"') : text.index("</p>", text.index('id="verdict"'))]
    assert 'class="good"' in verdict and 'class="bad"' not in verdict and 'class="quiet"' not in verdict
    results.checks = [Check(f"{LOCAL}: a", "failed", "7")]
    text = report.of_folders([put(folders["run"].parent / "passed", "results.json", results.to_json())])
    verdict = text[text.index('id="verdict"') : text.index("</p>", text.index('id="verdict"'))]
    assert 'class="bad"' in verdict and 'class="good"' not in verdict


def test_a_run_that_did_not_end_says_so_first(tmp_path: Path) -> None:
    """Alone, and beside another."""
    results = run()
    results.settings["boots"] = "3 of 12"
    results.checks = []
    runs = {"a": results, "b": run()}
    paths = [put(tmp_path / name, "results.json", of.to_json()) for name, of in runs.items()]
    (tmp_path / "a" / "plan").touch()
    assert head(report.of_folders(paths[:1])).startswith("Interrupted, or still running: 3 of 12 boots")
    assert head(report.of_folders(paths)).startswith(f"{paths[0]}: interrupted, or still running: 3 of 12 boots")
    assert head(report.of_folders(paths[1:])).startswith("1 threshold passed")
    put(tmp_path / "c", "check.json", json.dumps(checked()))
    (tmp_path / "c" / "plan").touch()
    assert head(report.of_folders([tmp_path / "c"])).startswith("Interrupted, or still running")


def test_kernels_are_counted_where_there_are_many(tmp_path: Path) -> None:
    """And what is not stock's is not said to be compared with it."""

    def said(*kernels: str) -> str:
        made = [Record(kernel, "w", 4, "dsb_ish", "count", (1.0,)) for kernel in kernels]
        (source,) = report_data.load_sources([put(tmp_path, "results.json", Results("", "6.12", {}, made).to_json())])
        return headline.compared(source, named=False)

    assert said("stock", "stock.control", "lull", "a", "b", "c") == (
        "Linux 6.12, stock against lull and 3 others: 1 workload, 4 vCPUs"
    )
    assert said("lab", "lab+a") == "Linux 6.12, lab and lab+a: 1 workload, 4 vCPUs"
    assert said("stock") == "Linux 6.12, stock: 1 workload, 4 vCPUs"


def test_marks_at_one_count_are_all_seen() -> None:
    """Each kernel's is on a height of its own; what no mark can be told by is not drawn."""
    made = [Record(k, "w", 4, "tlbi_broadcast_user", "count", (5.0,), 1) for k in ("stock", STICKY, "lull")]
    found = report_plots.broadcasts(RunSlice(4, made), ["stock", STICKY, "lull"])
    assert found
    places = re.findall(r'<use xlink:href="#m[^"]*" x="([\d.]+)" y="([\d.]+)"', found.svg)
    marks = [place for place in places if [x for x, _ in places].count(place[0]) >= 3]
    assert len({y for _, y in marks}) >= 3
    many = Results("", "", {}, [replace(made[0], kernel=f"kernel{n}") for n in range(9)])
    drawn = report_plots.kernels_of(many)
    assert len(set(picture.looks(drawn).values())) == len(drawn) > 1


def test_where_lull_has_more_that_is_said() -> None:
    """Only there; with the reason where it is the one that is known."""

    def note(workload: str, stock: float, lull: float) -> str:
        made = [
            Record(kernel, workload, 4, "tlbi_broadcast_user", "count", (count,), 1)
            for kernel, count in (("stock", stock), ("lull", lull))
        ]
        found = report_plots.broadcasts(RunSlice(4, made), ["stock", "lull"])
        return found.note if found else ""

    assert note("sparse/munmap-all", 1, 48).startswith("lull has more than stock on sparse/munmap-all: pages that lie")
    assert note("fork_exec", 1, 2) == "lull has more than stock on fork_exec."
    assert note("sparse/munmap-all", 48, 48) == note("fork_exec", 2, 1) == ""


def test_a_defect_of_the_tool_is_not_taken_for_an_old_file(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(check_tables, "grids", broken)
    with pytest.raises(AttributeError, match="a bug"):
        report.of_folders([folders["check"]])


def test_systems_stand_beside_what_was_published(folders: dict[str, Path]) -> None:
    found = page(folders["more"])
    assert found.rows("teardown_munmap/anon-4k, lull") == [["teardown_munmap/anon-4k, lull", "800", "520", "0.650"]]
    assert found.rows("published: cycles in exit_group, order-3 folios")[0][-1] == "0.740"
    assert found.rows("demote")[0][:6] == ["demote", "1.575", "3.640", "2.31", "8.00", "8.00"]


def test_configurations_and_commands_are_folded(folders: dict[str, Path]) -> None:
    text = report.of_folders([folders["run"]])
    folded = text[text.index('<section id="folded">') :]
    assert "qemu --one &lt;two&gt;" in folded
    assert "CONFIG_ARM64=y\nCONFIG_SMP=y" in folded
    assert "-# CONFIG_LULL is not set\n+CONFIG_LULL=y" in folded and "+CONFIG_ARM64" not in folded
    assert "<details open" not in folded


def test_a_check_comes_back_from_its_file(folders: dict[str, Path]) -> None:
    found = page(folders["check"])
    assert found.rows("max") == [["max", "passed", "reports"]]
    assert found.rows("page-none")[0][-1] == "caught"
    assert "entry 0x5ce000, ASID 2" in found.text
    assert "r01-lab" not in found.text  # a mutant is to be reported


def test_what_one_run_judged_is_not_skipped() -> None:
    passed = Check(f"{AGING}: sync", "passed", "as due")
    skipped = Check(f"{AGING}: sync", "skipped", "not measured")
    other = Check(f"{AGING}: none", "skipped", "not measured")
    found = report.told([("a", skipped), ("b", passed), ("a", other), ("c", other)])
    assert found == [Check(f"{AGING}: sync", "passed", "as due (b)"), other]
    assert report.Tally.of(found) == report.Tally(1, 0, 1)


def test_a_run_of_nothing_is_a_page_all_the_same(tmp_path: Path) -> None:
    """As of a run whose every workload this machine skips, or of seconds alone."""
    nothing = Results("0.1.0", "6.12", {}, [], [], [], {})
    text = page(put(tmp_path / "a", "results.json", nothing.to_json())).text
    assert "No threshold was judged" in text and "Pictures" not in text and "System" not in text
    seconds = [Record(k, "w", 4, "seconds", "s", (1.0, 2.0), 0, "") for k in ("stock", "lull")]
    text = page(put(tmp_path / "b", "results.json", Results("", "", {}, seconds).to_json())).text
    assert "Pictures" not in text and "seconds" in text


def test_a_run_that_judged_no_threshold_says_what_it_counted(tmp_path: Path) -> None:
    """The headline: where Lull has fewer broadcasts, and where more, also where stock has none."""
    counts = {"sparse": (4, 1), "young": (2, 2), "storm": (0, 3)}
    records = [
        Record(kernel, workload, 4, BROADCASTS, "", (value,), 1, "page")
        for workload, values in counts.items()
        for kernel, value in zip(("stock", "lull"), values, strict=True)
    ]
    checks = [Check("verified: all", "passed", ""), Check(f"{LOCAL}: x", "skipped", "x was not measured")]
    text = page(put(tmp_path / "a", "results.json", Results("", "", {}, records, checks).to_json())).text
    assert "Lull has fewer broadcast TLBIs than stock in 1 of 3 workloads, and more in 1" in text
    assert "No threshold was judged" not in text


def test_no_line_is_drawn_through_two_hosts() -> None:
    """Emulated seconds are a host's."""
    four, eight = run(4), run(8)
    found = report_plots.scaling([four, eight])
    assert found and "mprotect_per_cpu" in found.svg and ">8<" in found.svg and "emulated seconds" in found.how
    eight.host = {**eight.host, "model": "another"}
    assert report_plots.scaling([four, eight]) is None
    assert report_plots.scaling([four]) is None and report_plots.scaling([]) is None


def test_bars_are_shares_of_all_that_stock_has() -> None:
    """4.323 broadcasts on stock; on sticky 0.989 and 3.336 local ones, drawn behind them."""
    of_run = RunSlice(4, run().records)
    kinds = {kernel: report_plots._kinds(of_run, kernel, "mprotect_per_cpu") for kernel in ("stock", STICKY, "lull")}
    # Of the broadcasts of users, medians, those of a whole ASID are counted apart.
    assert kinds["stock"] == pytest.approx([4.323 - 0.002, 0.002, 0.002, 0.002 + 0.002, 0.002])
    assert kinds[STICKY] == pytest.approx([0.989 - 0.002, 0.002, 0.002, 0.002 + 0.002, 3.336])
    found = report_plots.kinds(of_run, ["stock", STICKY, "lull"])
    assert found and "times" not in found.svg
    local = Record("lull", "mprotect_per_cpu", 4, "tlbi_local", "count", (50_000.0,), 1000, "mprotect")
    others = [record for record in of_run.records if (record.kernel, record.metric) != ("lull", "tlbi_local")]
    found = report_plots.kinds(RunSlice(4, [*others, local]), ["stock", STICKY, "lull"])
    assert found and "11.6 times" in found.svg


def test_a_table_without_rows() -> None:
    """It has its head: a run of few workloads has such tables."""
    assert report.table_of(Grid("none", ("workload", "stock"), (), 1)) == report.Table((), (False, False))


def test_the_sweep_of_gaps_is_a_map() -> None:
    """A field for each case: both counts where they differ, in red where Lull has more."""

    def drawn(lull: float) -> report_plots.Plot | None:
        counts = {("stock", "2-32"): 6.0, ("lull", "2-32"): lull, ("stock", "24-2"): 5.0, ("lull", "24-2"): 5.0}
        made = [
            Record(kernel, f"gaps/{case}", 4, "tlbi_broadcast_user", "count", (4 * count,), 4, "call")
            for (kernel, case), count in counts.items()
        ]
        return report_plots.frontier(RunSlice(4, made))

    fewer, more = drawn(2.0), drawn(7.0)
    assert (
        fewer
        and "6 \N{RIGHTWARDS ARROW} 2<" in fewer.svg
        and ">5<" in fewer.svg
        and picture.COLOURS[0] not in fewer.svg
    )
    assert more and "6 \N{RIGHTWARDS ARROW} 7<" in more.svg and picture.COLOURS[0] in more.svg
    assert report_plots.frontier(RunSlice(4, run().records)) is None


def test_text_is_text(tmp_path: Path) -> None:
    """In tables, pictures, headings and commands; also where two dollars would be a formula."""
    evil = "<b>$x^2$&amp;"
    results = run(lull=evil)
    results.checks.append(Check(f"real: {evil}", "failed", "<script>alert(1)</script>"))
    results.host["model"] = "<i>"
    text = report.of_folders([put(tmp_path / "r", "results.json", results.to_json())])
    assert Page(text).text.count(evil) > 5
    assert "<b>$" not in text and "<script>" not in text and "<i>" not in text
    kernels = [record for record in results.records if record.kernel in ("stock", evil)]
    results.records = kernels
    text = report.of_folders([put(tmp_path / "s", "results.json", results.to_json())])
    words = {
        "".join(node.itertext()).strip()
        for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)
        for node in ET.fromstring(svg).iter()
        if node.tag == "text"
    }
    assert evil in words
    assert Page(text)


def test_the_same_for_the_same(folders: dict[str, Path], whole: str) -> None:
    assert report.of_folders(list(folders.values())) == whole


def test_a_file_stands_for_its_folder_and_counts_once(folders: dict[str, Path]) -> None:
    sources = report_data.load_sources([folders["run"] / "results.json", folders["run"]])
    assert [source.folder for source in sources] == [folders["run"]]
    assert (
        sources[0].run is not None
        and sources[0].comparison is not None
        and set(sources[0].configs) == {"stock", "lull"}
    )


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("nothing", None, "holds no results"),
        ("results.json", "{", "not the results of a run"),
        ("check.json", "{", "not what this version writes"),
        ("results.json", '{"records": [{"kernel": "stock"}], "checks": []}', "not a results.json of this version"),
        ("check.json", '{"boots": [{}], "mutants": []}', "not a check.json of this version"),
        ("check.json", "[]", "not a check.json of this version"),
        (
            "check.json",
            '{"boots": [{"mutant": null, "kernel": "", "machine": "", "verdict": "", "known": {}, "boot": "", '
            '"workloads": [], "status": {}, "reports": [{"report": 1, "count": 1}]}], "mutants": []}',
            "not a check.json of this version: KeyError('text')",
        ),
        (
            "check.json",
            '{"boots": [{"mutant": null, "kernel": "", "machine": "", "verdict": "", "known": 7}], "mutants": []}',
            "not a check.json of this version",
        ),
    ],
)
def test_what_is_no_result_is_refused(name: str, content: str | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        put(tmp_path, name, content)
    with pytest.raises(UsageError) as caught:
        report_data.load_sources([tmp_path])
    assert words in caught.value.what
    if content:
        assert name in caught.value.where and caught.value.remedy


def test_the_command(tool: Tool, folders: dict[str, Path], tmp_path: Path) -> None:
    """Beside the first result by default, else where it is told to; not with --dry-run; errors are usage errors."""
    own = tmp_path / "own results"
    shutil.copytree(folders["run"], own)
    dry = tool("report", str(own), "--dry-run")
    assert dry.returncode == 0 and not (own / "report.html").exists()
    done = tool("report", str(own))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"report: {own}/report.html\n"
    assert (own / "report.html").read_text().startswith("<!DOCTYPE html>")
    out = tmp_path / "page.html"
    done = tool("report", str(own / "results.json"), str(folders["check"]), "--out", str(out), "--json")
    assert json.loads(done.stdout) == {"report": str(out)}
    assert "System B" in out.read_text() and "The checker: a TLB" in out.read_text()
    for words in (["nowhere"], [str(own), "--out", str(tmp_path)], [str(own / "config-stock")]):
        done = tool("report", *words)
        assert done.returncode == 2 and "to do:" in done.stderr


def test_looks_are_few_and_stay() -> None:
    """stock, sticky and Lull look alike everywhere; others share the rest."""
    assert picture.looks(["lull", "x"])["lull"] == picture.looks(["stock", "lull"])["lull"]
    many = [f"kernel{n}" for n in range(9)]
    assert set(picture.looks(many)) == set(many)
    assert not {look for look in picture.looks(many).values()} & {picture.looks(["stock"])["stock"]}


def chromium(*words: str) -> subprocess.CompletedProcess[str]:
    """Run it without a screen."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)


browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian's package of that name)")


def looked_at(text: str, width: int, probe: str, folder: Path) -> str:
    """What a script finds out about a page in a frame so wide, in which everything is unfolded."""
    probe = (
        "<script>addEventListener('load', () => {"
        "document.querySelectorAll('details').forEach(d => d.open = true);"
        f"parent.postMessage({probe}, '*'); }});</script></body>"
    )
    (folder / "page.html").write_text(text.replace("</body>", probe))
    # A window cannot be as narrow as a telephone's.
    (folder / "frame.html").write_text(
        f"<iframe src=page.html style='width: {width}px; height: 900px; border: 0'></iframe>"
        "<script>addEventListener('message', e => document.body.dataset.measured = e.data)</script>"
    )
    words = [f"--user-data-dir={folder}/profile", "--window-size=1700,1000", "--enable-logging=stderr"]
    done = chromium(*words, "--virtual-time-budget=5000", "--dump-dom", f"file://{folder}/frame.html")
    measured = re.search(r'data-measured="([^"]*)"', done.stdout)
    assert measured, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr
    return measured[1]


OUTSIDE = """[...document.querySelectorAll('CHOSEN')].filter(
    e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90)).join(' ')"""
"""Those of the elements that are chosen which go on beyond the page's edge."""


@browser
@pytest.mark.parametrize("width", [400, 800, 1600])
def test_no_screen_is_too_narrow(width: int, whole: str, tmp_path: Path) -> None:
    """The page is never wider than its frame, whatever is unfolded; a browser has nothing to complain of."""
    probe = "`${innerWidth} ${document.documentElement.scrollWidth}`"
    inner, scrolled = map(int, looked_at(whole, width, probe, tmp_path).split())
    assert scrolled <= inner == width


@browser
def test_pictures_and_prose_fit_a_telephone(whole: str, tmp_path: Path) -> None:
    """Nothing of prose is to be scrolled for; tables of figures may be, and pictures, whose labels can be read so."""
    assert looked_at(whole, 400, OUTSIDE.replace("CHOSEN", ".drawing, .prose td, p, h2"), tmp_path) == ""
    size = """Math.min(...[...document.querySelectorAll('.plot')].map(
        e => e.getBoundingClientRect().width / e.viewBox.baseVal.width * 8))"""
    assert float(looked_at(whole, 400, size, tmp_path)) >= 8


def many_kernels() -> Results:
    """Ten kernels with one workload, and five with two: as of a run of young."""
    names = ["stock", *(f"lull+{LOCAL}=off+{AGING}={policy}" for policy in ("sync", "nosync", "none", "auto"))]
    names += [f"lull+only={LOCAL}+{AGING}=policy{n}" for n in range(5)]
    metrics = ("tlbi_broadcast_user", "insns")
    two = [Record(k, w, 4, m, "count", (8.0,), 3, "page") for k in names[:5] for w in ("a", "b") for m in metrics]
    return replace(run(), records=[*two, *(Record(k, "a", 4, "insns", "count", (8.0,), 3, "page") for k in names[5:])])


@browser
def test_many_kernels_fit_a_screen(tmp_path: Path) -> None:
    """They stand below each other, or in several tables."""
    text = report.of_folders([put(tmp_path, "results.json", many_kernels().to_json())])
    assert looked_at(text, 1400, OUTSIDE.replace("CHOSEN", "table"), tmp_path) == ""
    boxes = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert looked_at(text, 1400, boxes, tmp_path) == "0"


@browser
def test_nothing_is_cut_off_on_paper(whole: str, tmp_path: Path) -> None:
    """With the rules for paper, on a screen as wide as A4 without its margins."""
    many = report.of_folders([put(tmp_path / "many", "results.json", many_kernels().to_json())])
    for text in (whole, many):
        on_screen = text.replace("@media print", "@media all")
        assert on_screen != text
        assert looked_at(on_screen, 688, OUTSIDE.replace("CHOSEN", "table, svg, p, summary"), tmp_path) == ""


def pages(text: str, folder: Path) -> int:
    """How many pages of paper a page takes."""
    (folder / "page.html").write_text(text)
    done = chromium(
        f"--user-data-dir={folder}/profile", f"--print-to-pdf={folder}/page.pdf", f"file://{folder}/page.html"
    )
    pdf = (folder / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000, done.stderr[-2000:]
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@browser
def test_what_is_folded_is_printed(whole: str, tmp_path: Path) -> None:
    """As many pages as when all of it is unfolded; and folding would save some."""
    folded = whole.replace("details::details-content { content-visibility: visible", "x { color: red")
    unfolded = re.sub("<details(?! open)", "<details open", whole)
    assert pages(folded, tmp_path) < pages(whole, tmp_path) == pages(unfolded, tmp_path)
