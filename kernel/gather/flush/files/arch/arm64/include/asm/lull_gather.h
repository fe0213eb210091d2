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
#define LULL_GATHER_HULL	255	/* lull_runs.nr: flush the hull */
#define LULL_GATHER_GAP		15	/* pages between two runs that become one */

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
 * @nr: runs in @run, or LULL_GATHER_HULL
 * @last: the run that was added to last
 * @run: the runs
 */
struct lull_runs {
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
	runs->nr = static_branch_likely(&lull_gather_on) && !fullmm ?
			   0 : LULL_GATHER_HULL;
	runs->last = 0;
}

/* Entries were cleared, or a table was taken away: as for __lull_gather_add(). */
static __always_inline void lull_gather_add(struct lull_runs *runs,
					    unsigned long address,
					    unsigned long size,
					    unsigned int shift)
{
	struct lull_range *run = &runs->run[runs->last];

	if (runs->nr == LULL_GATHER_HULL)
		return;
	/*
	 * Mostly it is the first page, or an entry behind the last one. Where a
	 * run ends, an entry of its size begins.
	 */
	if (shift == PAGE_SHIFT && !runs->nr) {
		*run = (struct lull_range){ address, address + size, shift };
		runs->nr = 1;
	} else if (runs->nr && run->shift == shift && run->end == address &&
		   IS_ALIGNED(size, 1UL << shift)) {
		run->end += size;
	} else {
		__lull_gather_add(runs, address, size, shift);
	}
}

#else /* CONFIG_LULL_GATHER */

static inline bool lull_gather_flush(struct mmu_gather *tlb)
{
	return false;
}

#endif /* CONFIG_LULL_GATHER */

#endif /* __ASM_LULL_GATHER_H */
