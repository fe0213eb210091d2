# SPDX-License-Identifier: GPL-2.0-only
"""The thresholds of HVO: numbers that meet them pass, and each way to miss one is reported."""

from __future__ import annotations

import pytest

from lull.judge import tables, thresholds, verdict, vmemmap
from lull.run.records import Check, Record, Results

UNSAFE = vmemmap.UNSAFE[0]
OPERATIONS = {"allocate-1g": 2, "demote": 2, "free-2m": 1024, "free-1g": 2}
LEFT = {"allocate-1g": 8188, "demote": 6144, "free-2m": 0, "free-1g": 0}
LEFT_UNSAFE = {"allocate-1g": 8190, "demote": 7168, "free-2m": 0, "free-1g": 0}
RATIO = {"allocate-1g": 1.0, "demote": 0.2, "free-2m": 0.5, "free-1g": 0.99}
ALONE = "lull+only=vmemmap"
Values = dict[tuple[str, str, str], list[float]]


def good() -> Values:
    """A run in which every threshold is met: (kernel, case, metric) -> repeats. Ticks, and waiting, vary."""
    found: Values = {}
    for case in OPERATIONS:
        for kernel, ratio in ((UNSAFE, 1.0), ("lull", RATIO[case]), (ALONE, RATIO[case])):
            given = (LEFT_UNSAFE if kernel == UNSAFE else LEFT)[case]
            work = 1e6 * ratio
            found[kernel, case, "insns"] = [work + more for more in (90_000, 5_000_000, 40_000, 0, 0)]
            found[kernel, case, "insns_work"] = [work + more for more in (500, 0, 90_000, 0, 0)]
            found[kernel, case, "memmap_given_back"] = [given] * 5
            found[kernel, case, "seconds_emulated"] = [0.02 * ratio + more for more in (0, 1e-3, 2e-3, 3e-3, 1e-4)]
            found[kernel, case, "dsb_ish"] = [9000] * 5 if kernel == UNSAFE else [100, 250, 90, 90, 90]
    return found


def results(values: Values, features: tuple[str, ...] = ("core", "vmemmap"), base: str = "6.12") -> Results:
    """A run with these records."""
    records = [
        Record(kernel, f"hvo/{case}", 4, metric, "count", tuple(series), OPERATIONS[case], "page")
        for (kernel, case, metric), series in values.items()
    ]
    return Results("0.1", base, {}, records, settings={"features": list(features)})


def judged(values: Values, base: str = "6.12") -> dict[str, Check]:
    """All checks by what stands behind the feature's name."""
    return {
        c.name.removeprefix("vmemmap: "): c
        for c in thresholds.check("vmemmap", results(values, base=base), vmemmap.judge)
    }


def test_what_meets_the_thresholds_passes_with_the_numbers() -> None:
    """Waiting does not count, nor what a tick added to a repeat. Barriers on the kernel unsafe are not judged."""
    found = judged(good())
    assert {c.verdict for c in found.values()} == {"passed"}
    assert len(found) == 2 * (4 + 2) + 3
    detail = found["instructions to demote on lull"].detail
    assert detail == "0.200 of those on unsafe, at most 1.00 is allowed (published 2.31)"
    detail = found["emulated time on lull"].detail
    assert detail.endswith("medians: allocate-1g 1.00, free-1g 0.99, demote 0.24, free-2m 0.52")
    given = "pages of vmemmap given back on"
    assert found[f"{given} unsafe"].detail == "allocate-1g 8190, free-1g 0, demote 7168, free-2m 0"
    assert found[f"{given} {ALONE}"].detail == "allocate-1g 8188, free-1g 0, demote 6144, free-2m 0"


def test_a_later_base_must_give_back_as_much_as_linux() -> None:
    """Since Linux 7.1 one page of vmemmap is kept for a HugeTLB page, not two."""
    values = good()
    for case, given in LEFT_UNSAFE.items():
        values["lull", case, "memmap_given_back"] = [given] * 5
    found = judged(values, "7.3")
    assert found["pages of vmemmap given back on lull"].verdict == "passed"
    assert found[f"pages of vmemmap given back on {ALONE}"].verdict == "failed"


