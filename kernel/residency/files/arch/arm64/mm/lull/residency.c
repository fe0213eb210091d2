// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: know which CPUs have an address space loaded, and invalidate only there.
 *
 * State
 * =====
 *
 * Per address space (mm), in mm_cpumask() and mm_context_t:
 *
 *	mm_cpumask()	the *clean* CPUs: the TLB of such a CPU has no entry of the mm
 *			that is out of date. Any other CPU must invalidate the ASID
 *			locally before it walks the tables.
 *	looks		a flush adds 1 when it begins a look (below), and 1 when it
 *			ends it. So looks is odd during a look.
 *	walker		Which CPUs may have walked the tables since the last broadcast
 *			of the whole ASID for freed tables? 0: none. RES_WALKERS:
 *			several. Otherwise one: walker - 1.
 *	passed		Since that broadcast, a flush was elided for a CPU that may
 *			have walked the tables.
 *	found		A hint: on CPU found - 1 a flush found the mm last. 0: none.
 *
 * Per CPU, in lull_cpu: what it has loaded, and what it is leaving.
 *
 * Protocol
 * ========
 *
 * Load (lull_load()): leaving = loaded; loaded = mm; full barrier; test the own
 * bit. Set: nothing else, no atomic, no write to a shared line. Clear
 * (res_make_clean()): set the bit and walker, DSB ISH, TLBI of the ASID, DSB; no TLBI
 * if no CPU has loaded the mm before. Then TTBR0_EL1.
 *
 * Leave: TTBR0_EL1 and the ASID are changed, ISB, DSB; then leaving = NULL. MSR
 * and ISB alone do not end walks that are under way; a DSB waits for them.
 * __switch_to() has the DSB. Where the task stays (exec, exit_mm(), kthread_use_mm()
 * and back, EFI, a CPU that goes offline) lull_switched() executes the DSB.
 *
 * Flush (__lull_decide()), after DSB ISHST. This CPU counts as "another" one below
 * unless it has the mm loaded. If no other CPU is clean, a local TLBI is enough where
 * the mm is loaded here, and no TLBI is needed where it is not. If others are clean,
 * the flush *looks*: for each of them, clear its bit, full barrier, read its loaded,
 * then its leaving. A CPU where neither names the mm has been *passed by*: it
 * invalidates the ASID when it loads the mm again. At the first CPU where one does,
 * the look ends: this CPU gets its bit back, and the flush is a broadcast. One flush of
 * an mm looks at a time. Any other flush of the mm is a broadcast meanwhile.
 *
 * Why a load and a flush do not miss each other
 * =============================================
 *
 * A CPU that has loaded the mm has its bit set, except while a flush looks. So:
 *
 *  1. The bit is clear, and the flush passes the CPU by without a look. The CPU
 *     has to set the bit before its first walk:
 *
 *	flush				load
 *	-----				----
 *	store to the table		set the bit (and walker)
 *	DSB ISHST			DSB ISH
 *	read the bit: clear		TLBI, DSB NSH, TTBR0_EL1, ISB, walk
 *
 *     If the flush reads the bit as clear, the walk sees the store (models/litmus,
 *     READ). The TLBI has removed older entries.
 *
 *  2. The bit is set, and the flush looks:
 *
 *	flush				load
 *	-----				----
 *	clear the bit			loaded = mm
 *	full barrier			full barrier
 *	read loaded			test the bit
 *
 *     Either the flush finds the mm loaded, or the load finds the bit clear, and
 *     invalidates the ASID (models/litmus, LOAD). A CPU that is on its way out is
 *     found by leaving: it sets leaving before it changes loaded, and the flush reads
 *     loaded before leaving (models/litmus, LOOK).
 *
 *  3. The bit of a CPU that has loaded the mm is clear, because another flush looks
 *     and has not put it back yet. looks is odd then, or has changed when this flush
 *     reads it again after the mask (models/litmus, SEQ): the flush is a broadcast.
 *
 * A look that passes a CPU by costs one atomic. That CPU executes one TLBI when it
 * loads the mm again, and no other flush looks at it until then. To look costs more
 * than a broadcast if the mm is loaded elsewhere after all. So the flush first reads,
 * and writes nothing: the CPU where the mm was found last, then RES_SURVEY clean CPUs
 * at most. If one of them has the mm loaded, the flush is a broadcast at once.
 *
 * ASIDs
 * =====
 *
 * An mm that a CPU runs, or has parked, keeps its number over a roll-over. So the
 * number that a flush reads after its decision is the one that this CPU runs under.
 * After a roll-over each CPU invalidates its whole TLB before it uses a number of the
 * new generation. This removes entries under the old numbers.
 *
 * CnP is never set in TTBR0_EL1: CPUs that share entries would share what only one of
 * them invalidates. TTBR1_EL1 may have it, because no flush of the kernel's entries is
 * local.
 *
 * Parking
 * =======
 *
 * A CPU that is idle or runs a kernel thread would keep the last mm loaded (lazy
 * TLB) and turn each flush of that mm into a broadcast. It parks instead: reserved
 * tables and ASID 0. ASID 0 because the current ASID, which TTBR1_EL1 has, lets a
 * CPU use entries, table entries among them, whatever TTBR0_EL1 names. On the way
 * back the scheduler sees the same mm before and after, and switches nothing, so
 * lull_unpark() loads the mm. No other user code has run in between, so the branch
 * predictors need no hardening.
 *
 * With software PAN, uaccess_enable() loads what current has saved. From where an mm
 * is left until the stack is switched, current is the old task, and an NMI may
 * access user memory. So res_leave() changes what current has saved first; the
 * access faults, as if the page were not there.
 *
 * Freed tables
 * ============
 *
 * A CPU without FEAT_nTLBPA may keep copies of descriptors by their physical
 * address until a TLBI that applies to them completes on that CPU. The copies are found
 * by address, under any ASID. A TLBI at the next load is too late: the page of a freed
 * table may by then be a table of another mm that this CPU walks. So a flush that frees
 * tables must reach every CPU that has walked these tables. While that is one CPU
 * (walker), a local TLBI on it is enough. Otherwise the flush is a broadcast. If an
 * earlier flush was elided for a CPU (passed), that CPU may still have copies of the
 * entries of that flush, and the freed tables may have held these entries. So the
 * broadcast is of the whole ASID then.
 *
 * A CPU whose bit is set is walker, or walker is RES_WALKERS. res_make_clean() sets
 * the bit, full barrier, reads walker, and sets it before its DSB ISH and its first
 * walk. So a flush may decide by walker alone, for the reason of 1. above.
 *
 * After a broadcast of the whole ASID no CPU has copies. If a look finds the mm loaded
 * on no other CPU, this CPU becomes walker. The look sets walker, full barrier, and
 * clears the bits then. A CPU that loads the mm meanwhile either is found by its bit,
 * and walker becomes RES_WALKERS, or it reads the new walker and changes it itself. The
 * look ends after the broadcast has completed and passed is cleared.
 *
 * TLBIs under a new ASID number leave copies that were made under the old one. So
 * lull_new_asid() flushes the old number before the mm gets another.
 *
 * Off
 * ===
 *
 * The static key changes flushes and parking only. Loads update the mask with the key
 * off, too, so the key may change at any time. The clear bit of a CPU that was passed by
 * remains until it loads the mm again. passed is read with the key off, too.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "residency.h"

