/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reclaim's unmapped pages, collected: neighbours become ranges, and ranges are
 * flushed when the batch ends. Why that is right: arch/arm64/mm/lull/reclaim.c.
 *
 *	lull_batch_add()	an entry has been cleared
 *	lull_batch_owe()	it was not collected, and its TLBI issued as ever
 *	lull_batch_flush()	issue what was collected; must somebody wait?
 *
 * Who writes a valid entry meanwhile asks asm/lull_collected.h.
 */
#ifndef __ASM_LULL_RECLAIM_H
#define __ASM_LULL_RECLAIM_H

#include <linux/jump_label.h>
#include <linux/types.h>

#include <asm/lull_ranges.h>

struct mm_struct;

#ifdef CONFIG_LULL_RECLAIM

/* As many processes may map what is reclaimed, and still be told once each. */
#define LULL_BATCH_RANGES	8

/**
 * struct lull_batch - what a task has unmapped and not yet flushed
 * @nr: ranges in @pending
 * @owed: a TLBI was broadcast, and nobody has waited for it yet
 * @pending: ranges, with the address space that each is of, which is held
 */
struct lull_batch {
	unsigned int nr;
	bool owed;
	struct lull_pending {
		struct mm_struct *mm;
		struct lull_range range;
	} pending[LULL_BATCH_RANGES];
};

DECLARE_STATIC_KEY_FALSE(lull_reclaim_on);

void __lull_batch_add(struct lull_batch *batch, struct mm_struct *mm,
		      unsigned long addr);
void __lull_batch_issue(struct lull_batch *batch);

static inline bool lull_batch_add(struct lull_batch *batch,
				  struct mm_struct *mm, unsigned long addr)
{
	if (!static_branch_likely(&lull_reclaim_on))
		return false;
	__lull_batch_add(batch, mm, addr);
	return true;
}

static inline void lull_batch_owe(struct lull_batch *batch, bool issued)
{
	batch->owed |= issued;
}

/* Not asked of the key: what has been collected must be issued. */
static inline bool lull_batch_flush(struct lull_batch *batch)
{
	bool owed;

	if (batch->nr)
		__lull_batch_issue(batch);
	owed = batch->owed;
	batch->owed = false;
	return owed;
}

#else /* CONFIG_LULL_RECLAIM */

struct lull_batch {};

static inline bool lull_batch_add(struct lull_batch *batch,
				  struct mm_struct *mm, unsigned long addr)
{
	return false;
}

static inline void lull_batch_owe(struct lull_batch *batch, bool issued) {}

static inline bool lull_batch_flush(struct lull_batch *batch)
{
	return true;
}

#endif /* CONFIG_LULL_RECLAIM */

#endif /* __ASM_LULL_RECLAIM_H */
