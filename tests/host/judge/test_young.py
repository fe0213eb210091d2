# SPDX-License-Identifier: GPL-2.0-only
"""The sums of the accessed-bit policies: right ones hold, and each way to be wrong is caught."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import LOCAL

from lull.judge.young import check
from lull.run.records import Check, Record, Results

CLEARED, UNMAPPED, BATCHES = 2048, 1024, 40
FLUSHES = {"none": 0, "nosync": CLEARED, "sync": CLEARED}
WAITS = {"none": 0, "nosync": 0, "sync": CLEARED}
DECISION = {"none": "young_none", "nosync": "young_nosync", "sync": "young_sync"}


def counts(policy: str) -> dict[str, list[float]]:
    """Two repeats of a policy that does what its name says."""
    found: dict[str, list[float]] = {
        "young_sync": [0, 0],
        "young_nosync": [0, 0],
        "young_none": [0, 0],
        "pswpout": [UNMAPPED, UNMAPPED + 32],
        "tlbi_broadcast_user": [FLUSHES[policy] + UNMAPPED, FLUSHES[policy] + UNMAPPED + 32],
        "dsb_ish": [WAITS[policy] + BATCHES, WAITS[policy] + BATCHES + 3],
    }
    found[DECISION[policy]] = [CLEARED, CLEARED]
    return found


def every() -> dict[str, dict[str, list[float]]]:
    """All kernels as they should be."""
    kernels = {f"lull+young={policy}": counts(policy) for policy in FLUSHES}
    stock = counts("nosync")
    kernels["stock"] = {name: stock[name] for name in ("pswpout", "tlbi_broadcast_user", "dsb_ish")}
    return kernels


def results(kernels: dict[str, dict[str, list[float]]], workload: str = "young") -> Results:
    records = [
        Record(kernel, workload, 4, metric, "count", tuple(values))
        for kernel, metrics in kernels.items()
        for metric, values in metrics.items()
    ]
    return Results("0.1", "6.12", {}, records)


def judged(kernels: dict[str, dict[str, list[float]]]) -> dict[str, Check]:
    return {found.name.removeprefix("young: "): found for found in check(results(kernels))}


def test_what_is_right_passes_with_the_numbers() -> None:
    found = judged(every())
    assert {name: c.verdict for name, c in found.items()} == dict.fromkeys(
        ["none", "nosync", "sync", "stock"], "passed"
    )
    assert found["none"].detail == (
        "2048 accessed bits cleared, 0 flushes for them, exactly as many as due (1024 to 1056 broadcast, 0 local, "
        "0 left out; 1024 to 1056 pages unmapped); 0 DSBs due for them, 40 to 43 beside those"
    )
    assert found["sync"].detail == (
        "2048 accessed bits cleared, 2048 flushes for them, exactly as many as due (3072 to 3104 broadcast, 0 local, "
        "0 left out; 1024 to 1056 pages unmapped); 2048 DSBs due for them, 40 to 43 beside those"
    )
    assert found["stock"].detail == (
        "2048 flushes for accessed bits cleared, nosync 2048; 40 to 43 DSBs, none 40 to 43"
    )


def test_a_range_of_one_number_is_that_number() -> None:
    """40, and not 40 to 40."""
    kernels = {name: {m: [v[0]] * 2 for m, v in metrics.items()} for name, metrics in every().items()}
    assert judged(kernels)["stock"].detail.endswith("; 40 DSBs, none 40")


@pytest.mark.parametrize(
    ("policy", "metric", "change", "says"),
    [
        (
            "none",
            "tlbi_broadcast_user",
            CLEARED,
            "2048 flushes for 2048 accessed bits cleared, 0 are",
        ),
        ("nosync", "tlbi_broadcast_user", -CLEARED, "0 flushes for 2048 accessed bits cleared, 2048"),
        ("sync", "tlbi_broadcast_user", -CLEARED, "0 flushes for 2048 accessed bits"),
        ("sync", "tlbi_broadcast_user", CLEARED, "4096 flushes for 2048 accessed bits"),
        (
            "sync",
            "dsb_ish",
            -CLEARED,
            "43 DSBs; 2048 are due for accessed bits cleared, and 40 to 43",
        ),
        ("nosync", "dsb_ish", CLEARED, "2091 DSBs; 0 are due"),
        ("nosync", "pswpout", -500, "2548 flushes for 2048"),
        ("nosync", "young_sync", 7, "young_sync is 7, but the policy was nosync"),
        ("stock", "tlbi_broadcast_user", -CLEARED, "0 to 2048 flushes for accessed bits cleared"),
        ("stock", "dsb_ish", CLEARED, "40 to 2091 DSBs, none 40 to 43"),
    ],
)
def test_each_fault_is_caught_in_the_repeat_it_is_in(policy: str, metric: str, change: int, says: str) -> None:
    kernels = every()
    name = policy if policy == "stock" else f"lull+young={policy}"
    kernels[name][metric][1] += change
    found = judged(kernels)
    assert found[policy].verdict == "failed"
    assert says in found[policy].detail
    if policy != "stock":
        assert found[policy].detail.startswith("repeat 2: ")
    assert {n: c.verdict for n, c in found.items() if n != policy} == dict.fromkeys(
        {"none", "nosync", "sync", "stock"} - {policy}, "passed"
    )


def test_nothing_cleared_shows_nothing() -> None:
    kernels = every()
    kernels["lull+young=none"] |= {"young_none": [0, 0]}
    found = judged(kernels)["none"]
    assert found.verdict == "failed"
    assert found.detail == ("repeat 1: no accessed bit was cleared, so nothing was shown (and 1 more)")


def test_one_flush_too_many_is_a_fault() -> None:
    kernels = every()
    kernels["lull+young=sync"]["tlbi_broadcast_user"][0] += 1
    found = judged(kernels)["sync"]
    assert found.verdict == "failed"
    assert "2049 flushes" in found.detail


def test_the_default_is_nosync() -> None:
    kernels = every()
    kernels["lull"] = kernels.pop("lull+young=nosync")
    assert judged(kernels)["nosync"].verdict == "passed"


def test_what_is_missing_is_skipped_and_named() -> None:
    assert [c.verdict for c in check(Results("", "", {}, []))] == ["skipped"]
    kernels = every()
    del kernels["lull+young=none"]
    del kernels["lull+young=nosync"]["pswpout"]
    kernels["lull+young=sync"]["dsb_ish"].pop()
    found = judged(kernels)
    assert {c.verdict for c in found.values()} == {"skipped"}
    assert found["none"].detail == "lull+young=none was not measured"
    assert found["nosync"].detail == "not measured: pswpout"
    assert found["sync"].detail.startswith("repeats do not pair up: young_sync 2")
    assert found["stock"].detail.startswith("nothing to compare with")


def test_without_none_the_dsbs_stay_open_but_tlbis_do_not() -> None:
    kernels = every()
    del kernels["lull+young=none"]
    found = judged(kernels)
    assert found["sync"].verdict == "skipped"
    assert found["sync"].detail.startswith("DSBs cannot be judged without young=none; 2048")
    kernels["lull+young=sync"]["tlbi_broadcast_user"][0] += CLEARED
    assert judged(kernels)["sync"].verdict == "failed"


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.5, -1.0])
def test_refuses_what_is_no_count(bad: float) -> None:
    kernels = every()
    kernels["lull+young=sync"]["dsb_ish"][0] = bad
    with pytest.raises(ValueError, match=r"dsb_ish of lull\+young=sync is not a count"):
        judged(kernels)


def test_cases_and_vcpus_are_judged_apart() -> None:
    one, two = results(every(), "young/anon"), results(every(), "young/shmem")
    other = Record("lull+young=none", "aging/seq-read", 4, "dsb_ish", "count", (1.0,))
    found = check(Results("", "", {}, [*one.records, *two.records, other]))
    assert len(found) == 8
    assert found[0].name == "young: none (young/anon, 4 vCPUs)"
    assert {c.verdict for c in found} == {"passed"}


@given(
    st.sampled_from(["none", "nosync", "sync"]),
    st.integers(100, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 1000),
    st.integers(0, 20),
)
def test_any_amounts(policy: str, cleared: int, unmapped: int, rest: int, off: int) -> None:
    """Passed when off by a 1 % of what was cleared or less, failed when by all of it."""
    flushes = cleared if policy != "none" else 0
    waits = cleared if policy == "sync" else 0

    def kernel(name: str, extra: int) -> dict[str, list[float]]:
        own = name == policy
        decided = {counter: [0.0] for counter in DECISION.values()}
        decided[DECISION[name]] = [cleared]
        tlbi = unmapped + (flushes if own else 0) + extra
        dsb = rest + (waits if own else 0)
        return {"tlbi_broadcast_user": [tlbi], "dsb_ish": [dsb], "pswpout": [unmapped], **decided}

    few = {"lull+young=none": kernel("none", 0)}
    few[f"lull+young={policy}"] = kernel(policy, off)
    assert judged(few)[policy].verdict == ("failed" if off else "passed")
    few[f"lull+young={policy}"] = kernel(policy, cleared)
    assert judged(few)[policy].verdict == "failed"


OFF = f"lull+{LOCAL}=off"


def nowhere(policy: str) -> dict[str, list[float]]:
    """The same under residency: the sleeper is loaded nowhere, and every flush is left out."""
    found = counts(policy)
    due = FLUSHES[policy]
    none: dict[str, list[float]] = {"tlbi_broadcast_user": [0, 0], "tlbi_local_user": [3, 1], "tlbi_stale": [3, 1]}
    return found | none | {"tlbi_elided": [due + UNMAPPED, due + UNMAPPED + 32], "dsb_ish": [4, 2]}


def with_residency() -> dict[str, dict[str, list[float]]]:
    """lull under residency, and under residency=off, which stock is compared with."""
    kernels = {f"lull+young={policy}": nowhere(policy) for policy in FLUSHES}
    zero: dict[str, list[float]] = {"tlbi_local_user": [0, 0], "tlbi_elided": [0, 0], "tlbi_stale": [0, 0]}
    kernels |= {f"{OFF}+young={policy}": counts(policy) | zero for policy in FLUSHES}
    return kernels | {"stock": every()["stock"]}


def test_flushes_that_are_left_out_are_flushes() -> None:
    """The sums hold under residency and without; stock is compared with what has none."""
    found = judged(with_residency())
    names = [*FLUSHES, *(f"{policy}, {LOCAL}=off" for policy in FLUSHES), "stock"]
    assert {name: c.verdict for name, c in found.items()} == dict.fromkeys(names, "passed")
    assert found["sync"].detail == (
        "2048 accessed bits cleared, 2048 flushes for them, exactly as many as due (0 broadcast, 1 to 3 local, "
        "3072 to 3104 left out; 1024 to 1056 pages unmapped); 0 DSBs due for them, 2 to 4 beside those"
    )
    assert found["stock"].detail.endswith("40 to 43 DSBs, none 40 to 43")


@pytest.mark.parametrize(
    ("policy", "metric", "change", "says"),
    [
        ("sync", "tlbi_elided", -1, "2047 flushes for 2048 accessed bits cleared, 2048 are due"),
        ("nosync", "tlbi_elided", -CLEARED, "0 flushes for 2048"),
        ("none", "tlbi_elided", CLEARED, "2048 flushes for 2048 accessed bits cleared, 0 are due"),
        ("none", "tlbi_local_user", 1, "1 flushes for 2048"),
        ("sync", "tlbi_stale", 1, "2047 flushes for 2048"),
        ("sync", "dsb_ish", CLEARED, "2050 DSBs; 0 are due"),
    ],
)
def test_each_fault_under_residency_is_caught(policy: str, metric: str, change: int, says: str) -> None:
    """A flush that was neither executed nor left out by decision, and a wait for nothing."""
    kernels = with_residency()
    kernels[f"lull+young={policy}"][metric][1] += change
    found = judged(kernels)
    assert found[policy].verdict == "failed"
    assert says in found[policy].detail
    assert [c.verdict for name, c in found.items() if name != policy] == ["passed"] * (len(found) - 1)


def test_local_flushes_are_not_waited_for_by_all() -> None:
    """Loaded here alone: as many local TLBIs as are due, and no DSB ISH; some of each is judged within bounds."""
    kernels = with_residency()
    sync = kernels["lull+young=sync"]
    sync["tlbi_local_user"], sync["tlbi_elided"] = [CLEARED + UNMAPPED + 3, 1], [0, CLEARED + UNMAPPED + 32]
    assert judged(kernels)["sync"].verdict == "passed"
    broadcast = CLEARED + UNMAPPED - 100
    sync["tlbi_broadcast_user"][0], sync["tlbi_local_user"][0], sync["dsb_ish"][0] = broadcast, 103, CLEARED - 50
    assert judged(kernels)["sync"].verdict == "passed"
    sync["dsb_ish"][0] = CLEARED + 200
    assert judged(kernels)["sync"].verdict == "failed"
    sync["dsb_ish"][0] = CLEARED - 300
    assert judged(kernels)["sync"].verdict == "failed"
