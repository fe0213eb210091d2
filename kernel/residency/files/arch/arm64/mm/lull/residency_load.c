// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: how a CPU loads an address space, and leaves it.
 *
 * residency.c explains the word, and why a flush and a load do not miss each
 * other. Here is the other half of it: that a CPU which is not counted does not
 * walk.
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
 * Software PAN loads the user's tables when they are accessed, from what the task
 * that is current has saved. So what is left is taken from there before the DSB:
 * the task stays current until __switch_to() ends, and an NMI, or a tracing
 * program, may access user memory on its behalf until then. It finds nothing
 * there, as it would if the page were swapped out. Whoever goes on, or comes back,
 * has it set anew: switch_mm(), enter_lazy_tlb() and efi_set_pgd() do so each time.
 *
 * CPUs that are idle, or run a kernel thread, would keep the address space
 * loaded for as long (lazy TLB): they park it, and load it again on the way
 * back, when the scheduler believes that it is still there. Nobody else's user
 * code has run in between: what protects the branch predictors against it need
 * not run again.
 */
#include <linux/atomic.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>

#include "residency.h"
#include "trace_residency.h"

DEFINE_PER_CPU(struct lull_cpu, lull_cpu);

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
		atomic64_fetch_dec_release(res_word(cpu->leaving));
	/* Nobody finds it here any more; pairs with is_elsewhere() */
	smp_store_release(&cpu->leaving, NULL);
}

/* What was loaded is on its way out, for @next or nothing. */
static void leave(struct lull_cpu *cpu, struct mm_struct *next)
{
	/* Two switches with no __switch_to() between: the first is over. */
	if (cpu->leaving) {
		isb();
		dsb(ish);
		__lull_left();
	}
	update_saved_ttbr0(current, &init_mm);
	cpu->leaving_counted = cpu->counted;
	WRITE_ONCE(cpu->leaving, cpu->loaded);
	cpu->counted = false;
	cpu->parked = false;
	/* Nobody misses it in both places; pairs with is_elsewhere() */
	smp_store_release(&cpu->loaded, next);
}

/* Make good what is stale, before TTBR0_EL1 is set. */
static noinline void make_good(struct mm_struct *mm, u64 w, enum res_load todo)
{
	switch (todo) {
	case RES_LOAD_CLEAN:
		break;
	case RES_LOAD_LOCAL:
		__count_vm_event(TLBI_STALE);
		res_forget_here(mm);
		break;
	case RES_LOAD_BROADCAST:
		__count_vm_event(TLBI_STALE);
		res_forget_everywhere(mm);
		/* Whoever set MANY takes back what it has made good. */
		if (!(w & RES_MANY))
			atomic64_fetch_andnot(RES_OLD, res_word(mm));
		break;
	}
}

/* As __lull_load(), for all that is not usual. */
static noinline bool load_slowly(struct lull_cpu *cpu, struct mm_struct *mm,
				 bool locked)
{
	bool sticky = static_branch_unlikely(&lull_residency_sticky);
	unsigned int limit = READ_ONCE(lull_residency_limit);
	enum res_load todo;
	u64 next;
	s64 w;

	w = res_read(mm);
	for (;;) {
		if (w & RES_MANY) {
			/* A look finds it loaded, or we see LOOKING: recount() */
			smp_mb();
			w = res_read(mm);
		}
		next = res_load(w, smp_processor_id(), limit, sticky, &todo);
		if (todo == RES_LOAD_LOCAL && !locked &&
		    static_branch_unlikely(&lull_residency_rename)) {
			WRITE_ONCE(cpu->loaded, NULL);
			return false;
		}
		/* MANY CPUs write nothing. */
		if (next == w ||
		    atomic64_try_cmpxchg(res_word(mm), &w, next))
			break;
	}
	trace_lull_load(mm, w, todo);
	if (todo != RES_LOAD_CLEAN)
		make_good(mm, w, todo);
	if ((next ^ w) & RES_MANY)
		__count_vm_event(RESIDENCY_MANY);
	cpu->counted = !(next & RES_MANY);
	return true;
}

