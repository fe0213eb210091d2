// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for HVO without break-before-make.
 *
 * They take real HugeTLB pages that are in no pool, and look at all their struct
 * pages, and at the entries that map them, after each operation.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/page_ref.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>

#include <asm/lull_vmemmap.h>

#include "../../../../mm/hugetlb_vmemmap.h"
#include "../../../../mm/internal.h"

#define MANY		20
#define PER_FRAME	(PAGE_SIZE / sizeof(struct page))

static bool was_enabled;

static int vmemmap_init(struct kunit *test)
{
	was_enabled = hvo_enabled;
	WRITE_ONCE(hvo_enabled, true);
	test->priv = size_to_hstate(PMD_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	return 0;
}

static void vmemmap_exit(struct kunit *test)
{
	WRITE_ONCE(hvo_enabled, was_enabled);
}

static bool by_blocks(const struct folio *folio)
{
	return pmd_leaf(READ_ONCE(*pmd_off_k((unsigned long)folio)));
}

/* A HugeTLB page with count 0, as they are when they come into a pool. */
static struct folio *make_huge(struct kunit *test, struct hstate *h)
{
	struct page *page;

	page = alloc_contig_pages(pages_per_huge_page(h), GFP_KERNEL | __GFP_COMP,
				  numa_node_id(), NULL);
	if (!page)
		kunit_skip(test, "no %lu KiB in one piece", huge_page_size(h) / SZ_1K);
	KUNIT_ASSERT_TRUE(test, page_ref_freeze(page, 1));
	init_new_hugetlb_folio(h, page_folio(page));
	return page_folio(page);
}

/* Free a page that is not optimized. */
static void free_huge(struct folio *folio)
{
	__folio_clear_hugetlb(folio);
	folio_ref_unfreeze(folio, 1);
	folio_put(folio);
}

static struct folio *make_mapped_by_pages(struct kunit *test, struct hstate *h)
{
	struct folio *folio = make_huge(test, h);

	if (by_blocks(folio)) {
		free_huge(folio);
		kunit_skip(test, "boot with hugetlb_free_vmemmap=on");
	}
	return folio;
}

static void make_many(struct kunit *test, struct hstate *h, struct list_head *list)
{
	int i;

	for (i = 0; i < MANY; i++)
		list_add(&make_mapped_by_pages(test, h)->lru, list);
}

static void free_many(struct list_head *list)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, list, lru) {
		list_del(&folio->lru);
		free_huge(folio);
	}
}

static pte_t entry(const struct page *page)
{
	unsigned long addr = (unsigned long)page;

	return __ptep_get(pte_offset_kernel(pmd_off_k(addr), addr));
}

/* Can this CPU write to a struct page, by what its TLB and the tables say? */
static bool writable(struct page *page)
{
	unsigned long index = page->index;

	return !copy_to_kernel_nofault(&page->index, &index, sizeof(index));
}

/* Each struct page is as it should be, and each entry maps what it should. */
static void expect(struct kunit *test, struct hstate *h, struct folio *folio, bool optimized)
{
	unsigned long i, nr = pages_per_huge_page(h), bad = 0;
	unsigned long head, tails;

	KUNIT_EXPECT_TRUE(test, PageHead(&folio->page));
	KUNIT_EXPECT_EQ(test, folio_order(folio), huge_page_order(h));
	KUNIT_EXPECT_EQ(test, folio_test_hugetlb_vmemmap_optimized(folio), optimized);
	for (i = 1; i < nr; i++) {
		struct page *page = folio_page(folio, i);

		bad += !PageTail(page) || PageHead(page) || page_count(page) ||
		       compound_head(page) != &folio->page;
	}
	KUNIT_EXPECT_EQ_MSG(test, bad, 0, "tail pages");
	if (by_blocks(folio))
		return;

	head = pte_pfn(entry(&folio->page));
	tails = pte_pfn(entry(folio_page(folio, PER_FRAME)));
	KUNIT_EXPECT_TRUE(test, pte_write(entry(&folio->page)));
	KUNIT_EXPECT_NE(test, head, tails);
	for (i = PER_FRAME; i < nr; i += PER_FRAME) {
		struct page *page = folio_page(folio, i);
		unsigned long pfn = pte_pfn(entry(page));

		bad += pte_write(entry(page)) == optimized;
		bad += writable(page) == optimized;
		if (i > PER_FRAME)
			bad += (pfn == tails) != optimized;
		bad += pfn == head;
	}
	KUNIT_EXPECT_EQ_MSG(test, bad, 0, "entries");
}

