// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: every history of a few CPUs, against what their TLBs may hold.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>

#include <asm/cpufeature.h>
#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "residency.h"

#define CPUS	3
#define ALL	((1u << CPUS) - 1)

/*
 * What the word must keep track of. A CPU that has once loaded the address space
 * holds entries of it; after a flush these are old, until it forgets them.
 */
struct story {
	u64 w;
	unsigned int loaded, counted;	/* masks of CPUs */
	unsigned int known;		/* hold entries under this ASID */
	unsigned int old;		/* ... that are no longer true */
	/* Without FEAT_nTLBPA: hold descriptors of a table, by its physical address */
	unsigned int walked;
	unsigned int missed;		/* ... of leaves, and no TLBI has come */
};

struct search {
	struct kunit *test;
	unsigned long *seen;
	struct story *todo;		/* seen, and not gone on from */
	unsigned int n;
	unsigned int limit;
	unsigned int cpus;		/* that load it */
	bool sticky, ntlbpa;
	unsigned int states, usual, recounted, freed, broadcast;
	u64 met;			/* bits of words that occurred */
};

#define STORY_BITS	26
#define MOST_STORIES	65536		/* at once */

static unsigned long story_number(const struct story *s)
{
	unsigned long n = FIELD_GET(RES_COUNT, s->w);		/* 2 bits */

	n = n << 4 | (s->w & (RES_MANY | RES_STALE | RES_RSTALE | RES_WANDERED)) >> 8;
	n = n << 2 | FIELD_GET(RES_HOME, s->w);
	n = n << 3 | s->loaded;
	n = n << 3 | s->counted;
	n = n << 3 | s->known;
	n = n << 3 | s->old;
	n = n << 3 | s->walked;
	return n << 3 | s->missed;
}

/* Who has it loaded walks its tables, at any time. */
static void story_walks(struct search *search, struct story *s)
{
	if (!search->ntlbpa)
		s->walked |= s->loaded;
}

/* A TLBI for the ASID has completed on these CPUs. */
static void story_forgets(struct story *s, unsigned int cpus)
{
	s->walked &= ~cpus;
	s->missed &= ~cpus;
}

static void story_goes_on(struct search *search, struct story s)
{
	story_walks(search, &s);
	if (search->test->status == KUNIT_FAILURE ||
	    test_and_set_bit(story_number(&s), search->seen))
		return;
	search->states++;
	search->met |= s.w;
	KUNIT_ASSERT_LT(search->test, search->n, MOST_STORIES);
	search->todo[search->n++] = s;
}

static void story_load(struct search *search, struct story s, unsigned int cpu)
{
	enum res_load todo = RES_LOAD_CLEAN;
	unsigned int bit = 1u << cpu;
	u64 w;

	w = res_load(s.w, cpu, search->limit, search->sticky, &todo);
	if (res_load_counts(s.w, cpu, search->limit)) {
		KUNIT_EXPECT_EQ(search->test, w, s.w + 1);
		KUNIT_EXPECT_EQ(search->test, todo, RES_LOAD_CLEAN);
		search->usual++;
	}
	s.w = w;
	if (todo == RES_LOAD_LOCAL) {
		s.old &= ~bit;
		s.known &= ~bit;
		story_forgets(&s, bit);
	}
	if (todo == RES_LOAD_BROADCAST) {
		s.known = 0;
		s.old = 0;
		s.w &= ~RES_OLD;
		story_forgets(&s, ALL);
	}
	s.loaded |= bit;
	s.known |= bit;
	if (!(s.w & RES_MANY))
		s.counted |= bit;
	KUNIT_EXPECT_FALSE_MSG(search->test, s.old & bit,
			       "CPU %u loads old entries, word %llx", cpu, s.w);
	story_goes_on(search, s);
}

static void story_leave(struct search *search, struct story s, unsigned int cpu)
{
	unsigned int bit = 1u << cpu;

	if (s.counted & bit)
		s.w--;
	s.loaded &= ~bit;
	s.counted &= ~bit;
	story_goes_on(search, s);
}

