// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow_store - stores to page tables. See shadow.h.
 *
 * A store that clears or replaces a valid descriptor, or takes permissions away, makes
 * a pending invalidation (pending.h) for the old entry in each context that reaches the descriptor.
 * If the store unlinks a table, it also makes pending invalidations for the valid entries below
 * that table. A store that writes a valid descriptor withdraws the pending invalidations for old
 * entries that the new descriptor allows. The rule `bbm` is checked at both.
 *
 * No break-before-make is needed for another output address if neither entry can be
 * written through and both pages have the same contents (Arm ARM D8.17.1 in issues K and
 * L, "Using break-before-make when updating translation table entries"). This must hold
 * for the new entry and each older one that a CPU can still hold.
 */
#include "cover.h"
#include "shadow_internal.h"
#include "sync_point.h"

struct change {
	struct shadow *s;
	struct table *t;		/* of the descriptor that the store changed */
	unsigned int cpu;
	uint64_t pc;
	unsigned int stack;
	uint64_t when;
	uint64_t old, new;
	uint64_t slot, since;
	enum desc_change kind;
	bool was_valid;
	enum rule bbm;			/* how the store itself breaks the rule; RULE_NONE: it does not */
	bool judge_older;		/* the new entry may contradict older ones than @old */
	uint64_t differs;		/* see struct finding; of the entries compared last */
	/* The descriptor at hand, below a table that was unlinked or linked: */
	struct table *low;
	unsigned int low_index;
	uint64_t offset;
};

static cpumask holders_of(struct shadow *s, const struct context *c, uint64_t va,
			  int level, bool table, uint64_t since)
{
	const struct used *e;

	if (s->speculation || c->kernel)
		return context_holders(&s->spaces, c, since);
	e = used_find(&s->used, c, va, level, table);
	return e ? e->cpus : 0;
}

/* Make the pending invalidation for the old entry at @va of a context, whose descriptor was at @slot. */
static void pend_entry(struct change *ch, struct context *c, uint64_t va, const struct regime *r,
		      int level, uint64_t slot, uint64_t old, uint64_t new, uint64_t since)
{
	struct shadow *s = ch->s;
	bool table = desc_kind(r, level, old) == DESC_TABLE;
	struct pending model = {
		.context = c,
		.what = {
			.va = va,
			.size = 1ull << level_shift(r, level),
			.asid = c->asid,
			.global = (c->kernel || !table) && desc_global(r, old),
			.table = table,
			.level = level,
		},
		.change = ch->kind,
		.old = old,
		.new = new,
		.page = desc_output(r, level, old),
		.twin = ch->kind == CHANGE_BBM && !ch->bbm ? desc_output(r, level, new) : 0,
		.slot = slot,
		.since = since,
		.lazy = c->kernel && ch->kind == CHANGE_GONE && va >= s->lazy_start && va < s->lazy_end,
		.when = ch->when,
		.task = s->cpus[ch->cpu].task,
		.pc = ch->pc,
		.stack = ch->stack,
		.cpu = ch->cpu,
		.held = holders_of(s, c, va, level, table, since),
	};

	if (!model.held)
		return;
	if (s->stage2)
		model.alone = model.held;
	if (s->physical)
		model.walkers = model.held & s->physical & context_walkers(&s->spaces, c, since);
	/* A due pending invalidation for the same CPUs already forbids them to load the context: keep one. */
	for (struct pending *inv = pending_at(&s->pendings, c, va, level); inv;
	     inv = pending_at_next(inv))
		if (inv->due && !(inv->said & SAID_PENDING) && inv->what.table == table && !(model.held & ~inv->held) &&
		    (!model.walkers || (inv->slot == slot && !(model.walkers & ~inv->walkers))))
			return;
	if (!pending_make(&s->pendings, &model))
		return;
	s->seen.pending++;
	if (s->reports.cover)
		cover_pending(s->reports.cover, &model, ch->stack ? &s->reports.stacks[ch->stack - 1] : NULL);
	if (!s->cpus[ch->cpu].section)
		s->cpus[ch->cpu].section = ch->when;
}