/* Again and again, because QEMU's TLB may hold what an earlier round left. */
static void test_one(struct kunit *test)
{
	struct hstate *h = test->priv;
	struct folio *folio = make_mapped_by_pages(test, h);
	int i;

	for (i = 0; i < 3; i++) {
		expect(test, h, folio, false);
		hugetlb_vmemmap_optimize_folio(h, folio);
		expect(test, h, folio, true);
		hugetlb_vmemmap_optimize_folio(h, folio);
		expect(test, h, folio, true);
		KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, folio), 0);
	}
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, folio), 0);
	expect(test, h, folio, false);
	free_huge(folio);
}

static void test_many(struct kunit *test)
{
	struct hstate *h = test->priv;
	struct folio *folio;
	LIST_HEAD(list);
	LIST_HEAD(restored);

	make_many(test, h, &list);
	hugetlb_vmemmap_optimize_folios(h, &list);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&list), MANY);
	list_for_each_entry(folio, &list, lru)
		expect(test, h, folio, true);
	list_add(&make_huge(test, h)->lru, &list);	/* and one that is full */
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folios(h, &list, &restored), MANY);
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	KUNIT_EXPECT_EQ(test, list_count_nodes(&restored), MANY + 1);
	list_for_each_entry(folio, &restored, lru)
		expect(test, h, folio, false);
	free_many(&restored);
}

/* A tail page is not like the others: PG_hwpoison, and fields that nobody reads. */
static void test_differ(struct kunit *test)
{
	struct hstate *h = test->priv;
	struct folio *folio = make_mapped_by_pages(test, h);
	struct page *page = folio_page(folio, PER_FRAME);

	page->index = 1;
	set_bit(PG_referenced, &page->flags);
	folio_page(folio, pages_per_huge_page(h) - 1)->index = 2;
	hugetlb_vmemmap_optimize_folio(h, folio);
	expect(test, h, folio, true);
	KUNIT_EXPECT_FALSE(test, test_bit(PG_referenced, &page->flags));
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, folio), 0);
	expect(test, h, folio, false);
	free_huge(folio);
}

/* Not wanted, too small, or mapped by blocks: the page stays as it is. */
static void test_left_alone(struct kunit *test)
{
	struct hstate *h = test->priv, *small = size_to_hstate(CONT_PTE_SIZE);
	struct folio *folio = make_huge(test, h);

	if (by_blocks(folio)) {
		hugetlb_vmemmap_optimize_folio(h, folio);
		expect(test, h, folio, false);
	}
	WRITE_ONCE(hvo_enabled, false);
	hugetlb_vmemmap_optimize_folio(h, folio);
	WRITE_ONCE(hvo_enabled, true);
	expect(test, h, folio, false);
	free_huge(folio);
	if (!small || hugetlb_vmemmap_optimizable(small))
		return;
	folio = make_huge(test, small);
	hugetlb_vmemmap_optimize_folio(small, folio);
	KUNIT_EXPECT_FALSE(test, folio_test_hugetlb_vmemmap_optimized(folio));
	free_huge(folio);
}

static int left;	/* so many allocations succeed */

