// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow - the checker's events and rules. See shadow.h.
 */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "rely.h"
#include "shadow.h"
#include "written.h"
#include "unload.h"

/* About 300 bytes each: 150 MB. Linux makes one per page of what it unmaps at once. */
#define MOST_OBLIGATIONS 500000

#define TTBR_CNP	1ull
#define TTBR_ASID(ttbr)	((ttbr) >> 48)
#define TCR_A1		(1ull << 22)	/* the ASID is TTBR1's */
#define TCR_AS		(1ull << 36)	/* it has 16 bits */
#define SCTLR_M		1ull

static cpumask all_cpus(const struct shadow *s)
{
	return s->ncpus == 64 ? ~0ull : CPU(s->ncpus) - 1;
}

bool shadow_init(struct shadow *s, const struct ram *ram, unsigned int ncpus,
		 bool speculation, FILE *out)
{
	memset(s, 0, sizeof(*s));
	s->ncpus = ncpus;
	s->speculation = speculation;
	s->now = 1;
	s->reports.out = out;
	owes_init(&s->obligations, MOST_OBLIGATIONS);
	s->cpus = aligned_alloc(128, ncpus * sizeof(*s->cpus));
	if (!s->cpus || ncpus > MAX_CPUS)
		return false;
	memset(s->cpus, 0, ncpus * sizeof(*s->cpus));
	if (!spaces_init(&s->spaces, ram, ncpus))
		return false;
	walks_init(s);
	return true;
}

void shadow_free_all(struct shadow *s)
{
	list_for(node, &s->spaces.contexts)
		used_drop_context(&s->used, container_of(node, struct context, all));
	free(s->used.by_va.bucket);
	contig_free(s);
	for (unsigned int cpu = 0; cpu < s->ncpus; cpu++) {
		struct cpu *c = &s->cpus[cpu];

		for (unsigned int i = 0; i < c->n_pending; i++) {
			struct obligation *obl = c->pending[i].obligation;

			if (obl && !--obl->refs && obl->met)
				free(obl);
		}
		free(c->pending);
	}
	walks_free(s);
	globals_free(&s->globals);
	owes_free(&s->obligations, &s->spaces);
	spaces_free(&s->spaces);
	reports_free(&s->reports);
	free(s->cpus);
}

static uint64_t tick(struct shadow *s)
{
	return __atomic_add_fetch(&s->now, 1, __ATOMIC_RELAXED);
}

static unsigned int stack_of(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	return s->stack ? s->stack(s->arg, cpu, pc) : 0;
}

/* --- Reports --- */

struct finding finding_here(struct shadow *s, unsigned int cpu, uint64_t pc,
			    const char *rule, const char *kind)
{
	return (struct finding){
		.rule = rule, .kind = kind, .cpu = cpu, .pc = pc,
		.stack = stack_of(s, cpu, pc), .task = s->cpus[cpu].task,
	};
}

static const struct regime *regime_in(const struct shadow *s, unsigned int cpu, bool upper)
{
	const struct cpu *c = &s->cpus[cpu];

	return upper ? &c->upper : &c->lower;
}

void shadow_report_obligation(struct shadow *s, unsigned int cpu, uint64_t pc, unsigned int stack,
			      const char *rule, const char *kind, const struct obligation *obl)
{
	const struct regime *r = regime_in(s, cpu, obl->context->kernel);
	struct finding f = { .rule = rule, .kind = kind, .cpu = cpu, .pc = pc, .stack = stack };

	f.asid = obl->context->asid;
	f.kernel = obl->context->kernel;
	f.va = obl->what.va;
	f.level = obl->what.level;
	f.table = obl->what.table;
	f.old = obl->old;
	f.new = obl->new;
	f.old_page = obl->page;
	if (desc_kind(r, obl->what.level, obl->new) != DESC_INVALID)
		f.new_page = desc_output(r, obl->what.level, obl->new);
	f.task = obl->task;
	f.holders = obl->held;
	f.changed = true;
	f.changed_cpu = obl->cpu;
	f.changed_pc = obl->pc;
	f.changed_stack = obl->stack;
	f.obligation = obl;
	report(&s->reports, &f);
}

static void report_obligation(struct shadow *s, unsigned int cpu, uint64_t pc,
			      const char *rule, const char *kind, const struct obligation *obl)
{
	shadow_report_obligation(s, cpu, pc, stack_of(s, cpu, pc), rule, kind, obl);
}

/* The CPUs @who run while kernel entries are invalid that they may use. */
static void report_pause(struct shadow *s, unsigned int cpu, const char *kind, cpumask who,
			 uint64_t pc)
{
	struct finding f = finding_here(s, cpu, pc, "pause", kind);

	f.kernel = true;
	f.holders = who;
	report(&s->reports, &f);
}

const char *owed_kind(const struct obligation *obl)
{
	enum miss nearest = MISS_NONE;

	for (unsigned int i = 0; i < obl->n_tlbis; i++)
		if (obl->tlbis[i].miss > nearest)
			nearest = obl->tlbis[i].miss;
	switch (nearest) {
	case MISS_DSB:
		return "no-dsb";
	case MISS_ORDER:
		return "order";
	case MISS_LOCAL:
		return "local";
	case MISS_LAST:
		return "table";
	case MISS_LEVEL:
	case MISS_NOTHING:
		return "level";
	case MISS_ASID:
		return "asid";
	case MISS_VA:
	case MISS_NONE:
		break;
	}
	if (obl->what.table)
		return "table";
	return obl->change == CHANGE_LESS ? "permission" : "no-tlbi";
}

/* --- Obligations become due, and are checked --- */

