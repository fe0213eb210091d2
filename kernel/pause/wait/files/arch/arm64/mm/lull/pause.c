// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make all other CPUs wait, for a moment, wherever they are.
 *
 * They are asked by an interrupt, and wait in its handler. All eight SGIs that
 * the kernel has are taken, so that of backtraces is shared: with pseudo-NMIs it
 * comes as an NMI, also to a CPU that has interrupts disabled, else as any other
 * interrupt.
 *
 * An ordinary interrupt can be kept out for long. Even for ever: B holds a lock,
 * and waits here; C spins for that lock with interrupts disabled, and never
 * comes. So a pause begins only when all have come; if they do not, within a
 * limit, those who have are let go again, and nothing has happened. Then it is
 * tried again, with a limit twice as long, as long as all tries together stay
 * within what the caller allows.
 *
 * One word says where a pause stands, so that there is no state in between:
 *
 *	63            32 31             0
 *	+---------------+---------------+
 *	|    ticket     |    missing    |
 *	+---------------+---------------+
 *
 * The ticket is odd while CPUs are asked to wait, and even else. A CPU comes by
 * taking one off what is missing, while the ticket is odd; it goes when its
 * ticket has been let go. An interrupt that comes late finds an even ticket, or a
 * later one: then it is as good as the one that was sent for that.
 *
 * When nobody is missing, the pauser replaces the zero by BEGUN, and only then
 * may it change anything. Up to there a CPU that waits can leave by itself, by
 * adding one to what is missing, and it does so when the try's limit is over:
 * the pauser may be a virtual CPU that is not run, or one that a debugger has
 * stopped. Both are compare-and-swaps of one word, so either the CPU has left and
 * the pause does not begin, or the pause has begun and the CPU stays. From then
 * on a CPU that waits cannot go before the pauser lets it: what its interrupt
 * handlers look at may be broken. All that the pauser does until then is a
 * bounded number of instructions, which wait for no other CPU.
 *
 * A CPU that waits reads another word, in another cache line than the one that
 * CPUs write when they come: which ticket has been let go. It also reads the
 * counter, its deadline, and whether a CPU panics. It looks at no struct page
 * (the reason for all this), takes no lock, writes no trace.
 *
 * CPU hotplug: a CPU that is coming or going is not among those that are asked,
 * and runs the kernel all the same. So a pause waits until it has come or gone.
 * To hold cpus_read_lock() would do that too, but who offlines memory, and gives
 * HugeTLB pages back on the way, has it already, and it does not nest.
 *
 * stop_machine(), a second pause, kgdb: a CPU that waits for this one gets it when
 * the try is over. A panic: CPUs that wait stop themselves when they see it; and
 * the one that panics does not come, also when an NMI asks it.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/lull_pause.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/panic.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/sched/clock.h>
#include <linux/semaphore.h>
#include <linux/smp.h>
#include <linux/time64.h>

#include <clocksource/arm_arch_timer.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include <asm/arch_timer.h>
#include <asm/daifflags.h>
#include <asm/irq_regs.h>
#include <asm/smp.h>

#include "pause.h"

#define TICKET		BIT_ULL(32)
#define TICKET_OF(word)	((u32)((word) >> 32))
#define MISSING(word)	((u32)(word))
#define BEGUN		U32_MAX	/* instead of what is missing */

/*
 * The first try lasts at most a 16th of what the caller allows, and each one twice
 * as long as the one before: four of them fit.
 */
#define FIRST_TRY	4

/* Written by CPUs that come; the pauser looks at it. */
static atomic64_t word ____cacheline_aligned_in_smp = ATOMIC64_INIT(0);

/* The ticket that was let go last: CPUs that wait look at it. */
static u32 let_go_last ____cacheline_aligned_in_smp;
static u64 leave_at;				/* by the counter; set before a try */
static int pauser = -1;				/* the CPU that does not wait */
static DEFINE_PER_CPU(u32, came_for);		/* the ticket */

/*
 * Held by a pause, and by a CPU that is coming or going. Not a mutex: it is
 * another task that says when the CPU has come. First come, first served.
 */
static DEFINE_SEMAPHORE(still, 1);
static struct cpumask others;			/* those that are asked */
struct cpumask lull_pause_all;			/* the same, if that is all */

/* Are there CPUs that Linux was told to leave alone? */
static bool clipped __ro_after_init;

static int __init clip(char *nr_cpus)
{
	clipped = true;
	return 0;
}
early_param("nr_cpus", clip);

static bool odd(u32 ticket)
{
	return ticket & 1;
}

