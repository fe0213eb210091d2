// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flush what an mmu_gather has cleared, not all between the first and the last of it.
 *
 * Each entry that an mmu_gather clears, and each table that it frees, is in a run: both
 * are noted by __tlb_adjust_range(). So the TLBIs for the runs do all that one for the
 * whole range has to do, if they are of the same kind: the same stride, the same level,
 * and not for leaves only if tables go. A TLBI for one page of what a table mapped removes
 * what CPUs have cached of the table; one for a page of a contiguous block removes it all.
 *
 * What is between the runs was not cleared by this mmu_gather. If another thread clears
 * entries there, it has an mmu_gather of its own. If both were at work at the same time,
 * tlb_finish_mmu() flushes all (mm_tlb_flush_nested()).
 */
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sizes.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

/*
 * The number of TLBIs that __flush_tlb_range_op() issues. With range TLBIs, half the pages
 * are a number with digits of 5 bits, and each digit but 0 takes one TLBI. An odd page
 * takes another one. With LPA2, so does each page before a multiple of 64 KiB.
 */
static unsigned int tlb_range_ops(unsigned long start, unsigned long end,
				  unsigned long stride)
{
	unsigned long aligned = start, pages;
	unsigned int ops;

	if (!system_supports_tlb_range())
		return (end - start) / stride;
	if (lpa2_is_enabled())
		aligned = min(round_up(start, SZ_64K), end);
	pages = (end - aligned) >> PAGE_SHIFT;
	ops = (aligned - start) / stride + (pages & 1);
	for (pages >>= 1; pages; pages >>= 5)
		ops += !!(pages & 31);
	return ops;
}

/**
 * tlb_flush_runs() - flush the runs of an mmu_gather, if that takes fewer TLBIs
 * @tlb: the mmu_gather; its runs are undefined after this
 *
 * Return: true if all is flushed; false if tlb_flush() has to do it.
 */
bool tlb_flush_runs(struct mmu_gather *tlb)
{
	bool tables = tlb->freed_tables || tlb->unshared_tables;
	unsigned long stride = tlb_get_unmap_size(tlb), span = stride;
	unsigned long start = round_down(tlb->start, stride);
	unsigned long end = round_up(tlb->end, stride);
	struct mmu_gather_run *run, *last = tlb->runs;
	unsigned long asid;
	int ops, level = tlb_get_level(tlb);

	if (tlb->fullmm || tlb->nr_runs < 2)
		return false;
	/* A table, and an entry that was in it: mostly one TLBI for both. */
	if (tlb->freed_tables && system_supports_tlb_range())
		span = max(stride, PMD_SIZE);
	if (__flush_tlb_range_limit_excess((end - start) >> PAGE_SHIFT, stride))
		return false;

	/* Runs that touch now become one. */
	for (run = tlb->runs; run < tlb->runs + tlb->nr_runs; run++) {
		run->start = round_down(run->start, span);
		run->end = round_up(run->end, span);
		if (run->start > last->end || last->start > run->end) {
			*++last = *run;
			continue;
		}
		last->start = min(last->start, run->start);
		last->end = max(last->end, run->end);
	}
	ops = tlb_range_ops(start, end, stride);
	for (run = tlb->runs; run <= last && ops > 0; run++)
		ops -= tlb_range_ops(run->start, run->end, stride);
	if (ops <= 0)
		return false;

	/* Before the ASID is read: see ASID(). */
	dsb(ishst);
	asid = ASID(tlb->mm);
	for (run = tlb->runs; run <= last; run++) {
		unsigned long pages = (run->end - run->start) >> PAGE_SHIFT;

		if (tables)
			__flush_s1_tlb_range_op(vae1is, run->start, pages,
						stride, asid, level);
		else
			__flush_s1_tlb_range_op(vale1is, run->start, pages,
						stride, asid, level);
	}
	mmu_notifier_arch_invalidate_secondary_tlbs(tlb->mm, start, end);
	__tlbi_sync_s1ish(tlb->mm);
	return true;
}