@pytest.mark.parametrize(
    ("name", "kernel", "case", "metric", "series", "says"),
    [
        ("instructions to demote on lull", "lull", "demote", "insns_work", [1_030_000] * 5, "1.030 of"),
        ("instructions to free 2 MiB on lull", "lull", "free-2m", "insns_work", [2e6, 2e6, 1_030_000], "1.030 of"),
        (
            f"instructions to allocate 1 GiB on {ALONE}", ALONE, "allocate-1g", "insns_work",
            [1_003_000] * 5, "1.003 of those on unsafe, at most 1.00",
        ),
        (f"emulated time on {ALONE}", ALONE, "demote", "seconds_emulated", [0.1] * 5, "more: hvo/demote (4.76 times"),
        ("DSB ISH on lull", "lull", "demote", "dsb_ish", [251, 1, 1], "demote 251 (at most 250)"),
        ("pages of vmemmap given back on lull", "lull", "demote", "memmap_given_back", [6144, 0], "(0, and 6144"),
        (
            "pages of vmemmap given back on lull", "lull", "allocate-1g", "memmap_given_back", [8190] * 5,
            "(8190, and 8188 are due)",
        ),
        (
            "pages of vmemmap given back on unsafe", UNSAFE, "free-1g", "memmap_given_back", [0, 1, 0],
            "free-1g 1 (1, and 0 are due)",
        ),
        (
            "pages of vmemmap given back on unsafe", UNSAFE, "demote", "memmap_given_back", [6144] * 5,
            "(6144, and 7168 are due)",
        ),
    ],
)  # fmt: skip
def test_each_way_to_miss_a_threshold(
    name: str, kernel: str, case: str, metric: str, series: list[float], says: str
) -> None:
    """One figure is different: that threshold fails, and no other."""
    values = good()
    values[kernel, case, metric] = series
    found = judged(values)
    assert [n for n, c in found.items() if c.verdict == "failed"] == [name]
    assert says in found[name].detail


def test_what_was_not_measured_is_skipped_with_its_name() -> None:
    """The baseline is missing, or a metric is: nothing is said to hold. One repeat does not judge time."""
    values = {key: series for key, series in good().items() if key[0] != UNSAFE}
    found = judged(values)
    skipped = [c for n, c in found.items() if n.startswith(("instructions", "emulated time"))]
    assert len(skipped) == 10 and {c.verdict for c in skipped} == {"skipped"}
    assert skipped[0].detail == f"hvo/allocate-1g was not measured on {UNSAFE}"
    del values["lull", "demote", "memmap_given_back"]
    assert judged(values)["pages of vmemmap given back on lull"].verdict == "skipped"
    once = {key: series[:1] for key, series in good().items()}
    assert judged(once)["emulated time on lull"].verdict == "skipped"


def test_only_a_run_with_the_feature_is_judged() -> None:
    """A base without it, the baseline alone, or other workloads have no thresholds of the feature."""
    assert vmemmap.concerns(results(good()))
    assert not vmemmap.concerns(results({key: series for key, series in good().items() if key[0] == UNSAFE}))
    assert not vmemmap.concerns(results(good(), features=("core",)))
    assert not vmemmap.concerns(Results("0.1", "6.12", {}, settings={"features": ["vmemmap"]}))


def test_the_table_stands_beside_the_published_one() -> None:
    """Four rows for each kernel, with the ratios; a run without the kernel unsafe has none."""
    lull, alone = verdict.published(results(good()))
    assert [row[0] for row in lull.rows] == [o.name for o in vmemmap.OPERATIONS]
    assert lull.title == "system D: lull, to unsafe" and alone.title == f"system D: {ALONE}, to unsafe"
    assert lull.width <= tables.WIDTH
    assert lull.rows[2] == ("demote", "1.575", "3.640", "2.31", "1.00", "0.20", "0.20", "21.0", "5.0", "0.24")
    assert verdict.published(results({k: v for k, v in good().items() if k[0] != UNSAFE})) == []