DEFINE_STATIC_KEY_FALSE(lull_residency_on);
DEFINE_PER_CPU(struct lull_cpu, lull_cpu);

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "lull."

/* -1: what the ID registers say. 1: the administrator vouches for all CPUs. */
VISIBLE_IF_KUNIT int lull_residency_ntlbpa __read_mostly = -1;
module_param_named(residency_ntlbpa, lull_residency_ntlbpa, int, 0444);
MODULE_PARM_DESC(residency_ntlbpa, "do all CPUs have FEAT_nTLBPA: 1, 0, or -1 to ask them");

static bool res_ntlbpa(void)
{
	int said = lull_residency_ntlbpa;

	return said < 0 ? alternative_has_cap_unlikely(ARM64_HAS_NTLBPA) : said;
}

/**
 * lull_init_mm() - a new address space, loaded nowhere, and without an ASID
 * @mm: the address space; mm_init() has cleared its cpumask
 */
void lull_init_mm(struct mm_struct *mm)
{
	memset(&mm->context.residency, 0, sizeof(mm->context.residency));
}

/* --- TLBIs --- */

static void res_forget_here(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	__tlbi(aside1, asid);
	__tlbi_user(aside1, asid);
	dsb(nsh);
}

static void res_forget_everywhere(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	__tlbi(aside1is, asid);
	__tlbi_user(aside1is, asid);
	__tlbi_sync_s1ish();
}

/* --- Loading and leaving --- */

/*
 * Entries of @mm in the TLB of this CPU may be out of date. Set the bit and walker, then
 * invalidate the ASID. No CPU has entries if none has ever loaded @mm.
 */