/* A leaf has changed; what was there is old wherever no TLBI comes. */
static void story_flush(struct search *search, struct story s, unsigned int cpu)
{
	unsigned int bit = 1u << cpu;
	enum res_reach reach;

	s.w = res_flush(s.w, cpu, s.loaded & bit, &reach);
	switch (reach) {
	case RES_NOWHERE:
		s.old = s.known;
		s.missed |= s.walked;
		break;
	case RES_HERE:
		s.old = (s.old | s.known) & ~bit;
		s.missed |= s.walked & ~bit;
		break;
	case RES_EVERYWHERE:
		s.old = 0;
		break;
	default:
		KUNIT_FAIL(search->test, "tables were not freed");
	}
	KUNIT_EXPECT_FALSE_MSG(search->test, s.old & s.loaded,
			       "flushed by CPU %u, and old on %x, word %llx",
			       cpu, s.old & s.loaded, s.w);
	story_goes_on(search, s);
}

/*
 * A table is freed. Afterwards no CPU may hold anything of what was in it, also if
 * that CPU has not loaded the address space for long: the page may become a table
 * of another, which it has.
 */
static void story_free(struct search *search, struct story s, unsigned int cpu)
{
	unsigned int bit = 1u << cpu, told = 0, loaded = s.loaded;
	enum res_reach reach;
	bool all = false;

	s.w = res_flush_tables(s.w, cpu, s.loaded & bit, &reach);
	switch (reach) {
	case RES_NOWHERE:
		break;
	case RES_ASID_HERE:
		all = true;
		fallthrough;
	case RES_HERE:
		told = bit;
		break;
	case RES_ASID_EVERYWHERE:
		all = true;
		fallthrough;
	case RES_EVERYWHERE:
		told = ALL;
		search->broadcast++;
		break;
	}
	s.old = (s.old | s.known) & ~told;
	s.walked &= ~told;
	if (all) {
		s.known &= ~told;
		story_forgets(&s, told);
	}
	KUNIT_EXPECT_FALSE_MSG(search->test, (s.walked | s.missed) & ~told,
			       "freed by CPU %u, and kept on %x, word %llx",
			       cpu, s.walked | s.missed, s.w);
	/* A range does for what nobody was spared: MANY broadcasts all its life. */
	KUNIT_EXPECT_FALSE_MSG(search->test, s.missed,
			       "freed by CPU %u, leaves kept on %x, word %llx",
			       cpu, s.missed, s.w);
	KUNIT_EXPECT_FALSE_MSG(search->test, s.old & s.loaded,
			       "freed by CPU %u, and old on %x, word %llx",
			       cpu, s.old & s.loaded, s.w);
	s.known |= loaded;
	search->freed++;
	story_goes_on(search, s);
}

/* A look that finds it on no other CPU, and the broadcast that follows. */
static void story_look(struct search *search, struct story s, unsigned int cpu)
{
	unsigned int bit = 1u << cpu, here = s.loaded & bit;

	if (!res_worth_looking(s.w) || s.loaded & ~bit)
		return;
	s.w = res_recount(s.w, cpu, here);
	s.counted = here;
	s.known = here;
	s.old = 0;
	story_forgets(&s, ALL);
	KUNIT_EXPECT_FALSE(search->test, s.w & RES_MANY);
	search->recounted++;
	story_goes_on(search, s);
}

static void story_fresh(struct search *search, struct story s)
{
	u64 w = res_fresh(s.w, search->ntlbpa);

	if (w == s.w)
		return;
	/* Under the new number nobody knows anything. */
	s.w = w;
	s.known = 0;
	s.old = 0;
	KUNIT_EXPECT_EQ(search->test, s.loaded, 0);
	story_goes_on(search, s);
}

