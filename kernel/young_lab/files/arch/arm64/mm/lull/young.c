// SPDX-License-Identifier: GPL-2.0-only
/*
 * The published experiment on the access flag: all ways to clear it in one
 * kernel, with a run-time switch and counters. mmu.c says at aging_tlbi why a
 * TLBI is not needed. A DSB is needed even less.
 */
#include <kunit/visibility.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/vmstat.h>

#include <asm/lull_young.h>
#include <asm/tlbflush.h>

#include "young.h"
#include "young_tlbi.h"

static DEFINE_STATIC_KEY_FALSE(young_is_sync);

static const char * const young_policies[] = {
	[LULL_YOUNG_SYNC]	= "sync",
	[LULL_YOUNG_NOSYNC]	= "nosync",
	[LULL_YOUNG_NONE]	= "none",
	NULL
};

/* In whatever order CPUs see the two keys change: each combination is a policy. */
static void young_apply(int policy)
{
	lull_set_key(&young_is_sync, policy == LULL_YOUNG_SYNC);
	if (policy == LULL_YOUNG_NONE)
		static_branch_disable(&aging_tlbi);
	else
		static_branch_enable(&aging_tlbi);
}

VISIBLE_IF_KUNIT struct lull_switch lull_young_switch =
	LULL_SWITCH(young, young_policies, LULL_YOUNG_NOSYNC, young_apply);

/**
 * lull_young_needs_tlbi() - a mapping has been made old: is a TLBI due?
 *
 * If none is, the mapping is counted here, and otherwise by the flush.
 *
 * Return: false under the policy "none".
 */
bool lull_young_needs_tlbi(void)
{
	if (static_branch_likely(&aging_tlbi))
		return true;
	count_vm_event(YOUNG_NONE);
	return false;
}

static bool young_waits(void)
{
	bool sync = static_branch_unlikely(&young_is_sync);

	count_vm_event(sync ? YOUNG_SYNC : YOUNG_NOSYNC);
	return sync;
}

/**
 * lull_young_flush_page() - invalidate a page's entry
 * @vma: where it is mapped
 * @addr: an address in the page
 */
void lull_young_flush_page(struct vm_area_struct *vma, unsigned long addr)
{
	if (young_waits())
		flush_tlb_page(vma, addr);
	else
		young_tlbi_page(vma, addr);
}

/**
 * lull_young_flush_range() - invalidate the entries of contiguous blocks
 * @vma: where they are mapped
 * @start: the first address
 * @end: the address after the last
 *
 * It counts as one, though it may be several blocks.
 */
void lull_young_flush_range(struct vm_area_struct *vma, unsigned long start,
			    unsigned long end)
{
	young_tlbi_range(vma, start, end, young_waits());
}

/**
 * lull_young_flush_huge() - invalidate a huge page's entry, and wait
 * @vma: where it is mapped
 * @addr: its first address
 */
void lull_young_flush_huge(struct vm_area_struct *vma, unsigned long addr)
{
	count_vm_event(YOUNG_SYNC);
	flush_pmd_tlb_range(vma, addr, addr + PMD_SIZE);
}

static int __init young_init(void)
{
	if (!static_key_enabled(&aging_tlbi))	/* by the boot parameter */
		lull_young_switch.policy = LULL_YOUNG_NONE;
	return lull_switch_register(&lull_young_switch);
}
subsys_initcall(young_init);
