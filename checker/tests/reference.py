# SPDX-License-Identifier: GPL-2.0-only
"""The checker's rules again, slowly: each vCPU has an explicit set of what it may have cached.

For 4 KiB pages and 39 bits of address: levels 1 to 3. After every event all tables are walked anew, and every CPU
caches everything that it could fetch. There are no times, no lazy anything.

What is deliberately coarse, here as in the checker (space.h):

* A TLBI of an address takes CPUs off its pending invalidation, but no CPU forgets by it what is valid in the tables:
  only the flush of a whole ASID, or of all, does that.
* The root is an entry as well, which a CPU holds that had it loaded with something in it once. As long as the CPU's
  ASID is the same, it goes on walking from there, whatever TTBR0 has by now.
* A table that is linked at two places: of each address space, a CPU may hold what was valid in the table when it last
  had anything of that address space.
* While an invalidation is pending for a descriptor, who walks there counts as having found the old entry.
* Without speculation a CPU holds what it has used. TLBIs take that away at once, not with the DSB.
* Of a page of tables that was given back it is known which CPUs may hold copies of something in it, and not of what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

VALID, LINK = 1, 2
ATTR, NS, AP1, AP2, SH, AF, NG = 7 << 2, 1 << 5, 1 << 6, 1 << 7, 3 << 8, 1 << 10, 1 << 11
GP, DBM, CONT, PXN, UXN = 1 << 50, 1 << 51, 1 << 52, 1 << 53, 1 << 54
KEY = 7 << 60  # a protection key
SHIFT = {1: 30, 2: 21, 3: 12}
UPPER = 0xFFFFFF80 << 32

# What a change of a descriptor means, in the order of how much must be invalidated.
NOTHING, MORE, LESS, GONE, BBM = range(5)

# Why a TLBI was not enough, by nearness.
MISS_VA, MISS_ASID, MISS_LEVEL, MISS_LAST, MISS_LOCAL, MISS_ORDER, MISS_DSB, MISS_REPEAT = range(8)
MISS_KIND = {
    MISS_ASID: "asid",
    MISS_LEVEL: "level",
    MISS_LAST: "table",
    MISS_LOCAL: "local",
    MISS_ORDER: "order",
    MISS_DSB: "no-dsb",
    MISS_REPEAT: "repeat",
}


def kind_of(level: int, desc: int) -> str:
    if not desc & VALID or (level == 3 and not desc & LINK):
        return "invalid"
    return "table" if level < 3 and desc & LINK else "leaf"


def output_of(level: int, desc: int) -> int:
    low = SHIFT[level] if kind_of(level, desc) == "leaf" else 12
    return desc & ((1 << 48) - (1 << low))


def writable(desc: int) -> int:
    """2: yes, 1: hardware may make it so, 0: no."""
    return 2 if not desc & AP2 else 1 if desc & DBM else 0


def clash(old: int, new: int) -> bool:
    """Need two leaves break-before-make, whatever pages they lead to?"""
    return bool((old ^ new) & (ATTR | NS | SH | CONT) or old & ~new & NG)


def change_of(level: int, old: int, new: int) -> int:
    before, after = kind_of(level, old), kind_of(level, new)
    if before == "invalid":
        return NOTHING
    if after == "invalid":
        return GONE
    if before != after or output_of(level, old) != output_of(level, new):
        return BBM
    if before == "table":
        more, less = old & ~new, new & ~old
        return LESS if less >> 59 else MORE if more >> 59 else NOTHING
    put, taken = new & ~old, old & ~new
    if clash(old, new):
        return BBM
    if put & (PXN | UXN | GP | NG) or (put | taken) & KEY or taken & AP1 or writable(new) < writable(old):
        return LESS
    if taken & (PXN | UXN | GP) or put & AP1 or writable(new) > writable(old):
        return MORE
    return NOTHING


def same(level: int, old: int, new: int) -> bool:
    """Does a leaf that was just used say what it did? The dirty state is hardware's to set."""
    if old & new & DBM and not new & AP2:
        old &= ~AP2
    return bool(new & AF) and change_of(level, old, new) == NOTHING


def odd_one(level: int, descs: list[int]) -> int | None:
    """Of the 16 of a contiguous set: the first that does not say what the others do; None: they agree."""

    def plain(desc: int) -> int:
        """Without what hardware sets in one of them."""
        return (desc & ~AP2 if desc & DBM else desc) | AF

    there = [kind_of(level, desc) == "leaf" and bool(desc & CONT) for desc in descs]
    if not any(there):
        return None
    first = output_of(level, descs[0])
    if not there[0] or first % (16 << SHIFT[level]):
        return 0
    for n, desc in enumerate(descs):
        output = output_of(level, desc)
        if not there[n] or output != first + (n << SHIFT[level]):
            return n
        if change_of(level, plain(descs[0]), plain(desc) & ~output | first) != NOTHING:
            return n
    return None


@dataclass(frozen=True)
class Tlbi:
    """asid None: any. first None: every address."""

    asid: int | None = None
    first: int | None = None
    end: int = 0
    last: bool = False
    level: int = 0  # TTL; 0 says nothing
    local: bool = False
    domain: str = "ish"
    nxs: bool = False

    @property
    def upper(self) -> bool:
        return self.first is not None and self.first >= UPPER


@dataclass(frozen=True)
class Finding:
    rule: str
    kind: str
    pc: int  # of the change, if there was one; else where it was noticed
    noticed: int
    va: int = 0
    asid: int = 0
    level: int = 0
    table: bool = False


@dataclass(eq=False)
class Table:
    pa: int
    level: int
    seen: bool = False  # had a valid descriptor once
    unloaded: set[int] = field(default_factory=set)  # CPUs that have said so of this root
    armed: bool = False  # when it was linked, a CPU held copies of what was in its page


@dataclass(eq=False)
class Context:
    """What a TLB knows an address space by. The kernel's has no ASID."""

    root: Table | None
    asid: int
    kernel: bool = False
    seen: bool = False
    first: dict[int, int] = field(default_factory=dict)  # CPU -> when it first loaded it


@dataclass(frozen=True)
class Entry:
    """Something cached: a descriptor as of one of its lives; or, at level 0, the root."""

    context: Context
    va: int = 0
    level: int = 0
    life: int = 0


