/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: know on which CPUs an address space is loaded, and tell only those
 * of a TLB invalidation.
 *
 * An address space is *loaded* on a CPU while TTBR0_EL1 points to its tables, or
 * its ASID is the current one: then the CPU may walk its tables at any time.
 * What is loaded nowhere needs no invalidation now, only a note for whoever
 * loads it next; what is loaded here alone needs a local one. The word in
 * mm_context_t that this is decided by, and why it is right, are explained in
 * arch/arm64/mm/lull/residency.c.
 *
 * Who flushes asks first, and has nothing left to do when the answer is true:
 *
 *	lull_flush_mm()		the whole address space
 *	lull_flush_page()	a page's leaf entry
 *	lull_flush_range()	a range
 *	lull_decide()		is it for nobody, this CPU, or all of them? For who
 *				issues the TLBIs
 *
 * They say whether tables were taken away, or only leaves: a CPU may use copies of
 * what stood in a freed table for whatever its page becomes.
 *
 * Who changes what a CPU has loaded says so:
 *
 *	lull_load()		this address space, before TTBR0_EL1 is set
 *	lull_step_aside()	that could not be done without the lock
 *	lull_was_here()		has no other run in user mode here since?
 *	lull_unpark()		the same again, that may have been parked
 *	lull_switched()		it is loaded now
 *	lull_left()		and the CPU has executed a DSB since
 *	lull_park()		none: a kernel thread needs no user mappings
 *	lull_unload()		none, at once: there will be no __switch_to()
 *	lull_is_parked()	may TTBR0_EL1 not be pointed to active_mm again?
 *
 * Without CONFIG_LULL_RESIDENCY each is what the caller did before.
 */
#ifndef __ASM_LULL_RESIDENCY_H
#define __ASM_LULL_RESIDENCY_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/types.h>

struct task_struct;

/**
 * enum res_reach - who must be told of a flush
 * @RES_NOWHERE: nobody; the word remembers it
 * @RES_HERE: this CPU
 * @RES_EVERYWHERE: all
 * @RES_ASID_HERE: this CPU, of the whole ASID; lull_decide() does it
 * @RES_ASID_EVERYWHERE: all, of the whole ASID; lull_decide() does it
 */
enum res_reach {
	RES_NOWHERE,
	RES_HERE,
	RES_EVERYWHERE,
	RES_ASID_HERE,
	RES_ASID_EVERYWHERE,
};

#ifdef CONFIG_LULL_RESIDENCY

/**
 * struct lull_cpu - what a CPU has loaded
 * @loaded: the address space; NULL when none, or parked
 * @leaving: one that it has loaded no longer, but no DSB has been executed since
 * @counted: is it counted in the word of @loaded?
 * @leaving_counted: the same of @leaving
 * @parked: the reserved tables are loaded, and not active_mm's
 * @last: context.id of what was loaded last; it is never given to another
 *
 * Written by the CPU itself, with interrupts or at least preemption off. Others
 * read @loaded and @leaving.
 */
struct lull_cpu {
	struct mm_struct *loaded;
	struct mm_struct *leaving;
	bool counted;
	bool leaving_counted;
	bool parked;
	u64 last;
};

DECLARE_PER_CPU(struct lull_cpu, lull_cpu);
DECLARE_STATIC_KEY_FALSE(lull_residency_track);
DECLARE_STATIC_KEY_FALSE(lull_residency_on);

enum res_reach __lull_decide(struct mm_struct *mm, bool tables);
bool __lull_flush_mm(struct mm_struct *mm, bool tables);
bool __lull_flush_page(struct mm_struct *mm, unsigned long addr);
bool __lull_flush_range(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long stride,
			bool last_level, int tlb_level, bool tables);
bool __lull_is_nowhere(struct mm_struct *mm);
bool __lull_load(struct mm_struct *mm, u64 id, bool locked);
void __lull_switched(void);
void __lull_left(void);
void __lull_park(struct task_struct *tsk);
void __lull_unpark(struct mm_struct *mm);
void __lull_unload(void);

void lull_init_mm(struct mm_struct *mm);
void lull_step_aside(void);
void lull_pin(struct mm_struct *mm);
u64 lull_rename(struct mm_struct *mm);
void lull_new_asid(struct mm_struct *mm, bool same_number);

/**
 * lull_decide() - who must be told that entries have changed
 * @mm: the address space
 * @tables: tables were taken away, which are freed next
 *
 * Context: DSB ISHST has been executed since the stores to the tables.
 *	Preemption is off, and stays so until a local TLBI has completed.
 * Return: RES_NOWHERE also when all has been done.
 */
