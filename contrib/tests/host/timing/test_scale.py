# SPDX-License-Identifier: GPL-2.0-only
"""The simulation of many CPUs, against closed forms and against one that steps through every ns."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lull.timing import Costs
from lull_contrib.timing.scale import Counts, simulate

COSTS = Costs(insn=1, tlbi=10, broadcast=1000, dsb=20)
FLUSH = Counts(insns=500, tlbis=1, broadcasts=1, waits=1, dsbs=2)
LOCAL = 500 + 10 + 2 * 20


def test_one_cpu_pays_its_flushes_in_full() -> None:
    """Work, then the broadcast, then its latency, again and again."""
    assert simulate(COSTS, FLUSH, 1, 100) == pytest.approx(100 * (LOCAL + 1000))
    late = Costs(1, 10, 1000, 20, latency=300)
    assert simulate(late, FLUSH, 1, 100) == pytest.approx(100 * (LOCAL + 1300))


def test_without_broadcasts_cpus_do_not_meet() -> None:
    """Any number of CPUs takes what one does: its local work."""
    local = Counts(insns=500, tlbis=1, broadcasts=0, waits=1, dsbs=2)
    for cpus in (1, 7, 512):
        assert simulate(COSTS, local, cpus, 100) == pytest.approx(100 * LOCAL)


def test_many_cpus_take_what_is_shared_in_turns() -> None:
    """All broadcasts one after the other, behind the first CPU's work."""
    for cpus in (8, 32, 512):
        assert simulate(COSTS, FLUSH, cpus, 100) == pytest.approx(cpus * 100 * 1000 + LOCAL, rel=1e-9)


def test_between_the_two_it_is_in_between() -> None:
    """At least what either bound takes, at most both."""
    costs = Costs(1, 10, 300, 20)
    for cpus in (2, 3, 4):
        took = simulate(costs, FLUSH, cpus, 1000)
        shared, alone = cpus * 1000 * 300, 1000 * (LOCAL + 300)
        assert max(shared, alone) <= took <= shared + alone


def test_nobody_waits_for_what_no_dsb_waits_for() -> None:
    """A broadcast that the work behind it covers costs its issue."""
    covered = Counts(insns=1500, tlbis=1, broadcasts=1, waits=0, dsbs=0)
    assert simulate(COSTS, covered, 1, 50) == pytest.approx(50 * 1510)
    assert simulate(COSTS, covered.waiting_for_each(), 1, 50) == pytest.approx(50 * (1510 + 20 + 1000))


def test_a_wait_for_a_batch_waits_for_its_last() -> None:
    """Four broadcasts, one wait: the shared resource is busy with the first while the others are issued."""
    batch = Counts(insns=390, tlbis=1, broadcasts=1, waits=0.25, dsbs=0)
    assert simulate(COSTS, batch, 1, 400) == pytest.approx(100 * (400 + 4 * 1000))


def test_several_in_one_operation() -> None:
    """Two broadcasts, each waited for, take what twice the operations with one do."""
    double = Counts(insns=1000, tlbis=2, broadcasts=2, waits=2, dsbs=4)
    for cpus in (1, 3):
        assert simulate(COSTS, double, cpus, 100) == pytest.approx(simulate(COSTS, FLUSH, cpus, 200))


def test_fractions_are_spread_evenly() -> None:
    """0.25 are one in each fourth operation, also where a tenth cannot be written in binary."""
    for share in (0.25, 0.1):
        some = Counts(insns=540, tlbis=1, broadcasts=share, waits=share, dsbs=0)
        assert simulate(COSTS, some, 1, 1000) == pytest.approx(1000 * 550 + share * 1000 * 1000)


def test_waiting_for_each_adds_what_is_missing() -> None:
    """A DSB for each broadcast that has none; never fewer than there are."""
    assert Counts(1, 1, 1, 0.0625, 1.0625).waiting_for_each() == Counts(1, 1, 1, 1, 2)
    assert Counts(1, 1, 0, 1, 1).waiting_for_each() == Counts(1, 1, 0, 1, 1)


def test_it_is_fast_and_the_same_twice() -> None:
    """512 CPUs in about a second (ten are allowed: others may use the machine)."""
    started = time.process_time()
    first = simulate(COSTS, FLUSH, 512, 500)
    assert time.process_time() - started < 10
    assert simulate(COSTS, FLUSH, 512, 500) == first


def by_the_ns(costs: Costs, counts: Counts, cpus: int, operations: int) -> int:
    """The same by brute force: one CPU step and one ns of the server at a time. Whole numbers only."""
    work = round(counts.local(costs))
    doing = [("work", work)] * cpus
    left, pending = [operations] * cpus, [0] * cpus
    queue: list[list[int]] = []
    flying: list[list[int]] = []
    now = 0
    while True:
        for cpu in range(cpus):
            kind, rest = doing[cpu]
            if kind == "work" and rest == 0:
                if counts.broadcasts:
                    queue.append([cpu, int(costs.broadcast)])
                    pending[cpu] += 1
                doing[cpu] = ("wait", 0) if counts.waits else ("next", 0)
        for cpu in range(cpus):
            if doing[cpu][0] == "next" or (doing[cpu][0] == "wait" and not pending[cpu]):
                left[cpu] -= 1
                doing[cpu] = ("work", work) if left[cpu] else ("end", 0)
        if all(kind == "end" for kind, _ in doing):
            return now
        now += 1
        doing = [(kind, rest - 1) if kind == "work" else (kind, rest) for kind, rest in doing]
        for flight in flying:
            flight[1] -= 1
        if queue:
            queue[0][1] -= 1
            if not queue[0][1]:
                flying.append([queue.pop(0)[0], int(costs.latency)])
        for flight in [flight for flight in flying if not flight[1]]:
            flying.remove(flight)
            pending[flight[0]] -= 1


@given(
    insns=st.integers(1, 9),
    broadcast=st.integers(1, 7),
    latency=st.integers(0, 5),
    waits=st.booleans(),
    broadcasts=st.booleans(),
    cpus=st.integers(1, 4),
    operations=st.integers(1, 6),
)
def test_as_by_brute_force(
    insns: int, broadcast: int, latency: int, waits: bool, broadcasts: bool, cpus: int, operations: int
) -> None:
    """Small cases, every one to the ns."""
    costs = Costs(insn=1, tlbi=1, broadcast=broadcast, dsb=1, latency=latency)
    counts = Counts(insns, 1, int(broadcasts), int(waits), 1)
    assert simulate(costs, counts, cpus, operations) == by_the_ns(costs, counts, cpus, operations)
