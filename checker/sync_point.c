// SPDX-License-Identifier: GPL-2.0-only
/*
 * sync_point - rules for sync points, at which a kernel relies on a deferred flush. See sync_point.h.
 */
#include "once.h"
#include "sync_point.h"

/* --- Tasks that rely on the flush of another task's pending invalidation --- */

/*
 * The task of a CPU relies from now on on the flush of a pending invalidation of another task.
 * Nothing is to do for one that is due: no CPU may have its context loaded anyway.
 */
static void take_over(struct shadow *s, unsigned int cpu, struct pending *inv, uint64_t pc,
		      unsigned int *stack)
{
	struct also model = {
		.task = s->cpus[cpu].task, .pc = pc, .cpu = cpu,
	};

	if (inv->due || inv->context->kernel || inv->task == model.task)
		return;
	if (!*stack && s->stack)
		*stack = s->stack(s->arg, cpu, pc);
	model.stack = *stack;
	s->seen.sync_points++;
	also_make(&s->pendings, inv, &model);
}

void sync_returns(struct shadow *s, uint64_t task)
{
	struct also *a;

	while ((a = also_of(&s->pendings, task))) {
		struct pending *inv = a->pending;

		if (inv->held & inv->context->current && pending_say(inv, SAID_UNSETTLED))
			shadow_report_pending(s, a->cpu, a->pc, a->stack, RULE_PENDING_UNSETTLED, inv);
		also_free(&s->pendings, a);
	}
}

/* --- Where a task begins to rely on a flush --- */

void sync_touched(struct shadow *s, unsigned int cpu, struct context *c, uint64_t va,
		  int level, uint64_t desc, uint64_t pc)
{
	const struct cpu *me = &s->cpus[cpu];
	bool at_work = c->root && c->root->pa == me->range.root && va >= me->range.start &&
		       va < me->range.end;
	unsigned int stack = 0;

	for (struct pending *inv = pending_at(&s->pendings, c, va, level); inv;
	     inv = pending_at_next(inv)) {
		if (inv->task == me->task && !inv->due)
			inv->new = desc;
		/*
		 * A page was discarded if nothing was left in its place. What is there by now is
		 * something new, as after a page fault, and not what became of the page.
		 */
		if (inv->new || inv->collected)
			take_over(s, cpu, inv, pc, &stack);
		/* In a range Linux flushes deferred entries as soon as the task has the table lock. */
		if (at_work && inv->collected && !inv->due && inv->task != me->task &&
		    inv->held & inv->context->current && pending_say(inv, SAID_UNSETTLED))
			shadow_report_pending(s, cpu, pc, stack, RULE_PENDING_UNSETTLED, inv);
	}
}

/*
 * A pending invalidation in the range of a task. An entry that has lost permissions is still
 * valid: a task that changes it makes a pending invalidation of its own, and relies on no other.
 */
static void in_range(struct shadow *s, unsigned int cpu, struct pending *inv, uint64_t pc,
		     unsigned int *stack)
{
	if (inv->change != CHANGE_LESS)
		take_over(s, cpu, inv, pc, stack);
}

static void range_of(struct shadow *s, unsigned int cpu, struct context *c, uint64_t start,
		     uint64_t end, uint64_t pc, unsigned int *stack)
{
	const struct regime *r = &c->root->r;

	if (!c->n_pending)
		return;
	if (c->n_pending < 32 || c->n_pending / 5 <= (end - start) >> r->granule) {
		list_for(node, &c->pendings) {
			struct pending *inv = container_of(node, struct pending, in_context);

			if (inv->what.va < end && inv->what.va + inv->what.size > start)
				in_range(s, cpu, inv, pc, stack);
		}
		return;
	}
	for (uint64_t va = start & ~0ull << r->granule; va < end; va += 1ull << r->granule) {
		for (int level = r->start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(r, level);

			if (base != va && va > start)
				continue;	/* was found at a lower address */
			for (struct pending *inv = pending_at(&s->pendings, c, base, level); inv;
			     inv = pending_at_next(inv))
				in_range(s, cpu, inv, pc, stack);
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

			for (struct pending *inv = pending_at(&s->pendings, c, base, level); inv;
			     inv = pending_at_next(inv))
				if (inv->task == s->cpus[cpu].task && !inv->what.table && !inv->due)
					inv->collected = true;
		}
	}
}

/* A CPU that does not have the context loaded must flush before it loads it, and is not counted. */
cpumask sync_unissued(const struct pending *inv)
{
	return inv->collected ? inv->held & inv->context->loaded & ~inv->issued : 0;
}

/* --- Locks --- */

/* Mark the pending invalidations of this task whose page or table is now mapped at another address. */
void sync_moved(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t va,
		const struct table *t, unsigned int index)
{
	struct cpu *me = &s->cpus[cpu];
	bool table = desc_kind(&t->r, t->level, t->desc[index]) == DESC_TABLE;
	uint64_t page = desc_output(&t->r, t->level, t->desc[index]);

	if (!me->section || c->kernel)
		return;
	for (struct pending *inv = pending_of_page(&s->pendings, page); inv;
	     inv = pending_of_page_next(inv)) {
		if (inv->context != c || inv->task != me->task || inv->cpu != cpu || inv->due ||
		    inv->change == CHANGE_LESS || inv->what.table != table ||
		    inv->what.level != t->level || inv->what.va == va)
			continue;
		/* It is at the old address again, too: the page of zeros may be at many. */
		if (desc_kind(&t->r, t->level, inv->new) != DESC_INVALID &&
		    desc_output(&t->r, t->level, inv->new) == page)
			continue;
		inv->moved = me->moving = true;
	}
}

void shadow_unlock(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct cpu *me = &s->cpus[cpu];
	uint64_t since = me->section;
	struct list *l = pendings_of_task(&s->pendings, me->task);

	s->seen.unlocks++;
	me->section = 0;
	if (!me->moving || !l)
		return;
	me->moving = false;
	/*
	 * An entry that was taken away before the last unlock was not moved, but mapped
	 * again, as when a migration is given up.
	 */
	list_for(node, l) {
		struct pending *inv = container_of(node, struct pending, in_task);

		if (inv->moved && inv->cpu == cpu && inv->when >= since &&
		    inv->held & inv->context->current && pending_say(inv, SAID_UNLOCKED))
			shadow_report_pending(s, cpu, pc, stack_of(s, cpu, pc),
						 RULE_PENDING_UNLOCKED, inv);
	}
}

/* --- Reverse mappings --- */

static bool used_by_others(const struct shadow *s, const struct pending *inv)
{
	unsigned int cpu;

	for_cpus(cpu, inv->held & inv->context->current)
		if (read_once(&s->cpus[cpu].user))
			return true;
	return false;
}

/* Entries with which no user code runs, as when a process ends, may stay. */
void shadow_rmaps(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct list *l = pendings_of_task(&s->pendings, s->cpus[cpu].task);

	if (!l)
		return;
	list_for(node, l) {
		struct pending *inv = container_of(node, struct pending, in_task);

		if (!inv->what.table && inv->change != CHANGE_LESS && used_by_others(s, inv) &&
		    pending_say(inv, SAID_RMAP))
			shadow_report_pending(s, cpu, pc, stack_of(s, cpu, pc),
						 RULE_PENDING_RMAP, inv);
	}
}