/* Returns why CPUs may not hold both entries of one address; RULE_NONE: they may. The change is CHANGE_BBM. */
static enum rule bbm_kind(struct change *ch, const struct regime *r, int level, uint64_t old,
			    uint64_t new)
{
	enum desc_kind a = desc_kind(r, level, old), b = desc_kind(r, level, new);
	uint64_t from = desc_output(r, level, old), to = desc_output(r, level, new);

	ch->differs = 0;
	if (a != b)
		return RULE_BBM_SIZE;
	if (from != to) {
		if (a == DESC_TABLE)
			return RULE_BBM_TABLE;
		if (desc_writable(r, old) || desc_writable(r, new))
			return RULE_BBM_OUTPUT;
		ch->differs = ram_differs(&ch->s->spaces.ram, from, to, 1ull << level_shift(r, level));
		if (ch->differs)
			return RULE_BBM_CONTENTS;
		if (!desc_clash(r, old, new))
			return RULE_NONE;
	}
	if (desc_contiguous(old) != desc_contiguous(new))
		return RULE_BBM_CONTIGUOUS;
	if (desc_global(r, old) != desc_global(r, new))
		return RULE_BBM_GLOBAL;
	return RULE_BBM_ATTRIBUTES;
}

static void report_bbm(struct change *ch, struct context *c, uint64_t va, enum rule rule,
		       enum rule conflict, const struct table *t, uint64_t old, uint64_t new, cpumask held,
		       const struct pending *inv)
{
	struct shadow *s = ch->s;
	const struct regime *r = &t->r;
	struct finding f = finding_here(s, ch->cpu, ch->pc, rule);

	f.asid = c->asid;
	f.kernel = c->kernel;
	f.va = va;
	f.level = t->level;
	f.table = desc_kind(r, t->level, old) == DESC_TABLE;
	f.old = old;
	f.new = new;
	f.old_page = desc_output(r, t->level, old);
	f.new_page = desc_output(r, t->level, new);
	f.conflict = rules[conflict].kind;
	f.differs = ch->differs;
	f.holders = held;
	if (inv) {
		f.va = inv->what.va;
		f.level = inv->what.level;
		f.table = inv->what.table;
		f.old_page = inv->page;
		finding_changed(&f, inv);
	}
	report(&s->reports, &f);
}

/*
 * Returns the CPUs that may use two entries of a context. With KPTI a CPU in user space does not have the kernel's
 * tables loaded, and comes back with what it holds. Nor does a host know when a virtual CPU comes back.
 */
static cpumask may_hit(const struct change *ch, const struct context *c)
{
	return c->kernel || ch->s->stage2 ? ~(cpumask)0 : c->loaded;
}

/* A valid descriptor has changed for the worse: for one context that reaches it, at @va. */
static void old_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;
	const struct table *t = ch->t;

	if (ch->bbm) {
		cpumask held = holders_of(ch->s, c, va, t->level,
					  desc_kind(&t->r, t->level, ch->old) == DESC_TABLE,
					  ch->since) & may_hit(ch, c);

		if (held)
			report_bbm(ch, c, va, ch->bbm, ch->bbm, t, ch->old, ch->new, held, NULL);
	}
	pend_entry(ch, c, va, &t->r, t->level, ch->slot, ch->old, ch->new, ch->since);
}

/* The same for a descriptor below a table that was unlinked. */
static void lost_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;
	struct table *t = ch->low;

	pend_entry(ch, c, va + ch->offset, &t->r, t->level, t->pa + 8ull * ch->low_index,
		  t->desc[ch->low_index], 0, t->since[ch->low_index]);
}

/*
 * bbm/anew, bbm/older: the new descriptor contradicts the old entry of a pending invalidation, and
 * a CPU that has the context loaded can hold the old entry. In the kernel's half that is
 * always wrong. In a process two threads may do it legitimately: one has cleared the
 * entry and is about to flush, the other faults the page in. There it is wrong only
 * when one task does both, or when the new entry is larger: a CPU that has both may
 * raise a TLB conflict abort (Arm ARM D8.17.1).
 */
