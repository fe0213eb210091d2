// SPDX-License-Identifier: GPL-2.0-only
/*
 * owe - obligations: storage, and when they become due. See owe.h.
 */
#include <stdlib.h>
#include <string.h>

#include "once.h"
#include "owe.h"

/* More that are owed, and known to be, need not be kept. */
#define MOST_OWED 4096

struct task {
	struct hash_node node;
	struct list obligations;
};

/* A task, and the obligations of other tasks whose flush it relies on. */
struct heir {
	struct hash_node node;		/* obligations.also, by task */
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

enum miss owe_nearest(const struct obligation *obl)
{
	enum miss nearest = MISS_NONE;

	for (unsigned int i = 0; i < obl->n_tlbis; i++)
		if (obl->tlbis[i].miss > nearest)
			nearest = obl->tlbis[i].miss;
	return nearest;
}

void owes_init(struct obligations *o, uint64_t limit)
{
	memset(o, 0, sizeof(*o));
	o->limit = limit;
}

static uint64_t va_key(const struct context *c, uint64_t va)
{
	return hash_mix((uintptr_t)c, va >> 12);
}

struct list *owes_of_task(struct obligations *o, uint64_t task)
{
	struct hash_node *n = hash_first(&o->tasks, task);

	return n ? &container_of(n, struct task, node)->obligations : NULL;
}

static void join_task(struct obligations *o, struct obligation *obl)
{
	struct list *l = owes_of_task(o, obl->task);

	if (!l) {
		struct task *t = malloc(sizeof(*t));

		if (!t)
			abort();
		list_init(&t->obligations);
		hash_add(&o->tasks, &t->node, obl->task);
		l = &t->obligations;
	}
	list_add(l, &obl->in_task);
}

/* --- Tasks that rely on the flush of another task's obligation --- */

static struct heir *heir_of(const struct obligations *o, uint64_t task)
{
	struct hash_node *n = hash_first(&o->also, task);

	return n ? container_of(n, struct heir, node) : NULL;
}

void also_free(struct obligations *o, struct also *a)
{
	struct heir *h = heir_of(o, a->task);

	list_del(&a->in_obligation);
	list_del(&a->in_task);
	if (h && list_empty(&h->also)) {
		hash_del(&o->also, &h->node);
		free(h);
	}
	add_once(&o->n_also, -1);
	free(a);
}

static void also_drop(struct obligations *o, struct obligation *obl)
{
	while (!list_empty(&obl->also))
		also_free(o, container_of(obl->also.next, struct also, in_obligation));
}

void also_make(struct obligations *o, struct obligation *obl, const struct also *model)
{
	struct heir *h = heir_of(o, model->task);
	struct also *a;

	list_for(node, &obl->also)
		if (container_of(node, struct also, in_obligation)->task == model->task)
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
	a->obligation = obl;
	list_add(&obl->also, &a->in_obligation);
	list_add(&h->also, &a->in_task);
	add_once(&o->n_also, 1);
}

struct also *also_of(const struct obligations *o, uint64_t task)
{
	struct heir *h = heir_of(o, task);

	return h ? container_of(h->also.next, struct also, in_task) : NULL;
}

static void owe_open(struct obligations *o, struct obligation *obl)
{
	join_task(o, obl);
	add_once(&o->open, 1);
	add_once(&o->open_kernel, obl->context->kernel);
}

bool owe_lazy(const struct obligation *obl)
{
	return obl->context->kernel && obl->change == CHANGE_GONE;
}

struct obligation *owe_make(struct obligations *o, const struct obligation *model)
{
	struct obligation *obl;

