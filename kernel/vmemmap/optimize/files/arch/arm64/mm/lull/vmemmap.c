// SPDX-License-Identifier: GPL-2.0-only
/*
 * HugeTLB pages give back the memory of their struct pages.
 *
 * Most struct pages of a HugeTLB page say the same: tail page. So the pages of
 * the vmemmap that hold only those can be one page, mapped again and again, and
 * mapped read-only (Documentation/mm/vmemmap_dedup.rst). To get there, entries of
 * the kernel's page tables that any CPU may be using at that moment must point
 * to another page. The architecture wants break-before-make for that: an invalid
 * entry, a TLBI and a DSB, then the new entry (DDI 0487, "Using
 * break-before-make when updating translation table entries" in D8). Who looks at
 * a struct page in between faults. So nobody may: all other CPUs wait (pause.c).
 *
 * A pause should be short, and nothing in it may fail. So it does not write
 * entries: for each 2 MiB of the vmemmap (with 4 KiB pages) a new table is made,
 * with all entries as they shall be, those that stay and those that change. The
 * pause puts it where the old table is, or the block:
 *
 *	before			   in between		after
 *	PMD -> old table (block)   PMD: invalid		PMD -> new table
 *				   TLBI, DSB
 *
 * So splitting a block and changing what its pages are is one thing, whether one
 * HugeTLB page is concerned or all that share the table. Up to there nothing has
 * happened that could not be forgotten; after it, what the old tables map and
 * the new ones do not is free.
 *
 * TLBIs. A range covers all that the old table, or the block, maps; not for the
 * last level only, so that the pointer to the old table goes as well. The TLB
 * itself needs that for changed entries alone, but the old table is freed: see
 * invalidate().
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/bootmem_info.h>
#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/lull_pause.h>
#include <linux/lull_vmemmap.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/vmstat.h>

#include <kunit/static_stub.h>

#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "../../../../mm/hugetlb_vmemmap.h"
#include "vmemmap.h"

#define CREATE_TRACE_POINTS
#include "trace_vmemmap.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "lull."

/* Entries that share a DSB, and between two looks at the clock. */
#define GROUP	256

/*
 * An entry is a table, the first struct pages of a HugeTLB page, or a TLBI: two
 * stores, 256 bytes to copy, or a message to all CPUs. With 50 ns for each, 1024 of
 * them are some 50 us, which is what a long interrupt handler takes; where it takes
 * longer, the second limit ends a pause. Neither splits a HugeTLB page: of one, a
 * pause writes all.
 */
VISIBLE_IF_KUNIT unsigned int lull_vmemmap_entries = 1024;
module_param_named(vmemmap_pause_entries, lull_vmemmap_entries, uint, 0644);
MODULE_PARM_DESC(vmemmap_pause_entries, "a pause that has written so many ends");

static unsigned int pause_us = 200;
module_param_named(vmemmap_pause_us, pause_us, uint, 0644);
MODULE_PARM_DESC(vmemmap_pause_us, "a pause that has lasted so long ends");

/*
 * For one operation, a list of HugeTLB pages or a single one: CPUs that have come
 * have interrupts disabled. More than the default is for emulators, and for virtual
 * machines with more CPUs than their host.
 */
VISIBLE_IF_KUNIT unsigned int lull_vmemmap_wait_us = 5000;

static int set_wait(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 100, USEC_PER_SEC);
}

static const struct kernel_param_ops wait_ops = {
	.set = set_wait,
	.get = param_get_uint,
};

module_param_cb(vmemmap_wait_us, &wait_ops, &lull_vmemmap_wait_us, 0644);
MODULE_PARM_DESC(vmemmap_wait_us, "for how long CPUs wait for each other, in all");

/*
 * After a pause that did not come about, none is tried for as long: HugeTLB goes on
 * page by page when a list of them could not be restored. In jiffies.
 */
#define REST	(HZ / 10)

VISIBLE_IF_KUNIT unsigned long lull_vmemmap_rest;

