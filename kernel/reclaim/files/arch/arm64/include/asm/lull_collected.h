/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deferred flushes of an address space, for code that is about to write a valid
 * entry there. Why such a check is needed: arch/arm64/mm/lull/reclaim.c.
 *
 * mm->context.collected counts the ranges that tasks have collected of the
 * address space and not yet flushed.
 */
#ifndef __ASM_LULL_COLLECTED_H
#define __ASM_LULL_COLLECTED_H

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/mm_types.h>

#ifdef CONFIG_LULL_RECLAIM

void __lull_batch_settle(struct mm_struct *mm, unsigned long addr,
			 unsigned int nr);

static inline void lull_collected_init(struct mm_struct *mm)
{
	atomic_set(&mm->context.collected, 0);
}

/**
 * lull_batch_settle() - valid entries are about to be written
 * @mm: the address space
 * @addr: the address of the first
 * @nr: how many
 *
 * Does not look at the switch: a flush that was deferred before it was turned
 * off is still deferred.
 *
 * Context: the page table's lock is held. It orders this load after the count
 * was raised for any entry of this table: see __lull_batch_add().
 */
static __always_inline void lull_batch_settle(struct mm_struct *mm,
					      unsigned long addr,
					      unsigned int nr)
{
	if (unlikely(atomic_read(&mm->context.collected)))
		__lull_batch_settle(mm, addr, nr);
}

#else /* CONFIG_LULL_RECLAIM */

static inline void lull_collected_init(struct mm_struct *mm) {}

static inline void lull_batch_settle(struct mm_struct *mm, unsigned long addr,
				     unsigned int nr)
{
}

#endif /* CONFIG_LULL_RECLAIM */

#endif /* __ASM_LULL_COLLECTED_H */
