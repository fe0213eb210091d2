# SPDX-License-Identifier: GPL-2.0-only
"""Random traces: the checker finds what the reference model finds, at the same places."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from plugin_tools import Talk
from reference import UPPER, Reference, Tlbi

# The normal run has the same traces each time (conftest.py). Who asks for more gets others, by --hypothesis-seed.
MORE = os.environ.get("LULL_MODEL_EXAMPLES")
EXAMPLES = int(MORE or "800")

BASE = 0x40000000
RESERVED, SWAPPER, ROOT_A, ROOT_B, A2, B2, A3, A4, B3, K2, K3, K4, X, Y, Z = (BASE + 0x1000 * n for n in range(15))
BIG = BASE + 0x200000
TABLE = 3
PAGE = 3 | 1 << 6 | 3 << 8 | 1 << 10 | 1 << 11 | 1 << 51 | 3 << 53  # of a user, writable
READ_ONLY = (PAGE | 1 << 7) & ~(1 << 51)
CONT = 1 << 52
KERNEL = PAGE & ~(1 << 6 | 1 << 11)
MEG2 = 0x200000

# Addresses, and the descriptors that they have on the way: a root has two tables of pages, or a block in their place.
USER = [0x1000, 0x2000, MEG2 + 0x1000, MEG2 + 0x2000]
VMALLOC = [UPPER + 0x1000, UPPER + 0x2000]


def slot3(root: int, va: int) -> int:
    page = K3 if va >= UPPER else B3 if root == ROOT_B else A4 if va >= MEG2 else A3
    return page + 8 * (va >> 12 & 511)


Event = tuple[Any, ...]


@dataclass(frozen=True)
class Focus:
    """What a trace is about: most of its events are."""

    va: int
    root: int
    asid: int
    task: int


LEAVES = [PAGE, PAGE, PAGE, READ_ONLY, READ_ONLY, PAGE | 1 << 7, PAGE & ~(1 << 10), PAGE | 8, PAGE | 1 << 52]
LEAVES += [PAGE & ~(1 << 11), PAGE | 1 << 60]  # global; with a protection key
KERNEL_READ_ONLY = READ_ONLY & ~(1 << 6 | 1 << 11)
KERNEL_LEAVES = [KERNEL, KERNEL, KERNEL | 1 << 7, KERNEL | 1 << 11, KERNEL & ~(1 << 53), KERNEL_READ_ONLY]
LINKS = [(A2, A3), (A2, A3), (A2, A4), (A2 + 8, A4), (B2, B3), (ROOT_A, A2), (ROOT_B, B2), (K2, K3), (K2, K4)]
BLOCKS = {A2: BIG | PAGE & ~2, A2 + 8: BIG | PAGE & ~2, K2: BIG | KERNEL & ~2}
DSBS = ["ish", "ishst", "ishld", "nsh", "nshst", "osh", "sy", "synxs", "ld"]


class Generator:
    """Draws one move after the other."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.focus = Focus(
            self.pick([USER[0], USER[0], USER[2], VMALLOC[0]]), self.pick([ROOT_A, ROOT_A, ROOT_B]), 1, 10
        )

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def sometimes(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def cpu(self) -> int:
        return int(self.pick([0, 0, 1]))

    def va(self, others: Sequence[int] = (*USER, *VMALLOC)) -> int:
        return int(self.pick(others) if self.sometimes(4) or self.focus.va not in others else self.focus.va)

    def root(self) -> int:
        return int(self.pick([ROOT_A, ROOT_B]) if self.sometimes(5) else self.focus.root)

    def asid(self) -> int:
        return int(self.pick([2, 3]) if self.sometimes(6) else self.focus.asid)

    def task(self) -> int:
        return int(self.pick([11, 12]) if self.sometimes(4) else self.focus.task)

    def leaf(self) -> list[Event]:
        va = self.va()
        desc = self.pick([X, X, Y]) | self.pick(KERNEL_LEAVES if va >= UPPER else LEAVES)
        return [("store", self.cpu(), slot3(self.root(), va), desc)]

    def clear(self) -> list[Event]:
        return [("store", self.cpu(), slot3(self.root(), self.va()), 0)]

    def table(self) -> list[Event]:
        """Linked or unlinked; or a block in its place."""
        at, to = self.pick(LINKS)
        return [("store", self.cpu(), at, self.pick([0, to | TABLE, to | TABLE, BLOCKS.get(at, 0)]))]

    def swap(self) -> list[Event]:
        """Another table, the same, or a block takes the place of one; flushed before it, or not; often right."""
        at, to = self.pick([*[(K2, K3), (K2, K4)] * 2, (A2, A3), (A2, A4)])
        cpu, flush = self.cpu(), []
        for _ in range(self.draw(st.integers(0, 2))):
            flush += self.flush(cpu)
        anew = ("store", cpu, at, self.pick([to | TABLE, to | TABLE, BLOCKS[at]]))
        return [anew, *flush] if self.sometimes(6) else [("store", cpu, at, 0), *flush, anew]

    def flush(self, cpu: int | None = None) -> list[Event]:
        """As it should be, mostly; or with something missing."""
        cpu, t = self.cpu() if cpu is None else cpu, self.tlbi()
        domain = "nsh" if t.local else t.domain
        before = self.pick(["st"] * 7 + ["", "", "ld", "nshst"])
        after = self.pick([""] * 7 + ["st", "none", "ish", "nsh", "nxs"])
        events: list[Event] = []
        if before:
            events.append(("dsb", cpu, domain + before if before in ("st", "ld") else before))
        events.append(("tlbi", cpu, t))
        if after != "none":
            events.append(("dsb", cpu, after if after in ("ish", "nsh") else domain + after))
        return events

    def tlbi(self) -> Tlbi:
        local = self.sometimes(3)
        domain, nxs = self.pick([("ish", False)] * 4 + [("osh", False), ("ish", True)])
        form = self.pick(["va"] * 6 + ["vaa", "asid", "asid", "all", "range"])
        if form == "all":
            return Tlbi(local=local, domain=domain, nxs=nxs)
        asid = self.asid()
        if form == "asid":
            return Tlbi(asid, local=local, domain=domain, nxs=nxs)
        va = self.va()
        length = 0x2000 if form == "range" else 0x1000
        # In a range the start would not be aligned to level 2.
        level = self.pick([0, 0, 0, 3, 3] if form == "range" else [0, 0, 0, 3, 2])
        return Tlbi(
            None if form == "vaa" else asid, va, va + length, self.pick([True, False]), level, local, domain, nxs
        )

    def unmap(self) -> list[Event]:
        """A page is unmapped, flushed and given back by one task; often right."""
        cpu, va, root = self.cpu(), self.va(USER), self.root()
        slot = slot3(root, va)
        table = self.sometimes(3)
        events: list[Event] = [("task", cpu, self.task()), ("store", cpu, slot, self.pick([0, 0, X | READ_ONLY]))]
        if table:
            events.append(
                ("store", cpu, (A2 if root == ROOT_A else B2) + (8 if root == ROOT_A and va >= MEG2 else 0), 0)
            )
        flush = self.flush(cpu) if self.sometimes(2) else []
        free: list[Event] = (
            [("free", cpu, slot & ~0xFFF if table and self.sometimes(2) else X)] if self.sometimes(2) else []
        )
        events += flush + free if self.sometimes(2) else free + flush
        return events + [("user", cpu)] * self.draw(st.integers(0, 1))

    def rewrite(self) -> list[Event]:
        """One descriptor several times, and perhaps back to what it was."""
        cpu, slot = self.cpu(), slot3(self.root(), self.va(USER))
        values = [0, 0, X | PAGE, X | PAGE, X | READ_ONLY, X | PAGE & ~(1 << 10), Y | PAGE]
        events: list[Event] = [("store", cpu, slot, self.pick(values)) for _ in range(self.pick([2, 3]))]
        return events + [("user", cpu)] * self.draw(st.integers(0, 1))

    def absence(self) -> list[Event]:
        """A CPU leaves an address space, in steps, and comes back; the other one works meanwhile."""
        cpu = self.cpu()
        events: list[Event] = [("load", cpu, self.focus.root, self.focus.asid)]
        for leave in self.pick([["park"], ["rest"], ["park", "rest"], ["park", "rest"]]):
            events.append(("park", cpu) if leave == "park" else ("load", cpu, RESERVED, 0))
            for _ in range(self.draw(st.integers(0, 2))):
                events += [
                    (e[0], 1 - cpu, *e[2:]) for e in self.pick([self.leaf, self.clear, self.unmap, self.flush])()
                ]
        if self.sometimes(3):
            events += self.flush(cpu)
        return [*events, ("load", cpu, self.focus.root, self.focus.asid), ("user", cpu)]

    def end(self) -> list[Event]:
        """A process ends, flushed or not, and its tables are another one's; in steps that may be missing."""
        cpu, other = self.cpu(), ROOT_B if self.focus.root == ROOT_A else ROOT_A
        middle, table, there = (A2, A3, B2) if self.focus.root == ROOT_A else (B2, B3, A2)
        events: list[Event] = [("load", 1 - cpu, self.focus.root, self.focus.asid), ("load", 1 - cpu, RESERVED, 0)]
        events += [("load", cpu, RESERVED, 0)] * self.draw(st.integers(0, 1))
        events += self.pick([self.clear, self.leaf, lambda: [("store", cpu, table + 8, 0)]])()
        events += [("store", cpu, middle, 0)] * self.pick([1, 1, 1, 0])
        for _ in range(self.draw(st.integers(0, 2))):
            events += self.flush(self.pick([cpu, cpu, 1 - cpu]))
        events += [("free", cpu, self.pick([table, table, middle, self.focus.root]))] * self.pick([1, 1, 1, 0])
        events += [("user", cpu)] * self.draw(st.integers(0, 1))
        again = [("store", cpu, self.pick([there + 8, there, middle]), table | TABLE)] * self.pick([1, 1, 1, 0])
        load = [("load", 1 - cpu, other if self.sometimes(2) else self.focus.root, self.pick([2, 3]))]
        return events + (again + load if self.sometimes(2) else load + again)

    def rename(self) -> list[Event]:
        """It has another ASID, in place of a flush."""
        cpu, root, asid = self.cpu(), self.focus.root, self.focus.asid
        events: list[Event] = [("load", 1 - cpu, root, asid), ("load", 1 - cpu, RESERVED, 0)]
        events += [("load", cpu, RESERVED, 0)] * self.draw(st.integers(0, 1))
        events += self.pick([self.clear, self.unmap, self.rewrite])()
        events += self.flush() if self.sometimes(2) else []
        events += [("load", 1 - cpu, root, self.pick([2, 3, asid])), ("user", cpu)]
        return events if self.sometimes(2) else [*events[:-2], *events[:-3:-1]]

    def switch(self) -> list[Event]:
        return [("load", self.cpu(), self.root(), self.asid())]

    def park(self) -> list[Event]:
        """Under its own ASID, or under none."""
        cpu = self.cpu()
        return [self.pick([("park", cpu), ("load", cpu, RESERVED, 0)])]

    def enter(self) -> list[Event]:
        return [("task", self.cpu(), self.task())]

    def leave(self) -> list[Event]:
        return [("user", self.cpu())]

    def rely(self) -> list[Event]:
        """A task takes something away, and one on the other CPU goes on from there; often right."""
        cpu, va, root = self.cpu(), self.va(USER), self.root()
        slot = slot3(root, va)
        events: list[Event] = [
            ("task", cpu, self.pick([10, 11])),
            ("store", cpu, slot, self.pick([0, 0, 2, X | READ_ONLY])),
        ]
        if self.sometimes(2):
            events.append(("collected", cpu, root, va))
        events.append(("task", 1 - cpu, self.pick([11, 12])))
        other: list[list[Event]] = [
            [("range", 1 - cpu, root, *self.pick([(0, MEG2), (0x1000, 0x2000), (MEG2, 2 * MEG2), (0, 1 << 30)]))],
            [("store", 1 - cpu, slot, self.pick([0, 4]))],
            [("range", 1 - cpu, root, 0, 1 << 30), ("store", 1 - cpu, slot, self.pick([0, 4]))],
            [("store", 1 - cpu, slot, self.pick([X | PAGE, Y | PAGE, Y | PAGE, X | READ_ONLY]))],
        ]
        flushes = [*other, self.flush(1 - cpu), self.flush(cpu), []]
        for _ in range(self.draw(st.integers(1, 3))):
            events += self.pick(flushes)
        return [*events, ("user", 1 - cpu)]

    def move(self) -> list[Event]:
        """A page, or a table, to another place; the flush before the lock is dropped, or not."""
        cpu, root = self.cpu(), self.root()
        old, new = self.pick([(slot3(root, 0x1000), slot3(root, 0x2000)), (slot3(root, 0x2000), slot3(root, 0x1000))])
        if self.sometimes(3):
            old, new = self.pick([(A2, A2 + 8), (A2 + 8, A2)])
        to = (A3 | TABLE if old == A2 else A4 | TABLE) if old & ~0xFFF == A2 else self.pick([X, X, Y]) | PAGE
        steps: list[list[Event]] = [
            [("store", cpu, old, 0)],
            [("store", cpu, new, to)],
            self.flush(cpu),
            [(self.pick(["unlock", "unlock", "unlock", "rmaps"]), cpu)],
        ]
        if self.sometimes(2):
            steps.insert(self.draw(st.integers(0, 3)), steps.pop(self.draw(st.integers(0, 3))))
        if self.sometimes(3):
            steps.insert(2, [("task", cpu, self.task())])
        return [("store", cpu, new, 0), *(e for step in steps for e in step)]

    def unwritten(self) -> list[Event]:
        """A page is taken away, or allows less, and is relied on as written by nobody; often right."""
        cpu, va = self.cpu(), self.va(USER)
        events = [("wrote", self.cpu(), va)] if self.sometimes(3) else []
        events += self.unmap() if self.sometimes(2) else self.rewrite() if self.sometimes(3) else self.clear()
        if self.sometimes(2):
            events.append(("user", 1 - cpu))
        for _ in range(self.draw(st.integers(0, 2))):
            events += self.pick([self.flush, lambda: self.flush(cpu), self.leaf, self.switch])()
        how = self.pick(["sync", "sync", "sync-own", "sync-unlock"])
        events.append((how, cpu, self.pick([X] * 6 + [Y, BIG, BIG + 0x3000])))
        return [*events, *self.pick([list, self.flush, self.leave, self.switch])()]

    def block(self) -> list[Event]:
        """Sixteen pages of a contiguous block, then one of them becomes something else; often right."""
        cpu, root = self.cpu(), self.root()
        slot = slot3(root, MEG2 + 0x10000 if self.sometimes(2) else 0x10000)
        desc = self.pick([PAGE, PAGE, READ_ONLY]) | CONT
        events = [("task", cpu, self.task())] if self.sometimes(2) else []
        events += [("store", cpu, slot + 8 * n, BIG + 0x1000 * n | desc) for n in range(16)]
        for _ in range(self.draw(st.integers(0, 2))):
            n = self.draw(st.integers(0, 15))
            other = self.pick([0, desc, desc & ~CONT, desc & ~(1 << 10), desc | 1 << 7, READ_ONLY | CONT])
            output = BIG + 0x1000 * self.pick([n, n, n, n + 1])
            events.append(("store", self.cpu(), slot + 8 * n, other and other | output))
        return [*events, *self.pick([list, self.flush, self.leave])(), (self.pick(["user", "sleep"]), cpu)]

    def unload(self) -> list[Event]:
        """A CPU says that it has left an address space; often right. Others work meanwhile; it comes back, or not."""
        cpu, root = self.cpu(), self.focus.root
        events: list[Event] = [("loaded", cpu, root)] if self.sometimes(2) else []
        events.append(("load", cpu, root, self.asid()))
        leave = self.pick([("load", cpu, RESERVED, 0)] * 3 + [("park", cpu), ("load", cpu, self.root(), self.asid())])
        steps: list[Event] = [
            leave,
            ("isb", cpu),
            ("dsb", cpu, self.pick([*["ish", "nsh"] * 3, *DSBS])),
            ("unloaded", cpu, root),
        ]
        if self.sometimes(3):
            steps.insert(self.draw(st.integers(0, 3)), steps.pop(self.draw(st.integers(0, 3))))
        if self.sometimes(4):
            steps.pop(self.draw(st.integers(0, len(steps) - 1)))
        events += steps
        for _ in range(self.draw(st.integers(0, 2))):
            events += self.pick([self.flush, self.clear, self.switch, self.free, self.park])()
        if self.sometimes(2):
            events.append(self.pick([("loaded", cpu, root), ("loaded", 1 - cpu, root), ("unloaded", cpu, root)]))
        return [*events, self.pick([("load", cpu, root, self.asid()), ("user", cpu), ("isb", cpu)])]

    def protect(self) -> list[Event]:
        """A kernel page loses permissions, by one task that then goes on, sleeps, or is preempted; often right."""
        cpu, slot = self.cpu(), slot3(SWAPPER, self.pick(VMALLOC))
        events: list[Event] = [("task", cpu, self.task())]
        if self.sometimes(3):
            events.append(("store", cpu, slot, 0))
        if self.sometimes(3):
            events += self.flush(cpu)
        events.append(("store", cpu, slot, X | self.pick(KERNEL_LEAVES)))
        if self.sometimes(2):
            events += self.flush(cpu)
        return [*events, self.pick([("sleep", cpu), ("user", cpu), ("task", cpu, self.task()), ("sleep", 1 - cpu)])]

    def give_back(self) -> list[Event]:
        """Kernel pages, or the table above them, are taken away and given back with their addresses; often right."""
        cpu = self.cpu()
        events: list[Event] = [("lazy", *self.pick([(UPPER, UPPER + 0x2000), (0, 1)]))] if self.sometimes(2) else []
        events += [("store", cpu, self.pick([slot3(SWAPPER, va) for va in VMALLOC] + [K2]), 0) for _ in range(2)]
        rest = self.pick([self.flush, self.flush, list])()
        back: list[Event] = [("returned", cpu, UPPER, UPPER + self.pick([0x1000, 0x2000, 0x4000]))]
        steps = [rest, back, self.free(), self.pick([self.protect, self.leaf, list])()]
        if self.sometimes(2):
            steps.insert(self.draw(st.integers(0, 3)), steps.pop(0))
        return [e for step in steps for e in step]

    def repeat(self) -> list[Event]:
        """The workaround of an erratum, after a flush or not; often right."""
        cpu = self.cpu()
        flush = self.pick([self.flush, self.flush, lambda *_: self.unmap()])(cpu)
        after: list[Event] = [
            ("tlbi", cpu, Tlbi(0, 0, 0x1000, last=True)),
            ("dsb", cpu, self.pick(["ish", "ish", *DSBS])),
        ]
        return [*flush, *after[: self.pick([2, 2, 2, 1])], *self.pick([list, self.leave, self.free])()]

    def poke(self) -> list[Event]:
        """A page gets other contents, or those that it had."""
        return [("poke", self.pick([X, Y]) + self.pick([0, 0xFF8]), self.pick([0, 0, 1]))]

    def repoint(self) -> list[Event]:
        """An entry is made read-only, and pointed to another page; that page may be freed, or written; often right."""
        cpu, va, root, asid = self.cpu(), self.va(), self.root(), self.asid()
        kernel = va >= UPPER
        slot, writable, fixed = slot3(root, va), *((KERNEL, KERNEL_READ_ONLY) if kernel else (PAGE, READ_ONLY))
        right = [
            ("dsb", cpu, "ishst"),
            ("tlbi", cpu, Tlbi(None if kernel else asid, va, va + 0x1000)),
            ("dsb", cpu, "ish"),
        ]
        old, new = self.pick([(X, Y), (X, Y), (Y, X)])
        events: list[Event] = [("task", cpu, self.task()), ("store", cpu, slot, old | writable)]
        steps = [("store", cpu, slot, old | fixed), ("store", cpu, slot, new | fixed)]
        steps += self.pick(
            [
                [("free", cpu, old)],
                [("store", cpu, slot, new | writable)],
                [("store", cpu, slot, old | fixed), ("store", cpu, slot, old | writable)],
                [("sleep", cpu), ("free", cpu, old)],
                [("store", cpu, slot, 0), ("store", cpu, slot, new | fixed)],
            ]
        )
        for step in steps:
            events.append(step)
            events += self.pick([right] * 5 + [right[:2], [], self.flush(cpu)])
            events += self.poke() if self.sometimes(8) else []
        return [*events, *self.pick([list, self.leave, self.poke])()]

    def dsb(self) -> list[Event]:
        return [("dsb", self.cpu(), self.pick(DSBS))]

    def access(self) -> list[Event]:
        pa = self.pick([None] * 6 + [X, Y])
        return [("access", self.cpu(), self.va(USER), pa, self.pick([True, False]))]

    def refill(self) -> list[Event]:
        """CPUs use a page, lose it and use it again; its entry changes meanwhile, or not."""
        cpu, va, root, asid = self.cpu(), self.va(USER), self.root(), self.asid()
        uses: list[Event] = [("access", n, va, None, False) for n in (cpu, 1 - cpu)]
        leaves: list[Event] = [
            ("store", self.cpu(), slot3(root, va), desc)
            for desc in (X | PAGE, X | PAGE, Y | PAGE, X | READ_ONLY, X | PAGE & ~(1 << 10), 0)
        ]
        takes = [Tlbi(asid, va, va + 0x1000), Tlbi(asid), Tlbi(asid, local=True), Tlbi()]
        events: list[Event] = [("load", n, root, asid) for n in (cpu, 1 - cpu)]
        events += [leaves[0], *uses[: self.pick([1, 2])]]
        for _ in range(self.draw(st.integers(1, 5))):
            step = self.pick(["take", "take", "change", "use", "any"])
            if step == "take":
                events += [("tlbi", self.cpu(), self.pick(takes)), ("dsb", cpu, "ish")]
            elif step == "any":
                events += self.pick([self.flush, self.switch, self.free, self.table])()
            else:
                events.append(self.pick(leaves if step == "change" else uses))
        return [*events, self.pick(leaves[:4]), *uses]

    def free(self) -> list[Event]:
        return [
            ("free", self.cpu(), self.pick([X] * 6 + [Y] * 4 + [A3, A4, B3, A2, K3, BIG, BIG + 0x3000, ROOT_A, ROOT_B]))
        ]

    def moves(self) -> list[Callable[[], list[Event]]]:
        return [
            *[self.leaf, self.clear, self.flush, self.unmap, self.switch] * 3,
            *[self.leave, self.enter, self.park, self.free, self.rewrite, self.absence, self.rely, self.move, self.swap]
            * 2,
            *[self.unwritten, self.unload, self.protect, self.end, self.rename, self.refill, self.repoint] * 2,
            *[self.table, self.dsb, self.access, self.block, self.give_back, self.repeat],
        ]


@st.composite
def traces(draw: st.DrawFn) -> tuple[bool, bool, list[Event]]:
    """A machine that is up, then anything."""
    generator = Generator(draw)
    root = generator.focus.root
    trace: list[Event] = [("task", 0, 10), ("task", 1, 11), ("load", 0, root, 1)]
    trace.append(("load", 1, *generator.pick([(root, 1), (root, 1), (ROOT_A, 2), (ROOT_B, 2)])))
    for va in (*USER[:3], VMALLOC[0]):
        trace.append(("store", 0, slot3(root, va), X | (KERNEL if va >= UPPER else PAGE)))
    if generator.sometimes(2):
        trace += [("user", 0), ("user", 1), ("task", 0, 10)]
    for _ in range(draw(st.integers(2, 16))):
        trace += generator.pick(generator.moves())()
    return not generator.sometimes(5), generator.sometimes(2), trace


# Memory as it is before the trace: tables; and one aside for the kernel, which has one page as the first will have it.
POKED = [
    *[
        (at, to | TABLE)
        for at, to in [(ROOT_A, A2), (A2, A3), (A2 + 8, A4), (ROOT_B, B2), (B2, B3), (SWAPPER, K2), (K2, K3)]
    ],
    *[(K4 + 8, X | KERNEL), (K4 + 16, Y | KERNEL)],
]


def tlbi_words(t: Tlbi) -> str:
    """As trace-cli wants it."""
    end = ("" if t.local else "is" if t.domain == "ish" else "os") + ("nxs" if t.nxs else "")
    if t.first is None:
        return f"vmalle1{end}" if t.asid is None else f"aside1{end} {t.asid}"
    pages = (t.end - t.first) >> 12
    name = ("r" if pages > 1 else "") + ("vaa" if t.asid is None else "va") + ("le1" if t.last else "e1")
    words = [name + end, *([] if t.asid is None else [str(t.asid)]), f"{t.first:#x}"]
    return " ".join([*words, *([str(pages)] if pages > 1 else []), *([f"ttl={t.level}"] if t.level else [])])


def line_of(e: Event) -> str:
    if e[0] == "tlbi":
        return f"tlbi {e[1]} {tlbi_words(e[2])}"
    if e[0] == "park":
        return f"msr {e[1]} ttbr0 reserved"
    if e[0] == "access":
        pa = "" if e[3] is None or e[4] else f" {e[3] | e[2] & 0xFFF:#x}"
        return f"{'fetch' if e[4] else 'access'} {e[1]} {e[2]:#x}{pa}"
    return " ".join([e[0], *(w if isinstance(w, str) else f"{w:#x}" for w in e[1:])])


def script(speculation: bool, ntlbpa: bool, trace: list[Event]) -> tuple[list[str], int]:
    """Its lines, and how many stand before the first event."""
    head = ["ram 6<<20", f"speculation {'on' if speculation else 'off'}", f"ntlbpa {int(ntlbpa)}", "filter off"]
    head += [f"poke {at:#x} {value:#x}" for at, value in POKED]
    head += ["on 0 4k39", "on 1 4k39"]
    return [*head, *(line_of(e) for e in trace)], len(head)


def model_of(speculation: bool, ntlbpa: bool, trace: list[Event], first: int) -> Reference:
    """What the model makes of it."""
    n = Reference(2, speculation, SWAPPER, ntlbpa)
    for at, value in POKED:
        n.words[at & ~0xFFF][at % 4096 // 8] = value
    n.settle()

    def registers(cpu: int, root: int, asid: int) -> None:
        n.do_registers(cpu, root, asid)
        n.settle()

    for cpu in (0, 1):
        registers(cpu, RESERVED, 0)
    for n.line, e in enumerate(trace, first + 1):
        match e:
            case ("load", cpu, root, asid):
                registers(cpu, RESERVED, n.cpu[cpu].asid())
                registers(cpu, RESERVED, asid)
                registers(cpu, root, asid)
            case ("park", cpu):
                registers(cpu, RESERVED, n.cpu[cpu].asid())
            case ("access", cpu, va, pa, fetch):
                n.do_access(cpu, va, None if pa is None or fetch else pa | va & 0xFFF, fetch)
            case (name, *words):
                getattr(n, f"do_{name}".replace("-", "_"))(*words)
        n.settle()
    return n


class Checker:
    """trace-cli as one long process."""

    def __init__(self, cli: Path) -> None:
        self.talk = Talk(cli)

    def judge(self, lines: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        process = self.talk.process
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write("\n".join([*lines, "reset\n"]))
        process.stdin.flush()
        reports: list[dict[str, Any]] = []
        while True:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said = json.loads(line)
            if "verdict" in said:
                return reports, said
            if "report" in said:
                reports.append(said)


@pytest.fixture(scope="module")
def checker(build: Callable[[str], Path]) -> Iterator[Checker]:
    checker = Checker(build("trace-cli"))
    yield checker
    checker.talk.close()


def compare(checker: Checker, speculation: bool, ntlbpa: bool, trace: list[Event]) -> set[str]:
    """The same findings, as often; of each that is told in full, the same words. Which rules they were."""
    lines, first = script(speculation, ntlbpa, trace)
    reports, verdict = checker.judge(lines)
    model = model_of(speculation, ntlbpa, trace, first)
    said = "\n".join(f"{n}: {line}" for n, line in enumerate(lines, 1))
    counts = {entry["report"]: entry["count"] for entry in verdict["by"]}
    found: Counter[tuple[str, str, int]] = Counter()
    for r in reports:
        found[r["rule"], r["kind"], int((r.get("changed") or r["noticed"])["pc"], 16)] += counts[r["report"]]
    assert found == Counter((f.rule, f.kind, f.pc) for f in model.found), f"{said}\n{model.found}"
    counted = tuple(verdict["seen"][f"tlb_{what}"] for what in ("over_invalidated", "refills", "refills_unchanged"))
    assert counted == (model.over_invalidated, model.refills, model.unchanged), said
    for r in reports:
        pc = int((r.get("changed") or r["noticed"])["pc"], 16)
        words = (r["rule"], r["kind"], pc, int(r["noticed"]["pc"], 16), int(r["va"], 16), r["asid"])
        same = [(f.level, f.table) for f in model.found if words == (f.rule, f.kind, f.pc, f.noticed, f.va, f.asid)]
        assert same, f"{said}\n{words}\n{model.found}"
        assert (r["level"], r["table"]) in same, f"{said}\n{words}\n{model.found}"
    return {
        *(f"{r['rule']}/{r['kind']}" for r in reports),
        *(["refill"] if model.refills > model.unchanged else []),
        *(["refill/unchanged"] if model.unchanged else []),
    }


# A table is linked at a second place, after a CPU has left the address space: see the top of reference.py.
LINKED_TWICE: list[Event] = [
    ("load", 1, ROOT_A, 1),
    ("store", 0, A3 + 16, X | PAGE),
    ("load", 1, ROOT_B, 2),
    ("store", 0, A2 + 8, A3 | TABLE),
    ("store", 0, A3 + 16, 0),
    ("tlbi", 0, Tlbi(1)),
]


@example((True, False, LINKED_TWICE))
@settings(max_examples=EXAMPLES, derandomize=not MORE, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces())
def test_model(checker: Checker, trace: tuple[bool, bool, list[Event]]) -> None:
    for finding in compare(checker, *trace) or {"nothing"}:
        event(finding)