/*
 * Wait to be let go. An acquire: what was changed meanwhile is what is read from
 * here on; and the ISB is for translations of the instructions behind it. The
 * event stream wakes this CPU often enough to see a panic, or that it is late.
 *
 * Return: has it been let go? Else a CPU panics, or the deadline is over.
 */
static noinline noinstr bool lull_pause_spin_wait(u32 ticket, u64 deadline)
{
	u32 now = smp_cond_load_acquire(&let_go_last,
					(s32)(VAL - ticket) >= 0 ||
					__arch_counter_get_cntvct() > deadline ||
					raw_atomic_read(&panic_cpu) !=
						PANIC_CPU_INVALID);

	isb();
	return (s32)(now - ticket) >= 0;
}

/*
 * Wait for the others, and begin. The compare-and-swap is an acquire: what they
 * have stored is there to be copied; and a release: nothing has been changed before.
 */
static noinline noinstr bool lull_pause_spin_gather(unsigned long *daif)
{
	s64 now;

	do {
		now = raw_atomic64_read(&word);
		if (!MISSING(now)) {
			/* Before BEGUN: from there on nobody leaves for an NMI. */
			*daif = local_daif_save();
			if (raw_atomic64_try_cmpxchg(&word, &now, now | BEGUN))
				return true;
			local_daif_restore(*daif);
		}
		cpu_relax();
	} while (__arch_counter_get_cntvct() <= leave_at);
	return false;
}

/*
 * Stop waiting, unless the pause has begun: then what this CPU would return to may
 * be broken. With another ticket in the word it is over, even if the pauser has
 * stopped just there. The barrier is for what was changed, as in the wait.
 *
 * Return: has it left? Else it is let go soon.
 */
static noinline noinstr bool lull_pause_spin_leave(u32 ticket)
{
	s64 now = raw_atomic64_read(&word);

	do {
		if (TICKET_OF(now) != ticket) {
			smp_mb();	/* Pairs with the release in let_go() */
			isb();
			return true;
		}
		if (MISSING(now) == BEGUN)
			return false;
	} while (!raw_atomic64_try_cmpxchg(&word, &now, now + 1));
	return true;
}

/*
 * Be one less to be waited for. Return: the ticket; 0 if there is no pause, or not
 * for this CPU: of those that wait in a panic nobody would go on with it.
 */
static u32 come(void)
{
	s64 now = raw_atomic64_read(&word);

	if (panic_on_this_cpu())
		return 0;
	do {
		if (!odd(TICKET_OF(now)) || !MISSING(now) ||
		    MISSING(now) == BEGUN ||
		    READ_ONCE(pauser) == raw_smp_processor_id())
			return 0;
		/* Before it counts: nothing but spinning after that. */
		this_cpu_write(came_for, TICKET_OF(now));
	} while (!raw_atomic64_try_cmpxchg(&word, &now, now - 1));
	return TICKET_OF(now);
}

/**
 * lull_pause_join() - wait, if there is a pause
 *
 * Context: the handler of the shared interrupt; perhaps an NMI.
 */
void lull_pause_join(void)
{
	u32 ticket = come();
	u64 deadline = READ_ONCE(leave_at);

	/* crash_kexec() may think better of it. Then this CPU waits on. */
	while (ticket && !lull_pause_spin_wait(ticket, deadline)) {
		/* Then a panic stops this CPU as any other, by its IPI. */
		if (lull_pause_spin_leave(ticket))
			break;
		if (panic_on_other_cpu())
			nmi_panic_self_stop(get_irq_regs());
		deadline = U64_MAX;
	}
}

/*
 * The first store is for CPUs that come late, or want to leave: there is nothing to
 * wait for. The second is for those that wait. Both are a release: a CPU that goes
 * sees what was changed.
 */
static void let_go(struct lull_pause *pause)
{
	u32 ticket = TICKET_OF(raw_atomic64_read(&word));
	u64 waited;

	atomic64_set_release(&word, (ticket + 1) * TICKET);
	/* Pairs with the acquire in lull_pause_spin_wait(). */
	smp_store_release(&let_go_last, ticket);
	pause->ended = sched_clock();
	waited = pause->ended - pause->asked;
	pause->waited += waited;
	pause->longest = max(pause->longest, waited);
}

/**
 * lull_pause_asked() - the others have been asked, and nothing has begun
 *
 * Tests make this CPU stand still here.
 */
VISIBLE_IF_KUNIT void lull_pause_asked(void)
{
	KUNIT_STATIC_STUB_REDIRECT(lull_pause_asked);
}

