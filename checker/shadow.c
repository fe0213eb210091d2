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
#define MOST_OBLIGATIONS 500000

bool shadow_init(struct shadow *s, unsigned int ncpus, bool speculation, FILE *out, FILE *text)
{
	memset(s, 0, sizeof(*s));
	s->ncpus = ncpus;
	s->speculation = speculation;
	s->lazy_end = UINT64_MAX;
	s->now = 1;
	s->reports.out = out;
	s->reports.text = text;
	owes_init(&s->obligations, MOST_OBLIGATIONS);
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

		for (unsigned int i = 0; i < c->n_pending; i++) {
			struct obligation *obl = c->pending[i].obligation;

			if (obl && !--obl->refs && obl->met)
				free(obl);
		}
		free(c->pending);
	}
	walks_free(s);
	globals_free(&s->globals);
	owes_free(&s->obligations, &s->spaces);
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

void shadow_report_obligation(struct shadow *s, unsigned int cpu, uint64_t pc, unsigned int stack,
			      enum rule rule, const struct obligation *obl)
{
	const struct regime *r = regime_in(s, cpu, obl->context->kernel);
	struct finding f = { .rule = rule, .cpu = cpu, .pc = pc, .stack = stack };

	f.asid = obl->context->asid;
	f.kernel = obl->context->kernel;
	f.va = obl->what.va;
	f.level = obl->what.level;
	f.table = obl->what.table;
	f.old = obl->old;
	f.new = obl->new;
	f.old_page = obl->page;
	if (desc_kind(r, obl->what.level, obl->new) != DESC_INVALID)
		f.new_page = desc_output(r, obl->what.level, obl->new);
	f.conflict = desc_conflict(r, obl->what.level, obl->old, obl->new);
	if (obl->twin)
		f.differs = ram_differs(&s->spaces.ram, obl->page, obl->twin, obl->what.size);
	f.task = obl->task;
	f.holders = obl->held;
	finding_changed(&f, obl);
	report(&s->reports, &f);
}

void report_obligation(struct shadow *s, unsigned int cpu, uint64_t pc, enum rule rule,
		       const struct obligation *obl)
{
	shadow_report_obligation(s, cpu, pc, stack_of(s, cpu, pc), rule, obl);
}

enum rule owed_kind(const struct obligation *obl)
{
	switch (owe_nearest(obl)) {
	case MISS_STAGE:
		return RULE_OWED_STAGE;
	case MISS_REPEAT:
		return RULE_OWED_REPEAT;
	case MISS_DSB:
		return RULE_OWED_NO_DSB;
	case MISS_ORDER:
		return RULE_OWED_ORDER;
	case MISS_LOCAL:
		return RULE_OWED_LOCAL;
	case MISS_LAST:
		return RULE_OWED_TABLE;
	case MISS_LEVEL:
	case MISS_NOTHING:
		return RULE_OWED_LEVEL;
	case MISS_ASID:
		return RULE_OWED_ASID;
	case MISS_VA:
	case MISS_NONE:
		break;
	}
	if (obl->what.table)
		return RULE_OWED_TABLE;
	return obl->change == CHANGE_LESS ? RULE_OWED_PERMISSION : RULE_OWED_NO_TLBI;
}

/* --- Windows --- */

void shadow_open(struct shadow *s, unsigned int cpu, uint64_t id)
{
	lost_open(&s->lost, &s->spaces, s->cpus[cpu].context, id, s->reports.out);
}

void shadow_close(struct shadow *s, unsigned int cpu, uint64_t id)
{
	lost_close(&s->lost, &s->spaces, s->cpus[cpu].context, id, s->reports.out);
}

void shadow_verdict(struct shadow *s)
{
	window_end(&s->lost.window, s->reports.out);
	s->seen.left = s->obligations.n;
	for (unsigned int cpu = 0; cpu < s->ncpus; cpu++)
		s->seen.user_returns += s->cpus[cpu].returns;
	s->seen.tlb_lost = s->lost.all.entries;
	s->seen.tlb_refills = s->lost.all.refills;
	s->seen.tlb_refills_unchanged = s->lost.all.unchanged;
	s->seen.physical = __builtin_popcountll(s->physical & all_cpus(s));
	if (s->obligations.overflow)
		report_error(&s->reports,
			     "more obligations at once than the checker keeps: some were not checked");
	s->seen.memory += s->spaces.bytes + s->obligations.most * sizeof(struct obligation) +
			 s->used.most * sizeof(struct used) +
			 s->reports.n_stacks * sizeof(struct stack);
	report_verdict(&s->reports, &s->seen);
}