static void contradicts(struct change *ch, struct context *c, const struct table *t,
			unsigned int index, const struct pending *inv)
{
	bool larger = inv->what.level > t->level ||
		      (desc_contiguous(t->desc[index]) && !desc_contiguous(inv->old));
	cpumask held = inv->held & may_hit(ch, c);
	enum rule conflict;

	if (!ch->judge_older || !held ||
	    (!c->kernel && !larger &&
	     (inv->task != ch->s->cpus[ch->cpu].task || inv->due)))
		return;
	ch->differs = 0;
	/* An entry that is smaller than a new block always contradicts the block. */
	conflict = inv->what.level != t->level ? RULE_BBM_SIZE :
		   bbm_kind(ch, &t->r, t->level, inv->old, t->desc[index]);
	if (conflict)
		report_bbm(ch, c, inv->what.va, ch->was_valid ? RULE_BBM_OLDER : RULE_BBM_ANEW, conflict, t, inv->old,
			   t->desc[index], held, inv);
}

/* bbm/collected: the flush of the old entry was deferred, and no TLBI was issued for it yet. */
static void collected_anew(struct change *ch, struct context *c, const struct table *t,
			   unsigned int index, struct pending *inv)
{
	cpumask left = sync_unissued(inv);

	if (ch->was_valid || !left || !pending_say(inv, SAID_COLLECTED))
		return;
	ch->differs = 0;
	report_bbm(ch, c, inv->what.va, RULE_BBM_COLLECTED, RULE_NONE, t, inv->old, t->desc[index], left, inv);
}

/*
 * A descriptor is valid now, for one context at @va. Check the pending invalidations for old
 * entries at this address, whichever table their descriptors were in.
 *
 * A pending invalidation is withdrawn when the new descriptor allows all that the old one did,
 * at the same output address: old entries are true again. Old entries that are smaller
 * than a new block contradict the block.
 */
static void made_anew(struct change *ch, struct context *c, uint64_t va, struct table *t,
		      unsigned int index)
{
	uint64_t desc = t->desc[index], end = va + (1ull << level_shift(&t->r, t->level));
	struct shadow *s = ch->s;
	struct pending *next;

	for (struct pending *inv = pending_at(&s->pendings, c, va, t->level); inv; inv = next) {
		enum desc_change kind = desc_change(&t->r, t->level, inv->old, desc);

		next = pending_at_next(inv);
		if (!inv->held)
			continue;
		if (kind <= CHANGE_MORE) {
			if (inv->since < t->since[index])
				t->since[index] = inv->since;
			walks_withdraw(s, inv, t->pa + 8ull * index);
			continue;
		}
		if (kind == CHANGE_BBM)
			contradicts(ch, c, t, index, inv);
		else if (c->kernel && inv->change == CHANGE_GONE)
			/* The same page again, and less is allowed: no vfree(). */
			pending_less(&s->pendings, inv, s->cpus[ch->cpu].task, desc);
		/* What its task wrote in place of the old entry, which it cleared before. */
		if (inv->task == s->cpus[ch->cpu].task && !inv->due)
			inv->new = desc;
		collected_anew(ch, c, t, index, inv);
	}
	sync_moved(s, ch->cpu, c, va, t, index);
	if (t->level == 3 || desc_kind(&t->r, t->level, desc) != DESC_LEAF)
		return;
	list_for(node, &c->pendings) {
		struct pending *inv = container_of(node, struct pending, in_context);

		if (inv->what.level <= t->level || inv->what.va < va || inv->what.va >= end)
			continue;
		contradicts(ch, c, t, index, inv);
		collected_anew(ch, c, t, index, inv);
	}
}

/* An invalid descriptor replaced another one: the task may rely on the flush of an older, valid one. */
static void touched_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;

	sync_touched(ch->s, ch->cpu, c, va, ch->t->level, ch->new, ch->pc);
}