static __always_inline enum res_reach lull_decide(struct mm_struct *mm,
						  bool tables)
{
	return static_branch_likely(&lull_residency_on) ?
	       __lull_decide(mm, tables) : RES_EVERYWHERE;
}

static __always_inline bool lull_flush_mm(struct mm_struct *mm, bool tables)
{
	return static_branch_likely(&lull_residency_on) &&
	       __lull_flush_mm(mm, tables);
}

static __always_inline bool lull_flush_page(struct mm_struct *mm,
					    unsigned long addr)
{
	return static_branch_likely(&lull_residency_on) &&
	       __lull_flush_page(mm, addr);
}

static __always_inline bool lull_flush_range(struct mm_struct *mm,
					     unsigned long start,
					     unsigned long end,
					     unsigned long stride,
					     bool last_level, int tlb_level,
					     bool tables)
{
	return static_branch_likely(&lull_residency_on) &&
	       __lull_flush_range(mm, start, end, stride, last_level,
				  tlb_level, tables);
}

static __always_inline bool lull_tracks(void)
{
	return static_branch_likely(&lull_residency_track);
}

static __always_inline bool lull_load(struct mm_struct *mm, u64 id, bool locked)
{
	return !lull_tracks() || __lull_load(mm, id, locked);
}

static __always_inline bool lull_was_here(u64 id)
{
	if (!lull_tracks())
		return false;
	if (__this_cpu_read(lull_cpu.last) == id)
		return true;
	__this_cpu_write(lull_cpu.last, id);
	return false;
}

/* Not asked of a key: what has been parked must come back. */
static __always_inline bool lull_is_parked(void)
{
	return __this_cpu_read(lull_cpu.parked);
}

static __always_inline void lull_unpark(struct mm_struct *mm)
{
	if (lull_is_parked())
		__lull_unpark(mm);
}

/* A moment ago no CPU had it loaded. Another may be about to: a hint. */
static __always_inline bool lull_is_nowhere(struct mm_struct *mm)
{
	return static_branch_likely(&lull_residency_on) &&
	       __lull_is_nowhere(mm);
}

/* MANY CPUs have it: its entries may be shared between them (FEAT_TTCNP). */
static __always_inline bool lull_may_share(void)
{
	return !lull_tracks() || !__this_cpu_read(lull_cpu.counted);
}

/* Nor this: what is counted must not stay so. */
static __always_inline void lull_left(void)
{
	if (__this_cpu_read(lull_cpu.leaving))
		__lull_left();
}

/* Nor this: there may be no __switch_to() before the address space is freed. */
static __always_inline void lull_switched(struct task_struct *tsk)
{
	if (__this_cpu_read(lull_cpu.leaving) && tsk == current)
		__lull_switched();
}

static __always_inline void lull_park(struct task_struct *tsk)
{
	if (static_branch_likely(&lull_residency_on))
		__lull_park(tsk);
}

static __always_inline void lull_unload(void)
{
	if (lull_tracks())
		__lull_unload();
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

static inline bool lull_flush_page(struct mm_struct *mm, unsigned long addr)
{
	return false;
}

static inline bool lull_flush_range(struct mm_struct *mm, unsigned long start,
				    unsigned long end, unsigned long stride,
				    bool last_level, int tlb_level, bool tables)
{
	return false;
}

static inline void lull_init_mm(struct mm_struct *mm) {}

static inline bool lull_load(struct mm_struct *mm, u64 id, bool locked)
{
	return true;
}

static inline bool lull_was_here(u64 id)
{
	return false;
}

static inline u64 lull_rename(struct mm_struct *mm)
{
	return atomic64_read(&mm->context.id);
}

static inline void lull_step_aside(void) {}
static inline void lull_park(struct task_struct *tsk) {}
static inline void lull_unload(void) {}
static inline void lull_pin(struct mm_struct *mm) {}
static inline void lull_new_asid(struct mm_struct *mm, bool same_number) {}
static inline void lull_left(void) {}
static inline void lull_switched(struct task_struct *tsk) {}

static inline bool lull_is_parked(void)
{
	return false;
}

static inline void lull_unpark(struct mm_struct *mm) {}

static inline bool lull_is_nowhere(struct mm_struct *mm)
{
	return false;
}

static inline bool lull_may_share(void)
{
	return true;
}

#endif /* CONFIG_LULL_RESIDENCY */

#endif /* __ASM_LULL_RESIDENCY_H */
