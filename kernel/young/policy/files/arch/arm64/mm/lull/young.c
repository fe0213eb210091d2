// SPDX-License-Identifier: GPL-2.0-only
/*
 * A policy for the TLB entries of pages that have been made old.
 *
 * Why any policy is correct
 * =========================
 *
 * Reclaim clears the access flag (AF) of an entry to learn later whether the
 * page has been used since. Hardware that finds AF clear in the page table sets
 * it (FEAT_HAFDBS), or raises an Access flag fault whose handler does. Entries
 * with AF clear are never held in a TLB (DDI 0487, "The Access flag"); the
 * entry that had been loaded before, with AF set, may be:
 *
 *	page table		TLB of CPU n		a use by CPU n
 *	----------		------------		--------------
 *	PA, rw, AF=1		PA, rw			hits
 *	ptep_test_and_clear_young()
 *	PA, rw, AF=0		PA, rw			hits; AF stays 0
 *	...			evicted or invalidated	misses; walks; AF=1
 *
 * The stale entry and the table agree on output address, permissions, memory
 * type and all else that decides what an access does: AF is no input to a
 * translation that has succeeded. So CPU n reaches the page it may reach, in
 * the way it may, and the one effect of the stale entry is that the page looks
 * idle while it is used. Reclaim then takes it, too early but properly: it
 * clears the entry itself and flushes for that, whatever happened here, because
 * pte_accessible() is true of an old entry, too. Nothing else reads AF in order
 * to leave a flush out.
 *
 * Compare a change of permissions or of output address: there the stale entry
 * allows what the table forbids, or reaches a page that has been given away,
 * and both the TLBI and the DSB are due.
 *
 * Hence SYNC, NOSYNC and NONE differ in how precise the answer is, and in what
 * it costs:
 *
 *	SYNC	no use is missed that follows
 *	NOSYNC	as stock. A CPU may miss uses until the TLBI has reached it; the
 *		DSB of the next context switch here bounds that
 *	NONE	a CPU misses uses until it evicts the entry, or until some other
 *		flush, or the roll-over of ASIDs, removes it. An address space
 *		that is hot and small enough may not be seen to be used for long
 *
 * Dirty state (DBM) is not touched here: the write permission in the entry and
 * in the TLB stay as they are.
 *
 * Secondary TLBs
 * ==============
 *
 * Stock invalidates the TLBs of devices that share the address space (SVA) with
 * every TLBI here. The argument above holds for them as well, yet every policy
 * goes on telling them, where stock does: they are nobody's to leave out here,
 * and an address space without such devices pays one test for it. "none" does
 * so with no barrier: a device that walks before it sees AF=0 loads once more
 * what it had.
 */
#include <kunit/visibility.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mmdebug.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/vmstat.h>

#include <asm/lull_residency.h>
#include <asm/lull_young.h>
#include <asm/lull_young_tlbi.h>
#include <asm/tlbflush.h>

#include "young.h"

#define CREATE_TRACE_POINTS
#include "trace_young.h"

/*
 * Independent keys. They are patched one after the other, and other CPUs see that
 * when they like. No more care is needed: each combination selects a policy, each
 * policy is correct by itself, and no state outlives a decision.
 */
static DEFINE_STATIC_KEY_FALSE(young_is_sync);
static DEFINE_STATIC_KEY_FALSE(young_is_none);
static DEFINE_STATIC_KEY_FALSE(young_is_auto);

static const char * const young_policies[] = {
	[LULL_YOUNG_SYNC]	= "sync",
	[LULL_YOUNG_NOSYNC]	= "nosync",
	[LULL_YOUNG_NONE]	= "none",
	[LULL_YOUNG_AUTO]	= "auto",
	NULL
};

/*
 * What to do about one entry: a policy, never LULL_YOUNG_AUTO.
 *
 * @stock is what stock does at this place, and that is what "nosync" means:
 * not to wait, except for a huge page.
 *
 * "auto" is "none" if residency is on and no CPU seems to have the address space loaded.
 * No CPU uses a page of it now. Residency would elide the TLBI, but
 * then each clean CPU would have to invalidate the whole ASID when it loads the address
 * space again, only for a hint. Otherwise "auto" is "nosync".
 */
static __always_inline enum lull_young_policy
young_decide(struct mm_struct *mm, enum lull_young_policy stock)
{
	if (static_branch_unlikely(&young_is_sync))
		return LULL_YOUNG_SYNC;
	if (static_branch_unlikely(&young_is_none))
		return LULL_YOUNG_NONE;
	if (static_branch_likely(&young_is_auto) && !lull_is_loaded(mm) &&
	    !lull_is_shared(mm, false))
		return LULL_YOUNG_NONE;
	return stock;
}

