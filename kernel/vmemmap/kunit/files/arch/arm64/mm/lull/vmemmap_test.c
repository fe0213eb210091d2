// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for HVO without break-before-make.
 *
 * They take real HugeTLB pages that are in no pool, and look at all their struct
 * pages, and at the entries that map them, after each operation.
 */
#include <kunit/test.h>
#include <linux/hugetlb.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/uaccess.h>

#include "vmemmap_test.h"

#define MANY		20
#define PER_FRAME	(PAGE_SIZE / sizeof(struct page))

static bool was_enabled;

static int vmemmap_init(struct kunit *test)
{
	was_enabled = vmemmap_optimize_enabled;
	WRITE_ONCE(vmemmap_optimize_enabled, true);
	test->priv = size_to_hstate(PMD_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	return 0;
}

static LIST_HEAD(many);		/* freed after the case, which may be skipped half-way */

static void free_many(struct list_head *list)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, list, lru) {
		list_del(&folio->lru);
		/* Else a case has failed, and its struct pages are read-only. */
		if (!folio_test_hugetlb_vmemmap_optimized(folio))
			free_huge(folio);
	}
}

static void vmemmap_exit(struct kunit *test)
{
	WRITE_ONCE(vmemmap_optimize_enabled, was_enabled);
	free_many(&many);
}

static struct folio *make_mapped_by_pages(struct kunit *test, struct hstate *h)
{
	struct folio *folio = make_huge(test, h);

	if (!hvo_at_boot()) {
		free_huge(folio);
		kunit_skip(test, "boot with hugetlb_free_vmemmap=on");
	}
	return folio;
}

static pte_t entry(const struct page *page)
{
	unsigned long addr = (unsigned long)page;

	return __ptep_get(pte_offset_kernel(pmd_off_k(addr), addr));
}

/* Can this CPU write to a struct page, by what its TLB and the tables say? */
static bool writable(struct page *page)
{
	unsigned long index = *index_of(page);

	return !copy_to_kernel_nofault(index_of(page), &index, sizeof(index));
}

/* Each struct page is as it should be, and each entry maps what it should. */
static void expect(struct kunit *test, struct hstate *h, struct folio *folio, bool optimized)
{
	unsigned long i, nr = pages_per_huge_page(h), bad = 0;
	unsigned long head, tails;
	struct page *shared;

	KUNIT_EXPECT_TRUE(test, PageHead(&folio->page));
	KUNIT_EXPECT_EQ(test, folio_order(folio), huge_page_order(h));
	KUNIT_EXPECT_EQ(test, folio_test_hugetlb_vmemmap_optimized(folio), optimized);
	for (i = 1; i < nr; i++) {
		struct page *page = folio_page(folio, i);

		bad += !PageTail(page) || PageHead(page) || page_count(page) ||
		       compound_head(page) != &folio->page;
	}
	KUNIT_EXPECT_EQ_MSG(test, bad, 0, "tail pages");
	if (!hvo_at_boot())
		return;

	head = pte_pfn(entry(&folio->page));
	tails = pte_pfn(entry(folio_page(folio, PER_FRAME)));
	shared = shared_frame(h, folio);
	KUNIT_EXPECT_TRUE(test, pte_write(entry(&folio->page)));
	KUNIT_EXPECT_NE(test, head, tails);
	for (i = PER_FRAME; i < nr; i += PER_FRAME) {
		struct page *page = folio_page(folio, i);
		unsigned long pfn = pte_pfn(entry(page));

		bad += pte_write(entry(page)) == optimized;
		bad += writable(page) == optimized;
		if (i > PER_FRAME)
			bad += (pfn == tails) != optimized;
		if (shared)
			bad += (pfn == page_to_pfn(shared)) != optimized;
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
	struct folio *folio, *full;
	LIST_HEAD(restored);
	int i;

	for (i = 0; i < MANY; i++)
		list_add(&make_mapped_by_pages(test, h)->lru, &many);
	full = make_huge(test, h);
	hugetlb_vmemmap_optimize_folios(h, &many);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&many), MANY);
	list_for_each_entry(folio, &many, lru)
		expect(test, h, folio, true);
	list_add(&full->lru, &many);
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folios(h, &many, &restored), MANY);
	KUNIT_EXPECT_TRUE(test, list_empty(&many));
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

	*index_of(page) = 1;
	set_bit(PG_referenced, flags_of(page));
	*index_of(folio_page(folio, pages_per_huge_page(h) - 1)) = 2;
	hugetlb_vmemmap_optimize_folio(h, folio);
	expect(test, h, folio, true);
	KUNIT_EXPECT_FALSE(test, test_bit(PG_referenced, flags_of(page)));
	KUNIT_EXPECT_EQ(test, hugetlb_vmemmap_restore_folio(h, folio), 0);
	expect(test, h, folio, false);
	free_huge(folio);
}

/* Not wanted, too small, or not on at boot: the page stays as it is. */
static void test_left_alone(struct kunit *test)
{
	struct hstate *h = test->priv, *small = size_to_hstate(CONT_PTE_SIZE);
	struct folio *folio = make_huge(test, h);

	if (!hvo_at_boot()) {
		hugetlb_vmemmap_optimize_folio(h, folio);
		expect(test, h, folio, false);
	}
	WRITE_ONCE(vmemmap_optimize_enabled, false);
	hugetlb_vmemmap_optimize_folio(h, folio);
	WRITE_ONCE(vmemmap_optimize_enabled, true);
	expect(test, h, folio, false);
	free_huge(folio);
	if (!small || hugetlb_vmemmap_optimizable(small))
		return;
	folio = make_huge(test, small);
	hugetlb_vmemmap_optimize_folio(small, folio);
	KUNIT_EXPECT_FALSE(test, folio_test_hugetlb_vmemmap_optimized(folio));
	free_huge(folio);
}

static struct kunit_case vmemmap_cases[] = {
	KUNIT_CASE(test_one),
	KUNIT_CASE(test_many),
	KUNIT_CASE(test_differ),
	KUNIT_CASE(test_left_alone),
	{}
};

static struct kunit_suite vmemmap_suite = {
	.name = "lull_vmemmap",
	.init = vmemmap_init,
	.exit = vmemmap_exit,
	.test_cases = vmemmap_cases,
};

kunit_test_suite(vmemmap_suite);
