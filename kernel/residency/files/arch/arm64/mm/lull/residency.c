// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: on which CPUs an address space is loaded, and what follows for TLB
 * invalidations.
 *
 * What must hold
 * ==============
 *
 *  1. No CPU translates through an entry that was true before a flush and is
 *     not after it, once the flush has returned.
 *  2. No page, and no page-table page, is freed while a CPU can translate or
 *     walk through it, speculation included.
 *  3. A CPU that is not counted, and an address space that is not MANY: the CPU
 *     performs no walk of its tables, and uses no entry of its ASID.
 *
 * A flush that finds the address space loaded nowhere leaves the TLBI out and
 * sets STALE. Entries that are no longer true may then stay in every TLB, and
 * nobody can use them: 3. says so until a CPU loads the address space again,
 * and that CPU forgets the ASID first. Loaded on this CPU alone, a local TLBI
 * does, and the others are noted as stale (RSTALE), if there can be any.
 *
 * Why a flush and a load cannot miss each other
 * =============================================
 *
 * Both change the word by an atomic read-modify-write, so that one comes first:
 *
 *	flush				load
 *	-----				----
 *	store to the table		read-modify-write of the word
 *	DSB ISHST			TLBI, DSB NSH, if it says so
 *	read-modify-write of the word	TTBR0_EL1, ISB
 *					a walk of the table
 *
 * Either: the load is first. The flush finds it counted, and broadcasts (or it
 * is this very CPU).
 *
 * Or: the flush is first. The load finds STALE and forgets what it held; its
 * walks come later still, and see the store, which was made visible to all
 * walkers before the flush's read-modify-write.
 *
 * So the flush may not decide to leave something out by a plain read, nor when
 * the word would not change: the store could be delayed behind the read (a
 * store buffer), and a load between them would find neither STALE nor the new
 * table. Whoever broadcasts leaves nothing out, and a plain read is enough.
 *
 * Leaving
 * =======
 *
 * To take another TTBR0_EL1 does not end walks that are under way: it takes an
 * ISB, and a DSB for those walks to complete, before "not loaded" may be said.
 * __switch_to() has that DSB; so the count goes down there, with release. Where
 * the task stays (exec, exit_mm(), kthread_use_mm() and back, a CPU that goes
 * offline) the DSB is executed here.
 *
 * "Not loaded" takes more than a reserved TTBR0_EL1: with TCR_EL1.A1 set the
 * ASID is TTBR1_EL1's, and under it the CPU would go on using what it holds,
 * table descriptors too, to walk through pages that may be anybody's by then.
 * Hence ASID 0 with the reserved tables.
 *
 * CPUs that are idle, or run a kernel thread, would keep the address space
 * loaded for as long (lazy TLB): they park it, and load it again on the way
 * back, when the scheduler believes that it is still there.
 *
 * ASIDs
 * =====
 *
 * Read after the decision has been won: before, the number may be given away.
 * Won "nowhere" no number is needed; won "here", this CPU has it loaded, and a
 * number that is loaded somewhere is kept over a roll-over. A fresh number has
 * no entries in any TLB, and clears what was noted about the old one, unless
 * another CPU still has it loaded under that; the same number in a new
 * generation clears nothing.
 *
 * MANY
 * ====
 *
 * Beyond a limit nobody is counted, no shared line is written at a context
 * switch, and every flush is a broadcast: heavily threaded processes are where
 * they were. Set first, and only then what STALE stands for is made good by a
 * broadcast: a flush that comes between broadcasts as well. Until then others
 * that load it find STALE, and do the same for themselves.
 *
 * The entries of counted address spaces are not shared between CPUs
 * (FEAT_TTCNP): a local TLBI would be too little, or too much.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <kunit/visibility.h>
#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "residency.h"

#define CREATE_TRACE_POINTS
#include "trace_residency.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "lull."

enum { OFF, COUNTED, RENAME, STICKY };

static const char * const residency_policies[] = {
	[OFF]		= "off",
	[COUNTED]	= "counted",
	[RENAME]	= "rename",
	[STICKY]	= "sticky",
	NULL
};

DEFINE_PER_CPU(struct lull_cpu, lull_cpu);