/* Every history that @search allows, which has its first five members set. */
static void search_all(struct search *search)
{
	struct story start = { .w = FIELD_PREP(RES_EPOCH, 1) };
	struct kunit *test = search->test;

	search->seen = vzalloc(BIT(STORY_BITS) / 8);
	search->todo = vmalloc_array(MOST_STORIES, sizeof(*search->todo));
	if (!search->seen || !search->todo) {
		KUNIT_FAIL(test, "no memory");
		goto out;
	}
	story_goes_on(search, start);
	while (search->n) {
		struct story s = search->todo[--search->n];

		for (unsigned int cpu = 0; cpu < search->cpus; cpu++) {
			if (s.loaded & 1u << cpu)
				story_leave(search, s, cpu);
			else
				story_load(search, s, cpu);
			story_flush(search, s, cpu);
			if (!search->ntlbpa)
				story_free(search, s, cpu);
			if (!search->sticky)
				story_look(search, s, cpu);
		}
		story_fresh(search, s);
	}
	kunit_info(test, "limit %u: %u states", search->limit, search->states);
out:
	vfree(search->todo);
	vfree(search->seen);
}

/* @met: bits that some word must have had, or it did not go everywhere and proves nothing. */
static void try_all(struct kunit *test, unsigned int limit, bool sticky, u64 met)
{
	for (int ntlbpa = 0; ntlbpa < 2; ntlbpa++) {
		struct search search = {
			.test = test, .limit = limit, .cpus = CPUS,
			.sticky = sticky, .ntlbpa = ntlbpa,
		};

		search_all(&search);
		KUNIT_EXPECT_EQ(test, search.met & met, met);
		KUNIT_EXPECT_GT(test, search.usual, 0);
		KUNIT_EXPECT_EQ(test, !!search.recounted,
				!sticky && met & RES_MANY);
		KUNIT_EXPECT_EQ(test, !!search.broadcast, !ntlbpa);
	}
}

static void counted_up_to_one(struct kunit *test)
{
	try_all(test, 1, false, RES_MANY | RES_OLD | RES_WANDERED);
}

static void counted_up_to_two(struct kunit *test)
{
	try_all(test, 2, false, RES_MANY | RES_OLD | RES_WANDERED);
}

static void counted_up_to_three(struct kunit *test)
{
	/* Three CPUs do not pass it. */
	try_all(test, 3, false, RES_OLD | RES_WANDERED);
}

static void sticky(struct kunit *test)
{
	/* Nobody wanders: the second CPU makes it MANY. */
	try_all(test, 3, true, RES_MANY | RES_STALE);
}

/* Who has only ever run on one CPU frees tables, and tells nobody else. */
static void freed_by_one_cpu(struct kunit *test)
{
	struct search search = { .test = test, .limit = 4, .cpus = 1 };

	search_all(&search);
	KUNIT_EXPECT_GT(test, search.freed, 0);
	KUNIT_EXPECT_EQ(test, search.broadcast, 0);
}

/* One that has moved tells all when it frees tables, once, and not each time. */
static void freed_after_a_move(struct kunit *test)
{
	enum res_reach reach;
	enum res_load todo;
	u64 w = 0;

	w = res_load(w, 0, 4, false, &todo) - 1;
	w = res_load(w, 1, 4, false, &todo);
	w = res_flush_tables(w, 1, true, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_ASID_EVERYWHERE);
	w = res_flush_tables(w, 1, true, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_HERE);

	/* Loaded no more: where it was last, the CPU forgets it all. */
	w = res_flush_tables(w - 1, 1, false, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_ASID_HERE);
	/* By another CPU: told to all, and then that one is home. */
	w = res_flush_tables(w, 2, false, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_ASID_EVERYWHERE);
	w = res_flush_tables(w, 2, false, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_ASID_HERE);

	/* On two at once, a leaf having been flushed on one: all of the ASID. */
	w = res_load(w, 0, 4, false, &todo);
	w = res_flush(w, 0, true, &reach);
	w = res_load(w, 1, 4, false, &todo);
	w = res_flush_tables(w, 0, true, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_ASID_EVERYWHERE);
	/* And nobody believes then that it was on one alone. */
	KUNIT_EXPECT_TRUE(test, w & RES_WANDERED);

	/* Never loaded: nobody has walked it. */
	res_flush_tables(RES_STALE, 0, false, &reach);
	KUNIT_EXPECT_EQ(test, reach, RES_NOWHERE);
}

