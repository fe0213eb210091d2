// SPDX-License-Identifier: GPL-2.0-only
/*
 * rely - rules for places at which a kernel relies on a deferred flush. See rely.h.
 */
#include "once.h"
#include "rely.h"

/* --- Tasks that rely on the flush of another task's obligation --- */

/*
 * The task of a CPU relies from now on on the flush of an obligation of another task.
 * Nothing is to do for one that is due: no CPU may have its context loaded anyway.
 */
static void take_over(struct shadow *s, unsigned int cpu, struct obligation *obl, uint64_t pc,
		      unsigned int *stack)
{
	struct also model = {
		.task = s->cpus[cpu].task, .pc = pc, .cpu = cpu,
	};

	if (obl->due || obl->context->kernel || obl->task == model.task)
		return;
	if (!*stack && s->stack)
		*stack = s->stack(s->arg, cpu, pc);
	model.stack = *stack;
	s->seen.relied++;
	also_make(&s->obligations, obl, &model);
}

void rely_returns(struct shadow *s, uint64_t task)
{
	struct also *a;

	while ((a = also_of(&s->obligations, task))) {
		struct obligation *obl = a->obligation;

		if (obl->held & obl->context->current && owe_say(obl, SAID_UNSETTLED))
			shadow_report_obligation(s, a->cpu, a->pc, a->stack, RULE_OWED_UNSETTLED, obl);
		also_free(&s->obligations, a);
	}
}

/* --- Where a task begins to rely on a flush --- */

void rely_touched(struct shadow *s, unsigned int cpu, struct context *c, uint64_t va,
		  int level, uint64_t desc, uint64_t pc)
{
	const struct cpu *me = &s->cpus[cpu];
	bool at_work = c->root && c->root->pa == me->range.root && va >= me->range.start &&
		       va < me->range.end;
	unsigned int stack = 0;

	for (struct obligation *obl = owe_at(&s->obligations, c, va, level); obl;
	     obl = owe_at_next(obl)) {
		if (obl->task == me->task && !obl->due)
			obl->new = desc;
		/*
		 * A page was discarded if nothing was left in its place. What is there by now is
		 * something new, as after a page fault, and not what became of the page.
		 */
		if (obl->new || obl->collected)
			take_over(s, cpu, obl, pc, &stack);
		/* In a range Linux flushes deferred entries as soon as the task has the table lock. */
		if (at_work && obl->collected && !obl->due && obl->task != me->task &&
		    obl->held & obl->context->current && owe_say(obl, SAID_UNSETTLED))
			shadow_report_obligation(s, cpu, pc, stack, RULE_OWED_UNSETTLED, obl);
	}
}

/*
 * An obligation in the range of a task. An entry that has lost permissions is still
 * valid: a task that changes it makes an obligation of its own, and relies on no other.
 */
static void in_range(struct shadow *s, unsigned int cpu, struct obligation *obl, uint64_t pc,
		     unsigned int *stack)
{
	if (obl->change != CHANGE_LESS)
		take_over(s, cpu, obl, pc, stack);
}

static void range_of(struct shadow *s, unsigned int cpu, struct context *c, uint64_t start,
		     uint64_t end, uint64_t pc, unsigned int *stack)
{
	const struct regime *r = &c->root->r;

	if (!c->n_obligations)
		return;
	if (c->n_obligations < 32 || c->n_obligations / 5 <= (end - start) >> r->granule) {
		list_for(node, &c->obligations) {
			struct obligation *obl = container_of(node, struct obligation, in_context);

			if (obl->what.va < end && obl->what.va + obl->what.size > start)
				in_range(s, cpu, obl, pc, stack);
		}
		return;
	}
	for (uint64_t va = start & ~0ull << r->granule; va < end; va += 1ull << r->granule) {
		for (int level = r->start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(r, level);

			if (base != va && va > start)
				continue;	/* was found at a lower address */
			for (struct obligation *obl = owe_at(&s->obligations, c, base, level); obl;
			     obl = owe_at_next(obl))
				in_range(s, cpu, obl, pc, stack);
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

			for (struct obligation *obl = owe_at(&s->obligations, c, base, level); obl;
			     obl = owe_at_next(obl))
				if (obl->task == s->cpus[cpu].task && !obl->what.table && !obl->due)
					obl->collected = true;
		}
	}
}

/* A CPU that does not have the context loaded must flush before it loads it, and is not counted. */
cpumask rely_unissued(const struct obligation *obl)
{
	return obl->collected ? obl->held & obl->context->loaded & ~obl->issued : 0;
}

/* --- Locks --- */

/* Mark the obligations of this task whose page or table is now mapped at another address. */
void rely_moved(struct shadow *s, unsigned int cpu, const struct context *c, uint64_t va,
		const struct table *t, unsigned int index)
{
	struct cpu *me = &s->cpus[cpu];
	bool table = desc_kind(&t->r, t->level, t->desc[index]) == DESC_TABLE;
	uint64_t page = desc_output(&t->r, t->level, t->desc[index]);

	if (!me->section || c->kernel)
		return;
	for (struct obligation *obl = owe_of_page(&s->obligations, page); obl;
	     obl = owe_of_page_next(obl)) {
		if (obl->context != c || obl->task != me->task || obl->cpu != cpu || obl->due ||
		    obl->change == CHANGE_LESS || obl->what.table != table ||
		    obl->what.level != t->level || obl->what.va == va)
			continue;
		/* It is at the old address again, too: the page of zeros may be at many. */
		if (desc_kind(&t->r, t->level, obl->new) != DESC_INVALID &&
		    desc_output(&t->r, t->level, obl->new) == page)
			continue;
		obl->moved = me->moving = true;
	}
}

void shadow_unlock(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct cpu *me = &s->cpus[cpu];
	uint64_t since = me->section;
	struct list *l = owes_of_task(&s->obligations, me->task);

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
		struct obligation *obl = container_of(node, struct obligation, in_task);

		if (obl->moved && obl->cpu == cpu && obl->when >= since &&
		    obl->held & obl->context->current && owe_say(obl, SAID_UNLOCKED))
			shadow_report_obligation(s, cpu, pc, stack_of(s, cpu, pc),
						 RULE_OWED_UNLOCKED, obl);
	}
}

/* --- Reverse mappings --- */

static bool used_by_others(const struct shadow *s, const struct obligation *obl)
{
	unsigned int cpu;

	for_cpus(cpu, obl->held & obl->context->current)
		if (read_once(&s->cpus[cpu].user))
			return true;
	return false;
}

/* Entries with which no user code runs, as when a process ends, may stay. */
void shadow_rmaps(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct list *l = owes_of_task(&s->obligations, s->cpus[cpu].task);

	if (!l)
		return;
	list_for(node, l) {
		struct obligation *obl = container_of(node, struct obligation, in_task);

		if (!obl->what.table && obl->change != CHANGE_LESS && used_by_others(s, obl) &&
		    owe_say(obl, SAID_RMAP))
			shadow_report_obligation(s, cpu, pc, stack_of(s, cpu, pc),
						 RULE_OWED_RMAP, obl);
	}
}