/* Flushes ask. Off, they broadcast, and words are kept all the same. */
DEFINE_STATIC_KEY_FALSE(lull_residency_on);
static DEFINE_STATIC_KEY_FALSE(residency_sticky);
static DEFINE_STATIC_KEY_FALSE(residency_rename);

static unsigned int residency_limit = 4;

static int set_limit(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 1, RES_MAX_LIMIT);
}

static const struct kernel_param_ops limit_ops = {
	.set = set_limit,
	.get = param_get_uint,
};

module_param_cb(residency_limit, &limit_ops, &residency_limit, 0644);
MODULE_PARM_DESC(residency_limit, "the most CPUs an address space is counted on");

static atomic64_t *word_of(struct mm_struct *mm)
{
	return &mm->context.residency;
}

/**
 * lull_init_mm() - a new address space, loaded nowhere, and without an ASID
 * @mm: the address space
 *
 * With the policy off it is MANY for its life: nothing is written for it.
 */
void lull_init_mm(struct mm_struct *mm)
{
	bool on = static_branch_likely(&lull_residency_on);

	atomic64_set(word_of(mm), on ? 0 : RES_MANY);
}

/* --- Flushing --- */

/*
 * Who must be told. When the answer is "here", the caller must stay on this CPU
 * until its TLBI has completed, so preemption is off already.
 */
static enum res_reach decide(struct mm_struct *mm)
{
	unsigned int cpu = smp_processor_id();
	bool here = lull_is_loaded(mm);
	atomic64_t *word = word_of(mm);
	enum res_reach reach;
	s64 w, next;

	/* The tables' stores first, see above: also for walkers. */
	dsb(ishst);
	w = atomic64_read(word);
	do {
		next = res_flush(w, cpu, here, &reach);
		if (reach == RES_EVERYWHERE)
			break;
	} while (!atomic64_try_cmpxchg(word, &w, next));

	trace_lull_flush(mm, w, reach);
	switch (reach) {
	case RES_NOWHERE:
		count_vm_event(TLBI_ELIDED);
		break;
	case RES_HERE:
		count_vm_event(TLBI_LOCAL);
		break;
	case RES_EVERYWHERE:
		count_vm_event(TLBI_BROADCAST);
		break;
	}
	return reach;
}

static void forget_asid_here(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	__tlbi(aside1, asid);
	__tlbi_user(aside1, asid);
	dsb(nsh);
}

/**
 * __lull_flush_mm() - flush all of an address space where it is loaded
 * @mm: the address space
 *
 * Return: true when that is done; false when it is for everybody.
 */
bool __lull_flush_mm(struct mm_struct *mm)
{
	enum res_reach reach;

	preempt_disable();
	reach = decide(mm);
	if (reach == RES_HERE)
		forget_asid_here(mm);
	preempt_enable();

	if (reach == RES_EVERYWHERE)
		return false;
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
	return true;
}

/**
 * __lull_flush_page() - flush the leaf entry of a page where it is loaded
 * @mm: the address space
 * @addr: an address in the page
 *
 * Return: true when that is done, and completed; false when it is for everybody.
 */
bool __lull_flush_page(struct mm_struct *mm, unsigned long addr)
{
	enum res_reach reach;

	preempt_disable();
	reach = decide(mm);
	if (reach == RES_HERE) {
		unsigned long op = __TLBI_VADDR(addr, ASID(mm));

		__tlbi(vale1, op);
		__tlbi_user(vale1, op);
		dsb(nsh);
	}
	preempt_enable();

	if (reach == RES_EVERYWHERE)
		return false;
	addr &= PAGE_MASK;
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, addr, addr + PAGE_SIZE);
	return true;
}

/**
 * __lull_flush_range() - flush a range where its address space is loaded
 * @mm: the address space
 * @start: its first address, aligned to @stride
 * @end: the address after it, aligned to @stride
 * @stride: the memory an entry maps
 * @last_level: no page tables were changed, only leaves
 * @tlb_level: their level, or TLBI_TTL_UNKNOWN
 *
 * A range that is too long becomes the whole address space here, as it would
 * for a broadcast: under the same decision, not a second one.
 *
 * Return: true when that is done, and completed; false when it is for everybody.
 */
