/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rely - rules about flushes that somebody else relies on, or that must be
 * complete before the task that owes them returns to user space.
 *
 * A task may leave a flush to later, as reclaim does, or be about to flush at
 * the end of a range. Meanwhile others see that the entry is invalid, and Linux
 * lets them go on from there only after a flush of their own:
 *
 *  - A task that replaces one invalid descriptor by another (it zaps, moves or
 *    changes a swap entry), or that begins to unmap, protect or move a range, owes
 *    what other tasks have taken away there by then: flushed, with the DSB,
 *    when this task returns to user space. flush_tlb_batched_pending() and
 *    mm_tlb_flush_nested() are for this.
 *  - A task that makes a valid entry where the flush of the old one has been put
 *    off (the kernel says so) must find a TLBI issued.
 *  - A task that has taken away an entry and mapped what it led to elsewhere, under
 *    one lock of page tables, has flushed the old entry before it drops the lock.
 *  - Before the pages of an mmu_gather lose their reverse mappings all that the
 *    task has taken away is flushed.
 *
 * The caller serialises.
 */
#ifndef LULL_RELY_H
#define LULL_RELY_H

#include "shadow.h"

/* What a task owes that another one has made. */
struct also {
	struct list in_owe, in_task;
	struct owe *owe;
	uint64_t task;
	uint64_t pc;			/* where it took that over */
	unsigned int stack;
	uint8_t cpu;
};

/* --- Events --- */

/* A task is about to unmap, protect or move addresses from start on and before end. */
void shadow_range(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t start,
		  uint64_t end, uint64_t pc);

/* A task has cleared an entry, and puts its flush off. */
void shadow_collected(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t va);

/* A CPU is about to drop a lock of page tables. Not needed while cpu.section is 0. */
void shadow_unlock(struct shadow *s, unsigned int cpu, uint64_t pc);

/* A task is about to drop the reverse mappings of pages that it has unmapped. */
void shadow_rmaps(struct shadow *s, unsigned int cpu, uint64_t pc);

/* Has any CPU ever had a root with this address? */
bool shadow_is_root(const struct shadow *s, uint64_t root);

/* --- For shadow.c --- */

/* One invalid descriptor has replaced another, at one place. */
void rely_touched(struct shadow *s, unsigned int cpu, struct context *c, uint64_t va,
		  int level, uint64_t pc);

/* A valid descriptor has been made, at one place. */
void rely_moved(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t va,
		const struct table *t, unsigned int index);

/* CPUs for which an entry whose flush was put off has no TLBI under way. */
cpumask rely_unissued(const struct owe *w);

/* A task returns to user space: what it has taken over is flushed. */
void rely_returns(struct shadow *s, uint64_t task);

/* --- For owe.c --- */

/* It is met, withdrawn or reported: nobody owes it any more. */
void also_drop(struct owes *o, struct owe *w);

#endif