static unsigned int alloc_few(int nid, unsigned int nr, struct page **frames)
{
	unsigned int got;

	for (got = 0; got < nr && left > 0; got++, left--) {
		frames[got] = alloc_pages_node(nid, GFP_KERNEL, 0);
		if (!frames[got])
			break;
	}
	return got;
}

/* There is no memory for the first frame, the second, and so on. */
static void test_no_memory(struct kunit *test)
{
	struct hstate *h = test->priv;
	struct folio *folio = make_mapped_by_pages(test, h), *other;
	int nr, needed = hugetlb_vmemmap_optimizable_size(h) / PAGE_SIZE;
	LIST_HEAD(list);
	LIST_HEAD(restored);

	hugetlb_vmemmap_optimize_folio(h, folio);
	kunit_activate_static_stub(test, hvo_alloc_few, alloc_few);
	for (nr = 0; nr < needed; nr++) {
		left = nr;
		KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, folio), -ENOMEM);
		KUNIT_EXPECT_EQ(test, left, 0);
		expect(test, h, folio, true);
	}

	/* Enough for one of two. */
	other = make_huge(test, h);
	hugetlb_vmemmap_optimize_folio(h, other);
	list_add(&folio->lru, &list);
	list_add_tail(&other->lru, &list);
	left = needed;
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folios(h, &list, &restored), -ENOMEM);
	kunit_deactivate_static_stub(test, hvo_alloc_few);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&list));
	KUNIT_EXPECT_TRUE(test, list_is_singular(&restored));
	expect(test, h, folio, false);
	expect(test, h, other, true);

	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, other), 0);
	expect(test, h, other, false);
	free_huge(folio);
	free_huge(other);
}

static unsigned long taken;

/* As compaction does, which finds pages by their PFN. */
static int take_tails(void *data)
{
	struct folio *folio = data;
	unsigned long i, nr = folio_nr_pages(folio);

	while (!kthread_should_stop()) {
		for (i = 1; i < nr; i++)
			if (page_ref_add_unless(folio_page(folio, i), 1, 0))
				taken++;
		cond_resched();
	}
	return 0;
}

/* Others try to get references to tail pages while those become read-only. */
static void test_reference(struct kunit *test)
{
	struct hstate *h = test->priv;
	struct folio *folio = make_mapped_by_pages(test, h);
	struct task_struct *threads[4];
	int i, err = 0, nr = 0, cpu;

	taken = 0;
	folio_ref_unfreeze(folio, 1);
	for_each_online_cpu(cpu) {
		if (nr == ARRAY_SIZE(threads))
			break;
		threads[nr] = kthread_create_on_cpu(take_tails, folio, cpu, "tail/%u");
		if (!IS_ERR(threads[nr]))
			wake_up_process(threads[nr++]);
	}
	for (i = 0; i < 60 && !err; i++) {
		hugetlb_vmemmap_optimize_folio(h, folio);
		err = hugetlb_vmemmap_restore_folio(h, folio);
	}
	while (nr--)
		kthread_stop(threads[nr]);
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, taken, 0);
	KUNIT_EXPECT_TRUE(test, folio_ref_freeze(folio, 1));
	expect(test, h, folio, false);
	free_huge(folio);
}

static int optimize_one(void *data)
{
	struct folio *folio = data;

	hugetlb_vmemmap_optimize_folio(folio_hstate(folio), folio);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 100);
	return 0;
}

/* No entry becomes read-only before all RCU readers are done. */
static void test_grace_period(struct kunit *test)
{
	struct hstate *h = test->priv;
	struct folio *folio = make_mapped_by_pages(test, h);
	struct task_struct *thread = kthread_create(optimize_one, folio, "optimize");
	unsigned long end;
	bool early;

	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	rcu_read_lock();
	wake_up_process(thread);
	for (end = jiffies + HZ / 5; time_before(jiffies, end);)
		cpu_relax();
	early = !pte_write(entry(folio_page(folio, PER_FRAME)));
	rcu_read_unlock();
	for (end = jiffies + 10 * HZ; time_before(jiffies, end) &&
	     !folio_test_hugetlb_vmemmap_optimized(folio);)
		schedule_timeout_uninterruptible(1);
	kthread_stop(thread);

	KUNIT_EXPECT_FALSE(test, early);
	expect(test, h, folio, true);
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, folio), 0);
	free_huge(folio);
}

