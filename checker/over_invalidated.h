/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * over_invalidated - counts the entries that TLBIs remove although nothing about them has changed,
 * and the entries that CPUs use again after a TLBI has removed them.
 *
 * A TLBI that names more than what has changed, for example a whole ASID for three
 * pages, removes entries that still agree with the tables. The CPUs that used them
 * must walk again. Only leaf entries (used.h) count, once for each CPU that has used
 * the entry itself. The modelled TLB evicts nothing, so the count is the most that can
 * be lost. An entry with other permissions, more or fewer, or without AF has changed
 * and does not count.
 *
 * A refill is the first use of an entry by a CPU that had used the entry before and lost
 * it to a TLBI: the CPU has walked the tables again. The entry is known by its context
 * (ASID and root), its address and its level. So nothing is a refill under another ASID,
 * in another process, or where a block has become pages.
 *
 * A refill is unchanged if two things hold. The TLBI removed an entry that was still true.
 * And the tables have the same entry at this use, and had it at each use by another CPU
 * since the TLBI. A TLBI that named less would have made such a refill unnecessary.
 *
 * A window has these counts:
 *   - entries over-invalidated in the window;
 *   - refills in the window, also of entries removed before it;
 *   - entries of the opener's address space that CPUs held when the window opened;
 *   - how many of these are left when it closes.
 */
#ifndef LULL_OVER_INVALIDATED_H
#define LULL_OVER_INVALIDATED_H

#include "space.h"
#include "used.h"
#include "window.h"

struct over_counts {
	uint64_t entries;		/* over-invalidated */
	uint64_t others;		/* of these, of other CPUs than the one that issued the TLBI */
	uint64_t refills;
	uint64_t unchanged;		/* of these, refills of entries that had not changed */
};

struct over {
	struct window window;
	struct over_counts all;		/* since the start */
	/* The open window: entries held when it opened, and the counts above at that time. */
	uint64_t held;
	struct over_counts before;
};

/* A TLBI of @issuer is about to remove @e from the TLBs of @cpus; called before @e->cpus changes. */
void over_take(struct over *l, const struct spaces *s, struct used *e,
	       cpumask cpus, unsigned int issuer);

/* A CPU uses the leaf @e, whose descriptor is @desc by now; called before the use is noted in @e. */
void over_used(struct over *l, const struct regime *r, struct used *e,
	       unsigned int cpu, uint64_t desc);

/* A CPU that has context @c loaded (NULL: none) executes a marker that opens or closes a window. */
void over_open(struct over *l, const struct spaces *s, const struct context *c,
	       uint64_t id, FILE *out);
void over_close(struct over *l, const struct spaces *s, const struct context *c,
		uint64_t id, FILE *out);

#endif
