# SPDX-License-Identifier: GPL-2.0-only
"""The fit of costs: measurements that the model made, with noise, give its constants back, or say that they cannot."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace

import pytest

from lull.timing import Costs
from lull_contrib import calibrate
from lull_contrib.calibrate import BATCHES, CHAINS, DSB, FLUSH, PLAIN, TOLERANCE, Fit, Measurement, fit
from lull_contrib.timing.scale import Counts

AMPERE = Costs(insn=0.67, tlbi=10, broadcast=3390, dsb=20)
SLOW_TO_COMPLETE = Costs(insn=0.4, tlbi=25, broadcast=300, dsb=160, latency=1500)
SLOW_TO_ISSUE = Costs(insn=0.5, tlbi=250, broadcast=60, dsb=15, latency=100)
BETWEEN = 9
"""Instructions from one TLBI of a batch to the next."""
Step = tuple[str, float]


@dataclass(frozen=True)
class Machine:
    """What the program runs on: whose costs, how many CPUs, how Linux flushes there."""

    costs: Costs
    cpus: int = 8
    local: bool = False
    ranges: bool = False
    repeats: bool = False


def steps(machine: Machine, case: str) -> list[Step]:
    """What one operation does, in order."""
    if case == DSB:
        return [("insns", 1.2), ("dsb", 1)]
    if case == PLAIN:
        return [("insns", 2500)]
    pages = int(case.partition("-")[2]) if case in BATCHES else 1
    tlbis = {1: 1, 511: 3, 512: 1}[pages] if machine.ranges else pages if pages < 512 else 1
    tlbi = "local" if machine.local else "tlbi"
    flush: list[Step] = [("dsb", 1), *[("insns", BETWEEN), (tlbi, 1)] * tlbis, ("dsb", 1)]
    if machine.repeats and not machine.local:
        flush += [("tlbi", 1), ("dsb", 1)]
    return [("insns", 1400 + 3 * pages), *flush, ("insns", 1300)]


def play(machine: Machine, case: str, cpus: int, operations: int) -> float:
    """ns of an operation by the model, step by step: each CPU in its own time, broadcasts in the order of theirs."""
    script = steps(machine, case) * operations
    costs, free = machine.costs, 0.0
    times, places, done = [0.0] * cpus, [0] * cpus, [0.0] * cpus
    requests: list[tuple[float, int]] = []

    def go_on(cpu: int) -> None:
        """To the next broadcast, which is then requested, or to the end."""
        for kind, number in script[places[cpu] :]:
            places[cpu] += 1
            if kind == "insns":
                times[cpu] += number * costs.insn
            elif kind == "dsb":
                times[cpu] = max(times[cpu], done[cpu]) + costs.dsb
            else:
                times[cpu] += costs.tlbi
            if kind == "tlbi":
                heapq.heappush(requests, (times[cpu], cpu))
                return

    for cpu in range(cpus):
        go_on(cpu)
    while requests:
        time, cpu = heapq.heappop(requests)
        free = max(free, time) + costs.broadcast
        done[cpu] = free + costs.latency
        go_on(cpu)
    return max(times) / operations


def counts(machine: Machine, case: str) -> Counts:
    """Of one operation."""
    total = dict.fromkeys(("insns", "tlbi", "local", "dsb"), 0.0)
    for kind, number in steps(machine, case):
        total[kind] += number
    waits = min(total["tlbi"], 2 if machine.repeats else 1)
    return Counts(total["insns"], total["tlbi"] + total["local"], total["tlbi"], waits, total["dsb"])


def measure(machine: Machine, seed: int, noise: float = 0.05, rounds: int = 15) -> list[Measurement]:
    """What the program would report, each round off by its own noise."""
    chance = random.Random(seed)
    sizes = [2**n for n in range(1, 10) if 2**n <= machine.cpus]
    cases = [(case, 1) for case in (PLAIN, FLUSH, *BATCHES, DSB)] + [(f"{FLUSH}-{n}", n) for n in sizes]
    found = []
    for case, cpus in cases:
        kind = FLUSH if cpus > 1 else case
        ns = play(machine, kind, cpus, 40 if cpus > 1 else 2)
        seconds = tuple(ns * 1e-9 * 1000 / cpus * chance.gauss(1, noise) for _ in range(rounds))
        found.append(Measurement(case, cpus, 1000, seconds, counts(machine, kind)))
    return found


def both(machine: Machine, seed: int, noise: float = 0.05) -> Fit:
    """Fitted to a Lull kernel's flushes, with residency off and on."""
    near = replace(machine, local=True)
    return fit(measure(machine, seed, noise), measure(near, seed + 1000, noise))


def close(found: Fit, costs: Costs, *names: str) -> None:
    """These costs are told, and right; no other that is told is wrong."""
    assert {name for name in names if not found.estimates[name].told} == set()
    for name, estimate in found.estimates.items():
        if estimate.told:
            assert estimate.value == pytest.approx(getattr(costs, name), rel=TOLERANCE), name


SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stock_kernel(seed: int) -> None:
    """System B's machine: what stock tells, and that what issuing costs is too little beside a broadcast to be told."""
    found = fit(measure(Machine(AMPERE), seed))
    close(found, AMPERE, "insn", "broadcast", "dsb")
    assert not found.estimates["tlbi"].told
    assert not found.estimates["latency"].told
    assert "cannot be told" in found.estimates["tlbi"].sentence()
    assert "together" in found.estimates["latency"].sentence()


