/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linux - what is known about Linux: how to see pages being freed in a kernel
 * that has no markers, and how to walk its stacks.
 *
 * Which pages are not to be written any more: see linux_written.c.
 *
 * Freed pages: the entries of the few functions that all of them pass
 * (mm/page_alloc.c, mm/hugetlb.c, arch/arm64/mm/pgd.c of 6.6 to 6.12), and
 * their arguments. A page is named by its struct page, whose place in the
 * vmemmap follows from memstart_addr and from the VA_BITS the kernel was built
 * with (asm/memory.h); those are found out at the first page.
 */
#ifndef LULL_LINUX_H
#define LULL_LINUX_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "shadow.h"

enum linux_hook {
	HOOK_FREE_UNREF_PAGE,	/* (struct page *, unsigned int order) */
	HOOK_FREE_UNREF_FOLIOS,	/* (struct folio_batch *) */
	HOOK_FREE_PAGES_OK,	/* (struct page *, unsigned int order, ...) */
	HOOK_FREE_HUGE_FOLIO,	/* (struct folio *) */
	HOOK_PGD_FREE,		/* (struct mm_struct *, pgd_t *) */
	HOOK_MEMSTART,		/* a variable, not a function */
	/* Linux relies on it that a page is not written: linux_written.c */
	HOOK_START_WRITEBACK,	/* __folio_start_writeback(struct folio *, bool) */
	HOOK_SWAP_WRITEPAGE,	/* (struct page *, or struct folio *, ...) */
	HOOK_FOLIO_COPY,	/* (struct folio *to, struct folio *from) */
	HOOK_FOLIO_MC_COPY,	/* the same */
	HOOK_COPY_HIGHPAGE,	/* (struct page *to, struct page *from) */
	HOOK_FLUSH_RMAP_BATCH,	/* tlb_flush_rmap_batch(struct mmu_gather_batch *, ...) */
	HOOK_FOLIO_UNLOCK,	/* (struct folio *) */
	LINUX_HOOKS
};

struct linux_guest {
	struct shadow *shadow;
	uint64_t address[LINUX_HOOKS];	/* 0: this kernel has none */
	bool found;			/* the following two are known */
	uint64_t vmemmap;		/* of the struct page of frame 0 */
	uint64_t refused;		/* pages that could not be told */
};

/* Takes the addresses from the options; names it does not know are refused. */
bool linux_init(struct linux_guest *l, struct shadow *s, const struct options *o,
		char *error, size_t size);

/* The hook at an address of code, or -1. */
int linux_hook_at(const struct linux_guest *l, uint64_t va);

/* A CPU enters the function. x: its first three arguments. */
void linux_enter(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		 const uint64_t x[3], uint64_t pc);

/* The number of the page frame of a struct page; false: it is none, or none that we know. */
bool linux_pfn(struct linux_guest *l, unsigned int cpu, uint64_t page, uint64_t *pfn);

/* A CPU enters a function of which HOOK_START_WRITEBACK is the first. */
void linux_written(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		   const uint64_t x[3], uint64_t pc);

/* A kernel virtual address as the CPU translates it; false: not mapped, or not RAM. */
bool linux_translate(const struct linux_guest *l, unsigned int cpu, uint64_t va,
		     uint64_t *pa);
bool linux_read(const struct linux_guest *l, unsigned int cpu, uint64_t va, uint64_t *value);

/* The stack from a frame pointer on, pc first; also its pointers that are signed. */
void linux_stack(const struct linux_guest *l, unsigned int cpu, uint64_t pc, uint64_t fp,
		 struct stack *out);

#endif
