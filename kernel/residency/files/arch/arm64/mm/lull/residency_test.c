// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for residency: which CPUs a flush reaches, and what loads and flushes
 * note.
 *
 * The comment above a case names the mistake that the case catches. A case runs on
 * CPU 0. Its address space has no pages, so no case executes the local TLBI or the
 * broadcast that lull_decide() asks for.
 */
#include <kunit/test.h>
#include <linux/bitfield.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "residency.h"

extern struct lull_switch lull_residency_switch;

enum { HERE, OTHER, THIRD, CPUS };

#define H	BIT(HERE)
#define O	BIT(OTHER)
#define T	BIT(THIRD)

static void expect_state(struct kunit *test, struct mm_struct *mm,
			 unsigned long clean, unsigned int walker, bool passed,
			 int looks)
{
	KUNIT_EXPECT_EQ(test, cpumask_bits(mm_cpumask(mm))[0], clean);
	KUNIT_EXPECT_EQ(test, mm->context.residency.walker, walker);
	KUNIT_EXPECT_EQ(test, mm->context.residency.passed, passed);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm->context.residency.looks), looks);
}

/* A counter of this CPU. Preemption is off. */
static int counted(enum vm_event_item item)
{
	return __this_cpu_read(vm_event_states.event[item]);
}

enum flush { LEAVES, TABLES, FUNCTIONS };

/* What flush() returns beside enum res_reach. */
enum { MISCOUNTED = RES_EVERYWHERE + 1 };

/**
 * flush() - flush an address space from this CPU
 * @mm: the address space
 * @what: LEAVES, TABLES: only decide. FUNCTIONS: call four functions of tlbflush.h
 *
 * Return: enum res_reach. MISCOUNTED: tlbi_local or tlbi_elided is wrong.
 */
static int flush(struct mm_struct *mm, enum flush what)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, 0);
	int local, elided, n = 1, reach = RES_EVERYWHERE;

	preempt_disable();
	local = counted(TLBI_LOCAL);
	elided = counted(TLBI_ELIDED);
	if (what == FUNCTIONS) {
		n = 4;
		flush_tlb_page(&vma, PAGE_SIZE);
		flush_tlb_range(&vma, 0, 2 * PAGE_SIZE);
		flush_tlb_range(&vma, 0, TASK_SIZE_64);
		flush_tlb_mm(mm);
	} else {
		dsb(ishst);
		reach = lull_decide(mm, what == TABLES);
	}
	local = counted(TLBI_LOCAL) - local;
	elided = counted(TLBI_ELIDED) - elided;
	preempt_enable();

	if (what == FUNCTIONS && local + elided) {
		/* Of two flushes that may free tables RES_DONE is counted as local. */
		if (local + elided != n || (local % n && local != 2))
			return MISCOUNTED;
		return elided ? RES_NOWHERE : RES_HERE;
	}
	if (reach == RES_DONE)
		return elided || local > 1 ? MISCOUNTED : reach;
	if (local != (reach == RES_HERE ? n : 0) ||
	    elided != (reach == RES_NOWHERE ? n : 0))
		return MISCOUNTED;
	return reach;
}

/* Where an access of @task to user memory begins; an NMI may try at any time. */
static phys_addr_t tables_of(struct task_struct *task)
{
	u64 ttbr0 = read_sysreg(ttbr0_el1);

#ifdef CONFIG_ARM64_SW_TTBR0_PAN
	if (system_uses_ttbr0_pan())
		ttbr0 = READ_ONCE(task_thread_info(task)->ttbr0);
#endif
	/* CnP, were it set, would stay. */
	return ttbr0 & ~TTBR_ASID_MASK;
}

/* Does this CPU walk the tables of @mm, or none if it is NULL? Preemption is off. */
static bool is_walked(struct mm_struct *mm)
{
	u64 asid = FIELD_GET(TTBR_ASID_MASK, read_sysreg(ttbr1_el1));
	phys_addr_t pgd = mm ? virt_to_phys(mm->pgd) :
			       __pa_symbol(reserved_pg_dir);

	return __this_cpu_read(lull_cpu.loaded) == mm &&
	       !__this_cpu_read(lull_cpu.leaving) &&
	       tables_of(current) == phys_to_ttbr(pgd) &&
	       (system_uses_ttbr0_pan() || asid == (mm ? ASID(mm) : 0));
}

