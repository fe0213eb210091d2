// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flush what was collected: ranges of one address space, under one decision who
 * is told of them.
 */
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_ranges.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#define CREATE_TRACE_POINTS
#include "trace_ranges.h"

/**
 * lull_ranges_cost() - how many TLBIs it takes to flush ranges
 * @ranges: the ranges, of at most MAX_TLBI_RANGE_PAGES each
 * @nr: how many
 *
 * Return: a number to compare with MAX_DVM_OPS.
 */
unsigned long lull_ranges_cost(const struct lull_range *ranges, unsigned int nr)
{
	bool by_range = system_supports_tlb_range(), lpa2 = lpa2_is_enabled();
	unsigned long cost = 0;
	unsigned int i;

	for (i = 0; i < nr; i++)
		cost += lull_range_tlbis(&ranges[i], by_range, lpa2);
	return cost;
}

/* As for one range on stock: from here on the whole address space is cheaper. */
static bool too_much(const struct lull_range *ranges, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if ((ranges[i].end - ranges[i].start) >> PAGE_SHIFT >
		    MAX_TLBI_RANGE_PAGES)
			return true;
	return lull_ranges_cost(ranges, nr) >= MAX_DVM_OPS;
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

static void issue_here(const struct lull_range *range, unsigned long asid,
		       bool last_level)
{
	unsigned long pages = (range->end - range->start) >> PAGE_SHIFT;
	unsigned long start = range->start, stride = 1UL << range->shift;

	if (last_level)
		__flush_tlb_range_op(vale1, start, pages, stride, asid,
				     leaf_level(range->shift), true,
				     lpa2_is_enabled());
	else
		__flush_tlb_range_op(vae1, start, pages, stride, asid,
				     TLBI_TTL_UNKNOWN, true, lpa2_is_enabled());
}

static void issue_everywhere(const struct lull_range *range, unsigned long asid,
			     bool last_level)
{
	unsigned long pages = (range->end - range->start) >> PAGE_SHIFT;
	unsigned long start = range->start, stride = 1UL << range->shift;

	if (last_level)
		__flush_tlb_range_op(vale1is, start, pages, stride, asid,
				     leaf_level(range->shift), true,
				     lpa2_is_enabled());
	else
		__flush_tlb_range_op(vae1is, start, pages, stride, asid,
				     TLBI_TTL_UNKNOWN, true, lpa2_is_enabled());
}

/* On this CPU; complete when it returns. */
static void flush_here(struct mm_struct *mm, const struct lull_range *ranges,
		       unsigned int nr, bool last_level)
{
	unsigned long asid = ASID(mm);
	unsigned int i;

	if (too_much(ranges, nr)) {
		asid = __TLBI_VADDR(0, asid);
		__tlbi(aside1, asid);
		__tlbi_user(aside1, asid);
	} else {
		for (i = 0; i < nr; i++)
			issue_here(&ranges[i], asid, last_level);
	}
	dsb(nsh);
}

/* On all CPUs; nobody has waited when it returns. */
static void flush_everywhere(struct mm_struct *mm,
			     const struct lull_range *ranges, unsigned int nr,
			     bool last_level)
{
	unsigned long asid = ASID(mm);
	unsigned int i;

	if (too_much(ranges, nr)) {
		asid = __TLBI_VADDR(0, asid);
		__tlbi(aside1is, asid);
		__tlbi_user(aside1is, asid);
	} else {
		for (i = 0; i < nr; i++)
			issue_everywhere(&ranges[i], asid, last_level);
	}
}

/**
 * lull_flush_ranges() - flush ranges on the CPUs that have the address space loaded
 * @mm: the address space
 * @ranges: the ranges
 * @nr: how many, at least one
 * @last_level: only leaves have changed, no tables
 *
 * All of them under one decision, and with one DSB NSH when it is for this CPU.
 * The ASID is the one that the address space has now. If it had another one when
 * the entries changed, nobody can use what was held under that any more. Devices
 * that share the address space are notified by the caller.
 *
 * Context: DSB ISHST has been executed since the entries changed.
 * Return: whether __tlbi_sync_s1ish() is owed: the TLBIs were broadcast. They may
 * be waited for on another CPU: the DSB in __switch_to() completes them here.
 */
bool lull_flush_ranges(struct mm_struct *mm, const struct lull_range *ranges,
		       unsigned int nr, bool last_level)
{
	enum res_reach reach;

	preempt_disable();
	reach = lull_decide(mm, !last_level);
	trace_lull_ranges(mm, ranges, nr, last_level, reach);
	if (reach == RES_HERE)
		flush_here(mm, ranges, nr, last_level);
	else if (reach == RES_EVERYWHERE)
		flush_everywhere(mm, ranges, nr, last_level);
	preempt_enable();

	return reach == RES_EVERYWHERE;
}
