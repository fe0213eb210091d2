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
	struct pending sample;	/* the pending invalidation of the first of them, for reports */
};

static uint64_t asid_key(bool kernel, uint16_t asid)
{
	return kernel ? 1ull << 16 : asid;
}

static bool earlier(const struct pending *a, const struct pending *b)
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
static cpumask walkers_of(struct shadow *s, const struct pending *inv)
{
	const struct context *c = inv->context;

	if (!inv->walkers || c->kernel || inv->what.global)
		return inv->walkers;
	return inv->walkers & context_walkers(&s->spaces, c, 0);
}

/* Add the copies that CPUs may hold to the record of the page. */
static void note(struct shadow *s, const struct pending *inv)
{
	uint64_t page = inv->slot & ~0xfffull, end = inv->what.va + inv->what.size;
	const struct context *c = inv->context;
	cpumask walkers = walkers_of(s, inv);
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
			.page = page, .first = inv->slot, .end = inv->slot + 8, .asid = c->asid,
			.kernel = c->kernel, .va = inv->what.va, .size = inv->what.size,
			.sample = *inv,
		};
		hash_add(&s->walks.by_page, &r->by_page, page);
		hash_add(&s->walks.by_asid, &r->by_asid, asid_key(r->kernel, r->asid));
		list_add(&s->walks.all, &r->all);
		s->spaces.bytes += sizeof(*r);
	}
	r->cpus |= walkers;
	if (r->when < inv->when)
		r->when = inv->when;
	if (r->first > inv->slot)
		r->first = inv->slot;
	if (r->end < inv->slot + 8)
		r->end = inv->slot + 8;
	if (r->va + r->size - 1 < end - 1)
		r->size = end - r->va;
	if (r->va > inv->what.va) {
		r->size += r->va - inv->what.va;
		r->va = inv->what.va;
	}
	if (earlier(inv, &r->sample))
		r->sample = *inv;
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
		const struct pending *inv = pending_of_slot(&s->pendings, page);

		while (inv && !inv->walkers)
			inv = pending_of_slot_next(inv);
		if (!inv && !hash_first(&s->walks.by_page, page))
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

/* --- Keeping walkers when pending invalidations end --- */

void walks_withdraw(struct shadow *s, struct pending *inv, uint64_t slot)
{
	if (!inv->walkers || inv->slot == slot) {
		pending_drop(&s->pendings, inv);
		return;
	}
	inv->held = 0;
	pending_due(&s->pendings, inv);
}

static void forget_walkers(struct shadow *s, struct pending *inv, cpumask cpus)
{
	inv->walkers &= ~cpus;
	if (!inv->held && !inv->walkers)
		pending_drop(&s->pendings, inv);
}

void walks_page_freed(struct shadow *s, uint64_t page)
{
	struct pending *next;

	for (struct pending *inv = pending_of_slot(&s->pendings, page); inv; inv = next) {
		next = pending_of_slot_next(inv);
		note(s, inv);
		forget_walkers(s, inv, inv->walkers);
	}
}

void walks_context_dies(struct shadow *s, struct context *c)
{
	list_for(node, &c->pendings)
		note(s, container_of(node, struct pending, in_context));
}

/* The valid descriptors of a table that is freed, and of all tables below it. */
struct gone {
	struct shadow *s;
	struct pending model;
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
	struct pending *inv = &l->model;