/* Load @mm on this CPU. Return the number of TLBIs; -1 if it is not loaded then. */
static int load(struct mm_struct *mm)
{
	int stale;

	preempt_disable();
	stale = counted(TLBI_STALE);
	kthread_use_mm(mm);
	stale = is_walked(mm) ? counted(TLBI_STALE) - stale : -1;
	preempt_enable();
	return stale;
}

/* Park. Return -1 if @mm is still loaded then. */
static int leave(struct mm_struct *mm)
{
	int error;

	preempt_disable();
	kthread_unuse_mm(mm);
	error = is_walked(NULL) ? 0 : -1;
	preempt_enable();
	return error;
}

static int load_and_leave(void *mm)
{
	int stale = load(mm);

	return leave(mm) ?: stale;
}

static int visit(struct mm_struct *mm, unsigned int cpu)
{
	return smp_call_on_cpu(cpu, load_and_leave, mm, false);
}

/**
 * struct user - OTHER uses an address space until it is let go
 * @how: HOLDS: has it loaded all the time. GOES: has not executed the DSB that ends
 *	its walks. SLEEPS: the task is switched out
 * @stale: number of TLBIs of the load
 */
struct user {
	struct work_struct work;
	struct mm_struct *mm;
	enum { HOLDS, GOES, SLEEPS } how;
	struct task_struct *task;
	int stale;
	struct completion uses, let_go;
};

static void use(struct work_struct *work)
{
	struct user *user = container_of(work, struct user, work);

	user->task = current;
	user->stale = load(user->mm);
	if (user->how == SLEEPS) {
		complete(&user->uses);
		wait_for_completion(&user->let_go);
	} else {
		preempt_disable();
		if (user->how == GOES) {
			this_cpu_write(lull_cpu.leaving, user->mm);
			this_cpu_write(lull_cpu.loaded, NULL);
		}
		complete(&user->uses);
		while (!completion_done(&user->let_go))
			cpu_relax();
		this_cpu_write(lull_cpu.loaded, user->mm);
		this_cpu_write(lull_cpu.leaving, NULL);
		preempt_enable();
	}
	kthread_unuse_mm(user->mm);
}

/* let_go() must follow. Return the number of TLBIs. */
static int use_elsewhere(struct user *user, struct mm_struct *mm, int how)
{
	user->mm = mm;
	user->how = how;
	init_completion(&user->uses);
	init_completion(&user->let_go);
	INIT_WORK_ONSTACK(&user->work, use);
	schedule_work_on(OTHER, &user->work);
	wait_for_completion(&user->uses);
	return user->stale;
}

static int let_go(struct user *user)
{
	complete(&user->let_go);
	flush_work(&user->work);
	destroy_work_on_stack(&user->work);
	return 0;
}

/*
 * STATE: all of it is as in struct step. VISIT...: load and leave. HOLD, LEAVING,
 * LET_GO: see struct user. LOOK: a look begins or ends. PASS: a flush was elided.
 */
enum op {
	END, STATE, VISIT, VISIT_OTHER, VISIT_THIRD, LOAD, LEAVE,
	HOLD, LEAVING, LET_GO, FLUSH, FLUSH_TABLES, FLUSH_FUNCTIONS,
	LOOK, PASS, PIN, UNPIN, NTLBPA, OFF, ON,
};

/* @result: the number of TLBIs of a load, or the reach of a flush */
struct step {
	enum op op;
	int result;
	unsigned long clean;
	unsigned int walker;
	bool passed;
	int looks;
};