static unsigned long long pause_max_ns;
module_param_named(vmemmap_pause_max_ns, pause_max_ns, ullong, 0644);
MODULE_PARM_DESC(vmemmap_pause_max_ns, "the longest that CPUs have waited");

enum { VMEMMAP_OFF, VMEMMAP_PAUSED };

static const char * const policies[] = {
	[VMEMMAP_OFF]		= "off",
	[VMEMMAP_PAUSED]	= "pause",
	NULL
};

/* Each HugeTLB page is asked about by itself: nothing else changes. */
static void apply(int policy)
{
}

/* Not by LULL_SWITCH(): vmemmap is a macro. */
VISIBLE_IF_KUNIT struct lull_switch lull_vmemmap_switch = {
	.attr = {
		.attr = { .name = "vmemmap", .mode = 0644 },
		.show = lull_switch_show,
		.store = lull_switch_store,
	},
	.policies = policies,
	.policy = VMEMMAP_PAUSED,
	.apply = apply,
};

/*
 * Protects the batch, and with it the tables of the vmemmap: memory hotplug, which
 * fills and empties entries of tables that a batch may be replacing, has it too.
 */
DEFINE_MUTEX(lull_vmemmap_lock);
static struct lull_remap the_batch;

static bool changed(const struct lull_table *table)
{
	return table->first < table->end;
}

/* What the table that is there says. */
static __always_inline pte_t entry_before(const struct lull_table *table, unsigned int i)
{
	if (pmd_leaf(table->old))
		return pfn_pte(pmd_pfn(table->old) + i, PAGE_KERNEL);
	return __ptep_get((pte_t *)pmd_page_vaddr(table->old) + i);
}

static struct lull_table *find_table(struct lull_remap *batch,
				     unsigned long addr)
{
	int i;

	for (i = batch->nr_tables; i-- > 0;)
		if (batch->tables[i].addr == (addr & PMD_MASK))
			return &batch->tables[i];
	return NULL;
}

/*
 * As Linux's own way: it fails rather than call the OOM killer, as HugeTLB pages may
 * be given back to make memory free. Return: how many there are in @pages. Less
 * than @nr: there is no memory.
 */
VISIBLE_IF_KUNIT unsigned int lull_vmemmap_alloc(int nid, unsigned int nr,
						 struct page **pages)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_RETRY_MAYFAIL;
	unsigned int got;

	KUNIT_STATIC_STUB_REDIRECT(lull_vmemmap_alloc, nid, nr, pages);

	memset(pages, 0, nr * sizeof(*pages));
	got = alloc_pages_bulk_array_node(gfp, nid, nr, pages);
	for (; got < nr; got++) {
		pages[got] = alloc_pages_node(nid, gfp, 0);
		if (!pages[got])
			break;
	}
	return got;
}

/* Such pages for struct pages: they are counted. */
static unsigned int alloc_vmemmap_pages(int nid, unsigned int nr,
					struct page **pages)
{
	unsigned int got = lull_vmemmap_alloc(nid, nr, pages);

	memmap_pages_add(got);
	count_vm_events(VMEMMAP_ALLOCATED, got);
	return got;
}

/* Enter the table that maps an address: so far as it is. */
static int enter_table(struct lull_remap *batch, unsigned long addr)
{
	struct lull_table *table = &batch->tables[batch->nr_tables];
	struct page *page;
	unsigned int i;

	if (batch->nr_tables == LULL_REMAP_TABLES)
		return -ENOSPC;

	if (!lull_vmemmap_alloc(NUMA_NO_NODE, 1, &page))
		return -ENOMEM;
	table->ptes = page_to_virt(page);
	table->addr = addr & PMD_MASK;
	table->pmdp = pmd_off_k(addr);
	table->old = READ_ONCE(*table->pmdp);
	table->first = PTRS_PER_PTE;
	table->end = 0;
	table->writes = 1;
	table->joined = false;
	table->jobs = -1;
	if (!pmd_leaf(table->old))
		copy_page(table->ptes, (void *)pmd_page_vaddr(table->old));
	else
		for (i = 0; i < PTRS_PER_PTE; i++)
			table->ptes[i] = entry_before(table, i);
	batch->nr_tables++;
	return 0;
}

