// SPDX-License-Identifier: GPL-2.0-only
/*
 * The HugeTLB vmemmap optimization (HVO) without break-before-make.
 *
 * All struct pages of a HugeTLB page but the first few are equal tail pages. HVO maps
 * one page full of them, which HugeTLB pages of the same size and zone share,
 * read-only in place of all vmemmap pages but the first, and frees these
 * (Documentation/mm/vmemmap_dedup.rst). mm/hugetlb_vmemmap.c leaves the changes of
 * entries to this file:
 *
 *	address		full		optimized
 *	page 0		frame 0, RW	frame 0, RW	the head, HugeTLB's fields, tails
 *	page 1		frame 1, RW	shared, RO	tails only
 *	 :		 :		 :
 *	page n-1	frame n-1, RW	shared, RO
 *
 * Any CPU may read a struct page at any time, so no entry may ever be invalid.
 * arm64 requires an invalid entry and a TLBI (break-before-make) when the output
 * address of an entry changes, if the old or the new entry is writable, or if the
 * contents of the two frames differ (DDI 0487, "Using break-before-make when
 * updating translation table entries"). A change of permissions does not require
 * it. So each operation has two steps, and each step ends with TLBIs and a DSB:
 *
 * Optimize
 *	1. Make entries 1 to n-1 read-only. They keep their frames.
 *	   TLBI. From here on no CPU can write to frames 1 to n-1, except by their
 *	   addresses in the linear map, which nobody but this file uses.
 *	2. Copy the shared frame to frames 1 to n-1, by the linear map. Then point
 *	   entries 1 to n-1 to the shared frame: old and new entry are read-only, and
 *	   the contents are equal.
 *	   TLBI. From here on no CPU has an entry for frames 1 to n-1: free them.
 *
 * Restore
 *	1. Copy the shared frame to n-1 new frames. Point entries 1 to n-1 to them,
 *	   read-only: both entries are read-only, the contents are equal.
 *	   TLBI. From here on no CPU reads the shared frame by these addresses.
 *	2. Make entries 1 to n-1 writable. They keep their frames.
 *	   TLBI. From here on no CPU has a read-only entry, which would fault.
 *
 * Readers. While frames are filled in step 2 of optimizing, a CPU may read a struct
 * page that is being overwritten. Readers without a reference rely on compound_info
 * and the count of a tail page. Both keep their values.
 *
 * Locks. HugeTLB calls this for pages with count 0 that no one else works on. The
 * entries of two HugeTLB pages are distinct, and no table is added or freed here. So
 * there is no lock, and operations on different pages run at once.
 */
#define pr_fmt(fmt)	"HugeTLB: " fmt

#include <linux/hugetlb.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>

#include <asm/tlbflush.h>

#include "../../../../mm/hugetlb_vmemmap.h"

/* The entry of @addr; @last is the entry of the page before it, or NULL. */
static pte_t *hvo_entry(pte_t *last, unsigned long addr)
{
	if (last && addr & ~PMD_MASK)
		return last + 1;
	return virt_to_kpte(addr);
}

/* The first address of what page 1 maps, and the one after page n-1. */
static unsigned long hvo_tails(const struct folio *folio)
{
	return (unsigned long)folio + HUGETLB_VMEMMAP_RESERVE_SIZE;
}

static unsigned long hvo_end(const struct hstate *h, const struct folio *folio)
{
	return (unsigned long)folio + hugetlb_vmemmap_size(h);
}

/* Change the permissions of the entries of [@start, @end), which keep their frames. */
static void hvo_protect(unsigned long start, unsigned long end, bool writable)
{
	pte_t *ptep = NULL;
	unsigned long addr;

	for (addr = start; addr < end; addr += PAGE_SIZE) {
		pteval_t val;

		ptep = hvo_entry(ptep, addr);
		val = pte_val(__ptep_get(ptep)) & ~(PTE_WRITE | PTE_RDONLY);
		__set_pte_nosync(ptep, __pte(val | (writable ? PTE_WRITE : PTE_RDONLY)));
	}
}

/* The range from the first to the last address whose entries changed. */
struct hvo_hull {
	unsigned long start;
	unsigned long end;
};

#define HVO_HULL_NONE	{ ULONG_MAX, 0 }

static void hvo_widen(struct hvo_hull *hull, const struct hstate *h,
		      const struct folio *folio)
{
	hull->start = min(hull->start, hvo_tails(folio));
	hull->end = max(hull->end, hvo_end(h, folio));
}

