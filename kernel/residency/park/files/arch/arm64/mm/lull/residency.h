/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: what a switch of address spaces executes, and what the files share. See
 * residency.c.
 */
#ifndef __ARM64_MM_LULL_RESIDENCY_H
#define __ARM64_MM_LULL_RESIDENCY_H

#include <asm/lull_residency.h>
#include <asm/mmu_context.h>

#ifdef CONFIG_LULL_RESIDENCY
static __always_inline void res_leave(struct mm_struct *next)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	update_saved_ttbr0(current, &init_mm);
	/* GCSB DSYNC: the DSB to come orders stores to a shadow stack, too. */
	asm volatile("hint #19" : : : "memory");
	WRITE_ONCE(cpu->leaving, cpu->loaded);
	/* leaving first: whoever reads loaded and then leaving finds @mm in one of them. */
	smp_store_release(&cpu->loaded, next);
}

/**
 * lull_load() - this CPU is about to load an address space
 * @mm: the address space; its ASID is in active_asids
 *
 * Context: preemption is off. TTBR0_EL1 and the ASID are set next.
 */
static __always_inline void lull_load(struct mm_struct *mm)
{
	res_leave(mm);
}
#else
void lull_load(struct mm_struct *mm);
#endif

#endif /* __ARM64_MM_LULL_RESIDENCY_H */
