// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the pause.
 *
 * A thread on each other CPU counts as fast as it can. Whether it waits shows in
 * its count; whether it goes on shows, too.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/lull_pause.h>
#include <linux/panic.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/stop_machine.h>

#include <asm/cpufeature.h>
#include <asm/daifflags.h>

#include "pause.h"

/* Under emulation the host decides when a CPU comes. */
#define PATIENCE	NSEC_PER_SEC

static DEFINE_PER_CPU(unsigned long, turns);
static bool stop;

static int count_turns(void *unused)
{
	while (!kthread_should_stop()) {
		this_cpu_inc(turns);
		cond_resched();
	}
	return 0;
}

struct counters {
	struct task_struct *thread[NR_CPUS];
};

static void start_counting(struct kunit *test, struct counters *counters)
{
	int cpu;

	for_each_online_cpu(cpu) {
		counters->thread[cpu] =
			kthread_create_on_cpu(count_turns, NULL, cpu, "turn/%u");
		KUNIT_ASSERT_FALSE(test, IS_ERR(counters->thread[cpu]));
		wake_up_process(counters->thread[cpu]);
	}
	msleep(20);
}

static void stop_counting(struct counters *counters)
{
	int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (counters->thread[cpu])
			kthread_stop(counters->thread[cpu]);
}

static unsigned long all_turns(void)
{
	unsigned long sum = 0;
	int cpu;

	for_each_online_cpu(cpu)
		sum += READ_ONCE(per_cpu(turns, cpu));
	return sum;
}

static void wait_us(u64 us)
{
	u64 end = sched_clock() + us * NSEC_PER_USEC;

	while (sched_clock() < end)
		cpu_relax();
}

/*
 * Nobody else counts while it lasts, and all go on after it. It lasts longer than
 * CPUs wait for it to begin: they must not leave a pause that has begun.
 */
static void test_others_wait(struct kunit *test)
{
	struct counters *counters = kunit_kzalloc(test, sizeof(*counters), GFP_KERNEL);
	unsigned long before, after, later;
	struct lull_pause pause;
	int i, err;

	KUNIT_ASSERT_NOT_NULL(test, counters);
	start_counting(test, counters);
	for (i = 0; i < 20; i++) {
		u64 hold = i ? 2000 : 200000;

		err = lull_pause_begin(&pause, i ? PATIENCE : PATIENCE / 5);
		if (err)
			break;
		before = all_turns();
		wait_us(hold);
		after = all_turns();
		lull_pause_end(&pause);
		msleep(20);
		later = all_turns();

		KUNIT_EXPECT_EQ(test, after, before);
		KUNIT_EXPECT_GT(test, later, after);
		KUNIT_EXPECT_GE(test, pause.held, pause.asked);
		KUNIT_EXPECT_GE(test, pause.ended, pause.held + hold * NSEC_PER_USEC);
	}
	stop_counting(counters);
	KUNIT_EXPECT_EQ(test, err, 0);
}

/* Interrupts and NMIs are off, and preemption, as they were before, after it. */
static void test_masked(struct kunit *test)
{
	struct lull_pause pause;
	unsigned long before = read_sysreg(daif), during;
	bool irqs;

	KUNIT_ASSERT_EQ(test, lull_pause_begin(&pause, PATIENCE), 0);
	during = read_sysreg(daif);
	irqs = !irqs_disabled();
	lull_pause_end(&pause);

	KUNIT_EXPECT_EQ(test, during & DAIF_MASK, DAIF_MASK);
	KUNIT_EXPECT_FALSE(test, irqs);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	KUNIT_EXPECT_EQ(test, read_sysreg(daif), before);
}

static DECLARE_COMPLETION(deaf);

static int not_listening(void *unused)
{
	unsigned long flags;

	local_irq_save(flags);
	complete(&deaf);
	while (!READ_ONCE(stop))
		cpu_relax();
	local_irq_restore(flags);
	return 0;
}

/*
 * A CPU that has interrupts disabled. Without NMIs it does not come, nothing has
 * happened, and the interrupts that come late do not make it wait.
 */
static void test_no_answer(struct kunit *test)
{
	const u64 budget = 5 * NSEC_PER_MSEC;
	struct task_struct *thread;
	struct lull_pause pause;
	int other, err;

	migrate_disable();
	other = cpumask_any_but(cpu_online_mask, smp_processor_id());
	if (other >= nr_cpu_ids) {
		migrate_enable();
		kunit_skip(test, "one CPU");
	}

	stop = false;
	reinit_completion(&deaf);
	thread = kthread_create_on_cpu(not_listening, NULL, other, "deaf/%u");
	wake_up_process(thread);
	wait_for_completion(&deaf);
	err = lull_pause_begin(&pause, system_uses_irq_prio_masking() ? PATIENCE : budget);
	if (!err)
		lull_pause_end(&pause);
	WRITE_ONCE(stop, true);
	kthread_stop(thread);

	KUNIT_EXPECT_EQ(test, err, system_uses_irq_prio_masking() ? 0 : -EBUSY);
	/*
	 * Those that came have waited all the same, and not longer than allowed: 1/16
	 * of it, 1/8, 1/4 and 1/2. A host that does not run this CPU for a while
	 * makes the last try longer, and there is none after that.
	 */
	if (err) {
		KUNIT_EXPECT_GE(test, pause.waited, budget / 16);
		KUNIT_EXPECT_LT(test, pause.waited - pause.longest, budget);
		KUNIT_EXPECT_LE(test, pause.tries, 4);
	}

	err = lull_pause_begin(&pause, PATIENCE);
	if (!err)
		lull_pause_end(&pause);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, err, 0);
}

/* Without a pause, the interrupt means nothing. */
static void test_stray(struct kunit *test)
{
	unsigned long flags;

	local_irq_save(flags);
	lull_pause_join();
	local_irq_restore(flags);
	KUNIT_SUCCEED(test);
}

static struct kunit_case pause_cases[] = {
	KUNIT_CASE(test_others_wait),
	KUNIT_CASE(test_masked),
	KUNIT_CASE(test_no_answer),
	KUNIT_CASE(test_stray),
	{}
};

static struct kunit_suite pause_suite = {
	.name = "lull_pause",
	.test_cases = pause_cases,
};

kunit_test_suite(pause_suite);
