/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * global - the rule asid/global: global leaves of the lower half, which a CPU uses
 * under every ASID.
 *
 * The identity map has such leaves. A CPU that has loaded it may keep them when it
 * loads another context, and use them there: no ASID protects from them. They are
 * removed by TLBIs of their addresses, for any ASID, and by TLBIs of everything, but
 * not by a TLBI of an ASID (ASIDE1).
 */
#ifndef LULL_GLOBAL_H
#define LULL_GLOBAL_H

#include "scope.h"
#include "space.h"

struct shadow;

struct global_leaf {
	uint64_t va, size, desc;
	uint64_t root;			/* the root of its tables */
	uint64_t when;			/* when the CPU left these tables */
	int8_t level;
};

struct globals {
	struct {
		struct global_leaf *leaf;
		unsigned int n, room;
	} of[MAX_CPUS];
	uint64_t n;			/* all CPUs together */
};

void globals_free(struct globals *g);

/* The CPU leaves a context, and may keep its global leaves. */
void globals_left(struct shadow *s, unsigned int cpu, struct context *c, uint64_t now);

/* The CPU has loaded context @c: report global leaves of others that it may still hold. */
void globals_check(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t pc);

/* A TLBI that was issued at @when is complete on @cpus. */
void globals_flushed(struct globals *g, const struct scope *r, cpumask cpus, uint64_t when);

#endif
