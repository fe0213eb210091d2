# SPDX-License-Identifier: GPL-2.0-only
"""Modelled time against a second model: a timeline of which every picosecond is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from plugin_tools import Talk

CPUS = 3


@pytest.fixture(scope="module")
def cli(build: Callable[[str], Path]) -> Iterator[Talk]:
    talk = Talk(build("account-cli"))
    yield talk
    talk.close()


class Reference:
    """The model as docs/timing.md has it, with no thought of speed: the interconnect is a set of busy picoseconds."""

    def __init__(self, insn: int, tlbi: int, broadcast: int, latency: int, dsb: int) -> None:
        self.insn, self.tlbi, self.broadcast, self.latency, self.dsb = insn, tlbi, broadcast, latency, dsb
        self.time, self.done, self.insns = [0] * CPUS, [0] * CPUS, [0] * CPUS
        self.runs = [False] * CPUS
        self.front = 0
        self.busy: set[int] = set()

    def passed(self, cpu: int) -> None:
        running = [t for t, runs in zip(self.time, self.runs, strict=True) if runs]
        self.front = max(self.front, min(running) if running else self.time[cpu])

    def happens(self, verb: str, cpu: int, n: int) -> tuple[int, int]:
        if verb == "run" and not self.runs[cpu]:
            self.runs[cpu], self.time[cpu] = True, max(self.time[cpu], self.front)
        elif verb == "wake" and not self.runs[cpu]:
            self.runs[cpu], self.time[cpu] = True, max(self.time[cpu], self.time[n])
        elif verb == "sleep":
            self.runs[cpu] = False
            self.passed(cpu)
        elif verb == "insns":
            self.time[cpu] += self.insn * (n - self.insns[cpu])
            self.insns[cpu] = n
            self.passed(cpu)
        elif verb == "tlbi":
            self.time[cpu] += self.tlbi
            self.passed(cpu)
            if n:
                at = end = self.time[cpu]
                for _ in range(self.broadcast):
                    while at in self.busy:
                        at += 1
                    self.busy.add(at)
                    end = at + 1
                self.done[cpu] = max(self.done[cpu], end + self.latency)
        elif verb == "dsb":
            self.time[cpu] = (max(self.time[cpu], self.done[cpu]) if n else self.time[cpu]) + self.dsb
            self.passed(cpu)
        elif verb == "align":
            self.time = [max([*self.time, self.front])] * CPUS
            self.passed(cpu)
        return self.time[cpu], self.front

    def intervals(self) -> int:
        """Busy intervals of which some part is not past yet."""
        return sum(1 for ps in self.busy if ps + 1 not in self.busy and ps >= self.front)


costs = st.tuples(*(st.integers(low, high) for low, high in ((1, 3), (0, 4), (0, 20), (0, 9), (0, 5))))
steps = st.lists(
    st.tuples(
        st.sampled_from(["run", "wake", "sleep", "insns", "insns", "tlbi", "tlbi", "dsb", "align"]),
        st.integers(0, CPUS - 1),
        st.integers(0, 12),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(costs=costs, steps=steps)
def test_against_a_timeline(cli: Talk, costs: tuple[int, ...], steps: list[tuple[str, int, int]]) -> None:
    """Every time, the front, and how the interconnect's free time lies are the same after each step."""
    reference = Reference(*costs)
    assert cli.ask("new", CPUS, *costs) == ["new"]
    for verb, cpu, n in steps:
        if verb not in ("run", "wake", "align") and not reference.runs[cpu]:
            continue  # who sleeps executes nothing
        n = reference.insns[cpu] + n if verb == "insns" else n % CPUS if verb == "wake" else n % 2
        if verb == "wake" and not reference.runs[n]:
            continue  # and wakes nobody
        time, front = reference.happens(verb, cpu, n)
        assert [int(word, 16) for word in cli.ask(verb, cpu, n)] == [time, front, reference.intervals()]
    event(f"{min(5, reference.intervals())} intervals or more")


def ask(cli: Talk, verb: str, cpu: int, n: int) -> int:
    """The vCPU's time after it."""
    return int(cli.ask(verb, cpu, n)[0], 16)


def test_the_order_on_the_host_matters_little(cli: Talk) -> None:
    """Two vCPUs, a broadcast and a wait each time: in turn, or one after the other, they take about the same together.

    That is what filling gaps is for: served in the order in which they come the second would find all taken up to the
    first one's end, and need twice as long.
    """

    def loop(cpu: int, rounds: int, done: int) -> int:
        time = 0
        for n in range(done, done + rounds):
            ask(cli, "insns", cpu, 10 * (n + 1))
            ask(cli, "tlbi", cpu, 1)
            time = ask(cli, "dsb", cpu, 1)
        return time

    ends = []
    for turns in (1, 10, 100):
        cli.ask("new", CPUS, 1, 0, 30, 0, 0)
        for cpu in (0, 1):
            cli.ask("run", cpu, 0)
        for turn in range(turns):
            last = [loop(cpu, 100 // turns, turn * (100 // turns)) for cpu in (0, 1)]
        ends.append(max(last))
    assert ends[2] == pytest.approx(2 * 100 * 30, rel=0.01), "the interconnect is what both wait for"
    assert ends[1] == pytest.approx(ends[2], rel=0.03)
    assert ends[0] == pytest.approx(ends[2], rel=0.15)


def test_a_cpu_alone_waits_for_its_own_only(cli: Talk) -> None:
    cli.ask("new", CPUS, 1, 2, 100, 7, 3)
    cli.ask("run", 0, 0)
    assert ask(cli, "insns", 0, 50) == 50
    assert ask(cli, "tlbi", 0, 0) == 52  # local: nothing to wait for
    assert ask(cli, "dsb", 0, 1) == 55
    assert ask(cli, "tlbi", 0, 1) == 57
    assert ask(cli, "dsb", 0, 0) == 60  # loads or stores only: it does not wait
    assert ask(cli, "dsb", 0, 1) == 57 + 100 + 7 + 3
    assert ask(cli, "dsb", 0, 1) == 57 + 100 + 7 + 3 + 3  # nothing is left to wait for
