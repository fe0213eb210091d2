/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * used - the entries that accesses have used: a TLB that evicts nothing.
 *
 * One record for all CPUs, with a bit for each that has used it (or, with
 * speculation, that could have). It knows nothing of page-table stores, only
 * of accesses and TLBIs, and so notices what space.h and owe.h cannot: a
 * change of a translation that no store announced. The caller serialises.
 */
#ifndef LULL_USED_H
#define LULL_USED_H

#include <stdbool.h>
#include <stdint.h>

#include "reach.h"
#include "space.h"

struct used {
	struct hash_node by_va;
	struct list in_context;
	struct context *context;
	uint64_t va;		/* of the leaf */
	uint64_t output;
	int8_t level;
	bool table;		/* a table on the way, and output is the next one */
	uint64_t desc;		/* as it was used last */
	cpumask cpus;		/* who may hold it */
	cpumask own;		/* who of them has used it itself */
	cpumask kept;		/* for lost.c: who has held it since a window opened */
};

struct used_all {
	struct hash by_va;
	uint64_t n, most;
};

struct used *used_find(const struct used_all *u, const struct context *c, uint64_t va,
		       int level, bool table);

/* cpus may use this translation from now on. */
struct used *used_add(struct used_all *u, struct context *c, uint64_t va, int level,
		      bool table, uint64_t output, cpumask cpus);

void used_drop(struct used_all *u, struct used *e);

/* All of a context. */
void used_drop_context(struct used_all *u, struct context *c);

/* CPUs lose what a TLBI removes of a context's entries; take is told before. */
typedef void (*take_fn)(void *arg, const struct used *e);
void used_flush(struct used_all *u, struct context *c, const struct reach *r,
		const struct regime *regime, cpumask cpus, take_fn take, void *arg);

#endif
