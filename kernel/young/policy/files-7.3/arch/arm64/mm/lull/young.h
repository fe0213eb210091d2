/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The access flag policy, for young.c and its tests.
 *
 * young.c calls the flushes of Linux 6.12. This file gives it these names on
 * 7.3, whose flushes take flags.
 */
#ifndef __ARM64_MM_LULL_YOUNG_H
#define __ARM64_MM_LULL_YOUNG_H

#include <linux/mm_types.h>

#include <asm/tlbflush.h>

#include "lull.h"

/**
 * enum lull_young_policy - what to do when a page has been made old
 * @LULL_YOUNG_SYNC: invalidate its TLB entry, and wait until every CPU has
 * @LULL_YOUNG_NOSYNC: invalidate it, and do not wait
 * @LULL_YOUNG_NONE: leave the entry in the TLBs
 * @LULL_YOUNG_AUTO: choose one of them each time
 */
enum lull_young_policy {
	LULL_YOUNG_SYNC,
	LULL_YOUNG_NOSYNC,
	LULL_YOUNG_NONE,
	LULL_YOUNG_AUTO,
};

/* By pointer, so that an argument of another type than bool does not compile. */
static inline tlbf_t young_flags(const bool *last_level)
{
	return *last_level ? TLBF_NOWALKCACHE : TLBF_NONE;
}

static inline void flush_tlb_page_nosync(struct vm_area_struct *vma,
					 unsigned long addr)
{
	__flush_tlb_page(vma, addr, TLBF_NOSYNC);
}

static inline void __flush_tlb_range_nosync(struct vm_area_struct *vma,
					    unsigned long start,
					    unsigned long end,
					    unsigned long stride,
					    bool last_level, int tlb_level)
{
	__flush_tlb_range(vma, start, end, stride, tlb_level,
			  young_flags(&last_level) | TLBF_NOSYNC);
}

/*
 * The function of 7.3 has the same name, and as many arguments in another order.
 * After this line a call in that order does not compile: its fifth argument is
 * a level, and no bool.
 */
#define __flush_tlb_range(vma, start, end, stride, last_level, tlb_level) \
	((__flush_tlb_range)(vma, start, end, stride, tlb_level,	\
			     young_flags(&(last_level))))

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_young_switch;

enum lull_young_policy lull_young_decide(struct mm_struct *mm);
#endif

#endif /* __ARM64_MM_LULL_YOUNG_H */
