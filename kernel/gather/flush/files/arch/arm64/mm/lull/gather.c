// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmu_gather: flush where entries were cleared, not the hull around them.
 *
 * An mmu_gather remembers the lowest and the highest address that it has cleared, and
 * flushes all between them. Here it also remembers up to LULL_GATHER_RUNS runs:
 *
 *	cleared		####      ##                                   #
 *	hull		<---------------------------------------------->
 *	runs		<-->      <>                                   <>
 *
 * Why the runs are enough
 * =======================
 *
 * An mmu_gather learns of a cleared entry by tlb_flush_{pte,pmd,pud,p4d}_range() or
 * p4d_free_tlb(). Each of these extends the hull, and adds to the runs. So the runs
 * cover all that was cleared since the last flush.
 *
 *  - Leaves. A run knows the size of its entries. It is flushed in steps of this size,
 *    with its level as a hint. Entries of another size have runs of their own.
 *
 *  - Tables. For a freed table the mmu_gather learns of one page that the table mapped.
 *    The run is all that the table mapped, page by page: residency needs that (tlb_flush()).
 *    freed_tables is set before the next flush, and then no TLBI of any run is restricted
 *    to the last level, and none has a hint. The table was empty, so the larger run costs
 *    nothing.
 *
 *  - Shared tables of HugeTLB (unshared_tables) add all that they mapped, by the size
 *    of their leaves.
 *
 *  - Another thread that tears down at the same time (mm_tlb_flush_nested()) makes the
 *    last flush one of the whole address space, which does not read the runs.
 *
 * The runs are broadcast, and so reach every CPU that may have the address space loaded.
 * If no other CPU seems to have it loaded, residency may do with a local TLBI or none,
 * and gets the hull (lull_is_shared()).
 *
 * When runs are flushed
 * ====================
 *
 * If they take fewer TLBIs than stock takes for the hull. Stock takes several where the
 * hull is long, or where TLBIs take no range. It takes one of the whole ASID where the
 * hull is longer than MAX_TLBI_RANGE_PAGES, or has MAX_DVM_OPS entries and no TLBI takes
 * a range: runs always take more.
 *
 * If there are too many runs, the hull is flushed.
 */
#include <kunit/visibility.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "gather.h"
#include "lull.h"

DEFINE_STATIC_KEY_FALSE(lull_gather_on);

/**
 * lull_range_grow() - take in a neighbour
 * @range: grows, when it can
 * @start: the neighbour's first address
 * @end: the address after it
 * @shift: what its entries map
 *
 * Return: whether @range holds it now.
 */
static bool lull_range_grow(struct lull_range *range,
			    unsigned long start, unsigned long end,
			    unsigned int shift)
{
	if (range->shift != shift || start > range->end || range->start > end)
		return false;
	range->start = min(range->start, start);
	range->end = max(range->end, end);
	return true;
}

/**
 * lull_range_tlbis() - how many TLBIs __flush_tlb_range_op() issues for a range
 * @range: the range, of at most MAX_TLBI_RANGE_PAGES
 * @by_range: a TLBI may take a range (FEAT_TLBIRANGE)
 * @lpa2: such a TLBI begins at a multiple of 64 KiB
 *
 * One for each entry before that multiple, one for each digit of 5 bits of half
 * the pages that are left, and one for the last of an odd number of pages.
 *
 * Return: the number for one ASID; with KPTI each is issued twice.
 */
VISIBLE_IF_KUNIT unsigned long lull_range_tlbis(const struct lull_range *range,
						bool by_range, bool lpa2)
{
	unsigned long start = range->start, tlbis = 0, pages;

	if (!by_range)
		return (range->end - start) >> range->shift;
	if (lpa2) {
		start = min(round_up(start, SZ_64K), range->end);
		tlbis = (start - range->start) >> range->shift;
	}
	pages = (range->end - start) >> PAGE_SHIFT;
	tlbis += pages & 1;
	for (pages >>= 1; pages; pages >>= 5)
		tlbis += !!(pages & 0x1f);
	return tlbis;
}

/* Does stock invalidate the whole ASID for @range? */
static bool is_whole_asid(const struct lull_range *range)
{
	unsigned long size = range->end - range->start;

	return size >> PAGE_SHIFT > MAX_TLBI_RANGE_PAGES ||
	       (!system_supports_tlb_range() &&
		size >> range->shift >= MAX_DVM_OPS);
}

