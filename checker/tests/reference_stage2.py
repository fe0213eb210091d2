# SPDX-License-Identifier: GPL-2.0-only
"""The checker's rules for virtual machines again, slowly: each CPU has an explicit set of what it may have cached.

For 4 KiB pages and IPAs of 39 bits: levels 1 to 3. After every event all tables of stage 2 are walked anew. A CPU that
runs a guest caches every valid descriptor of it, as an entry of stage 2 and as one that a walk of both stages has
combined. From any entry of stage 2 that a CPU has, it may make a combined one at any time.

As coarse as the checker: a TLBI of an IPA makes a CPU forget what the tables have no more, and nothing that is valid;
what a CPU could fetch again after a TLBI was issued, and before it was complete, it has. No table is linked twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from reference import (
    BBM,
    CONT,
    DBM,
    GONE,
    LESS,
    MISS_ASID,
    MISS_DSB,
    MISS_LAST,
    MISS_LEVEL,
    MISS_LOCAL,
    MISS_ORDER,
    MISS_VA,
    MORE,
    NOTHING,
    SH,
    SHIFT,
    kind_of,
    output_of,
)

MEMATTR, READ, WRITE, XN = 15 << 2, 1 << 6, 1 << 7, 3 << 53
MISS_STAGE = MISS_ORDER + 0.5
"""Between that no DSB came before the TLBI and that none came after it."""
KINDS = {
    MISS_ASID: "asid",
    MISS_LEVEL: "level",
    MISS_LAST: "table",
    MISS_LOCAL: "local",
    MISS_ORDER: "order",
    MISS_STAGE: "stage",
    MISS_DSB: "no-dsb",
}


def may(desc: int) -> set[str]:
    """What a guest may do by a leaf of stage 2; hardware may add a store where DBM is set."""
    executes = {0: {"x1", "x0"}, 1: {"x0"}, 2: set(), 3: {"x1"}}[(desc & XN) >> 53]
    stores = {"w", "dbm"} if desc & WRITE else {"dbm"} if desc & DBM else set()
    return executes | stores | ({"r"} if desc & READ else set())


def change_of(level: int, old: int, new: int) -> int:
    before, after = kind_of(level, old), kind_of(level, new)
    if before == "invalid":
        return NOTHING
    if after == "invalid":
        return GONE
    if before != after or output_of(level, old) != output_of(level, new):
        return BBM
    if before == "table":
        return NOTHING
    if (old ^ new) & (MEMATTR | SH | CONT):
        return BBM
    return LESS if may(old) - may(new) else MORE if may(new) - may(old) else NOTHING


@dataclass(frozen=True)
class Flush:
    """What the host executes for a guest: "s12", "all", "s1", "ipa"."""

    form: str
    ipa: int = 0
    pages: int = 1
    last: bool = False
    level: int = 0
    local: bool = False


@dataclass(frozen=True)
class Entry:
    vmid: int
    ipa: int
    level: int
    life: int
    combined: bool


@dataclass(eq=False)
class Pending:
    vmid: int
    ipa: int
    level: int
    table: bool
    old: int
    new: int
    life: int
    change: int
    task: int
    cpu: int
    due: bool = False
    freed: bool = False
    issued: bool = False
    ordered: set[tuple[int, str]] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    misses: list[list[float]] = field(default_factory=list)  # why, and of which CPU's TLBI

    @property
    def size(self) -> int:
        return 1 << SHIFT[self.level]

    def output_in(self, page: int) -> bool:
        first = output_of(self.level, self.old)
        return first <= page < first + (4096 if self.table else self.size)

    def kind(self) -> str:
        nearest = max((why for why, _ in self.misses), default=MISS_VA)
        if nearest in KINDS:
            return KINDS[nearest]
        return "table" if self.table else "permission" if self.change == LESS else "no-tlbi"


@dataclass(eq=False)
class Incomplete:
    flush: Flush
    vmid: int
    removes: set[tuple[int, Entry]]
    pending: list[Pending]


@dataclass(eq=False)
class Cpu:
    guest: tuple[int, int] | None = None  # VMID, virtual CPU
    task: int = 0
    cache: set[Entry] = field(default_factory=set)
    incomplete: list[Incomplete] = field(default_factory=list)
    left: dict[int, tuple[int, bool]] = field(default_factory=dict)  # VMID: virtual CPU, has it invalidated elsewhere


class Machines:
    """Events in, findings out. A VMID belongs to one root all the time."""

    def __init__(self, cpus: int, roots: dict[int, int]) -> None:
        self.words: dict[int, dict[int, int]] = defaultdict(dict)
        self.life: dict[int, int] = {}
        self.lives = 0
        self.roots = roots
        self.seen: set[int] = set()  # VMIDs that a CPU has had
        self.told: set[int] = set()  # VMIDs of which it was said that they map a page that is free
        self.untold: dict[int, int] = {}  # those of which it is to be said when they run next, and the line of the free
        self.cpu = [Cpu() for _ in range(cpus)]
        self.pending: list[Pending] = []
        self.found: list[tuple[str, str, int]] = []
        self.line = 0

    def find(self, rule: str, kind: str) -> None:
        self.found.append((rule, kind, self.line))

    # --- Tables and caches

    def below(self, page: int, ipa: int, level: int) -> Iterator[tuple[int, int, int, int]]:
        """Every valid descriptor from a table down: slot, address, level, value."""
        for index, desc in list(self.words[page].items()):
            if kind_of(level, desc) == "invalid":
                continue
            at = ipa + (index << SHIFT[level])
            yield page + 8 * index, at, level, desc
            if kind_of(level, desc) == "table":
                yield from self.below(output_of(level, desc), at, level + 1)

    def of(self, vmid: int) -> Iterator[tuple[int, int, int, int]]:
        return self.below(self.roots[vmid], 0, 1)

    def places(self, slot: int) -> list[tuple[int, int, int]]:
        """VMID, address, level of a descriptor."""

        def tables(page: int, ipa: int, level: int) -> Iterator[tuple[int, int, int]]:
            yield page, ipa, level
            for index, desc in list(self.words[page].items()):
                if kind_of(level, desc) == "table":
                    yield from tables(output_of(level, desc), ipa + (index << SHIFT[level]), level + 1)

        return [
            (vmid, ipa + (slot % 4096 // 8 << SHIFT[level]), level)
            for vmid in sorted(self.seen)
            for page, ipa, level in tables(self.roots[vmid], 0, 1)
            if page == slot & ~0xFFF
        ]

    def settle(self) -> None:
        for number, me in enumerate(self.cpu):
            if me.guest:
                vmid = me.guest[0]
                valid = {Entry(vmid, ipa, level, self.life[slot], False) for slot, ipa, level, _ in self.of(vmid)}
                me.cache |= valid
                # It may have fetched them again behind a TLBI that is not complete yet.
                again = {(number, e) for e in valid | {replace(e, combined=True) for e in valid}}
                for p in (p for other in self.cpu for p in other.incomplete):
                    p.removes -= again
            me.cache |= {Entry(e.vmid, e.ipa, e.level, e.life, True) for e in me.cache}

    def entry(self, w: Pending, combined: bool) -> Entry:
        return Entry(w.vmid, w.ipa, w.level, w.life, combined)

    def alone(self, w: Pending) -> set[int]:
        return {n for n, me in enumerate(self.cpu) if self.entry(w, False) in me.cache}

    def held(self, w: Pending) -> set[int]:
        return self.alone(w) | {n for n, me in enumerate(self.cpu) if self.entry(w, True) in me.cache}

    def running(self, vmid: int) -> set[int]:
        return {n for n, me in enumerate(self.cpu) if me.guest and me.guest[0] == vmid}

    # --- Stores

    def do_store(self, cpu: int, slot: int, new: int) -> None:
        level = next((level for _, _, level in self.places(slot)), None)
        old = self.words[slot & ~0xFFF].get(slot % 4096 // 8, 0)
        if level is None or old == new:
            self.words[slot & ~0xFFF][slot % 4096 // 8] = new
            return
        change = change_of(level, old, new)
        was = kind_of(level, old)
        if change >= LESS:
            for vmid, ipa, _ in self.places(slot):
                self.pend(cpu, vmid, ipa, level, slot, old, new, change)
                if was == "table" and change > LESS:
                    for at, lower, deep, desc in list(self.below(output_of(level, old), ipa, level + 1)):
                        self.pend(cpu, vmid, lower, deep, at, desc, 0, change)
        self.words[slot & ~0xFFF][slot % 4096 // 8] = new
        if kind_of(level, new) == "invalid":
            return
        if was == "invalid" or change >= LESS:
            self.lives += 1
            self.life[slot] = self.lives
            if kind_of(level, new) == "table" and (was != "table" or change > LESS):
                # Entries below are valid as of now, in this place.
                for at, *_ in self.below(output_of(level, new), 0, level + 1):
                    self.life[at] = self.lives
        for vmid, ipa, _ in self.places(slot):
            self.anew(cpu, vmid, ipa, level, slot, new, was != "invalid", change)
            if kind_of(level, new) == "table":
                for at, lower, deep, desc in list(self.below(output_of(level, new), ipa, level + 1)):
                    self.anew(cpu, vmid, lower, deep, at, desc, was != "invalid", change)

    def pend(self, cpu: int, vmid: int, ipa: int, level: int, slot: int, old: int, new: int, change: int) -> None:
        table = kind_of(level, old) == "table"
        w = Pending(vmid, ipa, level, table, old, new, self.life[slot], change, self.cpu[cpu].task, cpu)
        held = self.held(w)
        if change == BBM and new and held:
            self.find("bbm", self.bbm(level, old, new))
        # One that is due, for the same CPUs, forbids as much.
        if held and not any(
            o.due
            and "pending" not in o.said
            and (o.vmid, o.ipa, o.level, o.table) == (vmid, ipa, level, table)
            and held <= self.held(o)
            for o in self.pending
        ):
            self.pending.append(w)
            # A TLBI that was issued before does not count.
            for p in (p for other in self.cpu for p in other.incomplete):
                p.removes = {(n, e) for n, e in p.removes if e not in (self.entry(w, False), self.entry(w, True))}

    def bbm(self, level: int, old: int, new: int) -> str:
        if kind_of(level, old) != kind_of(level, new):
            return "size"
        if output_of(level, old) != output_of(level, new):
            return "table" if kind_of(level, old) == "table" else "output"
        return "contiguous" if (old ^ new) & CONT else "attributes"

    def anew(
        self, cpu: int, vmid: int, ipa: int, level: int, slot: int, desc: int, was_valid: bool, change: int
    ) -> None:
        """Is an old entry true again, or does it contradict what is there now?"""
        judged = not was_valid or change == MORE
        for w in [w for w in self.pending if w.vmid == vmid and self.held(w)]:
            larger = w.level > level
            if (w.ipa, w.level) == (ipa, level):
                kind = change_of(level, w.old, desc)
                if kind <= MORE:
                    self.life[slot] = min(self.life[slot], w.life)
                    self.same(w, self.life[slot])
                    self.pending.remove(w)
                    continue
                if kind == BBM:
                    self.contradicts(cpu, w, judged, larger, was_valid)
                if w.task == self.cpu[cpu].task and not w.due:
                    w.new = desc
            elif larger and kind_of(level, desc) == "leaf" and ipa <= w.ipa < ipa + (1 << SHIFT[level]):
                self.contradicts(cpu, w, judged, larger, was_valid)

    def same(self, w: Pending, life: int) -> None:
        """What was cached of the old descriptor is of the new one."""
        for me in self.cpu:
            for combined in (False, True):
                if self.entry(w, combined) in me.cache:
                    me.cache |= {Entry(w.vmid, w.ipa, w.level, life, combined)}

    def contradicts(self, cpu: int, w: Pending, judged: bool, larger: bool, was_valid: bool) -> None:
        mine = w.task == self.cpu[cpu].task and not w.due
        if judged and self.held(w) and (larger or mine):
            self.find("bbm", "older" if was_valid else "anew")

    # --- TLBIs

    def covers(self, f: Flush, vmid: int, w: Pending) -> float | None:
        if f.form == "ipa" and not (w.ipa < f.ipa + 4096 * f.pages and f.ipa < w.ipa + w.size):
            return MISS_VA
        if f.form != "all" and w.vmid != vmid:
            return MISS_ASID
        if f.last and w.table:
            return MISS_LAST
        if f.level and not (w.level < f.level if w.table else w.level == f.level):
            return MISS_LEVEL
        return None

    def do_vtlbi(self, cpu: int, vmid: int, f: Flush) -> None:
        me = self.cpu[cpu]
        reached = {cpu} if f.local else set(range(len(self.cpu)))
        p = Incomplete(f, vmid, set(), [])
        for w in list(self.pending):
            self.flush_pending(cpu, vmid, f, reached, w, p)
        old = {(w.vmid, w.ipa, w.level, w.life) for w in self.pending}
        if f.form in ("s12", "all"):
            p.removes |= {
                (n, e)
                for n in reached
                for e in self.cpu[n].cache
                if (f.form == "all" or e.vmid == vmid) and (e.vmid, e.ipa, e.level, e.life) not in old
            }
        me.incomplete.append(p)

    def flush_pending(self, cpu: int, vmid: int, f: Flush, reached: set[int], w: Pending, p: Incomplete) -> None:
        why = self.covers(f, vmid, w)
        if why == MISS_ASID:
            if f.form == "ipa" and w.task == self.cpu[cpu].task and not w.due:
                w.misses.append([MISS_ASID, cpu])
            return
        if why == MISS_VA:
            return
        if why is not None:
            w.misses.append([why, cpu])
            return
        held = self.held(w) & reached
        of_stage = held - self.alone(w) if f.form == "s1" else held & self.alone(w) if f.form == "ipa" else held
        if not of_stage:
            if f.form != "s1":
                w.misses.append([MISS_LOCAL, cpu])
            elif w.issued:
                w.misses.append([MISS_STAGE, cpu])
            return
        if not w.ordered & {(cpu, "nsh" if f.local else "ish"), (w.cpu, "ish")}:
            w.misses.append([MISS_ORDER, cpu])
            forgets = f.local and f.form != "ipa"
            if w.task == self.cpu[cpu].task and w.cpu == cpu and not forgets:
                self.find("order", "no-dsb")
            return
        w.misses.append([MISS_LOCAL if self.held(w) - reached else MISS_DSB, cpu])
        w.issued = True
        p.pending.append(w)
        for n in of_stage:
            p.removes |= {(n, self.entry(w, True))} if f.form != "ipa" else set()
            p.removes |= {(n, self.entry(w, False))} if f.form != "s1" else set()

    def do_dsb(self, cpu: int, form: str) -> None:
        for w in self.pending:
            w.ordered |= {(cpu, "nsh")} if form.startswith("nsh") else {(cpu, "nsh"), (cpu, "ish")}
        if form.endswith("st"):
            return
        me, kept = self.cpu[cpu], []
        for p in me.incomplete:
            if form == "nsh" and not p.flush.local:
                kept.append(p)
                continue
            for n, e in p.removes:
                self.cpu[n].cache.discard(e)
            for w in p.pending if p.flush.form == "ipa" else []:
                w.misses = [[MISS_STAGE if m == [MISS_DSB, cpu] else m[0], m[1]] for m in w.misses]
            if p.flush.form != "ipa":
                for n in {cpu} if p.flush.local else set(range(len(self.cpu))):
                    self.cpu[n].left = {
                        v: left for v, left in self.cpu[n].left.items() if p.flush.form != "all" and v != p.vmid
                    }
        me.incomplete = kept
        self.pending = [w for w in self.pending if self.held(w)]

    # --- Tasks and guests

    def settles(self, task: int) -> None:
        for w in [w for w in self.pending if w.task == task and not w.due]:
            w.due = True
            if self.held(w) & self.running(w.vmid):
                self.find("pending", w.kind())
                w.said.add("pending")

    def do_task(self, cpu: int, task: int) -> None:
        self.cpu[cpu].task = task

    def do_user(self, cpu: int) -> None:
        self.settles(self.cpu[cpu].task)

    def do_guest(self, cpu: int, vmid: int, vcpu: int) -> None:
        me = self.cpu[cpu]
        self.settles(me.task)
        if vmid not in self.seen:
            self.seen.add(vmid)
            self.lives += 1
            self.life |= {slot: self.lives for slot, *_ in self.of(vmid)}
        me.guest = (vmid, vcpu)
        for w in [w for w in self.pending if w.vmid == vmid and w.due and cpu in self.held(w)]:
            if not (w.freed and not w.table) and "pending" not in w.said:
                self.find("pending", w.kind())
                w.said.add("pending")
        for w in [w for w in self.pending if w.vmid == vmid and w.freed and cpu in self.held(w)]:
            self.find("free", "table" if w.table else "page")
            w.freed = False
            w.said.add("free")
        if vmid in me.left:
            if me.left[vmid][0] != vcpu:
                self.find("vcpu", "other")
            elif me.left[vmid][1]:
                self.find("vcpu", "moved")
        me.left[vmid] = (vcpu, False)
        if vmid in self.untold:
            self.tell(vmid)

    def tell(self, vmid: int) -> None:
        """It maps a page that was freed, and runs."""
        self.found.append(("free", "mapped", self.untold.pop(vmid)))
        self.told.add(vmid)

    def do_host(self, cpu: int) -> None:
        me = self.cpu[cpu]
        if not me.guest:
            return
        vmid, vcpu = me.guest
        me.left.setdefault(vmid, (vcpu, False))
        me.guest = None

    def do_gtlbi(self, cpu: int, local: bool, fb: bool) -> None:
        me = self.cpu[cpu]
        if not me.guest or not local or fb:
            return
        vmid, vcpu = me.guest
        for other in self.cpu:
            if other is not me and other.left.get(vmid, (None,))[0] == vcpu:
                other.left[vmid] = (vcpu, True)

    def do_free(self, cpu: int, page: int) -> None:
        for vmid in self.seen - self.told - self.untold.keys():
            for _, _, level, desc in list(self.of(vmid)):
                first = output_of(level, desc)
                if kind_of(level, desc) == "leaf" and first <= page < first + (1 << SHIFT[level]):
                    self.untold[vmid] = self.line
                    break
        for vmid in [v for v in self.untold if self.running(v)]:
            self.tell(vmid)
        for w in list(self.pending):
            if not w.output_in(page) or "free" in w.said:
                continue
            if self.held(w) & self.running(w.vmid):
                self.find("free", "table" if w.table else "page")
                w.said.add("free")
            else:
                w.freed = w.due = True