	if (o->n >= o->limit) {
		o->overflow = true;
		return NULL;
	}
	obl = malloc(sizeof(*obl));
	if (!obl)
		abort();
	*obl = *model;
	obl->due = obl->freed = obl->met = obl->collected = obl->moved = false;
	obl->said = 0;
	obl->relied.is = false;
	obl->issued = 0;
	list_init(&obl->also);
	obl->refs = 0;
	obl->n_tlbis = 0;
	hash_add(&o->by_va, &obl->by_va, va_key(obl->context, obl->what.va));
	hash_add(&o->by_page, &obl->by_page, obl->page >> 12);
	if (obl->walkers)
		hash_add(&o->by_slot, &obl->by_slot, obl->slot >> 12);
	list_add(&obl->context->obligations, &obl->in_context);
	obl->context->n_obligations++;
	list_init(&obl->in_task);
	owe_open(o, obl);
	o->made++;
	add_once(&o->n, 1);
	if (o->n > o->most)
		o->most = o->n;
	if (owe_lazy(obl))
		owe_due(o, obl);
	return obl;
}

void owe_less(struct obligations *o, struct obligation *obl, uint64_t task, uint64_t desc)
{
	owe_due(o, obl);
	obl->context->n_due--;
	obl->due = false;
	o->n_owed -= !!(obl->said & SAID_OWED);
	obl->said &= ~SAID_OWED;
	obl->change = CHANGE_LESS;
	obl->task = task;
	obl->new = desc;
	owe_open(o, obl);
}

void owe_due(struct obligations *o, struct obligation *obl)
{
	struct list *rest = obl->in_task.next;

	if (obl->due)
		return;
	obl->due = true;
	obl->context->n_due++;
	obl->context->n_urgent += obl->context->kernel && !owe_lazy(obl);
	add_once(&o->open, -1);
	add_once(&o->open_kernel, -obl->context->kernel);
	list_del(&obl->in_task);
	/* If it was the last one of its task, only the head of the list is left. */
	if (list_empty(rest)) {
		struct hash_node *n = hash_first(&o->tasks, obl->task);

		if (n && &container_of(n, struct task, node)->obligations == rest) {
			hash_del(&o->tasks, n);
			free(container_of(n, struct task, node));
		}
	}
}

void owe_freed(struct obligation *obl, bool freed)
{
	add_once(&obl->context->n_freed, freed - obl->freed);
	obl->freed = freed;
}

bool owe_say(struct obligation *obl, enum said what)
{
	bool first = !(obl->said & what);

	obl->said |= what;
	return first;
}

void owe_owed(struct obligations *o, struct obligation *obl)
{
	owe_due(o, obl);
	if (!owe_say(obl, SAID_OWED))
		return;
	obl->context->n_urgent -= obl->context->kernel && !owe_lazy(obl);
	if (++o->n_owed > MOST_OWED)
		owe_drop(o, obl);
}

void owe_relied(struct obligation *obl, const struct relied *at)
{
	add_once(&obl->context->n_relied, (at ? 1 : 0) - obl->relied.is);
	obl->relied.is = at;
	if (at)
		obl->relied = *at;
}

void owe_drop(struct obligations *o, struct obligation *obl)
{
	struct context *c = obl->context;

	if (!obl->met) {
		owe_due(o, obl);
		also_drop(o, obl);
		obl->met = true;
		obl->held = obl->walkers = 0;
		c->n_due--;
		c->n_urgent -= c->kernel && !owe_lazy(obl) && !(obl->said & SAID_OWED);
		o->n_owed -= !!(obl->said & SAID_OWED);
		add_once(&c->n_freed, -obl->freed);
		add_once(&c->n_relied, -obl->relied.is);
		c->n_obligations--;
		list_del(&obl->in_context);
		hash_del(&o->by_va, &obl->by_va);
		hash_del(&o->by_page, &obl->by_page);
		if (obl->by_slot.link)
			hash_del(&o->by_slot, &obl->by_slot);
		add_once(&o->n, -1);
	}
	if (!obl->refs)
		free(obl);
}

void owe_completed(struct obligation *obl, unsigned int cpu, enum miss m)
{
	for (unsigned int i = 0; i < obl->n_tlbis; i++)
		if (obl->tlbis[i].tlbi.cpu == cpu && obl->tlbis[i].miss == MISS_DSB)
			obl->tlbis[i].miss = m;
}

/* If there is no room, keep those that came nearest, and of equally near ones the latest. */
void owe_saw(struct obligation *obl, const struct tlbi_seen *t, enum miss m)
{
	unsigned int at = 0;

	if (obl->n_tlbis < OWE_TLBIS) {
		at = obl->n_tlbis++;
	} else {
		for (unsigned int i = 1; i < OWE_TLBIS; i++)
			if (obl->tlbis[i].miss < obl->tlbis[at].miss)
				at = i;
		if (obl->tlbis[at].miss > m)
			return;
	}
	obl->tlbis[at].tlbi = *t;
	obl->tlbis[at].miss = m;
}

static void free_all(struct obligations *o, struct list *contexts)
{
	list_for(node, contexts) {
		struct context *c = container_of(node, struct context, all);

		while (!list_empty(&c->obligations)) {
			struct obligation *obl = container_of(c->obligations.next,
							      struct obligation, in_context);

			obl->refs = 0;
			owe_drop(o, obl);
		}
	}
}

void owes_free(struct obligations *o, struct spaces *s)
{
	free_all(o, &s->contexts);
	free_all(o, &s->kernels);
	free(o->by_va.bucket);
	free(o->by_page.bucket);
	free(o->by_slot.bucket);
	free(o->tasks.bucket);
	free(o->also.bucket);
}

struct obligation *owe_of_kernel(struct obligations *o, uint64_t task)
{
	struct list *l = o->open_kernel ? owes_of_task(o, task) : NULL;

	if (!l)
		return NULL;
	list_for(node, l) {
		struct obligation *obl = container_of(node, struct obligation, in_task);

		if (obl->context->kernel)
			return obl;
	}
	return NULL;
}

#define LOOKUP(field, node) \
	((node) ? container_of(node, struct obligation, field) : NULL)

static struct obligation *same_va(struct hash_node *n, const struct context *c,
				  uint64_t va, int level)
{
	for (; n; n = hash_next(n)) {
		struct obligation *obl = container_of(n, struct obligation, by_va);

		if (obl->context == c && obl->what.va == va && obl->what.level == level)
			return obl;
	}
	return NULL;
}

struct obligation *owe_at(const struct obligations *o, const struct context *c, uint64_t va,
			  int level)
{
	return same_va(hash_first(&o->by_va, va_key(c, va)), c, va, level);
}

struct obligation *owe_at_next(const struct obligation *obl)
{
	return same_va(hash_next(&obl->by_va), obl->context, obl->what.va, obl->what.level);
}

struct obligation *owe_of_page(const struct obligations *o, uint64_t page)
{
	struct hash_node *n = hash_first(&o->by_page, page >> 12);

	return LOOKUP(by_page, n);
}

struct obligation *owe_of_page_next(const struct obligation *obl)
{
	struct hash_node *n = hash_next(&obl->by_page);

	return LOOKUP(by_page, n);
}

struct obligation *owe_of_slot(const struct obligations *o, uint64_t page)
{
	struct hash_node *n = hash_first(&o->by_slot, page >> 12);

	return LOOKUP(by_slot, n);
}

struct obligation *owe_of_slot_next(const struct obligation *obl)
{
	struct hash_node *n = hash_next(&obl->by_slot);

	return LOOKUP(by_slot, n);
}
