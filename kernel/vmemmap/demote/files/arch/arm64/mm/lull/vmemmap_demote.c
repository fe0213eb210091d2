// SPDX-License-Identifier: GPL-2.0-only
/*
 * Split optimized HugeTLB pages into smaller ones that are optimized, too.
 *
 * Linux gives the large page all its struct pages first, and takes most of them
 * back from the small ones: of a 1 GiB page, 4095 pages are allocated, and 3584 of
 * them freed again at once. But only the first vmemmap page of each small one is
 * needed:
 *
 *	large		small
 *	page 0  RW	page 0  RW
 *	 : alias of 0	 : alias of 0
 *	 : alias of 0	page 8  RW, new: the second small page's
 *	 : alias of 0	 : alias of 8
 *	 : ...
 *
 * The new pages are full of the large page's tail pages, as what was there before
 * was: so nothing changes for anybody when the entries do. Then each small page's
 * struct pages are made what they are to be, as far as they are its own: the
 * others are the same ones, and follow.
 */
#include <linux/hugetlb.h>
#include <linux/list.h>
#include <linux/lull_vmemmap.h>
#include <linux/mm.h>
#include <linux/page_owner.h>
#include <linux/pgalloc_tag.h>
#include <linux/vmstat.h>

#include "../../../../mm/hugetlb_vmemmap.h"
#include "../../../../mm/internal.h"
#include "vmemmap.h"

static int prepare_demote(struct lull_remap *batch, struct lull_job *job)
{
	unsigned long start = (unsigned long)&job->folio->page;
	unsigned long end = start + hugetlb_vmemmap_size(batch->h);
	unsigned long stride = hugetlb_vmemmap_size(batch->dst);
	const struct page *tail;
	int err;

	err = lull_remap_cover(batch, job, start, end);
	if (err)
		return err;
	tail = (struct page *)(start + HUGETLB_VMEMMAP_RESERVE_SIZE) - 1;
	return lull_remap_fill(batch, tail, start + stride, end, stride);
}

/*
 * prep_compound_page() for a page that has been a tail page, and owns its first
 * struct pages only. Until clear_compound_head(), a reader of any of them finds the
 * large page's tail, or this one's: never a page by itself.
 *
 * The barrier orders that store, after which the first struct page, and each
 * alias of it, are no tails by compound_head any more, behind PG_head and the tails'
 * pointers, by which page_fixed_fake_head() knows an alias. Readers that load the
 * two in the other order may take an alias for a page by itself, as they may on
 * every architecture, and can do nothing with it: the count is 0 until HugeTLB gives
 * the page out, by a release (folio_ref_unfreeze()), and page_ref_add_unless(), which
 * reads it with acquire, sees all of this when it sees another count.
 */
static void prepare_head(struct page *page, unsigned int order)
{
	int i;

	__SetPageHead(page);
	for (i = 1; i < HUGETLB_VMEMMAP_RESERVE_PAGES; i++)
		prep_compound_tail(page, i);
	page->mapping = NULL;
	smp_wmb();	/* see above */
	clear_compound_head(page);
	/* As in prep_compound_page(), a head has no order yet. */
	prep_compound_head(page, order);
}

static void finish_demote(struct lull_remap *batch, struct folio *folio,
			  bool done)
{
	unsigned int order = batch->dst->order;
	unsigned long i, nr = pages_per_huge_page(batch->h);

	if (!done)
		return;

	list_del(&folio->lru);
	split_page_owner(&folio->page, batch->h->order, order);
	pgalloc_tag_split(folio, batch->h->order, order);

	for (i = 0; i < nr; i += 1UL << order) {
		struct folio *small = (struct folio *)folio_page(folio, i);

		prepare_head(&small->page, order);
		init_new_hugetlb_folio(batch->dst, small);
		/* Last: it says how the vmemmap is mapped. */
		folio_set_hugetlb_vmemmap_optimized(small);
		list_add(&small->lru, batch->out);
	}
	batch->keys += (nr >> order) - 1;
	count_vm_event(VMEMMAP_DEMOTED);
}

static const struct lull_work demote = {
	.grace = true,
	.prepare = prepare_demote,
	.finish = finish_demote,
};

/**
 * lull_vmemmap_demote_folios() - split optimized HugeTLB pages
 * @src: their size
 * @dst: the size of what they are split to
 * @folios: the list of them; those that are not split stay on it
 * @demoted: where the smaller ones go, ready to be added to their pool
 */
void lull_vmemmap_demote_folios(const struct hstate *src,
				struct hstate *dst,
				struct list_head *folios,
				struct list_head *demoted)
{
	struct lull_remap *batch = NULL;
	struct folio *folio, *next;

	if (!lull_vmemmap_on() || !READ_ONCE(vmemmap_optimize_enabled) ||
	    !hugetlb_vmemmap_optimizable(dst))
		return;
	list_for_each_entry_safe(folio, next, folios, lru) {
		if (!folio_test_hugetlb_vmemmap_optimized(folio))
			continue;
		if (!batch) {
			batch = lull_remap_begin(&demote, src);
			batch->dst = dst;
			batch->out = demoted;
		}
		if (lull_remap_add(batch, folio))
			break;
	}
	if (batch)
		lull_remap_end(batch);
}
