/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * walks - walk caches that are indexed by the physical address of a descriptor.
 *
 * A CPU without FEAT_nTLBPA (ID_AA64MMFR1_EL1.nTLBPA = 0) may keep copies of
 * valid descriptors that it walked, each by the physical address of the place
 * that held it, "since the last completed relevant TLBI applicable to the PE".
 * No ASID protects from a copy: a later walk through the same place, for any
 * address space, may use it.
 *
 * So an obligation (owe.h) also has `walkers`: the CPUs that may have walked
 * the old descriptor, less those on which a relevant TLBI is complete. They
 * outlive what ends the obligation otherwise. When a page of descriptors is
 * given back, or its address space is, its walkers move to a record of the
 * page. A CPU that is still in it must not have tables loaded that the page is
 * part of again.
 *
 * Which TLBIs are relevant? Before the page is given back, those that cover the
 * entry (reach.h), for its ASID or any other that its root was loaded with:
 * what has no ASID in its index cannot depend on which of them is named.
 * Afterwards those of the whole ASID, of all ASIDs, and by address those that
 * are for tables too and name all that the page translated.
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
	struct list armed;	/* tables in a page that a CPU may hold copies of */
	bool fresh;		/* there is one that was not looked at */
};

void walks_init(struct shadow *s);
void walks_free(struct shadow *s);

/* What ends an obligation leaves its walkers, when the place is another one, slot. */
void walks_withdraw(struct shadow *s, struct owe *w, uint64_t slot);

/* A page of memory is given back; a table that is still reached; an address space. */
void walks_page_freed(struct shadow *s, uint64_t page);
void walks_table_freed(struct shadow *s, unsigned int cpu, const struct table *t, uint64_t pc);
void walks_context_dies(struct shadow *s, struct context *c);

/* A TLBI, issued at that time, is complete. */
void walks_flushed(struct shadow *s, const struct reach *r, cpumask cpus, uint64_t when);

/* Tables were linked, or loaded: does a CPU walk what it may hold an old copy of? */
void walks_check(struct shadow *s, unsigned int cpu, uint64_t pc);

/* The CPU has loaded a context: does it hold copies that it made under another ASID? */
void walks_loaded(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

/* An obligation is due: which CPUs have its tables loaded under another ASID? */
void walks_due(struct shadow *s, unsigned int cpu, struct owe *w, uint64_t pc);

#endif
