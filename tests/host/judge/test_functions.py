# SPDX-License-Identifier: GPL-2.0-only
"""The tables of instructions by function."""

from __future__ import annotations

import re

from lull.judge import functions
from lull.run.records import Breakdown, Results


def results(**kernels: dict[str, float]) -> Results:
    """A run with these breakdowns of one workload, of four pages."""
    found = [
        Breakdown(name.replace("_", "."), "teardown", "insns_quiet", {f: 4 * n for f, n in counts.items()}, 4, "page")
        for name, counts in kernels.items()
    ]
    return Results("1", "6.12", {}, functions=found)


STOCK = {"same": 5000.0, "dearer": 10.0, "gone": 7.0, "user space": 3000.0, "bit": 1.0}
LULL = {"same": 5000.0, "dearer": 110.5, "new": 33.0, "user space": 3000.0, "bit": 1.01}


def test_kernels_side_by_side() -> None:
    """The largest difference first, whatever its sign; the rest in a line; the total is the whole."""
    (grid,) = functions.grids(results(stock=STOCK, lull=LULL))
    assert grid.title == "instructions of teardown by function (insns_quiet), per page"
    assert grid.header == ("function", "stock", "lull", "difference")
    assert grid.rows == (
        ("dearer", "10.0", "110.5", "+100.5"),
        ("new", "0.0", "33.0", "+33.0"),
        ("gone", "7.0", "0.0", "-7.0"),
        ("3 other functions", "8,001.0", "8,001.0", "+0.0"),
        ("total", "8,018.0", "8,144.5", "+126.5"),
    )
    (short,) = functions.grids(results(stock=STOCK, lull=LULL), most=1)
    assert short.rows[1] == ("5 other functions", "8,008.0", "8,034.0", "+26.0")
    assert short.rows[2] == grid.rows[-1]


def test_the_control_says_what_is_noise() -> None:
    """It has no column."""
    (grid,) = functions.grids(results(stock=STOCK, lull=LULL, stock_control={**STOCK, "same": 4996.0}))
    assert len(grid.header) == 4
    assert grid.notes == ("noise: in a second sample of stock no function differs by more than 4.0 (same)",)


def test_one_kernel_is_sorted_by_count() -> None:
    """Nothing is compared: neither differences, nor, without stock, noise."""
    (grid,) = functions.grids(results(lull=LULL), most=2)
    assert grid.header == ("function", "lull")
    assert grid.rows == (
        ("same", "5,000.0"), ("user space", "3,000.0"), ("3 other functions", "144.5"), ("total", "8,144.5"),
    )  # fmt: skip
    assert functions.grids(Results("1", "6.12", {})) == []


def test_many_kernels_are_in_several_tables() -> None:
    """Each with stock beside them; small totals have more digits; the file has every function that differs."""
    small = {name: n / 1000 for name, n in STOCK.items()}
    kernels = {f"lull_{n}_with_a_long_name": {**small, f"own{n}": n / 10} for n in range(1, 6)}
    grids = functions.grids(results(stock=small, **kernels))
    assert len(grids) > 1 and all(grid.header[1] == "stock" and grid.width <= 100 for grid in grids)
    assert grids[0].rows[-1][1] == "8.0180"
    text = functions.markdown(results(stock=small, **kernels))
    assert all(re.search(rf"^\| own{n} \|", text, re.MULTILINE) for n in range(1, 6))
