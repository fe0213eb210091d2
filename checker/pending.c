// SPDX-License-Identifier: GPL-2.0-only
/*
 * pending - pending invalidations: storage, and when they become due. See pending.h.
 */
#include <stdlib.h>
#include <string.h>

#include "once.h"
#include "pending.h"

/* More that were reported need not be kept. */
#define MOST_REPORTED 4096

struct task {
	struct hash_node node;
	struct list pendings;
};

/* A task, and the pending invalidations of other tasks whose flush it relies on. */
struct heir {
	struct hash_node node;		/* pendings.also, by task */
	struct list also;
};

const char *miss_name(enum miss m)
{
	static const char * const names[] = {
		[MISS_NONE] = "covered", [MISS_VA] = "va", [MISS_ASID] = "asid",
		[MISS_NOTHING] = "nothing", [MISS_LEVEL] = "level",
		[MISS_LAST] = "last", [MISS_LOCAL] = "local",
		[MISS_ORDER] = "order", [MISS_DSB] = "no-dsb", [MISS_REPEAT] = "repeat",
		[MISS_STAGE] = "stage",
	};

	return names[m];
}

enum miss pending_nearest(const struct pending *inv)
{
	enum miss nearest = MISS_NONE;

	for (unsigned int i = 0; i < inv->n_tlbis; i++)
		if (inv->tlbis[i].miss > nearest)
			nearest = inv->tlbis[i].miss;
	return nearest;
}

void pendings_init(struct pendings *o, uint64_t limit)
{
	memset(o, 0, sizeof(*o));
	o->limit = limit;
}

static uint64_t va_key(const struct context *c, uint64_t va)
{
	return hash_mix((uintptr_t)c, va >> 12);
}

struct list *pendings_of_task(struct pendings *o, uint64_t task)
{
	struct hash_node *n = hash_first(&o->tasks, task);

	return n ? &container_of(n, struct task, node)->pendings : NULL;
}

static void join_task(struct pendings *o, struct pending *inv)
{
	struct list *l = pendings_of_task(o, inv->task);

	if (!l) {
		struct task *t = malloc(sizeof(*t));

		if (!t)
			abort();
		list_init(&t->pendings);
		hash_add(&o->tasks, &t->node, inv->task);
		l = &t->pendings;
	}
	list_add(l, &inv->in_task);
}

/* --- Tasks that rely on the flush of another task's pending invalidation --- */

static struct heir *heir_of(const struct pendings *o, uint64_t task)
{
	struct hash_node *n = hash_first(&o->also, task);

	return n ? container_of(n, struct heir, node) : NULL;
}

void also_free(struct pendings *o, struct also *a)
{
	struct heir *h = heir_of(o, a->task);

	list_del(&a->in_pending);
	list_del(&a->in_task);
	if (h && list_empty(&h->also)) {
		hash_del(&o->also, &h->node);
		free(h);
	}
	add_once(&o->n_also, -1);
	free(a);
}

static void also_drop(struct pendings *o, struct pending *inv)
{
	while (!list_empty(&inv->also))
		also_free(o, container_of(inv->also.next, struct also, in_pending));
}

void also_make(struct pendings *o, struct pending *inv, const struct also *model)
{
	struct heir *h = heir_of(o, model->task);
	struct also *a;

	list_for(node, &inv->also)
		if (container_of(node, struct also, in_pending)->task == model->task)
			return;
	if (o->n_also >= o->limit) {
		o->overflow = true;
		return;
	}
	a = malloc(sizeof(*a));
	if (!h) {
		h = malloc(sizeof(*h));
		if (!h)
			abort();
		list_init(&h->also);
		hash_add(&o->also, &h->node, model->task);
	}
	if (!a)
		abort();
	*a = *model;
	a->pending = inv;
	list_add(&inv->also, &a->in_pending);
	list_add(&h->also, &a->in_task);
	add_once(&o->n_also, 1);
}

struct also *also_of(const struct pendings *o, uint64_t task)
{
	struct heir *h = heir_of(o, task);

	return h ? container_of(h->also.next, struct also, in_task) : NULL;
}

