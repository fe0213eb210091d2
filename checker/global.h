/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * global - global leaves of the lower half, which are hit under every ASID.
 *
 * The identity map has such leaves. A CPU that has loaded them keeps them when
 * it loads another context, and uses them there: no ASID protects. They go by
 * TLBIs of their addresses, for any ASID, and of everything; a TLBI of an ASID
 * (ASIDE1) leaves them.
 */
#ifndef LULL_GLOBAL_H
#define LULL_GLOBAL_H

#include "reach.h"
#include "space.h"

struct shadow;

struct global_leaf {
	uint64_t va, size, desc;
	uint64_t root;			/* of the tables it is from */
	uint64_t when;			/* the CPU left them */
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

/* The CPU leaves a context, and goes on holding its global leaves. */
void globals_left(struct shadow *s, unsigned int cpu, struct context *c, uint64_t now);

/* It has loaded another one. */
void globals_check(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t pc);

/* A TLBI, issued at that time, is complete. */
void globals_flushed(struct globals *g, const struct reach *r, cpumask cpus, uint64_t when);

#endif
