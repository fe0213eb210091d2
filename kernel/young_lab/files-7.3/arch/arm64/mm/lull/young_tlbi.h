/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TLBIs of young.c, in terms of this Linux.
 */
static void young_tlbi_page(struct vm_area_struct *vma, unsigned long addr)
{
	__flush_tlb_page(vma, addr, TLBF_NOSYNC);
}

static void young_tlbi_range(struct vm_area_struct *vma, unsigned long start,
			     unsigned long end, bool wait)
{
	__flush_tlb_range(vma, start, end, PAGE_SIZE, 3,
			  TLBF_NOWALKCACHE | (wait ? TLBF_NONE : TLBF_NOSYNC));
}