/**
 * lull_remap_cover() - enter all tables for a part of the vmemmap
 * @batch: the batch
 * @job: whose it is
 * @start: the first address
 * @end: the one after the last
 *
 * Return: 0; -ENOMEM; -ENOSPC; -EOPNOTSUPP for memory that holds its own struct
 * pages: they would be gone with it.
 */
int lull_remap_cover(struct lull_remap *batch, struct lull_job *job,
		     unsigned long start, unsigned long end)
{
	unsigned long addr, next;
	struct lull_table *table;
	pte_t pte;
	int err;

	for (addr = start; addr < end; addr = next) {
		next = pmd_addr_end(addr, end);
		if (find_table(batch, addr))
			continue;
		err = enter_table(batch, addr);
		if (err)
			return err;
	}

	/*
	 * [                  hotplugged memory                  ]
	 * [ vmemmap ][              usable memory               ]
	 *
	 * HugeTLB pages are aligned, so all of one is in it, or nothing.
	 */
	table = find_table(batch, start);
	pte = entry_before(table, pte_index(start));
	if (IS_ENABLED(CONFIG_MEMORY_HOTPLUG) &&
	    PageVmemmapSelfHosted(pte_page(pte)))
		return -EOPNOTSUPP;

	job->table = table - batch->tables;
	/* Only what begins with a table needs more than one. */
	for (addr = start & PMD_MASK; addr + PMD_SIZE < end; addr += PMD_SIZE)
		(table++)->joined = true;
	return 0;
}

/**
 * lull_remap_map() - enter a page of the vmemmap
 * @batch: the batch, with tables for it
 * @start: the first address that maps it
 * @end: the one after the last
 * @page: the page
 * @prot: PAGE_KERNEL if it is mapped there only, or first; PAGE_KERNEL_RO else
 */
void lull_remap_map(struct lull_remap *batch, unsigned long start,
		    unsigned long end, struct page *page, pgprot_t prot)
{
	pte_t pte = mk_pte(page, prot);
	unsigned long next;

	for (; start < end; start = next) {
		struct lull_table *table = find_table(batch, start);
		unsigned int i = pte_index(start), last;

		next = pmd_addr_end(start, end);
		last = i + ((next - start) >> PAGE_SHIFT);
		table->first = min(table->first, i);
		table->end = max(table->end, last);
		if (pmd_leaf(table->old)) {
			table->first = 0;
			table->end = PTRS_PER_PTE;
		}
		for (; i < last; i++)
			table->ptes[i] = pte;
	}
}

/*
 * Free what one side has and the other has not. Writable is what is mapped here
 * only, or first; who maps it first is who owns it. Return: has it been freed?
 */
static __always_inline bool free_unless_kept(pte_t gone, pte_t kept)
{
	if (!pte_write(gone) || pte_pfn(gone) == pte_pfn(kept))
		return false;
	free_vmemmap_page(pte_page(gone));
	return true;
}

/**
 * lull_remap_undo() - forget what was entered
 * @batch: the batch
 * @start: the first address
 * @end: the one after the last
 */
void lull_remap_undo(struct lull_remap *batch, unsigned long start,
		     unsigned long end)
{
	unsigned long addr, freed = 0;

	for (addr = start; addr < end; addr += PAGE_SIZE) {
		struct lull_table *table = find_table(batch, addr);
		unsigned int i = pte_index(addr);
		pte_t before = entry_before(table, i);

		freed += free_unless_kept(table->ptes[i], before);
		table->ptes[i] = before;
	}
	count_vm_events(VMEMMAP_FREED, freed);
}

