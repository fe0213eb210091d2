// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for mmu_gather's runs: what was cleared is flushed, and little
 * else.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/prandom.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "ranges_test.h"

extern struct lull_switch lull_gather_switch;

struct fixture {
	struct told *told;
	struct mmu_gather tlb;
	DECLARE_BITMAP(cleared, TOLD_PAGES);
};

static int gather_setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->told = told_new(test);
	test->priv = f;
	return 0;
}

static void gather_cleanup(struct kunit *test)
{
	struct fixture *f = test->priv;

	lull_switch_set(&lull_gather_switch, "runs");
	told_end(f->told);
}

static unsigned long address(unsigned int page)
{
	return TOLD_BASE + page * PAGE_SIZE;
}

static void begin(struct fixture *f)
{
	told_forget(f->told);
	bitmap_zero(f->cleared, TOLD_PAGES);
	tlb_gather_mmu(&f->tlb, f->told->mm);
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

/* Of an empty table; what it mapped may be told. */
static void clear_table(struct fixture *f, unsigned int page)
{
	tlb_flush_pmd_range(&f->tlb, address(page), PAGE_SIZE);
	f->tlb.freed_tables = 1;
	bitmap_set(f->cleared, round_down(page, PTRS_PER_PTE), PTRS_PER_PTE);
}

/* Small gaps may be told, if a TLBI can do that. */
static void close_gaps(unsigned long *pages)
{
	unsigned int page = find_first_bit(pages, TOLD_PAGES), end, next;

	if (!system_supports_tlb_range())
		return;
	while (page < TOLD_PAGES) {
		end = find_next_zero_bit(pages, TOLD_PAGES, page);
		next = find_next_bit(pages, TOLD_PAGES, end);
		if (next < TOLD_PAGES && next - end <= LULL_GATHER_GAP)
			bitmap_set(pages, end, next - end);
		page = next;
	}
}

/* Of large gaps nothing is told, and nothing more than once. */
static void expect_exact(struct kunit *test)
{
	struct fixture *f = test->priv;

	tlb_finish_mmu(&f->tlb);
	KUNIT_EXPECT_FALSE(test, f->told->all);
	KUNIT_EXPECT_TRUE(test, bitmap_subset(f->cleared, f->told->pages,
					      TOLD_PAGES));
	close_gaps(f->cleared);
	KUNIT_EXPECT_TRUE(test, bitmap_subset(f->told->pages, f->cleared,
					      TOLD_PAGES));
	KUNIT_EXPECT_FALSE(test, f->tlb.runs.owed);
}

/* All, and no matter what else. */
static void expect_all(struct kunit *test)
{
	struct fixture *f = test->priv;

	tlb_finish_mmu(&f->tlb);
	KUNIT_EXPECT_TRUE(test, f->told->all ||
			  bitmap_subset(f->cleared, f->told->pages,
					TOLD_PAGES));
	KUNIT_EXPECT_FALSE(test, f->tlb.runs.owed);
}

/* Neighbours, in each direction, are one run. */
static void test_dense(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int page;

	begin(f);
	for (page = 0; page < PTRS_PER_PTE; page++)
		clear(f, page, 1);
	expect_exact(test);
	KUNIT_EXPECT_EQ(test, 1, f->told->times);

	begin(f);
	for (page = PTRS_PER_PTE; page--;)
		clear(f, page, 1);
	expect_exact(test);
	KUNIT_EXPECT_EQ(test, 1, f->told->times);

	begin(f);
	for (page = 0; page < PTRS_PER_PTE; page += 16)
		clear(f, page, 16);
	expect_exact(test);
	KUNIT_EXPECT_EQ(test, 1, f->told->times);
}

/* Scattered: each its own, also when there are more than can be remembered. */
static void test_scattered(struct kunit *test)
{
	const unsigned int steps[] = { 2, LULL_GATHER_GAP + 1,
				       LULL_GATHER_GAP + 2, 61, 700 };
	struct fixture *f = test->priv;
	unsigned int i, page;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		bool near = steps[i] <= LULL_GATHER_GAP + 1 &&
			    system_supports_tlb_range();
		unsigned int n = 0;

		begin(f);
		for (page = 3; page < TOLD_PAGES / 2; page += steps[i], n++)
			clear(f, page, 1);
		expect_exact(test);
		if (near || n < MAX_DVM_OPS)
			KUNIT_EXPECT_EQ(test, near ? 1 : n, f->told->times);
	}
}

