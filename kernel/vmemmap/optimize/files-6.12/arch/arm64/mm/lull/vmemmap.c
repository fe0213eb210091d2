// SPDX-License-Identifier: GPL-2.0-only
/*
 * The HugeTLB vmemmap optimization (HVO) without break-before-make.
 *
 * All struct pages of a HugeTLB page but the first few are equal tail pages. HVO
 * keeps one of the equal vmemmap pages, maps it read-only in place of the others,
 * and frees these (Documentation/mm/vmemmap_dedup.rst). This file replaces
 * mm/hugetlb_vmemmap.c on arm64. It keeps two vmemmap pages of a HugeTLB page:
 *
 *	address		full		optimized
 *	page 0		frame 0, RW	frame 0, RW	the head, HugeTLB's fields, tails
 *	page 1		frame 1, RW	frame 1, RO	tails only
 *	page 2		frame 2, RW	frame 1, RO
 *	 :		 :		 :
 *	page n-1	frame n-1, RW	frame 1, RO
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
 *	2. Write the same tail page to all of frames 1 to n-1, by the linear map. Then
 *	   point entries 2 to n-1 to frame 1: old and new entry are read-only, and
 *	   the contents are equal.
 *	   TLBI. From here on no CPU has an entry for frames 2 to n-1: free them.
 *
 * Restore
 *	1. Copy frame 1 to n-2 new frames. Point entries 2 to n-1 to them, read-only:
 *	   both entries are read-only, the contents are equal.
 *	   TLBI. From here on no CPU reads frame 1 by the addresses of pages 2 to n-1.
 *	2. Make entries 1 to n-1 writable. They keep their frames.
 *	   TLBI. From here on no CPU has a read-only entry, which would fault.
 *
 * Readers. While frames are filled in step 2 of optimizing, a CPU may read a struct
 * page that is being overwritten. Readers without a reference rely on compound_head
 * and the count of a tail page. Both keep their values.
 *
 * There are no fake heads: frame 1 has no head page, so no address shows a copy of one.
 *
 * Locks. HugeTLB calls this for pages with count 0 that no one else works on. The
 * entries of two HugeTLB pages are distinct, and no table is added or freed here. So
 * there is no lock, and operations on different pages run at once.
 */
#define pr_fmt(fmt)	"HugeTLB: " fmt

#include <linux/bootmem_info.h>
#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sysctl.h>
#include <linux/vmstat.h>

#include <kunit/static_stub.h>

#include <asm/lull_vmemmap.h>
#include <asm/tlbflush.h>

#include "../../../../mm/hugetlb_vmemmap.h"

/* vm.hugetlb_optimize_vmemmap: optimize HugeTLB pages from now on. */
bool vmemmap_optimize_enabled =
	IS_ENABLED(CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP_DEFAULT_ON);

/*
 * vmemmap_populate() maps pages, never blocks. To split a block needs break-before-make,
 * except on CPUs with FEAT_BBM level 2. So nothing is split, and without the boot
 * parameter HugeTLB pages stay full.
 */
bool hvo_by_pages __ro_after_init =
	IS_ENABLED(CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP_DEFAULT_ON);

/* An early parameter, because the vmemmap is mapped long before others are parsed. */
static int __init hvo_boot(char *arg)
{
	int err = kstrtobool(arg ?: "1", &vmemmap_optimize_enabled);

	hvo_by_pages = vmemmap_optimize_enabled;
	return err;
}
early_param("hugetlb_free_vmemmap", hvo_boot);

/* The entry of @addr; @last is the entry of the page before it, or NULL. */
static pte_t *hvo_entry(pte_t *last, unsigned long addr)
{
	if (last && addr & ~PMD_MASK)
		return last + 1;
	return pte_offset_kernel(pmd_off_k(addr), addr);
}

