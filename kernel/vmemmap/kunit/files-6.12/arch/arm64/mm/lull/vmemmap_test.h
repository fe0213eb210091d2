/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vmemmap_test.c needs to know about this Linux and about HVO on it.
 */
#ifndef __ARM64_MM_LULL_VMEMMAP_TEST_H
#define __ARM64_MM_LULL_VMEMMAP_TEST_H

#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/page_ref.h>
#include <linux/sizes.h>

#include <asm/lull_vmemmap.h>

#include "../../../../mm/hugetlb_vmemmap.h"
#include "../../../../mm/internal.h"

#define page_ref_add_unless_zero(page, nr) page_ref_add_unless(page, nr, 0)

/* Without it no page is optimized, and blocks may map the vmemmap. */
#define hvo_at_boot()	hvo_by_pages

/* Optimized HugeTLB pages share no frame with each other. */
static inline struct page *shared_frame(const struct hstate *h, struct folio *folio)
{
	return NULL;
}

static inline unsigned long *flags_of(struct page *page)
{
	return &page->flags;
}

static inline unsigned long *index_of(struct page *page)
{
	return &page->index;
}

/* A HugeTLB page with count 0, as they are when they come into a pool. */
static struct folio *make_huge(struct kunit *test, struct hstate *h)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_COMP | __GFP_NOWARN;
	struct page *page;

	/* alloc_contig_pages() takes no part of a free block with __GFP_COMP. */
	if (h->order <= MAX_PAGE_ORDER)
		page = alloc_pages(gfp, h->order);
	else
		page = alloc_contig_pages(pages_per_huge_page(h), gfp, numa_node_id(), NULL);
	if (!page)
		kunit_skip(test, "no %lu KiB in one piece", huge_page_size(h) / SZ_1K);
	KUNIT_ASSERT_TRUE(test, page_ref_freeze(page, 1));
	/* As init_new_hugetlb_folio() of mm/hugetlb.c. */
	__folio_set_hugetlb(page_folio(page));
	INIT_LIST_HEAD(&page->lru);
	hugetlb_set_folio_subpool(page_folio(page), NULL);
	return page_folio(page);
}

/* Free a page that is not optimized. */
static void free_huge(struct folio *folio)
{
	__folio_clear_hugetlb(folio);
	folio_ref_unfreeze(folio, 1);
	folio_put(folio);
}

#endif /* __ARM64_MM_LULL_VMEMMAP_TEST_H */