/* The CPU has the context: report the due obligations whose old entry it can still hold. */
static void check_due(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!c->n_due)
		return;
	list_for(node, &c->obligations) {
		struct obligation *obl = container_of(node, struct obligation, in_context);

		if (!obl->due || !(obl->held & CPU(cpu)))
			continue;
		if (obl->context->kernel && obl->change != CHANGE_LESS)
			continue;	/* vfree() may flush whenever it likes */
		if (obl->freed && !obl->what.table)
			continue;	/* check_freed() */
		report_obligation(s, cpu, pc, "owed", owed_kind(obl), obl);
		owe_drop(&s->obligations, obl);
	}
}

/* User code runs with the context: report old entries that lead to freed pages. */
static void check_freed(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!c->n_freed)
		return;
	list_for(node, &c->obligations) {
		struct obligation *obl = container_of(node, struct obligation, in_context);

		if (!obl->freed || !(obl->held & CPU(cpu)))
			continue;
		report_obligation(s, cpu, pc, "free", obl->what.table ? "table" : "page", obl);
		owe_drop(&s->obligations, obl);
	}
}

/* Returns the CPUs that may use the entries of a context that they hold. */
static cpumask using(const struct context *c)
{
	return c->kernel ? c->loaded : c->current;
}

/* An obligation becomes due: report it if a CPU can use the old entry now. */
static void falls_due(struct shadow *s, unsigned int cpu, struct obligation *obl, uint64_t pc)
{
	if (obl->held & using(obl->context)) {
		report_obligation(s, cpu, pc, "owed", owed_kind(obl), obl);
		owe_drop(&s->obligations, obl);
	} else {
		owe_due(&s->obligations, obl);
		walks_due(s, cpu, obl, pc);
	}
}

/* A task returns to user space: its obligations become due. */
static void task_returns(struct shadow *s, unsigned int cpu, uint64_t task, uint64_t pc)
{
	struct list *l;

	while ((l = owes_of_task(&s->obligations, task)))
		falls_due(s, cpu, container_of(l->next, struct obligation, in_task), pc);
	rely_returns(s, task);
}

/*
 * A task sleeps. Obligations for permissions in the kernel's half that it has taken
 * away become due: a kernel thread never returns to user space, and nothing limits
 * how long a task sleeps.
 */
void shadow_sleeps(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	uint64_t task = s->cpus[cpu].task;

	for (struct obligation *obl = owe_of_kernel(&s->obligations, task); obl;
	     obl = owe_of_kernel(&s->obligations, task))
		falls_due(s, cpu, obl, pc);
}

static void to_user(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];

	c->user = true;
	if (c->context)
		written_user(s, cpu, c->context);
	contig_user(s, c->task);
	c->range.root = 0;
	task_returns(s, cpu, c->task, pc);
	if (c->context)
		check_freed(s, cpu, c->context, pc);
}

/* --- Which context a CPU has --- */

static void report_asid(struct shadow *s, unsigned int cpu, const struct context *c,
			const struct context *o, const char *kind, cpumask holders, uint64_t pc)
{
	struct finding f = finding_here(s, cpu, pc, "asid", kind);

	f.asid = c->asid;
	f.holders = holders;
	f.old_page = o->root ? o->root->pa : 0;
	f.new_page = c->root->pa;
	report(&s->reports, &f);
}

/* Returns the CPUs that have a context loaded and share their TLB entries (FEAT_TTCNP). */
static cpumask sharing(const struct shadow *s, const struct context *o)
{
	cpumask found = 0;
	unsigned int cpu;

	for_cpus(cpu, o->loaded)
		if (s->cpus[cpu].ttbr0 & TTBR_CNP)
			found |= CPU(cpu);
	return found;
}

/*
 * A CPU gets an ASID. Report it if it can hold entries made under this ASID with
 * another root, or if with CnP another CPU has another root under this ASID. A root
 * that never had a valid descriptor, such as the reserved one, is not checked.
 */
static void check_reuse(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!c->root->seen_valid)
		return;
	for (struct context *o = context_first(&s->spaces, c->asid); o; o = context_next(o)) {
		cpumask shared;

		if (o == c)
			continue;
		if (context_holders(&s->spaces, o, 0) & CPU(cpu)) {
			report_asid(s, cpu, c, o, "reused", CPU(cpu), pc);
			o->left[cpu] = 0;
		}
		if (!(s->cpus[cpu].ttbr0 & TTBR_CNP) || !o->root || !o->root->seen_valid)
			continue;
		shared = sharing(s, o);
		if (shared)
			report_asid(s, cpu, c, o, "shared", shared, pc);
	}
}

static void set_context(struct shadow *s, unsigned int cpu, struct context *next,
			uint64_t now, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	struct context *o;

	if (c->context) {
		context_unload(c->context, cpu, now);
		globals_left(s, cpu, c->context, now);
		if (!next || next->asid != c->context->asid)
			for (o = context_first(&s->spaces, c->context->asid); o; o = context_next(o)) {
				/* Until now it may have walked from table descriptors in its TLB. */
				if (context_holders(&s->spaces, o, 0) & CPU(cpu))
					o->left[cpu] = now;
				o->current &= ~CPU(cpu);
			}
	}
	c->context = next;
	if (!next)
		return;
	s->seen.loads++;
	check_reuse(s, cpu, next, pc);
	context_load(next, cpu);
	unload_check(s, cpu, next, pc);
	for (o = context_first(&s->spaces, next->asid); o; o = context_next(o)) {
		if (o->current & CPU(cpu))
			continue;
		o->current |= CPU(cpu);
		unload_check(s, cpu, o, pc);
		check_due(s, cpu, o, pc);
	}
	walks_loaded(s, cpu, next, pc);
	globals_check(s, cpu, next, pc);
	if (c->user)
		written_user(s, cpu, next);
	if (c->user)
		check_freed(s, cpu, next, pc);
}