bool __lull_flush_range(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long stride,
			bool last_level, int tlb_level)
{
	unsigned long pages = (end - start) >> PAGE_SHIFT;
	enum res_reach reach;

	preempt_disable();
	reach = decide(mm);
	if (reach == RES_HERE) {
		unsigned long asid = ASID(mm);

		if ((!system_supports_tlb_range() &&
		     (end - start) >= (MAX_DVM_OPS * stride)) ||
		    pages > MAX_TLBI_RANGE_PAGES)
			forget_asid_here(mm);
		else if (last_level)
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

/* --- Loading and leaving --- */

static void forget_asid_everywhere(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	dsb(ishst);
	__tlbi(aside1is, asid);
	__tlbi_user(aside1is, asid);
	__tlbi_sync_s1ish();
}

/**
 * __lull_left() - the address space that was loaded before is not any more
 *
 * Context: TTBR0_EL1 and the ASID are others', and this CPU has executed an ISB
 * and then a DSB: no walk is under way.
 */
void __lull_left(void)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	if (cpu->leaving_counted)
		atomic64_fetch_dec_release(word_of(cpu->leaving));
	cpu->leaving = NULL;
}

/* What was loaded is on its way out. */
static void leave(struct lull_cpu *cpu)
{
	/* Two switches with no __switch_to() between: the first is over. */
	if (cpu->leaving) {
		isb();
		dsb(ish);
		__lull_left();
	}
	cpu->leaving = cpu->loaded;
	cpu->leaving_counted = cpu->counted;
	cpu->loaded = NULL;
}

/**
 * lull_load() - this CPU is about to load an address space
 * @mm: the address space
 * @id: its context.id, which this CPU has announced in active_asids
 * @locked: cpu_asid_lock is held
 *
 * Until it is counted it may be renamed by another CPU that loads it. So with the
 * policy "rename" what is stale is counted under the lock, as it is renamed; and
 * whoever comes without the lock looks at the id again. Counted, it keeps it.
 *
 * Context: preemption is off; TTBR0_EL1 is set next.
 * Return: true when it is counted and @id holds. Else the caller steps aside,
 * takes the lock, and announces the right id before it tries again.
 */
bool lull_load(struct mm_struct *mm, u64 id, bool locked)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);
	unsigned int limit = READ_ONCE(residency_limit);
	bool sticky = static_branch_unlikely(&residency_sticky);
	atomic64_t *word = word_of(mm);
	enum res_load todo = RES_LOAD_CLEAN;
	s64 w, next;

	if (cpu->loaded == mm)
		goto out;
	w = atomic64_read(word);
	do {
		if (w & RES_MANY) {
			next = w;
			todo = w & RES_STALE ? RES_LOAD_BROADCAST : RES_LOAD_CLEAN;
			break;
		}
		next = res_load(w, smp_processor_id(), limit, sticky, &todo);
		if (todo == RES_LOAD_LOCAL && !locked &&
		    static_branch_unlikely(&residency_rename))
			return false;
	} while (!atomic64_try_cmpxchg(word, &w, next));

	leave(cpu);
	trace_lull_load(mm, w, todo);
	switch (todo) {
	case RES_LOAD_CLEAN:
		break;
	case RES_LOAD_LOCAL:
		count_vm_event(TLBI_STALE);
		forget_asid_here(mm);
		break;
	case RES_LOAD_BROADCAST:
		count_vm_event(TLBI_STALE);
		forget_asid_everywhere(mm);
		/* Whoever set MANY takes back what it has made good. */
		if (!(w & RES_MANY))
			atomic64_fetch_andnot(RES_OLD, word);
		break;
	}
	cpu->loaded = mm;
	cpu->counted = !(next & RES_MANY);
out:
	return atomic64_read(&mm->context.id) == id;
}

/**
 * lull_switched() - TTBR0_EL1 is set
 * @tsk: the task that will run with it
 *
 * The scheduler goes on to __switch_to(), which has the DSB. A task that changes
 * its own address space does not.
 */
void lull_switched(struct task_struct *tsk)
{
	if (tsk != current || !__this_cpu_read(lull_cpu.leaving))
		return;
	dsb(ish);
	__lull_left();
}

static void set_nothing(void)
{
	/* With SW PAN both are there since the kernel was entered. */
	if (!system_uses_ttbr0_pan())
		cpu_do_switch_mm(__pa_symbol(reserved_pg_dir), &init_mm);
}

