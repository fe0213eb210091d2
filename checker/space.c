// SPDX-License-Identifier: GPL-2.0-only
/*
 * space - the shadow of the translation tables, and which CPUs hold entries. See space.h.
 */
#include <string.h>

#include "space.h"

static uint64_t root_bytes(const struct regime *r)
{
	return 8ull * table_entries(r, r->start);
}

static void context_init(struct context *c, uint16_t asid)
{
	c->asid = asid;
	list_init(&c->in_root);
	list_init(&c->all);
	list_init(&c->pendings);
	list_init(&c->used);
	list_init(&c->absent);
}

void spaces_init(struct spaces *s, unsigned int ncpus)
{
	memset(s, 0, sizeof(*s));
	s->ncpus = ncpus;
	list_init(&s->contexts);
	list_init(&s->kernels);
}

bool spaces_ram(struct spaces *s, const struct ram *ram)
{
	s->bytes = ram->size >> 12;
	s->followed = calloc(1, s->bytes);
	s->ram = *ram;
	return s->followed;
}

static void table_free(struct spaces *s, struct table *t)
{
	list_del(&t->armed);
	s->bytes -= sizeof(*t) + 16ull * t->n;
	s->n_tables--;
	free(t->desc);
	free(t->since);
	free(t->untold);
	free(t);
}

void spaces_free(struct spaces *s)
{
	list_for(node, &s->contexts)
		free(container_of(node, struct context, all));
	list_for(node, &s->kernels)
		free(container_of(node, struct context, all));
	for (size_t i = 0; s->tables.bucket && i < (size_t)1 << (64 - s->tables.shift); i++) {
		struct hash_node *next;

		for (struct hash_node *n = s->tables.bucket[i]; n; n = next) {
			struct table *t = container_of(n, struct table, by_pa);

			next = n->next;
			while (t->parents) {
				struct link *link = t->parents;

				t->parents = link->next;
				free(link);
			}
			table_free(s, t);
		}
	}
	free(s->tables.bucket);
	free(s->by_asid.bucket);
	free(s->followed);
	free(s->mapped);
}

static struct table *table_of(const struct spaces *s, uint64_t pa)
{
	struct hash_node *n = hash_first(&s->tables, pa);

	return n ? container_of(n, struct table, by_pa) : NULL;
}

/* A table that is followed already was linked at one more place, and with it those below. */
static void table_announce(struct spaces *s, struct table *t)
{
	if (!s->linked)
		return;
	s->linked(s->arg, t);
	for (unsigned int i = 0; i < t->n; i++) {
		struct table *child = NULL;

		if (desc_kind(&t->r, t->level, t->desc[i]) == DESC_TABLE)
			child = table_of(s, desc_output(&t->r, t->level, t->desc[i]));
		if (child && child->level == t->level + 1)
			table_announce(s, child);
	}
}

/* Does not read the descriptors yet: the caller links the table first. */
static struct table *table_new(struct spaces *s, uint64_t pa, const struct regime *r,
			       int level, unsigned int n)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->r = *r;
	t->level = level;
	t->pa = pa;
	t->n = n;
	t->desc = calloc(n, sizeof(*t->desc));
	t->since = calloc(n, sizeof(*t->since));
	if (!t->desc || !t->since)
		abort();
	list_init(&t->contexts);
	list_init(&t->armed);
	hash_add(&s->tables, &t->by_pa, pa);
	for (uint64_t at = pa & ~0xfffull; at < pa + 8ull * n; at += 0x1000) {
		uint8_t *page = &s->followed[(at - s->ram.base) >> 12];

		write_once(page, (*page + 1) | WAS_TABLE);
	}
	s->bytes += sizeof(*t) + 16ull * n;
	s->n_tables++;
	if (s->linked)
		s->linked(s->arg, t);
	return t;
}

void table_global(struct table *t)
{
	if (t->global)
		return;
	t->global = true;
	for (struct link *l = t->parents; l; l = l->next)
		table_global(l->parent);
}