/* TTBRs, TCR or SCTLR have changed: find the contexts that are in force now. */
static void reload(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	struct context *next = NULL, *kernel = NULL;
	uint64_t now = tick(s);

	c->asid_mask = c->tcr & TCR_AS ? 0xffff : 0xff;
	if (c->mmu) {
		uint64_t asid = TTBR_ASID(c->tcr & TCR_A1 ? c->ttbr1 : c->ttbr0) & c->asid_mask;

		if (c->upper_ok)
			kernel = context_get(&s->spaces, 0, ttbr_base(&c->upper, c->ttbr1),
					     &c->upper, now);
		if (c->lower_ok)
			next = context_get(&s->spaces, asid, ttbr_base(&c->lower, c->ttbr0),
					   &c->lower, now);
	}
	if (next != c->context)
		set_context(s, cpu, next, now, pc);
	if (kernel != c->kernel) {
		if (c->kernel)
			context_unload(c->kernel, cpu, now);
		if (kernel)
			context_load(kernel, cpu);
		c->kernel = kernel;
		if (kernel && kernel->n_less)
			check_due(s, cpu, kernel, pc);
	}
	walks_check(s, cpu, pc);
}

void shadow_msr(struct shadow *s, unsigned int cpu, enum sysreg reg, uint64_t value,
		uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];

	switch (reg) {
	case REG_SP_EL0:
		/*
		 * Linux keeps the task in SP_EL0 while the CPU is in the kernel. It
		 * writes the user stack pointer there on the way to user space.
		 */
		if (value >> 63) {
			if (c->task != value)
				c->range.root = 0;
			c->task = value;
			c->user = false;
		} else {
			s->seen.user_returns++;
			to_user(s, cpu, pc);
		}
		return;
	case REG_TTBR0:
		c->ttbr0 = value;
		break;
	case REG_TTBR1:
		c->ttbr1 = value;
		break;
	case REG_TCR:
		c->tcr = value;
		c->lower_ok = regime_of(value, false, &c->lower);
		c->upper_ok = regime_of(value, true, &c->upper);
		break;
	case REG_SCTLR:
		if (s->broken && value & SCTLR_M && !c->mmu)
			report_pause(s, cpu, "running", CPU(cpu), pc);
		c->mmu = value & SCTLR_M;
		break;
	case REG_MAIR: case SYSREGS:
		return;
	}
	reload(s, cpu, pc);
}

/* --- Stores to tables --- */

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

/* Make the obligation for the old entry at @va of a context, whose descriptor was at @slot. */
static void owe_entry(struct change *ch, struct context *c, uint64_t va, const struct regime *r,
		      int level, uint64_t slot, uint64_t old, uint64_t new, uint64_t since)
{
	struct shadow *s = ch->s;
	bool table = desc_kind(r, level, old) == DESC_TABLE;
	struct obligation model = {
		.context = c,
		.what = {
			.va = va,
			.size = 1ull << level_shift(r, level),
			.asid = c->asid,
			.global = (c->kernel || !table) && desc_global(old),
			.table = table,
			.level = level,
		},
		.change = ch->kind,
		.old = old,
		.new = new,
		.page = desc_output(r, level, old),
		.slot = slot,
		.since = since,
		.when = ch->when,
		.task = s->cpus[ch->cpu].task,
		.pc = ch->pc,
		.stack = ch->stack,
		.cpu = ch->cpu,
		.held = holders_of(s, c, va, level, table, since),
	};

	if (!model.held)
		return;
	if (s->physical)
		model.walkers = model.held & s->physical & context_walkers(&s->spaces, c, since);
	/* A due obligation for the same CPUs already forbids them to load the context: keep one. */
	for (struct obligation *obl = owe_at(&s->obligations, c, va, level); obl;
	     obl = owe_at_next(obl))
		if (obl->due && obl->what.table == table && !(model.held & ~obl->held) &&
		    (!model.walkers || (obl->slot == slot && !(model.walkers & ~obl->walkers))))
			return;
	if (!owe_make(&s->obligations, &model))
		return;
	s->seen.obligations++;
	if (!s->cpus[ch->cpu].section)
		s->cpus[ch->cpu].section = ch->when;
}

static const char *bbm_kind(const struct regime *r, int level, uint64_t old, uint64_t new)
{
	enum desc_kind a = desc_kind(r, level, old), b = desc_kind(r, level, new);

	if (a != b)
		return "size";
	if (desc_output(r, level, old) != desc_output(r, level, new))
		return a == DESC_TABLE ? "table" : "output";
	if (desc_contiguous(old) != desc_contiguous(new))
		return "contiguous";
	if (desc_global(old) != desc_global(new))
		return "global";
	return "attributes";
}

static void report_bbm(struct change *ch, struct context *c, uint64_t va, const char *kind,
		       const struct table *t, uint64_t old, uint64_t new, cpumask held,
		       const struct obligation *obl)
{
	struct shadow *s = ch->s;
	const struct regime *r = &t->r;
	struct finding f = finding_here(s, ch->cpu, ch->pc, "bbm", kind);

	f.asid = c->asid;
	f.kernel = c->kernel;
	f.va = va;
	f.level = t->level;
	f.table = desc_kind(r, t->level, old) == DESC_TABLE;
	f.old = old;
	f.new = new;
	f.old_page = desc_output(r, t->level, old);
	f.new_page = desc_output(r, t->level, new);
	f.holders = held;
	if (obl) {
		f.va = obl->what.va;
		f.level = obl->what.level;
		f.table = obl->what.table;
		f.old_page = obl->page;
		f.changed = true;
		f.changed_cpu = obl->cpu;
		f.changed_pc = obl->pc;
		f.changed_stack = obl->stack;
		f.obligation = obl;
	}
	report(&s->reports, &f);
}

