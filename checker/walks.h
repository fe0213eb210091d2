/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * walks - the rule `walk`: walk caches that are indexed by the physical address of
 * a descriptor.
 *
 * A CPU without FEAT_nTLBPA (ID_AA64MMFR1_EL1.nTLBPA = 0) may keep copies of valid
 * descriptors that it walked, each indexed by the physical address of the
 * descriptor, "since the last completed relevant TLBI applicable to the PE". The
 * index contains no ASID: a later walk that reads the same physical address, for
 * any address space, may use the copy.
 *
 * A pending invalidation (pending.h) therefore has `walkers`: the CPUs that may have walked the
 * old descriptor, and on which no relevant TLBI is complete. They remain recorded
 * when the TLB entry is gone and the pending invalidation would otherwise end. When the page
 * that contains the descriptor is freed, or the address space is freed, the walkers
 * move to a record of that page, except those that have not had the address space
 * loaded since a completed TLBI of its whole ASID was issued: they hold no copies.
 * From then on no CPU in the record may have a tree of tables loaded that contains the
 * page.
 *
 * The manual does not define which TLBIs are relevant. The checker assumes:
 *  - Before the page is freed: TLBIs that cover the entry (scope.h), for its ASID or
 *    for any other ASID that its root table was loaded with. Because the index of a
 *    copy contains no ASID, it cannot matter which of these ASIDs the TLBI names.
 *  - After the page is freed: TLBIs of the whole ASID, and of all ASIDs. A TLBI by
 *    address is relevant only if it also removes table entries, and its range
 *    contains all addresses that the page translated.
 */
#ifndef LULL_WALKS_H
#define LULL_WALKS_H

#include "hash.h"
#include "list.h"
#include "pending.h"
#include "scope.h"
#include "space.h"

struct shadow;

struct walks {
	struct hash by_page, by_asid;
	struct list all;
	struct list armed;	/* tables in pages of which a CPU may hold copies */
	bool fresh;		/* a table in @armed was not checked yet */
};

void walks_init(struct shadow *s);
void walks_free(struct shadow *s);

/*
 * The descriptor at @slot makes the entry of a pending invalidation valid again. The pending invalidation
 * ends. If the old descriptor was not at @slot, its walkers remain.
 */
void walks_withdraw(struct shadow *s, struct pending *inv, uint64_t slot);

/*
 * A page of memory is freed; a table is freed to which other tables or contexts still
 * point; an address space is freed.
 */
void walks_page_freed(struct shadow *s, uint64_t page);
void walks_table_freed(struct shadow *s, unsigned int cpu, const struct table *t, uint64_t pc);
void walks_context_dies(struct shadow *s, struct context *c);

/* A TLBI that was issued at @when is complete on @cpus. */
void walks_flushed(struct shadow *s, const struct scope *r, cpumask cpus, uint64_t when);

/* Tables were linked or loaded: report CPUs that can walk a page and may hold its old descriptors. */
void walks_check(struct shadow *s, unsigned int cpu, uint64_t pc);

/* @cpu has loaded context @c: report old copies of its tables that were made under another ASID. */
void walks_loaded(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

/* Pending invalidation @inv is due: report CPUs that have its tables loaded under another ASID. */
void walks_due(struct shadow *s, unsigned int cpu, struct pending *inv, uint64_t pc);

#endif
