// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the runs of struct mmu_gather: they have all that was cleared, and are
 * flushed if they take fewer TLBIs than a flush of all between the first and the last.
 * Part of tlb.c, of which it uses static functions.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pgtable.h>
#include <linux/prandom.h>
#include <linux/sched/mm.h>

#define BASE	(4UL << PUD_SHIFT)
#define PAGES	(4UL * PTRS_PER_PTE)

struct fixture {
	struct mm_struct *mm;
	struct mmu_gather tlb;
	DECLARE_BITMAP(cleared, PAGES);
	DECLARE_BITMAP(held, PAGES);
};

static int runs_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, f->mm);
	/* As if a device used it: each of its flushes is a broadcast. */
	refcount_set(&f->mm->context.pinned, 1);
	test->priv = f;
	return 0;
}

static void runs_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (!f || !f->mm)
		return;
	refcount_set(&f->mm->context.pinned, 0);
	mmput(f->mm);
}

static unsigned long address(unsigned long page)
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

static void hold(struct fixture *f)
{
	struct mmu_gather_run *run;

	bitmap_zero(f->held, PAGES);
	for (run = f->tlb.runs; run < f->tlb.runs + f->tlb.nr_runs; run++)
		bitmap_set(f->held, (run->start - BASE) >> PAGE_SHIFT,
			   (run->end - run->start) >> PAGE_SHIFT);
}

/* @nr runs have all that was cleared, and no more. Then flush. */
static void expect_runs(struct kunit *test, unsigned int nr)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, f->tlb.nr_runs, nr);
	hold(f);
	KUNIT_EXPECT_TRUE(test, bitmap_equal(f->cleared, f->held, PAGES));
	tlb_finish_mmu(&f->tlb);
}

/* Neighbours that become two runs; what was flushed, and is in the next flush again. */
static void neighbours_are_one_run(struct kunit *test)
{
	struct fixture *f = test->priv;
	int page;

	begin(f);
	for (page = 0; page < PTRS_PER_PTE; page++)
		clear(f, page, 1);
	expect_runs(test, 1);

	begin(f);
	for (page = PTRS_PER_PTE - 1; page >= 0; page--)
		clear(f, page, 1);
	expect_runs(test, 1);

	begin(f);
	clear(f, 7, 3);
	tlb_flush_mmu(&f->tlb);
	bitmap_zero(f->cleared, PAGES);
	clear(f, 10, 1);
	clear(f, 12, 1);
	expect_runs(test, 2);
}

/* An entry that was cleared, and is in no run: in any order, and without room. */
static void all_is_in_a_run(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct rnd_state rnd;
	unsigned int i, round;

	prandom_seed_state(&rnd, 3);
	for (round = 0; round < 200; round++) {
		unsigned int n = prandom_u32_state(&rnd) % (2 * MMU_GATHER_MAX_RUNS);

		begin(f);
		for (i = 0; i < n; i++)
			clear(f, prandom_u32_state(&rnd) % (PAGES - 8),
			      1 + prandom_u32_state(&rnd) % 8);
		KUNIT_EXPECT_LE(test, f->tlb.nr_runs, MMU_GATHER_MAX_RUNS);
		hold(f);
		KUNIT_EXPECT_TRUE(test, bitmap_subset(f->cleared, f->held, PAGES));
		if (f->tlb.nr_runs < MMU_GATHER_MAX_RUNS)
			KUNIT_EXPECT_TRUE(test, bitmap_equal(f->cleared, f->held, PAGES));
		tlb_finish_mmu(&f->tlb);
	}
}

/* The loop of __flush_tlb_range_op(), with a counter in place of TLBIs */
static unsigned int count_ops(unsigned long addr, unsigned long end, unsigned long stride)
{
	unsigned int ops = 0;
	int scale = 3;

	while (addr != end) {
		unsigned long pages = (end - addr) >> PAGE_SHIFT;
		int num;

		if (!system_supports_tlb_range() || pages == 1 ||
		    (lpa2_is_enabled() && !IS_ALIGNED(addr, SZ_64K))) {
			ops++;
			addr += stride;
			continue;
		}
		num = __TLBI_RANGE_NUM(pages, scale);
		if (num >= 0) {
			ops++;
			addr += __TLBI_RANGE_PAGES(num, scale) << PAGE_SHIFT;
		}
		scale--;
	}
	return ops;
}

