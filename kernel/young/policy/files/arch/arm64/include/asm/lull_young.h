/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What to do about the TLB when a page has been made old.
 *
 * Called with the page-table lock held, after the access flag of a valid user
 * entry was cleared and found to have been set. The policy in
 * /sys/kernel/mm/lull/young decides. Without CONFIG_LULL_YOUNG each call does
 * what stock does.
 */
#ifndef __ASM_LULL_YOUNG_H
#define __ASM_LULL_YOUNG_H

#include <linux/mm_types.h>
#include <asm/lull_young_tlbi.h>
#include <asm/pgtable-types.h>

#ifdef CONFIG_LULL_YOUNG

void lull_young_flush_page(struct vm_area_struct *vma, unsigned long addr);
void lull_young_flush_range(struct vm_area_struct *vma, unsigned long start,
			    unsigned long end, unsigned long stride,
			    bool last_level, int tlb_level);

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
#define __HAVE_ARCH_PMDP_CLEAR_YOUNG_FLUSH
int pmdp_clear_flush_young(struct vm_area_struct *vma, unsigned long address,
			   pmd_t *pmdp);
#endif

#else /* CONFIG_LULL_YOUNG */

static inline void lull_young_flush_page(struct vm_area_struct *vma,
					 unsigned long addr)
{
	lull_young_tlbi_page(vma, addr);
}

static inline void lull_young_flush_range(struct vm_area_struct *vma,
					  unsigned long start,
					  unsigned long end,
					  unsigned long stride,
					  bool last_level, int tlb_level)
{
	lull_young_tlbi_range(vma, start, end, stride, last_level, tlb_level,
			      false);
}

#endif /* CONFIG_LULL_YOUNG */

#endif /* __ASM_LULL_YOUNG_H */
