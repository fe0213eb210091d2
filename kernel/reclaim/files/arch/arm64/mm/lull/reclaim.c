// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: collect the pages that are unmapped in a batch, and flush ranges.
 *
 * Reclaim, migration and khugepaged clear the entries of many pages, flush, and
 * only then write the pages out, copy or free them. Stock issues a TLBI as it
 * clears each entry, with a DSB ISHST before it, and waits once, at the end. Here
 * neighbours become one range, and all else happens at the end:
 *
 *	per page			at the end
 *	--------			----------
 *	clear the entry			DSB ISHST
 *	grow a range			per range: for nobody, this CPU, all?
 *					  TLBI RVALE1(IS)
 *					DSB ISH, if any was for all
 *
 * Which flushes may be deferred
 * =============================
 *
 * Only those of clean entries. A TLB that holds a dirty entry allows stores that
 * leave no trace. The kernel has marked the folio dirty for the stores before,
 * and may clean it at any time after the page table's lock is dropped: direct
 * reclaim and MADV_PAGEOUT do not write file folios but unlock them again, and
 * then fsync() finds no mapping to write-protect, writes the folio and clears its
 * dirty flag. A store through the old entry after that is lost with the folio. So
 * a dirty entry takes stock's way: its TLBI is issued before the lock is dropped,
 * and try_to_unmap_flush_dirty() waits for it where Linux requires that.
 *
 * A clean entry does not allow stores to any TLB that holds it. It is read-only
 * for the hardware (PTE_RDONLY); where the hardware may make it writable (DBM), it
 * does so in the descriptor in memory, and that is invalid now: the store
 * faults. No older, writable entry can be in a TLB either: code that makes an
 * entry clean and keeps it valid flushes it before it relies on that, and entries
 * that lose their write permission stay dirty (PTE_DIRTY). What is left to a TLB
 * is to read and execute the page, which is neither changed nor freed by the
 * caller before arch_tlbbatch_flush() has returned.
 *
 * Nor is an entry of a file collected by reclaim. A folio that is clean is taken
 * out of the page cache and unlocked before the batch ends. A write() then makes
 * another folio at that offset, and a thread that reads through its old entry
 * would see what was there before. No valid entry is written where that entry was,
 * so nothing below would flush it. Migration collects files' entries: its folios
 * stay locked until the batch has been flushed.
 *
 * Code that relies on a flush before the batch ends
 * =================================================
 *
 * Functions that change the same address space (mprotect, munmap, mremap, madvise)
 * must not take an empty entry for one that no TLB holds. They call
 * flush_tlb_batched_pending() with the page table's lock held, which flushes all
 * of the address space if mm->tlb_flush_batched has grown since the last time. A
 * DSB completes the TLBIs of its own CPU only, so on stock, too, they cannot rely
 * on those that another CPU has issued. The order matters: a CPU that holds
 * another table's lock and sees mm->tlb_flush_batched grown must flush after the
 * entry was cleared, because it then notes that nothing is pending any more. On
 * stock the DSB ISHST of the TLBI is between the two stores, here an smp_wmb().
 *
 * A page fault does not call it. It finds an empty entry, and maps a page there,
 * as soon as the table's lock is free. On stock the TLBI has been issued by then.
 * Here it may not be for long: the task that reclaims may be preempted with its
 * batch. Then, also if the old entry was clean,
 *
 *  - a CPU that holds the old entry, read-only, and is to write by the new one,
 *    would fault again and again: arm64 has nothing to do about a fault that is
 *    spurious, because it relies on TLBIs that come;
 *  - a task that has written to a new page there (copy-on-write), and is moved to
 *    a CPU that holds the old entry, would read what it has overwritten;
 *  - a contiguous entry would be there together with one for a page of it, and to
 *    hold both is a TLB conflict.
 *
 * (x86 defers flushes too, and has none of these: a fault drops the entry that it
 * was about, a CPU that loads the address space flushes first, and entries of two
 * sizes may meet.) So an address space has a count of ranges that are collected.
 * It is raised under the lock of the table that the entry was cleared in, and
 * lowered when the TLBI of the range is complete. Code that writes valid entries
 * holds the lock of their table. If it sees a count of zero, no TLB holds anything
 * else there. If not, it flushes the pages that it writes, waits, and writes: see
 * lull_batch_settle(). It does not know which pages are collected, so it may do
 * so for nothing; that costs what the flush of a copy-on-write fault costs.
 *
 * All that makes entries of the last level valid is __set_ptes(). Other writers
 * need no such check. A block or a table is written where there was no table, or
 * one that pmdp_collapse_flush(), munmap() or mremap() took away, all of which
 * flush what was mapped by it. HugeTLB pages are never collected.
 *
 * A folio whose flush is deferred may be unlocked before the batch ends, but may
 * not be freed: reclaim and migration keep it isolated, with a reference.
 * collapse_file() flushes before it puts a folio back.
 *
 * Each store to a table comes before the DSB ISHST of its own task: in program
 * order, or before the DSB ISH in __switch_to(), if the task has changed CPUs.
 * Devices that share the address space are notified when a page is added, under
 * the lock, as on every architecture.
 *
 * The address space
 * =================
 *
 * The lock that keeps the mapping alive is dropped between clearing and
 * flushing, so the batch holds a reference to the struct mm_struct (mmgrab(): the
 * address space may be torn down, and its last user may be gone). Its ASID is read
 * when the TLBI is issued. It may be another one than before: numbers change at a
 * roll-over, which makes every CPU forget everything before it uses a number of
 * the new generation, or by residency, which leaves the old number unused until
 * then. Entries under the old number cannot be used any more in either case.
 *
 * Because of these references a batch must not be copied (arch_dup_task_struct())
 * nor be left behind by a task that exits (exit_thread()). Every user of
 * TTU_BATCH_FLUSH empties it before it returns.
 *
 * When the ranges are used up
 * ===========================
 *
 * A page that extends none of them is flushed in stock's way. Only the range that
 * was added to last and the one after it are looked at by then: neighbours follow
 * each other, and a page that several processes map is unmapped from them in the
 * same order as the page before. So pages that are scattered, or mapped by many
 * processes, cost two comparisons more than on stock.
 *
 * CPUs that execute each TLBI and DSB twice (ARM64_WORKAROUND_REPEAT_TLBI) do so
 * in __tlbi_sync_s1ish(), for all that came before it, here as on stock.
 */
