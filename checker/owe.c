// SPDX-License-Identifier: GPL-2.0-only
/*
 * owe - obligations: storage, and when they become due. See owe.h.
 */
#include <stdlib.h>
#include <string.h>

#include "owe.h"
#include "rely.h"

struct task {
	struct hash_node node;
	struct list owes;
};

const char *miss_name(enum miss m)
{
	static const char * const names[] = {
		[MISS_NONE] = "covered", [MISS_VA] = "va", [MISS_ASID] = "asid",
		[MISS_NOTHING] = "nothing", [MISS_LEVEL] = "level",
		[MISS_LAST] = "last", [MISS_LOCAL] = "local",
		[MISS_ORDER] = "order", [MISS_DSB] = "no-dsb",
	};

	return names[m];
}

void owes_init(struct owes *o, uint64_t limit)
{
	memset(o, 0, sizeof(*o));
	o->limit = limit;
}

static uint64_t va_key(const struct context *c, uint64_t va)
{
	return hash_mix((uintptr_t)c, va >> 12);
}

struct list *owes_of_task(struct owes *o, uint64_t task)
{
	struct hash_node *n = hash_first(&o->tasks, task);

	return n ? &container_of(n, struct task, node)->owes : NULL;
}

static void join_task(struct owes *o, struct owe *w)
{
	struct list *l = owes_of_task(o, w->task);

	if (!l) {
		struct task *t = malloc(sizeof(*t));

		if (!t)
			abort();
		list_init(&t->owes);
		hash_add(&o->tasks, &t->node, w->task);
		l = &t->owes;
	}
	list_add(l, &w->in_task);
}

static void owe_open(struct owes *o, struct owe *w)
{
	join_task(o, w);
	o->open++;
	o->open_kernel += w->context->kernel;
}

struct owe *owe_make(struct owes *o, const struct owe *model)
{
	struct owe *w;

	if (o->n >= o->limit) {
		o->overflow = true;
		return NULL;
	}
	w = malloc(sizeof(*w));
	if (!w)
		abort();
	*w = *model;
	w->due = w->freed = w->met = w->told = w->collected = w->moved = false;
	w->relied.is = false;
	w->issued = 0;
	list_init(&w->also);
	w->refs = 0;
	w->n_tlbis = 0;
	hash_add(&o->by_va, &w->by_va, va_key(w->context, w->what.va));
	hash_add(&o->by_page, &w->by_page, w->page >> 12);
	if (w->walkers)
		hash_add(&o->by_slot, &w->by_slot, w->slot >> 12);
	list_add(&w->context->owes, &w->in_context);
	w->context->n_owes++;
	list_init(&w->in_task);
	owe_open(o, w);
	o->made++;
	if (++o->n > o->most)
		o->most = o->n;
	/* Nobody waits for the flush of a cleared leaf of the kernel: vfree() may flush at any later time. */
	if (w->context->kernel && w->change != CHANGE_LESS)
		owe_due(o, w);
	return w;
}

void owe_less(struct owes *o, struct owe *w, uint64_t task, uint64_t desc)
{
	owe_due(o, w);
	w->context->n_due--;
	w->due = false;
	w->change = CHANGE_LESS;
	w->task = task;
	w->new = desc;
	owe_open(o, w);
}

static bool counts_less(const struct owe *w)
{
	return w->context->kernel && w->change == CHANGE_LESS;
}

void owe_due(struct owes *o, struct owe *w)
{
	struct list *rest = w->in_task.next;

	if (w->due)
		return;
	w->due = true;
	w->context->n_due++;
	w->context->n_less += counts_less(w);
	o->open--;
	o->open_kernel -= w->context->kernel;
	list_del(&w->in_task);
	/* If it was the last one of its task, only the head of the list is left. */
	if (list_empty(rest)) {
		struct hash_node *n = hash_first(&o->tasks, w->task);

		if (n && &container_of(n, struct task, node)->owes == rest) {
			hash_del(&o->tasks, n);
			free(container_of(n, struct task, node));
		}
	}
}

void owe_freed(struct owe *w)
{
	if (w->freed)
		return;
	w->freed = true;
	w->context->n_freed++;
}

