// SPDX-License-Identifier: GPL-2.0-only
/*
 * rely - rules for places at which a kernel relies on a deferred flush. See rely.h.
 */
#include <stdlib.h>

#include "rely.h"

/* A task, and the obligations of other tasks whose flush it relies on. */
struct heir {
	struct hash_node node;		/* owes.also, by task */
	struct list also;
};

/* --- Tasks that rely on the flush of another task's obligation --- */

static struct heir *heir_of(const struct owes *o, uint64_t task)
{
	struct hash_node *n = hash_first(&o->also, task);

	return n ? container_of(n, struct heir, node) : NULL;
}

static void also_free(struct owes *o, struct also *a)
{
	struct heir *h = heir_of(o, a->task);

	list_del(&a->in_owe);
	list_del(&a->in_task);
	if (h && list_empty(&h->also)) {
		hash_del(&o->also, &h->node);
		free(h);
	}
	o->n_also--;
	free(a);
}

void also_drop(struct owes *o, struct owe *w)
{
	while (!list_empty(&w->also))
		also_free(o, container_of(w->also.next, struct also, in_owe));
}

static void also_make(struct owes *o, struct owe *w, const struct also *model)
{
	struct heir *h = heir_of(o, model->task);
	struct also *a;

	list_for(node, &w->also)
		if (container_of(node, struct also, in_owe)->task == model->task)
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
	a->owe = w;
	list_add(&w->also, &a->in_owe);
	list_add(&h->also, &a->in_task);
	o->n_also++;
}

/*
 * The task of a CPU relies from now on on the flush of an obligation of another task.
 * Nothing is to do for one that is due: no CPU may have its context loaded anyway.
 */
static void take_over(struct shadow *s, unsigned int cpu, struct owe *w, uint64_t pc,
		      unsigned int *stack)
{
	struct also model = {
		.task = s->cpus[cpu].task, .pc = pc, .cpu = cpu,
	};

	if (w->due || w->context->kernel || w->task == model.task)
		return;
	if (!*stack && s->stack)
		*stack = s->stack(s->arg, cpu, pc);
	model.stack = *stack;
	s->seen.relied++;
	also_make(&s->owes, w, &model);
}

void rely_returns(struct shadow *s, uint64_t task)
{
	struct heir *h;

	while ((h = heir_of(&s->owes, task))) {
		struct also *a = container_of(h->also.next, struct also, in_task);
		struct owe *w = a->owe;

		if (!(w->held & w->context->current)) {
			also_free(&s->owes, a);
			continue;
		}
		shadow_report_owe(s, a->cpu, a->pc, a->stack, "owed", "unsettled", w);
		owe_drop(&s->owes, w);
	}
}

/* --- Where a task begins to rely on a flush --- */

void rely_touched(struct shadow *s, unsigned int cpu, struct context *c, uint64_t va,
		  int level, uint64_t pc)
{
	const struct cpu *me = &s->cpus[cpu];
	bool at_work = c->root && c->root->pa == me->range.root && va >= me->range.start &&
		       va < me->range.end;
	unsigned int stack = 0;
	struct owe *next;

	for (struct owe *w = owe_at(&s->owes, c, va, level); w; w = next) {
		next = owe_at_next(w);
		take_over(s, cpu, w, pc, &stack);
		/* In a range Linux flushes deferred entries as soon as the task has the table lock. */
		if (!at_work || !w->collected || w->due || w->task == me->task ||
		    !(w->held & w->context->current))
			continue;
		shadow_report_owe(s, cpu, pc, stack, "owed", "unsettled", w);
		owe_drop(&s->owes, w);
	}
}

/*
 * An obligation in the range of a task. An entry that has lost permissions is still
 * valid: a task that changes it makes an obligation of its own, and relies on no other.
 */
static void in_range(struct shadow *s, unsigned int cpu, struct owe *w, uint64_t pc,
		     unsigned int *stack)
{
	if (w->change != CHANGE_LESS)
		take_over(s, cpu, w, pc, stack);
}

static void range_of(struct shadow *s, unsigned int cpu, struct context *c, uint64_t start,
		     uint64_t end, uint64_t pc, unsigned int *stack)
{
	const struct regime *r = &c->root->r;

	if (!c->n_owes)
		return;
	if (c->n_owes < 32 || c->n_owes / 5 <= (end - start) >> r->granule) {
		list_for(node, &c->owes) {
			struct owe *w = container_of(node, struct owe, in_context);

			if (w->what.va < end && w->what.va + w->what.size > start)
				in_range(s, cpu, w, pc, stack);
		}
		return;
	}
	for (uint64_t va = start & ~0ull << r->granule; va < end; va += 1ull << r->granule) {
		for (int level = r->start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(r, level);

			if (base != va && va > start)
				continue;	/* was found at a lower address */
			for (struct owe *w = owe_at(&s->owes, c, base, level); w; w = owe_at_next(w))
				in_range(s, cpu, w, pc, stack);
		}
	}
}

