/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vmemmap_test.c needs to know about this Linux and about HVO on it.
 */
#ifndef __ARM64_MM_LULL_VMEMMAP_TEST_H
#define __ARM64_MM_LULL_VMEMMAP_TEST_H

#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/sizes.h>

#include "../../../../mm/hugetlb_internal.h"
#include "../../../../mm/hugetlb_vmemmap.h"
#include "../../../../mm/internal.h"
#include "../../../../mm/page_alloc.h"

/* Without it no page is optimized, and blocks may map the vmemmap. */
#define hvo_at_boot()	hugetlb_vmemmap_on()

/* Optimized HugeTLB pages of the same size and zone share this frame. */
static inline struct page *shared_frame(const struct hstate *h, struct folio *folio)
{
	return hugetlb_vmemmap_tail(h, folio_zone(folio));
}

static inline unsigned long *flags_of(struct page *page)
{
	return &page->flags.f;
}

static inline unsigned long *index_of(struct page *page)
{
	return &page->__folio_index;
}

/* A HugeTLB page with count 0, as they are when they come into a pool. */
static struct folio *make_huge(struct kunit *test, struct hstate *h)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_COMP | __GFP_NOWARN;
	struct page *page;

	/* alloc_contig_frozen_pages() takes no part of a free block with __GFP_COMP. */
	if (h->order <= MAX_PAGE_ORDER)
		page = alloc_frozen_pages(gfp, h->order);
	else
		page = alloc_contig_frozen_pages(pages_per_huge_page(h), gfp,
						 numa_node_id(), NULL);
	if (!page)
		kunit_skip(test, "no %lu KiB in one piece", huge_page_size(h) / SZ_1K);
	init_new_hugetlb_folio(page_folio(page));
	return page_folio(page);
}

/* Free a page that is not optimized. */
static void free_huge(struct folio *folio)
{
	__folio_clear_hugetlb(folio);
	free_frozen_pages(&folio->page, folio_order(folio));
}

#endif /* __ARM64_MM_LULL_VMEMMAP_TEST_H */