/* A valid descriptor has changed for the worse: for one context that reaches it, at @va. */
static void old_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;
	const struct table *t = ch->t;

	if (ch->kind == CHANGE_BBM) {
		cpumask held = holders_of(ch->s, c, va, t->level,
					  desc_kind(&t->r, t->level, ch->old) == DESC_TABLE,
					  ch->since) & c->loaded;

		if (held)
			report_bbm(ch, c, va, bbm_kind(&t->r, t->level, ch->old, ch->new),
				   t, ch->old, ch->new, held, NULL);
	}
	owe_entry(ch, c, va, &t->r, t->level, ch->slot, ch->old, ch->new, ch->since);
}

/* The same for a descriptor below a table that was unlinked. */
static void lost_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;
	struct table *t = ch->low;

	owe_entry(ch, c, va + ch->offset, &t->r, t->level, t->pa + 8ull * ch->low_index,
		  t->desc[ch->low_index], 0, t->since[ch->low_index]);
}

/*
 * bbm/anew: the new descriptor contradicts the old entry of an obligation, and a CPU
 * that has the context loaded can hold the old entry. In the kernel's half that is
 * always wrong. In a process two threads may do it legitimately: one has cleared the
 * entry and is about to flush, the other faults the page in. There it is wrong only
 * when one task does both.
 */
static void contradicts(struct change *ch, struct context *c, const struct table *t,
			unsigned int index, const struct obligation *obl)
{
	if (!ch->was_valid && obl->held & c->loaded &&
	    (c->kernel || (obl->task == ch->s->cpus[ch->cpu].task && !obl->due)))
		report_bbm(ch, c, obl->what.va, "anew", t, obl->old, t->desc[index],
			   obl->held & c->loaded, obl);
}

/* bbm/collected: the flush of the old entry was deferred, and no TLBI was issued for it yet. */
static void collected_anew(struct change *ch, struct context *c, const struct table *t,
			   unsigned int index, struct obligation *obl)
{
	cpumask left = rely_unissued(obl);

	if (ch->was_valid || !left)
		return;
	obl->collected = false;
	report_bbm(ch, c, obl->what.va, "collected", t, obl->old, t->desc[index], left, obl);
}

/*
 * A descriptor is valid now, for one context at @va. Check the obligations for old
 * entries at this address, whichever table their descriptors were in.
 *
 * An obligation is withdrawn when the new descriptor allows all that the old one did,
 * at the same output address: old entries are true again. Old entries that are smaller
 * than a new block contradict the block.
 */
static void made_anew(struct change *ch, struct context *c, uint64_t va, struct table *t,
		      unsigned int index)
{
	uint64_t desc = t->desc[index], end = va + (1ull << level_shift(&t->r, t->level));
	struct shadow *s = ch->s;
	struct obligation *next;

	for (struct obligation *obl = owe_at(&s->obligations, c, va, t->level); obl; obl = next) {
		enum desc_change kind = desc_change(&t->r, t->level, obl->old, desc);

		next = owe_at_next(obl);
		if (!obl->held)
			continue;
		if (kind <= CHANGE_MORE) {
			if (obl->since < t->since[index])
				t->since[index] = obl->since;
			walks_withdraw(s, obl, t->pa + 8ull * index);
			continue;
		}
		if (kind == CHANGE_BBM)
			contradicts(ch, c, t, index, obl);
		else if (c->kernel && obl->change != CHANGE_LESS)
			/* The same page again, and less is allowed: no vfree(). */
			owe_less(&s->obligations, obl, s->cpus[ch->cpu].task, desc);
		collected_anew(ch, c, t, index, obl);
	}
	rely_moved(s, ch->cpu, c, va, t, index);
	if (t->level == 3 || desc_kind(&t->r, t->level, desc) != DESC_LEAF)
		return;
	list_for(node, &c->obligations) {
		struct obligation *obl = container_of(node, struct obligation, in_context);

		if (obl->what.level <= t->level || obl->what.va < va || obl->what.va >= end)
			continue;
		contradicts(ch, c, t, index, obl);
		collected_anew(ch, c, t, index, obl);
	}
}

