// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow_tlbi - TLBIs, and the DSBs that complete them. See shadow.h.
 *
 * A TLBI is incomplete until a DSB of its CPU completes it: once for each pending invalidation whose
 * old entry it covers, and once for the contexts that it flushes. When it is complete,
 * the CPUs that it reaches do not hold the old entry any more. If the kernel works around an
 * erratum, a broadcast must be repeated before that (repeat()). A TLBI that comes near an
 * pending invalidation and does not complete it is noted there, for the report. The rule
 * `order` is checked here: the store must be visible to walks before the TLBI. For an
 * entry that was replaced without break-before-make, bbm/contents is checked again when
 * the TLBI is complete.
 */
#include <stdlib.h>

#include "once.h"
#include "shadow_internal.h"
#include "stage2.h"

static void add_incomplete(struct cpu *c, const struct incomplete *p)
{
	if (c->n_incomplete == c->room) {
		c->room = c->room ? 2 * c->room : 16;
		c->incomplete = realloc(c->incomplete, c->room * sizeof(*c->incomplete));
		if (!c->incomplete)
			abort();
	}
	c->incomplete[c->n_incomplete] = *p;
	c->incomplete[c->n_incomplete++].task = c->task;
}

struct issued {
	struct shadow *s;
	unsigned int cpu;
	const struct tlbi *t;
	const struct scope *r;
	struct tlbi_seen seen;
	cpumask cpus;			/* the CPUs it reaches */
	uint64_t when;
	bool walkers;			/* it names another ASID of the same root: update walkers only */
};

/* Return true if the TLBI's range ends or begins close to the entry, as after a miscount. */
static bool just_missed(const struct scope *r, const struct cached *what)
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
static bool published(const struct shadow *s, const struct issued *i, const struct pending *inv)
{
	const struct cpu *c = &s->cpus[i->cpu];

	return (i->r->local ? c->dsb_nsh : c->dsb_is) >= inv->when ||
	       read_once(&s->cpus[inv->cpu].dsb_is) >= inv->when;
}

/*
 * Return true for a local TLBI of a whole ASID that is not the CPU's own context: the
 * kernel issues it before it loads that ASID, for TLBIs that were elided while the ASID
 * was not loaded. It is not the flush of an entry that the current task has cleared.
 */
static bool forgets(const struct issued *i, const struct pending *inv)
{
	return i->r->local && i->r->every_va && i->s->cpus[i->cpu].context != inv->context;
}

static void tlbi_for_walkers(struct issued *i, struct pending *inv)
{
	struct cached what = inv->what;
	struct incomplete p = {
		.pending = inv, .walkers = true, .cpus = inv->walkers & i->cpus, .when = i->when,
		.domain = i->t->domain, .nxs = i->t->nxs,
	};

	what.asid = i->r->asid;
	if (!p.cpus || scope_covers(i->r, &what) != COVER_YES || !published(i->s, i, inv))
		return;
	inv->refs++;
	add_incomplete(&i->s->cpus[i->cpu], &p);
}

/*
 * A TLBI for the other stage of a guest than the one that holds an entry removes nothing of
 * it. While a CPU may hold the entry of stage 2, its walks may combine it anew, so that
 * TLBIs for stage 1 count from the DSB on that completes the one for stage 2 (Arm ARM
 * C5.5, TLBI IPAS2E1IS).
 */
static cpumask of_stage(const struct issued *i, const struct pending *inv, cpumask bits)
{
	switch (i->r->stage) {
	case SCOPE_STAGE1:
		return bits & ~inv->alone;
	case SCOPE_STAGE2:
		return bits & inv->alone;
	case SCOPE_BOTH:
		break;
	}
	return bits;
}

