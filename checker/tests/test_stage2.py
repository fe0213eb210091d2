# SPDX-License-Identifier: GPL-2.0-only
"""Random traces of virtual machines: the checker finds what the reference model finds, at the same places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from reference_stage2 import Flush, Machines
from test_model import Checker

MORE = os.environ.get("LULL_MODEL_EXAMPLES")
EXAMPLES = int(MORE or "600")

BASE = 0x40000000
_, _, VM, VM2, VM3, VM3B, OTHER, OTHER2, OTHER3, X, Y, VM3C = (BASE + 0x1000 * n for n in range(12))
BIG = BASE + 0x200000
ROOTS = {5: VM, 6: OTHER}
TABLE = 3
RW = 3 | 15 << 2 | 3 << 6 | 3 << 8 | 1 << 10 | 2 << 53
RO, RX, NC = RW & ~(1 << 7), RW & ~(3 << 53 | 1 << 7), RW & ~(15 << 2) | 5 << 2
MEG2 = 0x200000
IPAS = [0x1000, 0x2000, MEG2 + 0x1000]
LINKS = [(VM2, VM3), (VM2, VM3C), (VM2 + 8, VM3B), (VM, VM2), (OTHER2, OTHER3)]
START = [(VM, VM2 | TABLE), (VM2, VM3 | TABLE), (VM2 + 8, VM3B | TABLE), (OTHER, OTHER2 | TABLE)]
START += [(OTHER2, OTHER3 | TABLE), (VM3 + 8, X | RW), (VM3 + 16, Y | RW), (VM3B + 8, X | RW), (OTHER3 + 8, Y | RW)]
START += [(VM3C + 8, X | RW)]

Event = tuple[Any, ...]


def slot3(vmid: int, ipa: int) -> int:
    return (OTHER3 if vmid == 6 else VM3B if ipa >= MEG2 else VM3) + 8 * (ipa >> 12 & 511)


class Generator:
    """Draws one move after the other; what the host does on a CPU, it does without a guest there."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.in_guest = [False, False]
        self.events: list[Event] = []

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def sometimes(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def say(self, *events: Event) -> None:
        for e in events:
            if self.in_guest[e[1]] and e[0] != "gtlbi":
                self.events.append(("host", e[1]))
                self.in_guest[e[1]] = False
            if e[0] == "gtlbi" and not self.in_guest[e[1]]:
                continue
            self.in_guest[e[1]] = e[0] == "guest" or self.in_guest[e[1]]
            if e[0] != "host":
                self.events.append(e)

    def vmid(self) -> int:
        return int(self.pick([5, 5, 5, 6]))

    def ipa(self) -> int:
        return int(self.pick([IPAS[0], *IPAS]))

    def store(self, cpu: int) -> None:
        desc = self.pick([0, 0, 0, 1 << 10, X | RW, X | RO, X | RX, Y | RW, X | NC, X | RW & ~(1 << 10)])
        self.say(("store", cpu, slot3(self.vmid(), self.ipa()), desc))

    def table(self, cpu: int) -> None:
        at, to = self.pick(LINKS)
        block = [BIG | RW & ~2] if at & ~0xFFF == VM2 else []
        self.say(("store", cpu, at, self.pick([0, 0, to | TABLE, to | TABLE, *block])))

    def flush(self, cpu: int) -> None:
        """As KVM does it, mostly; or with something missing."""
        local = self.sometimes(4)
        domain, vmid = "nsh" if local else "ish", 6 if self.sometimes(6) else 5
        if not self.sometimes(6):
            self.say(("dsb", cpu, domain + "st"))
        first = [Flush("ipa", self.ipa(), last=self.sometimes(4), level=self.pick([0, 0, 0, 3, 2]), local=local)]
        first += [Flush("ipa", 0x1000, 2, local=local), Flush("s12", local=local), Flush("all", local=local)]
        f = self.pick([first[0], *first])
        self.say(("vtlbi", cpu, vmid, f))
        if f.form == "ipa" and not self.sometimes(5):
            if not self.sometimes(5):
                self.say(("dsb", cpu, domain))
            self.say(("vtlbi", cpu, vmid, Flush("s1", local=local)))
        if not self.sometimes(5):
            self.say(("dsb", cpu, self.pick([domain, domain, domain, "sy", "nsh", "ishst"])))

    def enter(self, cpu: int) -> None:
        self.say(("guest", cpu, self.vmid(), self.pick([0, 0, 1]), self.sometimes(2)))

    def unmap(self, cpu: int) -> None:
        vmid, ipa = self.vmid(), self.ipa()
        self.say(("store", cpu, slot3(vmid, ipa), self.pick([0, 0, 1 << 10, X | RO])))
        for step in self.draw(st.permutations(["flush", "flush", "free", "user"]))[: self.draw(st.integers(0, 4))]:
            match step:
                case "flush":
                    self.flush(cpu)
                case "free":
                    self.say(("free", cpu, self.pick([X, X, Y])))
                case "user":
                    self.say(("user", cpu))

    def other(self, cpu: int) -> None:
        vmid, ipa = self.vmid(), self.ipa()
        self.say(("store", cpu, slot3(vmid, ipa), 0))
        if self.sometimes(2):
            self.flush(cpu)
        self.say(("store", cpu, slot3(vmid, ipa), self.pick([X | RW, Y | RW, Y | RW])))

    def move(self) -> None:
        cpu = self.pick([0, 0, 1])
        match self.pick(["store", "table", "flush", "enter", "enter", "unmap", "unmap", "other", "end", "gtlbi"]):
            case "store":
                self.store(cpu)
            case "table":
                self.table(cpu)
            case "flush":
                self.flush(cpu)
            case "enter":
                self.enter(self.pick([cpu, 1]))
            case "unmap":
                self.unmap(cpu)
            case "other":
                self.other(cpu)
            case "end":
                self.say(self.pick([("user", cpu), ("task", cpu, self.pick([1, 2, 3])), ("host", cpu)]))
            case "gtlbi":
                self.say(("gtlbi", self.pick([0, 1]), self.pick([True, True, False])))


@st.composite
def traces(draw: st.DrawFn) -> list[Event]:
    generator = Generator(draw)
    generator.say(("task", 0, 1), ("task", 1, 2), ("guest", 1, 5, 0, True))
    for _ in range(draw(st.integers(2, 9))):
        generator.move()
    return generator.events


def line_of(e: Event) -> str:
    match e:
        case ("guest", cpu, vmid, vcpu, fb):
            return f"guest {cpu} {ROOTS[vmid]} {vmid} {vcpu}{'' if fb else ' nofb'}"
        case ("gtlbi", cpu, local):
            return f"gtlbi {cpu} {'vale1' if local else 'vae1is'}"
        case ("vtlbi", cpu, vmid, Flush() as f):
            domain = "" if f.local else "is"
            name = {"s12": "vmalls12e1", "all": "alle1", "s1": "vmalle1"}.get(f.form)
            name = name or f"{'r' if f.pages > 1 else ''}ipas2{'l' if f.last else ''}e1"
            words = [f"vtlbi {cpu} {vmid} {name}{domain}"]
            words += [f"{f.ipa}"] * (f.form == "ipa") + [f"{f.pages}"] * (f.pages > 1)
            return " ".join([*words, *[f"ttl={f.level}"] * bool(f.level)])
    return " ".join(map(str, e))


def model_of(trace: list[Event], first: int) -> set[tuple[str, str, int]]:
    """What the model makes of it."""
    n = Machines(2, ROOTS)
    for slot, desc in START:
        n.words[slot & ~0xFFF][slot % 4096 // 8] = desc
    fb = {0: True, 1: True}
    for n.line, e in enumerate(trace, first + 1):
        match e:
            case ("guest", cpu, vmid, vcpu, has):
                fb[cpu] = has
                n.do_guest(cpu, vmid, vcpu)
            case ("gtlbi", cpu, local):
                n.do_gtlbi(cpu, local, fb[cpu])
            case (what, *words):
                getattr(n, f"do_{what}")(*words)
        n.settle()
    return set(n.found)


@pytest.fixture(scope="module")
def checker(build: Callable[[str], Path]) -> Iterator[Checker]:
    checker = Checker(build("trace-cli"))
    yield checker
    checker.talk.close()


@settings(max_examples=EXAMPLES, derandomize=not MORE, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces())
def test_stage2(checker: Checker, trace: list[Event]) -> None:
    head = ["ram 6<<20", *(f"poke {at:#x} {value:#x}" for at, value in START), "on 0 4k39", "on 1 4k39"]
    head += ["host 0", "host 1"]
    lines = [*head, *(line_of(e) for e in trace)]
    reports, _ = checker.judge(lines)
    found = {(r["rule"], r["kind"], int(r["noticed"]["pc"], 16)) for r in reports}
    said = "\n".join(f"{n}: {line}" for n, line in enumerate(lines, 1))
    assert found == model_of(trace, len(head)), said
    for rule, kind, _ in found or {("nothing", "", 0)}:
        event(f"{rule}/{kind}")