static void pending_open(struct pendings *o, struct pending *inv)
{
	join_task(o, inv);
	add_once(&o->open, 1);
	add_once(&o->open_kernel, inv->context->kernel);
}

struct pending *pending_make(struct pendings *o, const struct pending *model)
{
	struct pending *inv;

	if (o->n >= o->limit) {
		o->overflow = true;
		return NULL;
	}
	inv = malloc(sizeof(*inv));
	if (!inv)
		abort();
	*inv = *model;
	inv->due = inv->freed = inv->met = inv->collected = inv->moved = false;
	inv->said = 0;
	inv->sync_point.is = false;
	inv->issued = 0;
	list_init(&inv->also);
	inv->refs = 0;
	inv->n_tlbis = 0;
	hash_add(&o->by_va, &inv->by_va, va_key(inv->context, inv->what.va));
	hash_add(&o->by_page, &inv->by_page, inv->page >> 12);
	if (inv->walkers)
		hash_add(&o->by_slot, &inv->by_slot, inv->slot >> 12);
	list_add(&inv->context->pendings, &inv->in_context);
	inv->context->n_pending++;
	list_init(&inv->in_task);
	pending_open(o, inv);
	o->made++;
	add_once(&o->n, 1);
	if (o->n > o->most)
		o->most = o->n;
	if (inv->lazy)
		pending_due(o, inv);
	return inv;
}

void pending_less(struct pendings *o, struct pending *inv, uint64_t task, uint64_t desc)
{
	pending_due(o, inv);
	inv->context->n_due--;
	inv->context->n_urgent -= !inv->lazy && !(inv->said & SAID_PENDING);
	inv->due = inv->lazy = false;
	o->n_reported -= !!(inv->said & SAID_PENDING);
	inv->said &= ~SAID_PENDING;
	inv->change = CHANGE_LESS;
	inv->task = task;
	inv->new = desc;
	pending_open(o, inv);
}

void pending_due(struct pendings *o, struct pending *inv)
{
	struct list *rest = inv->in_task.next;

	if (inv->due)
		return;
	inv->due = true;
	inv->context->n_due++;
	inv->context->n_urgent += inv->context->kernel && !inv->lazy;
	add_once(&o->open, -1);
	add_once(&o->open_kernel, -inv->context->kernel);
	list_del(&inv->in_task);
	/* If it was the last one of its task, only the head of the list is left. */
	if (list_empty(rest)) {
		struct hash_node *n = hash_first(&o->tasks, inv->task);

		if (n && &container_of(n, struct task, node)->pendings == rest) {
			hash_del(&o->tasks, n);
			free(container_of(n, struct task, node));
		}
	}
}

void pending_freed(struct pending *inv, bool freed)
{
	add_once(&inv->context->n_freed, freed - inv->freed);
	inv->freed = freed;
}

bool pending_say(struct pending *inv, enum said what)
{
	bool first = !(inv->said & what);

	inv->said |= what;
	return first;
}

void pending_reported(struct pendings *o, struct pending *inv)
{
	pending_due(o, inv);
	if (!pending_say(inv, SAID_PENDING))
		return;
	inv->context->n_urgent -= inv->context->kernel && !inv->lazy;
	if (++o->n_reported > MOST_REPORTED)
		pending_drop(o, inv);
}

void pending_at_sync(struct pending *inv, const struct sync_point *at)
{
	add_once(&inv->context->n_sync_points, (at ? 1 : 0) - inv->sync_point.is);
	inv->sync_point.is = at;
	if (at)
		inv->sync_point = *at;
}

void pending_drop(struct pendings *o, struct pending *inv)
{
	struct context *c = inv->context;

	if (!inv->met) {
		pending_due(o, inv);
		also_drop(o, inv);
		inv->met = true;
		inv->held = inv->walkers = 0;
		c->n_due--;
		c->n_urgent -= c->kernel && !inv->lazy && !(inv->said & SAID_PENDING);
		o->n_reported -= !!(inv->said & SAID_PENDING);
		add_once(&c->n_freed, -inv->freed);
		add_once(&c->n_sync_points, -inv->sync_point.is);
		c->n_pending--;
		list_del(&inv->in_context);
		hash_del(&o->by_va, &inv->by_va);
		hash_del(&o->by_page, &inv->by_page);
		if (inv->by_slot.link)
			hash_del(&o->by_slot, &inv->by_slot);
		add_once(&o->n, -1);
	}
	if (!inv->refs)
		free(inv);
}