static void tlbi_for_pending(struct issued *i, struct pending *inv)
{
	struct shadow *s = i->s;
	struct cpu *c = &s->cpus[i->cpu];
	cpumask bits = of_stage(i, inv, (inv->held | inv->walkers) & i->cpus);
	struct incomplete p = {
		.pending = inv, .cpus = bits, .when = i->when, .stage = i->r->stage,
		.domain = i->t->domain, .nxs = i->t->nxs, .pc = i->seen.pc,
	};

	if (i->walkers) {
		tlbi_for_walkers(i, inv);
		return;
	}
	/* An entry that is not global may be cached under any ASID (KPTI): one ASID is not enough. */
	if (inv->context->kernel && !inv->what.global && !i->r->any_asid)
		return;
	switch (scope_covers(i->r, &inv->what)) {
	case COVER_YES:
		break;
	case COVER_VA:
		if (inv->task == c->task && just_missed(i->r, &inv->what))
			pending_saw(inv, &i->seen, MISS_VA);
		return;
	case COVER_ASID:
		return;
	case COVER_LAST:
		pending_saw(inv, &i->seen, MISS_LAST);
		return;
	case COVER_LEVEL:
		pending_saw(inv, &i->seen, MISS_LEVEL);
		return;
	case COVER_NOTHING:
		pending_saw(inv, &i->seen, MISS_NOTHING);
		return;
	}
	if (!bits) {
		if (i->r->stage != SCOPE_STAGE1)
			pending_saw(inv, &i->seen, MISS_LOCAL);
		else if (inv->issued)
			pending_saw(inv, &i->seen, MISS_STAGE);
		return;
	}
	if (!published(s, i, inv)) {
		pending_saw(inv, &i->seen, MISS_ORDER);
		if (inv->held && inv->task == c->task && inv->cpu == i->cpu && !forgets(i, inv))
			report_pending(s, i->cpu, i->seen.pc, RULE_ORDER_NO_DSB, inv);
		return;
	}
	pending_saw(inv, &i->seen, inv->held & ~i->cpus ? MISS_LOCAL : MISS_DSB);
	inv->issued |= bits;
	inv->refs++;
	add_incomplete(c, &p);
}

/* The TLBI names the address of a pending invalidation of this task, but another ASID: note it there. */
static void tlbi_for_others(struct issued *i)
{
	const struct list *l = pendings_of_task(&i->s->pendings, i->s->cpus[i->cpu].task);
	unsigned int looked = 0;

	if (!l || i->r->any_asid)
		return;
	list_for(node, (struct list *)l) {
		struct pending *inv = container_of(node, struct pending, in_task);

		if (scope_covers(i->r, &inv->what) == COVER_ASID)
			pending_saw(inv, &i->seen, MISS_ASID);
		if (++looked == 64)
			break;
	}
}

static void tlbi_for_context(struct issued *i, struct context *c, const struct regime *r)
{
	uint64_t step = 1ull << r->granule;
	uint64_t pages = i->r->every_va ? UINT64_MAX : (i->r->end - i->r->start) / step;

	if (!c->n_pending)
		return;
	if (c->n_pending / 5 <= pages || c->n_pending < 32) {
		list_for(node, &c->pendings)
			tlbi_for_pending(i, container_of(node, struct pending, in_context));
		return;
	}
	for (uint64_t va = i->r->start; va != i->r->end; va += step) {
		for (int level = r->start; level <= 3; level++) {
			uint64_t base = va & ~0ull << level_shift(r, level);
			struct pending *next;

			/* Look at an entry that spans several pages of the range only once. */
			if (base != va && va != i->r->start)
				continue;
			for (struct pending *inv = pending_at(&i->s->pendings, c, base, level);
			     inv; inv = next) {
				next = pending_at_next(inv);
				tlbi_for_pending(i, inv);
			}
		}
	}
}

/* The pending invalidations of the same root under other ASIDs: the TLBI removes copies that have no ASID. */
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

/*
 * On CPUs with one of several errata (1286807, 4118414 and others) a DSB does not complete
 * broadcasts. Linux therefore issues one more broadcast after the DSB, and one more DSB. It is TLBI
 * VALE1IS of address 0 and ASID 0, which no flush is. A kernel that does this once, has the
 * workaround enabled, and must do it each time. Any broadcast of the CPU is taken for the
 * repetition. A task may be preempted after the first DSB, and repeat the TLBI on another CPU, to
 * which its TLBIs that wait for it move.
 */
static void repeat(struct shadow *s, unsigned int cpu, const struct tlbi *t, uint64_t operand)
{
	struct cpu *here = &s->cpus[cpu];

	if (t->domain == DOMAIN_LOCAL)
		return;
	here->broadcast = s->now;
	if (t->what != TLBI_VA || !t->last || t->range || operand)
		return;
	s->seen.repeats++;
	for (struct cpu *c = s->cpus; c < s->cpus + s->ncpus; c++) {
		unsigned int kept = 0;

		for (unsigned int i = 0; c != here && i < c->n_incomplete; i++) {
			if (c->incomplete[i].again && c->incomplete[i].task == here->task)
				add_incomplete(here, &c->incomplete[i]);
			else
				c->incomplete[kept++] = c->incomplete[i];
		}
		if (c != here)
			write_once(&c->n_incomplete, kept);
	}
}

