# SPDX-License-Identifier: GPL-2.0-only
"""The checker broken on purpose, in a copy: each time a trace must be judged wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from plugin_tools import CHECKER, HERE, run
from test_trace import OPEN, TRACES, expected, totals, windows


@dataclass(frozen=True)
class Mutation:
    """One change of one place."""

    name: str
    file: str
    old: str
    new: str


MUTATIONS = [
    # Virtual machines
    Mutation("stage1-always-counts", "shadow_tlbi.c", "return bits & ~inv->alone;", "return bits;"),
    Mutation("stage2-is-all", "shadow_tlbi.c", "if (p->stage == SCOPE_STAGE2)", "if (false)"),
    Mutation("stage2-not-named", "shadow_tlbi.c", "pending_completed(inv, by, MISS_STAGE);", ";"),
    Mutation("stage1-is-a-whole-flush", "scope.c", "t->stage2 ? SCOPE_BOTH : SCOPE_STAGE1", "SCOPE_BOTH"),
    Mutation("alle1-of-one-vmid", "scope.c", '!strncmp(t->name, "alle1", 5)', "false"),
    Mutation("stage2-never-writable", "walk.c", "desc & (r->stage2 ? S2_WRITE : LEAF_AP2)",
             "desc & LEAF_AP2 && !r->stage2"),
    Mutation("stage2-executes-always", "walk.c", "had & ~has ||", "false ||"),
    Mutation("stage2-is-global", "walk.c", "return !r->stage2 && !(desc & LEAF_NG);", "return !(desc & LEAF_NG);"),
    Mutation("stage2-one-type", "walk.c", "S2_ATTR(old) != S2_ATTR(new)", "false"),
    Mutation("stage2-written-by-readers", "written.c", "s->stage2 ? set", "s->stage2 ? !set"),
    Mutation("guest-settles-nothing", "shadow_context.c", "if (c->mmu)\n\t\t\tshadow_settles(s, cpu, pc);", ""),
    Mutation("notifiers-settle-nothing", "linux.c", "if (l->stage2)\n\t\t\tshadow_settles(l->stage2, cpu, pc);", ""),
    Mutation("machines-free-nothing", "shadow_tlbi.c", "if (s->stage2 && !p->by_va)", "if (false)"),
    Mutation("copies-of-what-guests-read", "shadow_free.c", "at->written && ", "false && "),
    Mutation("guests-write-what-is-cleaned", "written.c", "how == SYNC_COPY && ", ""),
    Mutation("guests-may-write-copies", "written.c", "shadow_mapped(s, cpu, page, RULE_WRITTEN_MAPPED, pc);", ";"),
    Mutation("machines-that-ended", "shadow_free.c", "if (c->loaded)\n\t\t\tshadow_entered", "shadow_entered"),
    Mutation("guests-enter-untold", "stage2.c", "shadow_entered(&v->s, v->s.cpus[cpu].context->root);", ";"),
    Mutation("maps-nothing", "space.c", "s->mapped[(pa - s->ram.base) >> 12] += n;", ";"),
    Mutation("all-vcpus-are-one", "stage2.c", "m->on[cpu].who != v->vmpidr[cpu]", "false"),
    Mutation("any-vmid-flushes", "stage2.c", "if (!any && m->vmid != vmid)", "if (false)"),
    Mutation("fb-is-not-looked-at", "stage2.c", " || v->hcr[cpu] & HCR_FB", ""),
    Mutation("nobody-moves", "stage2.c", "m->on[other].stale = true;", ";"),
    # DSBs and TLBIs
    Mutation("ishst-completes", "shadow_tlbi.c", "case DSB_ISH: case DSB_ISHNXS:", "case DSB_ISH: case DSB_ISHST:"),
    Mutation("nsh-completes-all", "shadow_tlbi.c", "return COMPLETES_LOCAL;", "return COMPLETES_ALL;"),
    Mutation("nxs-dsb-completes-all", "shadow_tlbi.c", "(p.nxs || !dsb_is_nxs(form))", "true"),
    Mutation("ld-orders-stores", "shadow_tlbi.c", "return true;\t\t\t/* order no stores */",
             "c->dsb_nsh = c->dsb_is = now; return true;"),
    Mutation("order-unchecked", "shadow_tlbi.c", "if (!published(s, i, inv)) {", "if (false) {"),
    Mutation("order-of-storer-ignored", "shadow_tlbi.c", "read_once(&s->cpus[inv->cpu].dsb_is) >= inv->when", "false"),
    Mutation("order-of-storer-local", "shadow_tlbi.c", "read_once(&s->cpus[inv->cpu].dsb_is) >= inv->when",
             "s->cpus[inv->cpu].dsb_nsh >= inv->when"),
    Mutation("order-own-cpu", "shadow_tlbi.c", "(i->r->local ? c->dsb_nsh : c->dsb_is)", "c->dsb_nsh"),
    Mutation("order-anybody", "shadow_tlbi.c", "inv->task == c->task && inv->cpu == i->cpu && !forgets", "!forgets"),
    Mutation("local-reaches-all", "shadow_tlbi.c", "i.cpus = r.local ? CPU(cpu) : all_cpus(s);",
             "i.cpus = all_cpus(s);"),
    Mutation("all-is-local", "shadow_tlbi.c", "i.cpus = r.local ? CPU(cpu) : all_cpus(s);", "i.cpus = CPU(cpu);"),
    Mutation("one-cpu-is-enough", "shadow_tlbi.c", "inv->held &= ~p->cpus;", "inv->held = 0;"),
    Mutation("issued-is-completed", "shadow_tlbi.c", "p.nxs || !dsb_is_nxs(form)", "false"),
    Mutation("repeat-unknown", "shadow_tlbi.c", "s->seen.repeats++;", ""),
    Mutation("repeat-any", "shadow_tlbi.c", "if (t->what != TLBI_VA || !t->last || t->range || operand)", "if (false)"),
    Mutation("repeat-local", "shadow_tlbi.c", "p.domain == DOMAIN_LOCAL || (p.again", "(p.again"),
    Mutation("repeat-dsb", "shadow_tlbi.c", "p.again && c->broadcast > p.again", "p.again"),
    Mutation("repeat-here", "shadow_tlbi.c", "c->incomplete[i].again && c->incomplete[i].task == here->task", "false"),
    Mutation("repeat-others", "shadow_tlbi.c", "c->incomplete[i].again && c->incomplete[i].task",
             "c->incomplete[i].task"),
    Mutation("repeat-anybody", "shadow_tlbi.c", "c->incomplete[i].task == here->task", "true"),
    Mutation("repeat-is-no-dsb", "shadow_tlbi.c", "pending_completed(p.pending, cpu, MISS_REPEAT);", ";"),
    Mutation("asid-flush-forgets-nothing", "shadow_tlbi.c", "if (o->flushed[cpu] < p->when)", "if (false)"),
    Mutation("flush-of-all-forgets-nothing", "shadow_tlbi.c", "if (s->spaces.flushed_all[cpu] < p->when)",
             "if (false)"),
    Mutation("aged-is-touched", "shadow_store.c", "!desc_aged(ch.old, ch.new) && ", ""),
    Mutation("gone-copies-stay", "walks.c", "inv->walkers & context_walkers(", "inv->walkers | 0 * context_walkers("),
    Mutation("newer-copies-go", "walks.c", "inv->walkers & context_walkers(", "0 & context_walkers("),
    Mutation("second-link-unseen", "space.c", "\t\ttable_announce(s, child);\n\t\treturn;", "\t\treturn;"),
    Mutation("last-takes-tables", "scope.c", "if (r->last && c->table)", "if (false)"),
    Mutation("ttl-ignored", "scope.c", "if (!same_level(r, c))", "if (false)"),
    Mutation("asid-ignored", "scope.c", "return c->asid == r->asid;", "return true;"),
    Mutation("global-by-asid", "scope.c", "return !r->every_va && !c->table;", "return false;"),
    Mutation("range-too-long", "scope.c", "(field(operand, 39, 5) + 1) << shift",
             "(field(operand, 39, 5) + 2) << shift"),
    Mutation("kernel-not-flushed", "shadow_tlbi.c", "if (r.every_va ? r.any_asid : r.upper)\n\t\tlist_for",
             "if (0)\n\t\tlist_for"),
    Mutation("kind-unknown", "shadow.c", "switch (pending_nearest(inv)) {", "switch (MISS_NONE) {"),
    # What is pending
    Mutation("less-is-nothing", "shadow_store.c", "if (ch.kind >= CHANGE_LESS) {", "if (ch.kind > CHANGE_LESS) {"),
    Mutation("withdrawn-by-less", "shadow_store.c", "if (kind <= CHANGE_MORE) {", "if (kind <= CHANGE_LESS) {"),
    Mutation("never-withdrawn", "shadow_store.c", "if (kind <= CHANGE_MORE) {", "if (false) {"),
    Mutation("leaves-below-forgotten", "shadow_store.c", "table_below(&s->spaces, t, index, lost_below, &ch);", ""),
    Mutation("one-context-is-enough", "space.c",
             "fn(arg, container_of(node, struct context, in_root), extend(&t->r, va));",
             "{ fn(arg, container_of(node, struct context, in_root), extend(&t->r, va)); break; }"),
    Mutation("tables-below-forgotten", "space.c", "child = child_of(s, t, i);", "child = NULL;"),
    Mutation("below-never-withdrawn", "shadow_store.c", "table_below(&s->spaces, t, index, found_below, &ch);", ";"),
    Mutation("parked-walks-nothing", "shadow_context.c",
             "if (context_holders(&s->spaces, o, 0) & CPU(cpu))\n\t\t\t\t\to->left",
             "if (false)\n\t\t\t\t\to->left"),
    Mutation("kernel-of-one-asid", "shadow_tlbi.c", "if (inv->context->kernel && !inv->what.global && !i->r->any_asid)",
             "if (false)"),
    Mutation("due-once", "shadow_store.c", "inv->what.table == table && !(model.held & ~inv->held) &&",
             "inv->what.table == table &&"),
    Mutation("due-unchecked", "shadow_context.c", "if (!c->n_due)", "if (true)"),
    Mutation("never-due", "shadow_context.c", "if (!used)", "if (true)"),
    Mutation("own-cpu-only", "shadow_context.c", "bool used = usable(inv);",
             "bool used = inv->held & CPU(cpu);"),
    # What was reported before
    Mutation("reported-ends-it", "pending.c", "if (++o->n_reported > MOST_REPORTED)", "if (true)"),
    Mutation("reported-forbids-more", "shadow_store.c", "!(inv->said & SAID_PENDING) && ", ""),
    Mutation("reported-again", "pending.c", "inv->said |= what;", ";"),
    Mutation("reported-is-a-race", "shadow_access.c", " && !(inv->said & SAID_PENDING)", ""),
    Mutation("freed-ends-it", "shadow_free.c", "pending_say(inv, SAID_FREE);\n\t\treturn;",
             "pending_drop(&s->pendings, inv);\n\t\treturn;"),
    Mutation("unsettled-ends-it", "sync_point.c", "RULE_PENDING_UNSETTLED, inv);\n\t\talso_free(&s->pendings, a);",
             "RULE_PENDING_UNSETTLED, inv), pending_drop(&s->pendings, inv);\n\t\telse\n"
             "\t\t\talso_free(&s->pendings, a);"),
    Mutation("unlocked-ends-it", "sync_point.c", "RULE_PENDING_UNLOCKED, inv);",
             "RULE_PENDING_UNLOCKED, inv), pending_due(&s->pendings, inv);"),
    # Returns to user space
    Mutation("returns-open-unseen", "shadow_context.c", "return !read_once(&s->pendings.open) && ", "return "),
    Mutation("returns-also-unseen", "shadow_context.c", " && !read_once(&s->pendings.n_also) &&", " &&"),
    Mutation("returns-sets-unseen", "shadow_context.c", "!read_once(&s->contigs.n) &&", ""),
    Mutation("returns-freed-unseen", "shadow_context.c", "read_once(&c->context->n_freed) || ", ""),
    Mutation("returns-sync-unseen", "shadow_context.c", " || read_once(&c->context->n_sync_points))", ")"),
    Mutation("returns-in-its-range", "shadow_context.c", "if (c->task != value)", "if (false)"),
    Mutation("unlocks-idle", "linux.c", "return !s->cpus[cpu].section;", "return true;"),
    Mutation("less-is-nothing", "walk.c", "if (type == CHANGE_LESS || set & (LEAF_LIMITS | LEAF_NG) ||",
             "if (type == CHANGE_LESS ||"),
    Mutation("keys-ignored", "walk.c", "(set | cleared) & LEAF_KEY", "false"),
    Mutation("dbm-ignored", "walk.c", "return desc & LEAF_DBM ? 1 : 0;", "return 0;"),
    # Who holds what
    Mutation("flushed-ignored", "space.c", "c->unloaded[cpu] > c->flushed[cpu] && ", ""),
    Mutation("flushed-all-ignored", "space.c", " && c->unloaded[cpu] > s->flushed_all[cpu]", ""),
    Mutation("since-ignored", "space.c", "(c->left[cpu] > since || c->current & CPU(cpu))", "true"),
    Mutation("since-never-set", "shadow_store.c", "t->since[index] = ch.when;", ";"),
    Mutation("unloaded-is-left", "shadow_context.c", "o->left[cpu] = now;", "o->unloaded[cpu] = o->left[cpu] = now;"),
    Mutation("nothing-stays", "space.c", "c->unloaded[cpu] = c->left[cpu] = now;", "(void)now;"),
    Mutation("always-current", "shadow_context.c", "o->current &= ~CPU(cpu);", ";"),
    Mutation("speculation-always", "shadow_store.c", "if (s->speculation || c->kernel)", "if (true)"),
    Mutation("speculation-never", "shadow_store.c", "if (s->speculation || c->kernel)", "if (c->kernel)"),
    Mutation("reuse-unchecked", "shadow_context.c", "check_reuse(s, cpu, next, pc);", ""),
    Mutation("kept-unseen", "shadow_context.c", "c->flushed < c->off", "false"),
    Mutation("kept-always", "shadow_context.c", "c->flushed < c->off", "c->off"),
    Mutation("kept-flushed-by-any", "shadow_context.c", "c->flushed < c->off", "s->spaces.flushed_all[cpu] < c->off"),
    Mutation("cnp-ignored", "shadow_context.c", "if (s->cpus[cpu].ttbr0 & TTBR_CNP)", "if (true)"),
    Mutation("cnp-lends-nothing", "shadow_context.c", "(inv->held & c->shared ? c->shared : 0)", "0"),
    Mutation("cnp-always", "shadow_context.c", "if (c->ttbr0 & TTBR_CNP && !s->stage2)", "if (!s->stage2)"),
    Mutation("asid-16-bits", "shadow_context.c", "? 0xffff : 0xff;", "? 0xffff : 0xffff;"),
    # Sync points
    Mutation("range-unseen", "sync_point.c",
             "if (inv->change != CHANGE_LESS)\n\t\ttake_over", "if (false)\n\t\ttake_over"),
    Mutation("range-of-permissions", "sync_point.c", "if (inv->change != CHANGE_LESS)\n\t\ttake_over",
             "if (true)\n\t\ttake_over"),
    Mutation("range-too-long", "sync_point.c", "inv->what.va < end && ", "inv->what.va <= end && "),
    Mutation("range-of-one-asid", "sync_point.c",
             "container_of(node, struct context, in_root), start, end, pc, &stack);",
             "container_of(t->contexts.next, struct context, in_root), start, end, pc, &stack);"),
    Mutation("range-looked-up-late", "sync_point.c",
             "va = start & ~0ull << r->granule; va < end", "va = start; va < end"),
    Mutation("sync-where-it-was", "sync_point.c",
             "if (inv->held & inv->context->current && pending_say(inv, SAID_UNSETTLED))\n\t\t\tshadow",
             "if (inv->held && pending_say(inv, SAID_UNSETTLED))\n\t\t\tshadow"),
    Mutation("sync-unchecked", "sync_point.c",
             "if (inv->held & inv->context->current && pending_say(inv, SAID_UNSETTLED))\n\t\t\tshadow",
             "if (false)\n\t\t\tshadow"),
    Mutation("issued-is-enough", "sync_point.c",
             "if (inv->held & inv->context->current && pending_say(inv, SAID_UNSETTLED))\n\t\t\tshadow",
             "if (inv->held & inv->context->current & ~inv->issued && pending_say(inv, SAID_UNSETTLED))\n\t\t\tshadow"),
    Mutation("touched-unseen", "shadow_store.c", "!ch.was_valid && is == DESC_INVALID &&", "false &&"),
    Mutation("touched-of-discarded", "sync_point.c", "if (inv->new || inv->collected)", "if (true)"),
    Mutation("touched-own-unseen", "sync_point.c", "inv->new = desc;", ";"),
    Mutation("collected-unseen", "sync_point.c", "return inv->collected ? ", "return false ? "),
    Mutation("collected-all", "sync_point.c", "return inv->collected ? ", "return true ? "),
    Mutation("collected-never-issued", "sync_point.c", "loaded & ~inv->issued", "loaded"),
    Mutation("collected-issued-for-all", "shadow_tlbi.c", "inv->issued |= bits;", "inv->issued = ~0ull;"),
    Mutation("collected-where-it-was", "sync_point.c", "inv->held & inv->context->loaded & ~inv->issued",
             "inv->held & ~inv->issued"),
    Mutation("collected-of-blocks", "shadow_store.c",
             "contradicts(ch, c, t, index, inv);\n\t\tcollected_anew(ch, c, t, index, inv);\n\t}\n}",
             "contradicts(ch, c, t, index, inv);\n\t}\n}"),
    Mutation("moved-unseen", "sync_point.c", "inv->moved = me->moving = true;", ";"),
    Mutation("moved-under-other-locks", "sync_point.c", " && inv->when >= since", ""),
    Mutation("moved-is-forked", "sync_point.c", "inv->context != c || ", ""),
    Mutation("moved-tables-unseen", "sync_point.c", "if (!me->section || c->kernel)",
             "if (!me->section || c->kernel || table)"),
    Mutation("unlock-anywhere", "sync_point.c", "inv->held & inv->context->current && pending_say(inv, SAID_UNLOCKED)",
             "inv->held & inv->context->current & ~inv->issued && pending_say(inv, SAID_UNLOCKED)"),
    Mutation("rmaps-unseen", "sync_point.c", "used_by_others(s, inv) &&", "false &&"),
    Mutation("rmaps-of-nobody", "sync_point.c", "used_by_others(s, inv) &&", "inv->held &&"),
    # What is said to be not loaded
    Mutation("unload-loaded-unchecked", "unload.c", "if (may_use(s, cpu, c)) {", "if (false) {"),
    Mutation("unload-asid-is-nothing", "unload.c",
             "\n\t       (c->current & CPU(cpu) && context_holders(&s->spaces, c, 0) & CPU(cpu))", "false"),
    Mutation("unload-asid-is-all", "unload.c", " && context_holders(&s->spaces, c, 0) & CPU(cpu))", ")"),
    Mutation("unload-isb-unchecked", "unload.c", "if (me->synced < last->left[cpu])", "if (false)"),
    Mutation("unload-dsb-unchecked", "unload.c", "else if (me->walks_over < last->left[cpu])", "else if (false)"),
    Mutation("unload-any-dsb", "shadow_tlbi.c", "c->walks_over = c->synced;", "c->walks_over = now;"),
    Mutation("unload-dsb-of-stores", "shadow_tlbi.c", "if (dsb_completes(form) != COMPLETES_NOTHING)\n", ""),
    Mutation("unload-dsb-is", "shadow_tlbi.c", "if (dsb_completes(form) != COMPLETES_NOTHING)\n",
             "if (dsb_completes(form) > COMPLETES_LOCAL)\n"),
    Mutation("unload-isb-anywhere", "shadow_tlbi.c", "s->cpus[cpu].synced = __atomic",
             "for (cpu = 0; cpu < s->ncpus; cpu++) s->cpus[cpu].synced = __atomic"),
    Mutation("unload-forgotten", "unload.c", "t->unloaded |= CPU(cpu);", ";"),
    Mutation("unload-for-all", "unload.c", "t->unloaded |= CPU(cpu);", "t->unloaded = ~0ull;"),
    Mutation("unload-loaded-by-any", "unload.c", "t->unloaded &= ~CPU(cpu);\n\t\treturn;",
             "t->unloaded = 0;\n\t\treturn;"),
    Mutation("unload-never-loaded", "unload.c", "t->unloaded &= ~CPU(cpu);\n\t\treturn;", "return;"),
    Mutation("unload-root-unchecked", "shadow_context.c", "unload_check(s, cpu, next, pc);", ""),
    Mutation("unload-asid-unchecked", "shadow_context.c", "unload_check(s, cpu, o, pc);", ""),
    # Permissions in the kernel's half
    Mutation("less-waits-for-ever", "pending.c", "if (inv->lazy)", "if (inv->context->kernel)"),
    Mutation("vfree-is-pending", "pending.c", "if (inv->lazy)", "if (false)"),
    Mutation("kernel-by-asid", "shadow_context.c", "return c->kernel ? c->loaded : c->current;", "return c->current;"),
    Mutation("sleep-unseen", "shadow_context.c",
             "for (struct pending *inv = pending_of_kernel(&s->pendings, task); inv;",
             "for (struct pending *inv = NULL; inv;"),
    Mutation("sleep-of-all", "pending.c", "o->open_kernel ? pendings_of_task(o, task) : NULL",
             "o->open_kernel ? (pendings_of_task(o, task) ?: pendings_of_task(o, 1ull << 63 | 0xf)) : NULL"),
    Mutation("kernel-due-unseen", "shadow_context.c", "if (kernel && kernel->n_urgent)", "if (false)"),
    Mutation("kernel-vfree-due", "shadow_context.c", " || inv->lazy ||", " ||"),
    Mutation("returned-unseen", "shadow_free.c", "if (!inv->held || inv->said & SAID_PENDING ||",
             "if (true || !inv->held || inv->said & SAID_PENDING ||"),
    Mutation("returned-around", "shadow_free.c", " || inv->what.va >= end ||", " ||"),
    Mutation("returned-below", "shadow_free.c", "inv->what.va + (inv->what.size - 1) < start", "false"),
    Mutation("lazy-everywhere", "shadow_store.c", " && va >= s->lazy_start && va < s->lazy_end", ""),
    Mutation("lazy-nowhere", "shadow_store.c", "va < s->lazy_end", "false"),
    Mutation("gone-due-asleep", "pending.c", "inv->context->kernel && inv->change != CHANGE_GONE",
             "inv->context->kernel"),
    Mutation("code-is-lazy", "shadow_free.c", " && !desc_executable(inv->old)", ""),
    Mutation("purge-of-one", "linux.c", "linux_read(l, cpu, at, &at) && at != head; n++)\n\t\tif (linux",
             "linux_read(l, cpu, at, &at) && at != head && n < 1; n++)\n\t\tif (linux"),
    Mutation("less-anew-unseen", "shadow_store.c", "else if (c->kernel && inv->change == CHANGE_GONE)\n\t\t\t/*",
             "else if (false)\n\t\t\t/*"),
    Mutation("hugetlb-private", "linux.c", "VM_HUGETLB && flags & VM_MAYSHARE,", "VM_HUGETLB,"),
    Mutation("hugetlb-like-others", "linux.c", "if (by && by->moves_hugetlb)", "if (false)"),
    Mutation("any-lock", "linux.c", "       page_is_followed(&l->shadow->spaces, pa);", "       true;"),
    Mutation("no-lock-in-mm", "linux.c", "if (by && lock >= by->mm && ", "if (false && "),
    Mutation("range-moved-short", "linux.c", "x[1] + x[4], true, pc);", "x[1], true, pc);"),
    Mutation("moved-like-before", "linux.c", "if (!(vma >> 63))", "if (true)"),
    Mutation("list-of-one", "linux.c", "n < LIST && linux_read", "n < 1 && linux_read"),
    Mutation("folio-of-one", "linux.c", "*order = value >> ", "*order = 0 * value >> "),
    Mutation("boot-page-unseen", "linux.c", "learn(l, cpu, l->pending_pfn, x[0]);", ""),
    Mutation("moved-by-hints", "shadow_tlbi.c", "if (s->moved) {", "if (s->moved && !r.nothing) {"),
    Mutation("moved-on-one-cpu", "shadow_tlbi.c", "s->moved(s->arg, i.cpus,", "s->moved(s->arg, CPU(cpu),"),
    Mutation("moved-by-loads-unseen", "shadow_context.c", "if (s->moved)\n", "if (false)\n"),
    # What is known already
    Mutation("filter-of-all-pages", "filter.c", "return (va & ~GENERATIONS) | ", "return 0 * va | "),
    Mutation("filter-of-all-times", "filter.c", "| read_once(generation);", "| 1;"),
    Mutation("filter-of-all-uses", "filter.c", "&f->user[use][slot_of(va)]) ==", "&f->user[0][slot_of(va)]) =="),
    Mutation("filter-wraps", "filter.c", "if (!next) {", "if (false) {"),
    Mutation("filter-wraps-half", "filter.c", "write_once(&slots[i], 0);", "write_once(&slots[i / 2], 0);"),
    Mutation("filter-forgets-nothing", "filter.c", "write_once(generation, next);", ";"),
    Mutation("filter-forgets-half", "filter.c", "USES * FILTER_SLOTS);", "FILTER_SLOTS);"),
    Mutation("filter-forgets-one-use", "filter.c", "use < USES; use++)\n", "use < 1; use++)\n"),
    Mutation("filter-forgets-one-page", "filter.c", "va != r->end; va += PAGE)", "va == r->start; va += PAGE)"),
    Mutation("filter-of-other-asids", "filter.c", "asid >= 0 && asid != r->asid", "asid == r->asid"),
    Mutation("filter-asids-kept", "filter.c", "if (r->every_va || r->end", "if (r->end"),
    Mutation("filter-kernel-kept", "filter.c", "if (r->every_va ? r->any_asid : r->upper)", "if (false)"),
    Mutation("filter-kernel-kept-by-all", "filter.c", "r->every_va ? r->any_asid : r->upper)", "r->upper)"),
    Mutation("filter-kernel-kept-by-va", "filter.c", "r->every_va ? r->any_asid : r->upper)",
             "r->every_va && r->any_asid)"),
    Mutation("filter-kernel-late", "filter.c", "write_once(&f->kernel[slot_of(tag)], tag);",
             "write_once(&f->kernel[slot_of(tag)], tag_of(tag, &f->kernel_gen));"),
    Mutation("types-unknown", "shadow_context.c", "s->mair = value;", ""),
    Mutation("pgd-by-the-first-pointer", "linux.c", "shadow_is_root(l->shadow, *root);", "*root;"),
    # Frees
    Mutation("freed-unchecked", "shadow_free.c", "if (!c->n_freed)", "if (true)"),
    Mutation("freed-on-load-unchecked", "shadow_context.c", "if (c->user)\n\t\tcheck_freed(s, cpu, next, pc);", ""),
    Mutation("kernel-is-user", "shadow_free.c", "if (read_once(&s->cpus[*who].user))", "if (true)"),
    Mutation("user-is-kernel", "shadow_free.c", "if (read_once(&s->cpus[*who].user))", "if (false)"),
    Mutation("parked-asid-is-safe", "shadow_free.c", "(inv->what.table ? inv->held & inv->context->current :",
             "(inv->what.table ? inv->held & inv->context->loaded :"),
    Mutation("kernel-tables-later", "shadow_free.c", "if (inv->context->kernel || (inv->what", "if ((inv->what"),
    Mutation("blocks-whole", "shadow_free.c", "b < BLOCKS; b++", "b < 0; b++"),
    Mutation("root-freed-unseen", "shadow_free.c", "*(cpumask *)arg |= c->loaded;", "(void)arg; (void)c;"),
    # Break before make, and accesses
    Mutation("bbm-unchecked", "shadow_store.c", "if (ch->bbm) {", "if (false) {"),
    Mutation("anew-unchecked", "shadow_store.c", "ch.judge_older = !ch.was_valid ||", "ch.judge_older ="),
    Mutation("moved-though-there", "sync_point.c", "desc_output(&t->r, t->level, inv->new) == page)", "false)"),
    Mutation("anew-larger-exempt", "shadow_store.c", "(!c->kernel && !larger &&", "(!c->kernel &&"),
    Mutation("anew-of-replaced", "shadow_store.c", "if (!ch->judge_older || ", "if ("),
    Mutation("anew-whoever-holds-it", "shadow_store.c", "inv->held & may_hit(ch, c);", "inv->held;"),
    Mutation("kpti-hits-nothing", "shadow_store.c", "c->kernel || ch->s->stage2 ?", "ch->s->stage2 ?"),
    Mutation("host-knows-who-comes-back", "shadow_store.c", "c->kernel || ch->s->stage2 ?", "c->kernel ?"),
    Mutation("smaller-is-no-contradiction", "shadow_store.c", "if (inv->what.level <= t->level || inv->what.va < va ||",
             "if (true ||"),
    Mutation("smaller-anywhere", "shadow_store.c", "inv->what.va < va || inv->what.va >= end)", "inv->what.va < va)"),
    Mutation("smaller-in-a-table", "shadow_store.c",
             "if (t->level == 3 || desc_kind(&t->r, t->level, desc) != DESC_LEAF)",
             "if (t->level == 3)"),
    Mutation("anew-by-anybody", "shadow_store.c", "(inv->task != ch->s->cpus[ch->cpu].task || inv->due)", "false"),
    Mutation("anew-kernel-like-user", "shadow_store.c", "(!c->kernel && !larger &&", "(!larger &&"),
    Mutation("read-only-is-no-exception", "shadow_store.c", "desc_writable(r, old) || desc_writable(r, new)", "true"),
    Mutation("read-only-old-ignored", "shadow_store.c", "desc_writable(r, old) || ", ""),
    Mutation("read-only-new-ignored", "shadow_store.c", " || desc_writable(r, new)", ""),
    Mutation("read-only-dbm-ignored", "walk.c", "return writable(r, desc);", "return writable(r, desc) == 2;"),
    Mutation("read-only-of-any-type", "shadow_store.c", "if (!desc_clash(r, old, new))", "if (true)"),
    Mutation("contents-unread", "shadow_store.c", "if (ch->differs)\n", "if (false)\n"),
    Mutation("contents-of-4k", "shadow_store.c", "from, to, 1ull << level_shift(r, level))", "from, to, 4096)"),
    Mutation("contents-later-unread", "shadow_tlbi.c", "if (inv->twin && inv->held & p->cpus &&", "if (false &&"),
    Mutation("older-of-repointed-unseen", "shadow_store.c", "|| (ch.kind == CHANGE_BBM && !ch.bbm);", ";"),
    Mutation("older-of-writable-unseen", "shadow_store.c", "|| ch.kind == CHANGE_MORE ||", "||"),
    Mutation("older-always-contradicts", "shadow_store.c",
             "\tif (conflict)\n", "\tif (true)\n"),
    Mutation("twin-is-lazy", "shadow_store.c", "ch->kind == CHANGE_GONE &&", "ch->kind != CHANGE_LESS &&"),
    Mutation("twin-freed-unseen", "shadow_free.c", "(inv->lazy && !inv->what.table &&",
             "(inv->context->kernel && !inv->what.table &&"),
    Mutation("contiguous-is-nothing", "walk.c", "LEAF_NS | LEAF_CONT |", "LEAF_NS |"),
    Mutation("races-unseen", "shadow_access.c",
             "if (in_flight(s, &w) || flush_under_way(s, ctx, va, r))\n\t\t\ts->seen",
             "if (false)\n\t\t\ts->seen"),
    Mutation("races-of-used-unseen", "shadow_access.c",
             "if (in_flight(s, &w) || flush_under_way(s, ctx, va, r))\n\t\t\t\ts->seen",
             "if (false)\n\t\t\t\ts->seen"),
    Mutation("remap-unchecked", "shadow_access.c", "if (!w.valid || (pa != NO_PA && w.pa != pa)) {", "if (!w.valid) {"),
    Mutation("used-unchecked", "shadow_access.c", "if (e && e->output != output && !table && e->cpus & CPU(cpu)) {",
             "if (false) {"),
    Mutation("used-never-flushed", "used.c", "e->cpus &= ~f->cpus;", ";"),
    # What TLBIs take
    Mutation("over-though-changed", "over_invalidated.c", "if (!still_true(s, e)) {", "if (false) {"),
    Mutation("over-by-who-did-not-use-it", "over_invalidated.c", "cpus &= e->own;", ";"),
    Mutation("over-by-one", "over_invalidated.c", "l->all.entries += count_cpus(cpus);", "l->all.entries++;"),
    Mutation("over-by-itself", "over_invalidated.c", "cpus & ~CPU(issuer)", "cpus"),
    Mutation("over-with-more", "walk.c", "desc_change(r, level, old, new) == CHANGE_NOTHING;",
             "desc_change(r, level, old, new) <= CHANGE_MORE;"),
    Mutation("over-but-for-dirty", "walk.c", "old &= ~LEAF_AP2;", ";"),
    Mutation("over-when-aged", "walk.c", "new & LEAF_AF && desc_change", "desc_change"),
    Mutation("over-before-counts", "over_invalidated.c", "l->before = l->all;", ";"),
    Mutation("kept-for-ever", "used.c", "e->kept &= e->cpus;", ";"),
    Mutation("kept-what-changed", "over_invalidated.c", "if (e->kept && still_true(s, e))", "if (e->kept)"),
    Mutation("held-of-all", "over_invalidated.c", "e->kept = o == c && still_true(s, e)", "e->kept = still_true(s, e)"),
    Mutation("own-of-all", "shadow_access.c", "e->own |= CPU(cpu);", "e->own |= who;"),
    Mutation("own-of-another-page", "shadow_access.c", "e->cpus = e->own = e->kept = 0;", "e->cpus = 0;"),
    # What CPUs use again
    Mutation("refill-of-what-was-not-lost", "over_invalidated.c", "if (!(e->lost & CPU(cpu)))", "if (false)"),
    Mutation("refill-each-time", "over_invalidated.c", "e->lost &= ~CPU(cpu);", ";"),
    Mutation("refill-of-all", "over_invalidated.c", "e->lost |= cpus;", "e->lost |= ~0ull;"),
    Mutation("refill-of-another-page", "over_invalidated.c", "e->lost |= e->own & ~CPU(cpu);", ";"),
    Mutation("refill-of-what-had-changed", "over_invalidated.c", "e->same &= ~cpus;", ";"),
    Mutation("refill-of-what-changed-since", "over_invalidated.c", "e->same = 0;", ";"),
    Mutation("refill-of-what-nobody-holds", "used.c", "if (e->lost && e->context->root)", "if (false)"),
    Mutation("refill-of-the-same", "shadow_access.c", "e->same |= CPU(cpu);", ";"),
    # Pages that may no longer be written
    Mutation("written-if-clean", "written.c", "s->stage2 ? set : !set", "s->stage2 ? set : true"),
    Mutation("written-by-nobody", "written.c", "if (!read_once(&s->cpus[cpu].user))", "if (true)"),
    Mutation("written-by-the-kernel", "written.c", "if (!read_once(&s->cpus[cpu].user))", "if (false)"),
    Mutation("written-where-it-was", "written.c", "inv->held & inv->context->loaded", "inv->held"),
    Mutation("written-later-unseen", "shadow_context.c", "\t\twritten_user(s, cpu, c->context);", "\t\t;"),
    Mutation("written-no-matter-when", "written.c",
             "if (!inv->sync_point.is || (inv->sync_point.unlock && !at->unlock))\n\t\tpending_at_sync(inv, at);", ""),
    Mutation("written-blocks-unseen", "written.c", "b < BLOCKS; b++", "b < 0; b++"),
    Mutation("written-first-page-only", "written.c", "page < (pfn + pages) << 12", "page < (pfn + 1) << 12"),
    Mutation("written-own-of-all", "written.c", "(how != SYNC_OWN || inv->task == task)", "true"),
    Mutation("written-by-hardware-unseen", "written.c", "t->desc[index] = step->desc;", ";"),
    Mutation("written-completed-or-not", "written.c",
             "bool issued = pending_nearest(inv) >= MISS_DSB,", "bool issued = false,"),
    Mutation("written-io-is-unlock", "written.c", "unlocked = issued && at->unlock;", "unlocked = issued;"),
    Mutation("written-unlock-is-all", "written.c", " || (inv->sync_point.unlock && !at->unlock))", ")"),
    Mutation("compared-first-unseen", "linux_written.c", "written(l, cpu, x[0], 1, SYNC_OWN, pc);", ";"),
    Mutation("compared-second-unseen", "linux_written.c", "written(l, cpu, x[1], 1, SYNC_OWN, pc);", ";"),
    # Contiguous blocks
    Mutation("set-unchecked", "contig.c", "report(&told->s->reports, &f);", ";"),
    Mutation("set-asleep-idle", "linux.c", " && !read_once(&s->contigs.n)", ""),
    Mutation("set-asleep", "shadow_context.c", "contig_user(s, task);", ""),
    Mutation("set-of-others", "contig.c", "if (set->task == task) {", "if (true) {"),
    Mutation("set-unaligned", "contig.c", "output & (((uint64_t)size", "0 & (((uint64_t)size"),
    Mutation("set-permissions", "contig.c", "| at) == CHANGE_NOTHING;", "| at) != CHANGE_BBM;"),
    Mutation("set-dirty", "contig.c", "\t\tdesc &= ~LEAF_AP2;", "\t\t;"),
    # Copies by physical address
    Mutation("copies-go-with-the-page", "walks.c", "note(s, inv);\n\t\tforget_walkers", "forget_walkers"),
    Mutation("copies-die-with-the-root", "walks.c", "note(s, container_of(node, struct pending, in_context));", ";"),
    Mutation("copies-of-what-is-freed-whole", "walks.c", "if (!s->physical)\n\t\treturn;\n\tl.model",
             "return;\n\tl.model"),
    Mutation("copies-go-by-a-part", "walks.c", "r->end - 1 >= w->va + w->size - 1", "true"),
    Mutation("copies-never-go", "walks.c", "w->cpus &= ~cpus;\n\tif (!w->cpus)\n\t\tdrop(s, w);", ";"),
    Mutation("copies-go-on-all", "walks.c", "w->cpus &= ~cpus;\n\tif", "w->cpus = 0;\n\tif"),
    Mutation("copies-have-an-asid", "shadow_tlbi.c", "if (s->physical && o->root)", "if (false)"),
    Mutation("copies-of-flushed-have-an-asid", "space.c", "if (c->left[cpu] <= o->flushed[cpu])", "if (false)"),
    Mutation("copies-of-the-same-differ", "walks.c", "if (!who || !differs(t, inv))", "if (!who)"),
    Mutation("copies-of-loaded-only", "shadow_context.c", "\twalks_check(s, cpu, pc);\n\tif (s->moved)",
             "\tif (s->moved)"),
    Mutation("copies-linked-again-unseen", "walks.c", "s->walks.fresh = true;\n\t\treturn;\n\t}", "return;\n\t}"),
    Mutation("renamed-unseen", "shadow_context.c", "walks_loaded(s, cpu, next, pc);", ""),
    Mutation("renamed-at-any-time", "walks.c", "if (c->first[n] <= inv->when)", "if (false)"),
    Mutation("renamed-due-unseen", "shadow_context.c", "walks_due(s, cpu, inv, pc);", ""),
    Mutation("withdrawn-everywhere", "walks.c", "if (!inv->walkers || inv->slot == slot) {", "if (true) {"),
    # Global leaves of the lower half
    Mutation("globals-unseen", "shadow_context.c", "globals_check(s, cpu, next, pc);", ""),
    Mutation("globals-taken-away-unseen", "global.c", "if (inv->what.global && inv->held & CPU(cpu))", "if (false)"),
    Mutation("globals-never-go", "global.c", "scope_covers(r, &what) != COVER_YES", "true"),
    Mutation("globals-go-early", "global.c", "leaf[i].when > when || ", ""),
    Mutation("globals-go-by-all-only", "shadow_tlbi.c", " || s->globals.n) {", ") {"),
    Mutation("globals-of-the-same-root", "global.c", "if (leaf[i].root == c->root->pa)", "if (false)"),
]  # fmt: skip


MAINS = ("trace-cli", "unit")
"""The programs that notice a mutation."""


class Copy:
    """The checker, built once without sanitizers; then one file at a time in another way."""

    def __init__(self, out: Path) -> None:
        self.out = out
        run("make", "-C", CHECKER, f"OUT={out}", out / "rules.inc")
        self.sources = sorted(p for p in CHECKER.glob("*.c") if not p.name.startswith("plugin"))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda p: self.compile(p, p.stem), [*self.sources, *(HERE / f"{main}.c" for main in MAINS)]))

    def compile(self, source: Path, name: str) -> None:
        run(
            "cc", "-std=gnu11", "-O0", "-w", f"-I{CHECKER}", f"-I{self.out}", "-c", "-o", self.out / f"{name}.o", source
        )

    def link(self, name: str, instead: dict[str, str], main: str = "trace-cli") -> Path:
        names = [instead.get(p.stem, p.stem) for p in self.sources] + [main]
        run("cc", "-o", self.out / name, *(self.out / f"{n}.o" for n in names))
        return self.out / name

    def mutated(self, m: Mutation) -> list[Path]:
        """Its programs with the mutation, in the order of MAINS."""
        text = (CHECKER / m.file).read_text()
        assert text.count(m.old) >= 1, f"{m.file} has changed: {m.name} needs another place"
        source = self.out / f"{m.name}.c"
        source.write_text(text.replace(m.old, m.new))
        self.compile(source, m.name)
        return [self.link(f"{main}-{m.name}", {Path(m.file).stem: m.name}, main) for main in MAINS]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    out = tmp_path_factory.mktemp("mutation")
    yield Copy(out)
    shutil.rmtree(out)


def wrong(cli: Path) -> list[str]:
    """Traces that it does not judge as their last lines want it."""
    paths = [path for path in TRACES if path.stem not in OPEN]
    texts = [path.read_text() for path in paths]
    found: list[set[str]] = [set()]
    lost: list[list[list[int]]] = [[]]
    for line in run(cli, text="".join(f"{text}reset\n" for text in texts)).splitlines():
        said = json.loads(line)
        if "report" in said:
            found[-1].add(f"{said['rule']}/{said['kind']}")
        elif "window" in said:
            lost[-1].append(totals(said))
        elif "verdict" in said:
            found.append(set())
            lost.append([])
    told = zip(paths, texts, found, lost, strict=False)
    return [p.stem for p, text, f, w in told if (sorted(f), w) != (expected(text), windows(text))]


def test_copy_is_right(copy: Copy) -> None:
    """Without a mutation nothing is wrong."""
    assert wrong(copy.link("cli", {})) == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[m.name for m in MUTATIONS])
def test_mutation_is_noticed(copy: Copy, mutation: Mutation) -> None:
    """At least one trace goes wrong, or the tests of the pure modules fail."""
    cli, unit = copy.mutated(mutation)
    assert wrong(cli) or subprocess.run([unit], capture_output=True, check=False).returncode
