/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rely - rules for places at which a kernel relies on a flush that was deferred.
 *
 * A task may clear an entry and flush later: reclaim defers its flushes, and
 * MADV_DONTNEED flushes at the end of its range. Meanwhile other tasks find the
 * entry invalid. Linux lets them continue only after a flush of their own:
 *
 *  - owed/unsettled: a task replaces one invalid descriptor by another (it zaps,
 *    moves or changes a swap entry), or begins to unmap, protect or move a range.
 *    The entries that other tasks have taken away there by then must be flushed,
 *    with a DSB, when this task returns to user space. In Linux
 *    flush_tlb_batched_pending() and mm_tlb_flush_nested() are for this.
 *    Old entries of locked folios may be flushed later: see "Locked folios" below.
 *  - bbm/collected: a task writes a valid entry where the flush of the old one was
 *    deferred (a marker of the lab kernel says so). A TLBI must have been issued.
 *  - owed/unlocked: a task takes away an entry, maps the same page at another
 *    address, and drops a page table lock. The old entry must be flushed by then.
 *  - owed/rmap: the pages of an mmu_gather lose their reverse mappings. All entries
 *    that the task has taken away must be flushed by then.
 *
 * docs/checker.md has the exceptions. The caller serialises all calls.
 *
 * Locked folios. khugepaged clears the entries of a huge page of a file, drops the lock of
 * the table, and flushes later; it has the folio locked all the time. A task that discards
 * (MADV_DONTNEED) the memory meanwhile finds no entry, and returns before the flush. That
 * is correct, because the flush changes nothing for the task while these hold:
 *
 *  (1) The old entry leads to a page of a file. Discarding what a process has mapped does
 *	not change the file, and the area stays mapped: the next access finds again what the
 *	file has there.
 *  (2) The folio is locked. Truncation, reclaim, migration and split take this lock before
 *	they take a folio out of its file, so the file has the same page there. So a CPU that
 *	uses the old entry reads and writes the page that the next page fault would map.
 *  (3) No other entry is made there. A page fault takes the lock of the folio before it maps
 *	the page or, in a private mapping, a copy. What takes no such lock is judged: the rule
 *	looks at each entry that is made.
 *
 * After the folio is unlocked, (2) and (3) do not hold. So the flush must be complete at the
 * later of two times: when the task returns to user space, and when the folio is unlocked.
 *
 * khugepaged then unlinks the table, and flushes once for the table and its old entries. A
 * CPU that walks the unlinked table by an old entry finds no page in it, like one that walks
 * from the root. So the same holds for a table in which no descriptor is valid, while an old
 * entry of such a page below it, which the same task took away, is not flushed either.
 *
 * This is not true for a task that relies on more than what the next access finds. munmap()
 * relies on a fault, so does discarding memory for which userfaultfd handles minor faults,
 * and mprotect() and mremap() rely on their changes. Their ranges do not count as discarded.
 */
#ifndef LULL_RELY_H
#define LULL_RELY_H

#include "shadow.h"

/* A task relies on the flush of an obligation that another task has made. */
struct also {
	struct list in_obligation, in_task;
	struct obligation *obligation;
	uint64_t task;			/* the task that relies on the flush */
	uint64_t pc;			/* where it began to */
	unsigned int stack;
	uint8_t cpu;
	bool locked;			/* not before obligation.lock is unlocked */
};

/* --- Events --- */

/*
 * The CPU's task is about to unmap, protect or move the addresses from @start to before @end.
 * @discards: it unmaps them, and relies on no more than that the next access finds what the
 * file has there.
 */
void shadow_range(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t start,
		  uint64_t end, bool discards, uint64_t pc);

/* The folio with these pages of 4 KiB is about to be unlocked. Need not be called while obligations.locked is empty. */
void shadow_folio_unlock(struct shadow *s, uint64_t pfn, uint64_t pages);

/* The CPU's task has cleared the entry of @va, and defers the flush. */
void shadow_collected(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t va);

/* A CPU is about to drop a page table lock. Need not be called while cpu.section is 0. */
void shadow_unlock(struct shadow *s, unsigned int cpu, uint64_t pc);

/* The CPU's task is about to drop the reverse mappings of pages that it has unmapped. */
void shadow_rmaps(struct shadow *s, unsigned int cpu, uint64_t pc);

/* Return true if a root table with this physical address is followed: some CPU has loaded it. */
bool shadow_is_root(const struct shadow *s, uint64_t root);

/* --- For shadow_context.c and shadow_store.c --- */

/* One invalid descriptor has replaced another, at one address of one context. */
void rely_touched(struct shadow *s, unsigned int cpu, struct context *c, uint64_t va,
		  int level, uint64_t pc);

/* A valid descriptor has been written, at one address of one context. */
void rely_moved(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t va,
		const struct table *t, unsigned int index);

/* A new entry contradicts the old one of @obl, or allows less. */
void rely_made_anew(struct shadow *s, struct obligation *obl);

/* The CPUs for which no TLBI was issued for an entry whose flush was deferred. */
cpumask rely_unissued(const struct obligation *obl);

/* A task returns to user space: the flushes that it relies on must be complete. */
void rely_returns(struct shadow *s, uint64_t task);

/* --- For owe.c --- */

/* The obligation is met, withdrawn or reported: no task relies on its flush any more. */
void also_drop(struct obligations *o, struct obligation *obl);

#endif
