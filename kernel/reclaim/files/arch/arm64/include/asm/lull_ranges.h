/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranges of an address space whose entries have changed: to be collected while
 * they change, and flushed together later.
 */
#ifndef __ASM_LULL_RANGES_H
#define __ASM_LULL_RANGES_H

#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/types.h>

#include <asm/page-def.h>

struct mm_struct;

/**
 * struct lull_range - addresses whose entries have changed
 * @start: the first, aligned to what an entry maps
 * @end: the one after them, aligned to it too
 * @shift: binary logarithm of what an entry maps: PAGE_SHIFT, PMD_SHIFT, ...
 */
struct lull_range {
	unsigned long start;
	unsigned long end;
	unsigned int shift;
};

/**
 * lull_range_grow() - take in a neighbour
 * @range: grows, when it can
 * @start: the neighbour's first address
 * @end: the address after it
 * @shift: what its entries map
 * @gap: bytes that may lie between them, and become part of the range
 *
 * Return: whether @range holds it now.
 */
static inline bool lull_range_grow(struct lull_range *range,
				   unsigned long start, unsigned long end,
				   unsigned int shift, unsigned long gap)
{
	if (range->shift != shift || start > range->end + gap ||
	    range->start > end + gap)
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
static inline unsigned long lull_range_tlbis(const struct lull_range *range,
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

unsigned long lull_ranges_cost(const struct lull_range *ranges,
			       unsigned int nr);
bool lull_flush_ranges(struct mm_struct *mm, const struct lull_range *ranges,
		       unsigned int nr, bool last_level);

#endif /* __ASM_LULL_RANGES_H */
