// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for reclaim's batches: what is collected is flushed, is notified at
 * once, and stays with the task that collected it.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/sched/task.h>
#include <linux/sizes.h>

#include <asm/lull_collected.h>
#include <asm/lull_reclaim.h>
#include <asm/lull_residency.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "ranges_test.h"

extern struct lull_switch lull_reclaim_switch;

#define SPACES	12	/* more than a batch has ranges */
#define PAGES	64

struct fixture {
	struct lull_batch batch;
	struct told *told[SPACES];
	DECLARE_BITMAP(added, PAGES);
};

static int reclaim_setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, f);
	for (i = 0; i < SPACES; i++)
		f->told[i] = told_new(test);
	test->priv = f;
	return 0;
}

static void reclaim_cleanup(struct kunit *test)
{
	struct fixture *f = test->priv;
	int i;

	lull_switch_set(&lull_reclaim_switch, "batch");
	for (i = 0; i < SPACES; i++) {
		/* The one of mm_users, and nobody else's. */
		KUNIT_EXPECT_EQ(test, 2, atomic_read(&f->told[i]->mm->mm_count));
		told_end(f->told[i]);
	}
}

static unsigned long address(unsigned int page)
{
	/* Not aligned to what a TLBI with LPA2 needs. */
	return TOLD_BASE + SZ_64K + 5 * PAGE_SIZE + page * PAGE_SIZE;
}

static unsigned int open_ranges(struct mm_struct *mm)
{
	return atomic_read(&mm->context.collected);
}

static bool is_told(struct told *told, unsigned int page)
{
	return test_bit((address(page) - TOLD_BASE) >> PAGE_SHIFT, told->pages);
}

/* Returns whether there was room for it. A device has been notified by then. */
static bool try_add(struct kunit *test, unsigned int space, unsigned int page)
{
	struct fixture *f = test->priv;
	struct told *told = f->told[space];
	unsigned int times = told->times;

	if (!lull_batch_add(&f->batch, told->mm, address(page) + 123, false)) {
		KUNIT_EXPECT_EQ(test, times, told->times);
		return false;
	}
	KUNIT_EXPECT_EQ(test, times + 1, told->times);
	KUNIT_EXPECT_TRUE(test, is_told(told, page));
	__set_bit(page, f->added);
	return true;
}

static void add(struct kunit *test, unsigned int space, unsigned int page)
{
	KUNIT_ASSERT_TRUE(test, try_add(test, space, page));
}

/* As arch_tlbbatch_flush(), which returns nothing. */
static bool flush(struct lull_batch *batch)
{
	bool owed = lull_batch_issue(batch);

	if (owed)
		__tlbi_sync_s1ish();
	lull_batch_end(batch);
	return owed;
}

/*
 * Each page that was added is flushed; others only where a range was widened. A
 * device was notified of the pages that were added, and of no other.
 */
static void expect_flushed(struct kunit *test, unsigned int spaces)
{
	struct fixture *f = test->priv;
	unsigned int space, page, i;

	if (lull_batch_issue(&f->batch))
		__tlbi_sync_s1ish();
	for (space = 0; space < spaces; space++) {
		struct mm_struct *mm = f->told[space]->mm;
		DECLARE_BITMAP(flushed, PAGES) = {};

		for (i = 0; i < f->batch.nr; i++) {
			struct lull_pending *p = &f->batch.pending[i];

			if (p->mm != mm)
				continue;
			KUNIT_EXPECT_GE(test, p->range.start,
					TOLD_BASE + SZ_64K);
			KUNIT_EXPECT_LE(test, p->range.end,
					address(PAGES + 1));
			for (page = 0; page < PAGES; page++)
				if (p->range.start <= address(page) &&
				    address(page) < p->range.end)
					__set_bit(page, flushed);
		}
		for (page = 0; page < PAGES; page++)
			if (is_told(f->told[space], page))
				KUNIT_EXPECT_TRUE_MSG(test,
						      test_bit(page, flushed),
						      "space %u, page %u",
						      space, page);
		KUNIT_EXPECT_FALSE(test, f->told[space]->all);
	}
	lull_batch_end(&f->batch);
	for (space = 0; space < SPACES; space++)
		KUNIT_EXPECT_EQ(test, 0, open_ranges(f->told[space]->mm));
}

struct order {
	const char *name;
	unsigned int (*page)(unsigned int step);
	unsigned int ranges;	/* that it takes; 0: any number */
};