static void fill_page(struct page *page, const struct page *tail)
{
	struct page *copy = page_to_virt(page);
	int i;

	for (i = 0; i < HUGETLB_VMEMMAP_RESERVE_PAGES; i++)
		copy[i] = *tail;
}

/**
 * lull_remap_fill() - enter new pages full of tail pages
 * @batch: the batch, with tables for them
 * @tail: the tail page that all are copies of
 * @start: the address of the first
 * @end: where to stop
 * @stride: from one to the next; what is between is mapped to the first, read-only
 *
 * Return: 0, or -ENOMEM when nothing has been entered.
 */
int lull_remap_fill(struct lull_remap *batch, const struct page *tail,
		    unsigned long start, unsigned long end,
		    unsigned long stride)
{
	struct page *first = NULL, *pages[16];
	unsigned long addr = start;
	unsigned int i, nr, got;

	while (addr < end) {
		nr = min((end - addr) / stride, ARRAY_SIZE(pages));
		got = alloc_vmemmap_pages(page_to_nid(tail), nr, pages);
		for (i = 0; i < got; i++, addr += stride) {
			if (first)
				copy_page(page_to_virt(pages[i]),
					  page_to_virt(first));
			else
				fill_page(pages[i], tail);
			first = first ?: pages[i];
			lull_remap_map(batch, addr, addr + PAGE_SIZE, pages[i],
				       PAGE_KERNEL);
			lull_remap_map(batch, addr + PAGE_SIZE, addr + stride,
				       pages[i], PAGE_KERNEL_RO);
		}
		if (got < nr) {
			lull_remap_undo(batch, start, addr);
			return -ENOMEM;
		}
	}
	return 0;
}

/*
 * What was entered may have been forgotten again, when there was no memory for all
 * of a HugeTLB page. A table that is as it was needs no TLBI, and no pause.
 */
static void trim(struct lull_table *table)
{
	unsigned int first = table->first, end = table->end;

	while (first < end &&
	       pte_same(table->ptes[first], entry_before(table, first)))
		first++;
	while (first < end &&
	       pte_same(table->ptes[end - 1], entry_before(table, end - 1)))
		end--;
	/* A block goes as a whole, or not at all. */
	if (pmd_leaf(table->old) && first < end)
		return;
	table->first = first;
	table->end = end;
}

/*
 * Non-leaf, so that pointers to the old tables go too, and all that a table maps,
 * not only what changes: the table is freed, and a CPU without FEAT_nTLBPA may
 * keep copies of its other entries by their physical addresses until a TLBI that
 * covers them. Neighbours go together.
 */
static __always_inline void invalidate(const struct lull_table *tables, int nr)
{
	unsigned long start = 0, end = 0;
	int i;

	if (!system_supports_tlb_range()) {
		flush_tlb_all();
		return;
	}

	dsb(ishst);
	for (i = 0; i <= nr; i++) {
		unsigned long first = i < nr ? tables[i].addr : ULONG_MAX;

		if (i < nr && !changed(&tables[i]))
			continue;
		if (first != end) {
			__flush_tlb_range_op(vaae1is, start,
					     (end - start) >> PAGE_SHIFT,
					     PAGE_SIZE, 0, TLBI_TTL_UNKNOWN,
					     false, lpa2_is_enabled());
			start = first;
		}
		end = first + PMD_SIZE;
	}
	__tlbi_sync_s1ish();
	isb();
}

/*
 * Put new tables where the old ones are. Nobody else runs, and this must not look
 * at a struct page, of whatever: it may be one that is nowhere just now.
 */
static notrace __kprobes void replace(struct lull_remap *batch, int first,
				      int nr)
{
	struct lull_table *tables = &batch->tables[first];
	int i, j;

	for (i = 0; i < nr; i++)
		if (changed(&tables[i]))
			pmd_clear(tables[i].pmdp);

	/* The first DSB in it is for the entries of the new tables, too. */
	invalidate(tables, nr);

	for (i = 0; i < nr; i++) {
		if (!changed(&tables[i]))
			continue;
		for (j = tables[i].jobs; j >= 0; j = batch->jobs[j].next)
			memcpy(batch->jobs[j].to, batch->jobs[j].from,
			       sizeof(struct folio));
		pmd_populate_kernel(&init_mm, tables[i].pmdp, tables[i].ptes);
	}
}