static void new_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;

	made_anew(ch, c, va, ch->t, (ch->slot - ch->t->pa) / 8);
}

static void found_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;

	made_anew(ch, c, va + ch->offset, ch->low, ch->low_index);
}

static void each_below(struct change *ch, place_fn fn, struct table *t, unsigned int index,
		       uint64_t offset)
{
	ch->low = t;
	ch->low_index = index;
	ch->offset = offset;
	table_places(&ch->s->spaces, ch->t, (ch->slot - ch->t->pa) / 8, fn, ch);
}

static void lost_below(void *arg, struct table *t, unsigned int index, uint64_t offset)
{
	each_below(arg, lost_place, t, index, offset);
}

static void found_below(void *arg, struct table *t, unsigned int index, uint64_t offset)
{
	each_below(arg, found_place, t, index, offset);
}

static void descriptor_stored(struct shadow *s, unsigned int cpu, struct table *t,
			      unsigned int index, uint64_t pc)
{
	struct change ch = {
		.s = s, .t = t, .cpu = cpu, .pc = pc,
		.old = t->desc[index],
		.slot = t->pa + 8ull * index,
		.since = t->since[index],
	};
	enum desc_kind was, is;

	if (!ram_read(&s->spaces.ram, ch.slot, &ch.new) || ch.old == ch.new)
		return;
	s->seen.table_stores++;
	ch.when = tick(s);
	ch.kind = desc_change(&t->r, t->level, ch.old, ch.new);
	was = desc_kind(&t->r, t->level, ch.old);
	is = desc_kind(&t->r, t->level, ch.new);
	ch.was_valid = was != DESC_INVALID;
	if (ch.kind == CHANGE_BBM) {
		ch.bbm = bbm_kind(&ch, &t->r, t->level, ch.old, ch.new);
		s->seen.repointed += !ch.bbm;
	}
	ch.judge_older = !ch.was_valid || ch.kind == CHANGE_MORE || (ch.kind == CHANGE_BBM && !ch.bbm);
	if (ch.kind >= CHANGE_LESS) {
		ch.stack = stack_of(s, cpu, pc);
		table_places(&s->spaces, t, index, old_place, &ch);
		if (was == DESC_TABLE && ch.kind > CHANGE_LESS) {
			table_below(&s->spaces, t, index, lost_below, &ch);
			table_unlink(&s->spaces, t, index);
		}
	}
	if (!ch.was_valid && is == DESC_INVALID && !s->stage2 && !desc_aged(ch.old, ch.new) && s->pendings.n)
		table_places(&s->spaces, t, index, touched_place, &ch);
	t->desc[index] = ch.new;
	if (s->spaces.mapped) {
		table_maps(&s->spaces, t, ch.old, -1);
		table_maps(&s->spaces, t, ch.new, 1);
	}
	contig_stored(s, cpu, t, index, ch.old, pc);
	if (is == DESC_INVALID)
		return;
	t->seen_valid = true;
	if (leaf_is_global(&t->r, t->level, ch.new))
		table_global(t);
	if (!ch.was_valid || ch.kind >= CHANGE_LESS)
		t->since[index] = ch.when;
	if (is == DESC_TABLE && (was != DESC_TABLE || ch.kind > CHANGE_LESS))
		table_link(&s->spaces, t, index, ch.when);
	if (!s->pendings.n)
		return;
	table_places(&s->spaces, t, index, new_place, &ch);
	if (is == DESC_TABLE)
		table_below(&s->spaces, t, index, found_below, &ch);
}

void shadow_store(struct shadow *s, unsigned int cpu, uint64_t pa, unsigned int size,
		  uint64_t pc)
{
	for (uint64_t at = pa & ~7ull; at < pa + size; at += 8) {
		unsigned int index;
		struct table *t = table_at(&s->spaces, at, &index);

		if (t)
			descriptor_stored(s, cpu, t, index, pc);
		if (s->walks.fresh)
			walks_check(s, cpu, pc);
	}
}