static struct table *root_at(const struct shadow *s, uint64_t root)
{
	unsigned int index;
	struct table *t = table_at(&s->spaces, root, &index);

	return t && t->pa == root && !list_empty(&t->contexts) ? t : NULL;
}

bool shadow_is_root(const struct shadow *s, uint64_t root)
{
	return root_at(s, root);
}

void shadow_range(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t start,
		  uint64_t end, uint64_t pc)
{
	struct table *t = root_at(s, root);
	unsigned int stack = 0;

	if (!t)
		return;
	s->seen.ranges++;
	s->cpus[cpu].range.root = root;
	s->cpus[cpu].range.start = start;
	s->cpus[cpu].range.end = end;
	list_for(node, &t->contexts)
		range_of(s, cpu, container_of(node, struct context, in_root), start, end, pc, &stack);
}

/* --- Deferred flushes --- */

void shadow_collected(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t va)
{
	struct table *t = root_at(s, root);

	if (!t)
		return;
	list_for(node, &t->contexts) {
		struct context *c = container_of(node, struct context, in_root);

		for (int level = t->r.start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(&t->r, level);

			for (struct owe *w = owe_at(&s->owes, c, base, level); w; w = owe_at_next(w))
				if (w->task == s->cpus[cpu].task && !w->what.table && !w->due)
					w->collected = true;
		}
	}
}

/* A CPU that does not have the context loaded must flush before it loads it, and is not counted. */
cpumask rely_unissued(const struct owe *w)
{
	return w->collected ? w->held & w->context->loaded & ~w->issued : 0;
}

/* --- Locks --- */

/* Mark the obligations of this task whose page or table is now mapped at another address. */
void rely_moved(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t va,
		const struct table *t, unsigned int index)
{
	struct cpu *me = &s->cpus[cpu];
	bool table = desc_kind(&t->r, t->level, t->desc[index]) == DESC_TABLE;

	if (!me->section || c->kernel)
		return;
	for (struct owe *w = owe_of_page(&s->owes, desc_output(&t->r, t->level, t->desc[index])); w;
	     w = owe_of_page_next(w)) {
		if (w->context != c || w->task != me->task || w->cpu != cpu || w->due ||
		    w->change == CHANGE_LESS || w->what.table != table ||
		    w->what.level != t->level || w->what.va == va)
			continue;
		w->moved = me->moving = true;
	}
}

void shadow_unlock(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct cpu *me = &s->cpus[cpu];
	uint64_t since = me->section;
	struct list *l = owes_of_task(&s->owes, me->task);
	struct list *next;

	s->seen.unlocks++;
	me->section = 0;
	if (!me->moving || !l)
		return;
	me->moving = false;
	/*
	 * An entry that was taken away before the last unlock was not moved, but mapped
	 * again, as when a migration is given up. owe_drop() of the last entry frees
	 * the head of the list.
	 */
	for (struct list *node = l->next; node != l; node = next) {
		struct owe *w = container_of(node, struct owe, in_task);
		bool last = node->next == l;

		next = node->next;
		if (!w->moved || w->cpu != cpu || w->when < since || !(w->held & w->context->current))
			continue;
		shadow_report_owe(s, cpu, pc, s->stack ? s->stack(s->arg, cpu, pc) : 0,
				  "owed", "unlocked", w);
		owe_drop(&s->owes, w);
		if (last)
			return;
	}
}

/* --- Reverse mappings --- */

static bool used_by_others(const struct shadow *s, const struct owe *w)
{
	unsigned int cpu;

	for_cpus(cpu, w->held & w->context->current)
		if (s->cpus[cpu].user)
			return true;
	return false;
}

/* Entries with which no user code runs, as when a process ends, may stay. */
void shadow_rmaps(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct list *l = owes_of_task(&s->owes, s->cpus[cpu].task), *next;

	if (!l)
		return;
	/* owe_drop() of the last entry frees the head of the list. */
	for (struct list *node = l->next; node != l; node = next) {
		struct owe *w = container_of(node, struct owe, in_task);
		bool last = node->next == l;

		next = node->next;
		if (w->what.table || w->change == CHANGE_LESS || !used_by_others(s, w))
			continue;
		shadow_report_owe(s, cpu, pc, s->stack ? s->stack(s->arg, cpu, pc) : 0,
				  "owed", "rmap", w);
		owe_drop(&s->owes, w);
		if (last)
			return;
	}
}
