/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A batch of HugeTLB pages, whose vmemmap is mapped in another way together.
 */
#ifndef __ARM64_MM_LULL_VMEMMAP_H
#define __ARM64_MM_LULL_VMEMMAP_H

#include <linux/pgtable.h>
#include <linux/types.h>

#include "lull.h"

struct folio;
struct hstate;
struct list_head;
struct lull_remap;
struct page;

#define LULL_REMAP_TABLES	64	/* 8 GiB of memory with 4 KiB pages */
#define LULL_REMAP_JOBS		1024	/* HugeTLB pages */
#define LULL_RESTORE_TRIES	10	/* more than the first, if CPUs do not come */

/**
 * struct lull_table - a table of the vmemmap that another one replaces
 * @addr: the first address that it maps
 * @pmdp: where the kernel's tables point to it
 * @old: what is there: a table, or a block
 * @ptes: the new table, complete, and nowhere to be seen yet
 * @first: the entries that differ are [@first, @end)
 * @end: none, if @first is not below it
 * @writes: what is written to replace it: itself, and heads that are copied
 * @joined: the next one belongs to the same HugeTLB page
 * @jobs: the last job whose head is mapped here; -1 if none
 */
struct lull_table {
	unsigned long addr;
	pmd_t *pmdp;
	pmd_t old;
	pte_t *ptes;
	unsigned int first;
	unsigned int end;
	unsigned int writes;
	bool joined;
	int jobs;
};

/**
 * struct lull_job - a HugeTLB page of a batch
 * @folio: the page
 * @table: its first table in the batch
 * @next: the job before it in the same table; -1 if none
 * @from: what its first struct pages are copied from once more; or NULL
 * @to: where to. Both are addresses of the linear map
 */
struct lull_job {
	struct folio *folio;
	int table;
	int next;
	const void *from;
	void *to;
};

/**
 * struct lull_work - what is done to the HugeTLB pages of a batch
 * @grace: what was read of a struct page before must not be acted upon after it
 * @prepare: enter what is to be mapped for a job. Returns 0; or -ENOMEM, -ENOSPC
 *	(the batch is full) or -EOPNOTSUPP, when nothing of it has been entered
 * @finish: it is mapped so (done), or as it was
 */
struct lull_work {
	bool grace;
	int (*prepare)(struct lull_remap *batch, struct lull_job *job);
	void (*finish)(struct lull_remap *batch, struct folio *folio, bool done);
};

/**
 * struct lull_remap - what one pause, or a few, will change
 * @work: to which end
 * @h: the size of the HugeTLB pages
 * @dst: the size they are split to
 * @out: where those go that are done
 * @done: how many are
 * @keys: by how many there are more optimized pages then
 * @budget: for how long CPUs may still wait for each other, in ns
 * @failed: a pause did not come about
 * @nr_tables: tables entered
 * @nr_jobs: HugeTLB pages entered
 * @tables: the tables; those of one HugeTLB page stand together
 * @jobs: the HugeTLB pages
 */
struct lull_remap {
	const struct lull_work *work;
	const struct hstate *h;
	struct hstate *dst;
	struct list_head *out;
	unsigned long done;
	long keys;
	u64 budget;
	bool failed;
	int nr_tables;
	int nr_jobs;
	struct lull_table tables[LULL_REMAP_TABLES];
	struct lull_job jobs[LULL_REMAP_JOBS];
};

#if IS_ENABLED(CONFIG_KUNIT)
extern unsigned int lull_vmemmap_entries, lull_vmemmap_wait_us;
extern unsigned long lull_vmemmap_rest;
extern struct lull_switch lull_vmemmap_switch;

unsigned int lull_vmemmap_alloc(int nid, unsigned int nr, struct page **pages);
#endif

struct lull_remap *lull_remap_begin(const struct lull_work *work,
				    const struct hstate *h);
int lull_remap_add(struct lull_remap *batch, struct folio *folio);
unsigned long lull_remap_end(struct lull_remap *batch);

bool lull_vmemmap_on(void);

/* For lull_work.prepare(). */
int lull_remap_cover(struct lull_remap *batch, struct lull_job *job,
		     unsigned long start, unsigned long end);
void lull_remap_map(struct lull_remap *batch, unsigned long start,
		    unsigned long end, struct page *page, pgprot_t prot);
void lull_remap_undo(struct lull_remap *batch, unsigned long start,
		     unsigned long end);
int lull_remap_fill(struct lull_remap *batch, const struct page *tail,
		    unsigned long start, unsigned long end,
		    unsigned long stride);

#endif /* __ARM64_MM_LULL_VMEMMAP_H */