/**
 * __lull_load() - this CPU is about to load an address space
 * @mm: the address space
 * @id: its context.id, which this CPU has announced in active_asids
 * @locked: cpu_asid_lock is held
 *
 * Until it is counted it may be renamed by another CPU that loads it. So with the
 * policy "rename" what is stale is counted under the lock, as it is renamed; and
 * whoever comes without the lock looks at the id again. Counted, it keeps it.
 *
 * Context: interrupts are off; TTBR0_EL1 is set next.
 * Return: true when it is counted and @id holds. Else the caller steps aside,
 * takes the lock, and announces the right id before it tries again.
 */
bool __lull_load(struct mm_struct *mm, u64 id, bool locked)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);
	s64 w;

	if (cpu->loaded != mm) {
		leave(cpu, mm);
		w = res_read(mm);
		if (res_load_counts(w, smp_processor_id(),
				    READ_ONCE(lull_residency_limit)) &&
		    atomic64_try_cmpxchg(res_word(mm), &w, w + 1)) {
			trace_lull_load(mm, w, RES_LOAD_CLEAN);
			cpu->counted = true;
		} else if (!load_slowly(cpu, mm, locked)) {
			return false;
		}
	}
	return atomic64_read(&mm->context.id) == id;
}

/**
 * __lull_switched() - TTBR0_EL1 is set, and the task stays
 *
 * The scheduler goes on to __switch_to(), which has a DSB. A task that changes
 * its own address space does not.
 */
void __lull_switched(void)
{
	dsb(ish);
	__lull_left();
}

/* What cpu_do_switch_mm() would do for init_mm: reserved tables and ASID 0. */
static void set_nothing(void)
{
	u64 ttbr1;

	/* With SW PAN both are there since the kernel was entered. */
	if (system_uses_ttbr0_pan())
		return;
	ttbr1 = read_sysreg(ttbr1_el1);
	cpu_set_reserved_ttbr0_nosync();
	write_sysreg(ttbr1 & ~TTBR_ASID_MASK, ttbr1_el1);
	isb();
	post_ttbr_update_workaround();
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

/* Interrupts are off. */
static void park(struct lull_cpu *cpu, struct task_struct *tsk)
{
	__count_vm_event(TLB_PARK);
	leave(cpu, NULL);
	cpu->parked = true;
	set_nothing();
	lull_switched(tsk);
}

/**
 * __lull_park() - this CPU needs no user mappings for a while
 * @tsk: the kernel thread that is about to run, or current, which has no
 *	address space any more
 *
 * What is MANY stays, as ever (lazy TLB), until it would be counted again.
 *
 * Context: interrupts are off.
 */
void __lull_park(struct task_struct *tsk)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	if (cpu->counted && !static_branch_unlikely(&lull_residency_sticky))
		park(cpu, tsk);
}

static void park_idle(struct irq_work *unused)
{
	struct lull_cpu *cpu = this_cpu_ptr(&lull_cpu);

	if (static_branch_likely(&lull_residency_on) &&
	    is_idle_task(current) && cpu->loaded)
		park(cpu, current);
}

static DEFINE_PER_CPU(struct irq_work, park_work) =
	IRQ_WORK_INIT_HARD(park_idle);

/**
 * res_park_idle() - ask a CPU to park what it has loaded, if it is idle
 * @cpu: another CPU, online
 *
 * Returns at once; it may be called with any lock held.
 */
void res_park_idle(unsigned int cpu)
{
	irq_work_queue_on(per_cpu_ptr(&park_work, cpu), cpu);
}

/**
 * __lull_unpark() - back to the address space that this CPU has parked
 * @mm: it
 *
 * Its ASID is in active_asids still, or reserved since the ASIDs rolled over, as
 * if it had been loaded all the time: with the same id there is nothing to
 * allocate. The tables are the reserved ones.
 *
 * Context: interrupts are off.
 */
void __lull_unpark(struct mm_struct *mm)
{
	u64 id = atomic64_read(&mm->context.id);

	if (id != __this_cpu_read(lull_cpu.last) || !__lull_load(mm, id, false))
		check_and_switch_context(mm);
	else if (!system_uses_ttbr0_pan())
		cpu_do_switch_mm(virt_to_phys(mm->pgd), mm);
}

/**
 * __lull_unload() - this CPU goes offline
 *
 * Context: preemption is off.
 */
void __lull_unload(void)
{
	leave(this_cpu_ptr(&lull_cpu), NULL);
	set_nothing();
	dsb(ish);
	__lull_left();
}
