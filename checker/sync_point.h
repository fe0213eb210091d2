/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sync_point - rules for sync points, at which a kernel relies on a flush that was deferred.
 *
 * A task may clear an entry and flush later: reclaim defers its flushes, and
 * MADV_DONTNEED flushes at the end of its range. Meanwhile other tasks find the
 * entry invalid. Linux lets them continue only after a flush of their own:
 *
 *  - pending/unsettled: a task replaces one invalid descriptor by another (it zaps,
 *    moves or changes a swap entry that took the place of a page), or begins to unmap, protect or move a range.
 *    The entries that other tasks have taken away there by then must be flushed,
 *    with a DSB, when this task returns to user space. In Linux
 *    flush_tlb_batched_pending() and mm_tlb_flush_nested() are for this.
 *  - bbm/collected: a task writes a valid entry where the flush of the old one was
 *    deferred (a marker of the lab kernel says so). A TLBI must have been issued.
 *  - pending/unlocked: a task takes away an entry, maps the same page at another
 *    address, and drops a page table lock. The old entry must be flushed by then.
 *  - pending/rmap: the pages of an mmu_gather lose their reverse mappings. All entries
 *    that the task has taken away must be flushed by then.
 *
 * docs/checker.md has the exceptions. The caller serialises all calls.
 */
#ifndef LULL_SYNC_POINT_H
#define LULL_SYNC_POINT_H

#include "shadow.h"

/* --- Events --- */

/* The CPU's task is about to unmap, protect or move the addresses from @start to before @end. */
void shadow_range(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t start,
		  uint64_t end, uint64_t pc);

/* The CPU's task has cleared the entry of @va, and defers the flush. */
void shadow_collected(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t va);

/* A CPU is about to drop a page table lock. Need not be called while cpu.section is 0. */
void shadow_unlock(struct shadow *s, unsigned int cpu, uint64_t pc);

/* The CPU's task is about to drop the reverse mappings of pages that it has unmapped. */
void shadow_rmaps(struct shadow *s, unsigned int cpu, uint64_t pc);

/* Return true if a root table with this physical address is followed: some CPU has loaded it. */
bool shadow_is_root(const struct shadow *s, uint64_t root);

/* --- For shadow_context.c and shadow_store.c --- */

/* An invalid descriptor, @desc, has replaced another, at one address of one context. */
void sync_touched(struct shadow *s, unsigned int cpu, struct context *c, uint64_t va,
		  int level, uint64_t desc, uint64_t pc);

/* A valid descriptor has been written, at one address of one context. */
void sync_moved(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t va,
		const struct table *t, unsigned int index);

/* The CPUs for which no TLBI was issued for an entry whose flush was deferred. */
cpumask sync_unissued(const struct pending *inv);

/* A task returns to user space: the flushes that it relies on must be complete. */
void sync_returns(struct shadow *s, uint64_t task);

#endif