	inv->context = c;
	inv->what = (struct cached){
		.va = va + l->offset,
		.size = 1ull << level_shift(&t->r, t->level),
		.asid = c->asid,
		.level = t->level,
		.table = desc_kind(&t->r, t->level, t->desc[l->at]) == DESC_TABLE,
	};
	inv->old = t->desc[l->at];
	inv->page = desc_output(&t->r, t->level, inv->old);
	inv->slot = t->pa + 8ull * l->at;
	inv->since = t->since[l->at];
	inv->walkers = context_walkers(&l->s->spaces, c, inv->since) & l->s->physical;
	note(l->s, inv);
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

static bool relevant(const struct scope *r, const struct walked *w)
{
	if (r->nothing || (!r->any_asid && (w->kernel || r->asid != w->asid)))
		return false;
	if (r->every_va)
		return true;
	return !r->last && r->level == LEVEL_ANY && r->upper == w->kernel &&
	       r->start <= w->va && r->end - 1 >= w->va + w->size - 1;
}

static void flushed(struct shadow *s, struct walked *w, const struct scope *r, cpumask cpus,
		    uint64_t when)
{
	if (w->when > when || !relevant(r, w))
		return;
	w->cpus &= ~cpus;
	if (!w->cpus)
		drop(s, w);
}

void walks_flushed(struct shadow *s, const struct scope *r, cpumask cpus, uint64_t when)
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
			const struct pending *inv, bool kernel, const struct table *t,
			uint64_t slot, cpumask who, uint64_t pc)
{
	struct finding f = {
		.rule = rule, .cpu = cpu, .pc = pc,
		.stack = stack_of(s, cpu, pc),
		.asid = inv->what.asid, .kernel = kernel, .va = inv->what.va,
		.level = inv->what.level, .table = inv->what.table,
		.old = inv->old, .old_page = inv->page,
		.new = t->desc[(slot - t->pa) / 8],
		.task = inv->task, .holders = who,
		.changed = true, .changed_cpu = inv->cpu, .changed_pc = inv->pc,
		.changed_stack = inv->stack,
		/* Also for a record: its sample is a copy of a pending invalidation, with the TLBIs. */
		.pending = inv,
	};

	if (desc_kind(&t->r, t->level, f.new) != DESC_INVALID)
		f.new_page = desc_output(&t->r, t->level, f.new);
	report(&s->reports, &f);
}

static bool differs(const struct table *t, const struct pending *inv)
{
	uint64_t now = t->desc[(inv->slot - t->pa) / 8];

	if (t->level != inv->what.level)
		return now != inv->old;
	return desc_change(&t->r, t->level, inv->old, now) > CHANGE_MORE;
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
		struct pending *next;

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
		for (struct pending *inv = pending_of_slot(&s->pendings, page); inv; inv = next) {
			struct users others = { .but = inv->context };
			cpumask who;

			next = pending_of_slot_next(inv);
			if (!inv->walkers || inv->slot < t->pa || inv->slot >= t->pa + 8ull * t->n)
				continue;
			left = true;
			table_places(&s->spaces, t, 0, add_user, &others);
			who = walkers_of(s, inv) & others.loaded;
			if (!who || !differs(t, inv))
				continue;
			report_walk(s, cpu, RULE_WALK_UNLINKED, inv, inv->context->kernel, t, inv->slot,
				    who, pc);
			forget_walkers(s, inv, who);
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
 * of pending invalidation @inv under another ASID. Returns true if it was reported. A CPU that had
 * loaded @c before the change holds the entry for @c as well, which has a pending invalidation of
 * its own: under KPTI an address space has two ASIDs at a time.
 */
static bool check_renamed(struct shadow *s, unsigned int cpu, struct pending *inv,
			  const struct context *c, cpumask who, uint64_t pc)
{
	struct users u = { .of = c };
	unsigned int index, n;
	struct table *t = table_at(&s->spaces, inv->slot, &index);

	for_cpus(n, who)
		if (c->first[n] <= inv->when)
			who &= ~CPU(n);
	if (!who || !t || !differs(t, inv))
		return false;
	table_places(&s->spaces, t, index, add_user, &u);
	if (!u.found)
		return false;
	report_walk(s, cpu, RULE_WALK_RENAMED, inv, false, t, inv->slot, who, pc);
	forget_walkers(s, inv, who);
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
		list_for(node, &o->pendings) {
			struct pending *inv = container_of(node, struct pending, in_context);

			if (inv->due && inv->walkers & CPU(cpu))
				check_renamed(s, cpu, inv, c, CPU(cpu), pc);
		}
	}
}

void walks_due(struct shadow *s, unsigned int cpu, struct pending *inv, uint64_t pc)
{
	const struct context *o = inv->context;

	if (!inv->walkers || !o->root || o->kernel)
		return;
	list_for(other, &o->root->contexts) {
		struct context *c = container_of(other, struct context, in_root);
		cpumask who = inv->walkers & c->loaded;

		/* After a report the pending invalidation may be freed. */
		if (c != o && who && check_renamed(s, cpu, inv, c, who, pc))
			return;
	}
}