/* A number that no TLB knows does not make a CPU forget what it has walked. */
static void fresh_number_is_not_enough(struct kunit *test)
{
	u64 w = res_set_home(RES_STALE | RES_WANDERED, 1);

	KUNIT_EXPECT_EQ(test, res_fresh(w, true), 0);
	KUNIT_EXPECT_EQ(test, res_fresh(w, false), w);
	KUNIT_EXPECT_EQ(test, res_fresh(RES_STALE, false), 0);
}

/* Home is a CPU's number plus one, and must hold the last CPU there may be. */
static void home_holds_every_cpu(struct kunit *test)
{
	unsigned int last = CONFIG_NR_CPUS - 1;
	u64 w = res_set_home(RES_MANY | RES_OLD, last);

	KUNIT_EXPECT_TRUE(test, res_is_home(w, last));
	KUNIT_EXPECT_FALSE(test, res_is_home(w, 0));
	KUNIT_EXPECT_EQ(test, w & ~RES_HOME, RES_MANY | RES_OLD);
	KUNIT_EXPECT_FALSE(test, res_is_home(0, 0));
}

static void limit_fits_the_count(struct kunit *test)
{
	enum res_load todo;
	u64 w = 0;

	for (unsigned int cpu = 0; cpu < RES_MAX_LIMIT; cpu++) {
		w = res_load(w, cpu, RES_MAX_LIMIT, false, &todo);
		KUNIT_EXPECT_EQ(test, res_count(w), cpu + 1);
	}
	KUNIT_EXPECT_FALSE(test, w & RES_MANY);
	w = res_load(w, RES_MAX_LIMIT, RES_MAX_LIMIT, false, &todo);
	KUNIT_EXPECT_TRUE(test, w & RES_MANY);
	KUNIT_EXPECT_EQ(test, res_count(w), RES_MAX_LIMIT);
}

/* Whoever loads it takes a look's mark away, and changes nothing else of MANY. */
static void load_disturbs_a_look(struct kunit *test)
{
	u64 w = RES_MANY | FIELD_PREP(RES_EPOCH, 7) | 3;
	enum res_load todo;

	KUNIT_EXPECT_TRUE(test, res_worth_looking(w));
	KUNIT_EXPECT_EQ(test, res_load(w, 0, 4, false, &todo), w);
	KUNIT_EXPECT_EQ(test, res_load(w | RES_LOOKING, 0, 4, false, &todo), w);
	KUNIT_EXPECT_EQ(test, todo, RES_LOAD_CLEAN);
	KUNIT_EXPECT_FALSE(test, res_worth_looking(w | RES_STALE));
	KUNIT_EXPECT_FALSE(test, res_worth_looking(w & ~RES_MANY));
	KUNIT_EXPECT_FALSE(test, res_worth_looking(RES_MANY));
	KUNIT_EXPECT_EQ(test, res_recount(w, 2, false),
			FIELD_PREP(RES_EPOCH, 7) | res_set_home(0, 2));
	KUNIT_EXPECT_EQ(test, res_count(res_recount(w, 2, true)), 1);
}

static u64 event(enum vm_event_item item)
{
	static unsigned long events[NR_VM_EVENT_ITEMS];

	all_vm_events(events);
	return events[item];
}

/* What is made while it is off is MANY, and stays so. */
static void off_is_stock(struct kunit *test)
{
	struct mm_struct *mm;

	KUNIT_ASSERT_EQ(test, lull_switch_set(&lull_residency_switch, "off"), 0);
	mm = mm_alloc();
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_residency_switch, "counted"), 0);
	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_EXPECT_EQ(test, atomic64_read(&mm->context.residency), RES_MANY);
	KUNIT_EXPECT_FALSE(test, lull_flush_page(mm, PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, lull_flush_mm(mm, false));
	KUNIT_EXPECT_EQ(test, atomic64_read(&mm->context.residency), RES_MANY);
	mmput(mm);
}

