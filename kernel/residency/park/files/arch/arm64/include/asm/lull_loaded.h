/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each CPU has loaded, for residency.
 *
 * A CPU has an address space *loaded* while TTBR0_EL1 names its page tables or its
 * ASID is the current one. Only then can the CPU walk these tables or use entries
 * of this ASID. arch/arm64/mm/lull/loaded.c says when a CPU loads and leaves one.
 *
 * Without CONFIG_LULL_RESIDENCY every function here leaves its caller as it was.
 */
#ifndef __ASM_LULL_LOADED_H
#define __ASM_LULL_LOADED_H

#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include <asm/barrier.h>
#include <asm/current.h>

struct mm_struct;
struct task_struct;

#ifdef CONFIG_LULL_RESIDENCY

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

DECLARE_PER_CPU(struct lull_cpu, lull_cpu);
DECLARE_STATIC_KEY_FALSE(lull_residency_on);

void __lull_unpark(struct mm_struct *mm);
void lull_unload(void);

/* Has this CPU @mm loaded, and not parked? */
static __always_inline bool lull_is_loaded(struct mm_struct *mm)
{
	return __this_cpu_read(lull_cpu.loaded) == mm;
}

/**
 * lull_left() - the walks of the address space that was loaded before have ended
 *
 * Context: preemption is off. After TTBR0_EL1 and the ASID were changed, this CPU
 *	has executed an ISB and then a DSB.
 */
static __always_inline void lull_left(void)
{
	/* The DSB orders it after all walks. */
	WRITE_ONCE(*this_cpu_ptr(&lull_cpu.leaving), NULL);
}

/* TTBR0_EL1 is set. A task that stays (exec) does not reach __switch_to(). */
static __always_inline void lull_switched(struct task_struct *tsk)
{
	if (tsk == current) {
		dsb(ish);
		lull_left();
	}
}

/**
 * lull_park() - load no address space while a kernel thread runs
 * @tsk: the kernel thread, or current if it stays
 *
 * Context: interrupts are off.
 */
static __always_inline void lull_park(struct task_struct *tsk)
{
	if (static_branch_likely(&lull_residency_on) &&
	    __this_cpu_read(lull_cpu.loaded)) {
		lull_unload();
		lull_switched(tsk);
	}
}

/**
 * lull_unpark() - back to user mode without a switch of address spaces
 * @mm: the address space, which this CPU has loaded, or has parked
 *
 * Context: interrupts are off.
 */
static __always_inline void lull_unpark(struct mm_struct *mm)
{
	if (unlikely(!lull_is_loaded(mm)))
		__lull_unpark(mm);
}

#else /* CONFIG_LULL_RESIDENCY */

static inline bool lull_is_loaded(struct mm_struct *mm)
{
	return true;
}

static inline void lull_unload(void) {}
static inline void lull_left(void) {}
static inline void lull_switched(struct task_struct *tsk) {}
static inline void lull_park(struct task_struct *tsk) {}
static inline void lull_unpark(struct mm_struct *mm) {}

#endif /* CONFIG_LULL_RESIDENCY */

#endif /* __ASM_LULL_LOADED_H */