@dataclass(eq=False)
class Pending:
    context: Context
    va: int
    level: int
    table: bool
    old: int
    new: int
    life: int
    change: int
    task: int
    cpu: int
    pc: int
    held: set[int]
    due: bool
    lazy: bool = False  # a cleared entry of vmalloc: vfree() flushes whenever it likes
    slot: int = 0
    when: int = 0
    twin: int = 0  # what the new entry leads to, if it was allowed to replace the old one
    walkers: set[int] = field(default_factory=set)  # hold copies by the descriptor's physical address
    freed: bool = False
    ordered: set[tuple[int, str]] = field(default_factory=set)  # CPUs whose DSB came after: "ish", "nsh"
    synced: int = 0  # the line of the sync point: the kernel relies on no store through the old entry
    unlock: bool = False  # by who locks the page next, and nobody else
    said: set[str] = field(default_factory=set)  # what was reported of it: once, and nothing ends by that
    asked: set[int] = field(default_factory=set)  # CPUs that have begun to flush since, and rely on it
    taken: dict[int, int] = field(default_factory=dict)  # tasks that must wait for it too, and since which line
    collected: bool = False  # its flush was put off
    issued: set[int] = field(default_factory=set)  # CPUs that a TLBI was issued for
    locked: bool = True  # its CPU has not dropped a lock of tables since
    moved: bool = False  # what it led to was mapped elsewhere meanwhile
    misses: list[int] = field(default_factory=list)

    @property
    def page(self) -> int:
        return output_of(self.level, self.old)

    @property
    def size(self) -> int:
        return 1 << SHIFT[self.level]

    def kind(self) -> str:
        nearest = max(self.misses, default=MISS_VA)
        if nearest in MISS_KIND:
            return MISS_KIND[nearest]
        return "table" if self.table else "permission" if self.change == LESS else "no-tlbi"


@dataclass(eq=False)
class Walked:
    """Copies of what was in a page, from one ASID, when the page or its address space was given back."""

    page: int
    asid: int
    kernel: bool
    of: list[tuple[int, int, int, Pending]] = field(default_factory=list)  # when, slot, address
    cpus: set[int] = field(default_factory=set)

    def goes_by(self, t: Tlbi) -> bool:
        if t.asid is not None and (self.kernel or t.asid != self.asid):
            return False
        if t.first is None:
            return True
        all_named = all(t.first <= w.va and w.va + w.size <= t.end for *_, w in self.of)
        return not t.last and not t.level and t.upper == self.kernel and all_named


@dataclass(eq=False)
class Incomplete:
    tlbi: Tlbi
    pending: Pending | None = None
    cpus: set[int] = field(default_factory=set)
    when: int = 0
    walkers: bool = False  # of the pending invalidation, these only
    removes: set[tuple[int, Entry]] = field(default_factory=set)
    line: int = 0
    miss: int = -1  # its place in what the pending one has missed
    task: int = 0  # that issued it
    again: int = 0  # when a DSB would have completed it; a repetition and another one must follow


@dataclass(eq=False)
class Cpu:
    task: int = 0
    user: bool = False
    # What it has left, the latest at the end: with a "written" register, an "isb" since, or "over", after a DSB as well
    away: dict[Context, str] = field(default_factory=dict)
    range: tuple[int, int, int] | None = None  # that its task is at work on: root, start, end
    context: Context | None = None
    kernel: Context | None = None
    cache: set[Entry] = field(default_factory=set)
    copies: dict[Entry, int] = field(default_factory=dict)  # by physical address, and when it could make each last
    last: dict[Context, int] = field(default_factory=dict)  # up to which life it could fetch
    leaves: dict[tuple[int, int, int], int] = field(default_factory=dict)  # global: root, address, level; when it left
    incomplete: list[Incomplete] = field(default_factory=list)
    broadcast: int = 0  # its last TLBI that reaches others

    def asid(self) -> int:
        return self.context.asid if self.context else 0


@dataclass(eq=False)
class Used:
    output: int
    cpus: set[int]
    desc: int = 0  # as it was used last
    own: set[int] = field(default_factory=set)  # who has used it itself


def covers(t: Tlbi, w: Pending) -> int | None:
    """Does it remove the old entry for sure? None: yes; or why not."""
    if t.first is not None and not (w.va < t.end and t.first < w.va + w.size):
        return MISS_VA
    # A TLB entry that no ASID is known of
    everyone = w.context.kernel if w.table else not w.old & NG
    if t.asid is not None and not (everyone and w.context.kernel) and w.context.asid != t.asid:
        return MISS_ASID  # the checker looks for global leaves below under their own ASID only
    if t.asid is not None and everyone and (w.table or t.first is None):
        return MISS_ASID
    if t.last and w.table:
        return MISS_LAST
    if t.level and not (w.level < t.level if w.table else w.level == t.level):
        return MISS_LEVEL
    return None


