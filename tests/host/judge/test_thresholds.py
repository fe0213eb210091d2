# SPDX-License-Identifier: GPL-2.0-only
"""The thresholds of gather and teardown: what meets them passes, and each way to miss one is told."""

from __future__ import annotations

from types import ModuleType

import pytest
from support import AGING, HVO, LOCAL

from lull import base as bases
from lull import plan
from lull.guest import qemu
from lull.judge import features, gather, reclaim, teardown, thresholds, verdict
from lull.run.records import Check, Record, Results

FEATURES = ["core", LOCAL, AGING, "gather", "teardown"]
MODULES = {"gather": gather, "teardown": teardown}
PAGES = 1000
Values = dict[tuple[str, str, str], list[float]]


def good() -> Values:
    """A run in which every threshold is met: (kernel, workload, metric) -> repeats."""
    found: Values = {}

    def put(workload: str, metric: str, stock: float, lull: float, feature: str, alone: float | None = None) -> None:
        found["stock", workload, metric] = [stock] * 5
        found["lull", workload, metric] = [lull] * 5
        found[f"lull+only={feature}", workload, metric] = [lull if alone is None else alone] * 5

    for case in ("munmap", "dontneed"):
        put(f"sparse/{case}", "tlbi_broadcast_user", 4667, 1800, "gather")
    put("sparse/munmap-all", "tlbi_broadcast_user", 42, 42, "gather")
    put("fragmented/growing", "tlbi_broadcast_user", 4000, 1000, "gather")
    for case in ("anon-4k", "anon-64k", "anon-2m", "file-2m"):
        put(f"teardown_munmap/{case}", "tlbi_user", 38, 38, "gather")
    for workload, ratio in teardown.RATIOS.items():
        put(workload, "insns_quiet", 100_000, 100_000 * ratio - 10, "teardown")
    put("teardown_munmap/anon-4k", "atomics_own", 5000, 1000, "teardown")
    return found


def results(values: Values, cpu: str = "max,pauth-impdef=on", vcpus: int = 4) -> Results:
    """A run with these records."""
    records = [
        Record(kernel, workload, vcpus, metric, unit, tuple(series), PAGES, "page")
        for (kernel, workload, metric), series in values.items()
        for unit in ["s" if metric.startswith("seconds") else "count"]
    ]
    return Results("0.1", "6.12", {}, records, settings={"features": FEATURES, "machine": {"cpu": cpu}})


def judged(values: Values, cpu: str = "max") -> dict[str, Check]:
    """All checks by name."""
    return {
        c.name: c
        for name, module in MODULES.items()
        for c in thresholds.check(name, results(values, cpu), module.judge)
    }


def test_what_meets_the_thresholds_passes_with_the_numbers() -> None:
    """Each threshold together with the other features and by itself."""
    found = judged(good())
    assert {c.verdict for c in found.values()} == {"passed"}
    assert len(found) == 2 * 5 + 2 * len(teardown.RATIOS)
    name = "gather: fewer TLBIs: fragmented on lull"
    assert found[name].detail == "growing 1 a page (stock 4, at most 0.6 of it)"
    assert found["gather: no more TLBIs: sparse on lull"].detail.startswith("munmap 1800 (stock 4667), dont")
    assert found["gather: fewer TLBIs: sparse on lull"].detail.startswith("munmap 1.8 a page (stock 4.67, ")
    assert "munmap-all" not in found["gather: fewer TLBIs: sparse on lull"].detail
    assert found["gather: no more TLBIs: teardown_munmap on lull"].detail.endswith("file-2m 38 (stock 38)")
    name = "teardown: instructions of teardown_munmap/anon-4k on lull"
    assert found[name].detail == "0.520 of stock's, at most 0.52 is allowed; atomic operations 0.200"


FORK, TRUNCATE = "teardown_fork/anon-4k", "teardown_truncate/file-2m"


