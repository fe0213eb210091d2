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
 * the word would not change. Its own store is not the reason: DSB ISHST has
 * completed it. The load's is: without a DSB between its read-modify-write and its
 * walk, the walk may find the old table before others can read the new count
 * (models/litmus, READ). Of two read-modify-writes one comes first, whenever others
 * see it. Whoever broadcasts leaves nothing out, and a plain read is enough.
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
 * It is left again when a flush looks, now and then, and finds it loaded on no
 * CPU but its own. Each CPU says what it has loaded, before it reads the word:
 *
 *	look				load
 *	----				----
 *	set LOOKING			loaded = mm
 *	(atomic read-modify-write)	full barrier
 *	read what CPUs have loaded	read the word: MANY? LOOKING?
 *
 * One of them sees the other: the look finds the CPU, or the CPU finds LOOKING,
 * takes it away, and with it what the look is about to write; or it finds the
 * address space counted, and has itself counted. A CPU that is leaving says so
 * until its walks are over and it is not counted any more. One look at a time:
 * else one could find the LOOKING that another has set.
 *
 * The flush itself is a broadcast for the whole ASID then, as if it were fresh.
 *
 * Freed tables
 * ============
 *
 * Without FEAT_nTLBPA a CPU may also keep copies of valid descriptors by their
 * physical address, not coherent with memory, until a TLBI that applies to them
 * completes on that CPU. No ASID protects from those, nor does "not loaded": when
 * a table's page becomes a table of another address space, a CPU that walks that
 * may take what it once read there. So what is noted for leaves (STALE) does not
 * do for tables. Before one is freed, each CPU that has loaded the address space
 * since the last broadcast of its whole ASID must execute or receive a TLBI:
 *
 *	has been loaded on	a flush that frees tables
 *	no CPU			nothing
 *	this one alone		a local TLBI; of the whole ASID if it is loaded no more
 *	others			a broadcast of the whole ASID. From then on it has
 *				been loaded on this one alone, if others do not have
 *				it loaded now
 *
 * WANDERED and home say which. So a process that has moved pays one broadcast for
 * each time, and not one for each flush; and one that has not, none.
 *
 * The whole ASID, and not the range, where something was left out before: leaves
 * may have been in the table whose flush was noted only. A broadcast of a range does
 * where nothing was. The top-level table goes with the others: it has no valid entry
 * since before they were freed.
 *
 * A new number does not make a CPU forget: so none is renamed, and the word
 * outlives a roll-over, after which a CPU flushes no sooner than it switches.
 *
 * The entries of counted address spaces are not shared between CPUs
 * (FEAT_TTCNP): a local TLBI would be too little, or too much.
 *
 * The other files: residency.h has the word, residency_load.c how a CPU loads and
 * leaves, residency_policy.c how all of this is switched on and off.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "residency.h"

#define CREATE_TRACE_POINTS
#include "trace_residency.h"

/* --- Counting again --- */

/* Broadcasts of a CPU for address spaces that are MANY, before it looks once. */
#define LOOK_EVERY	64

static DEFINE_PER_CPU(unsigned int, broadcasts);
static DEFINE_RAW_SPINLOCK(look_lock);

/*
 * Has another CPU loaded it, or not yet left it for good? Idle CPUs keep what is
 * MANY, and would for as long as they sleep: they are asked to park, for the look
 * that comes next.
 *
 * Preemption is off: who is online stays so. Who is not may still be on its way.
 */
static bool is_elsewhere(struct mm_struct *mm, unsigned int here)
{
	bool found = false;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct lull_cpu *other = per_cpu_ptr(&lull_cpu, cpu);

		if (cpu == here)
			continue;
		/* It moves from here; pairs with leave() */
		if (smp_load_acquire(&other->loaded) == mm) {
			if (!idle_cpu(cpu) || !cpu_online(cpu))
				return true;
			res_park_idle(cpu);
			found = true;
		}
		/* ... to here; pairs with __lull_left() */
		if (smp_load_acquire(&other->leaving) == mm)
			return true;
	}
	return found;
}

/*
 * See whether it must be MANY still. @w is its word, in which nothing is stale.
 *
 * The word must not change from before the look until after it: not by a CPU that
 * loads it, by one of those counted once that leaves, nor by somebody who pins it.
 */
static bool recount(struct mm_struct *mm, s64 w, unsigned int cpu, bool here)
{
	s64 looking = w | RES_LOOKING, next;
	atomic64_t *word = res_word(mm);
	bool counted = false;

	if (!raw_spin_trylock(&look_lock))
		return false;
	if (atomic64_try_cmpxchg(word, &w, looking)) {
		if (!refcount_read(&mm->context.pinned) &&
		    !is_elsewhere(mm, cpu)) {
			next = res_recount(w, cpu, here);
			counted = atomic64_try_cmpxchg(word, &looking, next);
		}
		if (!counted)
			atomic64_fetch_andnot(RES_LOOKING, word);
	}
	raw_spin_unlock(&look_lock);
	if (!counted)
		return false;

	__count_vm_event(RESIDENCY_RECOUNT);
	if (here) {
		this_cpu_write(lull_cpu.counted, true);
		/* Without CnP from now on. */
		if (system_supports_cnp() && !system_uses_ttbr0_pan())
			cpu_switch_mm(mm->pgd, mm);
	}
	res_forget_everywhere(mm);
	return true;
}

/* --- Flushing --- */

enum res_reach __lull_decide(struct mm_struct *mm, bool tables)
{
	unsigned int cpu = smp_processor_id();
	bool here = __this_cpu_read(lull_cpu.loaded) == mm;
	atomic64_t *word = res_word(mm);
	enum res_reach reach;
	s64 w, next;