/* The most TLBIs that invalidate() takes for so many tables. */
static unsigned int tlbis(unsigned int tables)
{
	return system_supports_tlb_range() ? 4 * tables : 1;
}

/*
 * As many tables as share a DSB: so many entries, but never a part of a HugeTLB
 * page, and never less than one.
 */
static int group(const struct lull_remap *batch, int first, unsigned int room,
		 unsigned int *entries)
{
	const struct lull_table *table = &batch->tables[first];
	int nr = 0, end = batch->nr_tables - first, i = 0;
	unsigned int writes = 0;

	room = min_t(unsigned int, room, GROUP);
	while (i < end) {
		do {
			if (changed(&table[i]))
				writes += table[i].writes;
		} while (table[i++].joined);

		if (nr && writes + tlbis(i) > room)
			break;
		nr = i;
		*entries = writes + tlbis(i);
	}
	return nr;
}

/* What others have waited, also for nothing. */
static void account(const struct lull_pause *pause)
{
	count_vm_events(VMEMMAP_PAUSE_NS, pause->waited);
	count_vm_events(VMEMMAP_PAUSE_RETRY, pause->tries - 1);
	pause_max_ns = max(pause_max_ns, pause->longest);
}

/* What failed tries take, the batch's later pauses have less. */
static int begin(struct lull_remap *batch, struct lull_pause *pause)
{
	int err;

	if (time_before(jiffies, lull_vmemmap_rest))
		return -EBUSY;
	err = lull_pause_begin(pause, batch->budget);
	batch->budget -= min(batch->budget, pause->waited);
	if (err) {
		lull_vmemmap_rest = jiffies + REST;
		account(pause);
	}
	return err;
}

/* Return: how many tables have been replaced: all, unless a pause failed. */
static int replace_all(struct lull_remap *batch)
{
	unsigned int limit = READ_ONCE(lull_vmemmap_entries), entries;
	struct lull_pause pause;
	int done = 0, first;

	for (;;) {
		while (done < batch->nr_tables && !changed(&batch->tables[done]))
			done++;
		if (done == batch->nr_tables)
			break;
		if (begin(batch, &pause)) {
			count_vm_event(VMEMMAP_PAUSE_FAIL);
			batch->failed = true;
			break;
		}
		first = done;
		entries = 0;
		do {
			unsigned int more;
			int nr = group(batch, done, limit - entries, &more);

			replace(batch, done, nr);
			done += nr;
			entries += more;
		} while (done < batch->nr_tables && entries < limit &&
			 lull_pause_age(&pause) <
				 READ_ONCE(pause_us) * NSEC_PER_USEC);
		lull_pause_end(&pause);
		count_vm_event(VMEMMAP_PAUSE);
		account(&pause);
		trace_lull_vmemmap_pause(&pause, done - first, entries);
		cond_resched();
	}
	return done;
}

static void free_table(pte_t *table)
{
	struct page *page = virt_to_page(table);

	if (PageReserved(page))
		free_bootmem_page(page);
	else
		pte_free_kernel(&init_mm, table);
}

/* Free what is nowhere any more, or what has never got anywhere. */
static void clean_up(struct lull_table *table, bool done)
{
	bool block = pmd_leaf(table->old);
	unsigned int i, freed = 0;

	/* The pages of a block are freed one by one from here on. */
	if (done && block && !PageReserved(pmd_page(table->old)))
		split_page(pmd_page(table->old), get_order(PMD_SIZE));

	for (i = table->first; i < table->end; i++) {
		pte_t before = entry_before(table, i);

		if (done)
			freed += free_unless_kept(before, table->ptes[i]);
		else
			freed += free_unless_kept(table->ptes[i], before);
	}
	count_vm_events(VMEMMAP_FREED, freed);
	if (!done)
		free_table(table->ptes);
	else if (!block)
		free_table((pte_t *)pmd_page_vaddr(table->old));
}

