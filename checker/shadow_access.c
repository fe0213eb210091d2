// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow_access - accesses to the lower half: the rule `remap`. See shadow.h.
 *
 * The physical address that a CPU has accessed is compared with a walk of the tables,
 * and with the entries that accesses have used before. The entries of this walk are then
 * noted as used (used.h).
 */
#include "shadow_internal.h"

/*
 * Return true if the walk has read a descriptor that was written by a store of which
 * the callback has not run yet. (AF and the dirty state, which hardware sets, do not
 * count.)
 */
static bool in_flight(const struct shadow *s, const struct walk *w)
{
	for (unsigned int i = 0; i < w->steps; i++) {
		const struct step *step = &w->step[i];
		unsigned int index;
		const struct table *t = table_at(&s->spaces, step->desc_pa, &index);

		if (!t || desc_kind(&t->r, t->level, t->desc[index]) !=
			  desc_kind(&t->r, t->level, step->desc) ||
		    desc_output(&t->r, t->level, t->desc[index]) !=
		    desc_output(&t->r, t->level, step->desc))
			return true;
	}
	return false;
}

/* Return true if there is a pending invalidation for @va that was not reported: old and new entries are both legitimate. */
static bool flush_under_way(const struct shadow *s, const struct context *c, uint64_t va,
			    const struct regime *r)
{
	for (int level = r->start; level <= 3; level++) {
		uint64_t base = va & ~0ull << level_shift(r, level);

		for (const struct pending *inv = pending_at(&s->pendings, c, base, level); inv;
		     inv = pending_at_next(inv))
			if (inv->held && !(inv->said & SAID_PENDING))
				return true;
	}
	return false;
}

static void report_remap(struct shadow *s, unsigned int cpu, uint64_t va, bool fetch,
			 uint64_t pc, const struct used *e, const struct walk *w, uint64_t pa)
{
	struct finding f = finding_here(s, cpu, pc, fetch ? RULE_REMAP_FETCH : RULE_REMAP_DATA);
	const struct context *c = s->cpus[cpu].context;

	f.asid = c->asid;
	f.va = va;
	f.level = e ? e->level : w->steps ? w->step[w->steps - 1].level : 0;
	f.old_page = e ? e->output : pa;
	f.new_page = w->valid ? w->pa & ~0xfffull : 0;
	f.new = w->steps ? w->step[w->steps - 1].desc : 0;
	f.holders = e ? e->cpus : CPU(cpu);
	report(&s->reports, &f);
}

void shadow_access(struct shadow *s, unsigned int cpu, uint64_t va, uint64_t pa,
		   bool fetch, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	const struct regime *r = &c->lower;
	struct context *ctx = c->context;
	struct walk w;
	cpumask who;

	va &= ~(0xffull << 56);		/* TBI, or it would have faulted */
	if (!ctx || !ctx->root || !regime_has(r, va))
		return;
	s->seen.misses++;
	walk(r, ctx->root->pa, va, ram_read, &s->spaces.ram, &w);
	s->seen.walks++;
	if (!w.valid || (pa != NO_PA && w.pa != pa)) {
		if (in_flight(s, &w) || flush_under_way(s, ctx, va, r))
			s->seen.races++;
		else
			report_remap(s, cpu, va, fetch, pc, NULL, &w, pa);
		return;
	}
	who = CPU(cpu) | (s->speculation ? ctx->loaded : 0);
	for (unsigned int i = 0; i < w.steps; i++) {
		const struct step *step = &w.step[i];
		bool table = i < w.steps - 1u;
		uint64_t base = va & ~0ull << level_shift(r, step->level);
		uint64_t output = desc_output(r, step->level, step->desc);
		struct used *e = used_find(&s->used, ctx, base, step->level, table);

		if (e && e->output != output && !table && e->cpus & CPU(cpu)) {
			if (in_flight(s, &w) || flush_under_way(s, ctx, va, r))
				s->seen.races++;
			else
				report_remap(s, cpu, va, fetch, pc, e, &w, pa);
		}
		if (e && !table)
			over_used(&s->over, r, e, cpu, step->desc);
		if (e && e->output != output)
			e->cpus = e->own = e->kept = 0;
		e = used_add(&s->used, ctx, base, step->level, table, output, who);
		e->desc = step->desc;
		e->own |= CPU(cpu);
		e->same |= CPU(cpu);
	}
}