noinline void res_make_clean(struct mm_struct *mm)
{
	unsigned int cpu = smp_processor_id();
	unsigned int *walker = &mm->context.residency.walker;
	unsigned int old;

	cpumask_set_cpu(cpu, mm_cpumask(mm));
	/* The bit before walker is read: pairs with res_decide_tables() */
	smp_mb();
	old = cmpxchg(walker, 0, cpu + 1);
	if (old && old != cpu + 1)
		WRITE_ONCE(*walker, RES_WALKERS);
	/* Both before the first walk: pairs with the DSB ISHST of a flush */
	dsb(ish);
	if (!old)
		return;
	__count_vm_event(TLBI_STALE);
	res_forget_here(mm);
}

/**
 * lull_unload() - load no address space: reserved tables and ASID 0
 *
 * With software PAN both are in place since the kernel was entered.
 *
 * Context: preemption is off. A DSB and lull_left() follow.
 */
void lull_unload(void)
{
	u64 ttbr1;

	res_leave(NULL);
	if (system_uses_ttbr0_pan())
		return;
	ttbr1 = read_sysreg(ttbr1_el1);
	/* With an ISB: no walk of the old tables makes entries of ASID 0. */
	cpu_set_reserved_ttbr0();
	write_sysreg(ttbr1 & ~TTBR_ASID_MASK, ttbr1_el1);
	isb();
	post_ttbr_update_workaround();
}

void __lull_park(struct task_struct *tsk)
{
	if (__this_cpu_read(lull_cpu.loaded)) {
		lull_unload();
		lull_switched(tsk);
	}
}

/* The ASID is this CPU's still, in active_asids or, after a roll-over, reserved. */
void __lull_unpark(struct mm_struct *mm)
{
	lull_load(mm);
	if (!system_uses_ttbr0_pan())
		cpu_do_switch_mm(virt_to_phys(mm->pgd), mm);
}

/**
 * lull_new_asid() - an address space gets another ASID number
 * @mm: the address space, which no CPU runs; context.id is still the old one
 *
 * Context: cpu_asid_lock is held.
 */
void lull_new_asid(struct mm_struct *mm)
{
	if (READ_ONCE(mm->context.residency.walker) && !res_ntlbpa())
		res_forget_everywhere(mm);
}

/* --- Flushing --- */

/* The next clean CPU after @cpu, -1 at first; nr_cpu_ids or more: there is none */
static unsigned int res_next_clean(struct mm_struct *mm, int cpu)
{
	/* The mask may change at any time: a CPU sets its bit, a look clears others. */
	return data_race(cpumask_next(cpu, mm_cpumask(mm)));
}

/* May @cpu walk the tables of @mm? */
static bool res_is_loaded(struct mm_struct *mm, unsigned int cpu)
{
	struct lull_cpu *other = per_cpu_ptr(&lull_cpu, cpu);

	/* loaded first: pairs with res_leave() */
	if (smp_load_acquire(&other->loaded) == mm)
		return true;
	/* Pairs with lull_left() */
	return smp_load_acquire(&other->leaving) == mm;
}

/* Is no CPU but this one clean, and does no flush look? @here: @mm is loaded here */
static bool res_is_alone(struct mm_struct *mm, unsigned int cpu, bool here)
{
	atomic_t *looks = &mm->context.residency.looks;
	int before = atomic_read_acquire(looks);
	unsigned int other;

	if (before & 1)
		return false;
	other = res_next_clean(mm, -1);
	if (here && other == cpu)
		other = res_next_clean(mm, cpu);
	/* A look that has cleared a bit read above has made looks odd before. */
	smp_rmb();
	return other >= nr_cpu_ids && atomic_read(looks) == before;
}

static void res_set_found(struct mm_struct *mm, unsigned int found)
{
	if (READ_ONCE(mm->context.residency.found) != found)
		WRITE_ONCE(mm->context.residency.found, found);
}

/* A hint: is @mm loaded on one of the first clean CPUs but this one? */
static bool res_survey(struct mm_struct *mm, unsigned int cpu)
{
	unsigned int left = RES_SURVEY;
	unsigned int other;

	for (other = res_next_clean(mm, -1); other < nr_cpu_ids;
	     other = res_next_clean(mm, other)) {
		if (other == cpu)
			continue;
		if (res_is_loaded(mm, other)) {
			res_set_found(mm, other + 1);
			return true;
		}
		if (!--left)
			break;
	}
	return false;
}

static bool res_look_begin(struct mm_struct *mm)
{
	atomic_t *looks = &mm->context.residency.looks;
	int even = atomic_read(looks);

	return !(even & 1) && atomic_try_cmpxchg(looks, &even, even + 1);
}

