/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: know which CPUs have an address space loaded, and invalidate only there.
 *
 * arch/arm64/mm/context.c has the protocol, and the argument for it.
 */
#ifndef __ASM_LULL_RESIDENCY_H
#define __ASM_LULL_RESIDENCY_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>

#include <asm/barrier.h>
#include <asm/current.h>

/* The boot parameter lull_residency; never changed later. */
#ifdef CONFIG_LULL_RESIDENCY
DECLARE_STATIC_KEY_TRUE(lull_residency_on);
#define lull_is_on()	static_branch_likely(&lull_residency_on)
#else
#define lull_is_on()	false
#endif

/**
 * struct lull_cpu - the address spaces that a CPU may walk
 * @loaded: TTBR0_EL1 and the ASID name this address space, or will name it soon.
 *	NULL: none
 * @leaving: the address space that was loaded before. The DSB that ends its walks has
 *	not been executed yet. NULL: none
 *
 * Written by the CPU itself with preemption off, read by all.
 */
struct lull_cpu {
	struct mm_struct *loaded;
	struct mm_struct *leaving;
};

DECLARE_PER_CPU_SHARED_ALIGNED(struct lull_cpu, lull_cpu);

/**
 * lull_left() - the walks of the address space that was loaded before have ended
 *
 * Context: preemption is off. After TTBR0_EL1 and the ASID were changed, this CPU
 *	has executed an ISB and then a DSB.
 */
static __always_inline void lull_left(void)
{
	/* The DSB orders it after all walks. */
	if (lull_is_on())
		WRITE_ONCE(*this_cpu_ptr(&lull_cpu.leaving), NULL);
}

/* TTBR0_EL1 is set. A task that stays (exec) does not reach __switch_to(). */
static __always_inline void lull_switched(struct task_struct *tsk)
{
	if (lull_is_on() && tsk == current) {
		dsb(ish);
		lull_left();
	}
}

#endif /* __ASM_LULL_RESIDENCY_H */
