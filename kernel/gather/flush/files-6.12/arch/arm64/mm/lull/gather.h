/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TLBIs of gather.c, in terms of this Linux.
 */
#ifndef __ARM64_MM_LULL_GATHER_H
#define __ARM64_MM_LULL_GATHER_H

#include <linux/mm_types.h>

#include <asm/cpufeature.h>
#include <asm/tlbflush.h>

/* Issue TLBIs @op for @pages of user space, in steps of @stride; @level is a hint. */
#define gather_tlbi(op, start, pages, stride, asid, level)		\
	__flush_tlb_range_op(op, start, pages, stride, asid, level,	\
			     true, lpa2_is_enabled())

/* Wait until the TLBIs are complete. */
static inline void gather_sync(struct mm_struct *mm)
{
	__tlbi_sync_s1ish();
}

#endif /* __ARM64_MM_LULL_GATHER_H */
