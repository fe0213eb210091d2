/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: what a switch of address spaces executes. See residency.c.
 */
#ifndef __ARM64_MM_LULL_RESIDENCY_H
#define __ARM64_MM_LULL_RESIDENCY_H

#include <linux/cpumask.h>
#include <linux/limits.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include <asm/barrier.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>

#ifdef CONFIG_LULL_RESIDENCY

/* residency.walker: several CPUs may have walked the tables. */
#define RES_WALKERS	UINT_MAX

/* The number of clean CPUs that a flush reads before it looks. */
#define RES_SURVEY	8

#if IS_ENABLED(CONFIG_KUNIT)
extern int lull_residency_ntlbpa;
#endif

void res_make_clean(struct mm_struct *mm);

static __always_inline void res_leave(struct mm_struct *next)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	update_saved_ttbr0(current, &init_mm);
	WRITE_ONCE(cpu->leaving, cpu->loaded);
	/* Pairs with res_is_loaded(), which reads in the other order */
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
	/* loaded before the bit is read: pairs with res_pass_by() */
	smp_mb();
	if (unlikely(!cpumask_test_cpu(smp_processor_id(), mm_cpumask(mm))))
		res_make_clean(mm);
}

#else

static inline void lull_load(struct mm_struct *mm) {}

#endif

#endif /* __ARM64_MM_LULL_RESIDENCY_H */