static const struct story {
	const char *name;
	struct step steps[16];
} stories[] = {
	/* Bits or notes at the beginning; a TLBI or a look without need. */
	{ "new", {
		{ FLUSH, RES_NOWHERE }, { FLUSH_TABLES, RES_NOWHERE },
		{ FLUSH_FUNCTIONS, RES_NOWHERE }, { STATE },
	} },
	/* A first load that notes nothing, and loads that forget without need. */
	{ "first loads", {
		{ VISIT_OTHER, 0 }, { STATE, 0, O, OTHER + 1 },
		{ VISIT_OTHER, 0 }, { STATE, 0, O, OTHER + 1 },
		{ VISIT_THIRD, 1 }, { STATE, 0, O | T, RES_WALKERS },
		{ VISIT_THIRD, 0 }, { STATE, 0, O | T, RES_WALKERS },
	} },
	/* A broadcast or a look although no other CPU is clean. */
	{ "loaded here alone", {
		{ LOAD, 0 }, { FLUSH, RES_HERE }, { FLUSH_FUNCTIONS, RES_HERE },
		{ LEAVE }, { STATE, 0, H, HERE + 1 },
	} },
	/* A flush that passes by a CPU that has the address space loaded. */
	{ "loaded elsewhere", {
		{ HOLD, 0 }, { FLUSH, RES_EVERYWHERE },
		{ FLUSH_FUNCTIONS, RES_EVERYWHERE }, { STATE, 0, O, OTHER + 1 },
		{ LOAD, 1 }, { FLUSH, RES_EVERYWHERE }, { LEAVE }, { LET_GO },
		{ STATE, 0, H | O, RES_WALKERS },
	} },
	/* A leave that counts as complete before the DSB. */
	{ "leaving", {
		{ LEAVING, 0 }, { FLUSH, RES_EVERYWHERE },
		{ FLUSH_TABLES, RES_EVERYWHERE }, { STATE, 0, O, OTHER + 1 },
		{ LET_GO }, { FLUSH, RES_NOWHERE },
		{ STATE, 0, 0, OTHER + 1, true, 2 },
	} },
	/* A CPU that was passed by and does not forget, or is looked at again. */
	{ "passed by", {
		{ VISIT_OTHER, 0 }, { LOAD, 1 }, { FLUSH, RES_HERE },
		{ STATE, 0, H, RES_WALKERS, true, 2 }, { FLUSH, RES_HERE },
		{ LEAVE }, { VISIT_OTHER, 1 }, { VISIT_OTHER, 0 },
		{ STATE, 0, H | O, RES_WALKERS, true, 2 },
	} },
	/* A flush that trusts the bit of its own CPU, which has left. */
	{ "passes itself by", {
		{ VISIT, 0 }, { FLUSH, RES_NOWHERE },
		{ STATE, 0, 0, HERE + 1, true, 2 },
		{ FLUSH_FUNCTIONS, RES_NOWHERE }, { VISIT, 1 },
		{ STATE, 0, H, HERE + 1, true, 2 },
	} },
	/* A flush that trusts bits while another one looks. */
	{ "another flush looks", {
		{ LOAD, 0 }, { LOOK }, { FLUSH, RES_EVERYWHERE }, { LEAVE },
		{ FLUSH, RES_EVERYWHERE }, { VISIT_OTHER, 1 },
		{ FLUSH_TABLES, RES_EVERYWHERE },
		{ STATE, 0, H | O, RES_WALKERS, false, 1 },
		{ LOOK }, { FLUSH, RES_NOWHERE },
		{ STATE, 0, 0, RES_WALKERS, true, 4 },
	} },
	/* A way back, with no switch of address spaces, that does not test the bit. */
	{ "parked and back", {
		{ LOAD, 0 }, { LEAVE }, { LOAD, 0 }, { LEAVE },
		{ FLUSH, RES_NOWHERE }, { LOAD, 1 }, { LEAVE },
		{ STATE, 0, H, HERE + 1, true, 2 },
	} },
	/* A broadcast for tables that only this CPU has walked. */
	{ "tables of one walker", {
		{ LOAD, 0 }, { FLUSH_TABLES, RES_HERE }, { LEAVE },
		{ FLUSH_TABLES, RES_DONE }, { VISIT, 0 },
		{ STATE, 0, H, HERE + 1 },
	} },
	/* A CPU that keeps tables it has walked; notes that a look leaves behind. */
	{ "tables of several walkers", {
		{ VISIT_OTHER, 0 }, { FLUSH_TABLES, RES_DONE },
		{ STATE, 0, 0, HERE + 1, false, 2 },
		{ VISIT_THIRD, 1 }, { LOAD, 1 }, { FLUSH, RES_HERE },
		{ STATE, 0, H, RES_WALKERS, true, 4 }, { FLUSH_TABLES, RES_DONE },
		{ STATE, 0, H, HERE + 1, false, 6 }, { FLUSH_TABLES, RES_HERE },
		{ LEAVE }, { VISIT_THIRD, 1 },
		{ STATE, 0, H | T, RES_WALKERS, false, 6 },
	} },
	/* A local flush of tables that two CPUs walk, or not of the whole ASID. */
	{ "tables loaded elsewhere", {
		{ HOLD, 0 }, { LOAD, 1 }, { FLUSH_TABLES, RES_EVERYWHERE },
		{ STATE, 0, H | O, RES_WALKERS }, { PASS },
		{ FLUSH_TABLES, RES_DONE }, { FLUSH, RES_EVERYWHERE },
		{ NTLBPA }, { FLUSH_TABLES, RES_EVERYWHERE },
		{ STATE, 0, H | O, RES_WALKERS, true }, { LEAVE }, { LET_GO },
		{ FLUSH_TABLES, RES_NOWHERE }, { STATE, 0, 0, RES_WALKERS, true, 2 },
	} },
	/* Flushes that use the state while it is off, and loads that do not keep it. */
	{ "off and on", {
		{ OFF }, { HOLD, 0 }, { FLUSH_FUNCTIONS, RES_EVERYWHERE },
		{ FLUSH, RES_EVERYWHERE }, { FLUSH_TABLES, RES_EVERYWHERE },
		{ PASS }, { FLUSH, RES_EVERYWHERE }, { FLUSH_TABLES, RES_DONE },
		{ LET_GO }, { STATE, 0, O, OTHER + 1, true },
		{ ON }, { VISIT_OTHER, 0 }, { FLUSH, RES_NOWHERE },
		{ STATE, 0, 0, OTHER + 1, true, 2 },
	} },
	/* A device that shares the ASID, and that no broadcast reaches. */
	{ "pinned", {
		{ LOAD, 0 }, { PIN }, { FLUSH, RES_EVERYWHERE },
		{ FLUSH_TABLES, RES_EVERYWHERE }, { LEAVE },
		{ FLUSH_FUNCTIONS, RES_EVERYWHERE }, { UNPIN },
		{ FLUSH_TABLES, RES_DONE }, { STATE, 0, H, HERE + 1 },
	} },
};

