/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shadow_internal - what the files shadow*.c share. Other modules include shadow.h.
 */
#ifndef LULL_SHADOW_INTERNAL_H
#define LULL_SHADOW_INTERNAL_H

#include "shadow.h"

static inline cpumask all_cpus(const struct shadow *s)
{
	return s->ncpus == 64 ? ~0ull : CPU(s->ncpus) - 1;
}

/* The finding is of this pending invalidation: the CPU, the code and the stack that changed the entry. */
static inline void finding_changed(struct finding *f, const struct pending *inv)
{
	f->changed = true;
	f->changed_cpu = inv->cpu;
	f->changed_pc = inv->pc;
	f->changed_stack = inv->stack;
	f->pending = inv;
}

/* shadow_report_pending() with the stack of the code that the CPU executes. */
void report_pending(struct shadow *s, unsigned int cpu, uint64_t pc, enum rule rule,
		       const struct pending *inv);

/* shadow_free.c: user code runs with the context: report old entries that lead to freed pages. */
void check_freed(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

#endif
