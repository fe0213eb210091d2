/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All ways to clear the access flag, for the lab: what pgtable.h and contpte.c
 * call in place of their TLBIs. Called with the page-table lock held.
 */
#ifndef __ASM_LULL_YOUNG_H
#define __ASM_LULL_YOUNG_H

#include <linux/mm_types.h>

bool lull_young_needs_tlbi(void);
void lull_young_flush_page(struct vm_area_struct *vma, unsigned long addr);
void lull_young_flush_range(struct vm_area_struct *vma, unsigned long start,
			    unsigned long end);
void lull_young_flush_huge(struct vm_area_struct *vma, unsigned long addr);

#endif /* __ASM_LULL_YOUNG_H */
