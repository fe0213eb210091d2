// SPDX-License-Identifier: GPL-2.0-only
/*
 * filter - the pages that a CPU has accessed already. See filter.h.
 */
#include <string.h>

#include "filter.h"
#include "once.h"

#define PAGE		4096ull
#define GENERATIONS	(PAGE - 1)	/* in the low bits of a slot, beside the page */
#define MANY		16		/* pages; to forget more, forget all */

static unsigned int slot_of(uint64_t va)
{
	return va / PAGE % FILTER_SLOTS;
}

static uint64_t tag_of(uint64_t va, const uint64_t *generation)
{
	return (va & ~GENERATIONS) | read_once(generation);
}

/* Make @n slots invalid by the next generation. When generations wrap around, clear the slots. */
static void next_generation(uint64_t *generation, uint64_t *slots, unsigned int n)
{
	uint64_t next = (read_once(generation) + 1) & GENERATIONS;

	if (!next) {
		for (unsigned int i = 0; i < n; i++)
			write_once(&slots[i], 0);
		next = 1;
	}
	write_once(generation, next);
}

void filter_init(struct filter *f)
{
	memset(f, 0, sizeof(*f));
	f->user_gen = f->kernel_gen = 1;
}

bool filter_has(const struct filter *f, enum use use, uint64_t va)
{
	return read_once(&f->user[use][slot_of(va)]) == tag_of(va, &f->user_gen);
}

void filter_add(struct filter *f, enum use use, uint64_t va)
{
	write_once(&f->user[use][slot_of(va)], tag_of(va, &f->user_gen));
}

bool filter_kernel(const struct filter *f, uint64_t va, uint64_t *tag, uint64_t *page)
{
	*tag = tag_of(va, &f->kernel_gen);
	*page = f->kernel_pa[slot_of(va)];
	return read_once(&f->kernel[slot_of(va)]) == *tag;
}

void filter_add_kernel(struct filter *f, uint64_t tag, uint64_t page)
{
	f->kernel_pa[slot_of(tag)] = page;
	write_once(&f->kernel[slot_of(tag)], tag);
}

void filter_forget(struct filter *f, int asid, const struct scope *r)
{
	if (r->every_va ? r->any_asid : r->upper)
		next_generation(&f->kernel_gen, f->kernel, FILTER_SLOTS);
	if ((!r->every_va && r->upper) || (!r->any_asid && asid >= 0 && asid != r->asid))
		return;
	if (r->every_va || r->end - r->start > MANY * PAGE) {
		next_generation(&f->user_gen, f->user[0], USES * FILTER_SLOTS);
		return;
	}
	for (uint64_t va = r->start; va != r->end; va += PAGE)
		for (unsigned int use = 0; use < USES; use++)
			write_once(&f->user[use][slot_of(va)], 0);
}