KUNIT_ARRAY_PARAM_DESC(story, stories, name);

static int go(struct mm_struct *mm, struct user *user, enum op op)
{
	switch (op) {
	case VISIT ... VISIT_THIRD:
		return visit(mm, HERE + op - VISIT);
	case LOAD:
		return load(mm);
	case LEAVE:
		return leave(mm);
	case HOLD ... LEAVING:
		return use_elsewhere(user, mm, HOLDS + op - HOLD);
	case LET_GO:
		return let_go(user);
	case FLUSH ... FLUSH_FUNCTIONS:
		return flush(mm, LEAVES + op - FLUSH);
	case LOOK:
		atomic_inc(&mm->context.residency.looks);
		break;
	case PASS:
		mm->context.residency.passed = true;
		break;
	case PIN ... UNPIN:
		refcount_set(&mm->context.pinned, op == PIN);
		break;
	case NTLBPA:
		lull_residency_ntlbpa = 1;
		break;
	case OFF ... ON:
		return lull_switch_set(&lull_residency_switch,
				       op == ON ? "on" : "off");
	default:
		break;
	}
	return 0;
}

static void goes_as_told(struct kunit *test)
{
	const struct story *story = test->param_value;
	const struct step *step;
	struct user user;

	for (step = story->steps; step->op != END; step++) {
		KUNIT_EXPECT_EQ_MSG(test, go(test->priv, &user, step->op),
				    step->result, "%s, step %zd", story->name,
				    step - story->steps);
		if (step->op == STATE)
			expect_state(test, test->priv, step->clean, step->walker,
				     step->passed, step->looks);
	}
}

/* An idle CPU that keeps the address space, and an NMI that could use its tables. */
static void switched_out_is_left(struct kunit *test)
{
	struct mm_struct *mm = test->priv;
	struct user user;

	use_elsewhere(&user, mm, SLEEPS);
	wait_task_inactive(user.task, TASK_UNINTERRUPTIBLE);
	KUNIT_EXPECT_TRUE(test, lull_is_nowhere(mm));
	KUNIT_EXPECT_EQ(test, flush(mm, LEAVES), RES_NOWHERE);
	if (system_uses_ttbr0_pan())
		KUNIT_EXPECT_EQ(test, tables_of(user.task),
				phys_to_ttbr(__pa_symbol(reserved_pg_dir)));
	let_go(&user);
}

