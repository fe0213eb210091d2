/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reclaim's unmapped pages, collected: neighbours become ranges, and ranges are
 * flushed when the batch ends. Why that is right: arch/arm64/mm/lull/reclaim.c.
 *
 *	lull_batch_add()	an entry has been cleared: defer its flush?
 *	lull_batch_owe()	it was not deferred, and its TLBI issued as on stock
 *	lull_batch_issue()	issue the TLBIs of what was collected
 *	lull_batch_end()	and these are complete
 *
 * Code that writes a valid entry meanwhile asks asm/lull_collected.h.
 */
#ifndef __ASM_LULL_RECLAIM_H
#define __ASM_LULL_RECLAIM_H

#include <linux/jump_label.h>
#include <linux/types.h>

#include <asm/lull_ranges.h>

struct mm_struct;

#ifdef CONFIG_LULL_RECLAIM

/* Up to as many processes may map what is reclaimed, and have a range each. */
#define LULL_BATCH_RANGES	8

/**
 * struct lull_batch - what a task has unmapped and not yet flushed
 * @nr: ranges in @pending
 * @last: the range that was added to last
 * @owed: a TLBI was broadcast, and its completion has not been waited for
 * @pending: ranges, with the address space that each is of, which is referenced
 */
struct lull_batch {
	u8 nr;
	u8 last;
	bool owed;
	struct lull_pending {
		struct mm_struct *mm;
		struct lull_range range;
	} pending[LULL_BATCH_RANGES];
};

DECLARE_STATIC_KEY_FALSE(lull_reclaim_on);

bool __lull_batch_add(struct lull_batch *batch, struct mm_struct *mm,
		      unsigned long addr);
void __lull_batch_issue(struct lull_batch *batch);
void __lull_batch_end(struct lull_batch *batch);

/* For a task that is a copy of one which may have collected something. */
static inline void lull_batch_init(struct lull_batch *batch)
{
	batch->nr = 0;
	batch->owed = false;
}

/*
 * A dirty entry is never deferred: while a TLB holds it, stores go to the page
 * and leave no trace, and the page may be cleaned before the batch ends.
 */
static inline bool lull_batch_add(struct lull_batch *batch,
				  struct mm_struct *mm, unsigned long addr,
				  bool dirty)
{
	return static_branch_likely(&lull_reclaim_on) && !dirty &&
	       __lull_batch_add(batch, mm, addr);
}

static inline void lull_batch_owe(struct lull_batch *batch, bool issued)
{
	batch->owed |= issued;
}

/*
 * Returns whether __tlbi_sync_s1ish() is needed before lull_batch_end(). Does not
 * look at the switch: what has been collected must be flushed.
 */
static inline bool lull_batch_issue(struct lull_batch *batch)
{
	bool owed;

	if (batch->nr)
		__lull_batch_issue(batch);
	owed = batch->owed;
	batch->owed = false;
	return owed;
}

static inline void lull_batch_end(struct lull_batch *batch)
{
	if (batch->nr)
		__lull_batch_end(batch);
}

#else /* CONFIG_LULL_RECLAIM */

struct lull_batch {};

static inline void lull_batch_init(struct lull_batch *batch) {}

static inline bool lull_batch_add(struct lull_batch *batch,
				  struct mm_struct *mm, unsigned long addr,
				  bool dirty)
{
	return false;
}

static inline void lull_batch_owe(struct lull_batch *batch, bool issued) {}

static inline bool lull_batch_issue(struct lull_batch *batch)
{
	return true;
}

static inline void lull_batch_end(struct lull_batch *batch) {}

#endif /* CONFIG_LULL_RECLAIM */

#endif /* __ASM_LULL_RECLAIM_H */