class Reference:
    """Events in, findings out."""

    def __init__(self, cpus: int, speculation: bool, kernel_root: int, ntlbpa: bool = True) -> None:
        self.words: dict[int, dict[int, int]] = defaultdict(dict)  # page: index: descriptor
        self.dead: set[int] = set()  # descriptors whose table was given back under them
        self.tables: dict[int, Table] = {}
        self.contexts: list[Context] = []
        self.life: dict[int, int] = {}  # of a descriptor: since when it counts as what it is
        self.lives = 0
        self.pending: list[Pending] = []
        self.used: dict[tuple[Context, int, int, bool], Used] = {}
        self.found: list[Finding] = []
        self.speculation = speculation
        self.ntlbpa = ntlbpa
        self.walked: list[Walked] = []
        self.time = 0
        self.fresh = False  # a table is armed and was not looked at
        self.links: dict[int, int] = {}  # the tables that descriptors point to
        self.odd: dict[tuple[int, int], tuple[int, int]] = {}  # contiguous sets: who stored there last, at which line
        self.over_invalidated = 0  # entries that TLBIs took from CPUs, and which had not changed
        # Of each CPU: leaves that TLBIs took and that it has not used since; and as what all have used each leaf since
        # this CPU did, None: as different things, or it had changed when it was taken.
        self.missing: list[set[tuple[Context, int, int]]] = [set() for _ in range(cpus)]
        self.seen_as: list[dict[tuple[Context, int, int], int | None]] = [{} for _ in range(cpus)]
        self.refills = self.unchanged = 0
        self.line = 0
        self.repeats = False  # the kernel repeats broadcasts
        self.lazy = (0, 1 << 64)  # kernel addresses whose pages may be freed before the flush
        self.cpu = [Cpu() for _ in range(cpus)]
        kernel = self.context(0, kernel_root, True)
        for cpu in self.cpu:
            cpu.kernel = kernel
        self.settle()

    # --- Tables

    def context(self, asid: int, root: int, kernel: bool = False) -> Context:
        for c in self.contexts:
            if c.root and (c.root.pa, c.asid, c.kernel) == (root, asid, kernel):
                return c
        table = self.tables[root] = self.tables.get(root) or self.new_table(root, 1)
        self.contexts.append(Context(table, asid, kernel))
        return self.contexts[-1]

    def new_table(self, page: int, level: int) -> Table:
        return self.arm(Table(page, level))

    def arm(self, table: Table) -> Table:
        """A table was linked: look at it if CPUs may hold copies of what was in its page."""
        held = any(w.walkers and w.slot & ~0xFFF == table.pa for w in self.pending)
        if held or any(r.page == table.pa for r in self.walked):
            self.fresh = table.armed = True
        return table

    def below(self, page: int, va: int, level: int) -> Iterator[tuple[int, int, int]]:
        """Every table from this one down: page, first address, level."""
        yield page, va, level
        for index, desc in self.words[page].items():
            if kind_of(level, desc) == "table" and page + 8 * index not in self.dead:
                yield from self.below(output_of(level, desc), va + (index << SHIFT[level]), level + 1)

    def tables_of(self, c: Context) -> Iterator[tuple[int, int, int]]:
        if c.root:
            yield from self.below(c.root.pa, UPPER if c.kernel else 0, 1)

    def places(self, slot: int) -> list[tuple[Context, int]]:
        """Where a descriptor stands, in each address space."""
        return [
            (c, va + (slot % 4096 // 8 << SHIFT[level]))
            for c in self.contexts
            for page, va, level in self.tables_of(c)
            if page == slot & ~0xFFF
        ]

    def valid(self, page: int, va: int, level: int) -> Iterator[tuple[int, int, int, int]]:
        """Every valid descriptor from this table down: slot, address, level, value."""
        for table, first, at in self.below(page, va, level):
            for index, desc in self.words[table].items():
                if kind_of(at, desc) != "invalid":
                    yield table + 8 * index, first + (index << SHIFT[at]), at, desc

    def follow(self) -> None:
        """Which tables are there?"""
        reached = {page: level for c in self.contexts for page, _, level in self.tables_of(c)}
        old, self.tables = self.tables, {}
        for page, level in reached.items():
            self.tables[page] = old.get(page) or self.new_table(page, level)
        before, self.links = self.links, {}
        for page, level in reached.items():
            for index, desc in self.words[page].items():
                if kind_of(level, desc) == "table" and page + 8 * index not in self.dead:
                    self.links[page + 8 * index] = child = output_of(level, desc)
                    if before.get(page + 8 * index) != child and child in old:
                        for below, _, _ in self.below(child, 0, level + 1):
                            self.arm(self.tables[below])
        self.dead = {slot for slot in self.dead if slot & ~0xFFF in self.tables}
        self.life = {slot: life for slot, life in self.life.items() if slot & ~0xFFF in self.tables}
        self.lives += 1
        for page, table in self.tables.items():
            for index, desc in self.words[page].items():
                if kind_of(table.level, desc) != "invalid":
                    table.seen = True
                    self.life.setdefault(page + 8 * index, self.lives)
        for c in self.contexts:
            c.seen = c.root.seen if c.root else c.seen
        self.linked_twice()

    def linked_twice(self) -> None:
        """See the top of this file."""
        children = list(self.links.values())
        twice = {page for page in self.tables if children.count(page) > 1}
        tables = {below for page in twice for below, _, _ in self.below(page, 0, self.tables[page].level)}
        for c in self.contexts if tables else []:
            valid = [v for v in self.valid_of(c) if v[0] & ~0xFFF in tables]
            there = {Entry(c, va, level, self.life[slot]) for slot, va, level, _ in valid}
            for n, cpu in enumerate(self.cpu):
                held = {e for e in there - cpu.cache if Entry(c) in cpu.cache and cpu.last.get(c, -1) >= e.life}
                cpu.cache |= held
                if Entry(c) in cpu.copies:
                    cpu.copies |= dict.fromkeys(held, cpu.copies[Entry(c)])
                for p in cpu.incomplete:
                    if (n, Entry(c)) in p.removes:
                        p.removes |= {(n, e) for e in held}

    def settle(self) -> None:
        """After every event: what can each CPU have fetched by now?"""
        self.follow()
        for number, cpu in enumerate(self.cpu):
            for c in self.contexts:
                if c in (cpu.context, cpu.kernel):
                    self.fetch(number, c, False)
                elif not c.kernel and cpu.context and cpu.context.asid == c.asid and Entry(c) in cpu.cache:
                    self.fetch(number, c, True)
        self.time += 1

    def fetchable(self, c: Context) -> set[Entry]:
        entries = {Entry(c)} if c.seen else set()
        if c.root:
            entries |= {Entry(c, va, level, self.life[slot]) for slot, va, level, _ in self.valid_of(c)}
            entries |= {Entry(c, w.va, w.level, w.life) for w in self.pending if w.held and w.context.root is c.root}
        return entries

    def valid_of(self, c: Context) -> Iterator[tuple[int, int, int, int]]:
        if c.root:
            yield from self.valid(c.root.pa, UPPER if c.kernel else 0, 1)

    def fetch(self, number: int, c: Context, parked: bool) -> None:
        """Fetched after a TLBI, nothing is removed by it; but for what hangs on a root that goes by it."""
        entries = self.fetchable(c)
        self.cpu[number].cache |= entries
        self.cpu[number].last[c] = self.lives
        self.cpu[number].copies |= dict.fromkeys(entries, self.time)
        for cpu in self.cpu:
            for p in cpu.incomplete:
                if p.pending:
                    continue
                if parked and (number, Entry(c)) in p.removes:
                    p.removes |= {(number, e) for e in entries}
                else:
                    p.removes -= {(number, e) for e in entries}

    def holders(self, c: Context, va: int, level: int, table: bool, life: int) -> set[int]:
        if not self.speculation and not c.kernel:
            used = self.used.get((c, va, level, table))
            return set(used.cpus) if used else set()
        return {
            number
            for number, cpu in enumerate(self.cpu)
            if any((e.context, e.va, e.level) == (c, va, level) and e.life >= life for e in cpu.cache)
        }

    def walkers(self, c: Context, va: int, level: int, life: int) -> set[int]:
        """As holders(), of copies by physical address."""
        return {
            number
            for number, cpu in enumerate(self.cpu)
            if not self.ntlbpa
            and any((e.context, e.va, e.level) == (c, va, level) and e.life >= life for e in cpu.copies)
        }

    def loaded(self, c: Context) -> set[int]:
        return {n for n, cpu in enumerate(self.cpu) if c in (cpu.context, cpu.kernel)}

    def current(self, c: Context) -> set[int]:
        """CPUs that run with its ASID, with whatever root."""
        return {n for n, cpu in enumerate(self.cpu) if not c.kernel and cpu.context and cpu.context.asid == c.asid}

    # --- Findings

    def find(self, rule: str, kind: str, **what: int) -> None:
        table = bool(what.pop("table", 0))
        noticed = what.pop("noticed", self.line)
        self.found.append(Finding(rule, kind, what.pop("pc", self.line), noticed, table=table, **what))

    def using(self, c: Context) -> set[int]:
        """CPUs that may use what they hold of it."""
        return self.loaded(c) if c.kernel else self.current(c)

    def find_pending(self, rule: str, kind: str, w: Pending, once: str = "", noticed: int | None = None) -> None:
        """Once, though with another kind, if ``once`` says so. It is pending still."""
        if once in w.said:
            return
        w.said |= {once} if once else set()
        self.find(rule, kind, pc=w.pc, va=w.va, asid=w.context.asid, level=w.level, table=w.table)
        if noticed is not None:
            self.found[-1] = replace(self.found[-1], noticed=noticed)

    def find_freed(self, cpu: int, c: Context | None) -> None:
        """User code runs with it."""
        for w in list(self.pending):
            if w.context is c and w.freed and cpu in w.held:
                self.find_pending("free", "table" if w.table else "page", w, "free")
                w.freed = False

    def find_written(self, w: Pending, line: int, unlock: bool) -> None:
        """Somebody may store through the old entry, and since that line nobody should."""
        kind = "no-tlbi" if w.kind() not in ("no-dsb", "repeat") else "unlocked" if unlock else "no-dsb"
        self.find("written", kind, pc=w.pc, va=w.va, asid=w.context.asid, level=w.level, noticed=line)
        w.synced = 0

    def find_written_by(self, cpu: int) -> None:
        """User code runs with it."""
        for w in self.pending:
            if w.context is self.cpu[cpu].context and w.synced and cpu in w.held:
                self.find_written(w, w.synced, w.unlock)

    # --- Copies by physical address

    def walkers_of(self, w: Pending) -> set[int]:
        """Who may still have a copy: some TLBI of the whole ASID may have been complete since the walk."""
        if w.context.kernel or not (w.table or w.old & NG):
            return w.walkers
        return {n for n in w.walkers if any(e.context is w.context for e in self.cpu[n].copies)}

    def note(self, w: Pending) -> None:
        """Whatever becomes of the page, they may be there."""
        walkers = self.walkers_of(w)
        if not walkers:
            return
        key = (w.slot & ~0xFFF, w.context.asid, w.context.kernel)
        found = next((r for r in self.walked if (r.page, r.asid, r.kernel) == key), None)
        if not found:
            found = Walked(*key)
            self.walked.append(found)
        found.of.append((w.when, w.slot, w.va, w))
        found.cpus |= walkers

    def forget(self, w: Pending, cpus: set[int]) -> None:
        w.walkers = w.walkers - cpus
        if not w.held and not w.walkers:
            self.pending.remove(w)

    def users(self, page: int) -> list[Context]:
        return [c for c in self.contexts if any(at == page for at, _, _ in self.tables_of(c))]

    def differs(self, w: Pending) -> bool:
        """Does the table say something else by now than a copy does?"""
        page = w.slot & ~0xFFF
        now = self.words[page].get(w.slot % 4096 // 8, 0)
        if self.tables[page].level != w.level:
            return now != w.old
        return change_of(w.level, w.old, now) > MORE

    def find_walk(self, kind: str, w: Pending) -> None:
        self.find("walk", kind, pc=w.pc, va=w.va, asid=w.context.asid, level=w.level, table=w.table)

    def check_walks(self) -> None:
        """Tables in pages of which a CPU holds copies: does it have them loaded?"""
        self.fresh = False
        for page, table in self.tables.items():
            if not table.armed:
                continue
            users = self.users(page)
            table.armed = False
            for r in [r for r in self.walked if r.page == page]:
                table.armed = True
                who = r.cpus & set().union(*(self.loaded(c) for c in users))
                if who:
                    self.find_walk("freed", min(r.of, key=lambda of: of[:3])[3])
                    r.cpus -= who
                    if not r.cpus:
                        self.walked.remove(r)
            for w in [w for w in self.pending if w.walkers and w.slot & ~0xFFF == page]:
                table.armed = True
                others = set().union(*(self.loaded(c) for c in users if c.root is not w.context.root))
                who = self.walkers_of(w) & others
                if who and self.differs(w):
                    self.find_walk("unlinked", w)
                    self.forget(w, who)

    def renamed(self, w: Pending, c: Context, cpus: set[int]) -> bool:
        """These CPUs have its tables loaded under another ASID, which they had not loaded before."""
        cpus = {cpu for cpu in cpus if c.first.get(cpu, 0) > w.when}
        if not cpus or c not in self.users(w.slot & ~0xFFF) or not self.differs(w):
            return False
        self.find_walk("renamed", w)
        self.forget(w, cpus)
        return True

    def siblings(self, c: Context) -> list[Context]:
        return [o for o in self.contexts if c.root and o.root is c.root and o is not c]

    # --- Global leaves of the lower half

    def leave(self, cpu: int, c: Context) -> None:
        if not c.root:
            return
        leaves = {(va, level) for _, va, level, d in self.valid_of(c) if kind_of(level, d) == "leaf" and not d & NG}
        leaves |= {
            (w.va, w.level) for w in self.pending if w.context is c and not w.table and not w.old & NG and cpu in w.held
        }
        for va, level in leaves:
            used = self.used.get((c, va, level, False))
            if self.speculation or (used and cpu in used.cpus):
                self.cpu[cpu].leaves[c.root.pa, va, level] = self.time

    def check_globals(self, cpu: int, c: Context) -> None:
        assert c.root
        me = self.cpu[cpu]
        others = sorted((va, level) for root, va, level in me.leaves if root != c.root.pa)
        if others and c.root.seen:
            self.find("asid", "global", asid=c.asid, va=others[0][0], level=others[0][1])
            me.leaves = {key: when for key, when in me.leaves.items() if key[0] == c.root.pa}

    def complete(self, p: Incomplete) -> None:
        """What is neither pending nor in the TLB goes."""
        t = p.tlbi
        for r in list(self.walked):
            if r.goes_by(t) and max(of[0] for of in r.of) <= p.when:
                r.cpus -= p.cpus
                if not r.cpus:
                    self.walked.remove(r)
        for n in p.cpus:
            me = self.cpu[n]
            for (root, va, level), when in list(me.leaves.items()):
                named = t.first is None or (va < t.end and t.first < va + (1 << SHIFT[level]))
                if named and (t.asid is None or t.first is not None) and t.level in (0, level) and when <= p.when:
                    del me.leaves[root, va, level]
            if t.first is None:
                for e, when in list(me.copies.items()):
                    asids = {e.context.asid, *(o.asid for o in self.siblings(e.context))}
                    if when < p.when and (t.asid is None or (not e.context.kernel and t.asid in asids)):
                        del me.copies[e]

    # --- Events

    def do_task(self, cpu: int, task: int) -> None:
        if self.cpu[cpu].task != task:
            self.cpu[cpu].range = None
        self.cpu[cpu].task = task
        self.cpu[cpu].user = False

    def do_user(self, cpu: int) -> None:
        self.cpu[cpu].user = True
        self.find_written_by(cpu)
        self.find_odd(self.cpu[cpu].task)
        self.cpu[cpu].range = None
        for w in list(self.pending):
            if not w.due and w.task == self.cpu[cpu].task:
                self.falls_due(w)
        for w in list(self.pending):
            since = w.taken.pop(self.cpu[cpu].task, None)
            if since is not None and w.held & self.current(w.context):
                self.find_pending("pending", "unsettled", w, "unsettled", since)
        self.find_freed(cpu, self.cpu[cpu].context)

    def do_sleep(self, cpu: int) -> None:
        """Of its own accord: its sets must agree; permissions that it took away in the kernel's half are due."""
        self.find_odd(self.cpu[cpu].task)
        for w in list(self.pending):
            if not w.due and w.task == self.cpu[cpu].task and w.context.kernel and w.change != GONE:
                self.falls_due(w)

    def falls_due(self, w: Pending) -> None:
        if w.held & self.using(w.context):
            self.find_pending("pending", w.kind(), w, "pending")
        w.due = True
        for c in self.siblings(w.context) if not w.context.kernel else []:
            who = w.walkers & self.loaded(c)
            if who and self.renamed(w, c, who):
                break

    def do_isb(self, cpu: int) -> None:
        away = self.cpu[cpu].away
        away.update({c: "isb" for c, state in away.items() if state == "written"})

    def leaves(self, cpu: int, c: Context) -> None:
        """Neither TTBR0 nor the ASID says so any more; or one of the two does not."""
        self.cpu[cpu].away.pop(c, None)
        self.cpu[cpu].away[c] = "written"

    def may_use(self, cpu: int, c: Context) -> bool:
        """It walks from there, or on from what it holds."""
        me = self.cpu[cpu]
        same = me.context is not None and me.context.asid == c.asid
        return me.context is c or (not c.kernel and same and Entry(c) in me.cache)

    def do_loaded(self, cpu: int, root: int) -> None:
        if root in self.tables:
            self.tables[root].unloaded.discard(cpu)

    def do_unloaded(self, cpu: int, root: int) -> None:
        """It is not loaded: walks of it must be over."""
        table = self.tables.get(root)
        if not table:
            return
        me = self.cpu[cpu]
        its = [c for c in self.contexts if c.root is table]
        last = [c for c in me.away if c in its][-1:]
        for c in its:
            if self.may_use(cpu, c):
                self.find("unload", "loaded", asid=c.asid, level=1, table=1)
                break
        else:
            for c in last:
                if me.away[c] != "over":
                    kind = "no-isb" if me.away[c] == "written" else "no-dsb"
                    self.find("unload", kind, asid=c.asid, level=1, table=1)
        table.unloaded.add(cpu)

    def find_uncounted(self, cpu: int, c: Context) -> None:
        """It may be used from now on: has the CPU said that it is not loaded?"""
        if c.root and cpu in c.root.unloaded and self.may_use(cpu, c):
            self.find("unload", "uncounted", asid=c.asid, level=1, table=1)
            c.root.unloaded.discard(cpu)

    def do_lazy(self, start: int, end: int) -> None:
        self.lazy = start, end

    def do_returned(self, cpu: int, start: int, end: int) -> None:
        """Kernel addresses may be mapped anew: nobody may hold old entries of them."""
        for w in list(self.pending):
            if w.context.kernel and w.va < end and start < w.va + w.size and w.held:
                self.find_pending("pending", w.kind(), w, "pending")
                w.due = True

    def do_sync(self, cpu: int, page: int, own: bool = False, unlock: bool = False) -> None:
        """The kernel relies on it that nobody stores to the page, or not by what its own task has taken away."""
        for w in self.pending:
            inside = w.page <= page < w.page + w.size and not w.table
            if not inside or w.context.kernel or writable(w.old) != 2 or w.freed or "free" in w.said:
                continue
            if own and w.task != self.cpu[cpu].task:
                continue
            if not w.synced or (w.unlock and not unlock):
                w.synced, w.unlock = self.line, unlock
            if any(self.cpu[n].user for n in w.held & self.loaded(w.context)):
                self.find_written(w, self.line, unlock)

    def do_sync_own(self, cpu: int, page: int) -> None:
        self.do_sync(cpu, page, own=True)

    def do_sync_unlock(self, cpu: int, page: int) -> None:
        self.do_sync(cpu, page, unlock=True)

    def do_wrote(self, cpu: int, va: int) -> None:
        """By hardware, which sets the dirty state where it may."""
        c = self.cpu[cpu].context
        page, level = (c.root.pa, 1) if c and c.root else (0, 0)
        while level:
            index = va >> SHIFT[level] & 511
            desc = self.words[page].get(index, 0)
            if kind_of(level, desc) != "table":
                if desc & VALID and desc & DBM:
                    self.words[page][index] = desc & ~AP2
                return
            page, level = output_of(level, desc), level + 1

    def take_over(self, cpu: int, w: Pending) -> None:
        """The CPU's task must wait for it as well, when it returns to user space."""
        if not w.due and not w.context.kernel and w.task != self.cpu[cpu].task:
            w.taken.setdefault(self.cpu[cpu].task, self.line)

    def do_range(self, cpu: int, root: int, start: int, end: int) -> None:
        """It goes on from what others have taken away there."""
        if any(c.root and c.root.pa == root for c in self.contexts):
            self.cpu[cpu].range = (root, start, end)
        for w in self.pending:
            there = w.context.root and w.context.root.pa == root and w.va < end and start < w.va + w.size
            if there and w.change != LESS:
                self.take_over(cpu, w)

    def do_collected(self, cpu: int, root: int, va: int) -> None:
        """It puts the flush of that entry off."""
        for w in self.pending:
            there = w.context.root and w.context.root.pa == root and w.va <= va < w.va + w.size
            if there and w.task == self.cpu[cpu].task and not w.table and not w.due:
                w.collected = True

    def do_unlock(self, cpu: int) -> None:
        """It drops a lock of page tables."""
        for w in list(self.pending):
            mine = w.cpu == cpu and w.task == self.cpu[cpu].task and not w.due
            if mine and w.locked and w.moved and w.held & self.current(w.context):
                self.find_pending("pending", "unlocked", w, "unlocked")
            if w.cpu == cpu:
                w.locked = False

    def do_rmaps(self, cpu: int) -> None:
        """It drops the reverse mappings of what it has unmapped."""
        for w in list(self.pending):
            running = {n for n in w.held & self.current(w.context) if self.cpu[n].user}
            if running and w.task == self.cpu[cpu].task and not (w.due or w.table or w.change == LESS):
                self.find_pending("pending", "rmap", w, "rmap")

    def do_registers(self, cpu: int, root: int, asid: int) -> None:
        """TTBR0 and the ASID are these from now on."""
        me, c = self.cpu[cpu], self.context(asid, root)
        old = me.context
        if c is old:
            self.check_walks()
            return
        self.follow()
        assert c.root
        if old:
            self.leave(cpu, old)
        me.context = c
        c.first.setdefault(cpu, self.time)
        if old and old.seen:
            self.leaves(cpu, old)
        if old and old.asid != asid:
            for o in self.contexts:
                if not o.kernel and o.asid == old.asid and Entry(o) in me.cache:
                    self.leaves(cpu, o)
        if c.root.seen:
            for o in self.contexts:
                if o is not c and not o.kernel and o.asid == asid and Entry(o) in me.cache:
                    self.find("asid", "reused", asid=asid)
                    me.cache = {e for e in me.cache if e.context is not o}
                    me.copies = {e: when for e, when in me.copies.items() if e.context is not o}
                    me.away.pop(o, None)
        self.find_uncounted(cpu, c)
        for o in self.contexts:
            if not o.kernel and o.asid == asid and (not old or old.asid != asid):
                self.find_uncounted(cpu, o)
        if not old or old.asid != asid:
            for w in list(self.pending):
                if w.due and not w.context.kernel and w.context.asid == asid and cpu in w.held:
                    if w.freed and not w.table:
                        continue  # find_freed() has a better name for it
                    self.find_pending("pending", w.kind(), w, "pending")
        for w in list(self.pending):
            if w.due and cpu in w.walkers and w.context in self.siblings(c):
                self.renamed(w, c, {cpu})
        self.check_globals(cpu, c)
        if me.user:
            self.find_written_by(cpu)
            self.find_freed(cpu, c)
        self.check_walks()

    def do_store(self, cpu: int, pa: int, new: int) -> None:
        page, index = pa & ~0xFFF, pa % 4096 // 8
        old = self.words[page].get(index, 0)
        table = self.tables.get(page)
        if not table or old == new:
            self.words[page][index] = new
            return
        level, change = table.level, change_of(table.level, old, new)
        wrong = self.bbm(level, old, new) if change == BBM else ""
        places = self.places(pa)
        if change >= LESS:
            for c, va in places:
                self.replaced(cpu, c, va, level, old, new, pa, change, wrong)
            if kind_of(level, old) == "table" and change > LESS and pa not in self.dead:
                below = list(self.valid(output_of(level, old), 0, level + 1))
                for slot, offset, at, desc in below:
                    for c, va in places:
                        self.pend(cpu, c, va + offset, at, desc, 0, self.life[slot], change, slot)
        if kind_of(level, old) == kind_of(level, new) == "invalid" and old ^ new != AF:
            for c, va in places:
                for w in list(self.pending):
                    if (w.context, w.va, w.level) == (c, va, level):
                        if w.task == self.cpu[cpu].task and not w.due:
                            w.new = new
                        if w.new or w.collected:  # else it was discarded, and this is something new
                            self.take_over(cpu, w)
                        at = self.cpu[cpu].range
                        at_work = at and c.root and c.root.pa == at[0] and at[1] <= va < at[2]
                        theirs = w.task != self.cpu[cpu].task and w.collected and not w.due
                        if at_work and theirs and w.held & self.current(c):
                            self.find_pending("pending", "unsettled", w, "unsettled")
        self.words[page][index] = new
        self.stored_to_set(cpu, page, index - index % 16, level, old, new)
        self.dead.discard(pa)
        if kind_of(level, new) == "invalid":
            self.life.pop(pa, None)
            return
        if kind_of(level, old) == "invalid" or change >= LESS:
            self.lives += 1
            self.life[pa] = self.lives
        anew = kind_of(level, old) == "invalid"
        judge = anew or change == MORE or (change == BBM and not wrong)
        for c, va in places:
            self.made(cpu, c, va, level, pa, new, anew, judge)
        if kind_of(level, new) == "table":
            self.follow()
            for slot, offset, at, desc in list(self.valid(output_of(level, new), 0, level + 1)):
                for c, va in places:
                    self.made(cpu, c, va + offset, at, slot, desc, anew, judge)
        if self.fresh:
            self.check_walks()

    def set_at(self, page: int, first: int, level: int) -> int | None:
        return odd_one(level, [self.words[page].get(first + n, 0) for n in range(16)])

    def stored_to_set(self, cpu: int, page: int, first: int, level: int, old: int, new: int) -> None:
        """Those that do not agree belong to who stored there last."""
        concerned = old & CONT or (kind_of(level, new) == "leaf" and new & CONT) or (page, first) in self.odd
        if concerned and self.set_at(page, first, level) is None:
            self.odd.pop((page, first), None)
        elif concerned:
            self.odd[page, first] = self.cpu[cpu].task, self.line

    def find_odd(self, task: int) -> None:
        """Sets that a task leaves as they must not be."""
        for (page, first), (who, line) in list(self.odd.items()):
            if who != task:
                continue
            del self.odd[page, first]
            table = self.tables.get(page)
            which = self.set_at(page, first, table.level) if table else None
            if table and which is not None:
                for c, va in self.places(page + 8 * (first + which)):
                    if self.loaded(c):
                        self.find("bbm", "set", pc=line, noticed=line, va=va, asid=c.asid, level=table.level)

    def differ(self, a: int, b: int, size: int) -> bool:
        """Has one page, or block, other contents than another?"""

        def contents(page: int) -> list[dict[int, int]]:
            return [{n: word for n, word in self.words[at].items() if word} for at in range(page, page + size, 4096)]

        return contents(a) != contents(b)

    def bbm(self, level: int, old: int, new: int) -> str:
        """Why no CPU may have both; empty: it may."""
        a, b = kind_of(level, old), kind_of(level, new)
        if a != b:
            return "size"
        if output_of(level, old) != output_of(level, new):
            if a == "table":
                return "table"
            if writable(old) or writable(new):
                return "output"
            if self.differ(output_of(level, old), output_of(level, new), 1 << SHIFT[level]):
                return "contents"
            if not clash(old, new):
                return ""
        if (old ^ new) & CONT:
            return "contiguous"
        return "global" if (old ^ new) & NG else "attributes"

    def replaced(
        self, cpu: int, c: Context, va: int, level: int, old: int, new: int, slot: int, change: int, wrong: str
    ) -> None:
        """A valid descriptor is not any more what it was."""
        table = kind_of(level, old) == "table"
        held = self.holders(c, va, level, table, self.life[slot])
        if wrong and (held if c.kernel else held & self.loaded(c)):
            self.find("bbm", wrong, va=va, asid=c.asid, level=level, table=table)
        twin = output_of(level, new) if change == BBM and not wrong else 0
        self.pend(cpu, c, va, level, old, new, self.life[slot], change, slot, twin)

    def pend(
        self,
        cpu: int,
        c: Context,
        va: int,
        level: int,
        old: int,
        new: int,
        life: int,
        change: int,
        slot: int,
        twin: int = 0,
    ) -> None:
        table = kind_of(level, old) == "table"
        held = self.holders(c, va, level, table, life)
        if not held:
            return
        walkers = held & self.walkers(c, va, level, life)
        for w in self.pending:  # Due for all of them: one reason not to load it is enough.
            same = (
                (w.context, w.va, w.level, w.table) == (c, va, level, table)
                and w.due
                and held <= w.held
                and "pending" not in w.said
            )
            if same and (not walkers or (w.slot == slot and walkers <= w.walkers)):
                return
        me = self.cpu[cpu]
        w = Pending(c, va, level, table, old, new, life, change, me.task, cpu, self.line, held, False)
        w.slot, w.when, w.walkers, w.twin = slot, self.time, walkers, twin
        w.lazy = w.due = c.kernel and change == GONE and self.lazy[0] <= va < self.lazy[1]
        self.pending.append(w)

    def made(self, cpu: int, c: Context, va: int, level: int, slot: int, new: int, anew: bool, judge: bool) -> None:
        """A descriptor is valid: old entries may be true again, or contradict it."""
        for w in list(self.pending):
            inside = va <= w.va < va + (1 << SHIFT[level])
            if w.context is not c or not inside or w.level < level or not w.held:
                continue
            if w.level == level:
                change = change_of(level, w.old, new)
            else:  # An entry of a table, under what is a block now; or still a table.
                change = BBM if kind_of(level, new) == "leaf" else NOTHING
            if change <= MORE and w.level == level:
                self.life[slot] = min(self.life[slot], w.life)
                if w.walkers and w.slot != slot:
                    w.held, w.due = set(), True  # true again, but not where it was
                else:
                    self.pending.remove(w)
                continue
            mine = w.task == self.cpu[cpu].task and not w.due
            if mine and w.level == level:
                w.new = new
            larger = w.level > level or (new & CONT and not w.old & CONT)
            who = w.held if c.kernel else w.held & self.loaded(c)
            if change == BBM and judge and who and (c.kernel or mine or larger):
                if w.level != level or self.bbm(level, w.old, new):
                    kind = "anew" if anew else "older"
                    self.find("bbm", kind, pc=w.pc, va=w.va, asid=c.asid, level=w.level, table=w.table)
            elif change == LESS and c.kernel and w.change == GONE:
                w.change, w.task, w.new, w.due, w.lazy = LESS, self.cpu[cpu].task, new, False, False
                w.said.discard("pending")
            if anew and change >= LESS and w.collected and w.held & self.loaded(c) - w.issued:
                self.find_pending("bbm", "collected", w, "collected")
        for w in self.pending:
            mine = w.task == self.cpu[cpu].task and w.cpu == cpu and w.locked and not w.due and w.change != LESS
            same = (w.context, w.level, w.table) == (c, level, kind_of(level, new) == "table")
            there = kind_of(level, w.new) != "invalid" and output_of(level, w.new) == w.page
            if mine and same and not there and not c.kernel and w.va != va and w.page == output_of(level, new):
                w.moved = True

    def do_tlbi(self, cpu: int, t: Tlbi) -> None:
        reached = {cpu} if t.local else set(range(len(self.cpu)))
        me = self.cpu[cpu]
        if not t.local:
            me.broadcast = self.time
        if not t.local and (t.asid, t.first, t.end, t.last, t.level) == (0, 0, 0x1000, True, 0):
            self.repeats = True
            for other in self.cpu:  # on which its task was before
                came = [p for p in other.incomplete if other is not me and p.again and p.task == me.task]
                other.incomplete = [p for p in other.incomplete if p not in came]
                me.incomplete += came
        p = Incomplete(t, cpus=reached, when=self.time, task=me.task)
        me.incomplete.append(p)
        if t.first is None:
            p.removes = {
                (n, e)
                for n in reached
                for e in self.cpu[n].cache
                if t.asid is None or (not e.context.kernel and e.context.asid == t.asid)
            }
        for w in list(self.pending):
            self.tlbi_for(cpu, t, reached, w)
            self.tlbi_for_walkers(cpu, t, reached, w)
        if t.upper:
            return
        for (c, va, level, table), used in list(self.used.items()):
            what = Pending(c, va, level, table, NG, 0, 0, 0, 0, 0, 0, set(), False)
            if covers(t, what) is None:
                true = self.still_true(c, va, level, used.desc)
                for n in used.own & reached if not table else set():
                    self.over_invalidated += true
                    self.missing[n].add((c, va, level))
                    if not true:
                        self.seen_as[n][c, va, level] = None
                used.own -= reached
                used.cpus -= reached
                if not used.cpus:
                    del self.used[c, va, level, table]

    def still_true(self, c: Context, va: int, level: int, old: int) -> bool:
        """Do the tables lead there as they did?"""
        page, at = (c.root.pa, 1) if c.root else (0, 0)
        while at:
            desc = self.words[page].get(va >> SHIFT[at] & 511, 0)
            if kind_of(at, desc) != "table":
                return at == level and bool(desc & VALID) and same(level, old, desc)
            page, at = output_of(at, desc), at + 1
        return False

    def tlbi_for_walkers(self, cpu: int, t: Tlbi, reached: set[int], w: Pending) -> None:
        """It names another ASID that its root was loaded with."""
        if t.asid is None or t.upper or t.asid == w.context.asid or w.context.kernel:
            return
        related = any(c.asid == t.asid for c in self.siblings(w.context))
        if not related or covers(replace(t, asid=w.context.asid), w) is not None or not w.walkers & reached:
            return
        if w.ordered & {(cpu, "nsh" if t.local else "ish"), (w.cpu, "ish")}:
            self.cpu[cpu].incomplete.append(
                Incomplete(t, w, w.walkers & reached, walkers=True, task=self.cpu[cpu].task)
            )

    def tlbi_for(self, cpu: int, t: Tlbi, reached: set[int], w: Pending) -> None:
        me = self.cpu[cpu]
        if w.context.kernel and not (t.upper or (t.first is None and t.asid is None)):
            return
        if not w.context.kernel and t.upper:
            return
        why = covers(t, w)
        mine = w.task == me.task
        if why == MISS_ASID and not w.context.kernel and not w.table and not w.old & NG:
            return
        if why == MISS_VA:
            return
        if why == MISS_ASID:
            if mine and not w.due and t.first is not None and not t.upper:
                w.misses.append(MISS_ASID)
        elif why is not None:
            w.misses.append(why)
        elif not (w.held | w.walkers) & reached:
            w.misses.append(MISS_LOCAL)
        elif not w.ordered & {(cpu, "nsh" if t.local else "ish"), (w.cpu, "ish")}:
            w.misses.append(MISS_ORDER)
            forgets = t.local and t.first is None and me.context is not w.context
            if w.held and mine and w.cpu == cpu and not forgets:
                self.find_pending("order", "no-dsb", w)
        else:
            w.misses.append(MISS_LOCAL if w.held - reached else MISS_DSB)
            w.issued |= w.held & reached
            miss = len(w.misses) - 1
            me.incomplete.append(
                Incomplete(t, w, (w.held | w.walkers) & reached, line=self.line, miss=miss, task=me.task)
            )

    def do_dsb(self, cpu: int, form: str) -> None:
        """Domain, and what it orders: "ish", "ishst", "ishld", "ishnxs"."""
        nxs, loads, stores = form.endswith("nxs"), form.endswith("ld"), form.endswith("st")
        domain = "sy" if form in ("st", "ld") else form[:2] if form.startswith("sy") else form[:3]
        if not loads:
            for w in self.pending:
                w.ordered |= {(cpu, "nsh")} if domain == "nsh" else {(cpu, "nsh"), (cpu, "ish")}
        if loads or stores:
            return
        away = self.cpu[cpu].away
        away.update({c: "over" for c, state in away.items() if state == "isb"})
        wide = ["nsh", "ish", "osh", "sy"].index(domain)
        kept = []
        for p in self.cpu[cpu].incomplete:
            needs = 0 if p.tlbi.local else ["nsh", "ish", "osh"].index(p.tlbi.domain)
            if wide < needs or (nxs and not p.tlbi.nxs):
                kept.append(p)
            elif self.repeats and not p.tlbi.local and not 0 < p.again < self.cpu[cpu].broadcast:
                p.again = p.again or self.time
                kept.append(p)
                if p.pending and not p.walkers and p.pending.misses[p.miss] == MISS_DSB:
                    p.pending.misses[p.miss] = MISS_REPEAT
            elif p.pending:
                if p.pending in self.pending and p.pending.twin and self.parted(p.pending, p.cpus):
                    self.find_pending("bbm", "contents", p.pending, "contents", p.line)
                if not p.walkers:
                    p.pending.held -= p.cpus
                p.pending.walkers = p.pending.walkers - p.cpus
                if not p.pending.held and not p.pending.walkers and p.pending in self.pending:
                    self.pending.remove(p.pending)
            else:
                for n, e in p.removes:
                    self.cpu[n].cache.discard(e)
                self.complete(p)
                for me in self.cpu:
                    me.copies = {e: when for e, when in me.copies.items() if e in me.cache}
        self.cpu[cpu].incomplete = kept

    def parted(self, w: Pending, cpus: set[int]) -> bool:
        """Could one of these CPUs read two pages that differ by now?"""
        return bool(w.held & cpus) and self.differ(w.page, w.twin, w.size)

    def do_poke(self, pa: int, value: int) -> None:
        self.words[pa & ~0xFFF][pa % 4096 // 8] = value

    def do_access(self, cpu: int, va: int, pa: int | None, fetch: bool) -> None:
        c = self.cpu[cpu].context
        if not c or not c.root:
            return
        steps: list[tuple[int, int, int]] = []
        page, end = c.root.pa, None
        under_way = any(
            (w.context, w.va) == (c, va >> SHIFT[w.level] << SHIFT[w.level])
            for w in self.pending
            if w.held and "pending" not in w.said
        )
        for level in (1, 2, 3):
            under_way |= page not in self.tables  # given back under the descriptor that leads there
            desc = self.words[page].get(va >> SHIFT[level] & 511, 0)
            steps.append((level, va >> SHIFT[level] << SHIFT[level], desc))
            page = output_of(level, desc)
            if kind_of(level, desc) != "table":
                end = page | va & ((1 << SHIFT[level]) - 1) if desc & VALID else None
                break
        kind = "fetch" if fetch else "data"
        if end is None or (pa is not None and pa != end):
            if not under_way:
                self.find("remap", kind, va=va, asid=c.asid, level=steps[-1][0])
            return
        who = {cpu} | (self.loaded(c) if self.speculation else set())
        for level, at, desc in steps:
            table = kind_of(level, desc) == "table"
            used = self.used.setdefault((c, at, level, table), Used(output_of(level, desc), set()))
            if used.output != output_of(level, desc):
                if not table and cpu in used.cpus and not under_way:
                    self.find("remap", kind, va=va, asid=c.asid, level=level)
                for n in used.own - {cpu} if not table else set():
                    self.missing[n].add((c, at, level))
                used.output, used.cpus, used.own = output_of(level, desc), set(), set()
            used.cpus |= who
            used.own.add(cpu)
            used.desc = desc
            if not table:
                self.uses(cpu, (c, at, level), desc)

    def uses(self, cpu: int, leaf: tuple[Context, int, int], desc: int) -> None:
        """Has the CPU lost it before, and for nothing?"""
        for seen in self.seen_as:
            old = seen.get(leaf)
            seen[leaf] = desc if old is not None and (old == desc or same(leaf[2], old, desc)) else None
        if leaf in self.missing[cpu]:
            self.missing[cpu].remove(leaf)
            self.refills += 1
            self.unchanged += self.seen_as[cpu][leaf] is not None
        self.seen_as[cpu][leaf] = desc

    def do_free(self, cpu: int, page: int) -> None:
        table = self.tables.get(page)
        if table:
            roots = [c for c in self.contexts if c.root is table]
            users = [c for c in self.contexts if any(at == page for at, _, _ in self.tables_of(c))]
            if any(self.loaded(c) for c in users):
                self.find("free", "root" if roots else "table", level=table.level, table=1)
            self.gone(page)
            self.dead |= {
                p + 8 * index
                for p, t in self.tables.items()
                for index, desc in self.words[p].items()
                if kind_of(t.level, desc) == "table" and output_of(t.level, desc) == page
            }
            for c in roots:
                for w in self.pending:
                    if w.context is c:
                        self.note(w)
                self.pending = [w for w in self.pending if w.context is not c]
                self.used = {key: used for key, used in self.used.items() if key[0] is not c}
                c.root = None
            del self.tables[page]
        for w in list(self.pending):
            if w.walkers and w.slot & ~0xFFF == page:
                self.note(w)
                self.forget(w, w.walkers)
        for w in list(self.pending):
            if w.page <= page < w.page + (4096 if w.table else w.size):
                self.freed(w)

    def gone(self, page: int) -> None:
        """Given back with what is in it, and below."""
        for c in self.contexts:
            for at, first, top in list(self.tables_of(c)):
                for slot, va, level, desc in list(self.valid(page, first, top)) if at == page else []:
                    table = kind_of(level, desc) == "table"
                    w = Pending(c, va, level, table, desc, 0, 0, GONE, 0, 0, self.line, set(), True)
                    w.slot, w.when, w.walkers = slot, self.time, self.walkers(c, va, level, self.life[slot])
                    self.note(w)

    def freed(self, w: Pending) -> None:
        """What an old entry leads to is given back."""
        if not w.held or "free" in w.said:
            return
        running = w.held & self.current(w.context)
        if w.lazy and not w.table and w.old & PXN:
            return
        if w.context.kernel or (running if w.table else any(self.cpu[n].user for n in running)):
            self.find_pending("free", "table" if w.table else "page", w, "free")
        else:
            w.freed = w.due = True
