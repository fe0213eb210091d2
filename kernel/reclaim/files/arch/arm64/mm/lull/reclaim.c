// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: collect the pages that are unmapped in a batch, and flush ranges.
 *
 * Reclaim, migration and khugepaged clear the entries of many pages, flush, and
 * only then write the pages out, copy or free them. Stock issues a TLBI as it
 * clears each entry, with a DSB ISHST before it, and waits once, at the end:
 *
 *	per page			at the end
 *	--------			----------
 *	clear the entry			DSB ISH
 *	DSB ISHST
 *	TLBI VALE1IS
 *
 * Here neighbours become one range, and all else happens at the end:
 *
 *	per page			at the end
 *	--------			----------
 *	clear the entry			DSB ISHST
 *	grow a range			per range: for nobody, this CPU, all?
 *					  TLBI RVALE1(IS)
 *					DSB ISH, if any was for all
 *
 * Why a TLBI may come later
 * =========================
 *
 * What the callers rely on is that entries are gone when arch_tlbbatch_flush()
 * has returned. Before, they may be used: a TLBI that nobody has waited for
 * promises nothing, and x86 issues none at all until then.
 *
 * Others that change the same address space meanwhile must not rely on an empty
 * entry being an entry that no TLB holds: they call flush_tlb_batched_pending()
 * with the page table's lock held, and flush all of the address space. They
 * cannot wait for the TLBIs of another CPU, so stock does the same, and it does
 * not matter whether those have been issued. What is pending here is then issued
 * once more than needed.
 *
 * A fault does not call it. It finds an empty entry, and maps a page there, as
 * soon as the table's lock is free. On stock the TLBI is on its way by then. Here
 * it may not come for long: the task sleeps, or is preempted, with its batch. Then
 *
 *  - who holds the old entry, read-only, and may write by the new one, would fault
 *    on the old one again and again: arm64 relies on TLBIs that come, and has
 *    nothing to do about a fault that is spurious;
 *  - a task that has written to the new page, and is moved to a CPU that holds the
 *    old entry, would read what it has overwritten;
 *  - a contiguous entry would be there together with one for a page of it, and to
 *    hold both is a TLB conflict.
 *
 * (x86 puts flushes off too, and has none of these: a fault drops the entry that
 * it was about, a CPU that loads the address space flushes first, and entries of
 * two sizes may meet.) So who writes a valid entry looks first whether anything of
 * that place is collected, and then flushes all of the address space, by
 * flush_tlb_batched_pending()'s way; see lull_batch_settle(). For that an address
 * space has a count of ranges, and marks for the blocks that they are in. Both are
 * written under the lock of the table that the entry was cleared under, and who
 * writes an entry there has that lock: nothing is missed. A range is taken from
 * the count when its TLBI has been issued, which is all that stock has done when
 * it drops the lock, and the marks with the last one.
 *
 * With several that reclaim there may always be one more. So who has flushed all
 * takes the marks away, if no page has been collected since before it began: hence
 * there are no more such flushes than pages that are collected, each of which is
 * a TLBI on stock.
 *
 * Who clears an entry counts it in mm->tlb_flush_batched before it drops the
 * page table's lock, so that the next holder of the lock sees that.
 *
 * Each store to a table comes before the DSB ISHST of its own task: in program
 * order, or before the DSB ISH in __switch_to(), if the task has changed CPUs.
 *
 * The address space
 * =================
 *
 * The lock that keeps the mapping alive is dropped between clearing and
 * flushing, so the batch holds the struct mm_struct (not the address space: it
 * may be torn down, and its last user may be gone). Its ASID is read when the
 * TLBI is issued. It may be another one than before: numbers change at a
 * roll-over, which makes every CPU forget everything before it uses a number of
 * the new generation, or by residency, which leaves the old number unused until
 * then. Entries under the old number cannot be used any more in either case.
 *
 * When the ranges are used up
 * ===========================
 *
 * All of them are issued, nobody waits, and collecting starts again. So pages
 * that are mapped by more processes than there are ranges, or lie scattered,
 * cost a TLBI each, as on stock, and a DSB ISHST for every eighth. Wherever the
 * task is when the batch ends, the TLBIs of other CPUs are complete: it came
 * from there through __switch_to(), which has a DSB ISH.
 *
 * CPUs that execute each TLBI and DSB twice (ARM64_WORKAROUND_REPEAT_TLBI) do so
 * in __tlbi_sync_s1ish(), for all that came before it, here as on stock.
 */
#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_collected.h>
#include <asm/lull_reclaim.h>
#include <asm/page.h>
#include <asm/tlbflush.h>

#include "lull.h"

