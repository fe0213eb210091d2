// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for mmu_gather's runs: they hold all that was cleared and nothing else, and
 * are flushed if they take fewer TLBIs than the hull.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pgtable.h>
#include <linux/prandom.h>
#include <linux/sched/mm.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "lull.h"

extern struct lull_switch lull_gather_switch;

#define BASE	(4UL << PUD_SHIFT)
#define PAGES	(4UL * PTRS_PER_PTE)

struct fixture {
	const char *gather_before;
	struct mm_struct *mm;
	struct mmu_gather tlb;
	DECLARE_BITMAP(cleared, PAGES);
	DECLARE_BITMAP(held, PAGES);
};

/*
 * The tests' address space is loaded nowhere: residency would elide each flush. But those
 * of a pinned one are broadcasts.
 */
static void pin(struct fixture *f, bool pinned)
{
	refcount_set(&f->mm->context.pinned, pinned);
}

static const char *chosen(const struct lull_switch *sw)
{
	return sw->policies[sw->policy];
}

static int gather_setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, f->mm);
	f->gather_before = chosen(&lull_gather_switch);
	test->priv = f;
	pin(f, true);
	return lull_switch_set(&lull_gather_switch, "runs");
}

static void gather_cleanup(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (!f)
		return;
	lull_switch_set(&lull_gather_switch, f->gather_before);
	pin(f, false);
	mmput(f->mm);
}

static unsigned long address(unsigned int page)
{
	return BASE + page * PAGE_SIZE;
}

static void begin(struct fixture *f)
{
	bitmap_zero(f->cleared, PAGES);
	tlb_gather_mmu(&f->tlb, f->mm);
}

static void clear(struct fixture *f, unsigned int page, unsigned int n)
{
	tlb_flush_pte_range(&f->tlb, address(page), n * PAGE_SIZE);
	bitmap_set(f->cleared, page, n);
}

static void clear_huge(struct fixture *f, unsigned int page)
{
	tlb_flush_pmd_range(&f->tlb, address(page), PMD_SIZE);
	bitmap_set(f->cleared, page, PTRS_PER_PTE);
}

/* Of an empty table; its run covers all that it mapped. */
static void clear_table(struct fixture *f, unsigned int page)
{
	tlb_flush_pmd_range(&f->tlb, address(page), PAGE_SIZE);
	f->tlb.freed_tables = 1;
	bitmap_set(f->cleared, round_down(page, PTRS_PER_PTE), PTRS_PER_PTE);
}

/* @nr runs hold all that was cleared, and no more. Then flush. */
static void expect_runs(struct kunit *test, unsigned int nr)
{
	struct fixture *f = test->priv;
	struct lull_runs *runs = &f->tlb.runs;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, nr, runs->nr);
	lull_gather_end(runs);
	bitmap_zero(f->held, PAGES);
	for (i = 0; i < runs->nr && i < LULL_GATHER_RUNS; i++)
		bitmap_set(f->held, (runs->run[i].start - BASE) >> PAGE_SHIFT,
			   (runs->run[i].end - runs->run[i].start) >> PAGE_SHIFT);
	KUNIT_EXPECT_TRUE(test, bitmap_equal(f->cleared, f->held, PAGES));
	tlb_finish_mmu(&f->tlb);
}

/* Neighbours, in each direction, are one run. */
static void test_dense(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int page;

	begin(f);
	for (page = 0; page < PTRS_PER_PTE; page++)
		clear(f, page, 1);
	expect_runs(test, 1);

	begin(f);
	for (page = PTRS_PER_PTE; page--;)
		clear(f, page, 1);
	expect_runs(test, 1);

	begin(f);
	for (page = 0; page < PTRS_PER_PTE; page += 16)
		clear(f, page, 16);
	expect_runs(test, 1);
}

/* Far enough from each other to be runs of their own, and few enough. */
static void test_random(struct kunit *test)
{
	const unsigned int slots = PAGES / 64;
	struct fixture *f = test->priv;
	struct rnd_state rnd;
	unsigned int round, i;

	prandom_seed_state(&rnd, 20240625);
	for (round = 0; round < 400; round++) {
		unsigned int n = 0;

		begin(f);
		for (i = 0; i < LULL_GATHER_RUNS; i++) {
			unsigned int size = 1 + prandom_u32_state(&rnd) % 48;
			unsigned int page = 64 * (prandom_u32_state(&rnd) % slots);

			if (test_bit(page, f->cleared))
				continue;
			clear(f, page, size);
			n++;
		}
		expect_runs(test, n);
	}
}

