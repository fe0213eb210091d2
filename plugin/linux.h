/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linux - what the checker knows about Linux: where a kernel without markers frees
 * pages and relies on flushes, and how to walk its stacks. linux_written.c has the
 * functions at which Linux relies on a page not being written.
 *
 * Freed pages are seen at the entries of the few functions that all freed pages pass
 * (mm/page_alloc.c, mm/hugetlb.c, arch/arm64/mm/pgd.c of 6.6 to 6.12), by their
 * arguments. The arguments point to a struct page. Its page frame follows from its
 * place in the vmemmap, which depends on memstart_addr and on the VA_BITS that the
 * kernel was built with (asm/memory.h). Both are found when the first page is freed.
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
	/* Where the kernel relies on flushes (rely.h) */
	HOOK_UNMAP,		/* (struct mmu_gather *, vma, start, end, ...) */
	HOOK_PROTECT,		/* (struct mmu_gather *, vma, start, end, ...) */
	HOOK_MOVE,		/* (vma, start, struct vm_area_struct *, new start, length, ...) */
	HOOK_RMAPS,		/* (struct mmu_gather *, vma) */
	HOOK_UNLOCK,		/* (raw_spinlock_t *) */
	HOOK_SCHEDULE,		/* a task sleeps; preemption goes elsewhere */
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

#define LINUX_CHANGERS 64

/* The mm whose range a task last began to unmap, protect or move. */
struct changer {
	uint64_t task, mm;
	bool moves_hugetlb;
};

struct linux_guest {
	struct shadow *shadow;
	uint64_t address[LINUX_HOOKS];	/* 0: this kernel has none */
	bool found;			/* the following two are known */
	uint64_t vmemmap;		/* address of the struct page of frame 0 */
	uint64_t refused;		/* struct pages of which no page frame was found */
	uint64_t pgd;			/* offset of pgd in struct mm_struct; 0: not known yet */
	struct changer changers[LINUX_CHANGERS];
};

/* Take the addresses of functions from the options. Returns false with a reason for an unknown name. */
bool linux_init(struct linux_guest *l, struct shadow *s, const struct options *o,
		char *error, size_t size);

/* Returns the enum linux_hook of the function that begins at @va, or -1. */
int linux_hook_at(const struct linux_guest *l, uint64_t va);

/* A CPU enters a watched function. @x: the first five arguments; only HOOK_MOVE uses the fifth. */
void linux_enter(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		 const uint64_t x[5], uint64_t pc);

/* Find the page frame number of the struct page at @page. Returns false if that is not possible. */
bool linux_pfn(struct linux_guest *l, unsigned int cpu, uint64_t page, uint64_t *pfn);

/* A CPU enters one of the functions from HOOK_START_WRITEBACK on. */
void linux_written(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		   const uint64_t x[3], uint64_t pc);

/*
 * Translate a kernel virtual address as the CPU does, or read the 8 bytes at it. Returns
 * false if it is not mapped, or not RAM.
 */
bool linux_translate(const struct linux_guest *l, unsigned int cpu, uint64_t va,
		     uint64_t *pa);
bool linux_read(const struct linux_guest *l, unsigned int cpu, uint64_t va, uint64_t *value);

/* Fill @out with the stack: @pc, then the return addresses from frame pointer @fp on, without signatures. */
void linux_stack(const struct linux_guest *l, unsigned int cpu, uint64_t pc, uint64_t fp,
		 struct stack *out);

#endif
