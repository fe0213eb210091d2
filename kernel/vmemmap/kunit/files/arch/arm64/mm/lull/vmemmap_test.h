/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HugeTLB pages that belong to no pool, for the tests of their vmemmap.
 */
#ifndef __ARM64_MM_LULL_VMEMMAP_TEST_H
#define __ARM64_MM_LULL_VMEMMAP_TEST_H

#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/lull_vmemmap.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/page_ref.h>
#include <linux/pgtable.h>
#include <linux/sizes.h>

/* One that nobody has a reference to, as they are when they come into a pool. */
static inline struct folio *make_huge(struct kunit *test, struct hstate *h)
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

/* Back to the page allocator; with all its struct pages. */
static inline void free_huge(struct folio *folio)
{
	__folio_clear_hugetlb(folio);
	folio_ref_unfreeze(folio, 1);
	folio_put(folio);
}

static inline pte_t vmemmap_entry(const struct page *page)
{
	unsigned long addr = (unsigned long)page;
	pmd_t pmd = READ_ONCE(*pmd_off_k(addr));

	if (pmd_leaf(pmd))
		return pfn_pte(pmd_pfn(pmd) + pte_index(addr), PAGE_KERNEL);
	return __ptep_get(pte_offset_kernel(pmd_off_k(addr), addr));
}

/* Every struct page says what it should, whatever it is mapped to. */
static inline void expect_huge(struct kunit *test, struct hstate *h, struct folio *folio)
{
	unsigned long i;

	KUNIT_EXPECT_TRUE(test, PageHead(&folio->page));
	KUNIT_EXPECT_EQ(test, folio_order(folio), huge_page_order(h));
	for (i = 1; i < pages_per_huge_page(h); i++) {
		struct page *page = &folio->page + i;

		if (PageTail(page) && !PageHead(page) && page_count(page) == 0 &&
		    compound_head(page) == &folio->page)
			continue;
		KUNIT_FAIL(test, "struct page %lu of %u", i, pages_per_huge_page(h));
		return;
	}
}

/* The first page of its vmemmap can be written, the others are it, or others. */
static inline void expect_mapped(struct kunit *test, struct hstate *h, struct folio *folio,
				 bool optimized)
{
	unsigned long head = pte_pfn(vmemmap_entry(&folio->page)), bad = 0;
	unsigned long i, step = PAGE_SIZE / sizeof(struct page);

	KUNIT_EXPECT_TRUE(test, pte_write(vmemmap_entry(&folio->page)));
	KUNIT_EXPECT_EQ(test, folio_test_hugetlb_vmemmap_optimized(folio), optimized);
	for (i = step; i < pages_per_huge_page(h); i += step) {
		pte_t pte = vmemmap_entry(&folio->page + i);

		bad += pte_write(pte) == optimized;
		bad += (pte_pfn(pte) == head) != optimized;
		if (!optimized)	/* no fake head: a plain tail page */
			bad += test_bit(PG_head, &(&folio->page + i)->flags);
	}
	KUNIT_EXPECT_EQ(test, bad, 0);
}

#endif /* __ARM64_MM_LULL_VMEMMAP_TEST_H */