/* After more runs than there is room for, it collects again from the next flush on. */
static void test_too_many(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	begin(f);
	for (i = 0; i <= LULL_GATHER_RUNS; i++)
		clear(f, 64 * i, 1);
	KUNIT_EXPECT_EQ(test, 0, f->tlb.runs.next);
	KUNIT_EXPECT_FALSE(test, lull_gather_flush(&f->tlb));
	tlb_flush_mmu(&f->tlb);
	bitmap_zero(f->cleared, PAGES);
	clear(f, 1, 1);
	expect_runs(test, 1);
}

/* Each level has its own runs. */
static void test_levels(struct kunit *test)
{
	struct fixture *f = test->priv;

	begin(f);
	clear(f, 0, PTRS_PER_PTE);
	clear_huge(f, PTRS_PER_PTE);
	clear_huge(f, 2 * PTRS_PER_PTE);
	clear(f, 3 * PTRS_PER_PTE, 2);
	KUNIT_EXPECT_EQ(test, PAGE_SHIFT, f->tlb.runs.run[0].shift);
	KUNIT_EXPECT_EQ(test, PMD_SHIFT, f->tlb.runs.run[1].shift);
	KUNIT_EXPECT_EQ(test, PAGE_SHIFT, f->tlb.runs.run[2].shift);
	expect_runs(test, 3);

	/* Behind a run that has been flushed. */
	begin(f);
	clear_huge(f, 0);
	tlb_flush_mmu(&f->tlb);
	bitmap_zero(f->cleared, PAGES);
	clear_huge(f, PTRS_PER_PTE);
	expect_runs(test, 1);
}

/* All that a table mapped is flushed, page by page, with leaves beside or within it. */
static void test_tables(struct kunit *test)
{
	struct fixture *f = test->priv;

	/* The table that leads to this one mapped more. */
	begin(f);
	clear_table(f, PTRS_PER_PTE);
	tlb_flush_pud_range(&f->tlb, address(PTRS_PER_PTE), PAGE_SIZE);
	lull_gather_end(&f->tlb.runs);
	KUNIT_EXPECT_EQ(test, f->tlb.runs.nr, 1);
	KUNIT_EXPECT_EQ(test, f->tlb.runs.run[0].end - f->tlb.runs.run[0].start,
			PUD_SIZE);
	tlb_finish_mmu(&f->tlb);

	/* Neighbours: one run. */
	begin(f);
	clear_table(f, 0);
	clear_table(f, PTRS_PER_PTE);
	expect_runs(test, 1);

	/* Apart from leaves: a run of its own. */
	begin(f);
	clear(f, 1, 1);
	clear_table(f, PTRS_PER_PTE + 5);
	expect_runs(test, 2);

	/* A leaf that the table mapped. */
	begin(f);
	clear(f, 100, 1);
	clear_table(f, 0);
	expect_runs(test, 1);

	/* Leaves of two tables. */
	begin(f);
	clear(f, PTRS_PER_PTE - 2, 4);
	clear_table(f, 0);
	clear_table(f, PTRS_PER_PTE);
	expect_runs(test, 1);

	/* Leaves that end where the table begins. */
	begin(f);
	clear(f, 0, PTRS_PER_PTE);
	clear_table(f, PTRS_PER_PTE);
	expect_runs(test, 1);

	/* Larger entries have a run of their own. */
	begin(f);
	tlb_flush_pud_range(&f->tlb, BASE, PUD_SIZE);
	tlb_flush_pmd_range(&f->tlb, address(PTRS_PER_PTE), PAGE_SIZE);
	f->tlb.freed_tables = 1;
	KUNIT_EXPECT_EQ(test, 2, f->tlb.runs.nr);
	tlb_finish_mmu(&f->tlb);
}

static struct kunit_case gather_cases[] = {
	KUNIT_CASE(test_dense),
	KUNIT_CASE(test_random),
	KUNIT_CASE(test_too_many),
	KUNIT_CASE(test_levels),
	KUNIT_CASE(test_tables),
	{}
};

static struct kunit_suite gather_suite = {
	.name = "lull_gather",
	.init = gather_setup,
	.exit = gather_cleanup,
	.test_cases = gather_cases,
};

kunit_test_suite(gather_suite);