void table_maps(struct spaces *s, const struct table *t, uint64_t desc, int n)
{
	uint64_t first = desc_output(&t->r, t->level, desc);

	if (desc_kind(&t->r, t->level, desc) != DESC_LEAF)
		return;
	for (uint64_t pa = first; pa < first + (1ull << level_shift(&t->r, t->level)); pa += 0x1000)
		if (ram_has(&s->ram, pa, 1))
			s->mapped[(pa - s->ram.base) >> 12] += n;
}

static void table_read(struct spaces *s, struct table *t, uint64_t now)
{
	/*
	 * Another vCPU may be storing to the table. A store before this read is seen by
	 * the read; the callback of a later store calls shadow_store().
	 */
	__sync_synchronize();
	for (unsigned int i = 0; i < t->n; i++) {
		ram_read(&s->ram, t->pa + 8ull * i, &t->desc[i]);
		if (desc_kind(&t->r, t->level, t->desc[i]) == DESC_INVALID)
			continue;
		t->seen_valid = true;
		t->since[i] = now;
		if (s->mapped)
			table_maps(s, t, t->desc[i], 1);
		if (leaf_is_global(&t->r, t->level, t->desc[i]))
			table_global(t);
		table_link(s, t, i, now);
	}
}

/* Return true if neither a table nor a context points to the table any more. */
static bool table_lost(const struct table *t)
{
	return !t->parents && list_empty(&t->contexts);
}

/* Cease to follow a table, and the tables below that nothing else points to. */
static void table_leave(struct spaces *s, struct table *t)
{
	for (unsigned int i = 0; i < t->n; i++) {
		if (s->mapped)
			table_maps(s, t, t->desc[i], -1);
		table_unlink(s, t, i);
	}
	hash_del(&s->tables, &t->by_pa);
	for (uint64_t at = t->pa & ~0xfffull; at < t->pa + 8ull * t->n; at += 0x1000)
		add_once(&s->followed[(at - s->ram.base) >> 12], -1);
	table_free(s, t);
}

void table_link(struct spaces *s, struct table *t, unsigned int index, uint64_t now)
{
	uint64_t desc = t->desc[index];
	struct table *child;
	struct link *link;
	uint64_t pa;
	unsigned int n;

	if (desc_kind(&t->r, t->level, desc) != DESC_TABLE)
		return;
	pa = desc_output(&t->r, t->level, desc);
	n = table_entries(&t->r, t->level + 1);
	if (!ram_has(&s->ram, pa, 8ull * n))
		return;
	child = table_of(s, pa);
	/* The same page as a table of another level: garbage, not a page table. */
	if (child && child->level != t->level + 1)
		return;
	link = malloc(sizeof(*link));
	if (!link)
		abort();
	link->parent = t;
	link->index = index;
	if (child) {
		link->next = child->parents;
		child->parents = link;
		if (child->global)
			table_global(t);
		table_announce(s, child);
		return;
	}
	child = table_new(s, pa, &t->r, t->level + 1, n);
	link->next = NULL;
	child->parents = link;
	table_read(s, child, now);
}

void table_unlink(struct spaces *s, struct table *t, unsigned int index)
{
	uint64_t desc = t->desc[index];
	struct table *child;
	struct link **at;

	if (desc_kind(&t->r, t->level, desc) != DESC_TABLE)
		return;
	child = table_of(s, desc_output(&t->r, t->level, desc));
	if (!child)
		return;
	for (at = &child->parents; *at; at = &(*at)->next) {
		struct link *link = *at;

		if (link->parent != t || link->index != index)
			continue;
		*at = link->next;
		free(link);
		if (table_lost(child))
			table_leave(s, child);
		return;
	}
}

/*
 * Returns the root table at @pa. It may be smaller than a page. If it was a root of another
 * size, or not a root, that table is forgotten. *fresh: it is new, and not read yet.
 */