static void test_random(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct rnd_state rnd;
	unsigned int round, i;

	prandom_seed_state(&rnd, 20240625);
	for (round = 0; round < 200; round++) {
		unsigned int n = prandom_u32_state(&rnd) % 100;

		begin(f);
		for (i = 0; i < n; i++) {
			unsigned int size = 1 + prandom_u32_state(&rnd) % 5;
			unsigned int page = prandom_u32_state(&rnd) %
					    (TOLD_PAGES - size);

			if (find_next_bit(f->cleared, TOLD_PAGES, page) >=
			    page + size)
				clear(f, page, size);
			if (!(prandom_u32_state(&rnd) % 16))
				tlb_flush_mmu(&f->tlb);
		}
		expect_exact(test);
	}
}

/* Beyond what one flush may cost, it is for the hull. */
static void test_too_many(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned long before = told_event(GATHER_HULL);
	unsigned int page;

	begin(f);
	for (page = 0; page < 2 * MAX_DVM_OPS; page++)
		tlb_flush_pte_range(&f->tlb, address(0) + page * PMD_SIZE,
				    PAGE_SIZE);
	__set_bit(0, f->cleared);
	KUNIT_EXPECT_EQ(test, LULL_GATHER_HULL, f->tlb.runs.nr);
	KUNIT_EXPECT_GT(test, f->told->times, 0);
	expect_all(test);
	KUNIT_EXPECT_EQ(test, 1, told_event(GATHER_HULL) - before);

	/* And then it collects again. */
	begin(f);
	clear(f, 1, 1);
	expect_exact(test);
}

/* Each level has its own runs, its stride and its hint. */
static void test_levels(struct kunit *test)
{
	struct fixture *f = test->priv;

	begin(f);
	clear(f, 0, PTRS_PER_PTE);
	clear_huge(f, PTRS_PER_PTE);
	clear_huge(f, 2 * PTRS_PER_PTE);
	clear(f, 3 * PTRS_PER_PTE, 2);
	KUNIT_EXPECT_EQ(test, 3, f->tlb.runs.nr);
	KUNIT_EXPECT_EQ(test, PAGE_SHIFT, f->tlb.runs.run[0].shift);
	KUNIT_EXPECT_EQ(test, PMD_SHIFT, f->tlb.runs.run[1].shift);
	KUNIT_EXPECT_EQ(test, PAGE_SHIFT, f->tlb.runs.run[2].shift);
	expect_exact(test);
}

/* A table's address is flushed: in a run that is there, or in its own. */
static void test_tables(struct kunit *test)
{
	struct fixture *f = test->priv;

	/* The table that leads to this one is one page at the same address. */
	begin(f);
	clear_table(f, PTRS_PER_PTE);
	tlb_flush_pud_range(&f->tlb, address(PTRS_PER_PTE), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 1, f->tlb.runs.nr);
	expect_exact(test);

	/* Neighbours: one run. */
	begin(f);
	clear_table(f, 0);
	clear_table(f, PTRS_PER_PTE);
	KUNIT_EXPECT_EQ(test, 1, f->tlb.runs.nr);
	expect_exact(test);

	/* Beside leaves: not in a run of theirs. */
	begin(f);
	clear(f, 1, 1);
	clear_table(f, PTRS_PER_PTE + 5);
	KUNIT_EXPECT_EQ(test, 2, f->tlb.runs.nr);
	expect_exact(test);

	/* What is there may be a leaf's: then it goes with it. */
	begin(f);
	clear(f, 1, 4);
	tlb_flush_pmd_range(&f->tlb, address(2), PAGE_SIZE);
	f->tlb.freed_tables = 1;
	KUNIT_EXPECT_EQ(test, 1, f->tlb.runs.nr);
	expect_exact(test);
}

/* Another who tears down at the same time: the whole address space. */
static void test_nested(struct kunit *test)
{
	struct fixture *f = test->priv;

	begin(f);
	inc_tlb_flush_pending(f->told->mm);
	clear(f, 1, 1);
	tlb_finish_mmu(&f->tlb);
	dec_tlb_flush_pending(f->told->mm);
	KUNIT_EXPECT_TRUE(test, f->told->all);
}

/* Chosen while something is being collected: nothing is forgotten. */
static void test_switched(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_gather_switch, "off"));
	begin(f);
	clear(f, 1, 1);
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_gather_switch, "runs"));
	clear(f, 100, 1);
	expect_all(test);

	begin(f);
	clear(f, 1, 1);
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_gather_switch, "off"));
	clear(f, 100, 1);
	expect_exact(test);

	begin(f);
	clear(f, 1, 1);
	clear(f, 100, 1);
	tlb_finish_mmu(&f->tlb);
	KUNIT_EXPECT_EQ(test, 100 * PAGE_SIZE, f->told->sum);
}

