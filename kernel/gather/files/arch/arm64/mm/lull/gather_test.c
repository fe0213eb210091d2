// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for mmu_gather's runs: all that was cleared is flushed, by the runs or by
 * the hull, and the rule that chooses between them.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/prandom.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "lull.h"

extern struct lull_switch lull_gather_switch, lull_residency_switch;

bool lull_gather_pays(struct mmu_gather *tlb);
unsigned long lull_range_tlbis(const struct lull_range *range, bool by_range,
			       bool lpa2);

#define TOLD_BASE	(4UL << PUD_SHIFT)
#define TOLD_PAGES	(4UL * PTRS_PER_PTE)

/**
 * struct told - an address space, and what its device was told
 * @mn: the device
 * @mm: the address space
 * @times: how often
 * @all: it was told of everything
 * @sum: bytes that it was told of, other than that
 * @pages: pages from TOLD_BASE on that it was told of
 */
struct told {
	struct mmu_notifier mn;
	struct mm_struct *mm;
	unsigned int times;
	bool all;
	unsigned long sum;
	DECLARE_BITMAP(pages, TOLD_PAGES);
};

static void told_invalidate(struct mmu_notifier *mn, struct mm_struct *mm,
			    unsigned long start, unsigned long end)
{
	struct told *told = container_of(mn, struct told, mn);
	unsigned long first = max(start, TOLD_BASE);
	unsigned long last = min(end, TOLD_BASE + TOLD_PAGES * PAGE_SIZE);

	told->times++;
	if (!start && end == -1UL) {
		told->all = true;
		return;
	}
	told->sum += end - start;
	if (first < last)
		bitmap_set(told->pages, (first - TOLD_BASE) >> PAGE_SHIFT,
			   (last - first) >> PAGE_SHIFT);
}

static const struct mmu_notifier_ops told_ops = {
	.arch_invalidate_secondary_tlbs = told_invalidate,
};

static struct told *told_new(struct kunit *test)
{
	struct told *told = kunit_kzalloc(test, sizeof(*told), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, told);
	told->mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, told->mm);
	told->mn.ops = &told_ops;
	KUNIT_ASSERT_EQ(test, 0, mmu_notifier_register(&told->mn, told->mm));
	return told;
}

static void told_forget(struct told *told)
{
	told->times = 0;
	told->all = false;
	told->sum = 0;
	bitmap_zero(told->pages, TOLD_PAGES);
}

static void told_end(struct told *told)
{
	mmu_notifier_unregister(&told->mn, told->mm);
	mmput(told->mm);
}

static noinline_for_stack unsigned long told_event(enum vm_event_item item)
{
	unsigned long all[NR_VM_EVENT_ITEMS];

	all_vm_events(all);
	return all[item];
}

struct fixture {
	struct told *told;
	struct mmu_gather tlb;
	DECLARE_BITMAP(cleared, TOLD_PAGES);
};

/* The tests' address space is loaded nowhere: residency would elide each flush. */
static void set_residency(const char *policy)
{
	if (IS_ENABLED(CONFIG_LULL_RESIDENCY))
		lull_switch_set(&lull_residency_switch, policy);
}

static int gather_setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	set_residency("off");
	f->told = told_new(test);
	test->priv = f;
	return 0;
}

