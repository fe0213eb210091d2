// SPDX-License-Identifier: GPL-2.0-only
/*
 * unload - the rule `unload`: what CPUs announce as not loaded. See unload.h.
 */
#include "unload.h"

static void report_unload(struct shadow *s, unsigned int cpu, const struct context *c,
			  enum rule rule, uint64_t pc)
{
	struct finding f = finding_here(s, cpu, pc, rule);

	f.asid = c->asid;
	f.level = c->root->level;
	f.table = true;
	f.old_page = c->root->pa;
	f.holders = CPU(cpu);
	report(&s->reports, &f);
}

/* Return true if the CPU may walk for this context, or from table descriptors of it in its TLB. */
static bool may_use(const struct shadow *s, unsigned int cpu, const struct context *c)
{
	return c->loaded & CPU(cpu) ||
	       (c->current & CPU(cpu) && context_holders(&s->spaces, c, 0) & CPU(cpu));
}

/* The CPU announces the root as not loaded: report the first condition that is not met. */
static void check_left(struct shadow *s, unsigned int cpu, const struct table *root, uint64_t pc)
{
	const struct cpu *me = &s->cpus[cpu];
	const struct context *last = NULL;

	list_for(node, (struct list *)&root->contexts) {
		const struct context *c = container_of(node, struct context, in_root);

		if (may_use(s, cpu, c)) {
			report_unload(s, cpu, c, RULE_UNLOAD_LOADED, pc);
			return;
		}
		if (c->left[cpu] && (!last || c->left[cpu] > last->left[cpu]))
			last = c;
	}
	if (!last)
		return;
	if (me->synced < last->left[cpu])
		report_unload(s, cpu, last, RULE_UNLOAD_NO_ISB, pc);
	else if (me->walks_over < last->left[cpu])
		report_unload(s, cpu, last, RULE_UNLOAD_NO_DSB, pc);
}

void shadow_published(struct shadow *s, unsigned int cpu, uint64_t root, bool loaded,
		      uint64_t pc)
{
	unsigned int index;
	struct table *t = table_at(&s->spaces, root, &index);

	s->seen.published++;
	if (!t || t->pa != root)
		return;
	if (loaded) {
		t->unloaded &= ~CPU(cpu);
		return;
	}
	check_left(s, cpu, t, pc);
	t->unloaded |= CPU(cpu);
}

void unload_check(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!c->root || !(c->root->unloaded & CPU(cpu)) || !may_use(s, cpu, c))
		return;
	report_unload(s, cpu, c, RULE_UNLOAD_UNCOUNTED, pc);
	/* Report once for each announcement. */
	c->root->unloaded &= ~CPU(cpu);
}