/* __flush_tlb_range_op(), that counts. */
static unsigned int tlbis_of(const struct lull_range *range, bool by_range,
			     bool lpa2)
{
	unsigned long pages = (range->end - range->start) >> PAGE_SHIFT;
	unsigned long stride = 1UL << range->shift, start = range->start;
	unsigned int tlbis = 0;
	int num, scale = 3;

	while (pages > 0) {
		if (!by_range || pages == 1 ||
		    (lpa2 && start != ALIGN(start, SZ_64K))) {
			tlbis++;
			start += stride;
			pages -= stride >> PAGE_SHIFT;
			continue;
		}
		num = __TLBI_RANGE_NUM(pages, scale);
		if (num >= 0) {
			tlbis++;
			start += __TLBI_RANGE_PAGES(num, scale) << PAGE_SHIFT;
			pages -= __TLBI_RANGE_PAGES(num, scale);
		}
		scale--;
	}
	return tlbis;
}

static void expect_cost(struct kunit *test, unsigned long start,
			unsigned long size, unsigned int shift)
{
	struct lull_range range = { start, start + size, shift };
	unsigned int has;

	/* Without ranges the loop takes a turn for each entry. */
	for (has = 0; has < 4; has++) {
		if (!(has & 1) && size >> shift > MAX_DVM_OPS)
			continue;
		KUNIT_EXPECT_EQ_MSG(test, tlbis_of(&range, has & 1, has & 2),
				    lull_range_tlbis(&range, has & 1, has & 2),
				    "%lx + %lx, shift %u, has %u", start, size,
				    shift, has);
	}
	KUNIT_EXPECT_EQ(test, tlbis_of(&range, system_supports_tlb_range(),
				       lpa2_is_enabled()),
			lull_ranges_cost(&range, 1));
}

/* The TLBIs that ranges take are counted as they are issued. */
static void test_cost(struct kunit *test)
{
	const unsigned long most = MAX_TLBI_RANGE_PAGES;
	struct lull_range two[2];
	struct rnd_state rnd;
	unsigned int i, page;

	for (page = 0; page < 32; page++)
		for (i = 1; i <= 256; i++)
			expect_cost(test, address(page), i * PAGE_SIZE,
				    PAGE_SHIFT);
	prandom_seed_state(&rnd, 20261122);
	for (i = 0; i < 2000; i++) {
		unsigned int bits = prandom_u32_state(&rnd) % 22;
		unsigned long pages = prandom_u32_state(&rnd) %
				      min(2UL << bits, most) + 1;

		expect_cost(test, address(prandom_u32_state(&rnd) % 100),
			    pages * PAGE_SIZE, PAGE_SHIFT);
	}
	expect_cost(test, address(0), most * PAGE_SIZE, PAGE_SHIFT);
	for (i = 1; i <= most / PTRS_PER_PTE; i = 2 * i + 1)
		expect_cost(test, TOLD_BASE, i * PMD_SIZE, PMD_SHIFT);

	two[0] = (struct lull_range){ address(1), address(40), PAGE_SHIFT };
	two[1] = (struct lull_range){ address(50), address(51), PAGE_SHIFT };
	KUNIT_EXPECT_EQ(test, lull_ranges_cost(two, 1) + 1,
			lull_ranges_cost(two, 2));
}

/* Runs that are issued early are counted against the limit by their TLBIs. */
static void test_spent(struct kunit *test)
{
	unsigned int page, n = 0, spent = 0;
	struct fixture *f = test->priv;

	begin(f);
	for (page = 1; n <= LULL_GATHER_RUNS; page += 64, n++)
		clear(f, page, 32);
	for (n = 0; n < LULL_GATHER_RUNS; n++) {
		struct lull_range run = { address(1 + 64 * n),
					  address(33 + 64 * n), PAGE_SHIFT };

		spent += tlbis_of(&run, system_supports_tlb_range(),
				  lpa2_is_enabled());
	}
	if (spent < MAX_DVM_OPS)
		KUNIT_EXPECT_EQ(test, spent, f->tlb.runs.spent);
	else
		KUNIT_EXPECT_EQ(test, LULL_GATHER_HULL, f->tlb.runs.nr);
	expect_all(test);
}

static struct kunit_case gather_cases[] = {
	KUNIT_CASE(test_dense),
	KUNIT_CASE(test_scattered),
	KUNIT_CASE(test_random),
	KUNIT_CASE(test_too_many),
	KUNIT_CASE(test_cost),
	KUNIT_CASE(test_spent),
	KUNIT_CASE(test_levels),
	KUNIT_CASE(test_tables),
	KUNIT_CASE(test_nested),
	KUNIT_CASE(test_switched),
	{}
};

static struct kunit_suite gather_suite = {
	.name = "lull_gather",
	.init = gather_setup,
	.exit = gather_cleanup,
	.test_cases = gather_cases,
};

kunit_test_suite(gather_suite);
