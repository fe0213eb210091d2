// SPDX-License-Identifier: GPL-2.0-only
/*
 * used - entries that accesses have used. See used.h.
 */
#include "used.h"

static uint64_t key_of(const struct context *c, uint64_t va)
{
	return hash_mix((uintptr_t)c, va >> 12);
}

static struct used *same(struct hash_node *n, const struct context *c, uint64_t va,
			 int level, bool table)
{
	for (; n; n = hash_next(n)) {
		struct used *e = container_of(n, struct used, by_va);

		if (e->context == c && e->va == va && e->level == level && e->table == table)
			return e;
	}
	return NULL;
}

struct used *used_find(const struct used_all *u, const struct context *c, uint64_t va,
		       int level, bool table)
{
	return same(hash_first(&u->by_va, key_of(c, va)), c, va, level, table);
}

struct used *used_add(struct used_all *u, struct context *c, uint64_t va, int level,
		      bool table, uint64_t output, cpumask cpus)
{
	struct used *e = used_find(u, c, va, level, table);

	if (e && e->absent) {
		e->absent = false;
		u->n_absent--;
		list_del(&e->in_context);
		list_add(&c->used, &e->in_context);
		c->n_used++;
	}
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			abort();
		e->context = c;
		e->va = va;
		e->level = level;
		e->table = table;
		hash_add(&u->by_va, &e->by_va, key_of(c, va));
		list_add(&c->used, &e->in_context);
		c->n_used++;
		if (++u->n > u->most)
			u->most = u->n;
	}
	e->output = output;
	e->cpus |= cpus;
	return e;
}

void used_drop(struct used_all *u, struct used *e)
{
	hash_del(&u->by_va, &e->by_va);
	list_del(&e->in_context);
	if (e->absent)
		u->n_absent--;
	else
		e->context->n_used--;
	u->n--;
	free(e);
}

/*
 * No CPU holds the entry: keep its record where no flush looks at it. If there are too
 * many of these, drop the oldest of the context.
 */
static void set_aside(struct used_all *u, struct used *e)
{
	struct context *c = e->context;

	list_del(&e->in_context);
	list_add(&c->absent, &e->in_context);
	c->n_used--;
	e->absent = true;
	if (++u->n_absent > u->most_absent)
		used_drop(u, container_of(c->absent.next, struct used, in_context));
}

void used_drop_context(struct used_all *u, struct context *c)
{
	while (!list_empty(&c->used))
		used_drop(u, container_of(c->used.next, struct used, in_context));
	while (!list_empty(&c->absent))
		used_drop(u, container_of(c->absent.next, struct used, in_context));
}

struct flush {
	struct used_all *all;
	const struct scope *r;
	const struct regime *regime;
	cpumask cpus;
	take_fn take;
	void *arg;
};

static void flush_one(const struct flush *f, struct used *e)
{
	struct cached what = {
		.va = e->va,
		.size = 1ull << level_shift(f->regime, e->level),
		.asid = e->context->asid,
		.table = e->table,
		.level = e->level,
	};

	if (e->absent || scope_covers(f->r, &what) != COVER_YES)
		return;
	f->take(f->arg, e);
	e->cpus &= ~f->cpus;
	e->own &= e->cpus;
	e->kept &= e->cpus;
	if (e->cpus)
		return;
	if (e->lost && e->context->root)
		set_aside(f->all, e);
	else
		used_drop(f->all, e);
}

void used_flush(struct used_all *u, struct context *c, const struct scope *r,
		const struct regime *regime, cpumask cpus, take_fn take, void *arg)
{
	const struct flush f = {
		.all = u, .r = r, .regime = regime, .cpus = cpus, .take = take, .arg = arg,
	};
	uint64_t step = 1ull << regime->granule;
	uint64_t pages = r->every_va ? UINT64_MAX : (r->end - r->start) / step;

	if (!c->n_used || (!r->every_va && r->upper))
		return;
	if (c->n_used / 10 < pages) {
		list_for(node, &c->used)
			flush_one(&f, container_of(node, struct used, in_context));
		return;
	}
	for (uint64_t va = r->start; va != r->end; va += step) {
		for (int level = regime->start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(regime, level);
			struct used *e;

			if (base != va && va != r->start)
				continue;	/* was found at a lower address */
			e = used_find(u, c, base, level, false);
			if (e)
				flush_one(&f, e);
			e = used_find(u, c, base, level, true);
			if (e)
				flush_one(&f, e);
		}
	}
}