static void res_look_end(struct mm_struct *mm)
{
	/* The bits before it: pairs with the acquire in res_is_alone() */
	atomic_fetch_inc_release(&mm->context.residency.looks);
}

/*
 * Within a look: pass by each clean CPU but this one, if it is @here. Return true if
 * none of them has @mm loaded. The bits of those passed stay clear in any case.
 */
static bool res_pass_by(struct mm_struct *mm, unsigned int cpu, bool here)
{
	unsigned int other;

	for (other = res_next_clean(mm, -1); other < nr_cpu_ids;
	     other = res_next_clean(mm, other)) {
		if (here && other == cpu)
			continue;
		if (!mm->context.residency.passed)
			WRITE_ONCE(mm->context.residency.passed, true);
		cpumask_clear_cpu(other, mm_cpumask(mm));
		/* The bit before loaded is read: pairs with lull_load() */
		smp_mb();
		if (res_is_loaded(mm, other)) {
			cpumask_set_cpu(other, mm_cpumask(mm));
			res_set_found(mm, other + 1);
			return false;
		}
	}
	return true;
}

static enum res_reach res_decide_leaves(struct mm_struct *mm, unsigned int cpu,
					bool here)
{
	bool alone = res_is_alone(mm, cpu, here);

	if (!alone && !res_survey(mm, cpu) && res_look_begin(mm)) {
		alone = res_pass_by(mm, cpu, here);
		res_look_end(mm);
	}
	if (!alone)
		return RES_EVERYWHERE;
	res_set_found(mm, 0);
	return here ? RES_HERE : RES_NOWHERE;
}

/* The same for freed tables, on CPUs without FEAT_nTLBPA: see the head comment. */
static enum res_reach res_decide_tables(struct mm_struct *mm, unsigned int cpu,
					bool here)
{
	unsigned int *walker = &mm->context.residency.walker;
	unsigned int old = READ_ONCE(*walker);
	bool alone;

	if (!old)
		return RES_NOWHERE;
	if (old == cpu + 1) {
		if (here)
			return RES_HERE;
		res_forget_here(mm);
		__count_vm_event(TLBI_LOCAL);
		return RES_DONE;
	}
	if (lull_is_found(mm) || res_survey(mm, cpu) || !res_look_begin(mm))
		return RES_EVERYWHERE;

	WRITE_ONCE(*walker, cpu + 1);
	/* walker before the bits: pairs with res_make_clean() */
	smp_mb();
	alone = res_pass_by(mm, cpu, here);
	if (alone) {
		res_forget_everywhere(mm);
		WRITE_ONCE(mm->context.residency.passed, false);
	} else {
		WRITE_ONCE(*walker, RES_WALKERS);
	}
	res_look_end(mm);
	return alone ? RES_DONE : RES_EVERYWHERE;
}

enum res_reach __lull_decide(struct mm_struct *mm, bool tables)
{
	unsigned int cpu = smp_processor_id();
	enum res_reach reach = RES_EVERYWHERE;
	bool here = lull_is_loaded(mm);

	VM_WARN_ON_ONCE(mm == &init_mm);
	tables = tables && !res_ntlbpa();
	/* The TLB of a device that shares the ASID takes part in broadcasts only. */
	if (static_branch_likely(&lull_residency_on) &&
	    !refcount_read(&mm->context.pinned))
		reach = tables ? res_decide_tables(mm, cpu, here) :
				 res_decide_leaves(mm, cpu, here);

	switch (reach) {
	case RES_NOWHERE:
		__count_vm_event(TLBI_ELIDED);
		break;
	case RES_HERE:
		__count_vm_event(TLBI_LOCAL);
		break;
	case RES_EVERYWHERE:
		if (tables && READ_ONCE(mm->context.residency.passed)) {
			res_forget_everywhere(mm);
			reach = RES_DONE;
		}
		break;
	case RES_DONE:
		break;
	}
	return reach;
}

bool __lull_flush_mm(struct mm_struct *mm, bool tables)
{
	enum res_reach reach;

	preempt_disable();
	reach = __lull_decide(mm, tables);
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
	reach = __lull_decide(mm, tables);
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

bool __lull_is_nowhere(struct mm_struct *mm)
{
	unsigned int cpu = get_cpu();
	bool nowhere = !lull_is_loaded(mm) && !lull_is_found(mm) &&
		       !res_survey(mm, cpu);

	put_cpu();
	return nowhere;
}

LULL_KEY_SWITCH(residency, "on", lull_residency_on);
