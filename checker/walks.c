// SPDX-License-Identifier: GPL-2.0-only
/*
 * walks - the rule `walk`: copies of descriptors by physical address. See walks.h.
 */
#include <stdlib.h>

#include "shadow.h"
#include "walks.h"

/* The record of a page of memory: copies of its descriptors that CPUs may hold, from one ASID. */
struct walked {
	struct hash_node by_page, by_asid;
	struct list all;
	uint64_t page;
	uint64_t first, end;	/* addresses of the descriptors: the first, and behind the last */
	uint16_t asid;
	bool kernel;
	uint64_t va, size;	/* the addresses that they translated */
	cpumask cpus;
	uint64_t when;		/* the last store to one of them */
	struct obligation sample;	/* the obligation of the first of them, for reports */
};

static uint64_t asid_key(bool kernel, uint16_t asid)
{
	return kernel ? 1ull << 16 : asid;
}

static bool earlier(const struct obligation *a, const struct obligation *b)
{
	if (a->when != b->when)
		return a->when < b->when;
	return a->slot != b->slot ? a->slot < b->slot : a->what.va < b->what.va;
}

/*
 * Returns the CPUs that may still hold a copy. A CPU that has not had the context loaded since a
 * TLBI of the whole ASID was issued, which is complete, holds none. Such a TLBI may have been
 * issued before the entry was taken away.
 */
static cpumask walkers_of(struct shadow *s, const struct obligation *obl)
{
	const struct context *c = obl->context;

	if (!obl->walkers || c->kernel || obl->what.global)
		return obl->walkers;
	return obl->walkers & context_walkers(&s->spaces, c, 0);
}

/* Add the copies that CPUs may hold to the record of the page. */
static void note(struct shadow *s, const struct obligation *obl)
{
	uint64_t page = obl->slot & ~0xfffull, end = obl->what.va + obl->what.size;
	const struct context *c = obl->context;
	cpumask walkers = walkers_of(s, obl);
	struct walked *r = NULL;

	if (!walkers)
		return;
	for (struct hash_node *n = hash_first(&s->walks.by_page, page); n; n = hash_next(n)) {
		r = container_of(n, struct walked, by_page);
		if (r->asid == c->asid && r->kernel == c->kernel)
			break;
		r = NULL;
	}
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			abort();
		*r = (struct walked){
			.page = page, .first = obl->slot, .end = obl->slot + 8, .asid = c->asid,
			.kernel = c->kernel, .va = obl->what.va, .size = obl->what.size,
			.sample = *obl,
		};
		hash_add(&s->walks.by_page, &r->by_page, page);
		hash_add(&s->walks.by_asid, &r->by_asid, asid_key(r->kernel, r->asid));
		list_add(&s->walks.all, &r->all);
		s->spaces.bytes += sizeof(*r);
	}
	r->cpus |= walkers;
	if (r->when < obl->when)
		r->when = obl->when;
	if (r->first > obl->slot)
		r->first = obl->slot;
	if (r->end < obl->slot + 8)
		r->end = obl->slot + 8;
	if (r->va + r->size - 1 < end - 1)
		r->size = end - r->va;
	if (r->va > obl->what.va) {
		r->size += r->va - obl->what.va;
		r->va = obl->what.va;
	}
	if (earlier(obl, &r->sample))
		r->sample = *obl;
}

static void drop(struct shadow *s, struct walked *r)
{
	hash_del(&s->walks.by_page, &r->by_page);
	hash_del(&s->walks.by_asid, &r->by_asid);
	list_del(&r->all);
	s->spaces.bytes -= sizeof(*r);
	free(r);
}

/* spaces.linked: a table was linked. Arm it if CPUs may hold copies of descriptors in its pages. */
static void linked(void *arg, struct table *t)
{
	struct shadow *s = arg;

	if (!list_empty(&t->armed)) {
		s->walks.fresh = true;
		return;
	}
	for (uint64_t page = t->pa & ~0xfffull; page < t->pa + 8ull * t->n; page += 0x1000) {
		const struct obligation *obl = owe_of_slot(&s->obligations, page);

		while (obl && !obl->walkers)
			obl = owe_of_slot_next(obl);
		if (!obl && !hash_first(&s->walks.by_page, page))
			continue;
		list_add(&s->walks.armed, &t->armed);
		s->walks.fresh = true;
		return;
	}
}

void walks_init(struct shadow *s)
{
	list_init(&s->walks.all);
	list_init(&s->walks.armed);
	s->spaces.linked = linked;
	s->spaces.arg = s;
}

void walks_free(struct shadow *s)
{
	list_for(node, &s->walks.all)
		drop(s, container_of(node, struct walked, all));
	free(s->walks.by_page.bucket);
	free(s->walks.by_asid.bucket);
}

/* --- Keeping walkers when obligations end --- */

void walks_withdraw(struct shadow *s, struct obligation *obl, uint64_t slot)
{
	if (!obl->walkers || obl->slot == slot) {
		owe_drop(&s->obligations, obl);
		return;
	}
	obl->held = 0;
	owe_due(&s->obligations, obl);
}