static void gather_cleanup(struct kunit *test)
{
	struct fixture *f = test->priv;

	lull_switch_set(&lull_gather_switch, "runs");
	set_residency("on");
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

/* Small gaps are told, if a TLBI takes a range. */
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

/* All was told, and of large gaps nothing, unless the hull was flushed. */
static void expect_flushed(struct kunit *test, bool hull_too)
{
	struct fixture *f = test->priv;

	tlb_finish_mmu(&f->tlb);
	KUNIT_EXPECT_TRUE(test, f->told->all ||
			  bitmap_subset(f->cleared, f->told->pages,
					TOLD_PAGES));
	if (hull_too && f->told->times == 1)
		return;
	KUNIT_EXPECT_FALSE(test, f->told->all);
	close_gaps(f->cleared);
	KUNIT_EXPECT_TRUE(test, bitmap_subset(f->told->pages, f->cleared,
					      TOLD_PAGES));
}

static void expect_exact(struct kunit *test)
{
	expect_flushed(test, false);
}

static void expect_all(struct kunit *test)
{
	expect_flushed(test, true);
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
}

/* The TLBIs that ranges take are counted as they are issued. */
static void test_cost(struct kunit *test)
{
	const unsigned long most = MAX_TLBI_RANGE_PAGES;
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

}

/* The runs of the pages 0, @step, 2 * @step, ... and what stock does. */
static void expect_rule(struct kunit *test, unsigned int nr, unsigned int step)
{
	bool by_range = system_supports_tlb_range(), lpa2 = lpa2_is_enabled();
	unsigned long pages = (unsigned long)(nr - 1) * step + 1, most;
	unsigned long before = told_event(GATHER_RUNS);
	bool near = by_range && step <= LULL_GATHER_GAP + 1, pays;
	struct fixture *f = test->priv;
	struct lull_range run = { address(0), address(1), PAGE_SHIFT };
	unsigned int i;

	begin(f);
	for (i = 0; i < nr; i++)
		tlb_flush_pte_range(&f->tlb, address(0) + i * step * PAGE_SIZE,
				    PAGE_SIZE);
	most = 1;
	if (pages <= MAX_TLBI_RANGE_PAGES && (by_range || pages < MAX_DVM_OPS)) {
		run.end = address(0) + pages * PAGE_SIZE;
		most = tlbis_of(&run, by_range, lpa2);
	}
	pays = !near && nr > 1 && nr <= LULL_GATHER_RUNS && nr < most;
	if (lull_has_runs(&f->tlb.runs))
		KUNIT_EXPECT_EQ_MSG(test, pays, lull_gather_pays(&f->tlb),
				    "%u runs, %u pages apart", nr, step);
	tlb_finish_mmu(&f->tlb);
	KUNIT_EXPECT_EQ_MSG(test, pays, told_event(GATHER_RUNS) - before,
			    "%u runs, %u pages apart", nr, step);
}

/* Fewer TLBIs than the hull takes. */
static void test_rule(struct kunit *test)
{
	const unsigned int steps[] = { 2, LULL_GATHER_GAP + 1,
				       LULL_GATHER_GAP + 2, 30, 61, 700,
				       PTRS_PER_PTE, 999999, 1 << 20 };
	unsigned int i, nr;

	for (i = 0; i < ARRAY_SIZE(steps); i++)
		for (nr = 1; nr <= LULL_GATHER_RUNS + 1; nr++)
			expect_rule(test, nr, steps[i]);
}

static void test_random(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct rnd_state rnd;
	unsigned int round, i;

	prandom_seed_state(&rnd, 20240625);
	for (round = 0; round < 400; round++) {
		unsigned int n = prandom_u32_state(&rnd) % 24;

		begin(f);
		for (i = 0; i < n; i++) {
			unsigned int size = 1 + prandom_u32_state(&rnd) % 5;
			unsigned int page = prandom_u32_state(&rnd) %
					    (TOLD_PAGES - size);

			if (find_next_bit(f->cleared, TOLD_PAGES, page) >=
			    page + size)
				clear(f, page, size);
		}
		expect_all(test);
	}
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
	KUNIT_EXPECT_EQ(test, 100 * PAGE_SIZE, f->told->sum);

	begin(f);
	clear(f, 1, 1);
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_gather_switch, "off"));
	clear(f, 100, 1);
	expect_exact(test);
	KUNIT_EXPECT_EQ(test, 2 * PAGE_SIZE, f->told->sum);
}

/* An address space that is loaded nowhere: residency elides the hull. */
static void test_asks(struct kunit *test)
{
	unsigned long before = told_event(GATHER_RUNS);
	struct fixture *f = test->priv;

	if (!IS_ENABLED(CONFIG_LULL_RESIDENCY))
		kunit_skip(test, "no residency");
	set_residency("on");
	begin(f);
	clear(f, 1, 1);
	clear(f, 100, 1);
	expect_all(test);
	KUNIT_EXPECT_EQ(test, 0, told_event(GATHER_RUNS) - before);
}

static struct kunit_case gather_cases[] = {
	KUNIT_CASE(test_dense),
	KUNIT_CASE(test_random),
	KUNIT_CASE(test_cost),
	KUNIT_CASE(test_rule),
	KUNIT_CASE(test_levels),
	KUNIT_CASE(test_tables),
	KUNIT_CASE(test_nested),
	KUNIT_CASE(test_switched),
	KUNIT_CASE(test_asks),
	{}
};

static struct kunit_suite gather_suite = {
	.name = "lull_gather",
	.init = gather_setup,
	.exit = gather_cleanup,
	.test_cases = gather_cases,
};

kunit_test_suite(gather_suite);
