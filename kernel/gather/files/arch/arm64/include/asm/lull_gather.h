/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mmu_gather's runs: where entries were really cleared, beside the hull around
 * all of them (tlb->start to tlb->end). Why they may replace it:
 * arch/arm64/mm/lull/gather.c.
 *
 *	lull_gather_init()	a new mmu_gather
 *	lull_gather_reset()	all has been flushed
 *	lull_gather_add()	entries were cleared, or a table was taken away
 *	lull_gather_flush()	flush; false: it is left to the hull
 *
 * For asm-generic/tlb.h, which has struct mmu_gather.
 */
#ifndef __ASM_LULL_GATHER_H
#define __ASM_LULL_GATHER_H

#include <asm/lull_runs.h>

void __lull_gather_add(struct mmu_gather *tlb, unsigned long address,
		       unsigned long size, unsigned int shift);
bool __lull_gather_flush(struct mmu_gather *tlb);

static inline void lull_gather_init(struct mmu_gather *tlb)
{
	lull_runs_init(&tlb->runs);
}

static inline void lull_gather_reset(struct mmu_gather *tlb)
{
	lull_runs_reset(&tlb->runs, tlb->fullmm);
}

static __always_inline void lull_gather_add(struct mmu_gather *tlb,
					    unsigned long address,
					    unsigned long size,
					    unsigned int shift)
{
	if (tlb->runs.nr != LULL_GATHER_HULL &&
	    !lull_runs_append(&tlb->runs, address, size, shift))
		__lull_gather_add(tlb, address, size, shift);
}

/* One run is the hull, and costs what it costs on stock. */
static inline bool lull_gather_flush(struct mmu_gather *tlb)
{
	struct lull_runs *runs = &tlb->runs;

	return ((runs->nr > 1 && runs->nr != LULL_GATHER_HULL) ||
		runs->spent) && __lull_gather_flush(tlb);
}

#endif /* __ASM_LULL_GATHER_H */
