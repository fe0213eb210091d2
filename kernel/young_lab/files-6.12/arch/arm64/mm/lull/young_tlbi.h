/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TLBIs of young.c, in terms of this Linux.
 */
static void young_tlbi_page(struct vm_area_struct *vma, unsigned long addr)
{
	flush_tlb_page_nosync(vma, addr);
}

static void young_tlbi_range(struct vm_area_struct *vma, unsigned long start,
			     unsigned long end, bool wait)
{
	if (wait)
		__flush_tlb_range(vma, start, end, PAGE_SIZE, true, 3);
	else
		__flush_tlb_range_nosync(vma, start, end, PAGE_SIZE, true, 3);
}