DEFINE_STATIC_KEY_FALSE(lull_reclaim_on);

/*
 * One TLBI takes an even number of pages, with LPA2 from an address that is
 * aligned to 64 KiB; what is beside that takes a TLBI for each page. Rather a few
 * neighbours more: reclaim takes pages in the order in which they were used
 * first, so they are its next pages, or were its last.
 */
static void widen(struct lull_range *range)
{
	unsigned long size = range->end - range->start;

	if (!system_supports_tlb_range() || size == PAGE_SIZE)
		return;
	if (lpa2_is_enabled()) {
		range->start = round_down(range->start, SZ_64K);
		size = range->end - range->start;
	}
	range->end = range->start + round_up(size, 2 * PAGE_SIZE);
}

/*
 * Note a page, before the lock of its table is dropped. Always by a write: who
 * flushes all has begun after the entry was cleared, or sees it.
 */
static void note(struct mm_struct *mm, unsigned long start, unsigned long end,
		 unsigned int ranges)
{
	u64 where = lull_collected_where(start, end), pages, next;
	atomic64_t *word = &mm->context.collected;
	s64 w = atomic64_read(word);

	do {
		pages = FIELD_GET(COLLECTED_PAGES, w) + 1;
		next = (w & ~COLLECTED_PAGES) | where;
		next += FIELD_PREP(COLLECTED_PAGES, pages) + ranges;
	} while (!atomic64_try_cmpxchg(word, &w, next));
}

/* One range has been issued. */
static void forget(struct mm_struct *mm)
{
	atomic64_t *word = &mm->context.collected;
	s64 w = atomic64_read(word), next;

	do {
		next = w - 1;
		if (!(next & COLLECTED_RANGES))
			next &= ~COLLECTED_WHERE;
	} while (!atomic64_try_cmpxchg(word, &w, next));
}

/**
 * lull_batch_flushed() - all of an address space has been flushed
 * @mm: the address space
 * @before: what lull_collected() said before that
 *
 * If a page has been collected since, the marks stay: its entry may have been
 * cleared after the TLBI.
 */
void lull_batch_flushed(struct mm_struct *mm, u64 before)
{
	s64 w = before;

	if (before & COLLECTED_WHERE)
		atomic64_try_cmpxchg(&mm->context.collected, &w,
				     before & ~COLLECTED_WHERE);
}
EXPORT_SYMBOL(lull_batch_flushed);

/**
 * __lull_batch_settle() - flush before a valid entry is written
 * @mm: the address space
 *
 * By the marks, of which many blocks have one: perhaps for nothing.
 *
 * Context: the page table's lock is held.
 */
void __lull_batch_settle(struct mm_struct *mm)
{
	count_vm_event(RECLAIM_SETTLED);
	arch_flush_tlb_batched_pending(mm);
}
EXPORT_SYMBOL(__lull_batch_settle);

/**
 * __lull_batch_issue() - issue what has been collected, and do not wait
 * @batch: the batch of this task; it is empty afterwards
 */
void __lull_batch_issue(struct lull_batch *batch)
{
	count_vm_events(RECLAIM_RANGES, batch->nr);
	dsb(ishst);
	while (batch->nr) {
		struct lull_pending *last = &batch->pending[--batch->nr];

		widen(&last->range);
		if (lull_flush_ranges(last->mm, &last->range, 1, true))
			batch->owed = true;
		forget(last->mm);
		mmdrop(last->mm);
	}
}

/**
 * __lull_batch_add() - the entry of a page has been cleared
 * @batch: the batch of this task
 * @mm: the address space
 * @addr: an address in the page
 *
 * Context: the page table's lock is held.
 */
void __lull_batch_add(struct lull_batch *batch, struct mm_struct *mm,
		      unsigned long addr)
{
	unsigned long start = addr & PAGE_MASK, end = start + PAGE_SIZE;
	struct lull_pending *p;

	count_vm_event(RECLAIM_BATCHED);
	/* The latest first: that is the neighbour, if there is one. */
	for (p = batch->pending + batch->nr; p-- > batch->pending;)
		if (p->mm == mm &&
		    lull_range_grow(&p->range, start, end, PAGE_SHIFT, 0)) {
			note(mm, start, end, 0);
			return;
		}

	if (batch->nr == LULL_BATCH_RANGES)
		__lull_batch_issue(batch);
	mmgrab(mm);
	note(mm, start, end, 1);
	batch->pending[batch->nr++] = (struct lull_pending){
		.mm = mm,
		.range = { start, end, PAGE_SHIFT },
	};
}

LULL_KEY_SWITCH(reclaim, "batch", lull_reclaim_on);
