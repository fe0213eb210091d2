# SPDX-License-Identifier: GPL-2.0-only
"""The goals of HVO by pausing: what reaches them holds, and each way to miss one is told."""

from __future__ import annotations

import pytest

from lull.judge import goals, tables, verdict, vmemmap
from lull.run.records import Check, Record, Results

UNSAFE = vmemmap.UNSAFE[0]
OPERATIONS = {"allocate-1g": 2, "demote": 2, "free-2m": 1024, "free-1g": 2}
LEFT = {"allocate-1g": 8190, "demote": 7168, "free-2m": 0, "free-1g": 0}
RATIO = {"allocate-1g": 1.0, "demote": 0.2, "free-2m": 0.5, "free-1g": 1.01}
Values = dict[tuple[str, str, str], list[float]]


def good() -> Values:
    """A run in which every goal is reached: (kernel, case, metric) -> repeats. Ticks, and waiting, vary."""
    found: Values = {}
    for case, given in LEFT.items():
        for kernel, ratio, pauses in ((UNSAFE, 1.0, 0), ("lab", RATIO[case], 2), ("lab+only=vmemmap", RATIO[case], 1)):
            work, spin = 1e6 * ratio, [pauses * n for n in (90_000, 5_000_000, 40_000)]
            found[kernel, case, "insns"] = [
                work + more + apart for more, apart in zip((500, 0, 90_000), spin, strict=True)
            ]
            found[kernel, case, "insns_spin"] = [float(apart) for apart in spin]
            found[kernel, case, "memmap_given_back"] = [given] * 3
            found[kernel, case, "seconds_emulated"] = [0.02 * ratio] * 3
            found[kernel, case, "dsb_ish"] = [100, 250, 90] if pauses else [9000] * 3
            if pauses:
                found[kernel, case, "vmemmap_pause"] = [pauses] * 3
                found[kernel, case, "vmemmap_pause_max_ns"] = [70_000, 123_000, 80_000]
    return found


def results(values: Values, features: tuple[str, ...] = ("core", "vmemmap")) -> Results:
    """A run with these records."""
    records = [
        Record(kernel, f"hvo/{case}", 4, metric, "count", tuple(series), OPERATIONS[case], "page")
        for (kernel, case, metric), series in values.items()
    ]
    return Results("0.1", "6.12", {}, records, settings={"features": list(features)})


def judged(values: Values) -> dict[str, Check]:
    """All checks by what stands behind the feature's name."""
    return {c.name.removeprefix("vmemmap: "): c for c in goals.check("vmemmap", results(values), vmemmap.judge)}


def test_what_reaches_the_goals_holds_with_the_numbers() -> None:
    """Waiting does not count, nor what a tick added to a repeat; barriers of the unsafe way are its own affair."""
    found = judged(good())
    assert {c.verdict for c in found.values()} == {"held"}
    assert len(found) == 2 * (4 + 4) + 3
    detail = found["instructions to demote on lab"].detail
    assert detail == "0.200 of the unsafe way's, at most 0.25 is allowed (published 2.31)"
    assert found["pauses on lab"].detail == "allocate-1g 2, free-1g 2, demote 2, free-2m 2"
    assert found["longest pause on lab"].detail.startswith("allocate-1g 123 us, ")
    given = "allocate-1g 8190, free-1g 0, demote 7168, free-2m 0"
    assert found[f"pages of vmemmap given back on {UNSAFE}"].detail == given


@pytest.mark.parametrize(
    ("name", "kernel", "case", "metric", "series", "says"),
    [
        ("instructions to demote on lab", "lab", "demote", "insns", [260_000] * 3, "0.260 of"),
        ("instructions to free 2 MiB on lab", "lab", "free-2m", "insns", [2e6, 2e6, 1_030_000], "1.030 of"),
        (
            "instructions to allocate 1 GiB on lab+only=vmemmap", "lab+only=vmemmap", "allocate-1g", "insns",
            [1_030_000] * 3, "1.030 of the unsafe way's, at most 1.02",
        ),
        ("pauses on lab", "lab", "free-1g", "vmemmap_pause", [2, 3, 2], "free-1g 3 (at most 2)"),
        ("DSB ISH on lab", "lab", "demote", "dsb_ish", [251, 1, 1], "demote 251 (at most 250)"),
        ("pages of vmemmap given back on lab", "lab", "demote", "memmap_given_back", [7168, 0, 7168], "(0, and 7168"),
        (
            f"pages of vmemmap given back on {UNSAFE}", UNSAFE, "free-1g", "memmap_given_back", [0, 1, 0],
            "free-1g 1 (1, and 0 are due)",
        ),
    ],
)  # fmt: skip
def test_each_way_to_miss_a_goal(
    name: str, kernel: str, case: str, metric: str, series: list[float], says: str
) -> None:
    """One figure is different: that goal fails, and no other."""
    values = good()
    values[kernel, case, metric] = series
    if metric == "insns":
        values[kernel, case, "insns_spin"] = [0] * 3
    found = judged(values)
    assert [n for n, c in found.items() if c.verdict == "failed"] == [name]
    assert says in found[name].detail


def test_what_was_not_measured_is_skipped_with_its_name() -> None:
    """The unsafe way lacks, or the feature's own counters do: nothing is said to hold."""
    values = {key: series for key, series in good().items() if key[0] != UNSAFE}
    found = judged(values)
    skipped = [c for n, c in found.items() if n.startswith("instructions")]
    assert len(skipped) == 8 and {c.verdict for c in skipped} == {"skipped"}
    assert skipped[0].detail == f"hvo/allocate-1g was not measured on {UNSAFE}"
    del values["lab", "demote", "vmemmap_pause"]
    assert judged(values)["pauses on lab"].verdict == "skipped"


def test_only_a_run_with_the_feature_is_judged() -> None:
    """A base without it, or other workloads, have nothing to say."""
    assert vmemmap.concerns(results(good()))
    assert not vmemmap.concerns(results(good(), features=("core",)))
    assert not vmemmap.concerns(Results("0.1", "6.12", {}, settings={"features": ["vmemmap"]}))


def test_the_table_stands_beside_the_published_one() -> None:
    """Four rows for each kernel, with both ratios; a run without the unsafe way has none."""
    lab, alone = verdict.published(results(good()))
    assert [row[0] for row in lab.rows] == [o.name for o in vmemmap.OPERATIONS]
    assert lab.title == f"system D: lab, to {UNSAFE}" and alone.title == f"system D: lab+only=vmemmap, to {UNSAFE}"
    assert lab.width <= tables.WIDTH
    assert lab.rows[2] == (
        "demote", "1.575", "3.640", "2.31", "1.00", "0.20", "0.20", "20.0", "4.0", "0.20", "2",
    )  # fmt: skip
    assert verdict.published(results({k: v for k, v in good().items() if k[0] != UNSAFE})) == []
