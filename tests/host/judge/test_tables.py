# SPDX-License-Identifier: GPL-2.0-only
"""Golden tables in plain mode, and what must hold for any of them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import AGING

from lull.judge import tables
from lull.judge.compare import compare
from lull.run.records import Check, Record, Results

STOCK = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0)


def record(
    kernel: str,
    workload: str,
    metric: str,
    values: tuple[float, ...],
    operations: int = 0,
    operation: str = "",
    vcpus: int = 4,
) -> Record:
    unit = "s" if metric.startswith("seconds") else "count"
    return Record(kernel, workload, vcpus, metric, unit, values, operations, operation)


def example() -> Results:
    metric = "tlbi_broadcast_user"
    records = [
        record("stock", "swap_bench", metric, tuple(100 * v for v in STOCK), 100, "page"),
        record("lull", "swap_bench", metric, tuple(10 * v for v in STOCK), 100, "page"),
        record("stock", "sleeper", metric, (300.0,) * 6),
        record("lull", "sleeper", metric, (0.0,) * 6),
        record("stock", "pingpong", metric, STOCK, 10, "round trip"),
        record("lull", "pingpong", metric, STOCK[::-1], 10, "round trip"),
        record("stock", "exact", metric, (7.0,) * 6, 1, "page"),
        record("lull", "exact", metric, (7.0,) * 6, 1, "page"),
    ]
    for kernel, factor in (("stock", 1.0), ("lull", 1.25), ("stock.control", 1.0)):
        seconds = tuple(factor * v / 1000 for v in STOCK)
        records.append(record(kernel, "swap_bench", "seconds_emulated", seconds, 100, "page"))
    return Results(
        "0.1",
        "linux 6.12.117",
        {"model": "Xeon", "cpus": 2},
        records,
        settings={
            "base": "linux 6.12.117",
            "machine": {"vcpus": 4, "cpu": "max"},
            "kernels": {"stock": {"config": "..."}},
            "append": "",
        },
    )


PLAIN = """\
lull: 0.1
base: linux 6.12.117
vcpus: 4
cpu: max
host model: Xeon
host cpus: 2
repeats: 6

tlbi_broadcast_user
workload        per              stock        lull               vs stock
swap_bench      page        102.5 ± 2%  10.25 ± 2%  0.100 [0.0971, 0.103]
sleeper         window             300           0                  -100%
pingpong        round trip  10.25 ± 2%  10.25 ± 2%                ~ (p=1)
exact           page                 7           7                      =
geometric mean                                                      0.464
geometric mean, lull: 1 of 4 workloads left out, a zero has no ratio

