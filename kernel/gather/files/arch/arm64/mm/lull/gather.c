// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmu_gather: flush where entries were cleared, not the hull around them.
 *
 * An mmu_gather remembers the lowest and the highest address that it has
 * cleared, and flushes all between them. For three pages at the ends of a hole of
 * 1 GiB that is the whole address space: hundreds of entries go that other
 * threads use, and each is walked for again. Here it remembers runs:
 *
 *	cleared		####      ##                                   #
 *	hull		<---------------------------------------------->
 *	runs		<-->      <>                                   <>
 *
 * Why the runs are enough
 * =======================
 *
 * All that tells an mmu_gather of an entry goes through tlb_flush_pte_range()
 * and its like for PMD, PUD and P4D, or through p4d_free_tlb(). Each extends the
 * hull, and adds to the runs here: so the runs cover what was cleared, and what
 * the hull has beyond them was not cleared since the last flush. A hull with one
 * run in it, or none, is flushed as ever.
 *
 *  - Leaves. A run knows the level of the leaves that it was made for, and is
 *    flushed in steps of that size with that level as a hint. Leaves of another
 *    level never join it. Stock knows one level for all and gives no hint when
 *    there were several.
 *
 *  - Tables. What is told of a table is one page at an address that it mapped:
 *    enough for a TLBI that is not for leaves only to remove what leads to it,
 *    at all levels above. The flag freed_tables is set before anything is
 *    flushed, and makes all runs such TLBIs, with no level as a hint. So a table
 *    needs no run of its own if its address lies in one already. Else it gets
 *    one as large as what it mapped, so that neighbours become one: nothing is
 *    lost by that, the table was empty.
 *
 *  - Shared tables of HugeTLB (unshared_tables) add what they mapped, at the
 *    level of their leaves.
 *
 *  - Flushes that are forced half way, because pages are to be freed or a
 *    mapping ends, flush what was collected so far, and collecting starts again.
 *
 *  - Another thread that tears down at the same time (mm_tlb_flush_nested())
 *    makes it the whole address space, which does not look at runs.
 *
 * Small gaps
 * ==========
 *
 * Two runs with few pages between them become one where a TLBI takes a range:
 * every other page of 2 MiB would else be 256 TLBIs, where stock has one. What is
 * lost is at most 15 entries for a TLBI, each of which costs a walk if it is used
 * again; a broadcast TLBI with its share of the wait costs more than as many
 * walks. (With LPA2 a range of TLBIs begins at multiples of 64 KiB anyway.)
 *
 * When the runs are used up
 * =========================
 *
 * They are issued, nobody waits, and collecting starts again; the wait is owed,
 * by the next flush. It is a task's own mmu_gather: if the task has changed CPUs
 * meanwhile, the DSB ISH in __switch_to() has completed what was issued there.
 * Leaves may go before the tables that they were in, and what is told of a table
 * comes after the table was taken away.
 *
 * Whoever clears scattered pages without end should not send as many TLBIs:
 * after MAX_DVM_OPS of them the hull is flushed, which is all of the address
 * space most often, and as much as stock does.
 */
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "lull.h"

DEFINE_STATIC_KEY_FALSE(lull_gather_on);

/* Issue the runs, and do not wait. */
static void issue(struct mmu_gather *tlb)
{
	struct lull_runs *runs = &tlb->runs;
	bool last_level = !tlb_frees_tables(tlb);
	unsigned int i;

	dsb(ishst);
	if (lull_flush_ranges(tlb->mm, runs->run, runs->nr, last_level))
		runs->owed = true;
	for (i = 0; i < runs->nr; i++)
		mmu_notifier_arch_invalidate_secondary_tlbs(tlb->mm,
							    runs->run[i].start,
							    runs->run[i].end);
}

/* Make room, if that does not become too much. */
static bool spill(struct mmu_gather *tlb)
{
	struct lull_runs *runs = &tlb->runs;
	unsigned long spent = runs->spent +
			      lull_ranges_cost(runs->run, runs->nr);

	if (spent >= MAX_DVM_OPS)
		return false;
	issue(tlb);
	runs->spent = spent;
	runs->nr = 0;
	runs->last = 0;
	return true;
}

/**
 * __lull_gather_add() - entries were cleared, or a table was taken away
 * @tlb: who collects
 * @address: the first address
 * @size: bytes that they mapped; less than an entry does for a table
 * @shift: binary logarithm of what an entry maps
 *
 * Context: for a table, freed_tables is set before anything else is done.
 */
void __lull_gather_add(struct mmu_gather *tlb, unsigned long address,
		       unsigned long size, unsigned int shift)
{
	unsigned long entry = 1UL << shift;
	unsigned long start = round_down(address, entry);
	unsigned long end = round_up(address + size, entry);
	struct lull_runs *runs = &tlb->runs;
	unsigned long gap = 0;
	unsigned int i;

	if (shift == PAGE_SHIFT && system_supports_tlb_range())
		gap = LULL_GATHER_GAP * PAGE_SIZE;

	for (i = runs->nr; i--;) {
		struct lull_range *run = &runs->run[i];
		bool within = size < entry && run->start <= address &&
			      address < run->end;

		if (within || lull_range_grow(run, start, end, shift, gap)) {
			runs->last = i;
			return;
		}
	}

	if (runs->nr == LULL_GATHER_RUNS && !spill(tlb)) {
		runs->nr = LULL_GATHER_HULL;
		return;
	}
	runs->last = runs->nr;
	runs->run[runs->nr++] = (struct lull_range){ start, end, shift };
}

/**
 * __lull_gather_flush() - flush what was collected
 * @tlb: who collected
 *
 * Return: true when that is done, and completed; false when it is left to the
 * hull.
 */
bool __lull_gather_flush(struct mmu_gather *tlb)
{
	struct lull_runs *runs = &tlb->runs;
	bool collected = runs->nr && runs->nr != LULL_GATHER_HULL;

	if (collected)
		issue(tlb);
	if (runs->owed)
		__tlbi_sync_s1ish();
	lull_runs_init(runs);
	count_vm_event(collected ? GATHER_RUNS : GATHER_HULL);
	return collected;
}

LULL_KEY_SWITCH(gather, "runs", lull_gather_on);