static void take(void *arg, struct used *e)
{
	const struct issued *i = arg;

	over_take(&i->s->over, &i->s->spaces, e, i->cpus, i->cpu);
}

void shadow_tlbi(struct shadow *s, unsigned int cpu, const struct tlbi *t,
		 uint64_t operand, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	struct scope r;
	struct issued i = {
		.s = s, .cpu = cpu, .t = t, .r = &r,
		.seen = { .name = t->name, .operand = operand, .cpu = cpu, .pc = pc },
	};
	struct incomplete whole;

	if (c->no_ttl && !t->range)
		operand &= ~(0xfull << 44);
	if (s->stage2 ? !scope_of_stage2(t, operand, c->ttbr0 >> 48, c->lower_ok ? &c->lower : NULL, &r) :
			!scope_of(t, operand, c->lower_ok ? &c->lower : NULL,
				  c->upper_ok ? &c->upper : NULL, &r))
		return;
	s->seen.tlbis++;
	i.when = tick(s);
	repeat(s, cpu, t, operand);
	i.cpus = r.local ? CPU(cpu) : all_cpus(s);
	r.asid &= c->asid_mask;
	if (r.every_va || (s->physical && !r.last) || s->globals.n) {
		whole = (struct incomplete){
			.stage = r.stage, .by_va = !r.every_va, .any_asid = r.any_asid, .asid = r.asid,
			.cpus = i.cpus, .when = i.when, .domain = t->domain, .nxs = t->nxs,
			.scope = r,
		};
		add_incomplete(c, &whole);
	}
	if (s->moved) {
		const struct scope everything = { .every_va = true, .any_asid = true };

		/* What need not be removed may be removed all the same, and QEMU does. */
		s->moved(s->arg, i.cpus, r.nothing ? &everything : &r);
	}
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
		write_once(&c->dsb_nsh, now);
		break;
	default:
		write_once(&c->dsb_nsh, now);
		write_once(&c->dsb_is, now);
		break;
	}
	if (dsb_completes(form) != COMPLETES_NOTHING)
		c->walks_over = c->synced;
	return !read_once(&c->n_incomplete) || dsb_completes(form) == COMPLETES_NOTHING;
}

void shadow_sync(struct shadow *s, unsigned int cpu)
{
	s->cpus[cpu].synced = __atomic_load_n(&s->now, __ATOMIC_RELAXED);
}

static void complete(struct shadow *s, unsigned int by, const struct incomplete *p)
{
	struct pending *inv = p->pending;
	unsigned int cpu;

	if (inv) {
		inv->refs--;
		/* Until now a CPU could read either page. */
		if (inv->twin && inv->held & p->cpus &&
		    ram_differs(&s->spaces.ram, inv->page, inv->twin, inv->what.size) &&
		    pending_say(inv, SAID_CONTENTS))
			shadow_report_pending(s, by, p->pc, 0, RULE_BBM_CONTENTS, inv);
		inv->alone &= ~p->cpus;
		if (p->stage == SCOPE_STAGE2)
			pending_completed(inv, by, MISS_STAGE);
		else if (!p->walkers)
			inv->held &= ~p->cpus;
		inv->walkers &= ~p->cpus;
		if (inv->met ? !inv->refs : !(inv->held | inv->walkers))
			pending_drop(&s->pendings, inv);
		return;
	}
	if (s->stage2 && !p->by_va)
		stage2_flushed(s->stage2, p->any_asid, p->asid, p->cpus);
	if (p->stage == SCOPE_STAGE1)
		return;
	walks_flushed(s, &p->scope, p->cpus, p->when);
	globals_flushed(&s->globals, &p->scope, p->cpus, p->when);
	if (p->by_va)
		return;
	if (p->any_asid) {
		s->cpus[by].flushed = p->when;
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
	for (unsigned int i = 0; i < c->n_incomplete; i++) {
		struct incomplete p = c->incomplete[i];
		enum completes needs = p.domain == DOMAIN_LOCAL ? COMPLETES_LOCAL :
				       p.domain == DOMAIN_IS ? COMPLETES_IS : COMPLETES_ALL;

		if (what >= needs && (p.nxs || !dsb_is_nxs(form))) {
			if (!s->seen.repeats || p.domain == DOMAIN_LOCAL || (p.again && c->broadcast > p.again)) {
				complete(s, cpu, &p);
				continue;
			}
			if (!p.again)
				p.again = s->now;
			if (p.pending)
				pending_completed(p.pending, cpu, MISS_REPEAT);
		}
		c->incomplete[kept++] = p;
	}
	c->n_incomplete = kept;
}
