# SPDX-License-Identifier: GPL-2.0-only
"""Rows, geometric means and problems of a comparison, and the A/A control's verdict."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import AGING, HVO

from lull.judge import stats
from lull.judge.compare import CONTROL_ALPHA, Comparison, _differences, _splits, compare
from lull.judge.stats import Verdict
from lull.run.records import Record, Results

DIFFERENT = (Verdict.HIGHER, Verdict.LOWER)


def record(
    kernel: str,
    values: Sequence[float],
    *,
    workload: str = "swap_bench",
    metric: str = "tlbi_broadcast",
    unit: str = "count",
    operations: int = 100,
    operation: str = "page",
    vcpus: int = 4,
) -> Record:
    return Record(kernel, workload, vcpus, metric, unit, tuple(values), operations, operation)


def seconds(kernel: str, values: Sequence[float], workload: str = "swap_bench") -> Record:
    return record(kernel, values, workload=workload, metric="seconds_emulated", unit="s")


def run(*records: Record) -> Comparison:
    return compare(Results("0.1", "6.12", {}, list(records)))


def test_a_row() -> None:
    found = run(
        record("stock", [8000, 8100, 8050, 8020, 8030, 8060]),
        record("lull", [800, 810, 805, 802, 803, 806]),
    )
    (row,) = found.rows
    assert (row.kernel, row.workload, row.metric, row.vcpus) == (
        "lull",
        "swap_bench",
        "tlbi_broadcast",
        4,
    )
    assert row.baseline.median == 8040 and row.other.median == 804
    assert row.per_operation(row.baseline.median) == 80.4
    assert (row.baseline.interval.low, row.baseline.interval.high) == (8000, 8100)
    assert row.baseline.half_width == pytest.approx(60 / 8040)
    assert row.effect.estimate == pytest.approx(0.1, rel=1e-3)
    assert row.effect.verdict is Verdict.LOWER
    assert row.p_holm == row.effect.p == pytest.approx(2 / 924)
    assert found.problems == ()


def test_half_width_around_zero() -> None:
    (row,) = run(record("stock", [0, 0, 0]), record("lull", [0, 0, 5])).rows
    assert row.baseline.half_width == 0
    assert row.other.half_width is None


def test_kernels_keep_their_order_and_rows_go_by_record() -> None:
    found = run(
        record("stock", [1, 1]),
        record("stock", [2, 2], workload="pingpong", operations=0, operation=""),
        record(f"lull+{AGING}=none", [1, 1]),
        record("lull", [2, 2], workload="pingpong", operations=0, operation=""),
        record("lull", [1, 1]),
        record(f"lull+{AGING}=none", [3, 3], workload="pingpong", operations=0, operation=""),
    )
    assert found.kernels == (f"lull+{AGING}=none", "lull")
    assert [(r.workload, r.kernel, r.effect.verdict) for r in found.rows] == [
        ("swap_bench", f"lull+{AGING}=none", Verdict.EQUAL),
        ("swap_bench", "lull", Verdict.EQUAL),
        ("pingpong", f"lull+{AGING}=none", Verdict.HIGHER),
        ("pingpong", "lull", Verdict.EQUAL),
    ]
    assert found.rows[2].per_operation(3) == 3


def test_geometric_mean_leaves_out_zeros_and_says_so() -> None:
    found = run(
        *(record("stock", [100, 100], workload=w) for w in "abc"),
        record("lull", [10, 10], workload="a"),
        record("lull", [1000, 1000], workload="b"),
        record("lull", [0, 0], workload="c"),
    )
    (mean,) = found.geomeans
    assert mean.ratio == pytest.approx(1.0)
    assert (mean.used, mean.left_out) == (2, 1)
    (none,) = run(record("stock", [0, 0]), record("lull", [0, 0])).geomeans
    assert (none.ratio, none.used, none.left_out) == (None, 0, 1)


def test_vcpus_are_compared_apart() -> None:
    found = run(
        record("stock", [100, 100]),
        record("stock", [400, 400], vcpus=16),
        record("lull", [50, 50]),
        record("lull", [100, 100], vcpus=16),
    )
    assert [(r.vcpus, r.effect.estimate) for r in found.rows] == [(4, 0.5), (16, 0.25)]
    assert [(g.vcpus, g.ratio) for g in found.geomeans] == [(4, 0.5), (16, pytest.approx(0.25))]


def test_what_is_missing_is_named() -> None:
    found = run(
        record("stock", [1, 1]),
        record("stock", [], workload="pingpong"),
        record("lull", [1, 1], workload="pingpong"),
        record("lull", [5, 5], metric="young_sync"),
    )
    assert found.rows == ()
    assert found.problems == ("lull: not measured on stock: pingpong",)
    gone = run(record("stock", [1, 1]), record("lull", [1, 1], workload="pingpong"))
    assert "lull: not measured on lull: swap_bench" in gone.problems


def test_what_a_policy_is_not_measured_with_is_no_problem() -> None:
    found = run(
        record("stock", [1, 1]),
        record("stock", [1, 1], workload="young"),
        record(f"lull+{AGING}=none", [1, 1], workload="young"),
        record(f"lull+{AGING}=none", [5, 5], workload="young", metric="young_none"),
    )
    assert [row.workload for row in found.rows] == ["young"]
    assert found.problems == ()


def test_kernels_with_workloads_of_their_own_are_no_problem() -> None:
    mine = [record(name, [1, 1], workload="hvo") for name in ("lab", f"lab+only={HVO}")]
    assert run(record("stock", [1, 1]), *mine).problems == ()
    assert run(record("stock", [1, 1]), mine[0]).problems == (
        "lab: not measured on stock: hvo", "lab: not measured on lab: swap_bench",
    )  # fmt: skip


def test_a_workload_with_a_baseline_of_its_own_is_no_problem() -> None:
    """Stock lacks it, and another kernel without settings does not; a kernel under settings is no baseline."""
    both = [record("stock", [1, 1]), record("lull", [1, 1]), record("lull", [1, 1], workload="hvo")]
    assert run(*both, record("unsafe", [1, 1], workload="hvo")).problems == ()
    assert run(*both, record(f"lull+only={HVO}", [1, 1], workload="hvo")).problems == (
        "lull: not measured on stock: hvo",
    )


def test_nothing_to_compare_with() -> None:
    assert run(record("lull", [1])).problems == ("stock was not measured: there is nothing to compare with",)
    assert run().rows == ()


def test_unlike_measurements_are_not_compared() -> None:
    found = run(record("stock", [1, 1]), record("lull", [1, 1], operations=7))
    assert found.rows == ()
    assert "7 x page in count, stock has 100 x page" in found.problems[0]


def test_refuses_nan_and_doubles() -> None:
    with pytest.raises(ValueError, match=r"lull, swap_bench at 4 vCPUs, tlbi_broadcast: .*nan"):
        run(record("stock", [1, 1]), record("lull", [1, math.nan]))
    with pytest.raises(ValueError, match="recorded twice: stock"):
        run(record("stock", [1]), record("stock", [2]))


def test_control_is_no_kernel_and_may_be_missing() -> None:
    found = run(record("stock", [1, 1]), record("stock.control", [1, 1]))
    assert found.kernels == () and found.rows == ()
    (row,) = found.control.rows
    assert row.effect.verdict is Verdict.EQUAL
    missing = run(record("stock", [1, 1])).control.check
    assert (missing.name, missing.verdict) == ("A/A control", "skipped")
    assert missing.detail == "stock.control was not measured"


def control_run(rng: np.random.Generator, repeats: int, shift: float, load: float) -> Comparison:
    """Twelve workloads, timed together: ``load`` is what a busy host does to all of them."""
    records = []
    for kernel, factor in (("stock", 1.0), ("stock.control", shift)):
        busy = rng.lognormal(0, load, repeats)
        for place in range(12):
            values = factor * busy * rng.lognormal(0, 0.05, repeats)
            records.append(seconds(kernel, values.tolist(), workload=f"w{place}"))
    return run(*records)


def test_control_that_differs_fails() -> None:
    check = control_run(np.random.default_rng(3), 6, 1.5, 0.0).control.check
    assert check.verdict == "failed"
    assert check.detail.startswith("12 of 12 comparisons of stock with itself differ (12 higher, 0")


def test_control_holds_as_often_as_it_should_on_a_busy_host() -> None:
    """Repeats slow for every workload make differences come together: that must not fail it."""
    rng = np.random.default_rng(4)
    runs = 150
    found = [control_run(rng, 5, 1.0, 0.5).control for _ in range(runs)]
    failed = sum(control.check.verdict == "failed" for control in found)
    together = sum(sum(row.effect.verdict in DIFFERENT for row in control.rows) >= 6 for control in found)
    assert together > 3 * failed  # counting alone would have failed these
    limit = CONTROL_ALPHA * runs
    assert failed <= limit + 3 * math.sqrt(limit)


def test_control_with_few_repeats_says_that_it_could_not_fail() -> None:
    check = control_run(np.random.default_rng(5), 4, 1.5, 0.0).control.check
    assert check.verdict == "skipped"
    assert check.detail.endswith("with so few repeats it could not have failed")


def test_control_expectation_is_that_of_the_intervals() -> None:
    """5 + 5 repeats without ties: an interval misses in 2 * 4 of 252 splits (U <= 2)."""
    rng = np.random.default_rng(6)
    found = control_run(rng, 5, 1.0, 0.0).control
    expected = 12 * (1 - found.rows[0].effect.interval.coverage)
    assert expected == pytest.approx(12 * 8 / 252)
    assert f"{expected:.1f} are expected by chance" in found.check.detail


def test_control_with_unlike_numbers_of_repeats() -> None:
    rng = np.random.default_rng(7)
    records = [seconds("stock", [1.0], "missing")]
    for place in range(6):
        repeats = 5 if place < 3 else 8
        for kernel, n, factor in (("stock", repeats, 1), ("stock.control", repeats - 1, 2)):
            records.append(seconds(kernel, (factor * rng.lognormal(0, 0.1, n)).tolist(), f"w{place}"))
    found = run(*records).control.check
    assert found.verdict == "failed"
    assert found.detail.startswith("6 of 6 comparisons")
    assert "not measured on stock.control: missing" in found.detail


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5),
    st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5),
    st.booleans(),
)
def test_splits_are_judged_by_the_rule_of_effect(x: list[float], y: list[float], exact: bool) -> None:
    splits = _splits(len(x), len(y))
    pooled = np.array(x + y)
    found = _differences(pooled.tolist(), splits, exact=exact)
    assert splits[0].tolist() == [False] * len(x) + [True] * len(y)
    for split, differs in itertools.islice(zip(splits, found, strict=True), 30):
        verdict = stats.effect(pooled[~split].tolist(), pooled[split].tolist(), exact=exact, test=False).verdict
        assert differs == (verdict in DIFFERENT)


def test_splits_are_all_of_them_or_a_fixed_sample() -> None:
    few = _splits(3, 2)
    assert len(few) == 10 == len(np.unique(few, axis=0))
    many = _splits(12, 12)
    assert (many.sum(axis=1) == 12).all()
    assert (many == _splits(12, 12)).all()
    assert many[0].tolist() == [False] * 12 + [True] * 12