/* An invalid descriptor replaced another one: the task may rely on the flush of an older, valid one. */
static void touched_place(void *arg, struct context *c, uint64_t va)
{
	struct change *ch = arg;

	rely_touched(ch->s, ch->cpu, c, va, ch->t->level, ch->pc);
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
	if (ch.kind >= CHANGE_LESS) {
		ch.stack = stack_of(s, cpu, pc);
		table_places(&s->spaces, t, index, old_place, &ch);
		if (was == DESC_TABLE && ch.kind > CHANGE_LESS) {
			table_below(&s->spaces, t, index, lost_below, &ch);
			table_unlink(&s->spaces, t, index);
		}
	}
	if (!ch.was_valid && is == DESC_INVALID && s->obligations.n)
		table_places(&s->spaces, t, index, touched_place, &ch);
	t->desc[index] = ch.new;
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
	if (!s->obligations.n)
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

/* --- TLBIs and DSBs --- */

static void pend(struct cpu *c, const struct pending *p)
{
	if (c->n_pending == c->room) {
		c->room = c->room ? 2 * c->room : 16;
		c->pending = realloc(c->pending, c->room * sizeof(*c->pending));
		if (!c->pending)
			abort();
	}
	c->pending[c->n_pending++] = *p;
}

struct issued {
	struct shadow *s;
	unsigned int cpu;
	const struct tlbi *t;
	const struct reach *r;
	struct tlbi_seen seen;
	cpumask cpus;			/* the CPUs it reaches */
	uint64_t when;
	bool walkers;			/* it names another ASID of the same root: update walkers only */
};

/* Return true if the TLBI's range ends or begins close to the entry, as after a miscount. */
static bool just_missed(const struct reach *r, const struct cached *what)
{
	uint64_t far = 16 * what->size;

	return !r->every_va && what->va + what->size + far > r->start && what->va < r->end + far;
}

/*
 * The store must be visible to table walks before the TLBI, or a walk fetches the old
 * descriptor again after it (Arm ARM B2.3.12, DSB). Return true if since the store
 * either the CPU that stored has executed a DSB that orders stores for all CPUs, or
 * the CPU that issues the TLBI has executed one that is sufficient for the TLBI.
 */
static bool published(const struct shadow *s, const struct issued *i, const struct obligation *obl)
{
	const struct cpu *c = &s->cpus[i->cpu];

	return (i->r->local ? c->dsb_nsh : c->dsb_is) >= obl->when ||
	       s->cpus[obl->cpu].dsb_is >= obl->when;
}

/*
 * Return true for a local TLBI of a whole ASID that is not the CPU's own context: the
 * kernel issues it before it loads that ASID, for TLBIs that were elided while the ASID
 * was not loaded. It is not the flush of an entry that the current task has cleared.
 */
static bool forgets(const struct issued *i, const struct obligation *obl)
{
	return i->r->local && i->r->every_va && i->s->cpus[i->cpu].context != obl->context;
}

static void tlbi_for_walkers(struct issued *i, struct obligation *obl)
{
	struct cached what = obl->what;
	struct pending p = {
		.obligation = obl, .walkers = true, .cpus = obl->walkers & i->cpus, .when = i->when,
		.scope = i->t->scope, .nxs = i->t->nxs,
	};

	what.asid = i->r->asid;
	if (!p.cpus || reach_covers(i->r, &what) != COVER_YES || !published(i->s, i, obl))
		return;
	obl->refs++;
	pend(&i->s->cpus[i->cpu], &p);
}

static void tlbi_for_obligation(struct issued *i, struct obligation *obl)
{
	struct shadow *s = i->s;
	struct cpu *c = &s->cpus[i->cpu];
	cpumask bits = (obl->held | obl->walkers) & i->cpus;
	struct pending p = {
		.obligation = obl, .cpus = bits, .when = i->when,
		.scope = i->t->scope, .nxs = i->t->nxs,
	};

	if (i->walkers) {
		tlbi_for_walkers(i, obl);
		return;
	}
	/* An entry that is not global may be cached under any ASID (KPTI): one ASID is not enough. */
	if (obl->context->kernel && !obl->what.global && !i->r->any_asid)
		return;
	switch (reach_covers(i->r, &obl->what)) {
	case COVER_YES:
		break;
	case COVER_VA:
		if (obl->task == c->task && just_missed(i->r, &obl->what))
			owe_saw(obl, &i->seen, MISS_VA);
		return;
	case COVER_ASID:
		return;
	case COVER_LAST:
		owe_saw(obl, &i->seen, MISS_LAST);
		return;
	case COVER_LEVEL:
		owe_saw(obl, &i->seen, MISS_LEVEL);
		return;
	case COVER_NOTHING:
		owe_saw(obl, &i->seen, MISS_NOTHING);
		return;
	}
	if (!bits) {
		owe_saw(obl, &i->seen, MISS_LOCAL);
		return;
	}
	if (!published(s, i, obl)) {
		owe_saw(obl, &i->seen, MISS_ORDER);
		if (obl->held && obl->task == c->task && obl->cpu == i->cpu && !forgets(i, obl))
			report_obligation(s, i->cpu, i->seen.pc, "order", "no-dsb", obl);
		return;
	}
	owe_saw(obl, &i->seen, obl->held & ~i->cpus ? MISS_LOCAL : MISS_DSB);
	obl->issued |= bits;
	obl->refs++;
	pend(c, &p);
}

/* The TLBI names the address of an obligation of this task, but another ASID: note it there. */
static void tlbi_for_others(struct issued *i)
{
	const struct list *l = owes_of_task(&i->s->obligations, i->s->cpus[i->cpu].task);
	unsigned int looked = 0;

	if (!l || i->r->any_asid)
		return;
	list_for(node, (struct list *)l) {
		struct obligation *obl = container_of(node, struct obligation, in_task);

		if (reach_covers(i->r, &obl->what) == COVER_ASID)
			owe_saw(obl, &i->seen, MISS_ASID);
		if (++looked == 64)
			break;
	}
}

static void tlbi_for_context(struct issued *i, struct context *c, const struct regime *r)
{
	uint64_t step = 1ull << r->granule;
	uint64_t pages = i->r->every_va ? UINT64_MAX : (i->r->end - i->r->start) / step;

	if (!c->n_obligations)
		return;
	if (c->n_obligations / 5 <= pages || c->n_obligations < 32) {
		list_for(node, &c->obligations)
			tlbi_for_obligation(i, container_of(node, struct obligation, in_context));
		return;
	}
	for (uint64_t va = i->r->start; va != i->r->end; va += step) {
		for (int level = r->start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(r, level);
			struct obligation *next;

			/* Look at an entry that spans several pages of the range only once. */
			if (base != va && va != i->r->start)
				continue;
			for (struct obligation *obl = owe_at(&i->s->obligations, c, base, level); obl;
			     obl = next) {
				next = owe_at_next(obl);
				tlbi_for_obligation(i, obl);
			}
		}
	}
}

/* The obligations of the same root under other ASIDs: the TLBI removes copies that have no ASID. */
static void tlbi_for_siblings(struct issued *i, const struct context *c, const struct regime *r)
{
	i->walkers = true;
	list_for(node, &c->root->contexts) {
		struct context *o = container_of(node, struct context, in_root);

		if (o != c)
			tlbi_for_context(i, o, r);
	}
	i->walkers = false;
}

static void take(void *arg, const struct used *e)
{
	const struct issued *i = arg;

	lost_take(&i->s->lost, &i->s->spaces, e, i->cpus, i->cpu);
}

void shadow_tlbi(struct shadow *s, unsigned int cpu, const struct tlbi *t,
		 uint64_t operand, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	struct reach r;
	struct issued i = {
		.s = s, .cpu = cpu, .t = t, .r = &r,
		.seen = { .name = t->name, .operand = operand, .cpu = cpu, .pc = pc },
	};
	struct pending whole;

	if (c->no_ttl && !t->range)
		operand &= ~(0xfull << 44);
	if (!reach_of(t, operand, c->lower_ok ? &c->lower : NULL,
		      c->upper_ok ? &c->upper : NULL, &r))
		return;
	s->seen.tlbis++;
	i.when = tick(s);
	i.cpus = r.local ? CPU(cpu) : all_cpus(s);
	r.asid &= c->asid_mask;
	if (r.every_va || (s->physical && !r.last) || s->globals.n) {
		whole = (struct pending){
			.by_va = !r.every_va, .any_asid = r.any_asid, .asid = r.asid,
			.cpus = i.cpus, .when = i.when, .scope = t->scope, .nxs = t->nxs,
			.reach = r,
		};
		pend(c, &whole);
	}
	if (s->moved && !r.nothing)
		s->moved(s->arg, i.cpus, &r);
	if (r.every_va ? r.any_asid : r.upper)
		list_for(node, &s->spaces.kernels)
			tlbi_for_context(&i, container_of(node, struct context, all), &c->upper);
	if ((!r.every_va && r.upper) || !c->lower_ok)
		return;
	if (r.any_asid) {
		list_for(node, &s->spaces.contexts) {
			struct context *o = container_of(node, struct context, all);

			tlbi_for_context(&i, o, &c->lower);
			used_flush(&s->used, o, &r, &c->lower, i.cpus, take, &i);
		}
		return;
	}
	if (!r.every_va)
		tlbi_for_others(&i);
	for (struct context *o = context_first(&s->spaces, r.asid); o; o = context_next(o)) {
		tlbi_for_context(&i, o, &c->lower);
		used_flush(&s->used, o, &r, &c->lower, i.cpus, take, &i);
		if (s->physical && o->root)
			tlbi_for_siblings(&i, o, &c->lower);
	}
}

enum completes { COMPLETES_NOTHING, COMPLETES_LOCAL, COMPLETES_IS, COMPLETES_ALL };

/*
 * A TLBI completes with a DSB of its own CPU, for loads and stores, whose domain
 * contains the CPUs that the TLBI reaches (Arm ARM D8.16, "Ordering and completion of
 * TLB maintenance instructions"). A DSB for stores only completes no TLBI. An nXS DSB
 * completes only nXS TLBIs.
 */
static enum completes dsb_completes(enum dsb_form form)
{
	switch (form) {
	case DSB_NSH: case DSB_NSHNXS:
		return COMPLETES_LOCAL;
	case DSB_ISH: case DSB_ISHNXS:
		return COMPLETES_IS;
	case DSB_OSH: case DSB_OSHNXS: case DSB_SY: case DSB_SYNXS:
		return COMPLETES_ALL;
	default:
		return COMPLETES_NOTHING;
	}
}

static bool dsb_is_nxs(enum dsb_form form)
{
	return form >= DSB_OSHNXS && form <= DSB_SYNXS;
}

bool shadow_dsb_quick(struct shadow *s, unsigned int cpu, enum dsb_form form)
{
	struct cpu *c = &s->cpus[cpu];
	uint64_t now = __atomic_load_n(&s->now, __ATOMIC_RELAXED);

	switch (form) {
	case DSB_OSHLD: case DSB_NSHLD: case DSB_ISHLD: case DSB_LD:
		return true;			/* order no stores */
	case DSB_NSHST: case DSB_NSH: case DSB_NSHNXS:
		c->dsb_nsh = now;
		break;
	default:
		c->dsb_nsh = c->dsb_is = now;
		break;
	}
	if (dsb_completes(form) != COMPLETES_NOTHING)
		c->walks_over = c->synced;
	return !c->n_pending || dsb_completes(form) == COMPLETES_NOTHING;
}

void shadow_sync(struct shadow *s, unsigned int cpu)
{
	s->cpus[cpu].synced = __atomic_load_n(&s->now, __ATOMIC_RELAXED);
}

static void complete(struct shadow *s, const struct pending *p)
{
	struct obligation *obl = p->obligation;
	unsigned int cpu;

	if (obl) {
		obl->refs--;
		if (!p->walkers)
			obl->held &= ~p->cpus;
		obl->walkers &= ~p->cpus;
		if (obl->met ? !obl->refs : !(obl->held | obl->walkers))
			owe_drop(&s->obligations, obl);
		return;
	}
	walks_flushed(s, &p->reach, p->cpus, p->when);
	globals_flushed(&s->globals, &p->reach, p->cpus, p->when);
	if (p->by_va)
		return;
	if (p->any_asid) {
		for_cpus(cpu, p->cpus)
			if (s->spaces.flushed_all[cpu] < p->when)
				s->spaces.flushed_all[cpu] = p->when;
		contexts_collect(&s->spaces);
		return;
	}
	for (struct context *o = context_first(&s->spaces, p->asid); o; o = context_next(o))
		for_cpus(cpu, p->cpus)
			if (o->flushed[cpu] < p->when)
				o->flushed[cpu] = p->when;
}

void shadow_dsb(struct shadow *s, unsigned int cpu, enum dsb_form form)
{
	struct cpu *c = &s->cpus[cpu];
	enum completes what = dsb_completes(form);
	unsigned int kept = 0;

	if (shadow_dsb_quick(s, cpu, form))
		return;
	for (unsigned int i = 0; i < c->n_pending; i++) {
		struct pending p = c->pending[i];
		enum completes needs = p.scope == SCOPE_LOCAL ? COMPLETES_LOCAL :
				       p.scope == SCOPE_IS ? COMPLETES_IS : COMPLETES_ALL;

		if (what >= needs && (p.nxs || !dsb_is_nxs(form)))
			complete(s, &p);
		else
			c->pending[kept++] = p;
	}
	c->n_pending = kept;
}

/* --- Accesses --- */

/*
 * Return true if the walk has read a descriptor that was written by a store of which
 * the callback has not run yet. (AF and the dirty state, which hardware sets, do not
 * count.)
 */
static bool in_flight(const struct shadow *s, const struct walk *w)
{
	for (unsigned int i = 0; i < w->steps; i++) {
		const struct step *step = &w->step[i];
		unsigned int index;
		const struct table *t = table_at(&s->spaces, step->desc_pa, &index);

		if (!t || desc_kind(&t->r, t->level, t->desc[index]) !=
			  desc_kind(&t->r, t->level, step->desc) ||
		    desc_output(&t->r, t->level, t->desc[index]) !=
		    desc_output(&t->r, t->level, step->desc))
			return true;
	}
	return false;
}

/* Return true if there is an obligation for @va: old and new entries are both legitimate. */
static bool flush_under_way(const struct shadow *s, const struct context *c, uint64_t va,
			    const struct regime *r)
{
	for (int level = r->start; level <= 3; level++) {
		uint64_t base = va & ~0ull << level_shift(r, level);

		for (const struct obligation *obl = owe_at(&s->obligations, c, base, level); obl;
		     obl = owe_at_next(obl))
			if (obl->held)
				return true;
	}
	return false;
}

static void report_remap(struct shadow *s, unsigned int cpu, uint64_t va, bool fetch,
			 uint64_t pc, const struct used *e, const struct walk *w, uint64_t pa)
{
	struct finding f = finding_here(s, cpu, pc, "remap", fetch ? "fetch" : "data");
	const struct context *c = s->cpus[cpu].context;

	f.asid = c->asid;
	f.va = va;
	f.level = e ? e->level : w->steps ? w->step[w->steps - 1].level : 0;
	f.old_page = e ? e->output : pa;
	f.new_page = w->valid ? w->pa & ~0xfffull : 0;
	f.new = w->steps ? w->step[w->steps - 1].desc : 0;
	f.holders = e ? e->cpus : CPU(cpu);
	report(&s->reports, &f);
}

void shadow_access(struct shadow *s, unsigned int cpu, uint64_t va, uint64_t pa,
		   bool fetch, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	const struct regime *r = &c->lower;
	struct context *ctx = c->context;
	struct walk w;
	cpumask who;

	va &= ~(0xffull << 56);		/* TBI, or it would have faulted */
	if (!ctx || !ctx->root || !regime_has(r, va))
		return;
	s->seen.misses++;
	walk(r, ctx->root->pa, va, ram_read, &s->spaces.ram, &w);
	s->seen.walks++;
	if (!w.valid || (pa != NO_PA && w.pa != pa)) {
		if (in_flight(s, &w) || flush_under_way(s, ctx, va, r))
			s->seen.races++;
		else
			report_remap(s, cpu, va, fetch, pc, NULL, &w, pa);
		return;
	}
	who = CPU(cpu) | (s->speculation ? ctx->loaded : 0);
	for (unsigned int i = 0; i < w.steps; i++) {
		const struct step *step = &w.step[i];
		bool table = i < w.steps - 1u;
		uint64_t base = va & ~0ull << level_shift(r, step->level);
		uint64_t output = desc_output(r, step->level, step->desc);
		struct used *e = used_find(&s->used, ctx, base, step->level, table);

		if (e && e->output != output && !table && e->cpus & CPU(cpu)) {
			if (in_flight(s, &w) || flush_under_way(s, ctx, va, r))
				s->seen.races++;
			else
				report_remap(s, cpu, va, fetch, pc, e, &w, pa);
		}
		if (e && e->output != output)
			e->cpus = e->own = e->kept = 0;
		e = used_add(&s->used, ctx, base, step->level, table, output, who);
		e->desc = step->desc;
		e->own |= CPU(cpu);
	}
}

/* --- Pages are freed --- */

static bool somebody_runs(const struct shadow *s, const struct obligation *obl, unsigned int *who)
{
	for_cpus(*who, obl->held & obl->context->current)
		if (s->cpus[*who].user)
			return true;
	return false;
}

/* The page that the old entry of an obligation leads to is freed. */
static void page_freed(struct shadow *s, unsigned int cpu, struct obligation *obl, uint64_t pc)
{
	unsigned int who;

	/* After vfree() the kernel frees pages before it flushes; nothing uses the addresses any more. */
	if (!obl->held || (obl->context->kernel && !obl->what.table))
		return;
	if (obl->what.table) {
		/* A walk may use a table descriptor in the TLB at any time, whatever TTBR0 points to. */
		if (obl->context->kernel || obl->held & obl->context->current) {
			report_obligation(s, cpu, pc, "free", "table", obl);
			owe_drop(&s->obligations, obl);
			return;
		}
	} else if (somebody_runs(s, obl, &who)) {
		report_obligation(s, cpu, pc, "free", "page", obl);
		owe_drop(&s->obligations, obl);
		return;
	}
	owe_freed(obl);
	owe_due(&s->obligations, obl);
}

static void context_dies(struct shadow *s, struct context *c)
{
	walks_context_dies(s, c);
	while (!list_empty(&c->obligations))
		owe_drop(&s->obligations,
			 container_of(c->obligations.next, struct obligation, in_context));
	used_drop_context(&s->used, c);
}

static void add_loaded(void *arg, struct context *c, uint64_t va)
{
	(void)va;
	*(cpumask *)arg |= c->loaded;
}

/* A table that other tables or contexts still point to is freed. */
static void table_freed(struct shadow *s, unsigned int cpu, struct table *t, uint64_t pc)
{
	cpumask loaded = 0;
	struct finding f;

	table_places(&s->spaces, t, 0, add_loaded, &loaded);
	if (loaded) {
		f = finding_here(s, cpu, pc, "free", t->parents ? "table" : "root");
		f.old_page = t->pa;
		f.level = t->level;
		f.table = true;
		f.kernel = t->r.upper;
		f.holders = loaded;
		report(&s->reports, &f);
	}
	walks_table_freed(s, cpu, t, pc);
	list_for(node, &t->contexts)
		context_dies(s, container_of(node, struct context, in_root));
	table_forget(&s->spaces, t);
}

void shadow_free(struct shadow *s, unsigned int cpu, uint64_t pfn, unsigned int order,
		 uint64_t pc)
{
	s->seen.frees++;
	for (uint64_t page = pfn << 12; page < (pfn + (1ull << order)) << 12; page += 0x1000) {
		struct obligation *next;

		for (unsigned int at = 0; page_is_followed(&s->spaces, page) && at < 0x1000; at += 16) {
			unsigned int index;
			struct table *t = table_at(&s->spaces, page + at, &index);

			if (t && t->pa == page + at)
				table_freed(s, cpu, t, pc);
		}
		s->seen.table_frees += page_was_table(&s->spaces, page);
		if (!s->obligations.n)
			continue;
		walks_page_freed(s, page);
		for (struct obligation *obl = owe_of_page(&s->obligations, page); obl; obl = next) {
			next = owe_of_page_next(obl);
			page_freed(s, cpu, obl, pc);
		}
		/* The page may be part of a block, whose obligation is found by the block's first page. */
		for (unsigned int shift = 21; shift <= 30; shift += 9) {
			uint64_t first = page >> shift << shift;

			for (struct obligation *obl = owe_of_page(&s->obligations, first);
			     obl && first != page; obl = next) {
				next = owe_of_page_next(obl);
				if (!obl->what.table && obl->what.size > page - first)
					page_freed(s, cpu, obl, pc);
			}
		}
	}
}

void shadow_dead(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t pc)
{
	unsigned int index;
	struct table *t = table_at(&s->spaces, root, &index);

	s->seen.frees++;
	if (!t || t->pa != root)
		return;
	table_freed(s, cpu, t, pc);
	s->seen.table_frees++;
}

/* --- Pauses: kernel entries are invalid that all CPUs use --- */

/* Returns the CPUs that run and do not wait. A CPU that is off has its translation off. */
static cpumask running(const struct shadow *s)
{
	cpumask found = 0;

	for (unsigned int cpu = 0; cpu < s->ncpus; cpu++)
		if (s->cpus[cpu].mmu && !s->cpus[cpu].waits)
			found |= CPU(cpu);
	return found;
}

void shadow_pause(struct shadow *s, unsigned int cpu, uint64_t what, uint64_t pc)
{
	cpumask others = running(s) & ~CPU(cpu);

	switch (what) {
	case PAUSE_WHOLE:
		s->broken = false;
		break;
	case PAUSE_BROKEN:
		s->seen.pauses++;
		s->broken = true;
		s->pauser = cpu;
		if (others)
			report_pause(s, cpu, "running", others, pc);
		break;
	case PAUSE_WAITS:
		s->cpus[cpu].waits = true;
		break;
	case PAUSE_GOES_ON:
		s->cpus[cpu].waits = false;
		if (s->broken && cpu != s->pauser)
			report_pause(s, cpu, "left", CPU(cpu), pc);
		break;
	}
}

/* --- Windows --- */

void shadow_open(struct shadow *s, unsigned int cpu, uint64_t id)
{
	lost_open(&s->lost, &s->spaces, s->cpus[cpu].context, id, s->reports.out);
}

void shadow_close(struct shadow *s, unsigned int cpu, uint64_t id)
{
	lost_close(&s->lost, &s->spaces, s->cpus[cpu].context, id, s->reports.out);
}

void shadow_verdict(struct shadow *s)
{
	window_end(&s->lost.window, s->reports.out);
	s->seen.left = s->obligations.n;
	s->seen.tlb_lost = s->lost.entries;
	s->seen.physical = __builtin_popcountll(s->physical & all_cpus(s));
	if (s->obligations.overflow)
		json_error(s->reports.out,
			   "more obligations at once than the checker keeps: some were not checked");
	s->seen.memory = s->spaces.bytes + s->obligations.most * sizeof(struct obligation) +
			 s->used.most * sizeof(struct used) +
			 s->reports.n_stacks * sizeof(struct stack);
	report_verdict(&s->reports, &s->seen);
}
