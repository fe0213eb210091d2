# SPDX-License-Identifier: GPL-2.0-only
"""Simulate how long n CPUs take that all do the same operation at once, from the counts of one operation.

Costs have the same meaning as in modelled time (lull.timing). Each CPU has its own time. A resource that all CPUs share
serves broadcast TLBIs one after the other, first come, first served. A DSB waits for the broadcasts of its own CPU.

The emulator measures only as many CPUs as it can boot. The simulation extends its results to more CPUs, and is a second
computation to compare the emulator's times with.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

from lull.timing import Costs


@dataclass(frozen=True)
class Counts:
    """What one operation executes on its CPU, on average.

    Args:
        insns: instructions.
        tlbis: TLBIs, local and broadcast.
        broadcasts: broadcast TLBIs.
        waits: DSBs that wait for broadcasts.
        dsbs: all DSBs, ``waits`` included.
    """

    insns: float
    tlbis: float
    broadcasts: float
    waits: float
    dsbs: float

    def waiting_for_each(self) -> Counts:
        """These counts with at least one waiting DSB for each broadcast."""
        more = max(0.0, self.broadcasts - self.waits)
        return replace(self, waits=self.waits + more, dsbs=self.dsbs + more)

    def local(self, costs: Costs) -> float:
        """Nanoseconds of an operation, without the time for which it waits."""
        return self.insns * costs.insn + self.tlbis * costs.tlbi + self.dsbs * costs.dsb


@dataclass(frozen=True)
class _Step:
    """A step of an operation: nanoseconds of work, then a broadcast, a wait, or a broadcast and a wait for it."""

    work: float
    broadcast: bool
    wait: bool


def simulate(costs: Costs, counts: Counts, cpus: int, operations: int) -> float:
    """Nanoseconds until the last of ``cpus`` CPUs, which start together, has done ``operations`` operations.

    Fractions are spread evenly: 0.25 broadcasts are one in each fourth operation. Equal inputs give equal results.
    """
    steps, rest = _schedule(counts, operations, counts.local(costs))
    return max(_finish(costs, steps, cpus)) + rest


def _schedule(counts: Counts, operations: int, local: float) -> tuple[list[_Step], float]:
    """The steps of each CPU, and the nanoseconds of work after the last step.

    The broadcasts of one operation are spread evenly over its work, and its waits evenly over its broadcasts.
    """
    steps: list[_Step] = []
    worked = 0.0
    for operation in range(operations):
        broadcasts, waits = (_due(share, operation) for share in (counts.broadcasts, counts.waits))
        parts = max(1, broadcasts)
        for part in range(1, parts + 1):
            worked += local / parts
            waiting = part * waits // parts > (part - 1) * waits // parts
            if broadcasts or waiting:
                steps.append(_Step(worked, bool(broadcasts), waiting))
                worked = 0.0
    return steps, worked


def _due(share: float, operation: int) -> int:
    """The whole number of events in operation number ``operation``, when an operation has ``share`` on average."""
    tiny = 1e-9  # so that ten times 0.1 rounds down to 1
    return int((operation + 1) * share + tiny) - int(operation * share + tiny)


def _finish(costs: Costs, steps: list[_Step], cpus: int) -> list[float]:
    """The time at which each CPU has done all steps.

    The heap ``waiting`` has each CPU at the time of its next broadcast, the earliest first. Broadcasts are therefore
    served in the order of time, and the shared resource is free again when the last one that was served ends.
    """
    finished: list[float] = []
    waiting: list[tuple[float, int]] = []
    place, completed = [0] * cpus, [0.0] * cpus

    def go_on(time: float, cpu: int) -> None:
        """Advance ``cpu`` from ``time`` until it issues a broadcast, or has done all steps."""
        for number in range(place[cpu], len(steps)):
            step = steps[number]
            time += step.work
            if step.broadcast:
                place[cpu] = number
                heapq.heappush(waiting, (time, cpu))
                return
            time = max(time, completed[cpu])
        finished.append(time)

    for cpu in range(cpus):
        go_on(0.0, cpu)
    free = 0.0
    while waiting:
        time, cpu = heapq.heappop(waiting)
        free = max(free, time) + costs.broadcast
        completed[cpu] = free + costs.latency
        if steps[place[cpu]].wait:
            time = completed[cpu]
        place[cpu] += 1
        go_on(time, cpu)
    return finished
