/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lost - what TLBIs took from TLBs though nothing about it had changed.
 *
 * A TLBI that names more than what has changed, a whole ASID for three pages,
 * takes entries that are still true: whoever used them walks again. Counted
 * are leaves (used.h), once for each CPU that has used them itself; of a TLB
 * that evicts nothing, so that it is the most that can be lost. What has other
 * permissions, more or less, or no AF any more, has changed.
 *
 * A window says how many of them were lost in it; and of those that the CPUs
 * held of the opener's address space when it opened, how many are there still.
 */
#ifndef LULL_LOST_H
#define LULL_LOST_H

#include "space.h"
#include "used.h"
#include "window.h"

struct lost {
	struct window window;
	uint64_t entries;		/* lost, since the start */
	uint64_t others;		/* by other CPUs than the one that issued the TLBI */
	uint64_t held;			/* of the window that is open ... */
	uint64_t entries_before, others_before;
};

/* Of CPUs that have used an entry, a TLBI of one CPU takes it; called before it does. */
void lost_take(struct lost *l, const struct spaces *s, const struct used *e,
	       cpumask cpus, unsigned int issuer);

/* Markers, of a CPU that has this context; NULL: none. */
void lost_open(struct lost *l, const struct spaces *s, const struct context *c,
	       uint64_t id, FILE *out);
void lost_close(struct lost *l, const struct spaces *s, const struct context *c,
		uint64_t id, FILE *out);

#endif