/* A look that ends where the survey does, or does not put back the right bit. */
static void looks_beyond_the_survey(struct kunit *test)
{
	unsigned long offline = cpumask_bits(cpu_possible_mask)[0] &
				~cpumask_bits(cpu_online_mask)[0];
	struct mm_struct *mm = test->priv;
	unsigned long *clean = cpumask_bits(mm_cpumask(mm));
	unsigned int last = __fls(offline | 1);

	if (hweight_long(offline) <= RES_SURVEY)
		kunit_skip(test, "needs %d CPUs that are offline", RES_SURVEY + 1);

	*clean = offline;
	KUNIT_EXPECT_EQ(test, flush(mm, LEAVES), RES_NOWHERE);
	expect_state(test, mm, 0, 0, true, 2);

	per_cpu(lull_cpu.loaded, last) = mm;
	*clean = offline;
	KUNIT_EXPECT_EQ(test, flush(mm, LEAVES), RES_EVERYWHERE);
	expect_state(test, mm, BIT(last), 0, true, 4);
	KUNIT_EXPECT_EQ(test, mm->context.residency.found, last + 1);

	*clean = offline;
	mm->context.residency.found = 0;
	mm->context.residency.walker = OTHER + 1;
	KUNIT_EXPECT_EQ(test, flush(mm, TABLES), RES_DONE);
	expect_state(test, mm, BIT(last), RES_WALKERS, true, 6);
	per_cpu(lull_cpu.loaded, last) = NULL;
}

struct child {
	struct kunit *test;
	struct completion done;
};

static int child_of_fork(void *arg)
{
	struct child *child = arg;

	expect_state(child->test, current->mm, H, HERE + 1, false, 0);
	complete(&child->done);
	do_exit(0);
}

/* A child whose notes are copies of its parent's. */
static void fork_begins_anew(struct kunit *test)
{
	struct child child = { .test = test };
	struct kernel_clone_args args = {
		.exit_signal = SIGCHLD, .fn = child_of_fork, .fn_arg = &child,
	};
	struct mm_struct *mm = test->priv;
	pid_t pid;

	init_completion(&child.done);
	visit(mm, OTHER);
	flush(mm, LEAVES);
	visit(mm, THIRD);
	kthread_use_mm(mm);
	pid = kernel_clone(&args);
	kthread_unuse_mm(mm);
	KUNIT_ASSERT_GT(test, pid, 0);
	wait_for_completion(&child.done);
}

/**
 * struct racer - a CPU that loads and flushes at random
 * @stays: odd while this CPU certainly has the address space loaded
 * @elided: the number of the last flush by this CPU that was not a broadcast. Flushes
 *	of all CPUs are numbered in the order in which they begin.
 * @clean: how many flushes had begun when this CPU had last become clean
 * @forget: a flush by this CPU has passed this CPU by
 */
struct racer {
	atomic_t stays;
	unsigned int elided, clean;
	bool forget;
};

static DEFINE_PER_CPU(struct racer, racers);

/* Flushes are numbered as they begin. missed, kept: mistakes */
static struct {
	struct mm_struct *mm;
	atomic_t ready, flushes, missed, kept, stale, reached[MISCOUNTED + 1];
} race;

/* A CPU that was not reached by a flush that began after it was clean must forget. */
static void race_load(struct racer *me)
{
	bool must = me->forget;
	unsigned int cpu, elided;
	int stale;

	for_each_online_cpu(cpu) {
		/* Before the load: pairs with race_flush() */
		elided = smp_load_acquire(per_cpu_ptr(&racers.elided, cpu));
		must |= per_cpu_ptr(&racers, cpu) != me && elided > me->clean;
	}
	stale = load(race.mm);
	if (stale < must)
		atomic_inc(&race.kept);
	if (stale) {
		smp_mb(); /* the bit before the number: pairs with race_flush() */
		me->clean = atomic_read(&race.flushes);
		me->forget = false;
		atomic_inc(&race.stale);
	}
	atomic_inc_return(&me->stays);
}