static void commit(struct lull_remap *batch)
{
	int done, i;

	for (i = 0; i < batch->nr_tables; i++)
		trim(&batch->tables[i]);
	done = replace_all(batch);
	for (i = 0; i < batch->nr_jobs; i++) {
		struct lull_job *job = &batch->jobs[i];

		batch->work->finish(batch, job->folio, job->table < done);
		batch->done += job->table < done;
	}
	for (i = 0; i < batch->nr_tables; i++) {
		struct lull_table *table = &batch->tables[i];

		clean_up(table, i < done && changed(table));
	}
	batch->nr_tables = 0;
	batch->nr_jobs = 0;
}

/**
 * lull_remap_add() - enter a HugeTLB page
 * @batch: the batch; what is in it is done first if there is no room left
 * @folio: the page
 *
 * Return: 0; or why this one cannot be done: -ENOMEM, -EOPNOTSUPP, or -EBUSY when
 * other CPUs did not come to wait.
 */
int lull_remap_add(struct lull_remap *batch, struct folio *folio)
{
	bool again = true;
	int err;

	for (;;) {
		struct lull_job *job = &batch->jobs[batch->nr_jobs];

		err = -ENOSPC;
		if (batch->nr_jobs < LULL_REMAP_JOBS) {
			*job = (struct lull_job){ .folio = folio, .next = -1 };
			err = batch->work->prepare(batch, job);
		}
		if (!err) {
			batch->nr_jobs++;
			return 0;
		}
		if (err == -EOPNOTSUPP || !again)
			return err;
		/* What the others give back may be what is missing here. */
		again = false;
		commit(batch);
		if (batch->failed)
			return -EBUSY;
	}
}

/**
 * lull_remap_begin() - begin a batch
 * @work: what is to be done
 * @h: the size of the HugeTLB pages
 *
 * There is one batch, so others wait until it is over.
 *
 * The key that says that there are optimized pages at all is held meanwhile, and
 * changed when it is over: to change it takes cpus_read_lock(), which who offlines
 * memory has when it comes here, and that lock does not nest.
 *
 * Context: process context; may sleep.
 * Return: the batch, to be ended by lull_remap_end().
 */
struct lull_remap *lull_remap_begin(const struct lull_work *work,
				    const struct hstate *h)
{
	struct lull_remap *batch = &the_batch;

	if (!static_key_fast_inc_not_disabled(&hugetlb_optimize_vmemmap_key.key))
		static_branch_inc(&hugetlb_optimize_vmemmap_key);
	/* See page_ref_add_unless(). The caller has frozen all counts. */
	if (work->grace)
		synchronize_rcu();
	mutex_lock(&lull_vmemmap_lock);
	mmap_read_lock(&init_mm);	/* who dumps tables locks it for writing */
	batch->work = work;
	batch->h = h;
	batch->out = NULL;
	batch->done = 0;
	batch->keys = 0;
	batch->budget = (u64)READ_ONCE(lull_vmemmap_wait_us) * NSEC_PER_USEC;
	batch->failed = false;
	return batch;
}

/**
 * lull_remap_end() - do what was entered, and end a batch
 * @batch: the batch
 *
 * Return: how many HugeTLB pages have been done.
 */
unsigned long lull_remap_end(struct lull_remap *batch)
{
	unsigned long done;
	long keys;

	commit(batch);
	done = batch->done;
	keys = batch->keys - 1;
	mmap_read_unlock(&init_mm);
	mutex_unlock(&lull_vmemmap_lock);

	for (; keys > 0; keys--)
		static_key_fast_inc_not_disabled(&hugetlb_optimize_vmemmap_key.key);
	for (; keys < 0; keys++)
		static_branch_dec(&hugetlb_optimize_vmemmap_key);
	return done;
}