static unsigned int upward(unsigned int step)
{
	return step;
}

static unsigned int downward(unsigned int step)
{
	return PAGES - 1 - step;
}

static unsigned int from_the_middle(unsigned int step)
{
	return PAGES / 2 + (step % 2 ? step / 2 : -(step / 2 + 1));
}

static unsigned int scattered(unsigned int step)
{
	return step * 37 % PAGES;
}

static const struct order orders[] = {
	{ "upward", upward, 1 },
	{ "downward", downward, 1 },
	{ "from the middle", from_the_middle, 1 },
	{ "scattered", scattered, 0 },
};

KUNIT_ARRAY_PARAM_DESC(order, orders, name);

/*
 * A file that several processes map, in whatever order its pages are taken. What
 * there is no room for is refused; neighbours never are, in as many address spaces
 * as there are ranges.
 */
static void test_orders(struct kunit *test)
{
	const struct order *order = test->param_value;
	const unsigned int spaces[] = { 1, 2, LULL_BATCH_RANGES, SPACES };
	struct fixture *f = test->priv;
	unsigned int i, n, step, space;

	for (n = 0; n < ARRAY_SIZE(spaces); n++) {
		unsigned long ranges = told_event(RECLAIM_RANGES);
		unsigned long batched = told_event(RECLAIM_BATCHED);
		unsigned int room = min(spaces[n], LULL_BATCH_RANGES);
		unsigned int added = 0;

		bitmap_zero(f->added, PAGES);
		for (i = 0; i < SPACES; i++)
			told_forget(f->told[i]);
		for (step = 0; step < PAGES; step++)
			for (space = 0; space < spaces[n]; space++)
				added += try_add(test, space,
						 order->page(step));
		KUNIT_EXPECT_EQ(test, added,
				told_event(RECLAIM_BATCHED) - batched);
		if (order->ranges) {
			KUNIT_EXPECT_TRUE(test, bitmap_full(f->added, PAGES));
			KUNIT_EXPECT_EQ(test, PAGES * room, added);
		}
		expect_flushed(test, spaces[n]);
		if (order->ranges)
			KUNIT_EXPECT_EQ(test, order->ranges * room,
					told_event(RECLAIM_RANGES) - ranges);
	}
}

/* Pages that are no neighbours: a range each, and no more than there is room for. */
static void test_gaps(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct told *told = f->told[0];
	unsigned int page;

	for (page = 0; page < PAGES; page += 2)
		KUNIT_EXPECT_EQ(test, page < 2 * LULL_BATCH_RANGES,
				try_add(test, 0, page));
	/* The latest range still grows. */
	add(test, 0, 2 * LULL_BATCH_RANGES - 1);
	KUNIT_EXPECT_EQ(test, LULL_BATCH_RANGES, open_ranges(told->mm));
	expect_flushed(test, 1);
	KUNIT_EXPECT_EQ(test, (LULL_BATCH_RANGES + 1) * PAGE_SIZE, told->sum);
}

/*
 * A dirty entry: the TLBI is issued at once, as on stock. Neither is it collected
 * nor does it end or extend what is.
 */
static void test_dirty(struct kunit *test)
{
	struct arch_tlbflush_unmap_batch arch = {};
	struct fixture *f = test->priv;
	struct told *told = f->told[0];

	refcount_set(&told->mm->context.pinned, 1);
	arch_tlbbatch_add_pending(&arch, told->mm, address(3), true);
	KUNIT_EXPECT_EQ(test, 0, arch.lull.nr);
	KUNIT_EXPECT_TRUE(test, arch.lull.owed);
	KUNIT_EXPECT_EQ(test, 0, open_ranges(told->mm));
	KUNIT_EXPECT_TRUE(test, is_told(told, 3));

	arch_tlbbatch_add_pending(&arch, told->mm, address(4), false);
	arch_tlbbatch_add_pending(&arch, told->mm, address(5), true);
	KUNIT_EXPECT_EQ(test, 1, arch.lull.nr);
	KUNIT_EXPECT_EQ(test, address(5), arch.lull.pending[0].range.end);
	arch_tlbbatch_flush(&arch);
	KUNIT_EXPECT_EQ(test, 0, arch.lull.nr);
	KUNIT_EXPECT_FALSE(test, arch.lull.owed);
	KUNIT_EXPECT_EQ(test, 0, open_ranges(told->mm));
}

