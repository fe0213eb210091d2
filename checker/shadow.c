// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow - the checker's state and reports, and windows. See shadow.h.
 *
 * The other events are in shadow_context.c, shadow_store.c, shadow_tlbi.c,
 * shadow_access.c and shadow_free.c.
 */
#include <stdlib.h>
#include <string.h>

#include "shadow_internal.h"

/* About 480 bytes each: 240 MB. Linux makes one per page of what it unmaps at once. */
#define MOST_PENDING 500000

bool shadow_init(struct shadow *s, unsigned int ncpus, bool speculation, FILE *out, FILE *text)
{
	memset(s, 0, sizeof(*s));
	s->ncpus = ncpus;
	s->speculation = speculation;
	s->lazy_end = UINT64_MAX;
	s->now = 1;
	s->reports.out = out;
	s->reports.text = text;
	pendings_init(&s->pendings, MOST_PENDING);
	s->cpus = aligned_alloc(128, ncpus * sizeof(*s->cpus));
	if (!s->cpus || ncpus > MAX_CPUS)
		return false;
	memset(s->cpus, 0, ncpus * sizeof(*s->cpus));
	spaces_init(&s->spaces, ncpus);
	walks_init(s);
	return true;
}

bool shadow_ram(struct shadow *s, const struct ram *ram)
{
	s->used.most_absent = ram->size >> 12;
	return spaces_ram(&s->spaces, ram);
}

void shadow_free_all(struct shadow *s)
{
	list_for(node, &s->spaces.contexts)
		used_drop_context(&s->used, container_of(node, struct context, all));
	free(s->used.by_va.bucket);
	contig_free(s);
	for (unsigned int cpu = 0; cpu < s->ncpus; cpu++) {
		struct cpu *c = &s->cpus[cpu];

		for (unsigned int i = 0; i < c->n_incomplete; i++) {
			struct pending *inv = c->incomplete[i].pending;

			if (inv && !--inv->refs && inv->met)
				free(inv);
		}
		free(c->incomplete);
	}
	walks_free(s);
	globals_free(&s->globals);
	pendings_free(&s->pendings, &s->spaces);
	spaces_free(&s->spaces);
	reports_free(&s->reports);
	free(s->cpus);
}

/* --- Reports --- */

struct finding finding_here(struct shadow *s, unsigned int cpu, uint64_t pc, enum rule rule)
{
	return (struct finding){
		.rule = rule, .cpu = cpu, .pc = pc,
		.stack = stack_of(s, cpu, pc), .task = s->cpus[cpu].task,
	};
}

static const struct regime *regime_in(const struct shadow *s, unsigned int cpu, bool upper)
{
	const struct cpu *c = &s->cpus[cpu];

	return upper ? &c->upper : &c->lower;
}

void shadow_report_pending(struct shadow *s, unsigned int cpu, uint64_t pc, unsigned int stack,
			      enum rule rule, const struct pending *inv)
{
	const struct regime *r = regime_in(s, cpu, inv->context->kernel);
	struct finding f = { .rule = rule, .cpu = cpu, .pc = pc, .stack = stack };

	f.asid = inv->context->asid;
	f.kernel = inv->context->kernel;
	f.va = inv->what.va;
	f.level = inv->what.level;
	f.table = inv->what.table;
	f.old = inv->old;
	f.new = inv->new;
	f.old_page = inv->page;
	if (desc_kind(r, inv->what.level, inv->new) != DESC_INVALID)
		f.new_page = desc_output(r, inv->what.level, inv->new);
	f.conflict = desc_conflict(r, inv->what.level, inv->old, inv->new);
	if (inv->twin)
		f.differs = ram_differs(&s->spaces.ram, inv->page, inv->twin, inv->what.size);
	f.task = inv->task;
	f.holders = inv->held;
	finding_changed(&f, inv);
	report(&s->reports, &f);
}

void report_pending(struct shadow *s, unsigned int cpu, uint64_t pc, enum rule rule,
		       const struct pending *inv)
{
	shadow_report_pending(s, cpu, pc, stack_of(s, cpu, pc), rule, inv);
}

enum rule pending_kind(const struct pending *inv)
{
	switch (pending_nearest(inv)) {
	case MISS_STAGE:
		return RULE_PENDING_STAGE;
	case MISS_REPEAT:
		return RULE_PENDING_REPEAT;
	case MISS_DSB:
		return RULE_PENDING_NO_DSB;
	case MISS_ORDER:
		return RULE_PENDING_ORDER;
	case MISS_LOCAL:
		return RULE_PENDING_LOCAL;
	case MISS_LAST:
		return RULE_PENDING_TABLE;
	case MISS_LEVEL:
	case MISS_NOTHING:
		return RULE_PENDING_LEVEL;
	case MISS_ASID:
		return RULE_PENDING_ASID;
	case MISS_VA:
	case MISS_NONE:
		break;
	}
	if (inv->what.table)
		return RULE_PENDING_TABLE;
	return inv->change == CHANGE_LESS ? RULE_PENDING_PERMISSION : RULE_PENDING_NO_TLBI;
}

/* --- Windows --- */

void shadow_open(struct shadow *s, unsigned int cpu, uint64_t id)
{
	over_open(&s->over, &s->spaces, s->cpus[cpu].context, id, s->reports.out);
}

void shadow_close(struct shadow *s, unsigned int cpu, uint64_t id)
{
	over_close(&s->over, &s->spaces, s->cpus[cpu].context, id, s->reports.out);
}

void shadow_verdict(struct shadow *s)
{
	window_end(&s->over.window, s->reports.out);
	s->seen.left = s->pendings.n;
	for (unsigned int cpu = 0; cpu < s->ncpus; cpu++)
		s->seen.user_returns += s->cpus[cpu].returns;
	s->seen.tlb_over_invalidated = s->over.all.entries;
	s->seen.tlb_refills = s->over.all.refills;
	s->seen.tlb_refills_unchanged = s->over.all.unchanged;
	s->seen.physical = __builtin_popcountll(s->physical & all_cpus(s));
	if (s->pendings.overflow)
		report_error(&s->reports,
			     "more pending invalidations at once than the checker keeps: some were not checked");
	s->seen.memory += s->spaces.bytes + s->pendings.most * sizeof(struct pending) +
			 s->used.most * sizeof(struct used) +
			 s->reports.n_stacks * sizeof(struct stack);
	report_verdict(&s->reports, &s->seen);
}
