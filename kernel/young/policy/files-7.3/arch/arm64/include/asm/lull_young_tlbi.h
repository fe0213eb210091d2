/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TLBIs of the access flag policy, in terms of this Linux.
 */
#ifndef __ASM_LULL_YOUNG_TLBI_H
#define __ASM_LULL_YOUNG_TLBI_H

#include <linux/mm_types.h>
#include <asm/tlbflush.h>

/* Invalidate an entry of the last level, and do not wait. */
static inline void lull_young_tlbi_page(struct vm_area_struct *vma,
					unsigned long addr)
{
	__flush_tlb_page(vma, addr, TLBF_NOSYNC);
}

/* Invalidate entries that map @stride each. Wait until every CPU has, if @wait. */
static __always_inline void
lull_young_tlbi_range(struct vm_area_struct *vma, unsigned long start,
		      unsigned long end, unsigned long stride,
		      bool last_level, int tlb_level, bool wait)
{
	tlbf_t leaves = last_level ? TLBF_NOWALKCACHE : TLBF_NONE;

	__flush_tlb_range(vma, start, end, stride, tlb_level,
			  leaves | (wait ? TLBF_NONE : TLBF_NOSYNC));
}

#endif /* __ASM_LULL_YOUNG_TLBI_H */
