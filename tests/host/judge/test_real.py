# SPDX-License-Identifier: GPL-2.0-only
"""The thresholds of real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull import base as bases
from lull import guest, plan
from lull.judge import real, thresholds, verdict
from lull.run.records import Check, Record, Results

Values = dict[tuple[str, str, str], list[float]]
COMPILE, REDIS = "real: broadcasts of compile", "real: broadcasts of redis"
INSNS = "real: instructions of programs"


def good() -> Values:
    """A run in which every threshold is met: (kernel, workload, metric) -> repeats."""
    found: Values = {}
    for program in ("compile", "redis", "python", "stress_ng/vm"):
        found["stock", program, "tlbi_broadcast_user"] = [1000, 990, 1000, 1010, 1000]
        found["lull", program, "tlbi_broadcast_user"] = [5, 10, 15, 20, 40]
        found["stock", program, "insns_work"] = [1e9, 1.02e9, 1.01e9, 1.03e9, 1.04e9]
        found["stock.control", program, "insns_work"] = [1.005e9, 1.025e9, 1.015e9, 1.035e9, 1.045e9]
        found["lull", program, "insns_work"] = [1.001e9, 1.021e9, 1.011e9, 1.031e9, 1.041e9]
    return found


def results(values: Values) -> Results:
    """A run with these records."""
    records = [
        Record(kernel, workload, 4, metric, "count", tuple(series), 8, "write")
        for (kernel, workload, metric), series in values.items()
    ]
    return Results("0.1", "6.12", {}, records)


def judged(values: Values) -> dict[str, Check]:
    """Its checks by name."""
    assert real.concerns(results(values))
    return {c.name: c for c in thresholds.check("real", results(values), real.judge)}


def test_what_meets_the_thresholds_passes_with_the_numbers() -> None:
    """Medians, of all repeats."""
    found = judged(good())
    assert {name: c.verdict for name, c in found.items()} == dict.fromkeys((COMPILE, REDIS, INSNS), "passed")
    assert found[COMPILE].detail == "15, stock 1000: 1.5 %, at most 2 % are allowed"
    assert found[INSNS].detail == "4 workloads, none above the noise of stock's own sample"
    assert verdict.worth_showing(list(found.values())) == list(found.values())


@pytest.mark.parametrize(
    ("name", "workload", "metric", "series", "says"),
    [
        (COMPILE, "compile", "tlbi_broadcast_user", [5, 10, 21, 22, 40], "2.1 %, at most 2 %"),
        (REDIS, "redis", "tlbi_broadcast_user", [251] * 5, "25.1 %, at most 25 %"),
        (
            INSNS,
            "stress_ng/vm",
            "insns_work",
            [1.05e9, 1.06e9, 1.07e9, 1.08e9, 1.09e9],
            "more: stress_ng/vm (1.05 times",
        ),
    ],
)
def test_each_miss_is_told(name: str, workload: str, metric: str, series: list[float], says: str) -> None:
    """One number off: that check fails, and no other does."""
    values = good()
    values["lull", workload, metric] = series
    found = judged(values)
    assert {n for n, c in found.items() if c.verdict != "passed"} == {name}
    assert found[name].verdict == "failed" and says in found[name].detail


def test_what_was_not_measured_is_skipped() -> None:
    """On stock, or in too few repeats."""
    values = {key: series[:2] for key, series in good().items() if key[:2] != ("stock", "redis")}
    found = judged(values)
    assert found[REDIS] == Check(REDIS, "skipped", "redis was not measured on stock")
    assert found[INSNS].verdict == "skipped" and "too few repeats" in found[INSNS].detail
    assert not real.concerns(results({("lull", "swap_bench", "insns_work"): [1.0]}))


def test_workloads_run_scripts_that_are_there() -> None:
    """The first argument of 'debian' is a script of ours; and thresholds are of programs that there are."""
    workloads = plan.load_workloads(bases.load_base().suite_named("real").workloads)
    names = {path.name for path in guest.scripts()}
    for workload in workloads.values():
        assert workload.program != "debian" or not Path(workload.args[0]).suffix or workload.args[0] in names
    assert set(real.PROGRAMS) <= set(workloads)
