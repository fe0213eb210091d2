/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * walks - the rule `walk`: walk caches that are indexed by the physical address of
 * a descriptor.
 *
 * A CPU without FEAT_nTLBPA (ID_AA64MMFR1_EL1.nTLBPA = 0) may keep copies of valid
 * descriptors that it walked, each indexed by the physical address of the
 * descriptor, "since the last completed relevant TLBI applicable to the PE". No ASID
 * protects from a copy: a later walk through the same physical address, for any
 * address space, may use it.
 *
 * So an obligation (owe.h) also has `walkers`: the CPUs that may have walked the old
 * descriptor, less those on which a relevant TLBI is complete. They remain when the
 * obligation ends otherwise. When the page of the descriptor is freed, or its address
 * space is, its walkers move to a record of the page. A CPU in this record must not
 * have tables loaded that the page is part of again.
 *
 * The manual does not define which TLBIs are relevant. The checker takes:
 *  - before the page is freed, those that cover the entry (reach.h), for its ASID or
 *    any other ASID that its root was loaded with: a copy without an ASID in its
 *    index cannot depend on which of these ASIDs is named;
 *  - after the page is freed, those of the whole ASID and of all ASIDs; by address,
 *    those that remove table entries too and name all that the page translated.
 */
#ifndef LULL_WALKS_H
#define LULL_WALKS_H

#include "hash.h"
#include "list.h"
#include "owe.h"
#include "reach.h"
#include "space.h"

struct shadow;

struct walks {
	struct hash by_page, by_asid;
	struct list all;
	struct list armed;	/* tables in pages of which a CPU may hold copies */
	bool fresh;		/* one of these was not checked yet */
};

void walks_init(struct shadow *s);
void walks_free(struct shadow *s);

/*
 * The entry of an obligation is valid again, by the descriptor at @slot. The obligation
 * ends; but where the old descriptor was at another place its walkers remain.
 */
void walks_withdraw(struct shadow *s, struct obligation *obl, uint64_t slot);

/* A page of memory is freed; a table that is still linked is freed; an address space is. */
void walks_page_freed(struct shadow *s, uint64_t page);
void walks_table_freed(struct shadow *s, unsigned int cpu, const struct table *t, uint64_t pc);
void walks_context_dies(struct shadow *s, struct context *c);

/* A TLBI that was issued at @when is complete on @cpus. */
void walks_flushed(struct shadow *s, const struct reach *r, cpumask cpus, uint64_t when);

/* Tables were linked or loaded: report CPUs that can walk a page of which they may hold old copies. */
void walks_check(struct shadow *s, unsigned int cpu, uint64_t pc);

/* The CPU has loaded a context: report old copies of its tables made under another ASID. */
void walks_loaded(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

/* An obligation is due: report CPUs that have its tables loaded under another ASID. */
void walks_due(struct shadow *s, unsigned int cpu, struct obligation *obl, uint64_t pc);

#endif