void pending_completed(struct pending *inv, unsigned int cpu, enum miss m)
{
	for (unsigned int i = 0; i < inv->n_tlbis; i++)
		if (inv->tlbis[i].tlbi.cpu == cpu && inv->tlbis[i].miss == MISS_DSB)
			inv->tlbis[i].miss = m;
}

/* If there is no room, keep those that came nearest, and of equally near ones the latest. */
void pending_saw(struct pending *inv, const struct tlbi_seen *t, enum miss m)
{
	unsigned int at = 0;

	if (inv->n_tlbis < PENDING_TLBIS) {
		at = inv->n_tlbis++;
	} else {
		for (unsigned int i = 1; i < PENDING_TLBIS; i++)
			if (inv->tlbis[i].miss < inv->tlbis[at].miss)
				at = i;
		if (inv->tlbis[at].miss > m)
			return;
	}
	inv->tlbis[at].tlbi = *t;
	inv->tlbis[at].miss = m;
}

static void free_all(struct pendings *o, struct list *contexts)
{
	list_for(node, contexts) {
		struct context *c = container_of(node, struct context, all);

		while (!list_empty(&c->pendings)) {
			struct pending *inv = container_of(c->pendings.next,
							      struct pending, in_context);

			inv->refs = 0;
			pending_drop(o, inv);
		}
	}
}

void pendings_free(struct pendings *o, struct spaces *s)
{
	free_all(o, &s->contexts);
	free_all(o, &s->kernels);
	free(o->by_va.bucket);
	free(o->by_page.bucket);
	free(o->by_slot.bucket);
	free(o->tasks.bucket);
	free(o->also.bucket);
}

struct pending *pending_of_kernel(struct pendings *o, uint64_t task)
{
	struct list *l = o->open_kernel ? pendings_of_task(o, task) : NULL;

	if (!l)
		return NULL;
	list_for(node, l) {
		struct pending *inv = container_of(node, struct pending, in_task);

		if (inv->context->kernel && inv->change != CHANGE_GONE)
			return inv;
	}
	return NULL;
}

#define LOOKUP(field, node) \
	((node) ? container_of(node, struct pending, field) : NULL)

static struct pending *same_va(struct hash_node *n, const struct context *c,
				  uint64_t va, int level)
{
	for (; n; n = hash_next(n)) {
		struct pending *inv = container_of(n, struct pending, by_va);

		if (inv->context == c && inv->what.va == va && inv->what.level == level)
			return inv;
	}
	return NULL;
}

struct pending *pending_at(const struct pendings *o, const struct context *c, uint64_t va,
			  int level)
{
	return same_va(hash_first(&o->by_va, va_key(c, va)), c, va, level);
}

struct pending *pending_at_next(const struct pending *inv)
{
	return same_va(hash_next(&inv->by_va), inv->context, inv->what.va, inv->what.level);
}

struct pending *pending_of_page(const struct pendings *o, uint64_t page)
{
	struct hash_node *n = hash_first(&o->by_page, page >> 12);

	return LOOKUP(by_page, n);
}

struct pending *pending_of_page_next(const struct pending *inv)
{
	struct hash_node *n = hash_next(&inv->by_page);

	return LOOKUP(by_page, n);
}

struct pending *pending_of_slot(const struct pendings *o, uint64_t page)
{
	struct hash_node *n = hash_first(&o->by_slot, page >> 12);

	return LOOKUP(by_slot, n);
}

struct pending *pending_of_slot_next(const struct pending *inv)
{
	struct hash_node *n = hash_next(&inv->by_slot);

	return LOOKUP(by_slot, n);
}
