# SPDX-License-Identifier: GPL-2.0-only
"""The instructions of a case by function: the boots that stand for a kernel."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lull.judge import compare
from lull.run import measurements
from lull.run.records import Breakdown, Measurement, Record, Results


def boot(kernel: str, **counts: float) -> Measurement:
    """A measurement of a boot."""
    return Measurement(kernel, "w", 4, "page", 1.0, {"insns_quiet": sum(counts.values())}, functions=counts)


def test_the_boots_in_the_middle_stand_for_a_kernel() -> None:
    """The counts add up to the median of the metric, for an odd and an even number of boots."""
    boots = [boot("stock", a=90, b=10), boot("stock", a=10, c=40), boot("stock", a=500)]
    assert measurements.breakdowns(boots) == [Breakdown("stock", "w", "insns_quiet", {"a": 90, "b": 10}, 4, "page")]
    (found,) = measurements.breakdowns([*boots, boot("stock", a=60)])
    assert found.counts == {"a": 75, "b": 5}
    with_more = [*boots, boot("lull", a=1)]
    assert [one.kernel for one in measurements.breakdowns(with_more)] == ["stock", "lull"]


def test_a_case_with_one_window_and_a_run_without() -> None:
    """The metric is that of the window; a run that did not count functions has none."""
    one = replace(boot("stock", a=3), metrics={"insns_own": 3})
    assert measurements.breakdowns([one])[0].metric == "insns_own"
    assert measurements.breakdowns([replace(one, functions={})]) == []


def test_results_keep_them() -> None:
    """Written and read back; a file of a run without them is read, too."""
    results = Results("1", "6.12", {}, functions=measurements.breakdowns([boot("stock", a=3)]))
    assert Results.from_json(results.to_json()) == results
    raw = json.loads(results.to_json())
    raw["functions"][0]["counts"] = 3
    with pytest.raises(ValueError, match=r"functions\[0\]: counts is not a table"):
        Results.from_json(json.dumps(raw))


def timed(kernel: str, operations: int, tlbis: float) -> Measurement:
    """A measurement of a program that runs for a time."""
    return Measurement(kernel, "t", operations, "call", 0.2, {"tlbi_broadcast": tlbis})


def test_other_numbers_of_operations_are_compared_per_operation() -> None:
    """Whichever boot did how many: the values are those of one. What does the same each time keeps its numbers."""
    boots = [timed("stock", 100, 200), timed("stock", 400, 800), timed("lull", 50, 25)]
    even = [replace(boots[0], workload="e"), replace(boots[2], workload="e", operations=100)]
    records = measurements.records_of([*boots, *even], 4, "seconds")
    found = {(r.kernel, r.workload): (r.values, r.operations) for r in records if r.metric == "tlbi_broadcast"}
    assert found["stock", "t"] == ((2, 2), 1) and found["lull", "t"] == ((0.5,), 1)
    assert found["stock", "e"] == ((200,), 100) and found["lull", "e"] == ((25,), 100)
    comparison = compare.compare(Results("1", "7.3", {}, records))
    assert comparison.problems == () and {row.workload for row in comparison.rows} == {"t", "e"}
    assert measurements.uneven([*boots, *even]) == {"t": (50, 400)}


def test_what_cannot_be_compared_is_one_line() -> None:
    """Not one for each metric."""
    records = [
        Record(kernel, "w", 4, metric, "count", (1.0,), operations, "page")
        for kernel, operations in (("stock", 3), ("lull", 4))
        for metric in ("a", "b")
    ]
    (problem,) = compare.compare(Results("1", "7.3", {}, records)).problems
    assert problem == "lull: w at 4 vCPUs is not the same measurement: 4 x page in count, stock has 3 x page in count"