/* Collected is collected, whatever is chosen meanwhile. */
static void test_switched_off(struct kunit *test)
{
	struct fixture *f = test->priv;

	add(test, 0, 3);
	add(test, 0, 4);
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_reclaim_switch, "off"));
	KUNIT_EXPECT_FALSE(test, try_add(test, 1, 5));
	KUNIT_EXPECT_EQ(test, 1, open_ranges(f->told[0]->mm));
	expect_flushed(test, 2);
}

/* Who waits: if any was broadcast since the last time, by whichever way. */
static void test_owed(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int space;

	KUNIT_EXPECT_FALSE(test, flush(&f->batch));

	/* Not collected: what the page's own TLBI says. */
	lull_batch_owe(&f->batch, false);
	KUNIT_EXPECT_FALSE(test, flush(&f->batch));
	lull_batch_owe(&f->batch, true);
	lull_batch_owe(&f->batch, false);
	KUNIT_EXPECT_TRUE(test, flush(&f->batch));
	KUNIT_EXPECT_FALSE(test, flush(&f->batch));

	/* With no residency all is broadcast; and nothing, with it, of these. */
	add(test, 0, 0);
	KUNIT_EXPECT_EQ(test, !IS_ENABLED(CONFIG_LULL_RESIDENCY),
			flush(&f->batch));

	/* The first of several is for all CPUs, later ones are not. */
	refcount_set(&f->told[0]->mm->context.pinned, 1);
	for (space = 0; space < LULL_BATCH_RANGES; space++)
		add(test, space, 1);
	KUNIT_EXPECT_TRUE(test, flush(&f->batch));
	KUNIT_EXPECT_FALSE(test, flush(&f->batch));
}

/* As the fault handler writes an entry. */
static void map(struct kunit *test, unsigned int space, unsigned int page,
		pte_t entry)
{
	struct fixture *f = test->priv;
	pte_t there = __pte(0);

	set_pte_at(f->told[space]->mm, address(page), &there, entry);
}

/*
 * A valid entry that is written while something of its address space is collected
 * is flushed first, each time. An entry that is not valid is not, nor is one before
 * or after, or in another address space. Devices are not notified again.
 */
static void test_mapped_again(struct kunit *test)
{
	pte_t valid = pte_mkspecial(pfn_pte(page_to_pfn(ZERO_PAGE(0)),
					    PAGE_READONLY));
	unsigned long settled = told_event(RECLAIM_SETTLED);
	struct fixture *f = test->priv;
	struct told *told = f->told[0];

	map(test, 0, 3, valid);
	add(test, 0, 3);
	map(test, 0, 3, __pte(0));
	map(test, 0, 3, __swp_entry_to_pte(__swp_entry(1, 2)));
	map(test, 1, 3, valid);
	KUNIT_EXPECT_EQ(test, 0, told_event(RECLAIM_SETTLED) - settled);

	map(test, 0, 3, valid);
	KUNIT_EXPECT_EQ(test, 1, told_event(RECLAIM_SETTLED) - settled);
	map(test, 0, 30, valid);
	KUNIT_EXPECT_EQ(test, 2, told_event(RECLAIM_SETTLED) - settled);
	KUNIT_EXPECT_EQ(test, 1, told->times);
	KUNIT_EXPECT_EQ(test, 1, open_ranges(told->mm));

	flush(&f->batch);
	map(test, 0, 3, valid);
	KUNIT_EXPECT_EQ(test, 2, told_event(RECLAIM_SETTLED) - settled);
}

/*
 * Two tasks that collect of one address space: each is counted until its TLBIs are
 * complete, not only until they are issued.
 */
static void test_two_collect(struct kunit *test)
{
	struct lull_batch *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;
	unsigned int page;

	KUNIT_ASSERT_NOT_NULL(test, other);
	for (page = 0; page < LULL_BATCH_RANGES; page += 2) {
		add(test, 0, page);
		KUNIT_ASSERT_TRUE(test, lull_batch_add(other, mm, address(page + 1),
						       false));
		KUNIT_EXPECT_EQ(test, f->batch.nr + other->nr, open_ranges(mm));
	}
	if (lull_batch_issue(&f->batch))
		__tlbi_sync_s1ish();
	KUNIT_EXPECT_EQ(test, f->batch.nr + other->nr, open_ranges(mm));
	lull_batch_end(&f->batch);
	KUNIT_EXPECT_EQ(test, other->nr, open_ranges(mm));
	flush(other);
	KUNIT_EXPECT_EQ(test, 0, open_ranges(mm));
}