/* The first address of what page 1 maps, and the one after page n-1. */
static unsigned long hvo_tails(const struct folio *folio)
{
	return (unsigned long)folio + PAGE_SIZE;
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
	cond_resched();
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

/*
 * Fill a frame with copies of @tail, which stay in registers. HVO never runs if the
 * size of struct page is not a power of 2.
 */
static void hvo_fill(u128 *frame, const struct page *tail)
{
	const u128 *from = (const u128 *)tail;
	u128 a = from[0], b = from[1], c = from[2], d = from[3];
	unsigned int i;

	BUILD_BUG_ON(!(sizeof(*tail) & (sizeof(*tail) - 1)) &&
		     sizeof(*tail) != 4 * sizeof(a));
#pragma GCC unroll 8
	for (i = 0; i < PAGE_SIZE / sizeof(a); i += 4) {
		frame[i] = a;
		frame[i + 1] = b;
		frame[i + 2] = c;
		frame[i + 3] = d;
	}
}

/**
 * hvo_share() - map all tail pages to one frame: step 2 of optimizing
 * @h: the size of @folio
 * @folio: the HugeTLB page; its entries are read-only on all CPUs
 * @freed: the frames that no entry maps any more are added to this list
 */
static void hvo_share(const struct hstate *h, const struct folio *folio,
		      struct list_head *freed)
{
	unsigned long addr, start = hvo_tails(folio), end = hvo_end(h, folio);
	pte_t *ptep = hvo_entry(NULL, start), shared = __ptep_get(ptep);
	struct page tail = *(struct page *)start;

	/*
	 * A tail page has no flags, but PG_hwpoison if memory failure set it while
	 * HugeTLB took the page: it is lost, as in mm/hugetlb_vmemmap.c. KASAN's tag
	 * is in the same word. copy_highpage() writes to it if it is another tag.
	 */
	tail.flags &= ~PAGEFLAGS_MASK;
	page_kasan_tag_reset(&tail);

	for (addr = start, ptep = NULL; addr < end; addr += PAGE_SIZE) {
		ptep = hvo_entry(ptep, addr);
		hvo_fill(__va(__pte_to_phys(__ptep_get(ptep))), &tail);
	}
	/* A CPU that sees a new entry sees the contents of both frames. */
	smp_wmb();
	for (addr = start + PAGE_SIZE, ptep = NULL; addr < end; addr += PAGE_SIZE) {
		ptep = hvo_entry(ptep, addr);
		list_add(&pte_page(__ptep_get(ptep))->lru, freed);
		__set_pte_nosync(ptep, shared);
	}
	cond_resched();
}

#define HVO_FEW		16	/* frames that are freed together */

static void hvo_free(struct list_head *frames)
{
	struct page *frame, *next, *few[HVO_FEW];
	long boot = 0, others = 0;
	unsigned int nr = 0;

	list_for_each_entry_safe(frame, next, frames, lru) {
		if (PageReserved(frame)) {
			boot++;
			free_bootmem_page(frame);
			continue;
		}
		others++;
		few[nr++] = frame;
		if (nr == HVO_FEW) {
			release_pages(few, nr);
			nr = 0;
			cond_resched();
		}
	}
	release_pages(few, nr);
	memmap_boot_pages_add(-boot);
	memmap_pages_add(-others);
}

/* Allocate the frames of [@start, @end), before any entry changes. */
int alloc_vmemmap_page_list(unsigned long start, unsigned long end,
			    struct list_head *frames)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_RETRY_MAYFAIL;
	int nid = page_to_nid((struct page *)start);
	LIST_HEAD(own);

	KUNIT_STATIC_STUB_REDIRECT(alloc_vmemmap_page_list, start, end, frames);

	for (; start < end; start += PAGE_SIZE) {
		struct page *frame = alloc_pages_node(nid, gfp, 0);

		if (!frame) {
			hvo_free(&own);
			return -ENOMEM;
		}
		memmap_pages_add(1);
		list_add(&frame->lru, &own);
	}
	list_splice(&own, frames);
	return 0;
}

static int hvo_alloc(const struct hstate *h, const struct folio *folio,
		     struct list_head *frames)
{
	return alloc_vmemmap_page_list(hvo_tails(folio) + PAGE_SIZE, hvo_end(h, folio),
				       frames);
}

/*
 * Step 1 of restoring: give each vmemmap page a frame of @frames, read-only, with the
 * contents of frame 1.
 */
