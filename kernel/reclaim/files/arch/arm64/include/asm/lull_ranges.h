/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranges of an address space whose entries have changed: to be collected while
 * they change, and flushed together later.
 */
#ifndef __ASM_LULL_RANGES_H
#define __ASM_LULL_RANGES_H

#include <linux/minmax.h>
#include <linux/types.h>

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

unsigned long lull_ranges_cost(const struct lull_range *ranges,
			       unsigned int nr);
bool lull_flush_ranges(struct mm_struct *mm, const struct lull_range *ranges,
		       unsigned int nr, bool last_level);

#endif /* __ASM_LULL_RANGES_H */
