/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linux - what the checker knows about Linux: where a kernel frees pages and relies on
 * flushes, and how to walk its stacks. linux_written.c has the functions at which Linux
 * relies on a page not being written.
 *
 * All this is found by the kernel's symbols, a file in the form of System.map. The
 * functions and arguments are those of Linux 6.1 to 7.3.
 *
 * The kernel may run at other addresses than those of its symbols (KASLR; the symbols
 * that are read from an image may have any first address). By how much is known when it
 * sets VBAR_EL1 to its symbol "vectors".
 *
 * Freed pages are seen at the entries of the few functions that all freed pages pass, by
 * their arguments (mm/page_alloc.c, mm/hugetlb.c, arch/arm64/mm/pgd.c). The arguments
 * point to a struct page. Where the struct pages are, and how large, follows from the
 * first pages that the kernel frees when it boots: memblock_free_pages() gets their
 * numbers.
 */
#ifndef LULL_LINUX_H
#define LULL_LINUX_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shadow.h"
#include "symbols.h"

enum linux_hook {
	HOOK_FREE_PAGES,	/* (struct page *, unsigned int order, ...) */
	HOOK_FREE_LIST,		/* (struct list_head *) of single pages */
	HOOK_FREE_FOLIOS,	/* (struct folio_batch *) */
	HOOK_FREE_HUGE_FOLIO,	/* (struct folio *) */
	HOOK_FREE_HUGE_PAGE,	/* (struct page *): the same until Linux 6.5 */
	HOOK_PGD_FREE,		/* (struct mm_struct *, pgd_t *) */
	HOOK_BOOT_FREE,		/* ([struct page *,] unsigned long pfn, unsigned int order) */
	HOOK_BOOT_PAGE,		/* (struct page *, unsigned int order, ...) of the last HOOK_BOOT_FREE */
	/* Where the kernel relies on flushes (sync_point.h) */
	HOOK_UNMAP,		/* (struct mmu_gather *, vma, start, end, ...) */
	HOOK_PROTECT,		/* (struct mmu_gather *, vma, start, end, ...) */
	HOOK_MOVE,		/* (vma, start, vma, new start, length, ...), or a struct with these */
	HOOK_RMAPS,		/* (struct mmu_gather *, vma); linux_written.c, too */
	HOOK_UNLOCK,		/* (spinlock_t *) */
	HOOK_PURGE,		/* (&node->purge_work): before areas of vmalloc, which are flushed, are given back */
	HOOK_SCHEDULE,		/* a task sleeps; preemption goes elsewhere */
	HOOK_NOTIFIED,		/* the MMU notifiers were told of a change, and have done what they must */
	/* Linux relies on it that a page is not written: linux_written.c */
	HOOK_START_WRITEBACK,	/* __folio_start_writeback(struct folio *, bool) */
	HOOK_SWAP_WRITEPAGE,	/* (struct page * or struct folio *, ...), or this as the second */
	HOOK_FOLIO_COPY,	/* (struct folio *to, struct folio *from) */
	HOOK_COPY_HIGHPAGE,	/* (struct page *to, struct page *from) */
	HOOK_FOLIO_UNLOCK,	/* (struct folio *) */
	HOOK_MEMCMP_PAGES,	/* (struct page *, struct page *) */
	LINUX_HOOKS
};

/* The most symbols of Linux that the checker uses. */
#define LINUX_SYMBOLS	32

#define LINUX_CHANGERS 64

/* The mm whose range a task last began to unmap, protect or move. */
struct changer {
	uint64_t task, mm;
	bool moves_hugetlb;
};