@pytest.mark.parametrize(
    ("name", "kernel", "workload", "metric", "series", "says"),
    [
        (
            "gather: fewer TLBIs: sparse on lull", "lull", "sparse/munmap", "tlbi_broadcast_user", [2801] * 5,
            "munmap 2.8 a page",
        ),
        (
            "gather: no more TLBIs: sparse on lull+only=gather", "lull+only=gather", "sparse/munmap-all",
            "tlbi_broadcast_user", [43] * 5, "munmap-all 43 (stock 42",
        ),
        (
            "gather: no more TLBIs: teardown_munmap on lull", "lull", "teardown_munmap/anon-4k", "tlbi_user", [39] * 5,
            "anon-4k 39 (stock 38)",
        ),
        (
            f"teardown: instructions of {TRUNCATE} on lull", "lull", TRUNCATE, "insns_quiet", [30_100, 30_200] * 2,
            "0.301 of stock's, at most 0.3",
        ),
        (
            f"teardown: instructions of {FORK} on lull+only=teardown", "lull+only=teardown", FORK, "insns_quiet",
            [101_100] * 5, "1.011 of stock's, at most 1 ",
        ),
    ],
)  # fmt: skip
def test_each_miss_is_told(name: str, kernel: str, workload: str, metric: str, series: list[float], says: str) -> None:
    """One number off: that check fails, and no other does."""
    values = good()
    values[kernel, workload, metric] = series
    found = judged(values)
    assert {n for n, c in found.items() if c.verdict != "passed"} == {name}
    assert found[name].verdict == "failed" and says in found[name].detail


def test_models_with_range_tlbis() -> None:
    """The default machine has them."""
    assert qemu.has_range_tlbis(qemu.Machine.cpu) and not qemu.has_range_tlbis("cortex-a76")


@pytest.mark.parametrize("lost", [0.0, 1.0])
def test_what_other_cpus_lost_is_judged_of_a_check(lost: float) -> None:
    """A run that counts cannot know it."""
    values: Values = {}
    for case in ("sparse/munmap", "sparse/dontneed", "fragmented/growing"):
        values["stock", case, "tlb_over_invalidated_others"] = [192]
        values["lull+only=gather", case, "tlb_over_invalidated_others"] = [0]
        values["lull", case, "tlb_over_invalidated_others"] = [1000]  # residency may take entries: no threshold
    values["lull+only=gather", "sparse/dontneed", "tlb_over_invalidated_others"] = [192 + lost]
    run = results(values)
    found = {c.name: c.verdict for c in thresholds.check("gather", run, gather.judge_checked)}
    assert gather.concerns(run)
    assert found == {
        "gather: over-invalidated entries of other CPUs: sparse on lull+only=gather": "failed" if lost else "passed",
        "gather: over-invalidated entries of other CPUs: fragmented on lull+only=gather": "passed",
    }


@pytest.mark.parametrize("kernel", ["stock", "lull", "lull+only=gather"])
def test_what_is_missing_is_skipped_and_named(kernel: str) -> None:
    """Without a kernel nothing that needs it is judged; the rest is."""
    found = judged({key: series for key, series in good().items() if key[0] != kernel})
    lost = [c for c in found.values() if c.verdict == "skipped"]
    assert {c.verdict for c in found.values()} <= {"passed", "skipped"}
    assert lost and all(f"was not measured on {kernel}" in c.detail for c in lost)
    if kernel == "lull+only=gather":
        assert {c.name.partition(":")[0] for c in lost} == {"gather"}


def test_the_sweep_is_judged_where_it_was_run() -> None:
    """Its cases are many, so a full run leaves it out."""
    values = good()
    values["stock", "gaps/2-32", "tlbi_broadcast_user"] = [24]
    for lull, due in (8, "passed"), (25, "failed"):
        values["lull", "gaps/2-32", "tlbi_broadcast_user"] = [lull]
        assert judged(values)["gather: no more TLBIs: gaps on lull"].verdict == due


def test_a_case_that_one_kernel_lacks_leaves_the_program_open() -> None:
    """The others would not say all."""
    values = good()
    del values["lull", "sparse/dontneed", "tlbi_broadcast_user"]
    name = "gather: no more TLBIs: sparse on lull"
    assert judged(values)[name] == Check(name, "skipped", "sparse/dontneed was not measured on lull")