/* A task that is forked with a batch: the child has none of it. */
static void test_fork(struct kunit *test)
{
	struct task_struct *child = kunit_kzalloc(test, sizeof(*child), GFP_KERNEL);
	struct arch_tlbflush_unmap_batch *mine = &current->tlb_ubc.arch;
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;

	KUNIT_ASSERT_NOT_NULL(test, child);
	KUNIT_ASSERT_EQ(test, 0, mine->lull.nr);
	arch_tlbbatch_add_pending(mine, mm, address(0), false);
	mine->lull.owed = true;
	KUNIT_EXPECT_EQ(test, 0, arch_dup_task_struct(child, current));
	KUNIT_EXPECT_EQ(test, 0, child->tlb_ubc.arch.lull.nr);
	KUNIT_EXPECT_FALSE(test, child->tlb_ubc.arch.lull.owed);
	KUNIT_EXPECT_EQ(test, 1, mine->lull.nr);
	arch_tlbbatch_flush(mine);
	KUNIT_EXPECT_EQ(test, 0, open_ranges(mm));
}

static int collect_and_exit(void *mm)
{
	arch_tlbbatch_add_pending(&current->tlb_ubc.arch, mm, address(0), false);
	return 0;
}

/* A task that exits with a batch: it is flushed. */
static void test_exit(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;
	struct task_struct *task = kthread_run(collect_and_exit, mm, "collect");
	unsigned int tries = 100;

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	/* The references of mm_users and of the notifier are left. */
	while ((!f->told[0]->times || atomic_read(&mm->mm_count) > 2) && --tries)
		msleep(20);
	KUNIT_EXPECT_EQ(test, 1, f->told[0]->times);
	KUNIT_EXPECT_EQ(test, 0, open_ranges(mm));
}

/*
 * In the middle of unmapping: a folio of which one entry was cleared and another
 * could not be. The next folio then finds no memory.
 */
static struct folio *no_memory(struct folio *src, unsigned long mm)
{
	arch_tlbbatch_add_pending(&current->tlb_ubc.arch,
				  (struct mm_struct *)mm, address(0), false);
	current->tlb_ubc.flush_required = true;
	return NULL;
}

/* migrate_pages() that gives up before a folio was unmapped leaves no batch. */
static void test_migrate_fails(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;
	LIST_HEAD(folios);
	struct folio *folio;

	if (!IS_ENABLED(CONFIG_MIGRATION))
		kunit_skip(test, "this kernel does not migrate pages");
	folio = folio_alloc(GFP_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, folio);
	folio_get(folio);
	list_add(&folio->lru, &folios);

	KUNIT_EXPECT_EQ(test, -ENOMEM,
			migrate_pages(&folios, no_memory, NULL,
				      (unsigned long)mm, MIGRATE_ASYNC,
				      MR_COMPACTION, NULL));
	KUNIT_EXPECT_EQ(test, 1, f->told[0]->times);
	KUNIT_EXPECT_EQ(test, 0, current->tlb_ubc.arch.lull.nr);
	KUNIT_EXPECT_EQ(test, 0, open_ranges(mm));

	arch_tlbbatch_flush(&current->tlb_ubc.arch);
	current->tlb_ubc.flush_required = false;
	list_del(&folio->lru);
	folio_put(folio);
	folio_put(folio);
}

static struct kunit_case reclaim_cases[] = {
	KUNIT_CASE_PARAM(test_orders, order_gen_params),
	KUNIT_CASE(test_gaps),
	KUNIT_CASE(test_dirty),
	KUNIT_CASE(test_switched_off),
	KUNIT_CASE(test_owed),
	KUNIT_CASE(test_mapped_again),
	KUNIT_CASE(test_two_collect),
	KUNIT_CASE(test_fork),
	KUNIT_CASE(test_exit),
	KUNIT_CASE(test_migrate_fails),
	{}
};

static struct kunit_suite reclaim_suite = {
	.name = "lull_reclaim",
	.init = reclaim_setup,
	.exit = reclaim_cleanup,
	.test_cases = reclaim_cases,
};

kunit_test_suite(reclaim_suite);