@pytest.mark.parametrize("seed", SEEDS)
def test_local_flushes_tell_what_issuing_costs(seed: int) -> None:
    """With residency, on and off: everything."""
    close(both(Machine(AMPERE), seed), AMPERE, "insn", "tlbi", "broadcast", "dsb")
    costs = SLOW_TO_COMPLETE
    close(both(Machine(costs, cpus=32), seed), costs, "insn", "tlbi", "broadcast", "dsb", "latency")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_workaround_is_no_cost_of_its_own(seed: int) -> None:
    """Where each flush is a second TLBI and a second wait, the costs are those of one."""
    costs = SLOW_TO_COMPLETE
    found = both(Machine(costs, cpus=32, repeats=True), seed)
    close(found, costs, "insn", "tlbi", "broadcast", "dsb", "latency")


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_that_are_slow_to_issue(seed: int) -> None:
    """There stock tells tlbi too, when enough CPUs tell what serving takes."""
    costs = SLOW_TO_ISSUE
    close(fit(measure(Machine(costs, cpus=128), seed)), costs, "insn", "tlbi", "broadcast", "dsb")


@pytest.mark.parametrize("seed", SEEDS)
def test_too_few_cpus(seed: int) -> None:
    """That do not wait for each other: not told; but batches tell it, when it is known what issuing takes."""
    machine = Machine(SLOW_TO_COMPLETE, cpus=2)
    stock = fit(measure(machine, seed))
    assert not stock.estimates["broadcast"].told
    assert not stock.estimates["latency"].told
    assert "do not wait for each other" in stock.estimates["broadcast"].sentence()
    close(both(machine, seed), SLOW_TO_COMPLETE, "insn", "tlbi", "broadcast", "dsb", "latency")


@pytest.mark.parametrize("seed", SEEDS)
def test_ranges_leave_too_few_tlbis(seed: int) -> None:
    """Two more TLBIs of some ns are lost in the noise of microseconds; without noise they are not."""
    machine = Machine(AMPERE, ranges=True)
    assert not both(machine, seed).estimates["tlbi"].told


def test_what_is_not_told_is_still_right_in_sum() -> None:
    """One CPU's flush takes by the fitted costs what it took, whatever they could be told of."""
    for machine in (Machine(AMPERE), Machine(SLOW_TO_COMPLETE, cpus=2), Machine(SLOW_TO_ISSUE, cpus=4)):
        for found in (fit(measure(machine, 1, noise=0)), both(machine, 1, noise=0)):
            assert all(abs(r.off) < 0.03 for r in found.residuals if r.measurement.case == FLUSH)


def test_residuals_are_small_only_where_the_model_holds() -> None:
    """Without noise it says what was measured; CPUs that slow each other down in another way are seen."""
    for costs in (SLOW_TO_ISSUE, SLOW_TO_COMPLETE):
        measured = measure(Machine(costs, cpus=128), 1, noise=0)
        near = measure(Machine(costs, cpus=128, local=True), 1, noise=0)
        assert max(abs(r.off) for r in fit(measured, near).residuals) < 0.02
    crowd = [replace(m, seconds=tuple(s * m.cpus for s in m.seconds)) if m.cpus > 1 else m for m in measured]
    assert max(abs(r.off) for r in fit(crowd, near).residuals) > 0.3


def test_other_code_is_less_sure() -> None:
    """On hardware a nanosecond per instruction is not the same in all code: what is small beside that is not told."""
    measured = measure(Machine(replace(SLOW_TO_COMPLETE, latency=60), cpus=64), 1, noise=0.01)
    near = measure(Machine(replace(SLOW_TO_COMPLETE, latency=60), cpus=64, local=True), 1, noise=0.01)
    sure, unsure = (fit(measured, near, mix).estimates["latency"].error for mix in (0, calibrate.MIX))
    assert unsure > (sure**2 + 10**2) ** 0.5  # ns: of the 200 instructions that a flush has more


def loads(lines: float, pages: float, seed: int) -> list[Measurement]:
    """Loads that take so many ns, each round off by its own noise."""
    chance = random.Random(seed)
    nothing = Counts(1, 0, 0, 0, 0)
    return [
        Measurement(case, 1, 1000, tuple(ns * 1e-6 * chance.gauss(1, 0.05) for _ in range(15)), nothing)
        for case, ns in zip(CHAINS, (lines, pages), strict=True)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_page_walks(seed: int) -> None:
    """Told where loads from many pages take clearly longer; not where they take as long; absent if not measured."""
    stock = measure(Machine(AMPERE), seed)
    close(fit([*stock, *loads(5, 45, seed)]), replace(AMPERE, walk=40), "walk")
    assert not fit([*stock, *loads(5, 5, seed)]).estimates["walk"].told
    both = fit([*stock, *loads(5, 45, seed)], [*measure(Machine(AMPERE, local=True), seed), *loads(5, 35, seed)])
    assert 31 < both.costs.walk < 39
    assert "walk" not in fit(stock).estimates and fit(stock).costs.walk == 0


def test_no_answer_without_its_cases() -> None:
    """What was not measured is named."""
    measured = measure(Machine(AMPERE), 1)
    for case in (PLAIN, FLUSH, DSB):
        with pytest.raises(ValueError, match=case):
            fit([m for m in measured if m.case != case])