#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
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

/**
 * __lull_batch_settle() - flush before valid entries are written
 * @mm: the address space, of which something is collected
 * @addr: the address of the first
 * @nr: how many
 *
 * Complete when it returns, as break-before-make asks for. Devices have been
 * notified when the pages were collected.
 *
 * Context: the page table's lock is held.
 */
void __lull_batch_settle(struct mm_struct *mm, unsigned long addr,
			 unsigned int nr)
{
	unsigned long start = addr & PAGE_MASK;
	struct lull_range range = { start, start + nr * PAGE_SIZE, PAGE_SHIFT };

	count_vm_event(RECLAIM_SETTLED);
	widen(&range);
	dsb(ishst);
	if (lull_flush_ranges(mm, &range, 1, true))
		__tlbi_sync_s1ish();
}
EXPORT_SYMBOL(__lull_batch_settle);

/**
 * __lull_batch_issue() - issue the TLBIs of what has been collected
 * @batch: the batch of this task; @owed says whether some must be waited for
 */
void __lull_batch_issue(struct lull_batch *batch)
{
	unsigned int i;

	count_vm_events(RECLAIM_RANGES, batch->nr);
	dsb(ishst);
	for (i = 0; i < batch->nr; i++) {
		struct lull_pending *p = &batch->pending[i];

		widen(&p->range);
		if (lull_flush_ranges(p->mm, &p->range, 1, true))
			batch->owed = true;
	}
}

/**
 * __lull_batch_end() - forget what has been flushed
 * @batch: the batch of this task; it is empty afterwards
 *
 * Context: the TLBIs are complete. The DSB that completed them orders them before
 *	the count is lowered; where no TLBI was needed the read-modify-write of
 *	residency's word does.
 */
void __lull_batch_end(struct lull_batch *batch)
{
	while (batch->nr) {
		struct mm_struct *mm = batch->pending[--batch->nr].mm;

		atomic_dec(&mm->context.collected);
		mmdrop(mm);
	}
}

/* Make a range larger, if it is one of those that a page is likely to extend. */
static bool grow(struct lull_batch *batch, struct mm_struct *mm,
		 unsigned long start)
{
	unsigned int left = batch->nr < LULL_BATCH_RANGES ? batch->nr : 2;
	unsigned int i = batch->last;

	for (; left; left--) {
		struct lull_pending *p = &batch->pending[i];

		if (p->mm == mm && lull_range_grow(&p->range, start,
						   start + PAGE_SIZE,
						   PAGE_SHIFT, 0)) {
			batch->last = i;
			return true;
		}
		if (++i >= batch->nr)
			i = 0;
	}
	return false;
}

/**
 * __lull_batch_add() - a clean entry has been cleared
 * @batch: the batch of this task
 * @mm: the address space
 * @addr: an address in the page
 *
 * Context: the page table's lock is held. A writer of a valid entry that takes the
 *	lock next sees the count raised.
 * Return: whether the page is collected; if not, the caller must flush it.
 */
bool __lull_batch_add(struct lull_batch *batch, struct mm_struct *mm,
		      unsigned long addr)
{
	unsigned long start = addr & PAGE_MASK;

	if (!grow(batch, mm, start)) {
		if (batch->nr == LULL_BATCH_RANGES)
			return false;
		mmgrab(mm);
		atomic_inc(&mm->context.collected);
		batch->last = batch->nr;
		batch->pending[batch->nr++] = (struct lull_pending){
			.mm = mm,
			.range = { start, start + PAGE_SIZE, PAGE_SHIFT },
		};
	}
	count_vm_event(RECLAIM_BATCHED);
	/*
	 * The cleared entry before mm->tlb_flush_batched, which the caller
	 * increments next: see flush_tlb_batched_pending().
	 */
	smp_wmb();
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, start,
						    start + PAGE_SIZE);
	return true;
}

/**
 * exit_thread() - a task exits
 * @tsk: the task, or a new one that could not be made
 *
 * A batch that is not empty would keep its address spaces from being freed, and
 * every writer of their entries flushing.
 */
void exit_thread(struct task_struct *tsk)
{
	arch_tlbbatch_flush(&tsk->tlb_ubc.arch);
}

LULL_KEY_SWITCH(reclaim, "batch", lull_reclaim_on);