seconds_emulated (emulated, not a machine's time), per page
workload           stock          lull           vs stock
swap_bench  1.025ms ± 2%  1.281ms ± 2%  1.25 [1.21, 1.29]

A/A control: passed: 0 of 1 comparisons of stock with itself differ (0 higher, 0 lower); 0.0 are
expected by chance (p = 1); stock.control: not measured on stock.control: exact, pingpong, sleeper

How to read this: a value is the median of the repeats. ± is the distance to the further end of its
95 % interval; without ±, every repeat gave the same value. vs stock is the ratio kernel / stock,
with its 95 % interval in brackets. -100% means that the value is 0 on the kernel, and not on stock.
Where another 0 leaves no ratio, the difference is given, with its sign and the unit of work
(+2/page). ~ means within noise; = the same exact count; ? too few repeats to tell. Counts are
exact. Seconds are emulated, not the time of a real machine.
"""


def plain(results: Results) -> str:
    file = io.StringIO()
    tables.print_comparison(tables.make_console(file), results, compare(results))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def test_plain_golden() -> None:
    text = plain(example())
    assert text == PLAIN.rstrip()


def test_markdown_golden() -> None:
    results = example()
    text = tables.markdown(results, compare(results), ["seconds_emulated"])
    assert text.startswith("* lull: 0.1\n* base: linux 6.12.117\n")
    assert "config" not in text
    assert (
        """
**seconds_emulated (emulated, not a machine's time), per page**

| workload | stock | lull | vs stock |
| --- | ---: | ---: | ---: |
| swap_bench | 1.025ms ± 2% | 1.281ms ± 2% | 1.25 [1.21, 1.29] |

* A/A control: passed: """
        in text
    )
    assert text.endswith("not the time of a real machine.*\n")


def test_columns_that_vary_are_not_lifted() -> None:
    records = [
        record("stock", "a", "insns", STOCK, 10, "page", 4),
        record("lull", "a", "insns", STOCK[:5], 10, "page", 4),
        record("stock", "a", "insns", STOCK, 10, "page", 8),
        record("lull", "a", "insns", STOCK, 10, "page", 8),
    ]
    results = Results("0.1", "6.12", {}, records)
    comparison = compare(results)
    names = [name for name, _ in tables.common(results, comparison)]
    assert names == ["lull", "base"]
    (grid,) = tables.grids(comparison, ["insns"])
    assert grid.title == "insns, per page"
    assert grid.header == ("workload", "vcpus", "repeats", "stock", "lull", "vs stock")
    assert [row[:3] for row in grid.rows] == [
        ("a", "4", "6/5"),
        ("a", "8", "6"),
        ("geometric mean", "4", ""),
        ("geometric mean", "8", ""),
    ]
    assert grid.notes == ("± of 5 repeats is their whole range, which holds the median with 93.75 % confidence",)


def test_too_few_repeats_are_marked() -> None:
    records = [
        record("stock", "a", "insns", STOCK[:3]),
        record("lull", "a", "insns", tuple(v / 2 for v in STOCK[:3])),
        record("stock", "b", "insns", (0.0, 0.0, 4.0)),
        record("lull", "b", "insns", (9.0, 9.0, 9.0)),
    ]
    (grid,) = tables.grids(compare(Results("", "", {}, records)), ["insns"])
    assert grid.rows[0] == ("a", "101 ± 1%", "50.5 ± 1%", "0.500 ?")
    assert grid.rows[1] == ("b", "0 [0, 4]", "9", "+9/window ?")
    assert "75 % confidence" in grid.notes[0]


def many_kernels() -> list[Record]:
    kernels = ["stock", "lull", f"lull+{AGING}=sync", f"lull+{AGING}=nosync", f"lull+{AGING}=none", "l"]
    return [
        record(kernel, workload, "seconds_emulated", tuple(v * (place + 1) for v in STOCK), 7, "page")
        for workload in ("mprotect_threaded", "teardown/anon-64k")
        for place, kernel in enumerate(kernels)
    ]


def test_kernels_that_do_not_fit_go_to_another_table() -> None:
    results = Results("0.1", "6.12", {}, many_kernels())
    comparison = compare(results)
    found = tables.grids(comparison)
    assert len(found) > 1
    assert all(grid.width <= 100 for grid in found)
    assert sum(grid.header.count("vs stock") for grid in found) == 5
    assert all(len(line) <= 100 for line in plain(results).splitlines())


def test_kernels_with_one_workload_stand_below_each_other() -> None:
    """However many there are, the table is no wider."""
    records = [one for one in many_kernels() if one.workload == "mprotect_threaded"]
    (grid,) = tables.grids(compare(Results("", "", {}, records)))
    assert grid.title == "seconds_emulated (emulated, not a machine's time) of mprotect_threaded, per page"
    assert grid.header == ("kernel", "median", "vs stock")
    assert [row[0] for row in grid.rows] == ["stock", *dict.fromkeys(r.kernel for r in records if r.kernel != "stock")]
    assert grid.rows[0][2] == "" and grid.rows[1][2].startswith("2.00 [")
    more = [*records, *(record(r.kernel, r.workload, r.metric, r.values, 7, "page", 8) for r in records)]
    (grid,) = tables.grids(compare(Results("", "", {}, more)))
    assert grid.header == ("kernel", "vcpus", "median", "vs stock") and grid.labels == 2
    assert [row[:2] for row in grid.rows[::6]] == [("stock", "4"), ("stock", "8")]


@pytest.mark.parametrize(
    ("stock", "lull", "said"),
    [
        (STOCK, (0.0,) * 6, "-100%"),
        (STOCK[:1], (0.0,), "-100% ?"),
        ((0.0,) * 6, (30.0,) * 6, "+3/round trip"),
        ((0.0,) * 6, (30.0, 31.0, 32.0, 33.0, 34.0, 35.0), "+3.25/round trip [+3/round trip, +3.5/round trip]"),
        ((0.0,) * 5 + (9.0,), (30.0,) * 6, "+3/round trip [+2.1/round trip, +3/round trip]"),
        ((0.0,) * 6, (0.0,) * 6, "="),
        ((8.0,) * 6, (2.0,) * 6, "0.250"),
    ],
)
def test_what_is_no_ratio_does_not_look_like_one(stock: tuple[float, ...], lull: tuple[float, ...], said: str) -> None:
    """A difference has a sign, and says what it is per."""
    pair = [record(kernel, "a", "insns", v, 10, "round trip") for kernel, v in (("stock", stock), ("lull", lull))]
    (row,) = compare(Results("", "", {}, pair)).rows
    assert tables.change(row) == said


def test_every_table_with_seconds_says_that_they_are_emulated() -> None:
    for grid in tables.grids(compare(Results("", "", {}, many_kernels()))):
        assert "emulated, not a machine's time" in grid.title


def test_seconds_of_a_machine_are_not_called_emulated() -> None:
    records = [record("stock", "a", "seconds", STOCK), record("lull", "a", "seconds", STOCK)]
    text = plain(Results("", "", {}, records))
    assert "\nseconds, per window\n" in text
    assert "emulated" not in text


def test_nothing_measured() -> None:
    results = Results("0.1", "6.12", {}, [])
    text = plain(results)
    assert "not compared: stock was not measured" in text
    assert "vs stock is the ratio kernel / stock" in text


def test_no_colour_when_asked_for_and_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    results = example()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    styled = Terminal()
    tables.print_comparison(tables.make_console(styled), results, compare(results))
    assert "\x1b[1m" in styled.getvalue()
    assert "\x1b" not in plain(results)
    monkeypatch.setenv("NO_COLOR", "1")
    bare = Terminal()
    tables.print_comparison(tables.make_console(bare), results, compare(results))
    assert "\x1b[3" not in bare.getvalue()  # bold and dim are no colours


def test_ascii_output_does_not_fail() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    results = example()
    tables.print_comparison(tables.make_console(file), results, compare(results))
    file.flush()
    assert b"1.025ms +- 2%" in raw.getvalue()


def test_checks() -> None:
    grid = tables.checks_grid([Check("young", "passed", "3 | 3")])
    assert tables.grid_markdown(grid).splitlines()[-1] == "| young | passed | 3 \\| 3 |"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "count", "0"),
        (7, "count", "7"),
        (999.96, "count", "1k"),
        (12345, "count", "12.35k"),
        (-1500, "count", "-1.5k"),
        (2.5e9, "count", "2.5G"),
        (0.0312, "count", "0.0312"),
        (0, "s", "0s"),
        (61.5, "s", "61.5s"),
        (0.0012345, "s", "1.234ms"),
        (3.2e-6, "s", "3.2µs"),
        (4e-10, "s", "0.4ns"),
    ],
)
def test_numbers(value: float, unit: str, text: str) -> None:
    assert tables.number(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.100"), (1, "1.00"), (15.6, "15.6"), (100, "100"), (12345, "12,345")],
)
def test_ratios(value: float, text: str) -> None:
    assert tables.ratio(value) == text


@given(st.floats(1e-8, 1e11), st.sampled_from(["count", "s"]))
def test_numbers_are_right_to_three_digits(value: float, unit: str) -> None:
    scale = {"G": 1e9, "M": 1e6, "k": 1e3, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "s": 1.0}
    text = tables.number(value, unit)
    digits = text.rstrip("GMkmsµn")
    suffix = text[len(digits) :]
    assert float(digits) * scale.get(suffix, 1.0) == pytest.approx(value, rel=6e-3)


cell = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(cell, cell, cell), max_size=4))
def test_a_cell_is_printed_as_it_is(rows: list[tuple[str, str, str]]) -> None:
    """No markup, no emoji names, nothing lost, whatever the workload is called."""
    file = io.StringIO()
    grid = tables.Grid("t", ("a", "b", "c"), tuple(rows), 1)
    tables.show_grid(tables.make_console(file), grid)
    lines = file.getvalue().splitlines()
    assert len(lines) == 2 + len(rows)
    for line, row in zip(lines[2:], rows, strict=True):
        assert line.split() == [part for part in row if part]
