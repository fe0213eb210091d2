// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for reclaim's batches: what is flushed is what was collected.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/sizes.h>

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

static void add(struct kunit *test, unsigned int space, unsigned int page)
{
	struct fixture *f = test->priv;

	KUNIT_ASSERT_TRUE(test, lull_batch_add(&f->batch, f->told[space]->mm,
					       address(page) + 123));
	__set_bit(page, f->added);
}

/* Each page that was added, and others only where a range was widened. */
static void expect_told(struct kunit *test, unsigned int spaces)
{
	struct fixture *f = test->priv;
	unsigned int first = (address(0) - TOLD_BASE) >> PAGE_SHIFT;
	unsigned int i, page;

	for (i = 0; i < SPACES; i++) {
		unsigned long *told = f->told[i]->pages;

		KUNIT_EXPECT_FALSE(test, f->told[i]->all);
		if (i >= spaces) {
			KUNIT_EXPECT_EQ(test, 0, f->told[i]->times);
			continue;
		}
		for_each_set_bit(page, f->added, PAGES)
			KUNIT_EXPECT_TRUE_MSG(test,
					      test_bit(first + page, told),
					      "space %u, page %u", i, page);
		KUNIT_EXPECT_EQ(test, TOLD_PAGES,
				find_next_bit(told, TOLD_PAGES,
					      first + PAGES + 1));
		KUNIT_EXPECT_GE(test, find_first_bit(told, TOLD_PAGES),
				SZ_64K >> PAGE_SHIFT);
	}
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

/* A file that several processes map, in whatever order its pages are taken. */
static void test_orders(struct kunit *test)
{
	const struct order *order = test->param_value;
	const unsigned int spaces[] = { 1, 2, LULL_BATCH_RANGES, SPACES };
	struct fixture *f = test->priv;
	unsigned int i, n, step, space;

	for (n = 0; n < ARRAY_SIZE(spaces); n++) {
		unsigned long before = told_event(RECLAIM_RANGES);
		unsigned long batched = told_event(RECLAIM_BATCHED);

		bitmap_zero(f->added, PAGES);
		for (i = 0; i < SPACES; i++)
			told_forget(f->told[i]);
		for (step = 0; step < PAGES; step++)
			for (space = 0; space < spaces[n]; space++)
				add(test, space, order->page(step));
		KUNIT_EXPECT_TRUE(test, bitmap_full(f->added, PAGES));
		lull_batch_flush(&f->batch);

		KUNIT_EXPECT_EQ(test, 0, f->batch.nr);
		KUNIT_EXPECT_EQ(test, PAGES * spaces[n],
				told_event(RECLAIM_BATCHED) - batched);
		expect_told(test, spaces[n]);
		if (order->ranges && spaces[n] <= LULL_BATCH_RANGES)
			KUNIT_EXPECT_EQ(test, order->ranges * spaces[n],
					told_event(RECLAIM_RANGES) - before);
	}
}

/* Pages that are no neighbours stay apart: what lies between is not told. */
static void test_gaps(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int page;

	for (page = 0; page < PAGES; page += 2)
		add(test, 0, page);
	lull_batch_flush(&f->batch);
	expect_told(test, 1);
	KUNIT_EXPECT_EQ(test, PAGES / 2, f->told[0]->times);
	KUNIT_EXPECT_EQ(test, PAGES / 2 * PAGE_SIZE, f->told[0]->sum);
}

/* Collected is collected, whatever is chosen meanwhile. */
static void test_switched_off(struct kunit *test)
{
	struct fixture *f = test->priv;

	add(test, 0, 3);
	add(test, 0, 4);
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_reclaim_switch, "off"));
	KUNIT_EXPECT_FALSE(test, lull_batch_add(&f->batch, f->told[1]->mm,
						address(5)));
	KUNIT_EXPECT_EQ(test, 0, f->told[0]->times);
	lull_batch_flush(&f->batch);
	expect_told(test, 1);
}

/* Who waits: if any was broadcast since the last time, also early in the batch. */
static void test_owed(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int space;

	KUNIT_EXPECT_FALSE(test, lull_batch_flush(&f->batch));

	/* Off: what the page's own TLBI says. */
	lull_batch_owe(&f->batch, false);
	KUNIT_EXPECT_FALSE(test, lull_batch_flush(&f->batch));
	lull_batch_owe(&f->batch, true);
	lull_batch_owe(&f->batch, false);
	KUNIT_EXPECT_TRUE(test, lull_batch_flush(&f->batch));
	KUNIT_EXPECT_FALSE(test, lull_batch_flush(&f->batch));

	/* With no residency all is broadcast; and nothing, with it, of these. */
	add(test, 0, 0);
	KUNIT_EXPECT_EQ(test, !IS_ENABLED(CONFIG_LULL_RESIDENCY),
			lull_batch_flush(&f->batch));

	/* The first of a batch that overflows is for all, later ones are not. */
	lull_pin(f->told[0]->mm);
	for (space = 0; space < SPACES; space++)
		add(test, space, 1);
	KUNIT_EXPECT_EQ(test, SPACES - LULL_BATCH_RANGES, f->batch.nr);
	KUNIT_EXPECT_TRUE(test, lull_batch_flush(&f->batch));
	KUNIT_EXPECT_FALSE(test, lull_batch_flush(&f->batch));
}

static struct kunit_case reclaim_cases[] = {
	KUNIT_CASE_PARAM(test_orders, order_gen_params),
	KUNIT_CASE(test_gaps),
	KUNIT_CASE(test_switched_off),
	KUNIT_CASE(test_owed),
	{}
};

static struct kunit_suite reclaim_suite = {
	.name = "lull_reclaim",
	.init = reclaim_setup,
	.exit = reclaim_cleanup,
	.test_cases = reclaim_cases,
};

kunit_test_suite(reclaim_suite);