struct linux_guest {
	struct shadow *shadow;
	struct shadow *stage2;		/* of its virtual machines; NULL: it can have none */
	uint64_t address[LINUX_SYMBOLS];	/* as in the file; 0: this kernel has none */
	uint64_t vectors;		/* the same */
	struct symbols symbols;
	bool old_folios;		/* PG_head and the order are where they were until Linux 6.5 */
	bool fixed;			/* the slide does not change any more */
	/* The struct page of page frame n is at vmemmap + n * struct_page: */
	uint64_t vmemmap, struct_page;	/* struct_page 0: not known yet */
	uint64_t boot_pfn, boot_page;	/* a pair from which to find out; boot_page 0: none */
	uint64_t pending_pfn;		/* its struct page is not known yet */
	bool pending;
	uint64_t refused;		/* struct pages of which no page frame was found */
	uint64_t pgd;			/* offset of pgd in struct mm_struct; 0: not known yet */
	uint64_t batch;			/* of active in struct mmu_gather; the same */
	struct changer changers[LINUX_CHANGERS];
};

/*
 * Take the addresses of functions from a file in the form of System.map. Returns false,
 * with a reason, if the file cannot be read or is none.
 */
bool linux_init(struct linux_guest *l, struct shadow *s, const char *symbols,
		char *error, size_t size);

/*
 * Write which rules are not checked because a symbol is missing: as a line {"unchecked": [...]},
 * or as a line for people, if there are any.
 */
void linux_report(const struct linux_guest *l, FILE *out);
void linux_report_text(const struct linux_guest *l, FILE *out);

/* A CPU sets VBAR_EL1. Returns true if this tells a new slide. */
bool linux_vectors(struct linux_guest *l, uint64_t vbar);

/* Returns the enum linux_hook of the function that begins at @va, or -1. */
int linux_hook_at(const struct linux_guest *l, uint64_t va);

/* A CPU enters a watched function. @x: the first five arguments; only HOOK_MOVE uses the fifth. */
void linux_enter(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		 const uint64_t x[5], uint64_t pc);

/*
 * Without the lock, by the CPU's own thread: return true if it is of no effect now that the CPU
 * enters the function. Linux drops locks, sleeps and cleans pages often.
 */
bool linux_idle(const struct linux_guest *l, unsigned int cpu, enum linux_hook hook);

/* log2 of the size of the kernel's pages, by TCR_EL1. */
unsigned int linux_page_shift(const struct linux_guest *l, unsigned int cpu);

/*
 * Find the physical address of the page of the struct page at @page, with @pages pages
 * from there in RAM. Returns false if that is not possible.
 */
bool linux_page(struct linux_guest *l, unsigned int cpu, uint64_t page, uint64_t pages,
		uint64_t *pa);

/* 2^@order pages of 4 KiB are freed: shadow_free() for both stages. */
void linux_free(struct linux_guest *l, unsigned int cpu, uint64_t pfn, unsigned int order, uint64_t pc);

/* Return true if these are the flags of a folio of several pages: of its first struct page. */
bool linux_is_head(const struct linux_guest *l, uint64_t flags);

/* Read the order of the folio at @folio. Returns false for no folio. */
bool linux_order(const struct linux_guest *l, unsigned int cpu, uint64_t folio,
		 unsigned int *order);

/*
 * Find the batch of pages that the mmu_gather at @gather fills. Where it is in the struct
 * is learnt from the first one that is new. Returns false until then.
 */
bool linux_batch(struct linux_guest *l, unsigned int cpu, uint64_t gather, uint64_t *batch);

/* A CPU enters tlb_flush_rmaps(), or one of the functions from HOOK_START_WRITEBACK on. */
void linux_written(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		   const uint64_t x[3], uint64_t pc);

/*
 * Translate a kernel virtual address as the CPU does, or read the 8 bytes at it. Returns
 * false if it is not mapped, or not RAM.
 */
bool linux_translate(const struct linux_guest *l, unsigned int cpu, uint64_t va,
		     uint64_t *pa);
bool linux_read(const struct linux_guest *l, unsigned int cpu, uint64_t va, uint64_t *value);

/*
 * Fill @out with the stack: @pc, then the return addresses in the link register @lr, if it
 * has one, and from frame pointer @fp on, without signatures.
 */
void linux_stack(const struct linux_guest *l, unsigned int cpu, uint64_t pc, uint64_t fp,
		 uint64_t lr, struct stack *out);

#endif
