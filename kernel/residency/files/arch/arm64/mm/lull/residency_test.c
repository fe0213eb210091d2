// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: every history of a few CPUs, against what their TLBs may hold.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include <asm/lull_residency.h>
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
};

struct search {
	struct kunit *test;
	unsigned long *seen;
	struct story *todo;		/* seen, and not gone on from */
	unsigned int n;
	unsigned int limit;
	bool sticky;
	unsigned int states, usual, recounted;
	u64 met;			/* bits of words that occurred */
};

#define STORY_BITS	20
#define MOST_STORIES	4096		/* at once */

static unsigned long story_number(const struct story *s)
{
	unsigned long n = FIELD_GET(RES_COUNT, s->w);		/* 2 bits */

	n = n << 4 | (s->w & (RES_MANY | RES_STALE | RES_RSTALE | RES_WANDERED)) >> 8;
	n = n << 2 | FIELD_GET(RES_HOME, s->w);
	n = n << 3 | s->loaded;
	n = n << 3 | s->counted;
	n = n << 3 | s->known;
	return n << 3 | s->old;
}

static void story_goes_on(struct search *search, struct story s)
{
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
	}
	if (todo == RES_LOAD_BROADCAST) {
		s.known = 0;
		s.old = 0;
		s.w &= ~RES_OLD;
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

static void story_flush(struct search *search, struct story s, unsigned int cpu)
{
	unsigned int bit = 1u << cpu;
	enum res_reach reach;

	s.w = res_flush(s.w, cpu, s.loaded & bit, &reach);
	switch (reach) {
	case RES_NOWHERE:
		s.old = s.known;
		break;
	case RES_HERE:
		s.old = (s.old | s.known) & ~bit;
		break;
	case RES_EVERYWHERE:
		s.old = 0;
		break;
	}
	KUNIT_EXPECT_FALSE_MSG(search->test, s.old & s.loaded,
			       "flushed by CPU %u, and old on %x, word %llx",
			       cpu, s.old & s.loaded, s.w);
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
	KUNIT_EXPECT_FALSE(search->test, s.w & RES_MANY);
	search->recounted++;
	story_goes_on(search, s);
}

static void story_fresh(struct search *search, struct story s)
{
	u64 w = res_fresh(s.w);

	if (w == s.w)
		return;
	/* Under the new number nobody knows anything. */
	s.w = w;
	s.known = 0;
	s.old = 0;
	KUNIT_EXPECT_EQ(search->test, s.loaded, 0);
	story_goes_on(search, s);
}

/* @met: bits that some word must have had, or it did not go everywhere and proves nothing. */
static void try_all(struct kunit *test, unsigned int limit, bool sticky, u64 met)
{
	struct search search = { .test = test, .limit = limit, .sticky = sticky };
	struct story start = { .w = FIELD_PREP(RES_EPOCH, 1) };

	search.seen = kunit_kzalloc(test, BIT(STORY_BITS) / 8, GFP_KERNEL);
	search.todo = kunit_kmalloc_array(test, MOST_STORIES,
					  sizeof(*search.todo), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, search.seen);
	KUNIT_ASSERT_NOT_NULL(test, search.todo);
	story_goes_on(&search, start);
	while (search.n) {
		struct story s = search.todo[--search.n];

		for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
			if (s.loaded & 1u << cpu)
				story_leave(&search, s, cpu);
			else
				story_load(&search, s, cpu);
			story_flush(&search, s, cpu);
			if (!sticky)
				story_look(&search, s, cpu);
		}
		story_fresh(&search, s);
	}
	kunit_info(test, "limit %u: %u states", limit, search.states);
	KUNIT_EXPECT_EQ(test, search.met & met, met);
	KUNIT_EXPECT_GT(test, search.usual, 0);
	KUNIT_EXPECT_EQ(test, !!search.recounted, !sticky && met & RES_MANY);
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
	KUNIT_EXPECT_FALSE(test, lull_flush_mm(mm));
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
	KUNIT_EXPECT_TRUE(test, lull_flush_mm(mm));
	KUNIT_EXPECT_TRUE(test, lull_flush_range(mm, 0, SZ_2M, PAGE_SIZE, false,
						 TLBI_TTL_UNKNOWN));
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
	struct mm_struct *mm;
	int i;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		KUNIT_ASSERT_EQ(test, lull_switch_set(sw, "rename"), 0);
		mm = mm_alloc();
		KUNIT_ASSERT_NOT_NULL(test, mm);
		KUNIT_EXPECT_TRUE(test, lull_flush_page(mm, PAGE_SIZE));
		KUNIT_EXPECT_TRUE(test, is_taken(mm));

		KUNIT_EXPECT_EQ(test, lull_switch_set(sw, others[i]), 0);
		KUNIT_EXPECT_FALSE(test, is_taken(mm));
		static_branch_enable(&lull_residency_rename);
		KUNIT_EXPECT_FALSE(test, is_taken(mm));
		static_branch_disable(&lull_residency_rename);
		mmput(mm);
	}
	KUNIT_EXPECT_EQ(test, lull_switch_set(sw, "counted"), 0);
}

static struct kunit_case residency_cases[] = {
	KUNIT_CASE(counted_up_to_one),
	KUNIT_CASE(counted_up_to_two),
	KUNIT_CASE(counted_up_to_three),
	KUNIT_CASE(sticky),
	KUNIT_CASE(home_holds_every_cpu),
	KUNIT_CASE(limit_fits_the_count),
	KUNIT_CASE(load_disturbs_a_look),
	KUNIT_CASE(off_is_stock),
	KUNIT_CASE(off_ends_an_epoch),
	KUNIT_CASE(flush_of_a_sleeper),
	KUNIT_CASE(flush_of_one_that_runs_here),
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