/* Interrupts are disabled, and stay so if all have come. */
static bool gather(struct lull_pause *pause, u64 limit)
{
	u32 ticket = TICKET_OF(raw_atomic64_read(&word)) + 1;
	const struct cpumask *whom = &others;

	cpumask_andnot(&others, cpu_online_mask,
		       cpumask_of(smp_processor_id()));
	pauser = smp_processor_id();
	leave_at = __arch_counter_get_cntvct() +
		   div_u64(limit * arch_timer_get_rate(), NSEC_PER_SEC);
	pause->asked = sched_clock();
	atomic64_set_release(&word, ticket * TICKET + cpumask_weight(&others));

	/* The broadcast reaches CPUs that are not online, too: none such. */
	if (!clipped && num_online_cpus() == num_present_cpus()) {
		cpumask_copy(&lull_pause_all, &others);
		whom = &lull_pause_all;
	}
	if (!cpumask_empty(&others))
		arm64_backtrace_ipi((struct cpumask *)whom);

	lull_pause_asked();
	if (limit && lull_pause_spin_gather(&pause->daif)) {
		pause->held = sched_clock();
		return true;
	}
	let_go(pause);
	return false;
}

/* After the last try: which CPUs did not come? */
static void complain(unsigned int tries)
{
	u32 ticket = TICKET_OF(raw_atomic64_read(&word)) - 1;
	int cpu;

	for_each_cpu(cpu, &others)
		if (per_cpu(came_for, cpu) == ticket)
			cpumask_clear_cpu(cpu, &others);
	pr_warn_ratelimited("CPUs %*pbl did not come to wait, tried %u times\n",
			    cpumask_pr_args(&others), tries);
}

/**
 * lull_pause_begin() - make all other CPUs wait
 * @pause: to be given to lull_pause_end()
 * @budget: for how long CPUs may wait for each other until it begins, in ns: the
 *	sum of all tries
 *
 * When it returns 0, no other CPU executes anything but a loop that waits, and
 * this one has set all of DAIF, which keeps interrupts, pseudo-NMIs, SErrors and
 * debug exceptions away. Events of SDEI, the hypervisor and the firmware are not
 * Linux's to mask. Take no lock now, a CPU that has it may be waiting; print
 * nothing; use no clock but sched_clock(): others, like ktime_get(), wait for
 * writers.
 *
 * Context: process context; may sleep.
 * Return: 0, or -EBUSY with a warning that says why: then there is no pause.
 */
int lull_pause_begin(struct lull_pause *pause, u64 budget)
{
	u64 limit = budget >> FIRST_TRY;

	pause->waited = 0;
	pause->longest = 0;
	pause->tries = 1;
	if (down_timeout(&still, 10 * HZ)) {
		pr_warn("a CPU has been coming or going for 10 s\n");
		return -EBUSY;
	}

	for (;; pause->tries++) {
		local_irq_save(pause->flags);
		if (gather(pause, limit))
			break;
		local_irq_restore(pause->flags);

		limit *= 2;
		if (pause->waited + limit >= budget) {
			complain(pause->tries);
			up(&still);
			return -EBUSY;
		}
		usleep_range(100, 1000);
	}
	return 0;
}

/**
 * lull_pause_end() - let the others go on
 * @pause: as lull_pause_begin() left it
 */
void lull_pause_end(struct lull_pause *pause)
{
	let_go(pause);
	local_daif_restore(pause->daif);
	local_irq_restore(pause->flags);
	up(&still);
}

/**
 * lull_pause_age() - for how long the pause has lasted
 * @pause: as lull_pause_begin() left it
 *
 * Return: time since the last of the others came, in ns.
 */
u64 lull_pause_age(const struct lull_pause *pause)
{
	return sched_clock() - pause->held;
}

/*
 * Up: from before the first instruction, to when it does what others do. Down:
 * from when it still does, to after the last instruction. When one of these
 * transitions fails, the callbacks are called again, the other way round. They are
 * called one at a time; but several CPUs may be on their way, where one was told
 * to stay half way (CPU_HOTPLUG_STATE_CONTROL).
 */
static unsigned int on_their_way;

static int cpu_departs(unsigned int cpu)
{
	if (!on_their_way++)
		down(&still);
	return 0;
}

static int cpu_arrived(unsigned int cpu)
{
	if (!--on_their_way)
		up(&still);
	return 0;
}

static int __init pause_init(void)
{
	int err;

	err = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "arm64/lull:pause",
					cpu_departs, cpu_arrived);
	if (err < 0)
		return err;
	err = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "arm64/lull:paused",
					cpu_arrived, cpu_departs);
	return err < 0 ? err : 0;
}
arch_initcall(pause_init);