/* Another number of TLBIs than the loop that issues them has. */
static void ops_are_counted(struct kunit *test)
{
	unsigned long pages, start, end;

	for (start = BASE; start < address(20); start += PAGE_SIZE)
		for (pages = 1; pages < 5000; pages += 1 + pages / 40) {
			end = start + pages * PAGE_SIZE;
			KUNIT_EXPECT_EQ(test, tlb_range_ops(start, end, PAGE_SIZE),
					count_ops(start, end, PAGE_SIZE));
		}
	KUNIT_EXPECT_EQ(test, tlb_range_ops(BASE, BASE + 3 * PMD_SIZE, PMD_SIZE),
			count_ops(BASE, BASE + 3 * PMD_SIZE, PMD_SIZE));
}

/* Runs that take more TLBIs, and runs that are not flushed although they take fewer. */
static void the_cheaper_is_flushed(struct kunit *test)
{
	static const unsigned int steps[] = { 2, 16, 17, 30, 61, 700, 2114, 999999, 1 << 20 };
	struct fixture *f = test->priv;
	unsigned int i, j, nr, yes = 0;

	for (i = 0; i < ARRAY_SIZE(steps); i++)
		for (nr = 1; nr <= MMU_GATHER_MAX_RUNS; nr++) {
			unsigned long n = (unsigned long)(nr - 1) * steps[i] + 1;
			bool runs = !__flush_tlb_range_limit_excess(n, PAGE_SIZE) &&
				    nr < count_ops(BASE, address(n), PAGE_SIZE);

			begin(f);
			for (j = 0; j < nr; j++)
				tlb_flush_pte_range(&f->tlb, address((unsigned long)j * steps[i]),
						    PAGE_SIZE);
			KUNIT_EXPECT_EQ_MSG(test, tlb_flush_runs(&f->tlb), runs,
					    "%u runs, %u pages apart", nr, steps[i]);
			tlb_finish_mmu(&f->tlb);
			yes += runs;
		}
	KUNIT_EXPECT_GT(test, yes, 0);
}

/* A table of which something is not flushed; two TLBIs for a table and what was in it. */
static void tables_are_flushed_whole(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct mmu_gather_run *runs = f->tlb.runs;

	if (!system_supports_tlb_range())
		kunit_skip(test, "too many TLBIs");
	begin(f);
	clear(f, 3, 1);
	clear(f, 100, 1);
	tlb_flush_pmd_range(&f->tlb, address(0), PAGE_SIZE);
	clear(f, 3 * PTRS_PER_PTE + 3, 1);
	f->tlb.freed_tables = 1;
	tlb_flush_runs(&f->tlb);
	KUNIT_EXPECT_EQ(test, runs[0].start, address(0));
	KUNIT_EXPECT_EQ(test, runs[0].end, address(PTRS_PER_PTE));
	KUNIT_EXPECT_EQ(test, runs[1].start, address(3 * PTRS_PER_PTE));
	KUNIT_EXPECT_EQ(test, runs[1].end, address(4 * PTRS_PER_PTE));
	tlb_finish_mmu(&f->tlb);
}

/* Entries that another thread has cleared, and those of exit, are in no run. */
static void nested_and_exit_flush_all(struct kunit *test)
{
	struct fixture *f = test->priv;

	begin(f);
	inc_tlb_flush_pending(f->mm);
	clear(f, 1, 1);
	clear(f, 2 * PTRS_PER_PTE, 1);
	KUNIT_EXPECT_EQ(test, f->tlb.nr_runs, 2);
	tlb_finish_mmu(&f->tlb);
	dec_tlb_flush_pending(f->mm);
	KUNIT_EXPECT_TRUE(test, f->tlb.fullmm);
	KUNIT_EXPECT_EQ(test, f->tlb.nr_runs, 0);

	tlb_gather_mmu_fullmm(&f->tlb, f->mm);
	clear(f, 1, 1);
	clear(f, 2 * PTRS_PER_PTE, 1);
	KUNIT_EXPECT_FALSE(test, tlb_flush_runs(&f->tlb));
	tlb_finish_mmu(&f->tlb);
}

static struct kunit_case runs_cases[] = {
	KUNIT_CASE(neighbours_are_one_run),
	KUNIT_CASE(all_is_in_a_run),
	KUNIT_CASE(ops_are_counted),
	KUNIT_CASE(the_cheaper_is_flushed),
	KUNIT_CASE(tables_are_flushed_whole),
	KUNIT_CASE(nested_and_exit_flush_all),
	{}
};

static struct kunit_suite runs_suite = {
	.name = "lull_gather",
	.init = runs_init,
	.exit = runs_exit,
	.test_cases = runs_cases,
};

kunit_test_suite(runs_suite);