struct split {
	unsigned long from;
	unsigned long to;
	const char *name;
};

static const struct split splits[] = {
	{ CONT_PMD_SIZE, PMD_SIZE, "contiguous blocks to blocks" },
	{ PUD_SIZE, PMD_SIZE, "the largest to blocks" },
	{ PUD_SIZE, CONT_PMD_SIZE, "the largest to contiguous blocks" },
};

KUNIT_ARRAY_PARAM_DESC(split, splits, name);

static unsigned long strangers;

/* As memory failure does, which writes to a tail page if it is not HugeTLB's. */
static int look_at_tail(void *page)
{
	while (!kthread_should_stop()) {
		strangers += !PageHuge(page);
		cond_resched();
	}
	return 0;
}

static void test_split(struct kunit *test)
{
	struct task_struct *thread;
	const struct split *split = test->param_value;
	struct hstate *src = size_to_hstate(split->from);
	struct hstate *dst = size_to_hstate(split->to);
	struct folio *folio;
	LIST_HEAD(list);
	LIST_HEAD(small);
	LIST_HEAD(restored);

	if (!src || !dst)
		kunit_skip(test, "no such size here");
	folio = make_mapped_by_pages(test, src);
	list_add(&folio->lru, &list);
	hugetlb_vmemmap_demote_folios(src, dst, &list, &small);	/* it is full */
	KUNIT_EXPECT_TRUE(test, list_empty(&small));
	hugetlb_vmemmap_optimize_folios(src, &list);
	expect(test, src, folio, true);

	kunit_activate_static_stub(test, hvo_alloc_few, alloc_few);
	left = 2 * (split->from / split->to - 1) - 1;	/* one less than needed */
	hugetlb_vmemmap_demote_folios(src, dst, &list, &small);
	kunit_deactivate_static_stub(test, hvo_alloc_few);
	KUNIT_EXPECT_TRUE(test, list_empty(&small));
	expect(test, src, folio, true);

	/* The second vmemmap page of the last small page. */
	thread = kthread_run(look_at_tail, folio_page(folio, pages_per_huge_page(src) -
			     pages_per_huge_page(dst) + PER_FRAME), "tail");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	strangers = 0;
	msleep(20);
	hugetlb_vmemmap_demote_folios(src, dst, &list, &small);
	kthread_stop(thread);
	KUNIT_EXPECT_EQ(test, strangers, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	KUNIT_EXPECT_EQ(test, list_count_nodes(&small), split->from / split->to);
	list_for_each_entry(folio, &small, lru)
		expect(test, dst, folio, true);
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folios(dst, &small, &restored),
			split->from / split->to);
	list_for_each_entry(folio, &restored, lru)
		expect(test, dst, folio, false);
	free_many(&restored);
}

static struct kunit_case vmemmap_cases[] = {
	KUNIT_CASE(test_one),
	KUNIT_CASE(test_many),
	KUNIT_CASE(test_differ),
	KUNIT_CASE(test_left_alone),
	KUNIT_CASE(test_no_memory),
	KUNIT_CASE_SLOW(test_reference),
	KUNIT_CASE(test_grace_period),
	KUNIT_CASE_PARAM(test_split, split_gen_params),
	{}
};

static struct kunit_suite vmemmap_suite = {
	.name = "lull_vmemmap",
	.init = vmemmap_init,
	.exit = vmemmap_exit,
	.test_cases = vmemmap_cases,
};

kunit_test_suite(vmemmap_suite);