/**
 * lull_step_aside() - lull_load() could not
 *
 * This CPU has announced the ASID of the next address space, and runs under that
 * of the one before: a roll-over would give that to others, and what the CPU
 * fetches after its flush would stay.
 */
void lull_step_aside(void)
{
	set_nothing();
	dsb(nsh);
}

/**
 * lull_park() - this CPU needs no user mappings for a while
 * @tsk: the kernel thread that is about to run, or current, which has no
 *	address space any more
 *
 * Of what is MANY nothing is gained: it stays, as ever (lazy TLB).
 *
 * Context: interrupts are off.
 */
void lull_park(struct task_struct *tsk)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	if (!cpu->loaded || !cpu->counted ||
	    static_branch_unlikely(&residency_sticky))
		return;
	count_vm_event(TLB_PARK);
	leave(cpu);
	set_nothing();
	lull_switched(tsk);
}

/**
 * lull_unload() - this CPU goes offline
 *
 * Context: preemption is off.
 */
void lull_unload(void)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	/* Idle, it has parked already, and has nothing, unless that is MANY. */
	if (cpu->loaded)
		leave(cpu);
	set_nothing();
	dsb(ish);
	lull_left();
}

/* --- ASIDs --- */

/**
 * lull_rename() - take an address space's number away, if it had better have
 *	another one
 * @mm: about to be loaded
 *
 * The number stays in use until the ASIDs roll over: entries under it are in the
 * TLBs. The word says STALE from before the number is taken until it is counted,
 * and only this lock's holder counts what is stale: so nobody runs under the old
 * number, and no flush needs one.
 *
 * Context: cpu_asid_lock is held.
 * Return: its context.id; 0 when it needs a new one.
 */
u64 lull_rename(struct mm_struct *mm)
{
	u64 id = atomic64_read(&mm->context.id);
	atomic64_t *word = word_of(mm);
	s64 w;

	if (!id || !static_branch_unlikely(&residency_rename))
		return id;
	w = atomic64_read(word);
	do {
		if (!res_worth_renaming(w, smp_processor_id()))
			return id;
	} while (!atomic64_try_cmpxchg(word, &w, w | RES_STALE));

	count_vm_event(ASID_RENAME);
	atomic64_set(&mm->context.id, 0);
	return 0;
}

/**
 * lull_new_asid() - an address space is given an ASID of this generation
 * @mm: the address space
 * @same_number: it is the number that it had before
 *
 * Before context.id is set: nobody loads it under the new number before that, and
 * what is noted afterwards may be true of it. A flush that comes between the two
 * costs one TLBI for nothing.
 *
 * Context: cpu_asid_lock is held.
 */
void lull_new_asid(struct mm_struct *mm, bool same_number)
{
	atomic64_t *word = word_of(mm);
	s64 w = atomic64_read(word);

	if (same_number)
		return;
	while (!atomic64_try_cmpxchg(word, &w, res_fresh(w)))
		;
}

/**
 * lull_pin() - a device uses the address space's ASID from now on (SVA)
 * @mm: the address space
 *
 * Its TLB takes part in broadcasts, so let there be some.
 */
void lull_pin(struct mm_struct *mm)
{
	atomic64_t *word = word_of(mm);
	s64 w = atomic64_fetch_or(RES_MANY, word);

	if (!(w & RES_OLD))
		return;
	forget_asid_everywhere(mm);
	atomic64_fetch_andnot(RES_OLD, word);
}

/* --- The switch --- */

static void set_key(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

/*
 * Words are kept whatever the policy, so that it may change at any time: what
 * was left out under the old one stays noted, and whoever loads it looks.
 */
static void residency_apply(int policy)
{
	set_key(&residency_sticky, policy == STICKY);
	set_key(&residency_rename, policy == RENAME);
	set_key(&lull_residency_on, policy != OFF);
}

VISIBLE_IF_KUNIT struct lull_switch lull_residency_switch =
	LULL_SWITCH(residency, residency_policies, OFF, residency_apply);

static int __init residency_boot(char *name)
{
	return lull_switch_boot(&lull_residency_switch, name);
}
early_param("lull_residency", residency_boot);

static int __init residency_init(void)
{
	return lull_switch_register(&lull_residency_switch);
}
subsys_initcall(residency_init);