/* End a step. The TLBIs come after all stores to entries, and are complete on return. */
static void hvo_flush(const struct hvo_hull *hull)
{
	flush_tlb_kernel_range(hull->start, hull->end);
}

/**
 * hvo_share() - map all tail pages to the shared frame: step 2 of optimizing
 * @h: the size of @folio
 * @folio: the HugeTLB page; its entries are read-only on all CPUs
 * @freed: the frames that no entry maps any more are added to this list
 *
 * PG_hwpoison of a tail page is lost if memory failure set it while HugeTLB took the
 * page, as in mm/hugetlb_vmemmap.c.
 */
static void hvo_share(const struct hstate *h, const struct folio *folio,
		      struct list_head *freed)
{
	struct page *tails = hugetlb_vmemmap_tail(h, folio_zone(folio));
	unsigned long addr, start = hvo_tails(folio), end = hvo_end(h, folio);
	pte_t *ptep = NULL;

	for (addr = start; addr < end; addr += PAGE_SIZE) {
		struct page *frame;

		ptep = hvo_entry(ptep, addr);
		frame = pte_page(__ptep_get(ptep));
		copy_page(page_to_virt(frame), page_to_virt(tails));
		/* A CPU that sees the new entry sees the contents of both frames. */
		smp_wmb();
		__set_pte_nosync(ptep, mk_pte(tails, PAGE_KERNEL_RO));
		list_add(&frame->lru, freed);
	}
}

/* Allocate the frames of a HugeTLB page, before any entry changes. */
static int hvo_alloc(const struct hstate *h, const struct folio *folio,
		     struct list_head *frames)
{
	LIST_HEAD(own);

	if (alloc_vmemmap_page_list(hvo_tails(folio), hvo_end(h, folio), &own))
		return -ENOMEM;
	list_splice(&own, frames);
	return 0;
}

/*
 * Step 1 of restoring: give each vmemmap page a frame of @frames, read-only, with the
 * contents of the shared frame.
 */
static void hvo_unshare(const struct hstate *h, const struct folio *folio,
			struct list_head *frames)
{
	unsigned long addr, end = hvo_end(h, folio);
	pte_t *ptep = NULL;

	for (addr = hvo_tails(folio); addr < end; addr += PAGE_SIZE) {
		struct page *frame = list_first_entry(frames, struct page, lru);

		ptep = hvo_entry(ptep, addr);
		list_del(&frame->lru);
		copy_page(page_to_virt(frame), (void *)addr);
		/* A CPU that sees the new entry sees the contents of the frame. */
		smp_wmb();
		__set_pte_nosync(ptep, mk_pte(frame, PAGE_KERNEL_RO));
	}
}

static bool hvo_may_optimize(const struct hstate *h, struct folio *folio)
{
	struct page *first;

	if (!READ_ONCE(vmemmap_optimize_enabled) || !hugetlb_vmemmap_optimizable(h) ||
	    folio_test_hugetlb_vmemmap_optimized(folio))
		return false;

	/*
	 * Without it, vmemmap_populate() maps blocks, which only CPUs with FEAT_BBM
	 * level 2 can split, and those who take references are not waited for.
	 */
	if (!hugetlb_vmemmap_on()) {
		pr_info_once("HVO needs the boot parameter hugetlb_free_vmemmap=on\n");
		return false;
	}
	/*
	 * Memory that holds its own struct pages (memmap_on_memory): they are not
	 * the page allocator's. If the first one is there, all are.
	 */
	first = pte_page(__ptep_get(virt_to_kpte((unsigned long)folio)));
	if (PageVmemmapSelfHosted(first))
		return false;
	/* From here on the shared frame is there: hvo_share() finds it again. */
	return hugetlb_vmemmap_tail(h, folio_zone(folio));
}

static void hvo_optimize(const struct hstate *h, struct list_head *folios,
			 void (*wait_for_readers)(void))
{
	struct hvo_hull hull = HVO_HULL_NONE;
	struct folio *folio, *next;
	LIST_HEAD(freed);
	LIST_HEAD(todo);

	list_for_each_entry_safe(folio, next, folios, lru) {
		if (!hvo_may_optimize(h, folio))
			continue;
		hvo_widen(&hull, h, folio);
		list_move_tail(&folio->lru, &todo);
	}
	if (list_empty(&todo))
		return;

	/*
	 * Wait for tasks that may still write to tail pages. page_ref_add_unless_zero()
	 * reads the count of a page that was found by its PFN, and if it is not 0,
	 * executes a compare-and-swap. On a read-only address that faults, even if
	 * the comparison fails. Both are in one RCU read-side section. All counts of
	 * this page are 0 now: a section that begins after this sees that, and
	 * executes no compare-and-swap. (Most tail pages of gigantic pages that were
	 * allocated at boot are not initialized yet, and may have other counts.
	 * Nobody looks for pages by PFN before the initcalls.)
	 */
	wait_for_readers();
	list_for_each_entry(folio, &todo, lru)
		hvo_protect(hvo_tails(folio), hvo_end(h, folio), false);
	hvo_flush(&hull);
	list_for_each_entry(folio, &todo, lru)
		hvo_share(h, folio, &freed);
	hvo_flush(&hull);
	list_for_each_entry(folio, &todo, lru)
		folio_set_hugetlb_vmemmap_optimized(folio);
	list_splice(&todo, folios);
	free_vmemmap_page_list(&freed);
}