/*
 * What a HugeTLB page keeps of its vmemmap is the first page, in a copy: so all
 * the old ones can be free together, and be one huge page some day.
 */
static int prepare_optimize(struct lull_remap *batch, struct lull_job *job)
{
	unsigned long start = (unsigned long)&job->folio->page;
	unsigned long end = start + hugetlb_vmemmap_size(batch->h);
	struct lull_table *table;
	struct page *head;
	int err, i;

	err = lull_remap_cover(batch, job, start, end);
	if (err)
		return err;
	if (!alloc_vmemmap_pages(folio_nid(job->folio), 1, &head))
		return -ENOMEM;

	/*
	 * KASAN's tag stands in page->flags, and copy_highpage() resets it where it
	 * is another one: in the tail pages too, which cannot be written then.
	 */
	for (i = 0; i < HUGETLB_VMEMMAP_RESERVE_PAGES; i++)
		page_kasan_tag_reset(&job->folio->page + i);

	/* Now, so that the copy says so too. */
	folio_set_hugetlb_vmemmap_optimized(job->folio);
	copy_page(page_to_virt(head), job->folio);

	/*
	 * Up to the pause, the struct pages that a folio is made of can still
	 * change: HugeTLB's lists, memory failure. They are copied once more when
	 * nobody can write to them. What is written meanwhile to those of other
	 * tail pages is lost, as in Linux's own HVO: nobody has a reason to, but
	 * memory failure, which may set PG_hwpoison of a page that became a
	 * HugeTLB page's after it asked.
	 */
	table = &batch->tables[job->table];
	job->from = page_to_virt(pte_page(entry_before(table,
						       pte_index(start))));
	job->to = page_to_virt(head);
	job->next = table->jobs;
	table->jobs = job - batch->jobs;
	table->writes++;

	lull_remap_map(batch, start, start + PAGE_SIZE, head, PAGE_KERNEL);
	lull_remap_map(batch, start + PAGE_SIZE, end, head, PAGE_KERNEL_RO);
	return 0;
}

static void finish_optimize(struct lull_remap *batch, struct folio *folio,
			    bool done)
{
	if (!done) {
		folio_clear_hugetlb_vmemmap_optimized(folio);
		return;
	}
	batch->keys++;
	count_vm_event(VMEMMAP_OPTIMIZED);
}

/**
 * lull_vmemmap_on() - may HugeTLB pages be optimized now?
 */
bool lull_vmemmap_on(void)
{
	return READ_ONCE(lull_vmemmap_switch.policy) != VMEMMAP_OFF;
}

static bool should_optimize(const struct hstate *h, struct folio *folio)
{
	return lull_vmemmap_on() && vmemmap_should_optimize_folio(h, folio);
}

static const struct lull_work optimize = {
	.grace = true,
	.prepare = prepare_optimize,
	.finish = finish_optimize,
};

static int prepare_restore(struct lull_remap *batch, struct lull_job *job)
{
	unsigned long start = (unsigned long)&job->folio->page;
	unsigned long end = start + hugetlb_vmemmap_size(batch->h);
	int err;

	err = lull_remap_cover(batch, job, start, end);
	if (err)
		return err;
	start += HUGETLB_VMEMMAP_RESERVE_SIZE;
	return lull_remap_fill(batch, (struct page *)start - 1, start, end,
			       PAGE_SIZE);
}

static void finish_restore(struct lull_remap *batch, struct folio *folio,
			   bool done)
{
	if (!done)
		return;
	folio_clear_hugetlb_vmemmap_optimized(folio);
	if (batch->out)
		list_move(&folio->lru, batch->out);
	batch->keys--;
	count_vm_event(VMEMMAP_RESTORED);
}

/*
 * No grace period: of what is writable afterwards, page_ref_add_unless() finds a
 * count of 0, or that of a page that has been allocated since.
 */
