// SPDX-License-Identifier: GPL-2.0-only
/*
 * global - the rule asid/global: global leaves of the lower half. See global.h.
 */
#include <stdlib.h>

#include "global.h"
#include "shadow.h"

void globals_free(struct globals *g)
{
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++)
		free(g->of[cpu].leaf);
}

struct leaving {
	struct shadow *s;
	unsigned int cpu;
	const struct context *c;
	uint64_t now;
};

static void add(const struct leaving *l, uint64_t va, const struct regime *r, int level,
		uint64_t desc)
{
	struct globals *g = &l->s->globals;
	struct global_leaf *leaf = g->of[l->cpu].leaf;
	const struct used *e;
	unsigned int i;

	if (!l->s->speculation) {
		e = used_find(&l->s->used, l->c, va, level, false);
		if (!e || !(e->cpus & CPU(l->cpu)))
			return;
	}
	for (i = 0; i < g->of[l->cpu].n; i++)
		if (leaf[i].va == va && leaf[i].level == level && leaf[i].root == l->c->root->pa)
			break;
	if (i == g->of[l->cpu].room) {
		g->of[l->cpu].room = i ? 2 * i : 64;
		leaf = realloc(leaf, g->of[l->cpu].room * sizeof(*leaf));
		if (!leaf)
			abort();
		g->of[l->cpu].leaf = leaf;
	}
	if (i == g->of[l->cpu].n) {
		g->of[l->cpu].n++;
		g->n++;
	}
	leaf[i] = (struct global_leaf){
		.va = va, .size = 1ull << level_shift(r, level), .desc = desc,
		.root = l->c->root->pa, .when = l->now, .level = level,
	};
}

static void add_leaf(void *arg, struct table *t, unsigned int index, uint64_t va)
{
	if (leaf_is_global(&t->r, t->level, t->desc[index]))
		add(arg, va, &t->r, t->level, t->desc[index]);
}

void globals_left(struct shadow *s, unsigned int cpu, struct context *c, uint64_t now)
{
	struct leaving l = { .s = s, .cpu = cpu, .c = c, .now = now };

	if (!c->root || !c->root->global)
		return;
	table_all(&s->spaces, c->root, add_leaf, &l);
	/* And the leaves that were removed from the tables and not flushed. */
	list_for(node, &c->pendings) {
		const struct pending *inv = container_of(node, struct pending, in_context);

		if (inv->what.global && inv->held & CPU(cpu))
			add(&l, inv->what.va, &c->root->r, inv->what.level, inv->old);
	}
}

void globals_check(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t pc)
{
	struct global_leaf *leaf = s->globals.of[cpu].leaf, found = { .root = NO_PA };
	unsigned int n = s->globals.of[cpu].n, kept = 0;
	struct finding f;

	/* An empty root translates no address: no entry of it can conflict. */
	if (!n || !c->root->seen_valid)
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (leaf[i].root == c->root->pa)
			leaf[kept++] = leaf[i];
		else if (found.root == NO_PA || leaf[i].va < found.va ||
			 (leaf[i].va == found.va && leaf[i].level < found.level))
			found = leaf[i];
	}
	s->globals.of[cpu].n = kept;
	s->globals.n -= n - kept;
	if (kept == n)
		return;
	f = (struct finding){
		.rule = RULE_ASID_GLOBAL, .cpu = cpu, .pc = pc,
		.stack = stack_of(s, cpu, pc),
		.task = s->cpus[cpu].task, .asid = c->asid, .va = found.va, .level = found.level,
		.old = found.desc, .old_page = found.root, .new_page = c->root->pa,
		.holders = CPU(cpu),
	};
	report(&s->reports, &f);
}

void globals_flushed(struct globals *g, const struct scope *r, cpumask cpus, uint64_t when)
{
	unsigned int cpu;

	if (!g->n)
		return;
	for_cpus(cpu, cpus) {
		struct global_leaf *leaf = g->of[cpu].leaf;
		unsigned int n = g->of[cpu].n, kept = 0;

		for (unsigned int i = 0; i < n; i++) {
			const struct cached what = {
				.va = leaf[i].va, .size = leaf[i].size,
				.global = true, .level = leaf[i].level,
			};

			if (leaf[i].when > when || scope_covers(r, &what) != COVER_YES)
				leaf[kept++] = leaf[i];
		}
		g->of[cpu].n = kept;
		g->n -= n - kept;
	}
}