def test_another_amount_of_work_is_no_comparison() -> None:
    """Sums of windows are compared only when they are of as many operations."""
    run = results(good())
    run.records = [
        Record(**{**r.__dict__, "operations": 4}) if (r.kernel, r.workload) == ("stock", FORK) else r
        for r in run.records
    ]
    found = {c.name: c for c in thresholds.check("teardown", run, teardown.judge)}[
        f"teardown: instructions of {FORK} on lull"
    ]
    assert found.verdict == "skipped" and "not the same measurement" in found.detail


def test_numbers_of_vcpus_are_judged_apart() -> None:
    """One file may hold several runs."""
    both = results(good())
    both.records += results(good(), vcpus=16).records
    names = [c.name for c in thresholds.check("gather", both, gather.judge)]
    assert "gather: no more TLBIs: sparse on lull (16 vCPUs)" in names and len(set(names)) == len(names)


@pytest.mark.parametrize(("name", "module"), MODULES.items())
def test_only_runs_about_it_are_judged(name: str, module: ModuleType) -> None:
    """A base without the feature, a run of stock, and another workload have none of these checks."""
    run = results(good())
    assert module.concerns(run)
    assert not module.concerns(results({key: series for key, series in good().items() if key[0] == "stock"}))
    assert not module.concerns(results({("lull", "young", "dsb_ish"): [1]}))
    run.settings["features"] = [f for f in FEATURES if f != name]
    assert not module.concerns(run)
    assert not module.concerns(Results("0.1", "6.12", {}, run.records))


def test_thresholds_that_were_not_measured_share_a_line() -> None:
    """As residency's do."""
    few = results({key: series for key, series in good().items() if key[1].startswith("sparse")})
    shown = verdict.worth_showing(thresholds.check("gather", few, gather.judge))
    assert [c.name for c in shown if c.verdict == "skipped"] == ["gather: 6 thresholds"]
    assert set(verdict.THRESHOLDS) >= set(MODULES)


def test_thresholds_are_found_by_the_names_of_features() -> None:
    """A module of judge/ that is named as a feature or a suite, in the order of the base; systems by their letters."""
    assert tuple(features.having("judge")) == (LOCAL, "gather", "teardown", HVO, "reclaim", "real")
    assert [module.SYSTEM for module in features.published()] == ["A", "B", "C", "D"]
    assert all(callable(getattr(m, name)) for m in features.having("judge").values() for name in ("concerns", "judge"))
    assert [sorted(features.of_system(letter)) for letter in "ABCDE"] == [
        ["reclaim"],
        [LOCAL],
        ["gather", "teardown"],
        [HVO],
        [AGING],
    ]


def test_counts_come_first_and_emulated_seconds_last() -> None:
    """Of a page: exact counts, 14.69 s of 10 000 rounds of 256 pages, and this run's, which find nothing."""
    values = good()
    for kernel, broadcasts, seconds in (("stock", 1004, 0.006), ("lull", 0, 0.009)):
        values[kernel, "swap_bench", "tlbi_broadcast_user"] = [broadcasts] * 3
        values[kernel, "swap_bench", "seconds_emulated"] = [seconds] * 3
    counts, published, ours = reclaim.published(results(values))
    assert counts.header == ("program", "kernel", "broadcasts, stock", "Lull", "DSB ISHST, stock", "Lull")
    assert counts.rows[0][:4] == ("swap_bench", "lull", "1.004", "0")
    assert published.rows[0] == ("Snapdragon 888, one CPU of 8", "5.738µs", "5.391µs", "0.939")
    assert published.rows[1] == ("Kunpeng 920", "5.258µs", "4.598µs", "0.875")
    assert ours.rows == (("swap_bench", "lull", "6µs", "9µs"),)
    assert "seconds under emulation: not a machine's" in ours.title
    assert [grid.faint for grid in (counts, published, ours)] == [False, False, True]
    for kernel, seconds in (("stock", 0.006), ("lull", 0.003)):
        values[kernel, "swap_bench", "seconds_modelled"] = [seconds] * 3
    modelled = reclaim.published(results(values))[-1]
    assert modelled.title.endswith("modelled seconds") and not modelled.faint
    assert modelled.rows == (("swap_bench", "lull", "6µs", "3µs"),)


