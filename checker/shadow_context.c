// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow_context - which context each CPU has, and when pending invalidations are due. See shadow.h.
 *
 * A write of TTBR0, TTBR1, TCR or SCTLR may give a CPU another context (space.h): the
 * due pending invalidations of that context are checked then, and whether the CPU can hold
 * entries made under the same ASID with another root. The pending invalidations of a task
 * become due when the task returns to user space; those in the kernel's half also when
 * it sleeps.
 */
#include "issuer.h"
#include "once.h"
#include "shadow_internal.h"
#include "sync_point.h"
#include "unload.h"
#include "written.h"

#define TTBR_CNP	1ull
#define TTBR_ASID(ttbr)	((ttbr) >> 48)
#define TCR_A1		(1ull << 22)	/* the ASID is TTBR1's */
#define TCR_AS		(1ull << 36)	/* it has 16 bits */
#define SCTLR_M		1ull
#define LOWER_END	(1ull << 55)	/* bit 55 selects the half */
#define VTCR_VS		(1ull << 19)	/* VMIDs have 16 bits */

/* --- Pending invalidations become due, and are checked --- */

/* Returns the CPUs that may use the entries of a context that they hold. */
static cpumask using(const struct context *c)
{
	return c->kernel ? c->loaded : c->current;
}

/* Returns the CPUs that may use the old entry now: they hold it, or share it with a CPU that does. */
static cpumask usable(const struct pending *inv)
{
	const struct context *c = inv->context;

	return (inv->held | (inv->held & c->shared ? c->shared : 0)) & using(c);
}

/* The CPU has the context: report the due pending invalidations whose old entry it can still use. */
static void check_due(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!c->n_due)
		return;
	list_for(node, &c->pendings) {
		struct pending *inv = container_of(node, struct pending, in_context);

		if (!inv->due || inv->lazy || !(usable(inv) & CPU(cpu)))
			continue;
		if ((inv->freed && !inv->what.table) || inv->said & SAID_PENDING)
			continue;	/* check_freed() */
		report_pending(s, cpu, pc, pending_kind(inv), inv);
		pending_reported(&s->pendings, inv);
	}
}

/* A pending invalidation becomes due: report it if a CPU can use the old entry now. */
static void falls_due(struct shadow *s, unsigned int cpu, struct pending *inv, uint64_t pc)
{
	bool used = usable(inv);

	pending_due(&s->pendings, inv);
	walks_due(s, cpu, inv, pc);	/* may end it, if no CPU holds it */
	if (!used)
		return;
	report_pending(s, cpu, pc, pending_kind(inv), inv);
	pending_reported(&s->pendings, inv);
}

/* A task returns to user space: its pending invalidations become due. */
static void task_returns(struct shadow *s, unsigned int cpu, uint64_t task, uint64_t pc)
{
	struct list *l;

	while ((l = pendings_of_task(&s->pendings, task)))
		falls_due(s, cpu, container_of(l->next, struct pending, in_task), pc);
	sync_returns(s, task);
}

void shadow_settles(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	contig_user(s, s->cpus[cpu].task);
	task_returns(s, cpu, s->cpus[cpu].task, pc);
}

/*
 * A task sleeps, and nothing limits for how long; a kernel thread never returns to user space. So now the contiguous
 * sets that it has stored to must agree, and its pending invalidations in the kernel's half are due.
 */
void shadow_sleeps(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	uint64_t task = s->cpus[cpu].task;

	contig_user(s, task);
	for (struct pending *inv = pending_of_kernel(&s->pendings, task); inv;
	     inv = pending_of_kernel(&s->pendings, task))
		falls_due(s, cpu, inv, pc);
}

/*
 * Linux keeps the task in SP_EL0 while the CPU is in the kernel. It writes the user stack
 * pointer there on the way to user space.
 */
