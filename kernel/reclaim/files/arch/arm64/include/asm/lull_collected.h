/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What has been collected of an address space, and not yet flushed; for who is
 * about to write a valid entry there. Why: arch/arm64/mm/lull/reclaim.c.
 *
 * mm->context.collected:
 *
 *	63     48 47            24 23             0
 *	+--------+----------------+---------------+
 *	| where  |     pages      |    ranges     |
 *	+--------+----------------+---------------+
 *
 * Where has a bit for each block of the size of a contiguous entry; 16 of them,
 * and those of the next 16 blocks are the same. Ranges are those not yet issued;
 * without any, where is empty. Pages counts, modulo 2^24, what has been collected:
 * who has flushed all of it can see that nothing has been added since.
 */
#ifndef __ASM_LULL_COLLECTED_H
#define __ASM_LULL_COLLECTED_H

#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/mm_types.h>
#include <linux/types.h>

#include <asm/barrier.h>
#include <asm/page-def.h>
#include <asm/pgtable-hwdef.h>

#ifdef CONFIG_LULL_RECLAIM

#define COLLECTED_WHERE		GENMASK_ULL(63, 48)
#define COLLECTED_PAGES		GENMASK_ULL(47, 24)
#define COLLECTED_RANGES	GENMASK_ULL(23, 0)

void __lull_batch_settle(struct mm_struct *mm);
void lull_batch_flushed(struct mm_struct *mm, u64 before);

/**
 * lull_collected_where() - the marks of addresses
 * @start: the first
 * @end: the one after the last
 *
 * Return: as they stand in mm->context.collected.
 */
static inline u64 lull_collected_where(unsigned long start, unsigned long end)
{
	unsigned long first = start >> CONT_PTE_SHIFT;
	unsigned long more = ((end - 1) >> CONT_PTE_SHIFT) - first;
	u16 where = more < 15 ? rol16(GENMASK(more, 0), first % 16) : U16_MAX;

	return FIELD_PREP(COLLECTED_WHERE, where);
}

static inline void lull_collected_init(struct mm_struct *mm)
{
	atomic64_set(&mm->context.collected, 0);
}

/**
 * lull_collected() - what has been collected, before all of it is flushed
 * @mm: the address space
 *
 * It has been read before a TLBI that follows: of a page that is noted by then the
 * entry has been cleared.
 */
static inline u64 lull_collected(struct mm_struct *mm)
{
	u64 word = atomic64_read(&mm->context.collected);

	if (word & COLLECTED_WHERE)
		dsb(ishld);
	return word;
}

/**
 * lull_batch_settle() - valid entries are about to be written
 * @mm: the address space
 * @addr: the address of the first
 * @nr: how many
 *
 * Not asked of the key: what has been collected is there, whatever it says.
 *
 * Context: the page table's lock is held.
 */
static __always_inline void lull_batch_settle(struct mm_struct *mm,
					      unsigned long addr,
					      unsigned int nr)
{
	u64 word = atomic64_read(&mm->context.collected);

	if (unlikely(word & COLLECTED_WHERE) &&
	    word & lull_collected_where(addr, addr + nr * PAGE_SIZE))
		__lull_batch_settle(mm);
}

#else /* CONFIG_LULL_RECLAIM */

static inline void lull_collected_init(struct mm_struct *mm) {}

static inline u64 lull_collected(struct mm_struct *mm)
{
	return 0;
}

static inline void lull_batch_flushed(struct mm_struct *mm, u64 before) {}

static inline void lull_batch_settle(struct mm_struct *mm, unsigned long addr,
				     unsigned int nr)
{
}

#endif /* CONFIG_LULL_RECLAIM */

#endif /* __ASM_LULL_COLLECTED_H */
