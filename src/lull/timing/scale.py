# SPDX-License-Identifier: GPL-2.0-only
"""How long n CPUs take that do the same at once: a simulation from what one operation counts.

The costs are those of modelled time (lull.timing), and so is what they mean: each CPU has a time of its own;
broadcasts are served one after the other by what all CPUs share, first come, first served; a DSB that waits does so
for the CPU's own broadcasts. The emulator gives counts for as many CPUs as it can boot; this gives times for more, and
a second opinion on the emulator's.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

from lull.timing import Costs


@dataclass(frozen=True)
class Counts:
    """What one operation takes on its CPU, on average.

    Args:
        insns: instructions.
        tlbis: TLBIs, local and broadcast.
        broadcasts: those of them that go to every CPU.
        waits: DSBs that wait for broadcasts.
        dsbs: DSBs of all kinds, those among them.
    """

    insns: float
    tlbis: float
    broadcasts: float
    waits: float
    dsbs: float

    def waiting_for_each(self) -> Counts:
        """The same with a DSB after each broadcast, if there are fewer now."""
        more = max(0.0, self.broadcasts - self.waits)
        return replace(self, waits=self.waits + more, dsbs=self.dsbs + more)

    def local(self, costs: Costs) -> float:
        """ns of an operation without waiting."""
        return self.insns * costs.insn + self.tlbis * costs.tlbi + self.dsbs * costs.dsb


@dataclass(frozen=True)
class _Step:
    """ns of work, then a broadcast, or a wait, or both in this order."""

    work: float
    broadcast: bool
    wait: bool


def simulate(costs: Costs, counts: Counts, cpus: int, operations: int) -> float:
    """ns until the last of ``cpus`` CPUs has done ``operations`` operations, all having begun at once.

    Fractions are spread evenly: 0.25 broadcasts are one in each fourth operation. The same input gives the same output.
    """
    steps, rest = _schedule(counts, operations, counts.local(costs))
    return max(_finish(costs, steps, cpus)) + rest


def _schedule(counts: Counts, operations: int, local: float) -> tuple[list[_Step], float]:
    """What each CPU does, and ns of work after the last step.

    In an operation with several broadcasts they are as far apart as the others, its waits likewise behind them.
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
    """How many of something there are in an operation, when there are ``share`` on average."""
    tiny = 1e-9  # ten times 0.1 is one
    return int((operation + 1) * share + tiny) - int(operation * share + tiny)


def _finish(costs: Costs, steps: list[_Step], cpus: int) -> list[float]:
    """The time at which each CPU has done all steps.

    CPUs wait in a heap for their next broadcast, the earliest first. So no request comes at an earlier time than the
    one before it, and what is shared is free from the end of that one on.
    """
    finished: list[float] = []
    waiting: list[tuple[float, int]] = []
    place, completed = [0] * cpus, [0.0] * cpus

    def go_on(time: float, cpu: int) -> None:
        """Let a CPU work until it issues a broadcast, or has done everything."""
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