	tables = tables && !res_ntlbpa();
	w = res_read(mm);
	do {
		next = tables ? res_flush_tables(w, cpu, here, &reach) :
				res_flush(w, cpu, here, &reach);
		if (reach == RES_EVERYWHERE)
			break;
	} while (!atomic64_try_cmpxchg(word, &w, next));

	trace_lull_flush(mm, w, reach);
	switch (reach) {
	case RES_NOWHERE:
		__count_vm_event(TLBI_ELIDED);
		break;
	case RES_HERE:
		__count_vm_event(TLBI_LOCAL);
		break;
	case RES_EVERYWHERE:
		__count_vm_event(TLBI_BROADCAST);
		/* Counted again it has been told to everybody. */
		if (res_worth_looking(w) &&
		    !static_branch_unlikely(&lull_residency_sticky) &&
		    !(__this_cpu_inc_return(broadcasts) % LOOK_EVERY) &&
		    recount(mm, w, cpu, here))
			reach = RES_NOWHERE;
		break;
	case RES_ASID_HERE:
		__count_vm_event(TLBI_LOCAL);
		res_forget_here(mm);
		reach = RES_NOWHERE;
		break;
	case RES_ASID_EVERYWHERE:
		__count_vm_event(TLBI_BROADCAST);
		res_forget_everywhere(mm);
		reach = RES_NOWHERE;
		break;
	}
	return reach;
}

/* What is held under its ASID on this CPU. */
void res_forget_here(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	__tlbi(aside1, asid);
	__tlbi_user(aside1, asid);
	dsb(nsh);
}

/* ... and on any. */
void res_forget_everywhere(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	dsb(ishst);
	__tlbi(aside1is, asid);
	__tlbi_user(aside1is, asid);
	__tlbi_sync_s1ish();
}

/*
 * Each of these has lull_decide() look at the key once more: it was looked at with
 * preemption on, may have been switched off since, and then nobody keeps the word
 * any more. With preemption off switch_off() waits for whoever still finds it on.
 */

/**
 * __lull_flush_mm() - flush all of an address space where it is loaded
 * @mm: the address space
 * @tables: tables were taken away, which are freed next
 *
 * Context: DSB ISHST has been executed since the entries changed.
 * Return: true when that is done; false when it is for everybody.
 */
bool __lull_flush_mm(struct mm_struct *mm, bool tables)
{
	enum res_reach reach;

	preempt_disable();
	reach = lull_decide(mm, tables);
	if (reach == RES_HERE)
		res_forget_here(mm);
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
 * Context: DSB ISHST has been executed since the entry changed.
 * Return: true when that is done, and completed; false when it is for everybody.
 */
bool __lull_flush_page(struct mm_struct *mm, unsigned long addr)
{
	enum res_reach reach;

	preempt_disable();
	reach = lull_decide(mm, false);
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
 * @tables: tables were taken away, which are freed next
 *
 * Context: DSB ISHST has been executed since the entries changed. The range is not
 *	too long.
 * Return: true when that is done, and completed; false when it is for everybody.
 */
bool __lull_flush_range(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long stride,
			bool last_level, int tlb_level, bool tables)
{
	unsigned long pages = (end - start) >> PAGE_SHIFT;
	enum res_reach reach;

	preempt_disable();
	reach = lull_decide(mm, tables);
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

/**
 * __lull_is_nowhere() - is it loaded on no CPU?
 * @mm: the address space
 *
 * Nothing may be left out for this that has to be done: see above.
 */
bool __lull_is_nowhere(struct mm_struct *mm)
{
	return !(res_read(mm) & (RES_MANY | RES_COUNT));
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
 * number, and no flush needs one. That is so while each load of each CPU sees the
 * policy "rename", no other, and has seen the word kept since the last epoch began:
 * lull_may_rename says that it is (residency_policy.c).
 *
 * Context: cpu_asid_lock is held.
 * Return: its context.id; 0 when it needs a new one.
 */
u64 lull_rename(struct mm_struct *mm)
{
	u64 id = atomic64_read(&mm->context.id);
	atomic64_t *word = res_word(mm);
	s64 w;

	if (!id || !static_branch_unlikely(&lull_residency_rename) ||
	    !READ_ONCE(lull_may_rename) || !res_ntlbpa())
		return id;
	w = res_read(mm);
	do {
		if (!res_worth_renaming(w, smp_processor_id()))
			return id;
	} while (!atomic64_try_cmpxchg(word, &w, w | RES_STALE));

	__count_vm_event(ASID_RENAME);
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
	atomic64_t *word = res_word(mm);
	s64 w = res_read(mm);

	if (same_number)
		return;
	while (!(w & RES_MANY) &&
	       !atomic64_try_cmpxchg(word, &w, res_fresh(w, res_ntlbpa())))
		;
}

/**
 * lull_pin() - a device uses the address space's ASID from now on (SVA)
 * @mm: the address space
 *
 * Its TLB takes part in broadcasts, so let there be some.
 *
 * Context: context.pinned is set: no look that begins now makes it counted.
 */
void lull_pin(struct mm_struct *mm)
{
	atomic64_t *word = res_word(mm);
	s64 w = atomic64_read(word), next;

	/* STALE, as in res_load(): a CPU that loads it meanwhile must forget. */
	do {
		next = (w | RES_MANY) & ~RES_LOOKING;
		if (w & RES_OLD)
			next |= RES_STALE;
	} while (!atomic64_try_cmpxchg(word, &w, next));
	if (!(w & RES_OLD))
		return;
	res_forget_everywhere(mm);
	atomic64_fetch_andnot(RES_OLD, word);
}