/* What was counted, too, once nobody has kept count for a while. */
static void off_ends_an_epoch(struct kunit *test)
{
	struct mm_struct *old = mm_alloc(), *new;

	KUNIT_ASSERT_NOT_NULL(test, old);
	KUNIT_EXPECT_TRUE(test, lull_flush_page(old, PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, lull_is_nowhere(old));
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_residency_switch, "off"), 0);
	KUNIT_EXPECT_FALSE(test, lull_flush_page(old, PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, lull_is_nowhere(old));
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_residency_switch, "counted"), 0);
	KUNIT_EXPECT_FALSE(test, lull_flush_page(old, PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, lull_is_nowhere(old));
	new = mm_alloc();
	KUNIT_EXPECT_TRUE(test, new && lull_flush_page(new, PAGE_SIZE));
	mmput(old);
	if (new)
		mmput(new);
}

static const char *chosen_before;

static int switch_on(struct kunit_suite *suite)
{
	struct lull_switch *sw = &lull_residency_switch;

	chosen_before = sw->policies[sw->policy];
	return lull_switch_set(sw, "counted");
}

static void switch_back(struct kunit_suite *suite)
{
	lull_switch_set(&lull_residency_switch, chosen_before);
}

static u64 word_of(struct mm_struct *mm)
{
	return atomic64_read(&mm->context.residency) & ~RES_EPOCH;
}