/* Do the runs take fewer TLBIs than the hull? */
static bool gather_pays(struct mmu_gather *tlb)
{
	bool by_range = system_supports_tlb_range(), lpa2 = lpa2_is_enabled();
	unsigned int shift = tlb->freed_tables ? PAGE_SHIFT :
						 tlb_get_unmap_shift(tlb);
	unsigned long size = 1UL << shift, most, tlbis = 0;
	const struct lull_range hull = {
		round_down(tlb->start, size), round_up(tlb->end, size), shift
	};
	const struct lull_runs *runs = &tlb->runs;
	unsigned int i;

	if (is_whole_asid(&hull))
		return false;
	most = lull_range_tlbis(&hull, by_range, lpa2);
	for (i = 0; i < runs->nr; i++) {
		/* That of a table may be longer than the hull. */
		if (is_whole_asid(&runs->run[i]))
			return false;
		tlbis += lull_range_tlbis(&runs->run[i], by_range, lpa2);
	}
	return tlbis < most;
}

/* The level of the leaves, as a hint that must not be wrong. */
static int leaf_level(unsigned int shift)
{
	switch (shift) {
	case PAGE_SHIFT:
		return 3;
	case PMD_SHIFT:
		return 2;
#if CONFIG_PGTABLE_LEVELS > 2
	case PUD_SHIFT:
		return 1;
#endif
	default:
		return TLBI_TTL_UNKNOWN;
	}
}

static void flush_run(const struct lull_range *run, unsigned long asid,
		      bool tables)
{
	unsigned long pages = (run->end - run->start) >> PAGE_SHIFT;
	unsigned long start = run->start, stride = 1UL << run->shift;

	if (tables)
		gather_tlbi(vae1is, start, pages, stride, asid,
			    TLBI_TTL_UNKNOWN);
	else
		gather_tlbi(vale1is, start, pages, stride, asid,
			    leaf_level(run->shift));
}

/**
 * __lull_gather_add() - entries were cleared, or a table was taken away
 * @runs: the runs of the mmu_gather that learns of it; it collects
 * @address: the first address, at the beginning of a page
 * @size: bytes that they mapped; for a table, less than @shift says, which is all that
 *	it mapped
 * @shift: binary logarithm of what an entry maps
 */
void __lull_gather_add(struct lull_runs *runs, unsigned long address,
		       unsigned long size, unsigned int shift)
{
	unsigned long entry = 1UL << shift;
	unsigned long start = round_down(address, entry);
	unsigned long end = round_up(address + size, entry);
	unsigned int i;

	if (size < entry)
		shift = PAGE_SHIFT;
	lull_gather_end(runs);
	for (i = runs->nr; i--;) {
		struct lull_range *run = &runs->run[i];

		if (lull_range_grow(run, start, end, shift)) {
			runs->last = i;
			runs->next = run->end | run->shift;
			return;
		}
	}

	if (runs->nr == LULL_GATHER_RUNS) {
		runs->nr = 0;
		runs->next = 0;
		return;
	}
	runs->last = runs->nr;
	runs->next = end | shift;
	runs->run[runs->nr++] = (struct lull_range){ start, end, shift };
}

/**
 * lull_gather_flush() - broadcast the runs, if that pays
 * @tlb: the mmu_gather
 *
 * Return: true if it is done, and completed; false if the hull must be flushed.
 */
bool lull_gather_flush(struct mmu_gather *tlb)
{
	struct lull_runs *runs = &tlb->runs;
	bool tables = tlb->freed_tables || tlb->unshared_tables || tlb->vma_huge;
	unsigned long asid;
	unsigned int i;

	/* One run is the hull, and costs what it costs on stock. */
	if (runs->nr <= 1)
		return false;
	lull_gather_end(runs);
	if (!gather_pays(tlb) || !lull_is_shared(tlb->mm, tables)) {
		count_vm_event(GATHER_HULL);
		return false;
	}

	dsb(ishst);
	asid = ASID(tlb->mm);
	for (i = 0; i < runs->nr; i++)
		flush_run(&runs->run[i], asid, tables);
	gather_sync(tlb->mm);
	/* As on stock: a device may need a wait for each call. */
	mmu_notifier_arch_invalidate_secondary_tlbs(tlb->mm, tlb->start,
						    tlb->end);
	count_vm_event(GATHER_RUNS);
	return true;
}

LULL_KEY_SWITCH(gather, "runs", lull_gather_on);