static void forget_walkers(struct shadow *s, struct obligation *obl, cpumask cpus)
{
	obl->walkers &= ~cpus;
	if (!obl->held && !obl->walkers)
		owe_drop(&s->obligations, obl);
}

void walks_page_freed(struct shadow *s, uint64_t page)
{
	struct obligation *next;

	for (struct obligation *obl = owe_of_slot(&s->obligations, page); obl; obl = next) {
		next = owe_of_slot_next(obl);
		note(s, obl);
		forget_walkers(s, obl, obl->walkers);
	}
}

void walks_context_dies(struct shadow *s, struct context *c)
{
	list_for(node, &c->obligations)
		note(s, container_of(node, struct obligation, in_context));
}

/* The valid descriptors of a table that is freed, and of all tables below it. */
struct gone {
	struct shadow *s;
	struct obligation model;
	const struct table *top;
	unsigned int index;		/* of the descriptor of @top that leads to @t */
	const struct table *t;
	unsigned int at;
	uint64_t offset;
};

static void lost_place(void *arg, struct context *c, uint64_t va)
{
	struct gone *l = arg;
	const struct table *t = l->t;
	struct obligation *obl = &l->model;

	obl->context = c;
	obl->what = (struct cached){
		.va = va + l->offset,
		.size = 1ull << level_shift(&t->r, t->level),
		.asid = c->asid,
		.level = t->level,
		.table = desc_kind(&t->r, t->level, t->desc[l->at]) == DESC_TABLE,
	};
	obl->old = t->desc[l->at];
	obl->page = desc_output(&t->r, t->level, obl->old);
	obl->slot = t->pa + 8ull * l->at;
	obl->since = t->since[l->at];
	obl->walkers = context_walkers(&l->s->spaces, c, obl->since) & l->s->physical;
	note(l->s, obl);
}

static void lost_below(void *arg, struct table *t, unsigned int index, uint64_t offset)
{
	struct gone *l = arg;

	l->t = t;
	l->at = index;
	l->offset = offset;
	table_places(&l->s->spaces, l->top, l->index, lost_place, l);
}

void walks_table_freed(struct shadow *s, unsigned int cpu, const struct table *t, uint64_t pc)
{
	struct gone l = {
		.s = s, .top = t,
		.model = {
			.when = tick(s),
			.task = s->cpus[cpu].task, .pc = pc, .cpu = cpu,
		},
	};

	if (!s->physical)
		return;
	l.model.stack = stack_of(s, cpu, pc);
	for (l.index = 0; l.index < t->n; l.index++) {
		if (desc_kind(&t->r, t->level, t->desc[l.index]) == DESC_INVALID)
			continue;
		l.t = t;
		l.at = l.index;
		l.offset = 0;
		table_places(&s->spaces, t, l.index, lost_place, &l);
		table_below(&s->spaces, t, l.index, lost_below, &l);
	}
}

/* --- TLBIs --- */

static bool relevant(const struct reach *r, const struct walked *w)
{
	if (r->nothing || (!r->any_asid && (w->kernel || r->asid != w->asid)))
		return false;
	if (r->every_va)
		return true;
	return !r->last && r->level == LEVEL_ANY && r->upper == w->kernel &&
	       r->start <= w->va && r->end - 1 >= w->va + w->size - 1;
}

static void flushed(struct shadow *s, struct walked *w, const struct reach *r, cpumask cpus,
		    uint64_t when)
{
	if (w->when > when || !relevant(r, w))
		return;
	w->cpus &= ~cpus;
	if (!w->cpus)
		drop(s, w);
}

void walks_flushed(struct shadow *s, const struct reach *r, cpumask cpus, uint64_t when)
{
	struct hash_node *next;

	if (r->any_asid && (r->every_va || !r->upper)) {
		list_for(node, &s->walks.all)
			flushed(s, container_of(node, struct walked, all), r, cpus, when);
		return;
	}
	for (struct hash_node *n = hash_first(&s->walks.by_asid, asid_key(r->any_asid, r->asid));
	     n; n = next) {
		next = hash_next(n);
		flushed(s, container_of(n, struct walked, by_asid), r, cpus, when);
	}
}

/* --- Reports --- */

static void report_walk(struct shadow *s, unsigned int cpu, enum rule rule,
			const struct obligation *obl, bool kernel, const struct table *t,
			uint64_t slot, cpumask who, uint64_t pc)
{
	struct finding f = {
		.rule = rule, .cpu = cpu, .pc = pc,
		.stack = stack_of(s, cpu, pc),
		.asid = obl->what.asid, .kernel = kernel, .va = obl->what.va,
		.level = obl->what.level, .table = obl->what.table,
		.old = obl->old, .old_page = obl->page,
		.new = t->desc[(slot - t->pa) / 8],
		.task = obl->task, .holders = who,
		.changed = true, .changed_cpu = obl->cpu, .changed_pc = obl->pc,
		.changed_stack = obl->stack,
		/* Also for a record: its sample is a copy of an obligation, with the TLBIs. */
		.obligation = obl,
	};

	if (desc_kind(&t->r, t->level, f.new) != DESC_INVALID)
		f.new_page = desc_output(&t->r, t->level, f.new);
	report(&s->reports, &f);
}

