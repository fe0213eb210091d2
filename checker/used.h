/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * used - the entries that accesses have used: a TLB that evicts nothing.
 *
 * There is one record of an entry for all CPUs, with a bit for each CPU that has used
 * the entry (or, with speculation, that could have). The records follow accesses and
 * TLBIs only, not stores to page tables. So they show what space.h and pending.h cannot: a
 * translation that changed without a store that the plugin saw. The caller serialises
 * all calls.
 *
 * The record of an entry that no CPU holds any more is kept, as absent, while a CPU that
 * lost the entry to a TLBI may use it again (over_invalidated.h).
 */
#ifndef LULL_USED_H
#define LULL_USED_H

#include <stdbool.h>
#include <stdint.h>

#include "scope.h"
#include "space.h"

struct used {
	struct hash_node by_va;
	struct list in_context;
	struct context *context;
	uint64_t va;		/* the first address that the entry translates */
	uint64_t output;
	int8_t level;
	bool table;		/* a table descriptor; output is the next table */
	bool absent;		/* no CPU holds it; in context->absent */
	uint64_t desc;		/* the descriptor at the last use */
	cpumask cpus;		/* CPUs that may hold the entry */
	cpumask own;		/* those of them that have used it themselves */
	/* For over_invalidated.c: */
	cpumask kept;		/* CPUs that have held it since the window opened */
	cpumask lost;		/* CPUs that had used it, lost it to a TLBI, and have not used it since */
	cpumask same;		/* those of @own and @lost whose copy is, or was, what @desc says */
};

struct used_all {
	struct hash by_va;
	uint64_t n, most;
	uint64_t n_absent, most_absent;	/* absent records now; how many are kept */
};

struct used *used_find(const struct used_all *u, const struct context *c, uint64_t va,
		       int level, bool table);

/* @cpus may hold this translation from now on. Returns its record. */
struct used *used_add(struct used_all *u, struct context *c, uint64_t va, int level,
		      bool table, uint64_t output, cpumask cpus);

void used_drop(struct used_all *u, struct used *e);

/* Drop all records of a context. */
void used_drop_context(struct used_all *u, struct context *c);

/* Remove the entries of a context that a TLBI removes from @cpus; @take is called before each. */
typedef void (*take_fn)(void *arg, struct used *e);
void used_flush(struct used_all *u, struct context *c, const struct scope *r,
		const struct regime *regime, cpumask cpus, take_fn take, void *arg);

#endif