void owe_relied(struct owe *w, const struct relied *at)
{
	w->context->n_relied += (at ? 1u : 0u) - (w->relied.is ? 1u : 0u);
	w->told = !at;
	w->relied.is = at;
	if (at)
		w->relied = *at;
}

void owe_drop(struct owes *o, struct owe *w)
{
	struct context *c = w->context;

	if (!w->met) {
		owe_due(o, w);
		also_drop(o, w);
		w->met = true;
		w->held = w->walkers = 0;
		c->n_due--;
		c->n_less -= counts_less(w);
		c->n_freed -= w->freed;
		c->n_relied -= w->relied.is;
		c->n_owes--;
		list_del(&w->in_context);
		hash_del(&o->by_va, &w->by_va);
		hash_del(&o->by_page, &w->by_page);
		if (w->by_slot.link)
			hash_del(&o->by_slot, &w->by_slot);
		o->n--;
	}
	if (!w->refs)
		free(w);
}

/* If there is no room, keep those that came nearest, and of equally near ones the latest. */
void owe_saw(struct owe *w, const struct tlbi_seen *t, enum miss m)
{
	unsigned int at = 0;

	if (w->n_tlbis < OWE_TLBIS) {
		at = w->n_tlbis++;
	} else {
		for (unsigned int i = 1; i < OWE_TLBIS; i++)
			if (w->tlbis[i].miss < w->tlbis[at].miss)
				at = i;
		if (w->tlbis[at].miss > m)
			return;
	}
	w->tlbis[at].tlbi = *t;
	w->tlbis[at].miss = m;
}

static void free_all(struct owes *o, struct list *contexts)
{
	list_for(node, contexts) {
		struct context *c = container_of(node, struct context, all);

		while (!list_empty(&c->owes)) {
			struct owe *w = container_of(c->owes.next, struct owe, in_context);

			w->refs = 0;
			owe_drop(o, w);
		}
	}
}

void owes_free(struct owes *o, struct spaces *s)
{
	free_all(o, &s->contexts);
	free_all(o, &s->kernels);
	free(o->by_va.bucket);
	free(o->by_page.bucket);
	free(o->by_slot.bucket);
	free(o->tasks.bucket);
	free(o->also.bucket);
}

struct owe *owe_of_kernel(struct owes *o, uint64_t task)
{
	struct list *l = o->open_kernel ? owes_of_task(o, task) : NULL;

	if (!l)
		return NULL;
	list_for(node, l) {
		struct owe *w = container_of(node, struct owe, in_task);

		if (w->context->kernel)
			return w;
	}
	return NULL;
}

#define LOOKUP(field, node) \
	((node) ? container_of(node, struct owe, field) : NULL)

static struct owe *same_va(struct hash_node *n, const struct context *c,
			   uint64_t va, int level)
{
	for (; n; n = hash_next(n)) {
		struct owe *w = container_of(n, struct owe, by_va);

		if (w->context == c && w->what.va == va && w->what.level == level)
			return w;
	}
	return NULL;
}

struct owe *owe_at(const struct owes *o, const struct context *c, uint64_t va, int level)
{
	return same_va(hash_first(&o->by_va, va_key(c, va)), c, va, level);
}

struct owe *owe_at_next(const struct owe *w)
{
	return same_va(hash_next(&w->by_va), w->context, w->what.va, w->what.level);
}

struct owe *owe_of_page(const struct owes *o, uint64_t page)
{
	struct hash_node *n = hash_first(&o->by_page, page >> 12);

	return LOOKUP(by_page, n);
}

struct owe *owe_of_page_next(const struct owe *w)
{
	struct hash_node *n = hash_next(&w->by_page);

	return LOOKUP(by_page, n);
}

struct owe *owe_of_slot(const struct owes *o, uint64_t page)
{
	struct hash_node *n = hash_first(&o->by_slot, page >> 12);

	return LOOKUP(by_slot, n);
}

struct owe *owe_of_slot_next(const struct owe *w)
{
	struct hash_node *n = hash_next(&w->by_slot);

	return LOOKUP(by_slot, n);
}
