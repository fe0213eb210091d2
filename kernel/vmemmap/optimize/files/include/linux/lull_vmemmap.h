/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HugeTLB pages give back the memory of their struct pages, where an entry of
 * the kernel's page tables must not go from one valid state to another.
 *
 * mm/hugetlb_vmemmap.c decides which pages, and asks for it here; the functions
 * stand in for those of the same names there.
 */
#ifndef _LINUX_LULL_VMEMMAP_H
#define _LINUX_LULL_VMEMMAP_H

#include <linux/mutex.h>
#include <linux/types.h>

struct folio;
struct hstate;
struct list_head;
struct page;

#ifdef CONFIG_LULL_VMEMMAP

/* Who writes to tables of the vmemmap, other than at boot, has it. */
extern struct mutex lull_vmemmap_lock;
#define lull_vmemmap_guard()	guard(mutex)(&lull_vmemmap_lock)

/* Does this do it, or Linux's own code? */
static inline bool lull_vmemmap(void)
{
	return true;
}

int lull_vmemmap_restore_folio(const struct hstate *h, struct folio *folio);
long lull_vmemmap_restore_folios(const struct hstate *h,
				 struct list_head *folios,
				 struct list_head *restored);
void lull_vmemmap_optimize_folio(const struct hstate *h, struct folio *folio);
void lull_vmemmap_optimize_folios(const struct hstate *h,
				  struct list_head *folios);

/* mm/hugetlb_vmemmap.c */
bool vmemmap_should_optimize_folio(const struct hstate *h, struct folio *folio);
void free_vmemmap_page(struct page *page);

#else /* CONFIG_LULL_VMEMMAP */

#define lull_vmemmap_guard()	do {} while (0)

static inline bool lull_vmemmap(void)
{
	return false;
}

static inline int lull_vmemmap_restore_folio(const struct hstate *h,
					     struct folio *folio)
{
	return 0;
}

static inline long lull_vmemmap_restore_folios(const struct hstate *h,
					       struct list_head *folios,
					       struct list_head *restored)
{
	return 0;
}

static inline void lull_vmemmap_optimize_folio(const struct hstate *h,
					       struct folio *folio)
{
}

static inline void lull_vmemmap_optimize_folios(const struct hstate *h,
						struct list_head *folios)
{
}

#endif /* CONFIG_LULL_VMEMMAP */

#endif /* _LINUX_LULL_VMEMMAP_H */