static const struct lull_work restore = {
	.prepare = prepare_restore,
	.finish = finish_restore,
};

/**
 * lull_vmemmap_optimize_folio() - take most struct pages from a HugeTLB page
 * @h: its size
 * @folio: the page; it stays as it is if that is not possible
 */
void lull_vmemmap_optimize_folio(const struct hstate *h, struct folio *folio)
{
	struct lull_remap *batch;

	if (!should_optimize(h, folio))
		return;
	batch = lull_remap_begin(&optimize, h);
	lull_remap_add(batch, folio);
	lull_remap_end(batch);
}

/**
 * lull_vmemmap_optimize_folios() - take most struct pages from HugeTLB pages
 * @h: their size
 * @folios: the list of them; those stay as they are for which it is not possible
 */
void lull_vmemmap_optimize_folios(const struct hstate *h,
				  struct list_head *folios)
{
	struct lull_remap *batch = NULL;
	struct folio *folio;

	list_for_each_entry(folio, folios, lru) {
		if (!should_optimize(h, folio))
			continue;
		if (!batch)
			batch = lull_remap_begin(&optimize, h);
		if (lull_remap_add(batch, folio) == -EBUSY)
			break;
	}
	if (batch)
		lull_remap_end(batch);
}

/*
 * HugeTLB keeps a page that could not be restored, and nobody tries it again. So
 * what CPUs did not come for is tried until they have rested, some times over.
 */
static bool try_later(int err, int *tries)
{
	if (err != -EBUSY || (*tries)++ == LULL_RESTORE_TRIES)
		return false;
	schedule_timeout_uninterruptible(REST);
	return true;
}

/**
 * lull_vmemmap_restore_folio() - give a HugeTLB page all its struct pages
 * @h: its size
 * @folio: the page
 *
 * Return: 0; or -ENOMEM, -EBUSY and it is as it was.
 */
int lull_vmemmap_restore_folio(const struct hstate *h, struct folio *folio)
{
	struct lull_remap *batch;
	int err, tries = 0;

	if (!folio_test_hugetlb_vmemmap_optimized(folio))
		return 0;
	do {
		batch = lull_remap_begin(&restore, h);
		err = lull_remap_add(batch, folio);
		if (!lull_remap_end(batch))
			err = err ?: -EBUSY;
	} while (try_later(err, &tries));
	return err;
}

/**
 * lull_vmemmap_restore_folios() - give HugeTLB pages all their struct pages
 * @h: their size
 * @folios: the list of them
 * @restored: where those go that have all
 *
 * Return: how many have been given some; or -ENOMEM, -EBUSY when that was not
 * possible for those that are left on @folios.
 */
long lull_vmemmap_restore_folios(const struct hstate *h,
				 struct list_head *folios,
				 struct list_head *restored)
{
	struct lull_remap *batch = NULL;
	struct folio *folio, *next;
	unsigned long done = 0;
	int err, tries = 0;

	do {
		err = 0;
		list_for_each_entry_safe(folio, next, folios, lru) {
			if (!folio_test_hugetlb_vmemmap_optimized(folio)) {
				list_move(&folio->lru, restored);
				continue;
			}
			if (!batch) {
				batch = lull_remap_begin(&restore, h);
				batch->out = restored;
			}
			err = lull_remap_add(batch, folio);
			if (err)
				break;
		}
		if (batch)
			done += lull_remap_end(batch);
		batch = NULL;
		if (!err && !list_empty(folios))
			err = -EBUSY;
	} while (try_later(err, &tries));
	return err ?: done;
}

static int __init vmemmap_boot(char *name)
{
	return lull_switch_boot(&lull_vmemmap_switch, name);
}
early_param("lull_vmemmap", vmemmap_boot);

static int __init vmemmap_init(void)
{
	return lull_switch_register(&lull_vmemmap_switch);
}
subsys_initcall(vmemmap_init);