static struct table *root_get(struct spaces *s, uint64_t pa, const struct regime *r,
			      bool *fresh)
{
	struct table *t;

	*fresh = false;
	if (r->off || !ram_has(&s->ram, pa, root_bytes(r)))
		return NULL;
	t = table_of(s, pa);
	if (t && (t->level != r->start || t->r.granule != r->granule || t->r.bits != r->bits ||
		  t->r.lpa2 != r->lpa2 || t->r.upper != r->upper)) {
		table_forget(s, t);
		t = NULL;
	}
	if (!t) {
		t = table_new(s, pa, r, r->start, table_entries(r, r->start));
		*fresh = true;
	}
	return t;
}

struct context *context_first(const struct spaces *s, uint16_t asid)
{
	struct hash_node *n = hash_first(&s->by_asid, asid);

	return n ? container_of(n, struct context, by_asid) : NULL;
}

struct context *context_next(const struct context *c)
{
	struct hash_node *n = hash_next(&c->by_asid);

	return n ? container_of(n, struct context, by_asid) : NULL;
}

static bool context_is(const struct context *c, uint64_t root, const struct regime *r)
{
	return c->root && c->root->pa == root && c->root->level == r->start &&
	       c->root->r.bits == r->bits;
}

static struct context *context_find(struct spaces *s, uint16_t asid, uint64_t root,
				    const struct regime *r)
{
	if (r->upper) {
		list_for(node, &s->kernels) {
			struct context *c = container_of(node, struct context, all);

			if (context_is(c, root, r))
				return c;
		}
		return NULL;
	}
	for (struct context *c = context_first(s, asid); c; c = context_next(c))
		if (context_is(c, root, r))
			return c;
	return NULL;
}

struct context *context_get(struct spaces *s, uint16_t asid, uint64_t root,
			    const struct regime *r, uint64_t now)
{
	struct context *c = context_find(s, asid, root, r);
	struct table *t;
	bool fresh;

	if (c)
		return c;
	t = root_get(s, root, r, &fresh);
	if (!t)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	context_init(c, asid);
	c->root = t;
	c->kernel = r->upper;
	list_add(&t->contexts, &c->in_root);
	if (c->kernel) {
		list_add(&s->kernels, &c->all);
	} else {
		list_add(&s->contexts, &c->all);
		hash_add(&s->by_asid, &c->by_asid, asid);
	}
	s->bytes += sizeof(*c);
	if (fresh)
		table_read(s, t, now);
	return c;
}

void context_load(struct context *c, unsigned int cpu, uint64_t now)
{
	c->loaded |= CPU(cpu);
	if (!c->first[cpu])
		c->first[cpu] = now;
}

/* A CPU cannot hold entries of an address space that never had a valid descriptor. */
void context_unload(struct context *c, unsigned int cpu, uint64_t now)
{
	c->loaded &= ~CPU(cpu);
	if (c->root ? c->root->seen_valid : !c->hollow)
		c->unloaded[cpu] = c->left[cpu] = now;
}

bool page_was_table(struct spaces *s, uint64_t pa)
{
	uint8_t *page;

	if (!ram_has(&s->ram, pa, 1))
		return false;
	page = &s->followed[(pa - s->ram.base) >> 12];
	if (*page != WAS_TABLE)
		return false;
	write_once(page, 0);
	return true;
}

cpumask context_holders(const struct spaces *s, const struct context *c, uint64_t since)
{
	cpumask held = c->loaded;

	for (unsigned int cpu = 0; cpu < s->ncpus; cpu++)
		if (c->unloaded[cpu] > c->flushed[cpu] && c->unloaded[cpu] > s->flushed_all[cpu] &&
		    (c->left[cpu] > since || c->current & CPU(cpu)))
			held |= CPU(cpu);
	return held;
}

cpumask context_walkers(const struct spaces *s, const struct context *c, uint64_t since)
{
	cpumask held = context_holders(s, c, since), left = held & ~c->loaded & ~c->current;
	unsigned int cpu;

	if (!c->root)
		return held;
	list_for(node, &c->root->contexts) {
		const struct context *o = container_of(node, struct context, in_root);

		for_cpus(cpu, left)
			if (c->left[cpu] <= o->flushed[cpu])
				held &= ~CPU(cpu);
	}
	return held;
}