static void hvo_unshare(const struct hstate *h, const struct folio *folio,
			struct list_head *frames)
{
	unsigned long addr, end = hvo_end(h, folio);
	pte_t *ptep = NULL;

	for (addr = hvo_tails(folio) + PAGE_SIZE; addr < end; addr += PAGE_SIZE) {
		struct page *frame = list_first_entry(frames, struct page, lru);

		ptep = hvo_entry(ptep, addr);
		list_del(&frame->lru);
		copy_page(page_to_virt(frame), (void *)addr);
		/* A CPU that sees the new entry sees the contents of the frame. */
		smp_wmb();
		__set_pte_nosync(ptep, mk_pte(frame, PAGE_KERNEL_RO));
	}
	cond_resched();
}

static bool hvo_may_optimize(const struct hstate *h, struct folio *folio)
{
	struct page *first;

	if (!READ_ONCE(vmemmap_optimize_enabled) || !hugetlb_vmemmap_optimizable(h) ||
	    folio_test_hugetlb_vmemmap_optimized(folio))
		return false;

	if (!hvo_by_pages) {
		pr_info_once("HVO needs the boot parameter hugetlb_free_vmemmap=on\n");
		return false;
	}
	/*
	 * Memory that holds its own struct pages (memmap_on_memory): they are not
	 * the page allocator's. If the first one is there, all are.
	 */
	first = pte_page(__ptep_get(virt_to_kpte((unsigned long)folio)));
	return !PageVmemmapSelfHosted(first);
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
	 * Wait for tasks that may still write to tail pages. page_ref_add_unless()
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
	hvo_free(&freed);
}

/**
 * hugetlb_vmemmap_optimize_folios() - free most vmemmap pages of HugeTLB pages
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
void hugetlb_vmemmap_optimize_folios(struct hstate *h, struct list_head *folios)
{
	hvo_optimize(h, folios, synchronize_rcu);
}

/**
 * hugetlb_vmemmap_optimize_folio() - free most vmemmap pages of a HugeTLB page
 * @h: its size
 * @folio: the page, as for a list; it is on no list
 *
 * Pages that are allocated one by one, at page faults and for migration, would each
 * wait for a grace period: an expedited one.
 *
 * Context: process context; waits for one expedited RCU grace period.
 */
void hugetlb_vmemmap_optimize_folio(const struct hstate *h, struct folio *folio)
{
	LIST_HEAD(one);

	list_add(&folio->lru, &one);
	hvo_optimize(h, &one, synchronize_rcu_expedited);
	list_del_init(&folio->lru);
}

/**
 * hugetlb_vmemmap_restore_folio() - give a HugeTLB page all its vmemmap pages
 * @h: its size
 * @folio: the page, with count 0
 *
 * Context: process context.
 * Return: 0; or -ENOMEM, and the page stays optimized.
 */
int hugetlb_vmemmap_restore_folio(const struct hstate *h, struct folio *folio)
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
 * hugetlb_vmemmap_restore_folios() - give HugeTLB pages all their vmemmap pages
 * @h: their size
 * @folios: the list of them, all with count 0
 * @restored: pages that have all their vmemmap pages are moved to this list
 *
 * Context: process context.
 * Return: how many pages were restored; or -ENOMEM, and the page for which there
 * was no memory and all behind it are left on @folios.
 */
long hugetlb_vmemmap_restore_folios(const struct hstate *h,
				    struct list_head *folios,
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

static struct ctl_table hvo_sysctls[] = {
	{
		.procname	= "hugetlb_optimize_vmemmap",
		.data		= &vmemmap_optimize_enabled,
		.maxlen		= sizeof(vmemmap_optimize_enabled),
		.mode		= 0644,
		.proc_handler	= proc_dobool,
	},
};

static int __init hvo_init(void)
{
	const struct hstate *h;

	/* Pages that HugeTLB uses for its own fields are never shared. */
	BUILD_BUG_ON(PAGE_SIZE / sizeof(struct page) < __NR_USED_SUBPAGE);

	for_each_hstate(h) {
		if (hugetlb_vmemmap_optimizable(h)) {
			register_sysctl_init("vm", hvo_sysctls);
			break;
		}
	}
	return 0;
}
late_initcall(hvo_init);