/* A real address space that no CPU has loaded: each kind of flush is elided. */
static void flush_of_a_sleeper(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();
	u64 before;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_EXPECT_EQ(test, word_of(mm), 0);
	before = event(TLBI_ELIDED);
	KUNIT_EXPECT_TRUE(test, lull_flush_page(mm, PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, word_of(mm), RES_STALE);
	KUNIT_EXPECT_TRUE(test, lull_flush_mm(mm, false));
	KUNIT_EXPECT_TRUE(test, lull_flush_range(mm, 0, SZ_2M, PAGE_SIZE, false,
						 TLBI_TTL_UNKNOWN, true));
	KUNIT_EXPECT_GE(test, event(TLBI_ELIDED), before + 3);
	mmput(mm);
}

/* Loaded here, and here alone: counted, flushed locally, and given back. */
static int use_and_flush(void *arg)
{
	struct kunit *test = arg;
	struct mm_struct *mm = test->priv;
	u64 w;

	preempt_disable();
	kthread_use_mm(mm);
	w = word_of(mm);
	KUNIT_EXPECT_EQ(test, res_count(w), 1);
	KUNIT_EXPECT_TRUE(test, res_is_home(w, smp_processor_id()));
	KUNIT_EXPECT_PTR_EQ(test, __this_cpu_read(lull_cpu.loaded), mm);
	KUNIT_EXPECT_TRUE(test, lull_flush_page(mm, PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, word_of(mm), w);
	kthread_unuse_mm(mm);
	KUNIT_EXPECT_EQ(test, res_count(word_of(mm)), 0);
	KUNIT_EXPECT_PTR_NE(test, __this_cpu_read(lull_cpu.loaded), mm);
	preempt_enable();
	return 0;
}

struct user {
	struct mm_struct *mm;
	struct completion loaded, leave;
	u64 before, after;
};

static int use_and_leave(void *arg)
{
	struct user *user = arg;

	kthread_use_mm(user->mm);
	kthread_unuse_mm(user->mm);
	complete(&user->loaded);
	return 0;
}

static struct task_struct *start(struct kunit *test, struct user *user,
				 int (*fn)(void *), int cpu)
{
	struct task_struct *task;

	user->mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, user->mm);
	init_completion(&user->loaded);
	init_completion(&user->leave);
	task = kthread_create_on_cpu(fn, user, cpu, "lull/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&user->loaded);
	return task;
}

/* It has run on a CPU, is loaded nowhere, and tables are freed there, or elsewhere. */
static void freed_when_loaded_nowhere(struct kunit *test)
{
	int cpu, said = lull_residency_ntlbpa;
	u64 local, broadcast;
	struct user user;

	for_each_online_cpu(cpu) {
		kthread_stop_put(start(test, &user, use_and_leave, cpu));

		preempt_disable();
		WRITE_ONCE(lull_residency_ntlbpa, 0);
		local = this_cpu_read(vm_event_states.event[TLBI_LOCAL]);
		broadcast = this_cpu_read(vm_event_states.event[TLBI_BROADCAST]);
		KUNIT_EXPECT_TRUE(test, lull_flush_mm(user.mm, true));
		local = this_cpu_read(vm_event_states.event[TLBI_LOCAL]) - local;
		broadcast = this_cpu_read(vm_event_states.event[TLBI_BROADCAST]) -
			    broadcast;
		KUNIT_EXPECT_EQ(test, local, cpu == smp_processor_id());
		KUNIT_EXPECT_EQ(test, broadcast, cpu != smp_processor_id());
		KUNIT_EXPECT_TRUE(test, res_is_home(word_of(user.mm),
						    smp_processor_id()));
		WRITE_ONCE(lull_residency_ntlbpa, said);
		preempt_enable();
		mmput(user.mm);
	}
}

/* What an access to user memory would load, with software PAN. */
static u64 saved_ttbr0(struct task_struct *task)
{
#ifdef CONFIG_ARM64_SW_TTBR0_PAN
	return READ_ONCE(task_thread_info(task)->ttbr0) & ~TTBR_ASID_MASK;
#else
	return 0;
#endif
}

static int use_and_sleep(void *arg)
{
	struct user *user = arg;

	kthread_use_mm(user->mm);
	user->before = saved_ttbr0(current);
	complete(&user->loaded);
	wait_for_completion(&user->leave);
	user->after = saved_ttbr0(current);
	kthread_unuse_mm(user->mm);
	return 0;
}

/*
 * A task that is switched out has its address space loaded nowhere. What it has
 * saved for software PAN is what an NMI would have loaded after the count went
 * down, and before the stacks were switched.
 */
static void switched_out_is_left(struct kunit *test)
{
	struct task_struct *task;
	struct user user;

	task = start(test, &user, use_and_sleep, cpumask_first(cpu_online_mask));
	wait_task_inactive(task, TASK_UNINTERRUPTIBLE);
	KUNIT_EXPECT_TRUE(test, lull_is_nowhere(user.mm));
	if (system_uses_ttbr0_pan())
		KUNIT_EXPECT_EQ(test, saved_ttbr0(task),
				phys_to_ttbr(__pa_symbol(reserved_pg_dir)));
	complete(&user.leave);
	kthread_stop_put(task);
	/* Back again it has its own. */
	if (system_uses_ttbr0_pan())
		KUNIT_EXPECT_EQ(test, user.before,
				phys_to_ttbr(virt_to_phys(user.mm->pgd)));
	KUNIT_EXPECT_EQ(test, user.after, user.before);
	mmput(user.mm);
}

static void flush_of_one_that_runs_here(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();

	KUNIT_ASSERT_NOT_NULL(test, mm);
	test->priv = mm;
	use_and_flush(test);
	mmput(mm);
}

/* MANY, and loaded nowhere: a look makes it counted, and the flush is done. */
static void many_is_left(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();
	u64 before = event(RESIDENCY_RECOUNT);
	bool pinned = false;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	atomic64_or(RES_MANY, &mm->context.residency);
	refcount_set(&mm->context.pinned, 1);
	/* More often than any CPU looks, on as many as the test may run on. */
	for (i = 0; i < 10000; i++)
		pinned |= lull_flush_page(mm, PAGE_SIZE);
	KUNIT_EXPECT_FALSE(test, pinned);
	KUNIT_EXPECT_EQ(test, word_of(mm), RES_MANY);
	refcount_set(&mm->context.pinned, 0);
	for (i = 0; i < 10000 && !lull_flush_page(mm, PAGE_SIZE); i++)
		;
	KUNIT_EXPECT_LT(test, i, 10000);
	KUNIT_EXPECT_GT(test, event(RESIDENCY_RECOUNT), before);
	KUNIT_EXPECT_EQ(test, word_of(mm) & ~RES_HOME, 0);
	KUNIT_EXPECT_TRUE(test, lull_is_nowhere(mm));
	mmput(mm);
}

#define NUMBER	BIT_ULL(40)	/* of an address space that is never loaded */

/* What is stale had better have another number. Is the one it has taken away? */
static bool is_taken(struct mm_struct *mm)
{
	unsigned long flags;
	bool taken;

	local_irq_save(flags);
	atomic64_set(&mm->context.id, NUMBER);
	taken = !lull_rename(mm);
	atomic64_set(&mm->context.id, 0);
	local_irq_restore(flags);
	return taken;
}

/*
 * Numbers are taken away with the policy "rename", and not while it comes or goes:
 * then there may be CPUs that load without the lock.
 */
static void numbers_are_taken_by_rename(struct kunit *test)
{
	static const char * const others[] = { "counted", "sticky", "off" };
	struct lull_switch *sw = &lull_residency_switch;
	int i, said = lull_residency_ntlbpa;
	struct mm_struct *mm;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		KUNIT_ASSERT_EQ(test, lull_switch_set(sw, "rename"), 0);
		mm = mm_alloc();
		KUNIT_ASSERT_NOT_NULL(test, mm);
		KUNIT_EXPECT_TRUE(test, lull_flush_page(mm, PAGE_SIZE));
		/* CPUs keep what they have walked, whatever the number. */
		WRITE_ONCE(lull_residency_ntlbpa, 0);
		KUNIT_EXPECT_FALSE(test, is_taken(mm));
		WRITE_ONCE(lull_residency_ntlbpa, 1);
		KUNIT_EXPECT_TRUE(test, is_taken(mm));

		KUNIT_EXPECT_EQ(test, lull_switch_set(sw, others[i]), 0);
		KUNIT_EXPECT_FALSE(test, is_taken(mm));
		static_branch_enable(&lull_residency_rename);
		KUNIT_EXPECT_FALSE(test, is_taken(mm));
		static_branch_disable(&lull_residency_rename);
		mmput(mm);
	}
	WRITE_ONCE(lull_residency_ntlbpa, said);
	KUNIT_EXPECT_EQ(test, lull_switch_set(sw, "counted"), 0);
}

static struct kunit_case residency_cases[] = {
	KUNIT_CASE(counted_up_to_one),
	KUNIT_CASE(counted_up_to_two),
	KUNIT_CASE(counted_up_to_three),
	KUNIT_CASE(sticky),
	KUNIT_CASE(freed_by_one_cpu),
	KUNIT_CASE(freed_after_a_move),
	KUNIT_CASE(fresh_number_is_not_enough),
	KUNIT_CASE(home_holds_every_cpu),
	KUNIT_CASE(limit_fits_the_count),
	KUNIT_CASE(load_disturbs_a_look),
	KUNIT_CASE(off_is_stock),
	KUNIT_CASE(off_ends_an_epoch),
	KUNIT_CASE(flush_of_a_sleeper),
	KUNIT_CASE(flush_of_one_that_runs_here),
	KUNIT_CASE(freed_when_loaded_nowhere),
	KUNIT_CASE(switched_out_is_left),
	KUNIT_CASE(many_is_left),
	KUNIT_CASE(numbers_are_taken_by_rename),
	{}
};

static struct kunit_suite residency_suite = {
	.name = "lull_residency",
	.suite_init = switch_on,
	.suite_exit = switch_back,
	.test_cases = residency_cases,
};

kunit_test_suite(residency_suite);
