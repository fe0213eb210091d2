/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lost - counts the entries that TLBIs remove although nothing about them has changed.
 *
 * A TLBI that names more than what has changed, for example a whole ASID for three
 * pages, removes entries that still agree with the tables. The CPUs that used them
 * must walk again. Only leaf entries (used.h) count, once for each CPU that has used
 * the entry itself. The modelled TLB evicts nothing, so the count is the most that can
 * be lost. An entry with other permissions, more or fewer, or without AF has changed
 * and does not count.
 *
 * For a window there are two pairs of numbers: the entries lost in it; and the
 * entries of the opener's address space that CPUs held when it opened, with the number
 * of these that are left when it closes.
 */
#ifndef LULL_LOST_H
#define LULL_LOST_H

#include "space.h"
#include "used.h"
#include "window.h"

struct lost {
	struct window window;
	uint64_t entries;		/* lost, since the start */
	uint64_t others;		/* of these, lost by other CPUs than the one that issued the TLBI */
	/* The open window: entries held when it opened, and the two counts above at that time. */
	uint64_t held;
	uint64_t entries_before, others_before;
};

/* A TLBI of @issuer is about to remove @e from the TLBs of @cpus; called before @e changes. */
void lost_take(struct lost *l, const struct spaces *s, const struct used *e,
	       cpumask cpus, unsigned int issuer);

/* A CPU that has context @c loaded (NULL: none) executes a marker that opens or closes a window. */
void lost_open(struct lost *l, const struct spaces *s, const struct context *c,
	       uint64_t id, FILE *out);
void lost_close(struct lost *l, const struct spaces *s, const struct context *c,
		uint64_t id, FILE *out);

#endif
