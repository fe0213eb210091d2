// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for reclaim's batches: what is flushed is what was collected.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
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

/* As the fault handler writes an entry. */
static void map(struct kunit *test, unsigned int space, unsigned int page,
		pte_t entry)
{
	struct fixture *f = test->priv;
	pte_t there = __pte(0);

	set_pte_at(f->told[space]->mm, address(page), &there, entry);
}

/*
 * Who maps something where a flush was put off does it first, and all of it: until
 * more is collected, nobody else does. Nobody does before, after, elsewhere, in
 * another address space, or for what is not valid.
 */
static void test_mapped_again(struct kunit *test)
{
	pte_t valid = pte_mkspecial(pfn_pte(page_to_pfn(ZERO_PAGE(0)),
					    PAGE_READONLY));
	struct fixture *f = test->priv;
	struct told *told = f->told[0];
	unsigned long settled = told_event(RECLAIM_SETTLED);

	map(test, 0, 3, valid);
	add(test, 0, 3);
	map(test, 0, 3, __pte(0));
	map(test, 0, 3, __swp_entry_to_pte(__swp_entry(1, 2)));
	map(test, 0, 3 + CONT_PTES, valid);
	map(test, 1, 3, valid);
	KUNIT_EXPECT_EQ(test, 0, told->times + f->told[1]->times);

	map(test, 0, 3, valid);
	KUNIT_EXPECT_TRUE(test, told->all);
	KUNIT_EXPECT_EQ(test, 1, told->times);
	map(test, 0, 3, valid);
	KUNIT_EXPECT_EQ(test, 1, told->times);

	add(test, 0, 4);
	map(test, 0, 4, valid);
	KUNIT_EXPECT_EQ(test, 2, told->times);
	KUNIT_EXPECT_EQ(test, 2, told_event(RECLAIM_SETTLED) - settled);

	add(test, 0, 4);
	lull_batch_flush(&f->batch);
	told_forget(told);
	map(test, 0, 3, valid);
	map(test, 0, 4, valid);
	KUNIT_EXPECT_EQ(test, 0, told->times);
}

static unsigned int ranges_of(struct mm_struct *mm)
{
	return FIELD_GET(COLLECTED_RANGES, atomic64_read(&mm->context.collected));
}

static bool is_marked(struct mm_struct *mm)
{
	return atomic64_read(&mm->context.collected) & COLLECTED_WHERE;
}

/* Of two that collect, each is missed until it has issued what it has. */
static void test_two_collect(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;
	struct lull_batch *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	unsigned int page;

	KUNIT_ASSERT_NOT_NULL(test, other);
	for (page = 0; page < PAGES; page += 2) {
		add(test, 0, page);
		KUNIT_ASSERT_TRUE(test, lull_batch_add(other, mm, address(page + 1)));
		KUNIT_EXPECT_EQ(test, f->batch.nr + other->nr, ranges_of(mm));
	}
	lull_batch_flush(&f->batch);
	KUNIT_EXPECT_EQ(test, other->nr, ranges_of(mm));
	KUNIT_EXPECT_TRUE(test, is_marked(mm));
	lull_batch_flush(other);
	KUNIT_EXPECT_EQ(test, 0, ranges_of(mm));
	KUNIT_EXPECT_FALSE(test, is_marked(mm));
}

/* All was flushed, and the marks go; unless there was one more in between. */
static void test_flushed(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;
	u64 before;

	add(test, 0, 0);
	before = lull_collected(mm);
	add(test, 0, 1);	/* the same range, and the same mark */
	lull_batch_flushed(mm, before);
	KUNIT_EXPECT_TRUE(test, is_marked(mm));
	lull_batch_flushed(mm, lull_collected(mm));
	KUNIT_EXPECT_FALSE(test, is_marked(mm));
	KUNIT_EXPECT_EQ(test, 1, ranges_of(mm));

	/* Issued, and as many collected again: not the same. */
	before = lull_collected(mm);
	lull_batch_flush(&f->batch);
	add(test, 0, 0);
	lull_batch_flushed(mm, before);
	KUNIT_EXPECT_TRUE(test, is_marked(mm));
	lull_batch_flush(&f->batch);
}

/* A mark for each block, of any number of them; the count of pages goes round. */
static void test_marks(struct kunit *test)
{
	const unsigned long block = 1UL << CONT_PTE_SHIFT;
	struct fixture *f = test->priv;
	struct mm_struct *mm = f->told[0]->mm;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		unsigned long start = TOLD_BASE + i * block;
		u64 mark = BIT_ULL(48 + i % 16);

		KUNIT_EXPECT_EQ(test, mark,
				lull_collected_where(start, start + PAGE_SIZE));
		KUNIT_EXPECT_EQ(test, mark,
				lull_collected_where(start, start + block));
		KUNIT_EXPECT_EQ(test, mark | BIT_ULL(48 + (i + 1) % 16),
				lull_collected_where(start, start + block + PAGE_SIZE));
		KUNIT_EXPECT_EQ(test, COLLECTED_WHERE &
				~BIT_ULL(48 + (i + 15) % 16),
				lull_collected_where(start, start + 15 * block));
		KUNIT_EXPECT_EQ(test, COLLECTED_WHERE,
				lull_collected_where(start, start + 16 * block));
		KUNIT_EXPECT_EQ(test, COLLECTED_WHERE,
				lull_collected_where(start, start + 77 * block));
	}

	atomic64_set(&mm->context.collected, COLLECTED_PAGES);
	add(test, 0, 0);
	KUNIT_EXPECT_EQ(test, 1 | lull_collected_where(address(0), address(1)),
			atomic64_read(&mm->context.collected));
	lull_batch_flush(&f->batch);
}

static struct kunit_case reclaim_cases[] = {
	KUNIT_CASE_PARAM(test_orders, order_gen_params),
	KUNIT_CASE(test_gaps),
	KUNIT_CASE(test_switched_off),
	KUNIT_CASE(test_owed),
	KUNIT_CASE(test_mapped_again),
	KUNIT_CASE(test_two_collect),
	KUNIT_CASE(test_flushed),
	KUNIT_CASE(test_marks),
	{}
};

static struct kunit_suite reclaim_suite = {
	.name = "lull_reclaim",
	.init = reclaim_setup,
	.exit = reclaim_cleanup,
	.test_cases = reclaim_cases,
};

kunit_test_suite(reclaim_suite);
