/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mmu_gather's runs: which entries were cleared, beside the hull around all of them
 * (tlb->start to tlb->end). arch/arm64/mm/lull/gather.c says why a flush of the runs
 * may replace that of the hull.
 *
 * For asm-generic/tlb.h, which has struct mmu_gather.
 */
#ifndef __ASM_LULL_GATHER_H
#define __ASM_LULL_GATHER_H

#include <linux/align.h>
#include <linux/jump_label.h>
#include <linux/types.h>

#include <asm/page-def.h>

struct mmu_gather;

#ifdef CONFIG_LULL_GATHER

#define LULL_GATHER_RUNS	16	/* on the stack, 24 bytes each */
#define LULL_GATHER_NONE	1UL	/* lull_runs.next: no run yet */

/**
 * struct lull_range - addresses whose entries have changed
 * @start: the first, aligned to what an entry maps
 * @end: the one after them, aligned to it too
 * @shift: binary logarithm of what an entry maps: PAGE_SHIFT, PMD_SHIFT, ...
 */
struct lull_range {
	unsigned long start;
	unsigned long end;
	unsigned int shift;
};

/**
 * struct lull_runs - what an mmu_gather has cleared since the last flush
 * @next: where the next entry belongs to run @last: the address that follows this run,
 *	and its shift in the low bits. LULL_GATHER_NONE if there is no run yet, 0 if
 *	none are collected and the hull is to be flushed.
 * @nr: runs in @run
 * @last: the run that was added to last; its end is in @next (lull_gather_end())
 * @run: the runs
 */
struct lull_runs {
	unsigned long next;
	u8 nr;
	u8 last;
	struct lull_range run[LULL_GATHER_RUNS];
};

DECLARE_STATIC_KEY_FALSE(lull_gather_on);

void __lull_gather_add(struct lull_runs *runs, unsigned long address,
		       unsigned long size, unsigned int shift);
bool lull_gather_flush(struct mmu_gather *tlb);
#if IS_ENABLED(CONFIG_KUNIT)
unsigned long lull_range_tlbis(const struct lull_range *range, bool by_range,
			       bool lpa2);
#endif

/*
 * All has been flushed. The key is read here only: an mmu_gather that has not
 * collected from the beginning must not start in the middle.
 */
static inline void lull_gather_reset(struct lull_runs *runs, bool fullmm)
{
	runs->next = static_branch_likely(&lull_gather_on) && !fullmm ?
			     LULL_GATHER_NONE : 0;
	runs->nr = 0;
	runs->last = 0;
}

/* Write down where the run ends that was added to last, before @run is read. */
static inline void lull_gather_end(struct lull_runs *runs)
{
	if (runs->nr)
		runs->run[runs->last].end = runs->next & PAGE_MASK;
}

/*
 * Entries were cleared, or a table was taken away: as for __lull_gather_add(). Mostly
 * it is an entry behind the last one. Where a run ends, an entry of its size begins.
 */
static __always_inline void lull_gather_add(struct lull_runs *runs,
					    unsigned long address,
					    unsigned long size,
					    unsigned int shift)
{
	if (!runs->next)
		return;
	if (runs->next == (address | shift) &&
	    (shift == PAGE_SHIFT || IS_ALIGNED(size, 1UL << shift)))
		runs->next += size;
	else
		__lull_gather_add(runs, address, size, shift);
}

#else /* CONFIG_LULL_GATHER */

static inline bool lull_gather_flush(struct mmu_gather *tlb)
{
	return false;
}

#endif /* CONFIG_LULL_GATHER */

#endif /* __ASM_LULL_GATHER_H */
