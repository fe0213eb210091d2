/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter - the pages that a CPU has accessed already, so that nearly all accesses end here,
 * without the lock.
 *
 * A page is known until a TLBI names it or the CPU changes its translation. Of a page that
 * the kernel has stored to, the filter knows where it is, too. Only its CPU's thread reads a
 * filter and adds to it; with the lock held, others make it forget.
 */
#ifndef LULL_FILTER_H
#define LULL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "scope.h"

#define FILTER_SLOTS	2048

/* What user code does with a page. */
enum use { USE_DATA, USE_FETCH, USE_STORE, USES };

struct filter {
	uint64_t user[USES][FILTER_SLOTS];	/* page | generation */
	uint64_t kernel[FILTER_SLOTS];		/* page | generation */
	uint64_t kernel_pa[FILTER_SLOTS];	/* ... and where it is */
	uint64_t user_gen, kernel_gen;
	uint64_t accesses, dsbs;		/* counted by the caller */
} __attribute__((aligned(128)));

void filter_init(struct filter *f);

/* Return true if this use of the page at @va was judged before, and nothing has changed since. */
bool filter_has(const struct filter *f, enum use use, uint64_t va);
void filter_add(struct filter *f, enum use use, uint64_t va);

/*
 * Return true if it is known where the page of a kernel address is: at @page. Otherwise find
 * out, and add it with @tag, which does nothing if the filter has forgotten meanwhile.
 */
bool filter_kernel(const struct filter *f, uint64_t va, uint64_t *tag, uint64_t *page);
void filter_add_kernel(struct filter *f, uint64_t tag, uint64_t page);

/* The CPU, which has @asid (-1: no lower half), may translate the addresses of @r in another way. With the lock held. */
void filter_forget(struct filter *f, int asid, const struct scope *r);

#endif