def test_alone_is_a_kernel_of_the_tool() -> None:
    """The name that is looked for is the one that a run gives."""
    spec = plan.parse_spec(f"lull+only={AGING}", bases.load_base())
    assert thresholds.alone(AGING) == (spec.name,)


def test_every_threshold_is_of_a_workload() -> None:
    """Their names are those of guest/workloads.toml."""
    known = plan.load_workloads(bases.load_base().workloads)
    judged_ = {reclaim.PUBLISHED, *reclaim.BUSY, *thresholds.SPARSE, *gather.DENSE}
    assert judged_ | {workload.partition("/")[0] for workload in teardown.RATIOS} <= set(known)


@pytest.mark.parametrize(("waits", "verdict_"), [(40, "passed"), (41, "failed")])
def test_thresholds_of_reclaim(waits: int, verdict_: str) -> None:
    """For each page, on the kernel with all features; the kernel with reclaim alone was not measured."""
    values = good()
    for kernel, count in (("stock", 1010), ("lull", waits)):
        values[kernel, "swap_bench", "waits_own"] = [count] * 3
    found = {c.name: c for c in thresholds.check("reclaim", results(values), reclaim.judge)}
    assert found["reclaim: waits_own of swap_bench on lull"].verdict == verdict_
    assert found["reclaim: waits_own of swap_bench on reclaim"].verdict == "skipped"


@pytest.mark.parametrize(("ipis", "verdict_"), [(81, "passed"), (10, "failed")])
def test_barriers_of_ipis_are_none_of_reclaim(ipis: int, verdict_: str) -> None:
    """Each IPI has a DSB ISHST."""
    values = good()
    values["lull", "swap_bench_threads", "dsb_ishst"] = [150] * 3
    values["lull", "swap_bench_threads", "ipi"] = [ipis] * 3
    values["stock", "swap_bench_threads", "dsb_ishst"] = [1050] * 3
    found = {c.name: c for c in thresholds.check("reclaim", results(values), reclaim.judge)}
    assert found["reclaim: dsb_ishst of swap_bench_threads on lull"].verdict == verdict_


@pytest.mark.parametrize(("workload", "metric", "most"), reclaim.THRESHOLDS)
def test_a_threshold_of_reclaim_needs_only_its_own_workload(workload: str, metric: str, most: float) -> None:
    """Also with no other kernel than stock and reclaim. What was published is shown beside its own program only."""
    run = results({(kernel, workload, metric): [most * PAGES] * 3 for kernel in ("stock", "reclaim")})
    assert reclaim.concerns(run)
    found = {c.name: c.verdict for c in thresholds.check("reclaim", run, reclaim.judge) if c.verdict != "skipped"}
    assert found == {f"reclaim: {metric} of {workload} on reclaim": "passed"}
    assert not reclaim.published(run) or workload in (reclaim.PUBLISHED, *reclaim.BUSY)


def test_instructions_that_the_boots_cannot_decide() -> None:
    """Nearer to the limit than boots of stock are to each other: open, but for a workload that surely misses it."""
    values = good()
    values["stock", FORK, "insns_quiet"] = [100_000, *[100_200] * 4]
    for ours, due in ((100_700, "passed"), (100_900, "skipped"), (101_100, "skipped"), (101_300, "failed")):
        values["lull", FORK, "insns_quiet"] = [ours] * 5
        found = judged(values)[f"teardown: instructions of {FORK} on lull"]
        assert found.verdict == due
        assert (due == "skipped") == ("boots of stock differ by 0.20 % on teardown_fork" in found.detail)
    run = thresholds.RunSlice(4, results(values).records)
    for other, due in ((0.009, "skipped"), (0.011, "failed")):
        assert thresholds.cost(run, "", {FORK: 0.011, TRUNCATE: other}, 0.01, "").verdict == due
