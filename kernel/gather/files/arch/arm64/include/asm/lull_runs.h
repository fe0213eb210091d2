/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an mmu_gather remembers for asm/lull_gather.h.
 */
#ifndef __ASM_LULL_RUNS_H
#define __ASM_LULL_RUNS_H

#include <linux/jump_label.h>
#include <linux/types.h>

#include <asm/lull_ranges.h>
#include <asm/page.h>

#define LULL_GATHER_RUNS	16	/* of an mmu_gather, which is on a stack */
#define LULL_GATHER_HULL	255	/* for lull_runs.nr: not collected */
#define LULL_GATHER_GAP		15	/* pages between two runs that become one */

/**
 * struct lull_runs - what an mmu_gather has cleared and not yet flushed
 * @nr: runs in @run, or LULL_GATHER_HULL
 * @last: the run that was added to last
 * @owed: a TLBI was broadcast, and nobody has waited for it yet
 * @spent: TLBIs that were issued before the flush, about
 * @run: the runs
 */
struct lull_runs {
	u8 nr;
	u8 last;
	bool owed;
	u16 spent;
	struct lull_range run[LULL_GATHER_RUNS];
};

DECLARE_STATIC_KEY_FALSE(lull_gather_on);

static inline void lull_runs_init(struct lull_runs *runs)
{
	runs->owed = false;
	runs->spent = 0;
}

/*
 * The key is looked at here only: an mmu_gather that has not collected from the
 * beginning must not start in the middle.
 */
static inline void lull_runs_reset(struct lull_runs *runs, bool all)
{
	runs->nr = static_branch_likely(&lull_gather_on) && !all ?
			   0 : LULL_GATHER_HULL;
	runs->last = 0;
}

/* The usual cases: the first page, and the page behind the last one. */
static __always_inline bool lull_runs_append(struct lull_runs *runs,
					     unsigned long address,
					     unsigned long size,
					     unsigned int shift)
{
	struct lull_range *run = &runs->run[runs->last];

	if (shift != PAGE_SHIFT)
		return false;
	if (!runs->nr) {
		*run = (struct lull_range){ address, address + size, shift };
		runs->nr = 1;
		return true;
	}
	if (run->end != address || run->shift != shift)
		return false;
	run->end += size;
	return true;
}

#endif /* __ASM_LULL_RUNS_H */
