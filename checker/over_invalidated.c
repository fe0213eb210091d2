// SPDX-License-Identifier: GPL-2.0-only
/*
 * over_invalidated - counts entries that TLBIs remove, and that CPUs then use again. See over_invalidated.h.
 */
#include "json.h"
#include "over_invalidated.h"

static unsigned int count_cpus(cpumask cpus)
{
	return __builtin_popcountll(cpus);
}

/*
 * Return true if the tables still say what the entry says. False for table entries,
 * which are never the last step of a walk.
 */
static bool still_true(const struct spaces *s, const struct used *e)
{
	const struct table *root = e->context->root;
	const struct step *last;
	struct walk w;

	if (!root)
		return false;
	walk(&root->r, root->pa, e->va, ram_read, (void *)&s->ram, &w);
	if (!w.valid)
		return false;
	last = &w.step[w.steps - 1];
	return last->level == e->level &&
	       desc_same(&root->r, e->level, e->desc, last->desc);
}

void over_take(struct over *l, const struct spaces *s, struct used *e,
	       cpumask cpus, unsigned int issuer)
{
	cpus &= e->own;
	if (!cpus || e->table)
		return;
	e->lost |= cpus;
	if (!still_true(s, e)) {
		e->same &= ~cpus;
		return;
	}
	l->all.entries += count_cpus(cpus);
	l->all.others += count_cpus(cpus & ~CPU(issuer));
}

void over_used(struct over *l, const struct regime *r, struct used *e,
	       unsigned int cpu, uint64_t desc)
{
	if (e->desc != desc) {
		/* The model drops what the other CPUs hold of another page, before their TLBI. */
		if (e->output != desc_output(r, e->level, desc))
			e->lost |= e->own & ~CPU(cpu);
		if (!desc_same(r, e->level, e->desc, desc))
			e->same = 0;
	}
	if (!(e->lost & CPU(cpu)))
		return;
	e->lost &= ~CPU(cpu);
	l->all.refills++;
	l->all.unchanged += e->same >> cpu & 1;
}

void over_open(struct over *l, const struct spaces *s, const struct context *c,
	       uint64_t id, FILE *out)
{
	if (!window_open(&l->window, id, out))
		return;
	l->before = l->all;
	l->held = 0;
	list_for(node, &s->contexts) {
		const struct context *o = container_of(node, struct context, all);

		list_for(entry, &o->used) {
			struct used *e = container_of(entry, struct used, in_context);

			e->kept = o == c && still_true(s, e) ? e->own : 0;
			l->held += count_cpus(e->kept);
		}
	}
}

/* If the address space has a new ASID by now it is another context, of which nothing was held. */
void over_close(struct over *l, const struct spaces *s, const struct context *c,
		uint64_t id, FILE *out)
{
	struct json j = { .out = out };
	uint64_t kept = 0;

	if (!window_close(&l->window, id, out))
		return;
	if (c)
		list_for(entry, &c->used) {
			const struct used *e = container_of(entry, struct used, in_context);

			if (e->kept && still_true(s, e))
				kept += count_cpus(e->kept);
		}
	json_open(&j, '{');
	json_field(&j, "window", id);
	json_key(&j, "total");
	json_open(&j, '{');
	json_field(&j, "tlb_held", l->held);
	json_field(&j, "tlb_kept", kept);
	json_field(&j, "tlb_over_invalidated", l->all.entries - l->before.entries);
	json_field(&j, "tlb_over_invalidated_others", l->all.others - l->before.others);
	json_field(&j, "tlb_refills", l->all.refills - l->before.refills);
	json_field(&j, "tlb_refills_unchanged", l->all.unchanged - l->before.unchanged);
	json_close(&j, '}');
	json_close(&j, '}');
	json_end_line(&j);
	fflush(out);
}