/* A flush that is no broadcast, while another CPU has the address space all the time? */
static void race_flush(struct racer *me, bool tables)
{
	unsigned int number = atomic_inc_return(&race.flushes);
	int reach, before[BITS_PER_LONG];
	unsigned int cpu;

	for_each_online_cpu(cpu)
		before[cpu] = atomic_read(per_cpu_ptr(&racers.stays, cpu));
	smp_mb(); /* pairs with the full barriers of stays */
	reach = flush(race.mm, tables ? TABLES : LEAVES);
	atomic_inc(&race.reached[reach]);
	if (reach != RES_HERE && reach != RES_NOWHERE)
		return;
	smp_mb(); /* as above */
	for_each_online_cpu(cpu)
		if (per_cpu_ptr(&racers, cpu) != me && before[cpu] & 1 &&
		    before[cpu] == atomic_read(per_cpu_ptr(&racers.stays, cpu)))
			atomic_inc(&race.missed);
	me->forget |= reach == RES_NOWHERE && !tables;
	/* After the flush: pairs with race_load() */
	smp_store_release(&me->elided, number);
}

static void race_here(struct work_struct *work)
{
	struct racer *me = per_cpu_ptr(&racers, raw_smp_processor_id());

	atomic_inc(&race.ready);
	while (atomic_read(&race.ready) < num_online_cpus())
		cond_resched();
	for (int i = 0; i < 500; i++) {
		unsigned int todo = get_random_u32_below(16);

		preempt_disable();
		if (todo & 3)
			race_load(me);
		udelay(todo);
		if (!(todo & 1))
			race_flush(me, todo & 8);
		if (todo & 3) {
			atomic_inc_return(&me->stays);
			kthread_unuse_mm(race.mm);
		}
		preempt_enable();
		udelay(todo);
	}
}

/* A flush and a load that miss each other, on all CPUs at once. */
static void loads_and_flushes_at_once(struct kunit *test)
{
	unsigned int cpu;

	memset(&race, 0, sizeof(race));
	race.mm = test->priv;
	for_each_online_cpu(cpu) {
		memset(per_cpu_ptr(&racers, cpu), 0, sizeof(struct racer));
		visit(race.mm, cpu);
	}
	KUNIT_ASSERT_EQ(test, schedule_on_each_cpu(race_here), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.missed), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.kept), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.reached[MISCOUNTED]), 0);
	/* All of this has happened, or nothing was tested. */
	KUNIT_EXPECT_GT(test, atomic_read(&race.stale), 0);
	for (int reach = RES_NOWHERE; reach <= RES_EVERYWHERE; reach++)
		KUNIT_EXPECT_GT_MSG(test, atomic_read(&race.reached[reach]), 0,
				    "reach %d", reach);
}

static const char *chosen_before;
static int ntlbpa_before;

static int residency_init(struct kunit *test)
{
	struct lull_switch *sw = &lull_residency_switch;

	chosen_before = sw->policies[sw->policy];
	ntlbpa_before = lull_residency_ntlbpa;
	if ((cpumask_bits(cpu_online_mask)[0] & (BIT(CPUS) - 1)) != BIT(CPUS) - 1)
		kunit_skip(test, "needs CPUs 0 to %d", CPUS - 1);
	test->priv = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	lull_residency_ntlbpa = 0;
	return lull_switch_set(sw, "on") ?:
	       set_cpus_allowed_ptr(current, cpumask_of(HERE));
}

static void residency_exit(struct kunit *test)
{
	lull_residency_ntlbpa = ntlbpa_before;
	lull_switch_set(&lull_residency_switch, chosen_before);
	if (test->priv)
		mmput(test->priv);
}

static struct kunit_case residency_cases[] = {
	KUNIT_CASE_PARAM(goes_as_told, story_gen_params),
	KUNIT_CASE(switched_out_is_left),
	KUNIT_CASE(looks_beyond_the_survey),
	KUNIT_CASE(fork_begins_anew),
	KUNIT_CASE(loads_and_flushes_at_once),
	{}
};

static struct kunit_suite residency_suite = {
	.name = "lull_residency",
	.init = residency_init,
	.exit = residency_exit,
	.test_cases = residency_cases,
};

kunit_test_suite(residency_suite);