struct table *table_at(const struct spaces *s, uint64_t pa, unsigned int *index)
{
	/*
	 * A table is a page of 4, 16 or 64 KiB; a root may be smaller, and of stage 2 up to 16 tables.
	 * The usual sizes come first.
	 */
	static const uint8_t shifts[] = { 12, 14, 16, 7, 6, 11, 10, 9, 8, 5, 4, 13, 15, 17, 18, 19, 20 };
	size_t n = sizeof(shifts) - (s->mapped ? 0 : 6);

	if (!page_is_followed(s, pa))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		struct table *t = table_of(s, pa >> shifts[i] << shifts[i]);

		if (!t || pa >= t->pa + 8ull * t->n)
			continue;
		*index = (pa - t->pa) / 8;
		return t;
	}
	return NULL;
}

static uint64_t extend(const struct regime *r, uint64_t va)
{
	return r->upper ? va | ~0ull << r->bits : va;
}

static void places(struct spaces *s, const struct table *t, uint64_t va,
		   place_fn fn, void *arg)
{
	for (const struct link *l = t->parents; l; l = l->next)
		places(s, l->parent,
		       va | (uint64_t)l->index << level_shift(&t->r, l->parent->level), fn, arg);
	list_for(node, &t->contexts)
		fn(arg, container_of(node, struct context, in_root), extend(&t->r, va));
}

void table_places(struct spaces *s, const struct table *t, unsigned int index,
		  place_fn fn, void *arg)
{
	places(s, t, (uint64_t)index << level_shift(&t->r, t->level), fn, arg);
}

static struct table *child_of(const struct spaces *s, const struct table *t, unsigned int index)
{
	struct table *child;

	if (desc_kind(&t->r, t->level, t->desc[index]) != DESC_TABLE)
		return NULL;
	child = table_of(s, desc_output(&t->r, t->level, t->desc[index]));
	/* A page that was freed may be the table of another descriptor by now. */
	if (!child || child->level != t->level + 1)
		return NULL;
	for (const struct link *l = child->parents; l; l = l->next)
		if (l->parent == t && l->index == index)
			return child;
	return NULL;
}

static void below(struct spaces *s, struct table *t, uint64_t offset, below_fn fn, void *arg)
{
	for (unsigned int i = 0; i < t->n; i++) {
		uint64_t at = offset + ((uint64_t)i << level_shift(&t->r, t->level));
		struct table *child;

		if (desc_kind(&t->r, t->level, t->desc[i]) == DESC_INVALID)
			continue;
		fn(arg, t, i, at);
		child = child_of(s, t, i);
		if (child)
			below(s, child, at, fn, arg);
	}
}

void table_all(struct spaces *s, struct table *t, below_fn fn, void *arg)
{
	below(s, t, 0, fn, arg);
}

void table_below(struct spaces *s, const struct table *t, unsigned int index,
		 below_fn fn, void *arg)
{
	struct table *child = child_of(s, t, index);

	if (child)
		below(s, child, 0, fn, arg);
}

void table_forget(struct spaces *s, struct table *t)
{
	while (t->parents) {
		struct link *link = t->parents;

		t->parents = link->next;
		free(link);
	}
	list_for(node, &t->contexts) {
		struct context *c = container_of(node, struct context, in_root);

		c->root = NULL;
		c->hollow = !t->seen_valid;
		list_del(&c->in_root);
	}
	table_leave(s, t);
}

void contexts_collect(struct spaces *s)
{
	for (int half = 0; half < 2; half++) {
		list_for(node, half ? &s->kernels : &s->contexts) {
			struct context *c = container_of(node, struct context, all);

			if (c->root || c->loaded || c->n_pending || c->n_used ||
			    !list_empty(&c->absent) || context_holders(s, c, 0))
				continue;
			list_del(&c->all);
			if (!c->kernel)
				hash_del(&s->by_asid, &c->by_asid);
			s->bytes -= sizeof(*c);
			free(c);
		}
	}
}
