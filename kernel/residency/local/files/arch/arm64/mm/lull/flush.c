// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: which CPUs does a flush have to reach?
 *
 * Flush
 * =====
 *
 * res_ask(), after DSB ISHST. This CPU counts as "another" one below unless it
 * has the mm loaded. If no other CPU is clean, a local TLBI is enough where the mm is
 * loaded here, and no TLBI is needed where it is not: see "Load" in residency.c.
 * Otherwise the flush is a broadcast. The static key may change at any time.
 */
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/preempt.h>
#include <linux/refcount.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/lull_residency.h>
#include <asm/tlbflush.h>

#include "residency.h"

/* The next clean CPU after @cpu, -1 at first; nr_cpu_ids or more: there is none */
static unsigned int res_next_clean(struct mm_struct *mm, int cpu)
{
	/* The mask may change at any time: a CPU sets its bit. */
	return data_race(cpumask_next(cpu, mm_cpumask(mm)));
}

/* Is no CPU but this one clean? @here: @mm is loaded here */
static bool res_is_alone(struct mm_struct *mm, unsigned int cpu, bool here)
{
	unsigned int other = res_next_clean(mm, -1);

	if (here && other == cpu)
		other = res_next_clean(mm, cpu);
	return other >= nr_cpu_ids;
}

enum res_reach res_ask(struct mm_struct *mm, bool tables)
{
	unsigned int cpu = smp_processor_id();
	enum res_reach reach = RES_EVERYWHERE;
	bool here = lull_is_loaded(mm);

	VM_WARN_ON_ONCE(mm == &init_mm);
	/* The TLB of a device that shares the ASID takes part in broadcasts only. */
	if (static_branch_likely(&lull_residency_on) &&
	    !refcount_read(&mm->context.pinned) && res_is_alone(mm, cpu, here))
		reach = here ? RES_HERE : RES_NOWHERE;

	switch (reach) {
	case RES_NOWHERE:
		__count_vm_event(TLBI_ELIDED);
		break;
	case RES_HERE:
		__count_vm_event(TLBI_LOCAL);
		break;
	case RES_EVERYWHERE:
		break;
	}
	return reach;
}

bool __lull_flush_mm(struct mm_struct *mm, bool tables)
{
	enum res_reach reach;

	preempt_disable();
	reach = res_ask(mm, tables);
	if (reach == RES_HERE)
		res_forget_here(mm);
	preempt_enable();

	if (reach == RES_EVERYWHERE)
		return false;
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
	return true;
}

bool __lull_flush_range(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long stride,
			bool last_level, int tlb_level, bool tables)
{
	unsigned long pages = (end - start) >> PAGE_SHIFT;
	enum res_reach reach;

	preempt_disable();
	reach = res_ask(mm, tables);
	if (reach == RES_HERE) {
		unsigned long asid = ASID(mm);

		if (last_level)
			__flush_tlb_range_op(vale1, start, pages, stride, asid,
					     tlb_level, true, lpa2_is_enabled());
		else
			__flush_tlb_range_op(vae1, start, pages, stride, asid,
					     tlb_level, true, lpa2_is_enabled());
		dsb(nsh);
	}
	preempt_enable();

	if (reach == RES_EVERYWHERE)
		return false;
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
	return true;
}
