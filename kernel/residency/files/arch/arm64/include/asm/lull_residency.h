/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: know which CPUs have an address space loaded, and invalidate only there.
 *
 * A CPU has an address space *loaded* while TTBR0_EL1 names its page tables or its
 * ASID is the current one. Only then can the CPU walk these tables or use entries
 * of this ASID. arch/arm64/mm/lull/residency.c has the protocol and its proof.
 *
 * Without CONFIG_LULL_RESIDENCY every function here leaves its caller as it was.
 */
#ifndef __ASM_LULL_RESIDENCY_H
#define __ASM_LULL_RESIDENCY_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/types.h>

#include <asm/barrier.h>
#include <asm/current.h>

struct task_struct;

/**
 * enum res_reach - which CPUs still need the TLBI of a flush
 * @RES_NOWHERE: none; the TLBI is elided
 * @RES_DONE: none; the decision has executed a TLBI of the whole ASID
 * @RES_HERE: this CPU
 * @RES_EVERYWHERE: all CPUs
 */
enum res_reach { RES_NOWHERE, RES_DONE, RES_HERE, RES_EVERYWHERE };

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

enum res_reach __lull_decide(struct mm_struct *mm, bool tables);
bool __lull_flush_mm(struct mm_struct *mm, bool tables);
bool __lull_flush_range(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long stride,
			bool last_level, int tlb_level, bool tables);
bool __lull_is_nowhere(struct mm_struct *mm);
void __lull_park(struct task_struct *tsk);
void __lull_unpark(struct mm_struct *mm);

void lull_init_mm(struct mm_struct *mm);
void lull_unload(void);
void lull_new_asid(struct mm_struct *mm);

/* A hint: is @mm still loaded on the CPU where a flush found it last? */
static __always_inline bool lull_is_found(struct mm_struct *mm)
{
	unsigned int found = READ_ONCE(mm->context.residency.found);

	return found && found != raw_smp_processor_id() + 1 &&
	       READ_ONCE(per_cpu(lull_cpu.loaded, found - 1)) == mm;
}

/*
 * Ask residency about a flush by address? Not if a broadcast is needed anyway, so that
 * a process with many running threads pays little. Also while residency is off, if
 * tables are freed and an earlier flush was elided: see "Freed tables" in residency.c.
 * A flush of the whole address space need not ask then, because its broadcast is of
 * the whole ASID.
 */
static __always_inline bool lull_asks(struct mm_struct *mm, bool tables)
{
	if (tables && READ_ONCE(mm->context.residency.passed))
		return true;
	return static_branch_likely(&lull_residency_on) && !lull_is_found(mm);
}

/**
 * lull_decide() - which CPUs need the TLBI of a flush?
 * @mm: the address space
 * @tables: the flush is for page tables that are freed next, not only for leaves
 *
 * Context: the caller has executed DSB ISHST since the stores to the tables.
 *	Preemption is off, and stays off until a local TLBI has completed.
 * Return: the CPUs on which the caller must see to the TLBI
 */
static __always_inline enum res_reach lull_decide(struct mm_struct *mm,
						  bool tables)
{
	return lull_asks(mm, tables) ? __lull_decide(mm, tables) :
				       RES_EVERYWHERE;
}

/**
 * lull_flush_mm() - flush an address space where it is loaded
 * @mm: the address space
 * @tables: as for lull_decide()
 *
 * Context: the caller has executed DSB ISHST since the stores to the tables.
 * Return: true if the flush is complete; false if the caller must broadcast it.
 */
static __always_inline bool lull_flush_mm(struct mm_struct *mm, bool tables)
{
	return static_branch_likely(&lull_residency_on) &&
	       !lull_is_found(mm) && __lull_flush_mm(mm, tables);
}

/**
 * lull_flush_range() - flush a range where its address space is loaded
 * @mm: the address space
 * @start: the first address; a multiple of @stride
 * @end: the end of the range, exclusive; a multiple of @stride
 * @stride: the number of bytes that one entry maps
 * @last_level: true if only leaf entries have changed
 * @tlb_level: the level of these entries, or TLBI_TTL_UNKNOWN
 * @tables: as for lull_decide()
 *
 * Context: as lull_flush_mm(). The range is not too long for TLBIs by address.
 * Return: as lull_flush_mm()
 */
static __always_inline bool
lull_flush_range(struct mm_struct *mm, unsigned long start, unsigned long end,
		 unsigned long stride, bool last_level, int tlb_level,
		 bool tables)
{
	return lull_asks(mm, tables) &&
	       __lull_flush_range(mm, start, end, stride, last_level,
				  tlb_level, tables);
}

/**
 * lull_is_nowhere() - is an address space loaded on no CPU?
 * @mm: the address space
 *
 * A hint: a CPU may load @mm at any time. No TLBI may be elided because of it.
 */
static __always_inline bool lull_is_nowhere(struct mm_struct *mm)
{
	return static_branch_likely(&lull_residency_on) &&
	       __lull_is_nowhere(mm);
}

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
	/* The DSB orders it after all walks; pairs with res_is_loaded() */
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
	if (static_branch_likely(&lull_residency_on))
		__lull_park(tsk);
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

static inline enum res_reach lull_decide(struct mm_struct *mm, bool tables)
{
	return RES_EVERYWHERE;
}

static inline bool lull_flush_mm(struct mm_struct *mm, bool tables)
{
	return false;
}

static inline bool lull_flush_range(struct mm_struct *mm, unsigned long start,
				    unsigned long end, unsigned long stride,
				    bool last_level, int tlb_level, bool tables)
{
	return false;
}

static inline bool lull_is_nowhere(struct mm_struct *mm)
{
	return false;
}

static inline bool lull_is_loaded(struct mm_struct *mm)
{
	return true;
}

static inline void lull_init_mm(struct mm_struct *mm) {}
static inline void lull_unload(void) {}
static inline void lull_new_asid(struct mm_struct *mm) {}
static inline void lull_left(void) {}
static inline void lull_switched(struct task_struct *tsk) {}
static inline void lull_park(struct task_struct *tsk) {}
static inline void lull_unpark(struct mm_struct *mm) {}

#endif /* CONFIG_LULL_RESIDENCY */

#endif /* __ASM_LULL_RESIDENCY_H */