bool shadow_sp_el0(struct shadow *s, unsigned int cpu, uint64_t value)
{
	struct cpu *c = &s->cpus[cpu];
	bool user = !(value >> 63);

	if (c->task != value)
		c->range.root = 0;
	write_once(&c->user, user);
	if (!user) {
		c->task = value;
		return true;
	}
	c->returns++;
	return !read_once(&s->pendings.open) && !read_once(&s->pendings.n_also) &&
	       !read_once(&s->contigs.n) &&
	       !(c->context && (read_once(&c->context->n_freed) || read_once(&c->context->n_sync_points)));
}

void shadow_user(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];

	if (c->context)
		written_user(s, cpu, c->context);
	shadow_settles(s, cpu, pc);
	if (c->context)
		check_freed(s, cpu, c->context, pc);
}

/* --- Which context a CPU has --- */

static void report_asid(struct shadow *s, unsigned int cpu, const struct context *c,
			const struct context *o, enum rule rule, cpumask holders, uint64_t pc)
{
	struct finding f = finding_here(s, cpu, pc, rule);

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
			report_asid(s, cpu, c, o, RULE_ASID_REUSED, CPU(cpu), pc);
			o->unloaded[cpu] = o->left[cpu] = 0;
		}
		if (!(s->cpus[cpu].ttbr0 & TTBR_CNP) || !o->root || !o->root->seen_valid)
			continue;
		shared = sharing(s, o);
		if (shared)
			report_asid(s, cpu, c, o, RULE_ASID_SHARED, shared, pc);
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
	context_load(next, cpu, now);
	if (c->ttbr0 & TTBR_CNP && !s->stage2)
		next->shared |= CPU(cpu);
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

	c->asid_mask = c->tcr & (s->stage2 ? VTCR_VS : TCR_AS) ? 0xffff : 0xff;
	if (c->mmu && s->stage2) {
		if (c->lower_ok)
			next = context_get(&s->spaces, TTBR_ASID(c->ttbr0) & c->asid_mask,
					   ttbr_base(&c->lower, c->ttbr0), &c->lower, now);
	} else if (c->mmu) {
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
			context_load(kernel, cpu, now);
		c->kernel = kernel;
		if (kernel && kernel->n_urgent)
			check_due(s, cpu, kernel, pc);
	}
	walks_check(s, cpu, pc);
	if (s->moved)
		s->moved(s->arg, CPU(cpu), &(struct scope){ .any_asid = true, .end = LOWER_END });
}

/*
 * Translation is turned on or off. A TLB is UNKNOWN after a reset, and broadcasts need not have reached
 * a CPU that was off, so it has to invalidate all of its own.
 */
static void turn(struct shadow *s, unsigned int cpu, bool on, uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];
	struct finding f;

	if (c->mmu && !on)
		c->off = tick(s);
	if (!c->mmu && on && c->flushed < c->off) {
		f = finding_here(s, cpu, pc, RULE_ASID_KEPT);
		f.holders = CPU(cpu);
		report(&s->reports, &f);
	}
	c->mmu = on;
}

void shadow_msr(struct shadow *s, unsigned int cpu, enum sysreg reg, uint64_t value,
		uint64_t pc)
{
	struct cpu *c = &s->cpus[cpu];

	switch (reg) {
	case REG_SP_EL0:
		if (!shadow_sp_el0(s, cpu, value))
			shadow_user(s, cpu, pc);
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
		c->lower.mair = c->upper.mair = &s->mair;
		break;
	case REG_SCTLR:
		turn(s, cpu, value & SCTLR_M, pc);
		break;
	case REG_MAIR:
		s->mair = value;
		return;
	case REG_VTTBR:
		c->ttbr0 = value;
		break;
	case REG_VTCR:
		c->tcr = value;
		c->lower_ok = regime_of_stage2(value, &c->lower);
		break;
	case REG_HCR:
		/* What is true of stage 1 at EL0 is true of stage 2 in the guest. */
		c->mmu = (value & (HCR_VM | HCR_TGE)) == HCR_VM;
		write_once(&c->user, c->mmu);
		if (c->mmu)
			shadow_settles(s, cpu, pc);
		break;
	case REG_VBAR: case REG_VMPIDR: case SYSREGS:
		return;
	}
	reload(s, cpu, pc);
}