static bool differs(const struct table *t, const struct obligation *obl)
{
	uint64_t now = t->desc[(obl->slot - t->pa) / 8];

	if (t->level != obl->what.level)
		return now != obl->old;
	return desc_change(&t->r, t->level, obl->old, now) > CHANGE_MORE;
}

struct users {
	const struct context *but;	/* leave out contexts with the root of this one */
	const struct context *of;	/* set @found if this context reaches the table */
	cpumask loaded;			/* CPUs that have a context loaded that reaches the table */
	bool found;
};

static void add_user(void *arg, struct context *c, uint64_t va)
{
	struct users *u = arg;

	(void)va;
	u->found |= c == u->of;
	if (!u->but || u->but->root != c->root)
		u->loaded |= c->loaded;
}

/*
 * Report CPUs that have this table loaded and may hold old copies of its descriptors.
 * Returns false if no CPU can hold copies any more.
 */
static bool check_table(struct shadow *s, unsigned int cpu, struct table *t, uint64_t pc)
{
	struct users all = { 0 };
	bool left = false;

	table_places(&s->spaces, t, 0, add_user, &all);
	for (uint64_t page = t->pa & ~0xfffull; page < t->pa + 8ull * t->n; page += 0x1000) {
		struct hash_node *more;
		struct obligation *next;

		for (struct hash_node *n = hash_first(&s->walks.by_page, page); n; n = more) {
			struct walked *r = container_of(n, struct walked, by_page);
			cpumask who = r->cpus & all.loaded;

			more = hash_next(n);
			if (r->end <= t->pa || r->first >= t->pa + 8ull * t->n)
				continue;
			left = true;
			if (!who)
				continue;
			report_walk(s, cpu, RULE_WALK_FREED, &r->sample, r->kernel, t,
				    r->first < t->pa ? t->pa : r->first, who, pc);
			r->cpus &= ~who;
			if (!r->cpus)
				drop(s, r);
		}
		for (struct obligation *obl = owe_of_slot(&s->obligations, page); obl; obl = next) {
			struct users others = { .but = obl->context };
			cpumask who;

			next = owe_of_slot_next(obl);
			if (!obl->walkers || obl->slot < t->pa || obl->slot >= t->pa + 8ull * t->n)
				continue;
			left = true;
			table_places(&s->spaces, t, 0, add_user, &others);
			who = walkers_of(s, obl) & others.loaded;
			if (!who || !differs(t, obl))
				continue;
			report_walk(s, cpu, RULE_WALK_UNLINKED, obl, obl->context->kernel, t, obl->slot,
				    who, pc);
			forget_walkers(s, obl, who);
		}
	}
	return left;
}

void walks_check(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	s->walks.fresh = false;
	list_for(node, &s->walks.armed) {
		struct table *t = container_of(node, struct table, armed);

		if (!check_table(s, cpu, t, pc))
			list_del(&t->armed);
	}
}

/*
 * walk/renamed: report if context @c, which the CPUs @who have loaded, reaches the table
 * of obligation @obl under another ASID. Returns true if it was reported. A CPU that had
 * loaded @c before the change holds the entry for @c as well, which has an obligation of
 * its own: under KPTI an address space has two ASIDs at a time.
 */
static bool check_renamed(struct shadow *s, unsigned int cpu, struct obligation *obl,
			  const struct context *c, cpumask who, uint64_t pc)
{
	struct users u = { .of = c };
	unsigned int index, n;
	struct table *t = table_at(&s->spaces, obl->slot, &index);

	for_cpus(n, who)
		if (c->first[n] <= obl->when)
			who &= ~CPU(n);
	if (!who || !t || !differs(t, obl))
		return false;
	table_places(&s->spaces, t, index, add_user, &u);
	if (!u.found)
		return false;
	report_walk(s, cpu, RULE_WALK_RENAMED, obl, false, t, obl->slot, who, pc);
	forget_walkers(s, obl, who);
	return true;
}

void walks_loaded(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!s->physical)
		return;
	list_for(other, &c->root->contexts) {
		struct context *o = container_of(other, struct context, in_root);

		if (o == c || !o->n_due)
			continue;
		list_for(node, &o->obligations) {
			struct obligation *obl = container_of(node, struct obligation, in_context);

			if (obl->due && obl->walkers & CPU(cpu))
				check_renamed(s, cpu, obl, c, CPU(cpu), pc);
		}
	}
}

void walks_due(struct shadow *s, unsigned int cpu, struct obligation *obl, uint64_t pc)
{
	const struct context *o = obl->context;

	if (!obl->walkers || !o->root || o->kernel)
		return;
	list_for(other, &o->root->contexts) {
		struct context *c = container_of(other, struct context, in_root);
		cpumask who = obl->walkers & c->loaded;

		/* After a report the obligation may be freed. */
		if (c != o && who && check_renamed(s, cpu, obl, c, who, pc))
			return;
	}
}