/**
 * hvo_optimize_folios() - free most vmemmap pages of HugeTLB pages
 * @h: their size
 * @folios: the list of them, all with count 0. It keeps all pages, those that
 *	cannot be optimized as they are
 *
 * Others busy-wait for pages that are HugeTLB's and in no pool yet: dissolve_free_
 * hugetlb_folio(), alloc_and_dissolve_hugetlb_folio(). So all pages that are allocated
 * together must be on one list.
 *
 * Context: process context; waits for one RCU grace period.
 */
void hvo_optimize_folios(const struct hstate *h, struct list_head *folios)
{
	hvo_optimize(h, folios, synchronize_rcu);
}

/**
 * hvo_optimize_folio() - free most vmemmap pages of a HugeTLB page
 * @h: its size
 * @folio: the page, as for a list; it is on no list
 *
 * Pages that are allocated one by one, at page faults and for migration, would each
 * wait for a grace period: an expedited one.
 *
 * Context: process context; waits for one expedited RCU grace period.
 */
void hvo_optimize_folio(const struct hstate *h, struct folio *folio)
{
	LIST_HEAD(one);

	list_add(&folio->lru, &one);
	hvo_optimize(h, &one, synchronize_rcu_expedited);
	list_del_init(&folio->lru);
}

/**
 * hvo_restore_folio() - give a HugeTLB page all its vmemmap pages
 * @h: its size
 * @folio: the page, with count 0
 *
 * Context: process context.
 * Return: 0; or -ENOMEM, and the page stays optimized.
 */
int hvo_restore_folio(const struct hstate *h, struct folio *folio)
{
	struct hvo_hull hull = HVO_HULL_NONE;
	LIST_HEAD(frames);

	if (!folio_test_hugetlb_vmemmap_optimized(folio))
		return 0;
	if (hvo_alloc(h, folio, &frames))
		return -ENOMEM;
	hvo_widen(&hull, h, folio);
	hvo_unshare(h, folio, &frames);
	hvo_flush(&hull);
	hvo_protect(hull.start, hull.end, true);
	hvo_flush(&hull);
	folio_clear_hugetlb_vmemmap_optimized(folio);
	return 0;
}

/**
 * hvo_restore_folios() - give HugeTLB pages all their vmemmap pages
 * @h: their size
 * @folios: the list of them, all with count 0
 * @restored: pages that have all their vmemmap pages are moved to this list
 *
 * Context: process context.
 * Return: how many pages were restored; or -ENOMEM, and the page for which there
 * was no memory and all behind it are left on @folios.
 */
long hvo_restore_folios(const struct hstate *h, struct list_head *folios,
			struct list_head *restored)
{
	struct hvo_hull hull = HVO_HULL_NONE;
	struct folio *folio, *next;
	long nr = 0, err = 0;
	LIST_HEAD(frames);
	LIST_HEAD(todo);

	list_for_each_entry_safe(folio, next, folios, lru) {
		if (!folio_test_hugetlb_vmemmap_optimized(folio)) {
			list_move(&folio->lru, restored);
			continue;
		}
		err = hvo_alloc(h, folio, &frames);
		if (err)
			break;
		hvo_widen(&hull, h, folio);
		list_move_tail(&folio->lru, &todo);
		nr++;
	}
	if (nr) {
		list_for_each_entry(folio, &todo, lru)
			hvo_unshare(h, folio, &frames);
		hvo_flush(&hull);
		list_for_each_entry(folio, &todo, lru)
			hvo_protect(hvo_tails(folio), hvo_end(h, folio), true);
		hvo_flush(&hull);
		list_for_each_entry(folio, &todo, lru)
			folio_clear_hugetlb_vmemmap_optimized(folio);
		list_splice(&todo, restored);
	}
	return err ?: nr;
}
