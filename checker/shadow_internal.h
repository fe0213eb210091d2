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

/* The finding is of this obligation: the CPU, the code and the stack that changed the entry. */
static inline void finding_changed(struct finding *f, const struct obligation *obl)
{
	f->changed = true;
	f->changed_cpu = obl->cpu;
	f->changed_pc = obl->pc;
	f->changed_stack = obl->stack;
	f->obligation = obl;
}

/* shadow_report_obligation() with the stack of the code that the CPU executes. */
void report_obligation(struct shadow *s, unsigned int cpu, uint64_t pc, enum rule rule,
		       const struct obligation *obl);

/* shadow_free.c: user code runs with the context: report old entries that lead to freed pages. */
void check_freed(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

#endif