#if IS_ENABLED(CONFIG_KUNIT)
enum lull_young_policy lull_young_decide(struct mm_struct *mm)
{
	return young_decide(mm, LULL_YOUNG_NOSYNC);
}
#endif

static void young_apply(int policy)
{
	lull_set_key(&young_is_sync, policy == LULL_YOUNG_SYNC);
	lull_set_key(&young_is_none, policy == LULL_YOUNG_NONE);
	lull_set_key(&young_is_auto, policy == LULL_YOUNG_AUTO);
}

VISIBLE_IF_KUNIT struct lull_switch lull_young_switch =
	LULL_SWITCH(young, young_policies, LULL_YOUNG_AUTO, young_apply);

/* Decide, and leave word of it where a reader of counters or traces looks. */
static __always_inline enum lull_young_policy
young_decide_and_count(struct mm_struct *mm, unsigned long start,
		       unsigned long end, enum lull_young_policy stock)
{
	enum lull_young_policy policy = young_decide(mm, stock);

	trace_lull_young(mm, start, end, policy);
	switch (policy) {
	case LULL_YOUNG_SYNC:
		count_vm_event(YOUNG_SYNC);
		break;
	case LULL_YOUNG_NONE:
		count_vm_event(YOUNG_NONE);
		break;
	default:
		count_vm_event(YOUNG_NOSYNC);
		break;
	}
	return policy;
}

/**
 * lull_young_flush_page() - a page's entry has been made old
 * @vma: where it is mapped
 * @addr: an address in the page
 *
 * Context: the page-table lock is held.
 */
void lull_young_flush_page(struct vm_area_struct *vma, unsigned long addr)
{
	struct mm_struct *mm = vma->vm_mm;
	unsigned long start = addr & PAGE_MASK;
	unsigned long end = start + PAGE_SIZE;

	switch (young_decide_and_count(mm, start, end, LULL_YOUNG_NOSYNC)) {
	case LULL_YOUNG_SYNC:
		flush_tlb_page(vma, addr);
		break;
	case LULL_YOUNG_NONE:
		mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
		break;
	default:
		lull_young_tlbi_page(vma, addr);
		break;
	}
}

static void young_flush_range(struct vm_area_struct *vma, unsigned long start,
			      unsigned long end, unsigned long stride,
			      bool last_level, int tlb_level,
			      enum lull_young_policy stock)
{
	struct mm_struct *mm = vma->vm_mm;

	switch (young_decide_and_count(mm, start, end, stock)) {
	case LULL_YOUNG_SYNC:
		lull_young_tlbi_range(vma, start, end, stride, last_level,
				      tlb_level, true);
		break;
	case LULL_YOUNG_NONE:
		mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
		break;
	default:
		lull_young_tlbi_range(vma, start, end, stride, last_level,
				      tlb_level, false);
		break;
	}
}

/**
 * lull_young_flush_range() - the entries of a contiguous mapping have been
 *	made old
 * @vma: where it is mapped
 * @start: its first address
 * @end: the address after it
 * @stride: the memory an entry maps
 * @last_level: only entries of the last level need to go
 * @tlb_level: which level that is
 *
 * It counts as one: one decision for all entries, which may be several blocks.
 *
 * Context: the page-table lock is held.
 */
void lull_young_flush_range(struct vm_area_struct *vma, unsigned long start,
			    unsigned long end, unsigned long stride,
			    bool last_level, int tlb_level)
{
	young_flush_range(vma, start, end, stride, last_level, tlb_level,
			  LULL_YOUNG_NOSYNC);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/**
 * pmdp_clear_flush_young() - make a huge page old, and follow the policy
 * @vma: where it is mapped
 * @address: its first address
 * @pmdp: its entry
 *
 * The generic one waits for the TLBI, and so does "nosync" here: it is what
 * stock does, also where stock could do better.
 *
 * Context: the PMD's page-table lock is held.
 * Return: whether the page was young.
 */
int pmdp_clear_flush_young(struct vm_area_struct *vma, unsigned long address,
			   pmd_t *pmdp)
{
	int young;

	VM_WARN_ON_ONCE(address & ~HPAGE_PMD_MASK);
	young = pmdp_test_and_clear_young(vma, address, pmdp);
	if (young)
		young_flush_range(vma, address, address + HPAGE_PMD_SIZE,
				  PMD_SIZE, false, 2, LULL_YOUNG_SYNC);
	return young;
}
#endif

static int __init young_boot(char *name)
{
	return lull_switch_boot(&lull_young_switch, name);
}
early_param("lull_young", young_boot);

static int __init young_init(void)
{
	return lull_switch_register(&lull_young_switch);
}
subsys_initcall(young_init);
