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
 * A fault takes no notice of what is pending. It may find an empty entry, and map
 * another page there, that was read anew, while other CPUs hold what was there
 * before. Nobody is given that page before the flush; but who still reads by the
 * old entry does not see what others write to the new page. It is so wherever
 * flushes are put off, on x86 too. Stock arm64 has it until the TLBI is complete,
 * which nobody waits for either, and here it is until the batch ends: at most
 * %PAGEVEC_SIZE folios of one reclaimer.
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
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_reclaim.h>
#include <asm/page.h>

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
		    lull_range_grow(&p->range, start, end, PAGE_SHIFT, 0))
			return;

	if (batch->nr == LULL_BATCH_RANGES)
		__lull_batch_issue(batch);
	mmgrab(mm);
	batch->pending[batch->nr++] = (struct lull_pending){
		.mm = mm,
		.range = { start, end, PAGE_SHIFT },
	};
}

LULL_KEY_SWITCH(reclaim, "batch", lull_reclaim_on);
