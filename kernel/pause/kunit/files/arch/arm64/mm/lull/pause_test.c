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

static int panicking(void *unused)
{
	unsigned long flags;

	local_irq_save(flags);
	atomic_set(&panic_cpu, smp_processor_id());
	complete(&deaf);
	while (!READ_ONCE(stop))
		cpu_relax();
	atomic_set(&panic_cpu, PANIC_CPU_INVALID);
	local_irq_restore(flags);
	return 0;
}

static struct cpumask gone;

/*
 * A CPU that panics, and has not stopped the others yet, does not come, also when
 * NMIs reach it: who waits in a panic stops. Any third CPU would do that here.
 */
static void test_panicking(struct kunit *test)
{
	struct task_struct *thread;
	struct lull_pause pause;
	int other, cpu, err = 0, busy = 0;

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU) || num_online_cpus() < 2)
		kunit_skip(test, "takes two CPUs, and no more");
	migrate_disable();
	other = cpumask_any_but(cpu_online_mask, smp_processor_id());
	cpumask_clear(&gone);
	for_each_present_cpu(cpu) {
		if (err || !cpu_online(cpu) || cpu == other ||
		    cpu == smp_processor_id())
			continue;
		err = remove_cpu(cpu);
		if (!err)
			cpumask_set_cpu(cpu, &gone);
	}
	if (!err) {
		stop = false;
		reinit_completion(&deaf);
		thread = kthread_create_on_cpu(panicking, NULL, other, "panic/%u");
		wake_up_process(thread);
		wait_for_completion(&deaf);
		busy = lull_pause_begin(&pause, 50 * NSEC_PER_MSEC);
		if (!busy)
			lull_pause_end(&pause);
		WRITE_ONCE(stop, true);
		kthread_stop(thread);
	}
	for_each_cpu(cpu, &gone) {
		int back = add_cpu(cpu);

		err = err ?: back;
	}
	migrate_enable();
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, busy, -EBUSY);
}

static unsigned long turns_then, turns_later;

/* As a virtual CPU that its host does not run, or one that a debugger has stopped. */
static void stand_still(void)
{
	wait_us(100000);
	turns_then = all_turns();
	wait_us(100000);
	turns_later = all_turns();
}

static int go_and_come(void *unused)
{
	int cpu = cpumask_last(cpu_online_mask);
	int err = remove_cpu(cpu) ?: add_cpu(cpu);

	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 100);
	return err;
}

/*
 * The pausing CPU stands still when it has asked the others: they leave by
 * themselves, while another CPU is on its way offline.
 */
static void test_pauser_stands_still(struct kunit *test)
{
	struct counters *counters = kunit_kzalloc(test, sizeof(*counters), GFP_KERNEL);
	struct task_struct *thread = NULL;
	struct lull_pause pause;
	int err, cpu_err = 0;

	KUNIT_ASSERT_NOT_NULL(test, counters);
	if (num_online_cpus() == 1)
		kunit_skip(test, "one CPU waits for nobody");
	start_counting(test, counters);
	kunit_activate_static_stub(test, lull_pause_asked, stand_still);
	if (IS_ENABLED(CONFIG_HOTPLUG_CPU))
		thread = kthread_run(go_and_come, NULL, "go");
	err = lull_pause_begin(&pause, 16 * NSEC_PER_MSEC);
	if (!err)
		lull_pause_end(&pause);
	kunit_deactivate_static_stub(test, lull_pause_asked);
	if (!IS_ERR_OR_NULL(thread))
		cpu_err = kthread_stop(thread);
	stop_counting(counters);

	KUNIT_EXPECT_EQ(test, err, -EBUSY);
	KUNIT_EXPECT_EQ(test, pause.tries, 1);
	KUNIT_EXPECT_GT(test, turns_later, turns_then);
	KUNIT_EXPECT_TRUE(test, cpu_err == 0 || cpu_err == -EINTR);
	err = lull_pause_begin(&pause, PATIENCE);
	if (!err)
		lull_pause_end(&pause);
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

static int pause_often(void *failed)
{
	struct lull_pause pause;

	while (!READ_ONCE(stop)) {
		if (lull_pause_begin(&pause, PATIENCE)) {
			(*(int *)failed)++;
			continue;
		}
		lull_pause_end(&pause);
		cond_resched();
	}
	return 0;
}

static int nothing(void *unused)
{
	return 0;
}

/* Two that pause, stop_machine(), and CPUs that go and come, all at once. */
static void test_together(struct kunit *test)
{
	struct task_struct *threads[2];
	int failed[2] = {}, i, err = 0;

	stop = false;
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		threads[i] = kthread_run(pause_often, &failed[i], "pause/%d", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(threads[i]));
	}
	for (i = 0; i < 20 && !err; i++) {
		err = stop_machine(nothing, NULL, NULL);
		if (IS_ENABLED(CONFIG_HOTPLUG_CPU) && num_online_cpus() > 1 &&
		    i % 5 == 0) {
			int cpu = cpumask_last(cpu_online_mask);

			err = err ?: remove_cpu(cpu);
			err = err ?: add_cpu(cpu);
		}
	}
	WRITE_ONCE(stop, true);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		kthread_stop(threads[i]);

	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, failed[0], 0);
	KUNIT_EXPECT_EQ(test, failed[1], 0);
}

static struct kunit_case pause_cases[] = {
	KUNIT_CASE(test_others_wait),
	KUNIT_CASE(test_masked),
	KUNIT_CASE(test_no_answer),
	KUNIT_CASE(test_pauser_stands_still),
	KUNIT_CASE_SLOW(test_panicking),
	KUNIT_CASE(test_stray),
	KUNIT_CASE_SLOW(test_together),
	{}
};

static struct kunit_suite pause_suite = {
	.name = "lull_pause",
	.test_cases = pause_cases,
};

kunit_test_suite(pause_suite);
